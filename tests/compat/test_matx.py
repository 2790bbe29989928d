"""The seed's own examples, and the names its users know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from clew.compat import matx
from clew.errors import GuardError, OptionError


class MyOperator:
    """The operator of the seed's document, with the files it reads."""

    def __init__(self, vocab_fn: str, model_name: str) -> None:
        self.vocab = Path(vocab_fn).read_text().split()
        self.model_name = model_name

    def __call__(self, input: Any) -> Any:
        return [self.vocab.index(word) for word in input.split()]


def test_the_pipeline_of_the_document_is_traced_and_run(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("query some words")
    op = matx.script(MyOperator)(str(tmp_path / "vocab.txt"), "bert1225")

    def pipeline(input: Any) -> Any:
        return op(input)

    mod = matx.trace(pipeline, "query")
    assert mod.run({"input": "words query"}) == [2, 0]
    assert mod.input_names == ["input"]
    assert mod.input_names() == ["input"]
    assert mod("some") == [1]


def test_a_function_is_scripted_and_called_in_a_pipeline() -> None:
    @matx.script
    def double(x: int) -> int:
        return x * 2

    module = matx.trace(lambda x: double(x) + 1, 3)
    assert module.run({"x": 5}) == 11


def test_what_a_third_party_library_gives_is_a_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / "webbed.py").write_text("CALLS = []\ndef get(url):\n    CALLS.append(url)\n    return 'page'\n")
    monkeypatch.syspath_prepend(str(place))
    import webbed  # type: ignore[import-not-found]

    @matx.script
    def join(a: Any, b: Any) -> Any:
        return f"{a}{b}"

    def pipeline(text: str) -> Any:
        return join(text, webbed.get("host"))

    module = matx.trace(pipeline, "a")
    assert module.run({"text": "b"}) == "bpage"
    assert webbed.CALLS == ["host"]


def test_another_branch_than_the_traced_one_is_an_error_and_no_wrong_answer() -> None:
    def pipeline(x: int) -> int:
        return x if x > 0 else -x

    module = matx.trace(pipeline, 3)
    assert module.run({"x": 4}) == 4
    with pytest.raises(GuardError):
        module.run({"x": -4})


def test_a_list_is_one_example() -> None:
    @matx.script
    def total(xs: list[int]) -> int:
        return sum(xs)

    assert matx.trace(lambda xs: total(xs), [1, 2]).run({"xs": [3, 4, 5]}) == 12


def test_parallel_maps_and_asynchronous_calls() -> None:
    @matx.script
    def double(x: int) -> int:
        return x * 2

    @matx.script
    def add(a: int, b: int) -> int:
        return a + b

    def pipeline(xs: Any, pairs: Any) -> Any:
        later = matx.apply_async(add, 1, 2)
        return matx.pmap(double, xs), matx.pstarmap(add, pairs), later.get() + later() - 3

    module = matx.trace(pipeline, [1], [(1, 2)])
    assert module.run({"xs": [1, 2, 3], "pairs": [(1, 1), (2, 2)]}) == ([2, 4, 6], [2, 4], 3)


def test_attributes_and_threads_are_saved(tmp_path: Path) -> None:
    def pipeline(x: Any, **more: Any) -> Any:
        return x, more["k"]

    module = matx.trace(pipeline, 1, k=2)
    module.set_sess_attr("model_name", "tiny")
    module.set_apply_async_threads(3)
    module.save(tmp_path / "saved")
    loaded = matx.load(tmp_path / "saved", -1)
    assert loaded.get_sess_attr("model_name") == "tiny"
    assert loaded.has_sess_attr("model_name")
    assert not loaded.has_sess_attr("other")
    assert loaded.get_apply_async_threads() == loaded.get_pmap_threads() == 3
    loaded.disable_pmap_threads()
    assert loaded.get_op_parallelism_threads() == 1
    assert loaded.run({"x": 3, "k": 4}) == (3, 4)


def test_profiling_prints_and_warming_up_gives_what_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    @matx.script
    def double(x: int) -> int:
        return x * 2

    module = matx.trace(lambda x: double(x), 1)
    assert module.warmup({"x": 4}) == 8
    assert "double" in str(module.profile({"x": 1}, warmup_times=1))
    assert "double" in capsys.readouterr().out


@pytest.mark.parametrize(("device", "said"), [(-1, "cpu"), ("-1", "cpu"), (0, "cuda:0"), ("cpu", "cpu"), (None, None)])
def test_devices_are_counted_as_matx_counts_them(device: Any, said: Any) -> None:
    assert matx.torch_device(device) == said


def test_what_is_for_compilers_is_taken_and_a_module_is_saved_by_a_function(tmp_path: Path) -> None:
    double = matx.script(compiling_obj=lambda x: x * 2, share=False, toolchain=None, bundle_args=["path"])
    module = matx.trace(lambda x: double(x), 1)
    matx.save(module, tmp_path / "saved")
    with pytest.raises(OptionError, match="there already"):
        matx.save(module, tmp_path / "saved")
    matx.save(module, tmp_path / "saved", force_override=True)
    assert matx.load(tmp_path / "saved", -1).run({"x": 3}) == 6


def test_a_path_needs_a_backend() -> None:
    with pytest.raises(OptionError, match='There is "pytorch" and "TensorFlow"'):
        matx.script("model.pt")


ROOT = Path(__file__).parents[2]


def test_every_promise_of_the_page_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "coming-from-matx.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:(tests/[\w/]+)/)?(test_\w+\.py)::(test_\w+)` \|$", page, re.MULTILINE)
    rows = page.partition("## Promise by promise")[2].partition("\n## ")[0].count("\n| ") - 1
    assert len(named) == rows > 30
    for folder, file, test in named:
        text = (ROOT / (folder or "tests/compat") / file).read_text(encoding="utf-8")
        assert f"def {test}(" in text, (file, test)
