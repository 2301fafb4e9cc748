"""Which of some candidates is proved to meet a goal on new rows: a fixed sequence of exact tests, and how to say it.

**Fixed sequence.** Candidates (thresholds, mixtures, models with thresholds) are put in an order without a look at the
rows that prove: other rows say which are safest. Each is tested on the rows that prove, one after the other, at the
full level `delta = 1 - confidence`, up to the first that fails. Candidates that violate the goal can only be proved
wrongly if the first of them in the sequence is, and its test fails with probability >= confidence, whatever comes
before and after it. So the level need not be divided by the number of candidates (Maurer, Hothorn and Lehmacher 1995),
nor by the number of constraints, because a candidate is tested as a whole (`goals/measuring/exact_tests.py`). Of those
that are proved the one of best objective may be taken, with a look at all rows.

**The order.** The same search as for estimates looks for the best candidate whose rates on the other rows are on the
right side of every bound by a number of standard errors (those of the rows that prove), for several such numbers. The
candidates are tested in the order of the number by which they pass, the largest first.

**One-sided rates and one threshold.** Where every constraint only gets safer as the threshold moves one way (floors
on recall, ceilings on the positive rate) no order is needed. The thresholds that violate a bound b are a ray, and at
its end the number of failing rows is binomial. The largest number k with `P(Bin(m, b) <= k) <= delta` may therefore be
allowed at all thresholds at once, and for all constraints that get safer the same way, because the longest of their
rays holds the others. Where some get safer one way and some the other, the two ways share delta.

**Constants.** A classifier that decides the same for every row meets some bounds by definition (a difference of groups
is 0). That needs no rows, so it is a candidate outside of the sequence.

**A model by itself.** `Provable` is the verb between `fit` and `predict`: a fitted classifier is proved on rows that
nothing was chosen on.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.stats
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from widemargin._typing import Classifier, Column, Features, Floats, Table
from widemargin.estimators._binary import BinaryGoalMixin, predicted_goal
from widemargin.exceptions import DataError, InfeasibleGoalError
from widemargin.goals import Goal
from widemargin.goals.binding.labels import ordered_classes
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.goals.language.linear import Rate
from widemargin.goals.language.values import number_text
from widemargin.goals.measuring.exact_tests import EITHER, Evidence, Possible, evidence, standard_errors
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.measured_report import make_report
from widemargin.goals.measuring.rates_of_predictions import Measured
from widemargin.rows import Rows

STEPS = (0.39, 0.84, 1.28, 1.55, 1.88, 2.33, 2.75, 3.09, 3.72, 4.26, 4.75, 5.61, 7.0, 9.0, 12.0, 16.0, 22.0, 30.0)
"""Standard errors by which candidates pass their bounds on the rows that put them in order: normal quantiles of
levels from .35 to 1e-8, and beyond, for models look safer than they are on rows that they learned from."""

T = TypeVar("T")


@dataclass(frozen=True)
class Found(Generic[T]):
    """What a search for the best candidate under tightened bounds comes back with.

    Attributes
    ----------
    candidate : object
    met : bool
        Whether the tightened bounds are met.
    positive_mass : ndarray of shape (k,)
        Of its decisions, on the rows that were searched.
    """

    candidate: T
    met: bool
    positive_mass: Floats


@dataclass(frozen=True)
class Judged(Generic[T]):
    """A candidate, measured and tested on the rows that prove."""

    candidate: T
    measured: Measured
    evidence: Sequence[Evidence]

    @classmethod
    def of(
        cls, candidate: T, tied: TiedGoal, positive_mass: Floats, possible: Possible = lambda population: EITHER
    ) -> "Judged[T]":
        """The candidate whose decisions are these."""
        return cls(candidate, tied.measure(positive_mass), evidence(tied, positive_mass, possible))

    @property
    def p_value(self) -> float:
        """Of the hypothesis that some constraint is violated; 1 where one is not even met, or undefined, here."""
        if not self.measured.met.all():
            return 1.0
        # The goal is proved only where every constraint is, so the largest p-value is one of the whole goal
        # (intersection-union test), with no correction for the number of constraints.
        return max((each.p_value for each in self.evidence), default=0.0)


@dataclass(frozen=True)
class Proof(Generic[T]):
    """The candidate chosen.

    Attributes
    ----------
    chosen : Judged
        Of the proved candidates the one of best objective, else the safest.
    met : bool
        Whether it is proved.
    """

    chosen: Judged[T]
    met: bool


def fixed_sequence(
    path: Iterable[T], constants: Iterable[T], test: Callable[[T], Judged[T]], confidence: float
) -> Proof[T]:
    """Test candidates in their order up to the first failure; constants count where definitions settle the goal.

    Parameters
    ----------
    path : iterable
        At least one candidate, safest first.
    """
    delta, proved, first = 1.0 - confidence, [], None
    for candidate in path:
        tested = test(candidate)
        first = first or tested
        # The first failure ends the sequence: a test after it would have to share delta with the tests before.
        if tested.p_value > delta:
            break
        proved.append(tested)
    # A p-value of exactly 0 comes from a definition and not from rows, so it takes nothing of delta.
    proved += [tested for tested in map(test, constants) if tested.p_value == 0.0]
    if not proved:
        assert first is not None
        return Proof(first, False)
    return Proof(min(proved, key=lambda tested: tested.measured.objective), True)


def safest_first(search: Callable[[Floats], Found[T]], tied: TiedGoal, proving: TiedGoal) -> list[T]:
    """Candidates in the order in which they are to be tested.

    Parameters
    ----------
    search : callable
        The best candidate, with bounds tightened by given margins, shape (m,); where none meets them the nearest.
    tied, proving : TiedGoal
        On the rows that are searched, and on those that prove.
    """

    def passed(found: Found[T]) -> float:
        """By how many standard errors a candidate passes the bound that is nearest."""
        return float(np.min(errors_passed(tied, found.positive_mass, proving), initial=np.inf))

    step = search(np.zeros(tied.n_constraints))
    path, seen = [step], [step.positive_mass]

    def passes(size: float) -> bool:
        nonlocal step
        # Standard errors depend on the decisions, and those of the last candidate are the nearest that are known.
        found = search(size * standard_errors(tied, step.positive_mass, proving))
        if found.met:
            step = found
            if not any(np.array_equal(found.positive_mass, mass) for mass in seen):
                seen.append(found.positive_mass)
                path.append(found)
        return found.met

    low, high = 0.0, next((size for size in STEPS if not (step.met and passes(size))), None)
    # The safest candidate of all lies between the last number of standard errors that can be met and the first that
    # cannot: few rows may need just that one.
    if step.met and high is not None:
        low = max((size for size in STEPS if size < high), default=0.0)
        for _ in range(4):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if passes(middle) else (low, middle)
    # A candidate that decides few rows passes a strict bound by few of the standard errors that these few rows leave.
    return [found.candidate for found in sorted(path, key=passed)[::-1]]


def errors_passed(tied: TiedGoal, mass: Floats, proving: TiedGoal) -> Floats:
    """By how many of its own standard errors on the rows that prove a candidate passes each bound, shape (m,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(tied.measure(mass).slack / standard_errors(tied, mass, proving))


def ways(tied: TiedGoal) -> set[float]:
    """The ways in which one threshold may move for constraints to get safer, of a goal of one-sided rates.

    Returns
    -------
    set of float
        +1: up, -1: down, one or both of them; empty where a constraint is about anything else, or there is none.
    """
    found: set[float] = set()
    for item in tied.constraints:
        (factor, rate), *others = item.cleared.form.terms
        # Only one rate that counts decisions of one kind gets safer all the way as the threshold moves one way.
        if others or not isinstance(rate, Rate) or rate.definition.is_count:
            return set()
        if bool(rate.definition.alpha) == bool(rate.definition.beta):
            return set()
        # A higher threshold calls fewer rows positive, which is safer where the form rises with them and is capped.
        rises = (factor * tied.space.turned(rate)[1] > 0.0) == bool(rate.definition.alpha)
        found.add(1.0 if rises == (item.cleared.sense == "<=") else -1.0)
    return found


def one_sided_margins(tied: TiedGoal, confidence: float) -> Floats:
    """By how much to tighten each bound of a goal of one-sided rates, so that it is proved at every threshold.

    With two `ways`, `confidence` is that of each.
    """
    sizes = []
    for item in tied.constraints:
        ((factor, rate),) = item.cleared.form.terms
        assert isinstance(rate, Rate)
        m, limit = int(tied.table.rows[tied.table.place[rate]]), item.cleared.bound / factor
        share = limit if (item.cleared.sense == "<=") == (factor > 0.0) else 1.0 - limit
        # Half a row more than is allowed, so that k failing rows pass and k + 1 fail whatever the rounding of rates.
        sizes.append(abs(factor) * max(0.0, share - (_most_failures(m, share, 1.0 - confidence) + 0.5) / m))
    return np.array(sizes, dtype=np.float64)


def _most_failures(m: int, share: float, delta: float) -> int:
    """Largest k with P(Bin(m, share) <= k) <= delta; -1 where there is none."""
    if share >= 1.0:
        return m
    if share <= 0.0:
        return -1
    k = int(scipy.stats.binom.ppf(delta, m, share))
    return k if scipy.stats.binom.cdf(k, m, share) <= delta else k - 1


def guarantee_text(tied: TiedGoal, proof: Proof[T], confidence: float, *, more: str = "") -> str:
    """The statement proved, with its assumptions.

    Parameters
    ----------
    more : str
        Further sentences, about what is not covered.
    """
    how = "; ".join(
        f"{item.label!r} by {each.method}" + (f" on {each.n_rows} rows" if each.method != "definition" else "")
        for item, each in zip(tied.constraints, proof.chosen.evidence, strict=True)
    )
    left_out = f" {len(tied.dropped)} dropped constraints are not covered." if tied.dropped else ""
    which = "the constraint holds" if tied.n_constraints == 1 else f"all {tied.n_constraints} constraints hold"
    return (
        f"With probability >= {number_text(confidence)} over the draw of the validation rows, {which} in the "
        "distribution that they come from, if these rows are independent draws from it and were used for nothing else "
        f"({how}).{left_out}{more}"
    )


def refusal_text(
    tied: TiedGoal, positive: Predictions, *, refused: str, tried: str, better: str, nearest: str = "the nearest",
    keeping: str = "the nearest", doubt: str = "", rows: str = "validation rows",
) -> str:  # fmt: skip
    """Which constraints the nearest candidate misses by estimate, and by how much, and what can be done.

    Parameters
    ----------
    positive : sequence of ndarray
        What the nearest candidate predicts for each source.
    refused : str
        Such as "no threshold of these scores".
    tried : str
        Which were tried.
    better : str
        What may lead to others, such as "use a better estimator".
    nearest, keeping : str
        The nearest candidate, as the subject and as what is kept.
    doubt : str
        Why there may be others all the same.
    rows : str
        Which they are.
    """
    measured = tied.measure(tied.positive_mass(positive))
    lines = [text for j in range(tied.n_constraints) if (text := _miss(tied, measured, j))]
    return (
        f"{refused} meets the goal on the {tied.n_rows} {rows} ({tried}); {nearest} misses {len(lines)} of "
        f"{tied.n_constraints} constraints: {'; '.join(lines)}.{f' That is no proof: {doubt}.' if doubt else ''} "
        f'Loosen one of them, {better}, or keep {keeping} with on_infeasible="warn".'
    )


def _miss(tied: TiedGoal, measured: Measured, j: int) -> str:
    """What a constraint lacks by estimate; empty where it is met."""
    item, slack = tied.constraints[j], float(measured.slack[j])
    name = "" if item.constraint.label is None else f"{item.label!r}: "
    if np.isnan(slack):
        return f"{name}{item.constraint.text} is undefined (zero denominator)"
    reached = f"{name}{item.constraint.text} reaches {float(measured.value[j]):.4g}"
    return "" if measured.met[j] else f"{reached}, short by {-slack:.2g}"


def unproved_text(
    tied: TiedGoal, proof: Proof[T], confidence: float, *, refused: str, nearest: str = "the safest", keeping: str = ""
) -> str:
    """Which constraints a candidate cannot be shown to meet, and what can be done.

    Parameters
    ----------
    refused : str
        Such as "no threshold of these scores can".
    nearest : str
        The candidate.
    keeping : str
        What `on_infeasible="warn"` keeps, where there is such an option.
    """
    tested, delta, lines = proof.chosen, 1.0 - confidence, []
    for j, (item, each) in enumerate(zip(tied.constraints, tested.evidence, strict=True)):
        if missed := _miss(tied, tested.measured, j):
            lines.append(missed)
        elif each.p_value > delta:
            name = "" if item.constraint.label is None else f"{item.label!r}: "
            lines.append(
                f"{name}{item.constraint.text} reaches {float(tested.measured.value[j]):.4g}, which could be chance: "
                f"p = {each.p_value:.2g}, and {delta:.2g} at most would do ({each.method}, {each.n_rows} rows)"
            )
    text = (
        f"{refused} be shown to meet the goal on the {tied.n_rows} validation rows; {nearest} misses {len(lines)} "
        f"of {tied.n_constraints} constraints: {'; '.join(lines)}."
    )
    keep = f', or keep {keeping} with on_infeasible="warn".' if keeping else "."
    if tested.p_value >= 0.5:
        return f"{text} Nor is it clearly met by estimate. Give looser bounds or a better estimator{keep}"
    # The normal score of a p-value grows with the square root of the number of rows, if the rates stay as they are.
    rows = int(np.ceil(tied.n_rows * (ndtri(delta) / ndtri(tested.p_value)) ** 2))
    return (
        f"{text} If the rates stay as they are, about {rows} validation rows prove it. Give more rows, a lower "
        f"confidence or looser bounds{keep}"
    )


class Provable(BinaryGoalMixin):
    """A fitted classifier with a goal, which fresh rows can prove."""

    goal_: Goal
    status_: str
    baselines: Mapping[str, Classifier] | None
    predict: Any

    def prove(
        self,
        X: Features,
        y: Column,
        populations: Table | None = None,
        external: Mapping[str, Rows] | None = None,
        *,
        confidence: float = 0.95,
    ) -> GoalReport:
        """Prove on fresh rows that the fitted classifier meets its goal in the distribution that they come from.

        One classifier is tested, so nothing is paid for a choice: each constraint has an exact test at the full level,
        and the goal is proved if all tests reject. (`fit` with a `confidence` proves one of several candidates, on rows
        it holds out.) If predictions are random, decisions are drawn once for these rows, and their rates are tested.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n, d)
        y : array-like of shape (n,)
        populations : table with n rows, default=None
            As in `fit`.
        external : dict of str to External, default=None
            Fresh rows of the data sets that the goal names.
        confidence : float in [0.5, 1), default=0.95

        Returns
        -------
        GoalReport
            On these rows; its `certificate` is what is proved, and under which assumptions.

        Raises
        ------
        InfeasibleGoalError
            If the rows do not prove it; the message names what is missing, with p-values and numbers of rows.
        CapabilityError
            If a constraint is about numbers of rows.
        """
        check_is_fitted(self, "goal_report_")
        if not 0.5 <= confidence < 1.0:
            raise DataError(f"confidence={confidence!r} must be at least 0.5 and below 1.")
        rows = Rows(X, y, None, populations, external=external or {}, baselines=self.baselines or {})
        classes = ordered_classes(self.classes_.tolist(), self.positive_class_)
        tied, positive = predicted_goal(self.goal_, rows, classes, self._enforced, getattr(self, "abstain", None))
        proof = fixed_sequence([self], [], lambda _: Judged.of(self, tied, tied.positive_mass(positive)), confidence)
        if not proof.met:
            text = unproved_text(tied, proof, confidence, refused="this classifier cannot", nearest="it")
            raise InfeasibleGoalError(text)
        return make_report(
            tied, positive, positive_class=self.positive_class_, data_name="rows of the proof", status=self.status_,
            certificate=guarantee_text(tied, proof, confidence),
        )  # fmt: skip

    def _enforced(self, X: Features, populations: Table | None) -> npt.NDArray[Any]:
        """Labels by the predictions that the goal is enforced on."""
        return np.asarray(self.predict(X))
