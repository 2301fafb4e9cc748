"""Linear and kernel classifiers trained to a goal: `RateConstrainedClassifier`."""

import copy
from collections.abc import Collection, Mapping
from functools import partial
from typing import Self

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from widemargin._threads import limit_threads
from widemargin._typing import Classifier, Column, Features, Floats, Matrix, Table
from widemargin.distributed.blocks import BlockMap
from widemargin.distributed.tables import labelled_rows
from widemargin.distributed.workers import block_map
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import as_goal, asked_rows, checked_rows
from widemargin.estimators._calibration import fit_calibrator, hold_out
from widemargin.estimators._options import parameters
from widemargin.estimators.feature_scales import warn_of_tiny_features
from widemargin.estimators.feature_space import ColumnSpace, MappedSpace, SpaceParameters, make_space
from widemargin.estimators.rate_constrained import training as steps
from widemargin.estimators.rate_constrained.blocks import BlockTraining
from widemargin.estimators.rate_constrained.outcome import find_out
from widemargin.estimators.rate_constrained.proof import keep_rows, refuse_unprovable, train_validated
from widemargin.estimators.rate_constrained.ramp_model import RampModel
from widemargin.exceptions import CapabilityError, DataError, InfeasibleGoalError
from widemargin.goals import Goal, Population, churn
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.labels import positive_class
from widemargin.goals.binding.sources import Source, make_sources
from widemargin.goals.language.constraints import Expression
from widemargin.goals.measuring.rates_of_predictions import Measured
from widemargin.rows import External, Rows, is_collection
from widemargin.solvers.base import Budget
from widemargin.solvers.convex.checkpoints import check_checkpoint
from widemargin.solvers.convex.convex_step import BLOCK_SOLVERS
from widemargin.solvers.ramp.majorization import MajorizeOptions

PREVIOUS = "model before refit"
"""Name of the baseline that the deployed model becomes."""

MOST_VISITED = 500
"""Models that `warm_start` keeps: some ten come from a fit, and measuring one costs a pass over the rows."""

STABILITY = "stability"
"""Label of the constraint on its churn, and name of the external data set of `stability_rows`."""


@parameters
class RateConstrainedClassifier(RampModel, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear or kernel classifier trained to meet a goal: an objective and constraints on rates.

    A decision is a step function of the score. Training replaces it by a ramp, a straight line from 0 to 1 around the
    boundary, and minimises the goal's objective in ramp rates plus `lam/2 |w|^2`, `lam = 2 / (n C)`, subject to the
    goal's constraints (majorisation-minimisation; Goh et al. 2016, Algorithm 1). Every convex step has a duality gap.

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
        Majorisation steps of a descent, the last one included. More steps fit the training rows more closely. From 3
        on, two stronger regularisers come before the one that C asks for, with two steps fewer each.
    pos_label : label, default=None
        The class that rates call positive; None means `classes_[1]`.
    baselines : dict of str to fitted classifier, default=None
        Models that `churn`, `win_rate`, ... may name; a column of `populations` of that name comes first.
    confidence : float in [0.5, 1), default=None
        None: constraints are met on the training rows. Else, on *new* rows with this confidence, or refused (Notes).
    calibration : {"sigmoid", "isotonic"}, default=None
        Hold out a fifth of the rows, meet the goal on the others, and fit probabilities on the rows held out. None:
        there is no `predict_proba`.
    warm_start : bool, default=False
        Whether models that earlier calls of `fit` visited are candidates in the next. With another `goal` on the same
        rows, a looser bound then never has a worse objective than a stricter one trained before. For models linear in
        the columns of X, without a confidence.
    on_infeasible : {"raise", "warn"}, default="raise"
        Where no model meets the goal: raise `InfeasibleGoalError`, or warn and keep the model of least violation.
    time_budget : float, default=None
        Seconds after which the best model so far is kept, with a warning.
    callbacks : sequence of callable, default=None
        Each is called with a `Progress` between steps; returning True stops the fit.
    n_jobs : int, default=None
        Threads inside `fit`; None: all that cores, `OMP_NUM_THREADS` and threadpoolctl allow.
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
        Why the goal is not met, where `on_infeasible="warn"` keeps a model that misses it. `InfeasibleGoalError`, which
        is raised otherwise, has the same attributes.
    previous_coef_, previous_intercept_ : ndarray
        Only after `refit`: the model before it.
    n_refits_ : int
        Only after `refit`: how many since `fit`.
    visited_ : ndarray of shape (k, n_features + 1)
        Only with `warm_start`: weights and bias b of the models that fits so far found worth keeping, the newest last.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has string column names.

    See Also
    --------
    GoalThresholdClassifier : Any scorer with the threshold that meets a goal.
    widemargin.audit : Measure a goal on any classifier's predictions.

    Notes
    -----
    The ramp problem is not convex, so "infeasible" says only that no start reached a feasible model. The message says
    "proved" where a linear program shows that no classifier of any kind meets the goal on these rows.

    `GoalThresholdClassifier` says what a `confidence` means and needs. The candidates are thresholds of up to five
    models (trained to the goal as it stands, and to tighter bounds as long as the training rows can meet them), ordered
    by the training rows. A fit then takes up to five times as long, on the rows that are left.

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

    C: kinds.Positive = 0.2
    max_steps: kinds.Count = 5
    confidence: kinds.Confidence | None = None
    calibration: kinds.Calibration = None
    warm_start: bool = False

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Features,
        y: Column,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        external: Mapping[str, External] | None = None,
    ) -> Self:
        """Train on labelled rows.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d), or Dask array or data frame
            float32 and float64 are used as they are; anything else is converted. Dask collections stay on their cluster
            (see `fit_blocks`); y, sample_weight and populations are then Dask collections of the same partitions.
        y : array-like of shape (n,)
            Two classes.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0; a row of weight 2 counts as two rows, also in every rate.
        populations : table with n rows, default=None
            pandas, polars or pyarrow table, or 2-D array, with the columns that the goal's populations and baselines
            name; the model never sees it. Columns not found there are looked up in X if it is a data frame.
        external : dict of str to External, default=None
            Data sets beside the training rows that the goal names by `Population.external(name)`.

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
            return self.fit_blocks(block_map(rows), external)
        budget = self._budget()
        checked = self._checked(X, y, sample_weight, populations, external)
        self._forget_refits()
        return self._train(checked, as_goal(self.goal), budget)

    def _train(
        self,
        rows: steps.CheckedRows,
        goal: Goal,
        budget: Budget,
        *,
        start: steps.Solution | None = None,
        space: ColumnSpace | None = None,
    ) -> Self:
        """Tie the goal, solve, set the fitted attributes, and say how it ended; a refit gives a start and its space."""
        self.goal_, self.calibrator_, self.infeasibility_ = goal, None, None
        rng, proving, held = check_random_state(self.random_state), None, None
        if self.confidence is not None:
            if self.warm_start:
                raise CapabilityError(
                    "warm_start=True brings candidates from earlier fits, which may have seen the rows that prove a "
                    f"confidence of {self.confidence}; use warm_start=False."
                )
            refuse_unprovable(self.enforce, self.kernel, fit_intercept=self._options.fit_intercept)
            rows, aside = keep_rows(rows, float(self._options.validation_fraction), rng)
            proving = self._tied(aside)
        if self.calibration is not None:
            rows, held = (rows.take(part) for part in hold_out(rows.labels, rng))
        tied, validated = self._tied(rows), None
        with limit_threads(self.n_jobs), steps.refuse_overflow(tied.matrices):
            space = space or self._space(rows.X, rows.weight, n_sources=len(tied.matrices))
            plan = self._plan(rows.whole_weight)
            if proving is None:
                earlier = self._visited_before(space)
                others = ((model[:-1], float(model[-1])) for model in earlier)
                trained = steps.train(*steps.posed(tied, space, plan), plan, budget, start=start, others=others)
                if self.warm_start:
                    members = [np.append(model.w, model.b) for model in trained.pool.members]
                    self.visited_ = np.vstack([earlier, *members])[-MOST_VISITED:]
                scores_at = partial(self._scores_at, space, tied.matrices)
                self._adopt(space, trained, tied)
                self.infeasibility_ = find_out(
                    trained, self.goal_report_, self.enforce, lambda w, b: self._measured(tied.tied, scores_at(w, b))
                )
            else:
                validated = train_validated(
                    tied, proving, float(self.confidence or 0.0), space, plan, budget, start=start,
                    scores_of=lambda of, w, b: self._scores_at(space, of.matrices, w, b),
                )  # fmt: skip
                trained = validated.trained
                self._adopt(space, trained, proving, validated)
        self._conclude(trained, budget, validated)
        if held is not None:
            scores, second = self._scores(held.X), held.labels == self.classes_[1]
            self.calibrator_ = fit_calibrator(str(self.calibration), scores, second, held.weight)
        return self

    def _visited_before(self, space: ColumnSpace) -> Floats:
        """Models of earlier fits that are candidates now, as rows of weights and bias."""
        none = np.empty((0, self.n_features_in_ + 1))
        if not self.warm_start:
            self.__dict__.pop("visited_", None)
            return none
        if type(space) is not ColumnSpace:
            raise CapabilityError(
                "warm_start=True keeps models that are linear in the columns of X; leave out kernel and feature_map, "
                "or use tradeoff_path for models along a bound."
            )
        kept = np.asarray(getattr(self, "visited_", none))
        return kept if kept.shape[1] == none.shape[1] else none

    def fit_blocks(
        self,
        blocks: BlockMap,
        external: Mapping[str, External] | None = None,
        *,
        scratch: str | None = None,
        checkpoint: str | None = None,
        resume: bool = False,
        gather_below: int = 2**28,
    ) -> Self:
        """Train on rows that live in blocks: in memory, in files, on a Dask cluster.

        The problem and the certificate are those of `fit`; a pass over the rows is a sum over the blocks. This process
        receives only sums, and a sample of the rows (at most ten million numbers) for a first start
        (`docs/scaling.md`).

        Parameters
        ----------
        blocks : BlockMap
            Training rows by blocks: `block_map(labelled_rows(X, y, ...), workers)`, or with `labelled_parquet`. Blocks
            without rows are left out.
        external : dict of str to External, default=None
            As in `fit`; kept in this process, also where they are Dask collections.
        scratch : path of a folder, default=None
            None: prepared rows stay in the memory of their workers. A folder on every worker's own disk: they lie in
            memory-mapped files there, for rows that do not fit. The files vanish with the processes that use them.
        checkpoint : path of a file, default=None
            Where the state of the outer iterations is kept: some kilobytes, replaced as a whole after every convex
            step.
        resume : bool, default=False
            Go on from the checkpoint of a run with the same rows and parameters, if there is one.
        gather_below : int, default=2**28
            Rows on a cluster that take at most so many bytes are fetched and worked on in this process: on so few
            rows calls cost about as much as workers save, or more. 0: they stay with their workers. The model is the
            same.

        Returns
        -------
        self

        Raises
        ------
        CapabilityError
            If a parameter needs all rows in one place: kernels, feature maps, a confidence, calibration.
        CheckpointError
            If the checkpoint is damaged, or of other rows, another goal or other parameters.
        WorkerLostError
            If workers are lost again and again, or the scheduler; the checkpoint stays.
        MissingDataError
            If there is no folder `scratch` where a worker runs.
        GoalError, DataError, InfeasibleGoalError
            As `fit`.

        Notes
        -----
        `docs/scaling.md` says which solver "auto" takes, what a pass costs, and where the model may differ from that of
        `fit`. `n_passes_` counts the passes over all rows.
        """
        self._validate_params()
        self._forget_refits()
        options = self._options
        for name in ("kernel", "feature_map", "confidence", "calibration"):
            if (value := getattr(self, name)) is not None:
                what = f"{name}={value!r} needs all rows in one place"
                raise CapabilityError(f"{what}. Use fit, or {name}=None with blocks.")
        if options.solver not in BLOCK_SOLVERS:
            raise CapabilityError(f"solver={options.solver!r} needs all rows in one place. Use 'auto' with blocks.")
        check_checkpoint(checkpoint, resume)
        if not hasattr(blocks, "prepared"):
            raise DataError(
                f"blocks is a {type(blocks).__name__}, no blocks of rows. Give block_map(labelled_rows(X, y)), or use "
                "fit."
            )
        self.goal_, self.calibrator_ = as_goal(self.goal), None
        budget = self._budget()
        with limit_threads(self.n_jobs):
            run = BlockTraining(blocks.filled().near(gather_below), external or {}, self.goal_)
            self._set_classes(run.survey.labels)
            self.n_features_in_ = run.survey.sums.shape[0]
            self.__dict__.pop("feature_names_in_", None)
            if run.survey.names is not None:
                self.feature_names_in_ = run.survey.names
            pair = positive_class(self.classes_.tolist(), self.positive_class_)
            trained = run.train(
                pair, self.baselines or {}, self._plan(run.survey.weight), budget, scratch=scratch,
                checkpoint=checkpoint, resume=resume,
            )  # fmt: skip
            self._adopt_point(ColumnSpace(), trained.best.w, trained.best.b)
            self._adopt_report(trained, *run.predictions(trained.best.w, trained.best.b))
            self.n_passes_ = run.n_passes

            def measured(w: Floats, b: float) -> Measured:
                tied, hard, soft = run.predictions(w, b)
                return tied.measure(tied.positive_mass(soft if self.enforce == "randomized" else hard))

            self.infeasibility_ = find_out(trained, self.goal_report_, self.enforce, measured)
        self._conclude(trained, budget, None)
        return self

    def refit(
        self,
        X_new: Features,
        y_new: Column,
        *,
        churn_at_most: float = 0.05,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        external: Mapping[str, External] | None = None,
        stability_rows: Features | None = None,
    ) -> Self:
        """Train this model on new rows, changing at most a share of its decisions; in place.

        The goal is met on the new rows, with one more constraint, `stability`: the churn against the model before. The
        search starts at `coef_` and `intercept_`, and the model before stays a candidate. Earlier rows are forgotten:
        give all the rows that count. `C` refers to the new rows. `refit` may be called repeatedly, also on a model that
        was saved and loaded; each call has its own ceiling, so changes can add up.

        A `feature_map` stays as it was fitted. An exact kernel model, a combination of its training rows, is trained
        afresh under the ceiling, and is no candidate itself.

        Parameters
        ----------
        X_new : array-like, data frame or CSR matrix of shape (n, d)
            The features of `fit`.
        y_new : array-like of shape (n,)
            Labels, of the classes of `fit`.
        churn_at_most : float, default=0.05
            Largest share of decisions that may change, by `predict` (by `predict_randomized`, in expectation, with
            `enforce="randomized"`). Raising it lets the model follow the new rows more closely.
        sample_weight, populations, external
            As for `fit`.
        stability_rows : array-like, data frame or CSR matrix of shape (n_s, d), default=None
            Rows on which the churn is measured, labels not needed, such as recent traffic; None: the new rows.

        Returns
        -------
        self
            With `previous_coef_` and `previous_intercept_` (exact kernel models have none). The model is unchanged
            where anything is raised (after Ctrl-C: unless a model that meets everything had been found).

        Raises
        ------
        GoalError, DataError
            As `fit`.
        InfeasibleGoalError
            If no model that meets goal and ceiling was found, unless `on_infeasible="warn"`.

        Notes
        -----
        In a pipeline, refit the last step on transformed rows: `pipe[-1].refit(pipe[:-1].transform(X_new), y_new)`. Do
        not fit the steps before it again: the ceiling would not limit the decisions that this changes.
        """
        check_is_fitted(self)
        self._validate_params()
        goal = stable_goal(self.goal, churn_at_most, populations, external, stability_rows)
        if stability_rows is not None:
            external = {**(external or {}), STABILITY: External(stability_rows)}
        before, start, space = dict(self.__dict__), None, None
        baselines: dict[str, Classifier] = {**(self.baselines or {}), PREVIOUS: copy.copy(self)}
        if "coef_" in before:
            sign = self._direction()
            start = sign * before["coef_"][0], -sign * float(before["intercept_"][0])
        if "feature_map_" in before:
            space = MappedSpace(before["feature_map_"], fitted=True)
        try:
            budget = self._budget()
            rows = self._checked(X_new, y_new, sample_weight, populations, external, baselines, reset=False)
            self._set_classes(rows.labels, self.classes_)
            self._train(rows, goal, budget, start=start, space=space)
            if self.on_infeasible == "raise" and not self._meets():
                raise InfeasibleGoalError(
                    "the refit ended before a model was found that meets the goal and changes at most "
                    f"{churn_at_most:g} of the decisions; the model before it is kept. Give it more time."
                )
        except BaseException as error:
            better = self.goal_report_ is not before["goal_report_"] and self._meets()
            if not (better and isinstance(error, KeyboardInterrupt)):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise
        finally:
            if self.goal_report_ is not before["goal_report_"]:  # the model is a new one
                if "coef_" in before:
                    self.previous_coef_, self.previous_intercept_ = before["coef_"], before["intercept_"]
                self.n_refits_ = before.get("n_refits_", 0) + 1
        return self

    def _checked(
        self,
        X: Features,
        y: Column,
        sample_weight: Column | None,
        populations: Table | None,
        external: Mapping[str, External] | None,
        baselines: Mapping[str, Classifier] | None = None,
        *,
        reset: bool = True,
    ) -> steps.CheckedRows:
        """Checked rows; with `reset` they set what the estimator remembers of its data."""
        checked, labels = checked_rows(self, X, y, reset=reset)
        weight = None
        if reset:
            self._set_classes(labels)
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, checked, dtype=np.float64, ensure_non_negative=True)
        if reset and self.kernel in (None, "linear"):
            # The threshold is searched exactly, so the scores may be small; from here on they are rounding.
            warn_of_tiny_features(self, checked, float(self.C), weight, reach=1e-7)
        known = baselines or self.baselines or {}
        return steps.CheckedRows(Rows(X, labels, weight, populations, external or {}, known), checked)

    def _sources(
        self, uses: Mapping[str | None, Collection[str]], rows: steps.CheckedRows
    ) -> tuple[tuple[Source, ...], list[Matrix]]:
        """The rows that a goal of these uses is tied to, and the features of each source."""
        classes = positive_class(self.classes_.tolist(), self.positive_class_)
        sources, matrices = make_sources(uses, rows.rows, classes=classes), [rows.X]
        for source in sources[1:]:
            X = asked_rows(rows.rows, source.name).X
            assert X is not None
            try:
                matrices.append(checked_rows(self, X, reset=False))
            except ValueError as error:
                raise DataError(f"external {source.name!r}: {error}") from error
        return sources, matrices

    def _tied(self, rows: steps.CheckedRows) -> steps.TiedRows:
        """The goal on checked rows, and the features of all its sources."""
        sources, matrices = self._sources(baselines_used(self.goal_), rows)
        return steps.TiedRows(bind(self.goal_, sources), matrices)

    def _space(self, X: Matrix, weight: Floats | None, *, n_sources: int) -> ColumnSpace:
        """What the model is linear in, settled on its training rows X."""
        if self.kernel == "precomputed" and (n_sources > 1 or self.calibration is not None):
            what = "external data" if n_sources > 1 else "calibration"
            raise CapabilityError(
                f"kernel='precomputed' cannot be used with {what}: it needs kernel values with rows that the matrix "
                "does not hold. Give the kernel by name or as a function."
            )
        return make_space(SpaceParameters.of(self, self._options), X, weight, random_state=self.random_state)

    def _plan(self, whole_weight: float) -> steps.Plan:
        """How to train on rows of this weight."""
        options = self._options
        descent = MajorizeOptions(steps=self.max_steps - 1, tol=options.tol, loose_tol=options.step_tol)
        return steps.Plan(2.0 / (whole_weight * self.C), options.fit_intercept, self.enforce, options.solver, descent)


def stable_goal(
    goal: Goal | str | None,
    churn_at_most: float,
    populations: Table | None,
    external: Mapping[str, External] | None,
    stability_rows: Features | None,
) -> Goal:
    """The goal, and a ceiling on the churn against the model before, on the new rows or on the rows for stability.

    Raises
    ------
    GoalError
        If the ceiling lies outside [0, 1].
    DataError
        If a name that a refit gives itself is taken: that of the constraint, the external data set or the baseline.
    """
    before = as_goal(goal)
    if stability_rows is not None and STABILITY in (external or {}):
        raise DataError(f"stability_rows become the external data set {STABILITY!r}, which was given too; rename it.")
    columns = nw.from_native(populations, eager_only=True, pass_through=True)
    if isinstance(columns, nw.DataFrame) and PREVIOUS in columns.columns:
        raise DataError(f"populations has a column {PREVIOUS!r}, a name that refit gives to a baseline; rename it.")
    if any(constraint.label == STABILITY for constraint in before.constraints):
        raise DataError(f"refit adds a constraint {STABILITY!r}, and the goal has one of that label; rename it.")
    rows = None if stability_rows is None else Population.external(STABILITY)
    ceiling = (churn(PREVIOUS, on=rows) <= churn_at_most).named(STABILITY)
    entries, rows_least, small = [*before.constraints, ceiling], before.min_rows, before.on_small
    return Goal(Expression(before.objective), entries, min_rows=rows_least, on_small=small, watched=before.watched)
