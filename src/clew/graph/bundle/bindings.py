"""How the text of a module binds its names, and whether running it again gives a name the value it has now."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from clew.graph.nodes import same
from clew.instrument import parsing

from . import files_at_import, module_facades, source_texts
from .modules import is_user_module, text_of

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Bindings:
    """The names that the text of one module binds at its top, also inside `if`, `try` and `with`."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._by_name: dict[str, list[ast.stmt]] = {}
        self._stars: list[ast.ImportFrom] = []
        for node in _statements(_tree(module).body):
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                self._stars.append(node)
            for name in _bound_by(node):
                self._by_name.setdefault(name, []).append(node)

    def defines(self, name: str, value: Any) -> bool:
        """Whether a value is what `def` or `class` has made under this name, decorators and all."""
        if not any(isinstance(node, _DEFINITIONS) for node in self._by_name.get(name, ())):
            return False
        inner = value if isinstance(value, type) else source_texts.plain_function(value)
        return inner is not None and (inner.__module__, inner.__qualname__) == (self._module.__name__, name)

    def imported_from(self, name: str, value: Any) -> ModuleType | None:
        """The module that an `import` has brought a value from under this name."""
        nodes = [node for node in self._by_name.get(name, ()) if isinstance(node, ast.ImportFrom)]
        aliases = [(node, alias.name) for node in nodes for alias in node.names if (alias.asname or alias.name) == name]
        for node, original in (*aliases, *((node, name) for node in self._stars)):
            for home in self._homes(node):
                held = vars(home).get(original, self)
                # What a bundle's code imports may be a stand-in that knows the bundle's modules.
                if held is value or (module_facades.is_stand_in(value) and not is_user_module(home)):
                    return home
        return None

    def _homes(self, node: ast.ImportFrom) -> Iterator[ModuleType]:
        package = str(vars(self._module).get("__package__") or "").split(".")
        root = self._module.__name__.partition(".")[0]  # of a bundle that was loaded, its modules are under it
        above = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
        name = ".".join(filter(None, (above, node.module)))
        found = (sys.modules.get(name), None if node.level else sys.modules.get(f"{root}.{name}"))
        yield from (module for module in found if module is not None)

    def says(self, name: str, value: Any) -> bool:
        """Whether the text gives the name this value whatever happens: a constant, a path, a container of those."""
        nodes = self._by_name.get(name, [])
        node = nodes[0] if len(nodes) == 1 and nodes[0].col_offset == 0 else None
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            return False
        try:
            scope = {inner.id: self._fixed(inner.id) for inner in ast.walk(node.value) if isinstance(inner, ast.Name)}
            return same(files_at_import.constant(node.value, scope), value)
        except (files_at_import.UnclearError, RecursionError):
            return False

    def _fixed(self, name: str) -> Any:
        """What a name in an expression is, if it cannot have changed since the module was imported."""
        value = vars(self._module).get(name, vars(builtins).get(name))
        is_library = isinstance(value, ModuleType) and not is_user_module(value)
        if is_library or isinstance(value, type) or name == "__file__" or self.says(name, value):
            return value
        raise files_at_import.UnclearError


def _tree(module: ModuleType) -> ast.Module:
    try:
        return parsing.parse(text_of(module) or "")
    except (SyntaxError, ValueError):  # of another Python: then nothing is known
        return ast.Module([], [])


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, _DEFINITIONS):
            continue
        for part in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, part, []))
        for handler in getattr(node, "handlers", ()):
            yield from _statements(handler.body)


def _bound_by(node: ast.stmt) -> set[str]:
    if isinstance(node, _DEFINITIONS):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    heads = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return {
        inner.id
        for head in heads
        for inner in ast.walk(head)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }
