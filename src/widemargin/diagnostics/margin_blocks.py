"""`margin_report` of rows in blocks: Dask collections, and folders of Parquet files."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from widemargin.diagnostics.audit_blocks import Roles, needed_columns, roles_of
from widemargin.diagnostics.margin_counts import MarginCounts, MarginSketch
from widemargin.diagnostics.margins import group_rows, margins_of, row_weights, weighted_quantiles
from widemargin.distributed.backends import block_map
from widemargin.distributed.blocks import Block
from widemargin.distributed.predict import fitted_columns
from widemargin.distributed.tables import is_collection, part_recipes
from widemargin.exceptions import DataError

__all__ = ["count_margins", "margin_size", "sketch_numbers"]


class _Asked(NamedTuple):
    """What every block is asked."""

    roles: Roles
    normalize: Any
    classes: Any
    level: float


def count_margins(
    clf: Any,
    X: Any,
    y: Any,
    groups: Any,
    *,
    normalize: Any,
    level: float,
    sample_weight: Any,
    classes: Any,
    workers: Any,
) -> MarginCounts:
    """Margins of all blocks in one pass; parameters as in `margin_report`.

    With `normalize` "median" or "max" the margins are counted as they are, see `margin_size`.

    Raises
    ------
    DataError
        As `margin_report`; also where the size of all margins would be needed before the pass.
    """
    model = clf if hasattr(clf, "predict") else None
    late = normalize in ("median", "max")
    if late and level != 0.0:
        raise DataError(
            f"level={level:g} with normalize={normalize!r} needs the size of all margins before they are counted. "
            "Give normalize a number: run the report once with level=0."
        )
    if model is None and classes is None:
        raise DataError("scores in blocks do not say which classes there are; give classes=, in order of the columns.")
    scores = {} if model is not None else {"predictions": clf}
    roles, parts = roles_of(model, {"y": y, "sample_weight": sample_weight, "groups": groups, **scores})
    columns = None if is_collection(X) or X is None else needed_columns(model, None, roles.named)
    recipes = part_recipes({"X": X, **parts}, columns=columns)
    blocks = block_map(recipes, workers, hold=False)
    try:
        counts: MarginCounts = blocks.sum(_count, _Asked(roles, None if late else normalize, classes, level))
    finally:
        blocks.close()
    if counts.overall is None:
        raise DataError("the data have no rows. Give some.")
    return counts


def _count(block: Block, asked: _Asked) -> MarginCounts:
    counts = MarginCounts(asked.level)
    parts = asked.roles.parts(block.data)
    y = np.asarray(parts["y"])
    if not y.shape[0]:
        return counts
    model = asked.roles.model
    clf = np.asarray(parts["predictions"]) if model is None else model
    X = None if parts.get("X") is None else fitted_columns(model, parts["X"])
    weight = row_weights(parts.get("sample_weight"), y.shape[0])
    margins = margins_of(clf, X, y, normalize=asked.normalize, classes=asked.classes, sample_weight=weight)
    counts.add(margins, weight, *group_rows(parts.get("groups"), y.shape[0]))
    return counts


def margin_size(counts: MarginCounts, normalize: Any) -> tuple[float, str]:
    """What counted margins are still to be divided by, and the unit.

    Raises
    ------
    DataError
        If it is 0.
    """
    assert counts.overall is not None
    if normalize not in ("median", "max"):
        return 1.0, counts.unit
    values, weight = counts.overall.buckets
    if normalize == "max":
        size, unit = counts.overall.largest, "multiples of the largest size"
    else:
        size, unit = float(weighted_quantiles(np.abs(values), weight, [0.5])[0]), "multiples of the median size"
    if not size > 0.0:
        raise DataError(f"normalize={normalize!r} divides by 0: all margins are 0. Use normalize=None.")
    return size, unit


def sketch_numbers(sketch: MarginSketch, levels: Sequence[float], delta: float, size: float) -> dict[str, Any]:
    """The fields of a `MarginSummary` but its name, after division by `size`."""
    from widemargin.losses.location import catoni_location, catoni_radius, catoni_scale

    moments = sketch.moments
    n_effective = moments.weight**2 / sketch.squares
    variance = moments.second / moments.weight / size**2
    values, weight = sketch.buckets
    values = values / size
    sd = float(np.sqrt(variance))
    *found, low, median, high = weighted_quantiles(values, weight, [*levels, 0.25, 0.5, 0.75])
    scale = float(catoni_scale(variance, n_effective, delta)) if variance > 0.0 else 1.0
    location = catoni_location(values, scale, delta, sample_weight=weight)
    radius = float(catoni_radius(variance, scale, n_effective, delta))
    flat = sd <= 1e-12 * sketch.largest / size
    return {
        "n_rows": sketch.n_rows,
        "weight": moments.weight,
        "mean": moments.mean / size,
        "median": float(median),
        "catoni": float(location.value),
        "catoni_radius": radius if np.isfinite(radius) else None,
        "sd": sd,
        "iqr": float(high - low),
        "skewness": None if flat else moments.third / moments.weight / (sd * size) ** 3,
        "minimum": sketch.minimum / size,
        "quantiles": tuple(float(value) for value in found),
        "below": sketch.below / moments.weight,
    }
