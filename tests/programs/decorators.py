"""Decorators of functools and of the program's own; signatures and names stay what they are."""

import functools
import inspect


def logged(*, prefix):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            calls.append(f"{prefix}{function.__name__}")
            return function(*args, **kwargs)

        return wrapper

    return decorate


calls = []


@logged(prefix=">")
@functools.lru_cache(maxsize=None)
def fib(n: int) -> int:
    "Of n."
    result = n if n < 2 else fib(n - 1) + fib(n - 2)
    return result


@functools.singledispatch
def kind(value):
    return "object"


@kind.register
def _(value: int):
    doubled = value * 2
    return f"int {doubled}"


@kind.register(list)
def _(value):
    return f"list of {len(value)}"


@functools.total_ordering
class Version:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    @functools.cached_property
    def text(self):
        made = f"v{self.n}"
        return made


if __name__ == "__main__":
    print(fib(10), len(calls), fib.__name__, fib.__doc__, inspect.signature(fib), fib.__wrapped__.cache_info())
    print(kind(3), kind([1]), kind("x"), Version(2) >= Version(1), Version(3).text)
    print(functools.reduce(lambda a, b: a * b, range(1, 6)), functools.partial(kind, 4)())

# Output:
# 55 19 fib Of n. (n: int) -> int CacheInfo(hits=8, misses=11, maxsize=None, currsize=11)
# int 6 list of 1 object True v3
# 120 int 8
