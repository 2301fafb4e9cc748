"""Zafar's covariance constraints (Goh et al. 2016, equation 8 and Appendix D): `ZafarClassifier`."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from widemargin.exceptions import DataError, MarginConvergenceWarning
from widemargin.extending import (
    BinaryGoalMixin,
    Column,
    Features,
    Floats,
    Matrix,
    Table,
    checked_rows,
    kinds,
    limit_threads,
    parameters,
    warn,
)
from widemargin.goals import Population
from widemargin.goals.binding.labels import positive_class
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source, make_sources
from widemargin.linalg.equal_rows import canonical_rows
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.rows import Rows
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex.convex_step import SOLVERS, ConvexStep
from widemargin.solvers.ramp.majorization import MajorizeOptions
from widemargin_papers.baselines.plain_svm import LinearFit, minimise_hinge, minimise_ramps, svm_problem

__all__ = ["ZafarClassifier"]

BIAS_COLUMN = 100.0
"""Value of the constant column that carries the bias beside the two constraint rows, which have none."""


@parameters
class ZafarClassifier(BinaryGoalMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """SVM whose mean score differs by at most `c` between two populations: the paper's baseline for fairness.

    Minimises the SVM objective subject to `-c <= <w, xbar> <= c`, `xbar = mean(first) - mean(second)` (Zafar et al.
    2015; Goh et al. 2016, equation 8 and Appendix D). `c` is no fairness ratio: what ratio it leads to shows only
    after training.

    Parameters
    ----------
    first, second : Population, default=None
        The two populations, of training rows. None (both): no constraint, the plain SVM.
    c : float, default=0.0
        Largest difference of the mean scores, in units of `decision_function` (margin 1/2; with LIBLINEAR's margin of
        1 the same c is twice as large). Raising it frees the model.
    form : {"hinge", "ramp"}, default="hinge"
        "hinge": the convex problem, with exactly this constraint. "ramp": errors and constraints as ramps, by
        majorisation-minimisation, the constraints as two "egregious examples" `+-xbar / (4 c)` without bias, each
        with a ramp rate of at most 3/4; needs c > 0.
    C : float, default=1.0
        Inverse strength of the regulariser, `1/2 |w|^2 + C sum hinge`.
    fit_intercept : bool, default=True
        Whether to fit a bias. With populations it is regularised by 1e-4 of what a weight is.
    solver : {"auto", "newton", "interior-point", "cutting-plane"}, default="auto"
    tol : float, default=1e-6
        Relative duality gap of the (last) convex step.
    max_steps : int, default=5
        Majorisation steps of the ramp form.
    pos_label : label, default=None
        The class whose scores are positive in `covariance_`; None means `classes_[1]`.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
    positive_class_ : label
    covariance_ : float or None
        `<w, xbar>`, the difference of the mean scores; None without populations.
    gap_ : float
        Relative duality gap of the (last) convex step.
    status_ : str
        "converged", "max_iter", "interrupted" or "infeasible".
    n_iter_ : int
        Iterations of the convex solver.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    RateConstrainedClassifier : Constrains the rates themselves.

    Examples
    --------
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> from widemargin_papers.baselines import ZafarClassifier
    >>> from widemargin.goals import Population, col
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(2, size=300)
    >>> X = rng.normal(size=(300, 3)) + group[:, None] * [1.0, 0.0, 0.0]
    >>> y = (X[:, 0] + X[:, 1] > 0.5).astype(int)
    >>> a, b = Population("a", where=col("group") == 1), Population("b", where=col("group") == 0)
    >>> clf = ZafarClassifier(a, b, c=0.1).fit(X, y, populations=pa.table({"group": group}))
    >>> round(clf.covariance_, 4)
    0.1
    """

    _stored_arrays: ClassVar[Mapping[str, str]] = {"classes_": "label 2", "coef_": "float 1 d", "intercept_": "float 1"}
    first: Population | None = field(default=None, kw_only=False)
    second: Population | None = field(default=None, kw_only=False)
    c: kinds.NotNegative = 0.0
    form: Literal["hinge", "ramp"] = "hinge"
    C: kinds.Positive = 1.0
    fit_intercept: bool = True
    solver: Annotated[str, StrOptions(set(SOLVERS))] = "auto"
    tol: kinds.Positive = 1e-6
    max_steps: kinds.Count = 5
    pos_label: kinds.PosLabel = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self, X: Features, y: Column, sample_weight: Column | None = None, populations: Table | None = None
    ) -> "ZafarClassifier":
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0, in the errors and in both means.
        populations : table with n rows, default=None
            The columns that the two populations name; columns not found there are looked up in X where it is a data
            frame.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If only one population is given, one is empty or not of the training rows, or the ramp form is asked with
            c = 0.
        """
        self._check_populations()
        rows, labels = checked_rows(self, X, y)
        self._set_classes(labels)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        difference = None
        if self.first is not None and self.second is not None:
            source = self._source(X, labels, weight, populations)
            first, second = (_mean(rows, group, source) for group in (self.first, self.second))
            difference = first - second
        with limit_threads(self.n_jobs):
            found = self._solve(rows, labels == self.positive_class_, weight, difference)
        sign = self._direction()
        self.coef_ = sign * found.w[None, :]
        self.intercept_ = np.array([-sign * found.b])
        self.covariance_ = None if difference is None else float(found.w @ difference)
        self.gap_, self.status_, self.n_iter_ = float(found.gap), str(found.status), max(found.n_iter, 1)
        if found.status == Status.INTERRUPTED:
            warn("interrupted; the best model so far is kept.", MarginConvergenceWarning)
            raise KeyboardInterrupt
        if found.status != Status.CONVERGED:
            warn(f"gap {found.gap:.1e} > tol {self.tol:g}; scale the features or raise tol.", MarginConvergenceWarning)
        return self

    def decision_function(self, X: Features) -> Floats:
        """Signed scores `X @ coef_[0] + intercept_`, shape (n,); positive means `classes_[1]`."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        scores = RowBlocks([(X, None)]).dot(self.coef_[0])
        scores += self.intercept_[0]
        return scores

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self._labels(self._direction() * self.decision_function(X) > 0.0)

    def _check_populations(self) -> None:
        if (self.first is None) != (self.second is None):
            raise DataError("one of first and second is missing; give two populations, or none for the plain SVM.")
        for population in (self.first, self.second):
            if population is not None and population.source is not None:
                raise DataError(f"{population} is external; the two populations are of the training rows.")
        if self.form == "ramp" and self.c == 0.0 and self.first is not None:
            raise DataError('c = 0: the ramp form divides by c. Give c > 0, or form="hinge".')

    def _source(self, X: Matrix, y: npt.NDArray[Any], weight: Floats | None, populations: Table | None) -> Source:
        named = {name: None for group in (self.first, self.second) if group is not None for name in group.baselines}
        classes = positive_class(self.classes_.tolist(), self.positive_class_)
        return make_sources(
            {None: tuple(named)}, Rows(X, y, sample_weight=weight, populations=populations), classes=classes
        )[0]

    def _solve(
        self, X: Matrix, positive: npt.NDArray[np.bool_], weight: Floats | None, difference: Floats | None
    ) -> LinearFit:
        budget = Budget()
        if difference is None:
            extra = bounds = None
        elif self.form == "hinge":  # max(0, 1/2 +- <w, xbar>) <= 1/2 + c
            extra, bounds = np.stack([difference, -difference]), np.full(2, 0.5 + self.c)
        else:  # r_p(+-xbar / (4 c)) <= 3/4
            extra, bounds = np.stack([difference, -difference]) / (4.0 * self.c), np.full(2, 0.75)
        as_column = self.fit_intercept and extra is not None
        if as_column and extra is not None:
            X, extra = _with_column(X, BIAS_COLUMN), np.hstack([extra, np.zeros((2, 1))])
        problem = svm_problem(
            X, positive, weight, self.C, fit_intercept=self.fit_intercept and not as_column, extra=extra, bounds=bounds
        )
        convex = ConvexStep(self.solver, X.shape[1])
        if self.form == "hinge":
            found = minimise_hinge(problem, convex, self.tol, budget)
        else:
            found = minimise_ramps(
                problem, convex, MajorizeOptions(steps=self.max_steps - 1, loose_tol=1e-3, tol=self.tol)
            )
        if not as_column:
            return found
        return LinearFit(found.w[:-1], -BIAS_COLUMN * float(found.w[-1]), found.gap, found.status, found.n_iter)


def _mean(X: Matrix, population: Population, source: Source) -> Floats:
    """Mean row of a population, shape (d,)."""
    share = members(population, source).true.astype(np.float64)
    if source.weight is not None:
        share *= source.weight
    total = float(share.sum())
    if total <= 0.0:
        raise DataError(f"{population} is empty: none of {source.n_rows} rows (of weight > 0) is in it. Widen it.")
    return RowBlocks([(X, None)]).tdot(share / total)


def _with_column(X: Matrix, value: float) -> Matrix:
    """X and a constant column behind it."""
    column = np.full((X.shape[0], 1), value, dtype=X.dtype)
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(np.hstack([X, column]))
    return canonical_rows(sp.hstack([X, sp.csr_array(column)], format="csr"))
