"""The seed's own examples, and the names its users know."""

from __future__ import annotations

import json
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


def test_what_a_third_party_library_gives_is_a_constant() -> None:
    calls = []

    class Response:
        text = "page"

    class requests:
        @staticmethod
        def get(url: str) -> Response:
            calls.append(url)
            return Response()

    get = json.JSONDecoder().decode  # a library's bound method: its result is taken as it is

    @matx.script
    def join(a: Any, b: Any) -> Any:
        return f"{a}{b}"

    def pipeline(text: str) -> Any:
        return join(text, get("[1]")[0])

    module = matx.trace(pipeline, "a")
    assert module.run({"text": "b"}) == "b1"
    assert not calls


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
        return matx.pmap(double, xs), matx.pstarmap(add, pairs), later.get()

    module = matx.trace(pipeline, [1], [(1, 2)])
    assert module.run({"xs": [1, 2, 3], "pairs": [(1, 1), (2, 2)]}) == ([2, 4, 6], [2, 4], 3)


def test_settings_profile_and_warmup(capsys: pytest.CaptureFixture[str]) -> None:
    @matx.script
    def double(x: int) -> int:
        return x * 2

    module = matx.trace(lambda x: double(x), 1)
    module.set_sess_attr("threads", 4)
    assert module.get_sess_attr("threads") == 4
    module.warmup({"x": 1})
    assert "double" in str(module.profile({"x": 1}))


def test_a_path_needs_a_backend() -> None:
    with pytest.raises(OptionError, match='There is "pytorch" and "TensorFlow"'):
        matx.script("model.pt")
