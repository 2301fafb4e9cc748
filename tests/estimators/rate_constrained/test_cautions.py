"""What a fit says of a model that may be worth little though its goal is met."""

import dataclasses
import warnings

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from widemargin import GoalThresholdClassifier, KernelSVC, RateConstrainedClassifier, RiskClassifier, audit
from widemargin.estimators.rate_constrained import ramp_model
from widemargin.estimators.rate_constrained.outcome import certificate_text, left_out_scores
from widemargin.exceptions import DoubtfulModelWarning, GoalWarning, InfeasibleGoalError
from widemargin.goals.measuring.goal_report import GoalReport


def noise(seed, n=400, d=3, positives=0.1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), (rng.random(n) < positives).astype(int)


def signal(rng, n, d, direction):
    """Rows of which a linear model decides about four of five rightly."""
    X = rng.normal(size=(n, d))
    return X, (X @ direction + 1.5 * np.linalg.norm(direction) * rng.normal(size=n) > 0.0).astype(int)


@pytest.mark.parametrize("model", [
    RateConstrainedClassifier(), GoalThresholdClassifier(LogisticRegression(), "subject to accuracy() >= 0.5"),
])  # fmt: skip
def test_a_constant_model_is_named(model):
    X, y = noise(0)
    with pytest.warns(DoubtfulModelWarning, match="the model is constant: it calls none of the .* rows 1"):
        model.fit(np.zeros_like(X), y)
    assert "Caution: the model is constant" in str(model.goal_report_)
    assert GoalReport.from_dict(model.goal_report_.to_dict()) == model.goal_report_


def test_a_model_that_a_constant_beats_is_named():
    y = np.r_[np.ones(10, int), np.zeros(90, int)]
    worse, better = np.r_[np.zeros(10, int), np.ones(5, int), np.zeros(85, int)], y.copy()
    better[:3] = 0
    (text,) = audit(worse, "minimize error_rate()", y=y).cautions
    assert "a constant is no worse: calling no row 1 has the objective 0.1000 (the model: 0.1500)" in text
    assert audit(better, "minimize error_rate()", y=y).cautions == ()
    # a constant that misses what the model meets beats nothing
    y = np.repeat(y, 3)
    some = np.repeat(np.r_[np.ones(6, int), np.zeros(4, int), np.ones(40, int), np.zeros(50, int)], 3)
    assert audit(some, "subject to recall() >= 0.5\nsubject to positive_rate() <= 0.6", y=y).cautions == ()
    assert audit(some, "subject to positive_rate() <= 0.6", y=y).cautions != ()
    # nor does one that misses by far what the model nearly meets
    short = "minimize false_positive_rate()\nsubject to recall() >= 0.75"
    assert not any("no worse" in text for text in audit(some, short, y=y).cautions)
    # one that misses by no more does
    less = "minimize false_positive_rate()\nsubject to error_rate() <= 0.05"
    assert any("misses 1 bound(s) that it misses by as much" in text for text in audit(some, less, y=y).cautions)


def test_populations_too_small_for_their_bound_are_named():
    rng = np.random.default_rng(1)
    X, y = signal(rng, 600, 6, np.ones(6))
    table = pa.table({"group": np.where(rng.random(600) < 0.06, "few", "many")})
    goal = "subject to equal_opportunity(group, difference=0.02)"
    with pytest.warns(DoubtfulModelWarning, match="will often be missed on new rows: .* by more than 0.05 in about"):
        model = RateConstrainedClassifier(goal).fit(X, y, populations=table)
    report = model.goal_report_
    assert report.passed
    expected = max(item.new_rows.missed_far for item in report.constraints)
    assert 0.25 <= expected <= 1.0
    told = " ".join(str(report).split())
    assert "on new rows missed in about" in told and "in two draws of three as if left out of training" in told
    # of enough rows for a bound that is far away nothing is said
    easy = RateConstrainedClassifier("subject to recall() >= 0.5").fit(X, y)
    assert easy.goal_report_.cautions == () and easy.goal_report_.constraints[0].new_rows.missed < 0.05


@pytest.mark.parametrize("model", [
    RateConstrainedClassifier(), GoalThresholdClassifier(LogisticRegression(), random_state=0),
])  # fmt: skip
def test_of_a_model_that_is_refused_nothing_is_warned_of(model):
    """Nobody gets it. Where it is kept, a bound that these rows miss is not told to be missed on new ones."""
    X, y = noise(0)
    model.set_params(goal="minimize error_rate()\nsubject to recall() >= 0.9\nsubject to positive_rate() <= 0.3")
    with warnings.catch_warnings(), pytest.raises(InfeasibleGoalError):
        warnings.simplefilter("error", DoubtfulModelWarning)
        model.fit(X, y)
    with pytest.warns(GoalWarning) as told:
        model.set_params(on_infeasible="warn").fit(X, y)
    assert not any("2 of 2 bounds will often be missed" in str(item.message) for item in told)


@pytest.mark.parametrize("columns", [[0, 1], [0, 1, 1, 0]])
def test_scores_without_the_row_do_not_hang_on_where_features_lie(monkeypatch, columns):
    """Columns may lie far from 0, and repeat each other, as constants and codes do."""
    rng, asked = np.random.default_rng(0), []
    X = rng.integers(-8, 9, size=(200, 2))[:, columns] / 4.0
    y = (X[:, 0] - X[:, 1] + rng.normal(size=200) > 0.3).astype(int)
    monkeypatch.setattr(ramp_model, "left_out_scores", lambda *given: asked.append(given) or left_out_scores(*given))
    for far in (0.0, 2.0**28):
        RateConstrainedClassifier("subject to recall() >= 0.7").fit(X + far, y)
    trained, rows, scores = asked[0]
    here = left_out_scores(trained, rows, scores)[0]
    assert not np.array_equal(here, scores[0])
    for far in (X + 2.0**28, sp.csr_matrix(X + 2.0**28)):
        np.testing.assert_allclose(left_out_scores(trained, rows._replace(matrices=[far]), scores)[0], here, rtol=1e-6)


def test_a_ratio_rule_met_by_a_handful_of_decisions_is_named():
    """Of rates below 1% no slack is large; what counts is how far the ratio is off."""
    rng = np.random.default_rng(0)
    table = pa.table({"group": rng.choice(["a", "b"], 2000, p=[0.6, 0.4])})
    X = rng.normal(size=(2000, 4))
    y = (X[:, 0] + 2.0 * rng.normal(size=2000) > 3.2).astype(int)
    with pytest.warns(DoubtfulModelWarning, match="2 bounds will often be missed on new rows"):
        model = RateConstrainedClassifier("subject to demographic_parity(group, ratio=0.8)").fit(
            X, y, populations=table
        )
    assert model.goal_report_.passed
    assert 0 < model.predict(X).mean() < 0.02
    for item in model.goal_report_.constraints:
        assert item.new_rows.far == pytest.approx(0.05 * item.bound / 0.8)


@pytest.mark.parametrize(("kind", "options"), [
    (np.asarray, {}), (sp.csr_matrix, {}), (np.asarray, {"kernel": "rbf"}),
    (sp.csr_matrix, {"kernel": "rbf", "feature_map": "nystroem", "random_state": 0}),
])  # fmt: skip
def test_what_is_foretold_of_new_rows_comes_true(kind, options):
    """A floor that training meets exactly, on many columns: nearly every model misses it, and every fit says so.

    The bootstrap of the training rows as they are says a half of the draws, whatever the number of columns; a third of
    what is foretold comes from it.
    """
    rng, foretold, came, flattered = np.random.default_rng(0), [], [], []
    for _ in range(6):
        direction = rng.normal(size=30)
        X, y = signal(rng, 800, 30, direction)
        model = RateConstrainedClassifier("subject to recall() >= 0.8", **options).fit(kind(X), y)
        item = model.goal_report_.constraints[0]
        new_X, new_y = signal(rng, 20_000, 30, direction)
        foretold.append(item.new_rows.missed)
        came.append(model.predict(kind(new_X))[new_y == 1].mean() < 0.8)
        flattered.append(item.rate)
    assert min(flattered) >= 0.8
    assert np.mean(came) >= 5 / 6
    assert abs(np.mean(foretold) - np.mean(came)) < 0.3


def test_the_certificate_says_of_which_bounds_it_is(monkeypatch):
    rng, seen = np.random.default_rng(0), []
    X, y = signal(rng, 500, 5, np.ones(5))
    monkeypatch.setattr(
        ramp_model, "certificate_text", lambda trained: seen.append(trained) or certificate_text(trained)
    )
    free = RateConstrainedClassifier("minimize error_rate()").fit(X, y)
    assert "bounds" not in free.goal_report_.certificate
    RateConstrainedClassifier("subject to recall() >= 0.8\nsubject to false_positive_rate() <= 0.5").fit(X, y)
    (trained,) = seen[1:]
    # The excesses of a step are measured by the bounds that it had.
    w, b = trained.solution.w, trained.solution.b
    asked = trained.problem.ramp_values(w, trained.problem.scores(w, b))[1]
    for moved, text in (
        ([0.0, 0.0], "of the last convex step ("),
        ([0.01, 0.0], "whose bounds were tightened by up to 0.01 so that the enforced rates meet yours"),
        ([0.02, -0.005], "whose bounds were tightened by up to 0.02 and loosened by up to 0.005 so"),
    ):
        solution = dataclasses.replace(trained.solution, excess=asked + moved)
        best = dataclasses.replace(trained.best, solution=solution)
        with_moved = dataclasses.replace(trained, best=best)
        assert text in certificate_text(with_moved)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("model", [RateConstrainedClassifier(), RateConstrainedClassifier(kernel="linear"),
                                   KernelSVC(kernel="linear")])  # fmt: skip
def test_scaled_down_columns_are_named(model, kind, recwarn):
    X, y = signal(np.random.default_rng(0), 300, 4, np.ones(4))
    one = X.copy()
    one[:, 2] *= 1e-6
    model.fit(kind(X), y)
    assert not [item for item in recwarn if item.category is DoubtfulModelWarning]
    with pytest.warns(DoubtfulModelWarning, match="feature 2 is at most .*Scale the features"):
        model.fit(kind(one), y)
    with pytest.warns(DoubtfulModelWarning, match="features 0, 1, 2 and 1 more are .* nearly constant"):
        model.fit(kind(1e-6 * X), y)


@pytest.mark.parametrize(
    ("make", "small"),
    [
        (lambda: RateConstrainedClassifier("subject to recall() >= 0.5"), 1e-12),
        (RiskClassifier, 1 / 300),
        (lambda: KernelSVC(kernel="linear"), 1 / 300),
    ],
)
def test_weights_so_small_that_c_counts_for_nothing_are_told(make, small):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int)
    with pytest.warns(DoubtfulModelWarning, match=r"sample_weight sums to .* for 300 rows, .* mean is 1, or raise C"):
        make().fit(X, y, sample_weight=np.full(300, small))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="sample_weight sums")
        make().fit(X, y, sample_weight=np.full(300, 1.0))


def test_it_is_said_where_the_best_constant_meets_every_bound():
    y, table = np.r_[np.zeros(10, int), np.ones(90, int)], pa.table({"g": np.arange(100) % 2})
    said = y.copy()
    said[10:13] = 0
    rule = "subject to demographic_parity(g, ratio=0.8)"
    (note,) = audit(said, rule, y=y, populations=table).notes
    assert "calling every row 1 meets every one of them, with the objective 0.1000 (the model: 0.0300)" in note
    assert audit(said, f"{rule}\nsubject to false_positive_rate() <= 0.5", y=y, populations=table).notes == ()
    # Of rare positives the best constant calls nobody, and then a ratio of two rates is undefined.
    assert audit(1 - said, rule, y=1 - y, populations=table).notes == ()
