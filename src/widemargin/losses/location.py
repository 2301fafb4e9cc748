"""The Catoni estimator of location, with its confidence radius (Catoni 2012; Holland 2019, Lemma 6).

    theta is the root of  sum_i w_i psi((theta - m_i) / s) = 0

It tends to the mean as s grows and to the median as s shrinks, and a single point moves it by a bounded distance.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._numba import kernel
from widemargin._typing import ArrayLike, Column, Floats
from widemargin.exceptions import DataError
from widemargin.losses.margin import CATONI, psi, psi_slope


class Location(NamedTuple):
    """Estimate and confidence radius; floats for one sample, else arrays."""

    value: float | Floats
    radius: float | Floats


@kernel
def influence(theta: float, m: Floats, weight: Floats, scale: float, kind: int) -> tuple[float, float, float]:
    """`sum_i weight_i psi((theta - m_i)/scale)`, the sum of its terms' sizes, and its derivative by theta."""
    total, size, slope, inverse = 0.0, 0.0, 0.0, 1.0 / scale
    for i in range(m.shape[0]):
        u = (theta - m[i]) * inverse
        pull = weight[i] * psi(kind, u)
        total += pull
        size += abs(pull)
        slope += weight[i] * psi_slope(kind, u)
    return total, size, slope * inverse


@kernel
def location_root(m: Floats, weight: Floats, scale: float, kind: int, start: float) -> float:
    """The root theta of `sum_i weight_i psi((theta - m_i)/scale)`: Newton steps from `start`, kept inside a bracket.

    Where the sum is 0 on an interval (no point is near it), its middle.
    """
    # psi has the sign of its argument, so the sum is at most zero at the smallest number and at least zero at the
    # largest: the root lies between.
    low, high = np.inf, -np.inf
    for i in range(m.shape[0]):
        if weight[i] > 0.0:
            low, high = min(low, m[i]), max(high, m[i])
    theta = min(max(start, low), high)
    largest = max(abs(low), abs(high))
    for _ in range(2200):  # bisection alone passes through all exponents of a double
        total, size, slope = influence(theta, m, weight, scale, kind)
        rounding = 1e-14 * size  # of a sum whose terms cancel
        if slope == 0.0 and abs(total) <= rounding:
            left, right = low, high  # the nearest points: psi is flat between them, further than the knee from both
            for i in range(m.shape[0]):
                if weight[i] > 0.0 and m[i] < theta:
                    left = max(left, m[i])
                elif weight[i] > 0.0:
                    right = min(right, m[i])
            return float(0.5 * left + 0.5 * right)
        if abs(total) <= rounding:
            break
        if total > 0.0:
            high = theta
        else:
            low = theta
        # Newton's step where psi has a slope; where all rows are beyond the knee there is none, and the other end of
        # the bracket makes the next line halve it.
        new = theta - total / slope if slope > 0.0 else high
        if not low < new < high:
            new = 0.5 * low + 0.5 * high
        step = abs(new - theta)
        theta = new
        # Relative to the root itself, but not finer than the numbers or the scale are: a root of 0 has no size of its
        # own.
        if min(step, high - low) <= 1e-15 * max(abs(theta), min(scale, largest)):
            break
    return float(theta)


def catoni_scale(variance: float | Floats, n: float | Floats, delta: float = 0.05) -> Floats:
    """The scale that minimises the bound of Lemma 6: `s^2 = n var / (2 log(2/delta))`.

    Parameters
    ----------
    variance : float or ndarray
    n : float or ndarray
        Size of the sample.
    delta : float, default=0.05
        One minus the confidence.
    """
    return np.asarray(np.sqrt(n * np.asarray(variance) / (2.0 * np.log(2.0 / delta))))


def catoni_radius(variance: float | Floats, scale: float | Floats, n: float | Floats, delta: float = 0.05) -> Floats:
    """Confidence radius of the estimate at a scale: the bound of Lemma 6, infinite where the lemma does not hold.

    Parameters
    ----------
    variance, scale, n : float or ndarray
    delta : float, default=0.05
        One minus the confidence.
    """
    # The proof of Lemma 6 needs a real root of a quadratic bound of the deviation; where it has none nothing is
    # promised.
    tail = 2.0 * np.log(2.0 / delta) / np.asarray(n)
    holds = np.asarray(variance) / np.asarray(scale) ** 2 + tail <= 1.0
    return np.where(holds, np.asarray(variance) / np.asarray(scale) + np.asarray(scale) * tail, np.inf)


def catoni_location(
    sample: ArrayLike,
    scale: ArrayLike = "catoni",
    delta: float = 0.05,
    *,
    groups: Column | None = None,
    sample_weight: Column | None = None,
    variance: ArrayLike | None = None,
) -> Location:
    """Catoni's estimator of the mean of each column, in each group, and its confidence radius.

    With probability `1 - delta` each `|value - mean| <= radius = var/s + 2 s log(2/delta)/n` (Lemma 6), which needs
    `var/s^2 + 2 log(2/delta)/n <= 1` and the true variance. With the variance of the sample, the default, the radius is
    approximate.

    Parameters
    ----------
    sample : array-like of shape (n,) or (n, k)
    scale : float, array-like that broadcasts to the result, or "catoni", default="catoni"
        s > 0. Raising it moves the estimate from the median to the mean, and lets outliers count more. "catoni": the
        one of least radius, or 1 where the variance is 0.
    delta : float, default=0.05
        One minus the confidence, in (0, 1).
    groups : array-like of shape (n,), default=None
        The columns are estimated in each group by itself; groups are ordered as by `numpy.unique`.
    sample_weight : array-like of shape (n,), default=None
        For the radius, n is then `(sum w)^2 / sum w^2`.
    variance : float or array-like that broadcasts to the result, default=None
        The true one, or a bound.

    Returns
    -------
    Location
        `value` and `radius`: floats for a vector, arrays of shape (k,) for a matrix; with groups there is a first axis
        of groups. The radius is infinite where Lemma 6 does not hold.

    Raises
    ------
    DataError
        If the sample is empty or not finite, a scale is not positive, `delta` is not in (0, 1), or a length differs.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.losses import catoni_location
    >>> sample = np.array([0.9, 1.0, 1.1, 1.0, 50.0])
    >>> round(catoni_location(sample, scale=0.5).value, 2), round(float(sample.mean()), 2)
    (1.12, 10.8)
    """
    m = _numbers("sample", sample)
    columns = m[:, None] if m.ndim == 1 else m
    if columns.ndim != 2 or columns.shape[0] == 0:
        raise DataError(f"sample has the shape {m.shape}; give (n,) or (n, k) with n > 0.")
    if not np.isfinite(columns).all():
        raise DataError("sample holds numbers that are not finite; leave those rows out.")
    if float(np.abs(columns).max()) > 1e150:
        raise DataError("sample holds numbers beyond 1e+150, whose squares overflow; divide it by a constant.")
    if np.ndim(delta) or not 0.0 < delta < 1.0:
        raise DataError(f"delta is {delta!r}; it must lie between 0 and 1, such as 0.05.")
    n, k = columns.shape
    weight = _vector("sample_weight", sample_weight, n)
    if not (np.isfinite(weight).all() and weight.min() >= 0.0):
        raise DataError("sample_weight must be finite and not negative.")
    places = [np.arange(n)]
    if groups is not None:
        names = _vector("groups", groups, n)
        # NaN is the one value that differs from itself.
        missing = sum(name is None or name != name for name in names.tolist())
        if missing:
            raise DataError(f"{missing} of {n} values of groups are missing; leave those rows out, or name them.")
        # numpy.unique gives the order of the groups that the docstring promises.
        code = np.unique(names, return_inverse=True)[1]
        places = [np.flatnonzero(code == c) for c in range(int(code.max()) + 1)]
    one = np.empty((len(places), k))
    value, n_effective, own_variance = np.empty_like(one), np.empty_like(one), np.empty_like(one)
    for g, rows in enumerate(places):
        share = weight[rows]
        if not share.sum() > 0.0:
            raise DataError("all rows of a sample or of a group have weight 0; leave them out, or give them weight.")
        share = share / share.sum()
        # The effective number of rows, (sum w)^2 / sum w^2, for weights of sum 1.
        n_effective[g] = 1.0 / (share @ share)
        own_variance[g] = share @ (columns[rows] - share @ columns[rows]) ** 2
    spread = own_variance if variance is None else _like("variance", variance, one, m.ndim)
    if not (np.isfinite(spread).all() and spread.min() >= 0.0):
        raise DataError(f"variance is {variance!r}; it must be finite and not negative.")
    if isinstance(scale, str):
        if scale != "catoni":
            raise DataError(f"scale is {scale!r}; give a positive number or 'catoni'.")
        # Equal numbers have no variance; any scale gives their value.
        s = np.where(spread > 0.0, catoni_scale(spread, n_effective, delta), 1.0)
    else:
        s = _like("scale", scale, one, m.ndim)
    if not (np.isfinite(s).all() and s.min() > 0.0):
        raise DataError("a scale must be a positive number.")
    for g, rows in enumerate(places):
        for j in range(k):
            # The median is a start that outliers do not move.
            mine = np.ascontiguousarray(columns[rows, j])
            value[g, j] = location_root(mine, weight[rows], s[g, j], CATONI, float(np.median(mine)))
    radius = catoni_radius(spread, s, n_effective, delta)
    found = [item if groups is not None else item[0] for item in (value, radius)]
    if m.ndim == 1:
        found = [item[..., 0] for item in found]
    return Location(*(item if item.ndim else float(item) for item in found))


def _numbers(name: str, given: object) -> Floats:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} does not hold numbers: {error}.") from None


def _vector(name: str, given: object, n: int) -> npt.NDArray[Any]:
    """A vector of length n; ones where nothing is given."""
    if given is None:
        return np.ones(n)
    made = _numbers(name, given) if name == "sample_weight" else np.asarray(given)
    if made.shape != (n,):
        raise DataError(f"{name} has the shape {made.shape}; the sample has {n} rows.")
    return made


def _like(name: str, given: object, one: Floats, ndim: int) -> Floats:
    """Numbers broadcast to the results' shape (groups, columns); for a sample of one dimension, from (groups,)."""
    made = _numbers(name, given)
    try:
        return np.broadcast_to(made[..., None] if ndim == 1 else made, one.shape)
    except ValueError:
        shape = one.shape[:1] if ndim == 1 else one.shape
        raise DataError(f"{name} has the shape {made.shape}; the results have {shape} (groups, columns).") from None
