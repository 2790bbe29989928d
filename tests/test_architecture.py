"""The shape of the house: which room may know which, how large a module may grow, what `import clew` may load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import clew

SOURCE = Path(__file__).parent.parent / "src" / "clew"
LEAVES = {"records", "errors", "env"}
COMMON = LEAVES | {"trouble"}

#: Room -> the rooms it may import, beside itself.
MAY_IMPORT: dict[str, set[str]] = {
    "records": set(),
    "errors": set(),
    "env": set(),
    "_version": set(),
    "trouble": {"env"},
    "metadata": {"env", "_version"},
    "text": COMMON,
    "values": COMMON,
    "store": COMMON,
    "engines": COMMON | {"values"},  # they bring together what was recorded, and know nothing of who recorded it
    "recorder": COMMON | {"store", "values"},
    "show": COMMON | {"text"},
    "rerun": COMMON | {"recorder", "text"},  # it is given the call; the recorder knows which ones are its own
    "reading": COMMON | {"store", "values", "text", "show", "rerun"},
    "live_reading": COMMON | {"reading"},  # a run that is being recorded reads like any other
    "recording": COMMON | {"store", "values", "text", "recorder", "metadata", "live_reading"},
    "instrument": COMMON | {"recording", "recorder", "values", "text"},
    # show: the tree while the program runs; reading: what `clew.items` has recorded is given as readers see it
    "probes": COMMON | {"instrument", "recording", "recorder", "values", "text", "show", "engines", "reading"},
    "graph": COMMON | {"instrument", "recording", "recorder", "values", "engines"},
    "compare": COMMON | {"reading", "store", "text", "show", "values"},
    "export": COMMON | {"reading", "store"},
    "page": COMMON | {"reading", "store", "text", "show", "compare", "values"},
    "integrations": COMMON | {"probes"},
}
#: These may know everything: the public face, the command line, the notebook's magic, and the faces of other tools.
ANYTHING = {"__init__", "__main__", "commands", "compat", "magics"}

HEAVY = (
    "numpy",
    "pyarrow",
    "torch",
    "pandas",
    "h5py",
    "rich",
    "starlette",
    "uvicorn",
    "xxhash",
    "wrapt",
    "matplotlib",
    "zarr",
    "safetensors",
)

MODULES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    """'values' for values/numpy.py, 'recording' for recording.py."""
    inside = path.relative_to(SOURCE)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING:`, which never run."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child.test):
            for other in child.orelse:
                yield from running_nodes(other)
        else:
            yield from running_nodes(child)


def absolute(package: list[str], node: ast.ImportFrom) -> str:
    """The full name of the module an `import from` names, relative or not."""
    if not node.level:
        return node.module or ""
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, *([node.module] if node.module else [])])


def imported_names(source: str, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import that runs, also those inside functions."""
    for node in running_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = absolute(package, node)
            if module == "clew":  # `from clew import env` names a room; `from clew import watch` the public face
                yield from ((node.lineno, f"clew.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def rooms_imported(source: str, package: list[str]) -> list[tuple[int, str]]:
    """(line, room) of every import of clew's own."""
    found = []
    for line, name in imported_names(source, package):
        top, _, rest = name.partition(".")
        if top == "clew":
            room = rest.split(".")[0]
            found.append((line, room if room in MAY_IMPORT or room in ANYTHING else "__init__"))
    return found


def violations(path: Path) -> list[str]:
    room = room_of(path)
    if room in ANYTHING:
        return []
    allowed = MAY_IMPORT[room]
    package = ["clew", *path.relative_to(SOURCE).parent.parts]
    rule = f"{room} may import only: {', '.join(sorted(allowed)) or 'nothing'}"
    return [
        f"{path.relative_to(SOURCE)}:{line} imports {other}; {rule}"
        for line, other in rooms_imported(path.read_text(encoding="utf-8"), package)
        if other not in allowed and other != room
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    assert violations(path) == []


def test_every_room_has_its_rule() -> None:
    assert {room_of(path) for path in MODULES} <= set(MAY_IMPORT) | ANYTHING


def test_the_rules_have_no_circle() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()  # raises CycleError


def test_the_check_sees_absolute_relative_and_hidden_imports_but_not_those_for_types() -> None:
    source = (
        "if TYPE_CHECKING:\n"
        "    from clew.recording import Recording\n"
        "else:\n"
        "    from clew import errors\n"
        "def f():\n"
        "    from ..store.writer import ShardWriter\n"
        "import clew.probes.watch\n"
        "from . import base\n"
        "from clew import watch\n"
    )
    expected = [(4, "errors"), (6, "store"), (7, "probes"), (8, "values"), (9, "__init__")]
    assert rooms_imported(source, ["clew", "values"]) == expected


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_is_longer_than_500_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def loaded_by(statement: str) -> set[str]:
    """The top-level modules a fresh interpreter has loaded after the statement."""
    program = f"import sys\nsys.path.insert(0, {str(SOURCE.parent)!r})\n{statement}\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.fixture(scope="module")
def loaded_by_import() -> set[str]:
    return loaded_by("import clew")


@pytest.mark.parametrize("library", HEAVY)
def test_import_clew_does_not_load(library: str, loaded_by_import: set[str]) -> None:
    assert "clew" in loaded_by_import
    assert library not in loaded_by_import


def test_only_commands_print_and_exit() -> None:
    """A library neither prints nor ends the program. (`show=True` writes to a stream it was given.)"""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in MODULES
        if room_of(path) not in ("commands", "__main__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "exit", "quit", "sys.exit")
    ]
    assert found == []


def test_type_checkers_see_the_names_that_clew_has() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    imports_for_types = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {
        alias.asname or alias.name: f"{node.module}.{alias.name}" for node in imports_for_types for alias in node.names
    }
    loaded = {name: ".".join(home) for name, home in clew._HOMES.items()}
    assert {name: seen.get(name) for name in loaded} == loaded
    assert {*clew.__all__} == {*loaded, "__version__"}
