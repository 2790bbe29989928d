"""match, walrus, unpacking, chained comparison, conditional and starred expressions, del, global."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple


@dataclass(order=True)
class Point:
    x: int
    y: int = 0
    tags: list = field(default_factory=list, compare=False)


class Color(Enum):
    RED = auto()
    BLUE = auto()


class Pair(NamedTuple):
    left: int
    right: int = 2


def describe(value):
    match value:
        case {"kind": kind, **rest}:
            return kind, rest
        case [first, *others] if others:
            return first, others
        case Point(x=0, y=y):
            return "on axis", y
        case Point(x, y):
            return x, y
        case Color.RED | Color.BLUE as color:
            return color.name
        case str() as text:
            return text.upper()
        case _:
            return None


count = 0


def unpack(*args, **kwargs):
    global count
    count += 1
    (a, *b), c = args[0], kwargs.get("c", "none")
    a, b = b, a
    del c
    numbers = [n for n in range(10) if (half := n // 2) % 2]
    return a, b, numbers, half, 0 < count < 10


if __name__ == "__main__":
    for each in ({"kind": 1, "z": 2}, [1, 2, 3], [1], Point(0, 4), Point(2), Color.BLUE, "text", 4.5):
        print(describe(each))
    print(unpack([1, 2, 3]), unpack((4,), c=1), count)
    print(sorted([Point(2), Point(1, 5, ["a"])]), Pair(1)._asdict(), Pair(*(3, 4)), list(Color))

# Output:
# (1, {'z': 2})
# (1, [2, 3])
# None
# ('on axis', 4)
# (2, 0)
# BLUE
# TEXT
# None
# ([2, 3], 1, [2, 3, 6, 7], 4, True) ([], 4, [2, 3, 6, 7], 4, True) 2
# [Point(x=1, y=5, tags=['a']), Point(x=2, y=0, tags=[])] {'left': 1, 'right': 2} Pair(left=3, right=4) [<Color.RED: 1>, <Color.BLUE: 2>]
