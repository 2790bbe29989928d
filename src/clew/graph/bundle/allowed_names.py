"""What a graph may use that is trusted by names: functions and types that compute, each by its module and name.

Nothing else is allowed, and no rule makes a name allowed that does not stand here. Left out on purpose: whatever reads
or writes files, imports, compiles, finds something by a text (`attrgetter`, `str.format`, `DataFrame.agg`), makes
classes or functions (`type`, `namedtuple`), reinterprets memory (`as_strided`, `ndarray.view`) or shows memory that
nobody has filled (`empty`; `torch.Tensor` stays, because graphs ask what a tensor is). What takes a function is
allowed: it can only be given functions that are allowed too.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Final

from clew.graph import tensorflow

_NUMPY = """
    abs absolute add all allclose amax amin angle any append arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh
    argmax argmin argpartition argsort argwhere around array array_equal array_split asarray ascontiguousarray
    atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_or bitwise_xor block broadcast_arrays
    broadcast_to cbrt ceil choose clip column_stack compress concatenate conjugate convolve copy copysign corrcoef
    correlate cos cosh count_nonzero cov cross cumprod cumsum deg2rad degrees delete diag diagonal diff digitize
    divide divmod dot dsplit dstack einsum equal exp exp2 expand_dims expm1 extract eye fabs flatnonzero flip fliplr
    flipud float_power floor floor_divide fmax fmin fmod frexp frombuffer full full_like gcd geomspace gradient greater
    greater_equal heaviside histogram histogram2d hsplit hstack hypot identity imag in1d indices inner insert interp
    intersect1d invert isclose isfinite isin isinf isnan isreal isscalar kron lcm ldexp left_shift less less_equal
    lexsort linspace log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logspace
    matmul max maximum mean median meshgrid min minimum mod modf moveaxis multiply nan_to_num nanargmax nanargmin
    nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanquantile nanstd nansum nanvar ndim negative nextafter
    nonzero not_equal ones ones_like outer pad partition percentile positive power prod ptp put_along_axis quantile
    rad2deg radians ravel real reciprocal remainder repeat reshape right_shift rint roll rollaxis rot90 round
    searchsorted setdiff1d setxor1d shape sign signbit sin sinc sinh size sort spacing split sqrt square squeeze stack
    std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace transpose trapezoid tri tril
    tril_indices triu triu_indices true_divide trunc union1d unique unravel_index unwrap var vdot vsplit vstack where
    zeros zeros_like
    bool bool_ int8 int16 int32 int64 intc longlong uint8 uint16 uint32 uint64 uintc ulonglong float16 float32 float64
    longdouble complex64 complex128 clongdouble str_ bytes_ datetime64 timedelta64 generic number integer signedinteger
    unsignedinteger inexact floating complexfloating
"""
_TORCH = """
    abs absolute acos acosh add addcdiv addcmul addmm all allclose amax amin aminmax any arange argmax argmin argsort
    argwhere as_tensor asin asinh atan atan2 atanh avg_pool1d baddbmm batch_norm bincount bitwise_and bitwise_not
    bitwise_or bitwise_xor bmm broadcast_to bucketize cat ceil celu chunk clamp clamp_max clamp_min clip clone complex
    concat concatenate conj conv1d conv2d conv3d conv_transpose1d conv_transpose2d corrcoef cos cosh cosine_similarity
    count_nonzero cov cross cummax cummin cumprod cumsum deg2rad det diag diag_embed diagonal diff dist div divide dot
    dropout embedding eq equal erf erfc erfinv exp exp2 expand_copy expm1 eye feature_dropout fix flatten flip fliplr
    flipud float_power floor floor_divide fmax fmin fmod frac full full_like gather ge greater greater_equal group_norm
    gt hardshrink heaviside histc hstack hypot imag index_add index_copy index_fill index_select inner instance_norm
    inverse is_complex is_floating_point is_nonzero is_tensor isclose isfinite isin isinf isnan kron kthvalue
    layer_norm le lerp less less_equal lgamma linspace log log10 log1p log2 log_softmax logaddexp logcumsumexp
    logical_and logical_not logical_or logical_xor logit logspace logsumexp lt masked_fill masked_select matmul max
    max_pool1d max_pool2d max_pool3d maximum mean median min minimum mm mode movedim mul multinomial multiply mv
    nan_to_num nanmean nanmedian nanquantile nansum narrow ne neg negative nextafter nonzero normal not_equal numel
    ones ones_like outer permute pixel_shuffle poisson polar pow prelu prod quantile rad2deg rand rand_like randint
    randn randn_like randperm range ravel real reciprocal relu remainder renorm repeat_interleave reshape roll rot90
    round rsqrt rsub scatter scatter_add searchsorted select selu sigmoid sign signbit sin sinc sinh softmax sort
    split_with_sizes sqrt square squeeze stack std std_mean sub subtract sum swapaxes t take take_along_dim tan tanh
    tensor tensor_split threshold tile topk trace transpose trapezoid tril triu true_divide trunc unbind unflatten
    unsqueeze var var_mean vdot view_as_complex view_as_real vstack where xlogy zeros zeros_like
    bool int8 int16 int32 int64 uint8 float16 float32 float64 bfloat16 complex64 complex128 half float double short int
    long strided contiguous_format channels_last preserve_format Tensor
"""

#: module, as the objects themselves say it → names
FUNCTIONS: Final[dict[str, frozenset[str]]] = {
    module: frozenset(names.split())
    for module, names in {
        "builtins": """
            abs all any ascii bin bool bytearray bytes callable chr complex dict divmod enumerate filter float format
            frozenset hasattr hash hex int isinstance issubclass len list map max min object oct ord pow range repr
            reversed round set slice sorted str sum tuple zip
            ArithmeticError AttributeError Exception IndexError KeyError LookupError OverflowError RuntimeError
            StopIteration TypeError ValueError ZeroDivisionError
        """,
        "math": """
            acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist erf erfc exp exp2 expm1
            fabs factorial floor fma fmod frexp fsum gamma gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma
            log log10 log1p log2 modf nextafter perm pow prod radians remainder sin sinh sqrt sumprod tan tanh trunc ulp
        """,
        "cmath": "acos asin atan cos exp isclose isfinite isinf isnan log log10 phase polar rect sin sqrt tan",
        "statistics": """
            fmean geometric_mean harmonic_mean mean median median_high median_low mode multimode pstdev pvariance
            quantiles stdev variance
        """,
        "operator": """
            abs add and_ concat contains countOf delitem eq floordiv ge getitem gt iadd iand iconcat ifloordiv ilshift
            imatmul imod imul index indexOf inv invert ior ipow irshift is_ is_not isub itemgetter itruediv ixor le
            length_hint lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem sub truediv truth xor
        """,
        "itertools": """
            accumulate batched chain combinations combinations_with_replacement compress count cycle dropwhile
            filterfalse groupby islice pairwise permutations product repeat starmap takewhile zip_longest
        """,
        "functools": "cmp_to_key lru_cache partial reduce",
        "collections": "ChainMap Counter OrderedDict defaultdict deque",
        "collections.abc": "Callable Container Hashable Iterable Iterator Mapping Sequence Set Sized",
        "numbers": "Complex Integral Number Rational Real",
        "bisect": "bisect_left bisect_right insort_left insort_right",
        "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
        "copy": "copy deepcopy",
        "copyreg": "__newobj__ _reconstructor",
        "re": "compile escape findall finditer fullmatch match search split sub subn _compile",
        "json": "dumps loads",
        "base64": """
            b16decode b16encode b32decode b32encode b64decode b64encode b85decode b85encode standard_b64decode
            standard_b64encode urlsafe_b64decode urlsafe_b64encode
        """,
        "binascii": "a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 hexlify unhexlify",
        "hashlib": """
            blake2b blake2s openssl_md5 openssl_sha1 openssl_sha224 openssl_sha256 openssl_sha384 openssl_sha512
        """,
        "blake2": "blake2b blake2s",
        "zlib": "adler32 compress crc32 decompress",
        "struct": "calcsize pack unpack",
        "string": "capwords",
        "textwrap": "dedent fill indent shorten wrap",
        "html": "escape unescape",
        "shlex": "join quote",
        "unicodedata": "category combining decimal digit east_asian_width is_normalized name normalize numeric",
        "urllib.parse": """
            parse_qs parse_qsl quote quote_plus unquote unquote_plus urlencode urljoin urlparse urlsplit urlunparse
            urlunsplit
        """,
        "difflib": "get_close_matches",
        "calendar": "isleap monthrange timegm weekday",
        "colorsys": "hls_to_rgb hsv_to_rgb rgb_to_hls rgb_to_hsv rgb_to_yiq yiq_to_rgb",
        "datetime": "date datetime time timedelta timezone",
        "decimal": "Decimal",
        "fractions": "Fraction",
        "uuid": "UUID",
        "logging": "getLogger",  # a module keeps one; none of its methods is allowed
        "dataclasses": "asdict astuple replace",
        "numpy": _NUMPY,
        "numpy.linalg": """
            cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_norm matrix_power matrix_rank multi_dot norm
            pinv qr slogdet solve svd svdvals vector_norm
        """,
        "numpy.fft": "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft rfft rfft2 rfftfreq",
        "scipy.special._logsumexp": "log_softmax logsumexp softmax",
        "pandas": "isna isnull notna notnull to_numeric to_datetime Timestamp Timedelta",
        "torch": _TORCH,
        "torch.functional": """
            atleast_1d atleast_2d atleast_3d broadcast_tensors cartesian_prod cdist einsum meshgrid norm split stft
            istft tensordot unique unique_consecutive
        """,
        "torch.nn.functional": """
            adaptive_avg_pool2d adaptive_avg_pool3d alpha_dropout binary_cross_entropy binary_cross_entropy_with_logits
            cosine_embedding_loss cross_entropy dropout dropout1d dropout2d dropout3d elu embedding gaussian_nll_loss
            glu group_norm gumbel_softmax hardsigmoid hardswish hardtanh hinge_embedding_loss huber_loss instance_norm
            interpolate kl_div l1_loss layer_norm leaky_relu local_response_norm log_softmax margin_ranking_loss mish
            mse_loss nll_loss normalize pad poisson_nll_loss relu relu6 rms_norm rrelu selu silu smooth_l1_loss
            soft_margin_loss softmax softmin softsign tanhshrink triplet_margin_loss
        """,
        "torch._C._nn": "avg_pool2d avg_pool3d gelu linear log_sigmoid logsigmoid one_hot softplus",
        "torch._C._linalg": """
            linalg_cholesky linalg_cond linalg_det linalg_eig linalg_eigh linalg_inv linalg_matrix_norm
            linalg_matrix_power linalg_norm linalg_pinv linalg_qr linalg_slogdet linalg_solve linalg_svd
            linalg_vector_norm
        """,
        "torch._C._fft": "fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_irfft fft_rfft",
        "torch._C._special": "special_expit special_log_softmax special_logsumexp special_softmax",
        "torch.autograd.grad_mode": "enable_grad inference_mode no_grad set_grad_enabled",
        "torch.nn.parameter": "Parameter",
    }.items()
}

_ARRAY = """
    all any argmax argmin argpartition argsort astype byteswap choose clip compress conj conjugate copy cumprod cumsum
    diagonal dot fill flatten item max mean min nonzero partition prod ptp put ravel repeat reshape round searchsorted
    sort squeeze std sum swapaxes take tobytes tolist trace transpose var is_integer as_integer_ratio hex isoformat
    T dtype imag itemsize nbytes ndim real shape size strides
"""
_TENSOR = f"""
    {_TORCH} add_ bool byte char clamp_ clip_ contiguous copy_ cpu cuda detach dim div_ double element_size eq_ exp_
    expand expand_as fill_ flatten float half index_add_ index_copy_ index_fill_ index_put index_put_ int
    is_contiguous item long masked_fill_ masked_scatter mul_ ndimension nelement new_full new_ones new_tensor new_zeros
    norm numpy permute pow_ relu_ repeat reshape_as requires_grad_ scatter_ scatter_add_ short sigmoid_ size softmax
    split sqrt_ squeeze_ sub_ sum_to_size tanh_ to tolist type_as unfold unique unique_consecutive unsqueeze_ view
    view_as zero_ stft istft
    H T device dtype grad imag is_cuda is_leaf itemsize layout mH mT names nbytes ndim real requires_grad shape
"""
_TABLE = """
    abs add all any astype between clip copy count cummax cummin cumprod cumsum describe diff div dot drop
    drop_duplicates dropna duplicated eq equals fillna ffill bfill floordiv ge gt head idxmax idxmin isin isna isnull
    le lt max mean median min mod mode mul ne notna notnull nlargest nsmallest pct_change pow prod quantile rank
    reindex rename reset_index round set_index shift sort_index sort_values std sub sum tail take tolist truediv unique
    value_counts var where mask get
    T array columns dtype dtypes empty hasnans index is_unique name names ndim shape size values
"""

#: types of which a graph may use these methods and attributes
MEMBERS: Final[dict[str, frozenset[str]]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "numpy:ndarray": _ARRAY,
        "numpy:generic": _ARRAY,  # every number of NumPy's
        "numpy:dtype": "char itemsize kind name names str",
        "torch:Tensor": _TENSOR,
        "torch.nn.parameter:Parameter": _TENSOR,
        "torch:dtype": "is_complex is_floating_point itemsize",
        "torch:device": "index type",
        "torch:Size": "numel count index",
        "pandas:Series": _TABLE,
        "pandas:DataFrame": _TABLE,
        "pandas:Index": _TABLE,
        "pandas:RangeIndex": _TABLE,
        "tensorflow:EagerTensor": "device dtype ndim numpy shape",
    }.items()
}

#: plain types: every method and attribute whose name does not begin with an underscore, but for NEVER
PLAIN: Final = frozenset(
    {
        *(f"builtins:{name}" for name in ["bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset"]),
        *(f"builtins:{name}" for name in ["int", "list", "range", "set", "slice", "str", "tuple"]),
        *(f"collections:{name}" for name in ["ChainMap", "Counter", "OrderedDict", "defaultdict", "deque"]),
        *(f"datetime:{name}" for name in ["date", "datetime", "time", "timedelta", "timezone"]),
        "itertools:chain",
        *(f"pandas:{name}" for name in ["Timestamp", "Timedelta"]),
        "decimal:Decimal", "fractions:Fraction", "re:Match", "re:Pattern", "uuid:UUID",
        "_hashlib:HASH", "_blake2:blake2b", "_blake2:blake2s",
        *(f"urllib.parse:{name}" for name in ("ParseResult", "SplitResult")),
    }
)  # fmt: skip
#: a text that reaches into the objects it is given, and the classes that a class is made of
NEVER: Final = frozenset({"format", "format_map", "mro"})

#: what `with` may enter
MANAGERS: Final = frozenset(
    f"torch.autograd.grad_mode:{name}" for name in ("enable_grad", "inference_mode", "no_grad", "set_grad_enabled")
)


def is_allowed(name: str) -> bool:
    """Whether the function, class or method of this qualified name ("numpy:mean", "builtins:str.join") computes."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] in tensorflow.ROOTS:
        return "." not in path and tensorflow.computes(name)
    first, _, method = path.partition(".")
    if method:
        return is_member(f"{module}:{first}", method)
    return path in FUNCTIONS.get(_home(module), ())


def _home(module: str) -> str:
    """`_functools` is the part of `functools` that is written in C."""
    return module.removeprefix("_")


def is_member(kind: str, name: str) -> bool:
    """Whether a graph may use this method or attribute of values of this type."""
    if name.startswith("_") or name in NEVER:
        return False
    return kind in PLAIN or name in MEMBERS.get(kind, ())


def is_member_of_any(name: str) -> bool:
    """Whether there is a type of which a graph may use this; of plain types that are not loaded, any public name."""
    if name.startswith("_") or name in NEVER:
        return False
    return name in _all_members()


@cache
def _all_members() -> frozenset[str]:
    return frozenset().union(*MEMBERS.values(), *map(dir, _plain_types()))


def _plain_types() -> list[Any]:
    found = []
    for kind in PLAIN:
        module, _, name = kind.partition(":")
        if module != "pandas" and hasattr(cls := import_module(module), name):  # all others are Python's own
            found.append(getattr(cls, name))
    return found


def kind_of(cls: type) -> str:
    """The name of a type as MEMBERS has it."""
    if cls.__name__ == "EagerTensor" and cls.__module__.startswith("tensorflow."):
        return "tensorflow:EagerTensor"
    is_number = cls.__module__ == "numpy" and any(base.__name__ == "generic" for base in cls.__mro__[1:])
    if is_number and cls.__name__ not in ("void", "object_"):
        return "numpy:generic"
    if cls.__module__ == "numpy.dtypes":
        return "numpy:dtype"
    return f"{cls.__module__}:{cls.__qualname__}"


def is_own(thing: Any, name: str) -> bool:
    """Whether a thing that was found under a name says so itself: what a module has from elsewhere is not its own."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] in tensorflow.ROOTS:
        return tensorflow.public_name(thing) == name
    if type(thing).__name__ in ("dtype", "layout", "memory_format") and type(thing).__module__ == "torch":
        return module == "torch"
    if type(thing).__name__ == "ufunc":
        return module == "numpy" and bool(thing.__name__ == path)
    owner, _, method = path.rpartition(".")
    if owner:  # of a class that is allowed as such: its own or an inherited one
        return bool(getattr(thing, "__name__", None) == method)
    path_there = str(getattr(thing, "__qualname__", None)).removeprefix("_VariableFunctionsClass.")
    home_there = getattr(thing, "__module__", None)
    return path_there == path and isinstance(home_there, str) and _home(home_there) == _home(module)
