"""The options of `clew.diff`: tolerances, what to leave out, which names mean the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from clew.errors import OptionError


class Tolerance(NamedTuple):
    """Values may differ by |a - b| ≤ atol + rtol · |a|, or be up to `ulp` floating-point numbers apart."""

    rtol: float = 0.0
    atol: float = 0.0
    ulp: float = 0.0

    @property
    def exact(self) -> bool:
        return not (self.rtol or self.atol or self.ulp)


EXACT: Final = Tolerance()
#: By dtype, if none was given: what rounding alone explains. All other types are compared exactly.
DEFAULTS: Final[dict[str, Tolerance]] = {
    "float64": Tolerance(1e-7, 1e-7),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
    "float8_e4m3": Tolerance(0.125, 1e-5),
    "float8_e5m2": Tolerance(0.25, 1e-5),
}
_SAME_AS: Final = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}
FACTOR: Final = 3.0  # a single second run shows only a part of the noise


@dataclass(frozen=True)
class Settings:
    """The checked options of one comparison."""

    explicit_tolerance: Tolerance | None = None
    ignore: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    map: Mapping[str, str] = field(default_factory=dict)
    factor: float = FACTOR
    reference: bool = False
    common: bool = False  # judge only what both runs have

    @classmethod
    def of(
        cls,
        *,
        rtol: float | None,
        atol: float | None,
        ulp: float | None,
        ignore: str | Iterable[str],
        only: str | Iterable[str],
        map: Mapping[str, str] | None,
        factor: float,
        reference: bool,
        common: bool,
    ) -> Settings:
        tolerance = None
        if not rtol is atol is ulp is None:
            options = {"rtol": rtol, "atol": atol, "ulp": ulp}
            tolerance = Tolerance(*(_check_not_negative(name, value or 0.0) for name, value in options.items()))
        return cls(
            tolerance,
            _check_patterns("ignore", ignore),
            _check_patterns("only", only),
            _check_renames(map),
            _check_not_negative("noise", factor),
            reference,
            bool(common),
        )

    def tolerance(self, *dtypes: str) -> Tolerance:
        """The tolerance for numbers of these types: the explicit one, else their default; exact if noise is known."""
        if self.explicit_tolerance is not None:
            return self.explicit_tolerance
        return EXACT if self.reference else default(*dtypes)

    def tolerance_without_noise(self, *dtypes: str) -> Tolerance:
        """The tolerance at a place whose noise the reference did not measure."""
        return self.explicit_tolerance if self.explicit_tolerance is not None else default(*dtypes)

    def selects(self, name: str, function: str) -> bool:
        """Whether `only` and `ignore` let a name of a function be compared."""
        texts = spellings(name, function)
        if self.only and not _any_matches(self.only, texts):
            return False
        return not _any_matches(self.ignore, texts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: see `Diff.to_dict`."""
        explicit = self.explicit_tolerance
        return {
            "rtol": None if explicit is None else explicit.rtol,
            "atol": None if explicit is None else explicit.atol,
            "ulp": None if explicit is None else explicit.ulp,
            "defaults": None
            if explicit is not None or self.reference
            else {name: {"rtol": t.rtol, "atol": t.atol} for name, t in DEFAULTS.items()},
            "noise": self.factor if self.reference else None,
            "ignore": list(self.ignore),
            "only": list(self.only),
            "map": dict(self.map),
            "common": self.common,
        }


def default(*dtypes: str) -> Tolerance:
    """The widest default of these types; exact for integers, text and so on."""
    tolerances = [DEFAULTS[name] for name in map(_float_type, dtypes) if name in DEFAULTS]
    return max(tolerances, default=EXACT)


def _float_type(dtype: str) -> str:
    """The key of DEFAULTS for a dtype, if there is one."""
    name = dtype.rpartition(".")[2]
    if name.startswith("float8"):
        return "_".join(name.split("_")[:2]).removesuffix("fn").removesuffix("uz").removesuffix("fn")
    if name in ("float", "longdouble", "float128", "complex", "clongdouble", "complex256"):
        return "float64"
    return _SAME_AS.get(name, name)


def spellings(name: str, function: str) -> tuple[str, ...]:
    """The texts that patterns may match: `loss`, `train.loss`, `Trainer.train.loss`, and the function alone."""
    parts = function.replace("<locals>.", "").split(".")
    tails = [".".join(parts[place:]) for place in range(len(parts))]
    return (name, *tails, *(f"{tail}.{name}" for tail in tails))


def _any_matches(patterns: Iterable[str], texts: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for text in texts for pattern in patterns)


def _check_not_negative(name: str, value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or math.isnan(value) or value < 0:
        shown = repr(value) if type(value) in (int, float, str, bool) else f"a {type(value).__name__}"
        raise OptionError("bad-option", f"{name}={shown} is not a tolerance.", "Give a number of 0 or more.")
    return float(value)


def _check_patterns(option: str, value: str | Iterable[str]) -> tuple[str, ...]:
    patterns = (value,) if isinstance(value, str) else tuple(value)
    if not all(type(pattern) is str and pattern for pattern in patterns):
        message = f"{option}= takes a pattern or a list of patterns."
        raise OptionError("bad-option", message, 'For example "loss", "train.*" or "encoder.*.attn".')
    return patterns


def _check_renames(value: Mapping[str, str] | None) -> dict[str, str]:
    renames = dict(value or {})
    if not all(type(text) is str and text for pair in renames.items() for text in pair):
        message = "map= takes names of the first run and the names that the second run uses for them."
        raise OptionError("bad-option", message, 'For example map={"encoder": "layers", "train": "fit"}.')
    return renames


class Names:
    """Translates names of the first run to those of the second, as far as `map=` names them."""

    def __init__(self, renames: Mapping[str, str]) -> None:
        self._renames = sorted(renames.items(), key=lambda pair: -len(pair[0]))
        self.used: set[str] = set()

    def of(self, text: str) -> str:
        """Translate a name or a path, as a whole or by the parts it begins with."""
        for old, new in self._renames:
            if text == old or text.startswith((f"{old}.", f"{old}[")):
                self.used.add(old)
                return new + text[len(old) :]
        return text

    def of_function(self, module: str, name: str) -> str:
        """Translate a qualified name: as a whole, with its module, by the parts it begins with, or by its last part."""
        full = f"{module}.{name}"
        for old, new in self._renames:
            if module == old or module.startswith(f"{old}."):
                self.used.add(old)  # functions are compared by their qualified names, whatever their module
                return name
            if full == old:
                self.used.add(old)
                return ".".join(new.split(".")[-len(name.split(".")) :])
            if name == old or name.startswith(f"{old}."):
                self.used.add(old)
                return new + name[len(old) :]
            if name.endswith(f".{old}"):
                self.used.add(old)
                return name[: -len(old)] + new
        return name
