"""Renders runs for people: as text, tables, trees and small pictures. Takes the objects of clew.reading.

text        any value as one short line; no user code runs
values      the same for a tree: arrays by dtype and shape, and differences from the value before
scan        NaN, Inf and statistics of live arrays, without side effects
sparkline   numbers as ▁▂▅█ or as a small SVG
table       rich tables of runs, names, changes and calls
tree        calls with their inputs, changes and results, as a tree of lines
fold        repetitions in a tree, shown once and counted
live        the tree while the program runs
marks       writes lines with colours to a terminal, as plain text elsewhere, in ASCII if necessary
notebook    HTML for Jupyter, all text escaped
"""
