"""The choice among candidates on made-up numbers: the rule as it is written."""

import numpy as np
import pytest
from scipy.stats import norm

from widemargin.estimators.rate_constrained.folds import choose_candidate
from widemargin.estimators.thresholds.scores import label_and_cell, make_splits

OBJECTIVE = np.array([0.30, 0.20, 0.22, 0.10])
ERROR = np.full(4, 0.03)
SLACK_ERROR = np.full((4, 2), 0.01)
MET = np.ones(4, bool)


def choose(slack, *, met=MET, rule="best", error=ERROR, slack_error=SLACK_ERROR):
    return choose_candidate(OBJECTIVE, error, np.asarray(slack, float), slack_error, met, rule)


def test_the_best_objective_among_those_within_noise():
    limit = norm.ppf(1 - 0.05 / 2) * 0.01
    slack = [[0.1, 0.1], [0.1, -limit + 1e-6], [0.1, 0.1], [-limit - 1e-6, 0.1]]
    choice = choose(slack)
    assert choice.admissible.tolist() == [True, True, True, False]
    assert choice.index == 1
    assert choice.excess[3] == pytest.approx(limit / 0.01, rel=1e-3)
    assert choose(slack, met=np.array([True, False, True, True])).index == 2


def test_one_standard_error_takes_the_simplest():
    slack = np.ones((4, 2))
    assert choose(slack).index == 3
    assert choose(slack, rule="one-standard-error").index == 3  # nothing simpler within .03 of .10
    assert choose(slack, rule="one-standard-error", error=np.full(4, 0.11)).index == 1
    slack[1] = -1.0
    assert choose(slack, rule="one-standard-error", error=np.full(4, 0.13)).index == 2


def test_without_an_admissible_one_the_least_violation():
    slack = [[-0.5, 0.0], [0.0, -0.3], [-0.2, -0.2], [-0.9, 0.0]]
    choice = choose(slack)
    assert not choice.admissible.any()
    assert choice.index == 2
    assert (
        choose([[-0.5, 0.0], [0.0, -0.3], [-0.2, -0.2], [-0.9, 0.0]], met=np.array([True, False, False, True])).index
        == 0
    )
    assert choose(np.full((4, 2), np.nan)).index == 0


def test_undefined_and_exact_violations_are_never_noise():
    slack = np.ones((4, 2))
    slack[3, 0] = np.nan
    assert choose(slack).index == 1
    slack[3, 0] = -1e-9
    exact = SLACK_ERROR.copy()
    exact[3, 0] = 0.0
    choice = choose(slack, slack_error=exact)
    assert choice.excess[3] == np.inf
    assert choice.index == 1


def test_without_constraints_the_objective_decides():
    choice = choose_candidate(OBJECTIVE, ERROR, np.zeros((4, 0)), np.zeros((4, 0)), MET, "best")
    assert choice.index == 3
    assert choice.excess.tolist() == [0.0] * 4


def test_folds_hold_rows_of_rare_populations_without_a_complaint():
    # One row of a population that two more folds would need: scikit-learn would warn that "the least populated class
    # in y" has one member, though both classes have many. Warnings are errors here.
    labels = np.array(["no"] * 12 + ["yes"] * 12)
    cell = np.array([0] * 11 + [1] + [2] * 6 + [3] * 6)
    strata = label_and_cell(labels, cell, 3)
    assert np.unique(strata, return_counts=True)[1].tolist() == [12, 6, 6]
    folds = make_splits(3, labels, np.random.RandomState(0), lambda n_splits: label_and_cell(labels, cell, n_splits))
    assert sorted(row for _, held in folds for row in held.tolist()) == [*range(24)]
