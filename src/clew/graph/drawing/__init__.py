"""Draws a graph: as text, as SVG, and as plain data for the page."""
