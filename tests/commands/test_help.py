"""`clew --help` and the help of each command."""

from __future__ import annotations

import argparse
import shlex

import pytest

from clew.commands.main import VERBS, load, main, parser

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_that_can_be_typed(verb: str, capsys: Captured) -> None:
    examples = load(verb).EXAMPLES
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert examples
    for example in examples:
        assert f"\n  {example}\n" in shown
        command, given_verb, *words = shlex.split(example.partition(" | ")[0])
        assert (command, given_verb) == ("clew", verb)
        if verb == "run":
            words, program = load("run").split_words(words, parser("run").verbs["run"])
            assert program
        parser(verb).parse_args([verb, *words])


@pytest.mark.parametrize("width", ["60", "80"])
@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_the_terminal(verb: str, width: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    text = capsys.readouterr().out.split("examples:")[0]
    assert max(map(len, text.splitlines())) <= int(width)


def test_an_option_of_one_name_means_one_thing() -> None:
    """A name may stand in several commands only with the same kind of argument."""
    kinds: dict[str, set[object]] = {}
    for verb, command in parser(every=True).verbs.items():
        for action in command._actions:
            for option in action.option_strings:
                if action.help != argparse.SUPPRESS and option in ("--names", "--only", "--limit", "--name"):
                    kinds.setdefault(option, set()).add((action.dest, action.type))
    assert {option: len(uses) for option, uses in kinds.items()} == dict.fromkeys(kinds, 1)
