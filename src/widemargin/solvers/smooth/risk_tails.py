"""An interior point method for means of the worst losses, whose corners no smoothing gets around.

    min_theta theta_k + sum_i p_i max(0, l_i - theta_k) / tail_k  =  max_u sum_i p_i u_ik l_i / tail_k,
    0 <= u_ik <= 1,  sum_i p_i u_ik = tail_k

u says which part of row i counts among the worst ones of tail k. At a solution u is 1 above theta_k, 0 below it, and in
between on it. A barrier `mu (log u + log(1 - u))` keeps u inside, where

    l_i - theta_k = psi(u_ik),      psi(u) = mu (1 / (1 - u) - 1 / u).

Every step solves this, linearised at the present u *and* w, together with the stationarity of w: what u does adds
`(p_i / tail_k) sigma_i^2 / psi'(u_ik)` to the curvature of row i, less one column a tail for theta_k. One length for u
and w keeps u inside. It takes 10 to 40 steps on 30,000 rows, where Newton steps on w alone, with u (or a smoothed
risk) following w, get stuck in corners.
"""

from functools import partial

import numpy as np

from widemargin._typing import Floats
from widemargin.losses.risks import Spectral
from widemargin.solvers.smooth.risk_problem import RiskRecorder
from widemargin.solvers.smooth.smooth_problem import SmoothResult

__all__ = ["solve"]

_STAY_INSIDE = 0.95
"""Share of the way to the nearest border that a step may take."""


def _linearised(u: Floats, give: Floats, barrier: Floats, parts: Floats, weights: Floats, losses: Floats) -> Floats:
    """Where the barrier, linearised at u, puts u for other losses, with the best theta."""
    moved = u + give * (losses - barrier)
    theta = ((parts * moved).sum(axis=1) - weights) / (parts * give).sum(axis=1)
    return np.asarray(moved - give * theta[:, None])


def solve(recorder: RiskRecorder, point: Floats, max_iter: int) -> SmoothResult:
    """Minimise the recorder's problem, whose risk is a `Spectral`, from a point down to the recorder's gap.

    Parameters
    ----------
    recorder : RiskRecorder
    point : ndarray of shape (n_unknowns,)
    max_iter : int
    """
    problem, budget, risk = recorder.problem, recorder.budget, recorder.problem.risk
    assert isinstance(risk, Spectral)
    share, y = problem.share, problem.y
    # The mean over a tail of all rows is the plain mean: every row counts in full, and there is no u to find.
    inner = [(tail, weight) for tail, weight in zip(risk.tails, risk.weights, strict=True) if tail < 1.0]
    tails, weights = np.array(inner).reshape(-1, 2).T
    mean = (1.0 - float(weights.sum())) * share if len(inner) < len(risk.tails) else 0.0 * share
    parts = (weights / tails)[:, None] * share  # what a row of each tail counts where u is 1
    # At first u = tail for every row, which weighs all losses alike: inside the box, and `sum_i p_i u_i = tail`.
    u = np.repeat(tails[:, None], len(share), axis=1)
    scores, mu, length, done = problem.scores(point), 0.0, 1.0, False
    try:
        while True:
            losses, sigma, bend = problem.loss.derivatives(y * scores)
            counted = mean + (parts * u).sum(axis=0)
            done = recorder.certify(point, scores, counted / counted.sum(), sigma)
            if done or recorder.n_iter >= max_iter or budget.exhausted:
                break
            # mu begins at a tenth of the problem's value and falls fast where the last step was (nearly) a full one. A
            # short step means that the point is far from the central path, so mu stays. Below a thousandth of the
            # tolerance a smaller mu changes nothing that counts.
            mu = mu * (0.15 if length > 0.8 else 0.4 if length > 0.4 else 1.0) or 0.1 * recorder.primal
            mu = max(mu, 1e-3 * recorder.tol * recorder.primal)
            barrier = mu * tails[:, None] * (1.0 / (1.0 - u) - 1.0 / u)
            give = 1.0 / (mu * tails[:, None] * (1.0 / u**2 + 1.0 / (1.0 - u) ** 2))  # how far u moves with a loss
            pull = parts * give

            u_of = partial(_linearised, u, give, barrier, parts, weights)
            gradient = problem.gradient(point, mean + (parts * u_of(losses)).sum(axis=0), sigma, 0.0)
            # Eliminating u leaves the curvature `pull sigma^2` of every row. Eliminating theta, which moves with the
            # losses of its tail, takes a matrix of rank one off it for each tail.
            columns = (pull / np.sqrt(pull.sum(axis=1, keepdims=True)) * sigma * y).T
            step = problem.newton(point, gradient, counted * bend + pull.sum(axis=0) * sigma**2, columns, 0.0)
            change = problem.scores(step)
            du = u_of(losses - sigma * y * change) - u
            border = np.where(du > 0.0, 1.0 - u, u) / np.maximum(np.abs(du), 1e-300)
            length = min(1.0, _STAY_INSIDE * float(border.min(initial=np.inf)))
            u, point, scores = u + length * du, point + length * step, scores + length * change
            recorder.note(recorder.primal, mu)
    except KeyboardInterrupt:
        budget.interrupted = True
    return recorder.result(done)
