"""The best linear classifier under a goal, found without any descent: all of them tried, or a mixed-integer program.

What a search under a goal is judged by. The rates are counted row by row from their definitions (`naive_rates`), not by
the library's tables; of the library only the goal and its binding (which expands bundles) are used.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import highspy
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from testing.naive_rates import NaiveSource, naive_holds

from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.linear import Linear, Rate, Ratio

__all__ = ["CountedGoal", "MilpAnswer", "RowCounter", "best_of", "dichotomies", "milp_best"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

ROUNDING = 1e-9
"""Excess that counts as none: the rates are sums of at most some 10^5 products in double precision."""

FORMULAS: dict[str, tuple[str, str, str]] = {
    "positive_rate": ("all", "", "all"),
    "negative_rate": ("", "all", "all"),
    "error_rate": ("-", "+", "+ -"),
    "accuracy": ("+", "-", "+ -"),
    "recall": ("+", "", "+"),
    "false_positive_rate": ("-", "", "-"),
    "true_negative_rate": ("", "-", "-"),
    "false_negative_rate": ("", "+", "+"),
    "churn": ("said -", "said +", "all"),
    "win_rate": ("+ said -", "- said +", "+ -"),
    "loss_rate": ("- said -", "+ said +", "+ -"),
    "errors": ("-", "+", ""),
    "true_positives": ("+", "", ""),
    "false_positives": ("-", "", ""),
    "true_negatives": ("", "-", ""),
    "false_negatives": ("", "+", ""),
    "wins": ("+ said -", "- said +", ""),
    "losses": ("- said -", "+ said +", ""),
    "changes": ("said -", "said +", ""),
    "confusion": ("+", "", "+"),
    "decision_rate": ("all", "all", "all"),
    "decisions": ("all", "all", ""),
    "margin_below": ("said +", "said +", "all"),
    "certified_rate": ("said +", "said +", "all"),
}
"""Rows that count when predicted positive, when predicted negative, and in the denominator (none: a count)."""

POSITIVE_ONES = {"positive_rate", "recall", "false_positive_rate", "true_positives", "false_positives"}
"""What a population without positive predictions has none of, so that a multiple of it promises nothing."""


class RowSum(NamedTuple):
    """A linear form of predictions: `gain @ p + base` for p of shape (n,), 1 where a row is predicted positive."""

    gain: Floats
    base: float


@dataclass(frozen=True, eq=False)
class CountedGoal:
    """A goal as sums over the n rows of all sources, one source after the other.

    Attributes
    ----------
    gain, base : ndarray of shape (1 + m, n), (1 + m,)
        The objective, then the slack of each constraint without its denominator.
    below_gain, below_base : ndarray of shape (m, n), (m,)
        Denominators, which have to be positive; 1 where there is none.
    divided : ndarray of bool, shape (m,)
        Whether the slack is divided by the denominator: that of a ratio is, `a >= k * b` only asks that b is not zero.
    """

    gain: Floats
    base: Floats
    below_gain: Floats
    below_base: Floats
    divided: Bools

    def measure(self, positive: npt.NDArray[np.generic]) -> tuple[Floats, Floats]:
        """Objectives (k,) and slacks (m, k) of k classifiers, shape (n, k); an undefined slack is -inf."""
        p = positive.astype(np.float64)
        return self._standing(self.gain @ p, self.below_gain @ p)

    def _standing(self, above: Floats, below: Floats) -> tuple[Floats, Floats]:
        above, below = above + self.base[:, None], below + self.below_base[:, None]
        slack, shared = above[1:], np.where(self.divided[:, None], below, 1.0)
        slack = np.divide(slack, shared, out=np.full_like(slack, -np.inf), where=below > ROUNDING)
        slack[below <= ROUNDING] = -np.inf
        return above[0], slack

    def best_threshold(self, scores: Floats) -> tuple[float, float, float]:
        """Objective, least slack and the best of all thresholds (scores above are positive), by 0/1 terms.

        That is the least objective where some meet every bound, otherwise the largest least slack. Without constraints
        the slack is inf.
        """
        order = np.argsort(-scores, kind="stable")
        ordered = scores[order]
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
        above, below = (
            np.concatenate([np.zeros((len(gain), 1)), np.cumsum(gain[:, order], axis=1)[:, ends]], axis=1)
            for gain in (self.gain, self.below_gain)
        )
        objective, slack = self._standing(above, below)
        least = slack.min(axis=0, initial=np.inf)
        met = np.flatnonzero(least >= -ROUNDING)
        at = met[np.argmin(objective[met])] if len(met) else np.argmax(least)
        threshold = np.append(ordered, -np.inf)[ends[at - 1] + 1] if at else np.inf
        return float(objective[at]), float(least[at]), float(threshold)

    def merged(self, point: npt.NDArray[np.intp]) -> "CountedGoal":
        """The same over the points that rows are: `point[i]` is that of row i."""
        onto = sp.csr_array((np.ones(len(point)), (np.arange(len(point)), point)))
        return CountedGoal(self.gain @ onto, self.base, self.below_gain @ onto, self.below_base, self.divided)


class RowCounter:
    """Counts of the rows of some sources, each asked about once.

    Parameters
    ----------
    sources : mapping of source name to NaiveSource
        In the order of the rows.
    """

    def __init__(self, sources: Mapping[str | None, NaiveSource]) -> None:
        self._sources, self._inside = sources, dict[object, Bools]()
        ends = np.cumsum([0, *(source.n_rows for source in sources.values())])
        self._place = {name: slice(*ends[i : i + 2].tolist()) for i, name in enumerate(sources)}
        self._n_rows = int(ends[-1])

    def count(self, tied: TiedGoal) -> CountedGoal:
        """The objective and the constraints (bundles expanded) of a goal that was tied to the same rows."""
        objective, m = self._form(tied.goal.objective), tied.n_constraints
        gain, base = np.zeros((1 + m, self._n_rows)), np.zeros(1 + m)
        below_gain, below_base, divided = np.zeros((m, self._n_rows)), np.ones(m), np.zeros(m, bool)
        gain[0], base[0] = objective
        for j, item in enumerate(tied.constraints):
            (gain[1 + j], base[1 + j]), below, divided[j] = self._constraint(item.constraint)
            if below is not None:
                below_gain[j], below_base[j] = below
        return CountedGoal(gain, base, below_gain, below_base, divided)

    def _constraint(self, constraint: Constraint) -> tuple[RowSum, RowSum | None, bool]:
        """Slack (cleared of a ratio), denominator, and whether the one is over the other."""
        sign = 1.0 if constraint.sense == ">=" else -1.0
        sides = constraint.lhs, constraint.rhs
        ratios = [(c, atom) for side in sides for c, atom in side.terms if isinstance(atom, Ratio)]
        if ratios:
            [(factor, ratio)] = ratios
            factor *= 1.0 if constraint.lhs.terms else -1.0
            target = (constraint.rhs.constant - constraint.lhs.constant) / factor
            above, below = self._form(ratio.numerator), self._form(ratio.denominator)
            return _sum([(sign * np.sign(factor), above), (-sign * np.sign(factor) * target, below)]), below, True
        slack = _sum([(sign, self._form(sides[0])), (-sign, self._form(sides[1]))])
        # "The rate of a is at least k times that of b" says nothing where nobody in b is predicted positive.
        if all(len(side.terms) == 1 and side.constant == 0.0 and side.terms[0][0] > 0.0 for side in sides):
            (_, one), (factor, other) = sides[0].terms[0], sides[1].terms[0]
            same = isinstance(one, Rate) and isinstance(other, Rate) and one.metric == other.metric
            if same and one.metric in POSITIVE_ONES:
                compared = one if factor == 1.0 != sides[0].terms[0][0] else other
                return slack, self._form(Linear(((1.0, compared),))), False
        return slack, None, False

    def _form(self, form: Linear) -> RowSum:
        nothing = RowSum(np.zeros(self._n_rows), form.constant)
        return _sum([(1.0, nothing), *((c, self._rate(atom)) for c, atom in form.terms if isinstance(atom, Rate))])

    def _rate(self, rate: Rate) -> RowSum:
        source, where = self._sources[rate.population.source], rate.population.where
        key = rate.population.source, where
        if key not in self._inside:
            holds = (naive_holds(where, source, row) is True for row in range(source.n_rows))
            self._inside[key] = np.fromiter(holds, bool, source.n_rows)
        inside = self._inside[key]
        label = np.array([0] * source.n_rows if source.labels is None else [y or 0 for y in source.labels])
        weight = np.array([source.weight_of(row) for row in range(source.n_rows)])
        said = None if rate.baseline is None else np.asarray(source.baselines[rate.baseline])
        inside = inside & (label != 0) if getattr(rate, "labelled", False) else inside
        plus, minus, over = (inside & _which(rows, label, said) for rows in FORMULAS[rate.metric])
        scale = float(weight @ over) if FORMULAS[rate.metric][2] else 1.0
        gain = np.zeros(self._n_rows)
        gain[self._place[rate.population.source]] = weight * (plus.astype(float) - minus) / scale
        return RowSum(gain, float(weight @ minus) / scale)


def _sum(parts: Sequence[tuple[float, RowSum]]) -> RowSum:
    gain, base = np.zeros_like(parts[0][1].gain), 0.0
    for factor, part in parts:
        gain += factor * part.gain
        base += factor * part.base
    return RowSum(gain, base)


def _which(rows: str, label: npt.NDArray[np.int64], said: npt.NDArray[np.int64] | None) -> Bools:
    """Rows as `FORMULAS` names them."""
    if said is not None and "said" in rows:
        own, _, other = rows.partition("said ")
        return _which(own.strip() or "all", label, None) & (said == (1 if other == "+" else -1))
    if rows in ("", "all"):
        return np.full(label.shape, rows == "all")
    return np.isin(label, [{"+": 1, "-": -1}[sign] for sign in rows.split()])


def dichotomies(points: Floats) -> Bools:
    """All ways in which a hyperplane can divide points, each once.

    Every one is a hyperplane through d independent points, moved by nothing: on either side everything but the points
    on it, and these in turn divided in every way in which a hyperplane of one dimension less can.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        Different ones. Up to 300 in two dimensions and 100 in three take seconds.

    Returns
    -------
    ndarray of bool, shape (n, k)
        Which points are on the positive side; n points in general position have `2 sum_{i <= d} binom(n - 1, i)`.
    """
    packed = np.concatenate([np.packbits(part, axis=0) for part in _through_points(points)], axis=1)
    # As texts of one length: those are compared fifteen times sooner than the columns of `np.unique(..., axis=1)`.
    texts = np.unique(np.ascontiguousarray(packed.T).view(f"S{len(packed)}"))
    different = texts.view(np.uint8).reshape(-1, len(packed)).T
    return np.unpackbits(different, axis=0, count=len(points)).astype(bool)


def _through_points(points: Floats) -> Iterator[Bools]:
    n = len(points)
    _, spread, axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    points = points @ axes[spread > 1e-9 * max(spread[0], 1e-300)].T  # in as many dimensions as they span
    d = points.shape[1]
    if d == 0:
        yield np.array([[False, True]] * n)
    elif d == 1:
        above = points > np.append(points[:, 0], -np.inf)
        yield from (above, ~above)
    tolerance = 1e-9 * np.abs(points).max(initial=0.0)
    crowded: set[bytes] = set()
    for first in range(n - d + 1 if d > 1 else 0):
        others = np.array(list(itertools.combinations(range(first + 1, n), d - 1)))
        across = points[others] - points[first]
        _, length, bases = np.linalg.svd(across)
        scores = (points - points[first]) @ bases[:, -1].T
        on = np.abs(scores) <= tolerance
        spanned = length[:, -1] > 1e-9 * length[:, 0]
        plain = spanned & (on.sum(axis=0) == d)
        side = scores[:, plain] > 0.0
        through = np.column_stack([np.full(plain.sum(), first), others[plain]]).T
        for chosen in itertools.product([False, True], repeat=d):
            side[through, np.arange(side.shape[1])] = np.array(chosen)[:, None]
            yield from (side.copy(), ~side)
        for j in np.flatnonzero(spanned & ~plain):
            if (key := np.packbits(on[:, j]).tobytes()) not in crowded:
                crowded.add(key)
                for part in _through_points(points[on[:, j]]):
                    whole = np.repeat(scores[:, j : j + 1] > 0.0, part.shape[1], axis=1)
                    whole[on[:, j]] = part
                    yield whole
                    whole = ~whole
                    whole[on[:, j]] = part
                    yield whole


def best_of(goal: CountedGoal, classifiers: Bools) -> float | None:
    """Least objective of the classifiers, shape (n, k), that meet every bound; None where none does."""
    best = np.inf
    for low in range(0, classifiers.shape[1], 4096):
        objective, slack = goal.measure(classifiers[:, low : low + 4096])
        met = (slack >= -ROUNDING).all(axis=0)
        best = min(best, float(objective[met].min(initial=np.inf)))
    return None if np.isinf(best) else best


class MilpAnswer(NamedTuple):
    """The best linear classifier that was found, and what none can go below.

    Attributes
    ----------
    objective : float or None
        Of a classifier that meets every bound; None where none was found.
    lower_bound : float
        inf where there is none. Over the classifiers of margin >= `margin` in features scaled to [-1, 1].
    scores : ndarray of shape (n,)
        Of the classifier found.
    """

    objective: float | None
    lower_bound: float
    scores: Floats


def milp_best(
    goal: CountedGoal, points: Floats, seconds: float, start: tuple[Floats, float] | None = None, margin: float = 1e-3
) -> MilpAnswer:
    """Search for the best linear classifier under a goal by HiGHS: one binary variable a point.

    Parameters
    ----------
    goal : CountedGoal
        Of these points, see `CountedGoal.merged`.
    points : ndarray of shape (n, d)
    seconds : float
        After which what was found is returned.
    start : (w, b), optional
        A classifier `<w, x> > b` to begin with.
    margin : float
        Least distance from zero of a score `<w, x> - b` with `|w_j| <= 1` in scaled features. Smaller ones drown in
        the tolerance of integers times the largest score.
    """
    n, d = points.shape
    scale = np.maximum(np.abs(points).max(axis=0), 1e-12)
    X = np.column_stack([points / scale, -np.ones(n)])
    reach = np.abs(X[:, :d]).sum(axis=1)
    most_b = float(reach.max()) + margin
    most = reach + most_b + margin
    spread = np.abs(goal.below_gain)
    least = 0.5 * spread.min(axis=1, where=spread > 0.0, initial=np.inf)
    has_below = np.isfinite(least)
    rows = sp.vstack([
        sp.hstack([X, -sp.diags(most)]), sp.hstack([X, -sp.diags(most)]),
        sp.hstack([sp.csr_array((len(goal.gain) - 1 + int(has_below.sum()), d + 1)),
                   np.vstack([goal.gain[1:], goal.below_gain[has_below]])]),
    ]).tocsr()  # fmt: skip
    low = np.concatenate(
        [margin - most, np.full(n, -np.inf), -goal.base[1:] - ROUNDING, (least - goal.below_base)[has_below]]
    )
    high = np.concatenate([np.full(n, np.inf), np.full(n, -margin), np.full(len(low) - 2 * n, np.inf)])
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = d + 1 + n, len(low)
    program.col_cost_ = np.concatenate([np.zeros(d + 1), goal.gain[0]])
    program.offset_ = float(goal.base[0])
    program.col_lower_ = np.concatenate([np.full(d, -1.0), [-most_b], np.zeros(n)])
    program.col_upper_ = np.concatenate([np.ones(d), [most_b], np.ones(n)])
    program.row_lower_, program.row_upper_ = low, high
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_, program.a_matrix_.index_, program.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    program.integrality_ = [highspy.HighsVarType.kContinuous] * (d + 1) + [highspy.HighsVarType.kInteger] * n
    model = highspy.Highs()
    for name, value in {"output_flag": False, "threads": 1, "time_limit": float(seconds)}.items():
        model.setOptionValue(name, value)
    model.passModel(program)
    if start is not None:
        w = np.append(start[0] * scale, start[1])
        w = w / max(np.abs(w[:d]).max(), abs(w[d]) / most_b, 1e-300)
        given = highspy.HighsSolution()
        given.col_value = np.concatenate([w, X @ w > 0.0]).tolist()
        model.setSolution(given)
    model.run()
    info, none = model.getInfo(), np.full(n, -1.0)
    if model.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return MilpAnswer(None, np.inf, none)
    found = np.asarray(model.getSolution().col_value)
    if len(found) != d + 1 + n or info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return MilpAnswer(None, float(info.mip_dual_bound), none)
    scores = X @ found[: d + 1]
    objective, slack = goal.measure((scores > 0.0)[:, None])
    met = bool((slack >= -ROUNDING).all())
    return MilpAnswer(float(objective[0]) if met else None, float(info.mip_dual_bound), scores)
