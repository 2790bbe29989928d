"""Gathering on rank 0, between real gloo processes.

Starting processes is slow, so one world of each size runs all its scenarios, and the tests look at how each ended.
This file is also the program of those processes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from clew.engines import gather
from clew.engines.gather import ALIGN, Batch, Gatherer, pack, unpack
from clew.errors import OptionError
from clew.records import NotKept, Object

DTYPES = sorted(
    {
        str(dtype)[6:]
        for dtype in vars(torch).values()
        if isinstance(dtype, torch.dtype) and not any(word in str(dtype) for word in ("quint", "qint", "bits"))
    }
)


def random_tensor(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Any bits at all, NaN and negative zero among them, as any seed gives them on any rank."""
    count = int(np.prod(shape, dtype=int)) * dtype.itemsize
    raw = np.random.default_rng(seed).integers(0, 2 if dtype is torch.bool else 256, count, dtype=np.uint8)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return a.numel() == 0 or torch.equal(*(x.contiguous().reshape(-1).view(torch.uint8) for x in (a, b)))


def exactly(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return same_bits(a, b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(exactly, a.values(), b.values()))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(exactly, a, b))
    return repr(a) == repr(b)  # 0.0 is not -0.0


class Config:
    def __init__(self) -> None:
        self.rate = 0.5


def mixed(rank: int) -> list[Any]:
    return [
        None,
        True,
        rank,
        1 << 200,
        -0.0,
        float("inf"),
        "text \ud800 é",
        b"\x00\xff",
        b"long" * 100_000,
        (1, [2.5, {"k": rank}]),
        {"w": torch.arange(5) + rank, "empty": torch.empty(0, 3)},
        [torch.tensor(1.5, dtype=torch.bfloat16)],
        np.arange(6, dtype=np.int16).reshape(2, 3) + rank,
        np.float32(2.5),
        {3, 4},
    ]


# ---- scenarios: run on every rank


def values_come_bit_for_bit(rank: int, world: int) -> None:
    gatherer = Gatherer()
    sent = [Batch("a.weight", [random_tensor(torch.float32, 33, 7, seed=10 * rank + i) for i in range(3)], [4, 5, 9])]
    batches_by_rank = gatherer.gather(sent)
    assert not gatherer.broken
    if rank:
        assert batches_by_rank is None
        return
    assert batches_by_rank is not None and len(batches_by_rank) == world
    for other, batches in enumerate(batches_by_rank):
        (batch,) = batches
        assert (batch.name, batch.iterations) == ("a.weight", [4, 5, 9])
        for i, value in enumerate(batch.values):
            assert same_bits(value, random_tensor(torch.float32, 33, 7, seed=10 * other + i))


def every_dtype_comes(rank: int, world: int) -> None:
    gatherer = Gatherer()
    dtypes = [getattr(torch, name) for name in DTYPES]
    shapes = ((), (0,), (3, 0, 2), (5, 3))
    values = [random_tensor(dtype, *shape, seed=rank) for dtype in dtypes for shape in shapes]
    batches_by_rank = gatherer.gather([Batch("x", values, list(range(len(values))))])
    assert not gatherer.broken, gatherer.broken
    if batches_by_rank is not None:
        expected = [random_tensor(dtype, *shape, seed=1) for dtype in dtypes for shape in shapes]
        assert len(batches_by_rank[1][0].values) == len(expected)
        assert all(map(same_bits, batches_by_rank[1][0].values, expected))


def tensors_that_do_not_lie_in_order_come_as_they_mean(rank: int, world: int) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    z = torch.complex(base, -base)
    values = [
        base.t(),
        base[:, ::2],
        base[1:, 2:3],
        base[0].expand(5, 6),
        z.conj(),
        z.conj().imag,
        base[2, 3],
        base[0, ::5][:1],
        base[:0, ::2],
    ]
    gatherer = Gatherer()
    batches_by_rank = gatherer.gather([Batch("x", values, list(range(9)))])
    assert not gatherer.broken
    if batches_by_rank is not None:
        for other, own in zip(batches_by_rank[1][0].values, values, strict=True):
            assert torch.equal(other, own.resolve_conj().resolve_neg())


def a_parameter_comes_as_a_tensor_without_grad(rank: int, world: int) -> None:
    batches_by_rank = Gatherer().gather([Batch("w", [torch.nn.Parameter(torch.ones(3))], [0])])
    if batches_by_rank is not None:
        value = batches_by_rank[1][0].values[0]
        assert type(value) is torch.Tensor and not value.requires_grad and torch.equal(value, torch.ones(3))


def other_values_come_as_they_were_written(rank: int, world: int) -> None:
    gatherer = Gatherer()
    batches_by_rank = gatherer.gather([Batch("x", mixed(rank), list(range(len(mixed(rank)))))])
    assert not gatherer.broken, gatherer.broken
    if batches_by_rank is not None:
        for value, expected in zip(batches_by_rank[1][0].values, mixed(1), strict=True):
            assert exactly(value, expected), (value, expected)


def what_cannot_be_sent_whole_says_so(rank: int, world: int) -> None:
    values = [Config(), torch.eye(3).to_sparse(), torch.empty(2, device="meta")]
    batches_by_rank = Gatherer().gather([Batch("x", values, [0, 1, 2])])
    if batches_by_rank is not None:
        config, sparse, meta = batches_by_rank[1][0].values
        assert isinstance(config, Object) and config.rate == 0.5
        assert isinstance(sparse, NotKept) and "sparse" in repr(sparse)
        assert isinstance(meta, NotKept) and meta.summary.shape == (2,)


def modes_of_the_program_have_no_say(rank: int, world: int) -> None:
    gatherer = Gatherer()
    with torch.device("meta"), torch.inference_mode():
        batches_by_rank = gatherer.gather([Batch("x", [torch.ones(2, device="cpu")], [0])])
    assert not gatherer.broken
    if batches_by_rank is not None:
        value = batches_by_rank[1][0].values[0]
        value += 1  # an inference tensor would refuse
        assert value.tolist() == [2.0, 2.0] and not value.is_inference()


def many_gatherings_follow_each_other_and_the_programs_own_collectives(rank: int, world: int) -> None:
    gatherer = Gatherer()
    total = torch.zeros(1)
    for step in range(20):
        total = torch.tensor([float(rank)])
        pending = dist.all_reduce(total, async_op=True)
        batches_by_rank = gatherer.gather([Batch("x", [torch.full((step,), float(rank))], [step])])
        pending.wait()
        if batches_by_rank is not None:
            assert batches_by_rank[1][0].values[0].tolist() == [1.0] * step and batches_by_rank[1][0].iterations == [
                step
            ]
    assert total.item() == sum(range(world)) and not gatherer.broken


def a_large_message_comes_though_its_sender_leaves_at_once(rank: int, world: int) -> None:
    gatherer = Gatherer()
    batches_by_rank = gatherer.gather([Batch("x", [random_tensor(torch.uint8, 8 << 20, seed=rank)], [0])])
    gatherer.close()
    assert not gatherer.broken
    if batches_by_rank is not None:
        assert same_bits(batches_by_rank[1][0].values[0], random_tensor(torch.uint8, 8 << 20, seed=1))


def a_closed_gatherer_gives_rank_0_its_own(rank: int, world: int) -> None:
    gatherer = Gatherer()
    gatherer.close()
    gatherer.close()
    batches_by_rank = gatherer.gather([Batch("x", [rank], [0])])
    assert batches_by_rank == (None if rank else [[Batch("x", [0], [0])], []])
    assert "closed" in gatherer.broken


def values_that_cannot_be_packed_hold_nobody_up(rank: int, world: int) -> None:
    gatherer = Gatherer()
    batches_by_rank = gatherer.gather([Batch("x", [rank], ["no number"])])  # type: ignore[list-item]
    assert not gatherer.broken
    assert rank or batches_by_rank[1] == []


def a_header_that_makes_no_sense_breaks_it(rank: int, world: int) -> None:
    for header in (b"{}[", b'[{"other": 1}]', b'{"a": 3}', b"\xff\xfe", b"[" * 100_000, huge_header()):
        gatherer = Gatherer(timeout=5)
        if rank == 1:
            gather.pack = lambda batches: (torch.frombuffer(padded(header), dtype=torch.uint8), len(header))
        batches_by_rank = gatherer.gather([Batch("x", [rank], [0])])
        if rank == 0:
            assert batches_by_rank == [[Batch("x", [0], [0])], []]
            assert "rank 1" in gatherer.broken and "another version" in gatherer.broken
    gather.pack = pack


def padded(header: bytes) -> bytearray:
    return bytearray(header.ljust(-(-len(header) // ALIGN) * ALIGN, b" "))


def huge_header() -> bytes:
    value = {"dtype": "float64", "shape": [1 << 50], "at": [0, 0]}
    return json.dumps([{"name": "x", "iterations": [0], "values": [value]}]).encode()


def after_rank_0_breaks_the_others_do_so_too(rank: int, world: int) -> None:
    gatherer = Gatherer(timeout=1)
    if rank == 1:
        gather.pack = lambda batches: (torch.zeros(ALIGN, dtype=torch.uint8), 3)
    gatherer.gather([Batch("x", [rank], [0])])
    gather.pack = pack
    gatherer.gather([Batch("x", [rank], [1])])
    assert gatherer.broken


def values_that_were_announced_and_never_sent_break_it(rank: int, world: int) -> None:
    gatherer = Gatherer(timeout=1)
    if rank:
        gatherer._send = lambda message, sizes: None
    batches_by_rank = gatherer.gather([Batch("x", [rank], [0])])
    if rank == 0:
        assert batches_by_rank == [[Batch("x", [0], [0])], []]
        assert "rank 1 had announced" in gatherer.broken


def values_that_rank_0_does_not_take_break_it(rank: int, world: int) -> None:
    gatherer = Gatherer(timeout=1)
    gatherer._receive = lambda sizes: [[], []]
    gatherer.gather([Batch("x", [torch.ones(1 << 20)], [0])])
    assert rank == 0 or "rank 0 did not take" in gatherer.broken, gatherer.broken
    dist.barrier()


def another_version_is_noticed_by_every_rank(rank: int, world: int) -> None:
    gatherer = Gatherer()
    gather.MARK += rank
    batches_by_rank = gatherer.gather([Batch("x", [rank], [0])])
    gather.MARK -= rank
    assert "another version" in gatherer.broken
    assert rank or batches_by_rank == [[Batch("x", [0], [0])], []]


def sizes_that_make_no_sense_break_it_on_every_rank(rank: int, world: int) -> None:
    gatherer = Gatherer()
    announce = gatherer._exchange
    if rank:
        gatherer._exchange = lambda header, data: announce(header, 1 << 60)
    gatherer.gather([Batch("x", [rank], [0])])
    assert "makes no sense" in gatherer.broken


def ragged_shapes_and_different_names_come(rank: int, world: int) -> None:
    gatherer = Gatherer()
    batches = [Batch(f"layer.{i}", [torch.full((i, rank), float(i))] * i, list(range(i))) for i in range(rank)]
    batches_by_rank = gatherer.gather(batches)
    assert not gatherer.broken
    if batches_by_rank is not None:
        assert batches_by_rank[0] is batches
        for other in range(world):
            assert [b.name for b in batches_by_rank[other]] == [f"layer.{i}" for i in range(other)]
            for i, batch in enumerate(batches_by_rank[other]):
                assert batch.iterations == list(range(i))
                assert all(torch.equal(v, torch.full((i, other), float(i))) for v in batch.values)


def a_rank_with_nothing_gives_an_empty_list(rank: int, world: int) -> None:
    gatherer = Gatherer()
    batches_by_rank = gatherer.gather([Batch("x", [rank], [7])] if rank == 2 else [])
    assert rank or batches_by_rank == [[], [], [Batch("x", [2], [7])], []]
    batches_by_rank = gatherer.gather([])
    assert rank or batches_by_rank == [[], [], [], []]
    assert not gatherer.broken


@contextmanager
def late(late_rank: int, rank: int, world: int) -> Iterator[None]:
    """That rank goes on only when the others have come to the end of the block: they have given it up."""
    store, key = dist.distributed_c10d._get_default_store(), f"test/late{late_rank}"
    if rank == late_rank:
        store.wait([f"{key}/{other}" for other in range(world) if other != rank])
    yield
    store.set(f"{key}/{rank}", "gave up")


def names(broken: str, rank: int) -> bool:
    """On a machine with much to do, another rank may be late as well, and rightly named."""
    return re.search(rf": ranks? [0-9, ]*\b{rank}\b[0-9, ]* did not come", broken) is not None


def a_rank_that_comes_too_late_is_named_and_breaks_as_well(rank: int, world: int) -> None:
    gatherer = Gatherer(timeout=1)
    with late(2, rank, world):
        batches_by_rank = gatherer.gather([Batch("x", [rank], [0])])
        assert batches_by_rank == (None if rank else [[Batch("x", [0], [0])], [], [], []])
        assert gatherer.broken
        assert rank == 2 or names(gatherer.broken, 2), gatherer.broken


def a_rank_that_never_makes_one_is_named(rank: int, world: int) -> None:
    if rank == 0:
        gatherer = Gatherer(timeout=1)
        assert "could not be connected" in gatherer.broken and names(gatherer.broken, 1), gatherer.broken
        assert gatherer.gather([Batch("x", [0], [0])]) == [[Batch("x", [0], [0])], []]


def a_rank_that_dies_leaves_the_others_their_own(rank: int, world: int) -> None:
    gatherer = Gatherer(timeout=3)
    gatherer.gather([Batch("x", [rank], [0])])
    if rank == 3:
        os._exit(9)
    for step in (1, 2, 3):
        batches_by_rank = gatherer.gather([Batch("x", [rank], [step])])
        assert batches_by_rank == (None if rank else [[Batch("x", [0], [step])], [], [], []])
    assert names(gatherer.broken, 3), gatherer.broken


Scenario = Callable[[int, int], None]
OF_TWO: list[Scenario] = [
    values_come_bit_for_bit,
    every_dtype_comes,
    tensors_that_do_not_lie_in_order_come_as_they_mean,
    a_parameter_comes_as_a_tensor_without_grad,
    other_values_come_as_they_were_written,
    what_cannot_be_sent_whole_says_so,
    modes_of_the_program_have_no_say,
    many_gatherings_follow_each_other_and_the_programs_own_collectives,
    a_large_message_comes_though_its_sender_leaves_at_once,
    a_closed_gatherer_gives_rank_0_its_own,
    values_that_cannot_be_packed_hold_nobody_up,
    a_header_that_makes_no_sense_breaks_it,
    after_rank_0_breaks_the_others_do_so_too,
    values_that_were_announced_and_never_sent_break_it,
    values_that_rank_0_does_not_take_break_it,
    another_version_is_noticed_by_every_rank,
    sizes_that_make_no_sense_break_it_on_every_rank,
    a_rank_that_never_makes_one_is_named,  # the last: the ranks are no longer in step
]
OF_FOUR: list[Scenario] = [
    values_come_bit_for_bit,
    ragged_shapes_and_different_names_come,
    a_rank_with_nothing_gives_an_empty_list,
    a_rank_that_comes_too_late_is_named_and_breaks_as_well,
    a_rank_that_dies_leaves_the_others_their_own,  # the last: a rank is gone
]


def main(rank: int, world: int, folder: Path) -> None:
    """The program of one rank: each scenario, and how it ended."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    out = folder / f"{rank}.jsonl"
    for scenario in OF_TWO if world == 2 else OF_FOUR:
        dist.barrier()
        error = ""
        try:
            scenario(rank, world)
        except Exception:
            error = traceback.format_exc()
        with out.open("a") as file:
            file.write(json.dumps([scenario.__name__, error]) + "\n")
    os._exit(0)  # no goodbye to a rank that is gone


def outcomes(world: int, folder: Path) -> dict[str, list[str]]:
    """Scenario -> how it ended on each rank that came to its end."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), "CLEW_STRICT": "1"}
    command = [sys.executable, __file__]
    processes = [
        subprocess.Popen([*command, str(rank), str(world), str(folder)], env=env, stderr=subprocess.PIPE)
        for rank in range(world)
    ]
    try:
        stderr_texts = [process.communicate(timeout=60)[1].decode() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    errors_by_scenario: dict[str, list[str]] = {}
    for rank in range(world):
        path = folder / f"{rank}.jsonl"
        assert path.exists(), stderr_texts[rank]
        for line in path.read_text().splitlines():
            name, error = json.loads(line)
            errors_by_scenario.setdefault(name, []).append(error)
    return errors_by_scenario


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return outcomes(2, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return outcomes(4, tmp_path_factory.mktemp("four"))


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in OF_TWO])
def test_between_two_ranks(scenario: str, two: dict[str, list[str]]) -> None:
    assert two[scenario] == ["", ""]


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in OF_FOUR])
def test_between_four_ranks(scenario: str, four: dict[str, list[str]]) -> None:
    assert four[scenario] == [""] * (3 if "dies" in scenario else 4)


# ---- without other processes


def test_a_world_of_one_needs_no_collective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        for name in ("new_group", "all_gather", "isend", "irecv"):
            monkeypatch.delattr(dist, name)
        gatherer = Gatherer()
        batches = [Batch("x", [torch.ones(2)], [0])]
        assert gatherer.gather(batches) == [batches]
        gatherer.close()
        assert not gatherer.broken
    finally:
        dist.destroy_process_group()


def test_without_torch_distributed_the_error_tells_what_to_call() -> None:
    with pytest.raises(OptionError, match="init_process_group") as caught:
        Gatherer()
    assert caught.value.slug == "no-distributed"


def test_iterations_may_be_nested_as_a_callback_that_stacks_leaves_them() -> None:
    sent = [Batch("x", [1], [[3, 4], (5,), np.int64(6)])]
    assert unpack(*pack(sent)) == [Batch("x", [1], [[3, 4], [5], 6])]


def test_a_tensor_does_not_keep_the_message_alive() -> None:
    message, header = pack([Batch("x", [torch.ones(2), torch.ones(1 << 16)], [0, 1])])
    small, _ = unpack(message, header)[0].values
    assert small.untyped_storage().nbytes() == 8


def test_a_tensor_that_claims_more_than_was_sent_is_refused() -> None:
    header = huge_header()
    with pytest.raises(ValueError, match="0 bytes for a tensor"):
        unpack(torch.frombuffer(padded(header), dtype=torch.uint8), len(header))


@pytest.mark.parametrize("at", [[0, 65], [-1, 2], [64, 1], [0, -1]])
def test_bytes_outside_the_message_are_refused(at: list[int]) -> None:
    value = {"dtype": "uint8", "shape": [1], "at": at}
    header = json.dumps([{"name": "x", "iterations": [0], "values": [value]}]).encode()
    message = torch.frombuffer(padded(header) + bytearray(ALIGN), dtype=torch.uint8)
    with pytest.raises(ValueError, match="of a message of 64"):
        unpack(message, len(header))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
