"""Several models of the same rows, each with all its thresholds: their best mixture, and the prices of the constraints.

The reduction of a goal to cost-sensitive learning (Algorithm 2 of Goh et al. with any learner inside; Agarwal et al.
2018) asks two things of the models visited so far. At which prices of the constraints should the next one be trained?
And which lottery over them is best? Both are answered by one linear programme,

    min sum_s p_s f_s + rho sum_j x_j   s.t.   sum_s p_s g_sj <= x_j,   sum_s p_s = 1,   p, x >= 0,

in which a column s is a model with a threshold for each group of rows, f_s its objective and g_s the excesses of its
constraints. Its dual variables are the prices. A model adds as many columns as it has thresholds, so they are
generated: at given prices one pass over the sorted scores of a model finds its cheapest column.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.solvers.highs import CutModel
from widemargin.solvers.thresholds.groups import Candidates
from widemargin.solvers.thresholds.mixture import ROUNDING
from widemargin.solvers.thresholds.threshold_sweep import FEASIBLE


@dataclass(frozen=True)
class MixedModels:
    """A lottery over models and thresholds.

    Attributes
    ----------
    model : ndarray of int64, shape (s,)
        Number of the model of each ticket.
    numbers : ndarray of int64, shape (s, n_groups)
        Its candidate (see `Candidates`) in each group.
    probability : ndarray of shape (s,)
        They sum to 1.
    objective : float
        Of the lottery.
    violation : float
        Sum of the excesses.
    value : float
        `objective + rho * violation`; no lottery over the models visited, and so none of them alone, has a smaller one.
    multipliers : ndarray of shape (m,)
        Objective per unit of each constraint, at most `rho`.
    """

    model: Ints
    numbers: Ints
    probability: Floats
    objective: float
    violation: float
    value: float
    multipliers: Floats


@dataclass
class ModelMixture:
    """The linear programme over the models visited so far.

    Attributes
    ----------
    first : int
        Thresholds of a model to begin with, evenly spaced; others come as they are missed.
    gap : float
        By how much a missing column must lower the value to be taken in.
    rounds : int
        Most programmes: a guard against cycling by rounding.
    """

    first: int = 9
    gap: float = 1e-9
    rounds: int = 500
    models: list[Candidates] = field(default_factory=list)
    _columns: list[tuple[int, Ints]] = field(default_factory=list)
    _values: list[tuple[float, Floats]] = field(default_factory=list)
    _cuts: CutModel | None = None
    """The dual of the programme, in which a column is a cut, and the probabilities are the duals of cuts."""

    def add(self, model: Candidates) -> None:
        """Take in a model, at first with a few thresholds from calling nobody positive to calling everybody so."""
        self.models.append(model)
        last = np.diff(model.first) - 1
        spaced = np.round(np.linspace(0.0, 1.0, self.first)[:, None] * last).astype(np.int64)
        self._take(len(self.models) - 1, model.first[:-1] + spaced)

    def _take(self, number: int, several: Ints) -> None:
        """Take in columns of a model, shape (s, n_groups)."""
        objectives, excesses = self.models[number].totals(several)
        self._columns += [(number, numbers) for numbers in several]
        self._values += zip(objectives.tolist(), excesses, strict=True)

    def solve(self, rho: float) -> MixedModels:
        """The best lottery where a unit of excess costs `rho`."""
        self._cuts = self._cuts or CutModel(np.full(self.models[0].n_constraints, rho))
        for j in range(len(self._cuts.top)):
            self._cuts.widen(j, rho)
        for _ in range(self.rounds):
            for column in self._values[self._cuts.number :]:
                self._cuts.add(*column)
            # A column is missing where it is cheaper at these prices than the present lottery.
            value, multipliers, probability = self._cuts.maximise()
            if not self._missing(multipliers, value):
                break
        objective, excess = (np.array(part) for part in zip(*self._values, strict=True))
        # At a vertex of the programme at most m + 1 columns have a positive probability; smaller ones are rounding.
        drawn = np.flatnonzero(probability > FEASIBLE)
        share = probability[drawn] / probability[drawn].sum()
        # The lottery has to meet the constraints in expectation, so excesses are averaged before they are cut off.
        together = share @ excess[drawn]
        together = np.where(together > ROUNDING, together, 0.0)
        return MixedModels(
            np.array([self._columns[k][0] for k in drawn], np.int64),
            np.array([self._columns[k][1] for k in drawn], np.int64),
            share, float(share @ objective[drawn]), float(together.sum()), value, multipliers,
        )  # fmt: skip

    def _missing(self, multipliers: Floats, price: float) -> bool:
        """Take in the cheapest column of each model where it is cheaper than those there are; whether there was one."""
        # Rounding may make a column of the programme look cheaper than its price; it would be added again and again.
        known = {(number, numbers.tobytes()) for number, numbers in self._columns}
        before = len(self._columns)
        for number, model in enumerate(self.models):
            # At fixed prices the groups are independent, so each takes its own cheapest threshold.
            prices = model.prices(1.0, multipliers)
            cheapest = np.array([a + int(np.argmin(prices[a:b])) for a, b in pairwise(model.first)], np.int64)
            cost = model.objective + float(prices[cheapest].sum() + multipliers @ model.excess)
            if cost < price - self.gap and (number, cheapest.tobytes()) not in known:
                self._take(number, cheapest[None])
        return len(self._columns) > before
