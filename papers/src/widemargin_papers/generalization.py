"""How far constraints can fail on new rows: the bound of Appendix C of Goh et al. 2016.

Let D_1 ... D_k be data sets of n_i rows, each an independent draw from its own distribution, and let objective and
constraints be `sum_i alpha_ij r_p(D_i) + beta_ij r_n(D_i)` (j = 0 is the objective). With X an upper bound of the norm
of every example and [0, V] a box for the multipliers, both fixed before the data were seen,

    S = sum_i (alpha_i0 + beta_i0 + V sum_j (alpha_ij + beta_ij)),
    E = 1 + (4 X^2 / lam) S + sqrt(8 ln(4 k / delta)),

and with probability 1 - delta, for every solution of the convex steps at once, constraint j of the *randomised*
classifier fails on new rows by at most `E sum_i (alpha_ij + beta_ij) / sqrt(n_i)`.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from widemargin import External, RateConstrainedClassifier, TrainingOptions
from widemargin.exceptions import CapabilityError
from widemargin.extending import Column, Floats, Matrix, Table
from widemargin.goals.binding.bind import TiedGoal, baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.kernels.functions import resolve_kernel
from widemargin.kernels.rows import KernelRows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.rows import Rows
from widemargin.solvers.ramp.majorization import MajorizeOptions


def generalization_bound(
    model: RateConstrainedClassifier, X: Matrix, y: Column, *, populations: Table | None = None,
    external: Mapping[str, External] | None = None, delta: float = 0.05,
) -> Floats:  # fmt: skip
    """By how much each constraint of a fitted randomised classifier may fail on new rows; 1 and more says nothing.

    The largest norm of the training rows (in the kernel's space, where there is one) stands for that of all rows.

    Parameters
    ----------
    model : RateConstrainedClassifier
        Fitted with `enforce="randomized"` and without weights.
    X : ndarray or CSR matrix of shape (n, d)
    y : array-like of shape (n,)
    populations, external
        As `fit` had them, like X and y.
    delta : float, default=0.05
        Probability with which the bound may fail.

    Returns
    -------
    ndarray of shape (n_constraints,)
        In rates.

    Raises
    ------
    CapabilityError
        If the theorem is not about the model: its bias was chosen by 0/1 rates, it is no solution of a convex step, or
        its features were themselves fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import RateConstrainedClassifier
    >>> X = 0.001 * np.random.default_rng(0).normal(size=(20000, 1))
    >>> y = X[:, 0] > 0
    >>> model = RateConstrainedClassifier("subject to recall() >= 0.6", C=1e-4, enforce="randomized").fit(X, y)
    >>> generalization_bound(model, X, y).round(2)
    array([0.08])
    """
    searched = model.enforce != "randomized" or not model.certified_point_
    if searched or model.confidence is not None or model.feature_map is not None:
        raise CapabilityError(
            "the generalisation bound (Appendix C) is not applicable: the bias was searched, or features fitted; it is "
            "about the randomised classifier. Use enforce='randomized' without a confidence and a feature_map."
        )
    outside = external or {}
    negative = next(label for label in model.classes_ if label != model.positive_class_)
    rows = Rows(X, y, populations=populations, external=outside, baselines=model.baselines or {})
    sources = make_sources(baselines_used(model.goal_), rows, classes=(negative, model.positive_class_))
    data = datasets_of(bind(model.goal_, sources, warn_trivial=False))
    radius = max(_radius(model, source.X) for source in (rows, *outside.values()) if source.X is not None)
    # The bound holds at once for every largest multiplier that the steps of the ladder allow, which are known before
    # any data are seen, each with its share of delta; so that of the step that was reached may be used.
    box = max(step["rho"] for step in model.history_ if "rho" in step)
    lam, share = 2.0 / (X.shape[0] * model.C), delta / len(MajorizeOptions.rhos)
    return violation_bound(data, capacity(data, radius=radius, lam=lam, box=box, delta=share))


def _radius(model: RateConstrainedClassifier, X: Matrix) -> float:
    """The largest norm of a row, in the kernel's space where there is a kernel."""
    if model.kernel is None:
        return math.sqrt(float(RowBlocks([(X, None)]).norms2().max()))
    options: Any = model.solver_options or {}
    if not isinstance(options, TrainingOptions):
        options = TrainingOptions(**options)
    kernel = resolve_kernel(model.kernel, X, gamma=model.gamma_, degree=options.degree, coef0=options.coef0)
    return math.sqrt(float(KernelRows(kernel, X).diagonal().max()))


class Datasets(NamedTuple):
    """The k data sets behind a goal.

    Attributes
    ----------
    size : ndarray of shape (k,)
        Rows n_i.
    objective : ndarray of shape (k,)
        `alpha_i0 + beta_i0`.
    constraints : ndarray of shape (k, m)
        `alpha_ij + beta_ij`.
    """

    size: Floats
    objective: Floats
    constraints: Floats


def capacity(data: Datasets, *, radius: float, lam: float, box: float, delta: float) -> float:
    """The factor E.

    Parameters
    ----------
    data : Datasets
        With the coefficients of the problem that has the regulariser `lam / 2 |w|^2`.
    radius : float
        X, largest norm of an example.
    lam : float
    box : float
        V, largest multiplier.
    delta : float
        Probability with which the bound may fail.
    """
    # S bounds how steep the Lagrangian can be in the rates, whatever multipliers in the box the solver ends with.
    S = float(data.objective.sum() + box * data.constraints.sum())
    return 1.0 + 4.0 * radius**2 / lam * S + math.sqrt(8.0 * math.log(4.0 * len(data.size) / delta))


def violation_bound(data: Datasets, factor: float) -> Floats:
    """`E sum_i (alpha_ij + beta_ij) / sqrt(n_i)` of each constraint, shape (m,); 1 and more says nothing of a rate."""
    return np.asarray(factor * (1.0 / np.sqrt(data.size)) @ data.constraints)


def datasets_of(tied: TiedGoal) -> Datasets:
    """The data sets of a tied goal, scaled as `RateConstrainedProblem` is.

    A rate is split by what it counts: the rows whose positive prediction counts are one data set, those whose negative
    prediction counts another (the error rate has the negatives and the positives, churn the baseline's two classes).
    Equal sets of rows are one data set, wherever they are named. The coefficients of the objective sum to one and a
    constraint is in rates (for a ratio: that of its cleared form).
    """
    coef = tied.coefficients
    # The theorem is about the problem that was solved, so its coefficients are scaled as the solver saw them.
    scale = float(np.maximum(coef.alpha0, coef.beta0) @ tied.cell_weight) or 1.0
    forms = [tied.goal.objective, *(item.cleared.form for item in tied.constraints)]
    factors = tied.table.factors(forms).toarray() / np.array([scale, *tied.scale])[:, None]
    names, weight = _sides(tied)
    signed: dict[bytes, Floats] = {}
    size: dict[bytes, float] = {}
    for side, sign in enumerate((1.0, -1.0)):  # a rate counts c r_p of its first set of rows, and c r_n of its second
        for j in range(factors.shape[1]):
            name = names[side][j]
            if weight[side, j] > 0.0:
                size[name] = float(weight[side, j])
                signed[name] = signed.get(name, 0.0) + sign * size[name] * factors[:, j]
    table = np.abs([signed[name] for name in size]).reshape(len(size), len(forms))
    # A set of rows whose contributions cancel is no data set of the problem, and would only raise the bound.
    used = table.any(axis=1)
    return Datasets(np.array(list(size.values()))[used], table[used, 0], table[used, 1:])


def _sides(tied: TiedGoal) -> tuple[tuple[list[bytes], list[bytes]], Floats]:
    """For each rate the rows whose positive, and whose negative prediction counts: a name of the set, and its weight.

    The name is a digest of the cells, because there may be too many cells to store a set of them for every rate.
    """
    r = len(tied.table.rates)
    digests = tuple([hashlib.blake2b(digest_size=16) for _ in range(r)] for _ in range(2))
    weight = np.zeros((2, r))
    for block in tied.table.blocks():
        for side, masks in enumerate((block.alpha, block.beta)):
            weight[side] += masks @ tied.cell_weight[block.place]
            for digest, mask in zip(digests[side], masks, strict=True):
                # Blocks come in the same order for every rate, so equal sets have equal digests.
                digest.update((block.place.start + np.flatnonzero(mask)).tobytes())
    return ([digest.digest() for digest in digests[0]], [digest.digest() for digest in digests[1]]), weight
