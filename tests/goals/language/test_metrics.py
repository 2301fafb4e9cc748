"""The registry against textbook formulas."""

import numpy as np
import pytest
from testing.goal_reference import FACTS, FORMULAS, random_world

from widemargin.exceptions import GoalError
from widemargin.goals.language.linear import METRICS, Metric, When


def by_registry(metric: Metric, world, h):
    """The general form of the registry, written out."""

    def rows(conditions):
        hits = np.zeros(world["y"].size, bool)
        for when in conditions:
            hits |= np.isin(world["y"], when.label or (1, -1)) & np.isin(h, when.baseline or (1, -1))
        return hits

    p, s = world["p"], world["s"]
    total = np.sum(s * (p * rows(metric.alpha) + (1 - p) * rows(metric.beta)))
    return total if metric.over is None else total / np.sum(s[rows((metric.over,))])


def test_every_metric_has_a_reference_formula():
    assert set(FORMULAS) == set(METRICS)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("seed", range(5))
def test_formulas(name, seed):
    rng = np.random.default_rng(seed)
    world = random_world(rng, 50, ("h",))
    value = by_registry(METRICS[name], world, world["h"]["h"])
    assert value == pytest.approx(FORMULAS[name](world, world["h"]["h"]), rel=1e-12)
    low, high = METRICS[name].range
    assert low <= value <= high


@pytest.mark.parametrize("name", METRICS)
def test_a_row_counts_for_one_prediction_at_most_once(name):
    most = 2 if METRICS[name].counts_decisions or name in FACTS else 1  # these count every decision
    for either in METRICS[name].row_values.sum(axis=1).ravel():
        assert 0 <= either <= most


@pytest.mark.parametrize(
    ("name", "label", "baseline", "count"),
    [
        ("positive_rate", False, False, False),
        ("negative_rate", False, False, False),
        ("recall", True, False, False),
        ("churn", False, True, False),
        ("win_rate", True, True, False),
        ("losses", True, True, True),
        ("changes", False, True, True),
        ("true_positives", True, False, True),
    ],
)
def test_what_a_metric_needs(name, label, baseline, count):
    metric = METRICS[name]
    assert (metric.needs_label, metric.needs_baseline, metric.is_count) == (label, baseline, count)
    assert metric.name == name
    assert metric.doc


def test_the_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        METRICS["mine"] = METRICS["recall"]


@pytest.mark.parametrize("wrong", [{"label": 0}, {"baseline": 2}, {"label": "1"}])
def test_when_takes_signs(wrong):
    with pytest.raises(GoalError, match="When takes"):
        When(**wrong)
