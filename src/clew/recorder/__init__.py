"""A run being recorded: hot buffers (live), what probes plan (plan), and the way from there to the store (recorder)."""
