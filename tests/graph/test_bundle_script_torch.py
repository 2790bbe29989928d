"""TorchScript modules, functions and methods in bundles: saved as torch writes them, loaded with trust only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, Tuple

import pytest
import torch

import clew
from clew.errors import GraphError
from graph.bundling import python, reseal

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.linear(x))  # type: ignore[no-any-return]

    @torch.jit.export
    def doubled(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * 2  # type: ignore[no-any-return]


class Holder(torch.nn.Module):
    """A module that cannot be exported, because a part of it is TorchScript."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x) + 1


def squared(x: torch.Tensor) -> torch.Tensor:
    return x * x


def decides(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 0):
        return x
    return -x


def has_defaults(
    x: torch.Tensor,
    times: int = 2,
    other: Optional[torch.Tensor] = None,
    pair: Tuple[int, float] = (1, 2.5),
    most: float = float("inf"),
    how: str = "it's\n",
) -> torch.Tensor:
    if other is not None:
        return other.clamp(max=most)
    return x * times + pair[1] + len(how)


@clew.op
class Uses:
    def __init__(self, model: Any, function: Any) -> None:
        self.model, self.function = model, function

    def __call__(self, x: Any) -> Any:
        return self.function(self.model(x))


EXAMPLE = torch.arange(6.0).view(2, 3)


def scripted() -> Any:
    return torch.jit.script(Net().eval())


def traced() -> Any:
    return torch.jit.trace(Net().eval(), EXAMPLE)


TARGETS: dict[str, Callable[[], Any]] = {
    "a traced module": traced,
    "a scripted module": scripted,
    "a frozen module": lambda: torch.jit.freeze(scripted()),
    "a scripted function": lambda: torch.jit.script(squared),
    "a function that decides": lambda: torch.jit.script(decides),
    "a traced function": lambda: torch.jit.trace(squared, EXAMPLE),
    "the method forward": lambda: scripted().forward,
    "an exported method": lambda: scripted().doubled,
    "a module that holds one": lambda: Holder(scripted()),
    "an object that holds two": lambda: Uses(traced(), torch.jit.script(squared)),
}


@pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
def test_it_is_saved_loaded_and_saved_again(make: Callable[[], Any], tmp_path: Path) -> None:
    target = make()
    operator = clew.op(target)
    clew.record(lambda x: operator(x), EXAMPLE).save(tmp_path / "saved")
    clew.load(tmp_path / "saved", trusted=True, device="cpu").save(tmp_path / "again")
    for name in ("saved", "again"):
        for given in (EXAMPLE, -EXAMPLE[:1]):
            assert torch.equal(clew.load(tmp_path / name, trusted=True)(given), target(given))


def saved(target: Any, folder: Path) -> Path:
    operator = clew.op(target)
    return clew.record(lambda x: operator(x), EXAMPLE).save(folder / "saved")


@pytest.mark.parametrize("make", [scripted, lambda: torch.jit.script(squared)], ids=["module", "function"])
def test_it_is_loaded_with_trust_only(make: Callable[[], Any], tmp_path: Path) -> None:
    path = saved(make(), tmp_path)
    for trusted in ([], ["numpy:abs"], "models/1.pt"):
        with pytest.raises(GraphError) as refused:
            clew.load(path, trusted=trusted)
        assert refused.value.slug == "bundle-trust"
    assert clew.load(path, trusted=["models/0.pt"])(EXAMPLE).shape == EXAMPLE.shape


def test_it_is_named_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="the exported models Net"):
        clew.load(saved(scripted(), tmp_path), trusted=False)


@pytest.mark.parametrize("training", [True, False])
def test_it_is_in_the_mode_it_was_in(training: bool, tmp_path: Path) -> None:
    path = saved(scripted().train(training), tmp_path)
    (operator,) = clew.load(path, trusted=True).operators
    assert operator.target.training is training


def test_it_goes_to_the_device_that_is_asked_for(tmp_path: Path) -> None:
    path = saved(scripted(), tmp_path)
    (operator,) = clew.load(path, trusted=True, device="meta").operators
    assert {tensor.device.type for tensor in operator.target.state_dict().values()} == {"meta"}


def test_a_function_keeps_the_defaults_of_its_parameters(tmp_path: Path) -> None:
    operator = clew.op(torch.jit.script(has_defaults))

    def pipeline(x: Any) -> Any:
        return operator(x), operator(x, 3), operator(x, times=4, how=""), operator(x, 1, x)

    path = clew.record(pipeline, EXAMPLE).save(tmp_path / "saved")
    values = clew.load(path, trusted=True)(EXAMPLE + 1)
    assert [value.tolist() for value in values] == [value.tolist() for value in pipeline(EXAMPLE + 1)]


def test_one_that_two_operators_use_is_saved_once(tmp_path: Path) -> None:
    model = scripted()
    first, second = clew.op(model), clew.op(model, name="again")
    path = clew.record(lambda x: first(x) + second(x), EXAMPLE).save(tmp_path / "saved")
    assert [file.name for file in (path / "models").iterdir()] == ["0.pt"]


def test_it_runs_in_another_process_without_the_source(tmp_path: Path) -> None:
    saved(scripted(), tmp_path)
    program = """
        import torch, clew
        print(tuple(clew.load("../saved", trusted=True)(torch.ones(4, 3)).shape))
    """
    assert python(program, tmp_path / "elsewhere") == "(4, 3)\n"


@pytest.mark.parametrize("data", [b"", b"no archive", b"PK\x03\x04 cut off"])
def test_an_archive_that_is_no_torchscript_is_damaged(data: bytes, tmp_path: Path) -> None:
    import hashlib

    path = saved(scripted(), tmp_path)
    (path / "models" / "0.pt").write_bytes(data)
    sealed = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    reseal(path, lambda page: page["files"].update({"models/0.pt": sealed}))
    with pytest.raises(GraphError) as refused:
        clew.load(path, trusted=True)
    assert refused.value.slug == "bundle-damaged"


@pytest.mark.parametrize(
    "change",
    [
        {"file": "../outside.pt"}, {"file": "models/9.pt"}, {"file": 3}, {"device": 1}, {"class": None}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_page_that_says_something_else_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    path = saved(scripted(), tmp_path)

    def forge(page: dict[str, Any]) -> None:
        (node,) = (one for one in page["objects"] if one["$"] == "torchscript")
        node.update(change)

    reseal(path, forge)
    with pytest.raises(GraphError) as refused:
        clew.load(path, trusted=True)
    assert refused.value.slug in ("bundle-damaged", "bundle-unsafe", "bundle-unknown")


def test_the_page_says_which_model_it_is(tmp_path: Path) -> None:
    path = saved(torch.jit.script(squared), tmp_path)
    (node,) = json.loads((path / "graph.json").read_text())["objects"]
    assert node == {"$": "torchscript", "file": "models/0.pt", "class": "squared", "device": "cpu"}
