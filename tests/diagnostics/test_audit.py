"""Audit: any classifier, any predictions, against brute force; every verdict and every refusal."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import widemargin
from naive_rates import NaiveSource, naive_constraint, naive_form
from widemargin.diagnostics import audit
from widemargin.exceptions import DataError, GoalError, GoalParseError, GoalWarning
from widemargin.goals import (
    External,
    Goal,
    Population,
    churn,
    col,
    error_rate,
    negative_label,
    positive_rate,
    precision,
    recall,
)
from widemargin.goals.measuring.goal_report import GoalReport

N = 300
WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
TRAFFIC = Population.external("traffic")
GOAL = Goal(
    error_rate(),
    [
        (positive_rate(WOMEN) >= 0.8 * positive_rate(MEN)).named("fair"),
        (recall() >= 0.5).named("recall"),
        (precision(MEN) >= 0.5).named("precision"),
        (churn("old") <= 0.9).named("churn"),
    ],
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = np.where(X[:, 0] + rng.normal(size=N) > 0, 1, 0)
    table = pd.DataFrame({"sex": rng.choice(np.array(["F", "M", None], dtype=object), N), "old": rng.integers(0, 2, N)})
    return X, y, table


def naive(table, y, weight=None):
    columns = {"sex": table["sex"].where(table["sex"].notna(), None).tolist()}
    said = np.where(table["old"] == 1, 1, -1).tolist()
    return {None: NaiveSource(columns, np.where(y == 1, 1, -1).tolist(), weight, {"old": said}, len(y))}


@pytest.mark.filterwarnings("ignore:.* constraints are dropped")
@pytest.mark.parametrize(("least", "told"), [(20, 0), (50, 1)])
def test_a_bundle_of_which_nothing_is_left_is_told(least, told):
    y, table = np.arange(83) % 2, {"g": ["a"] * 40 + ["b"] * 40 + ["c"] * 3}
    goal = f'subject to demographic_parity(g, difference=0.1, min_rows={least}, on_small="drop")'
    report = audit(y, goal, y=y, populations=pd.DataFrame(table))
    assert len([caution for caution in report.cautions if "1 rule is not measured" in caution]) == told


@pytest.mark.parametrize("weighted", [False, True])
def test_against_brute_force(data, weighted):
    X, y, table = data
    model = LogisticRegression().fit(X, y)
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float) if weighted else None
    report = audit(model, GOAL, X, y, populations=table, sample_weight=weight)
    sources, said = naive(table, y, weight), {None: model.predict(X)}
    assert report.objective == pytest.approx(naive_form(GOAL.objective, sources, said))
    for constraint, item in zip(GOAL.constraints, report.constraints, strict=True):
        assert item.label == constraint.label
        assert item.slack == pytest.approx(naive_constraint(constraint, sources, said))
        assert item.met == (item.slack >= 0)
    told = [f"rows of weight 0, which count for nothing: {(weight == 0).sum()} of {N}."] if weighted else []
    assert [note for note in report.notes if "weight" in note] == told
    methods = [item.interval.method for item in report.constraints]
    assert methods == (["bootstrap"] * 4 if weighted else ["bootstrap", *["clopper-pearson"] * 3])


def test_models_and_their_predictions_give_the_same_report(data):
    X, y, table = data
    report = audit(LogisticRegression().fit(X, y), GOAL, X, y, populations=table)
    said = LogisticRegression().fit(X, y).predict(X)
    for predictions in (said, said.tolist(), pd.Series(said), pl.Series(said), {None: said}, {"": said}, said == 1):
        assert audit(predictions, GOAL, y=y, populations=table) == report
    assert audit(said, str(GOAL), y=y, populations=table) == report
    names = np.array(["no", "yes"])
    named = audit(
        names[said], GOAL, y=names[y], populations=table.assign(old=names[table["old"]]), data_name="the data"
    )
    assert named.constraints == report.constraints
    assert named.positive_class == "yes"


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        DecisionTreeClassifier(max_depth=2),
    ],
    ids=["pipeline", "search", "tree"],
)
def test_any_classifier(data, model):
    X, y, table = data
    model.fit(X, y)
    report = audit(model, GOAL, X, y, populations=table)
    assert report["recall"].rate == pytest.approx(model.predict(X)[y == 1].mean())


def test_the_top_of_the_package_has_it(data):
    _X, _y, _table = data
    assert widemargin.audit is audit


def test_verdicts_and_decisions():
    y = np.repeat([1, 0], 200)
    table = pd.DataFrame({"sex": np.tile(["F", "M"], 200)})
    said = np.zeros(400, int)
    said[:100] = 1  # recall 0.5, no false positives
    text = """
    women = population(sex == "F")
    subject to surely: recall() >= 0.3
    subject to surely not: recall() >= 0.8
    subject to perhaps: recall() >= 0.49
    subject to perhaps not: recall() >= 0.51
    subject to nothing: precision(population(sex == "F" and negative_label())) >= 0.1
    """.replace("surely not", '"surely not"').replace("perhaps not", '"perhaps not"')
    report = audit(said, text, y=y, populations=table)
    assert [item.verdict for item in report.constraints] == ["met", "not met", "undecided", "undecided", "undefined"]
    assert [item.met for item in report.constraints] == [True, False, True, False, False]
    assert report.exit_code == 1
    good = "subject to surely: recall() >= 0.3; subject to perhaps: recall() >= 0.49"
    assert audit(said, good, y=y).exit_code == 0
    assert audit(said, good, y=y, decide="confident").exit_code == 1
    assert audit(said, good, y=y, confidence=None).constraints[0].interval is None


def test_intervals_are_reproducible(data):
    X, y, table = data
    said = (X[:, 0] > 0).astype(int)
    reports = [audit(said, GOAL, y=y, populations=table, random_state=seed) for seed in (1, 1, 2)]
    assert reports[0] == reports[1] != reports[2]


def test_labels_are_not_always_needed(data):
    X, _y, table = data
    goal = Goal(positive_rate(), [positive_rate(WOMEN) >= 0.1, churn("old") <= 0.9])
    said = (X[:, 0] > 0).astype(int)
    report = audit(said, goal, populations=table)
    assert report.objective == pytest.approx(said.mean())
    with pytest.raises(DataError, match="recall needs labels, and the data has none"):
        audit(said, GOAL, populations=table)


def test_traffic_without_labels_is_audited_without_the_objective(data):
    X, _y, table = data
    said = (X[:, 0] > 0).astype(int)
    report = audit(said, "subject to positive_rate() >= 0.2")
    assert report.objective is None
    assert report.constraints[0].rate == pytest.approx(said.mean())
    assert "Objective error_rate() = not measured: no labels" in str(report)
    assert "not measured: no labels" in report._repr_html_()
    assert GoalReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False))) == report
    among = Goal(positive_rate(Population("bad", where=negative_label())), positive_rate(WOMEN) >= 0.1)
    assert audit(said, among, populations=table).objective is None
    with pytest.raises(DataError, match="recall needs labels"):
        audit(said, "subject to recall() >= 0.2")


def test_what_is_no_classifier_is_named(data):
    X, y, table = data
    with pytest.raises(DataError, match=r"LogisticRegression is a class; give .* LogisticRegression\(\)\.fit\(X, y\)"):
        audit(LogisticRegression, GOAL, X, y, populations=table)
    with pytest.raises(DataError, match=r"naive is a function, no fitted classifier; give an object with predict"):
        audit(naive, GOAL, X, y, populations=table)


def test_a_frame_of_features_is_a_table_too(data):
    X, y, table = data
    frame = pd.DataFrame(X, columns=list("abc")).assign(sex=table["sex"])

    class Model:
        classes_ = np.array([0, 1])

        def predict(self, X):
            return (X["a"] > 0).astype(int)

    report = audit(Model(), Goal(None, positive_rate(WOMEN) >= 0.1), frame, y)
    assert report.constraints[0].rate == pytest.approx((frame["a"] > 0)[frame["sex"] == "F"].mean())


def test_external_data_sets(data):
    X, y, _table = data
    goal = Goal(None, [recall() >= 0.1, churn("old", on=TRAFFIC) <= 0.9])
    X_traffic, old = np.random.default_rng(3).normal(size=(50, 3)), np.random.default_rng(4).integers(0, 2, 50)
    model = LogisticRegression().fit(X, y)
    external = {"traffic": External(X_traffic, old=old)}
    by_model = audit(model, goal, X, y, external=external)
    assert by_model.constraints[1].rate == pytest.approx((model.predict(X_traffic) != old).mean())
    said = {None: model.predict(X), "traffic": model.predict(X_traffic)}
    assert audit(said, goal, y=y, external=external) == by_model
    assert audit(said, goal, y=y, external={"traffic": External(None, old=old)}) == by_model
    with pytest.raises(
        DataError, match=r"no predictions for external 'traffic'.*keys None \(the main rows\) and 'traffic'"
    ):
        audit(said[None], goal, y=y, external=external)
    with pytest.raises(DataError, match="no predictions among those given"):
        audit({"traffic": said["traffic"]}, goal, y=y, external=external)
    with pytest.raises(DataError, match=r"'other', which the goal does not use\. Its external data sets: 'traffic'"):
        audit({**said, "other": old}, goal, y=y, external=external)
    with pytest.raises(DataError, match="'traffic', which was not given"):
        audit(model, goal, X, y)
    with pytest.raises(DataError, match=r"is a ndarray; wrap it: External\(X"):
        audit(model, goal, X, y, external={"traffic": X_traffic})
    with pytest.raises(DataError, match=r"give External\(X\) for 'traffic'"):
        audit(model, goal, X, y, external={"traffic": External(None, old=old)})


def test_baselines_from_everywhere(data):
    X, y, _table = data
    old = DecisionTreeClassifier(max_depth=1).fit(X, y)
    goal, said = Goal(None, churn("old") <= 0.9), (X[:, 1] > 0).astype(int)
    by_model = audit(said, goal, X, y, baselines={"old": old})
    by_array = audit(said, goal, X, y, baselines={"old": old.predict(X)})
    by_column = audit(said, goal, X, y, populations=pd.DataFrame({"old": old.predict(X)}), baselines={"old": said})
    assert by_model == by_array == by_column
    assert by_model.constraints[0].rate == pytest.approx((said != old.predict(X)).mean())


def test_positive_labels(data):
    X, y, _table = data
    model, goal = LogisticRegression().fit(X, y), Goal(None, recall() >= 0.1)
    assert audit(model, goal, X, y).positive_class == 1
    other = audit(model, goal, X, y, pos_label=0)
    assert other.positive_class == 0
    assert other.constraints[0].rate == pytest.approx((model.predict(X) == 0)[y == 0].mean())
    model.pos_label = 0
    assert audit(model, goal, X, y) == other
    assert audit(make_pipeline(model), goal, X, y) == other  # the classifier's own choice, wherever it stands
    assert audit(model, goal, X, y, pos_label=1).positive_class == 1
    with pytest.warns(GoalWarning, match="'repaid' is taken as the positive class"):
        audit(["repaid", "default"], goal, y=["repaid", "default"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        audit(["repaid", "default"], goal, y=["repaid", "default"], pos_label="default")


def test_ramp_rates_of_a_model_that_has_them(data):
    X, y, _table = data

    class Randomised:
        classes_ = np.array([0, 1])

        def predict(self, X):
            return (X[:, 0] > 0).astype(int)

        def randomized_proba(self, X):
            share = np.clip(0.5 + X[:, 0], 0, 1)
            return np.column_stack([1 - share, share])

    report = audit(Randomised(), Goal(None, recall() >= 0.1), X, y)
    share = np.clip(0.5 + X[:, 0], 0, 1)
    assert report.constraints[0].ramp_rate == pytest.approx(share[y == 1].mean())
    flipped = audit(Randomised(), Goal(None, recall() >= 0.1), X, y, pos_label=0)
    assert flipped.constraints[0].ramp_rate == pytest.approx(1 - share[y == 0].mean())


def test_one_class_in_the_sample_is_enough_where_the_other_is_known(data):
    X, y, _table = data
    model = LogisticRegression().fit(X, y)
    ones = y == 1
    assert audit(model, Goal(None, recall() >= 0.1), X[ones], y[ones]).n_rows == ones.sum()
    assert audit([1, 0], Goal(None, recall() >= 0.1), y=[1, 1]).positive_class == 1
    with pytest.raises(DataError, match="hold only the class 1"):
        audit([1, 1], Goal(None, recall() >= 0.1), y=[1, 1])
    for label in (0, 1, 7, True, "yes"):
        report = audit([label] * 3, Goal(None, recall() >= 0.1), y=[label] * 3, pos_label=label)
        assert report.passed and report["#1"].rate == 1.0 and report.positive_class == label
    assert audit([1, 1], Goal(None, recall() >= 0.1), y=[1, 1], pos_label=1, baselines={"b": [0, 1]}).passed


@pytest.mark.parametrize(
    ("predictions", "y", "message"),
    [
        (
            [0.3, 0.8, 0.2],
            [0, 1, 0],
            "predictions has 3 values that are neither class.*look like scores or probabilities",
        ),
        ([0.3, 0.8, 0.2], None, "Unknown label type: continuous. predictions holds 0.2, 0.3, 0.8"),
        ([0, 1, 2], [0, 1, 0], r"neither class \(0, 1\): 2"),
        (["a", "b", "a"], [0, 1, 0], "neither class"),
        ([0, 1], [0, 1, 0], "y has length 3 and the data 2 rows"),
        ([[0, 1], [1, 0]], [0, 1], r"predictions has shape \(2, 2\)"),
        ([0, None, 1], [0, 1, 0], "predictions has 1 missing values"),
        ([0, 1, 0], [0, None, 1], "y has 1 missing values"),
        ([], [], "hold no label|no rows"),
    ],
)
def test_predictions_that_are_no_labels(predictions, y, message):
    with pytest.raises(DataError, match=message):
        audit(predictions, Goal(None, positive_rate() >= 0.1), y=y)


def test_other_refusals(data):
    X, y, table = data
    model = LogisticRegression().fit(X, y)
    with pytest.raises(DataError, match="a classifier needs rows to classify; give X"):
        audit(model, GOAL, y=y, populations=table)
    with pytest.raises(DataError, match="goal is a list; give a Goal or its text"):
        audit(model, [recall() >= 0.1], X, y)
    with pytest.raises(GoalParseError):
        audit(model, "subject to recall() >= ", X, y)
    with pytest.raises(GoalError, match="has no value 'F'"):
        audit(model, GOAL, X, y, populations=table.assign(sex="M"))
    with pytest.raises(DataError, match="populations has 10 rows and the data 300"):
        audit(model, GOAL, X, y, populations=table.iloc[:10])
    with pytest.raises(DataError, match='decide must be "estimate"'):
        audit(model, GOAL, X, y, populations=table, decide="perhaps")
    with pytest.raises(GoalError, match="does not say which of the 3 classes 0, 1, 2 it speaks of"):
        audit(LogisticRegression().fit(X, np.arange(N) % 3), GOAL, X, y, populations=table)


def test_nothing_is_changed(data):
    X, y, table = data
    before = X.copy(), y.copy(), table.copy()
    audit(LogisticRegression().fit(X, y), GOAL, X, y, populations=table)
    assert (before[0] == X).all()
    assert (y == before[1]).all()
    pd.testing.assert_frame_equal(table, before[2])
