"""Warnings that point at the user's line."""

import sys
import warnings
from pathlib import Path

__all__ = ["warn"]

PACKAGE = str(Path(__file__).parents[1])


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the innermost frame outside this package."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
