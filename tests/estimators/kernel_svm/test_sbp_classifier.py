"""SBPClassifier: the contract of scikit-learn, its certificate, and clear refusals."""

import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from testing.contract import parametrize_with_fitting_checks

import widemargin
from svm_rows import noisy_products
from widemargin.estimators.kernel_svm import sbp_classifier
from widemargin.estimators.kernel_svm.sbp_classifier import SBPClassifier
from widemargin.exceptions import CapabilityError, DataError, KernelError, KernelWarning, MarginConvergenceWarning

BY_CHANCE = {
    "check_sample_weight_equivalence_on_dense_data": "the rows held out are drawn, so repeated rows give other draws",
    "check_sample_weight_equivalence_on_sparse_data": "the rows held out are drawn, so repeated rows give other draws",
}


@parametrize_with_fitting_checks(
    [SBPClassifier(max_iter=100, random_state=0)],
    [SBPClassifier(0.05, tol=0.3)],
    expected_failed_checks=lambda model: BY_CHANCE if model.tol is None else {},
)
@pytest.mark.filterwarnings("ignore::widemargin.exceptions.MarginConvergenceWarning")
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    X, sign = noisy_products(0, 600)
    return X[:400], np.where(sign > 0, "yes", "no")[:400], X[400:], np.where(sign > 0, "yes", "no")[400:]


def test_it_is_as_good_as_svc(data):
    X, y, X_new, y_new = data
    model = SBPClassifier(0.03, gamma=0.3, random_state=0).fit(X, y)
    peer = SVC(C=5.0, gamma=0.3).fit(X, y)
    assert model.score(X_new, y_new) > peer.score(X_new, y_new) - 0.03
    assert model.status_ == "converged"
    assert 0.0 < model.margin_ <= model.margin_bound_
    assert model.gap_ == pytest.approx((model.margin_bound_ - model.margin_) / model.margin_)
    assert 0.0 < model.held_out_error_ < 0.5
    assert model.history_[-1]["steps"] <= model.n_iter_
    assert model.n_evaluations_ <= 400 * 400
    assert widemargin.SBPClassifier is SBPClassifier


def test_nu_is_chosen_by_how_noisy_the_labels_are(data):
    X, y, *_ = data
    noisy = np.where(np.random.default_rng(1).random(len(y)) < 0.25, np.where(y == "yes", "no", "yes"), y)
    model = SBPClassifier(gamma=0.3, random_state=0).fit(X, noisy)
    assert model.nu == "auto" and model.held_out_error_ is None
    assert model.nu_ > 0.05
    apart = X[np.abs(X[:, 0]) > 0.3]
    assert SBPClassifier(random_state=0).fit(apart, apart[:, 0] > 0).nu_ < 0.01


def test_an_interrupt_of_the_choice_of_nu_leaves_a_model(data, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    X, y, *_ = data
    monkeypatch.setattr(sbp_classifier, "nu_by_folds", interrupt)
    model = SBPClassifier(random_state=0)
    with pytest.warns(MarginConvergenceWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.nu_ == 0.03 and model.status_ == "interrupted"
    model.set_params(solver_options={"on_interrupt": "return"})
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        assert len(model.fit(X, y).predict(X)) == len(y)


def test_callbacks_are_told_of_the_run_and_not_of_the_choice_of_nu(data):
    stages = set()
    X, y, *_ = data
    SBPClassifier(random_state=0, callbacks=[lambda told: bool(stages.add(told.stage))]).fit(X, y)
    assert stages == {"batch perceptron"}


def test_nu_where_nothing_can_be_chosen():
    X = np.array([[0.0], [0.1], [1.0], [1.1], [1.2]])
    assert SBPClassifier(random_state=0).fit(X, [0, 0, 1, 1, 1]).nu_ == 0.03


def test_fitted_attributes_give_the_scores(data):
    X, y, X_new, _ = data
    model = SBPClassifier(0.03, tol=0.1, random_state=0).fit(X, y)
    scores = rbf_kernel(X_new, model.support_vectors_, model.gamma_) @ model.dual_coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X_new), scores, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X_new), np.where(scores > 0, "yes", "no"))
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    sign = np.where(y[model.support_] == "yes", 1.0, -1.0)
    assert (sign * model.dual_coef_[0] > 0).all()
    np.testing.assert_array_equal(model.n_support_, [(sign < 0).sum(), (sign > 0).sum()])
    assert model.held_out_error_ is None


def test_rows_held_out_have_no_coefficient_and_a_fraction_is_taken(data):
    X, y, *_ = data
    model = SBPClassifier(0.5, solver_options={"validation_fraction": 0.5}, random_state=1, max_iter=50).set_params(
        tol=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MarginConvergenceWarning)
        model.fit(X, y)
    assert model.support_.shape[0] <= 200  # nu = 1/2 covers all rows that are not held out


def test_the_published_algorithm(data):
    X, y, X_new, y_new = data
    with pytest.warns(MarginConvergenceWarning, match=r"after 500 steps with a gap of .*raise max_iter or tol"):
        model = SBPClassifier(
            0.03, gamma=0.3, solver_options={"algorithm": "published"}, tol=1e-3, max_iter=500, random_state=0
        ).fit(X, y)
    assert model.n_evaluations_ == 500 * 400
    assert model.score(X_new, y_new) > 0.7
    assert model.support_.shape[0] <= 500
    with pytest.raises(CapabilityError, match="takes no weights"):
        SBPClassifier(solver_options={"algorithm": "published"}, class_weight="balanced").fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian", "linear", "callable", "precomputed"])
def test_every_kernel(data, kernel):
    X, y, X_new, _ = data
    options = {"kernel": kernel, "tol": 0.5, "random_state": 0, "gamma": 0.3, "coef0": 1.0, "degree": 2}
    if kernel == "callable":
        options["kernel"] = lambda A, B: rbf_kernel(A, B, gamma=0.3)
    train, new = X, X_new
    if kernel == "precomputed":
        train, new = rbf_kernel(X, gamma=0.3), rbf_kernel(X_new, X, gamma=0.3)
    model = SBPClassifier(0.3, **options).fit(train, y)
    scores = model.decision_function(new)
    assert scores.shape == (200,)
    assert model.gap_ <= 0.5
    if kernel in ("callable", "precomputed"):
        same = SBPClassifier(0.3, **(options | {"kernel": "rbf"})).fit(X, y).decision_function(X_new)
        np.testing.assert_allclose(scores, same, atol=1e-6)


def test_weights_of_zero_are_absent_rows(data):
    X, y, X_new, _ = data
    weight = np.ones(400)
    weight[::3] = 0.0
    for kernel in ("rbf", "precomputed"):
        rows = rbf_kernel(X, gamma=0.3) if kernel == "precomputed" else X
        model = SBPClassifier(0.1, gamma=0.3, kernel=kernel, tol=0.3, random_state=0).fit(rows, y, weight)
        assert (model.support_ % 3 > 0).all()
        new = rbf_kernel(X_new, X, gamma=0.3) if kernel == "precomputed" else X_new
        alone = SBPClassifier(0.1, gamma=0.3, tol=0.3, random_state=0).fit(X[weight > 0], y[weight > 0])
        np.testing.assert_allclose(model.decision_function(new), alone.decision_function(X_new), atol=1e-6)
    with pytest.raises(DataError, match="all rows of the class 'no' have weight 0"):
        SBPClassifier().fit(X, y, (y == "yes").astype(float))


def test_class_weights_are_sample_weights(data):
    X, y, X_new, _ = data
    by_class = SBPClassifier(0.1, class_weight={"yes": 3.0, "no": 1.0}, tol=0.3, random_state=0).fit(X, y)
    by_row = SBPClassifier(0.1, tol=0.3, random_state=0, gamma=by_class.gamma_).fit(X, y, np.where(y == "yes", 3.0, 1))
    np.testing.assert_allclose(by_class.decision_function(X_new), by_row.decision_function(X_new))
    plain = SBPClassifier(0.1, tol=0.3, random_state=0).fit(X, y)
    assert (by_class.predict(X_new) == "yes").mean() > (plain.predict(X_new) == "yes").mean()


def test_csr_and_float32(data):
    X, y, X_new, _ = data
    X, X_new = (np.where(np.abs(Z) > 0.3, Z, 0.0) for Z in (X, X_new))
    model = SBPClassifier(0.1, gamma=0.3, tol=0.2, random_state=0)
    dense = model.fit(X, y).decision_function(X_new)
    sparse = clone(model).fit(sp.csr_matrix(X), y)
    assert sp.issparse(sparse.support_vectors_)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_matrix(X_new)), dense, atol=0.05)
    single = clone(model).fit(X.astype(np.float32), y)
    assert single.support_vectors_.dtype == np.float32
    np.testing.assert_allclose(single.decision_function(X_new), dense, atol=0.05)


def test_pickle_files_and_seeds(data, tmp_path):
    X, y, X_new, _ = data
    model = SBPClassifier(0.03, random_state=3).fit(X, y)
    scores = model.decision_function(X_new)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X_new), scores)
    np.testing.assert_array_equal(clone(model).fit(X, y).decision_function(X_new), scores)
    widemargin.save_model(model, tmp_path / "m.skops")
    again = widemargin.load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(again.decision_function(X_new), scores)
    np.testing.assert_array_equal(again.predict(X_new), model.predict(X_new))
    assert again.history_ == model.history_ and again.get_params() == model.get_params()


def test_in_a_pipeline_under_a_search(data):
    X, y, *_ = data
    pipe = make_pipeline(StandardScaler(), SBPClassifier(random_state=0, tol=0.5))
    search = GridSearchCV(pipe, {"sbpclassifier__nu": [0.03, 0.3]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.7


def test_refusals(data):
    X, y, *_ = data
    with pytest.raises(
        KernelError, match=r"kernel='sigmoid': the kernel is not positive semi-definite .*eigenvalues from -"
    ) as told:
        SBPClassifier(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, y)
    assert "solver" not in str(told.value) and "KernelSVC" in str(told.value)
    with pytest.raises(KernelError, match="cannot hold one row"):
        SBPClassifier(cache_size=1e-3).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        SBPClassifier().fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="one class only"):
        SBPClassifier().fit(X, np.zeros(400))


def test_where_no_margin_is_positive_it_says_so():
    X = np.array([[1.0], [1.0], [-1.0], [2.0]] * 3)
    with pytest.warns(
        MarginConvergenceWarning,
        match=r"at nu=0 in \d+ steps is .*, not positive .*: raise max_iter .* raise nu",
    ):
        model = SBPClassifier(0.0, kernel="linear", tol=0.1, max_iter=20).fit(X, np.array([1, 0, 1, 0] * 3))
    assert model.margin_ <= 0.0
    assert model.predict(X).shape == (12,)


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        ({"max_iter": 3}, r"there is one of at least 1e-06.*\(raise max_iter\)"),
        ({"callbacks": [lambda told: True]}, r"\(a callback ended the run\)"),
        (
            {"nu": 0.0, "max_iter": 3},
            r"raise max_iter if the rows can be separated; if not, raise nu, or raise gamma\.",
        ),
        ({"nu": 0.0, "max_iter": 3, "kernel": "linear"}, r"raise nu, or use kernel='rbf'\."),
    ],
)
def test_the_cure_for_no_margin_is_time_unless_nu_is_0(data, options, cure):
    X, y, *_ = data
    with pytest.warns(MarginConvergenceWarning) as told:
        default = {"nu": 1e-6, "tol": 0.1, "solver_options": {"batch_size": 1}, "random_state": 0}
        model = SBPClassifier(**default | options).fit(X, y)
    assert model.margin_ <= 0.0 < model.margin_bound_
    assert len(told) == 1 and re.search(cure, str(told[0].message))
    assert ("raise nu" in str(told[0].message)) == (model.nu == 0.0)
    assert "narrower" not in str(told[0].message)


def test_features_of_other_scales_and_class_weights_are_checked(data):
    X, y, *_ = data
    wide = np.column_stack((X, 1000.0 * X[:, 0], X[:, 1]))
    with pytest.warns(KernelWarning, match="of the squared distances"):
        SBPClassifier(0.05, tol=0.5, random_state=0).fit(wide, y)
    for factor in (0.0, -1.0, np.nan):
        with pytest.raises(DataError, match=r"class_weight=.* of the class .* must be a finite number > 0"):
            SBPClassifier(class_weight={np.unique(y)[0]: factor}).fit(X, y)


def test_two_rows_hold_nothing_out():
    model = SBPClassifier(0.01, kernel="linear").fit([[0.0], [2.0]], [0, 1])
    assert model.held_out_error_ is None
    assert (model.predict([[-1.0], [3.0]]) == [0, 1]).all()
    assert model.decision_function([[1.0]])[0] == pytest.approx(0.0, abs=1e-6)


def test_time_callbacks_and_the_keyboard(data):
    X, y, *_ = data
    with pytest.warns(MarginConvergenceWarning, match="by a callback"):
        stopped = SBPClassifier(0.03, tol=1e-6, callbacks=[lambda p: p.iteration >= 20]).fit(X, y)
    assert stopped.status_ == "stopped" and 20 <= stopped.n_iter_ < 40
    with pytest.warns(MarginConvergenceWarning, match="raise time_budget"):
        assert SBPClassifier(0.03, time_budget=1e-9).fit(X, y).status_ == "time_limit"

    def interrupt(progress):
        if progress.iteration >= 20:
            raise KeyboardInterrupt

    model = SBPClassifier(0.03, callbacks=[interrupt], random_state=0)
    with pytest.warns(MarginConvergenceWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert model.score(X, y) > 0.7
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        model.set_params(solver_options={"on_interrupt": "return"}).fit(X, y)


def test_verbose_logs_every_look(data, caplog):
    X, y, *_ = data
    with caplog.at_level("INFO", logger="widemargin"):
        model = SBPClassifier(0.03, verbose=1, random_state=0).fit(X, y)
    assert len(caplog.records) == len(model.history_)


def test_features_that_overflow_are_refused():
    X = 1e160 * np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(DataError, match=r"features as large as .* overflow inner products in float64"):
        SBPClassifier(kernel="linear").fit(X, np.arange(30) % 2)


@pytest.mark.parametrize("seed", range(4))
def test_the_model_is_the_one_that_the_rows_held_out_judged(seed):
    """Also where its direction is shorter than 1, which a margin of 1 no longer shows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 8)) * np.exp(rng.normal(0.0, 2.0, 8))
    y = (rng.random(400) < np.where(X[:, 0] > 0.0, 0.6, 0.3)).astype(int)
    model = SBPClassifier(1e-3, random_state=seed)
    held = model.prepare(X, y).problem.upper == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    assert np.mean(model.predict(X[held]) != y[held]) == pytest.approx(model.held_out_error_, abs=1e-9)
