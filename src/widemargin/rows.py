"""One record of rows: what belongs together by position, sliced together.

Every path through the library carries its data in this record: `fit`, `audit`, `margin_report`, cross-validation, rows
kept aside for a proof, and blocks of rows that do not fit in memory. Rows in memory are one block.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from widemargin._typing import Classifier, Column, Features, Index, Table
from widemargin.exceptions import DataError

__all__ = ["Rows", "length_of", "take"]

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one origin, and everything that is known of each of them.

    Attributes
    ----------
    X : array, CSR matrix or data frame of shape (n, d), or None
        None where predictions are measured and no model is asked.
    y : array-like of shape (n,), or None
    sample_weight : array-like of shape (n,), or None
    populations : table with n rows, or None
        Columns for predicates and baselines.
    external : mapping of str to Rows
        Data sets beside these rows. Slices keep them whole: cross-validation must not cut them.
    baselines : mapping of str to array-like of shape (n,) or fitted classifier
        Predictions are sliced with the rows; classifiers are asked about whatever rows are there.
    source : str or None
        Name of the external data set that the rows are; None: the training or audited rows.

    Raises
    ------
    DataError
        If two parts differ in their number of rows.
    """

    X: Features | None = None
    y: Column | None = None
    sample_weight: Column | None = None
    populations: Table | None = None
    external: "Mapping[str, Rows]" = field(default_factory=dict)
    baselines: Mapping[str, Column | Classifier] = field(default_factory=dict)
    source: str | None = None

    def __post_init__(self) -> None:
        lengths = {name: length_of(part) for name, part in self._parts()}
        if len(set(lengths.values())) > 1:
            name, n_rows = next(iter(lengths.items()))
            other = next(other for other in lengths if lengths[other] != n_rows)
            raise DataError(
                f"{other} has {lengths[other]} rows and {name} has {n_rows} in {self.title}; give one value per row."
            )

    def _parts(self) -> Iterator[tuple[str, Features | Column | Table]]:
        """What has one entry per row, by name."""
        for name in ("X", "y", "sample_weight", "populations"):
            if getattr(self, name) is not None:
                yield name, getattr(self, name)
        yield from ((f"baseline {name!r}", value) for name, value in self.baselines.items() if not is_asked(value))

    @property
    def title(self) -> str:
        """How messages call these rows."""
        return "the data" if self.source is None else f"external {self.source!r}"

    @property
    def n_rows(self) -> int:
        """Number of rows, from the first part that is given.

        Raises
        ------
        DataError
            If nothing is given.
        """
        for _, part in self._parts():
            return length_of(part)
        raise DataError(f"{self.title} has no rows: give X, y, populations or predictions.")

    def take(self, index: Index) -> "Rows":
        """Some of the rows; external data sets and classifiers stay as they are."""
        sliced = {part.name: take(getattr(self, part.name), index) for part in fields(self)[:4]}
        baselines = {name: value if is_asked(value) else take(value, index) for name, value in self.baselines.items()}
        return replace(self, **sliced, baselines=baselines)

    def blocks(self, block_rows: int) -> "Iterator[Rows]":
        """Runs of at most `block_rows` rows, in order, without external data sets."""
        alone = replace(self, external={})
        for first in range(0, self.n_rows, block_rows):
            yield alone.take(slice(first, first + block_rows))


def is_asked(baseline: Column | Classifier) -> bool:
    """Whether a baseline is a classifier to ask, and not an array of its predictions."""
    return hasattr(baseline, "predict")


def length_of(part: Features | Column | Table) -> int:
    """Number of rows of an array, matrix, list, series or table."""
    shape = getattr(part, "shape", None)
    return int(shape[0]) if shape else len(part)  # type: ignore[arg-type]


def take(part: P, index: Index) -> P:
    """Some rows of an array, matrix, list, series or table, in the kind it came in (lists become arrays); None stays.

    A run of rows of an array is a view.
    """
    if part is None:
        return part
    if isinstance(part, np.ndarray) or sp.issparse(part):
        return part[index]  # type: ignore[index, no-any-return]
    eager = nw.from_native(part, eager_only=True, allow_series=True, pass_through=True)
    if eager is not part:
        return eager[index].to_native()  # type: ignore[index, no-any-return]
    return np.asarray(part)[index]  # type: ignore[return-value]
