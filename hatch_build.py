"""The build hook: the web page is made before it is packed. How: scripts/build_page.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node comes from PyPI, but only if the page has to be made and the machine has no Node that can."""
        maker = page_maker(Path(self.root))
        if maker.is_current(Path(self.root)) or maker.machines_node() is not None:
            return []
        return [maker.NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        maker = page_maker(Path(self.root))
        try:
            maker.build(Path(self.root))
        except maker.PageError as problem:
            if version != "editable":
                raise
            # Work on the library goes on without the page; `clew view` says that it is missing.
            self.app.display_warning(f"The web page was not built. {problem}")


def page_maker(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_page", root / "scripts" / "build_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
