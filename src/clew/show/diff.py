"""Two runs compared, for people: from what `Diff.to_dict` tells. Text with styles, and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Final

from clew.show.text import printable, shorten

Line = tuple[str, str]  # text, and how it is drawn

_MOST: Final = 40  # lines of a tree that is folded
_PLACES: Final = 20  # lines of what is only in one run


def diff_lines(told: dict[str, Any], *, full: bool = False) -> Iterator[Line]:
    """The whole of it, line by line."""
    yield from _head(told)
    if told["first"] is not None:
        yield "", ""
        yield from _first(told["first"])
        yield from _more(told)
    yield from _tree(told, full)
    yield from _only("A", told["only_in_a"], full)
    yield from _only("B", told["only_in_b"], full)
    yield from _not_compared(told["not_compared"], full)
    if told["renamed"]:
        yield "", ""
        yield "taken for renamed", "bold"
        yield from ((f"  {printable(old)} → {printable(new)}", "") for old, new in told["renamed"].items())


# ---- figures


def _head(told: dict[str, Any]) -> Iterator[Line]:
    for letter in "ab":
        run = told["runs"][letter]
        yield f"{letter.upper()}  {printable(run['name'])}  {printable(run['path'])}", "bold"
    if told["runs"]["reference"] is not None:
        run = told["runs"]["reference"]
        yield f"A again  {printable(run['name'])}  {printable(run['path'])}", "bold"
    yield from _circumstances(told["circumstances"])
    for note in told["notes"]:
        yield f"note: {printable(note)}", "yellow"
    yield _figures(told["summary"]), "green" if told["summary"]["equal"] else "red"
    yield f"tolerance: {_tolerance(told['settings'])}", "dim"


def _circumstances(told: list[dict[str, Any]]) -> Iterator[Line]:
    """How the runs were started, where it was not alike."""
    for one in told[:_PLACES]:
        values = ("not there" if one[letter] is None else shorten(printable(one[letter]), 60) for letter in "ab")
        name = f" {printable(one['name'])}" if one["name"] else ""
        yield f"{one['kind']}{name}: {' → '.join(values)}", "yellow"
    if len(told) > _PLACES:
        yield f"{len(told) - _PLACES} more of these", "dim"


def _figures(summary: dict[str, Any]) -> str:
    parts = [f"{summary['identical']:,} identical"]
    if summary["within"]:
        first = summary["within_first"]
        since = f", first `{printable(first['name'])}` in {printable(first['function'])}" if first else ""
        since += f" at step {printable(first['step'])}" if first and first["step"] is not None else ""
        parts.append(f"{summary['within']:,} within tolerance (largest {_number(summary['within_worst'])}{since})")
    if summary["differ"]:
        parts.append(f"{summary['differ']:,} differ")
    hidden = [f"{summary[key]:,} {key.replace('_', ' ')}" for key in ("by_hash", "by_summary") if summary[key]]
    if hidden:
        parts.append(f"{', '.join(hidden)} only")
    if summary["not_compared"]:
        parts.append(f"{summary['not_compared']:,} could not be compared")
    word = "equal" if summary["equal"] else "different" if summary["differ"] else "not the same"
    if not summary["compared"]:
        word = "nothing to compare"
    return f"{word}: {summary['compared']:,} values compared, {', '.join(parts)}"


def _tolerance(settings: dict[str, Any]) -> str:
    given = [f"{name} {settings[name]:g}" for name in ("rtol", "atol", "ulp") if settings[name] is not None]
    if settings["noise"] is not None:
        noise = f"{settings['noise']:g} times the noise of each place, as the reference shows it"
        return f"{noise}, or {', '.join(given)}" if given else noise
    if given:
        return ", ".join(given)
    kinds = [f"{name} {one['rtol']:g}/{one['atol']:g}" for name, one in settings["defaults"].items()]
    return f"defaults by type, rtol/atol: {', '.join(kinds)}; all else exact"


def _number(value: Any) -> str:
    if isinstance(value, str):
        return {"Infinity": "∞", "-Infinity": "-∞"}.get(value, value)
    return f"{value:.4g}"


# ---- differences


def _first(one: dict[str, Any]) -> Iterator[Line]:
    yield f"first difference: {_where(one)}", "bold red"
    yield from _values(one)
    if one["inputs"]:
        shown = ", ".join(_input(given) for given in one["inputs"][:6])
        more = f", {len(one['inputs']) - 6} more" if len(one["inputs"]) > 6 else ""
        yield f"  inputs: {shown}{more}", ""
    yield f"  {one['role']}: {printable(one['reason'])}", "bold" if one["role"] == "producer" else ""


def _where(one: dict[str, Any]) -> str:
    name = {"argument": "argument ", "result": "result "}.get(one["what"], "") + f"`{printable(one['name'])}`"
    if one["what"] == "exception":
        name = "exception"
    step = "" if one["step"] is None else f" at step {printable(one['step'])}"
    which, of = one["ordinal"]
    if of > 1 and one["step"] != which - 1:  # of a call a step, the step says it already
        step += f" in call {which:,} of {of:,}"
    place = f"{printable(one['a']['file'])}:{one['a']['line']}" if one["a"]["file"] else ""
    function = printable(one["function"]) or "no call"
    return f"{name}{step} {'of' if ' in call ' in step else 'in'} {function}  {place}".rstrip()


def _values(one: dict[str, Any]) -> Iterator[Line]:
    for letter in "ab":
        held = " (held from before)" if one["held"] == letter else ""
        yield f"  {letter.upper()}  {shorten(printable(one[letter]['value']), 100)}{held}", ""
    measure = measure_text(one["measure"])
    if measure:
        yield f"  {measure}", ""
    if one["multiple"] is not None:
        yield f"  {_multiple(one)}", ""


def _multiple(one: dict[str, Any]) -> str:
    if one["noise"] == 0:
        return "the reference repeats exactly here: its noise is zero"
    return f"{_number(one['multiple'])} times the noise here, {_number(one['noise'])}"


def _input(given: dict[str, Any]) -> str:
    state = {True: "equal", False: "differs", None: "not known"}[given["equal"]]
    return f"{printable(given['name'])} {shorten(printable(given['a']), 30)} ({state})"


def measure_text(measure: dict[str, Any]) -> str:
    """How two values differ, in one line."""
    parts = [f"{label} {_number(measure[key])}" for key, label in _MEASURES.items() if _tells(measure, key)]
    if measure.get("path"):
        parts.insert(0, f"at {printable(measure['path'])}")
    if "count" in measure and measure.get("total", 1) != 1:
        parts.append(f"{measure['count']:,} of {measure['total']:,} elements")
    if measure.get("first_index"):
        values = measure.get("first_values")
        told = f": {printable(values[0])} against {printable(values[1])}" if values and values[0] is not None else ""
        parts.append(f"first at {measure['first_index']}{told}")
    for key, label in (("nan", "NaN"), ("inf", "Inf")):
        if any(measure.get(key, ())):
            parts.append(f"{label} {measure[key][0]:,} against {measure[key][1]:,}")
    if measure.get("nonfinite_index"):
        parts.append(f"first only in one at {measure['nonfinite_index']}")
    parts += [f"{key} {measure[key][0]} against {measure[key][1]}" for key in ("shapes", "dtypes") if key in measure]
    if measure.get("note"):
        parts.append(printable(measure["note"]))
    return " · ".join(parts)


def _tells(measure: dict[str, Any], key: str) -> bool:
    """Whether a figure says something: a distance of 0 does not where only NaN or Inf differ."""
    return key in measure and (measure.get("max_abs") != 0 or key == "cosine")


_MEASURES: Final = {"max_abs": "max abs", "max_rel": "max rel", "max_ulp": "max ulp", "cosine": "cosine"}


def _more(told: dict[str, Any]) -> Iterator[Line]:
    items = told["differences"]["items"][1:]
    if not items:
        return
    yield "", ""
    yield "then", "bold"
    for one in items:
        yield f"  {_where(one)}: {_short(one)}  ({one['role']})", ""
    left = told["differences"]["total"] - 1 - len(items)
    if left > 0:
        yield f"  ... {left:,} more", "dim"


def _short(one: dict[str, Any]) -> str:
    measure = one["measure"]
    told = one["multiple"] is not None and one["noise"] != 0
    times = f", {_number(one['multiple'])} × noise" if told else ""
    if _tells(measure, "max_abs"):
        return f"max abs {_number(measure['max_abs'])}{times}"
    a, b = (shorten(printable(one[letter]["value"]), 30) for letter in "ab")
    return f"{a} against {b}{times}"


# ---- the tree of agreement


def tree_text(places: dict[str, Any], steps: dict[str, Any], *, full: bool = False) -> str:
    """The agreement by place and by step."""
    return "\n".join(text for text, _ in _trees(places, steps, full))


def _tree(told: dict[str, Any], full: bool) -> Iterator[Line]:
    if told["summary"]["compared"]:
        yield "", ""
        yield from _trees(told["tree"]["places"], told["tree"]["steps"], full)


def _trees(places: dict[str, Any], steps: dict[str, Any], full: bool) -> Iterator[Line]:
    yield "agreement", "bold"
    lines = list(_branches(places["children"], "  ", full))
    shown = lines if full else lines[:_MOST]
    yield from shown
    if len(lines) > len(shown):
        yield f"  ... {len(lines) - len(shown):,} more lines", "dim"
    if steps["children"]:
        yield "by step", "bold"
        lines = [_line("  ", "  ", node) for node in steps["children"]]
        yield from lines if full else lines[:_MOST]
        if len(lines) > _MOST and not full:
            yield f"  ... {len(lines) - _MOST:,} more ranges of steps", "dim"


def _branches(nodes: list[dict[str, Any]], indent: str, full: bool) -> Iterator[Line]:
    """A level of the tree; neighbours that agree are folded into one line."""
    for group in _folded(nodes, full):
        if len(group) > 1:
            count = sum(node["compared"] for node in group)
            yield (
                f"{indent}{_label(group[0])} … {_label(group[-1])}: {len(group):,} that agree, {count:,} values",
                "green",
            )
            continue
        node = group[0]
        yield _line(indent, "", node)
        if full or node["differ"]:
            yield from _branches(node["children"], indent + "  ", full)


def _folded(nodes: list[dict[str, Any]], full: bool) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for node in nodes:
        if node["differ"] or full:
            if group:
                yield group
            yield [node]
            group = []
        else:
            group.append(node)
    if group:
        yield group


def _label(node: dict[str, Any]) -> str:
    return shorten(printable(node["label"]), 60)


def _line(indent: str, before: str, node: dict[str, Any]) -> Line:
    name = f"{indent}{_label(node)}"
    if not node["differ"]:
        values = "value agrees" if node["compared"] == 1 else "values agree"
        return f"{name}: {node['compared']:,} {values}", "green"
    worst = f", worst {_number(node['worst'])}"
    return f"{name}: {node['differ']:,} of {node['compared']:,} differ{worst}", "red"


# ---- the rest


def _only(letter: str, found: list[dict[str, Any]], full: bool) -> Iterator[Line]:
    if not found:
        return
    yield "", ""
    yield f"only in {letter}", "bold"
    shown = found if full else found[:_PLACES]
    for one in shown:
        where = f" in {printable(one['function'])}" if one["function"] else ""
        place = f"  {printable(one['file'])}:{one['line']}" if one["line"] else ""
        if one["what"] == "call":
            count = f"{one['calls']:,} call{'s' * (one['calls'] != 1)} of {printable(one['name'])}{where}"
            yield f"  {count}, {one['values']:,} values{place}", ""
        else:
            step = "" if one["step"] is None else f", first at step {printable(one['step'])}"
            yield f"  {one['values']:,} × {one['what']} `{printable(one['name'])}`{where}{step}{place}", ""
    if len(found) > len(shown):
        yield f"  ... {len(found) - len(shown):,} more places", "dim"


def _not_compared(found: list[dict[str, Any]], full: bool) -> Iterator[Line]:
    if not found:
        return
    yield "", ""
    yield "not compared", "bold"
    shown = found if full else found[:_PLACES]
    for one in shown:
        yield (
            f"  {one['count']:,} × `{printable(one['name'])}` in {printable(one['function'])}: {printable(one['why'])}",
            "",
        )
    if len(found) > len(shown):
        yield f"  ... {len(found) - len(shown):,} more", "dim"


# ---- a notebook


_STYLES: Final = {
    "bold": "font-weight:bold",
    "bold red": "font-weight:bold;color:#c0392b",
    "red": "color:#c0392b",
    "green": "color:#1e8449",
    "yellow": "color:#b9770e",
    "dim": "opacity:0.7",
}


def diff_html(told: dict[str, Any]) -> str:
    """The same lines as HTML. Every text that was recorded is escaped."""
    return f'<pre style="line-height:1.35">{"".join(_html(diff_lines(told)))}</pre>'


def _html(lines: Iterable[Line]) -> Iterator[str]:
    for text, style in lines:
        inside = escape(text, quote=True)
        yield f'<span style="{_STYLES[style]}">{inside}</span>\n' if style else f"{inside}\n"
