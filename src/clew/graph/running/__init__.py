"""Runs a graph, and checks what it is given."""
