"""One contender in a process of its own: `python -m benchmarks.worker benchmarks.tight_loop "by hand"`.

Each line on standard input asks for one measurement; the answer is one line with the seconds.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile


def main() -> None:
    module, name = sys.argv[1:3]
    answers, sys.stdout = sys.stdout, sys.stderr  # what a tool prints must not be taken for an answer
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        os.environ["CLEW_DIR"] = folder
        question = importlib.import_module(module)
        measure = question.CONTENDERS[name]()
        for _ in sys.stdin:
            gc.collect()
            answers.write(f"{measure()!r}\n")
            answers.flush()
        for finish in getattr(question, "FINISH", ()):
            finish()


if __name__ == "__main__":
    main()
