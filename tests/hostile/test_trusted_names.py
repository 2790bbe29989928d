"""A bundle that is trusted by names can call what is on the list, and nothing else, in whatever way it asks."""

from __future__ import annotations

import builtins
import collections
import functools
import importlib
import importlib.util
import itertools
import json
import math
import operator
import pkgutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.graph.bundle import allowed_names
from clew.graph.bundle.policy import Policy
from graph.bundling import project, reseal

__all__ = ["project"]  # the fixture

X = {"$": "ref", "id": 0}
NAMES = ["somebody", "numpy", "torch", "scipy", "pandas", "sklearn", "builtins", "os", "types"]


@pytest.fixture
def bundle(project: Path) -> Path:
    """A graph of one input that holds no code."""
    clew.record(lambda x: x + 1, 1).save("bundle")
    return project / "bundle"


def named(name: str) -> dict[str, Any]:
    return {"$": "named", "name": name}


def step(number: int, kind: str, target: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    given = {"id": number, "kind": kind, "target": target, "args": list(args), "where": ["<forged>", 1]}
    return {"step": {**given, "kwargs": [[name, value] for name, value in kwargs.items()]}}


def forge(bundle: Path, *steps: dict[str, Any]) -> None:
    """Make a bundle do these steps and give what the last of them gives."""

    def change(page: dict[str, Any]) -> None:
        page["inputs"] = [{"id": 0, "name": "x"}]
        page["block"] = {"events": list(steps), "output": {"$": "ref", "id": steps[-1]["step"]["id"]}}

    reseal(bundle, change)


def run(bundle: Path, x: Any = 1, trusted: Any = NAMES) -> Any:
    return clew.load(bundle, trusted=trusted)(x=x)


def refused(bundle: Path, x: Any = 1, trusted: Any = NAMES) -> str:
    with pytest.raises(clew.ClewError) as caught:
        run(bundle, x, trusted)
    assert caught.value.slug == "bundle-trust"
    return str(caught.value)


# ---- functions by name -----------------------------------------------------------------------------------------------

FORBIDDEN = """
    builtins:eval builtins:exec builtins:compile builtins:__import__ builtins:open builtins:getattr builtins:setattr
    builtins:delattr builtins:type builtins:vars builtins:globals builtins:locals builtins:input builtins:breakpoint
    builtins:memoryview builtins:print builtins:iter builtins:next builtins:super builtins:property builtins:dir
    os:system os:open os:remove posix:system subprocess:run subprocess:getoutput sys:settrace sys:exit sys:modules
    ctypes:string_at pickle:loads _pickle:loads marshal:loads importlib:import_module shutil:rmtree
    operator:attrgetter operator:methodcaller operator:call _operator:call functools:singledispatch functools:wraps
    types:FunctionType types:CodeType types:SimpleNamespace types:MethodType types:new_class collections:namedtuple
    string:Formatter string:Template dataclasses:make_dataclass dataclasses:_create_fn copyreg:__newobj_ex__
    copyreg:pickle json:load json:dump json:JSONEncoder uuid:uuid1 uuid:getnode uuid:_get_command_stdout hashlib:new
    hashlib:file_digest csv:reader shlex:split shlex:shlex re:Scanner zlib:compressobj inspect:getsource
    logging:FileHandler logging:basicConfig logging.handlers:SocketHandler urllib.request:urlopen urllib.parse:re
    numpy:load numpy:save numpy:savez numpy:savetxt numpy:loadtxt numpy:genfromtxt numpy:fromfile numpy:fromregex
    numpy:memmap numpy:vectorize numpy:frompyfunc numpy:apply_along_axis numpy:apply_over_axes numpy:fromfunction
    numpy:piecewise numpy:ndarray numpy:dtype numpy:void numpy:object_ numpy:empty numpy:empty_like numpy:nditer
    numpy:ndenumerate numpy.lib.stride_tricks:as_strided numpy.lib._stride_tricks_impl:as_strided
    numpy.lib._npyio_impl:os.system numpy.lib._npyio_impl:pickle.loads numpy.f2py:compile numpy.ctypeslib:load_library
    numpy.testing:rundocs numpy.testing._private.utils:runstring numpy.distutils.exec_command:exec_command
    numpy.random:default_rng numpy._core._methods:pickle numpy.ma:load
    torch:load torch:save torch:compile torch:from_file torch:as_strided torch:frombuffer torch:set_default_device
    torch:empty torch.hub:load torch.jit:load torch.jit:script torch.utils.cpp_extension:load_inline torch:typename
    torch._dynamo.convert_frame:CodeType torch._dynamo.convert_frame:FunctionType torch.ops:load_library
    torch._inductor.codecache:PyCodeCache torch.package:PackageImporter torch.utils.data:DataLoader
    torch.multiprocessing:spawn torch.utils._config_module:pickle torch.serialization:pickle
    torch.storage:_load_from_bytes torch._utils:_rebuild_tensor_v2 torch.nn.functional:torch torch.functional:F
    scipy.io:loadmat scipy.io:savemat scipy._lib._tmpdirs:rmtree scipy._lib._tmpdirs:chdir scipy.special:expit
    scipy.LowLevelCallable:from_cython scipy.optimize:minimize scipy._lib._ccallback:LowLevelCallable
    pandas:read_csv pandas:read_pickle pandas:read_sql pandas:eval pandas:ExcelFile pandas:HDFStore pandas:DataFrame
    pandas:concat pandas.io.common:get_handle pandas.core.computation.eval:eval pandas.io.pickle:read_pickle
    sklearn.datasets:load_files sklearn.utils:Bunch sklearn.pipeline:Pipeline sklearn.externals:joblib joblib:load
    sklearn.preprocessing._function_transformer:FunctionTransformer sklearn.tree._tree:Tree sklearn.utils._joblib:Memory
    keras:utils tensorflow:io tensorflow:py_function tensorflow:numpy_function keras.saving:load_model
    clew:load clew.graph.bundle:load clew.graph.operations:entered
""".split()


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_function_that_is_not_on_the_list_is_not_called(bundle: Path, name: str) -> None:
    forge(bundle, step(1, "function", name, X))
    assert name in refused(bundle)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_and_is_no_value_either(bundle: Path, name: str) -> None:
    forge(bundle, step(1, "function", "builtins:map", named(name), [1]))
    assert name in refused(bundle)


@pytest.mark.parametrize("name", ["math:sys", "numpy:os", "numpy:", "json:codecs.open", "re:enum.sys.modules", "math"])
def test_a_module_or_what_it_has_imported_is_no_function(bundle: Path, name: str) -> None:
    forge(bundle, step(1, "function", name, X))
    refused(bundle)


def test_a_name_of_the_list_that_leads_elsewhere_is_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(math, "sin", os.system)
    forge(bundle, step(1, "function", "math:sin", "touch ran"))
    assert "something else's" in refused(bundle)
    assert not Path("ran").exists()


def test_the_whole_chain_of_the_report_is_refused(bundle: Path) -> None:
    code = step(1, "function", "torch._dynamo.convert_frame:CodeType", 0)
    function = step(2, "function", "torch._dynamo.convert_frame:FunctionType", {"$": "ref", "id": 1})
    forge(bundle, code, function, step(3, "function", "builtins:map", {"$": "ref", "id": 2}, [1]))
    told = refused(bundle)
    assert "CodeType" in told and "FunctionType" in told


# ---- methods and attributes ------------------------------------------------------------------------------------------

CALLED = [
    (np.arange(3), "tofile", "ran"),
    (np.arange(3), "dump", "ran"),
    (np.arange(3), "view", "O"),
    (np.arange(3), "getfield", "O"),
    (np.arange(3), "setflags"),
    (np.dtype("i8"), "newbyteorder"),
    (Path("ran"), "touch"),
    (Path("ran"), "write_text", "x"),
    ("{0.__class__}", "format", 1),
    ("{x}", "format_map", {"$": "dict", "items": [["x", 1]]}),
    (sys, "exit"),
    (builtins, "eval", "1"),
    (json, "loads", "1"),
    (functools, "reduce"),
    (lambda: 1, "__call__"),
    (type, "mro"),
    (object(), "__reduce__"),
    (types.SimpleNamespace(get=exec), "get", "open('ran', 'w')"),
]


@pytest.mark.parametrize("case", CALLED, ids=lambda case: f"{type(case[0]).__name__}.{case[1]}")
def test_a_method_goes_by_the_type_of_the_value(bundle: Path, case: Any) -> None:
    value, name, *args = case
    forge(bundle, step(1, "method", name, X, *args))
    refused(bundle, value)
    forge(bundle, step(1, "attribute", name, X))
    refused(bundle, value)
    forge(bundle, step(1, "python", "getattr", X, name))
    refused(bundle, value)
    assert not Path("ran").exists()


@pytest.mark.parametrize("name", ["to_pickle", "to_csv", "apply", "agg", "pipe", "eval", "query", "transform", "map"])
def test_tables_write_no_files_and_run_no_texts(bundle: Path, name: str) -> None:
    pandas = pytest.importorskip("pandas")
    for table in (pandas.Series([1]), pandas.DataFrame({"a": [1]})):
        forge(bundle, step(1, "method", name, X, "ran"))
        refused(bundle, table)
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "name", ["data_ptr", "storage", "untyped_storage", "set_", "apply_", "register_hook", "as_strided"]
)
def test_tensors_show_no_memory(bundle: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    forge(bundle, step(1, "method", name, X))
    refused(bundle, torch.zeros(2))


def test_a_name_that_is_made_while_it_runs_is_refused(bundle: Path) -> None:
    forge(bundle, step(1, "python", "add", "__cla", "ss__"), step(2, "python", "getattr", X, {"$": "ref", "id": 1}))
    refused(bundle)


class Holder:
    value = 1


@pytest.mark.parametrize(
    ("target", "args"),
    [
        ("setattr", [X, "value", 2]),
        ("delattr", [X, "value"]),
        ("enter", [X]),
        ("leave", [X]),
        ("call", [X, "1"]),
        ("closed", [X, {"$": "dict", "items": []}]),
    ],
)
@pytest.mark.parametrize("value", [Holder(), eval, print, functools.wraps(len), types.FunctionType, Holder])
def test_what_the_caller_gives_is_not_changed_entered_or_called(
    bundle: Path, target: str, args: list[Any], value: Any
) -> None:
    forge(bundle, step(1, "python", target, *args))
    refused(bundle, value)
    assert Holder.value == 1


# ---- values that are made --------------------------------------------------------------------------------------------


def value_of(value: Any) -> dict[str, Any]:
    return step(1, "python", "made", value)


def reduced(call: Any, *args: Any, **more: Any) -> dict[str, Any]:
    return {"$": "reduced", "type": "x", "call": call, "args": list(args), **more}


MADE = {
    "a command": reduced(named("os:system"), "touch ran"),
    "a function of a method": reduced({"$": "method", "self": named("builtins:str"), "name": "format"}, "{0}", 1),
    "a method of a module": {"$": "method", "self": named("numpy:"), "name": "load"},
    "an address as an array": reduced(
        named("copyreg:__newobj__"),
        named("collections:Counter"),
        state={"$": "dict", "items": [["__array_interface__", {"$": "dict", "items": []}]]},
    ),
    "a class that was not named": reduced(named("copyreg:__newobj__"), named("sklearn.tree._tree:Tree"), 1),
    "an object called": reduced(reduced(named("collections:Counter")), 1),
    "a state": reduced(named("functools:partial"), named("builtins:len"), state={"$": "tuple", "items": []}),
    "attributes of what is made": {
        "$": "made", "class": named("collections:Counter"), "args": [], "kwargs": [], "changed": {"__array__": 1},
    },
    "weights": {"$": "made", "class": named("collections:Counter"), "args": [], "kwargs": [], "weights": 1},
    "a path": {"$": "path", "text": "/etc/passwd"},
    "a method of a method": {
        "$": "method", "self": {"$": "method", "self": "a", "name": "join"}, "name": "join",
    },
    "a dunder": {"$": "method", "self": "a", "name": "__class__"},
    "text that reaches in": {"$": "method", "self": "{0.__class__}", "name": "format"},
    "operators of an object": {"$": "operators of", "value": named("pandas:DataFrame"), "side_effects": False},
}  # fmt: skip


@pytest.mark.parametrize("value", MADE.values(), ids=MADE.keys())
def test_a_value_is_made_by_what_is_on_the_list_or_not_at_all(bundle: Path, value: dict[str, Any]) -> None:
    forge(bundle, value_of(value))
    refused(bundle)
    reseal(bundle, lambda page: page.update(attrs={"$": "dict", "items": [["x", value]]}))
    refused(bundle)
    assert not Path("ran").exists()


def test_the_type_of_a_value_is_no_way_to_a_class(bundle: Path) -> None:
    forge(bundle, value_of({"$": "type of", "value": named("statistics:mean")}))
    with pytest.raises(clew.ClewError, match="is none of constant"):
        run(bundle)


@pytest.mark.parametrize("kind", ["exported", "saved model", "keras"])
def test_a_model_needs_its_own_name(bundle: Path, kind: str) -> None:
    import hashlib

    (bundle / "models").mkdir()
    (bundle / "models" / "0").write_bytes(b"x")
    said = {"$": kind, "file": "models/0", "class": "Net"}
    said |= {"exported": {"training": False, "device": "cpu"}, "keras": {"model": True, "custom": []}}.get(kind, {})
    forge(bundle, value_of(said))
    listed = {"models/0": {"size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}}
    reseal(bundle, lambda page: page["files"].update(listed))
    assert "models/0" in refused(bundle)


def test_an_array_of_objects_is_never_made_of_bytes(project: Path) -> None:
    table = np.array([(1, 2)], dtype=[("a", "i8"), ("b", "i8")])
    clew.record(lambda x: (table, x + 1), 1).save("bundle")

    def change(page: dict[str, Any]) -> None:
        text = json.dumps(page).replace('"<i8"', '"|O"')
        page.clear()
        page.update(json.loads(text))

    reseal(project / "bundle", change)
    for trusted in (NAMES, True):
        with pytest.raises(clew.ClewError) as caught:
            clew.load(project / "bundle", trusted=trusted)
        assert caught.value.slug == "bundle-damaged"


def test_a_shape_without_bytes_takes_no_memory(project: Path) -> None:
    table = np.array([], dtype=[("a", "i8")])
    clew.record(lambda x: (table, x + 1), 1).save("bundle")
    reseal(project / "bundle", lambda page: page["objects"][0].update(shape=[1 << 40]))
    with pytest.raises(clew.ClewError, match="is not what its page says"):
        clew.load(project / "bundle", trusted=True)


# ---- what goes on working --------------------------------------------------------------------------------------------


def scale(x: Any) -> Any:
    y = np.asarray(x, dtype=np.float32)
    y = (y - y.mean()) / np.maximum(y.std(), 1e-6)
    words = " a b ".strip().split()
    return {"y": np.clip(y, -1, 1).tolist(), "n": len(words), "top": max(y.tolist()), "text": f"{words[0]}!"}


def test_a_graph_that_computes_needs_no_more_than_a_word(project: Path) -> None:
    graph = clew.record(scale, [1.0, 2.0, 4.0])
    graph.save("bundle")
    loaded = clew.load("bundle", trusted=["somebody"])
    assert loaded(x=[3.0, 5.0, 9.0]) == scale([3.0, 5.0, 9.0])
    loaded.save("again")
    assert clew.load("again", trusted=["somebody"])(x=[3.0, 5.0, 1.0]) == scale([3.0, 5.0, 1.0])


def test_a_function_can_be_named_by_the_caller(bundle: Path) -> None:
    forge(bundle, step(1, "function", "posixpath:join", X, "b"))
    refused(bundle, "a", trusted=["posixpath", "posixpath:split"])
    assert run(bundle, "a", trusted=["posixpath:join"]) == "a/b"


def test_a_type_can_be_named_by_the_caller(bundle: Path) -> None:
    forge(bundle, step(1, "attribute", "stem", X))
    kind = f"{type(Path()).__module__}:{type(Path()).__qualname__}"
    refused(bundle, Path("a.txt"), trusted=["pathlib"])
    assert run(bundle, Path("a.txt"), trusted=[kind]) == "a"
    assert run(bundle, Path("a.txt"), trusted=[f"{kind}.stem"]) == "a"
    refused(bundle, Path("a.txt"), trusted=[f"{kind}.name"])


def test_workers_are_held_to_the_same_names(bundle: Path) -> None:
    forge(bundle, step(1, "method", "touch", X))
    graph = clew.load(bundle, trusted=["a:b"])
    for processes in (False, True):
        [result] = graph.map([Path("ran")], processes=processes, workers=1, progress=False)
        assert "trusted= does not name" in str(result)
    assert not Path("ran").exists()


def test_sharing_a_bundle_that_is_trusted_as_a_whole_gives_no_more_trust(bundle: Path) -> None:
    forge(bundle, step(1, "attribute", "stem", X))
    whole = clew.load(bundle, trusted=True, share=True)
    assert whole(x=Path("a.txt")) == "a"
    with pytest.raises(clew.ClewError, match="trusted= does not name"):
        clew.load(bundle, trusted=["a:b"], share=True)(x=Path("a.txt"))


# ---- everything there is ---------------------------------------------------------------------------------------------

ROOTS = [
    *(module.__name__ for module in (builtins, operator, itertools, functools, math, json, collections, types)),
    *"_operator _functools _collections re copy copyreg datetime decimal statistics string struct _struct".split(),
    *"base64 binascii hashlib _hashlib zlib uuid dataclasses logging html urllib.parse textwrap shlex heapq".split(),
    *"bisect calendar colorsys difflib fractions numbers unicodedata os sys io pathlib subprocess pickle".split(),
    *"importlib marshal ctypes inspect socket shutil tempfile threading".split(),
]


def modules(deep: list[str]) -> Iterator[types.ModuleType]:
    """Modules of the standard library, and all that these libraries have loaded or have as public submodules."""
    for name in ROOTS:
        yield importlib.import_module(name)
    for root in deep:
        library = pytest.importorskip(root)
        for found in pkgutil.iter_modules(library.__path__):
            if not found.name.startswith("_") and found.name not in ("tests", "testing", "conftest", "distutils"):
                try:
                    importlib.import_module(f"{root}.{found.name}")
                except Exception:
                    continue
        for name in sorted(sys.modules):
            if name.partition(".")[0] == root and isinstance(sys.modules[name], types.ModuleType):
                yield sys.modules[name]


def test_what_the_list_admits_of_all_there_is_is_what_it_says_itself() -> None:
    policy = Policy(frozenset({"somebody"}), "bundle")
    looked, admitted = 0, set()
    for module in modules(["numpy", "scipy", "pandas", "sklearn", "torch"]):
        for name, thing in list(vars(module).items()):
            looked += 1
            whole = f"{module.__name__}:{name}"
            try:
                policy.library(whole, thing)
            except clew.ClewError:
                continue
            admitted.add(whole)
            home = getattr(thing, "__module__", None)
            if isinstance(home, str) and not isinstance(thing, np.ufunc):
                assert home.lstrip("_") == module.__name__.lstrip("_"), whole
            assert not isinstance(thing, types.ModuleType)
    listed = {f"{module}:{name}" for module, names in allowed_names.FUNCTIONS.items() for name in names}
    assert {name.lstrip("_").replace(":_", ":_") for name in admitted} <= listed
    assert looked > 50_000


DANGEROUS = ("path", "file", "filename", "fname", "filepath", "stream", "command", "cmd", "allow_pickle", "cls_name")


def test_no_function_of_the_list_takes_a_file_or_a_command() -> None:
    import inspect

    taking = []
    for module, names in allowed_names.FUNCTIONS.items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            continue
        for name in names:
            try:
                parameters = inspect.signature(getattr(found, name)).parameters
            except (AttributeError, ValueError, TypeError):
                continue
            taking += [f"{module}:{name}({one})" for one in parameters if one in DANGEROUS]
    assert taking == []


def test_the_members_of_plain_types_are_few_and_none_reaches_out() -> None:
    reaching = (
        "tofile",
        "dump",
        "open",
        "write",
        "read",
        "eval",
        "apply",
        "format",
        "map",
        "save",
        "load",
        "to_csv",
        "to_parquet",
        "to_pickle",
        "_",
    )
    for kind in sorted(allowed_names.PLAIN | set(allowed_names.MEMBERS)):
        module, _, name = kind.partition(":")
        is_here = importlib.util.find_spec(module.partition(".")[0]) is not None
        cls = getattr(importlib.import_module(module), name, None) if is_here else None
        used = [member for member in dir(cls) if allowed_names.is_member(kind, member)]
        assert not [member for member in used if member.startswith(reaching)], kind


def test_the_texts_of_the_refusal_cannot_act_on_the_reader(bundle: Path) -> None:
    forge(bundle, step(1, "function", "os:\x1b[2J\nfine", X))
    assert refused(bundle).isprintable()
