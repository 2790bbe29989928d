"""Renders the comparison of two runs, as given by `Diff.to_dict`: as styled text and as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Final

from clew.text.brief import printable, shorten

Line = tuple[str, str]  # text and style

_MOST: Final = 40  # lines of a folded tree
_PLACES: Final = 20  # lines in a list, such as what is only in one run


def diff_lines(diff: dict[str, Any], *, full: bool = False) -> Iterator[Line]:
    """The whole comparison, line by line."""
    yield from _head_lines(diff)
    if diff["first"] is not None:
        yield "", ""
        yield from _first_difference(diff["first"])
        yield from _further_differences(diff)
    yield from _agreement_lines(diff, full)
    yield from _only_in_one("A", diff["only_in_a"], full)
    yield from _only_in_one("B", diff["only_in_b"], full)
    yield from _not_compared_lines(diff["not_compared"], full)
    if diff["renamed"]:
        yield "", ""
        yield "taken for renamed", "bold"
        yield from ((f"  {printable(old)} → {printable(new)}", "") for old, new in diff["renamed"].items())


# ---- figures


def _head_lines(diff: dict[str, Any]) -> Iterator[Line]:
    for letter in "ab":
        run = diff["runs"][letter]
        yield f"{letter.upper()}  {printable(run['name'])}  {printable(run['path'])}", "bold"
    if diff["runs"]["reference"] is not None:
        run = diff["runs"]["reference"]
        yield f"A again  {printable(run['name'])}  {printable(run['path'])}", "bold"
    yield from _circumstance_lines(diff["circumstances"])
    for note in diff["notes"]:
        yield f"note: {printable(note)}", "yellow"
    yield _summary_line(diff["summary"]), "green" if diff["summary"]["equal"] else "red"
    yield f"tolerance: {_tolerance_text(diff['settings'])}", "dim"


def _circumstance_lines(circumstances: list[dict[str, Any]]) -> Iterator[Line]:
    """Differences in how the runs were started."""
    for circumstance in circumstances[:_PLACES]:
        values = (
            "not there" if circumstance[letter] is None else shorten(printable(circumstance[letter]), 60)
            for letter in "ab"
        )
        name = f" {printable(circumstance['name'])}" if circumstance["name"] else ""
        yield f"{circumstance['kind']}{name}: {' → '.join(values)}", "yellow"
    if len(circumstances) > _PLACES:
        yield f"{len(circumstances) - _PLACES} more of these", "dim"


def _summary_line(summary: dict[str, Any]) -> str:
    parts = [f"{summary['identical']:,} identical"]
    if summary["within"]:
        first = summary["within_first"]
        since = f", first `{printable(first['name'])}` in {printable(first['function'])}" if first else ""
        since += f" at step {printable(first['step'])}" if first and first["step"] is not None else ""
        parts.append(
            f"{summary['within']:,} within tolerance (largest {_format_number(summary['within_worst'])}{since})"
        )
    if summary["differ"]:
        parts.append(f"{summary['differ']:,} differ")
    limited = [f"{summary[key]:,} {key.replace('_', ' ')}" for key in ("by_hash", "by_summary") if summary[key]]
    if limited:
        parts.append(f"{', '.join(limited)} only")
    if summary["not_compared"]:
        parts.append(f"{summary['not_compared']:,} could not be compared")
    verdict = "equal" if summary["equal"] else "different" if summary["differ"] else "not the same"
    if not summary["compared"]:
        verdict = "nothing to compare"
    return f"{verdict}: {summary['compared']:,} values compared, {', '.join(parts)}"


def _tolerance_text(settings: dict[str, Any]) -> str:
    tolerances = [f"{name} {settings[name]:g}" for name in ("rtol", "atol", "ulp") if settings[name] is not None]
    if settings["noise"] is not None:
        noise = f"{settings['noise']:g} times the noise of each place, as the reference shows it"
        return f"{noise}, or {', '.join(tolerances)}" if tolerances else noise
    if tolerances:
        return ", ".join(tolerances)
    kinds = [f"{name} {defaults['rtol']:g}/{defaults['atol']:g}" for name, defaults in settings["defaults"].items()]
    return f"defaults by type, rtol/atol: {', '.join(kinds)}; all else exact"


def _format_number(value: Any) -> str:
    if isinstance(value, str):
        return {"Infinity": "∞", "-Infinity": "-∞"}.get(value, value)
    return f"{value:.4g}"


# ---- differences


def _first_difference(difference: dict[str, Any]) -> Iterator[Line]:
    yield f"first difference: {_location(difference)}", "bold red"
    yield from _value_lines(difference)
    if difference["inputs"]:
        inputs = ", ".join(_input_text(argument) for argument in difference["inputs"][:6])
        more = f", {len(difference['inputs']) - 6} more" if len(difference["inputs"]) > 6 else ""
        yield f"  inputs: {inputs}{more}", ""
    yield (
        f"  {difference['role']}: {printable(difference['reason'])}",
        "bold" if difference["role"] == "producer" else "",
    )


def _location(difference: dict[str, Any]) -> str:
    name = {"argument": "argument ", "result": "result "}.get(
        difference["what"], ""
    ) + f"`{printable(difference['name'])}`"
    if difference["what"] == "exception":
        name = "exception"
    step = "" if difference["step"] is None else f" at step {printable(difference['step'])}"
    ordinal, count = difference["ordinal"]
    if count > 1 and difference["step"] != ordinal - 1:  # with one call per step, the step is enough
        step += f" in call {ordinal:,} of {count:,}"
    place = f"{printable(difference['a']['file'])}:{difference['a']['line']}" if difference["a"]["file"] else ""
    function = printable(difference["function"]) or "no call"
    return f"{name}{step} {'of' if ' in call ' in step else 'in'} {function}  {place}".rstrip()


def _value_lines(difference: dict[str, Any]) -> Iterator[Line]:
    for letter in "ab":
        origin = " (held from before)" if difference["held"] == letter else ""
        yield f"  {letter.upper()}  {shorten(printable(difference[letter]['value']), 100)}{origin}", ""
    measure = measure_text(difference["measure"])
    if measure:
        yield f"  {measure}", ""
    if difference["multiple"] is not None:
        yield f"  {_noise_multiple(difference)}", ""


def _noise_multiple(difference: dict[str, Any]) -> str:
    if difference["noise"] == 0:
        return "the reference repeats exactly here: its noise is zero"
    return f"{_format_number(difference['multiple'])} times the noise here, {_format_number(difference['noise'])}"


def _input_text(argument: dict[str, Any]) -> str:
    state = {True: "equal", False: "differs", None: "not known"}[argument["equal"]]
    return f"{printable(argument['name'])} {shorten(printable(argument['a']), 30)} ({state})"


def measure_text(measure: dict[str, Any]) -> str:
    """How two values differ, as one line."""
    parts = [
        f"{label} {_format_number(measure[key])}" for key, label in _MEASURES.items() if _is_informative(measure, key)
    ]
    if measure.get("path"):
        parts.insert(0, f"at {printable(measure['path'])}")
    if "count" in measure and measure.get("total", 1) != 1:
        parts.append(f"{measure['count']:,} of {measure['total']:,} elements")
    if measure.get("first_index"):
        values = measure.get("first_values")
        values_text = (
            f": {printable(values[0])} against {printable(values[1])}" if values and values[0] is not None else ""
        )
        parts.append(f"first at {measure['first_index']}{values_text}")
    for key, label in (("nan", "NaN"), ("inf", "Inf")):
        if any(measure.get(key, ())):
            parts.append(f"{label} {measure[key][0]:,} against {measure[key][1]:,}")
    if measure.get("nonfinite_index"):
        parts.append(f"first only in one at {measure['nonfinite_index']}")
    parts += [f"{key} {measure[key][0]} against {measure[key][1]}" for key in ("shapes", "dtypes") if key in measure]
    if measure.get("note"):
        parts.append(printable(measure["note"]))
    return " · ".join(parts)


def _is_informative(measure: dict[str, Any], key: str) -> bool:
    """Whether a figure is worth showing: a distance of 0 is not if only NaN or Inf differ."""
    return key in measure and (measure.get("max_abs") != 0 or key == "cosine")


_MEASURES: Final = {"max_abs": "max abs", "max_rel": "max rel", "max_ulp": "max ulp", "cosine": "cosine"}


def _further_differences(diff: dict[str, Any]) -> Iterator[Line]:
    items = diff["differences"]["items"][1:]
    if not items:
        return
    yield "", ""
    yield "then", "bold"
    for difference in items:
        yield f"  {_location(difference)}: {_short_text(difference)}  ({difference['role']})", ""
    hidden_count = diff["differences"]["total"] - 1 - len(items)
    if hidden_count > 0:
        yield f"  ... {hidden_count:,} more", "dim"


def _short_text(difference: dict[str, Any]) -> str:
    measure = difference["measure"]
    has_noise = difference["multiple"] is not None and difference["noise"] != 0
    times = f", {_format_number(difference['multiple'])} × noise" if has_noise else ""
    if _is_informative(measure, "max_abs"):
        return f"max abs {_format_number(measure['max_abs'])}{times}"
    a, b = (shorten(printable(difference[letter]["value"]), 30) for letter in "ab")
    return f"{a} against {b}{times}"


# ---- the tree of agreement


def tree_text(places: dict[str, Any], steps: dict[str, Any], *, full: bool = False) -> str:
    """The agreement by place and by step, as text."""
    return "\n".join(text for text, _ in _agreement_trees(places, steps, full))


def _agreement_lines(diff: dict[str, Any], full: bool) -> Iterator[Line]:
    if diff["summary"]["compared"]:
        yield "", ""
        yield from _agreement_trees(diff["tree"]["places"], diff["tree"]["steps"], full)


def _agreement_trees(places: dict[str, Any], steps: dict[str, Any], full: bool) -> Iterator[Line]:
    yield "agreement", "bold"
    lines = list(_branch_lines(places["children"], "  ", full))
    shown = lines if full else lines[:_MOST]
    yield from shown
    if len(lines) > len(shown):
        yield f"  ... {len(lines) - len(shown):,} more lines", "dim"
    if steps["children"]:
        yield "by step", "bold"
        lines = [_node_line("  ", node) for node in steps["children"]]
        yield from lines if full else lines[:_MOST]
        if len(lines) > _MOST and not full:
            yield f"  ... {len(lines) - _MOST:,} more ranges of steps", "dim"


def _branch_lines(nodes: list[dict[str, Any]], indent: str, full: bool) -> Iterator[Line]:
    """One level of the tree; neighbours that agree are folded into one line."""
    for group in _folded_groups(nodes, full):
        if len(group) > 1:
            count = sum(node["compared"] for node in group)
            labels = f"{_node_label(group[0])} … {_node_label(group[-1])}"
            yield f"{indent}{labels}: {len(group):,} that agree, {count:,} values", "green"
            continue
        node = group[0]
        yield _node_line(indent, node)
        if full or node["differ"]:
            yield from _branch_lines(node["children"], indent + "  ", full)


def _folded_groups(nodes: list[dict[str, Any]], full: bool) -> Iterator[list[dict[str, Any]]]:
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


def _node_label(node: dict[str, Any]) -> str:
    return shorten(printable(node["label"]), 60)


def _node_line(indent: str, node: dict[str, Any]) -> Line:
    name = f"{indent}{_node_label(node)}"
    if not node["differ"]:
        values = "value agrees" if node["compared"] == 1 else "values agree"
        return f"{name}: {node['compared']:,} {values}", "green"
    worst = f", worst {_format_number(node['worst'])}"
    return f"{name}: {node['differ']:,} of {node['compared']:,} differ{worst}", "red"


# ---- the rest


def _only_in_one(letter: str, entries: list[dict[str, Any]], full: bool) -> Iterator[Line]:
    if not entries:
        return
    yield "", ""
    yield f"only in {letter}", "bold"
    shown = entries if full else entries[:_PLACES]
    for entry in shown:
        where = f" in {printable(entry['function'])}" if entry["function"] else ""
        place = f"  {printable(entry['file'])}:{entry['line']}" if entry["line"] else ""
        if entry["what"] == "call":
            count = f"{entry['calls']:,} call{'s' * (entry['calls'] != 1)} of {printable(entry['name'])}{where}"
            yield f"  {count}, {entry['values']:,} values{place}", ""
        else:
            step = "" if entry["step"] is None else f", first at step {printable(entry['step'])}"
            yield f"  {entry['values']:,} × {entry['what']} `{printable(entry['name'])}`{where}{step}{place}", ""
    if len(entries) > len(shown):
        yield f"  ... {len(entries) - len(shown):,} more places", "dim"


def _not_compared_lines(entries: list[dict[str, Any]], full: bool) -> Iterator[Line]:
    if not entries:
        return
    yield "", ""
    yield "not compared", "bold"
    shown = entries if full else entries[:_PLACES]
    for entry in shown:
        place = f"`{printable(entry['name'])}` in {printable(entry['function'])}"
        yield f"  {entry['count']:,} × {place}: {printable(entry['why'])}", ""
    if len(entries) > len(shown):
        yield f"  ... {len(entries) - len(shown):,} more", "dim"


# ---- a notebook


_STYLES: Final = {
    "bold": "font-weight:bold",
    "bold red": "font-weight:bold;color:#c0392b",
    "red": "color:#c0392b",
    "green": "color:#1e8449",
    "yellow": "color:#b9770e",
    "dim": "opacity:0.7",
}


def diff_html(diff: dict[str, Any]) -> str:
    """The same lines as HTML. All recorded text is escaped."""
    return f'<pre style="line-height:1.35">{"".join(_html_lines(diff_lines(diff)))}</pre>'


def _html_lines(lines: Iterable[Line]) -> Iterator[str]:
    for text, style in lines:
        escaped = escape(text, quote=True)
        yield f'<span style="{_STYLES[style]}">{escaped}</span>\n' if style else f"{escaped}\n"
