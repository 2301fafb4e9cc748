"""Labels of the local polytope: what a relaxation returns instead of a label set."""

from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats, Ints

__all__ = ["Relaxed", "relaxed_loss", "relaxed_score"]


class Relaxed(NamedTuple):
    """Means of the labels and of their products; joint features are `A = mu`, `b = pairs`.

    Attributes
    ----------
    mu : ndarray of shape (k,)
        In [0, 1].
    pairs : ndarray of shape (P,)
        Of `y_p y_q`.
    """

    mu: Floats
    pairs: Floats

    @property
    def is_integral(self) -> bool:
        """Whether this is a label set."""
        return bool(((self.mu == 0.0) | (self.mu == 1.0)).all())


def relaxed_loss(y: Relaxed, truth: Ints, weight: Floats) -> float:
    """Weighted Hamming loss of a relaxed label, linear in it."""
    return float(weight @ np.abs(y.mu - truth))


def relaxed_score(y: Relaxed, u: Floats, theta: Floats) -> float:
    """Score of a relaxed label."""
    return float(u[0] @ y.mu + theta @ y.pairs)
