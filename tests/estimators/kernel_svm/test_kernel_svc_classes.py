"""KernelSVC with more than two classes: the layout of SVC, one against the rest, shared kernel rows, probabilities."""

import threading
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

from widemargin import KernelPerceptron, KernelSVC, RiskClassifier, SBPClassifier
from widemargin.estimators.kernel_svm import binary_problems
from widemargin.estimators.kernel_svm.binary_problems import splits
from widemargin.estimators.kernel_svm.multiclass import coupled, score_blocks, sharpened, sharpness
from widemargin.exceptions import DataError, MarginConvergenceWarning
from widemargin.solvers.kernel_svm.automatic import AutomaticOptions
from widemargin.solvers.kernel_svm.dual import small_problems
from widemargin.solvers.kernel_svm.dual.small_problems import SmallProblemOptions


def digits(n=500):
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16.0, y[:n]


def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("options", [{}, {"kernel": "linear"}, {"kernel": "poly", "coef0": 1.0}], ids=str)
@pytest.mark.parametrize("data", [digits(), iris()], ids=["digits", "iris"])
def test_pairs_agree_with_svc(data, options):
    X, y = data
    ours, theirs = (maker(tol=1e-8, C=5.0, **options).fit(X, y) for maker in (KernelSVC, SVC))
    for shape in ("ovr", "ovo"):
        for model in (ours, theirs):
            model.set_params(decision_function_shape=shape)
        scores = theirs.decision_function(X)  # LIBSVM keeps kernel values in single precision
        np.testing.assert_allclose(ours.decision_function(X), scores, atol=1e-4 * np.abs(scores).max())
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=2e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4, atol=1e-4)
    assert ours.n_iter_.shape == theirs.n_iter_.shape
    if options.get("kernel") == "linear":
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("options", [{}, {"kernel": "poly"}, {"tol": None}, {"solver": "smo"}], ids=str)
def test_pairs_side_by_side_are_those_of_one_thread(options, monkeypatch):
    X, y = make_blobs(400, n_features=4, centers=5, cluster_std=6.0, random_state=0)
    monkeypatch.setattr(SmallProblemOptions, "rows", 0)  # compiled code alone shares out small problems
    alone = KernelSVC(n_jobs=1, random_state=0, **options).fit(X, y)
    asked = []
    monkeypatch.setattr(AutomaticOptions, "side_by_side", 1)
    monkeypatch.setattr(binary_problems, "_side_by_side", spied(binary_problems._side_by_side, asked))
    shared = KernelSVC(n_jobs=3, random_state=0, **options).fit(X, y)
    assert len(asked) == 1
    np.testing.assert_array_equal(shared.dual_coef_, alone.dual_coef_)
    np.testing.assert_array_equal(shared.intercept_, alone.intercept_)
    assert shared.evaluations_ == alone.evaluations_
    assert shared.violation_ == alone.violation_
    # Somebody who watches is told of one problem after the other.
    KernelSVC(n_jobs=3, solver_options={"callbacks": [lambda progress: None]}).fit(X, y)
    KernelSVC(n_jobs=3, solver_options={"time_budget": 60.0}).fit(X, y)
    KernelSVC(n_jobs=3, cache_size=0.2, **options).fit(X, y)  # too little for two of them
    assert len(asked) == 1
    # Of three equal classes a pair takes four ninths of the memory, so three threads are two.
    KernelSVC(n_jobs=3).fit(X[y < 3], y[y < 3])
    assert asked[-1][3] == 2


@pytest.mark.parametrize("options", [{}, {"kernel": "poly"}, {"C": 10.0, "kernel": "linear"}], ids=str)
def test_small_pairs_in_one_loop_are_those_solved_one_by_one(options, monkeypatch):
    X, y = make_blobs(300, n_features=4, centers=5, cluster_std=6.0, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, 300).astype(float)
    asked, solve = [], small_problems.solve
    monkeypatch.setattr(small_problems, "solve", spied(solve, asked))
    model, shared = (KernelSVC(tol=1e-8, n_jobs=jobs, **options).fit(X, y, sample_weight=weight) for jobs in (1, 2))
    # Problems that did not end within their steps are solved as all others are.
    monkeypatch.setattr(small_problems, "solve", lambda *given: [None, *solve(*given)[1:]])
    mixed = KernelSVC(tol=1e-8, **options).fit(X, y, sample_weight=weight)
    monkeypatch.setattr(SmallProblemOptions, "rows", 0)
    plain = KernelSVC(tol=1e-8, **options).fit(X, y, sample_weight=weight)
    assert len(asked) == 2
    np.testing.assert_array_equal(shared.dual_coef_, model.dual_coef_)
    for found in (model, mixed):
        assert (found.status_, found.violation_ <= 1e-8) == ("converged", True) and "dual" in found.solver_
        np.testing.assert_array_equal(found.support_, plain.support_)
        scores = plain.decision_function(X)
        np.testing.assert_allclose(found.decision_function(X), scores, atol=1e-5 * np.abs(scores).max())
    # Who watches the time or the steps is told of one problem after the other; rows held out need the rule.
    for watched in ({"solver_options": {"time_budget": 60.0}}, {"max_iter": 1000}, {"tol": None}):
        KernelSVC(**watched).fit(X, y)
    assert len(asked) == 2


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_small_pairs_of_rows_in_single_precision_are_solved_in_one_loop(kernel, monkeypatch):
    X, y = make_blobs(300, n_features=4, centers=5, cluster_std=6.0, random_state=0)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    one_by_one = []
    monkeypatch.setattr(binary_problems, "_solve", spied(binary_problems._solve, one_by_one))
    single, double = (KernelSVC(kernel=kernel).fit(Z, y) for Z in (X, X.astype(np.float64)))
    assert not one_by_one and single.support_vectors_.dtype == np.float32
    np.testing.assert_allclose(single.dual_coef_, double.dual_coef_, atol=1e-9)
    assert single.gap_ == pytest.approx(double.gap_) and single.evaluations_ == double.evaluations_


@pytest.mark.filterwarnings("ignore:the kernel .sigmoid. is not positive")
@pytest.mark.parametrize("options", [{"kernel": "sigmoid", "C": 0.1}, {"kernel": "sigmoid"}, {"solver": "smo"}])
def test_small_pairs_in_one_loop_end_where_libsvm_does(options, monkeypatch):
    X, y = make_blobs(300, n_features=4, centers=5, cluster_std=6.0, random_state=0)
    X = StandardScaler().fit_transform(X)
    asked, one_by_one = [], []
    monkeypatch.setattr(small_problems, "solve", spied(small_problems.solve, asked))
    monkeypatch.setattr(binary_problems, "_solve", spied(binary_problems._solve, one_by_one))
    model = KernelSVC(**options).fit(X, y)
    assert (len(asked), len(one_by_one)) == (1, 0) and model.solver_ == "smo"
    assert model.indefinite_ is ("kernel" in options) and model.violation_ <= 1e-3
    peer = SVC(**{name: value for name, value in options.items() if name != "solver"}).fit(X, y)
    np.testing.assert_allclose(model.n_iter_.sum(), peer.n_iter_.sum(), rtol=0.1)
    assert np.mean(model.predict(X) == peer.predict(X)) >= 0.99  # LIBSVM keeps kernel values in single precision
    monkeypatch.setattr(SmallProblemOptions, "rows", 0)
    plain = KernelSVC(**options).fit(X, y)
    assert len(one_by_one) == 10 and plain.solver_reason_ == model.solver_reason_
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=0.02)


def test_an_interrupt_of_small_pairs_ends_with_a_model(monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(small_problems, "solve", interrupted)
    X, y = iris()
    model = KernelSVC(solver_options={"on_interrupt": "return"})
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"):
        model.fit(X, y)
    assert model.status_ == "interrupted" and model.intercept_.shape == (3,)
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"), pytest.raises(KeyboardInterrupt):
        KernelSVC().fit(X, y)


def spied(function, asked):
    def called(*arguments):
        asked.append(arguments)
        return function(*arguments)

    return called


def test_an_interrupt_ends_pairs_side_by_side_with_a_model(monkeypatch):
    X, y = make_blobs(600, n_features=4, centers=6, cluster_std=6.0, random_state=0)
    solve, caller = binary_problems._solve, threading.get_ident()

    def interrupted(*arguments):
        if threading.get_ident() == caller and not arguments[4].interrupted:
            raise KeyboardInterrupt
        return solve(*arguments)

    monkeypatch.setattr(AutomaticOptions, "side_by_side", 1)
    monkeypatch.setattr(SmallProblemOptions, "rows", 0)
    monkeypatch.setattr(binary_problems, "_solve", interrupted)
    model = KernelSVC(n_jobs=2, solver_options={"on_interrupt": "return"})
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert model.intercept_.shape == (15,)


def test_ties_are_broken_as_svc_does():
    X, y = make_blobs(300, centers=5, cluster_std=4.0, random_state=0)
    new = np.random.default_rng(0).uniform(-15, 15, (2000, 2))
    plain, broken = (KernelSVC(tol=1e-8, break_ties=ties).fit(X, y) for ties in (False, True))
    for model in (plain, broken):
        theirs = SVC(tol=1e-8, break_ties=model.break_ties).fit(X, y)
        assert (model.predict(new) == theirs.predict(new)).mean() > 0.999
    assert (plain.predict(new) != broken.predict(new)).any()
    with pytest.raises(ValueError, match="break_ties must be False"):
        broken.set_params(decision_function_shape="ovo").predict(new)


@pytest.mark.parametrize("cache_size", [200.0, 0.5])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_every_problem_is_the_binary_one_however_rows_are_shared(multi_class, cache_size):
    X, y = digits()
    model = KernelSVC(gamma=0.1, tol=1e-7, solver_options={"multi_class": multi_class}, cache_size=cache_size)
    model.set_params(decision_function_shape=multi_class).fit(X, y)
    scores = model.decision_function(X)
    for column, (first, rest) in enumerate([(0, 1), (0, 2)] if multi_class == "ovo" else [(0, None), (1, None)]):
        rows = np.isin(y, [first, rest]) if multi_class == "ovo" else np.ones(y.shape, dtype=bool)
        alone = SVC(gamma=0.1, tol=1e-7).fit(X[rows], y[rows] == first)
        np.testing.assert_allclose(scores[:, column], alone.decision_function(X), atol=1e-4)


@pytest.mark.filterwarnings("ignore::widemargin.exceptions.KernelWarning")
@pytest.mark.parametrize(("cache_size", "kept"), [(30.0, True), (15.0, False)])
def test_values_of_an_indefinite_kernel_are_kept_where_those_of_all_rows_fit(cache_size, kept, monkeypatch):
    """Of three classes of 600 rows all values take 26 MB. Those of a pair would fit into 15, but more is kept."""
    rng, made = np.random.default_rng(0), []
    X, y = rng.normal(size=(1800, 3)), np.repeat([0, 1, 2], 600)
    X[:, 0] += 2.0 * y
    monkeypatch.setattr(binary_problems, "_PairMatrices", spied(binary_problems._PairMatrices, made))
    model = KernelSVC(kernel="sigmoid", gamma=0.1, cache_size=cache_size).fit(X, y)
    assert (len(made) == 1) == kept
    peer = SVC(kernel="sigmoid", gamma=0.1).fit(X, y)
    assert np.mean(model.predict(X) != peer.predict(X)) < 0.01


def test_one_against_the_rest_has_a_row_for_each_class():
    X, y = digits()
    model = KernelSVC(gamma=0.1, solver_options={"multi_class": "ovr"}).fit(X, y)
    assert model.dual_coef_.shape == (10, model.support_.shape[0])
    assert model.intercept_.shape == model.n_iter_.shape == (10,)
    expansion = rbf_kernel(X, model.support_vectors_, gamma=0.1) @ model.dual_coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expansion, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), np.argmax(expansion, axis=1))
    linear = KernelSVC(kernel="linear", solver_options={"multi_class": "ovr"}).fit(X, y)
    np.testing.assert_allclose(linear.decision_function(X), X @ linear.coef_.T + linear.intercept_, atol=1e-9)


def test_kernel_values_are_shared_by_all_problems():
    X, y = digits()
    rows = KernelSVC(gamma=0.1, solver_options={"multi_class": "ovr"}, cache_size=1.5).fit(
        X, y
    )  # the matrix takes 1.9 MB
    alone = [KernelSVC(gamma=0.1, cache_size=1.5).fit(X, y == c).evaluations_ for c in range(10)]
    assert rows.evaluations_ < 0.6 * sum(alone)


def test_pairs_compute_few_kernel_values():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 4000)
    X = rng.normal(size=(5, 8))[y] + 0.1 * rng.normal(size=(4000, 8))
    small = KernelSVC().fit(X[:1000], y[:1000])
    assert small.evaluations_ <= 0.1 * 1000**2  # few rows support anything
    wide = KernelSVC().fit(np.hstack((X[:1000], np.zeros((1000, 700)))), y[:1000])
    assert wide.evaluations_ <= 0.75 * 1000**2  # a value between classes once, one within a class in a triangle
    large, theirs = (maker(decision_function_shape="ovo").fit(X, y) for maker in (KernelSVC, SVC))
    assert large.evaluations_ <= 0.05 * 4000**2
    np.testing.assert_allclose(large.decision_function(X[:200]), theirs.decision_function(X[:200]), atol=0.02)


def test_sparse_rows_weights_and_precomputed_values():
    X, y = digits(300)
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    ours, theirs = (
        maker(gamma=0.1, tol=1e-7, class_weight="balanced").fit(X, y, sample_weight=weight)
        for maker in (KernelSVC, SVC)
    )  # fmt: skip
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(ours.support_, np.flatnonzero(weight)[theirs.support_])
    sparse = KernelSVC(gamma=0.1, tol=1e-7, class_weight="balanced").fit(sp.csr_array(X), y, sample_weight=weight)
    assert isinstance(sparse.dual_coef_, sp.csr_array)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), ours.decision_function(X), atol=1e-4)
    K = rbf_kernel(X, gamma=0.1)
    given = KernelSVC(kernel="precomputed", tol=1e-7, class_weight="balanced").fit(K, y, sample_weight=weight)
    np.testing.assert_allclose(given.decision_function(K), ours.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(given.support_, ours.support_)
    with pytest.raises(DataError, match="all rows of the class 3 have weight 0"):
        KernelSVC().fit(X, y, sample_weight=(y != 3).astype(float))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_probabilities_are_calibrated_on_rows_that_training_did_not_see(method, multi_class):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1500)
    X = np.array([[0, 0], [2, 0], [0, 2]])[y] + rng.normal(size=(1500, 2))
    model = KernelSVC(calibration=method, solver_options={"multi_class": multi_class}, random_state=0).fit(
        X[:1000], y[:1000]
    )
    found = model.predict_proba(X[1000:])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    centres = np.array([[0, 0], [2, 0], [0, 2]])
    density = np.exp(-0.5 * ((X[1000:, None, :] - centres) ** 2).sum(axis=2))
    true = density / density.sum(axis=1, keepdims=True)
    assert np.abs(found - true).mean() < 0.08
    losses = [-np.log(np.clip(table, 1e-3, 1)[np.arange(500), y[1000:]]).mean() for table in (found, true)]
    assert losses[0] < losses[1] + (0.08 if method == "sigmoid" else 0.2)  # isotonic maps need more than 200 rows
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(model.predict_log_proba(X[:5]), np.log(model.predict_proba(X[:5])))


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_many_careful_sigmoids_are_not_too_careful_together(multi_class):
    """Pairs of digits have 43 rows held out; SVC(probability=True) has a mean log loss of 0.098 on these rows."""
    X, y = load_digits(return_X_y=True)
    X, new, y, labels = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    model = KernelSVC(calibration="sigmoid", solver_options={"multi_class": multi_class}, random_state=0).fit(X, y)
    found = model.predict_proba(new)
    assert log_loss(labels, found) < 0.098
    assert model.sharpness_ > 1.3


def test_the_power_of_probabilities_makes_the_log_loss_least():
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.ones(4), size=4000)
    codes = np.array([rng.choice(4, p=row) for row in true])
    assert sharpness(sharpened(true, 0.5), codes, np.ones(4000)) == pytest.approx(2.0, rel=0.05)
    weight = np.where(rng.random(4000) < 0.5, 2.0, 0.0)
    rows = np.repeat(np.flatnonzero(weight), 2)
    assert sharpness(true, codes, weight) == pytest.approx(
        sharpness(true[rows], codes[rows], np.ones(rows.size)), rel=1e-4
    )
    sure = sharpened(np.eye(4)[codes[:50]] + 1.0, sharpness(np.eye(4)[codes[:50]] + 1.0, codes[:50], np.ones(50)))
    assert 0.97 < sure.max() < 0.99  # no error among 50 rows does not prove that there never is one
    zero = sharpened(np.array([[1.0, 0.0, 0.0]]), 2.0)
    assert np.isfinite(zero).all() and zero.sum() == 1.0


def test_coupled_probabilities_solve_their_problem():
    rng = np.random.default_rng(0)
    parts = splits(4, "ovo")
    true = rng.dirichlet(np.ones(4), size=20)
    consistent = np.column_stack([true[:, i] / (true[:, i] + true[:, j]) for i, j in parts])
    np.testing.assert_allclose(coupled(consistent, parts), true, atol=1e-6)

    pairs = rng.uniform(0.05, 0.95, (1, 6))
    r = np.zeros((4, 4))
    for (i, j), value in zip(parts, pairs[0], strict=True):
        r[i, j], r[j, i] = value, 1 - value

    def loss(p):
        return sum((r[j, i] * p[i] - r[i, j] * p[j]) ** 2 for i in range(4) for j in range(4) if i != j)

    found = coupled(pairs, parts)[0]
    assert found.sum() == pytest.approx(1.0) and (found >= 0).all()
    assert all(loss(found) <= loss(other) + 1e-12 for other in rng.dirichlet(np.ones(4), size=3000))


def test_calibration_of_few_rows_says_how_many_it_holds_out():
    X, y = digits(400)
    rows = np.concatenate([np.flatnonzero(y == digit)[:2] for digit in range(3)])
    with pytest.raises(DataError, match="20% of the 6 rows, which is 2, of 3 classes"):
        KernelSVC(calibration="sigmoid").fit(X[rows], y[rows])


def test_calibration_of_precomputed_values_and_two_classes():
    X, y = digits(400)
    y = y % 2
    K = rbf_kernel(X, gamma=0.1)
    given = KernelSVC(kernel="precomputed", calibration="sigmoid", random_state=1).fit(K, y)
    named = KernelSVC(gamma=0.1, calibration="sigmoid", random_state=1).fit(X, y)
    np.testing.assert_array_equal(given.support_, named.support_)
    np.testing.assert_allclose(given.predict_proba(K), named.predict_proba(X), atol=1e-6)
    held = np.setdiff1d(np.arange(400), named.support_)
    assert held.shape[0] >= 80
    assert not hasattr(KernelSVC(), "predict_proba")
    with pytest.raises(AttributeError) as error:
        _ = KernelSVC().predict_proba
    assert 'set calibration="sigmoid" or "isotonic"' in str(error.value.__cause__)


def test_scores_of_many_rows_are_made_in_blocks(monkeypatch):
    X, y = digits(300)
    model = KernelSVC().fit(X, y)
    whole, labels = model.decision_function(X), model.predict(X)
    few = partial(score_blocks, numbers=700)  # 7 rows at a time
    monkeypatch.setattr("widemargin.estimators.kernel_svm.multiclass.score_blocks", few)
    np.testing.assert_allclose(model.decision_function(X), whole, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_few_rows_have_the_scores_that_they_have_among_many(kernel, kind):
    X, y = digits(300)
    rows = rbf_kernel(X, gamma=0.1) if kernel == "precomputed" else kind(X)
    model = KernelSVC(kernel=kernel, decision_function_shape="ovo").fit(rows, y)
    whole = model.decision_function(rows)
    np.testing.assert_allclose(model.decision_function(rows[:7]), whole[:7], atol=1e-5)
    np.testing.assert_array_equal(model.predict(rows[:7]), model.predict(rows)[:7])
    model.set_params(decision_function_shape="ovr")
    expected = _ovr_decision_function(whole < 0, -whole, 10)
    np.testing.assert_allclose(model.decision_function(rows), expected, atol=1e-12)


def test_problems_share_the_time(monkeypatch):
    X, y = digits(300)
    seen = []

    def note(progress):
        seen.append(progress.iteration)
        return len(seen) >= 3

    with pytest.warns(UserWarning, match="by a callback"):
        model = KernelSVC(solver_options={"callbacks": [note]}).fit(X, y)
    assert model.status_ == "stopped"
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize(
    "clf",
    [KernelSVC(), KernelSVC(kernel="linear"), SBPClassifier(nu=0.1), KernelPerceptron(), RiskClassifier(),
     RiskClassifier(kernel="rbf")],
    ids=str,
)  # fmt: skip
def test_new_classes_never_meet_the_scores_of_an_earlier_fit(clf):
    X, y = iris()
    two = y < 2
    clf.fit(X[two], np.where(y[two] == 0, "a", "b"))
    with pytest.raises(DataError):
        clf.fit(X[two], np.where(y[two] == 0, "c", "d"), sample_weight=(y[two] == 0).astype(float))
    with pytest.raises(NotFittedError):  # it answered "c" and "d", by the scores of "a" and "b"
        clf.predict(X[two])


def test_an_interrupt_before_the_first_step_leaves_no_model():
    X, y = iris()

    def interrupted(A, B):
        raise KeyboardInterrupt

    clf = KernelSVC().fit(X, y)
    with pytest.raises(KeyboardInterrupt):
        clf.set_params(kernel=interrupted).fit(X, y)
    with pytest.raises(NotFittedError):
        clf.predict(X)


@pytest.mark.parametrize("clf", [KernelSVC(), SBPClassifier(nu=0.1), KernelPerceptron(), RiskClassifier()], ids=str)
def test_rows_that_are_refused_leave_the_model_before(clf):
    """As in scikit-learn, where rows are looked at before anything is changed."""
    X, y = (part[:100] for part in iris())
    expected = clf.fit(X, y).predict(X)
    for rows, labels in ((np.where(X > 5.0, np.nan, X), y), (X[:, 0], y), (X, y[:-1])):
        with pytest.raises(ValueError, match=r"NaN|1D array|inconsistent"):
            clf.fit(rows, labels)
        np.testing.assert_array_equal(clf.predict(X), expected)
