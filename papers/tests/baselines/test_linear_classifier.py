"""What the linear baselines share: scikit-learn's contract, classes, rows, weights, seeds, and how a fit ends."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from testing.contract import parametrize_with_fitting_checks
from testing.linear_baselines import classes

from widemargin.exceptions import DataError, MarginConvergenceWarning
from widemargin_papers import baselines

ORDER = "rows come in a random order, and solutions agree within tol only"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": ORDER,
    "check_sample_weight_equivalence_on_sparse_data": ORDER,
}
ALL = [
    baselines.LinearPegasosClassifier(random_state=0),
    baselines.LDMClassifier(random_state=0),
    baselines.LDMClassifier(solver="sgd", max_iter=30, random_state=0),
    baselines.MarginDistributionClassifier(random_state=0),
    baselines.CatoniRiskClassifier(),
    baselines.MedianOfMeansClassifier(max_iter=100, random_state=0),
]


def names(model):
    return f"{type(model).__name__}-{getattr(model, 'solver', '')}"


EXACT = (baselines.MarginDistributionClassifier, baselines.CatoniRiskClassifier)


KERNEL = baselines.LDMClassifier(kernel="rbf", random_state=0)


@parametrize_with_fitting_checks(
    [*ALL[:-1], clone(ALL[-1]).set_params(max_iter=20)],
    [KERNEL],
    expected_failed_checks=lambda estimator: {} if isinstance(estimator, EXACT) else EXPECTED,
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("model", ALL, ids=names)
def test_words_many_classes_and_unseen_rows(model):
    X, y = classes(600, n_classes=3, flip=0.02)
    words = np.array(["north", "east", "south"])[y]
    clf = clone(model).fit(X[:400], words[:400])
    assert clf.score(X[400:], words[400:]) > 0.75
    assert clf.coef_.shape == (3, 6)
    assert clf.decision_function(X).shape == (600, 3)
    alone = clone(model).fit(X[:400], np.where(y[:400] == 1, 1, 0))
    np.testing.assert_array_equal(alone.coef_[0], clf.coef_[0])  # "east" against the rest


@pytest.mark.parametrize("model", ALL, ids=names)
def test_rows_of_every_kind_give_the_same_model_and_stay_as_they_are(model):
    X, y = classes()
    X = np.where(np.abs(X) > 0.4, X, 0.0)
    kept = X.copy()
    dense = clone(model).fit(X, y)
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    wide = sp.csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)
    np.testing.assert_allclose(clone(model).fit(wide, y).coef_, sparse.coef_, atol=1e-12)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(X)), dense.decision_function(X), atol=1e-4)
    single = clone(model).fit(X.astype(np.float32), y)
    assert (single.predict(X.astype(np.float32)) == dense.predict(X)).mean() > 0.98
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.coef_, dense.coef_)


@pytest.mark.parametrize("model", ALL, ids=names)
def test_weights(model):
    X, y = classes()
    weight = np.where(np.arange(300) < 100, 0.0, 1.0)
    without = clone(model).fit(X[100:], y[100:])
    np.testing.assert_array_equal(clone(model).fit(X, y, sample_weight=weight).coef_, without.coef_)
    heavy = clone(model).fit(X, y, sample_weight=np.where(y == 1, 20.0, 1.0))
    assert heavy.predict(X).mean() > clone(model).fit(X, y).predict(X).mean()
    with pytest.raises(DataError, match="all rows of the class 1 have weight 0"):
        clone(model).fit(X, y, sample_weight=(y == 0).astype(float))


@pytest.mark.parametrize("model", ALL, ids=names)
def test_without_an_intercept_zero_is_on_the_boundary(model):
    X, y = classes()
    clf = clone(model).set_params(fit_intercept=False).fit(X, y)
    assert clf.intercept_.tolist() == [0.0]
    assert clf.decision_function(np.zeros((1, 6))).tolist() == [0.0]
    assert clf.score(X, y) > 0.7


@pytest.mark.parametrize("model", ALL, ids=names)
def test_a_spent_time_budget_is_told(model):
    X, y = classes()
    with pytest.warns(MarginConvergenceWarning, match="raise time_budget"):
        clf = clone(model).set_params(time_budget=1e-9, max_iter=1000).fit(X, y)
    assert clf.status_ == "time_limit"
    assert np.isfinite(clf.coef_).all()


@pytest.mark.parametrize(
    ("model", "place"),
    [
        (ALL[0], "pegasos._Run.step"),
        (ALL[1], "ldm.target_ascent"),
        (ALL[2], "ldm.loops.ldm_dense"),
        (ALL[3], "margin_distribution._Sphere.ball"),
        (ALL[4], "catoni_risk.refit"),
        (ALL[5], "median_of_means.MedianOfMeansClassifier._look"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_an_interrupt_keeps_the_model_so_far(model, place, monkeypatch):
    X, y = classes()

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"widemargin_papers.baselines.{place}", interrupt)
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        clf = clone(model).set_params(on_interrupt="return").fit(X, y)
    assert clf.status_ == "interrupted"
    assert clf.predict(X).shape == (300,)
    with pytest.warns(MarginConvergenceWarning), pytest.raises(KeyboardInterrupt):
        clone(model).fit(X, y)
