"""How people look at a run: text, tables, a tree, small pictures. Takes the objects of clew.history as they are.

text        any value as one short line; no user code runs
values      the same for a tree: arrays by dtype and shape, and what differs from the value before
scan        NaN, Inf and statistics of arrays that are alive, leaving no trace
sparkline   numbers as ▁▂▅█ or as a small SVG
table       rich tables of runs, names, changes and calls
tree        calls with what went through them, as a tree of lines
fold        what repeats in a tree, shown once and counted
live        the tree while the program runs
marks       the pen: colours and width on a terminal, plain text elsewhere, ASCII where it must be
notebook    HTML for Jupyter, everything escaped
"""
