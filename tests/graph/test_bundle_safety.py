"""A bundle that is not what it says is refused: nothing of it is run, and nothing is written."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import ClewError
from clew.graph.bundle import layout, summary, trust, untrusted_view
from clew.graph.bundle.layout import Bundle
from graph.bundling import project, reseal, write

__all__ = ["project"]  # the fixture

OPS = """
    import os
    from pathlib import Path
    import clew
    if os.path.exists("armed"):
        open("ran", "w").close()

    @clew.op
    class Reader:
        def __init__(self, path):
            self.text = Path(path).read_text()
        def __call__(self, x):
            return x + len(self.text)
    """


@pytest.fixture
def bundle(project: Path) -> Path:
    """A bundle whose code leaves a trace when it is run."""
    write(project, {"ops.py": OPS, "data.txt": "abc"})
    from ops import Reader  # type: ignore[import-not-found]

    reader = Reader("data.txt")
    clew.record(lambda x: reader(x) + 1, 1).save("bundle")
    (project / "armed").touch()
    return project / "bundle"


def refused(path: Path, slug: str, match: str | None = None, **options: Any) -> None:
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(clew.ClewError, match=match) as caught:
        clew.load(path, **({"trusted": True} | options))
    assert caught.value.slug == slug
    assert sorted(path.parent.rglob("*")) == before  # nothing has run, nothing was written


def test_a_whole_one_runs(bundle: Path) -> None:
    assert clew.load(bundle, trusted=True)(x=1) == 5
    assert (bundle.parent / "ran").exists()


# ---- changed


@pytest.mark.parametrize("name", ["graph.json", "graph.sha256", "code/ops.py", "assets/0/data.txt"])
def test_a_changed_byte_is_noticed(bundle: Path, name: str) -> None:
    path = bundle / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(bundle, "bundle-damaged")


def test_a_changed_byte_is_noticed_in_a_zip(bundle: Path) -> None:
    packed = zipped(bundle)
    data = bytearray(packed.read_bytes())
    at = data.index(b"abc", data.index(b"assets/0/data.txt"))
    data[at] ^= 1
    packed.write_bytes(data)
    refused(packed, "bundle-damaged")


@pytest.mark.parametrize("name", ["code/ops.py", "assets/0/data.txt"])
def test_a_missing_file_is_named(bundle: Path, name: str) -> None:
    (bundle / name).unlink()
    refused(bundle, "bundle-damaged", f"{name} is missing")


def test_a_file_too_many_is_named(bundle: Path) -> None:
    (bundle / "code" / "numpy.py").write_text("open('ran', 'w')")
    refused(bundle, "bundle-damaged", r"code/numpy.py does not belong to it")


def test_a_cut_zip_is_refused(bundle: Path) -> None:
    packed = zipped(bundle)
    packed.write_bytes(packed.read_bytes()[:-40])
    refused(packed, "bundle-damaged", "is no zip")


def test_what_is_no_bundle_is_told(project: Path) -> None:
    refused(project / "nowhere", "not-a-bundle", "is not there")
    refused(project, "not-a-bundle", "has no graph.json")


def test_a_future_schema_says_which_clew_to_install(bundle: Path) -> None:
    reseal(bundle, lambda page: page.update(schema=99, clew="9.1"))
    refused(bundle, "bundle-schema", "schema 99, and this clew reads 1. It was made with clew 9.1")


def test_a_future_schema_is_told_as_such_though_its_seal_is_another(bundle: Path) -> None:
    page = json.loads((bundle / "graph.json").read_text())
    (bundle / "graph.json").write_text(json.dumps({**page, "schema": 99, "clew": "9.1"}))
    refused(bundle, "bundle-schema", "schema 99, and this clew reads 1. It was made with clew 9.1")


# ---- unknown


def step(page: dict[str, Any]) -> dict[str, Any]:
    return next(event["step"] for event in page["block"]["events"] if "step" in event)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda page: step(page).update(kind="shell"), "a step of kind 'shell'"),
        (lambda page: step(page).update(target=7), "the operator 7"),
        (lambda page: step(page).update(kind="function", target="__main__:run"), "the function '__main__:run'"),
        (lambda page: step(page).update(target=-1), "the operator -1"),
        (lambda page: step(page).update(target="0"), "the operator '0'"),
        (lambda page: step(page).update(kind="python", target="exec"), "the operation 'exec'"),
        (lambda page: step(page).update(args=[{"$": "pickle", "data": "x"}]), "a value of kind 'pickle'"),
        (lambda page: page["block"]["events"].append({"run": "x"}), "an event"),
    ],
)
def test_what_is_unknown_is_refused(bundle: Path, change: Callable[[Any], None], what: str) -> None:
    reseal(bundle, change)
    refused(bundle, "bundle-unknown", what)


def test_an_operator_that_the_code_does_not_define_is_refused_before_the_code_runs(bundle: Path) -> None:
    def renamed(page: Any) -> None:
        made = next(value for value in page["objects"] if value["$"] == "made")
        made["class"]["name"] = "Writer"

    reseal(bundle, renamed)
    refused(bundle, "bundle-unknown", "uses ops:Writer, which its code does not define")


def test_a_function_that_is_not_installed_is_named_before_anything_runs(bundle: Path) -> None:
    reseal(bundle, lambda page: step(page).update(kind="function", target="numpy:no_such_function"))
    refused(bundle, "bundle-unknown", "numpy:no_such_function, which is not here")


def test_a_page_without_its_parts_is_damaged(bundle: Path) -> None:
    reseal(bundle, lambda page: page.pop("operators"))
    refused(bundle, "bundle-damaged", "has no operators")


# ---- leading out


@pytest.mark.parametrize("name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt", "a\\..\\evil.txt", "C:/evil.txt"])
def test_a_zip_that_leads_out_is_refused(bundle: Path, name: str) -> None:
    packed = zipped(bundle)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(name, "evil")
    refused(packed, "bundle-unsafe", "leads out of the bundle")


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/passwd", "code/../../evil.txt"])
def test_a_page_that_leads_out_is_refused(bundle: Path, name: str) -> None:
    (bundle.parent / "evil.txt").write_text("evil")
    said = {"size": 4, "sha256": hashlib.sha256(b"evil").hexdigest()}
    reseal(bundle, lambda page: page["files"].update({name: said}))
    refused(bundle, "bundle-unsafe", "leads out of the bundle")


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/passwd", "assets/../../evil.txt", "assets/9"])
def test_a_value_that_leads_out_is_refused(bundle: Path, name: str) -> None:
    (bundle.parent / "evil.txt").write_text("evil")

    def change(page: dict[str, Any]) -> None:
        next(value for value in page["objects"] if value["$"] == "made")["args"][0]["file"] = name

    reseal(bundle, change)
    refused(bundle, "bundle-unsafe", "is used and is not in it")


def test_links_are_refused(bundle: Path) -> None:
    (bundle / "code" / "link").symlink_to("/etc/passwd")
    refused(bundle, "bundle-unsafe", "code/link is a link")


def test_a_folder_that_is_a_link_is_refused(bundle: Path) -> None:
    os.rename(bundle / "assets", bundle.parent / "elsewhere")
    (bundle / "assets").symlink_to(bundle.parent / "elsewhere")
    refused(bundle, "bundle-unsafe", "assets is a link")


def test_links_in_a_zip_are_refused(bundle: Path) -> None:
    packed = zipped(bundle)
    info = zipfile.ZipInfo("assets/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    refused(packed, "bundle-unsafe", "assets/link is a link")


def test_a_zip_bomb_is_refused_before_it_unfolds(bundle: Path) -> None:
    packed = zipped(bundle)
    with zipfile.ZipFile(packed, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("assets/bomb", b"")
    _say_size(packed, b"assets/bomb", (1 << 32) - 2)
    refused(packed, "bundle-unsafe", "a zip bomb")


def test_a_page_that_unfolds_more_than_pages_do_is_refused(bundle: Path) -> None:
    packed = zipped(bundle)
    text = (bundle / "graph.json").read_bytes() + b" " * (20 << 20)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("graph.json", text)
        archive.writestr("graph.sha256", f"{hashlib.sha256(text).hexdigest()}  graph.json\n")
    refused(packed, "bundle-unsafe", "a zip bomb")


def test_a_zip_with_any_byte_of_its_directory_changed_is_read_or_refused(bundle: Path) -> None:
    packed = zipped(bundle)
    data = packed.read_bytes()
    outcomes = set()
    for place in range(data.index(b"PK\x01\x02"), len(data)):
        for byte in (0, 0xFF, data[place] ^ 0x55):
            packed.write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
            try:
                Bundle(packed)
            except ClewError as error:
                outcomes.add(error.slug)
    assert outcomes <= {"bundle-damaged", "bundle-unsafe", "not-a-bundle"}


def test_a_member_larger_than_it_says_is_refused(bundle: Path) -> None:
    """The zip says one size and unfolds to another."""
    packed = bundle.parent / "lying.zip"
    reseal(bundle, lambda page: page["files"]["assets/0/data.txt"].update(size=2))
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in bundle.rglob("*"):
            archive.write(file, str(file.relative_to(bundle)))
    _say_size(packed, b"assets/0/data.txt", 2)
    refused(packed, "bundle-damaged", "data.txt")


def test_folders_deeper_than_python_can_call_are_refused_like_others(bundle: Path) -> None:
    deepest = os.open(bundle, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("a", dir_fd=deepest)
        inner = os.open("a", os.O_RDONLY, dir_fd=deepest)
        os.close(deepest)
        deepest = inner
    os.close(os.open("stray", os.O_CREAT | os.O_WRONLY, dir_fd=deepest))
    os.close(deepest)
    with pytest.raises(clew.ClewError, match="does not belong to it"):
        clew.load(bundle, trusted=True)
    subprocess.run(["rm", "-r", bundle / "a"], check=True)  # Python of its own cannot


def test_code_is_run_as_it_was_checked_though_the_file_is_another_by_then(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = trust.check

    def meanwhile(*args: Any) -> None:
        checked(*args)
        (bundle / "code" / "ops.py").write_text("open('ran', 'w')")

    monkeypatch.setattr(layout, "_SMALL", 0)  # as if it were a large file
    monkeypatch.setattr(trust, "check", meanwhile)
    (bundle.parent / "armed").unlink()
    assert clew.load(bundle, trusted=True)(x=1) == 5
    assert not (bundle.parent / "ran").exists()


def test_files_of_the_users_are_not_held_in_memory(bundle: Path) -> None:
    assert set(layout.Bundle(bundle)._kept) == {"code/ops.py"}


def test_two_members_of_one_name_are_refused(bundle: Path) -> None:
    packed = zipped(bundle)
    with zipfile.ZipFile(packed, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("code/ops.py", "evil")
    refused(packed, "bundle-unsafe", "twice")


def _say_size(packed: Path, name: bytes, size: int) -> None:
    """Write another size into the directory of a zip."""
    data = bytearray(packed.read_bytes())
    at = data.rindex(name) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    data[at + 24 : at + 28] = size.to_bytes(4, "little")
    packed.write_bytes(data)


def zipped(bundle: Path) -> Path:
    packed = bundle.parent / "packed.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted(bundle.rglob("*")):
            archive.write(file, str(file.relative_to(bundle)))
    return packed


# ---- trust


def test_without_a_word_of_trust_it_says_what_would_run(bundle: Path) -> None:
    refused(bundle, "bundle-trust", "the code of ops; the constructors of Reader; the operators Reader", trusted=False)
    with pytest.raises(clew.ClewError) as caught:
        clew.load(bundle)
    assert caught.value.slug == "bundle-trust"


@pytest.mark.parametrize("trusted", [1, [1], object()])
def test_a_word_of_trust_that_makes_no_sense_is_not_the_bundles_fault(bundle: Path, trusted: Any) -> None:
    refused(bundle, "bad-option", "trusted= cannot be a", trusted=trusted)


def test_an_empty_word_is_no_word_of_trust(bundle: Path) -> None:
    reseal(bundle, plain)
    refused(bundle, "bundle-trust", "nobody has said that it may run", trusted="")
    refused(bundle, "bundle-trust", "nobody has said that it may run", trusted=[""])


def plain(page: Any) -> None:
    """Nothing but an operation of Python's."""
    step(page).update(kind="python", target="neg", args=[1])
    page.update(operators=[], objects=[], modules={}, assets=[])


def test_what_would_run_is_told_wherever_it_stands_and_is_not_hidden_behind_others(bundle: Path) -> None:
    def hidden(page: Any) -> None:
        many = [
            {"$": "named", "name": f"math:{name}"} for name in ("sin", "cos", "tan", "exp", "log", "pow", "e", "pi")
        ]
        part = {"$": "part", "module": "ops", "name": "quiet", "file": "code/ops.py", "held": {}}
        items = [*many, attack("os:system"), part, {"$": "path", "text": "/etc/passwd"}]
        page.update(attrs={"$": "dict", "items": [["x", items]]})
        step(page).update(kind="attribute", target="__globals__")

    reseal(bundle, hidden)
    for told in ("functions of libraries: os:system,", "the functions quiet", "__globals__, /etc/passwd"):
        refused(bundle, "bundle-trust", told, trusted=False)


@pytest.mark.parametrize("name", ["evil\x1b[2J", "fine\nand harmless", "\u202egnp.exe", "a\rb"])
def test_what_a_bundle_calls_itself_cannot_act_on_the_reader(bundle: Path, name: str) -> None:
    reseal(bundle, lambda page: page["operators"][0].update(name=name))
    with pytest.raises(clew.ClewError) as caught:
        clew.load(bundle)
    assert str(caught.value).isprintable()
    reseal(bundle, lambda page: page["files"].update({f"assets/{name}": {"size": 1, "sha256": "0"}}))
    with pytest.raises(clew.ClewError, match="is missing") as caught:
        clew.load(bundle)
    assert str(caught.value).isprintable()


def test_names_of_modules_are_enough(bundle: Path) -> None:
    assert clew.load(bundle, trusted=["ops"])(x=1) == 5


def test_other_names_are_not(bundle: Path) -> None:
    refused(bundle, "bundle-trust", "what trusted= does not name: ops", trusted=["op", "Reader"])
    refused(bundle, "bundle-trust", trusted=[])


def test_the_digest_of_a_bundle_is_enough_and_is_no_other_bundles(bundle: Path) -> None:
    digest = hashlib.sha256((bundle / "graph.json").read_bytes()).hexdigest()
    assert clew.load(bundle, trusted=digest)(x=1) == 5
    (bundle.parent / "ran").unlink()
    reseal(bundle, lambda page: page.update(name="other"))
    refused(bundle, "bundle-trust", trusted=digest)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "numpy:load",
        "subprocess:run",
        "pandas:read_pickle",
        "types:FunctionType",
        "types:CodeType",
        "numpy:genfromtxt",
        "pandas:HDFStore",
        "pandas:ExcelWriter",
        "scipy.io:mmwrite",
        "sklearn.datasets:fetch_openml",
    ],
)
def test_names_of_modules_do_not_cover_functions_that_do_more_than_compute(bundle: Path, name: str) -> None:
    reseal(bundle, lambda page: step(page).update(kind="function", target=name, args=["true"]))
    refused(bundle, "bundle-trust", name, trusted=["ops"])


def test_names_of_modules_do_not_cover_the_inside_of_objects(bundle: Path) -> None:
    reseal(bundle, lambda page: step(page).update(kind="attribute", target="__class__"))
    refused(bundle, "bundle-trust", "__class__", trusted=["ops"])


def test_what_leads_to_itself_is_drawn_or_refused_and_ends(bundle: Path) -> None:
    def turned(page: Any) -> None:
        page["objects"] = [{"$": "object", "number": 0}]
        page["operators"][0]["target"] = {"$": "object", "number": 0}

    reseal(bundle, turned)
    assert untrusted_view.sketched(layout.Bundle(bundle)).drawing()["nodes"]
    refused(bundle, "bundle-damaged", "needed to make itself")
    assert summary.described(layout.Bundle(bundle))["operators"][0]["what"] == "?"


def test_nothing_in_a_bundle_grants_trust(bundle: Path) -> None:
    reseal(bundle, lambda page: page.update(attrs={"$": "dict", "items": [["trusted", True]]}))
    refused(bundle, "bundle-trust", trusted=False)


def attack(name: str) -> dict[str, Any]:
    """A value that runs a command when it is made."""
    return {"$": "reduced", "type": "x", "call": {"$": "named", "name": name}, "args": ["touch ran"]}


@pytest.mark.parametrize(
    "change",
    [
        lambda page: page.update(attrs={"$": "dict", "items": [["x", attack("os:system")]]}),
        lambda page: step(page).update(args=[attack("dataclasses:_create_fn")]),
        lambda page: step(page).update(args=[attack("numpy:lib._npyio_impl.os.system")]),
        lambda page: step(page).update(args=[{"$": "named", "name": "numpy:"}]),
        lambda page: step(page).update(args=[method({"$": "named", "name": "numpy:"}, "load")]),
        lambda page: step(page).update(args=[method(method({"$": "named", "name": "re:Pattern"}, "x"), "y")]),
        lambda page: step(page).update(kind="python", target="getattr", args=["x", "__class__"]),
        lambda page: step(page).update(kind="python", target="getattr", args=["x", {"$": "ref", "id": 0}]),
    ],
)
def test_names_of_modules_cover_no_way_round(bundle: Path, change: Callable[[Any], None]) -> None:
    reseal(bundle, change)
    refused(bundle, "bundle-trust", trusted=["ops"])


@pytest.mark.parametrize("name", ["json:codecs.open", "dataclasses:inspect.os.system"])
def test_a_name_does_not_lead_through_a_module_into_another_library(bundle: Path, name: str) -> None:
    reseal(bundle, lambda page: step(page).update(args=[attack(name)]))
    refused(bundle, "bundle-trust", name, trusted=["ops"])
    refused(bundle, "bundle-unknown", "is a module of its own", trusted=["ops", name])
    refused(bundle, "bundle-unknown", "is a module of its own", trusted=True)


def method(owner: Any, name: str) -> dict[str, Any]:
    return {"$": "method", "self": owner, "name": name}


# ---- sealed again, with anything in it


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda page: step(page).update(id="0 = open('ran', 'w')"), r"events\[0\].step.id is no number"),
        (lambda page: step(page).update(args=[{"$": "build", "kind": "open", "items": ["ran", "w"]}]), "container"),
        (lambda page: page["block"]["events"].append({"guard": length("open('ran', 'w')")}), "guard.expected"),
        (lambda page: page["block"].update(output={"$": "ref", "id": 77}), "refers to value 77"),
        (lambda page: page["inputs"][0].update(name="x y"), r"inputs\[0\].name is no Python name"),
        (lambda page: page.update(settings={"parallel": "all"}), "settings.parallel is no number"),
        (lambda page: page["modules"]["ops"].update(package=1), "modules.ops.package is no true or false"),
        (lambda page: step(page).update(args=[{"$": "object", "number": 99}]), "no such object"),
        (
            lambda page: step(page).update(args=[{"$": "dict", "items": [[{"$": "dict", "items": []}, 1]]}]),
            "unhashable",
        ),
    ],
)
def test_a_page_that_was_changed_and_sealed_again_is_refused(bundle: Path, change: Any, where: str) -> None:
    reseal(bundle, change)
    with pytest.raises(clew.ClewError, match=where) as caught:
        clew.load(bundle, trusted=True)
    assert caught.value.slug in ("bundle-damaged", "bundle-unknown")


def length(expected: Any) -> dict[str, Any]:
    return {"kind": "length", "ref": 0, "expected": expected, "where": ["x.py", 1], "condition": "len(x)"}


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every part of a page."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*way, key)
        yield from places(one, (*way, key))


@pytest.mark.parametrize("other", [None, "", -1, [], {"$": "object", "number": 0}])
def test_whatever_is_in_a_page_it_loads_or_the_error_is_clews(bundle: Path, other: Any) -> None:
    page = json.loads((bundle / "graph.json").read_text())
    for *way, last in places(page):

        def change(changed: Any, way: list[Any] = way, last: Any = last) -> None:
            for key in way:
                changed = changed[key]
            changed[last] = other

        reseal(bundle, change)
        try:
            clew.load(bundle, trusted=True)
        except clew.ClewError:
            pass
        (bundle / "graph.json").write_text(json.dumps(page))


@pytest.mark.parametrize("text", ["def Reader(", "raise OSError('no Reader')", "class Reader: pass"])
def test_code_that_does_not_run_is_told_as_such(bundle: Path, text: str) -> None:
    (bundle / "code" / "ops.py").write_text(text)
    said = {"size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    reseal(bundle, lambda page: page["files"].update({"code/ops.py": said}))
    with pytest.raises(clew.ClewError, match=r"the code of ops raised|the constructor of Reader raised") as caught:
        clew.load(bundle, trusted=True)
    assert caught.value.slug == "bundle-remake"
    assert caught.value.__cause__ is not None


def test_no_pickle_is_in_a_bundle(bundle: Path) -> None:
    files = json.loads((bundle / "graph.json").read_text())["files"]
    assert {Path(name).suffix for name in files} <= {".py", ".txt", ".md", ".safetensors"}
