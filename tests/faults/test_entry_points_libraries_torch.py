"""Whatever fails inside clew while libraries' pipelines are traced, or their trainers call us, the program goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .injection import PARTS, check, functions_behind

SKLEARN = """
    import numpy as np
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [0.0, 1.0, 0.0, 1.0]}, index=list("wxyz"))
    y = np.array([0, 1, 0, 1])
    calls = []
    def double(table):
        calls.append(len(table))
        return table * 2
    def main():
        columns = ColumnTransformer([("scaled", StandardScaler(), ["a"])], remainder="passthrough")
        union = FeatureUnion([("all", MinMaxScaler()), ("twice", FunctionTransformer(double))])
        model = Pipeline([("columns", columns), ("union", union), ("last", LogisticRegression())])
        with clew.items(2):
            model.fit(X, y)
            predicted = model.predict(X).tolist()
            try:
                model.predict(None)
            except ValueError as error:
                failed = type(error).__name__
        return [predicted, model.score(X, y), calls, failed]
    """

PANDAS = """
    import pandas as pd
    calls = []
    def scale(table, by):
        calls.append(by)
        return table * by
    def first(by, table):
        return table.sort_values("a", ascending=False).head(by)
    def fail(table):
        raise KeyError("own")
    def main():
        table = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]}, index=list("xyz"))
        with clew.items(2):
            made = table.pipe(scale, 3).pipe((first, "table"), 2)
            total = made["a"].pipe(scale, by=2).sum()
            try:
                made.pipe(fail)
            except KeyError as error:
                failed = repr(error)
        return [made.to_dict(), int(total), calls, failed]
    """

DATASETS = """
    import os
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    import datasets, torch
    datasets.disable_progress_bars()
    calls = []
    def lengthen(row):
        calls.append(row["text"])
        return {"length": len(row["text"])}
    def numbered(row, number):
        return {"number": number}
    def double(rows):
        return {"text": [text * 2 for text in rows["text"]], "length": rows["length"]}
    def is_short(row):
        return row["length"] < 4
    def main():
        whole = datasets.Dataset.from_dict({"text": ["a", "bb", "ccc", "dddd"]})
        with clew.items(9):
            made = whole.map(lengthen).map(numbered, with_indices=True).map(double, batched=True, batch_size=2)
            kept = made.filter(is_short).rename_column("text", "words")
            try:
                whole.map(lambda row: row["other"])
            except KeyError as error:
                failed = type(error).__name__
        return [made.to_dict(), kept.to_dict(), calls, failed]
    """

STREAMS = """
    import datasets, torch
    calls = []
    def lengthen(row):
        calls.append(row["text"])
        return {"length": len(row["text"])}
    def double(rows):
        return {"text": [text * 2 for text in rows["text"]], "length": rows["length"]}
    def is_short(row):
        return row["length"] < 3
    def texts():
        for text in ("a", "bb", "ccc", "dddd"):
            calls.append("given")
            yield {"text": text}
    def main():
        with clew.items(9):
            stream = datasets.IterableDataset.from_generator(texts)
            made = list(stream.map(lengthen).filter(is_short).map(double, batched=True, batch_size=2))
            try:
                list(stream.map(lambda row: {"x": row["other"]}))
            except KeyError as error:
                failed = repr(error)
        return [made, calls, failed]
    """

LOADERS = """
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset
    fetched = []
    class Rows(Dataset):
        def __init__(self):
            self.transform = lambda x: x * 2
        def __len__(self):
            return 6
        def __getitem__(self, index):
            fetched.append(index)
            if index == 5:
                raise KeyError("own")
            return self.transform(torch.tensor([float(index), index + 1.0]))
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(7))
    class Pausing(IterableDataset):
        def __iter__(self):
            yield from range(5)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 1))
    with torch.no_grad():
        model[1].weight.fill_(0.5), model[1].bias.fill_(0.5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    def main():
        out = []
        with clew.items(100):
            loader = DataLoader(Rows(), batch_size=2)
            out.append(len(loader))
            try:
                for batch in loader:
                    loss = torch.nn.functional.mse_loss(model(batch), torch.zeros(len(batch), 1))
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    out.append(round(loss.item(), 4))
            except KeyError as error:
                out.append(type(error).__name__)
        with clew.items(100):
            out.append([batch.tolist() for batch in DataLoader(Stream(), batch_size=3)])
        with clew.items(100):
            out.append([int(item) for item in DataLoader(Pausing(), batch_size=None)])
        with clew.items(100):
            out.append([batch.tolist() for batch in DataLoader(Subset(list(range(9)), [1, 5, 7]), batch_size=2)])
        with clew.items(keep="last batch"):
            out.append([batch[0].tolist() for batch in DataLoader(TensorDataset(torch.arange(5)), batch_size=2)])
        return [out, fetched]
    """

#: Which worker loads what is seen in what the loader gives; the functions that fail in it are those of `LOADERS`.
WORKERS = """
    import torch
    from torch.utils.data import DataLoader, Dataset
    class Rows(Dataset):
        def __len__(self):
            return 6
        def __getitem__(self, index):
            if index == 5:
                raise KeyError("own")
            return torch.tensor([float(index)])
    def main():
        out = []
        with clew.items(100):
            loader = DataLoader(Rows(), batch_size=2, num_workers=1)
            try:
                for batch in loader:
                    out.append(batch.tolist())
            except KeyError as error:
                out.append(type(error).__name__)
        return out
    """

LIGHTNING = """
    import logging, os, tempfile, warnings
    warnings.simplefilter("ignore")
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from clew.integrations.lightning import ModelTracerCallback
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    class Net(LightningModule):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 1)
            torch.nn.init.ones_(self.fc.weight)
            torch.nn.init.ones_(self.fc.bias)
            self.losses = []
        def training_step(self, batch, index):
            loss = self.fc(batch[0]).pow(2).mean()
            self.losses.append(round(loss.item(), 4))
            return loss
        def validation_step(self, batch, index):
            self.losses.append("validated")
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)
    class Failing(Net):
        def training_step(self, batch, index):
            raise KeyError("own")
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)), batch_size=2)
    def trainer(callback):
        return Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                       enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                       callbacks=[callback], default_root_dir=tempfile.gettempdir())
    callbacks = [ModelTracerCallback(["fc", "**.weight.grad"]) for _ in range(2)]
    def main():
        net = Net()
        trainer(callbacks[0]).fit(net, data, data)
        try:
            trainer(callbacks[1]).fit(Failing(), data)
        except KeyError as error:
            failed = repr(error)
        return [net.losses, failed]
    """

HUGGINGFACE = """
    import os, tempfile, warnings
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("ignore")
    import torch
    from transformers import Trainer, TrainingArguments
    from clew.integrations.huggingface import ModelTracerCallback
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(2, 1)
            torch.nn.init.ones_(self.fc.weight)
            torch.nn.init.ones_(self.fc.bias)
            self.losses = []
        def forward(self, x, fails=False):
            if len(self.losses) == 3:
                raise KeyError("own")
            loss = self.fc(x).pow(2).mean()
            self.losses.append(round(loss.item(), 4))
            return {"loss": loss}
    data = [{"x": torch.ones(2)}] * 4
    folder = tempfile.mkdtemp()
    arguments = TrainingArguments(folder, per_device_train_batch_size=2, num_train_epochs=2, report_to=[],
                                  save_strategy="no", disable_tqdm=True, use_cpu=True, logging_strategy="no")
    callback = ModelTracerCallback(["fc", "**.weight.grad"])
    def main():
        net = Net()
        try:
            with callback:
                Trainer(net, arguments, train_dataset=data, callbacks=[callback]).train()
        except KeyError as error:
            failed = repr(error)
        return [net.losses, failed]
    """

MAGIC = """
    import contextlib, io, os
    os.environ["IPYTHONDIR"] = os.environ["CLEW_DIR"]
    from IPython.core.interactiveshell import InteractiveShell
    shell = InteractiveShell.instance(colors="nocolor")
    shell.run_line_magic("load_ext", "clew")
    def main():
        out = []
        shell.user_ns["out"] = out
        cells = [
            '--watch "x, y" --name cell\\ndef double(n):\\n    return [n, n]\\nx = 1\\ny = double(x)\\n'
            'for x in range(3):\\n    y.append(x)\\nout.append(y)\\nlen(y)',
            '--watch x\\nx = 5\\nraise KeyError("own")',
        ]
        for cell in cells:
            with contextlib.redirect_stdout(io.StringIO()):
                result = shell.run_cell("%%clew " + cell, silent=True)
            out.append(repr(result.error_in_exec))
        return out
    """

PROGRAMS = {
    "sklearn": SKLEARN,
    "pandas": PANDAS,
    "datasets": DATASETS,
    "streams": STREAMS,
    "loaders": LOADERS,
    "workers": WORKERS,
    "lightning": LIGHTNING,
    "huggingface": HUGGINGFACE,
    "magic": MAGIC,
}


#: What these programs reach and the others do not; what is behind it, test_entry_points.py tries.
PLACES = ("probes/pipeline/", "integrations/", "magics.py", "probes/watch/notebook_cell.py", "probes/model/tracer.py")


def targets_in(program: str, folder: Path) -> list[str]:
    return [target for target in functions_behind(PROGRAMS[program], folder) if target.startswith(PLACES)]


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_failure_behind_a_library_reaches_the_program(program: str, part: int, tmp_path: Path) -> None:
    targets = targets_in(program, tmp_path)
    assert len(targets) > 20
    check(PROGRAMS[program], targets[part :: len(PARTS)], tmp_path)
