"""Warnings about bundles, shown at the line of the user's code that saves or loads."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from clew import env


class BundleWarning(UserWarning):
    """Something about a bundle that its user should know."""


def warn(message: str) -> None:
    """Issue a warning at the first line outside clew, however many of its functions were called on the way."""
    level, frame = 2, sys._getframe(1)
    while _is_ours(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, BundleWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(env.PACKAGE))
