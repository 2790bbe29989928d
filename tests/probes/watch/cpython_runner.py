"""Runs one of CPython's own test modules, plainly or with every function in it watched, and says how each test ended.

    python cpython_runner.py OUT.json test.test_heapq heapq          # plainly
    python cpython_runner.py OUT.json --watch test.test_heapq heapq  # with "*" on all of test.test_heapq and heapq
    python cpython_runner.py OUT.json --follow test.test_heapq       # with the calls of all its functions followed
    python cpython_runner.py OUT.json --without test.test_heapq.TestHeapC ... test.test_heapq   # these tests left out

Functions that the code makes while it runs are watched too: their code objects are constants of the code around them,
and are replaced there.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any


class Outcomes(unittest.TestResult):
    """How each test ended: by id, in order (an id may come several times)."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[str, list[str]] = {}
        self.details: dict[str, str] = {}

    def _note(self, test: unittest.TestCase, outcome: str, error: Any = None) -> None:
        name = test.id()
        self.ended.setdefault(name, []).append(outcome)
        if error is not None:
            self.details[name] = self._exc_info_to_string(error, test)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, f"error: {err[0].__name__}", err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "failed", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._note(test, f"skipped: {reason}")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._note(test, "failed, as expected")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self._note(test, "passed, unexpectedly")

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self._note(subtest, f"failed: {err[0].__name__}", err)


def functions_in(module: ModuleType) -> list[FunctionType]:
    """The functions a module and its classes define, each once, in order."""
    from clew.errors import TargetError
    from clew.instrument.engine import is_function
    from clew.instrument.targets import functions_of

    found: dict[FunctionType, None] = {}
    seen: set[int] = set()

    def walk(namespace: dict[str, Any]) -> None:
        for value in list(namespace.values()):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, type):
                if value.__module__ == module.__name__:
                    walk(dict(vars(value)))
                continue
            try:
                functions = functions_of(value)
            except TargetError:
                continue
            except Exception:  # an object of the tests that answers every question with an error
                continue
            for function in functions:
                if function.__code__.co_filename == module.__file__ and is_function(function.__code__):
                    found[function] = None

    walk(dict(vars(module)))
    return list(found)


class Watching:
    """Puts "*" on functions, and on the functions they will make."""

    def __init__(self) -> None:
        from clew.instrument.options import options

        self.options = options(("*",))
        self.functions = self.nested = 0
        self.unknown: list[str] = []

    def module(self, module: ModuleType) -> None:
        from clew.instrument import engine, source

        for function in functions_in(module):
            original = function.__code__
            found = source.find(original, function.__globals__)
            if isinstance(found, source.Unknown):
                self.unknown.append(f"{module.__name__}:{original.co_qualname}: {found.reason}")
                continue
            engine.instrument(function, self.options)
            self.functions += 1
            function.__code__ = self._with_inner(function.__code__, module)

    def _with_inner(self, code: CodeType, module: ModuleType) -> CodeType:
        """The same code, with every function inside it rewritten as well."""
        consts = tuple(self._inner(const, module) if isinstance(const, CodeType) else const for const in code.co_consts)
        return code.replace(co_consts=consts)

    def _inner(self, code: CodeType, module: ModuleType) -> CodeType:
        from clew.instrument import engine, source

        if not engine.is_function(code):  # a class body, a comprehension, the scope of type parameters, annotations
            return self._with_inner(code, module)
        found = source.find(code, vars(module))
        if isinstance(found, source.Unknown):
            if not _is_of_a_type(code, module):
                self.unknown.append(f"{module.__name__}:{code.co_qualname}: {found.reason}")
            return self._with_inner(code, module)
        made = engine.rewrite_code(code, found, [self.options], module.__name__, None)
        assert not isinstance(made, source.Unknown), made
        new, _ = made
        self.nested += 1
        return self._with_inner(new, module)


class Following(Watching):
    """Follows the calls of functions, and of those they will make."""

    def module(self, module: ModuleType) -> None:
        import clew
        from clew.errors import TargetError

        for function in functions_in(module):
            try:
                clew.follow(show=False)(function)
                self.functions += 1
            except TargetError as error:
                self.unknown.append(f"{module.__name__}:{function.__qualname__}: {error}")


def _is_of_a_type(code: CodeType, module: ModuleType) -> bool:
    """Whether this is no function but the value of `type X = ...` or the bound of a type parameter (3.12)."""
    kinds = tuple(getattr(ast, kind) for kind in ("TypeAlias", "TypeVar") if hasattr(ast, kind))
    tree = ast.parse(Path(str(module.__file__)).read_text())
    names = {getattr(node.name, "id", node.name) for node in ast.walk(tree) if isinstance(node, kinds)}
    return code.co_name in names


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from _tests(part)
        else:
            yield part


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--watch", action="store_true")
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("modules", nargs="+")
    args = parser.parse_args(arguments)
    from test import support

    support.use_resources = []  # nothing that is slow, loud or on the network
    support.verbose = False
    sys.argv = ["python"]
    begun = time.perf_counter()
    modules = [importlib.import_module(name) for name in args.modules]
    suite = unittest.TestSuite(
        test
        for test in _tests(unittest.defaultTestLoader.loadTestsFromModule(modules[0]))
        if not any(test.id() == left_out or test.id().startswith(f"{left_out}.") for left_out in args.without)
    )
    watching = None
    if args.watch or args.follow:
        watching = Watching() if args.watch else Following()
        for module in modules:
            watching.module(module)
    outcomes = Outcomes()
    ready = time.perf_counter()
    os.chdir(os.environ.get("TMPDIR", "/tmp"))
    suite.run(outcomes)
    report: dict[str, Any] = {
        "ended": outcomes.ended,
        "details": outcomes.details,
        "functions": watching.functions if watching else 0,
        "nested": watching.nested if watching else 0,
        "unknown": watching.unknown if watching else [],
        "seconds": [ready - begun, time.perf_counter() - ready],
    }
    args.out.write_text(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
