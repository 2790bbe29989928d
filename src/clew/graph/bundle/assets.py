"""Files that constructors were given or have opened: which of them go into a bundle, and which must not."""

from __future__ import annotations

import fnmatch
import glob
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from clew.errors import GraphError
from clew.graph.nodes import Step
from clew.graph.operators import Made
from clew.graph.parts import things_in
from clew.instrument.library_code import is_library

from . import files_at_call
from .layout import ASSETS
from .staging import Staging

_SECRETS = (
    ".env", ".env.*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.asc",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", "_netrc", ".pypirc", ".npmrc", ".htpasswd", ".pgpass",
    ".git-credentials", "credentials*", "*credentials.json", "secret", "secrets*", "*.secret", "client_secret*",
    "service[-_]account*.json", "authorized_keys", "known_hosts",
    "shadow", "kubeconfig", "*.token", "token", ".token", "token.json", "token.txt", "*api[-_]key*", "*apikey*",
    "*private[-_]key*", "password", "password.*", "passwords", "passwords.*", "htpasswd",
)  # fmt: skip
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY|PuTTY-User-Key-File-\d:")
_SECRET_FOLDERS = {".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".gcloud"}
_NOT_DATA = {"__pycache__", ".git", ".hg", ".svn", ".ipynb_checkpoints"}
_SAVED_MODEL = {"saved_model.pb", "saved_model.pbtxt", "fingerprint.pb", "keras_metadata.pb", "variables", "assets"}
_OF_CODE = (".py", ".pyc", ".pyo", ".so", ".pyd", ".dll", ".dylib", ".pth", ".pyi")
_OF_THE_MACHINE = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/", "/var/lib/", "/System/")
opened_bundles: set[str] = set()  # folders that bundles were loaded from: what is in them is no secret of this machine

Option = str | Iterable[str | os.PathLike[str]] | Callable[[str], bool] | None


@dataclass(frozen=True, slots=True)
class Asset:
    """An argument that was a path: where it is in the bundle, and what it was."""

    file: str
    kind: str  # str, path, bytes
    tail: str = ""  # the slash it ended with


@dataclass(slots=True)
class Taken:
    args: list[Any]
    kwargs: dict[str, Any]
    opened: list[dict[str, str]]


class Assets:
    """The files of one bundle."""

    def __init__(self, option: Option, staging: Staging) -> None:
        self._staging = staging
        self._anywhere = option == "anywhere"
        self._wanted = option if callable(option) else None
        self._files: dict[str, str] = {}  # where it is → where it is in the bundle
        self._project = project_folder()
        self.roots: set[str] = set()
        self.taken: list[str] = []  # files and folders of this machine that are in the bundle
        self.notices: list[str] = []
        self.added = [one for path in _listed(option) for one in self._add(path)]

    def _add(self, path: str) -> Iterator[dict[str, str]]:
        place = os.path.abspath(path)
        if not os.path.exists(place):
            raise GraphError("bundle-file", f"assets= names {path}, which is not there.", "Name files that exist.")
        yield from self._noted(path, place, self._take(place, "assets=", named=True), os.getcwd())

    # ---- constructors

    def of_constructor(self, how: Made, who: str) -> Taken:
        """The arguments with paths into the bundle, and what else was opened."""
        notes = how.notes
        touched = {os.path.realpath(place) for place in (*notes.opened.values(), *notes.beyond.values())}
        search = _Search(self, notes.folder, touched, who)
        placed, defaults = list(zip(_argument_names(how), how.args, strict=True)), list(_left_to_default(how))
        args = [search.rewritten(arg) if how.takes_files_of(name) else arg for name, arg in placed]
        kwargs = {name: search.rewritten(arg) if how.takes_files_of(name) else arg for name, arg in how.kwargs.items()}
        for name, value in defaults:
            rewritten = search.rewritten(value, words=True) if how.takes_files_of(name) else value
            if _holds_asset(rewritten):
                kwargs[name] = rewritten
        others = [arg for name, arg in (*placed, *how.kwargs.items(), *defaults) if not how.takes_files_of(name)]
        left_out = list(search.places_in(others))
        for given, place in notes.beyond.items():
            if not os.path.exists(place) or place in notes.written or _belongs_to_python(place, self._project):
                continue
            if self._known(place) is None and self._is_wanted(place):
                what = f"{who} opens {given} in a way that clew cannot lead into the bundle."
                raise GraphError("bundle-file", what, "Give the path to the constructor as an argument.")
        noticed = [
            one for one in self._noticed(notes) if not any(_is_in(os.path.realpath(one[1]), out) for out in left_out)
        ]
        opened = [(given, place, self._take(place, who)) for given, place in noticed]
        self._looked_for(notes, who)
        return Taken(args, kwargs, [said for one in opened for said in self._noted(*one, notes.folder)])

    def _looked_for(self, notes: Any, who: str) -> None:
        """Say which files a constructor has only looked for: it decides otherwise where they are not."""
        for given, place in notes.looked.items():
            is_data = _is_in(place, self._project) and not _belongs_to_python(place, self._project)
            if not is_data or place in notes.written or not os.path.isfile(place) or not self._is_wanted(place):
                continue
            if self._known(place) is None:
                said = f"{who} looks for {given} and does not open it: elsewhere it will not be there"
                self.notices.append(f"{said}. assets=[{given!r}] takes it along.")

    def of_step(self, path: Any, who: str) -> Any:
        """A constant path that a step of the pipeline itself reads, as a path into the bundle."""
        place = os.path.abspath(path)
        if not os.path.isfile(place) or _belongs_to_python(place, self._project):
            return path
        return _Search(self, os.getcwd(), {os.path.realpath(place)}, who).rewritten(path)

    def of_module(self, given: str, place: str, who: str) -> Iterator[dict[str, str]]:
        """A file that a module reads when it is imported; one that must not be taken has to be where the graph runs."""
        place = os.path.abspath(place)
        if not os.path.isfile(place) or _belongs_to_python(place, self._project) or not self._is_wanted(place):
            return
        try:
            file = self._take(place, who)
        except GraphError as refusal:
            self.notices.append(f"{refusal} It is not in the bundle, and has to be where that is loaded.")
            return
        yield from self._noted(given, place, file, os.getcwd())

    def opened_by(self, steps: Iterable[Step]) -> None:
        """Say which files operators open when they are called, and will not find elsewhere."""
        for step, given, place in files_at_call.opened_by(steps):
            if not os.path.isfile(place) or _belongs_to_python(place, self._project) or not self._is_wanted(place):
                continue
            if self._known(place) is None:
                said = f"{step.target.name} ({step.where}) opens {given} when it is called, which is not in the bundle"
                self.notices.append(f"{said}: read it in the constructor of a clew.op class, or give that its path.")

    def _noticed(self, notes: Any) -> Iterator[tuple[str, str]]:
        """What a constructor has opened that is data of the user's."""
        for given, place in notes.opened.items():
            if place in notes.written or not os.path.exists(place) or _belongs_to_python(place, self._project):
                continue
            if os.path.isdir(place) and self._known(place) is None and _is_broad(place):
                continue
            if (_holds_files(place) or os.path.isfile(place)) and self._is_wanted(place):
                yield given, place

    def _noted(self, given: str, place: str, file: str, folder: str) -> Iterator[dict[str, str]]:
        """A file under the name it was asked for; one that was asked for by its whole path, also as seen from where
        the constructor ran and from the home folder: `os.path.abspath("words.txt")` is another path elsewhere."""
        yield {"given": given, "place": place, "file": file}
        if not os.path.isabs(given):
            return
        home = os.path.expanduser("~")
        if folder and _is_in(place, self._project):
            yield {"given": os.path.relpath(place, folder), "place": place, "file": file}
        elif _is_in(place, home):
            yield {"given": os.path.join("~", os.path.relpath(place, home)), "place": place, "file": file}

    def beside_code(self, said: list[dict[str, str]], roots: set[str]) -> list[dict[str, str]]:
        """The same files as modules find them by their own `__file__`, beside the code or above it."""
        found = []
        for one in said:
            for root in sorted(roots):
                paths = [path for path in (one["given"], one["place"]) if os.path.isabs(path)]
                if _is_in(one["place"], self._project) or any(_is_in(path, root) for path in paths):
                    ways = dict.fromkeys(os.path.relpath(path, root).replace(os.sep, "/") for path in paths)
                    found += [{**one, "code": way} for way in ways]
        return found

    # ---- taking

    def wants(self, place: str) -> bool:
        return self._is_wanted(place)

    def _is_wanted(self, place: str) -> bool:
        return self._wanted is None or bool(self._wanted(place))

    def _known(self, place: str) -> str | None:
        """Where a file is in the bundle already, by itself or in a folder."""
        taken = real = os.path.realpath(place)
        if real in self._files:
            return self._files[real]
        while os.path.dirname(taken) != taken:
            taken = os.path.dirname(taken)
            if taken in self._files:
                inside = f"{self._files[taken]}/{os.path.relpath(real, taken)}".replace(os.sep, "/")
                if inside in self._staging.files or os.path.isdir(real):
                    return inside
        return None

    def _take(self, place: str, who: str, *, named: bool = False) -> str:
        known = self._known(place)
        if known is not None:
            return known
        real = os.path.realpath(place)
        self._allow(place, who, named)
        if os.path.isdir(real) and _is_broad(real) and not _is_saved_model(real):
            what = f"{who} was given {real}, which holds the whole project."
            raise GraphError("bundle-file", what, f"Give a folder with the data alone, or {_leaving_out(place)}.")
        file = f"{ASSETS}/{len(self._files)}/{os.path.basename(place.rstrip(os.sep)) or 'root'}"
        files = list(self._inside(real, file, who, named)) if os.path.isdir(real) else [(real, file)]
        for source, name in files:
            self._staging.copy(source, name)
        self._files[real] = file
        self.taken.append(place)
        return file

    def take(self, place: str, who: str) -> str:
        return self._take(place, who)

    def _inside(self, folder: str, file: str, who: str, named: bool) -> Iterator[tuple[str, str]]:
        """The files of a folder; links are followed if they lead to what could be taken by itself."""
        only = _SAVED_MODEL if _is_broad(folder) else None  # a model that was saved beside the program: "./"
        for base, folders, names in os.walk(folder, followlinks=False):
            if only is not None and base == folder:
                folders[:], names = [one for one in folders if one in only], [one for one in names if one in only]
            folders[:] = sorted(f for f in folders if f not in _NOT_DATA and not self._is_ours(os.path.join(base, f)))
            for name in [*folders, *sorted(names)]:
                source = os.path.join(base, name)
                if os.path.isdir(source) and not os.path.islink(source):
                    continue
                if not self._is_wanted(source) or self._is_ours(source):
                    continue
                if not os.path.isfile(source):
                    what = f"{source}, in a folder that {who} was given, is a link to a folder or no plain file."
                    raise GraphError("bundle-file", what, f"Put the files themselves there, or {_leaving_out(source)}.")
                self._allow(source, who, named)
                _refuse_secrets(source, source, who)
                inside = os.path.relpath(source, folder).replace(os.sep, "/")
                yield source, f"{file}/{inside}"

    def _is_ours(self, path: str) -> bool:
        return os.path.abspath(path) in (str(self._staging.target), str(self._staging.folder))

    def _allow(self, place: str, who: str, named: bool) -> None:
        real = os.path.realpath(place)
        _refuse_secrets(real, place, who)
        allowed = (self._project, *opened_bundles)
        if self._anywhere or named or any(_is_in(real, folder) for folder in allowed):
            return
        what = f"{who} uses {real}, which is outside the project folder ({self._project})."
        taking = f'Take it along with save(..., assets=[{real!r}]), or all such files with assets="anywhere"'
        raise GraphError("bundle-file", what, f"{taking}; or {_leaving_out(place)}.")


class _Search:
    """The paths among the arguments of a constructor."""

    def __init__(self, assets: Assets, folder: str, touched: set[str], who: str) -> None:
        self._assets = assets
        self._folder = folder
        self._touched = touched
        self._who = who
        self._made: dict[tuple[int, bool], tuple[Any, Any]] = {}  # by identity: what is shared stays shared

    def rewritten(self, value: Any, *, words: bool = False) -> Any:
        key = id(value), words
        if key not in self._made:
            self._made[key] = value, self._rewritten(value, words)
        return self._made[key][1]

    def _rewritten(self, value: Any, words: bool) -> Any:
        kind = type(value)
        if kind in (list, tuple):
            return kind(self.rewritten(item, words=words) for item in value)
        if kind in (set, frozenset):
            return kind(self.rewritten(item, words=True) for item in value)
        if kind is dict:
            return {key: self.rewritten(item, words=words) for key, item in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(self.rewritten(item, words=words) for item in value))
        if kind in (str, bytes) or isinstance(value, PurePath):
            return self._path(value, words)
        return value

    def places_in(self, value: Any) -> Iterator[str]:
        """Where the files and folders are that a value names, at any depth; a folder that holds the program is none."""
        if isinstance(value, list | tuple | set | frozenset | dict):
            for item in value.values() if isinstance(value, dict) else value:
                yield from self.places_in(item)
        elif isinstance(value, str | bytes | PurePath):
            text = os.fsdecode(value) if isinstance(value, bytes) else str(value)
            place = os.path.normpath(os.path.join(self._folder, text))
            if self._may_be(text) and self._is_there(place) and not _is_broad(place):
                yield os.path.realpath(place)

    def _path(self, value: Any, words: bool) -> Any:
        text = os.fsdecode(value) if isinstance(value, bytes) else str(value)
        if not isinstance(value, PurePath) and not self._may_be(text):
            return value
        place = os.path.normpath(os.path.join(self._folder, text))
        if not self._is_there(place) or not self._assets.wants(place):
            return value
        if not isinstance(value, PurePath) and not self._is_meant(text, place, words):
            return value
        kind = "path" if isinstance(value, PurePath) else type(value).__name__
        tail = "/" if kind == "str" and text.endswith(("/", os.sep)) else ""
        return Asset(self._assets.take(place, self._who), kind, tail)

    def _may_be(self, text: str) -> bool:
        """Dots and slashes alone are what texts are split at, not files."""
        return bool(text.strip("./\\ \n\t")) and "\0" not in text and "\n" not in text and len(text) < 4096

    def _is_there(self, place: str) -> bool:
        try:
            return os.path.isfile(place) or _holds_files(place)
        except ValueError:
            return False

    def _is_meant(self, text: str, place: str, words: bool) -> bool:
        """A bare word may be just a word, though a folder has its name: that it was taken for a path is said. Sets and
        defaults hold words."""
        real = os.path.realpath(place)
        if os.sep in text or "/" in text or "." in text:
            return True
        if any(one == real or one.startswith(real + os.sep) for one in self._touched):
            return True
        if words:
            return False
        said = f"{self._who} was given {text!r}, which is also the name of {place}: it was taken for a path"
        self._assets.notices.append(f"{said}. If it is none, {_leaving_out(place)}.")
        return True


def _argument_names(how: Made) -> list[str]:
    """The names of the arguments that a constructor was given by their place."""
    try:
        parameters = list(inspect.signature(how.cls).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    placed = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    rest = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "")
    return [*placed, *[rest] * len(how.args)][: len(how.args)]


def _left_to_default(how: Made) -> Iterator[tuple[str, Any]]:
    """The arguments that a constructor was not given, and what they are then."""
    try:
        signature = inspect.signature(how.cls)
        given = signature.bind_partial(*how.args, **how.kwargs).arguments
    except (TypeError, ValueError):
        return
    for name, parameter in signature.parameters.items():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_named and name not in given and parameter.default is not parameter.empty:
            yield name, parameter.default


def _holds_asset(value: Any) -> bool:
    return any(isinstance(thing, Asset) for thing in things_in(value))


def _listed(option: Option) -> list[str]:
    if option is None or callable(option) or option == "anywhere":
        return []
    if isinstance(option, str) or not isinstance(option, Iterable):
        what = f"assets={option!r} is not known."
        raise GraphError("bad-option", what, 'It is "anywhere", a list of paths, or a function of a path.')
    return [path for one in option for path in _matching(os.fspath(one))]


def _matching(path: str) -> list[str]:
    """A path, or those that a pattern stands for."""
    if os.path.exists(path) or not glob.has_magic(path):
        return [path]
    return sorted(glob.glob(path, recursive=True)) or [path]


def _is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder, or something in it. The root of all is nobody's folder."""
    return path == folder or (folder != os.sep and path.startswith(folder + os.sep))


def _holds_files(folder: str) -> bool:
    """An empty folder is one that something will be written to."""
    return os.path.isdir(folder) and any(names for _, _, names in os.walk(folder))


def _leaving_out(place: str) -> str:
    return f"leave it out with save(..., assets=lambda path: path != {place!r})"


def _refuse_secrets(path: str, place: str, who: str) -> None:
    parts = path.split(os.sep)
    name = parts[-1].lower()
    is_named_so = any(fnmatch.fnmatch(name, pattern) for pattern in _SECRETS) or _SECRET_FOLDERS.intersection(parts)
    if is_named_so or _holds_key(path):
        what = f"{who} uses {path}, which looks like a secret; secrets are never put into a bundle."
        raise GraphError("bundle-secret", what, f"Read it where the graph runs, or {_leaving_out(place)}.")


def _holds_key(path: str) -> bool:
    """A private key says what it is, whatever its file is called."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return _KEY.search(file.read(4096)) is not None


def _belongs_to_python(place: str, project: str) -> bool:
    """Code, libraries and the machine's own files are no data of the user's; a project may stand among them."""
    real = os.path.realpath(place)
    if real.endswith(_OF_CODE) or f"{os.sep}__pycache__" in real or is_library(real):
        return True
    installed = (os.path.realpath(prefix) + os.sep for prefix in {sys.prefix, sys.base_prefix})
    return any(real.startswith(root) for root in (*_OF_THE_MACHINE, *installed) if not project.startswith(root))


def _is_saved_model(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in ("saved_model.pb", "saved_model.pbtxt"))


def _is_broad(folder: str) -> bool:
    """A folder that holds the program itself, or the way to it."""
    real = os.path.realpath(folder)
    roots = [os.path.realpath(path or os.curdir) for path in (*sys.path, os.curdir)]
    above = any(root == real or root.startswith(real.rstrip(os.sep) + os.sep) for root in roots)
    return above or os.path.isfile(os.path.join(real, "__init__.py"))


def project_folder() -> str:
    """The root of the repository around the current folder, or the folder itself."""
    here = folder = os.path.realpath(os.getcwd())
    home = os.path.realpath(os.path.expanduser("~"))
    while os.path.dirname(folder) != folder and folder != home:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        folder = os.path.dirname(folder)
    return here
