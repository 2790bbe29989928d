"""How people look at a run: text, tables, a tree, small pictures. Takes the objects of clew.history as they are.

text        any value as one short line; no user code runs
sparkline   numbers as ▁▂▅█ or as a small SVG
table       rich tables of runs, names, changes and calls
tree        calls as a tree of lines
notebook    HTML for Jupyter, everything escaped
"""
