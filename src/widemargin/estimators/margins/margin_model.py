"""`MarginModel`: the fit that classifiers share which make something of their rows' margins small."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state

from widemargin._threads import limit_threads
from widemargin._typing import Features, Floats, Ints, Matrix
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._options import CURES, Checked, budget_of, interrupted, parameters, worst
from widemargin.estimators.feature_scales import refuse_overflow, warn_of_tiny_features
from widemargin.estimators.feature_space import MappedSpace, SpaceParameters, make_space, model_scores
from widemargin.estimators.kernel_svm.kernel_model import KernelModel, labels_of
from widemargin.estimators.margins.pursuit import Pursuit, PursuitOptions, Start
from widemargin.exceptions import DoubtfulModelWarning, MarginConvergenceWarning, warn
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.linalg.row_span import RowSpan
from widemargin.solvers.base import Budget


@parameters
class MarginModel(KernelModel, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear, feature-mapped or kernel classifier that is trained on one problem a class.

    A subclass says what its problem is (`_problem`) and how it is solved (`_solve`), and may add to `_report`.
    """

    C: kinds.Positive = 1.0
    fit_intercept: bool = True
    kernel: kinds.KernelName | None = None
    gamma: kinds.Gamma = "scale"
    feature_map: kinds.FeatureMapName = None
    n_components: kinds.Count = 256
    tol: kinds.Positive = 1e-6
    warm_start: bool = False
    random_state: kinds.Random = None
    time_budget: kinds.Positive | None = None
    callbacks: kinds.Callbacks = None
    n_jobs: int | None = None
    solver_options: PursuitOptions | Mapping[str, object] | None = None

    _options = Checked(PursuitOptions)

    _stored_arrays: ClassVar[Mapping[str, str]] = {
        "coef_": "float p *", "dual_coef_": "float p s", "intercept_": "float p", "scale_": "any-float p",
        "gap_": "any-float p", "objective_": "any-float p",
    }  # fmt: skip

    def _problem(self, rows: RowBlocks, share: Floats, total: float) -> Any:
        """The problem of rows with these shares, whose weights have this sum; asked for once in a fit."""
        raise NotImplementedError

    def _solve(self, problem: Any, start: Start | None, seed: int, budget: Budget) -> Pursuit:
        raise NotImplementedError

    def _kept(self, before: Mapping[str, Any], number: int) -> tuple[float, int]:
        """Scale and steps that a warm start goes on from, of the attributes of the last fit."""
        return np.nan, 0

    def _report(self, runs: Sequence[Pursuit], budget: Budget) -> None:
        """Set what is known of the fit, and warn where it is not what was asked for."""
        self.gap_ = np.array([run.result.gap for run in runs])
        self.objective_ = np.array([run.result.value for run in runs])
        self.n_iter_ = max(1, *(run.n_iter for run in runs))
        self.n_gradients_ = sum(run.n_gradients for run in runs)
        self.status_ = str(worst((run.result.status for run in runs), budget))
        self.history_ = tuple(
            {"class": float(number)} | entry for number, run in enumerate(runs) for entry in run.history
        )
        if not interrupted(self._options, budget) and self.status_ in CURES:
            warn(f"stopped after {budget.elapsed:.1f} s ({CURES[self.status_]}).", MarginConvergenceWarning)

    def _warn_of_iterations(self, runs: Sequence[Pursuit], limit: int) -> None:
        """Where they did not suffice, or steps of a run ended before its limit and leave a gap."""
        if self.status_ != "max_iter":
            return
        gap = max(run.history[-1]["gap"] if np.isnan(run.result.gap) else run.result.gap for run in runs)
        state = "steps still lower the objective" if np.isnan(gap) else f"the gap is {gap:.1e} > tol {self.tol:g}"
        at_limit = any(run.result.n_iter >= limit for run in runs)
        cure = "raise max_iter or tol" if at_limit else "more do not change that: raise tol"
        warn(
            f"{state} after {self.n_iter_} iterations; {cure}, or scale the features.",
            MarginConvergenceWarning,
        )

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            float32 and float64 are used as they are. With a precomputed kernel the values of all pairs, shape (n, n).
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            Factors of C, >= 0; weight 2 is a row that is there twice.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a class has no row of positive weight, the margins set no scale, or a level is not one of the risk.
        CapabilityError
            If the parameters do not go together, or a kernel matrix does not fit `cache_size`.
        KernelError
            If the kernel cannot be used.
        """
        options = self._options
        budget = budget_of(self.time_budget, self.callbacks)
        # A warm start needs the weights of the last fit; those of an exact kernel are coefficients of other rows.
        fitted, before = vars(self), None
        if self.warm_start and {"coef_", "intercept_", "classes_"} <= fitted.keys():
            before = dict(fitted)
        X, labels, weight = self._checked_rows(X, y, sample_weight)
        codes, total = self._classified(labels, weight), float(weight.sum())
        with limit_threads(self.n_jobs):
            if self.kernel is None or (isinstance(self.kernel, str) and self.kernel != "precomputed"):
                refuse_overflow(X)
            if self.kernel in (None, "linear") and np.isfinite(self.C):  # without a regulariser no column is too small
                warn_of_tiny_features(self, X, float(self.C), weight)
            space = make_space(
                SpaceParameters.of(self, options), X, weight, random_state=self.random_state, by_factor=True,
                known_map=fitted.get("feature_map_") if self.warm_start else None,
            )  # fmt: skip
            same_map = isinstance(space, MappedSpace) and space.fitted
            if before is not None and same_map != ("feature_map_" in before):
                before = None
            # A row without weight is as good as absent.
            used = None if (weight > 0.0).all() else np.flatnonzero(weight > 0.0)
            rows = RowBlocks([(space.features([X])[0], used)])
            if used is not None:
                codes, weight = codes[used], weight[used]
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            # Where there is a ridge the weights lie in the span of the rows; a warm start need not.
            span = RowSpan.of(rows) if before is None and np.isfinite(self.C) else None
            narrow = rows if span is None else span.coordinates(rows)
            problem = self._problem(narrow, weight / total, total)
            targets, runs = range(self.classes_.shape[0]) if self.classes_.shape[0] > 2 else (1,), []
            signs = [np.where(codes == target, 1.0, -1.0) for target in targets]
            with budget.part(2) as share:
                self._choose(problem, signs, seed, share)
            for number, sign in enumerate(signs):
                problem = problem.of_class(sign)
                start = None
                if before is not None and np.array_equal(before["classes_"], self.classes_):
                    point = before["coef_"][number]
                    point = np.append(point, before["intercept_"][number]) if self.fit_intercept else point
                    if len(point) == problem.n_unknowns:
                        start = Start(point, *self._kept(before, number))
                with budget.part(len(signs) - number) as share:
                    runs.append(self._solve(problem, start, seed, share))
            points = np.array([run.result.point for run in runs])
            w = points[:, : narrow.n_features]
            space.adopt(self, np.ascontiguousarray(w if span is None else [span.back(part) for part in w]))
        self.intercept_ = points[:, -1].copy() if self.fit_intercept else np.zeros(len(runs))
        self._report(runs, budget)
        if self.kernel is None and self.classes_.shape[0] > 2:
            self._warn_of_classes_between(X if used is None else X[used], codes, weight)
        return self

    def _choose(self, problem: Any, signs: Sequence[Floats], seed: int, budget: Budget) -> None:
        """Choose what all classes have in common, by the labels of each; nothing, unless a subclass does."""

    def _warn_of_classes_between(self, X: Matrix, codes: Ints, weight: Floats) -> None:
        """Warn of classes that are as good as never predicted, of training rows.

        Of classes in an order the middle one lies on no side of a plane, so no linear score finds it against the rest.
        """
        n_classes, total = self.classes_.shape[0], weight.sum()
        predicted = model_scores(self, X).argmax(axis=1)
        of_rows, said = (np.bincount(numbers, weight, n_classes) / total for numbers in (codes, predicted))
        # A class that is rare is often right never to be predicted.
        hidden = np.flatnonzero((of_rows > 0.5 / n_classes) & (said < 0.1 * of_rows))
        if hidden.shape[0]:
            first = hidden[np.argmax(of_rows[hidden])]
            warn(
                f"class {self.classes_[first]!s} has {of_rows[first]:.0%} of the training rows and {said[first]:.1%} "
                "of the predictions: each class is learned against the rest, and a linear score does not find one that "
                "lies between others. Use a feature_map, a kernel, MulticlassSVC, or OneVsOneClassifier.",
                DoubtfulModelWarning,
            )

    def decision_function(self, X: Features) -> Floats:
        """Scores, shape (n,) for two classes (positive: `classes_[1]`), else (n, n_classes).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            With a precomputed kernel the values with all training rows.
        """
        X = self._checked_new(X)
        scores = model_scores(self, X, SpaceParameters.of(self, self._options))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Labels, shape (n,)."""
        return labels_of(self.decision_function(X), self.classes_)
