"""Which rows share a threshold: the groups of a threshold classifier, found at `fit` and looked up at prediction.

A group is a population with a condition on columns alone. Every row belongs to exactly one; rows that belong to none
(a missing or new value) or to several are refused, because no threshold was chosen for them.

Where the groups of new rows are unknown, thresholds are mixed by predicted probabilities. The best classifier that may
not see the group calls x positive where `P(y | x) - 1/2 > sum_g price_g P(g | x)` under demographic parity (Lipton et
al., "Does mitigating ML's impact disparity require treatment disparity?", NeurIPS 2018; Chzhen et al., "Leveraging
labeled and unlabeled data for consistent fair binary classification", NeurIPS 2019), so a row's threshold is the mean
of one threshold for each group, weighted by the probabilities of its groups. Such rules are linear in the score and the
probabilities: the search for rate-constrained classifiers finds them."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from widemargin._text import listing
from widemargin._typing import Features, Floats, Ints
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.training import Plan, TiedRows, train
from widemargin.estimators.thresholds.rule import Rule
from widemargin.estimators.thresholds.scores import FOLDS, cross_scores, fit_scorer, refuse_infinite
from widemargin.exceptions import DataError, GoalError
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable, TableColumn
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import OfColumn, col
from widemargin.rows import Rows, take
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import MajorizeOptions


def find_groups(per_population: Any, X: Any, populations: Any, n_rows: int, most: int = 1000) -> tuple[Population, ...]:
    """The groups of rows that get a threshold of their own.

    Parameters
    ----------
    per_population : str, int or sequence of Population
        A column, whose distinct values are the groups, or the groups themselves.
    X, populations
        Where the column is looked up, as for a goal.

    Raises
    ------
    DataError
        If there is no such table, a column has no values or more than `most`, or a list holds something else.
    GoalError
        If a population is external, or its condition looks at labels or baselines, which prediction has not.
    """
    if isinstance(per_population, str | int):
        table = PopulationTable.build(populations, X, n_rows=n_rows)
        if table is None:
            raise DataError(
                f"per_population={per_population!r} names a column, and there is no table; give populations=table, or "
                "X as a data frame."
            )
        values = table.column(per_population).distinct()
        if not 1 <= len(values) <= most:
            raise DataError(
                f"column {per_population!r} has {len(values)} different values, and each would get a threshold; name "
                f"a column with 1 to {most}."
            )
        return tuple(Population(str(value).strip() or "blank", where=col(per_population) == value) for value in values)
    groups = tuple(per_population)
    for group in groups:
        if not isinstance(group, Population):
            raise DataError(
                f"per_population holds a {type(group).__name__}, {group!r:.40}; give a sequence of populations, or the "
                "name of one column by itself, per_population='region' say."
            )
        if group.source is not None or group.where is None or group.uses_label or group.baselines:
            raise GoalError(
                f"per_population: {group.reference} is no condition on columns alone, and nothing else is known at "
                "prediction. Give populations like Population(name, where=col(...) == ...)."
            )
    if not groups:
        raise DataError("per_population holds 0 populations; give at least one, or None for one threshold.")
    return groups


def group_numbers(
    groups: Sequence[Population] | None, X: Any, populations: Any, n_rows: int, *, may_lack: bool = False
) -> Ints:
    """Number of the group of each row, shape (n,); 0 without groups, -1 where it belongs to none and may.

    Raises
    ------
    DataError
        If rows belong to no group or to several.
    GoalError
        If a column is missing or of another type.
    """
    if groups is None or n_rows == 0:
        return np.zeros(n_rows, np.int64)
    table = PopulationTable.build(populations, X, n_rows=n_rows)
    # New rows may lack a word that a condition names, which would be refused as misspelt.
    known = None if table is None else cast(PopulationTable, _KnownTable(table, groups))
    source = Source(None, None, None, known, {}, n_rows)
    number, times = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64)
    for g, group in enumerate(groups):
        # A condition on a missing value is neither true nor false, so such a row is in no group.
        inside = members(group, source).true
        number[inside] = g
        times += inside
    if may_lack:
        number[times == 0], times[times == 0] = -1, 1
    if (times != 1).any():
        none, several = int((times == 0).sum()), int((times > 1).sum())
        raise DataError(
            f"{none} of {n_rows} rows belong to none of the {len(groups)} groups that have thresholds "
            f"({listing([group.reference for group in groups], 5)}), and {several} to more than one. Fill in missing "
            "values, leave such rows out, or fit with a list of populations that covers every row once, one of them "
            "for the rest."
        )
    return number


class _KnownTable:
    """A table in which the words that conditions name are known, also where no row has them.

    A goal refuses a word that no row has, since it is most likely misspelt. At prediction it is only absent.
    """

    def __init__(self, table: Any, groups: Sequence[Population]) -> None:
        self._table = table
        self._words: dict[str | int, set[str]] = {}
        for group in groups:
            for leaf in group.leaves:
                if isinstance(leaf, OfColumn):
                    words = self._words.setdefault(leaf.column, set())
                    words.update(value for value in leaf.constants if isinstance(value, str))

    @property
    def n_rows(self) -> int:
        return int(self._table.n_rows)

    def column(self, name: str | int) -> TableColumn:
        """The column, with its categories and those that are known."""
        found: TableColumn = self._table.column(name)
        new = self._words.get(name, set()) - set(found.categories)
        if found.kind != "string" or not new:
            return found
        # Categories have to be sorted, so the words that are added move the codes of the others. The last code, -1, is
        # that of a missing value and stays what it is.
        categories = tuple(sorted({*found.categories, *new}))
        place = {word: code for code, word in enumerate(categories)}
        codes = np.array([*(place[word] for word in found.categories), -1], np.int32)
        return dataclasses.replace(found, values=codes[found.values], categories=categories)


REGULARISER = 0.02
"""Weight of the regulariser, in rows: one number for each group is fitted, so there is hardly anything to hold back.
On Adult fifty times as much moved the test error by .0003 at most."""


def group_shares(group_estimator: Any, X: Features) -> Floats:
    """Probability of each group for each row, shape (n, n_groups).

    Raises
    ------
    DataError
        If they are not finite.
    """
    shares = np.asarray(group_estimator.predict_proba(X), dtype=np.float64)
    refuse_infinite(type(group_estimator).__name__, shares)
    return shares


def learn_groups(
    group_estimator: Any, groups: Sequence[Population], learnt: Rows, matrices: Sequence[Features],
    rng: np.random.RandomState,
) -> tuple[Any, list[Floats]]:  # fmt: skip
    """A clone fitted to the numbers of the groups, and the probabilities that it gives.

    Parameters
    ----------
    learnt : Rows
        To learn from; those of unknown group are left out.
    matrices : sequence of array-like
        Rows to give probabilities of; where they are those learnt from, models that did not see a row give its own.

    Raises
    ------
    DataError
        If there are fewer than two groups, or one has too few rows.
    """
    number = group_numbers(groups, learnt.X, learnt.populations, learnt.n_rows, may_lack=True)
    known = np.flatnonzero(number >= 0)
    rare = [group.reference for g, group in enumerate(groups) if np.count_nonzero(number == g) < FOLDS]
    if rare or len(groups) < 2:
        raise DataError(
            f"group_estimator needs at least 2 populations, of {FOLDS} rows each, to learn from; of the {len(groups)} "
            f"there are, {len(rare)} have fewer rows ({listing(rare, 5)}). Join populations, or name another column."
        )
    weight = None if learnt.sample_weight is None else np.asarray(learnt.sample_weight, dtype=np.float64)[known]
    X, of_row = take(learnt.X, known), number[known]
    fitted = fit_scorer(group_estimator, X, of_row, weight)
    shares = [group_shares(fitted, rows) for rows in matrices]
    # A model is surer of the rows that it learned from than of new ones, and the thresholds would count on that.
    if matrices[0] is learnt.X:
        shares[0][known] = cross_scores(
            group_estimator, X, of_row, weight, cv=FOLDS, random_state=rng, scores_of=group_shares
        )
    return fitted, shares


def best_mixed_thresholds(
    tied: TiedGoal, scores: Sequence[Floats], shares: Sequence[Floats], candidates: Iterable[Floats]
) -> Rule:
    """The best thresholds that a local search finds: a row is positive where its score exceeds `shares @ medians`.

    Parameters
    ----------
    tied : TiedGoal
        With at least two groups.
    scores : sequence of ndarray of shape (n_s,)
        For each source; larger means rather positive.
    shares : sequence of ndarray of shape (n_s, n_groups)
        Probabilities of the groups.
    candidates : iterable of ndarray of shape (n_groups,)
        Thresholds that are tried beside those found; at least one.
    """
    weight = float(tied.sources[0].weights.sum())
    plan = Plan(REGULARISER / weight, True, "deterministic", "auto", MajorizeOptions(loose_tol=1e-3))
    # The probabilities of a row sum to 1, so the last one is left to the bias.
    columns = [np.column_stack([z, p[:, :-1]]) for z, p in zip(scores, shares, strict=True)]
    trained = train(TiedRows(tied, columns), ColumnSpace(), plan, Budget(), explain=False)
    measure, best = trained.pool.measures.values, trained.pool.best
    # With the last probability as 1 minus the others the rule `score > p @ t` is linear: weight 1 on the score, weights
    # `t_last - t_g` on the probabilities, bias `t_last`; and back, after division by the weight of the score.
    given = [(np.append(1.0, t[-1] - t[:-1]), float(t[-1])) for t in candidates]
    models = [*trained.pool.members, *(best.moved_to(w, b, measure(w, b), "given") for w, b in given)]
    # A rule with a weight <= 0 on the score prefers low scores, or ignores them, and is no threshold.
    best = min((model for model in models if model.w[0] > 0.0), key=lambda model: model.rank)
    last = best.b / best.w[0]
    thresholds = np.append(last - best.w[1:] / best.w[0], last)[:, None]
    return Rule(thresholds, np.ones_like(thresholds), best.violation <= 0.0, np.nan, False)
