"""A run can name any function of this machine. Running it needs the caller's word, and the recorded code."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import RerunError
from clew.reading.call import Call
from clew.recorder.fingerprints import code_hash, file_hash
from reading.writing import Written

PROGRAM = """\
import pathlib
pathlib.Path(__file__).with_suffix(".ran").touch()

def double(x):
    return 2 * x

def ask(x, /, *, flag={"a", "b", "c"}):
    return {1.0, "two", None} if x in {"p", "q", "r", 4, -0.0} else (lambda: x + 1j)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that leaves a mark when it is imported."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    path = tmp_path / "marked_program.py"
    path.write_text(PROGRAM)
    yield path
    for name in [name for name in sys.modules if name.startswith(("marked_", "_clew_rerun_marked"))]:
        del sys.modules[name]


def has_run(program: Path) -> bool:
    return program.with_suffix(".ran").exists()


def forged(folder: Path, function: str, args: dict[str, Any], module: str, file: str, **more: Any) -> Call:
    written = Written(folder / "runs")
    shard = written.shard()
    shard.end(shard.call(function, args=args, module=module, file=file, **more))
    shard.close()
    (call,) = written.open().calls()
    return call


def slug_of(call: Call, **options: Any) -> str:
    with pytest.raises(RerunError) as caught:
        call.rerun(**options)
    return caught.value.slug


def recorded_elsewhere(folder: Path, program: Path, module: str = "marked_program") -> Call:
    """`double(21)`, recorded by another process, which then ended."""
    start = f"import clew, {module}\n" if module != "__main__" else "import clew\n"
    double = f"{module}.double" if module != "__main__" else "double"
    script = f"{start}clew.watch('x')({double})\nwith clew.run():\n    {double}(21)\n"
    environment = {"PYTHONPATH": ":".join(sys.path), "CLEW_DIR": str(folder / "runs"), "PATH": ""}
    if module == "__main__":
        program.write_text(PROGRAM + f"if __name__ == '__main__':\n    {script.replace(chr(10), chr(10) + '    ')}\n")
        subprocess.run([sys.executable, str(program)], env=environment, check=True)
    else:
        subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    program.with_suffix(".ran").unlink()
    (run,) = clew.runs(folder / "runs")
    return run.calls("double")[0]


# ---- without the caller's word


@pytest.mark.parametrize(
    ("function", "module"),
    [("getoutput", "subprocess"), ("system", "os"), ("run", "subprocess"), ("eval", "builtins"), ("main", "__main__")],
)
def test_nothing_runs_without_trust(tmp_path: Path, function: str, module: str) -> None:
    mark = tmp_path / "mark"
    file = str(getattr(sys.modules[module], "__file__", "") or "/nowhere.py")
    call = forged(tmp_path, function, {"cmd": f"touch {mark}"}, module, file)
    assert slug_of(call) == "rerun-trust"
    assert not mark.exists()


def test_nothing_is_imported_without_trust(tmp_path: Path, program: Path) -> None:
    for number, module in enumerate(["marked_program", "__main__"]):
        call = forged(
            tmp_path / str(number), "double", {"x": 1}, module, str(program), file_hash=file_hash(str(program))
        )
        assert slug_of(call) == slug_of(call, changed=True) == slug_of(call, debug=True) == "rerun-trust"
    assert not has_run(program)
    assert "marked_program" not in sys.modules


@pytest.mark.parametrize("trusted", [False, None, 0, "", "yes", 1, ["double"]])
def test_only_true_is_trust(tmp_path: Path, program: Path, trusted: Any) -> None:
    call = forged(tmp_path, "double", {"x": 1}, "marked_program", str(program))
    assert slug_of(call, trusted=trusted) == "rerun-trust"


def test_the_refusal_says_what_would_run(tmp_path: Path) -> None:
    call = forged(tmp_path, "getoutput", {"cmd": "rm -rf ~"}, "subprocess", "/usr/lib/subprocess.py", line=12)
    with pytest.raises(RerunError) as caught:
        call.rerun()
    text = str(caught.value)
    for part in ("getoutput(cmd='rm -rf ~')", "module subprocess", "/usr/lib/subprocess.py:12", "trusted=True"):
        assert part in text


def test_the_refusal_cannot_be_painted_over_by_names_of_the_run(tmp_path: Path) -> None:
    call = forged(tmp_path, "f\x1b[2K\r", {"a\x1b[1A": "\x1b[31m"}, "m\x1b", "/x\x1b.py")
    with pytest.raises(RerunError) as caught:
        call.rerun()
    assert "\x1b" not in str(caught.value) and "\r" not in str(caught.value)


def test_a_copy_of_a_run_of_this_process_is_not_its_own(tmp_path: Path, program: Path) -> None:
    import marked_program  # type: ignore[import-not-found]

    clew.watch("x")(marked_program.double)
    with clew.run() as run:
        marked_program.double(21)
    assert run.calls("double")[0].rerun() == 42
    shutil.copytree(run.path, tmp_path / "copy")
    assert slug_of(clew.open(tmp_path / "copy").calls("double")[0]) == "rerun-trust"


def test_a_run_put_in_the_place_of_one_of_this_process_is_not_its_own(tmp_path: Path, program: Path) -> None:
    import marked_program

    clew.watch("x")(marked_program.double)
    with clew.run() as run:
        marked_program.double(21)
    shutil.copytree(run.path, tmp_path / "copy")
    time.sleep(0.02)  # a tick of the file system's clock: the copy may get the number of the deleted file
    shutil.rmtree(run.path)
    shutil.copytree(tmp_path / "copy", run.path)
    assert slug_of(clew.open(run.path).calls("double")[0]) == "rerun-trust"


# ---- with it: only what was recorded


def test_what_another_process_recorded_runs_when_it_is_trusted(tmp_path: Path, program: Path) -> None:
    call = recorded_elsewhere(tmp_path, program)
    assert slug_of(call) == "rerun-trust"
    assert call.rerun(trusted=True) == 42


def test_a_script_that_another_process_ran_runs_when_it_is_trusted(tmp_path: Path, program: Path) -> None:
    assert recorded_elsewhere(tmp_path, program, "__main__").rerun(trusted=True) == 42


def test_the_same_file_at_another_place_is_the_recorded_one(tmp_path: Path, program: Path) -> None:
    call = recorded_elsewhere(tmp_path, program)
    (tmp_path / "checkout").mkdir()
    program.rename(tmp_path / "checkout" / program.name)
    sys.path[0] = str(tmp_path / "checkout")
    assert call.rerun(trusted=True) == 42


@pytest.mark.parametrize("module", ["marked_program", "__main__"])
def test_a_changed_file_is_not_imported(tmp_path: Path, program: Path, module: str) -> None:
    call = recorded_elsewhere(tmp_path, program, module)
    program.write_text(program.read_text().replace("2 * x", "3 * x + 0"))
    assert slug_of(call, trusted=True) == "rerun-changed"
    assert not has_run(program)
    assert call.rerun(trusted=True, changed=True) == 63


def test_a_changed_function_in_memory_is_not_called(tmp_path: Path, program: Path) -> None:
    call = recorded_elsewhere(tmp_path, program)
    import marked_program

    exec(compile("def double(x): return 3 * x", str(program), "exec"), vars(marked_program))
    assert slug_of(call, trusted=True) == "rerun-changed"
    assert call.rerun(trusted=True, changed=True) == 63


def test_a_function_that_is_loaded_as_it_was_recorded_runs_although_its_file_has_changed(
    tmp_path: Path, program: Path
) -> None:
    call = recorded_elsewhere(tmp_path, program)
    import marked_program

    program.write_text(program.read_text().replace("2 * x", "3 * x"))
    assert call.rerun(trusted=True) == marked_program.double(21) == 42


def test_an_instrumented_function_is_recognised(tmp_path: Path, program: Path) -> None:
    call = recorded_elsewhere(tmp_path, program)
    import marked_program

    clew.watch("x")(marked_program.double)
    assert call.rerun(trusted=True) == 42


@pytest.mark.parametrize("hashes", [{}, {"code_hash": None, "file_hash": None}])
def test_a_run_without_hashes_needs_a_second_word(tmp_path: Path, program: Path, hashes: dict[str, None]) -> None:
    call = forged(tmp_path, "double", {"x": 21}, "marked_program", str(program), **hashes)
    assert slug_of(call, trusted=True) == "rerun-unverified"
    assert not has_run(program)
    assert call.rerun(trusted=True, changed=True) == 42


def test_where_another_python_recorded_the_code_its_file_and_line_decide(tmp_path: Path, program: Path) -> None:
    known: Any = {"code_hash": "cpython-399-O0:00", "file_hash": file_hash(str(program))}
    call = forged(tmp_path, "double", {"x": 21}, "marked_program", str(program), line=4, **known)
    assert call.rerun(trusted=True) == 42
    call = forged(tmp_path / "b", "double", {"x": 21}, "marked_program", str(program), line=5, **known)
    assert slug_of(call, trusted=True) == "rerun-unverified"


def test_a_module_of_another_file_is_never_imported(tmp_path: Path, program: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("def double(x): return x\n")
    for number, changed in enumerate([False, True]):
        known = file_hash(str(other))
        call = forged(tmp_path / str(number), "double", {"x": 1}, "marked_program", str(other), file_hash=known)
        assert slug_of(call, trusted=True, changed=changed) == "rerun-other-file"
    assert not has_run(program)


def test_a_loaded_module_of_another_file_is_not_used(tmp_path: Path, program: Path) -> None:
    mark = tmp_path / "mark"
    known = file_hash(str(program))
    call = forged(tmp_path, "getoutput", {"cmd": f"touch {mark}"}, "subprocess", str(program), file_hash=known)
    assert slug_of(call, trusted=True, changed=True) == "rerun-other-file"
    assert not mark.exists()


def test_a_function_that_the_module_only_imports_is_not_its_own(tmp_path: Path, program: Path) -> None:
    program.write_text("from subprocess import getoutput\n")
    mark = tmp_path / "mark"
    known = file_hash(str(program))
    call = forged(tmp_path, "getoutput", {"cmd": f"touch {mark}"}, "marked_program", str(program), file_hash=known)
    assert slug_of(call, trusted=True, changed=True) == "rerun-other-file"
    assert not mark.exists()


@pytest.mark.parametrize("function", ["runpy.run_path", "os.makedirs", "subprocess.getoutput", "os.path.join"])
def test_a_function_reached_through_what_the_module_imports_is_not_its_own(
    tmp_path: Path, program: Path, function: str
) -> None:
    """Some modules of Python itself have no file that could be compared: `<frozen runpy>`."""
    program.write_text("import os, runpy, subprocess\n")
    call = forged(
        tmp_path, function, {"path_name": "/x"}, "marked_program", str(program), file_hash=file_hash(str(program))
    )
    assert slug_of(call, trusted=True, changed=True) == "rerun-other-file"


def test_a_package_is_not_imported_to_find_out_that_its_module_is_another(tmp_path: Path, program: Path) -> None:
    package = tmp_path / "marked_package" / "inner"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text(PROGRAM)
    (package / "module.py").write_text(PROGRAM + "# another\n")
    known = file_hash(str(program))
    name = "marked_package.inner.module"
    call = forged(tmp_path, "double", {"x": 1}, name, str(program), file_hash=known)
    assert slug_of(call, trusted=True) == "rerun-other-file"
    call = forged(tmp_path / "b", "double", {"x": 1}, name, str(package / "module.py"), file_hash="0" * 64)
    assert slug_of(call, trusted=True) == "rerun-changed"
    assert not list(tmp_path.rglob("*.ran"))


def test_a_module_in_a_folder_without_init_is_found_without_importing_anything(tmp_path: Path, program: Path) -> None:
    folder = tmp_path / "marked_space" / "deeper"
    folder.mkdir(parents=True)
    shutil.copy(program, folder / "module.py")
    known = file_hash(str(folder / "module.py"))
    call = forged(
        tmp_path, "double", {"x": 4}, "marked_space.deeper.module", str(folder / "module.py"), file_hash=known, line=4
    )
    assert call.rerun(trusted=True) == 8


@pytest.mark.parametrize(
    "file", ["/dev/zero", "/dev/stdin", "relative.py", "", "/nowhere/x.py", "/proc/self/mem", "a\0b"]
)
def test_odd_files_are_neither_read_nor_waited_for(tmp_path: Path, file: str) -> None:
    for number, module in enumerate(["no_such_marked_module", "__main__"]):
        call = forged(tmp_path / str(number), "no_such_function", {"x": 1}, module, file, file_hash="0" * 64)
        assert slug_of(call, trusted=True, changed=True) == "rerun-no-module"


@pytest.mark.parametrize(
    "args", [{"rest": 5}, {"rest": {"a": 1}}, {"options": [1]}, {"options": {1: 2}}, {"options": {"x": 1}}]
)
def test_arguments_that_no_call_can_have_had_are_refused(tmp_path: Path, program: Path, args: dict[str, Any]) -> None:
    program.write_text("def gather(x, *rest, **options):\n    return x, rest, options\n")
    given = {"x": 1, "rest": (), "options": {}, **args}
    call = forged(tmp_path, "gather", given, "marked_program", str(program))
    assert slug_of(call, trusted=True, changed=True) == "rerun-parameters"


def test_the_self_of_a_call_of_this_process_is_given_to_no_other_run(tmp_path: Path, program: Path) -> None:
    import os

    import marked_program

    from clew.recorder import own_shards

    clew.watch("x")(marked_program.double)
    with clew.run() as run:
        marked_program.double(21)
    call = run.calls("double")[0]
    own_shards.keep_owner(call.shard_folder, call.id, "the owner")
    assert own_shards.owner_of(call.shard_folder, call.id) == "the owner"
    copy = tmp_path / "runs" / "2023-11-14" / "120000-test" / "shards" / f"host-r0-{os.getpid()}-0"
    assert own_shards.owner_of(copy, call.id) is None


# ---- the hash of code


def test_the_hash_of_code_is_the_same_in_every_process(program: Path) -> None:
    import marked_program

    script = (
        "import marked_program as m; from clew.recorder.fingerprints import code_hash; print(code_hash(m.ask.__code__))"
    )
    hashes = {code_hash(marked_program.ask.__code__)}
    for seed in ("0", "1", "2"):
        environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed}
        out = subprocess.run(
            [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
        )
        hashes.add(out.stdout.strip())
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("return 1", "return 1.0"),
        ("return 1", "return True"),
        ("return 0.0", "return -0.0"),
        ("return 'a'", "return b'a'"),
        ("return x.a", "return x.b"),
        ("return x in {1, 2}", "return x in {1, 3}"),
        ("return (1, (2, 3))", "return ((1, 2), 3)"),
        ("return lambda: 1", "return lambda: 2"),
        ("yield 1", "return 1"),
    ],
)
def test_different_code_has_a_different_hash(text: str, other: str) -> None:
    def compiled(body: str) -> str:
        names: dict[str, Any] = {}
        exec(f"def f(x): {body}", names)
        return code_hash(names["f"].__code__)

    assert compiled(text) == compiled(text)
    assert compiled(text) != compiled(other)


def test_the_hash_of_code_does_not_depend_on_where_it_stands_or_how_often_it_ran() -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    return [y + 1 for y in range(x)]", names)
    fresh = code_hash(names["f"].__code__)
    for _ in range(2_000):
        names["f"](5)
    assert code_hash(names["f"].__code__) == fresh
    exec(compile("\n\n\ndef f(x):\n    return [y + 1 for y in range(x)]", "/other/file.py", "exec"), names)
    assert code_hash(names["f"].__code__) == fresh
