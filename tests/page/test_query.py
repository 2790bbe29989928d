"""What was asked, parameter by parameter."""

from __future__ import annotations

import pytest

from clew.errors import OptionError
from clew.page.query_parameters import Query


def test_numbers_given_by_a_program_mean_what_they_mean_in_an_address() -> None:
    assert not Query({"fold": 0}).flag("fold", True)
    assert not Query({"fold": "0"}).flag("fold", True)
    assert Query({}).flag("fold", True)
    assert Query({"offset": None}).integer("offset", 7) == 7


def test_a_whole_number_is_held_between_its_ends() -> None:
    query = Query({"px": "5", "limit": "999999999999"})
    assert query.integer("px", 100, 10, 50) == 10
    assert query.integer("limit", 100, 1, 50) == 50
    with pytest.raises(OptionError, match=r"`px=1\.5` is not a whole number"):
        Query({"px": "1.5"}).integer("px", 1)


def test_a_number_may_be_infinite_but_not_nan() -> None:
    assert Query({"to": "inf"}).number("to") == float("inf")
    assert Query({}).number("to") is None
    with pytest.raises(OptionError, match="is not a number"):
        Query({"to": "nan"}).number("to")


def test_a_word_is_one_of_those_known_the_first_if_none_is_given() -> None:
    assert Query({}).choice("axis", ("step", "time")) == "step"
    with pytest.raises(OptionError, match="is not step or time"):
        Query({"axis": "x"}).choice("axis", ("step", "time"))
