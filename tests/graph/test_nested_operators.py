"""Operators whose constructors make other operators: recorded, saved, and loaded in a process elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clew
from graph.bundling import project, python, write

__all__ = ["project"]  # the fixture

OPS = """
    import clew

    @clew.op
    class Add:
        def __init__(self, number=1):
            self.number = number
        def __call__(self, x):
            return x + self.number

    @clew.op
    class Double:
        def __init__(self):
            self.add = Add()
        def __call__(self, x):
            return self.add(x) * 2

    @clew.op
    class Containers:
        def __init__(self):
            self.pair, self.table = [Double(), Double()], {"k": (Add(5),)}
        def __call__(self, x):
            return sum(double(x) for double in self.pair) + self.table["k"][0](x)

    @clew.op
    class Recursive:
        def __init__(self, depth):
            self.inner = Recursive(depth - 1) if depth else Add()
        def __call__(self, x):
            return self.inner(x) + 1

    @clew.op
    class Cyclic:
        def __init__(self, parent=None):
            self.parent = parent
            self.child = Cyclic(self) if parent is None else None
        def __call__(self, x):
            return x if self.child is None else self.child(x) + 1

    @clew.op
    class FromFactory:
        def __init__(self, make):
            self.made = make(), make()
        def __call__(self, x):
            return self.made[0](x) + self.made[1](x)

    class Plain:
        def __init__(self):
            self.add = Add(4)

    @clew.op
    class ThroughPlain:
        def __init__(self):
            self.plain = Plain()
        def __call__(self, x):
            return self.plain.add(x)

    @clew.op
    class Base:
        def __init__(self):
            self.add = Add(2)
        def __call__(self, x):
            return self.add(x)

    @clew.op
    class Derived(Base):
        def __init__(self):
            super().__init__()
            self.other = Add(3)
        def __call__(self, x):
            return super().__call__(x) + self.other(x)

    @clew.op
    class Broken:
        def __init__(self):
            raise ValueError("broken")

    @clew.op
    class Survives:
        def __init__(self):
            try:
                Broken()
            except ValueError:
                self.add = Add()
        def __call__(self, x):
            return self.add(x)

    @clew.op
    class Slotted:
        __slots__ = ("add",)
        def __init__(self, add):
            self.add = [add, Add()]
        def __call__(self, x):
            return self.add[0](x) + self.add[1](x)

    def make():
        return Double()
"""

MAKERS: dict[str, Callable[[Any], Any]] = {
    "an operator": lambda ops: ops.Double(),
    "containers": lambda ops: ops.Containers(),
    "recursion": lambda ops: ops.Recursive(4),
    "a cycle": lambda ops: ops.Cyclic(),
    "a factory": lambda ops: ops.FromFactory(ops.make),
    "a class as a factory": lambda ops: ops.FromFactory(ops.Double),
    "an object that is no operator": lambda ops: ops.ThroughPlain(),
    "a base class": lambda ops: ops.Derived(),
    "a constructor that fails inside": lambda ops: ops.Survives(),
    "slots and an operator as argument": lambda ops: ops.Slotted(ops.Double()),
}


@pytest.fixture
def ops(project: Path) -> Any:
    write(project, {"nested_ops.py": OPS})
    import nested_ops  # type: ignore[import-not-found]

    return nested_ops


def test_a_constructor_that_makes_an_operator_works_without_a_recording(ops: Any) -> None:
    assert ops.Double()(3) == 8


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_an_operator_made_before_the_pipeline_is_recorded_saved_and_loaded(
    maker: Callable[[Any], Any], ops: Any, tmp_path: Path
) -> None:
    operator = maker(ops)
    graph = clew.record(lambda x: operator(x), 1)
    assert graph(10) == operator(10)
    graph.save(tmp_path / "saved")
    assert clew.load(tmp_path / "saved", trusted=True)(10) == operator(10)


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_an_operator_made_in_the_pipeline_is_recorded_saved_and_loaded(
    maker: Callable[[Any], Any], ops: Any, tmp_path: Path
) -> None:
    def pipeline(x: int) -> Any:
        return maker(ops)(x)

    graph = clew.record(pipeline, 1)
    graph.save(tmp_path / "saved")
    assert graph(10) == clew.load(tmp_path / "saved", trusted=True)(10) == maker(ops)(10)


def test_a_factory_that_the_pipeline_defines_is_saved(ops: Any, project: Path, tmp_path: Path) -> None:
    text = """
        from nested_ops import Double, FromFactory

        def pipeline(x):
            def make():
                return Double()
            return FromFactory(make)(x) + FromFactory(lambda: Double())(x)
    """
    write(project, {"nested_pipe.py": text})
    from nested_pipe import pipeline  # type: ignore[import-not-found]

    clew.record(pipeline, 1).save(tmp_path / "saved")
    said = python("import clew; print(clew.load('../saved', trusted=True)(10))", tmp_path / "elsewhere")
    assert int(said) == pipeline(10) == 88


def test_files_that_an_inner_constructor_reads_come_along(project: Path, tmp_path: Path) -> None:
    text = """
        import clew

        @clew.op
        class Words:
            def __init__(self, path):
                with open(path) as file:
                    self.words = file.read().split()
            def __call__(self, x):
                return self.words.index(x)

        @clew.op
        class Outer:
            def __init__(self, paths):
                self.inner = [Words(path) for path in paths]
            def __call__(self, x):
                return self.inner[0](x) + self.inner[1](x)
    """
    write(project, {"reading_ops.py": text, "a.txt": "x y", "b.txt": "y x"})
    from reading_ops import Outer  # type: ignore[import-not-found]

    outer = Outer(["a.txt", "b.txt"])
    clew.record(lambda word: outer(word), "x").save(tmp_path / "saved")
    said = python("import clew; print(clew.load('../saved', trusted=True)('y'))", tmp_path / "elsewhere")
    assert said == "1\n"
