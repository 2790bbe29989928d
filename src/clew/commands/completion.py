"""`clew completion`: the completion script of a shell, made from the parsers themselves."""

from __future__ import annotations

import argparse
from typing import Any

SHELLS = ("bash", "zsh", "fish")
TAKES_RUN = ("show", "view", "report", "diff", "export", "rm")
FORMATS = "json csv parquet hdf5 zarr safetensors tensorboard perfetto"

EXAMPLES = [
    "clew completion bash",
    "clew completion fish",
]


def add(subparsers: Any) -> None:
    parser = subparsers.add_parser("completion", help="print the completion script of a shell")
    parser.description = 'bash, zsh: eval "$(clew completion bash)" in ~/.bashrc; fish: clew completion fish | source'
    parser.add_argument("shell", choices=SHELLS)


def main(args: argparse.Namespace) -> int:
    makers = {"bash": bash, "zsh": zsh, "fish": fish}
    print(makers[args.shell](options()))
    return 0


def options() -> dict[str, list[str]]:
    """verb → its long options."""
    from clew.commands.main import parser

    choices = next(a.choices for a in parser(every=True)._actions if isinstance(a, argparse._SubParsersAction))
    return {
        verb: [
            word
            for action in sub._actions
            if action.help != argparse.SUPPRESS
            for word in action.option_strings
            if word.startswith("--")
        ]
        for verb, sub in choices.items()
    }


def bash(verbs: dict[str, list[str]]) -> str:
    """A function for `complete -F`."""
    cases = "\n".join(f'    {verb}) words="{" ".join([*flags, *_extra(verb)])}" ;;' for verb, flags in verbs.items())
    return f"""_clew() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(verbs)} --help --version" -- "$word")); return
  fi
  if [ "$before" = "--to" ]; then COMPREPLY=($(compgen -W "{FORMATS}" -- "$word")); return; fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "${{COMP_WORDS[1]}}" in
    {"|".join(TAKES_RUN)})
      if [ "$COMP_CWORD" -eq 2 ]; then words="$words latest $(clew runs --quiet 2>/dev/null)"; fi ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _clew clew"""


def zsh(verbs: dict[str, list[str]]) -> str:
    """zsh runs bash's completion."""
    return f"autoload -Uz compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n{bash(verbs)}"


def fish(verbs: dict[str, list[str]]) -> str:
    """`complete` lines."""
    from clew.commands.main import VERBS

    lines = ["complete -c clew -n __fish_use_subcommand -l version", "complete -c clew -l help"]
    for verb, flags in verbs.items():
        lines.append(f"complete -c clew -n __fish_use_subcommand -a {verb} -d {_quoted(VERBS[verb])}")
        seen = f"'__fish_seen_subcommand_from {verb}'"
        lines += [f"complete -c clew -n {seen} -l {flag[2:]}" for flag in flags if flag != "--help"]
        lines += [f"complete -c clew -n {seen} -a '{' '.join(_extra(verb))}'"] if _extra(verb) else []
        if verb in TAKES_RUN:
            lines.append(f"complete -c clew -n {seen} -a 'latest (clew runs --quiet 2>/dev/null)'")
    lines.append(f"complete -c clew -n '__fish_seen_subcommand_from export' -l to -x -a '{FORMATS}'")
    return "\n".join(lines)


def _extra(verb: str) -> tuple[str, ...]:
    return SHELLS if verb == "completion" else ()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "\\'") + "'"
