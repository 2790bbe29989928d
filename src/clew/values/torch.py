"""torch tensors. Loaded when the user's program has loaded torch, or when a tensor is read back.

Bytes of dense CPU tensors are read straight from memory: no operator runs, so autograd, dispatch modes, profilers,
version counters and random state notice nothing. A tensor is judged by identity, version, address and outline, and
up to `HASHED` bytes on the CPU by the hash of its bytes as well, because `.data` and memory shared with NumPy do not
move the version. Above that size such a change goes unseen until something else shows it (docs: limitations).
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from xxhash import xxh3_128, xxh3_128_digest

from clew.records import Kept, Summary
from clew.values import objects, tensor_reading
from clew.values.adapters import SEQUENCE, Handler, Look, Looking, Node, Unwatched, optional, register
from clew.values.class_facts import dict_of, inherits, instance_dict_of, mro_of
from clew.values.digest import head_of
from clew.values.json_text import dumps
from clew.values.python import opaque

torch: Any = optional("torch")  # without it, tensors come back as NumPy arrays

HASHED: Final = 256 << 10
_TINY: Final = 64  # bytes that are sooner compared than hashed
_modes: Final[Any] = None if torch is None else torch._C._len_torch_function_stack
_trace_state: Final[Any] = None if torch is None else torch._C._get_tracing_state
_PIECE: Final = 1 << 20  # bytes
_FIRST: Final = {"part": 0}
READERS: Final[dict[str, Any]] = tensor_reading.READERS


def claim(cls: type) -> Handler | None:
    if torch is None:
        return None
    if inherits(cls, torch.Tensor):
        look = _tensor_look(cls)
        return Handler(None, look, _alone() if look is look_tensor else None)
    if inherits(cls, torch.nn.Module):
        return Handler(None, _look_module)
    if cls is torch.Size:
        return Handler(None, lambda obj, walk: Node("torch.Size", "torch.size", SEQUENCE, list(tuple.__iter__(obj))))
    if cls is torch.dtype:
        return Handler(lambda x: {"$": "torch.dtype", "is": str(x)[6:]}, None)
    if cls is torch.device:
        return Handler(lambda x: {"$": "torch.device", "is": str(x)}, None)
    if _is_optimizer(cls):
        return Handler(None, _look_optimizer)
    return None


def load() -> None:
    """Load now what the first value would have to wait for."""
    _alone()


def _alone() -> Any:
    from clew.values.lone_tensors import alone

    return alone


def _is_optimizer(cls: type) -> bool:
    optim = getattr(torch, "optim", None)
    return optim is not None and inherits(cls, optim.Optimizer)


def _tensor_look(cls: type) -> Look:
    if _dispatches(cls):
        return lambda obj, walk: opaque(obj, "a tensor with a dispatch of its own, whose code would run")
    if cls is torch.Tensor or cls is torch.nn.Parameter or cls is getattr(torch.nn, "Buffer", None):
        return look_tensor
    return objects.look_of_class(cls, "value", _base_of, torch.Tensor)


def _dispatches(cls: type) -> bool:
    """True if operators on such tensors run Python code (`__torch_dispatch__`)."""
    disabled = getattr(torch._C, "_disabled_torch_dispatch_impl", None)
    for base in mro_of(cls):
        if base is torch.Tensor:
            return False
        found = dict_of(base).get("__torch_dispatch__")
        if found is not None and found is not disabled:
            return True
    return False


def is_heard() -> bool:
    """Whether torch hears what is asked of a tensor: `with torch.device(...)` does, and `torch.jit.trace`, in whose
    graph even `x.shape` would be a node."""
    return bool(_modes() or _trace_state() is not None)


class _Untraced:
    """What is asked of tensors is no part of what `torch.jit.trace` writes down."""

    def __enter__(self) -> None:
        self._state = _trace_state()
        torch._C._set_tracing_state(None)

    def __exit__(self, *error: Any) -> None:
        torch._C._set_tracing_state(self._state)


class Unheard:
    """No function modes, and no trace."""

    def __enter__(self) -> None:
        self._guards = [torch._C.DisableTorchFunction(), _Untraced()]
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, *error: Any) -> None:
        for guard in reversed(self._guards):
            guard.__exit__(*error)


class _Quiet(Unheard):
    """No user code and no traces in torch: no function or dispatch modes, no autograd."""

    def __enter__(self) -> None:
        self._guards = [Unheard(), torch._C._DisableTorchDispatch(), torch.no_grad()]
        for guard in self._guards:
            guard.__enter__()


# ---- tensors


def look_tensor(obj: Any, walk: Looking) -> Node:
    name = "torch.Tensor" if type(obj) is torch.Tensor else f"torch.nn.{type(obj).__name__}"
    if is_heard():
        with Unheard():
            return _look(obj, walk, name)
    return _look(obj, walk, name)


def _look(obj: Any, walk: Looking, name: str) -> Node:
    shape, dtype = tuple(obj.shape), _dtype_name(obj.dtype)
    device = "cpu" if obj.is_cpu else str(obj.device)
    node = Node(name, "torch")
    node.note, node.head, text = _outline(name, dtype, shape, device, obj.requires_grad)
    node.summary = Summary(shape, dtype, device)
    address: int | None = None  # of a dense tensor; -1 if its bytes must be gathered first
    raw: bytes | None = None
    try:
        if obj.layout is torch.strided and not obj.is_quantized and not obj.is_meta:
            address, raw = _take_dense(obj, node, walk)
        else:
            _take_special(obj, node)
    except (RuntimeError, NotImplementedError) as error:  # functorch wrappers, storages given away, odd backends
        node.kept, node.why = Kept.SUMMARY, f"its data cannot be read here ({type(error).__name__})"
        node.content = b"%x" % id(obj)
    if node.kept is not Kept.FULL:
        node.aside = {"why": node.why, "summary": _written(node.summary)}
    elif node.aside == _FIRST:
        node.text = text
    walk.watch(obj, TensorWatch(obj, node.content, address, node.summary.size or 0, raw))
    return node


@lru_cache(256)
def _outline(
    name: str, dtype: str, shape: tuple[int, ...], device: str, grad: bool
) -> tuple[dict[str, Any], bytes, str]:
    """The note of a tensor, how its digest begins, and its body if it stands alone: few outlines for many tensors."""
    note = {"dtype": dtype, "shape": list(shape), "device": device, "requires_grad": grad}
    return note, head_of(name, "torch", note), dumps({"$": "torch", **note, "part": 0})


@lru_cache(256)
def _dtype_name(dtype: Any) -> str:
    return str(dtype)[6:]


def _take_dense(obj: Any, node: Node, walk: Looking) -> tuple[int, bytes | None]:
    """Bytes, or hash and statistics, of a dense tensor; gives its address, or -1, and the bytes if they are kept."""
    assert node.summary is not None
    size = node.summary.size = obj.numel() * obj.element_size()
    if obj.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError("inside a CUDA graph capture")
    address = _address(obj, size) if size and _is_direct(obj) else -1
    node.why = walk.room_for(size)
    if not node.why:
        raw = ctypes.string_at(address, size) if address > 0 else _gathered(obj, size)
        node.content = xxh3_128_digest(raw)
        node.aside = {"part": walk.add_part(raw, node.content)}
        return address, raw
    node.kept = Kept.SUMMARY
    if walk.light and not walk.stats:
        return address, None
    pieces = _pieces_of(obj, size)
    node.content = _described(obj, pieces, node.summary) if walk.describing else _hashed(pieces)
    return address, None


def _is_direct(obj: Any) -> bool:
    """True if the elements lie in CPU memory one after the other, exactly as they mean."""
    return obj.is_cpu and obj.is_contiguous() and not obj.is_conj() and not obj.is_neg()


def _gathered(obj: Any, size: int) -> bytes:
    """All elements in C order, of a tensor that does not lie so, or not on the CPU."""
    if not size:
        return b""
    with _Quiet():
        there = _resolved(obj)
        return ctypes.string_at(_address(there, size), size)


def _resolved(obj: Any) -> Any:
    return obj.detach().resolve_conj().resolve_neg().cpu().contiguous()


def _address(obj: Any, size: int) -> int:
    """Where the elements begin. A storage that was given back (FSDP does it) has no bytes behind the tensor's shape."""
    end = obj.storage_offset() * obj.element_size() + size
    address: int = obj.data_ptr()
    if not address or obj.untyped_storage().nbytes() < end:
        raise RuntimeError("the storage is smaller than the tensor")
    return address


def _pieces_of(obj: Any, size: int) -> Iterator[Any]:
    """The bytes of all elements in C order, a piece at a time: a large tensor is not copied as a whole."""
    if size and _is_direct(obj):
        memory = memoryview(_memory(_address(obj, size), size))
        for start in range(0, size, _PIECE):
            yield memory[start : start + _PIECE]
        return
    with _Quiet():
        flat = obj.detach()
        rows = flat if flat.dim() else flat.reshape(1)
        step = max(1, _PIECE * rows.shape[0] // max(1, size))
        for start in range(0, rows.shape[0], step):
            some = rows[start : start + step]
            yield _gathered(some, some.numel() * some.element_size())


def _hashed(pieces: Iterator[Any]) -> bytes:
    hasher = xxh3_128()
    for piece in pieces:
        hasher.update(piece)
    return hasher.digest()


def _described(obj: Any, pieces: Iterator[Any], summary: Summary) -> bytes:
    from clew.values.tensor_stats import described

    return described(obj, pieces, summary)


def _written(summary: Summary | None) -> dict[str, Any]:
    from clew.values.numpy import written_summary

    return written_summary(summary or Summary())


# ---- tensors without plain bytes


def _take_special(obj: Any, node: Node) -> None:
    """Sparse, quantised, meta: said honestly, hashed where there is something to hash, not kept."""
    node.kept = Kept.SUMMARY
    assert node.note is not None
    assert node.summary is not None
    node.note, node.head = {**node.note, "layout": str(obj.layout)[6:]}, b""  # the note may be that of others, too
    if obj.is_meta:
        node.why = "a meta tensor has no data"
        return
    with _Quiet():
        inner, node.why = _inner_of(obj.detach())
    hasher = xxh3_128(node.why.encode())
    for part in inner:
        size = part.numel() * part.element_size()
        node.summary.size = (node.summary.size or 0) + size
        hasher.update(str((tuple(part.shape), part.dtype)).encode())
        for piece in _pieces_of(part, size):
            hasher.update(piece)
    node.content = hasher.digest()


def _inner_of(obj: Any) -> tuple[list[Any], str]:
    """The dense tensors something special is made of, and what it is."""
    if obj.is_quantized:
        return [obj.int_repr()], f"quantised: {_quantisation(obj)}"
    if obj.layout is torch.sparse_coo:
        return [obj._indices(), obj._values()], f"sparse (coo), {obj._nnz()} values of {obj.numel()}"
    if obj.layout in (torch.sparse_csr, torch.sparse_bsr):
        inner = [obj.crow_indices(), obj.col_indices(), obj.values()]
    elif obj.layout in (torch.sparse_csc, torch.sparse_bsc):
        inner = [obj.ccol_indices(), obj.row_indices(), obj.values()]
    else:
        raise NotImplementedError(str(obj.layout))
    return inner, f"sparse ({str(obj.layout)[13:]}), {obj._nnz()} values of {obj.numel()}"


def _quantisation(obj: Any) -> str:
    scheme = str(obj.qscheme())[6:]
    if "per_tensor" in scheme:
        return f"{scheme}, scale {obj.q_scale()!r}, zero point {obj.q_zero_point()}"
    scales, points = obj.q_per_channel_scales().tolist(), obj.q_per_channel_zero_points().tolist()
    return f"{scheme}, scales {scales}, zero points {points}"


# ---- the test


class TensorWatch:
    """Is it the same tensor, of the same version, at the same place, with the same bytes?"""

    __slots__ = (
        "_buffer",
        "_content",
        "_dtype",
        "_gather",
        "_grad",
        "_place",
        "_raw",
        "_ref",
        "_shape",
        "_stride",
        "_version",
    )

    def __init__(self, obj: Any, content: bytes, address: int | None, size: int, raw: bytes | None) -> None:
        self._ref = weakref.ref(obj)
        self._shape, self._dtype, self._grad = obj.shape, obj.dtype, obj.requires_grad
        self._version = None if obj.is_inference() else obj._version
        self._content = content
        self._buffer: Any = None  # the tensor's own memory, looked at only while the tensor is alive and in its place
        self._raw: bytes | None = None
        self._gather = False
        self._place: int | None = None
        self._stride: Any = None
        if address is None:
            return
        self._place, self._stride = obj.data_ptr(), obj.stride()
        # small tensors are hashed as well; those without a version always, wherever they are
        if size and (self._version is None or (size <= HASHED and obj.is_cpu)):
            if address > 0:
                self._buffer = _memory(address, size)
                self._raw = raw if size <= _TINY else None
            else:
                self._gather = True

    def __call__(self, obj: Any) -> bool:
        if self._ref() is not obj:
            return False
        if is_heard():
            with Unheard():
                return self.holds(obj)
        return self.holds(obj)

    def holds(self, obj: Any) -> bool:
        try:
            version = self._version
            if (
                (version is not None and obj._version != version)
                or obj.shape != self._shape
                or obj.requires_grad is not self._grad
                or obj.dtype is not self._dtype
            ):
                return False
            if self._place is None:
                return version is not None
            if obj.data_ptr() != self._place or obj.stride() != self._stride:
                return False
            if self._raw is not None:
                return bool(self._buffer.raw == self._raw)
            if self._buffer is not None:
                return xxh3_128_digest(self._buffer) == self._content
            return not self._gather or _hashed(_pieces_of(obj, obj.numel() * obj.element_size())) == self._content
        except RuntimeError:  # became something without a version or an address
            return False


@lru_cache(256)
def _memory_type(size: int) -> Any:
    return ctypes.c_char * size


def _memory(address: int, size: int) -> Any:
    """A view of memory that belongs to a tensor."""
    return (_memory_type(size) if size <= HASHED else ctypes.c_char * size).from_address(address)


# ---- subclasses, modules, optimizers


class _Base:
    """A user's tensor subclass, seen as the tensor it is."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _base_of(obj: Any, walk: Looking) -> Any:
    return _Base(obj)


def _look_base(obj: _Base, walk: Looking) -> Node:
    bare = Unwatched(walk)
    with torch._C.DisableTorchFunction():
        node = _look(obj.tensor, bare, "torch.Tensor")
    for test in bare.tests:
        walk.guard(_base_holds, obj.tensor, test)
    return node


def _base_holds(obj: Any, test: TensorWatch) -> bool:
    with torch._C.DisableTorchFunction():
        return test.holds(obj)


def _look_module(obj: Any, walk: Looking) -> Node:
    if walk.light:
        return opaque(obj, "a module; it is compared by identity")
    count, elements = _parameters_in(obj)
    node = opaque(obj, f"a module with {count:,} parameters of {elements:,} numbers; it is compared by identity")
    node.summary = Summary(length=count)
    return node


def _parameters_in(module: Any) -> tuple[int, int]:
    """Parameters and their numbers, counted in the real dicts, since `parameters()` may be a user's."""
    seen: set[int] = set()
    count = elements = 0
    todo = [module]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if inherits(type(current), torch.nn.Module):
            todo.extend(_held_by(current))
        elif inherits(type(current), torch.Tensor) and not _dispatches(type(current)):
            with torch._C.DisableTorchFunction():
                count, elements = count + 1, elements + current.numel()
    return count, elements


def _held_by(module: Any) -> list[Any]:
    inside = instance_dict_of(module)
    rows = [inside.get("_modules"), inside.get("_parameters")]
    return [x for row in rows if row is not None and inherits(type(row), dict) for x in dict.values(row)]


def _look_optimizer(obj: Any, walk: Looking) -> Node:
    return opaque(obj, "an optimizer; it is compared by identity")


if torch is not None:
    register(_Base, look=_look_base)
