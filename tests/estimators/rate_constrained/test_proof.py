"""RateConstrainedClassifier with a confidence: what is proved, from which rows, and how it is refused."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import binom
from sklearn.base import clone

from widemargin import RateConstrainedClassifier, load_model, save_model
from widemargin.estimators.rate_constrained import proof as validation
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.estimators.thresholds.scores import split_rows
from widemargin.exceptions import (
    CapabilityError,
    DataError,
    GoalWarning,
    InfeasibleGoalError,
    MarginConvergenceWarning,
)
from widemargin.rows import External

GOAL = (
    'w = population(sex == "F")\nm = population(sex == "M")\n'
    "subject to positive_rate(w) >= 0.6 * positive_rate(m)\nsubject to recall() >= 0.6"
)
RECALL = "minimize false_positive_rate()\nsubject to recall() >= 0.7"


def draw(n, seed=0):
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.4
    X = rng.normal(size=(n, 3))
    X[:, 0] -= 0.6 * woman
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=n) > 0.2).astype(int)
    return X, y, pd.DataFrame({"sex": np.where(woman, "F", "M")})


@pytest.fixture(scope="module")
def fitted():
    X, y, table = draw(3000)
    return RateConstrainedClassifier(GOAL, confidence=0.9, random_state=0).fit(X, y, populations=table)


def test_report_and_guarantee_are_about_the_validation_rows(fitted):
    assert fitted.goal_report_.n_rows == 600
    assert fitted.goal_report_.data_name == "validation rows"
    assert fitted.goal_report_.all_met()
    assert fitted.status_ == "converged"
    assert fitted.guarantee_.startswith(
        "With probability >= 0.9 over the draw of the validation rows, all 2 constraints"
    )
    assert "by exact unconditional test on" in fitted.guarantee_
    assert fitted.goal_report_.certificate.startswith(fitted.guarantee_)
    assert "validation rows" in str(fitted.goal_report_)


def test_validation_rows_are_not_trained_on_and_prove_the_goal(monkeypatch):
    """Rebuilt by hand: the rows of the split, the test, and the rates of the model on them."""
    X, y, _ = draw(3000)
    clf = RateConstrainedClassifier(RECALL, confidence=0.9, random_state=7).fit(X, y)
    rng = np.random.RandomState(7)
    train, kept = split_rows(y, 0.2, rng, stratify=False)
    said, positives = clf.predict(X[kept]), int(y[kept].sum())
    missed = int((said[y[kept] == 1] == 0).sum())
    assert clf.goal_report_["#1"].rate == pytest.approx(1 - missed / positives)
    assert binom.cdf(missed, positives, 0.3) <= 0.1  # the sequence of candidates shares no risk
    seen = []
    whole = validation.posed

    def watched(rows, *given, **options):
        seen.append(rows.matrices[0])
        return whole(rows, *given, **options)

    monkeypatch.setattr(validation, "posed", watched)
    clone(clf).fit(X, y)
    assert len(seen) == 5
    for rows in seen:
        np.testing.assert_array_equal(rows, X[train])


def test_false_guarantees_are_rare_and_training_rows_alone_would_not_do():
    rng = np.random.default_rng(0)
    world = draw(20_000, seed=1)
    wrong, given, plain, draws = 0, 0, 0, 8
    for seed in range(draws):
        rows = rng.integers(0, 20_000, 600)
        X, y = world[0][rows], world[1][rows]
        clf = RateConstrainedClassifier(
            RECALL, confidence=0.9, max_steps=2, random_state=seed, solver_options={"validation_fraction": 0.4}
        )
        clf.fit(X, y)
        given += 1
        wrong += clf.predict(world[0])[world[1] == 1].mean() < 0.7
        trained = RateConstrainedClassifier(RECALL, max_steps=2).fit(X, y)
        plain += trained.predict(world[0])[world[1] == 1].mean() < 0.7
    assert given == draws
    assert wrong <= binom.ppf(0.999, draws, 0.1)
    assert plain >= 0.25 * draws


def test_best_of_the_proved_candidates_is_taken(monkeypatch):
    X, y, table = draw(3000)
    objectives = {}
    for shares in ((0.0,), (0.0, 3.0)):
        monkeypatch.setattr(validation, "TIGHTENINGS", shares)
        clf = RateConstrainedClassifier(GOAL, confidence=0.95, random_state=0, on_infeasible="warn")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GoalWarning)
            clf.fit(X, y, populations=table)
        objectives[shares] = clf.goal_report_.objective if clf.guarantee_ else np.inf
    assert objectives[(0.0, 3.0)] <= objectives[(0.0,)] + 0.02
    assert np.isfinite(objectives[(0.0, 3.0)])


def test_external_rows_are_split_too():
    X, y, _ = draw(2000)
    traffic = draw(1000, seed=5)[0]
    goal = 't = external()\nsubject to churn("old", on=t) <= 0.4\nsubject to recall() >= 0.6'
    old = (traffic[:, 0] > 0.3).astype(int)
    clf = RateConstrainedClassifier(goal, confidence=0.9, random_state=0)
    clf.fit(X, y, external={"t": External(traffic, populations=pa.table({"row": np.arange(1000)}), old=old)})
    assert dict(clf.goal_report_.external_rows) == {"t": 200}
    assert "on 200 rows" in clf.guarantee_
    with pytest.raises(DataError, match="external 't' has 1 rows, of which 0 would be kept aside"):
        clf.fit(X, y, external={"t": External(traffic[:1], old=old[:1])})


def test_calibration_takes_rows_of_its_own(fitted):
    X, y, table = draw(3000)
    clf = RateConstrainedClassifier(GOAL, confidence=0.9, calibration="sigmoid", random_state=0)
    clf.fit(X, y, populations=table)
    assert clf.goal_report_.n_rows == 600
    proba = clf.predict_proba(X)[:, 1]
    assert abs(proba.mean() - y.mean()) < 0.05


def test_refusal_says_how_far_and_how_many_rows_would_do():
    X, y, table = draw(500)
    goal = "subject to recall() >= 0.6\nsubject to false_positive_rate() <= 0.3"  # which no constant meets
    options = {"max_steps": 2, "solver_options": {"validation_fraction": 0.05}}
    clf = RateConstrainedClassifier(goal, confidence=0.95, random_state=0, **options)
    message = r"none of 2 models at any threshold can be shown to meet the goal on the 25 validation rows.*p = 0"
    with pytest.raises(InfeasibleGoalError, match=message + r".*about \d+ validation rows prove it"):
        clf.fit(X, y, populations=table)
    clf.set_params(on_infeasible="warn")
    with pytest.warns(GoalWarning, match="can be shown"):
        clf.fit(X, y, populations=table)
    assert clf.status_ == "infeasible"
    assert clf.guarantee_ is None
    impossible = "subject to recall() >= 0.99\nsubject to false_positive_rate() <= 0.01"
    clf = RateConstrainedClassifier(impossible, confidence=0.95, max_steps=2, random_state=0)
    with pytest.raises(InfeasibleGoalError, match="Nor is it clearly met by estimate"):
        clf.fit(X, y)


@pytest.mark.parametrize(
    ("options", "weight", "goal", "message"),
    [
        ({}, np.linspace(1, 2, 500), RECALL, "unweighted rows only"),
        ({"enforce": "randomized"}, None, RECALL, "rates of predict"),
        ({"fit_intercept": False}, None, RECALL, "fit_intercept=False allows none"),
        ({"kernel": "precomputed"}, None, RECALL, "a column for every row"),
        ({}, None, "subject to errors() <= 30", "numbers of rows"),
    ],
)
def test_what_no_confidence_can_be_claimed_for_is_refused(options, weight, goal, message):
    X, y, _ = draw(500)
    X = X @ X.T if options.get("kernel") else X
    with pytest.raises(CapabilityError, match=message):
        RateConstrainedClassifier(goal, confidence=0.9, random_state=0, **gathered(options)).fit(X, y, weight)


def test_without_constraints_nothing_is_claimed():
    X, y, _ = draw(500)
    clf = RateConstrainedClassifier(confidence=0.9, random_state=0).fit(X, y)
    assert clf.guarantee_ is None
    assert clf.goal_report_.n_rows == 100
    assert RateConstrainedClassifier().fit(X, y).guarantee_ is None


def test_populations_on_one_part_only_are_named():
    X, y, table = draw(60)
    table = table.assign(sex=np.where(np.arange(60) == 11, "X", table["sex"]))
    goal = 'on_small = "drop"\nsubject to demographic_parity("sex", difference=0.9)'
    seeds = []
    for seed in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GoalWarning)
            try:
                RateConstrainedClassifier(goal, confidence=0.5, random_state=seed).fit(X, y, populations=table)
            except DataError as error:
                seeds.append(seed)
                assert "on the training rows or on the validation rows only" in str(error)
    assert seeds


def test_model_file_gives_back_the_model(fitted, tmp_path):
    X, _, _ = draw(100)
    save_model(fitted, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert again.guarantee_ == fitted.guarantee_
    assert again.confidence == 0.9


def test_same_seed_same_model(fitted):
    X, y, table = draw(3000)
    again = clone(fitted).fit(X, y, populations=table)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    assert again.intercept_ == fitted.intercept_


@pytest.mark.parametrize("status", ["interrupted", "stopped"])
def test_a_family_that_was_cut_short_says_so_whichever_of_its_models_is_chosen(monkeypatch, status):
    first, train = [], validation.train

    def cut_short(*given, **more):
        if first:
            setattr(given[3], status, True)
        else:
            first.append(train(*given, **more))
        return first[0]

    monkeypatch.setattr(validation, "train", cut_short)
    options = gathered({"on_interrupt": "return", "confidence": 0.9, "random_state": 0})
    with pytest.warns(MarginConvergenceWarning, match=status):
        clf = RateConstrainedClassifier(RECALL, **options).fit(*draw(3000)[:2])
    assert clf.status_ == status and clf.guarantee_ is not None


def test_time_budget_keeps_the_models_so_far():
    X, y, table = draw(2000)
    clf = RateConstrainedClassifier(GOAL, confidence=0.9, random_state=0, callbacks=[lambda progress: True])
    with pytest.warns(match=r"stopped after .* (NOT PROVED|proved) on the validation rows \(by a callback\)"):
        clf.fit(X, y, populations=table)
    assert clf.status_ == "stopped"


@pytest.mark.parametrize(
    "options", [{"kernel": "rbf"}, {"kernel": "rbf", "feature_map": "nystroem", "n_components": 30}]
)
def test_kernel_models_are_proved_too(options):
    X, y, _ = draw(600)
    clf = RateConstrainedClassifier(RECALL, confidence=0.9, random_state=0, max_steps=2, **gathered(options)).fit(X, y)
    _, kept = split_rows(y, 0.2, np.random.RandomState(0), stratify=False)
    missed = int((clf.predict(X[kept])[y[kept] == 1] == 0).sum())
    assert binom.cdf(missed, int(y[kept].sum()), 0.3) <= 0.1
    assert clf.goal_report_["#1"].rate == pytest.approx(1 - missed / y[kept].sum())


def test_refit_proves_the_goal_and_the_ceiling_on_churn():
    X, y, _ = draw(4000)
    clf = RateConstrainedClassifier(RECALL, confidence=0.9, random_state=0).fit(X, y)
    before = clf.predict(X)
    clf.refit(*draw(4000, seed=3)[:2], churn_at_most=0.2)
    assert "all 2 constraints hold" in clf.guarantee_
    assert np.mean(clf.predict(X) != before) <= 0.2
