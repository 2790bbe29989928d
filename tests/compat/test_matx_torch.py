"""Models of torch under Matx's names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clew.compat import matx
from clew.errors import OptionError

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.linear(x)


def test_a_module_is_scripted_for_a_device() -> None:
    net = Net().eval()
    scripted = matx.script(net, device=-1)
    module = matx.trace(lambda x: scripted(x), torch.ones(1, 3))
    given = torch.arange(12.0).view(4, 3)
    assert torch.equal(module.run({"x": given}), net(given))


def test_a_saved_model_is_scripted_by_its_path_and_goes_into_the_bundle(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    net = Net().eval()
    torch.jit.trace(net, torch.ones(1, 3)).save("net.pt")  # type: ignore[no-untyped-call]
    scripted = matx.script("net.pt", backend="pytorch", device=-1)
    module = matx.trace(lambda x: scripted(x), torch.ones(1, 3))
    with warnings.catch_warnings(record=True) as said:
        module.save("saved")
    assert [one for one in said if one.category is not DeprecationWarning] == []
    Path("net.pt").unlink()
    given = torch.arange(6.0).view(2, 3)
    assert torch.allclose(matx.load("saved", -1).run({"x": given}), net(given))


# ---- arrays into models


class Cell(torch.nn.Module):
    """The model of Matx's own page about torch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new_h = torch.tanh(self.linear(x) + h)
        return new_h, new_h


def scale(x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * 2 + h, h


def cell(kind: str) -> Any:
    if kind == "function":
        return torch.jit.script(scale)
    model = Cell().eval()
    example = (torch.rand(3, 4), torch.rand(3, 4))
    made = {"module": lambda: model, "traced": lambda: torch.jit.trace(model, example)}  # type: ignore[no-untyped-call]
    return made[kind]() if kind in made else torch.jit.script(model)


KINDS = ["module", "traced", "scripted", "function"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["numpy", "NDArray", "tensor"])
def test_a_model_takes_arrays_and_gives_what_it_was_given(kind: str, form: str, tmp_path: Path) -> None:
    model = cell(kind)
    infer = matx.script(model, device=-1)
    tensors = torch.rand(3, 4), torch.rand(3, 4)
    x, h = tensors if form == "tensor" else (one.numpy() for one in tensors)
    if form == "NDArray":
        x, h = matx.array.from_numpy(x), matx.array.from_numpy(h)

    def process(x: Any, h: Any) -> Any:
        return infer(x, h)

    module = matx.trace(process, x, h)
    module.save(tmp_path / "saved")
    for results in (process(x, h), module.run({"x": x, "h": h}), matx.load(tmp_path / "saved", "cpu")(x=x, h=h)):
        assert [type(one) for one in results] == [type(x)] * 2
        for result, expected in zip(results, model(*tensors), strict=True):
            assert np.allclose(np.asarray(result.detach() if form == "tensor" else result), expected.detach().numpy())


def test_arrays_in_lists_and_dictionaries_become_tensors() -> None:
    class Sum(torch.nn.Module):
        def forward(self, pair: Any, named: Any) -> Any:
            return {"sum": [pair[0] + pair[1] + named["bias"]]}

    total = matx.script(Sum())
    one = np.ones(2, dtype="float32")
    found = matx.trace(lambda a, b: total([a, b], named={"bias": b}), one, one).run({"a": one, "b": one * 2})
    assert np.array_equal(found["sum"][0], [5, 5])
    assert type(found["sum"][0]) is np.ndarray


class Generator:
    """An operator that holds a model as an operator."""

    def __init__(self, model: Any, h: Any) -> None:
        self.model, self.h = model, h

    def __call__(self, x: Any) -> Any:
        return [self.model(x, self.h)[0] for _ in range(2)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_another_operator_holds_takes_arrays_after_loading(kind: str, tmp_path: Path) -> None:
    x, h = matx.array.rand([3, 4]), matx.array.rand([3, 4])
    generate = matx.script(Generator)(matx.script(cell(kind)), h)
    matx.trace(lambda x: generate(x), x).save(tmp_path / "saved")
    for result, expected in zip(matx.load(tmp_path / "saved", -1).run({"x": x}), generate(x), strict=True):
        assert isinstance(result, matx.NDArray)
        assert np.allclose(result.numpy(), expected.numpy())


def test_a_function_with_a_backend_takes_arrays() -> None:
    model = cell("module")
    first = matx.script(lambda *tensors: model(*tensors)[0], backend="pytorch")
    given = matx.array.rand([3, 4])
    module = matx.trace(lambda x, h: first(x, h), given, given)
    assert isinstance(module.run({"x": given, "h": given}), matx.NDArray)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_on_a_device_that_is_not_there_is_told(kind: str, tmp_path: Path) -> None:
    infer = matx.script(cell(kind))
    given = np.ones((3, 4), dtype="float32")
    matx.trace(lambda x, h: infer(x, h), given, given).save(tmp_path / "saved")
    if torch.cuda.device_count() < 8:
        with pytest.raises(OptionError, match="no device 'cuda:7'"):
            matx.load(tmp_path / "saved", 7)


def test_a_saved_model_outside_the_project_is_scripted_by_its_path(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    torch.jit.save(cell("scripted"), tmp_path / "net.pt")
    infer = matx.script("../net.pt", backend="torch", device=-1)
    given = np.ones((3, 4), dtype="float32")
    module = matx.trace(lambda x, h: infer(x, h), given, given)
    module.save("saved")
    (tmp_path / "net.pt").unlink()
    expected = module.run({"x": given, "h": given})
    assert np.array_equal(matx.load("saved", -1).run({"x": given, "h": given})[0], expected[0])


def test_the_meta_data_of_a_run_tell_models_apart(tmp_path: Path) -> None:
    infer = matx.script(cell("module"))
    given = matx.array.rand([3, 4])
    matx.trace(lambda x, h: infer(x, h), given, given).save(tmp_path / "saved")
    module = matx.load(tmp_path / "saved", -1)
    ops = module.gen_step_meta({"x": given, "h": given})["ops"]
    (step,) = (one for one in ops if one["op"] == "Cell")
    impl = step["attributes"]["impl"]
    assert (step["op_cls"], impl["op_cls"], impl["attributes"]["device"]) == ("PyTorchInferOp", "TorchInferOp", "cpu")
    found = module.get_nested_op_attributes("TorchModel", impl["attributes"]["model"])
    assert found["location"] == str(tmp_path / "saved")
