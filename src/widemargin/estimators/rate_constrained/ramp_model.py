"""A fitted rate-constrained model: the attributes that a fit sets, and what the model says of rows."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from widemargin._typing import Bools, Features, Floats, Matrix, Seed
from widemargin.estimators._binary import BinaryGoalMixin
from widemargin.estimators._calibration import Calibrator, calibrated
from widemargin.estimators._progress import watchers
from widemargin.estimators.feature_space import ColumnSpace, SpaceParameters, model_scores
from widemargin.estimators.rate_constrained.infeasibility import Infeasibility
from widemargin.estimators.rate_constrained.options import TrainingOptions, gathered
from widemargin.estimators.rate_constrained.outcome import (
    ENFORCED_RAMPS,
    certificate_text,
    conclude,
    generalization_note,
    model_bound,
)
from widemargin.estimators.rate_constrained.proof import Validated
from widemargin.estimators.rate_constrained.training import TiedRows, Trained
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.measuring.goal_report import GoalReport, make_report
from widemargin.goals.measuring.rates_of_predictions import Measured
from widemargin.losses.ramp import ramp
from widemargin.solvers.base import Budget, Progress

__all__ = ["DTYPES", "RampModel"]

DTYPES = [np.float64, np.float32]
"""Numbers of features that are used as they are."""


def _calibrates(estimator: "RampModel") -> bool:
    """Whether there is a predict_proba, and if not, why."""
    if estimator.calibration is None:
        raise AttributeError(
            'predict_proba needs probabilities calibrated on held-out rows: set calibration="sigmoid" or "isotonic". '
            "The ramp of the randomised classifier, which is no such probability, is randomized_proba."
        )
    return True


class _CoefficientsOfLinearModels:
    """Class attribute `coef_`: found only where `fit` has set none on the instance."""

    def __get__(self, model: object, owner: type) -> Any:
        if model is not None and "dual_coef_" in vars(model):
            raise AttributeError(
                "a kernel model has no coef_: it is a combination of support_vectors_ with the weights dual_coef_. "
                "For coefficients use kernel=None, or a feature_map."
            )
        raise AttributeError("coef_ is set by fit.")


class RampModel(BinaryGoalMixin):
    """What a fitted linear or kernel model with a ramp says of rows (Appendix A of the paper)."""

    calibration: str | None
    random_state: Seed
    calibrator_: Calibrator | None
    solver_options: TrainingOptions | Mapping[str, Any] | None
    enforce: str
    time_budget: float | None
    callbacks: Sequence[Callable[[Progress], Any]] | None
    feature_map: str | None
    on_infeasible: str
    infeasibility_: Infeasibility | None

    coef_ = _CoefficientsOfLinearModels()

    @property
    def _options(self) -> TrainingOptions:
        """The options of training, checked."""
        return TrainingOptions.of(self.solver_options)

    def decision_function(self, X: Features) -> Floats:
        """Signed scores, shape (n,); positive means `classes_[1]`. Kernel values are computed in blocks."""
        check_is_fitted(self)
        return self._scores(
            validate_data(self, X, accept_sparse="csr", accept_large_sparse=True, reset=False, dtype=DTYPES, order="C")
        )

    def _scores(self, X: Matrix) -> Floats:
        """Scores of checked rows, shape (n,)."""
        return model_scores(self, X, SpaceParameters.of(self, self._options))[:, 0]

    def _positive_scores(self, matrices: Sequence[Matrix]) -> list[Floats]:
        """Scores of the positive class on checked rows of several sources."""
        return [self._direction() * self._scores(X) for X in matrices]

    def predict(self, X: Features) -> npt.NDArray[Any]:
        """Predicted labels, shape (n,)."""
        check_is_fitted(self)
        return self._labels(self._direction() * self.decision_function(X) > 0.0)

    @available_if(_calibrates)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Features) -> Floats:
        """Calibrated class probabilities, shape (n, 2); only with `calibration="sigmoid"` or `"isotonic"`."""
        check_is_fitted(self)
        assert self.calibrator_ is not None
        return calibrated(self.calibrator_, self.decision_function(X))

    def randomized_proba(self, X: Features) -> Floats:
        """Probabilities with which the randomised classifier names each class, shape (n, 2), columns as `classes_`.

        This is the ramp `clip(1/2 + score, 0, 1)`, a rule of decision, not an estimate of the class probability
        (spec 1, section 5; Appendix A of the paper).
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
        rng = check_random_state(self.random_state if random_state is None else random_state)
        second = self.randomized_proba(X)[:, 1]
        drawn: npt.NDArray[Any] = self.classes_[(rng.random_sample(second.shape[0]) < second).astype(np.intp)]
        return drawn

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

    def _at(self, space: ColumnSpace, w: Floats, b: float) -> Self:
        """The same estimator with another solution."""
        other = copy.copy(self)
        other._adopt_point(space, w, b)
        return other

    def _measured(self, rows: TiedRows) -> Measured:
        """The goal in the rates that are enforced."""
        scores = self._positive_scores(rows.matrices)
        shares = [ramp(z) for z in scores] if self.enforce == "randomized" else [z > 0.0 for z in scores]
        return rows.tied.measure(rows.tied.positive_mass(shares))

    def _adopt(self, space: ColumnSpace, trained: Trained, rows: TiedRows, validated: Validated | None = None) -> None:
        """Set all fitted attributes; the report is on the rows given."""
        self._adopt_point(space, trained.best.w, trained.best.b)
        self._adopt_course(trained)
        scores, tied = self._positive_scores(rows.matrices), rows.tied
        generalization = None
        if validated is None:
            mapped = self.feature_map is not None
            generalization = model_bound(tied, trained, self.enforce, mapped=mapped)
        shares = [ramp(z) for z in scores]
        self._adopt_report(trained, tied, [z > 0.0 for z in scores], shares, generalization, validated)

    def _adopt_course(self, trained: Trained) -> None:
        """How training went."""
        best, solution = trained.best, trained.solution
        self.solver_ = ", ".join(trained.solvers)
        self.subproblem_gap_ = float(solution.subproblem.gap)
        self.certified_point_ = bool(solution.certified and not best.shifted)
        self.status_ = str(trained.status)
        self.n_iter_ = max(trained.search.n_iter, 1)
        self.n_steps_ = trained.search.n_steps
        self.n_rounds_ = trained.search.n_rounds
        self.history_ = trained.search.history

    def _adopt_report(
        self, trained: Trained, tied: TiedGoal, positive: Sequence[Bools], shares: Sequence[Floats],
        generalization: tuple[float, Floats] | None = None, validated: Validated | None = None,
    ) -> None:  # fmt: skip
        """The report, from what is predicted for each entry of each source, by sign and by the ramp."""
        multipliers = trained.problem.multipliers_to_goal(trained.solution.multipliers)
        self.multipliers_ = tied.user_multipliers(multipliers, tied.positive_mass(shares))
        self.guarantee_ = None if validated is None else validated.guarantee
        proved = "" if self.guarantee_ is None else f"{self.guarantee_} Training: "
        self.generalization_bound_ = None if generalization is None else generalization[1]
        notes = () if self.enforce == "deterministic" else (ENFORCED_RAMPS,)
        self.goal_report_: GoalReport = make_report(
            tied, positive, positive_class=self.positive_class_, ramp=shares,
            data_name="training rows" if validated is None else "validation rows",
            multipliers=self.multipliers_, status=self.status_, certificate=proved + certificate_text(trained),
            notes=(*notes, *generalization_note(tied, generalization)),
        )  # fmt: skip

    def _conclude(self, trained: Trained, budget: Budget, validated: Validated | None) -> None:
        options = self._options
        conclude(
            trained, budget, validated, self.infeasibility_, self.goal_report_, self.enforce, tol=options.tol,
            on_infeasible=self.on_infeasible, on_interrupt=options.on_interrupt,
        )  # fmt: skip

    def _note_refit(self, before: Mapping[str, Any]) -> None:
        if "coef_" in before:
            self.previous_coef_, self.previous_intercept_ = before["coef_"], before["intercept_"]
        self.n_refits_ = before.get("n_refits_", 0) + 1

    def _forget_refits(self) -> None:
        """Remove what refits have left: a new fit has no model before it."""
        for name in ("previous_coef_", "previous_intercept_", "n_refits_"):
            self.__dict__.pop(name, None)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the attributes of a stored model, in which the options of training may be parameters."""
        super().__setstate__(gathered(state))

    def _budget(self) -> Budget:
        return Budget(self.time_budget, watchers(self.callbacks, self._options.verbose))
