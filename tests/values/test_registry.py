"""Adapters: found by type, loaded on use, and failing alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from clew import trouble
from clew.records import Kept
from clew.values import adapters, capture, decode


def test_importing_the_room_loads_no_library() -> None:
    code = "import sys, clew.values; print([m for m in ('numpy', 'torch', 'pandas', 'pyarrow') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "[]"


def test_an_adapter_is_not_loaded_before_its_library() -> None:
    code = (
        "import sys; from clew.values import capture\n"
        "class A: pass\n"
        "capture([1, {'a': A()}]); print('clew.values.numpy' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )
    assert done.stdout.strip() == "False False"


def test_an_adapter_that_fails_costs_only_its_own_value(capsys: pytest.CaptureFixture[str]) -> None:
    class Odd:
        pass

    def look(obj: Any, walk: Any) -> Any:
        raise KeyError("inside the adapter")

    trouble.forget()
    adapters.register(Odd, look=look)
    found = capture([1, Odd(), Odd()])
    assert found.value.kept is Kept.PART
    back = decode(found.value).part
    assert back[0] == 1 and "could not be looked at" in back[1].why
    assert capsys.readouterr().err.count("could not be looked at") == 1


def test_a_value_that_changes_all_the_time_is_opaque_and_says_so() -> None:
    class Restless:
        pass

    calls = []

    def look(obj: Any, walk: Any) -> Any:
        calls.append(1)
        raise RuntimeError("dictionary changed size during iteration")

    adapters.register(Restless, look=look)
    found = capture(Restless())
    assert found.value.kept is Kept.OPAQUE and found.value.why == "changing while looked at"
    assert len(calls) > 1


def test_an_adapter_of_another_package_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Thing:
        def __init__(self, n: int) -> None:
            self.n = n

    class Adapter:
        READERS = {"foreignlib.thing": lambda tree, reader: ("thing", tree["n"])}

        @staticmethod
        def claim(cls: type) -> Any:
            if cls is not Thing:
                return None
            return adapters.Handler(
                None, lambda obj, walk: adapters.Node("foreignlib.Thing", "foreignlib.thing", note={"n": obj.n})
            )

    class Entry:
        @staticmethod
        def load() -> Any:
            return Adapter

    monkeypatch.setattr(adapters, "_entry_points", {"foreignlib": Entry})
    monkeypatch.setitem(sys.modules, "foreignlib", object())
    assert decode(capture([Thing(5)]).value) == [("thing", 5)]
    adapters._loaded.pop("foreignlib")


def test_an_adapter_that_does_not_load_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Thing:
        pass

    class Entry:
        @staticmethod
        def load() -> Any:
            raise ImportError("no such thing")

    trouble.forget()
    monkeypatch.setattr(adapters, "_entry_points", {"brokenlib": Entry})
    monkeypatch.setitem(sys.modules, "brokenlib", object())
    assert capture(Thing()).value.kept is Kept.FULL
    assert capture(object()).value.kept is Kept.OPAQUE
    assert capsys.readouterr().err.count("brokenlib") == 1
    adapters._loaded.pop("brokenlib")
