"""Labels of the local polytope: what a relaxation returns instead of a label set."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Relaxed", "flip_coordinates", "unflipped"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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


def flip_coordinates(u: Floats, theta: Floats, truth: Ints, pairs: Ints) -> tuple[Floats, Floats]:
    """v of shape (k,) and t of shape (P,) with `f(y) - f(truth) = v . z + sum_e t_e z_p z_q`, `z = y xor truth`."""
    side = 1.0 - 2.0 * truth
    p, q = pairs[:, 0], pairs[:, 1]
    v = u.astype(np.float64)
    np.add.at(v, p, theta * truth[q])
    np.add.at(v, q, theta * truth[p])
    return side * v, side[p] * side[q] * theta


def unflipped(mu: Floats, pair_mu: Floats, truth: Ints, pairs: Ints) -> Relaxed:
    """A point in flip coordinates as means of the labels."""
    side = 1.0 - 2.0 * truth
    p, q = pairs[:, 0], pairs[:, 1]
    products = (
        truth[p] * truth[q] + truth[p] * side[q] * mu[q] + truth[q] * side[p] * mu[p] + side[p] * side[q] * pair_mu
    )
    return Relaxed(truth + side * mu, products)


def relaxed_loss(y: Relaxed, truth: Ints, weight: Floats) -> float:
    """Weighted Hamming loss of a relaxed label, linear in it."""
    return float(weight @ np.abs(y.mu - truth))


def relaxed_score(y: Relaxed, u: Floats, theta: Floats) -> float:
    """Score of a relaxed label."""
    return float(u[0] @ y.mu + theta @ y.pairs)
