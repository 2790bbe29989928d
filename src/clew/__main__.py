"""`python -m clew`: the command line, where its script is not on the path."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:  # Python has put the current folder here; a `queue.py` in it is not for clew
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from clew.commands.main import main

    sys.exit(main())
