"""Zafar's constraints against a generic solver, in both forms, and what the estimator promises."""

import clarabel
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from testing.contract import parametrize_with_fitting_checks

from widemargin import RateConstrainedClassifier
from widemargin.exceptions import DataError
from widemargin.goals import Population, col
from widemargin.solvers.convex import convex_step as choice
from widemargin_papers.baselines import ZafarClassifier

A, B = Population("a", where=col("group") == 1), Population("b", where=col("group") == 0)
EVERYONE = Population.everyone()


def data(seed=0, n=120, d=3):
    rng = np.random.default_rng(seed)
    group = (rng.random(n) < 0.4).astype(int)
    X = rng.normal(size=(n, d)) + 1.2 * group[:, None] * np.eye(d)[0]
    y = (X @ rng.normal(size=d) + 0.5 * X[:, 0] + 0.8 * rng.normal(size=n) > 0.4).astype(int)
    return X, y, pa.table({"group": group}), rng.integers(0, 4, n).astype(float)


def exact(X, y, difference, c, C, weight, intercept):
    """The same problem for clarabel: variables w, b and one slack a row; the bias unregularised."""
    n, d = X.shape
    sign = np.where(y == 1, 1.0, -1.0)
    lam = 2.0 / (weight.sum() * C)
    Z = np.hstack([X, np.ones((n, 1)) * intercept])
    margin = np.hstack([-sign[:, None] * Z, -np.eye(n)])
    limits = np.zeros((2, d + 1 + n))
    limits[0, :d], limits[1, :d] = difference, -difference
    slack = np.hstack([np.zeros((n, d + 1)), -np.eye(n)])
    P = sp.diags(np.concatenate([np.full(d, lam), np.zeros(1 + n)])).tocsc()
    q = np.concatenate([np.zeros(d + 1), weight / weight.sum()])
    right = np.concatenate([np.full(n, -0.5), np.zeros(n), [c, c]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    G = sp.csc_matrix(np.vstack([margin, slack, limits]))
    found = clarabel.DefaultSolver(P, q, G, right, [clarabel.NonnegativeConeT(G.shape[0])], settings).solve()
    return np.asarray(found.x)[: d + 1], found.obj_val


def hinge_objective(clf, X, y, C, weight):
    margin = np.where(y == 1, 1.0, -1.0) * clf.decision_function(X)
    loss = np.maximum(0.0, 0.5 - margin) @ weight / weight.sum()
    return loss + (clf.coef_**2).sum() / (weight.sum() * C)


@pytest.mark.parametrize("share", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["dense", "csr", "float32"])
def test_hinge_form_is_the_optimum_of_a_generic_solver(share, intercept, kind):
    X, y, table, weight = data()
    X = X.astype(np.float32).astype(float)
    members = np.asarray(table["group"]) == 1
    difference = np.average(X[members], axis=0, weights=weight[members])
    difference -= np.average(X[~members], axis=0, weights=weight[~members])
    free, _ = exact(X, y, difference, 1e3, 0.5, weight, intercept)
    c = share * abs(free[:-1] @ difference)
    expected, optimum = exact(X, y, difference, c, 0.5, weight, intercept)
    given = {"dense": X, "csr": sp.csr_matrix(X), "float32": X.astype(np.float32)}[kind]
    clf = ZafarClassifier(A, B, c=c, C=0.5, fit_intercept=intercept, tol=1e-8).fit(given, y, weight, table)
    assert clf.covariance_ == pytest.approx(clf.coef_[0] @ difference, abs=1e-6)
    assert abs(clf.covariance_) <= c + 1e-6
    assert hinge_objective(clf, X, y, 0.5, weight) == pytest.approx(optimum, rel=2e-6)
    np.testing.assert_allclose(clf.coef_[0], expected[:-1], atol=2e-3)


def test_without_populations_it_is_the_plain_svm():
    X, y, _, weight = data(1)
    clf = ZafarClassifier(C=2.0).fit(X, y, weight)
    _, optimum = exact(X, y, np.zeros(3), 1.0, 2.0, weight, True)
    assert clf.covariance_ is None
    assert hinge_objective(clf, X, y, 2.0, weight) == pytest.approx(optimum, rel=2e-6)


def ramp_objective(w, X, y, C):
    margin = np.where(y == 1, 1.0, -1.0) * (X @ w)
    return np.clip(0.5 - margin, 0.0, 1.0).mean() + w @ w / (len(y) * C)


@pytest.mark.parametrize("c", [0.05, 0.2])
def test_ramp_form_is_a_local_optimum_under_the_same_constraint(c):
    X, y, table, _ = data(2, d=2)
    clf = ZafarClassifier(A, B, c=c, form="ramp", fit_intercept=False, max_steps=60).fit(X, y, populations=table)
    members = np.asarray(table["group"]) == 1
    difference = X[members].mean(axis=0) - X[~members].mean(axis=0)
    w = clf.coef_[0]
    assert abs(w @ difference) <= c + 1e-5
    rng = np.random.default_rng(0)
    near = w + 0.02 * rng.normal(size=(500, 2))
    near = near[np.abs(near @ difference) <= c]
    assert ramp_objective(w, X, y, 1.0) <= min(ramp_objective(v, X, y, 1.0) for v in near) + 2e-3


def test_a_free_ramp_form_is_the_unconstrained_ramp_model():
    X, y, table, _ = data(3)
    clf = ZafarClassifier(A, B, c=1e3, form="ramp", fit_intercept=False, max_steps=60).fit(X, y, populations=table)
    free = RateConstrainedClassifier(
        C=1.0, solver_options={"fit_intercept": False, "tol": 1e-06}, enforce="randomized", max_steps=60
    ).fit(X, y)
    reached, expected = (ramp_objective(model.coef_[0], X, y, 1.0) for model in (clf, free))
    assert reached == pytest.approx(expected, rel=5e-3)


def test_the_positive_class_turns_the_sign_of_the_covariance_only():
    X, y, table, _ = data()
    words = np.where(y == 1, "no", "yes")
    one = ZafarClassifier(A, B, c=0.1).fit(X, y, populations=table)
    other = ZafarClassifier(A, B, c=0.1, pos_label="no").fit(X, words, populations=table)
    assert other.covariance_ == pytest.approx(one.covariance_, abs=1e-5)
    assert (np.where(other.predict(X) == "no", 1, 0) == one.predict(X)).mean() > 0.98


def test_tight_c_costs_error_and_lowers_the_difference():
    X, y, table, _ = data(n=400)
    fits = [ZafarClassifier(A, B, c=c).fit(X, y, populations=table) for c in (1e3, 0.2, 0.0)]
    assert fits[0].covariance_ > fits[1].covariance_ > fits[2].covariance_ - 1e-9
    errors = [(clf.predict(X) != y).mean() for clf in fits]
    assert errors[0] < errors[2]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"first": A}, "one of first and second is missing"),
        ({"first": A, "second": Population.external("e")}, "is external"),
        ({"first": A, "second": B, "form": "ramp"}, r"c = 0: the ramp form divides by c"),
        ({"first": A, "second": Population("none", where=col("group") == 1) & B}, "is empty: none of 120 rows"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, message):
    X, y, table, _ = data()
    with pytest.raises(DataError, match=message):
        ZafarClassifier(**parameters).fit(X, y, populations=table)


def test_an_interrupt_leaves_a_model_and_is_raised(monkeypatch):
    X, y, table, _ = data()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setitem(choice._SOLVE, "newton", interrupted)
    clf = ZafarClassifier(A, B)
    with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        clf.fit(X, y, populations=table)
    assert clf.status_ == "interrupted"
    assert clf.predict(X).shape == y.shape


@parametrize_with_fitting_checks(
    [ZafarClassifier()],
    [ZafarClassifier(EVERYONE, EVERYONE, c=0.1), ZafarClassifier(EVERYONE, EVERYONE, c=0.1, form="ramp")],
)
def test_scikit_learn_conformance(estimator, check):
    check(estimator)
