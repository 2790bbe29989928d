"""What `trace.check()` looks for: one file for each family of mistakes, each with rules that take what was seen.

A rule is a function that takes `Seen` and gives findings. It may be wrong about nothing that is usual: what a normal
pipeline does is at most a note.
"""
