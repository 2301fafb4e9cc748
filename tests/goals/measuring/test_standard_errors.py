"""Standard errors against textbook formulas and against the bootstrap."""

import numpy as np
import pandas as pd
import pytest

from widemargin.goals import Goal, Population, col, error_rate, errors, positive_rate, precision, recall
from widemargin.goals.binding.bind import TiedGoal, baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.goals.language.linear import Linear, Rate
from widemargin.goals.measuring.intervals import covariance, objective_influence, quotient_error, slack_variances
from widemargin.rows import Rows

N = 600
WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
GOAL = Goal(
    error_rate() + 0.5 * recall(),
    [recall() >= 0.1, precision() >= 0.1, positive_rate(WOMEN) >= 0.5 * positive_rate(MEN), errors() <= 500],
)


def rows(seed: int, weighted: bool = False) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    y = (rng.random(N) < 0.4).astype(int)
    sex = np.where(rng.random(N) < 0.3, "F", "M")
    first = (rng.random(N) < 0.2 + 0.5 * y).astype(float)
    second = np.where(rng.random(N) < 0.1, 1 - first, first)
    weight = rng.uniform(0.2, 2.0, N) if weighted else np.ones(N)
    return y, sex, first, second, weight


def tied_goal(y: np.ndarray, sex: np.ndarray, weight: np.ndarray, goal: Goal = GOAL) -> TiedGoal:
    sources = make_sources(
        baselines_used(goal), Rows(y=y, sample_weight=weight, populations=pd.DataFrame({"sex": sex})), classes=(0, 1)
    )
    return bind(goal, sources, warn_trivial=False)


def test_a_rate_has_the_textbook_error() -> None:
    y, sex, said, _, weight = rows(0)
    tied = tied_goal(y, sex, weight, Goal(error_rate(), recall() >= 0.1))
    wrong = (said != y).mean()
    error = covariance([objective_influence(tied, [said])])[0, 0] ** 0.5
    assert error == pytest.approx(np.sqrt(wrong * (1 - wrong) / N), rel=1e-12)
    hit = said[y == 1].mean()
    assert slack_variances(tied, [said])[0, 0] == pytest.approx(hit * (1 - hit) / y.sum(), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_the_bootstrap(weighted: bool) -> None:
    y, sex, first, second, weight = rows(1, weighted)
    tied = tied_goal(y, sex, weight)
    pair = [objective_influence(tied, [said]) for said in (first, second)]
    stated = covariance(pair)
    rng = np.random.default_rng(0)
    objectives, slacks, quotients = [], [], []
    for _ in range(1500):
        pick = rng.integers(0, N, N)
        label, group, w = y[pick] == 1, sex[pick] == "F", weight[pick]

        def share(what: np.ndarray, among: np.ndarray, w: np.ndarray = w) -> float:
            return float(w[among] @ what[among] / w[among].sum())

        everyone = np.ones(N, bool)
        both = [said[pick] for said in (first, second)]
        objectives.append([share(said != label, everyone) + 0.5 * share(said, label) for said in both])
        said = both[0]
        women, men = share(said, group), share(said, ~group)
        wrong = float(w @ (said != label))
        slacks.append([share(said, label), share(label, said == 1), women - 0.5 * men, -wrong])
        quotients.append(women / men)
    drawn = np.cov(np.array(objectives).T)
    np.testing.assert_allclose(stated, drawn, rtol=0.12)
    difference = np.sqrt(stated[0, 0] + stated[1, 1] - 2 * stated[0, 1])
    assert difference == pytest.approx(np.std(np.diff(objectives, axis=1)), rel=0.08)
    assert difference < 0.8 * np.sqrt(stated[0, 0] + stated[1, 1])  # what both share is taken out
    np.testing.assert_allclose(np.sqrt(slack_variances(tied, [first])[0]), np.std(slacks, axis=0), rtol=0.08)
    forms = [Linear(((1.0, Rate("positive_rate", population)),)) for population in (WOMEN, MEN)]
    assert quotient_error(*forms, tied, [first]) == pytest.approx(np.std(quotients), rel=0.08)


def test_undefined_ratio_has_no_error() -> None:
    y, sex, said, _, weight = rows(2)
    variances = slack_variances(tied_goal(y, sex, weight), [np.zeros_like(said)])[0]
    assert np.isnan(variances[1])  # precision of nothing
    assert np.isfinite(variances[[0, 2, 3]]).all()
