"""Torch modules and tensors in bundles."""

from __future__ import annotations

import hashlib
import importlib
import io
import logging
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import clew
from graph.bundling import project, python, reseal, write

__all__ = ["project"]  # the fixture

NETS = """
    import torch
    import clew

    class Exported(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(10, 4)
            self.norm = torch.nn.BatchNorm1d(4)
            self.drop = torch.nn.Dropout(0.5)
        def forward(self, ids, mask=None):
            hidden = self.drop(self.embed(ids)).mean(1)
            return {"hidden": self.norm(hidden), "size": ids.shape[0]}

    class Deciding(torch.nn.Module):
        '''Cannot be exported: it decides by what it is given.'''
        def __init__(self, size):
            super().__init__()
            self.layer = torch.nn.Linear(size, size)
            self.names = ["a", {"b": (1, 2)}]
        def forward(self, x):
            return self.layer(x) if x.sum() > 0 else -self.layer(x)

    @clew.op
    class Made(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.layer = torch.nn.Linear(size, 1)
        def forward(self, x):
            return self.layer(x)

    @clew.op
    class Holder:
        def __init__(self, size):
            self.net = torch.nn.Linear(size, 2)
            self.noise = torch.rand(2)
        def __call__(self, x):
            return self.net(x) + self.noise
    """


@pytest.fixture
def nets(project: Path) -> Any:
    write(project, {"nets.py": NETS})
    return __import__("nets")


def page_of(path: Path) -> Any:
    from clew.graph.bundle.layout import Bundle

    return Bundle(path).page


def kinds(path: Path) -> list[str]:
    return [value["$"] for value in page_of(path)["objects"]]


def without_text(module: nn.Module) -> nn.Module:
    """The module, of a class whose text nobody has."""
    module.__class__ = type("Textless", (type(module),), {})
    return module


def test_an_exported_module_needs_no_code_and_takes_other_batch_sizes(nets: Any, tmp_path: Path) -> None:
    model = clew.op(without_text(nets.Exported().eval()))
    graph = clew.record(lambda ids: model(ids), torch.zeros(1, 3, dtype=torch.long))
    graph.save(tmp_path / "bundle")
    assert kinds(tmp_path / "bundle") == ["exported"]
    assert page_of(tmp_path / "bundle")["modules"] == {}
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    for shape in ((1, 3), (5, 3), (2, 7)):
        ids = torch.randint(10, shape)
        assert torch.equal(loaded(ids=ids)["hidden"], graph(ids=ids)["hidden"])
        assert loaded(ids=ids)["size"] == shape[0]


def test_a_module_whose_class_is_in_the_bundle_is_itself(nets: Any, tmp_path: Path) -> None:
    model = nets.Exported().eval().to(torch.float64)
    graph = clew.record(lambda ids: model(ids), torch.zeros(1, 3, dtype=torch.long))
    graph.save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    (again,) = (operator.target for operator in loaded.operators)
    assert type(again).__name__ == "Exported" and not again.training
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    for ours, theirs in zip(again.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype and ours.requires_grad == theirs.requires_grad
    ids = torch.randint(10, (5, 4))
    assert loaded(ids=ids)["hidden"].requires_grad
    with torch.no_grad():
        assert not loaded(ids=ids)["hidden"].requires_grad


def test_a_module_that_trains_goes_on_training(nets: Any, tmp_path: Path) -> None:
    model = nets.Exported().train()
    graph = clew.record(lambda ids: model(ids), torch.randint(10, (4, 3)))
    graph.save(tmp_path / "bundle", test=False)  # dropout draws, and the batches are counted
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    ids = torch.randint(10, (6, 3))
    torch.manual_seed(1)
    expected = model(ids)["hidden"]
    torch.manual_seed(1)
    assert torch.equal(loaded(ids=ids)["hidden"], expected)


UNSAVABLE = """
    import torch
    connection = (letter for letter in "abc")

    class Logging(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)
        def forward(self, x):
            return self.layer(x)
        def log(self):
            return next(connection)
    """


def test_a_class_that_reaches_what_cannot_be_saved_is_exported(project: Path, tmp_path: Path) -> None:
    write(project, {"logging_net.py": UNSAVABLE})
    model = importlib.import_module("logging_net").Logging()
    graph = clew.record(lambda x: model(x), torch.ones(2, 3))
    graph.save(tmp_path / "bundle")
    assert "exported" in kinds(tmp_path / "bundle")
    x = torch.rand(5, 3)
    assert torch.equal(clew.load(tmp_path / "bundle", trusted=True)(x=x), model(x))


@pytest.mark.parametrize("held", ["an optimizer", "data"])
def test_what_a_module_keeps_from_its_training_is_not_in_the_bundle(nets: Any, tmp_path: Path, held: str) -> None:
    model = nets.Exported().eval()
    model.kept = torch.optim.Adam(model.parameters()) if held == "an optimizer" else Secret("private")
    clew.record(lambda ids: model(ids), torch.zeros(2, 3, dtype=torch.long)).save(tmp_path / "bundle")
    assert kinds(tmp_path / "bundle") == ["exported"]


def test_settings_of_a_module_do_not_keep_it_from_being_itself(nets: Any, tmp_path: Path) -> None:
    model = nets.Exported().eval()
    model.settings = {"rate": 0.5, "names": ["a"], "act": torch.relu, "dtype": torch.float32}
    model.logger = logging.getLogger("net")
    clew.record(lambda ids: model(ids), torch.zeros(2, 3, dtype=torch.long)).save(tmp_path / "bundle")
    assert "exported" not in kinds(tmp_path / "bundle")


class Secret(dict[str, str]):
    """More than settings."""

    def __init__(self, text: str) -> None:
        super().__init__({str(number): text for number in range(20_000)})


def test_what_a_module_that_could_not_be_saved_has_left_is_not_in_the_bundle(project: Path, tmp_path: Path) -> None:
    model = nn.Linear(64, 64)
    model.letters = iter("abc")  # type: ignore[assignment]
    graph = clew.record(lambda x: model(x), torch.ones(2, 64))
    graph.save(tmp_path / "bundle")
    assert kinds(tmp_path / "bundle") == ["exported"]
    assert not (tmp_path / "bundle" / "arrays.safetensors").exists()


def test_parameters_that_are_one_stay_one(project: Path, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    clew.record(lambda x: model(x), torch.ones(2, 3)).save(tmp_path / "bundle")
    again = clew.load(tmp_path / "bundle", trusted=True).operators[0].target
    assert again[1].weight is again[0].weight


def test_weights_keep_the_order_of_their_memory(project: Path, tmp_path: Path) -> None:
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    clew.record(lambda x: model(x), torch.rand(2, 3, 8, 8)).save(tmp_path / "bundle")
    again = clew.load(tmp_path / "bundle", trusted=True).operators[0].target
    assert again.weight.stride() == model.weight.stride()


@pytest.mark.parametrize(
    "model",
    [
        nn.LSTM(3, 4, batch_first=True),
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
        nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.GELU()).eval(),
    ],
    ids=["recurrent", "attention", "parametrised", "convolution"],
)
def test_modules_of_torchs_own(model: nn.Module, project: Path, tmp_path: Path) -> None:
    size = 3 if isinstance(model, nn.LSTM) else 4
    graph = clew.record(lambda x: model(x), torch.rand(2, 2, size))
    graph.save(tmp_path / "bundle")
    x = torch.rand(3, 2, size)
    loaded, original = clew.load(tmp_path / "bundle", trusted=True)(x=x), model(x)
    assert ("exported" in kinds(tmp_path / "bundle")) == hasattr(model, "parametrizations")  # those have no class
    if isinstance(model, nn.LSTM):
        loaded, original = loaded[0], original[0]
    torch.testing.assert_close(loaded, original)


def test_what_cannot_be_exported_is_kept_as_source_and_weights(
    nets: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = clew.op(nets.Deciding(3))
    graph = clew.record(lambda x: model(x), torch.ones(2, 3))
    graph.save(tmp_path / "bundle")
    assert capfd.readouterr().err == ""
    assert "exported" not in kinds(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    for x in (torch.rand(5, 3), -torch.rand(2, 3)):
        assert torch.equal(loaded(x=x), graph(x=x))
    assert loaded.operators[0].target.names == ["a", {"b": (1, 2)}]


WAYS = """
    import torch

    class Way(torch.nn.Module):
        def __init__(self, way):
            super().__init__()
            self.layer, self.way, self.count = torch.nn.Linear(3, 3), way, 0
        def forward(self, x):
            if self.way == "limit":
                return self.layer(x) if x.shape[0] > 4 else -self.layer(x)
            if self.way == "even":
                return self.layer(x) if x.shape[0] % 2 == 0 else -self.layer(x)
            if self.way == "square":
                return self.layer(x) if x.shape[0] == x.shape[1] else -self.layer(x)
            if self.way == "rows":
                return sum(self.layer(row) for row in x)
            self.count += 1
            return self.layer(x) * self.count
    """


@pytest.mark.parametrize("way", ["limit", "even", "square", "rows", "count"])
def test_a_module_that_decides_by_sizes_or_counts_gives_no_wrong_results(
    project: Path, tmp_path: Path, way: str
) -> None:
    """torch.export would take it, and forget how it has decided."""
    write(project, {"ways.py": WAYS})
    from ways import Way  # type: ignore[import-not-found]

    model = clew.op(Way(way))
    graph = clew.record(lambda x: model(x), torch.rand(6, 3))
    graph.save(tmp_path / "bundle")
    assert model.target.count == (1 if way == "count" else 0)  # saving has not called it
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    for size in (1, 2, 3, 6):
        x = torch.rand(size, 3)
        assert torch.equal(loaded(x=x), graph(x=x))


def test_a_module_of_an_operator_class_is_made_again_with_its_weights(nets: Any, tmp_path: Path) -> None:
    model = nets.Made(3)
    with torch.no_grad():
        model.layer.weight += 1  # trained since
    graph = clew.record(lambda x: model(x), torch.ones(2, 3))
    graph.save(tmp_path / "bundle")
    x = torch.rand(4, 3)
    assert torch.equal(clew.load(tmp_path / "bundle", trusted=True)(x=x), graph(x=x))


@pytest.mark.parametrize("trained", [False, True])
def test_a_model_inside_an_object_is_what_it_was(nets: Any, tmp_path: Path, trained: bool) -> None:
    """Its constructor draws random numbers: the same ones again, and what was changed since is kept."""
    holder = nets.Holder(3)
    if trained:
        optimizer = torch.optim.SGD(holder.net.parameters(), lr=1.0)
        holder.net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    graph = clew.record(lambda x: holder(x), torch.ones(2, 3))
    graph.save(tmp_path / "bundle")
    x, state = torch.rand(4, 3), torch.get_rng_state()
    assert torch.equal(clew.load(tmp_path / "bundle", trusted=True)(x=x), graph(x=x))
    assert torch.equal(torch.get_rng_state(), state)  # the program's own random numbers go on


def test_a_module_that_two_operators_use_is_one(nets: Any, tmp_path: Path) -> None:
    layer = nn.Linear(2, 2)
    one, two = clew.op(nn.Sequential(layer), name="one"), clew.op(layer.forward, name="two")
    clew.record(lambda x: (one(x), two(x)), torch.ones(2, 2)).save(tmp_path / "bundle")
    model = nets.Made(2)
    graph = clew.record(lambda x: (model(x), model.forward(x)), torch.ones(2, 2))
    graph.save(tmp_path / "shared")
    targets = [operator.target.__self__ for operator in clew.load(tmp_path / "shared", trusted=True).operators]
    assert all(target is targets[0] for target in targets)


TENSORS = [
    torch.arange(6).reshape(2, 3), torch.arange(6.0).reshape(2, 3).T, torch.tensor(1.5), torch.zeros(0, 2),
    torch.tensor([1.5, float("nan")], dtype=torch.bfloat16), torch.tensor([1 + 2j]), torch.tensor([True, False]),
    torch.ones(2, requires_grad=True), nn.Parameter(torch.ones(2)), torch.ones(2, dtype=torch.float8_e4m3fn),
]  # fmt: skip


@clew.op
def beside(x: Any, constant: Any) -> Any:
    return constant


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda t: f"{t.dtype}{tuple(t.shape)}")
def test_tensors_come_back_as_they_were(tensor: Any, tmp_path: Path) -> None:
    clew.record(lambda x: beside(x, tensor), 1).save(tmp_path / "bundle")
    again = clew.load(tmp_path / "bundle", trusted=True)(x=1)
    assert (type(again), again.dtype, again.shape) == (type(tensor), tensor.dtype, tensor.shape)
    assert again.requires_grad == tensor.requires_grad
    raw = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (again, tensor) if t.numel()]
    assert not raw or torch.equal(*raw)


def test_kinds_devices_and_shapes_are_values_too(tmp_path: Path) -> None:
    value = (torch.float16, torch.device("cpu"), torch.Size([1, 2]), torch.nn.functional.relu, torch.contiguous_format)
    clew.record(lambda x: beside(x, value), 1).save(tmp_path / "bundle")
    assert clew.load(tmp_path / "bundle", trusted=True)(x=1) == value


def test_modules_and_tensors_go_to_the_device_that_is_asked_for(nets: Any, tmp_path: Path) -> None:
    """`meta` is a device that every machine has."""
    exported, made, holder, tensor = clew.op(nets.Exported().eval()), nets.Made(4), nets.Holder(4), torch.ones(4)

    def pipeline(ids: Any) -> Any:
        hidden = exported(ids)["hidden"]
        return made(hidden), holder(hidden), beside(hidden, tensor)

    clew.record(pipeline, torch.zeros(2, 3, dtype=torch.long)).save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True, device="meta")
    targets = {operator.name: operator.target for operator in loaded.operators}
    assert next(targets["Exported"].parameters()).device.type == "meta"
    assert targets["Made.forward"].__self__.layer.weight.device.type == "meta"
    assert targets["Holder.__call__"].__self__.net.weight.device.type == "meta"
    constants = [arg.value for step in loaded.steps for arg in step.args if hasattr(arg, "value")]
    assert [constant.device.type for constant in constants if isinstance(constant, torch.Tensor)] == ["meta"]


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
@pytest.mark.parametrize("kind", ["Exported", "Made"])
def test_a_device_that_is_not_there_is_no_fault_of_the_bundles(
    nets: Any, tmp_path: Path, device: str, kind: str
) -> None:
    op = clew.op(nets.Exported().eval()) if kind == "Exported" else nets.Made(4)
    example = torch.zeros(2, 3, dtype=torch.long) if kind == "Exported" else torch.zeros(2, 4)
    clew.record(lambda x: op(x), example).save(tmp_path / "bundle")
    with pytest.raises(clew.ClewError, match=f"torch has no device '{device}' here .* there is cpu") as caught:
        clew.load(tmp_path / "bundle", trusted=True, device=device)
    assert caught.value.slug == "unknown-device"


def test_no_pickle_hides_in_an_exported_model(nets: Any, tmp_path: Path) -> None:
    model = clew.op(without_text(nets.Exported().eval()))
    clew.record(lambda ids: model(ids), torch.zeros(2, 3, dtype=torch.long)).save(tmp_path / "bundle")
    archive = tmp_path / "bundle" / "models" / "0.pt2"
    with zipfile.ZipFile(archive) as members:
        pickled = [info.filename for info in members.infolist() if info.filename.endswith(".pt") and info.file_size]
    assert pickled == []
    file = io.BytesIO()
    with zipfile.ZipFile(archive) as members, zipfile.ZipFile(file, "w") as changed:
        for info in members.infolist():
            data = b"cos\nsystem\n." if info.filename.endswith("sample_inputs/model.pt") else members.read(info)
            changed.writestr(info.filename, data)
    archive.write_bytes(file.getvalue())
    said = {"size": len(file.getvalue()), "sha256": hashlib.sha256(file.getvalue()).hexdigest()}
    reseal(tmp_path / "bundle", lambda page: page["files"].update({"models/0.pt2": said}))
    with pytest.raises(clew.ClewError, match="holds a pickle") as caught:
        clew.load(tmp_path / "bundle", trusted=True)
    assert caught.value.slug == "bundle-unsafe"


def test_estimators_and_data_frames(tmp_path: Path) -> None:
    sklearn = importlib.import_module("sklearn.pipeline")
    import numpy as np
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.preprocessing import StandardScaler

    rows, labels = np.random.rand(20, 4), np.arange(20) % 2
    model = clew.op(sklearn.make_pipeline(StandardScaler(), RandomForestClassifier(3)).fit(rows, labels))
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": pd.to_datetime(["2020-01-01", "2021-01-01"])})
    graph = clew.record(lambda x: (model.predict_proba(x), beside(x, frame)), rows)
    graph.save(tmp_path / "bundle")
    probabilities, again = clew.load(tmp_path / "bundle", trusted=True)(x=rows)
    assert (probabilities == graph(x=rows)[0]).all()
    pd.testing.assert_frame_equal(again, frame)


def test_it_runs_in_another_process_without_the_source(tmp_path: Path) -> None:
    write(tmp_path / "project", {"nets.py": NETS})
    program = """
        import sys, torch, clew
        from nets import *
        torch.manual_seed(3)
        exported, deciding, made, holder = clew.op(Exported().eval()), clew.op(Deciding(4)), Made(4), Holder(4)
        def pipeline(ids):
            hidden = exported(ids)["hidden"]
            return deciding(hidden), made(hidden), holder(hidden)
        graph = clew.record(pipeline, torch.zeros(2, 3, dtype=torch.long))
        graph.save(sys.argv[1])
        print([part.tolist() for part in graph(ids=torch.arange(10).reshape(5, 2))])
        """
    here = python(program, tmp_path / "project", str(tmp_path / "bundle.zip"))
    (tmp_path / "project" / "nets.py").unlink()
    program = """
        import sys, torch, clew
        graph = clew.load(sys.argv[1], trusted=True, device="cpu")
        print([part.tolist() for part in graph(ids=torch.arange(10).reshape(5, 2))])
        """
    assert python(program, tmp_path / "else", str(tmp_path / "bundle.zip")) == here


LOOPING = """
import torch

class Looping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.stack([self.cell(x[:, t]) for t in range(x.shape[1])]).sum(0)
"""


@pytest.mark.parametrize("batch", [1, 4])
def test_a_size_that_the_examples_vary_is_not_fixed(batch: int, project: Path, tmp_path: Path) -> None:
    write(project, {"looping.py": LOOPING})
    from looping import Looping  # type: ignore[import-not-found]

    model = clew.op(Looping())
    lengths = [torch.rand(batch, length, 3) for length in (5, 7)]
    clew.record(lambda x: model(x), lengths).save(tmp_path / "bundle")
    loaded = clew.load(tmp_path / "bundle", trusted=True)
    for x in (*lengths, torch.rand(2, 9, 3)):
        assert torch.equal(loaded(x=x), model(x))
