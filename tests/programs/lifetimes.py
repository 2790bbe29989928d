"""Objects die when they would: weak references, finalisers, garbage."""

import gc
import weakref


class Node:
    def __init__(self, name):
        self.name = name
        self.other = None

    def __del__(self):
        died.append(self.name)


died = []


def local():
    node = Node("local")
    link = weakref.ref(node)
    alive = link() is not None
    del node
    return alive, link() is None


def cycle():
    a, b = Node("a"), Node("b")
    a.other, b.other = b, a
    return weakref.ref(a)


def finalised():
    node = Node("final")
    weakref.finalize(node, died.append, "finalize")
    return len(died)


if __name__ == "__main__":
    print(local())
    link = cycle()
    gc.collect()
    print(link() is None, finalised(), sorted(died))

# Output:
# (True, True)
# True 3 ['a', 'b', 'final', 'finalize', 'local']
