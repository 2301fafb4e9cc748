"""Thresholds by group where the groups of new rows are unknown: they are mixed by predicted probabilities.

The best classifier that may not see the group calls x positive where `P(y | x) - 1/2 > sum_g price_g P(g | x)` under
demographic parity (Lipton et al., "Does mitigating ML's impact disparity require treatment disparity?", NeurIPS 2018;
Chzhen et al., "Leveraging labeled and unlabeled data for consistent fair binary classification", NeurIPS 2019), so a
row's threshold is the mean of one threshold for each group, weighted by the probabilities of its groups. Such rules are
linear in the score and the probabilities: the search for rate-constrained classifiers finds them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from widemargin._text import listing
from widemargin._typing import Features, Floats
from widemargin.estimators.feature_space import ColumnSpace
from widemargin.estimators.rate_constrained.training import Plan, TiedRows, posed, train
from widemargin.estimators.thresholds.groups import group_numbers
from widemargin.estimators.thresholds.rule import Rule
from widemargin.estimators.thresholds.scores import FOLDS, cross_scores, fit_scorer, refuse_infinite
from widemargin.exceptions import DataError
from widemargin.goals import Population
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.rows import Rows, take
from widemargin.solvers.base import Budget
from widemargin.solvers.ramp.majorization import MajorizeOptions

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
    group_estimator : classifier with `predict_proba`
    groups : sequence of Population
    learnt : Rows
        To learn from; those of unknown group are left out.
    matrices : sequence of array-like
        Rows to give probabilities of; where they are those learnt from, models that did not see a row give its own.
    rng : RandomState

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
    trained = train(*posed(TiedRows(tied, columns), ColumnSpace(), plan), plan, Budget(), explain=False)
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
