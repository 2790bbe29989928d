"""The calls of a run as a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.history.call import Calls

if TYPE_CHECKING:
    from clew.history.view import View


class Tree:
    """Who called whom. `print(tree)` shows it; a long one is shortened, and says so."""

    def __init__(self, view: View) -> None:
        self._view = view

    @property
    def roots(self) -> Calls:
        """The calls that no recorded call made, in the order they began."""
        return Calls(self._view, self._view.calls.roots())

    def __len__(self) -> int:
        """How many calls there are."""
        return len(self._view.calls)

    def __str__(self) -> str:
        from clew.show.tree import tree_text

        return tree_text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from clew.show.notebook import tree_html

        return tree_html(self)
