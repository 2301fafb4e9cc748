"""What `verbose` does: every step is a line of the logger "widemargin"; a search also draws a bar on a terminal."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from widemargin.solvers.base import Progress

__all__ = ["bar", "watchers"]

logger = logging.getLogger("widemargin")


def watchers(callbacks: Sequence[Callable[[Progress], Any]] | None, verbose: int) -> tuple[Callable[..., Any], ...]:
    """The callbacks of a fit: the user's, and the one that logs."""
    return (*(callbacks or ()), *((_log_progress,) if verbose else ()))


def _log_progress(progress: Progress) -> None:
    logger.info(
        "%s %d: objective %.6g, gap %.1e, violation %.1e, %.2f s",
        progress.stage, progress.iteration, progress.objective, progress.gap, progress.violation, progress.seconds,
    )  # fmt: skip


@contextmanager
def bar(total: int, verbose: int) -> Iterator[Callable[[Any], None]]:
    """A callback that draws how much of `total` steps is done, where stderr is a terminal and verbose is not 0."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not (verbose and console.is_terminal):
        yield lambda progress: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task("", total=total)

        def show(progress: Any) -> None:
            text = f"{progress.stage}: {progress.objective:.4f}, least {progress.gap:.4f}"
            drawn.update(task, completed=progress.iteration, description=text, refresh=True)

        yield show
