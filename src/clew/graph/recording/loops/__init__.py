"""Loops of recorded pipelines whose length depends on an input: each is one step, which runs the loop's own source.

1. `rewriting.py`, when a function is seen through: each `for`, `while`, comprehension and call such as `sum(f(r) for r
   in rows)` asks first whether it is to be a step; else it runs as before, and is unrolled.
2. `steps.py`, when the pipeline runs: it becomes a step if what it goes through is a recorded value, or if a recorded
   value decides how often it runs (`while`, `break`, `return`).
3. `sites.py`: the step calls a function made of the loop's source. The variables it reads are its parameters, those it
   sets and that are read later come out of it; a container that it changes is a value from then on. Where the loop
   contains `return`, the rest of the function belongs to it.
4. `reach.py`: a loop that one step could not do exactly (state in operators' objects, other references to a list it
   changes, functions that set variables of the pipeline) stays unrolled, and is guarded by its length.
5. A bundle holds the function as source text, as it holds that of any operator; its self-test runs it.
"""
