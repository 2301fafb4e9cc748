"""Appendix C by hand: the factor E, the violations, and the data sets of a goal."""

import math

import numpy as np
import pyarrow as pa
import pytest

from widemargin import External, RateConstrainedClassifier
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.exceptions import CapabilityError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.rows import Rows
from widemargin_papers.generalization import Datasets, capacity, datasets_of, generalization_bound, violation_bound


def tied_goal(text, y, populations=None, external=None):
    goal = Goal.parse(text)
    sources = make_sources(
        baselines_used(goal), Rows(y=y, populations=populations, external=external or {}), classes=(0, 1)
    )
    return bind(goal, sources, warn_trivial=False)


def as_dict(data):
    return {
        size: (round(o, 12), *np.round(c, 12))
        for size, o, c in zip(data.size, data.objective, data.constraints, strict=True)
    }


def test_the_factor_and_the_violations_by_hand():
    data = Datasets(np.array([100.0, 400.0]), np.array([0.25, 0.75]), np.array([[1.0, 0.0], [0.5, 2.0]]))
    # S = 1 + 2 (1.5 + 2) = 8;  E = 1 + 4 * 9 / 0.5 * 8 + sqrt(8 ln(4 * 2 / 0.1))
    expected = 1.0 + 576.0 + math.sqrt(8.0 * math.log(80.0))
    assert capacity(data, radius=3.0, lam=0.5, box=2.0, delta=0.1) == pytest.approx(expected)
    np.testing.assert_allclose(violation_bound(data, 10.0), [10 * (1 / 10 + 0.5 / 20), 10 * 2 / 20])


def test_error_rate_and_recall_are_about_the_two_labels():
    y = np.array([1] * 4 + [0] * 16)
    data = datasets_of(tied_goal("minimize error_rate()\nsubject to recall() >= 0.8", y))
    assert as_dict(data) == {4.0: (0.2, 1.0), 16.0: (0.8, 0.0)}


def test_a_ratio_between_groups_has_the_groups_for_data_sets():
    table = pa.table({"sex": ["F"] * 5 + ["M"] * 15})
    text = """a = population(sex == "F")
    b = population(sex == "M")
    minimize error_rate()
    subject to positive_rate(a) >= 0.8 * positive_rate(b)"""
    data = datasets_of(tied_goal(text, np.arange(20) % 2, table))
    np.testing.assert_array_equal(np.sort(data.size), [5, 10, 10, 15])  # women, both labels, men
    np.testing.assert_allclose(np.sort(data.constraints.ravel()), [0, 0, 0.8, 1.0])
    np.testing.assert_allclose(np.sort(data.objective), [0, 0, 0.5, 0.5])


def test_churn_is_about_what_the_baseline_says_and_needs_no_labels():
    external = {"traffic": External(None, deployed=[1] * 3 + [0] * 9)}
    text = 'traffic = external()\nminimize error_rate()\nsubject to churn("deployed", on=traffic) <= 0.1'
    data = datasets_of(tied_goal(text, np.array([0, 1]), external=external))
    found = {size: c[0] for size, c in zip(data.size, data.constraints, strict=True)}
    assert found[3.0] == pytest.approx(0.25) and found[9.0] == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("constraint", "coefficient"),
    [
        ("recall() >= 0.1", 1.0),
        ("recall() + 0.1 * true_positives() >= 0.1", 1.0),  # scaled by 1 + 0.1 * 5, what it can reach
        ("false_negative_rate() - 0.5 * recall() <= 0.4", 1.5),  # r_n = 1 - r_p: both pull the same way
        ("false_negative_rate() + 0.25 * recall() <= 0.9", 0.75),
    ],
)
def test_the_same_rows_under_several_names_are_one_data_set(constraint, coefficient):
    y = np.array([1] * 5 + [0] * 5)
    data = datasets_of(tied_goal(f"minimize error_rate()\nsubject to {constraint}", y))
    assert len(data.size) == 2
    np.testing.assert_allclose(np.sort(data.constraints[:, 0]), [0.0, coefficient])


def fitted(n=400, **parameters):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = (X[:, 0] + rng.normal(size=n) > 0.3).astype(int)
    clf = RateConstrainedClassifier("subject to recall() >= 0.8", on_infeasible="warn", **gathered(parameters))
    return clf.fit(X, y), X, y


def test_a_randomised_model_has_the_bound_of_its_rows():
    clf, X, y = fitted(enforce="randomized", C=0.3)
    n, positives = len(y), y.sum()
    lam = 2.0 / (n * clf.C)
    radius = np.linalg.norm(X, axis=1).max()
    E = 1.0 + 4.0 * radius**2 / lam * (1.0 + 1.0 * 1.0) + math.sqrt(8.0 * math.log(4.0 * 2 / (0.05 / 4)))
    np.testing.assert_allclose(generalization_bound(clf, X, y), E / math.sqrt(positives))


def test_a_model_with_hardly_any_freedom_has_a_bound_below_one():
    rng = np.random.default_rng(0)
    X = 0.001 * rng.normal(size=(20000, 1))
    y = (X[:, 0] > 0).astype(int)
    clf = RateConstrainedClassifier("subject to recall() >= 0.6", C=1e-4, enforce="randomized").fit(X, y)
    assert 0.0 < generalization_bound(clf, X, y)[0] < 1.0


def test_it_is_not_applicable_after_a_bias_search():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] > 0.3).astype(int)
    clf = RateConstrainedClassifier("subject to recall() >= 0.8").fit(X, y)
    with pytest.raises(CapabilityError, match="not applicable"):
        generalization_bound(clf, X, y)


def test_other_data_sets_count_with_their_rows_and_norms():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(2, size=300)
    far = 3.0 * rng.normal(size=(100, 2))
    traffic = External(far, deployed=(far[:, 0] > 0).astype(int))
    goal = 'traffic = external()\nminimize error_rate()\nsubject to churn("deployed", on=traffic) <= 0.2'
    clf = RateConstrainedClassifier(goal, enforce="randomized", on_infeasible="warn")
    clf.fit(X, y, external={"traffic": traffic})
    here = generalization_bound(clf, X, y, external={"traffic": traffic})
    nearer = External(far / 2.0, deployed=(far[:, 0] > 0).astype(int))
    assert here[0] > 2.0 * generalization_bound(clf, X, y, external={"traffic": nearer})[0] > 0.0


def test_a_kernel_is_measured_in_its_own_space_and_fitted_features_are_not():
    clf, X, y = fitted(n=120, enforce="randomized", kernel="rbf", gamma=0.5)
    lam = 2.0 / (len(y) * clf.C)
    E = 1.0 + 4.0 / lam * 2.0 + math.sqrt(8.0 * math.log(4.0 * 2 / (0.05 / 4)))  # k(x, x) = 1
    np.testing.assert_allclose(generalization_bound(clf, X, y), E / math.sqrt(y.sum()))
    mapped, _, _ = fitted(n=120, enforce="randomized", kernel="rbf", feature_map="nystroem", n_components=20)
    with pytest.raises(CapabilityError, match="not applicable"):
        generalization_bound(mapped, X, y)
