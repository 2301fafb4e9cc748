"""Tables of pandas, polars and pyarrow in place of arrays: the same models, names kept, order checked."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from widemargin import (
    External,
    GoalThresholdClassifier,
    KernelPerceptron,
    KernelSVC,
    MarginPursuitClassifier,
    MulticlassSVC,
    RateConstrainedClassifier,
    RateConstrainedClassifierCV,
    audit,
    tradeoff_path,
)
from widemargin.exceptions import DataError
from widemargin.report import html_report

GOAL = 'women = population(sex == "F")\nsubject to floor: recall(women) >= 0.6\nsubject to churn("old") <= 0.6'
KINDS = ["pandas", "polars", "pyarrow"]
ESTIMATORS = {
    "rate-constrained": lambda: RateConstrainedClassifier(GOAL),
    "cross-validated": lambda: RateConstrainedClassifierCV(GOAL, Cs=[0.2], max_steps=[5], cv=2, random_state=0),
    "threshold": lambda: GoalThresholdClassifier(LogisticRegression(), GOAL, random_state=0),
    "kernel": KernelSVC,
    "perceptron": lambda: KernelPerceptron(random_state=0),
    "pursuit": lambda: MarginPursuitClassifier(random_state=0),
    "multi-class": lambda: MulticlassSVC(random_state=0),
}


def as_kind(kind, frame):
    return {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "pyarrow": lambda: pa.Table.from_pandas(frame),
    }[kind]()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 200
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    y = np.where(X["a"] + rng.normal(size=n) > 0, "yes", "no")
    table = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "old": np.where(X["a"] > 0, "yes", "no")})
    return X, y, table


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_same_model_from_every_kind_of_table(data, name):
    X, y, table = data
    asks = "goal" in ESTIMATORS[name]().get_params()
    plain = ESTIMATORS[name]().fit(X.to_numpy(), y, **({"populations": table} if asks else {}))
    for kind, labels in zip(KINDS, (pd.Series(y), pl.Series(y), pa.chunked_array([y])), strict=True):
        rows, more = as_kind(kind, X), {"populations": as_kind(kind, table)} if asks else {}
        model = ESTIMATORS[name]().fit(rows, labels, **more)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"], kind
        np.testing.assert_array_equal(model.predict(rows), plain.predict(X.to_numpy()), kind)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(as_kind(kind, X[["c", "b", "a"]]))


@pytest.mark.parametrize("kind", KINDS)
def test_audits_paths_external_rows_and_reports(data, kind):
    X, y, table = data
    rows, populations = as_kind(kind, X), as_kind(kind, table)
    text = f'{GOAL}\nsubject to positive_rate(external("more")) <= 0.9'
    external = {"more": External(rows)}
    model = RateConstrainedClassifier(text).fit(rows, y, populations=populations, external=external)
    measured = audit(model, text, rows, y, populations=populations, external=external, confidence=None)
    expected = audit(model, text, X, y, populations=table, external={"more": External(X)}, confidence=None)
    assert measured.to_dict() == expected.to_dict() and measured.passed
    path = tradeoff_path(
        model, rows, y, values=[0.5, 0.6], constraint="floor", populations=populations, external=external
    )
    page = html_report(model, text, rows, y, populations=populations, external=external, paths=[path])
    assert list(page.content.margins.reports) == ["all rows", "women"]


@pytest.mark.parametrize("name", ["rate-constrained", "kernel", "perceptron", "pursuit", "multi-class"])
def test_words_among_the_features_are_named_with_the_cure(name):
    frame = pd.DataFrame({"age": [30.0, 40.0, 50.0, 60.0], "sex": list("FMFM"), "born": list("abab")})
    for X, where in ((frame, r" \(columns \['sex', 'born'\]\)"), (frame.to_numpy(), "")):
        with pytest.raises(DataError, match=f"X holds words{where}: could not .*by OneHotEncoder"):
            ESTIMATORS[name]().fit(X, [0, 1, 1, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_dates_among_the_features_are_named_and_never_nanoseconds(kind):
    frame = pd.DataFrame({"age": [30.0, 40.0, 50.0, 60.0], "born": pd.date_range("2000-01-01", periods=4)})
    for columns in (["age", "born"], ["born"]):
        with pytest.raises(DataError, match=r"X holds dates or times \(columns \['born'\]\)"):
            KernelSVC().fit(as_kind(kind, frame[columns]), [0, 1, 1, 0])
    objects = frame.assign(born=frame["born"].astype(object))
    with pytest.raises(DataError, match=r"X holds values that are no numbers \(columns \['born'\]\)"):
        KernelSVC().fit(objects, [0, 1, 1, 0])
    words = as_kind(kind, frame[["age"]].assign(sex=list("FMFM")))
    with pytest.raises(DataError, match=r"X holds words \(columns \['sex'\]\)"):
        KernelSVC().fit(words, [0, 1, 1, 0])


@pytest.mark.parametrize("name", ["rate-constrained", "threshold", "kernel", "multi-class"])
def test_labels_of_objects_keep_their_type_and_missing_ones_are_counted(data, name):
    X, y, table = data
    said = y == "yes"
    model = ESTIMATORS[name]()
    more = {"populations": table.assign(old=table["old"] == "yes")} if "goal" in model.get_params() else {}
    model.fit(X, pd.Series(said).astype(object), **more)  # as a column keeps them that had missing values
    assert model.classes_.tolist() == [False, True]
    np.testing.assert_array_equal(model.predict(X), ESTIMATORS[name]().fit(X, said, **more).predict(X))
    gaps = pd.Series(y).where(np.arange(len(y)) > 1)
    numbers = pd.Series(said.astype(float)).where(np.arange(len(y)) > 1)
    for labels in (
        gaps, gaps.astype("string"), gaps.astype("category"), gaps.astype(object).where(gaps.notna(), None), numbers,
        numbers.astype("Int64"),
    ):  # fmt: skip
        with pytest.raises(DataError, match="2 of 200 labels are missing"):
            ESTIMATORS[name]().fit(X, labels, **more)
    with pytest.raises(DataError, match="'y' mixes types"):
        ESTIMATORS[name]().fit(X, np.array(["yes", *said[1:]], dtype=object), **more)
