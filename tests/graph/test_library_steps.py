"""What libraries make of an input is made again for another: of fifty other inputs none is answered wrongly."""

from __future__ import annotations

import copy
import csv
import datetime
import functools
import io
import json
import pickle
import random
import re
import sqlite3
import tempfile
import time
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.commands.main import main
from clew.errors import GraphError, GuardError
from clew.graph.bundle import fingerprints
from clew.graph.bundle.notices import BundleWarning
from clew.graph.recording.session import ConstantWarning

WORDS = ["a", "the", "rose", "cat", "sat", "on", "zebra", "12"]
COUNT = 50


def _text(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 7)))


def _row(chance: random.Random) -> list[float]:
    return [chance.gauss(0, 1) for _ in range(3)]


def _rows(chance: random.Random) -> list[list[float]]:
    return [_row(chance) for _ in range(chance.randint(3, 6))]


def _equal(a: Any, b: Any) -> bool:
    return bool(fingerprints.fingerprint(a) == fingerprints.fingerprint(b))


def checked(pipeline: Callable[..., Any], make: Callable[[random.Random], Any], graph: Any = None) -> int:
    """How many of fifty other inputs a graph answers as its pipeline does. All others it refuses."""
    chance = random.Random(1)
    example = make(chance)
    graph = clew.record(pipeline, [copy.deepcopy(example)]) if graph is None else graph
    equal = 0
    for _ in range(COUNT):
        given = make(chance)
        try:
            got = graph(copy.deepcopy(given))
        except GuardError:
            continue
        assert _equal(got, pipeline(copy.deepcopy(given))), f"{given!r}\n{graph.source}"
        equal += 1
    return equal


def patterns(text: Any) -> Any:
    return re.findall(r"\w+", text), re.sub("a", "b", text), re.split(r"\s", text)


def as_json(text: Any) -> Any:
    return json.dumps({"t": text, "n": len(text.split())}), json.loads('"%s"' % text)


def pickled(text: Any) -> Any:
    return pickle.loads(pickle.dumps({"t": text}))


def table(text: Any) -> Any:
    page = io.StringIO()
    csv.writer(page).writerow(text.split())
    return page.getvalue(), list(csv.reader(io.StringIO(text)))


def printed(text: Any) -> Any:
    page = io.StringIO()
    print(text, "end", file=page)
    json.dump(text, page)
    return page.getvalue()


def tree(text: Any) -> Any:
    root = ElementTree.Element("r")
    ElementTree.SubElement(root, "c").text = text
    return ElementTree.tostring(root), ElementTree.fromstring(f"<a><b>{text}</b></a>").findtext("b")


def message(text: Any) -> Any:
    mail = EmailMessage()
    mail["Subject"] = text
    return mail.as_string()


def rows_of_a_database(text: Any) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (w text)")
    connection.execute("insert into t values (?)", (text,))
    found = connection.execute("select count(*), max(w) from t").fetchone()
    connection.close()
    return found


def in_a_file(text: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.txt"
        file.write_text(text)
        return file.read_text().split(), file.stat().st_size


def seeded(text: Any) -> Any:
    random.seed(text)
    own = random.Random(text)
    return random.random(), random.choice([1, 2, 3]), own.random(), own.sample(range(9), 2)


def identified(text: Any) -> Any:
    return uuid.uuid5(uuid.NAMESPACE_DNS, text).hex, time.strftime("%Y", time.gmtime(len(text) * 10**8))


def dated(text: Any) -> Any:
    day = datetime.date(2020, 1, 1) + datetime.timedelta(days=len(text))
    return day.isoformat(), day.weekday(), datetime.timedelta(days=1) * len(text)


@pytest.mark.parametrize(
    "pipeline",
    [
        patterns,
        as_json,
        pickled,
        table,
        printed,
        tree,
        message,
        rows_of_a_database,
        in_a_file,
        seeded,
        identified,
        dated,
    ],
)
def test_the_standard_library_is_asked_again(pipeline: Callable[..., Any]) -> None:
    assert checked(pipeline, _text) == COUNT


def test_an_object_that_the_pipeline_makes_and_changes_is_made_anew() -> None:
    def pipeline(text: Any) -> Any:
        root = ElementTree.Element("r")
        root.set("first", "yes")
        ElementTree.SubElement(root, text.split()[0])
        return len(root), ElementTree.tostring(root)

    assert checked(pipeline, _text) == COUNT


def test_the_clock_is_asked_again() -> None:
    graph = clew.record(lambda x: (x, time.time(), datetime.datetime.now(), uuid.uuid4()), 1)
    before = time.time()
    one, other = graph(2), graph(2)
    assert one[0] == 2
    assert before <= one[1] <= other[1] <= time.time()
    assert one[2] <= other[2]
    assert one[3] != other[3]


def test_a_clock_whose_time_nobody_uses_is_left_out() -> None:
    def pipeline(text: Any) -> Any:
        began = time.perf_counter()
        result = text.upper()
        print(time.perf_counter() - began)
        return result

    assert [step.target for step in clew.record(pipeline, "a").steps] == ["upper"]


def test_redirected_output_is_refused_by_name() -> None:
    import contextlib

    def pipeline(text: Any) -> Any:
        page = io.StringIO()
        with contextlib.redirect_stdout(page):
            print(text)
        return page.getvalue()

    with pytest.raises(GraphError, match=r"redirect_stdout\(\) catches what is printed"):
        clew.record(pipeline, "a")


# ---- pandas, scikit-learn, Pillow, tokenizers ------------------------------------------------------------------------


def test_estimators_are_asked_again_and_fitted_again() -> None:
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import LabelEncoder, StandardScaler

    rows = _rows(random.Random(5))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, [index % 2 for index in range(len(rows))])
    scaler = StandardScaler().fit(rows)

    def in_parts(rows: Any) -> Any:
        own = StandardScaler()
        own.partial_fit(rows[:2])
        own.partial_fit(rows[2:])
        return own.mean_, own.n_samples_seen_

    def encoded(text: Any) -> Any:
        encoder = LabelEncoder()
        return encoder.fit_transform(text.split()), encoder.classes_

    assert checked(lambda row: model.predict_proba([row]), _row) == COUNT
    assert checked(lambda row: scaler.transform([row])[0, 0], _row) == COUNT
    assert checked(lambda rows: StandardScaler().fit_transform(rows), _rows) == COUNT
    assert checked(lambda rows: clone(scaler).fit(rows).mean_, _rows) == COUNT
    assert checked(lambda rows: make_pipeline(StandardScaler()).fit_transform(rows), _rows) == COUNT
    assert checked(in_parts, _rows) == COUNT
    assert checked(encoded, _text) == COUNT


def test_contexts_of_libraries_are_entered_again() -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(_rows(random.Random(5)))

    def pipeline(row: Any) -> Any:
        with sklearn.config_context(transform_output="pandas"):
            return scaler.transform([row])

    assert checked(pipeline, _row) == COUNT
    assert sklearn.get_config()["transform_output"] == "default"


def test_a_series_of_the_module_is_multiplied_by_an_input() -> None:
    pandas = pytest.importorskip("pandas")
    weights = pandas.Series({"a": 1.0, "b": 2.0})
    assert checked(lambda row: (weights * row[0]).to_dict(), _row) == COUNT
    assert checked(lambda row: (weights > row[0]).tolist(), _row) == COUNT


def test_images_are_made_again() -> None:
    numpy = pytest.importorskip("numpy")
    image = pytest.importorskip("PIL.Image")

    def make(chance: random.Random) -> Any:
        pixels = numpy.random.default_rng(chance.randint(0, 10**6)).integers(0, 255, (8, 8, 3), dtype=numpy.uint8)
        return image.fromarray(pixels)

    def pipeline(picture: Any) -> Any:
        from PIL import ImageOps

        canvas = image.new("RGB", (10, 10))
        canvas.paste(picture, (1, 1))
        return numpy.asarray(ImageOps.grayscale(canvas.resize((4, 4)))), picture.size

    assert checked(pipeline, make) == COUNT


@functools.cache
def _tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.WordLevelTrainer(special_tokens=["[UNK]", "[PAD]"])
    made.train_from_iterator(["a rose is a rose", "the cat sat"], trainer)
    return made


def test_a_tokenizer_is_asked_again(tmp_path: Path) -> None:
    tokenizer = _tokenizer()
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))

    def loaded_inside(text: Any) -> Any:
        return type(tokenizer).from_file(str(file)).encode(text).ids

    def changed_inside(text: Any) -> Any:
        own = type(tokenizer).from_file(str(file))
        own.enable_truncation(2)
        return own.encode(text).ids

    def padded(text: Any) -> Any:
        encoding = tokenizer.encode(text)
        encoding.pad(8, pad_token="[PAD]")
        return encoding.ids, encoding.attention_mask

    for pipeline in (lambda text: tokenizer.encode(text).ids, loaded_inside, changed_inside, padded):
        assert checked(pipeline, _text) == COUNT
    graph = clew.record(loaded_inside, "a cat")
    file.unlink()  # it was read when the graph was recorded, and what was made of it is a constant
    assert graph("the rose") == tokenizer.encode("the rose").ids
    assert [(note.kind, note.name) for note in graph.notes] == [("constant", "tokenizers.Tokenizer.from_file")]


def test_a_tokenizer_of_transformers_is_asked_again_also_in_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(), unk_token="[UNK]", pad_token="[PAD]"
    )

    def pipeline(text: Any) -> Any:
        encoding = tokenizer(text, truncation=True, max_length=4, padding="max_length")
        return dict(encoding), tokenizer.decode(tokenizer.encode(text)), tokenizer.pad_token_id

    graph = clew.record(pipeline, "a cat")
    assert checked(pipeline, _text, graph) == COUNT
    graph.save(tmp_path / "bundle")
    assert checked(pipeline, _text, clew.load(tmp_path / "bundle", trusted=True)) == COUNT


# ---- what is a constant all the same ---------------------------------------------------------------------------------


def test_inspect_lists_constants_that_were_computed_and_saving_repeats_the_warning(tmp_path: Path, capsys: Any) -> None:
    import platform

    def pipeline(text: Any) -> Any:
        return pickle.loads(pickle.dumps(text)), platform.system()

    with pytest.warns(ConstantWarning):
        graph = clew.record(pipeline, "a", library="constant")
    with pytest.warns(
        BundleWarning, match=r"what dumps\(\) gave .* is a constant of the bundle: it depends on an input"
    ):
        graph.save(tmp_path / "bundle")
    assert main(["inspect", str(tmp_path / "bundle")]) == 0
    said = capsys.readouterr().out
    assert "constants that were computed while it was recorded" in said
    assert "dumps() = b" in said
    assert f"platform.system() = {platform.system()!r}" in said
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    assert loaded.notes == graph.notes
    assert "platform.system()" in loaded.show()


@pytest.mark.filterwarnings("ignore::clew.graph.bundle.notices.BundleWarning")  # of other tests' modules
def test_a_function_that_is_one_step_because_of_its_decorator_is_reported(tmp_path: Path, capsys: Any) -> None:
    torch = pytest.importorskip("torch")

    @torch.no_grad()
    def doubled(x: Any) -> Any:
        return x * 2

    graph = clew.record(lambda x: doubled(x + 1), 3)
    assert [note.kind for note in graph.notes] == ["one step"]
    assert "doubled(), test_library_steps.py" in graph.show()
    assert "its decorator belongs to a library, so that the whole function is one step" in graph.show()
    graph.save(tmp_path / "bundle", test=False)
    assert main(["inspect", str(tmp_path / "bundle")]) == 0
    assert "functions that are one step" in capsys.readouterr().out


def test_notes_of_a_page_that_was_changed_are_looked_at(tmp_path: Path) -> None:
    from .bundling import reseal

    clew.record(lambda x: x + 1, 3).save(tmp_path / "bundle")
    for wrong in ([["constant", "f"]], [["other", "f", ["a.py", 1], ""]], [["constant", "f", ["a.py", "1"], ""]], "x"):

        def change(page: dict[str, Any], wrong: Any = wrong) -> None:
            page["notes"] = wrong

        reseal(tmp_path / "bundle", change)
        with pytest.raises(clew.ClewError) as caught:
            clew.load(tmp_path / "bundle", trusted=True)
        assert caught.value.slug == "bundle-damaged"


def test_a_file_that_the_pipeline_itself_reads_comes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text('{"k": 3}')
    Path("table.csv").write_text("c,w\na,1\nb,2\n")

    def pipeline(n: Any) -> Any:
        with open("config.json") as file:
            config = json.load(file)
        return n * config["k"] + pandas.read_csv("table.csv")["w"].sum()

    clew.record(pipeline, 2).save("bundle")
    loaded = clew.load("bundle", trusted=True)
    loaded.save("again")
    Path("config.json").write_text('{"k": 99}')
    Path("table.csv").unlink()
    assert loaded(4) == 15
    assert clew.load("again", trusted=True)(4) == 15


def test_a_file_that_the_pipeline_writes_does_not_come_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def pipeline(text: Any) -> Any:
        with open("out.txt", "w") as file:
            file.write(text)
        return text.upper()

    clew.record(pipeline, "a").save("bundle")
    assert not Path("bundle", "assets").exists()
    assert clew.load("bundle", trusted=True)("b") == "B"
    assert Path("out.txt").read_text() == "b"
