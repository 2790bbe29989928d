"""Recorded values of all ranks brought to rank 0 through torch.distributed, without pickles.

    all ranks   all_gather   [MARK, gathering, header bytes, data bytes]     four int64
    rank r > 0  send to 0    header (JSON), padding, data                    one uint8 tensor of exactly that size

The header names what was recorded, and where in the data each tensor or part of a `Value` lies (aligned to `ALIGN`).
Exactly sized messages took half the time of a padded `dist.gather`. On rank 0 each tensor is copied out of the message
once: a view would keep the whole message alive for as long as one small tensor of it.

A gathering that fails is the last: each rank keeps its own values from there on, and `broken` says why.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import timedelta
from itertools import count
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from clew import trouble
from clew.errors import OptionError
from clew.records import Kept, Summary, Value
from clew.values import capture, decode, parse_keep

MARK: Final = 0x636C6577_00000001  # "clew" and the version of what is sent. The first exchange must never change.
ALIGN: Final = 64
_HEADER_LIMIT: Final = 1 << 30  # more than any rank has to say: beyond these a size is nonsense
_DATA_LIMIT: Final = 1 << 40
_SLOWEST: Final = 16 << 20  # bytes a second that a network is trusted to carry: large messages get longer than small
_SOON: Final = 0.2  # seconds after which a rank that waits for others says that it is here
_GRACE: Final = 1.0  # seconds in which those that are here find out who is not

_PLACE: Final = re.compile(r"^\[[^]]*\] ")  # of gloo's own source, before what it has to say
_FULL: Final = parse_keep("full")
_made: Final = count()  # the same on every rank, because making a gatherer is a collective


class Batch(NamedTuple):
    """What one rank has recorded under one name since the last gathering."""

    name: str
    values: list[Any]  # tensors on the CPU, or scalars, texts, containers
    iterations: list[int]


class _BrokenError(Exception):
    """Why a gathering failed, in words for people. `waiting`: it was for the others to come."""

    def __init__(self, what: str, reason: str = "", *, waiting: bool = False) -> None:
        super().__init__(what)
        self.reason = f" ({reason})" if reason else ""
        self.waiting = waiting


def _failure(what: str, cause: Exception, *, waiting: bool = False) -> _BrokenError:
    """Only the words of the cause: its traceback would hold the group, and so its connections, open."""
    first = next(iter(str(cause).splitlines()), "") or type(cause).__name__
    return _BrokenError(what, _PLACE.sub("", first)[:200], waiting=waiting)


# ---- what is sent


def pack(batches: list[Batch]) -> tuple[Any, int]:
    """The message of one rank, and how many bytes of it are the header."""
    pieces = _Pieces()
    rows = [
        {"name": str(b.name), "iterations": _numbers(b.iterations), "values": [pieces.add(v) for v in b.values]}
        for b in batches
    ]
    header = json.dumps(rows).encode()
    return pieces.message(header), len(header)


def _numbers(iterations: Any) -> list[Any]:
    """Whole numbers, or lists of them: a callback that stacks values may do the same with their iterations."""
    return [_numbers(i) if isinstance(i, list | tuple) else int(i) for i in iterations]


class _Pieces:
    """The raw bytes that go into one message, and where each of them goes."""

    def __init__(self) -> None:
        self._held: list[tuple[int, Any]] = []  # (where, bytes as a flat uint8 array)
        self._size = 0

    def add(self, value: Any) -> dict[str, Any]:
        """What the header says of a value."""
        flat = _bytes_of(value)
        if flat is not None:
            return {"dtype": str(value.dtype)[6:], "shape": list(value.shape), "at": self._put(flat)}
        seen = capture(value, _FULL).value
        row = {"type": seen.type, "body": seen.body, "kept": int(seen.kept), "why": seen.why}
        parts = [self._put(np.frombuffer(part, np.uint8)) for part in seen.parts]
        return {**row, "summary": asdict(seen.summary), "parts": parts}

    def _put(self, flat: Any) -> list[int]:
        where = self._size
        self._held.append((where, flat))
        self._size += _aligned(flat.size)
        return [where, flat.size]

    def message(self, header: bytes) -> Any:
        start = _aligned(len(header))
        message = torch.empty(start + self._size, dtype=torch.uint8, device="cpu")
        flat = message.numpy()
        flat[: len(header)] = np.frombuffer(header, np.uint8)
        for where, piece in self._held:
            flat[start + where : start + where + piece.size] = piece
        return message


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _bytes_of(value: Any) -> Any:
    """The elements of a tensor that is no more than bytes, dtype and shape. None: to be written as a `Value`."""
    if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
        return None
    if value.layout is not torch.strided or not value.is_cpu or value.is_quantized:
        return None
    if value.numel() and not value.untyped_storage().nbytes():  # given back, as FSDP does: there is nothing to read
        return None
    try:
        dense = value.detach().resolve_conj().resolve_neg().contiguous()
        # not reshape(-1): of one element or none, that keeps whatever stride there was
        return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy()
    except (RuntimeError, NotImplementedError):  # a wrapper of functorch, an odd backend
        return None


# ---- what is received. Nothing in it is trusted: it may come from another version of clew.


def unpack(message: Any, header_size: int) -> list[Batch]:
    """The batches of one rank. Raises whatever a message that makes no sense leads to."""
    flat = message.numpy()
    rows = json.loads(flat[:header_size].tobytes())
    data = flat[_aligned(header_size) :]
    found = []
    for row in rows:
        if type(row["name"]) is not str:
            raise ValueError(f"a name that is a {type(row['name']).__name__}")
        values = [_read(data, value) for value in row["values"]]
        found.append(Batch(row["name"], values, _numbers(row["iterations"])))
    return found


def _read(data: Any, row: dict[str, Any]) -> Any:
    if "dtype" in row:
        return _read_tensor(data, row)
    summary = Summary(**row["summary"])
    summary.shape = None if summary.shape is None else tuple(summary.shape)
    parts = [bytearray(_slice(data, at)) for at in row["parts"]]
    return decode(Value(row["type"], row["body"], parts, Kept(row["kept"]), row["why"], summary))


def _read_tensor(data: Any, row: dict[str, Any]) -> Any:
    dtype, shape, raw = getattr(torch, row["dtype"]), row["shape"], _slice(data, row["at"])
    if not isinstance(dtype, torch.dtype) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"a tensor of type {row['dtype']} and shape {shape}")
    if prod(shape) * dtype.itemsize != raw.size:  # before anything is made as large as the header claims
        raise ValueError(f"{raw.size} bytes for a tensor of type {row['dtype']} and shape {shape}")
    tensor = torch.empty(shape, dtype=dtype, device="cpu")
    tensor.reshape(-1).view(torch.uint8).numpy()[:] = raw
    return tensor


def _slice(data: Any, at: list[int]) -> Any:
    where, size = at
    if not 0 <= where <= where + size <= data.size:
        raise ValueError(f"bytes {where} to {where + size} of a message of {data.size}")
    return data[where : where + size]


@contextmanager
def _quiet() -> Iterator[None]:
    """No modes of the program (default devices, dispatch, inference) have a say in what is done here."""
    with ExitStack() as stack:
        for guard in (torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch()):
            stack.enter_context(guard)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        yield


# ---- the ranks together


class Gatherer:
    """Brings what all ranks have recorded to rank 0. Making one, and each `gather`, is a collective."""

    def __init__(self, *, timeout: float = 30.0) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise OptionError(
                "no-distributed",
                "Values of several ranks can only be gathered where torch.distributed is initialised, and it is not.",
                "Call torch.distributed.init_process_group first.",
            )
        self.rank: int = dist.get_rank()
        self.world: int = dist.get_world_size()
        self.broken = ""
        self._timeout = timeout
        self._done = 0  # gatherings
        self._group: Any = None
        self._key = f"clew/gather/{next(_made)}"
        if self.world > 1:
            self._join()

    def _join(self) -> None:
        failed: _BrokenError | None = None
        self._say_here()
        try:
            # its own group: beside nccl, and never in the order of the program's own collectives
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self._timeout))
        except Exception as error:
            failed = _failure("the ranks could not be connected", error, waiting=True)
        if failed:
            self._break(failed)

    def gather(self, batches: list[Batch]) -> list[list[Batch]] | None:
        """On rank 0 the batches of every rank, by rank; None elsewhere. A collective. Never raises.

        Rank 0's own are given back as they are. If the gathering fails, they are all there is.
        """
        found: list[list[Batch]] = [[] for _ in range(self.world)]
        if self.world > 1 and not self.broken:
            found = self._gathered(batches) or found
        if self.rank:
            return None
        found[0] = batches
        return found

    def _gathered(self, batches: list[Batch]) -> list[list[Batch]] | None:
        if self._group is None:
            self.broken = "the gatherer was closed; each rank has only its own values"
            return None
        self._done += 1
        failed: _BrokenError
        try:
            with _quiet():
                message, header = self._packed(batches)
                sizes = self._exchange(header, message.numel() - _aligned(header))
                if self.rank == 0:
                    return self._receive(sizes)
                self._send(message, sizes)
                return None
        except _BrokenError as error:
            failed = error.with_traceback(None)
            failed.__context__ = None
        except Exception as error:
            failed = _failure(f"gathering {self._done} failed", error)
        self._break(failed)
        return None

    def _packed(self, batches: list[Batch]) -> tuple[Any, int]:
        """A rank whose values cannot be sent still takes part: the others wait for it."""
        if not batches or self.rank == 0:
            return torch.empty(0, dtype=torch.uint8, device="cpu"), 0
        try:
            return pack(batches)
        except Exception as error:
            what = f"the values of rank {self.rank} could not be packed and do not reach rank 0"
            trouble.report("gather:pack", what, cause=error)
            return torch.empty(0, dtype=torch.uint8, device="cpu"), 0

    def _exchange(self, header: int, data: int) -> list[tuple[int, int]]:
        """How many bytes of header and data each rank has. Every rank sees the same, and so comes to the same end."""
        mine = torch.tensor([MARK, self._done, header, data], dtype=torch.int64, device="cpu")
        rows = [torch.zeros(4, dtype=torch.int64, device="cpu") for _ in range(self.world)]
        started = time.monotonic()
        late = threading.Timer(_SOON, self._say_here)
        late.daemon = True
        late.start()
        try:
            dist.all_gather(rows, mine, group=self._group)
        except Exception as error:
            what = f"gathering {self._done} failed after {time.monotonic() - started:.1f} s"
            raise _failure(what, error, waiting=True) from None
        finally:
            late.cancel()
        return [self._sizes(rank, row.tolist()) for rank, row in enumerate(rows)]

    def _sizes(self, rank: int, row: list[int]) -> tuple[int, int]:
        mark, number, header, data = row
        if mark != MARK:
            raise _BrokenError(f"rank {rank} sends what this rank cannot read, perhaps with another version of clew")
        if number != self._done:
            raise _BrokenError(f"rank {rank} is at gathering {number} while rank {self.rank} is at {self._done}")
        if not (0 <= header <= _HEADER_LIMIT and 0 <= data <= _DATA_LIMIT):
            raise _BrokenError(f"rank {rank} announces {header} and {data} bytes, which makes no sense")
        return header, data

    def _send(self, message: Any, sizes: list[tuple[int, int]]) -> None:
        if not message.numel():
            return
        try:
            work: Any = dist.isend(message, dst=0, group=self._group)
            work.wait(self._patience(sizes))
        except Exception as error:
            what = f"rank 0 did not take the values of rank {self.rank} in gathering {self._done}"
            raise _failure(what, error) from None

    def _receive(self, sizes: list[tuple[int, int]]) -> list[list[Batch]]:
        patience = self._patience(sizes)
        coming: dict[int, tuple[Any, Any]] = {}
        for rank, (header, data) in enumerate(sizes):
            if header:
                message = torch.empty(_aligned(header) + data, dtype=torch.uint8, device="cpu")
                coming[rank] = message, dist.irecv(message, src=rank, group=self._group)
        for rank, (_, work) in coming.items():
            try:
                work.wait(patience)
            except Exception as error:
                what = f"the values that rank {rank} had announced for gathering {self._done} did not come"
                raise _failure(what, error) from None
        found: list[list[Batch]] = [[] for _ in sizes]
        for rank in list(coming):
            message, _ = coming.pop(rank)  # let go of one by one: each is as large as what is read from it
            found[rank] = self._unpacked(rank, message, sizes[rank][0])
        return found

    def _unpacked(self, rank: int, message: Any, header: int) -> list[Batch]:
        try:
            return unpack(message, header)
        except Exception as error:
            what = f"what rank {rank} sent makes no sense here, perhaps of another version of clew"
            raise _failure(what, error) from None

    def _patience(self, sizes: list[tuple[int, int]]) -> timedelta:
        return timedelta(seconds=self._timeout + sum(header + data for header, data in sizes) / _SLOWEST)

    # ---- when it fails

    def _break(self, failed: _BrokenError) -> None:
        self.close()  # first: the others notice, and need not wait for this rank
        missing = self._missing() if failed.waiting else ""
        self.broken = f"{failed}{missing}{failed.reason}; from here on each rank has only its own values"

    def _missing(self) -> str:
        """': rank 3 did not come', as far as those ranks that did come find out within a moment."""
        absent: list[int] = []
        asking = threading.Thread(target=self._ask, args=(absent,), daemon=True)  # a store that died may not answer
        asking.start()
        asking.join(_GRACE + 1)
        if not absent:
            return ""
        named = f"rank {absent[0]}" if len(absent) == 1 else f"ranks {', '.join(map(str, absent))}"
        return f": {named} did not come"

    def _ask(self, absent: list[int]) -> None:
        try:
            self._say_here()
            store, until = dist.distributed_c10d._get_default_store(), time.monotonic() + _GRACE
            left = list(range(self.world))
            while left and time.monotonic() < until:
                left = [rank for rank in left if not self._is_here(store, rank)]
                time.sleep(0.05 if left else 0)
            absent += left
        except Exception:  # the store died with its rank: who is missing cannot be known
            pass

    def _say_here(self) -> None:
        """Leaves word in the program's store that this rank has come to this gathering."""
        try:
            dist.distributed_c10d._get_default_store().set(f"{self._key}/{self.rank}", str(self._done))
        except Exception:  # then it cannot be named, or is named wrongly; the store failed, and so will the gathering
            pass

    def _is_here(self, store: Any, rank: int) -> bool:
        key = f"{self._key}/{rank}"
        return store.check([key]) and int(store.get(key)) >= self._done

    def close(self) -> None:
        """Leaves the group. Not a collective, and harmless if done twice."""
        group, self._group = self._group, None
        try:
            if group is not None and dist.is_initialized():
                dist.destroy_process_group(group)
        except Exception:  # the program has ended torch.distributed itself, or a rank died
            pass
