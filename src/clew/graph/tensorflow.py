"""TensorFlow and Keras, as far as recording knows them: what is a model, what a function is called, where values go.

Nothing is imported here that the program has not imported already.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from clew.errors import OptionError

if TYPE_CHECKING:
    from clew.graph.recording.traced_values import Traced

ROOTS = ("tensorflow", "keras")
CONSTANT = ("EagerTensor", "TensorShape", "DType")  # values of these never change

# Parts of the libraries that compute, and do nothing else. The others read and write files, or run what they are given.
_COMPUTING = {
    "tensorflow": (
        "math", "nn", "linalg", "signal", "image", "strings", "random", "ragged", "sparse", "sets", "bitwise", "audio",
        "quantization", "dtypes",
    ),
    "keras": ("ops", "random", "activations", "losses"),
}  # fmt: skip
_TOP = frozenset(
    """
    Assert GradientTape IndexedSlices RaggedTensor RaggedTensorSpec SparseTensor SparseTensorSpec Tensor TensorShape
    TensorSpec Variable abs acos acosh add add_n approx_top_k argmax argmin argsort as_dtype as_string asin asinh
    assert_equal assert_greater assert_less assert_rank atan atan2 atanh batch_to_space bfloat16 bitcast bool
    boolean_mask broadcast_dynamic_shape broadcast_static_shape broadcast_to case cast clip_by_global_norm clip_by_norm
    clip_by_value complex complex128 complex64 concat cond constant control_dependencies convert_to_tensor cos cosh
    cumsum device divide double dynamic_partition dynamic_stitch edit_distance eig eigvals einsum ensure_shape equal
    exp expand_dims extract_volume_patches eye fftnd fill fingerprint float16 float32 float64 floor foldl foldr gather
    gather_nd get_static_value greater greater_equal half histogram_fixed_width histogram_fixed_width_bins identity
    identity_n ifftnd int16 int32 int64 int8 irfftnd is_tensor less less_equal linspace logical_and logical_not
    logical_or map_fn matmul matrix_square_root maximum meshgrid minimum multiply name_scope negative norm not_equal
    one_hot ones ones_like pad pow random_index_shuffle range rank realdiv reduce_all reduce_any reduce_logsumexp
    reduce_max reduce_mean reduce_min reduce_prod reduce_sum repeat reshape reverse reverse_sequence rfftnd roll round
    saturate_cast scalar_mul scan scatter_nd searchsorted sequence_mask shape shape_n sigmoid sign sin sinh size slice
    sort space_to_batch space_to_batch_nd split sqrt square squeeze stack stop_gradient strided_slice string subtract
    switch_case tan tanh tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub
    tensor_scatter_nd_update tensordot tile transpose truediv truncatediv truncatemod tuple uint16 uint32 uint64 uint8
    unique unique_with_counts unravel_index unstack vectorized_map where while_loop zeros zeros_like
    """.split()  # noqa: SIM905  (three pages of quotes otherwise)
)
_MAKING = ("get", "serialize", "deserialize")  # of Keras: they make whatever a configuration names
_names: dict[int, tuple[Any, str]] = {}  # the function is held, so that its number stays its own
_walked: set[str] = set()
_dispatching: Any = None


def library() -> Any:
    """TensorFlow, if the program uses it."""
    found = sys.modules.get("tensorflow")
    return found if found is not None and hasattr(found, "Module") else None


def keras() -> Any:
    found = sys.modules.get("keras")
    return found if found is not None and hasattr(found, "Layer") else None


# ---- what something is


def is_layer(value: Any) -> bool:
    """A Keras layer; models are layers."""
    found = keras()
    return found is not None and isinstance(value, found.Layer)


def is_module(value: Any) -> bool:
    found = library()
    return found is not None and isinstance(value, found.Module)


def is_function(value: Any) -> bool:
    """What `tf.function` makes."""
    found = library()
    return found is not None and isinstance(value, found.types.experimental.PolymorphicFunction)


def is_restored(value: Any) -> bool:
    """What `tf.saved_model.load` gives."""
    found = library()
    return found is not None and type(value).__name__ == "_UserObject" and _is_trackable(value)


def is_model(value: Any) -> bool:
    """What is called as one step, though nobody has put clew.op on it."""
    return not isinstance(value, type) and callable(value) and (is_layer(value) or _is_trackable(value))


def _is_trackable(value: Any) -> bool:
    found = library()
    return found is not None and isinstance(value, found.__internal__.tracking.Trackable)


def is_constant(value: Any) -> bool:
    """Whether a value is one of TensorFlow's that never change."""
    kind = type(value)
    return kind.__name__ in CONSTANT and kind.__module__.startswith("tensorflow.")


def is_variable(value: Any) -> bool:
    found, other = library(), keras()
    known = found is not None and isinstance(value, found.Variable)
    return known or (other is not None and isinstance(value, other.Variable))


def variables_of(value: Any) -> list[Any]:
    """The variables of a model, of a container of models, or the variable itself."""
    if is_variable(value):
        return [value]
    if is_layer(value) or is_module(value):
        return list(value.variables)
    if isinstance(value, dict):
        return [one for item in value.values() for one in variables_of(item)]
    return [one for item in value for one in variables_of(item)] if isinstance(value, (list, tuple)) else []


# ---- what functions are called


def public_name(function: Any) -> str | None:
    """'tensorflow.nn:softmax': the documented name, which stays where the module behind it does not."""
    for root in ROOTS:
        module = sys.modules.get(root)
        if module is not None and root not in _walked and (root != "tensorflow" or library() is not None):
            _walked.add(root)
            for name, found in _exported(module, root):
                _names.setdefault(id(found), (found, name))
    known = _names.get(id(function))
    return known[1] if known is not None and known[0] is function else None


def _exported(module: ModuleType, root: str) -> Iterator[tuple[str, Any]]:
    yield from _of(module, root)
    for name in _COMPUTING[root]:
        yield from _of(getattr(module, name, None), f"{root}.{name}")


def _of(module: Any, place: str) -> Iterator[tuple[str, Any]]:
    for name, value in list(getattr(module, "__dict__", {}).items()):
        if not name.startswith("_") and isinstance(value, (FunctionType, type)):
            yield f"{place}:{name}", value


def computes(name: str) -> bool:
    """Whether a function or class of these libraries only computes, so that nobody needs to vouch for it."""
    module, _, path = name.partition(":")
    if module == "tensorflow":
        return path.partition(".")[0] in _TOP
    root, _, part = module.partition(".")
    return part in _COMPUTING.get(root, ()) and not path.startswith("_") and path not in _MAKING


# ---- recorded values that TensorFlow itself is given


def listen() -> None:
    """Be asked by TensorFlow what to do with recorded values, in code that was not rewritten."""
    global _dispatching
    if _dispatching is not None or library() is None:
        return
    try:
        from tensorflow.python.util import dispatch

        _dispatching = _dispatcher(dispatch)
        _dispatching.register()
    except Exception:  # not a public place: without it such values are taken as they are, and guarded
        _dispatching = False


def _dispatcher(dispatch: Any) -> Any:
    class Dispatcher(dispatch.GlobalOpDispatcher):  # type: ignore[misc]
        def handle(self, op: Any, args: Any, kwargs: Any) -> Any:
            from clew.graph.recording.session import of_values

            from .parts import holds_traced

            if not (holds_traced(list(args)) or holds_traced(dict(kwargs))):
                return self.NOT_SUPPORTED
            return of_values((args, kwargs)).library_call(_as_exported(op), tuple(args), dict(kwargs))

    return Dispatcher()


def _as_exported(op: Any) -> Any:
    """The function as programs have it: TensorFlow dispatches one of the layers of decorators under it."""
    found = getattr(sys.modules.get(op.__module__), op.__name__, op)
    return found if inspect.unwrap(found) is inspect.unwrap(op) else op


def is_asking(held: Any, depth: int) -> bool:
    """Whether it is TensorFlow that looks at a recorded tensor, so many calls up: what for, the dispatcher knows."""
    if not _dispatching or not is_constant(held):
        return False
    return str(sys._getframe(depth).f_globals.get("__name__", "")).startswith("tensorflow.")


def look_away(held: Any, name: str) -> None:
    """TensorFlow looks for the inside of what it takes for a tensor: it is told no, and turns to the dispatcher."""
    if is_asking(held, 3):
        if not hasattr(held, name):
            raise AttributeError(name)
        if name.startswith("_"):
            raise TypeError("a recorded value")


def as_tensor(value: Traced, held: Any, dtype: Any) -> Any:
    """A recorded value that TensorFlow wants as a tensor, without saying what for."""
    session = value._self_session
    if not session.closed and _dispatching:
        raise TypeError("a recorded value")  # TensorFlow turns to the dispatcher then, which knows what for
    plain = held if session.closed else session.plain(value)
    return library().convert_to_tensor(plain, dtype)


# ---- devices


def placed(device: Any) -> AbstractContextManager[Any]:
    """What is made in here goes to a device."""
    if device is None or library() is None:
        return nullcontext()
    place: AbstractContextManager[Any] = library().device(device_named(device))
    return place


def device_named(device: Any) -> str:
    """TensorFlow's name of a device: of 'cpu', 'cuda:0', 'gpu:1', '/CPU:0', and of -1 and 0 as Matx counts them."""
    text = str(device).lower()
    if text.lstrip("-").isdigit():
        text = "cpu" if int(text) < 0 else f"gpu:{int(text)}"
    kind, _, number = text.removeprefix("/").removeprefix("device:").partition(":")
    wanted = f"/device:{'GPU' if kind == 'cuda' else kind.upper()}:{number or 0}"
    there = [one.name for one in library().config.list_logical_devices()]
    if wanted not in there:
        what = f"TensorFlow has no device {device!r} here; there is {', '.join(there)}."
        raise OptionError("unknown-device", what, 'Say one of these, or device="cpu".')
    return wanted
