"""Whatever fails inside clew while a torch loader and a model are traced, the program gives what it gives without."""

from __future__ import annotations

from pathlib import Path

import pytest

from .injection import PARTS, check, functions_behind

pytest.importorskip("torch")

LOADER = """
    import torch
    from torch.utils.data import DataLoader, Dataset
    fetched = []
    class Rows(Dataset):
        def __len__(self):
            return 6
        def __getitem__(self, index):
            fetched.append(index)
            return torch.tensor([float(index), index + 1.0])
    model = torch.nn.Flatten()
    def main():
        out = []
        with clew.items(4):
            for batch in DataLoader(Rows(), batch_size=2, collate_fn=torch.stack):
                out.append(model(batch).tolist())
        return [out[:2], fetched[:4]]
    """

SAMPLE = [
    "probes/pipeline/plugins/torchloader.py:_new_feed",
    "probes/pipeline/passage.py:devices_of",
    "probes/pipeline/passage.py:StagedCall.step_aside",
    "probes/pipeline/plugins/torchmodel.py:_pass",
    "probes/pipeline/plugins/torchfeed.py:Feed._groups#1",
    "probes/pipeline/plugins/torchfeed.py:Feed._groups#2",
    "probes/pipeline/trace_recording.py:current",
]


def test_a_failure_of_ours_does_not_reach_a_program_with_a_loader(tmp_path: Path) -> None:
    check(LOADER, SAMPLE, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_no_failure_of_ours_reaches_a_program_with_a_loader(part: int, tmp_path: Path) -> None:
    targets = [target for target in functions_behind(LOADER, tmp_path) if target.startswith("probes/pipeline/")]
    assert len(targets) > 100
    check(LOADER, targets[part :: len(PARTS)], tmp_path)
