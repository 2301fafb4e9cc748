"""Sequences: a state for every row, with a weight for every pair of successive states."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from widemargin._typing import ArrayLike, Ints, Label
from widemargin.exceptions import DataError
from widemargin.rows import as_csr
from widemargin.structured.compiled import CHAIN, make_structure
from widemargin.structured.learners.example_rows import check_lengths
from widemargin.structured.model import Examples
from widemargin.structured.models.base import StructureModel


class ChainModel(StructureModel):
    """`f(x, y) = sum_t <x_t, w_{y_t}> + sum_t theta[y_{t-1}, y_t]`, loss = weighted Hamming over the steps.

    An example is a matrix of shape (T, d), ndarray or CSR; a label is a sequence of T states, numbers or strings. The
    exact slack argmax costs O(T^2 S^2) and memory T^2 S (Bauer, Goernitz, Biegler, Mueller, Kloft 2014).

    Parameters
    ----------
    weights : mapping or array-like of shape (S,), optional
        Loss of a wrong step by its true state (sorted order, or by name), `>= 0`. Default: 1 each.

    Attributes
    ----------
    states : ndarray of shape (S,)
        After `prepare`, sorted.
    """

    _kinds = (CHAIN,)
    _stored_arrays: ClassVar[Mapping[str, str]] = {"states": "label *"}

    def _refuse_arrays(self) -> None:
        super()._refuse_arrays()
        if "states" in vars(self) and len(self.states) != self.structure.weight.shape[1]:
            raise ValueError(f"{len(self.states)} states are named, the structure has {self.structure.weight.shape[1]}")

    def __init__(self, weights: Mapping[Label, float] | ArrayLike | None = None) -> None:
        self.weights = weights

    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Collect the states and check the sequences; returns (d, S, S * S).

        Raises
        ------
        DataError
            An empty sequence, a label of another length than its example, states that are no numbers or strings, or
            both, rows of different widths, weights that do not fit.
        """
        check_lengths(X, Y)
        rows, start = self.stack(X)
        lengths = np.diff(start)
        labels = [_sequence(y, f"label {i}") for i, y in enumerate(Y)]
        # Every step needs one state: without it the loops would read beyond the end.
        for i, label in enumerate(labels):
            if label.shape[0] != lengths[i]:
                raise DataError(
                    f"example {i} has {lengths[i]} steps, its label {label.shape[0]}: give one state per step."
                )
        # Numbers and strings can be sorted among themselves only, and a missing value is equal to nothing.
        try:
            self.states = np.unique(np.concatenate(labels))
        except TypeError as error:
            raise DataError(f"the states cannot be sorted ({error}): give numbers only, or strings only.") from error
        numeric = {label.dtype.kind in "biuf" for label in labels if label.dtype != object}
        if len(numeric) > 1:
            raise DataError("some labels are numbers, others strings: give all states the same kind.")
        missing = [state for state in self.states.tolist() if state != state]
        if missing:
            raise DataError(f"a state is {missing[0]!r}: name the state of steps that have none.")
        S = self.states.shape[0]
        # Weights by name leave the order of the states to the model; those not named weigh 1.
        items = getattr(self.weights, "items", None)
        if self.weights is None:
            weight = np.ones(S)
        elif items is not None:
            named = dict(items())
            unknown = [name for name in named if name not in self.states]
            if unknown:
                raise DataError(f"weights names {unknown[0]!r}, which is no state of the training examples.")
            weight = np.array([float(named.get(name, 1.0)) for name in self.states.tolist()])
        else:
            weight = np.asarray(self.weights, dtype=np.float64)
        if weight.shape != (S,) or not np.isfinite(weight).all() or weight.min() < 0.0 or not weight.any():
            raise DataError(f"weights must be {S} finite numbers >= 0, not all 0, one per state.")
        self.structure = make_structure(CHAIN, weight.reshape(1, -1))
        # One weight for every pair of successive states, in any order.
        return rows.shape[1], S, S * S

    def rows(self, x: object) -> Any:
        """The steps of a sequence, shape (T, d)."""
        rows = as_csr(x, "a sequence") if sparse.issparse(x) else np.asarray(x, dtype=np.float64)
        if rows.ndim != 2:
            raise DataError(f"a sequence has {rows.ndim} dimension(s): give a matrix with one step per row.")
        # A label of no steps has no argmax.
        if rows.shape[0] == 0:
            raise DataError("a sequence is empty: leave it out.")
        return rows

    def stack(self, X: Examples) -> tuple[Any, Ints]:
        """Steps of all sequences, and where each begins."""
        parts = []
        for i, x in enumerate(X):
            try:
                parts.append(self.rows(x))
            except DataError as error:
                raise DataError(f"example {i}: {error}") from error
            # Told here with its number, which the stacking below would not know.
            if parts[i].shape[1] != parts[0].shape[1]:
                raise DataError(f"example {i} has {parts[i].shape[1]} columns, example 0 has {parts[0].shape[1]}.")
        # The sequences lie one after the other, so that the loops see one matrix.
        start = np.concatenate([[0], np.cumsum([part.shape[0] for part in parts])]).astype(np.int64)
        # One sparse sequence makes all sparse: the loops know one form at a time.
        if any(sparse.issparse(part) for part in parts):
            return sparse.vstack(parts, format="csr"), start
        return np.vstack(parts), start

    def encode(self, y: object) -> Ints:
        """Indices of the states."""
        y = _sequence(y, "a label")
        if y.shape[0] == 0:
            raise DataError("a label is an empty sequence: leave the example out.")
        # A state beyond the last one would be looked up outside the array.
        at = np.minimum(np.searchsorted(self.states, y), self.states.shape[0] - 1)
        wrong = np.flatnonzero(self.states[at] != y)
        if wrong.size:
            raise DataError(
                f"step {wrong[0]} has the state {y[wrong].tolist()[0]!r}, which is not one of the "
                f"{self.states.shape[0]} states of the training examples."
            )
        index: Ints = at.astype(np.int64)
        return index

    def restore(self, label: Ints) -> Any:
        """States of the steps."""
        return self.states[label]


def _sequence(y: object, what: str) -> npt.NDArray[Any]:
    """A label as a vector of states.

    Raises
    ------
    DataError
    """
    states = np.asarray(y)
    if states.ndim != 1:
        raise DataError(
            f"{what} has the shape {states.shape}: give a sequence of states, one number or string per step."
        )
    return states
