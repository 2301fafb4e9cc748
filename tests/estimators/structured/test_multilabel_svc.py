"""`MultiLabelSVC`: scikit-learn's contract, and the model of pairs behind it."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import accuracy_score, average_precision_score, jaccard_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.utils._param_validation import InvalidParameterError
from testing.contract import parametrize_with_fitting_checks

from widemargin import HierarchicalSVC, MulticlassSVC, MultiLabelSVC, StructuralSVM, label_set_scorers
from widemargin.exceptions import CapabilityError, DataError, DoubtfulModelWarning, MarginConvergenceWarning
from widemargin.structured.models import MultiLabelModel

ONE_COLUMN = "y is a 0/1 matrix; the check gives one column of other values, or a vector, and wants one back"
EXPECTED = dict.fromkeys(
    (
        "check_estimators_dtypes",
        "check_classifier_data_not_an_array",
        "check_classifiers_one_label",
        "check_classifiers_classes",
        "check_classifiers_train",
        "check_classifiers_regression_target",
        "check_classifier_not_supporting_multiclass",
        "check_fit2d_1feature",
        "check_sample_weights_pandas_series",
        "check_sample_weights_not_an_array",
        "check_sample_weights_shape",
        "check_sample_weights_not_overwritten",
        "check_classifiers_one_label_sample_weights",
    ),
    ONE_COLUMN,
) | dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "folds of repeated rows are others, and training ends within a gap; test_weights_and_searches.py has what holds",
)


COLUMNS = dict.fromkeys(
    (
        "check_classifier_multioutput",
        "check_classifiers_multilabel_representation_invariance",
        "check_classifiers_multilabel_output_format_predict",
        "check_classifiers_multilabel_output_format_predict_proba",
        "check_classifiers_multilabel_output_format_decision_function",
    ),
    "the hierarchy says how many columns y has; these checks have others",
) | {"check_decision_proba_consistency": ONE_COLUMN}
QUICK = {"C": 0.01, "tol": 0.3, "max_iter": 5000}


@parametrize_with_fitting_checks(
    [MultiLabelSVC(**QUICK), HierarchicalSVC([-1], **QUICK)],
    [MultiLabelSVC()],
    expected_failed_checks=lambda estimator: EXPECTED | (COLUMNS if isinstance(estimator, HierarchicalSVC) else {}),
)
@pytest.mark.filterwarnings("ignore::widemargin.exceptions.MarginConvergenceWarning")
def test_sklearn_contract(estimator, check):
    check(estimator)


def sets(n=80, seed=0):
    """Three labels; the third is on where the first two are, which needs a pair."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    one, two = X[:, 0] + 1.0 > 0.5, X[:, 1] > 0
    return X, np.stack([one, two, one & two], axis=1).astype(int)


@pytest.mark.parametrize("edges", ["full", "tree", None, [(0, 2), (2, 1)]])
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_it_is_the_structural_svm_of_its_model(edges, rescaling):
    X, Y = sets()
    options = {"C": 0.5, "rescaling": rescaling, "tol": 0.05, "max_iter": 2000, "random_state": 0}
    clf = MultiLabelSVC(edges, **options).fit(X, Y)
    wide = np.hstack([X, np.ones((80, 1))])
    svm = StructuralSVM(MultiLabelModel(edges), **options).fit(wide, Y)
    np.testing.assert_array_equal(clf.coef_, svm.coef_[:-1].T)
    np.testing.assert_array_equal(clf.intercept_, svm.coef_[-1])
    np.testing.assert_array_equal(clf.theta_, svm.theta_)
    np.testing.assert_array_equal(clf.predict(X), svm.predict(wide))
    assert clf.edges_.tolist() == {"full": [[0, 1], [0, 2], [1, 2]], "None": []}.get(str(edges), [[0, 2], [1, 2]])
    assert (clf.gap_, clf.status_, clf.search_, clf.n_features_in_) == (svm.gap_, "converged", svm.search_, 4)
    assert clf.certified_
    assert clf.score(X, Y) > 0.7


def test_predictions_have_the_largest_score():
    X, Y = sets()
    clf = MultiLabelSVC(C=0.5, tol=0.05, max_iter=2000, random_state=0).fit(X, Y)
    every = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    pairs = every[:, clf.edges_[:, 0]] * every[:, clf.edges_[:, 1]]
    scores = (X @ clf.coef_.T + clf.intercept_) @ every.T + clf.theta_ @ pairs.T
    np.testing.assert_array_equal(clf.predict(X), every[scores.argmax(axis=1)])


def test_sparse_rows_and_labels_and_an_intercept():
    X, Y = sets()
    options = {"C": 0.5, "tol": 0.05, "max_iter": 2000, "random_state": 0}
    dense = MultiLabelSVC(**options).fit(X, Y)
    sparse = MultiLabelSVC(**options).fit(sp.csr_array(X), sp.csr_matrix(Y))
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(sparse.predict(sp.csc_matrix(X)), dense.predict(X))
    plain = MultiLabelSVC(solver_options={"fit_intercept": False}, **options).fit(X, Y)
    assert not plain.intercept_.any()
    assert plain.coef_.shape == (3, 4)
    assert dense.intercept_[0] > 0.1  # the first label is on two times in three


def test_scores_of_label_sets():
    X, Y = sets()
    clf = MultiLabelSVC(C=0.5, tol=0.1, max_iter=1000, random_state=0)
    found = cross_validate(clf, X, Y, cv=2, scoring=label_set_scorers)
    assert min(found["test_jaccard"]) > 0.7
    assert min(found[f"test_{name}_f1"].min() for name in ("micro", "macro", "example")) > 0.75
    assert min(found["test_hamming"]) > -0.2
    Y[:5] = 0  # an empty set that is predicted to be empty is right
    clf.fit(X, Y)
    shown = label_set_scorers["jaccard"](clf, X, Y)
    assert shown == pytest.approx(jaccard_score(Y, clf.predict(X), average="samples", zero_division=1.0))
    X, Y = sets()
    search = GridSearchCV(clf, {"C": [0.001, 0.5]}, cv=2, scoring="f1_macro").fit(X, Y)
    assert search.best_params_ == {"C": 0.5}
    assert search.best_estimator_.score(X, Y) == accuracy_score(Y, search.predict(X))


def test_scores_of_rankings():
    X, Y = sets()
    clf = MultiLabelSVC("tree", C=0.5, tol=0.1, max_iter=1000, random_state=0).fit(X, Y)
    ranked = clf.decision_function(X)
    assert label_set_scorers["au_prc"](clf, X, Y) == average_precision_score(Y, ranked, average="micro")
    first = np.mean([Y[i, ranked[i].argmax()] for i in range(len(Y))])
    assert label_set_scorers["precision_at_1"](clf, X, Y) == pytest.approx(first)
    assert label_set_scorers["precision_at_5"](clf, X, sp.csr_matrix(Y)) == pytest.approx(Y.mean())


@pytest.mark.parametrize("edges", ["full", "tree", None])
def test_decoding_among_some_sets_agrees_with_brute_force(edges):
    """The best non-empty set, and the best set of the training rows, by the scores of all eight sets."""
    X, Y = sets()
    Y[Y.sum(axis=1) == 3, 2] = 0  # the pair is never seen with its third label
    options = {"C": 0.5, "tol": 0.1, "max_iter": 1000, "random_state": 0}
    every = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    for decode, allowed in (("nonempty", every[1:]), ("seen", np.unique(Y, axis=0))):
        clf = MultiLabelSVC(edges, solver_options={"decode": decode, "offset": -0.6}, **options).fit(X, Y)
        u = X @ clf.coef_.T + clf.intercept_ - 0.6
        pairs = allowed[:, clf.edges_[:, 0]] * allowed[:, clf.edges_[:, 1]] @ clf.theta_ if len(clf.theta_) else 0.0
        scores = u @ allowed.T + pairs
        found, proved = clf.decode_certified(X)
        assert proved.all()
        assert (found[:, None] == allowed[None]).all(axis=2).any(axis=1).all()
        own = [scores[i, (allowed == found[i]).all(axis=1)].item() for i in range(len(X))]
        np.testing.assert_allclose(own, scores.max(axis=1), rtol=1e-9, atol=1e-12)
    plain = MultiLabelSVC(edges, solver_options={"offset": -0.6}, **options).fit(X, Y)
    assert not plain.predict(X).any(axis=1).all()  # with this offset some examples have no label else
    with pytest.raises(CapabilityError, match="set it before fit"):
        plain.set_params(solver_options={"decode": "seen"}).predict(X)


def test_hierarchies_are_never_empty_if_asked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    below = X[:, :2] > 0.4
    Y = np.stack([below[:, 0], below[:, 0] & (X[:, 2] > 0), below[:, 1]], axis=1).astype(int)
    options = {"C": 0.3, "tol": 0.1, "max_iter": 1000, "random_state": 0}
    clf = HierarchicalSVC([-1, 0, -1], solver_options={"decode": "nonempty"}, **options).fit(X, Y)
    found, plain = clf.predict(X), HierarchicalSVC([-1, 0, -1], **options).fit(X, Y).predict(X)
    assert found.any(axis=1).all() and (found[:, 1] <= found[:, 0]).all()
    some = plain.any(axis=1)
    np.testing.assert_array_equal(found[some], plain[some])


def test_names_of_columns_are_kept():
    pandas = pytest.importorskip("pandas")
    X, Y = sets()
    table = pandas.DataFrame(Y, columns=["a", "b", "both"])
    clf = MultiLabelSVC(C=0.5, tol=0.5, max_iter=1000).fit(pandas.DataFrame(X, columns=list("wxyz")), table)
    assert clf.classes_.tolist() == ["a", "b", "both"]
    assert clf.feature_names_in_.tolist() == list("wxyz")
    assert MultiLabelSVC(C=0.5, tol=0.5, max_iter=1000).fit(X, Y).classes_.tolist() == [0, 1, 2]


def test_weights_of_the_loss_count():
    X, Y = sets()
    clf = MultiLabelSVC(None, weights=[1.0, 0.0, 0.0], rescaling="margin", C=0.5, tol=0.1, max_iter=1000).fit(X, Y)
    assert clf.coef_[0].any()
    assert not clf.coef_[1:].any()


def test_warm_start_goes_on():
    X, Y = sets()
    clf = MultiLabelSVC(C=0.5, tol=0.02, max_iter=2000, warm_start=True, random_state=0).fit(X, Y)
    first = clf.n_iter_
    assert clf.fit(X, Y).n_iter_ < first
    assert clf.set_params(C=0.4).fit(X, Y).n_iter_ < first


@pytest.mark.parametrize(("C", "stage"), [(1.0, "bcfw"), ("auto", "choice")])
@pytest.mark.parametrize("on_interrupt", ["raise", "return"])
def test_an_interrupt_leaves_a_fitted_model(on_interrupt, C, stage):
    def interrupt(progress):
        if progress.iteration == 3 and progress.stage.startswith(stage):
            raise KeyboardInterrupt

    X, Y = sets()
    clf = MultiLabelSVC(C=C, tol=0.0, callbacks=[interrupt], solver_options={"on_interrupt": on_interrupt})
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"):
        if on_interrupt == "raise":
            with pytest.raises(KeyboardInterrupt):
                clf.fit(X, Y)
        else:
            clf.fit(X, Y)
    assert clf.status_ == "interrupted"
    assert clf.score(X, Y) > 0.3


def test_bad_input():
    X, Y = sets()
    with pytest.raises(DataError, match=r"y has 1 dimension\(s\)"):
        MultiLabelSVC().fit(X, Y[:, 0])
    with pytest.raises(DataError, match="entries must be 0 or 1"):
        MultiLabelSVC().fit(X, Y + 1)
    with pytest.raises(DataError, match="80 examples and 79 labels"):
        MultiLabelSVC().fit(X, Y[:-1])
    with pytest.raises(DataError, match="two different labels out of 0 to 2"):
        MultiLabelSVC([(0, 3)]).fit(X, Y)
    with pytest.raises(ValueError, match="'edges' parameter"):
        MultiLabelSVC("some").fit(X, Y)


@pytest.mark.parametrize("edges", ["full", "tree", None])
def test_decision_function_agrees_with_predictions(edges):
    X, Y = sets()
    clf = MultiLabelSVC(edges, C=0.5, tol=0.05, max_iter=2000, random_state=0).fit(X, Y)
    scores = clf.decision_function(X)
    np.testing.assert_array_equal(scores > 0.0, clf.predict(X) == 1)
    assert average_precision_score(Y, scores, average="macro") > 0.9
    if edges is None:
        np.testing.assert_allclose(scores, X @ clf.coef_.T + clf.intercept_, rtol=1e-12)
    labels, proved = clf.decode_certified(X)
    np.testing.assert_array_equal(labels, clf.predict(X))
    assert proved.all()


@pytest.fixture(scope="module")
def many():
    """Twenty labels in a ring, beyond enumeration: each likes the one before and dislikes the one after next."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 20))
    return X, (X + np.roll(X, 1, axis=1) - 0.7 * np.roll(X, 2, axis=1) > 0.3).astype(int)


def test_local_search_says_what_is_proved(many):
    X, Y = many
    clf = MultiLabelSVC(C=0.1, tol=0.02, max_iter=2000, random_state=0).fit(X, Y)
    assert not clf.certified_
    assert clf.gap_ <= 0.02 < clf.proved_gap_ < 1.0
    assert clf.proved_primal_ >= clf.primal_
    labels, proved = clf.decode_certified(X)
    assert proved.mean() > 0.2
    for i in np.flatnonzero(proved)[:20]:
        others = clf.decision_function(X[i : i + 1])[0]
        np.testing.assert_array_equal(others >= 0.0, labels[i] == 1)  # no single change is better
    np.testing.assert_array_equal(clf.predict(X[5:7]), labels[5:7])  # whatever was decoded before


def test_threads_change_nothing(many):
    X, Y = many
    one, two = (
        MultiLabelSVC(C=0.1, tol=0.1, max_iter=2000, random_state=0, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert (one.primal_, one.proved_primal_) == (two.primal_, pytest.approx(two.proved_primal_, rel=1e-12))


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_relaxed_training_bounds_the_label_sets(rescaling):
    X, Y = sets()
    options = {"C": 0.5, "tol": 0.05, "max_iter": 300, "random_state": 0, "rescaling": rescaling}
    relaxed, exact = (
        MultiLabelSVC(solver_options={"oracle": oracle}, **options).fit(X, Y) for oracle in ("roof", "auto")
    )
    assert relaxed.certified_
    assert relaxed.gap_ <= 0.05
    assert relaxed.primal_ >= exact.dual_  # the relaxed hinge is no less than that of the label sets
    assert relaxed.score(X, Y) > 0.6
    with pytest.raises(InvalidParameterError, match="oracle"):
        MultiLabelSVC(solver_options={"oracle": "relaxed"}).fit(X, Y)


def test_labels_may_lie_in_any_order_in_memory():
    """More than eight labels need two bytes a row, which lie apart where columns were picked."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X @ rng.normal(size=(4, 12)) > 0.2).astype(int)
    options = {"powerset": True, "C": 0.1, "random_state": 0}
    plain = MultiLabelSVC(**options).fit(X, Y)
    other = MultiLabelSVC(**options).fit(X, np.asfortranarray(Y))
    np.testing.assert_array_equal(plain.coef_, other.coef_)
    np.testing.assert_array_equal(plain.margins(X, Y), other.margins(X, np.asfortranarray(Y)))


def test_margin_rescaling_of_rare_labels_gets_a_large_offset():
    """With offsets up to 0.3 only, a fourth of the labels were predicted, and the Jaccard index was .075."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    Y = (X @ rng.normal(size=(6, 150)) + 4.0 * rng.normal(size=(300, 150)) > 5.0).astype(int)
    clf = MultiLabelSVC(None, rescaling="margin", random_state=0).fit(X[:150], Y[:150])
    assert clf.offset_ > 0.3
    assert label_set_scorers["jaccard"](clf, X[150:], Y[150:]) > 0.12


def test_an_offset_adds_labels():
    X, Y = sets()
    clf = MultiLabelSVC(C=0.5, tol=0.05, max_iter=2000, random_state=0).fit(X, Y)
    counts = []
    for offset in (-100.0, -0.5, 0.0, 0.5, 100.0):
        found = clf.set_params(solver_options={"offset": offset}).predict(X)
        counts.append(found.sum())
        np.testing.assert_array_equal(clf.decision_function(X) > 0.0, found == 1)
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, Y.size)
    again = MultiLabelSVC(**clf.get_params() | {"solver_options": {"offset": 0.0}}).fit(X, Y)
    np.testing.assert_array_equal(clf.coef_, again.coef_)  # training does not see it


def test_missing_values_of_frames_are_labels_that_nobody_has_looked_at():
    pandas = pytest.importorskip("pandas", reason="an optional library that users may bring")
    X, Y = sets()
    frame = pandas.DataFrame(Y).astype("Int64")
    whole = MultiLabelSVC(max_iter=5, tol=0.9, random_state=0)
    np.testing.assert_array_equal(whole.fit(X, frame).coef_, whole.fit(X, Y).coef_)
    frame.iloc[3, 1] = pandas.NA
    marked = np.array(Y, dtype=float)
    marked[3, 1] = np.nan
    for missing in (pandas.NA, None, np.nan):
        other = frame.astype(object)
        other.iloc[3, 1] = missing
        np.testing.assert_array_equal(whole.fit(X, other).coef_, whole.fit(X, marked).coef_)
    frame = frame.astype(object)
    frame.iloc[3, 1] = "yes"
    with pytest.raises(DataError, match=r"Y\[3, 1\] is 'yes': entries must be 0 or 1"):
        whole.fit(X, frame)
    with pytest.raises(DataError, match="nothing but NaN or -1"):
        whole.fit(X, np.full(Y.shape, np.nan))
    with pytest.raises(DataError, match=r"no label of y is 0: all known ones are 1.* Give 0"):
        whole.fit(X, 2 * Y - 1)


COSTS = {
    "hamming": lambda a, b: float(np.abs(a - b) @ [1.0, 1.0, 2.0]),
    "jaccard": lambda a, b: 1.0 - (a & b).sum() / max(1, (a | b).sum()),
    "f1": lambda a, b: 1.0 - 2.0 * (a & b).sum() / max(1, a.sum() + b.sum()),
    "exact": lambda a, b: float((a != b).any()),
}


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
@pytest.mark.parametrize("loss", COSTS)
def test_a_powerset_is_the_multiclass_svm_of_its_sets(loss, rescaling):
    X, Y = sets()
    Y[:2] = 0  # Jaccard and F1 of the empty set
    found, number = np.unique(Y, axis=0, return_inverse=True)
    cost = np.array([[COSTS[loss](a, b) if (a != b).any() else 0.0 for b in found] for a in found])
    options = {"C": 0.5, "rescaling": rescaling, "tol": 0.02, "max_iter": 2000, "random_state": 0}
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    weights = [1.0, 1.0, 2.0] if loss == "hamming" else None
    clf = MultiLabelSVC(powerset=True, loss=loss, weights=weights, **options).fit(X, Y, weight)
    other = MulticlassSVC(cost, **options).fit(X, number.ravel(), weight)
    np.testing.assert_allclose(clf.coef_, other.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(clf.predict(X), found[other.predict(X)])
    assert (clf.certified_, clf.status_, clf.edges_.shape, clf.theta_.shape) == (True, "converged", (0, 2), (0,))
    assert clf.gap_ == clf.proved_gap_ <= 0.02


def test_sets_of_a_powerset_by_their_scores():
    """Offsets, sets that are not empty and max-marginals, beside the scores of all sets."""
    X, Y = sets()
    names = [[name for name, on in zip("abc", own, strict=True) if on] for own in Y]
    options = {"C": 0.5, "tol": 0.1, "max_iter": 1000, "random_state": 0}
    clf = MultiLabelSVC(powerset=True, **options).fit(sp.csr_matrix(X), names)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    known, scores = clf.model_.sets, X @ clf.coef_.T + clf.intercept_
    assert len(known) < 8
    for offset in (0.0, -0.4, 0.3):
        own = scores + offset * known.sum(axis=1)
        found, proved = clf.set_params(solver_options={"offset": offset}).decode_certified(X)
        np.testing.assert_array_equal(found, known[own.argmax(axis=1)])
        assert proved.all()
        with_it = np.stack([own[:, known[:, label] == 1].max(axis=1) for label in range(3)], axis=1)
        without = np.stack([own[:, known[:, label] == 0].max(axis=1) for label in range(3)], axis=1)
        np.testing.assert_allclose(clf.predict_scores(X), with_it - without, rtol=1e-9, atol=1e-12)
    clf.set_params(solver_options={"offset": -0.4})
    assert not clf.predict(X).any(axis=1).all()
    some, own = known.any(axis=1), scores - 0.4 * known.sum(axis=1)
    clf.set_params(solver_options={"decode": "nonempty", "offset": -0.4})
    np.testing.assert_array_equal(clf.predict(X), known[some][own[:, some].argmax(axis=1)])
    seen = MultiLabelSVC(powerset=True, solver_options={"decode": "seen", "offset": -0.4}, **options).fit(X, Y)
    np.testing.assert_array_equal(seen.predict(X), known[own.argmax(axis=1)])
    assert np.isneginf(MultiLabelSVC(powerset=True, **options).fit(X, Y * [1, 1, 0]).predict_scores(X)[:, 2]).all()


def test_what_does_not_go_with_a_powerset_is_refused():
    X, Y = sets()
    for name, wrong in (
        ("edges", {"edges": None}),
        ("edges", {"edges": [(0, 1)]}),
        ("oracle", {"solver_options": {"oracle": "greedy"}}),
        ("weights", {"loss": "f1", "weights": np.ones(3)}),
    ):
        with pytest.raises(CapabilityError, match=f"^{name} does not go with powerset=True"):
            MultiLabelSVC(powerset=True, **wrong).fit(X, Y)
    with pytest.raises(DataError, match="same label set: a powerset needs at least two"):
        MultiLabelSVC(powerset=True, C=1.0).fit(X, np.ones_like(Y))
    never = np.array([0, 0, 1])  # the third label comes with the others alone
    clf = MultiLabelSVC(powerset=True, C=0.5, tol=0.1, max_iter=1000, random_state=0).fit(X, Y)
    assert clf.score(X[:1], never[None, :]) == 0.0
    with pytest.raises(DataError, match=r"with the labels \[2\] is none of the 4 of the training examples"):
        clf.margins(X[:1], never[None, :])


def test_a_powerset_takes_unknown_labels_where_they_are_completed_first():
    X, Y = sets()
    marked = Y.astype(float)
    marked[:10, 2] = np.nan
    options = {"C": 0.5, "tol": 0.1, "max_iter": 1000, "random_state": 0}
    with pytest.raises(CapabilityError, match=r"some labels of y are unknown \(-1 or NaN\): complete them"):
        MultiLabelSVC(powerset=True, **options).fit(X, marked)
    clf = MultiLabelSVC(powerset=True, solver_options={"unknown": "completed"}, **options).fit(X, marked)
    assert len(clf.model_.sets) <= 8
    assert clf.score(X, Y) > 0.7


def test_a_dip_after_the_first_C_ends_no_choice():
    """The first models predict hardly any label, and the second of them scored less than the first."""
    centres = np.random.default_rng(99).normal(size=(12, 10))

    def draw(seed, n):
        rng = np.random.default_rng(seed)
        number = rng.integers(0, 12, n)
        return 0.6 * centres[number] + rng.normal(size=(n, 10)), np.eye(12, dtype=int)[number]

    X, Y = draw(101, 1000)
    found = MultiLabelSVC(random_state=5).fit(*draw(1, 400)).predict(X)
    assert jaccard_score(Y, found, average="samples", zero_division=1.0) > 0.42  # .38 where the dip ends the path


def test_no_advice_to_scale_where_that_was_tried_and_scored_less():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 40)) * np.where(np.arange(40) < 2, 100.0, 0.01)
    Y = (X[:, :2] > 0.0).astype(int)
    with pytest.warns(DoubtfulModelWarning, match="hardly sees"):
        MultiLabelSVC(C=1e-4, random_state=0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert MultiLabelSVC(random_state=0).fit(X, Y).score(X, Y) > 0.9
