"""Deep recursion, and the error at its end."""

import sys


def depth(n):
    here = n + 1
    return depth(here)


def even(n):
    less = n - 1
    return True if n == 0 else odd(less)


def odd(n):
    less = n - 1
    return False if n == 0 else even(less)


if __name__ == "__main__":
    sys.setrecursionlimit(400)
    try:
        depth(0)
    except RecursionError as error:
        print(type(error).__name__, str(error)[:32])
    print(even(100))

# Output:
# RecursionError maximum recursion depth exceeded
# True
