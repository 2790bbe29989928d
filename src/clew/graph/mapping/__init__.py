"""Runs a graph over many items: where they come from, who works, and where the results go."""
