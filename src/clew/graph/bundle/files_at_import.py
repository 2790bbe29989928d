"""Files that a module reads when it is imported, found in its text: nobody listened when that happened.

`WORDS = open("words.txt").read().split()` at the top of a module runs again where the bundle is loaded. What is opened
is worked out from the text and from what the names in it are by now; nothing of the user's is run for it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

_OPENERS = frozenset({"open", "read_text", "read_bytes"})
_READERS = frozenset(
    {
        "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "imread", "load_file", "from_file", "safe_open",
        "read_csv", "read_json", "read_parquet", "read_table", "read_excel", "read_feather", "read_pickle", "read_hdf",
    }
)  # fmt: skip
_LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_HARMLESS = frozenset(
    {os.path.join, os.path.dirname, os.path.abspath, os.path.realpath, os.path.normpath, os.path.expanduser, os.getcwd}
)
_METHODS = frozenset(
    {"resolve", "absolute", "joinpath", "with_name", "with_suffix", "expanduser", "format", "as_posix"}
)


class UnclearError(Exception):
    """What an expression is cannot be told without running it."""


def read(tree: ast.AST, scope: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    """(line, path) of what is opened at the top of a module; the path is None where it cannot be told."""
    for call in _calls(tree):
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if name not in _OPENERS | _READERS or _writes(call, name):
            continue
        try:
            path = _path(call, scope)
        except UnclearError:
            path = None
        if path is not None or name in _OPENERS:
            yield call.lineno, path


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls that are made when a module is imported."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, _LATER):
            continue
        if isinstance(node, ast.If) and "__main__" in ast.dump(node.test):
            stack.extend(node.orelse)
        else:
            stack.extend(ast.iter_child_nodes(node))


def _writes(call: ast.Call, name: str) -> bool:
    at = 0 if name == "open" and isinstance(call.func, ast.Attribute) else 1  # Path(...).open("w"), open(path, "w")
    modes = [*call.args[at : at + 2], *(word.value for word in call.keywords if word.arg == "mode")]
    texts = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
    return any(set(text) <= set("rwabxt+") and set(text) & set("wax+") for text in texts)


def _path(call: ast.Call, scope: dict[str, Any]) -> Any:
    if isinstance(call.func, ast.Attribute):
        try:
            owner = _value(call.func.value, scope)
        except UnclearError:
            owner = None
        if isinstance(owner, PurePath):
            return owner
    if not call.args:
        raise UnclearError
    path = _value(call.args[0], scope)
    if not isinstance(path, str | PurePath):
        raise UnclearError
    return path


def constant(node: ast.AST, scope: dict[str, Any]) -> Any:
    """What an expression of constants, texts and paths, and of plain containers of those, is."""
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise UnclearError
        return {constant(k, scope): constant(v, scope) for k, v in zip(node.keys, node.values, strict=True) if k}
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        kind = {ast.List: list, ast.Tuple: tuple, ast.Set: set}[type(node)]
        return kind(constant(item, scope) for item in node.elts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        if isinstance(number, int | float):
            return -number
    return _value(node, scope)


def _value(node: ast.AST, scope: dict[str, Any]) -> Any:
    """What an expression of texts and paths is."""
    found: Any = UnclearError
    if isinstance(node, ast.Constant):
        found = node.value
    elif isinstance(node, ast.Name):
        found = scope.get(node.id, UnclearError)
    elif isinstance(node, ast.Attribute):
        owner = _value(node.value, scope)
        if isinstance(owner, ModuleType):
            found = vars(owner).get(node.attr, UnclearError)
        elif type(owner) in (str, type(Path())):
            found = getattr(owner, node.attr, UnclearError)
    elif isinstance(node, ast.Subscript):
        found = _item(_value(node.value, scope), _value(node.slice, scope))
    elif isinstance(node, ast.BinOp):
        found = _joined(node.op, _value(node.left, scope), _value(node.right, scope))
    elif isinstance(node, ast.JoinedStr):
        found = "".join(str(_value(part, scope)) for part in node.values)
    elif isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion == -1:
        found = _value(node.value, scope)
    elif isinstance(node, ast.Call) and not node.keywords:
        found = _called(_value(node.func, scope), [_value(arg, scope) for arg in node.args])
    if found is UnclearError:
        raise UnclearError
    return found


def _is_text(*values: Any) -> bool:
    return all(type(value) in (str, int, type(Path())) for value in values)


def _item(owner: Any, key: Any) -> Any:
    is_known = type(owner) in (dict, list, tuple, str, type(Path().parents)) and type(key) in (int, str)
    try:
        return owner[key] if is_known else UnclearError
    except (KeyError, IndexError, TypeError):
        return UnclearError


def _joined(operation: ast.operator, left: Any, right: Any) -> Any:
    if not _is_text(left, right):
        return UnclearError
    try:
        return left / right if isinstance(operation, ast.Div) else left + right
    except TypeError:
        return UnclearError


def _called(function: Any, args: list[Any]) -> Any:
    owner = getattr(function, "__self__", None)
    is_method = type(owner) in (str, type(Path())) and getattr(function, "__name__", "") in _METHODS
    if not _is_text(*args) or not (function is str or function is Path or is_method or _is_harmless(function)):
        return UnclearError
    try:
        return function(*args)
    except (TypeError, ValueError, OSError):
        return UnclearError


def _is_harmless(function: Any) -> bool:
    try:
        return function in _HARMLESS
    except TypeError:  # it cannot be hashed
        return False
