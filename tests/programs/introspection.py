"""What a program sees of itself: locals, globals, frames, source, annotations, defaults and closures."""

import dis
import inspect
import sys
from typing import get_type_hints

LIMIT = 3


def f(a, /, b: int = 2, *args: str, c: float = 1.0, **rest) -> dict:
    """Of f."""
    x = a + b
    seen = sorted(locals())
    return {"locals": seen, "x": x}


def outer():
    n = 1

    def inner():
        nonlocal n
        n += 1
        return n

    return inner


def caller():
    frame = sys._getframe(1)
    return frame.f_code.co_name, frame.f_lineno


def line():
    place = caller()
    return place


if __name__ == "__main__":
    before = set(globals())
    print(f(1), inspect.signature(f), get_type_hints(f), f.__defaults__, f.__kwdefaults__, f.__doc__)
    counted = outer()
    print(counted(), counted(), inspect.getclosurevars(counted).nonlocals, line())
    print(inspect.getsource(caller).splitlines()[0], inspect.getsourcelines(line)[1], f.__code__.co_firstlineno)
    print(sorted(name for name in globals() if not name.startswith("__")))
    print(sorted(set(globals()) - before), vars() is globals(), [n for n in dir() if n.startswith(".")])
    print(inspect.isgeneratorfunction(f), inspect.iscoroutinefunction(f), f.__qualname__, counted.__qualname__)
    exec("y = LIMIT + 1\nprint(y)")
    print(eval("[f(k)['x'] for k in range(LIMIT)]"), callable(dis.dis))

# Output:
# {'locals': ['a', 'args', 'b', 'c', 'rest', 'x'], 'x': 3} (a, /, b: int = 2, *args: str, c: float = 1.0, **rest) -> dict {'b': <class 'int'>, 'args': <class 'str'>, 'c': <class 'float'>, 'return': <class 'dict'>} (2,) {'c': 1.0} Of f.
# 2 3 {'n': 3} ('line', 35)
# def caller(): 34 11
# ['LIMIT', 'before', 'caller', 'counted', 'dis', 'f', 'get_type_hints', 'inspect', 'line', 'outer', 'sys']
# ['before', 'counted'] True []
# False False f outer.<locals>.inner
# 4
# [2, 3, 4] True
