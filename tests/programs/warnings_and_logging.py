"""Warnings and log records name the program's own lines."""

import logging
import sys
import warnings

logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(funcName)s:%(lineno)d %(message)s", level=logging.INFO)


def old():
    warnings.warn("old is old", DeprecationWarning, stacklevel=2)
    value = 1
    return value


def shown(message, category, filename, lineno, file=None, line=None):
    print(category.__name__, lineno, message)


def report(n):
    half = n / 2
    logging.info("half is %s", half)
    try:
        1 / 0
    except ZeroDivisionError:
        logging.exception("failed", exc_info=False)


if __name__ == "__main__":
    warnings.showwarning = shown
    warnings.simplefilter("always")
    old()
    warnings.warn("from the module")
    report(3)
    logging.getLogger("own").warning("at module level")

# Output:
# DeprecationWarning 32 old is old
# UserWarning 33 from the module
# INFO report:22 half is 1.5
# ERROR report:26 failed
# WARNING <module>:35 at module level
