"""RiskClassifier: each risk against an exact reference, its certificate, weights, sparse rows, and how a fit ends."""

import dataclasses
import warnings

import clarabel
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from testing.contract import parametrize_with_fitting_checks

import widemargin as wm
from widemargin.estimators.margins import automatic
from widemargin.exceptions import DataError, DoubtfulModelWarning, MarginConvergenceWarning
from widemargin.losses.margin import SURROGATES
from widemargin.losses.risks import RISKS, make_risk

CONVEX = {
    "mean": [None],
    "cvar": [0.02, 0.3, 0.9, 1.0],
    "spectral": [[(0.1, 0.5), (1.0, 0.5)], [(0.2, 1.0), (0.5, 3.0)]],
    "tilted": [0.3, 5.0],
    "chi-square": [0.01, 0.5, 20.0],
    "wasserstein": [0.01, 0.2],
}
FORGIVING = {
    "trimmed": [0.1, 0.4],
    "catoni": [0.5, 3.0],
    "m-location": [1.2, 4.0],
    "label-noise": [0.05, 0.3],
    "tilted": [-2.0],
}
EACH_CONVEX = [(name, level) for name, levels in CONVEX.items() for level in levels]
EACH_FORGIVING = [(name, level) for name, levels in FORGIVING.items() for level in levels]


def some_rows(seed=0, n=60, d=4):
    """Rows of two classes that overlap, a tenth of the labels wrong."""
    X, y = make_classification(n, d, n_informative=d - 1, n_redundant=0, flip_y=0.2, class_sep=0.7, random_state=seed)
    return X, y


@parametrize_with_fitting_checks(
    [wm.RiskClassifier()],
    [wm.RiskClassifier("cvar", kernel="rbf"), wm.RiskClassifier("trimmed"), wm.RiskClassifier("pursuit")],
)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


class Conic:
    """A small model language for the reference: linear expressions of columns, and cones of them."""

    def __init__(self):
        self.n, self.rows, self.cones, self.cost, self.quadratic = 0, [], [], {}, {}

    def new(self, n):
        self.n += n
        return [{column: 1.0, None: 0.0} for column in range(self.n - n, self.n)]

    def add(self, cone, expressions):
        """The values of these expressions lie in a cone."""
        self.rows += expressions
        self.cones.append(cone)

    def solve(self):
        A, b = sp.lil_matrix((len(self.rows), self.n)), np.zeros(len(self.rows))
        for i, row in enumerate(self.rows):
            for column, number in row.items():
                if column is None:
                    b[i] = number
                else:
                    A[i, column] = -number
        P = sp.diags([self.quadratic.get(j, 0.0) for j in range(self.n)]).tocsc()
        c = np.array([self.cost.get(j, 0.0) for j in range(self.n)])
        set_up = clarabel.DefaultSettings()
        set_up.verbose, set_up.tol_gap_abs, set_up.tol_gap_rel, set_up.tol_feas = False, 1e-10, 1e-10, 1e-10
        found = clarabel.DefaultSolver(P, c, A.tocsc(), b, self.cones, set_up).solve()
        assert str(found.status) in ("Solved", "AlmostSolved")
        return float(found.obj_val)


def combined(*terms):
    """A sum of (factor, expression)."""
    total = {None: 0.0}
    for factor, expression in terms:
        for column, number in expression.items():
            total[column] = total.get(column, 0.0) + factor * number
    return total


def least_value(X, y, share, lam, loss, name, level):
    """Of the problem, by clarabel: losses and risks written as cones."""
    m, one = Conic(), {None: 1.0}
    w, (b,) = m.new(X.shape[1]), m.new(1)
    for column in w:
        m.quadratic[next(iter(column))] = lam
    losses = m.new(len(y))
    for x, side, bound in zip(X, y, losses, strict=True):
        margin = combined((side, b), *((side * xj, wj) for xj, wj in zip(x, w, strict=True)))
        if loss == "logistic":  # exp(-l) + exp(-margin - l) <= 1
            u, v = m.new(2)
            m.add(clarabel.NonnegativeConeT(1), [combined((1.0, one), (-1.0, u), (-1.0, v))])
            m.add(clarabel.ExponentialConeT(), [combined((-1.0, bound)), one, u])
            m.add(clarabel.ExponentialConeT(), [combined((-1.0, margin), (-1.0, bound)), one, v])
        else:  # gap >= 0, gap >= 1 - margin, gap^2 <= l
            (gap,) = m.new(1)
            m.add(clarabel.NonnegativeConeT(2), [gap, combined((1.0, gap), (-1.0, one), (1.0, margin))])
            m.add(clarabel.SecondOrderConeT(3), [combined((1.0, bound), (1.0, one)), combined((2.0, gap)),
                                                 combined((1.0, bound), (-1.0, one))])  # fmt: skip

    def cost(expression, factor=1.0):
        column = next(key for key in expression if key is not None)
        m.cost[column] = m.cost.get(column, 0.0) + factor

    def tail(share_of_worst, factor):
        (theta,), above = m.new(1), m.new(len(y))
        cost(theta, factor)
        for z, bound, p in zip(above, losses, share, strict=True):
            m.add(clarabel.NonnegativeConeT(2), [z, combined((1.0, z), (1.0, theta), (-1.0, bound))])
            cost(z, factor * p / share_of_worst)

    if name == "cvar":
        tail(level, 1.0)
    elif name == "spectral":
        total = sum(weight for _, weight in level)
        for part, weight in level:
            tail(part, weight / total)
    elif name == "tilted":  # mean of exp(t (l - R)) <= 1
        (risk,), parts = m.new(1), m.new(len(y))
        cost(risk)
        m.add(
            clarabel.NonnegativeConeT(1), [combined((1.0, one), *((-p, u) for p, u in zip(share, parts, strict=True)))]
        )
        for u, bound in zip(parts, losses, strict=True):
            m.add(clarabel.ExponentialConeT(), [combined((level, bound), (-level, risk)), one, u])
    elif name == "chi-square":
        (theta, size), above = m.new(2), m.new(len(y))
        cost(theta)
        cost(size, np.sqrt(1.0 + 2.0 * level))
        for z, bound in zip(above, losses, strict=True):
            m.add(clarabel.NonnegativeConeT(2), [z, combined((1.0, z), (1.0, theta), (-1.0, bound))])
        m.add(clarabel.SecondOrderConeT(1 + len(y)),
              [size, *(combined((np.sqrt(p), z)) for p, z in zip(share, above, strict=True))])  # fmt: skip
    else:
        for bound, p in zip(losses, share, strict=True):
            cost(bound, p)
        if name == "wasserstein":
            (length,) = m.new(1)
            cost(length, level)
            m.add(clarabel.SecondOrderConeT(1 + len(w)), [length, *w])
    return m.solve()


@pytest.mark.parametrize("loss", SURROGATES)
@pytest.mark.parametrize(("name", "level"), EACH_CONVEX)
def test_convex_risks_reach_the_least_value_of_an_exact_solver(name, level, loss):
    for seed, C in ((0, 1.0), (1, 0.01), (2, 30.0)):
        X, y = some_rows(seed)
        weight = np.random.default_rng(seed).integers(1, 4, len(y)).astype(float)
        clf = wm.RiskClassifier(name, level=level, loss=loss, C=C, tol=1e-8).fit(X, y, weight)
        total = weight.sum()
        exact = least_value(X, 2.0 * y - 1.0, weight / total, 1.0 / (total * C), loss, name, level)
        assert clf.gap_[0] <= 1e-8
        assert clf.objective_[0] == pytest.approx(exact, rel=1e-6)


def objective(clf, X, y):
    """The objective by the definition, from the fitted numbers alone."""
    risk, radius = make_risk(clf.risk, clf.level)
    losses = SURROGATES[clf.loss].derivatives(np.where(y == clf.classes_[1], 1, -1) * clf.decision_function(X))[0]
    length, n = np.linalg.norm(clf.coef_), len(y)
    return risk.value(losses, np.full(n, 1 / n)) + 0.5 * length**2 / (n * clf.C) + radius * length


@pytest.mark.parametrize("loss", SURROGATES)
@pytest.mark.parametrize(("name", "level"), EACH_FORGIVING)
def test_forgiving_risks_end_where_no_small_step_is_better(name, level, loss):
    X, y = some_rows(3, n=80)
    clf = wm.RiskClassifier(name, level=level, loss=loss, tol=1e-10).fit(X, y)
    assert clf.status_ == "converged" and np.isnan(clf.gap_[0])
    here = objective(clf, X, y)
    assert here == pytest.approx(clf.objective_[0], rel=1e-9)
    rng, w, b = np.random.default_rng(0), clf.coef_.copy(), clf.intercept_.copy()
    for _ in range(40):
        step = rng.normal(size=5)
        step *= 1e-4 / np.linalg.norm(step)
        clf.coef_, clf.intercept_ = w + step[:4], b + step[4:]
        assert objective(clf, X, y) >= here - 1e-10


@pytest.mark.parametrize(("name", "level"), [*EACH_CONVEX, *EACH_FORGIVING])
def test_risks_have_the_values_of_their_definitions(name, level):
    rng = np.random.default_rng(5)
    losses, share = rng.exponential(size=12), rng.dirichlet(np.ones(12))
    risk = make_risk(name, level)[0]
    value = risk.value(losses, share)

    def worst(tail):
        return scipy.optimize.linprog(
            -losses, A_eq=np.ones((1, 12)), b_eq=[1.0], bounds=np.column_stack([np.zeros(12), share / tail])
        )

    expected = {
        "mean": lambda: share @ losses,
        "wasserstein": lambda: share @ losses,
        "cvar": lambda: -worst(level).fun,
        "spectral": lambda: sum(c * -worst(tail).fun for tail, c in level) / sum(c for _, c in level),
        "tilted": lambda: np.log(share @ np.exp(level * losses)) / level,
        "chi-square": lambda: scipy.optimize.minimize_scalar(
            lambda t: t + np.sqrt((1 + 2 * level) * (share @ np.maximum(0, losses - t) ** 2)),
            bounds=(-50, losses.max()), method="bounded", options={"xatol": 1e-10},
        ).fun,
        "trimmed": lambda: scipy.optimize.linprog(
            losses, A_eq=np.ones((1, 12)), b_eq=[1.0],
            bounds=np.column_stack([np.zeros(12), share / (1 - level)]),
        ).fun,
        "m-location": lambda: scipy.optimize.minimize_scalar(
            lambda t: t + level * (share @ np.log(np.cosh(losses - t))), bounds=(-20, 20), method="bounded",
            options={"xatol": 1e-10},
        ).fun,
        "label-noise": lambda: -share @ np.log((1 - level) * np.exp(-losses) + level * (1 - np.exp(-losses))),
        "catoni": lambda: wm.losses.catoni_location(losses, scale=level, sample_weight=share).value,
    }[name]()  # fmt: skip
    assert value == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("name", [*RISKS, "pursuit"])
def test_weights_are_repetition_and_sparse_rows_are_dense_ones(name):
    X, y = some_rows(7, n=100)
    X[np.abs(X) < 0.5] = 0.0
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    clf = wm.RiskClassifier(name, tol=1e-10)
    scores = clf.fit(X, y, weight).decision_function(X)
    again = np.repeat(np.arange(len(y)), weight)
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(clf.fit(X[again], y[again]).decision_function(X), scores, **close)
    np.testing.assert_allclose(clf.fit(sp.csr_matrix(X), y, weight).decision_function(X), scores, **close)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(EACH_CONVEX), st.sampled_from(sorted(SURROGATES)),
       st.floats(-3, 4), st.integers(6, 60), st.integers(1, 8))  # fmt: skip
def test_every_convex_risk_closes_its_gap(seed, named, loss, power, n, d):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)) * rng.exponential(size=d), rng.integers(0, 2, n)
    y[:2] = 0, 1
    clf = wm.RiskClassifier(named[0], level=named[1], loss=loss, C=10.0**power).fit(X, y)
    assert clf.status_ == "converged" and -1e-12 <= clf.gap_[0] <= 1e-6


@pytest.mark.parametrize("tilt", [1e-9, 1e-6, 1e-3])
def test_a_small_tilt_is_nearly_the_mean_and_its_gap_is_proved(tilt):
    X, y = some_rows(2)
    clf = wm.RiskClassifier("tilted", level=tilt, C=100.0, tol=1e-9).fit(X, y)
    assert -1e-12 <= clf.gap_[0] <= 1e-9
    mean = wm.RiskClassifier(C=100.0, tol=1e-9).fit(X, y)
    assert clf.objective_[0] == pytest.approx(mean.objective_[0], rel=1e-8 + 10.0 * tilt)


def test_the_mean_is_logistic_regression():
    X, y = some_rows(1, n=300)
    ours = wm.RiskClassifier(C=0.3, tol=1e-12).fit(X, y)
    theirs = LogisticRegression(C=0.3, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


def test_pursuit_is_the_estimator_of_that_name():
    X, y = some_rows(1, n=300)
    ours = wm.RiskClassifier("pursuit", level=2.0, C=0.3).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, wm.MarginPursuitClassifier(2.0, C=0.3).fit(X, y).coef_)


def test_conjugate_gradients_find_what_factors_find(monkeypatch):
    X, y = some_rows(2, n=200, d=6)
    for name in ("mean", "cvar", "chi-square", "wasserstein"):
        whole = wm.RiskClassifier(name, tol=1e-8).fit(X, y)
        with monkeypatch.context() as patched:
            patched.setattr("widemargin.solvers.smooth.risk_problem._DENSE", 0)
            parts = wm.RiskClassifier(name, tol=1e-8).fit(X, y)
        assert parts.objective_[0] == pytest.approx(whole.objective_[0], rel=2e-8), name


def test_kernels_maps_classes_and_a_model_without_bias():
    X, y = some_rows(4, n=150)
    exact = wm.RiskClassifier("cvar", kernel="rbf").fit(X, y)
    mapped = wm.RiskClassifier("cvar", kernel="rbf", feature_map="nystroem", n_components=150).fit(X, y)
    assert exact.gap_[0] <= 1e-6 and mapped.objective_[0] == pytest.approx(exact.objective_[0], rel=1e-3)
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    clf = wm.RiskClassifier("tilted", fit_intercept=False).fit(X, three)
    assert clf.decision_function(X).shape == (150, 3) and (clf.intercept_ == 0.0).all() and (clf.gap_ <= 1e-6).all()


@pytest.mark.parametrize(("name", "level"), EACH_FORGIVING)
def test_a_forgiving_fit_goes_on_from_where_it_ended(name, level):
    X = np.random.default_rng(0).normal(size=(200, 30))
    y = (X[:, 0] > 0.0).astype(int)  # separable, so the losses are tiny
    clf = wm.RiskClassifier(name, level=level, C=1e4, warm_start=True).fit(X, y)
    for _ in range(3):
        assert clf.fit(X, y).status_ == "converged"


@pytest.mark.parametrize("name", ["cvar", "spectral", "chi-square"])
def test_scores_that_are_all_equal_are_told(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), np.arange(400) % 2
    X[:, 0] += 0.5 * y  # classes so close that the worst rows of both cancel each other
    level = {"cvar": 0.3, "spectral": [(0.1, 1.0)], "chi-square": 5.0}[name]
    with pytest.warns(DoubtfulModelWarning, match="weights of 0 have the same risk up to tol=1e-06: what is gained"):
        flat = wm.RiskClassifier(name, level=level).fit(X, y)
    assert np.ptp(flat.decision_function(X)) < 1e-3
    with pytest.warns(DoubtfulModelWarning, match="the features tell nothing of the classes"):
        wm.RiskClassifier().fit(np.ones((400, 2)), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wm.RiskClassifier().fit(X, y)
        wm.RiskClassifier("cvar", level=0.95).fit(X, y)


@pytest.mark.parametrize(("name", "milder"), [("catoni", 10.0), ("label-noise", 0.01)])
def test_equal_scores_of_a_forgiving_risk_are_told(name, milder):
    rng = np.random.default_rng(0)
    y = np.arange(300) < 15
    X = rng.normal(size=(300, 5)) + 0.5 * y[:, None]  # rows of the smaller class count as outliers, or as wrong labels
    with pytest.warns(DoubtfulModelWarning, match="as weights of 0 have the same risk .* larger scale of 'catoni'"):
        flat = wm.RiskClassifier(name, kernel="rbf").fit(X, y)
    assert flat.status_ == "converged" and np.ptp(flat.decision_function(X)) < 1e-3 and not flat.predict(X).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        milder_one = wm.RiskClassifier(name, level=milder, kernel="rbf").fit(X, y)
    assert np.ptp(milder_one.decision_function(X)) > 1.0


def test_a_point_that_is_worse_than_weights_of_0_may_tell_the_classes_apart():
    rng = np.random.default_rng(0)
    y = np.arange(300) < 40
    X = rng.normal(size=(300, 2)) + y[:, None] * [1.0, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = wm.RiskClassifier("catoni").fit(X, y)
    assert np.ptp(clf.decision_function(X)) > 1.0


@pytest.mark.parametrize(("name", "level"), [("trimmed", 0.4), ("trimmed", None)])
def test_a_class_that_is_left_out_whole_is_told(name, level):
    rng = np.random.default_rng(0)
    share = 0.3 if level else 0.06
    y = np.arange(200) < 200 * share
    X = rng.normal(size=(200, 3)) + 0.5 * y[:, None]
    with pytest.warns(DoubtfulModelWarning, match=f"leaves out every row of a class, {share:.1%} of all rows"):
        clf = wm.RiskClassifier(name, level=level).fit(X, y)
    # The bias had grown without end, to scores of some hundred in a thousand steps.
    assert clf.status_ == "converged" and clf.n_iter_ < 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wm.RiskClassifier(name, level=0.01).fit(X, y)
        wm.RiskClassifier(name, level=level, fit_intercept=False).fit(X, y)  # a ridge alone has a least value


@pytest.mark.parametrize("name", ["mean", "tilted", "wasserstein"])
def test_the_bias_is_found_however_strong_the_ridge(name):
    X, y = some_rows(0, n=80)
    clf = wm.RiskClassifier(name, C=1e-13).fit(X, y * (X[:, 0] > 0.0))
    assert clf.status_ == "converged" and clf.gap_[0] <= 1e-6 and clf.intercept_[0] < -0.1


def test_one_row_that_outweighs_all_others():
    X, y = some_rows(0)
    weight = np.ones(len(y))
    weight[0] = 1e12
    clf = wm.RiskClassifier("cvar").fit(X, y, weight)
    assert clf.status_ == "converged" and (clf.predict(X) == y)[0]


def test_a_warm_start_takes_fewer_steps():
    X, y = some_rows(4, n=500)
    clf = wm.RiskClassifier("tilted", warm_start=True).fit(X, y)
    first = clf.n_iter_
    assert clf.fit(X, y).n_iter_ < first


@pytest.mark.parametrize(
    ("risk", "level", "said"),
    [("cvar", 0.0, "the share of the worst rows, a number in"), ("cvar", 2, "in \\(0, 1\\]"),
     ("mean", 1.0, "has no level"), ("auto", 1.0, "'auto' has no level"), ("spectral", 0.5, "must be pairs"),
     ("spectral", [(0.1, -1.0)], "each weight"),
     ("spectral", [(1.5, 1.0)], "a share of the worst rows"), ("tilted", "much", "the tilt t"),
     ("trimmed", 1.0, "the share left out, a number in \\(0, 1\\)"),
     ("label-noise", 0.5, "\\(0, 0.5\\)"), ("m-location", 1.0, "eta, a number > 1"), ("pursuit", -1, "margin level")],
)  # fmt: skip
def test_a_wrong_level_is_named(risk, level, said):
    with pytest.raises(DataError, match=said):
        wm.RiskClassifier(risk, level=level).fit(*some_rows())


def test_steps_that_rounding_holds_up_end():
    """Columns that differ by powers of ten: the gap stays, and 1000 steps were taken."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 12)) * 10.0 ** rng.uniform(-1.0, 9.0, 12)
    y = X[:, 0] / X[:, 0].std() + rng.normal(size=80) > 0.0
    with pytest.warns(MarginConvergenceWarning, match="more do not change that"):
        assert wm.RiskClassifier("spectral").fit(X, y).n_iter_ < 100


def test_a_fit_that_is_cut_short_says_so():
    X, y = some_rows(0, n=300)
    with pytest.warns(MarginConvergenceWarning, match="the gap is"):
        assert wm.RiskClassifier("cvar", max_iter=2).fit(X, y).status_ == "max_iter"
    with pytest.warns(MarginConvergenceWarning, match="iterations; more do not change that: raise tol"):
        assert wm.RiskClassifier("pursuit", tol=1e-300).fit(X, y).status_ == "max_iter"
    with pytest.warns(MarginConvergenceWarning, match="steps still lower the objective"):
        assert wm.RiskClassifier("trimmed", max_iter=2).fit(X, y).status_ == "max_iter"
    with pytest.warns(MarginConvergenceWarning, match="raise time_budget"):
        assert wm.RiskClassifier("cvar", time_budget=1e-9).fit(X, y).status_ == "time_limit"
    with pytest.warns(MarginConvergenceWarning, match="by a callback"):
        assert wm.RiskClassifier(callbacks=[lambda told: True]).fit(X, y).status_ == "stopped"


@pytest.mark.parametrize("name", ["trimmed", "catoni", "label-noise"])
def test_forgiving_risks_forgive_wrong_labels_far_out(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = (X @ [2.0, -1.0, 0.5, 0.0, 0.0] > 0.0).astype(int)
    spoilt = rng.choice(2000, 200, replace=False)
    far, wrong = X.copy(), y.copy()
    far[spoilt], wrong[spoilt] = 5.0 * X[spoilt], 1 - y[spoilt]
    plain, forgiving = (wm.RiskClassifier(risk).fit(far, wrong) for risk in ("mean", name))
    assert forgiving.score(X, y) > plain.score(X, y) + 0.05


def test_auto_forgives_what_is_wrong_and_keeps_the_mean_where_nothing_is():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 8))
    chance = 1.0 / (1.0 + np.exp(-X @ [2.0, -1.0, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0]))
    y = (rng.random(4000) < chance).astype(int)
    spoilt = rng.choice(2000, 300, replace=False)
    far, wrong = X[:2000].copy(), y[:2000].copy()
    far[spoilt], wrong[spoilt] = 3.0 * far[spoilt], 1 - wrong[spoilt]
    clean = wm.RiskClassifier("auto", random_state=0).fit(X[:2000], y[:2000])
    plain = wm.RiskClassifier().fit(X[:2000], y[:2000])
    best = plain.score(X[2000:], y[2000:])
    assert clean.score(X[2000:], y[2000:]) >= best - 0.01
    dirty = wm.RiskClassifier("auto", random_state=0).fit(far, wrong)
    assert dirty.score(X[2000:], y[2000:]) >= best - 0.015
    assert wm.RiskClassifier().fit(far, wrong).score(X[2000:], y[2000:]) < best - 0.05
    plain_loss, chosen_loss = dirty.chosen_[0]["losses"]
    assert dirty.chosen_[0]["risk"] == "label-noise" and dirty.chosen_[0]["tempered"] and chosen_loss < plain_loss
    assert not hasattr(dirty.set_params(risk="mean").fit(far, wrong), "chosen_")


def test_auto_keeps_the_plain_mean_at_c_where_nothing_is_clearly_better(monkeypatch):
    X, y = make_classification(200, 40, n_informative=5, random_state=0)
    chosen = wm.RiskClassifier("auto", random_state=0).fit(X, y).chosen_[0]
    assert chosen["C"] < 1.0 and chosen["losses"][1] < chosen["losses"][0]  # far too many columns for C = 1
    monkeypatch.setattr(automatic, "FOLDS", dataclasses.replace(automatic.FOLDS, doubt=100.0))
    kept = wm.RiskClassifier("auto", random_state=0).fit(X, y).chosen_[0]
    assert (kept["risk"], kept["C"], kept["tempered"]) == ("mean", 1.0, 0)


def test_auto_on_classes_few_rows_and_sparse_rows():
    X, _ = some_rows(4, n=200)
    three = np.digitize(X[:, 0], [-0.5, 0.5])
    clf = wm.RiskClassifier("auto", random_state=0).fit(X, three)
    # Scores of the classes are compared, so all have one scale: that of one risk.
    assert clf.chosen_ == (clf.chosen_[0],) * 3 and clf.score(X, three) > 0.7
    sparse = wm.RiskClassifier("auto", random_state=0).fit(sp.csr_matrix(X), three)
    np.testing.assert_allclose(sparse.decision_function(X), clf.decision_function(X), atol=1e-4)
    few = wm.RiskClassifier("auto").fit(X[:3], [0, 0, 1])
    assert few.chosen_[0]["risk"] == "mean" and few.chosen_[0]["losses"] == ()


@pytest.mark.parametrize("known", [0, 40])
def test_auto_takes_rows_of_which_most_are_the_mean(known):
    """Constant columns, and a column that is 0 in most rows: no distance from the mean is the usual one."""
    x = np.repeat([1.0, -1.0, 0.0], [known, known, 200 - 2 * known])
    y = np.where(x == 0.0, np.arange(200) % 2, x > 0.0).astype(int)
    X = np.c_[x, np.ones(200)]
    clf = wm.RiskClassifier("auto", random_state=0).fit(X, y)
    assert (clf.predict(X) == y)[x != 0.0].all()
