"""The rules of `trace.check()`, one file per family of mistakes.

A rule is a function that takes `Evidence` and yields findings. A rule must not warn about a normal pipeline: anything a
normal pipeline does is at most a note.
"""
