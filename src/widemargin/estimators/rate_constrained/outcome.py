"""What training leaves on the estimator: fitted attributes, the report, and how it ended as warnings and errors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from widemargin._typing import Floats, Matrix
from widemargin.estimators.rate_constrained.fitting import Trained
from widemargin.estimators.rate_constrained.generalization import generalization_note, model_bound
from widemargin.estimators.rate_constrained.infeasibility import Infeasibility, explain
from widemargin.estimators.rate_constrained.options import TrainingOptions
from widemargin.estimators.rate_constrained.proof import Validated
from widemargin.exceptions import GoalWarning, InfeasibleGoalError, MarginConvergenceWarning
from widemargin.goals._warn import warn
from widemargin.goals.binding.bind import TiedGoal
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.report_of_predictions import make_report
from widemargin.losses.ramp import ramp
from widemargin.solvers.base import Budget, Status

__all__ = ["OutcomeMixin"]

_RANDOMIZED_NOTE = "the bounds were enforced on the ramp rates (predict_randomized), not on those of predict"


class OutcomeMixin:
    """Set what was found, and say how training ended."""

    enforce: str
    feature_map: str | None
    on_infeasible: str
    solver_options: TrainingOptions | Mapping[str, Any] | None
    infeasibility_: Infeasibility | None
    positive_class_: Any
    _positive_scores: Callable[[Sequence[Matrix]], list[Floats]]

    def _adopt(self, trained: Trained, tied: TiedGoal, matrices: Sequence[Any], validated: Validated | None) -> None:
        """Set the fitted attributes, once those of the space are there; the report is on the rows given."""
        self._adopt_course(trained)
        scores = self._positive_scores(matrices)
        soft = [ramp(z) for z in scores]
        mapped = self.feature_map is not None
        generalization = None if validated else model_bound(tied, trained, self.enforce, mapped=mapped)
        self._adopt_report(trained, tied, [z > 0.0 for z in scores], soft, generalization, validated)

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
        self, trained: Trained, tied: TiedGoal, positive: Sequence[Any], soft: Sequence[Any],
        generalization: tuple[float, Any] | None = None, validated: Validated | None = None,
    ) -> None:  # fmt: skip
        """The report, from what is predicted for each entry of each source, by sign and by the ramp."""
        self.multipliers_ = tied.user_multipliers(trained.linear_multipliers(), tied.positive_mass(soft))
        self.guarantee_ = None if validated is None else validated.guarantee
        proved = "" if self.guarantee_ is None else f"{self.guarantee_} Training: "
        self.generalization_bound_ = None if generalization is None else generalization[1]
        notes = () if self.enforce == "deterministic" else (_RANDOMIZED_NOTE,)
        self.goal_report_: GoalReport = make_report(
            tied, positive, positive_class=self.positive_class_, ramp=soft,
            data_name="training rows" if validated is None else "validation rows",
            multipliers=self.multipliers_, status=self.status_, certificate=proved + self._certificate(trained),
            notes=(*notes, *generalization_note(tied, generalization)),
        )  # fmt: skip

    def _certificate(self, trained: Trained) -> str:
        if self.certified_point_:
            point = "the model is that step's solution"
        elif trained.best.how:
            point = trained.best.how
        elif trained.best.shifted:
            point = "the bias was moved afterwards"
        else:
            point = "the model is an earlier step's, which was better"
        return f"gap {self.subproblem_gap_:.1e} of the last convex step ({point}); the ramp problem is solved locally"

    def _conclude(self, trained: Trained, budget: Budget, validated: Validated | None) -> None:
        """Warn or raise according to how training ended."""
        if budget.interrupted:
            warn(f"interrupted after {budget.elapsed:.1f} s; the best model so far is kept.", MarginConvergenceWarning)
            if TrainingOptions.of(self.solver_options).on_interrupt == "raise":
                raise KeyboardInterrupt
            return
        found = self.infeasibility_
        said = f"{'NOT MET' if found else 'met'} on the training rows" if validated is None else validated.standing
        if trained.status in (Status.TIME_LIMIT, Status.STOPPED):
            spent = trained.status == Status.TIME_LIMIT
            cause = "the time budget is spent: raise time_budget" if spent else "by a callback"
            warn(
                f"stopped after {budget.elapsed:.1f} s with gap {self.subproblem_gap_:.1e} and the goal "
                f"{said} ({cause}).",
                MarginConvergenceWarning,
            )
            return
        if found is not None or (validated is not None and not validated.met):
            message = explain(found, self.goal_report_, self.enforce) if found else str(validated and validated.refusal)
            if self.on_infeasible == "raise":
                raise InfeasibleGoalError(message, **(vars(found) if found else {}))
            warn(message, GoalWarning)
        elif trained.status == Status.MAX_ITER:
            warn(
                f"gap {self.subproblem_gap_:.1e} > tol {TrainingOptions.of(self.solver_options).tol:g} in the last "
                "convex step; scale the features or raise tol.",
                MarginConvergenceWarning,
            )
