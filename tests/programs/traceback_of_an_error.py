"""An error that ends the program: the traceback and the status are Python's."""

import sys


def inner(values):
    total = sum(values)
    return total / len(values)


def outer(n):
    try:
        return inner([])
    except ZeroDivisionError as error:
        message = f"no values for {n}"
        raise ValueError(message) from error


if __name__ == "__main__":
    sys.tracebacklimit = 0
    print("before")
    outer(3)
# Status: 1
# Errors:
# ZeroDivisionError: division by zero
#
# The above exception was the direct cause of the following exception:
#
# ValueError: no values for 3
# Output:
# before
