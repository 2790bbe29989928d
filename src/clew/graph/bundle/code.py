"""The user's code that a bundle needs, as text: whole modules, and of scripts and notebooks what is used of them."""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from clew.graph import operations
from clew.graph.operators import Operator
from clew.instrument import parsing
from clew.instrument.engine import original_code
from clew.instrument.library_code import is_library

from . import bundle_code, files_at_import, source_texts
from .layout import CODE, PARTS
from .module_state import MADE_ANEW, ModuleState, unwrapped
from .modules import is_user_module, is_whole, text_of
from .names import CannotSaveError, private_prefix, public_name


class Code:
    """What of the user's own is needed, found from the functions and classes that are referred to."""

    def __init__(
        self,
        encode: Callable[[Any], Any],
        name_container: Callable[[Any, Callable[[], dict[str, Any]]], None],
    ) -> None:
        self.encode = encode
        self.modules: dict[str, dict[str, Any]] = {}  # public name → what the page says
        self.texts: dict[str, str] = {}  # file in the bundle → text
        self.roots: set[str] = set()  # folders that modules are found in
        self.packages: set[str] = set()  # libraries that are used
        self.read: list[
            tuple[str, str, str]
        ] = []  # files that modules read: under which name, where it is, in which line
        self.notices: list[str] = []
        self._taken: dict[str, ModuleType] = {}
        self._excerpts: dict[str, Excerpt] = {}
        self._written_sizes: dict[str, int] = {}
        self._state_entries: dict[str, list[Any]] = {}
        self.state = ModuleState(encode, self.refer, self._container_named)
        self._name_container = name_container

    # ---- functions and classes

    def refer(self, thing: Any) -> dict[str, Any]:
        """How a function or class is found again."""
        module = sys.modules.get(str(getattr(thing, "__module__", None)))
        if module is None or not is_user_module(module):
            return self.library(thing)
        if isinstance(thing, FunctionType) and is_whole(module) and not has_own_name(thing, module):
            try:  # a name may have been given to it after the module was imported
                return self._part(thing, module)
            except CannotSaveError:
                pass
        return self.by_name(thing, module) or self._part(thing, module)

    def by_name(self, thing: Any, module: ModuleType) -> dict[str, Any] | None:
        """Something that a module of the user's has under a name; None if its text does not say what the name is."""
        path = _path_in(module, thing)
        root = path.partition(".")[0] if path is not None else ""
        if path is None or not (is_whole(module) or self._excerpt(module).defines(root)):
            return None
        if is_whole(module) and source_texts.is_stale(thing):
            said = f"{module.__file__} has changed since it was imported ({thing.__qualname__} is not what is running)"
            self.notices.append(f"{said}: the bundle has it as it is now.")
        self.state.reach(thing, module, path)
        return {"$": "code", "module": self._take(module, root), "name": path}

    def _container_named(self, value: Any, module: ModuleType, name: str) -> None:
        """A container that a module's text makes as it is: whoever else holds it, finds it there."""
        self._name_container(value, lambda: {"$": "code", "module": self._take(module), "name": name})

    def library(self, thing: Any) -> dict[str, Any]:
        owner: Any = getattr(thing, "__objclass__", None)  # of a method of C that belongs to a class: `str.upper`
        name = operations.name_of(thing)
        if name is None and owner is not None and vars(owner).get(thing.__name__) is thing:
            name = f"{owner.__module__}:{owner.__qualname__}.{thing.__name__}"
        if name is None:
            function = source_texts.plain_function(thing) if not isinstance(thing, type) else None
            if function is not None and not is_library(original_code(function).co_filename):
                raise CannotSaveError("the module it was made in is gone")
            raise CannotSaveError(
                f"{getattr(thing, '__qualname__', type(thing).__name__)} cannot be found again by a name"
            )
        home = sys.modules.get(name.partition(":")[0])
        if home is not None and is_user_module(home):
            raise CannotSaveError(f"{name} is not found by its name in a module of yours")
        self.packages.add(name.partition(".")[0].partition(":")[0])
        return {"$": "named", "name": name}

    def _part(self, thing: Any, module: ModuleType) -> dict[str, Any]:
        """A function or class that has no name in its module: its own text, with what it closes over."""
        held = source_texts.free_values(thing)
        named = held.get(thing.__name__)
        if named is thing or getattr(named, "target", None) is thing or thing.__name__ == "made":
            held.pop(thing.__name__, None)  # it calls itself
        known = {*vars(module), *held, *vars(builtins)}
        try:
            text = source_texts.class_alone(thing, known) if isinstance(thing, type) else source_texts.alone(thing)
        except source_texts.NoTextError as reason:
            raise CannotSaveError(str(reason)) from None
        body = "".join(f"    {line}\n" for line in text.splitlines())
        text = f"def part({', '.join(held)}):\n{body}    return made\n"
        needed = sorted(source_texts.global_names(text) & set(vars(module)))
        name = self._take(module, *needed)
        self.state.reach_part(thing, module)
        said: dict[str, Any] = {"$": "part", "module": name, "name": thing.__qualname__, "line": _line_of(thing)}
        said["held"] = {free: self.encode(value) for free, value in held.items()}
        if isinstance(thing, FunctionType):
            said["defaults"] = self.encode(thing.__defaults__)
            said["kwdefaults"] = self.encode(thing.__kwdefaults__)
        said["file"] = f"{PARTS}/{sum(file.startswith(PARTS) for file in self.texts)}.py"
        self.texts[said["file"]] = text
        return said

    # ---- modules

    def _take(self, module: ModuleType, *names: str) -> str:
        """A module, or of a script and of a notebook these names of it. Its name in the bundle."""
        if is_whole(module):
            return self.add(module)
        excerpt = self._excerpt(module)
        for name in names:
            excerpt.need(name)
        return excerpt.name

    def _excerpt(self, module: ModuleType) -> Excerpt:
        if module.__name__ not in self._excerpts:
            self._excerpts[module.__name__] = Excerpt(module, self._free_name(module), self)
        return self._excerpts[module.__name__]

    def _free_name(self, module: ModuleType) -> str:
        name, number = public_name(module.__name__), 1
        while name in self._taken and self._taken[name] is not module:
            number += 1
            name = f"{public_name(module.__name__)}_{number}"
        self._taken[name] = module
        return name

    def add(self, module: ModuleType) -> str:
        """A whole module, with the packages it is in and the modules of the user's that it imports."""
        name = public_name(module.__name__)
        if self._taken.get(name) is module:
            return name
        if name in self._taken:
            raise CannotSaveError(f"two modules are called {name}")
        self._taken[name] = module
        prefix = private_prefix(module.__name__)
        package, _, _ = name.rpartition(".")
        if package and (above := _imported(prefix + package)) is not None:
            self.add(above)
        text = text_of(module)
        is_package = hasattr(module, "__path__")
        if text is None:  # a folder without __init__.py
            self.modules[name] = {"file": None, "package": True, "names": {}}
            return name
        file = f"{CODE}/{name.replace('.', '/')}{'/__init__' if is_package else ''}.py"
        self.modules[name] = {"file": file, "package": is_package, "names": {}}
        self.texts[file] = text
        self._root(module, name)
        self._reads(text, module)
        self.imports(text, module.__name__ if is_package else module.__name__.rpartition(".")[0], prefix)
        return name

    def _reads(self, text: str, module: ModuleType) -> None:
        """The files that a module reads when it is run."""
        try:
            found = list(files_at_import.read(parsing.parse(text), vars(module)))
        except (SyntaxError, ValueError):
            return
        for line, path in found:
            if path is not None:
                self.read.append(
                    (os.fspath(path), os.fspath(bundle_code.led(module.__name__, path)), f"{module.__file__}:{line}")
                )
            else:
                said = f"{module.__file__}:{line} opens a file when it is imported, and clew cannot tell which"
                self.notices.append(f"{said}: give save() assets=[...] with its path if it is yours.")

    def _root(self, module: ModuleType, name: str) -> None:
        file = getattr(module, "__file__", None)
        if file:
            up = name.count(".") + (2 if hasattr(module, "__path__") else 1)
            folder = os.path.abspath(file)
            for _ in range(up):
                folder = os.path.dirname(folder)
            self.roots.add(folder)

    def imports(self, text: str, package: str, prefix: str) -> None:
        """Follow what a text imports: modules of the user's come along, libraries are noted."""
        try:
            tree = parsing.parse(text)
        except (SyntaxError, ValueError):  # of another Python: whoever imports it will be told
            return
        for name in _imports_in(tree, package):
            own = prefix + name.removeprefix(prefix)
            module = _imported(own) or _imported(name) or self._later(own) or self._later(name)
            if module is not None and is_user_module(module):
                self.add(module)
            elif module is not None:
                self.packages.add(name.partition(".")[0])

    def _later(self, name: str) -> ModuleType | None:
        """A module that the program itself has not imported yet: a function will. It is not run for this."""
        taken = self._taken.get(public_name(name))
        package, _, _ = name.rpartition(".")
        above = _imported(package) or self._taken.get(public_name(package))
        if taken is not None or (package and (above is None or not is_user_module(above))):
            return taken
        path = getattr(above, "__path__", None)
        if package and path is None:
            return None
        spec = _spec(name, path)
        return None if spec is None else importlib.util.module_from_spec(spec)

    def finish(self) -> None:
        """Write the excerpts and the state of modules. If more has become known since, it is added."""
        done = self._written_sizes
        while any(excerpt.size != done.get(key) for key, excerpt in self._excerpts.items()) or self.state.is_pending:
            for key, excerpt in list(self._excerpts.items()):
                done[key] = excerpt.size
                excerpt.encode_values()
            for module, entry in self.state.encoded():
                self._state_entries.setdefault(self._take(module), []).append(entry)
        for excerpt in self._excerpts.values():
            file = f"{CODE}/{excerpt.name.replace('.', '/')}.py"
            self.texts[file] = excerpt.text()
            self.modules[excerpt.name] = {"file": file, "package": False, "names": excerpt.encoded}
        for name, entries in self._state_entries.items():
            self.modules[name]["state"] = entries


class Excerpt:
    """What is needed of a script or a notebook: definitions, imports, and values of names."""

    def __init__(self, module: ModuleType, name: str, code: Code) -> None:
        self.name = name
        self.encoded: dict[str, Any] = {}
        self._module = module
        self._code = code
        self._asked: set[str] = set()
        self._imports: dict[str, str] = {}
        self._texts: list[str] = []
        self._values: dict[str, Any] = {}

    @property
    def size(self) -> int:
        return len(self._asked)

    def need(self, name: str) -> None:
        if name in self._asked or name not in vars(self._module):
            return
        self._asked.add(name)
        value = vars(self._module)[name]
        imported = self._import(name, value)
        if imported is not None:
            self._imports[name] = imported
            return
        text = self._definition(name, value)
        if text is None:
            self._values[name] = value
        else:
            if not isinstance(value, Operator) or not hasattr(value.target, "__self__"):
                self._code.state.reach(value, self._module, name)
            self._define(text)

    def defines(self, name: str) -> bool:
        """Whether the text of the module says what a name is: a value that was computed is none."""
        return self._definition(name, vars(self._module)[name]) is not None

    def _define(self, text: str) -> None:
        used, early = source_texts.global_names(text), source_texts.early_names(text)
        for inner in sorted(used & early):
            self.need(inner)
        self._texts.append(text)
        for inner in sorted(used - early):
            self.need(inner)
        for module in (vars(self._module).get(inner) for inner in sorted(used)):
            if isinstance(module, ModuleType) and is_user_module(module):
                self._code.state.reach_module(module, source_texts.attribute_names(text))
        self._code.imports(text, "", private_prefix(self._module.__name__))

    def _import(self, name: str, value: Any) -> str | None:
        if isinstance(value, ModuleType):
            if is_user_module(value):
                self._code.add(value)
            else:
                self._code.packages.add(value.__name__.partition(".")[0])
            return f"import {public_name(value.__name__)} as {name}"
        home, path = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        target = value.target if isinstance(value, Operator) else value
        if not isinstance(target, type | FunctionType) or home == self._module.__name__ or "." in path:
            return None
        module = sys.modules.get(str(home))
        if module is None or vars(module).get(path) is not value:
            return None
        if is_user_module(module):
            if not is_whole(module):
                return None
            self._code.add(module)
            self._code.state.reach(target, module, path)
        else:
            self._code.packages.add(str(home).partition(".")[0])
        return f"from {public_name(str(home))} import {path} as {name}"

    def _definition(self, name: str, value: Any) -> str | None:
        target = value.target if isinstance(value, Operator) else value
        function = source_texts.plain_function(target) if not isinstance(target, type) else target
        if function is None or function.__module__ != self._module.__name__:
            return None
        if function.__qualname__ == name:
            try:
                text = source_texts.definition(target)
            except source_texts.NoTextError:
                text = ""
            node = parsing.parse(text).body[0] if text else None
            decorated = bool(getattr(node, "decorator_list", ()))
            if getattr(node, "name", None) == name and (decorated or not isinstance(value, Operator)):
                return text
        return self._assigned(name) if isinstance(target, type) else None

    def _assigned(self, name: str) -> str | None:
        cells = vars(self._module).get("In")
        text = text_of(self._module) or ("\n".join(map(str, cells)) if isinstance(cells, list) else "")
        return source_texts.assignment(text, name)

    def encode_values(self) -> None:
        for name, value in list(self._values.items()):
            if name in self.encoded:
                continue
            try:
                self.encoded[name] = self._code.encode(value)
            except CannotSaveError as reason:
                text = self._assigned(name) if type(value).__module__ in MADE_ANEW else None
                if text is None:
                    raise CannotSaveError(f"the global `{name}` that it uses cannot be saved: {reason}") from None
                del self._values[name]
                self._define(text)

    def text(self) -> str:
        imports = sorted(set(self._imports.values()))
        return "from __future__ import annotations\n\n" * self._postpones() + "\n\n".join(
            ["\n".join(imports), *self._texts]
        )

    def _postpones(self) -> bool:
        import __future__

        return vars(self._module).get("annotations") is __future__.annotations


def _path_in(module: ModuleType, thing: Any) -> str | None:
    """The name under which a module has a function or class."""
    found: Any = module
    try:
        for part in thing.__qualname__.split("."):
            found = vars(found)[part]
        if _is_it(found, thing):
            return str(thing.__qualname__)
    except (KeyError, TypeError):
        pass
    return next((name for name, value in list(vars(module).items()) if _is_it(value, thing)), None)


def has_own_name(thing: Any, module: ModuleType) -> bool:
    """Whether a function is what its module has under the name that it was defined with."""
    return "<" not in thing.__qualname__ and _path_in(module, thing) == thing.__qualname__


def _is_it(value: Any, thing: Any) -> bool:
    return value is thing or unwrapped(value) is thing


def _line_of(thing: Any) -> int:
    code = getattr(thing, "__code__", None)
    return code.co_firstlineno if code is not None else 0


def _imported(name: str) -> ModuleType | None:
    return sys.modules.get(name)


def _spec(name: str, path: Any) -> importlib.machinery.ModuleSpec | None:
    """What Python would import under a name, if it is written in Python."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:  # whoever has put it there: then it is not found
            continue
        if spec is not None:
            return spec if (spec.origin or "").endswith(".py") else None
    return None


def _imports_in(tree: ast.AST, package: str) -> Iterator[str]:
    """Every module that is imported anywhere in a text, by its full name; what may be a module is named too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            parts = base.split(".")
            yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
        elif isinstance(node, ast.Call) and _callee(node) in ("import_module", "__import__"):
            yield from _by_text(node, package)


def _callee(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _by_text(call: ast.Call, package: str) -> Iterator[str]:
    """What is imported by a text; by one that is only known when it is run, what is imported of the same package."""
    given = call.args[0] if call.args else None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        name = given.value.lstrip(".")
        level = len(given.value) - len(name)
        above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
        parts = [*above, *name.split(".")]
        yield from (".".join(parts[: n + 1]) for n in range(len(parts)))
    elif package:
        root = package.partition(".")[0] if not private_prefix(package) else ".".join(package.split(".")[:2])
        yield from sorted(name for name in list(sys.modules) if name.startswith(f"{root}."))
