"""The pool of models: each one that a search visits is judged by the rates that count, and the best are kept.

What a descent ends with is not always the best it has passed: 0/1 rates follow ramp rates only roughly, and another
bound, or another question ("how large can the precision be?"), may be answered best by a model that was found on the
way to something else. So every model visited goes into one pool, which keeps those that no other beats in every
respect.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Protocol

from widemargin._typing import Floats
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import RampResult

__all__ = ["Candidate", "Measures", "Moves", "Pool"]

ROUNDING = 1e-10
"""Excess (in rates) that counts as rounding."""

by_rank = attrgetter("rank")
"""By which candidates are sorted, the best first."""


@dataclass(frozen=True)
class Candidate:
    """A classifier with its own measures.

    Attributes
    ----------
    objective : float
        In the rates that are enforced (0/1 or ramp).
    excess : ndarray of shape (m,)
        Excess of each constraint over its bound in those rates.
    before_shift : ndarray of shape (m,)
        The same before b was moved: what the bounds are tightened by.
    shifted : bool
        Whether b was moved away from the solver's.
    solution : RampResult
        The ramp solution it comes from.
    how : str
        What was done to the solution besides moving b; empty: nothing.
    """

    w: Floats
    b: float
    objective: float
    excess: Floats
    before_shift: Floats
    shifted: bool
    solution: RampResult
    how: str = ""

    @property
    def violation(self) -> float:
        """Sum of the excesses, rounding left out; 0 where every bound is met."""
        return float(self.excess[self.excess > ROUNDING].sum())

    def misses(self, constraints: Sequence[int]) -> float:
        """Sum of the excesses of these constraints, rounding left out."""
        excess = self.excess[list(constraints)]
        return float(excess[excess > ROUNDING].sum())

    @property
    def rank(self) -> tuple[float, float]:
        """Violation, then objective: the lower, the better."""
        return self.violation, self.objective

    def beats(self, other: "Candidate") -> bool:
        """Less violation, or the same and a lower objective."""
        return self.rank < other.rank

    def moved_to(self, w: Floats, b: float, values: tuple[float, Floats], how: str) -> "Candidate":
        """Another model, measured, beside the certificate of this one's solution."""
        objective, excess = values
        return replace(
            self, w=w, b=b, objective=objective, excess=excess, before_shift=excess, shifted=True, how=how
        )  # fmt: skip

    @property
    def perfect(self) -> bool:
        """Whether every bound is met at an objective of zero: costs are never negative, so nothing can be better."""
        return self.violation <= 0.0 and self.objective <= ROUNDING

    def dominates(self, other: "Candidate") -> bool:
        """At least as good in every respect: no question is answered better by the other."""
        return self.objective <= other.objective and bool((self.excess <= other.excess).all())


class Moves(Protocol):
    """Ways from candidates to others that need no solver, by their own 0/1 rates."""

    def between(self, one: Candidate, other: Candidate) -> Candidate:
        """The best classifier on the segment from one to the other."""

    def polish(self, candidates: Sequence[Candidate], budget: Budget) -> list[Candidate]:
        """What exact moves along lines make of candidates, the first ones first, as far as work allows."""

    def restarted(self, candidate: Candidate, budget: Budget) -> list[Candidate]:
        """What exact moves make of random models around a candidate, as far as work allows."""


class Measures(Protocol):
    """The rates that count."""

    @property
    def moves(self) -> Moves | None:
        """Moves by these rates, where there are any."""

    def judge(self, solution: RampResult) -> Candidate:
        """A candidate made of a ramp solution."""

    def values(self, w: Floats, b: float) -> tuple[float, Floats]:
        """Objective of a model, and its excess of each constraint, shape (m,)."""

    def ramp_objective(self, w: Floats, b: float) -> float:
        """What is minimised over w, with the regulariser: it tells models apart whose rates are equal."""


class Pool:
    """Candidates of one problem.

    Parameters
    ----------
    measures : Measures
        The rates that count.

    Attributes
    ----------
    members : list of Candidate
        Those that no other dominates, in the order in which they came.
    n_rounds, n_steps, n_iter : int
        What all searches into the pool took: rounds of tightening, majorisation steps, iterations.
    history : list of dict
        The majorisation steps.
    """

    def __init__(self, measures: Measures) -> None:
        self.measures = measures
        self.members: list[Candidate] = []
        self._latest: Candidate | None = None
        self._raw: list[Candidate] = []
        self.n_rounds = self.n_steps = self.n_iter = 0
        self.history: list[dict[str, float]] = []

    def count(self, run: "RampResult | Pool") -> None:
        """Add what a descent took, or the searches of another pool."""
        self.n_steps += run.n_steps
        self.n_iter += run.n_iter
        self.history += run.history

    def take_over(self, other: "Pool") -> None:
        """Take in the members of another pool of the same problem, and what its searches took."""
        for member in other.members:
            self.add(member)
        self.n_rounds += other.n_rounds
        self.count(other)

    def judge(self, solution: RampResult) -> Candidate:
        """Judge a solution and take it in; it is kept without its solver's state, two numbers a row."""
        # What one search ends with is what the next begins with, and it is not judged twice.
        if self._latest is None or self._latest.solution.w is not solution.w:
            self._latest = self.measures.judge(solution.without_state())
            self._raw.append(self._latest)
            self.add(self._latest)
        return self._latest

    def add(self, candidate: Candidate) -> None:
        """Take a candidate in, unless a member dominates it; of two with equal rates the wider margins stay."""
        # Many models separate few rows. Of those without an error on 40 to 300 training rows of 17 small tables, the
        # first found, that of the strongest regulariser, erred on 4.6% of the new rows and the one chosen here on 4.3%.
        ramp = self.measures.ramp_objective
        beaten = any(
            member.dominates(candidate)
            and not (candidate.dominates(member) and ramp(candidate.w, candidate.b) < ramp(member.w, member.b))
            for member in self.members
        )
        # The pool stays as small as the set of different answers: what a newcomer beats in every respect goes out with
        # it.
        if not beaten:
            self.members = [member for member in self.members if not candidate.dominates(member)] + [candidate]

    @property
    def best(self) -> Candidate:
        """The member of least violation, and among these of lowest objective."""
        return min(self.members, key=by_rank)

    def add_between(self, one: Candidate, other: Candidate) -> None:
        """Take in the best classifier between two."""
        if self.measures.moves is not None:
            # `between` gives back the first model itself where nothing on the segment is better, and that one is in the
            # pool.
            between = self.measures.moves.between(one, other)
            if between is not one:
                self._raw.append(between)
                self.add(between)

    def polish(self, budget: Budget, most: int) -> None:
        """Improve the best of those judged and not improved yet by exact moves, dominated or not.

        They end in different places, so several are tried.
        """
        if self.measures.moves is not None and not budget.exhausted:
            # Also dominated models are tried: moves from them end in other places than moves from the best one, and
            # sometimes in better ones. Each is tried once.
            self._raw.sort(key=by_rank)
            best, self._raw = self._raw[:most], self._raw[most:]
            for candidate in self.measures.moves.polish(best, budget):
                self.add(candidate)

    def take_in(self, models: Iterable[tuple[Floats, float]], how: str) -> None:
        """Measure models (w, b) that come from elsewhere, beside the certificate of the best, and take them in."""
        # A model from elsewhere has no convex step behind it here, so it stands beside the certificate of the best that
        # has.
        best = self.best
        for w, b in models:
            self.add(best.moved_to(w, b, self.measures.values(w, b), how))

    def restart(self, budget: Budget) -> None:
        """Look for a better model than the best by exact moves from random ones around it."""
        if self.measures.moves is not None and not budget.exhausted:
            for candidate in self.measures.moves.restarted(self.best, budget):
                self.add(candidate)

    def stand_for(self, exact: RampResult) -> None:
        """Let the models so far, ends of loose steps, stand beside the certificate of an exact step."""
        how = "the model is an earlier step's at a stronger regulariser, which was better"
        # The ends of loose steps have certificates of their own, which are loose. What is reported beside a model is
        # the exact one, and its `how` says that the model is not the point of that certificate.
        for models in (self.members, self._raw):
            models[:] = [
                model if model.solution.w is exact.w else replace(model, solution=exact, shifted=True, how=how)
                for model in models
            ]
