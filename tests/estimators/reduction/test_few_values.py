"""Columns of numbers for histogram boosting: few values, in the same order, for arrays and data frames."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from widemargin import GoalReduction, GoalThresholdClassifier
from widemargin.estimators.reduction.cost_sensitive import CostLearner, prepared, with_few_values

NUMBERS = st.one_of(st.integers(-5, 5).map(float), st.floats(-1e6, 1e6), st.just(np.nan), st.just(np.inf))


@given(arrays(float, st.integers(1, 60), elements=NUMBERS), st.integers(2, 10))
def test_values_are_few_and_keep_their_order(column, most):
    few = with_few_values(column[:, None], most)[:, 0]
    np.testing.assert_array_equal(np.isnan(few), np.isnan(column))
    known = ~np.isnan(column)
    assert len(np.unique(few[known])) <= most
    if len(np.unique(column[known])) <= most:
        np.testing.assert_array_equal(few, column)
    assert np.isin(few[known], column[known]).all()
    order = np.argsort(column[known], kind="stable")
    assert (few[known][order][1:] >= few[known][order][:-1]).all()


def test_quantiles_hold_like_numbers_of_rows():
    few = with_few_values(np.random.default_rng(0).normal(size=(10_000, 1)), 100)
    np.testing.assert_array_equal(np.unique(few, return_counts=True)[1], np.full(100, 100))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_of_a_frame_only_numbers_of_many_values_change(frame):
    rng = np.random.default_rng(0)
    number = rng.normal(size=500)
    number[::50] = np.nan
    table = frame({"number": number, "count": np.arange(500) % 7, "word": ["a", "b"] * 250})
    few = with_few_values(table, 20)
    assert list(few.columns) == ["number", "count", "word"]
    np.testing.assert_array_equal(few["number"].to_numpy(), with_few_values(number[:, None], 20)[:, 0])
    for name in ("count", "word"):
        np.testing.assert_array_equal(few[name].to_numpy(), table[name].to_numpy())


def test_trees_of_few_values_are_as_good_as_those_of_all_and_take_rows_as_they_are():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(6000, 3)), columns=["a", "b", "c"]).assign(
        word=pd.Categorical(np.where(rng.random(6000) < 0.5, "yes", "no"))
    )
    y = (X.a + X.b * X.c + (X.word == "yes") > 0.5).to_numpy()
    train, new = slice(0, 3000), slice(3000, 6000)
    weight = rng.random(3000)
    trees = HistGradientBoostingClassifier(max_iter=30, random_state=0)
    whole = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b", "c"])), trees)
    for estimator in (trees, whole, make_pipeline(trees)):
        step = "" if estimator is trees else "histgradientboostingclassifier__"
        plain = estimator.fit(X[train], y[train], **{f"{step}sample_weight": weight})
        error = np.mean(plain.predict(X[new]) != y[new])
        learner = CostLearner(estimator, np.array([False, True]), 1.0)
        fitted = learner.fit(X[train], np.where(y[train], -weight, weight), np.ones(3000))
        assert np.mean(fitted.predict(X[new]) != y[new]) < error + 0.01


def test_tables_are_prepared_together_and_for_histogram_boosting_alone():
    X = np.random.default_rng(1).normal(size=(900, 2))
    parts = [X[:500], X[500:]]
    trees = HistGradientBoostingClassifier(max_bins=20)
    few = prepared(trees, parts)
    np.testing.assert_array_equal(np.vstack(few), with_few_values(X, 20))
    assert [len(part) for part in few] == [500, 400]
    for other in (LogisticRegression(), make_pipeline(trees)):
        assert all(one is part for one, part in zip(prepared(other, parts), parts, strict=True))


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, pl.DataFrame], ids=["array", "pandas", "polars"])
@pytest.mark.parametrize("kind", ["thresholds", "reduction", "one run", "pipeline"])
def test_a_column_without_a_number_in_some_fold_is_taken(form, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    X[:, 2] = np.nan
    X[:2, 2] = 1.0
    trees, goal = HistGradientBoostingClassifier(max_iter=5), "minimize error_rate()"
    steps = make_pipeline(FunctionTransformer(), trees)
    clf = {
        "thresholds": GoalThresholdClassifier(trees, goal, random_state=0),
        "reduction": GoalReduction(trees, goal, random_state=0),
        "one run": GoalReduction(trees, goal, one_run=True, random_state=0),
        "pipeline": GoalReduction(steps, goal, random_state=0),
    }[kind]
    table = form(X) if form is np.asarray else form(dict(zip("abc", X.T, strict=True)))
    assert np.mean(clf.fit(table, y).predict(table) == y) > 0.9
