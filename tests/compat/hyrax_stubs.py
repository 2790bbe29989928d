"""Runs hyrax's `train` and `infer` with a trace, in the current folder, and prints what was traced as JSON.

python hyrax_stubs.py own         with hyrax's own hyrax.trace
python hyrax_stubs.py stand-in    with clew.compat.hyrax in its place, and what the clew run says of it

Used by test_hyrax_torch.py. Needs requirements/hyrax.txt; what else hyrax imports is a stub. No network is touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import json
import os
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

sys.dont_write_bytecode = True

# Imported by hyrax at the top of some module, never used by what runs here.
STUBBED = (
    "astropy astropy.io astropy.table chromadb mlflow onnx onnxruntime qdrant_client schwimmbad "
    "sklearn sklearn.decomposition sklearn.manifold tensorboardX toml "
    "torchvision torchvision.models torchvision.transforms torchvision.transforms.v2 umap"
).split()


class Stub(types.ModuleType):
    """A module that has every attribute."""

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        self.__path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


def stub_modules():
    for name in STUBBED:
        module = sys.modules[name] = Stub(name)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)

    # The only real result writer of 0.13 is Lance (pylance + lancedb + pyarrow, some 300 MB): .npy files do here.
    results = types.ModuleType("hyrax.datasets.result_dataset")

    class ResultDatasetWriter:
        def __init__(self, result_dir):
            self.folder = Path(result_dir) / "lance_db"  # the name load_results_dataset looks for
            self.folder.mkdir(parents=True, exist_ok=True)
            self.batches = 0

        def write_batch(self, object_ids, data):
            import numpy as np

            np.save(self.folder / f"{self.batches}.npy", np.asarray(data))
            self.batches += 1

        def commit(self):
            pass

    class ResultDataset:
        def __init__(self, config, data_location):
            import numpy as np

            self.data = np.concatenate([np.load(f) for f in sorted((Path(data_location) / "lance_db").glob("*.npy"))])

    results.ResultDatasetWriter, results.ResultDataset = ResultDatasetWriter, ResultDataset
    sys.modules[results.__name__] = results


CONFIG = """
[general]
results_dir = "{folder}/results"
data_dir = "{folder}/data"
log_level = "error"
[model]
name = "TinyModel"
[train]
epochs = 3
[data_set]
seed = 7
[data_loader]
batch_size = 4
"""


def make_classes():  # noqa: C901  (many short methods)
    """A dataset with a collate function for one field, one with its own collate, and a model."""
    import numpy as np
    import torch
    from hyrax.datasets import HyraxDataset
    from hyrax.models import hyrax_model
    from hyrax.trace import trace_dataset_func, trace_func, trace_model_func
    from torch import nn

    class TinyImages(HyraxDataset, torch.utils.data.Dataset):
        def __init__(self, config, data_location=None):
            generator = np.random.default_rng(0)
            self.images = generator.random((20, 3, 4), np.float32)
            self.images[::2, 0, 0] = np.nan
            self.labels = np.arange(20) % 3
            super().__init__(config)

        def __len__(self):
            return 20

        @trace_dataset_func
        def clean(self, image):
            return np.nan_to_num(image)

        def get_image(self, idx):
            return self.clean(self.images[idx])

        def get_label(self, idx):
            return self.labels[idx]

        def get_object_id(self, idx):
            return f"item-{idx}"

        def collate_label(self, samples):
            return {"label": np.array([sample["label"] for sample in samples], dtype=np.int64)}

    class TinyExtra(TinyImages):
        collate_label = None

        def get_weight(self, idx):
            return np.float32(idx)

        def collate(self, samples):
            return {"weight": np.stack([sample["weight"] for sample in samples])}

    @hyrax_model
    class TinyModel(nn.Module):
        def __init__(self, config, data_sample=None):
            super().__init__()
            self.config = config
            torch.manual_seed(0)
            self.line = nn.Linear(12, 3)

        @trace_model_func(params_to_capture={"images": 1}, result_name="flat")
        def flatten(self, images):
            return images.flatten(1)

        @trace_func(stage_name="evaluation", params_to_capture={"scores": 0})
        def squash(scores):
            return scores.tanh()

        squash = staticmethod(squash)

        def forward(self, images):
            return self.squash(self.line(self.flatten(images)))

        def train_batch(self, batch):
            images, labels = batch
            self.optimizer.zero_grad()
            loss = self.criterion(self(images), labels)
            loss.backward()
            self.optimizer.step()
            return {"loss": loss.item()}

        def validate_batch(self, batch):
            images, labels = batch
            return {"loss": self.criterion(self(images), labels).item()}

        def infer_batch(self, batch):
            return self(batch[0])

        @staticmethod
        def prepare_inputs(data_dict):
            return data_dict["data"]["image"], data_dict["data"]["label"]

    return TinyImages, TinyExtra, TinyModel


def request(folder, group):
    return {
        "data": {
            "dataset_class": "TinyImages",
            "data_location": f"{folder}/{group}-images",
            "fields": ["image", "label"],
            "primary_id_field": "object_id",
        },
        "extra": {"dataset_class": "TinyExtra", "data_location": f"{folder}/{group}-extra", "fields": ["weight"]},
    }


def shapes(name, value, found, digests):
    """Put the shape of every array and tensor in a value in `found`, by where it is."""
    import numpy as np
    import torch

    if isinstance(value, (torch.Tensor, np.ndarray)):
        found[name] = list(value.shape)
        array = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
        digests[name] = hashlib.sha256(f"{array.dtype}".encode() + array.tobytes()).hexdigest()[:12]
    elif isinstance(value, dict):
        for key, part in value.items():
            shapes(f"{name}.{key}", part, found, digests)
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            shapes(f"{name}.{index}", part, found, digests)
    elif isinstance(value, (bool, int, float, str, np.generic, type(None))):
        digests[name] = repr(value)
    else:
        digests[name] = type(value).__name__


def summary(trace):
    """By stage: each call with its names, shapes and digests."""
    stages = []
    for stage_name, stage in trace.stages.items():
        calls = []
        for call in stage.calls:
            found, digests = {}, {}
            shapes("params", call.params, found, digests)
            shapes("retval", call.retval, found, digests)
            calls.append([call.disp_name, sorted(call.params), sorted(call.retval), found, digests])
        stages.append([stage_name, calls])
    return stages


def recorded(trace):
    """What the clew run says: by stage the calls, and the items of the last batch."""
    functions = {stage.name: [call.function for call in stage] for stage in trace}
    return {"functions": functions, "ids": [list(call.ids) for call in trace["evaluation"]], "altered": trace.altered}


def run(stand_in):
    stub_modules()
    if stand_in:
        import clew.compat.hyrax

        sys.modules["hyrax.trace"] = clew.compat.hyrax

    import hyrax

    used = sys.modules["hyrax.trace"]
    assert used.__name__ == ("clew.compat.hyrax" if stand_in else "hyrax.trace")

    folder = os.getcwd()
    classes = make_classes()  # hyrax holds them by name only
    Path("hyrax_config.toml").write_text(CONFIG.format(folder=folder), encoding="utf-8")
    h = hyrax.Hyrax(config_file=f"{folder}/hyrax_config.toml")
    h.set_config("data_request", {group: request(folder, group) for group in ("train", "validate", "infer")})

    before = {name: classes[2].__dict__[name] for name in ("forward", "train_batch", "prepare_inputs")}
    result = {"traced": {}, "recorded": {}}
    for verb, size in (("train", 2), ("infer", 3)):
        trace = getattr(h, verb)(trace=size)
        assert isinstance(trace, used.TraceResult), trace
        assert used.get_trace() is None
        assert all(classes[2].__dict__[name] is member for name, member in before.items()), "shims left behind"
        result["traced"][verb] = summary(trace)
        if stand_in:
            assert str(trace).startswith("Trace Stages {")
            result["recorded"][verb] = recorded(clew.open("latest").trace)
    return result


if __name__ == "__main__":
    os.environ["MPLCONFIGDIR"] = os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.getcwd()
    with contextlib.redirect_stdout(sys.stderr):  # stdout is for the JSON alone
        told = run(sys.argv[1] == "stand-in")
    json.dump(told, sys.stdout)
