"""Linear and kernel classifiers trained to a goal: `RateConstrainedClassifier`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, validate_data

from widemargin._threads import limit_threads
from widemargin._typing import Floats, Matrix
from widemargin.distributed.backends import block_map
from widemargin.distributed.tables import is_collection, labelled_rows
from widemargin.estimators._binary import as_goal, external_rows
from widemargin.estimators._calibration import fit_calibrator, hold_out, take_rows
from widemargin.estimators._progress import watchers
from widemargin.estimators.feature_space import ColumnSpace, SpaceParameters, make_space
from widemargin.estimators.rate_constrained.fitting import refuse_overflow, step_plan, train
from widemargin.estimators.rate_constrained.infeasibility import Infeasibility, find_out, measure_other
from widemargin.estimators.rate_constrained.options import TrainingOptions, gathered
from widemargin.estimators.rate_constrained.outcome import OutcomeMixin
from widemargin.estimators.rate_constrained.over_blocks import BlockTrainingMixin
from widemargin.estimators.rate_constrained.prediction import DTYPES, PredictionMixin
from widemargin.estimators.rate_constrained.proof import KeptRows, keep_rows, train_validated
from widemargin.estimators.rate_constrained.refit import RefitMixin
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import TiedGoal, baselines_used, bind
from widemargin.goals.binding.sources import External, Source, make_sources, positive_class
from widemargin.kernels.feature_maps import FEATURE_MAPS
from widemargin.kernels.functions import KERNELS
from widemargin.linalg.equal_rows import canonical_rows
from widemargin.rows import Rows
from widemargin.solvers.base import Budget, Progress

__all__ = ["RateConstrainedClassifier"]


class _CoefficientsOfLinearModels:
    """Class attribute `coef_`: found only where `fit` has set none on the instance."""

    def __get__(self, model: object, owner: type) -> Any:
        if model is not None and "dual_coef_" in vars(model):
            raise AttributeError(
                "a kernel model has no coef_: it is a combination of support_vectors_ with the weights dual_coef_. "
                "For coefficients use kernel=None, or a feature_map."
            )
        raise AttributeError("coef_ is set by fit.")


class RateConstrainedClassifier(
    BlockTrainingMixin,
    RefitMixin,
    OutcomeMixin,
    PredictionMixin,
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Linear or kernel classifier trained to meet a goal: an objective and constraints on rates.

    Minimises the goal's objective in ramp rates plus `lam/2 |w|^2`, `lam = 2 / (n C)`, subject to the goal's
    constraints, by majorisation-minimisation (Goh et al. 2016, Algorithm 1). Every convex step carries a duality gap.

    Parameters
    ----------
    goal : Goal or str, default=None
        What to minimise and what must hold, as an object or in the text language. None: the error rate, unconstrained.
    C : float, default=0.2
        Inverse strength of the regulariser, in scikit-learn's units (`1/2 |w|^2 + C sum hinge`). Raising it fits the
        training rows more closely.
    enforce : {"deterministic", "randomized"}, default="deterministic"
        Whose rates meet the bounds on the training rows: those of `predict` (by an exact sweep of the bias and rounds
        of tightening) or those of `predict_randomized` in expectation.
    kernel : {"linear", "poly", "rbf", "laplacian", "sigmoid", "precomputed"} or callable, default=None
        None: linear in the columns of X. Otherwise, as in `sklearn.svm.SVC`, the model is a combination of kernel
        values with training (and external) rows, trained exactly, or through a `feature_map`. A function gets two sets
        of rows and returns the matrix of all pairs. Kernels that are not positive semi-definite ("sigmoid" often) are
        refused.
    gamma : {"scale", "auto"} or float, default="scale"
        Kernel width, as in SVC: "scale" is `1 / (n_features * X.var())`. Raising it makes the model more local.
    feature_map : {"fourier", "nystroem"}, default=None
        Train a linear model on `n_components` features whose inner products approximate the kernel: time and memory
        are linear in the rows. "fourier" is for "rbf"; "nystroem" for any named kernel.
    max_steps : int, default=5
        Majorisation steps, the last one included (one more with C >= 1, where the first four are taken with stronger
        regularisers). More fit the training rows more closely, not better unseen ones.
    pos_label : label, default=None
        The class that rates call positive; None means `classes_[1]`.
    baselines : dict of str to fitted classifier, default=None
        Models that `churn`, `win_rate`, ... may name; a column of `populations` of that name comes first.
    confidence : float in [0.5, 1), default=None
        None: constraints are met on the training rows. Else, on *new* rows with this confidence, or refused (Notes).
    validation_fraction : float in (0, 1), default=0.2
        With a confidence: share of the rows, and of every external data set, kept aside.
    calibration : {"sigmoid", "isotonic"}, default=None
        Hold out a fifth of the rows and fit probabilities on them, for `predict_proba`; without it there is none. The
        goal is then met on the rows that are left.
    on_infeasible : {"raise", "warn"}, default="raise"
        Where no model meets the goal: raise `InfeasibleGoalError`, or warn and keep the model of least violation.
    time_budget : float, default=None
        Seconds after which the best model so far is kept, with a warning.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` between steps; returning True stops the fit.
    n_jobs : int, default=None
        Threads of BLAS and compiled loops inside `fit`; None means 1.
    random_state : int, RandomState or None, default=None
        For the rows that a confidence or calibration holds out, and the default of `predict_randomized`.
    solver_options : TrainingOptions or dict, default=None
        What few users change: the solver and its tolerances, the intercept, further parameters of kernels and feature
        maps, the memory of exact kernels, Ctrl-C and logging. None: the defaults of `TrainingOptions`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (1, n_components)
        Absent where a kernel is trained exactly. With a feature map, the weights of its features.
    intercept_ : ndarray of shape (1,)
        `decision_function(X) = X @ coef_[0] + intercept_`; the paper's bias is `b = -intercept_`.
    support_, support_vectors_, dual_coef_ : ndarrays of shape (n_SV,), (n_SV, n_features), (1, n_SV)
        Only where a kernel is trained exactly: `decision_function(X) = K(X, support_vectors_) @ dual_coef_[0] +
        intercept_`. `support_` numbers the rows of X and, after them, those of the external data sets.
    gamma_ : float
        Kernel width that was used; only with `support_`.
    feature_map_ : transformer
        Only with `feature_map`.
    classes_ : ndarray of shape (2,)
    positive_class_ : label
    goal_ : Goal
    goal_report_ : GoalReport
        The goal on the training rows; with a confidence, on the validation rows.
    guarantee_ : str or None
        What is proved about new rows, and under which assumptions; None without a confidence.
    multipliers_ : ndarray of shape (n_constraints,)
        Objective per unit of each constraint's own bound, at the ramp solution.
    subproblem_gap_ : float
        Relative duality gap of the last convex step; the ramp problem itself is solved locally.
    generalization_bound_ : ndarray of shape (n_constraints,) or None
        By how much each constraint of the randomised classifier may fail on new rows (Appendix C of the paper), in
        rates, with 95% confidence; 1 and more says nothing. None where it does not apply: after a bias search.
    certified_point_ : bool
        Whether (`coef_`, `intercept_`) is the point of that certificate; False where the bias was moved afterwards.
    status_ : str
        "converged", "max_iter", "time_limit", "stopped" (by a callback), "interrupted" or "infeasible".
    solver_ : str
        The convex solvers that were used.
    n_iter_ : int
        Iterations of the convex solver in all.
    n_steps_ : int
        Majorisation steps in all.
    n_rounds_ : int
        Rounds of tightening.
    history_ : tuple of dict
    n_passes_ : int
        Only after `fit_blocks`: how often all rows were looked at.
    infeasibility_ : Infeasibility or None
        Why the goal is not met, where `on_infeasible="warn"` keeps a model that misses it: violations, the constraints
        in conflict, the best value found of each while the others hold, and whether there is a proof. The error that is
        raised otherwise has the same attributes.
    previous_coef_, previous_intercept_ : ndarray
        Only after `refit`: the model before it.
    n_refits_ : int
        Only after `refit`: how many since `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    GoalThresholdClassifier : Any scorer with the threshold that meets a goal.
    widemargin.audit : Measure a goal on any classifier's predictions.

    Notes
    -----
    The ramp problem is not convex: "infeasible" means that no start reached a feasible model, not a proof. Where a
    linear program shows that no classifier of any kind can meet the goal on these rows, the message says "proved".

    What a `confidence` means, and needs, is said at `GoalThresholdClassifier`; here it holds for every threshold of
    four models (the goal as it stands, and tightened). They take four times as long, on the rows that are left.

    References
    ----------
    G. Goh, A. Cotter, M. Gupta, M. Friedlander, "Satisfying Real-world Goals with Dataset Constraints", NIPS 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import RateConstrainedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = (X[:, 0] + rng.normal(size=400) > 0.8).astype(int)
    >>> clf = RateConstrainedClassifier("minimize error_rate()\\nsubject to recall() >= 0.8").fit(X, y)
    >>> bool(clf.predict(X)[y == 1].mean() >= 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "goal": [Goal, str, None],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "enforce": [StrOptions({"deterministic", "randomized"})],
        "kernel": [StrOptions(set(KERNELS)), callable, None],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "feature_map": [StrOptions(set(FEATURE_MAPS)), None],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "pos_label": [Real, str, "boolean", None],
        "baselines": [Mapping, None],
        "confidence": [Interval(Real, 0.5, 1.0, closed="left"), None],
        "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
        "calibration": [StrOptions({"sigmoid", "isotonic"}), None],
        "on_infeasible": [StrOptions({"raise", "warn"})],
        "time_budget": [Interval(Real, 0.0, None, closed="neither"), None],
        "callbacks": ["array-like", None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "solver_options": [TrainingOptions, Mapping, None],
    }

    def __init__(
        self,
        goal: Goal | str | None = None,
        *,
        C: float = 0.2,
        enforce: str = "deterministic",
        kernel: str | Callable[[Any, Any], Any] | None = None,
        gamma: str | float = "scale",
        feature_map: str | None = None,
        max_steps: int = 5,
        pos_label: Any = None,
        baselines: Mapping[str, Any] | None = None,
        confidence: float | None = None,
        validation_fraction: float = 0.2,
        calibration: str | None = None,
        on_infeasible: str = "raise",
        time_budget: float | None = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        solver_options: TrainingOptions | Mapping[str, Any] | None = None,
    ) -> None:
        self.goal = goal
        self.C = C
        self.enforce = enforce
        self.kernel = kernel
        self.gamma = gamma
        self.feature_map = feature_map
        self.max_steps = max_steps
        self.pos_label = pos_label
        self.baselines = baselines
        self.confidence = confidence
        self.validation_fraction = validation_fraction
        self.calibration = calibration
        self.on_infeasible = on_infeasible
        self.time_budget = time_budget
        self.callbacks = callbacks
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.solver_options = solver_options

    coef_ = _CoefficientsOfLinearModels()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the attributes of a stored model, in which the options of training may be parameters."""
        super().__setstate__(gathered(state))

    @property
    def _options(self) -> TrainingOptions:
        """The options of training, checked."""
        return TrainingOptions.of(self.solver_options)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        populations: Any = None,
        external: Mapping[str, External] | None = None,
    ) -> "RateConstrainedClassifier":
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d), or Dask array or data frame
            float32 and float64 are used as they are; anything else is converted. Dask collections stay on their
            cluster, see `fit_blocks`; y, sample_weight and populations are then Dask collections, too, partitioned
            alike.
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0; a row of weight 2 counts as two rows, in every rate too.
        populations : table with n rows, default=None
            pandas, polars or pyarrow table, or 2-D array, with the columns that the goal's populations and baselines
            name. Columns not found there are looked up in X where it is a data frame.
        external : dict of str to External, default=None
            Rows beside the training rows that the goal names by `Population.external(name)`.

        Returns
        -------
        self

        Raises
        ------
        GoalError
            If the goal does not fit the data (unknown column or value, empty population, bound out of range).
        DataError
            If data are missing or of the wrong shape.
        InfeasibleGoalError
            If no model that meets the goal was found, or can be shown to, unless `on_infeasible="warn"`.
        """
        if is_collection(X):
            rows = labelled_rows(X, y, sample_weight=sample_weight, populations=populations)
            fitted: RateConstrainedClassifier = self.fit_blocks(block_map(rows), external)
            return fitted
        self._forget_refits()
        return self._fit_rows(X, y, sample_weight, populations, external, goal=as_goal(self.goal))

    def _fit_rows(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        populations: Any,
        external: Mapping[str, External] | None,
        *,
        goal: Goal,
        reset: bool = True,
        **task: Any,
    ) -> "RateConstrainedClassifier":
        """Check rows, train on them, and calibrate; `task` is passed on to `_train`."""
        budget = Budget(self.time_budget, self._watchers())
        original = X
        X, y, weight = self._checked(X, y, sample_weight, reset=reset)
        if not reset:
            self._set_classes(y, self.classes_)
        self.calibrator_ = None
        parts: tuple[Any, ...] = (X, y, weight, original, populations)
        rng = check_random_state(self.random_state)
        if self.confidence is not None:
            parts, external, task["kept"] = keep_rows(self, parts, external, random_state=rng)
        task |= {"goal": goal, "external": external, "budget": budget}
        if self.calibration is None:
            self._train(*parts, **task)
            return self
        rows, held = hold_out(parts[1], rng)
        self._train(*(take_rows(part, rows) for part in parts), **task)
        _, y, weight, original, _ = parts
        second = y[held] == self.classes_[1]
        scores = self.decision_function(take_rows(original, held))
        self.calibrator_ = fit_calibrator(self.calibration, scores, second, take_rows(weight, held))
        return self

    def _checked(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True
    ) -> tuple[Any, npt.NDArray[Any], Floats | None]:
        """Checked rows, labels and weights; with `reset` they set what the estimator remembers of its data."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", accept_large_sparse=True, dtype=DTYPES, order="C", reset=reset
        )
        X = canonical_rows(X)
        if reset:
            self._set_classes(y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return X, y, weight

    def _sources(
        self,
        uses: Mapping[str | None, Collection[str]],
        X: Any,
        y: npt.NDArray[Any],
        weight: Floats | None,
        original: Any,
        populations: Any,
        *,
        external: Mapping[str, External] | None,
        baselines: Mapping[str, Any] | None = None,
    ) -> tuple[tuple[Source, ...], list[Any]]:
        """The rows that a goal of these uses is tied to, and the features of each source."""
        classes = positive_class(self.classes_.tolist(), self.positive_class_)
        asked = baselines or self.baselines or {}
        rows = Rows(original, y, weight, populations, external=external or {}, baselines=asked)
        sources = make_sources(uses, rows, classes=classes)
        return sources, [X, *(self._external_features(external, source.name) for source in sources[1:])]

    def _train(
        self,
        X: Any,
        y: npt.NDArray[Any],
        weight: Floats | None,
        original: Any,
        populations: Any,
        *,
        goal: Goal,
        external: Mapping[str, External] | None,
        budget: Budget,
        baselines: Mapping[str, Any] | None = None,
        start: tuple[Floats, float] | None = None,
        space: ColumnSpace | None = None,
        kept: KeptRows | None = None,
    ) -> None:
        """Bind the goal to checked rows, train, set the fitted attributes, and say how it ended."""
        self.goal_ = goal
        tied, matrices = self._bind(X, y, weight, original, populations, external=external, baselines=baselines)
        proof = None if kept is None else self._bind(*kept.parts, external=kept.external, baselines=baselines)
        total = float(X.shape[0] if weight is None else weight.sum())
        solving = self._options
        options = step_plan(self.C, self.max_steps, solving.tol, solving.step_tol)
        with limit_threads(self.n_jobs), refuse_overflow(matrices):
            space = space or self._space(X, weight, n_sources=len(matrices))
            fit = partial(
                train, matrices=matrices, space=space, lam=2.0 / (total * self.C), fit_intercept=solving.fit_intercept,
                enforcement=self.enforce, solver=solving.solver, options=options, start=start, budget=budget,
            )  # fmt: skip
            validated = None
            if proof is not None:
                validated = train_validated(self, tied, *proof, fit=fit, space=space, budget=budget)
                tied, matrices = proof
            trained = fit(tied) if validated is None else validated.trained
            self._adopt_point(space, trained.best.w, trained.best.b)
            self._adopt(trained, tied, matrices, validated)
            other = partial(measure_other, self, space, tied, matrices)
            found = None if validated else find_out(self, trained, other)
            self.infeasibility_: Infeasibility | None = found
        self._conclude(trained, budget, validated)

    def _bind(
        self, *rows: Any, external: Mapping[str, External] | None, baselines: Mapping[str, Any] | None
    ) -> tuple[TiedGoal, list[Any]]:
        """The goal on checked rows (X, y, weight, original X, populations), and the features of all its sources."""
        uses = baselines_used(self.goal_)
        sources, matrices = self._sources(uses, *rows, external=external, baselines=baselines)
        return bind(self.goal_, sources), matrices

    def _external_features(self, external: Mapping[str, External] | None, name: str | None) -> Any:
        X = external_rows(external, name)
        try:
            checked = validate_data(
                self, X, accept_sparse="csr", accept_large_sparse=True, reset=False, dtype=DTYPES, order="C"
            )
        except ValueError as error:
            raise DataError(f"external {name!r}: {error}") from error
        return canonical_rows(checked)

    def _space(self, X: Matrix, weight: Floats | None, *, n_sources: int) -> ColumnSpace:
        """What the model is linear in, settled on its training rows X."""
        if self.kernel == "precomputed" and (n_sources > 1 or self.calibration is not None):
            what = "external data" if n_sources > 1 else "calibration"
            raise CapabilityError(
                f"kernel='precomputed' cannot be used with {what}: it needs kernel values with rows that the matrix "
                "does not hold. Give the kernel by name or as a function."
            )
        return make_space(SpaceParameters.of(self, self._options), X, weight, random_state=self.random_state)

    def _adopt_point(self, space: ColumnSpace, w: Floats, b: float) -> None:
        """Set the fitted attributes of a model `f(x) = <w, x> - b` of the positive class."""
        sign = self._direction()
        space.adopt(self, sign * w[None, :])
        self.intercept_ = np.array([-sign * b])

    def _watchers(self) -> tuple[Callable[[Progress], Any], ...]:
        return watchers(self.callbacks, self._options.verbose)
