"""One of several classes, with any cost matrix; and label sets that are a class each."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from widemargin._typing import ArrayLike, Floats, Ints
from widemargin.exceptions import DataError
from widemargin.structured.compiled import MULTICLASS, make_structure
from widemargin.structured.learners.example_rows import check_lengths, check_weights
from widemargin.structured.model import Examples
from widemargin.structured.models.base import LabelSetModel, StructureModel, indicator
from widemargin.structured.models.max_marginals import of_sets


class MulticlassModel(StructureModel):
    """`f(x, y) = <x, w_y>`, with the loss 0/1 or a cost matrix (Crammer and Singer 2001).

    Parameters
    ----------
    cost : array-like of shape (S, S), optional
        Loss of class j where class i is true, `cost[i, j] >= 0`, 0 on the diagonal; classes in sorted order. Default:
        0/1.

    Attributes
    ----------
    classes : ndarray of shape (S,)
        After `prepare`.
    """

    _kinds = (MULTICLASS,)
    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes": "label *"}

    def _refuse_arrays(self) -> None:
        super()._refuse_arrays()
        if "classes" in vars(self) and len(self.classes) != self.structure.weight.shape[1]:
            raise ValueError(
                f"{len(self.classes)} classes are named, the structure has {self.structure.weight.shape[1]}"
            )

    def __init__(self, cost: ArrayLike | None = None) -> None:
        self.cost = cost

    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Collect the classes and check the cost matrix; returns (d, S, 0).

        Raises
        ------
        DataError
            Fewer than two classes, a cost matrix that does not fit them.
        """
        rows, _ = self.stack(X)
        Y = np.asarray(Y)
        check_lengths(rows, Y)
        self.classes = np.unique(Y)
        S = self.classes.shape[0]
        if S < 2:
            raise DataError(f"Y has {S} class: give at least two.")
        # Without a matrix every confusion costs the same.
        cost = 1.0 - np.eye(S) if self.cost is None else np.asarray(self.cost, dtype=np.float64)
        if cost.shape != (S, S):
            raise DataError(f"cost has shape {cost.shape}, Y has {S} classes: give a matrix of shape ({S}, {S}).")
        # The truth itself must cost nothing, and something must cost, or there is nothing to learn.
        off = cost[~np.eye(S, dtype=bool)]
        if not np.isfinite(cost).all() or off.min() < 0.0 or np.diag(cost).any() or not off.any():
            raise DataError("cost must be finite, >= 0, not all 0, and 0 on the diagonal.")
        self.structure = make_structure(MULTICLASS, cost)
        # Classes have no pairs, so theta is empty.
        return rows.shape[1], S, 0

    def encode(self, y: object) -> Ints:
        """Index of a class."""
        return self.encode_all([y])[0]

    def encode_all(self, Y: Examples) -> tuple[Ints, Ints]:
        """Indices of classes, one an example."""
        # Classes are sorted, so that the number of one is found by bisection.
        labels = np.asarray(Y)
        at = np.searchsorted(self.classes, labels)
        unknown = np.flatnonzero(self.classes[np.minimum(at, self.classes.shape[0] - 1)] != labels)
        if unknown.size:
            raise DataError(
                f"label {labels[unknown[0]].tolist()!r} is not one of the {self.classes.shape[0]} classes of the "
                "training examples."
            )
        return at.astype(np.int64), np.arange(at.shape[0] + 1)

    def restore(self, label: Ints) -> Any:
        """The class of an index."""
        return self.classes[label[0]]


class PowersetModel(LabelSetModel):
    """`f(x, y) = <x, w_y>` over the label sets of the training examples, each a class of its own: a label powerset.

    The losses between them are a cost matrix, so that training and prediction are exact for any number of labels. Time
    and memory grow with features times sets.

    Parameters
    ----------
    loss : {"hamming", "jaccard", "f1", "exact"}, default="hamming"
        As of `MultiLabelModel`.
    weights : array-like of shape (k,), optional
        Of "hamming": loss of each wrong label, `>= 0`. Default: 1 each.

    Attributes
    ----------
    sets : ndarray of shape (S, k)
        After `prepare`: the label sets that there are, sorted.
    """

    _kinds = (MULTICLASS,)
    _stored_arrays: ClassVar[Mapping[str, str]] = {"sets": "count * *"}

    def _refuse_arrays(self) -> None:
        super()._refuse_arrays()
        if "sets" in vars(self) and (
            self.sets.shape[0] != self.structure.weight.shape[1] or self.sets.max(initial=0) > 1
        ):
            raise ValueError(f"its {self.sets.shape[0]} label sets are not those of the structure")

    def __init__(self, *, loss: str = "hamming", weights: ArrayLike | None = None) -> None:
        self.loss_over = loss
        self.weights = weights

    @property
    def n_labels(self) -> int:
        """The states are sets here, of so many labels."""
        return int(self.sets.shape[1])

    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Collect the label sets and the losses between them; returns (d, S, 0).

        Raises
        ------
        DataError
            Y is no 0/1 matrix, has fewer than two different rows, or weights do not fit it.
        """
        rows, _ = self.stack(X)
        Y = indicator(Y)
        check_lengths(rows, Y)
        weight = check_weights(self.weights, Y.shape[1])
        self.sets = np.unique(Y, axis=0)
        S = self.sets.shape[0]
        if S < 2:
            raise DataError("all rows of Y are the same label set: a powerset needs at least two.")
        on = self.sets.astype(np.float64)
        # What each set has and another one has not; a label is wrong whichever of two sets has it.
        missed = (weight * on) @ (1.0 - on).T
        wrong, both = missed + missed.T, on @ on.T
        # Two sets that differ have a wrong label, so nothing is divided by 0 but on the diagonal.
        per = {"jaccard": wrong + both, "f1": wrong + 2.0 * both, "exact": wrong}.get(self.loss_over, np.ones((S, S)))
        self.structure = make_structure(MULTICLASS, np.divide(wrong, per, out=np.zeros((S, S)), where=wrong > 0.0))
        return rows.shape[1], S, 0

    def encode(self, y: object) -> Ints:
        """Number of a label set."""
        return self.encode_all(super().encode(y)[None, :])[0]

    def encode_all(self, Y: Examples) -> tuple[Ints, Ints]:
        """Numbers of all label sets, and where each begins."""
        Y = indicator(Y)
        # The sets are sorted, and so are the bytes of their bits. A search asks for one number at a time.
        packed = (np.ascontiguousarray(np.packbits(sets.astype(bool), axis=1)) for sets in (self.sets, Y))
        known, asked = (bits.view(f"S{bits.shape[1]}")[:, 0] for bits in packed)
        numbers = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        if (unknown := known[numbers] != asked).any():
            labels = np.flatnonzero(Y[unknown.argmax()]).tolist()
            raise DataError(
                f"the label set with the labels {labels} is none of the {len(self.sets)} of the training examples, so "
                "a powerset has no score for it. Leave such examples out, or use powerset=False."
            )
        return numbers, np.arange(len(numbers) + 1, dtype=np.int64)

    def restore(self, label: Ints) -> Ints:
        """The 0/1 vector of a number."""
        own: Ints = self.sets[label[0]].copy()
        return own

    def raised(self, u: Floats, gain: Floats | float) -> Floats:
        """The gains of the labels of a set add up."""
        return u + np.broadcast_to(gain, (u.shape[0], self.n_labels)) @ self.sets.T

    def decode_all(self, u: Floats, theta: Floats) -> Ints:
        """The label sets with the largest scores."""
        best: Ints = self.sets[u.argmax(axis=1)]
        return best

    def scores_of(self, sets: Ints, u: Floats, theta: Floats) -> Floats:
        """Potentials are scores of sets."""
        scores: Floats = u[:, self.encode_all(sets)[0]]
        return scores

    def max_marginals(self, u: Floats, theta: Floats) -> Floats:
        """The best score of a set with each label, minus the best without; infinite where all or no sets have it."""
        return of_sets(u, self.sets)
