"""Generators: send, throw, close, `yield from`, and what they return."""


def counter(limit):
    total = 0
    try:
        for i in range(limit):
            got = yield i
            total += got or 0
    except KeyError as error:
        total = -1
        yield f"caught {error}"
    finally:
        print("closing at", total)
    return total


def outer():
    result = yield from counter(3)
    print("inner returned", result)
    yield result * 2


if __name__ == "__main__":
    it = outer()
    print(next(it), it.send(5), it.send(7), it.send(1))
    thrown = counter(5)
    print(next(thrown), thrown.throw(KeyError("k")))
    thrown.close()
    print(sum(x * x for x in counter(4)))
    print({k: [v for v in range(k)] for k in range(3)})

# Output:
# closing at 13
# inner returned 13
# 0 1 2 26
# 0 caught 'k'
# closing at -1
# closing at 0
# 14
# {0: [], 1: [0], 2: [0, 1]}
