"""The README.md of a bundle: what goes in, what comes out, how to run it and what it holds, in plain words."""

from __future__ import annotations

import json
import keyword
import shlex
from typing import Any

from clew.graph.brief_values import visible

from . import trust
from .layout import ASSETS, CODE, EXAMPLES, MODELS
from .summary import signature_of

_LONGEST = 2000  # characters of what stands in one place


def readme(page: dict[str, Any], folder: str, files: dict[str, dict[str, Any]]) -> str:
    """The text, made from the page of a bundle and the list of its files. Whatever they say is shown as it is."""
    signature = signature_of(page)
    assert signature is not None
    made = f"recorded with clew {page['clew']} on Python {page['versions']['python']}, at {page['created']}"
    parts = [
        f"# {_code(page['name'])}",
        f"A pipeline, {made}. It runs without the source tree and the files of its author.",
        "## What goes in",
        "\n".join(map(_input, signature["inputs"])) or "Nothing.",
        "## What comes out",
        _code(signature["output"]["like"]),
        *_how_to_run(page, folder),
        "## What is in it",
        _contents(page, files),
    ]
    if decisions := _decisions(page["block"]):
        parts += [
            "## When it refuses",
            "It holds for inputs that decide as the examples did. For others it refuses with the line:",
            "\n".join(f"- {_code(line)}" for line in decisions),
        ]
    return "\n\n".join(parts) + "\n"


def _input(said: dict[str, Any]) -> str:
    optional = "" if said["default"] is None else f", optional: {_code(said['default'])} if it is not given"
    return f"- {_code(said['name'])}: {_code(said['like'])}{optional}"


def _how_to_run(page: dict[str, Any], folder: str) -> list[str]:
    place, text = shlex.quote(_plain(folder)), json.dumps(_plain(folder))
    required = [said["name"] for said in page["inputs"] if "default" not in said]
    modules = [name for name, said in page["modules"].items() if said["file"]]
    names = _plain(json.dumps(modules or ["..."]))
    python = [
        f"import clew\n\ngraph = clew.load({text}, trusted=True)  # it is a program: True lets it run",
        f"result = {_call(required)}",
    ]
    return [
        "## How to run it",
        "`requirements.txt` has the packages it needs, in the versions it was made with. This makes an environment:",
        _block(f"clew load {place} --env env", "sh"),
        "In Python:",
        _block("\n".join(python), "python"),
        "On the command line, for each row of a file (columns are inputs):",
        _block(f"clew run-graph {place} --input rows.jsonl --output results.parquet", "sh"),
        "Without trusting it, look at it; nothing of it runs:",
        _block(f"clew inspect {place}\nclew inspect {place} --code\nclew view {place}", "sh"),
        f"Instead of `trusted=True`, name what may run (`trusted={names}`), or give the SHA-256 in `graph.sha256`.",
        "To load it in a fresh process and test it on the examples in it:",
        _block(f"clew inspect --test {place} --trusted", "sh"),
    ]


def _call(names: list[str]) -> str:
    if all(name.isidentifier() and not keyword.iskeyword(name) for name in names):
        return f"graph({', '.join(f'{name}=...' for name in names)})"
    return "graph.run({" + ", ".join(f"{json.dumps(name)}: ..." for name in names) + "})"


def _contents(page: dict[str, Any], files: dict[str, dict[str, Any]]) -> str:
    steps = sum(1 for _ in trust.steps_in(page["block"]))
    modules = [name for name, said in page["modules"].items() if said["file"]]
    rows = [
        f"- {steps} {'step' if steps == 1 else 'steps'} of {_listed(said['name'] for said in page['operators'])}",
        f"- code of {_listed(modules)} (`{CODE}/`)" if modules else "",
        _files_under(f"{MODELS}/", "models", files),
        _files_under(f"{ASSETS}/", "files of the author", files),
        f"- the examples it was recorded with (`{EXAMPLES}`)" if EXAMPLES in files else "",
        f"- made with {_listed(f'{name} {version}' for name, version in page['versions'].items())}",
        "- `graph.json`: all of it, with the SHA-256 of every file",
    ]
    return "\n".join(row for row in rows if row)


def _files_under(folder: str, title: str, files: dict[str, dict[str, Any]]) -> str:
    names = [name.removeprefix(folder) for name in files if name.startswith(folder)]
    return f"- {title}: {_listed(names)} (`{folder}`)" if names else ""


def _listed(names: Any) -> str:
    return ", ".join(_code(name) for name in dict.fromkeys(names)) or "Python's own operations"


def _decisions(block: dict[str, Any]) -> list[str]:
    found = [event["guard"]["condition"] for event in block["events"] if "guard" in event]
    found += [block["decision"]["condition"]] if "decision" in block else []
    for _, inner in block.get("branches", ()):
        found += _decisions(inner)
    return list(dict.fromkeys(filter(None, found)))


def _plain(text: Any) -> str:
    """Text that can neither act on a terminal nor end the code or the line it stands in."""
    shown = visible(str(text)).replace("`", "'")
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _code(text: Any) -> str:
    return f"`{_plain(text)}`"


def _block(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"
