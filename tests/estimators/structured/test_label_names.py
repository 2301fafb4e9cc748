"""Label sets by names, and with labels that nobody has looked at."""

import copy
import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import HierarchicalSVC, MultiLabelSVC, StructuralSVM, label_set_scorers
from widemargin.estimators.structured.training import Chosen
from widemargin.exceptions import DataError
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.models import MultiLabelModel

NAMES = ["cat", "dog", "fish"]
FIXED = {"C": 0.1, "tol": 1e-3, "max_iter": 20_000, "random_state": 0}


def sets(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (X[:, :3] + X[:, 1:] + 0.5 * rng.normal(size=(n, 3)) > 0).astype(int)


def partly(n=30):
    """Rows, label sets, where nobody has looked, and the sets with these labels off."""
    X, Y = sets(n)
    missing = np.random.default_rng(1).random(Y.shape) < 0.3
    return X, Y, missing, np.where(missing, 0, Y)


def named(Y, names=NAMES):
    return [{name for name, on in zip(names, row, strict=True) if on} for row in Y]


@pytest.mark.parametrize("form", [list, lambda rows: [sorted(row) for row in rows], pd.Series])
def test_names_in_and_out(form):
    X, Y = sets()
    clf, other = MultiLabelSVC(**FIXED).fit(X, form(named(Y))), MultiLabelSVC(**FIXED).fit(X, Y)
    assert clf.classes_.tolist() == NAMES
    np.testing.assert_array_equal(clf.predict(X), other.predict(X))
    assert [set(row) for row in clf.predict_names(X)] == named(other.predict(X))
    assert other.predict_names(X[:1]) == [tuple(np.flatnonzero(other.predict(X[:1])[0]).tolist())]
    assert clf.score(X, form(named(Y))) == other.score(X, Y) == other.score(X, sp.csr_matrix(Y))
    with pytest.raises(DataError, match="row 1 of y has the label 'bird'"):
        clf.score(X[:2], [["cat"], ["bird"]])


def test_names_of_a_hierarchy_are_closed():
    paths = ["pet", "pet/cat", "pet/dog"]
    X, Y = sets()
    Y[:, 0] = Y[:, 1:].max(axis=1)
    clf = HierarchicalSVC(paths, **FIXED).fit(X, [row - {"pet"} for row in named(Y, paths)])
    np.testing.assert_array_equal(clf.predict(X), HierarchicalSVC(paths, **FIXED).fit(X, Y).predict(X))
    assert {row[0] for row in clf.predict_names(X) if row} == {"pet"}
    leaves = [row - {"pet"} for row in named(Y, paths)]
    assert clf.score(X, leaves) == clf.score(X, Y) > 0.5
    np.testing.assert_array_equal(clf.margins(X, leaves), clf.margins(X, Y))
    with pytest.raises(DataError, match="label 'cat', which is none of the 3 known"):
        clf.fit(X[:1], [["cat"]])


def test_columns_in_another_order_are_refused():
    X, Y = sets()
    table = pd.DataFrame(Y, columns=NAMES)
    model = MultiLabelSVC(**FIXED).fit(X, table)
    assert model.score(X, table) == model.score(X, Y)  # columns without names are believed
    for asked in (model.score, model.margins):
        with pytest.raises(DataError, match="column 0 of y is 'fish', but that of the training labels was 'cat'"):
            asked(X, table[NAMES[::-1]])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["cat"], ["dog", 3]] * 10, "y has the label 3, which is no text"),
        ([[1], [2, 3]] * 10, "the rows of y have different lengths"),
        (["cat", "dog"] * 10, "y has 1 dimension"),
    ],
)
def test_what_is_no_name(rows, said):
    with pytest.raises(DataError, match=said):
        MultiLabelSVC().fit(sets(20)[0], rows)


@pytest.mark.parametrize("scorer", label_set_scorers)
def test_scorers_refuse_what_they_cannot_compare(scorer):
    X, Y = sets()
    clf = MultiLabelSVC(**FIXED).fit(X, named(Y))
    assert -1.0 <= label_set_scorers[scorer](clf, X, Y) <= 1.0
    with pytest.raises(DataError, match="scorers do not know the columns of the predictions"):
        label_set_scorers[scorer](clf, X, named(Y))
    if scorer != "jaccard":
        with pytest.raises(DataError, match="only the scorer 'jaccard' leaves them out"):
            label_set_scorers[scorer](clf, X, np.where(np.arange(3) == 1, -1, Y))


def test_sets_that_were_seen_have_to_be_known():
    X, Y = sets()
    with pytest.raises(DataError, match="every row has an unknown label"):
        MultiLabelSVC(solver_options={"decode": "seen"}, **FIXED).fit(X, np.where(np.arange(3) == 1, -1, Y))


@pytest.mark.parametrize(
    ("solver", "rescaling", "edges"),
    [
        *itertools.product(["bcfw"], ["slack", "margin"], [None, "full", [(0, 1)]]),
        *itertools.product(["sgd", "cutting-plane"], ["slack", "margin"], ["full"]),
    ],
)
def test_labels_that_nobody_looked_at_are_left_out(solver, rescaling, edges):
    """The objective is that of the sets that agree with the row where nobody has looked, by brute force."""
    X, Y, missing, known = partly()
    options = FIXED | {"rescaling": rescaling, "solver": solver, "tol": 0.05 if solver == "sgd" else 1e-3}
    clf = MultiLabelSVC(edges, solver_options={"fit_intercept": False}, **options).fit(X, np.where(missing, np.nan, Y))
    u, pairs = X @ clf.coef_.T, clf.edges_
    total = 0.5 * float((clf.coef_**2).sum() + clf.theta_ @ clf.theta_)
    for i, truth in enumerate(known):
        worst = 0.0
        for y in map(np.array, itertools.product((0, 1), repeat=3)):
            if (y == truth)[missing[i]].all():
                both = y[pairs].prod(axis=1) - truth[pairs].prod(axis=1)
                h, g = 1.0 + u[i] @ (y - truth) + float(both @ clf.theta_), float((y != truth).sum())
                worst = max(worst, h * g if rescaling == "slack" else h + g - 1.0)
        total += 0.1 * worst
    assert clf.primal_ == pytest.approx(total)
    assert clf.status_ == "converged"
    np.testing.assert_array_equal(clf.coef_, clf.fit(X, np.where(missing, -1, Y)).coef_)


def test_compiled_loops_and_oracles_agree_on_what_is_left_out():
    X, Y, missing, known = partly()
    searched = StructuralSVM(MultiLabelModel(), search="angular", **FIXED)
    searched._train(MultiLabelModel(), X, known, Chosen(0.1), missing=missing)
    compiled = MultiLabelSVC(solver_options={"fit_intercept": False}, **FIXED).fit(X, np.where(missing, -1, Y))
    assert searched.dual_ <= compiled.primal_
    assert compiled.dual_ <= searched.primal_
    plain, left_out = (StructuredProblem(MultiLabelModel(), X, known, missing=some) for some in (None, missing))
    assert plain.fingerprint() != left_out.fingerprint()


def test_scores_leave_out_what_nobody_looked_at():
    X, Y, missing, known = partly(120)
    marked = np.where(missing, -1, Y)
    clf = MultiLabelSVC(random_state=0).fit(X, marked)  # C and offset are chosen by what is known
    assert clf.gap_ <= 0.05
    found = np.where(missing, 0, clf.predict(X))
    both, either = (found & known).sum(axis=1), (found | known).sum(axis=1)
    shares = [1.0 if e == 0 else b / e for b, e in zip(both, either, strict=True)]
    assert label_set_scorers["jaccard"](clf, X, marked) == pytest.approx(np.mean(shares))
    assert clf.score(X, marked) == np.mean((found == known).all(axis=1))
    assert clf.score(X, marked) > 0.5
    seen = MultiLabelSVC(C=0.1, random_state=0, solver_options={"decode": "seen"}).fit(X, marked).label_sets_
    assert {tuple(row) for row in seen} == {tuple(row) for row in Y[~missing.any(axis=1)]}


def test_unknown_parents_of_known_nodes_are_on():
    X, Y = sets()
    Y[:, 0] = Y[:, 1:].max(axis=1)
    marked = Y.copy()
    marked[::3, 0] = -1
    clf = HierarchicalSVC([-1, 0, 0], **FIXED).fit(X, marked)
    assert (clf.predict(X)[:, 0] >= clf.predict(X)[:, 1]).all()
    assert clf.score(X, Y) > 0.5


@pytest.mark.parametrize("scorer", label_set_scorers)
def test_scorers_take_weights_which_repeat_examples(scorer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X + 0.8 * rng.normal(size=X.shape) > 0.3).astype(int)
    weight = rng.integers(0, 3, 60)
    clf = MultiLabelSVC(None, C=1.0, random_state=0).fit(X, Y)
    score, twice = label_set_scorers[scorer], np.repeat(np.arange(60), weight)
    assert score(clf, X, Y, sample_weight=weight) == pytest.approx(score(clf, X[twice], Y[twice]))
    assert score(clf, X, Y, sample_weight=np.ones(60)) == pytest.approx(score(clf, X, Y))


@pytest.mark.parametrize(
    ("name", "average", "empty"), [("micro", "micro", 0), ("macro", "macro", 0), ("example", "samples", 1)]
)
def test_f1_is_that_of_scikit_learn_and_of_one_label_that_of_this_label(name, average, empty):
    """Of one label micro F1 was the share of right decisions, macro F1 that of two classes, example F1 an error."""
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    Y = (X[:, :3] + rng.normal(size=(60, 3)) > 0.8).astype(int)
    clf = MultiLabelSVC(None, C=0.1, random_state=0).fit(X, Y)
    score, found = label_set_scorers[f"{name}_f1"], clf.predict(X)
    options = {"sample_weight": weight, "average": average, "zero_division": empty}
    assert score(clf, X, Y, sample_weight=weight) == pytest.approx(f1_score(Y, found, **options))
    clf.fit(X, Y[:, :1])
    found = clf.predict(X)
    for each in (score, label_set_scorers["jaccard"], label_set_scorers["hamming"]):
        with pytest.raises(DataError, match="y has 3 labels for 60 rows, the predictions have 1 for 60"):
            each(clf, X, Y)
    right = f1_score(Y[:, 0], found[:, 0], sample_weight=weight)
    if name == "example":
        right = np.average(found[:, 0] == Y[:, 0], weights=weight)  # a set of one label is right or wrong
    assert score(clf, X, Y[:, :1], sample_weight=weight) == pytest.approx(right)


def test_weights_are_routed_through_a_search_to_fit_and_scorer():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, 3))
    Y = (X + 0.8 * rng.normal(size=X.shape) > 0.3).astype(int)
    weight = np.where(np.arange(90) < 45, 1.0, 1e-6)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=True),
            MultiLabelSVC(None, random_state=0).set_fit_request(sample_weight=True),
        )
        scorer = copy.deepcopy(label_set_scorers["jaccard"]).set_score_request(sample_weight=True)
        search = GridSearchCV(pipe, {"multilabelsvc__C": [0.1, 1.0]}, scoring=scorer, cv=3, error_score="raise")
        search.fit(X, Y, sample_weight=weight)
        plain = scorer(search.best_estimator_, X[:45], Y[:45], sample_weight=weight[:45])
        assert scorer(search.best_estimator_, X, Y, sample_weight=weight) == pytest.approx(plain, abs=1e-4)


@pytest.mark.parametrize("kind", ["sets", "nodes"])
def test_unknown_labels_are_completed(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    on = X > [-0.5, 0.0, 0.0]
    Y = (on & on[:, :1]).astype(int)
    marked = np.where(rng.random(Y.shape) < 0.3, -1, Y)
    make = MultiLabelSVC if kind == "sets" else partial(HierarchicalSVC, [-1, 0, 0])
    clf = make(solver_options={"unknown": "completed"}, **FIXED).fit(X, marked)
    first = make(**FIXED).fit(X, marked)
    sets = np.array([s for s in itertools.product((0, 1), repeat=3) if kind == "sets" or s[0] >= max(s)])
    scores = first.model_.scores_of(sets, first._potentials(X), first.theta_)
    agree = ((marked[:, None] == -1) | (marked[:, None] == sets)).all(axis=2)
    completed = sets[np.where(agree, scores, -np.inf).argmax(axis=1)]
    np.testing.assert_allclose(clf.coef_, make(**FIXED).fit(X, completed).coef_)
