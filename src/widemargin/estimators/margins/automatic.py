"""`risk="auto"`: which risk, by errors on rows kept aside that neither wrong labels nor extreme rows can rule.

Extreme rows are tempered: a row that is k times as far from the mean as the median row, in units of the columns'
spreads, counts as 1/k of a row, which bounds what its features can do to a linear model. Candidates are the plain
mean losses; the mean loss of tempered rows; and from there, forgiving risks of tempered rows, each begun at the
solution before. They are judged by their tempered errors in folds. An error counts 1 at most, and labels that are
wrong at random raise the errors of all candidates alike. The plain mean is kept unless another is better by a
standard error of the difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from sklearn.model_selection import StratifiedKFold

from widemargin._typing import Floats, Ints
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.risks import make_risk
from widemargin.losses.surrogates import SURROGATES
from widemargin.solvers.base import Budget
from widemargin.solvers.smooth import risk_newton
from widemargin.solvers.smooth.risk_problem import RiskProblem
from widemargin.solvers.smooth.smooth_problem import SmoothResult

__all__ = ["PLAIN", "Candidate", "choose", "train"]

_FOLDS = 5
_FOLD_TOL = 1e-5
"""Gap of the fits in folds: far below what an error of a few rows can tell."""


@dataclass(frozen=True)
class Candidate:
    """A risk at a level, of a loss of plain or tempered rows."""

    risk: str
    level: float | None = None
    loss: str = "logistic"
    tempered: bool = True


PLAIN = Candidate("mean", tempered=False)
_START = Candidate("mean")
_PATHS = (
    (Candidate("mean", loss="squared-hinge", tempered=False),),
    (_START, Candidate("catoni", 2.0), Candidate("catoni", 1.0), Candidate("catoni", 0.5)),
    (_START, Candidate("trimmed", 0.1), Candidate("trimmed", 0.2)),
)
"""Each begins where the one before it has ended."""


def choose(problem: RiskProblem, budget: Budget, max_iter: int, seed: int) -> tuple[Candidate, dict[Candidate, float]]:
    """The candidate for a problem, and the tempered errors of all, by folds.

    Parameters
    ----------
    problem : RiskProblem
        Whose own risk and loss do not count.
    budget : Budget
    max_iter : int
    seed : int
        Of the folds.
    """
    n_folds = min(_FOLDS, int(np.unique(problem.y, return_counts=True)[1].min()))
    if n_folds < 2:
        return PLAIN, {}
    wrong: dict[Candidate, Floats] = {}
    for training, aside in StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(problem.y, problem.y):
        part, held = _part(problem, training), _part(problem, aside)
        done: dict[Candidate, SmoothResult] = {}
        for path in ((PLAIN,), *_PATHS):
            for candidate, result in _along(part, path, done, _FOLD_TOL, budget, max_iter):
                missed = held.y * held.scores(result.point) <= 0.0
                wrong.setdefault(candidate, np.zeros(len(problem.y)))[aside] = missed
        if budget.exhausted:
            return PLAIN, {}
    weight = problem.share * _temper(problem.rows, problem.share)
    weight /= weight.sum()
    errors = {candidate: float(weight @ each) for candidate, each in wrong.items()}
    best = min(errors, key=lambda candidate: errors[candidate])
    gain = wrong[PLAIN] - wrong[best]
    noise = float(np.sqrt(weight**2 @ (gain - weight @ gain) ** 2))
    return (best if errors[PLAIN] - errors[best] > noise else PLAIN), errors


def train(problem: RiskProblem, candidate: Candidate, tol: float, budget: Budget, max_iter: int) -> SmoothResult:
    """The solution of a candidate on all rows of a problem."""
    path = next((path for path in _PATHS if candidate in path), (PLAIN,))
    done: dict[Candidate, SmoothResult] = {}
    for _ in _along(problem, path[: path.index(candidate) + 1], done, tol, budget, max_iter):
        pass
    return done[candidate]


def _along(
    problem: RiskProblem,
    path: tuple[Candidate, ...],
    done: dict[Candidate, SmoothResult],
    tol: float,
    budget: Budget,
    max_iter: int,
) -> Iterator[tuple[Candidate, SmoothResult]]:
    """Solve the candidates of a path that are not done yet."""
    tempered = problem.share * _temper(problem.rows, problem.share)
    point = None
    for candidate in path:
        if candidate not in done:
            risk, radius = make_risk(candidate.risk, candidate.level)
            share = tempered / tempered.sum() if candidate.tempered else problem.share
            # C weighs the sum of the losses, of which tempered rows have fewer.
            lam = problem.lam / tempered.sum() if candidate.tempered else problem.lam
            task = replace(problem, share=share, lam=lam, radius=radius, risk=risk, loss=SURROGATES[candidate.loss])
            done[candidate] = risk_newton.solve(task, tol=tol, start=point, budget=budget, max_iter=max_iter)
            yield candidate, done[candidate]
        point = done[candidate].point


def _part(problem: RiskProblem, rows: Ints) -> RiskProblem:
    """Some of the rows, with the same C."""
    share = problem.share[rows]
    total = float(share.sum())
    return replace(
        problem, rows=problem.rows.take(rows), y=problem.y[rows], share=share / total, lam=problem.lam / total
    )


def _temper(rows: RowBlocks, share: Floats) -> Floats:
    """What rows count for: 1 up to the median distance from the mean, and then in inverse proportion to it."""
    squares, mean = rows.diagonal(share)
    variance = squares - mean**2
    # Columns whose spread is rounding alone say nothing.
    scale = np.where(variance > 1e-12 * squares, 1.0 / np.maximum(variance, 1e-300), 0.0)
    distance = np.sqrt(np.maximum(0.0, rows.norms2(scale) - 2.0 * rows.dot(mean * scale) + float(mean**2 @ scale)))
    order = np.argsort(distance)
    middle = distance[order[np.searchsorted(np.cumsum(share[order]), 0.5)]]
    return np.asarray(np.minimum(1.0, middle / np.maximum(distance, 1e-300)))
