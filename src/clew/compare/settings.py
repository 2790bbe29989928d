"""What `clew.diff` was asked: tolerances, what to leave out, which names mean the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from clew.errors import OptionError


class Tolerance(NamedTuple):
    """|a - b| may be atol + rtol · |a|; or they may be so many floating-point numbers apart."""

    rtol: float = 0.0
    atol: float = 0.0
    ulp: float = 0.0

    @property
    def exact(self) -> bool:
        return not (self.rtol or self.atol or self.ulp)


EXACT: Final = Tolerance()
#: By the kind of number, where none was given: what rounding alone explains. Everything that is not here is exact.
DEFAULTS: Final[dict[str, Tolerance]] = {
    "float64": Tolerance(1e-7, 1e-7),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
    "float8_e4m3": Tolerance(0.125, 1e-5),
    "float8_e5m2": Tolerance(0.25, 1e-5),
}
_SAME_AS: Final = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}
FACTOR: Final = 3.0  # one second run shows a part of the noise there is


@dataclass(frozen=True)
class Settings:
    """Checked once, then only read."""

    given: Tolerance | None = None
    ignore: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    map: Mapping[str, str] = field(default_factory=dict)
    factor: float = FACTOR
    reference: bool = False
    common: bool = False  # judged is what both runs have

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
        given = None
        if not rtol is atol is ulp is None:
            named = {"rtol": rtol, "atol": atol, "ulp": ulp}
            given = Tolerance(*(_not_negative(name, value or 0.0) for name, value in named.items()))
        return cls(
            given,
            _patterns("ignore", ignore),
            _patterns("only", only),
            _renames(map),
            _not_negative("noise", factor),
            reference,
            bool(common),
        )

    def tolerance(self, *dtypes: str) -> Tolerance:
        """For numbers of these types: the given one, or the widest of their defaults; none where noise is known."""
        if self.given is not None:
            return self.given
        return EXACT if self.reference else default(*dtypes)

    def unmeasured(self, *dtypes: str) -> Tolerance:
        """Where the reference says nothing of a place."""
        return self.given if self.given is not None else default(*dtypes)

    def wanted(self, name: str, function: str) -> bool:
        spelled = spellings(name, function)
        if self.only and not _any(self.only, spelled):
            return False
        return not _any(self.ignore, spelled)

    def told(self) -> dict[str, Any]:
        """For people and machines: what was compared how."""
        return {
            "rtol": None if self.given is None else self.given.rtol,
            "atol": None if self.given is None else self.given.atol,
            "ulp": None if self.given is None else self.given.ulp,
            "defaults": None
            if self.given is not None or self.reference
            else {name: {"rtol": t.rtol, "atol": t.atol} for name, t in DEFAULTS.items()},
            "noise": self.factor if self.reference else None,
            "ignore": list(self.ignore),
            "only": list(self.only),
            "map": dict(self.map),
            "common": self.common,
        }


def default(*dtypes: str) -> Tolerance:
    """The widest default of these types; none for whole numbers among themselves, for text and so on."""
    known = [DEFAULTS[name] for name in map(_family, dtypes) if name in DEFAULTS]
    return max(known, default=EXACT)


def _family(dtype: str) -> str:
    name = dtype.rpartition(".")[2]
    if name.startswith("float8"):
        return "_".join(name.split("_")[:2]).removesuffix("fn").removesuffix("uz").removesuffix("fn")
    if name in ("float", "longdouble", "float128", "complex", "clongdouble", "complex256"):
        return "float64"
    return _SAME_AS.get(name, name)


def spellings(name: str, function: str) -> tuple[str, ...]:
    """The ways to say a value: `loss`, `train.loss`, `Trainer.train.loss`; or all of a function: `train`."""
    parts = function.replace("<locals>.", "").split(".")
    tails = [".".join(parts[place:]) for place in range(len(parts))]
    return (name, *tails, *(f"{tail}.{name}" for tail in tails))


def _any(patterns: Iterable[str], spelled: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern) for text in spelled for pattern in patterns)


def _not_negative(name: str, value: Any) -> float:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not plain or math.isnan(value) or value < 0:
        shown = repr(value) if type(value) in (int, float, str, bool) else f"a {type(value).__name__}"
        raise OptionError("bad-option", f"{name}={shown} is not a tolerance.", "Give a number from 0.")
    return float(value)


def _patterns(option: str, given: str | Iterable[str]) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(type(one) is str and one for one in found):
        what = f"{option}= takes a pattern or a list of patterns."
        raise OptionError("bad-option", what, 'For instance "loss", "train.*" or "encoder.*.attn".')
    return found


def _renames(given: Mapping[str, str] | None) -> dict[str, str]:
    found = dict(given or {})
    if not all(type(text) is str and text for pair in found.items() for text in pair):
        raise OptionError("bad-option", "map= takes names of the first run and what the second calls them.", _MAP)
    return found


_MAP: Final = 'For instance map={"encoder": "layers", "train": "fit"}.'


class Names:
    """What the first run's names are called in the second, as far as `map=` says."""

    def __init__(self, renames: Mapping[str, str]) -> None:
        self._renames = sorted(renames.items(), key=lambda pair: -len(pair[0]))
        self.used: set[str] = set()

    def of(self, text: str) -> str:
        """A name or a path: as a whole, or the parts it begins with."""
        for old, new in self._renames:
            if text == old or text.startswith((f"{old}.", f"{old}[")):
                self.used.add(old)
                return new + text[len(old) :]
        return text

    def of_function(self, module: str, name: str) -> str:
        """A qualified name: as a whole, with its module, the parts it begins with, or its last part."""
        full = f"{module}.{name}"
        for old, new in self._renames:
            if module == old or module.startswith(f"{old}."):
                self.used.add(old)  # functions are known by their qualified names alone, wherever they live
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
