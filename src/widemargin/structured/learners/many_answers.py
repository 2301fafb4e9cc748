"""The most violating labels of many examples at a time, by a user's `oracle_many`, `features_many` and `loss_many`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.exceptions import OracleError
from widemargin.structured.learners.example_rows import ExampleRows, scores_of
from widemargin.structured.model import Examples, Features


@dataclass
class ManyAnswers:
    """Asks a model about many examples in one call, and about their features and losses, too, where it can say them.

    Parameters
    ----------
    model : StructuredModel
        Has `oracle_many`; may have `features_many` and `loss_many`.
    X, Y : sequence or matrix
        All examples and labels.
    rows : ExampleRows
        Those of all examples.
    start : ndarray of shape (n + 1,)
        First row of every example.
    sizes : tuple of int
        (S, P).
    weight : ndarray of shape (n,)
    slack : bool
        Whether labels are those of slack rescaling.
    features : callable
        `features(i, y)`, what the model says of one label, checked.
    refuse_no_label : callable
        `refuse_no_label(i, y)` is an error where the model says that y is no label of example i.
    truths : Features
        Those of all y_i, once they were needed.
    """

    model: Any
    X: Examples
    Y: Examples
    rows: ExampleRows
    start: Ints
    sizes: tuple[int, int]
    weight: Floats
    slack: bool
    features: Callable[[int, object], Features]
    refuse_no_label: Callable[[int, object], None]
    truths: Features | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        lengths = np.diff(self.start)
        self._rows_each = int(lengths[0]) if (lengths == lengths[0]).all() else None
        self._name = type(self.model).__name__
        self._features_many = getattr(self.model, "features_many", None)
        self._sees_truth = self._features_many is not None and len(signature(self._features_many).parameters) > 2

    def _rows_of(self, examples: Ints) -> tuple[Ints, Ints]:
        """For each row of some examples, one example after the other: its place among all, and whose it is of them."""
        lengths = self.start[examples + 1] - self.start[examples]
        whose = np.repeat(np.arange(examples.shape[0]), lengths)
        return np.arange(whose.shape[0]) + (self.start[examples] - np.cumsum(lengths) + lengths)[whose], whose

    def __call__(
        self, examples: Ints, W: Floats, theta: Floats, *, check: bool = False
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """The most violating labels of some examples, all at the same weights.

        Parameters
        ----------
        examples : ndarray of int of shape (m,)
        W : ndarray of shape (d, S)
        theta : ndarray of shape (P,)
        check : bool, default=False
            Compare features and losses with those of one label after the other.

        Returns
        -------
        value : ndarray of shape (m,)
            The hinges of the weighted examples.
        p : ndarray of shape (rows of these, S)
        p_b : ndarray of shape (m, P)
        loss : ndarray of shape (m,)
            Of the labels; 0 where none violates.

        Raises
        ------
        OracleError
            If a method of the model answers for other examples or in another form, or contradicts another one.
        """
        places, whose = self._rows_of(examples)
        u = scores_of(self.rows, places, W)
        X, truths = (
            given[examples] if isinstance(given, np.ndarray) else [given[i] for i in examples.tolist()]
            for given in (self.X, self.Y)
        )
        potentials: Sequence[Floats] | Floats
        if self._rows_each is None:
            potentials = np.split(u, np.searchsorted(whose, np.arange(1, len(examples))))
        else:
            potentials = u.reshape(len(examples), self._rows_each, u.shape[1])
        labels = self.model.oracle_many(X, truths, potentials, theta, "slack" if self.slack else "margin")
        if not hasattr(labels, "__len__") or len(labels) != len(examples):
            returned = f"{len(labels)} labels" if hasattr(labels, "__len__") else type(labels).__name__
            raise OracleError(
                f"{self._name}.oracle_many returned {returned} for {len(examples)} examples; give a list of one label "
                "each."
            )
        # Features of the truths are asked for once: no answer of the oracle changes them.
        if self.truths is None:
            self.truths = self._features(np.arange(len(self.weight)), self.X, self.Y, self.Y, check=False)
        found = self._features(examples, X, labels, truths, check=check)
        g = self._losses(examples, labels, truths, check=check)
        # With A and b as truth less label, `f(label) - f(truth)` is minus their products with the weights.
        A, b = self.truths.A[places] - found.A, self.truths.b[examples] - found.b
        h = 1.0 - np.bincount(whose, (A * u).sum(axis=1), len(examples)) - b @ theta
        value = np.maximum(h * g if self.slack else h + g - 1.0, 0.0)
        if not np.isfinite(value).all():
            i = int(np.argmin(np.isfinite(value)))
            raise OracleError(
                f"example {examples[i]}: the label that {self._name}.oracle_many returned has h = {h[i]:g} and "
                f"g = {g[i]:g}; give finite features and losses."
            )
        # No step leads away from a truth that is not violated.
        weight = np.where(value > 0.0, self.weight[examples], 0.0)
        factor = weight * g if self.slack else weight
        return weight * value, A * factor[whose, None], b * factor[:, None], weight * g

    def _features(self, examples: Ints, X: Examples, labels: Any, truths: Examples, *, check: bool) -> Features:
        """Features of a label of each of some examples, one example after the other: A of all rows, b a row each."""
        # A check asks both ways, because a slip in the method for many would train another model without a word.
        many = self._features_many
        if many is None or check:
            parts = [self.features(i, y) for i, y in zip(examples.tolist(), labels, strict=True)]
            singly = Features(np.concatenate([A for A, _ in parts]), np.stack([b for _, b in parts]))
            if many is None:
                return singly
        # One by one each label is looked at on the way; the method for many takes whatever the oracle gave.
        elif hasattr(self.model, "contains"):
            for i, y in zip(examples.tolist(), labels, strict=True):
                self.refuse_no_label(i, y)
        features = many(X, labels, truths) if self._sees_truth else many(X, labels)
        if not isinstance(features, tuple) or len(features) != 2:
            raise OracleError(
                f"{self._name}.features_many returned {type(features).__name__}; give Features(A, b) of all examples."
            )
        made = Features(*(np.asarray(part, dtype=np.float64) for part in features))
        S, P = self.sizes
        wanted = (int((self.start[examples + 1] - self.start[examples]).sum()), S), (len(examples), P)
        if (made.A.shape, made.b.shape) != wanted:
            raise OracleError(
                f"{self._name}.features_many returned A and b of shapes {made.A.shape} and {made.b.shape} for "
                f"{len(examples)} examples; the model's sizes ask for {wanted[0]}, the rows of one example after "
                f"those of the other, and {wanted[1]}."
            )
        if check and not all(np.allclose(*pair) for pair in zip(made, singly, strict=True)):
            raise OracleError(
                f"{self._name}.features_many and {self._name}.features differ on examples {examples.tolist()}."
            )
        return made

    def _losses(self, examples: Ints, labels: Any, truths: Examples, *, check: bool) -> Floats:
        """Losses of a label of each of some examples."""
        many = getattr(self.model, "loss_many", None)
        if many is None or check:
            singly = np.array([self.model.loss(y, truth) for y, truth in zip(labels, truths, strict=True)], dtype=float)
            if many is None:
                return singly
        g = np.asarray(many(labels, truths), dtype=np.float64)
        if g.shape != (len(examples),):
            raise OracleError(
                f"{self._name}.loss_many returned an array of shape {g.shape} for {len(examples)} examples; give a "
                "number for each."
            )
        if check and not np.allclose(g, singly):
            i = int(np.argmax(~np.isclose(g, singly)))
            raise OracleError(
                f"example {examples[i]}: {self._name}.loss_many says {g[i]:.9g} of label {labels[i]!r}, but its loss "
                f"is {singly[i]:.9g} by {self._name}.loss. One of them is wrong."
            )
        return g
