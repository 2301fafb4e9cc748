"""Rates by their textbook formulas, one by one and without the registry: what the registry is tested against."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from widemargin.goals.language.linear import METRICS, Linear, Rate
from widemargin.goals.language.populations import Population

__all__ = ["CLASSES", "FACTS", "FORMULAS", "linear_value", "random_world", "rate_of", "text_of"]

World = Mapping[str, Any]
"""Labels `y` in {+1, -1}, probabilities `p` of a positive prediction, weights `s`, baselines `h` by name."""


def _share(world: World, counted: Any, rows: Any) -> float:
    below = float(np.sum(world["s"] * rows))
    return float(np.sum(world["s"] * rows * counted)) / below if below else float("nan")


def _count(world: World, counted: Any, rows: Any) -> float:
    return float(np.sum(world["s"] * rows * counted))


def _confusion(world: World, which: str) -> float:
    p, y = world["p"], world["y"]
    counted, rows = {
        "TP": (p, y == 1), "FN": (1 - p, y == 1), "FP": (p, y == -1), "TN": (1 - p, y == -1),
    }[which]  # fmt: skip
    return _count(world, counted, rows)


def _against(world: World, h: Any, which: str) -> float:
    """Wins, losses, changes by the outcomes of a row: its own correctness against the baseline's."""
    p, y = world["p"], world["y"]
    right = np.where(y == 1, p, 1 - p)
    was_right = h == y
    counted = {
        "wins": np.where(was_right, 0.0, right),
        "losses": np.where(was_right, 1 - right, 0.0),
        "changes": np.where(h == 1, 1 - p, p),
    }[which]
    return _count(world, counted, np.ones_like(p))


def _total(world: World) -> float:
    return float(np.sum(world["s"]))


FORMULAS: dict[str, Callable[[World, Any], float]] = {
    "positive_rate": lambda w, h: (_confusion(w, "TP") + _confusion(w, "FP")) / _total(w),
    "negative_rate": lambda w, h: (_confusion(w, "TN") + _confusion(w, "FN")) / _total(w),
    "error_rate": lambda w, h: (_confusion(w, "FP") + _confusion(w, "FN")) / _total(w),
    "accuracy": lambda w, h: (_confusion(w, "TP") + _confusion(w, "TN")) / _total(w),
    "recall": lambda w, h: _share(w, w["p"], w["y"] == 1),
    "false_positive_rate": lambda w, h: _share(w, w["p"], w["y"] == -1),
    "true_negative_rate": lambda w, h: _share(w, 1 - w["p"], w["y"] == -1),
    "false_negative_rate": lambda w, h: _share(w, 1 - w["p"], w["y"] == 1),
    "churn": lambda w, h: _against(w, h, "changes") / _total(w),
    "win_rate": lambda w, h: _against(w, h, "wins") / _total(w),
    "loss_rate": lambda w, h: _against(w, h, "losses") / _total(w),
    "errors": lambda w, h: _confusion(w, "FP") + _confusion(w, "FN"),
    "true_positives": lambda w, h: _confusion(w, "TP"),
    "false_positives": lambda w, h: _confusion(w, "FP"),
    "true_negatives": lambda w, h: _confusion(w, "TN"),
    "false_negatives": lambda w, h: _confusion(w, "FN"),
    "wins": lambda w, h: _against(w, h, "wins"),
    "losses": lambda w, h: _against(w, h, "losses"),
    "changes": lambda w, h: _against(w, h, "changes"),
    "confusion": lambda w, h: _share(w, w["p"], w["y"] == 1),
    "decision_rate": lambda w, h: 1.0,
    "decisions": lambda w, h: _total(w),
    "margin_below": lambda w, h: float(np.sum(w["s"][h == 1])) / _total(w),
    "certified_rate": lambda w, h: float(np.sum(w["s"][h == 1])) / _total(w),
}

FACTS = {"margin_below": "margin_below(0.5)", "certified_rate": "certified_rate(0.1)"}
"""Rates of facts about scores, and what stands in the place of a baseline."""


CLASSES: Mapping[str, dict[str, Any]] = {"confusion": {"of": 1, "actual": 1}}
"""Rates that cannot do without classes, and the positive one for each of them."""


def rate_of(metric: str, population: Population, baseline: str, **classes: Any) -> Rate:
    """A rate, with a baseline, a fact or classes where it needs them."""
    needed = METRICS[metric].needs_baseline
    return Rate(
        metric, population, FACTS.get(metric, baseline) if needed else None, **CLASSES.get(metric, {}) | classes
    )


def text_of(metric: str, baseline: str) -> str:
    """A rate as goals write it, with a baseline, a fact or classes where it needs them."""
    if metric in CLASSES:
        return "confusion(1, 1)"
    return FACTS.get(metric) or (f'{metric}("{baseline}")' if METRICS[metric].needs_baseline else f"{metric}()")


def linear_value(form: Linear, world: World) -> float:
    """Value of an expression when every population is the whole world; a ratio with denominator 0 gives NaN."""
    total = form.constant
    for coefficient, atom in form.terms:
        if isinstance(atom, Rate):
            value = FORMULAS[atom.metric](world, world["h"].get(atom.baseline))
        else:
            below = linear_value(atom.denominator, world)
            value = linear_value(atom.numerator, world) / below if below > 1e-12 else float("nan")
        total += coefficient * value
    return total


def random_world(rng: np.random.Generator, n: int, baselines: tuple[str, ...]) -> World:
    """A population of n rows with random weights; half of the time its predictions are 0 or 1."""
    p = rng.integers(0, 2, n).astype(float) if rng.random() < 0.5 else rng.random(n)
    said = {name: rng.choice([-1, 1], n) for name in (*baselines, *FACTS.values())}
    return {"y": rng.choice([-1, 1], n), "p": p, "s": rng.random(n) + 0.1, "h": said}
