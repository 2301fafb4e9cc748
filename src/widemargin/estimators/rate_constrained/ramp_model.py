"""A fitted rate-constrained model: the attributes that a fit sets, and what the model says of rows.

`TrainingOptions` are what few users of rate-constrained estimators change, with the reason for each default.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType, SimpleNamespace
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Bools, Classifier, Features, Floats, Matrix, Seed, Table
from widemargin.estimators import _kinds as kinds
from widemargin.estimators._binary import checked_rows
from widemargin.estimators._calibration import Calibrator, calibrated, calibrates
from widemargin.estimators._options import CURES, Checked, SolverOptions, budget_of, interrupted, parameters
from widemargin.estimators.feature_space import ColumnSpace, SpaceParameters, model_scores, refuse_space
from widemargin.estimators.rate_constrained.outcome import Infeasibility, certificate_text, explain, left_out_scores
from widemargin.estimators.rate_constrained.proof import Validated
from widemargin.estimators.rate_constrained.training import TiedRows, Trained
from widemargin.estimators.thresholds.guarantee import Provable
from widemargin.exceptions import (
    DoubtfulModelWarning,
    InfeasibleGoalError,
    MarginConvergenceWarning,
    warn,
    warn_of_kept,
)
from widemargin.goals import Goal
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.measured_report import make_report
from widemargin.goals.measuring.rates_of_predictions import Measured
from widemargin.losses.ramp import ramp
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.convex.convex_step import SOLVERS


@dataclass(frozen=True, repr=False)
class TrainingOptions(SolverOptions):
    """How `RateConstrainedClassifier` and `RateConstrainedClassifierCV` train, where the defaults do not suit.

    Given as `solver_options=TrainingOptions(tol=1e-6)`, or as a dict, `solver_options={"tol": 1e-6}`.

    Parameters
    ----------
    solver : str, default="auto"
        Solver of the convex steps. "auto" is the proximal method of multipliers with Newton steps ("newton"); kernel
        models begin with "cutting-plane", the paper's nest over dual coordinate ascent, with a level method for
        multipliers. In widemargin-papers: "cutting-plane-maximisation" and "cutting-plane-centre-of-mass", that nest
        with the paper's own choosers, slower with many constraints; and "interior-point", exact and slower.
        `fit_blocks` and Dask collections take "newton" or, by "auto" for many features, "bundle" (a level method),
        which nothing else takes.
    tol : float, default=1e-4
        Relative duality gap of the last convex step: the certificate. Smaller costs a few Newton steps more. The
        default is as fine as rates of 10,000 rows are.
    step_tol : float, default=1e-3
        Relative duality gap of the steps before the last. 1e-2 saved time in some cases, cost time in others, and ended
        a little worse.
    fit_intercept : bool, default=True
        Whether to fit an unregularised bias. Without it no threshold can be moved to meet a bound.
    degree : float, default=3
        Of the kernel "poly". The default is scikit-learn's.
    coef0 : float, default=0.0
        Of the kernels "poly" and "sigmoid". The default is scikit-learn's.
    n_components : int, default=300
        Features of a `feature_map`. Raising it approximates the kernel better and costs time quadratically. The default
        is three times scikit-learn's, whose 100 are few for a kernel of many columns.
    cache_size : float, default=1000
        Megabytes for the kernel matrix of exact training, 8e-6 n^2 for n distinct rows (11,400 fit); `fit` takes little
        more in all, with `solver="newton"` three times as much, 3 GB. A larger matrix needs `solver="cutting-plane"`.
    validation_fraction : float in (0, 1), default=0.2
        With a confidence: share of the rows, and of every external data set, kept aside. More rows prove narrower
        bounds, and fewer are left to train on.
    on_interrupt : {"raise", "return"}, default="raise"
        After Ctrl-C the best model so far is kept either way; "return" ends `fit` normally, which suits notebooks, and
        "raise" stops a script.
    verbose : int, default=0
        1 logs every step to the logger "widemargin".

    Raises
    ------
    ValueError
        If a value is outside its range.

    Examples
    --------
    >>> from widemargin import RateConstrainedClassifier, TrainingOptions
    >>> RateConstrainedClassifier(solver_options=TrainingOptions(tol=1e-6))
    RateConstrainedClassifier(solver_options=TrainingOptions(tol=1e-06))
    """

    solver: Annotated[str, StrOptions({*SOLVERS, "bundle"})] = "auto"
    tol: kinds.Positive = 1e-4
    step_tol: kinds.Positive = 1e-3
    fit_intercept: bool = True
    degree: kinds.NotNegative = 3
    coef0: kinds.AnyNumber = 0.0
    n_components: kinds.Count = 300
    cache_size: kinds.Positive = 1000.0
    validation_fraction: kinds.Share = 0.2
    on_interrupt: kinds.OnInterrupt = "raise"
    verbose: kinds.Verbose = 0


def gathered(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator from a flat list, in which the options of training stand beside the others."""
    names = TrainingOptions.__dataclass_fields__
    options = {name: value for name, value in parameters.items() if name in names}
    others = {name: value for name, value in parameters.items() if name not in names}
    return others | ({"solver_options": options} if options else {})


class _CoefficientsOfLinearModels:
    """Class attribute `coef_`: found only where `fit` has set none on the instance."""

    def __get__(self, model: object, owner: type) -> Any:
        if model is not None and "dual_coef_" in vars(model):
            raise AttributeError(
                "a kernel model has no coef_: it is a combination of support_vectors_ with the weights dual_coef_. "
                "For coefficients use kernel=None, or a feature_map."
            )
        raise AttributeError("coef_ is set by fit.")


@parameters
class RampParameters:
    """The parameters that a rate-constrained classifier shares with its cross-validation."""

    goal: Goal | str | None = field(default=None, kw_only=False)
    kernel: kinds.KernelName | None = None
    gamma: kinds.Gamma = "scale"
    feature_map: kinds.FeatureMapName = None
    enforce: Literal["deterministic", "randomized"] = "deterministic"
    pos_label: kinds.PosLabel = None
    baselines: Mapping[str, Classifier] | None = None
    on_infeasible: kinds.OnInfeasible = "raise"
    time_budget: kinds.Positive | None = None
    callbacks: kinds.Callbacks = None
    n_jobs: int | None = None
    random_state: kinds.Random = None
    solver_options: TrainingOptions | Mapping[str, object] | None = None

    _options = Checked(TrainingOptions)

    _stored_arrays = MappingProxyType({
        "classes_": "label 2", "coef_": "float 1 *", "intercept_": "float 1", "support_": "count s",
        "support_vectors_": "float s d | float 0 0", "dual_coef_": "float 1 s", "multipliers_": "any-float *",
        "previous_coef_": "float 1 *", "previous_intercept_": "float 1",
        "visited_": "float v *",
    })  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags

    def _budget(self) -> Budget:
        return budget_of(self.time_budget, self.callbacks, self._options.verbose)


class RampModel(RampParameters, Provable):
    """What a fitted linear or kernel model with a ramp says of rows (Appendix A of the paper)."""

    calibration: str | None
    calibrator_: Calibrator | None
    infeasibility_: Infeasibility | None

    coef_ = _CoefficientsOfLinearModels()
    _more_room = "raise C"  # how to fit the rows more closely, where bounds are missed

    def _refuse_arrays(self) -> None:
        refuse_space(self)

    def _unwatched(self) -> Self:
        """The same estimator without callbacks and logging, which do not travel."""
        other = copy.copy(self)
        other.callbacks, other.solver_options = None, replace(self._options, verbose=0)
        return other

    def decision_function(self, X: Features) -> Floats:
        """Signed scores, shape (n,); positive means `classes_[1]`. Kernel values are computed in blocks."""
        check_is_fitted(self)
        return self._scores(checked_rows(self, X, reset=False))

    def _scores(self, X: Matrix) -> Floats:
        """Scores of checked rows, shape (n,)."""
        kernel = SpaceParameters.of(self, self._options) if "dual_coef_" in vars(self) else None
        return model_scores(self, X, kernel)[:, 0]

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self._labels(self._direction() * self.decision_function(X) > 0.0)

    @available_if(calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> Floats:
        """Calibrated class probabilities, shape (n, 2); only with `calibration="sigmoid"` or `"isotonic"`."""
        check_is_fitted(self)
        assert self.calibrator_ is not None
        return calibrated(self.calibrator_, self.decision_function(X))

    def randomized_proba(self, X: Features) -> Floats:
        """Probabilities with which the randomised classifier names each class, shape (n, 2), columns as `classes_`.

        They are the ramp `clip(1/2 + score, 0, 1)`: a rule of decision, no estimate of the class probability (Appendix
        A of the paper).
        """
        second = ramp(self.decision_function(X))
        return np.column_stack([1.0 - second, second])

    def predict_randomized(self, X: Features, random_state: Seed = None) -> npt.NDArray[Any]:
        """Labels drawn from `randomized_proba`, shape (n,).

        Parameters
        ----------
        X : array-like of shape (n, d)
        random_state : int, RandomState or None, default=None
            None: the estimator's own `random_state`.
        """
        return self._drawn(self.randomized_proba(X), random_state)

    def _enforced(self, X: Features, populations: Table | None) -> npt.NDArray[Any]:
        return self.predict_randomized(X) if self.enforce == "randomized" else self.predict(X)

    def _meets(self) -> bool:
        """Whether the rates that are enforced meet every bound."""
        if self.enforce == "randomized":
            return all(item.ramp_met for item in self.goal_report_.constraints)
        return bool(self.goal_report_.all_met("estimate"))

    def _adopt_point(self, space: ColumnSpace, w: Floats, b: float) -> None:
        """Set the fitted attributes of a model `f(x) = <w, x> - b` of the positive class."""
        sign = self._direction()
        space.adopt(self, sign * w[None, :])
        self.intercept_ = np.array([-sign * b])

    def _scores_at(self, space: ColumnSpace, matrices: Sequence[Matrix], w: Floats, b: float) -> list[Floats]:
        """Scores of the positive class by any model `f(x) = <w, x> - b`, on checked rows of several sources."""
        model = SimpleNamespace(**space.attributes(w[None, :]), intercept_=np.array([-b]))
        wanted = SpaceParameters.of(self, self._options)
        return [model_scores(model, X, wanted)[:, 0] for X in matrices]

    def _measured(self, tied: TiedGoal, scores: Sequence[Floats]) -> Measured:
        """The goal in the rates that are enforced, by scores of the positive class."""
        shares = [ramp(z) for z in scores] if self.enforce == "randomized" else [z > 0.0 for z in scores]
        return tied.measure(tied.positive_mass(shares))

    def _adopt(self, space: ColumnSpace, trained: Trained, rows: TiedRows, validated: Validated | None = None) -> None:
        """Set all fitted attributes; the report is on the rows given."""
        w, b = trained.best.w, trained.best.b
        self._adopt_point(space, w, b)
        scores = self._scores_at(space, rows.matrices, w, b)
        left_out = None
        if validated is None and self.enforce == "deterministic":
            features = space.explicit(rows.matrices)
            if features is not None:
                near = left_out_scores(trained, rows._replace(matrices=features), scores)
                left_out = [z > 0.0 for z in near]
        self._adopt_report(
            trained, rows.tied, [z > 0.0 for z in scores], [ramp(z) for z in scores], validated, left_out
        )

    def _adopt_report(
        self, trained: Trained, tied: TiedGoal, positive: Sequence[Bools], shares: Sequence[Floats],
        validated: Validated | None = None, left_out: Sequence[Bools] | None = None,
    ) -> None:  # fmt: skip
        """How training went, and the report, from what is predicted for each entry of each source: sign and ramp.

        `left_out` is about what models without the row would predict.
        """
        best, solution = trained.best, trained.solution
        self.solver_ = ", ".join(trained.solvers)
        self.subproblem_gap_ = float(solution.subproblem.gap)
        self.certified_point_ = bool(solution.certified and not best.shifted)
        self.status_ = str(trained.status)
        self.n_iter_ = max(trained.pool.n_iter, 1)
        self.n_steps_ = trained.pool.n_steps
        self.n_rounds_ = trained.pool.n_rounds
        self.history_ = tuple(trained.pool.history)
        multipliers = trained.problem.multipliers_to_goal(solution.multipliers)
        soft = tied.measure(tied.positive_mass(shares))
        self.multipliers_ = soft.user_multipliers(multipliers)
        self.guarantee_ = None if validated is None else validated.guarantee
        proved = "" if self.guarantee_ is None else f"{self.guarantee_} Training: "
        self.goal_report_: GoalReport = make_report(
            tied, positive, positive_class=self.positive_class_, soft=soft,
            randomized=self.enforce != "deterministic",
            data_name="training rows" if validated is None else "validation rows",
            multipliers=self.multipliers_, status=self.status_,
            certificate=proved + certificate_text(trained),
            # What was promised of the randomised classifier says nothing of `predict`, which is what is foretold.
            foretell=validated is None and self.enforce == "deterministic",
            left_out=left_out,
        )  # fmt: skip

    def _conclude(self, trained: Trained, budget: Budget, validated: Validated | None) -> None:
        """Warn or raise according to how training ended.

        Raises
        ------
        InfeasibleGoalError
            If the goal is not met, or not proved, and `on_infeasible="raise"`.
        KeyboardInterrupt
            After Ctrl-C, unless `on_interrupt="return"`.
        """
        gap, why, options = trained.solution.subproblem.gap, self.infeasibility_, self._options
        stopped = trained.status in (Status.TIME_LIMIT, Status.STOPPED)
        missed = why is not None or (validated is not None and not validated.met)
        # Of a model that nobody gets there is nothing to warn of.
        refused = missed and self.on_infeasible == "raise" and not (stopped or budget.interrupted)
        for caution in () if refused else self.goal_report_.cautions:
            warn(caution, DoubtfulModelWarning)
        if interrupted(options, budget, "the best model so far"):
            return
        if stopped:
            met = f"{'NOT MET' if why else 'met'} on the training rows"
            if validated is not None:
                met = f"{'proved' if validated.met else 'NOT PROVED'} on the validation rows"
            warn(
                f"stopped after {budget.elapsed:.1f} s with gap {gap:.1e} and the goal {met} "
                f"({CURES[trained.status]}).",
                MarginConvergenceWarning,
            )
            return
        if missed:
            message = (
                explain(why, self.goal_report_, self.enforce, self._more_room)
                if why
                else str(validated and validated.refusal)
            )
            if refused:
                raise InfeasibleGoalError(message, **(vars(why) if why else {}))
            warn_of_kept(message)
        elif trained.status == Status.MAX_ITER:
            warn(
                f"gap {gap:.1e} > tol {options.tol:g} in the last convex step; scale the features or raise tol.",
                MarginConvergenceWarning,
            )

    def _forget_refits(self) -> None:
        """Remove what refits have left: a new fit has no model before it."""
        for name in ("previous_coef_", "previous_intercept_", "n_refits_"):
            self.__dict__.pop(name, None)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the attributes of a stored model, in which the options of training may be parameters."""
        super().__setstate__(gathered(state))  # type: ignore[misc]
