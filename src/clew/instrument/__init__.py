"""Finds, rewrites and swaps the code of functions, and hears the interpreter's events: shared by all probes."""

from clew import env
from clew.errors import UnsupportedPythonError

if env.threads_run_freely() and env.enabled():
    # logs are lists that user code appends to while a thread of ours takes them, without a lock of our own
    raise UnsupportedPythonError(
        "free-threaded",
        "clew does not record on a free-threaded Python: its threads would race, and values would be lost.",
        "Use the ordinary build, set PYTHON_GIL=1, or turn clew off with CLEW=0.",
    )
