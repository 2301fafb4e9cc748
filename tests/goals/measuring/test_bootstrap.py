"""The bootstrap's bookkeeping: rows are counted exactly, strata keep their size, weights their mean."""

import numpy as np
import pandas as pd
import pytest

from widemargin.goals import Goal, Population, col, error_rate, positive_rate, recall
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.sources import make_source
from widemargin.goals.measuring.bootstrap import BOOTSTRAP, slack_replicates, tally
from widemargin.rows import Rows

A = Population("a", where=col("g") == "a")
B = Population("b", where=col("g") == "b")


def tied_goal_of(constraint, groups, y, weight=None):
    table = pd.DataFrame({"g": groups})
    source = make_source(Rows(y=y, sample_weight=weight, populations=table), classes=(0, 1))
    return bind(Goal(error_rate(), constraint), [source])


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.choice(["a", "b", "c"], n), rng.integers(0, 2, n), rng.integers(0, 2, n)


@pytest.mark.parametrize("n", [3, 40, 2000])  # few rows are sorted, many are counted
@pytest.mark.parametrize("weights", [None, "few", "many"])
def test_the_tally_counts_every_row_once(n, weights):
    groups, y, said = rows(n)
    rng = np.random.default_rng(1)
    groups[:2] = ["a", "b"]
    weight = {None: None, "few": rng.integers(0, 3, n) + 0.5, "many": rng.lognormal(size=n)}[weights]
    tied = tied_goal_of(error_rate() <= 1, groups, y, weight)
    counted = tally(tied, [said])
    assert counted.count.sum() == n
    each = np.ones(n) if weight is None else weight
    total = np.bincount(counted.cell[:, 0], counted.count * counted.weight, len(tied.cell_weight))
    np.testing.assert_allclose(total, tied.cell_weight)
    said_weight = counted.count * counted.weight * (counted.said > 0)
    assert said_weight.sum() == pytest.approx((each * said).sum())
    if weights == "few":
        assert set(np.round(counted.weight, 12)) <= {0.5, 1.5, 2.5}
        second = (counted.count * counted.weight**2).sum()
        assert second == pytest.approx((each**2).sum())
    if weights == "many" and n > BOOTSTRAP.weights:
        assert len(counted.count) < n
        assert (counted.count * counted.weight**2).sum() == pytest.approx((each**2).sum(), rel=5e-4)


def test_replicates_keep_the_size_of_every_population():
    # everybody in a is predicted positive and nobody in b: the rates vary only by the half row of smoothing
    groups = np.repeat(["a", "b", "c"], [5000, 7000, 100])
    said = (groups == "a").astype(int)
    tied = tied_goal_of(positive_rate(A) - positive_rate(B) <= 1, groups, np.tile([0, 1], 6050))
    slack, size = slack_replicates(tied.constraints[0], tied, tally(tied, [said]), 500, np.random.default_rng(0))
    assert size == pytest.approx(5000, abs=1)
    assert slack.max() < 0.002
    assert slack.std() < 3e-4


def test_replicates_have_the_spread_of_theory():
    groups, y, said = rows(3000)
    tied = tied_goal_of(positive_rate(A) - 0.5 * positive_rate(B) >= -0.5, groups, y)
    slack, _ = slack_replicates(tied.constraints[0], tied, tally(tied, [said]), 4000, np.random.default_rng(0))
    variance = sum(
        factor**2 * said[groups == group].var() / (groups == group).sum() for group, factor in (("a", 1.0), ("b", 0.5))
    )
    assert slack.std() == pytest.approx(np.sqrt(variance), rel=0.05)
    assert slack.mean() == pytest.approx(tied.measure(tied.positive_mass([said])).slack[0], abs=0.002)


def test_the_effective_number_of_rows_sees_the_weights():
    groups, y, said = rows(400)
    weight = np.where(np.arange(400) < 10, 1000.0, 1e-6)
    tied = tied_goal_of(recall() >= 0.0, groups, y, weight)
    _, size = slack_replicates(tied.constraints[0], tied, tally(tied, [said]), 10, np.random.default_rng(0))
    assert size == pytest.approx(y[:10].sum(), rel=0.01)
