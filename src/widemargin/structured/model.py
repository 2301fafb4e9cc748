"""What a structured problem is: labels, joint features, losses. The protocols that a user implements.

The score of a label is linear, `f(x, y) = <w, phi(x, y)>`. A model knows phi, turns weights into the potentials of an
example, decodes `argmax_y f(x, y)`, and makes the oracle of a training example (Tsochantaridis et al. 2005; Choi, Meshi
and Srebro 2016). phi may be factored,

    phi(x, y) = ( sum_r  A(y)_r (x) x_r ,  b(y) ),

rows x_r of the example (one for multi-label, one for each step of a sequence) times a vector of S numbers that depends
on the label, and P numbers that do not depend on x. Weights are then W of shape (d, S) and theta of shape (P,), and a
block of the dual is the small pair (A, b), whatever d is. A model without rows has only b.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy.typing as npt
import scipy.sparse as sp

from widemargin._typing import Floats
from widemargin.structured.oracle import Oracle

__all__ = ["Examples", "Features", "StructuredModel", "Weights"]


Examples: TypeAlias = Sequence[Any] | npt.NDArray[Any] | sp.csr_matrix
"""Examples or labels: a list with an entry each, or a matrix with a row each."""


class Features(NamedTuple):
    """phi(x, y) without x: A of shape (rows of the example, S) and b of shape (P,)."""

    # What the label chooses for every row, times the row it is a part of the weights W.
    A: Floats
    b: Floats


class Weights(NamedTuple):
    """W of shape (d, S) and theta of shape (P,)."""

    # One line a feature: a sparse row then touches lines that lie together.
    W: Floats
    theta: Floats


class StructuredModel(Protocol):
    """A user's structured problem: everything that the learners ask for.

    It may also have:

    - `stack(X)`: the rows of all examples in one matrix, and where each example begins (n + 1 numbers); faster than
      `rows` one by one.
    - `contains(x, y)`: whether y is a label of x; asked of every label that an oracle returns.
    - `features(x, y, truth)` with a third argument, if phi compares y with the truth.
    - `decode_certified(potentials, theta)`: a label like that of `decode`, and whether it is proved to be the best.
    - `oracle_many(X, Y, potentials, theta, rescaling)`: the most violating labels of many examples at a time, one for
      each entry of X, Y and potentials (lists, or arrays where the examples are one and where all have as many rows).
      With "margin" rescaling that is the label of largest loss + score, with "slack" rescaling the one of largest
      `loss (1 + score - score of the truth)`, or y_i itself.
    - With `oracle_many`, also `features_many(X, Y)` or `features_many(X, Y, truths)`: the features of one label of each
      of many examples, A of shape (their rows, S), one example after the other, and b of shape (examples, P); and
      `loss_many(Y, truths)`: their losses.
    - What `structured.compiled.CompiledModel` names, if its argmax is compiled.
    """

    def prepare(self, X: Examples, Y: Examples) -> tuple[int, int, int]:
        """Look at the training examples and check them; returns the sizes (d, S, P) of the weights.

        Raises
        ------
        DataError
            If an example or a label does not fit the model; the message names it.
        """
        ...

    def rows(self, x: Any) -> Any:
        """The rows x_r of an example: ndarray or CSR matrix of shape (m, d); shape (0, d) where there are none."""
        ...

    def features(self, x: Any, y: Any) -> Features:
        """phi(x, y), factored."""
        ...

    def loss(self, y: Any, truth: Any) -> float:
        """L(y, truth) >= 0, and 0 where they are equal."""
        ...

    def oracle(self, x: Any, truth: Any, potentials: Floats, theta: Floats) -> Oracle:
        """The oracle of a training example; `potentials = rows(x) W`, shape (m, S)."""
        ...

    def decode(self, x: Any, potentials: Floats, theta: Floats) -> Any:
        """A label with the largest score (or the best one found, where that is hard)."""
        ...
