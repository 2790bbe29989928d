"""Names of modules in and out of bundles, and what cannot be saved."""

from __future__ import annotations

PREFIX = "clew_bundle_"


class CannotSaveError(Exception):
    """Why something cannot go into a bundle."""


def private_prefix(name: str) -> str:
    """'clew_bundle_1f0c_1.' of a module that came out of a bundle; '' of any other."""
    root, dot, _ = name.partition(".")
    return root + dot if root.startswith(PREFIX) and dot else ""


def public_name(name: str) -> str:
    return name.removeprefix(private_prefix(name))
