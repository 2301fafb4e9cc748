"""Warnings that point at the user's line."""

import sys
import warnings

PASSED_OVER = frozenset({"widemargin", "widemargin_papers", "sklearn", "joblib"})
"""Packages whose frames are never the user's: ours, and those that call it."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the innermost frame outside this package, scikit-learn and joblib."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED_OVER:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
