"""A program that ends itself, with handlers for the end."""

import atexit
import sys


def leave(code):
    status = code + 1
    atexit.register(print, "at exit")
    try:
        sys.exit(status)
    finally:
        print("leaving with", status)


if __name__ == "__main__":
    leave(3)
# Status: 4
# Output:
# leaving with 4
# at exit
