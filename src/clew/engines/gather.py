"""Brings the recorded values of all ranks to rank 0 through torch.distributed, without pickles.

    all ranks   all_gather   [MARK, gathering, header bytes, data bytes]     four int64
    rank r > 0  send to 0    header (JSON), padding, data                    one uint8 tensor of exactly that size

The header names what was recorded, and gives the position of each tensor or part of a `Value` in the data
(aligned to `ALIGN`). Exactly sized messages took half the time of a padded `dist.gather`. Rank 0 copies each
tensor out of the message once: a view would keep the whole message alive as long as one small tensor of it.

A gathering that fails is the last: from then on each rank keeps its own values, and `broken` says why.
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

MARK: Final = 0x636C6577_00000001  # "clew" and the version of the protocol. The first exchange must never change.
ALIGN: Final = 64
_HEADER_LIMIT: Final = 1 << 30  # larger sizes cannot be right
_DATA_LIMIT: Final = 1 << 40
_SLOWEST: Final = 16 << 20  # bytes per second that any network carries: large messages get a longer timeout
_SOON: Final = 0.2  # seconds after which a rank that waits for others announces itself
_GRACE: Final = 1.0  # seconds in which the present ranks find out who is missing

_GLOO_LOCATION: Final = re.compile(r"^\[[^]]*\] ")  # gloo's source line, at the beginning of its messages
_FULL: Final = parse_keep("full")
_gatherer_numbers: Final = count()  # the same on every rank, because making a gatherer is a collective


class Batch(NamedTuple):
    """Everything one rank has recorded under one name since the last gathering."""

    name: str
    values: list[Any]  # tensors on the CPU, or scalars, texts, containers
    iterations: list[int]


class _BrokenError(Exception):
    """Why a gathering failed, as a message for people. `waiting`: it failed while waiting for other ranks."""

    def __init__(self, message: str, reason: str = "", *, waiting: bool = False) -> None:
        super().__init__(message)
        self.reason = f" ({reason})" if reason else ""
        self.waiting = waiting


def _make_error(message: str, cause: Exception, *, waiting: bool = False) -> _BrokenError:
    """Uses only the text of the cause: its traceback would keep the group, and so its connections, open."""
    first_line = next(iter(str(cause).splitlines()), "") or type(cause).__name__
    return _BrokenError(message, _GLOO_LOCATION.sub("", first_line)[:200], waiting=waiting)


# ---- packing


def pack(batches: list[Batch]) -> tuple[Any, int]:
    """The message of one rank, and the size of its header in bytes."""
    builder = _MessageBuilder()
    rows = [
        {"name": str(b.name), "iterations": _plain_numbers(b.iterations), "values": [builder.add(v) for v in b.values]}
        for b in batches
    ]
    header = json.dumps(rows).encode()
    return builder.build(header), len(header)


def _plain_numbers(iterations: Any) -> list[Any]:
    """Integers, or lists of them: a callback that stacks values may also stack their iterations."""
    return [_plain_numbers(i) if isinstance(i, list | tuple) else int(i) for i in iterations]


class _MessageBuilder:
    """Collects the bytes of one message, and the position of each piece."""

    def __init__(self) -> None:
        self._pieces: list[tuple[int, Any]] = []  # position, and bytes as a flat uint8 array
        self._size = 0

    def add(self, value: Any) -> dict[str, Any]:
        """Add a value, and return its entry in the header."""
        flat = _tensor_bytes(value)
        if flat is not None:
            return {"dtype": str(value.dtype)[6:], "shape": list(value.shape), "at": self._add_piece(flat)}
        captured = capture(value, _FULL).value
        row = {"type": captured.type, "body": captured.body, "kept": int(captured.kept), "why": captured.why}
        parts = [self._add_piece(np.frombuffer(part, np.uint8)) for part in captured.parts]
        return {**row, "summary": asdict(captured.summary), "parts": parts}

    def _add_piece(self, flat: Any) -> list[int]:
        position = self._size
        self._pieces.append((position, flat))
        self._size += _aligned(flat.size)
        return [position, flat.size]

    def build(self, header: bytes) -> Any:
        start = _aligned(len(header))
        message = torch.empty(start + self._size, dtype=torch.uint8, device="cpu")
        flat = message.numpy()
        flat[: len(header)] = np.frombuffer(header, np.uint8)
        for position, piece in self._pieces:
            flat[start + position : start + position + piece.size] = piece
        return message


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _tensor_bytes(value: Any) -> Any:
    """The bytes of a tensor that consists of bytes, dtype and shape only; None if it must be sent as a `Value`."""
    if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
        return None
    if value.layout is not torch.strided or not value.is_cpu or value.is_quantized:
        return None
    if value.numel() and not value.untyped_storage().nbytes():  # freed, as FSDP does: there is nothing to read
        return None
    try:
        dense = value.detach().resolve_conj().resolve_neg().contiguous()
        # not reshape(-1), which keeps the stride of tensors with at most one element
        return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8).numpy()
    except (RuntimeError, NotImplementedError):  # a wrapper of functorch, an odd backend
        return None


# ---- unpacking. A message is not trusted: it may come from another version of clew.


def unpack(message: Any, header_size: int) -> list[Batch]:
    """The batches of one rank. An invalid message may raise any exception."""
    flat = message.numpy()
    rows = json.loads(flat[:header_size].tobytes())
    data = flat[_aligned(header_size) :]
    batches = []
    for row in rows:
        if type(row["name"]) is not str:
            raise ValueError(f"a name that is a {type(row['name']).__name__}")
        values = [_read_value(data, value) for value in row["values"]]
        batches.append(Batch(row["name"], values, _plain_numbers(row["iterations"])))
    return batches


def _read_value(data: Any, row: dict[str, Any]) -> Any:
    if "dtype" in row:
        return _read_tensor(data, row)
    summary = Summary(**row["summary"])
    summary.shape = None if summary.shape is None else tuple(summary.shape)
    parts = [bytearray(_slice_data(data, at)) for at in row["parts"]]
    return decode(Value(row["type"], row["body"], parts, Kept(row["kept"]), row["why"], summary))


def _read_tensor(data: Any, row: dict[str, Any]) -> Any:
    dtype, shape, raw = getattr(torch, row["dtype"]), row["shape"], _slice_data(data, row["at"])
    if not isinstance(dtype, torch.dtype) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"a tensor of type {row['dtype']} and shape {shape}")
    if prod(shape) * dtype.itemsize != raw.size:  # checked before allocating as much as the header claims
        raise ValueError(f"{raw.size} bytes for a tensor of type {row['dtype']} and shape {shape}")
    tensor = torch.empty(shape, dtype=dtype, device="cpu")
    tensor.reshape(-1).view(torch.uint8).numpy()[:] = raw
    return tensor


def _slice_data(data: Any, at: list[int]) -> Any:
    position, size = at
    if not 0 <= position <= position + size <= data.size:
        raise ValueError(f"bytes {position} to {position + size} of a message of {data.size}")
    return data[position : position + size]


@contextmanager
def _without_torch_modes() -> Iterator[None]:
    """Keep modes of the program (default devices, dispatch, inference) from affecting what is done inside."""
    with ExitStack() as stack:
        for guard in (torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch()):
            stack.enter_context(guard)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        yield


# ---- the ranks together


class Gatherer:
    """Brings the recorded values of all ranks to rank 0. Making a gatherer and each `gather` are collectives."""

    def __init__(self, *, timeout: float = 30.0) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise OptionError(
                "no-distributed",
                "Gathering the values of several ranks needs torch.distributed, which is not initialised.",
                "Call torch.distributed.init_process_group first.",
            )
        self.rank: int = dist.get_rank()
        self.world: int = dist.get_world_size()
        self.broken = ""
        self._timeout = timeout
        self._number = 0  # of the last gathering
        self._group: Any = None
        self._key = f"clew/gather/{next(_gatherer_numbers)}"
        if self.world > 1:
            self._connect()

    def _connect(self) -> None:
        failure: _BrokenError | None = None
        self._announce()
        try:
            # its own group, which works beside nccl and does not mix with the program's own collectives
            self._group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self._timeout))
        except Exception as error:
            failure = _make_error("the ranks could not be connected", error, waiting=True)
        if failure:
            self._stop_gathering(failure)

    def gather(self, batches: list[Batch]) -> list[list[Batch]] | None:
        """The batches of every rank, by rank, on rank 0; None elsewhere. A collective. Never raises.

        Rank 0's own batches are returned as they are. If the gathering fails, those of other ranks are empty.
        """
        batches_by_rank: list[list[Batch]] = [[] for _ in range(self.world)]
        if self.world > 1 and not self.broken:
            batches_by_rank = self._gather_all(batches) or batches_by_rank
        if self.rank:
            return None
        batches_by_rank[0] = batches
        return batches_by_rank

    def _gather_all(self, batches: list[Batch]) -> list[list[Batch]] | None:
        if self._group is None:
            self.broken = "the gatherer was closed; each rank has only its own values"
            return None
        self._number += 1
        failure: _BrokenError
        try:
            with _without_torch_modes():
                message, header = self._pack_batches(batches)
                sizes = self._exchange(header, message.numel() - _aligned(header))
                if self.rank == 0:
                    return self._receive(sizes)
                self._send(message, sizes)
                return None
        except _BrokenError as error:
            failure = error.with_traceback(None)
            failure.__context__ = None
        except Exception as error:
            failure = _make_error(f"gathering {self._number} failed", error)
        self._stop_gathering(failure)
        return None

    def _pack_batches(self, batches: list[Batch]) -> tuple[Any, int]:
        """Pack the batches. A rank whose values cannot be packed still takes part, as the others wait for it."""
        if not batches or self.rank == 0:
            return torch.empty(0, dtype=torch.uint8, device="cpu"), 0
        try:
            return pack(batches)
        except Exception as error:
            problem = f"the values of rank {self.rank} could not be packed and do not reach rank 0"
            trouble.report("gather:pack", problem, cause=error)
            return torch.empty(0, dtype=torch.uint8, device="cpu"), 0

    def _exchange(self, header: int, data: int) -> list[tuple[int, int]]:
        """The sizes of header and data of each rank. All ranks see the same numbers, so they fail together or not."""
        own_row = torch.tensor([MARK, self._number, header, data], dtype=torch.int64, device="cpu")
        rows = [torch.zeros(4, dtype=torch.int64, device="cpu") for _ in range(self.world)]
        start = time.monotonic()
        announcement = threading.Timer(_SOON, self._announce)
        announcement.daemon = True
        announcement.start()
        try:
            dist.all_gather(rows, own_row, group=self._group)
        except Exception as error:
            message = f"gathering {self._number} failed after {time.monotonic() - start:.1f} s"
            raise _make_error(message, error, waiting=True) from None
        finally:
            announcement.cancel()
        return [self._check_sizes(rank, row.tolist()) for rank, row in enumerate(rows)]

    def _check_sizes(self, rank: int, row: list[int]) -> tuple[int, int]:
        mark, number, header, data = row
        if mark != MARK:
            raise _BrokenError(f"rank {rank} sends data this rank cannot read, perhaps with another version of clew")
        if number != self._number:
            raise _BrokenError(f"rank {rank} is at gathering {number} while rank {self.rank} is at {self._number}")
        if not (0 <= header <= _HEADER_LIMIT and 0 <= data <= _DATA_LIMIT):
            raise _BrokenError(f"rank {rank} announces {header} and {data} bytes, which makes no sense")
        return header, data

    def _send(self, message: Any, sizes: list[tuple[int, int]]) -> None:
        if not message.numel():
            return
        try:
            work: Any = dist.isend(message, dst=0, group=self._group)
            work.wait(self._timeout_for(sizes))
        except Exception as error:
            problem = f"rank 0 did not take the values of rank {self.rank} in gathering {self._number}"
            raise _make_error(problem, error) from None

    def _receive(self, sizes: list[tuple[int, int]]) -> list[list[Batch]]:
        timeout = self._timeout_for(sizes)
        pending: dict[int, tuple[Any, Any]] = {}
        for rank, (header, data) in enumerate(sizes):
            if header:
                message = torch.empty(_aligned(header) + data, dtype=torch.uint8, device="cpu")
                pending[rank] = message, dist.irecv(message, src=rank, group=self._group)
        for rank, (_, work) in pending.items():
            try:
                work.wait(timeout)
            except Exception as error:
                problem = f"the values that rank {rank} had announced for gathering {self._number} did not come"
                raise _make_error(problem, error) from None
        batches_by_rank: list[list[Batch]] = [[] for _ in sizes]
        for rank in list(pending):
            message, _ = pending.pop(rank)  # released one by one, as each is as large as what is read from it
            batches_by_rank[rank] = self._unpack_message(rank, message, sizes[rank][0])
        return batches_by_rank

    def _unpack_message(self, rank: int, message: Any, header: int) -> list[Batch]:
        try:
            return unpack(message, header)
        except Exception as error:
            problem = f"the values that rank {rank} sent cannot be read here, perhaps from another version of clew"
            raise _make_error(problem, error) from None

    def _timeout_for(self, sizes: list[tuple[int, int]]) -> timedelta:
        return timedelta(seconds=self._timeout + sum(header + data for header, data in sizes) / _SLOWEST)

    # ---- when it fails

    def _stop_gathering(self, failure: _BrokenError) -> None:
        self.close()  # first, so that the others notice and do not wait for this rank
        missing = self._describe_missing() if failure.waiting else ""
        self.broken = f"{failure}{missing}{failure.reason}; from here on each rank has only its own values"

    def _describe_missing(self) -> str:
        """': rank 3 did not come', as far as the present ranks can find out within a moment."""
        absent: list[int] = []
        thread = threading.Thread(target=self._find_absent, args=(absent,), daemon=True)  # the store may never answer
        thread.start()
        thread.join(_GRACE + 1)
        if not absent:
            return ""
        ranks = f"rank {absent[0]}" if len(absent) == 1 else f"ranks {', '.join(map(str, absent))}"
        return f": {ranks} did not come"

    def _find_absent(self, absent: list[int]) -> None:
        try:
            self._announce()
            store, deadline = dist.distributed_c10d._get_default_store(), time.monotonic() + _GRACE
            unseen = list(range(self.world))
            while unseen and time.monotonic() < deadline:
                unseen = [rank for rank in unseen if not self._is_here(store, rank)]
                time.sleep(0.05 if unseen else 0)
            absent += unseen
        except Exception:  # the store died with its rank, so the missing ranks remain unknown
            pass

    def _announce(self) -> None:
        """Note in the program's store that this rank takes part in this gathering."""
        try:
            dist.distributed_c10d._get_default_store().set(f"{self._key}/{self.rank}", str(self._number))
        except Exception:  # the store failed, and so will the gathering; its message may then name the wrong ranks
            pass

    def _is_here(self, store: Any, rank: int) -> bool:
        key = f"{self._key}/{rank}"
        return store.check([key]) and int(store.get(key)) >= self._number

    def close(self) -> None:
        """Leave the group. Not a collective, and harmless if called twice."""
        group, self._group = self._group, None
        try:
            if group is not None and dist.is_initialized():
                dist.destroy_process_group(group)
        except Exception:  # the program has ended torch.distributed itself, or a rank died
            pass
