"""Collects the measures of a path, point by point."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.goals.binding.tied_goal import TiedConstraint, TiedGoal
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.measuring.rates_of_predictions import form_value
from widemargin.goals.measuring.standard_errors import (
    Influence,
    covariance,
    objective_influence,
    quotient_error,
    slack_variances,
)
from widemargin.goals.measuring.tradeoff_path import Measures

__all__ = ["MeasureLog"]

Arrays = Sequence[npt.NDArray[Any]]


class MeasureLog:
    """Measures of models on one set of rows, in order.

    Parameters
    ----------
    n_rows : int
    with_errors : bool
        Whether standard errors are wanted, for rows that the models were not fitted to.
    """

    def __init__(self, n_rows: int, *, with_errors: bool) -> None:
        self.n_rows = n_rows
        self.with_errors = with_errors
        self._rows: list[dict[str, Any]] = []
        self._influences: list[Influence] = []

    def join(self, other: "MeasureLog") -> None:
        """Append the models of another log on the same rows."""
        self._rows += other._rows
        self._influences += other._influences

    def add(
        self, tied: TiedGoal, positive: Arrays, soft: Arrays, keys: Sequence[Constraint], swept: Sequence[Constraint]
    ) -> None:
        """Measure one model.

        Parameters
        ----------
        tied : TiedGoal
        positive, soft : sequence of ndarray of shape (n_s,)
            For each source, whether each row is predicted positive, and the probability of it by the ramp.
        keys : sequence of Constraint
            The constraints of the path, in order; those not bound here are NaN.
        swept : sequence of Constraint
            Those of the constraints whose level is swept.
        """
        hard, ramp = (tied.measure(tied.positive_mass(part)) for part in (positive, soft))
        place = {item.constraint: j for j, item in enumerate(tied.constraints)}
        columns = [place.get(key, -1) for key in keys]
        row: dict[str, Any] = {"objective": hard.objective, "ramp_objective": ramp.objective}
        row |= {name: _picked(getattr(hard, name), columns) for name in ("value", "bound", "slack")}
        row |= {f"ramp_{name}": _picked(getattr(ramp, name), columns) for name in ("value", "slack")}
        items = [tied.constraints[place[key]] for key in swept if key in place]
        row["reached"], worst = _reached(items, tied, positive)
        row["slack_error"], row["reached_error"] = np.full(len(columns), np.nan), np.nan
        if self.with_errors:
            self._influences.append(objective_influence(tied, positive))
            errors = np.sqrt(slack_variances(tied, positive).sum(axis=0))
            row["slack_error"] = _picked(errors, columns)
            if worst is not None:
                above, below, _ = worst.constraint.compared_with_level()
                own = errors[place[worst.constraint]]
                row["reached_error"] = own if below is None else quotient_error(above, below, tied, positive)
        self._rows.append(row)

    def finish(self) -> Measures:
        """All of it as arrays."""
        k = len(self._rows)
        columns = {name: np.array([row[name] for row in self._rows], dtype=np.float64) for name in self._rows[0]}
        columns["rate"], columns["ramp_rate"] = columns.pop("value"), columns.pop("ramp_value")
        between = covariance(self._influences) if self.with_errors else np.full((k, k), np.nan)
        return Measures(self.n_rows, covariance=between, **columns)


def _picked(values: Floats, columns: Sequence[int]) -> Floats:
    """Some columns; NaN for -1."""
    return np.array([values[j] if j >= 0 else np.nan for j in columns], dtype=np.float64)


def _reached(items: Sequence[TiedConstraint], tied: TiedGoal, positive: Arrays) -> tuple[float, TiedConstraint | None]:
    """The level that predictions reach in the worst of some constraints, and that constraint."""
    values = tied.table.values(tied.positive_mass(positive))
    worst, of = np.nan, None
    for item in items:
        above, below, is_floor = item.constraint.compared_with_level()
        level = float(form_value(above, tied.table, values))
        if below is not None:
            under = float(form_value(below, tied.table, values))
            level = level / under if under > 0.0 else np.nan
        if of is None or (level < worst if is_floor else level > worst):
            worst, of = level, item
    return worst, of
