"""What a run keeps of each function: hashes of its code and file, and its source."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import clew
from clew.recorder import fingerprints
from clew.recorder.fingerprints import code_hash, file_hash, fingerprint
from clew.recorder.plan import Plan
from clew.records import Function

TEXT = """import clew, functools

def twice(function):
    return function

@twice
@clew.watch("y")
def f(x):
    y = x + 1
    return y
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "fingerprinted.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    import fingerprinted  # type: ignore[import-not-found]

    yield fingerprinted
    del sys.modules["fingerprinted"]


def function_of(module: ModuleType) -> Function:
    with clew.run() as run:
        module.f(1)
    return run.calls("f")[0]._function


def test_a_recorded_function_has_the_hash_of_its_file_and_of_the_code_as_it_was_written(module: Any) -> None:
    function = function_of(module)
    assert function.file_hash == hashlib.sha256(TEXT.encode()).hexdigest()
    plain = compile(TEXT, "elsewhere.py", "exec", dont_inherit=True).co_consts
    assert function.code_hash in [code_hash(each) for each in plain if hasattr(each, "co_code")]


def test_its_source_begins_at_its_line_with_its_decorators(module: Any) -> None:
    function = function_of(module)
    assert function.source == "".join(TEXT.splitlines(keepends=True)[function.line - 1 :])
    assert function.source.startswith("@twice")


def test_a_very_long_function_is_kept_without_its_source(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "LARGEST_SOURCE", 10)
    function = function_of(module)
    assert function.source is None
    assert function.code_hash is not None


def test_source_that_cannot_be_had_is_no_trouble() -> None:
    def fail() -> str:
        raise OSError("gone")

    plan = Plan("f", "m", "/nowhere.py", 1, (), [1], [False])
    plan.source = fail
    assert fingerprint(plan) == (None, None, None)


def test_a_file_is_hashed_again_only_when_it_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_text("1")
    reads: list[bytes] = []
    sha256 = hashlib.sha256
    monkeypatch.setattr(fingerprints.hashlib, "sha256", lambda data=b"": reads.append(data) or sha256(data))
    assert file_hash(str(path)) == file_hash(str(path))
    assert reads == [b"1"]
    path.write_text("22")
    assert file_hash(str(path)) == sha256(b"22").hexdigest()


def test_a_file_of_unusual_size_has_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "LARGEST_FILE", 3)
    path = tmp_path / "a.py"
    path.write_text("1234")
    assert file_hash(str(path)) is None
