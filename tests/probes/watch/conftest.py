"""The suite runs on every engine: rewriting, and events of the interpreter."""

from __future__ import annotations

import pytest

from clew.instrument import source


@pytest.fixture(params=["rewriting", "events"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "events":
        monkeypatch.setattr(source, "find", lambda code, module_globals=None: source.Unknown("a test asked for events"))
    return str(request.param)
