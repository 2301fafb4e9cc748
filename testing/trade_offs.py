"""A trade-off path with numbers made up, for tests of what is shown of it."""

from typing import Any

import numpy as np

from widemargin.goals.measuring.tradeoff_path import Measures, TradeoffPath

__all__ = ["made_path"]


def made_path(*, held_out: bool = True, **changes: Any) -> TradeoffPath:
    """Five points, two constraints; the fourth point does not meet the goal."""
    rng = np.random.default_rng(0)
    k, m = 5, 2

    def measures(n: int, *, errors: bool) -> Measures:
        spread = rng.normal(size=(k, 40)) / np.sqrt(40 * n)
        none = np.full(k, np.nan)
        return Measures(
            n_rows=n,
            objective=np.array([0.10, 0.11, 0.13, 0.16, 0.20]) + (0.01 if errors else 0.0),
            ramp_objective=np.linspace(0.12, 0.22, k),
            reached=np.array([0.21, 0.43, 0.60, 0.79, 1.02]),
            rate=rng.random((k, m)),
            bound=rng.random((k, m)),
            slack=rng.normal(size=(k, m)),
            ramp_rate=rng.random((k, m)),
            ramp_slack=rng.normal(size=(k, m)),
            compared_with=np.full((k, m), np.nan),
            covariance=0.04 / n * np.eye(k) + spread @ spread.T if errors else np.full((k, k), np.nan),
            reached_error=np.linspace(0.01, 0.02, k) if errors else none,
            slack_error=np.full((k, m), 0.01 if errors else np.nan),
        )

    fields = {
        "name": "parity",
        "objective_text": "error_rate()",
        "labels": ("parity", "<floor>"),
        "is_floor": True,
        "floors": np.array([True, True]),
        "values": np.array([0.2, 0.4, 0.6, 0.8, 1.0]),
        "n_asked": k,
        "coef": np.zeros((k, 3)),
        "intercept": np.zeros(k),
        "training": measures(800, errors=False),
        "held_out": measures(200, errors=True) if held_out else None,
        "gap": np.full(k, 1e-4),
        "certified": np.ones(k, bool),
        "multipliers": np.ones((k, m)),
        "met": np.array([True, True, True, False, True]),
        "violation": np.array([0.0, 0.0, 0.0, 0.01, 0.0]),
        "status": ("converged", "converged", "max_iter", "infeasible", "converged"),
        "seconds": np.full(k, 0.05),
        "n_iter": np.full(k, 20),
        "models": tuple("abcde"),
    }
    return TradeoffPath(**{**fields, **changes})
