"""Why no model meets the constraints: a proof where there is one, the conflict, and what each constraint could reach.

*Proof.* Every 0/1 or ramp rate is linear in the weight predicted positive in each cell, `0 <= P[c] <= W[c]`. Where no
such P meets the constraints (a linear program), no classifier of any kind does, linear or not, randomised or not. The
program's multipliers are the certificate, and it is checked by hand (`lower_bound`), not taken from the solver.

*Conflict.* The ramp problem itself is solved locally, so what else is said is a finding of searches: for constraint j
of a suspected set S, minimise what j bounds subject to the rest of S. Where the rest is met, j is needed for the
conflict, and the value reached is the best found for j; where it is not, the conflict lies in the rest. A set of which
every member is needed is irreducible. These searches start elsewhere than the first one, so they may also find what it
missed: a model that meets everything.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from widemargin._typing import Floats, Ints
from widemargin.linalg.cells import CellCoefficients
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import ConvexSolver, MajorizeOptions, RampProblem
from widemargin.solvers.ramp.pool import ROUNDING, Candidate, Measures, Pool
from widemargin.solvers.ramp.tightening import enforce

__all__ = ["Diagnosis", "DiagnosisOptions", "diagnose", "impossible_subset", "lower_bound"]


@dataclass(frozen=True)
class DiagnosisOptions:
    """The searches that explain a failure.

    Attributes
    ----------
    proof : float
        Total violation, in rates, from which a certificate counts: far above the rounding of its sums, and far below a
        row.
    near : float
        Excess of the other constraints, in rates, up to which a known model is a good start.
    steps : MajorizeOptions
        Of each search: short and loose, because their values are shown with few digits. A penalty of 3 was measured to
        end nearer than 1, at equal time.
    rounds : int
        Of tightening in each search. Fewer leave bounds of 0/1 rates missed that could be met.
    pulling : float
        Share of the penalty from which a multiplier makes its constraint a suspect. Larger overlooks some, smaller has
        more searches to make.
    searches : int
        Most searches; a failed fit may take several times as long with them.
    """

    proof: float = 1e-7
    near: float = 0.005
    steps: MajorizeOptions = field(default_factory=lambda: MajorizeOptions(steps=4, tol=1e-2, rhos=(3.0, 10.0)))
    rounds: int = 3
    pulling: float = 0.01
    searches: int = 12


OPTIONS = DiagnosisOptions()
"""Those of every fit."""


@dataclass(frozen=True)
class Diagnosis:
    """What was found about a problem of which no model meets the constraints.

    Attributes
    ----------
    conflict : tuple of int
        Constraints that cannot all be met, increasing: by proof, or as far as the searches found.
    irreducible : bool
        Whether for each of them the others can be met together: by some classifier where `proved` (not necessarily a
        linear one), else by a model that was found.
    proved : bool
        Whether no classifier of any kind can meet them on these rows.
    nearest : dict of int to tuple of (w, b)
        For a constraint of the conflict, the models of the pool that meet the others.
    best : Candidate
        Least violation of all that was found, the first search included; 0 where a search found a feasible model.
    """

    conflict: tuple[int, ...]
    irreducible: bool
    proved: bool
    nearest: dict[int, tuple[tuple[Floats, float], ...]]
    best: Candidate


def lower_bound(coef: CellCoefficients, cell_weight: Floats, gamma: Floats, multipliers: Floats) -> float:
    """A lower bound of `sum_j v_j excess_j` over all classifiers, for any `v >= 0` of shape (m,).

    The minimum over `0 <= P[c] <= W[c]` is taken cell by cell. Above 0, no classifier meets the constraints of positive
    multiplier together.
    """
    # Each cell takes the cheaper of its two predictions, whatever the others do.
    positive, negative = np.split(coef.change(multipliers), 2)
    return float(np.minimum(positive, negative) @ cell_weight - multipliers @ gamma)


def impossible_subset(coef: CellCoefficients, cell_weight: Floats, gamma: Floats) -> tuple[int, ...]:
    """Constraints that no classifier of any kind meets together, none of them to spare; empty where none are proved.

    Parameters
    ----------
    cell_weight : ndarray of shape (k,)
    gamma : ndarray of shape (m,)
        Bounds, in rates.

    Returns
    -------
    tuple of int
        Increasing.
    """
    # A proof over all constraints first: without one there is nothing to reduce.
    everything = np.arange(gamma.shape[0])
    left = _certificate(coef, cell_weight, gamma, everything)
    for j in left:
        # a proof without j shows that j is not needed; the proof that is left names fewer constraints
        fewer = _certificate(coef, cell_weight, gamma, left[left != j]) if j in left else left[:0]
        left = fewer if fewer.shape[0] else left
    return tuple(int(j) for j in left)


def _certificate(coef: CellCoefficients, cell_weight: Floats, gamma: Floats, among: Ints) -> Ints:
    """Constraints of positive multiplier in a proof that those `among` contradict each other; empty without one.

    The LP minimises the total violation over the masses P; its multipliers lie in [0, 1].
    """
    if among.shape[0] == 0:
        return among
    # unknowns are the weight P[c] predicted positive in each cell, and the violation of each constraint
    part, k, m = coef.columns(among), coef.n_cells, among.shape[0]
    # What a unit of weight adds to each constraint when it turns positive.
    change = sp.csr_array((part.value, part.column, part.indptr), shape=(k, m)).T
    fixed = part.totals(np.zeros(k), cell_weight, m)[1]
    solved = linprog(
        np.concatenate([np.zeros(k), np.ones(m)]),
        A_ub=sp.hstack([change, -sp.identity(m)]).tocsr(),
        b_ub=gamma[among] - fixed,
        bounds=np.column_stack([np.zeros(k + m), np.concatenate([cell_weight, np.full(m, np.inf)])]),
        method="highs",
    )
    if solved.status != 0 or solved.fun <= OPTIONS.proof:
        return among[:0]
    # the solver's word is not taken for it: any multipliers >= 0 give a lower bound, which is summed up here
    multipliers = np.zeros(gamma.shape[0])
    multipliers[among] = np.clip(-solved.ineqlin.marginals, 0.0, None)
    proved = lower_bound(coef, cell_weight, gamma, multipliers) > 0.5 * OPTIONS.proof
    return np.flatnonzero(multipliers) if proved else among[:0]


@dataclass
class _Search:
    """The models of the pool, and how to find more."""

    problem: RampProblem
    convex: ConvexSolver
    measures: Callable[[RampProblem], Measures]
    budget: Budget
    pool: Pool
    first: Candidate
    searches: int = 0

    @property
    def over(self) -> bool:
        return self.budget.exhausted or self.searches >= OPTIONS.searches

    def denominators(self, among: Collection[int]) -> set[int]:
        """The constraints that keep ratios `among` these from being undefined."""
        owners = self.problem.owners
        first = self.problem.n_constraints - len(owners)
        return {first + i for i, numbers in enumerate(owners) if not {*numbers}.isdisjoint(among)}

    def others(self, suspects: Sequence[int], j: int) -> tuple[int, ...]:
        """All suspects but j, and the denominators of ratios among them: where one is zero, the ratio is not met."""
        return tuple(sorted({*suspects, *self.denominators(suspects)} - {j}))

    def told(self, conflict: tuple[int, ...]) -> tuple[int, ...]:
        """A conflict without the denominators of ratios in it: each of these says that it is defined."""
        return tuple(sorted({*conflict} - self.denominators(conflict)))

    def least(self, j: int, others: Sequence[int]) -> Candidate:
        """Minimise what constraint j bounds subject to others; of all models the one that then comes nearest to j."""
        part = self.problem.restricted(others, objective=j)
        # A known model that meets the others, or nearly, spares the search its first steps.
        near = [model for model in self.pool.members if model.misses(others) <= OPTIONS.near]
        start = min(near, key=lambda model: float(model.excess[j]), default=None)
        of_part = enforce(
            part, self.convex, Pool(self.measures(part)), OPTIONS.steps, rounds=OPTIONS.rounds,
            start=None if start is None else (start.w, start.b), budget=self.budget,
        )  # fmt: skip
        # Told is what was found at best, so as much is tried as for a goal itself.
        of_part.restart(self.budget)
        found = of_part.best
        self.searches += 1
        # Every model is measured by all constraints: it may be the answer to another question.
        values = self.pool.measures.values(found.w, found.b)
        how = "the model is from the search for the least violation"
        # The certificate beside it is of the whole problem: the part has fewer constraints.
        self.pool.add(self.first.moved_to(found.w, found.b, values, how))
        return self.nearest(j, others)

    def nearest(self, j: int, others: Sequence[int]) -> Candidate:
        """The model that misses the others least, and of those that meet them the nearest to the bound of j."""
        return min(self.pool.members, key=lambda model: (model.misses(others), float(model.excess[j])))


def diagnose(
    problem: RampProblem,
    convex: ConvexSolver,
    measures: Callable[[RampProblem], Measures],
    pool: Pool,
    *,
    budget: Budget,
) -> Diagnosis:
    """Find out why the best model found misses constraints.

    Parameters
    ----------
    measures : callable
        Gives the measures (0/1 or ramp rates) of the problem and of its parts.
    pool : Pool
        The models of the search, of which the best violates something. What is found goes into it.
    budget : Budget
        The searches end with it; at most 12 are made.
    """
    found, search = pool.best, _Search(problem, convex, measures, budget, pool, pool.best)
    impossible = impossible_subset(problem.coef, problem.cell_weight, problem.gamma)
    if impossible:
        conflict, irreducible = impossible, True
        for j in search.told(impossible):
            if not search.over:
                search.least(j, search.others(impossible, j))
    else:
        # What is missed is suspect, and so is what pulls hard at the solution.
        solution = found.solution
        suspects = np.flatnonzero((found.excess > ROUNDING) | (solution.multipliers > OPTIONS.pulling * solution.rho))
        conflict, irreducible = _reduce(search, tuple(int(j) for j in suspects))
    # All models that meet the rest of the conflict: which of them comes nearest to a bound is for its own units to say.
    conflict, nearest = search.told(conflict), {}
    for j in conflict:
        rest = search.others(conflict, j)
        nearest[j] = tuple((model.w, model.b) for model in pool.members if model.misses(rest) <= 0.0)
    return Diagnosis(conflict, irreducible, bool(impossible), nearest, pool.best)


def _reduce(search: _Search, suspects: tuple[int, ...]) -> tuple[tuple[int, ...], bool]:
    """A conflict of which every member is needed, and whether the searches got so far.

    The deletion filter for irreducible subsets, with a search in place of each exact test. Where a model meets all the
    suspects, what it misses instead joins them.
    """
    needed: set[int] = set()
    while set(suspects) - needed:
        if search.over:
            return suspects, False
        j = min(set(suspects) - needed)
        others = search.others(suspects, j)
        model = search.least(j, others)
        if model.misses(others) > 0.0:  # no model found meets even the others, so j may be spared
            suspects = tuple(i for i in suspects if i != j)
            continue
        needed.add(j)  # the others can be met together, so the conflict is not there without j
        if model.excess[j] > ROUNDING:
            continue
        # this model meets all suspects, so the conflict lies with what it misses instead
        missed = {int(i) for i in np.flatnonzero(model.excess > ROUNDING)}
        if not missed:
            return (), False
        suspects, needed = tuple(sorted({*suspects, *missed})), set()
    return suspects, True
