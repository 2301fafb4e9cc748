"""Means over runs, and tables of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def mean_and_sd(rows: Sequence[Sequence[float | None]]) -> dict[str, list[float | None]]:
    """Mean and standard deviation over the runs of each point.

    Parameters
    ----------
    rows : sequence of shape (runs, points)
        None where a number is not defined (a ratio over zero); such runs are left out of the point.

    Returns
    -------
    dict
        `mean` and `sd`, lists of one number a point; None where no run has one. The sd of one run is 0.
    """
    table = np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=np.float64)
    known = ~np.isnan(table)
    count = known.sum(axis=0)
    total = np.where(known, table, 0.0).sum(axis=0)
    mean = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    square = np.where(known, (table - mean) ** 2, 0.0).sum(axis=0)
    spread = np.sqrt(np.divide(square, count - 1, out=np.zeros(count.shape), where=count > 1))
    return {"mean": [number(value) for value in mean], "sd": [number(value) for value in spread]}


def number(value: float) -> float | None:
    """A float for JSON; None where it is not finite."""
    return round(float(value), 6) if np.isfinite(value) else None


def percent(content: Mapping[str, Sequence[float | None]], place: int, runs: int = 2) -> str:
    """Mean and standard deviation of one point of `mean_and_sd`, in percent; a dash where no run has one.

    Of one run no deviation is shown.
    """
    mean, spread = content["mean"][place], content["sd"][place]
    if mean is None or spread is None:
        return "-"
    return f"{100 * mean:.2f} ± {100 * spread:.2f}" if runs > 1 else f"{100 * mean:.2f}"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in [columns, *rows]]
    lines.insert(1, "|" + "---|" * len(columns))
    return "\n".join(lines) + "\n"
