"""What `verbose` does: every step of a solver becomes a line of the logger "widemargin"."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

from widemargin.solvers.base import Progress

__all__ = ["watchers"]

logger = logging.getLogger("widemargin")


def watchers(callbacks: Sequence[Callable[[Progress], Any]] | None, verbose: int) -> tuple[Callable[..., Any], ...]:
    """The callbacks of a fit: the user's, and the one that logs."""
    return (*(callbacks or ()), *((_log_progress,) if verbose else ()))


def _log_progress(progress: Progress) -> None:
    logger.info(
        "%s %d: objective %.6g, gap %.1e, violation %.1e, %.2f s",
        progress.stage, progress.iteration, progress.objective, progress.gap, progress.violation, progress.seconds,
    )  # fmt: skip
