"""graph.save tests what it has written: in a fresh process, in an empty folder, without the project."""

from __future__ import annotations

import decimal
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.commands.main import main
from clew.graph.bundle import fingerprints, library_settings, selftest
from clew.graph.bundle.layout import Bundle

from .bundling import project, reseal, write

__all__ = ["project"]


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_SELFTEST", "1")


@pytest.fixture
def app(project: Path) -> Any:
    """A module of operators, and some that a bundle cannot do again."""
    text = """
        import os, random, sys, time
        import clew

        @clew.op
        def double(x):
            return x * 2

        @clew.op
        def plus_random(x):
            return x + random.random()

        @clew.op
        def plus_time(x):
            return x + time.perf_counter_ns()

        @clew.op(side_effects=True)
        def logged(x):
            with open("log.txt", "a") as file:
                file.write("one line\\n")
            return x

        @clew.op
        def from_environment(x):
            return os.getcwd()

        @clew.op
        def from_frames(x):
            return x + len(sys.modules["app"].__name__)

        @clew.op
        def appended(items):
            items.append(1)
            return len(items)

        @clew.op
        class Counter:
            def __init__(self):
                self.count = 0

            def __call__(self, x):
                self.count += 1
                return x + self.count

        counter = Counter()
    """
    write(project, {"app.py": text})
    return importlib.import_module("app")


def failure(graph: Any, target: Path) -> clew.ClewError:
    with pytest.raises(clew.ClewError) as caught:
        graph.save(target)
    assert caught.value.slug == "bundle-test"
    return caught.value


def test_a_bundle_that_gives_the_same_is_saved_with_its_examples(app: Any, tmp_path: Path) -> None:
    clew.record(lambda x: app.double(x) + 1, [3, 5]).save(tmp_path / "bundle")
    kept = json.loads((tmp_path / "bundle" / "examples.json").read_text())["examples"]
    assert [example["inputs"] for example in kept] == [[["x", 3]], [["x", 5]]]
    assert selftest.check(Bundle(tmp_path / "bundle")) == 2


def test_a_zip_is_tested_too(app: Any, tmp_path: Path) -> None:
    clew.record(lambda x: app.double(x), 3).save(tmp_path / "bundle.zip")
    assert selftest.check(Bundle(tmp_path / "bundle.zip")) == 1
    failure(clew.record(lambda x: app.plus_random(x), 3), tmp_path / "other.zip")
    assert not (tmp_path / "other.zip").exists()


@pytest.mark.parametrize("name", ["plus_random", "plus_time"])
def test_a_step_that_differs_each_time_is_named_with_the_remedy(name: str, app: Any, tmp_path: Path) -> None:
    error = failure(clew.record(lambda x: getattr(app, name)(app.double(x)) + 1, 3), tmp_path / "bundle")
    assert f"({name})" in str(error)
    assert "run to run" in str(error)
    assert "test=False" in str(error)
    assert "side_effects=True" in str(error)


def test_the_first_step_that_differs_is_named(app: Any, tmp_path: Path) -> None:
    error = failure(clew.record(lambda x: len(app.from_environment(app.double(x))) + 1, 3), tmp_path / "bundle")
    assert "(from_environment)" in str(error)
    assert "run to run" not in str(error)


def test_code_that_needs_the_project_is_found_out(app: Any, tmp_path: Path) -> None:
    error = failure(clew.record(lambda x: app.from_frames(x), 3), tmp_path / "bundle")
    assert "error KeyError" in str(error)


def test_an_earlier_bundle_stays_when_the_test_fails(app: Any, tmp_path: Path) -> None:
    clew.record(lambda x: app.double(x), 3).save(tmp_path / "bundle")
    failure(clew.record(lambda x: app.plus_random(x), 3), tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=4) == 8
    assert [path.name for path in tmp_path.glob("*bundle*")] == ["bundle"]


def test_without_the_test_anything_is_saved_and_no_example_kept(app: Any, tmp_path: Path) -> None:
    clew.record(lambda x: app.plus_random(x), 3).save(tmp_path / "bundle", test=False)
    assert not (tmp_path / "bundle" / "examples.json").exists()


def test_a_step_with_side_effects_is_not_done_for_the_test(app: Any, project: Path, tmp_path: Path) -> None:
    graph = clew.record(lambda x: app.logged(app.double(x)), 3)
    graph.save(tmp_path / "bundle")
    assert (project / "log.txt").read_text() == "one line\n"  # when it was recorded


def test_an_input_that_the_pipeline_changes_is_kept_as_it_was_given(app: Any, tmp_path: Path) -> None:
    items = [1, 2]
    graph = clew.record(lambda items: app.appended(items), items=items)
    graph.save(tmp_path / "bundle")
    kept = json.loads((tmp_path / "bundle" / "examples.json").read_text())["examples"]
    assert kept[0]["inputs"] == [["items", [1, 2]]]


def test_an_operator_that_counts_goes_on_from_where_it_was(app: Any, tmp_path: Path) -> None:
    clew.record(lambda x: app.counter(x), [3, 5]).save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=0) == 3


def test_the_random_generators_of_the_program_stay_where_they_are(app: Any, tmp_path: Path) -> None:
    import random

    random.seed(1)
    expected = random.random()
    random.seed(1)
    clew.record(lambda x: app.double(x), 3).save(tmp_path / "bundle")
    assert random.random() == expected


def test_an_example_that_cannot_be_copied_is_told(app: Any, tmp_path: Path) -> None:
    graph = clew.record(lambda lines: len(list(lines)), lines=(line for line in "ab"))
    with pytest.warns(UserWarning, match="is not tested with it"):
        graph.save(tmp_path / "bundle")


def test_a_loaded_graph_is_tested_again_when_it_is_saved(app: Any, tmp_path: Path) -> None:
    clew.record(lambda x: app.double(x), [3, 5]).save(tmp_path / "one")
    clew.load(tmp_path / "one", trusted=True).save(tmp_path / "two")
    assert selftest.check(Bundle(tmp_path / "two")) == 2


def test_inspect_tests_a_bundle_that_is_trusted(app: Any, tmp_path: Path, capsys: Any) -> None:
    clew.record(lambda x: app.double(x), [3, 5]).save(tmp_path / "bundle")
    assert main(["inspect", "--test", "--trusted", str(tmp_path / "bundle")]) == 0
    assert "2 examples" in capsys.readouterr().out


def test_inspect_runs_nothing_without_a_word(app: Any, tmp_path: Path, capsys: Any) -> None:
    clew.record(lambda x: app.double(x), 3).save(tmp_path / "bundle")
    assert main(["inspect", "--test", str(tmp_path / "bundle")]) != 0
    assert "--trusted" in capsys.readouterr().err


def test_inspect_finds_a_bundle_that_gives_something_else(app: Any, tmp_path: Path, capsys: Any) -> None:
    clew.record(lambda x: app.double(x) + 1, 3).save(tmp_path / "bundle")

    def change(page: dict[str, Any]) -> None:
        page["block"]["events"][1]["step"]["args"][1] = 2

    reseal(tmp_path / "bundle", change)
    assert main(["inspect", "--test", "--trusted", str(tmp_path / "bundle")]) != 0
    assert "(add)" in capsys.readouterr().err


def test_forged_examples_are_refused(app: Any, tmp_path: Path) -> None:
    clew.record(lambda x: app.double(x), 3).save(tmp_path / "bundle")
    for text in ("[]", "{}", '{"objects": [], "examples": [{"inputs": [["x", {"$": "object", "number": 7}]]}]}'):
        (tmp_path / "bundle" / "examples.json").write_text(text)
        data = text.encode()

        def change(page: dict[str, Any], data: bytes = data) -> None:
            import hashlib

            page["files"]["examples.json"] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}

        reseal(tmp_path / "bundle", change)
        with pytest.raises(clew.ClewError) as caught:
            selftest.check(Bundle(tmp_path / "bundle"))
        assert caught.value.slug == "bundle-damaged"


def test_a_file_that_is_an_input_is_found_by_the_test(app: Any, project: Path, tmp_path: Path) -> None:
    write(project, {"data/words.txt": "one two", "reads.py": READING})
    reading = importlib.import_module("reads")
    clew.record(lambda path: reading.words(path), "data/words.txt").save(tmp_path / "bundle")
    assert selftest.check(Bundle(tmp_path / "bundle")) == 1
    (project / "data" / "words.txt").unlink()
    assert selftest.check(Bundle(tmp_path / "bundle")) == 0  # it is not in the bundle


READING = """
import clew

@clew.op
def words(path):
    with open(path) as file:
        return file.read().split()
"""


def test_what_is_wrong_inside_a_container_is_shown(app: Any, tmp_path: Path) -> None:
    graph = clew.record(lambda x: {"a": app.double(x), "b": [1, app.double(x)]}, 3)
    graph.save(tmp_path / "bundle")
    page = json.loads((tmp_path / "bundle" / "examples.json").read_text())
    steps = page["examples"][0]["steps"]
    expected, got = steps[-1][3], json.loads(json.dumps(steps[-1][3]))
    got[1][1][1][1][1] = ["plain", "7"]
    shown = [fingerprints.shown(one) for one in fingerprints.narrowed(expected, got, tolerant=False)]
    assert shown == ["6", "7"]


@pytest.mark.parametrize("number", [1.0, [1.0, 2.0], {"a": (1.0,)}], ids=str)
def test_numbers_are_compared_bit_for_bit_until_a_tensor_comes_up(number: Any) -> None:
    a = fingerprints.fingerprint(number)
    b = json.loads(json.dumps(a).replace((1.0).hex(), (1.0 + 1e-9).hex()))
    assert not fingerprints.equal(a, b, tolerant=False)
    assert fingerprints.equal(a, b, tolerant=True)
    far = json.loads(json.dumps(a).replace((1.0).hex(), (1.1).hex()))
    assert not fingerprints.equal(a, far, tolerant=True)


def test_an_address_in_a_text_says_nothing() -> None:
    made = ["error", "UnidentifiedImageError: no image <_io.BytesIO object at 0x7f091c3f3970>"]
    assert fingerprints.equal(made, ["error", made[1].replace("0x7f091c3f3970", "0x7f487405f7e0")], tolerant=False)
    assert not fingerprints.equal(made, ["error", made[1].replace("BytesIO", "StringIO")], tolerant=False)
    colors = [fingerprints.fingerprint(f"color 0x7f091{digit}") for digit in "cd"]
    assert not fingerprints.equal(*colors, tolerant=False)


def test_a_fingerprint_does_not_depend_on_the_order_of_a_set() -> None:
    words = [f"word {number}" for number in range(50)]
    assert fingerprints.fingerprint(set(words)) == fingerprints.fingerprint(set(reversed(words)))


@pytest.mark.filterwarnings("ignore:.* opens a file when it is imported")  # test modules that come along
def test_a_dictionary_that_goes_through_a_set_of_texts_is_equal_in_any_order(tmp_path: Path) -> None:
    graph = clew.record(lambda text: {word: text.count(word) for word in set(text.split())}, "a b c d e f g h i j k l")
    graph.save(tmp_path / "bundle")
    one, other = {"a": 1, "b": [2]}, {"b": [2], "a": 1}
    assert fingerprints.equal(fingerprints.fingerprint(one), fingerprints.fingerprint(other), False)
    assert not fingerprints.equal(fingerprints.fingerprint(one), fingerprints.fingerprint({**other, "b": [3]}), False)


def test_a_list_in_the_order_of_a_set_of_texts_is_refused_with_the_remedy(tmp_path: Path) -> None:
    error = failure(clew.record(lambda text: list(set(text.split())), "a b c d e f g h i j k l"), tmp_path / "bundle")
    assert "the same items in another order" in str(error)
    assert "sorted(...)" in str(error)


def test_an_array_is_known_by_its_bytes_its_kind_and_its_shape() -> None:
    numpy = pytest.importorskip("numpy")
    zeros = numpy.zeros((2, 3), "float32")
    others = [zeros.T, zeros.astype("float64"), zeros + 1e-30, numpy.zeros(6, "float32"), zeros.astype("int32")]
    assert all(fingerprints.fingerprint(other) != fingerprints.fingerprint(zeros) for other in others)
    large = numpy.arange(100_000.0)
    changed = large.copy()
    changed[77_777] += 1
    assert fingerprints.fingerprint(large) != fingerprints.fingerprint(changed)


def test_an_example_that_fails_by_now_is_told(app: Any, project: Path, tmp_path: Path) -> None:
    write(project, {"data/words.txt": "one two", "reads.py": READING})
    reading = importlib.import_module("reads")
    graph = clew.record(lambda path: reading.words(path), "data/words.txt")
    (project / "data" / "words.txt").unlink()
    with pytest.warns(UserWarning, match="fails by now"):
        graph.save(tmp_path / "bundle")


SLOW = """
import os, time
import clew

HOME = os.getcwd()

@clew.op
def slow_elsewhere(x):
    if os.getcwd() != HOME:
        time.sleep(600)
    return x
"""


def test_a_test_that_takes_too_long_is_ended_and_says_where_it_was(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, {"slow.py": SLOW.replace("os.getcwd()\n\n", f"{str(project)!r}\n\n")})
    slow = importlib.import_module("slow")
    graph = clew.record(lambda x: slow.slow_elsewhere(x + 1), 3)
    monkeypatch.setenv("CLEW_SELFTEST_TIMEOUT", "3")
    with pytest.raises(clew.ClewError, match=r"took longer than 3 seconds, and was ended") as caught:
        graph.save(tmp_path / "bundle")
    assert caught.value.slug == "bundle-test"
    assert re.search(r"ended (in step \d+ \(slow_elsewhere\), test_selftest.py:\d+|while)", str(caught.value))
    assert "CLEW_SELFTEST_TIMEOUT" in str(caught.value)
    assert not (tmp_path / "bundle").exists()


def test_the_time_of_a_test_is_an_option_too(app: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_run", lambda *args: None)  # it takes too long
    with pytest.raises(clew.ClewError, match=r"took longer than 2.5 seconds, and was ended while Python was starting"):
        clew.record(lambda x: app.double(x), 3).save(tmp_path / "bundle", test=2.5)


@pytest.mark.parametrize("test", [0, -1, "no"])
def test_a_time_that_is_none_is_refused(test: Any, app: Any, tmp_path: Path) -> None:
    with pytest.raises(clew.ClewError) as caught:
        clew.record(lambda x: app.double(x), 3).save(tmp_path / "bundle", test=test)
    assert caught.value.slug == "bad-option"


def test_state_that_two_share_and_a_bundle_tore_apart_is_found_out(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.graph.bundle.containers import Containers

    text = """
        import clew
        log = []
        seen = []

        @clew.op
        def put(x):
            log.append(x)
            return x

        @clew.op
        def count(x):
            return len(seen)
    """
    write(project, {"sharing.py": text})
    sharing = importlib.import_module("sharing")
    sharing.seen = sharing.log
    graph = clew.record(lambda x: sharing.count(sharing.put(x)), 3)
    monkeypatch.setattr(Containers, "met", lambda self, value: None)
    error = failure(graph, tmp_path / "bundle")
    assert "(count), test_selftest.py:" in str(error)
    monkeypatch.undo()
    monkeypatch.setenv("CLEW_SELFTEST", "1")
    graph.save(tmp_path / "bundle")


def test_what_goes_by_the_clock_is_not_compared_and_all_else_is(app: Any, tmp_path: Path) -> None:
    import time

    def pipeline(x: Any) -> Any:
        began = time.time()
        return {"double": app.double(x), "at": began, "later": began + x}

    clew.record(pipeline, 3).save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    before = time.time()
    assert loaded(x=4)["double"] == 8
    assert before <= loaded(x=4)["at"] <= time.time()

    def wrong(x: Any) -> Any:
        return time.time(), app.from_environment(x)

    assert "(from_environment)" in str(failure(clew.record(wrong, 3), tmp_path / "other"))


RECIPROCAL = """
import decimal
import clew

@clew.op
def reciprocal(x):
    return str(decimal.Decimal(1) / x)
"""


def test_a_setting_of_a_library_that_the_program_has_changed_is_told_when_saving(project: Path, tmp_path: Path) -> None:
    write(project, {"plain.py": RECIPROCAL})
    plain = importlib.import_module("plain")
    with decimal.localcontext(prec=6):
        graph = clew.record(lambda x: plain.reciprocal(x), 4)  # 0.25 with any precision
        with pytest.warns(UserWarning, match=r"decimal.getcontext\(\).prec is 6 here and 28 there"):
            graph.save(tmp_path / "bundle")


def test_a_setting_of_a_library_that_the_code_of_the_bundle_makes_is_not_told(project: Path, tmp_path: Path) -> None:
    write(project, {"precise.py": RECIPROCAL + "\ndecimal.getcontext().prec = 6\n"})
    with decimal.localcontext():
        precise = importlib.import_module("precise")
        clew.record(lambda x: precise.reciprocal(x), 4).save(tmp_path / "bundle")  # warnings are errors


def test_a_setting_of_a_library_that_only_one_of_two_processes_has_loaded_is_not_told() -> None:
    assert library_settings.notice({"a.b": "1", "c.d": "2"}, {"c.d": "2"}) is None
    assert "c.d is 2 here and 3 there" in str(library_settings.notice({"c.d": "2"}, {"a.b": "1", "c.d": "3"}))
