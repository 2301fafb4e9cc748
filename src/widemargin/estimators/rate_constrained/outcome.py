"""What is said of how training ended: certificate, a bound on new rows without any held out, why a goal is missed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._typing import Floats, Ints, Matrix
from widemargin.distributed.blocks import BlockedRows
from widemargin.estimators.rate_constrained.training import TiedRows, Trained
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.rates_of_predictions import Measured
from widemargin.linalg import cholesky
from widemargin.solvers.ramp.tightening import at_limit


def certificate_text(trained: Trained) -> str:
    """What is proved of the model, and of which point."""
    best, solution = trained.best, trained.solution
    point = best.how or "the model is an earlier step's, which was better"
    if best.shifted and not best.how:
        point = "the bias was moved afterwards"
    if solution.certified and not best.shifted:
        point = "the model is that step's solution"
    step = "the last convex step"
    if isinstance(trained.problem.rows, BlockedRows):  # which bounds it had would take another pass over the rows
        step += " (its bounds may have been moved)" if trained.pool.n_rounds else ""
    else:
        w, b = solution.w, solution.b
        asked = trained.problem.ramp_values(w, trained.problem.scores(w, b))[1]
        # The solver measured excesses by the bounds that it had.
        moved = solution.excess - asked
        ends = ("tightened", moved.max(initial=0.0)), ("loosened", -moved.min(initial=0.0))
        changes = [f"{how} by up to {by:.2g}" for how, by in ends if by > 1e-9]
        if changes:
            step += f", whose bounds were {' and '.join(changes)} so that the enforced rates meet yours"
    return f"gap {solution.subproblem.gap:.1e} of {step} ({point}); the ramp problem is solved locally"


def left_out_scores(trained: Trained, rows: TiedRows, scores: Sequence[Floats]) -> list[Floats]:
    """Scores that each row would about get from the model trained without it, by one Newton step.

    A row inside of the ramp pulls the model to its side by its leverage, and that is how training rows flatter. The
    intercept does not move: it was chosen by the 0/1 rates of all rows, and one of them does not change that.

    Parameters
    ----------
    scores : sequence of ndarray of shape (n_s,)
        Those of the model, for each source.

    Returns
    -------
    list of ndarray of shape (n_s,)
        The scores themselves where there are too many columns for a dense system.
    """
    problem, tied = trained.problem, rows.tied
    d = rows.matrices[0].shape[1]
    # The system takes n d^2 operations; from here on it would cost as much as training does.
    if d > 1000 or sum(len(z) for z in scores) * d**2 > 4e9:
        return list(scores)
    A, B = tied.coefficients.per_cell(problem.multipliers_to_goal(trained.solution.multipliers))
    # The kinks of the hinges are spread over half a margin, as wide as the rows around them are alike. Half of their
    # bend is left: the ramp bends down where a hinge does not, and so lets go of a row more easily. With half of it a
    # recall of .72 on 1000 rows of 30 columns was foretold as .64 (with all of it .68) and was .60 on new rows.
    width, bend_left = 0.5, 0.5
    near = [(np.abs(z + 0.5) <= width / 2.0, np.abs(z - 0.5) <= width / 2.0) for z in scores]
    weights = [part.weights for part in tied.sources]
    bend = [
        s * (A[part.cell] * low + B[part.cell] * high) * bend_left / width
        for s, part, (low, high) in zip(weights, tied.sources, near, strict=True)
    ]
    if not any(c.any() for c in bend):  # no row is near a kink, so a Newton step knows of the regulariser alone
        return list(scores)
    system = np.diag(np.full(d, problem.lam * problem.objective_scale))
    pulls, centre = [], np.asarray(rows.matrices[0].mean(axis=0)).ravel()
    for X, c, s, z, part in zip(rows.matrices, bend, weights, scores, tied.sources, strict=True):
        some = np.flatnonzero(c)
        dense = _centred(X, some, centre)
        system += dense.T @ (c[some, None] * dense)
        pulls.append(s * (A[part.cell] - B[part.cell]) * (np.abs(z) < 0.5))
    factor = cholesky.factor(system)
    moved, steps = [], []
    for X, c, g, z in zip(rows.matrices, bend, pulls, scores, strict=True):
        some, away = np.flatnonzero(g), z.copy()
        dense = _centred(X, some, centre)
        leverage = np.einsum("ij,ji->i", dense, cholesky.solve(factor, dense.T))
        steps.append(leverage * g[some] / np.maximum(1.0 - leverage * c[some], 0.1))
        away[some] += steps[-1]
        moved.append(away)
    # Where half of them would leave the ramp by its whole width, the model is no optimum of this problem (a larger
    # regulariser on the way to it has led there), and its Newton step says nothing.
    far = np.abs(np.concatenate(steps)) > 1.0
    return list(scores) if far.size and far.mean() > 0.5 else moved


def _centred(X: Matrix, rows: Ints, centre: Floats) -> Floats:
    """Some rows, dense, less their centre: the intercept takes that up."""
    part: Any = X[rows]
    return np.asarray((part.toarray() if sp.issparse(part) else part) - centre)


@dataclass(frozen=True)
class Infeasibility:
    """Why a goal was not met on the training rows. Constraints go by their labels, as in the goal report.

    Attributes
    ----------
    violations : dict of str to float or None
        By how much `predict` of the best model found misses its bounds, in each constraint's own units; None where a
        ratio is undefined. The constraints that it meets are left out.
    ramp_violations : dict of str to float or None
        The same for `predict_randomized`, in expectation.
    conflict : tuple of str
        Constraints that cannot all be met: by proof where `proved`, else as far as the searches found. "denominator of
        ... > 0" is one of them where a ratio cannot be defined.
    irreducible : bool
        Whether the conflict without any one of its constraints can be met: by a model that was found, or, where
        `proved`, by some classifier, which need not be linear.
    proved : bool
        Whether it is proved that no classifier of any kind meets the conflict on these rows; else no start reached a
        feasible model.
    best_values : dict of str to float
        For a constraint of the conflict, the best value found while the rest of the conflict is met.
    asked : dict of str to float
        The bounds that `best_values` were compared with, at the same models.
    """

    violations: dict[str, float | None]
    ramp_violations: dict[str, float | None]
    conflict: tuple[str, ...] = ()
    irreducible: bool = False
    proved: bool = False
    best_values: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, fit for JSON; `from_dict` reads them."""
        return asdict(self) | {"conflict": list(self.conflict)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Infeasibility":
        """What `to_dict` was called on."""
        return cls(**{**plain, "conflict": tuple(plain["conflict"])})


def find_out(
    trained: Trained, report: GoalReport, enforce: str, measured: Callable[[Floats, float], Measured]
) -> Infeasibility | None:
    """What is known about why the goal is not met; None where it is met.

    Parameters
    ----------
    report : GoalReport
        Of the model, on the training rows.
    enforce : {"deterministic", "randomized"}
    measured : callable
        Measures another solution (w, b) like the model: in the user's units, by the rates that are enforced.
    """
    soft, items, diagnosis = enforce == "randomized", report.constraints, trained.diagnosis
    missed = [not (item.ramp_met if soft else item.met) for item in items]
    if not any(missed):
        return None
    hard_ones = {item.label: None if item.slack is None else -item.slack for item in items if not item.met}
    soft_ones = {
        item.label: None if item.ramp_slack is None else -item.ramp_slack for item in items if not item.ramp_met
    }
    if diagnosis is None:
        limit = at_limit(trained.solution)[: len(items)]
        pulling = [item.label for item, end, miss in zip(items, limit, missed, strict=True) if end or miss]
        return Infeasibility(hard_ones, soft_ones, tuple(pulling))
    values, bounds, owners = {}, {}, trained.problem.owners
    for j, models in diagnosis.nearest.items():
        if j >= len(items):  # of a denominator there is no value to tell, it is zero
            continue
        # The best by the constraint's own units: of ratios the cleared form, which is searched by, ranks otherwise.
        reached = [at for at in (measured(w, b) for w, b in models) if not at.undefined[j]]
        if reached:
            at = max(reached, key=lambda at: float(at.slack[j]))
            values[items[j].label], bounds[items[j].label] = float(at.value[j]), float(at.bound[j])
    conflict = tuple(
        items[j].label if j < len(items) else f"denominator of {items[owners[j - len(items)][0]].label} > 0"
        for j in diagnosis.conflict
    )
    return Infeasibility(hard_ones, soft_ones, conflict, diagnosis.irreducible, diagnosis.proved, values, bounds)


def explain(why: Infeasibility, report: GoalReport, enforce: str, more_room: str = "raise C", longest: int = 6) -> str:
    """A message: what the best model misses, which constraints pull against each other, and what each could reach.

    Of a conflict at most `longest` values are listed. `more_room` says how to fit rows more closely, if at all.
    """
    soft, lines = enforce == "randomized", []
    for item in report.constraints:
        met, rate, slack = (
            (item.ramp_met, item.ramp_rate, item.ramp_slack) if soft else (item.met, item.rate, item.slack)
        )
        if not met:
            name = "" if item.label.startswith("#") else f"{item.label!r}: "
            reached = "is undefined (zero denominator)"
            if rate is not None and slack is not None:
                reached = f"reaches {rate:.4g}, short by {-slack:.2g}"
            lines.append(f"{name}{item.text} {reached}")
    names = {label: label if label.startswith("#") else repr(label) for label in why.conflict}
    conflict = ""
    if len(names) > 1 or (names and why.best_values):
        conflict = f"In conflict: {', '.join(names.values())}"
        if len(names) == 1:
            conflict = f"{names[why.conflict[0]]} is not met even by itself"
        values = []
        for label in [label for label in why.conflict if label in why.best_values][:longest]:
            others = [names[other] for other in why.conflict if other != label]
            rest = "" if not others else f"with {others[0] if len(others) == 1 else 'the others'} met "
            best = "largest" if report[label].sense == ">=" else "smallest"
            at = f"{why.best_values[label]:.4g} (asked {why.asked[label]:.4g})"
            values.append(f"{rest}the {best} {names[label]} found is {at}")
        conflict += f": {'; '.join(values)}. " if values else ". "
    if why.proved:
        standing, cure = "Proved: no classifier of any kind meets these together on these rows.", ""
    else:
        standing = "The search is local: no start reached a feasible model, which is no proof that none exists."
        cure = f" add features,{f' {more_room},' * bool(more_room)}"
    return (
        f"no model that meets the goal on the training rows was found; {len(lines)} of {len(report.constraints)} "
        f"constraints are missed by the best one: {'; '.join(lines)}. {conflict}({standing}) Loosen one of them,{cure} "
        'or keep this model with on_infeasible="warn".'
    )
