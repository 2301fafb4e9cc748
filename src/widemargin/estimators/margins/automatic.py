"""`risk="auto"`: which risk, by held-out rows, judged in a way that neither wrong labels nor extreme rows can rule.

Extreme rows are tempered: a row that is k times as far from the mean as the median row, in units of the columns'
spreads, counts as `k^-power` of a row. With the power 1 that bounds what its features can do to a linear model, with
3 they do less the further out it is. Candidates are the plain mean of two losses, and the likelihood of labels of
which some are wrong, on tempered rows, at the user's C, a tenth and a hundredth of it: wrong labels raise the variance
of a model, and many columns do.

They are judged by the scores of held-out rows in folds: by the likelihood of their labels, where some are wrong and
the scores have a scale of their own. It tells two candidates apart by far fewer rows than their errors would, a row's
part in it is bounded, and labels that are wrong at random change it for all candidates alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp
from sklearn.model_selection import StratifiedKFold

from widemargin._typing import Floats, Ints
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.margin import SURROGATES
from widemargin.losses.risks import LabelNoise, make_risk
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth import risk_newton
from widemargin.solvers.smooth.risk_problem import RiskProblem
from widemargin.solvers.smooth.smooth_problem import SmoothResult


@dataclass(frozen=True)
class FoldOptions:
    """How candidates are compared on held-out rows.

    Attributes
    ----------
    number : int
        Folds. More cost as many fits more and see few more rows each.
    tol : float
        Gap of the fits in folds: far below what held-out rows can tell.
    shares_wrong, scales : tuple of float
        Of labels and of scores, among which the likelihood of held-out rows takes the best. Coarse: it is flat there.
    temper : int
        Power of the temper with which held-out rows count, so that outliers judge nobody.
    doubt : float
        Standard errors by which another candidate has to be ahead of the plain mean. With none, errors on clean rows
        were up to .24 points above those of logistic regression, with a half at most .07, and on spoilt rows the same;
        with more those rise.
    """

    number: int = 5
    tol: float = 1e-5
    shares_wrong: tuple[float, ...] = (0.01, 0.05, 0.1, 0.2, 0.3)
    scales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    temper: int = 3
    doubt: float = 0.5


FOLDS = FoldOptions()


@dataclass(frozen=True)
class Candidate:
    """A risk at a level of a loss, of rows tempered by a power, with a multiple of the user's C."""

    risk: str
    level: float | None = None
    tempered: int = 0
    C: float = 1.0
    loss: str = "logistic"


MULTIPLES = (1.0, 0.1, 0.01)
"""Of the user's C."""

CANDIDATES = (
    *(Candidate("mean", C=C) for C in MULTIPLES),
    Candidate("mean", loss="squared-hinge"),
    *(Candidate("label-noise", 0.2, power, C) for power in (1, 3) for C in MULTIPLES),
)
"""The first is taken where nothing can be judged. Chosen on the tuning half of `benchmarks/data/halves.py` and 19 more
tables and drawn families: with a hundredth of C, and the mean with less than C, errors on clean rows were lower by .14
points (standard error .05), and with a fifth of the labels wrong by .20 (.15); with the squared hinge, which is
`LinearSVC`, by another .18 on clean rows, most of it on one table of 27 that it learns and the logistic loss does not.
More levels, smaller C, tempered rows for the mean and plain ones for the likelihood, Catoni means, weights as of an l1
norm, second fits without suspects, and averages of candidates by their likelihood gained nothing that was sure."""


def choose(
    problem: RiskProblem, signs: Sequence[Floats], budget: Budget, max_iter: int, seed: int
) -> tuple[Candidate, dict[Candidate, float]]:
    """The candidate for a problem, and the losses in folds of all of them.

    Parameters
    ----------
    problem : RiskProblem
        Whose own labels, risk and loss do not count.
    signs : sequence of ndarray of shape (n,)
        The labels; of several classes those of each against the rest.
    seed : int
        Of the folds.
    """
    codes = np.argmax(signs, axis=0) if len(signs) > 1 else (signs[0] > 0.0).astype(np.int64)
    n_folds = min(FOLDS.number, int(np.unique(codes, return_counts=True)[1].min()))
    if n_folds < 2:
        return CANDIDATES[0], {}
    scores = {candidate: np.zeros((len(signs), len(codes))) for candidate in CANDIDATES}
    for training, aside in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(codes, codes):
        held = problem.rows.take(aside)
        for number, sign in enumerate(signs):
            part = _part(problem.of_class(sign), training)
            for candidate in CANDIDATES:
                point = train(part, candidate, FOLDS.tol, budget, max_iter).point
                scores[candidate][number, aside] = replace(part, rows=held).scores(point)
            if budget.exhausted:
                return CANDIDATES[0], {}
    weight = problem.share * _temper(problem.rows, problem.share) ** FOLDS.temper
    weight /= weight.sum()
    surprises = {}  # minus the log-likelihood of the label of each held-out row
    for candidate, each in scores.items():
        # Each candidate is judged at its own best share of wrong labels and scale of scores: candidates differ in how
        # sure their scores are, and only how well these order the rows should decide.
        scaled = [_losses(scale * each, codes) for scale in FOLDS.scales]
        settings = (LabelNoise(wrong).of_rows(loss) for wrong in FOLDS.shares_wrong for loss in scaled)
        surprises[candidate] = min(settings, key=lambda loss: float(weight @ loss))
    losses = {candidate: float(weight @ each) for candidate, each in surprises.items()}
    plain, best = CANDIDATES[0], min(losses, key=lambda candidate: losses[candidate])
    ahead = surprises[plain] - surprises[best]
    lead = losses[plain] - losses[best]
    error = float(np.sqrt(weight**2 @ (ahead - lead) ** 2))
    return (best if lead > FOLDS.doubt * error else plain), losses


def _losses(scores: Floats, codes: Ints) -> Floats:
    """Minus the logarithm of the chance that scores, shape (1, n) or (n_classes, n), give the label of each row.

    Of several classes the largest score decides, so what counts is how the scores of a row lie to each other.
    """
    every = scores if len(scores) > 1 else np.concatenate([np.zeros_like(scores), scores])
    return np.asarray(logsumexp(every, axis=0) - every[codes, np.arange(len(codes))])


def train(problem: RiskProblem, candidate: Candidate, tol: float, budget: Budget, max_iter: int) -> SmoothResult:
    """The solution of a candidate."""
    tempered = problem.share * _temper(problem.rows, problem.share) ** candidate.tempered
    total = float(tempered.sum())
    task = replace(
        problem,
        share=tempered / total,
        # C weighs the sum of the losses, of which tempered rows have fewer.
        lam=problem.lam / (total * candidate.C),
        risk=make_risk(candidate.risk, candidate.level)[0],
        loss=SURROGATES[candidate.loss],
    )
    return risk_newton.solve(task, tol=tol, start=None, budget=budget, max_iter=max_iter)


def _part(problem: RiskProblem, rows: Ints) -> RiskProblem:
    """Some of the rows, with the same C."""
    share = problem.share[rows]
    total = float(share.sum())
    return replace(
        problem, rows=problem.rows.take(rows), y=problem.y[rows], share=share / total, lam=problem.lam / total
    )


def _temper(rows: RowBlocks, share: Floats) -> Floats:
    """What rows count for: 1 up to the median distance from the mean, and then in inverse proportion to it."""
    # Distances in units of the columns' spreads, `sum_k (x_k - mean_k)^2 / variance_k`, multiplied out so that sparse
    # rows stay sparse.
    squares, mean = rows.diagonal(share)
    variance = squares - mean**2
    # Columns whose spread is rounding alone say nothing.
    scale = np.where(variance > 1e-12 * squares, 1.0 / np.maximum(variance, 1e-300), 0.0)
    distance = np.sqrt(np.maximum(0.0, rows.norms2(scale) - 2.0 * rows.dot(mean * scale) + float(mean**2 @ scale)))
    order = np.argsort(distance)
    middle = distance[order[np.searchsorted(np.cumsum(share[order]), 0.5)]]
    if middle == 0.0:  # half of the rows or more are the mean row, so no distance is a usual one
        return np.ones(len(distance))
    return np.asarray(np.minimum(1.0, middle / np.maximum(distance, 1e-300)))
