"""Engines run pieces of work in threads, processes or a cluster; `gather` brings the values of all ranks together."""
