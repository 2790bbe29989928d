# Functions as values: partial, reduce, singledispatch, sorting, recursion through a cache.
import functools
import itertools
import operator


@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.singledispatch
def describe(value):
    return "something"


@describe.register
def _(value: int):
    return f"int {value}"


@describe.register(list)
def _(value):
    inside = [describe(item) for item in value]
    return f"list of {', '.join(inside)}"


def compose(*functions):
    return functools.reduce(lambda f, g: lambda x: g(f(x)), functions)


def main():
    print(fibonacci(50), fibonacci.cache_info().misses)
    print(describe([1, "a", [2]]))
    print(compose(functools.partial(operator.mul, 3), str, len)(333))
    words = sorted(["pear", "fig", "apple"], key=lambda word: (len(word), word))
    print({length: list(group) for length, group in itertools.groupby(words, key=len)})
    total = 0
    add = lambda x, *, scale=2: x * scale  # noqa: E731
    for x in map(add, range(4)):
        total += x
    print(total, list(itertools.accumulate(range(5), max)))


main()


# Output:
# 12586269025 51
# list of int 1, something, list of int 2
# 3
# {3: ['fig'], 4: ['pear'], 5: ['apple']}
# 12 [0, 1, 2, 3, 4]
