"""Paths over C from warm starts, and the search along them."""

import math
import time
from operator import attrgetter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit

from widemargin import (
    ChainSVC,
    HierarchicalSVC,
    MulticlassSVC,
    MultiLabelSVC,
    StructuralSVM,
    structural_path,
    structural_search,
)
from widemargin.estimators.structured.automatic import Automatic, choose
from widemargin.estimators.structured.structural_search import StructuralCell, _best, _offsets
from widemargin.exceptions import DataError, MarginConvergenceWarning
from widemargin.structured.models import MultiLabelModel

CS = [0.001, 0.01, 0.1, 1.0]


def sets(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, :3] + X[:, 1:] + 0.5 * rng.normal(size=(n, 3)) > 0).astype(int)


def test_the_best_model_is_fitted_where_that_is_asked_for():
    X, Y = sets()
    model = MultiLabelSVC("tree", random_state=0)
    plain, fitted = (structural_search(model, X, Y, Cs=CS[:2], random_state=0, refit=refit) for refit in (False, True))
    assert not hasattr(plain.best_estimator, "coef_")
    alone = clone(plain.best_estimator).fit(X, Y)
    np.testing.assert_array_equal(fitted.best_estimator.coef_, alone.coef_)


def test_a_path_is_the_same_models_sooner():
    X, Y = sets()
    model = MultiLabelSVC("tree", tol=1e-3, max_iter=5000, random_state=0)
    path = list(structural_path(model, X, Y, Cs=CS[::-1]))
    assert [clf.C for clf in path] == CS
    passes = 0
    for clf in path:
        alone = MultiLabelSVC("tree", C=clf.C, tol=1e-3, max_iter=5000, random_state=0).fit(X, Y)
        passes += alone.n_iter_
        assert clf.dual_ <= alone.primal_
        assert alone.dual_ <= clf.primal_
        assert clf.gap_ <= 1e-3
        np.testing.assert_allclose(clf.coef_, alone.coef_, atol=0.1 * np.abs(alone.coef_).max())
        assert not hasattr(clf, "blocks_")
        assert clf.predict(X).shape == Y.shape
        assert not clf.warm_start
    assert sum(clf.n_iter_ for clf in path) < passes
    assert not hasattr(model, "coef_")


def test_a_model_with_warm_start_keeps_the_dual_points():
    X, Y = sets()
    path = list(structural_path(MultiLabelSVC(warm_start=True, max_iter=5000, random_state=0), X, Y, Cs=[0.01, 0.02]))
    assert all(hasattr(clf, "blocks_") and clf.warm_start for clf in path)
    assert path[0].fit(X, Y).n_iter_ <= 10


def test_the_search_finds_a_good_C_for_each_rescaling():
    X, Y = sets(150)
    found = structural_search(
        MultiLabelSVC(max_iter=300, random_state=0), X, Y, Cs=[1e-5, 1e-3, 0.1], scoring="jaccard",
        random_state=0,
    )  # fmt: skip
    assert {(cell.rescaling, cell.C) for cell in found.cells} <= {
        (r, C) for r in ("slack", "margin") for C in (1e-5, 1e-3, 0.1)
    }
    assert found.best_params["C"] > 1e-5
    assert found.best_score == max(cell.score for cell in found.cells) > 0.6
    assert all(cell.gap < 1.0 and cell.standard_error < 0.1 for cell in found.cells)
    assert found.status == "converged"
    assert found.best_estimator.get_params()["C"] == found.best_params["C"]
    assert str(found).endswith(f"best: C={found.best_params['C']:.4g}, rescaling={found.best_params['rescaling']}")
    again = structural_search(
        MultiLabelSVC(max_iter=300, random_state=0), X, Y, Cs=[1e-5, 1e-3, 0.1], scoring="jaccard",
        random_state=0,
    )  # fmt: skip
    assert again.cells == found.cells


def test_every_structural_estimator_and_sparse_rows():
    X, Y = sets(45)
    options = {"max_iter": 100, "random_state": 0}
    sequences = [x.reshape(2, 2) for x in X]
    for model, rows, labels in (
        (HierarchicalSVC([-1, -1, -1], **options), sp.csr_matrix(X), Y),
        (MulticlassSVC(**options), X, Y[:, 0]),
        (ChainSVC(**options), sequences, [(x[:, 0] > 0).astype(int) for x in sequences]),
        (StructuralSVM(MultiLabelModel(), **options), X, Y),
    ):
        found = structural_search(model, rows, labels, Cs=[0.1], cv=ShuffleSplit(1, random_state=0))
        assert len(found.cells) == 2
        assert np.isnan(found.cells[0].standard_error)


def test_a_path_ends_where_scores_fall():
    X, Y = sets()
    told = []

    def scorer(clf, X, Y):
        return -clf.C

    found = structural_search(
        MultiLabelSVC("tree", max_iter=50, random_state=0), X, Y, Cs=[1e-4, 1e-3, 1e-2, 0.1, 1.0], scoring=scorer,
        rescalings=["slack"], callbacks=[told.append], random_state=0,
    )  # fmt: skip
    assert [cell.C for cell in found.cells] == [1e-4, 1e-3, 1e-2]
    assert found.best_params == {"C": 1e-4, "rescaling": "slack"}
    assert [progress.iteration for progress in told] == [1, 2, 3]
    assert told[-1].objective == pytest.approx(-1e-2)
    assert told[-1].gap == pytest.approx(-1e-4)


def test_it_can_be_ended():
    X, Y = sets()
    model = MultiLabelSVC("tree", max_iter=50, random_state=0)
    with pytest.warns(MarginConvergenceWarning, match=r"ended after 1 cells \(stopped\)"):
        found = structural_search(model, X, Y, Cs=CS, callbacks=[lambda progress: True])
    assert found.status == "stopped"
    with pytest.raises(DataError, match="before the first C"):
        structural_search(model, X, Y, Cs=CS, time_budget=1e-9)

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        structural_search(model, X, Y, Cs=CS, callbacks=[interrupt])
    with pytest.warns(MarginConvergenceWarning, match="interrupted"):
        found = structural_search(model, X, Y, Cs=CS, callbacks=[interrupt], on_interrupt="return")
    assert len(found.cells) == 2
    for Cs in ([], [0.0], [np.inf]):
        with pytest.raises(DataError, match="must hold at least one number"):
            structural_search(model, X, Y, Cs=Cs)
        with pytest.raises(DataError, match="must hold at least one number"):
            structural_path(model, X, Y, Cs=Cs)


def test_passes_are_searched_from_nothing():
    X, Y = sets()
    model = MultiLabelSVC("tree", random_state=0)
    options = {"max_iters": [3, 1], "rescalings": ["slack"], "scoring": "jaccard", "cv": 2}
    found = structural_search(model, X, Y, Cs=[0.01, 0.1], **options)
    assert [(cell.C, cell.max_iter, cell.passes) for cell in found.cells] == [
        (0.01, 1, 1.0), (0.01, 3, 3.0), (0.1, 1, 1.0), (0.1, 3, 3.0),
    ]  # fmt: skip
    assert found.best_params["tol"] == 0.0
    assert found.best_estimator.max_iter in (1, 3)
    assert f"max_iter={found.best_estimator.max_iter}" in str(found)


def test_the_offset_is_the_least_one_that_is_about_as_good():
    X, Y = sets(200)
    model = MultiLabelSVC(None, tol=0.05, max_iter=1000, random_state=0)
    options = {"Cs": [1e-3], "rescalings": ["slack"], "scoring": "example_f1", "random_state": 0}
    plain = structural_search(model, X, Y, **options)
    found = structural_search(model, X, Y, offsets=[0.3, 0.0, 5.0, -0.3, 0.1], **options)
    assert plain.cells[0].offset is None
    assert "solver_options" not in plain.best_params
    assert found.best_params["solver_options"].offset in (0.0, 0.1, -0.3, 0.3)
    assert found.best_score >= plain.best_score - plain.cells[0].standard_error
    assert found.best_estimator.solver_options == found.best_params["solver_options"]


@pytest.mark.parametrize(
    ("scores", "place"),
    [
        ([[0.5, 0.6], [0.6, 0.7]], 1),  # better by two standard errors
        ([[0.5, 0.54], [0.7, 0.74]], 0),  # within one
        ([[0.5, 0.51]], 1),  # one fold: no error is known
        ([[0.5, 0.5], [0.5, 0.5]], 0),
    ],
)
def test_within_a_standard_error(scores, place):
    [(found, mean, _, second)] = _offsets(np.array(scores)[:, :, None])
    assert found == place
    assert mean == pytest.approx(np.mean(scores, axis=0)[place])
    assert second is None


@pytest.mark.parametrize(
    ("first", "error", "chosen"),
    [
        ((0.50, 0.52, 0.51), 0.005, 1),  # one that stands alone
        ((0.50, 0.52, 0.51), 0.010, 2),
        ((0.50, 0.52, 0.51), 0.020, 0),
        ((0.50, 0.52, 0.52), math.nan, 2),  # one fold: ties only
    ],
)
def test_a_second_score_decides_within_a_standard_error_of_the_first(first, error, chosen):
    cells = [
        StructuralCell("slack", C, None, None, score, error, 0.0, 1.0, second)
        for C, score, second in zip((1.0, 2.0, 3.0), first, (-0.1, -0.3, -0.2), strict=True)
    ]
    assert _best(cells) is cells[chosen]


def test_two_scores_have_a_cell_for_every_offset():
    X, Y = sets(150)
    model = MultiLabelSVC(None, tol=0.05, max_iter=1000, random_state=0)
    options = {"Cs": [1e-3, 1e-2], "rescalings": ["slack"], "offsets": [0.0, 0.1, 5.0], "random_state": 0}
    found = structural_search(model, X, Y, scoring=("jaccard", "hamming"), **options)
    alone = [
        structural_search(model, X, Y, scoring=one, **{**options, "offsets": [0.1]}).cells[1]
        for one in ("jaccard", "hamming")
    ]
    assert [(cell.C, cell.offset) for cell in found.cells] == [(C, o) for C in (1e-3, 1e-2) for o in (0.0, 0.1, 5.0)]
    assert (found.cells[4].score, found.cells[4].second) == (alone[0].score, alone[1].score)
    chosen = next(
        cell
        for cell in found.cells
        if (cell.C, cell.offset) == (found.best_params["C"], found.best_params["solver_options"].offset)
    )
    best = max(found.cells, key=lambda cell: cell.score)
    close = [cell for cell in found.cells if cell.score >= best.score - best.standard_error]
    assert chosen in close
    assert chosen.second == max(cell.second for cell in close)
    assert f"{chosen.second:.4f}" in str(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rescalings": "slack"}, "rescalings='slack': give a sequence"),
        ({"rescalings": ["slake"]}, "give a sequence of 'slack' and 'margin'"),
        ({"rescalings": []}, "rescalings is empty"),
        ({"max_iters": []}, "max_iters is empty"),
        ({"max_iters": [0, 5]}, "must be at least 1"),
        ({"offsets": []}, "offsets is empty"),
        ({"scoring": ["jaccard", "hamming", "micro_f1"]}, "scoring has 3 entries"),
        ({"offsets": [0.0, np.nan]}, "must be finite"),
        ({"patience": 0}, "patience=0 must be at least 1"),
        ({"on_interrupt": "ignore"}, "give 'raise' or 'return'"),
    ],
)
def test_options_that_make_no_search_are_refused(options, message):
    with pytest.raises(DataError, match=message):
        structural_search(MultiLabelSVC(), *sets(20), **options)


def test_offsets_are_for_label_sets():
    with pytest.raises(DataError, match="ChainSVC has no offset"):
        structural_search(ChainSVC(), [np.ones((2, 1))], [[0, 1]], offsets=[0.1])


def test_the_default_grid_follows_the_number_of_rows():
    X, Y = sets(60)
    model = MultiLabelSVC("tree", max_iter=20, random_state=0)
    with pytest.warns(MarginConvergenceWarning, match="stopped"):
        found = structural_search(model, X, Y, cv=2, callbacks=[lambda progress: progress.iteration == 2])
    assert [cell.C for cell in found.cells] == pytest.approx([1 / (0.1 * 30), 1 / (10**-1.5 * 30)])


def test_a_time_limit_takes_the_best_so_far():
    X, Y = sets(60)

    def slow(clf, X, Y):
        time.sleep(0.2)
        return clf.C

    model = MultiLabelSVC("tree", C=0.01, max_iter=500, random_state=0).fit(X, Y)  # compiled
    with pytest.warns(MarginConvergenceWarning, match="time_limit"):
        found = structural_search(model, X, Y, Cs=[1e-3, 2e-3, 4e-3, 8e-3], cv=2, time_budget=1.0, scoring=slow)
    assert 1 <= len(found.cells) <= 3
    assert found.best_params["C"] == found.cells[-1].C
    assert found.status == "time_limit"


@pytest.mark.parametrize("kind", ["sets", "hierarchy", "sequences"])
def test_one_fit_chooses_C_and_offset(kind):
    """What `fit` chooses is what the search over folds finds best, and the model is the one of these numbers."""
    X, Y = sets(90)
    X -= X.mean(axis=0)  # what is done to rows before a choice leaves these as they are
    X /= np.sqrt((X**2).sum(axis=1).mean())
    fixed = {"tol": 0.05, "random_state": 0}
    clf = MultiLabelSVC(**fixed) if kind == "sets" else HierarchicalSVC([-1, -1, 0], **fixed)
    if kind == "hierarchy":
        Y[:, 2] &= Y[:, 0]
    if kind == "sequences":
        clf, X, Y = ChainSVC(**fixed), list(X.reshape(30, 3, 4)), list(Y[:, 0].reshape(30, 3))
    clf.fit(X, Y)
    known = {"C": clf.C_} if kind == "sequences" else {"C": clf.C_, "solver_options": {"offset": clf.offset_}}
    again = clone(clf).set_params(**known).fit(X, Y)
    np.testing.assert_allclose(again.coef_, clf.coef_, rtol=1e-6, atol=1e-9)
    assert clf.status_ == "converged"
    assert clf.gap_ <= 0.05
    assert clf.score(X, Y) > clone(clf).set_params(C=1e-5).fit(X, Y).score(X, Y)
    assert (clf.C, clf.solver_options) == ("auto", None)


def test_the_choice_follows_the_score_and_the_unit_of_the_features():
    (X, Y), offset = sets(120), attrgetter("solver_options.offset")
    chosen = [
        MultiLabelSVC(None, random_state=0, solver_options={"scoring": scoring}).fit(X, Y).offset_
        for scoring in ("jaccard", lambda model, X, Y: -offset(model), lambda model, X, Y: offset(model))
    ]
    assert chosen[1:] == [-0.05, 0.3]
    small, large = (
        MultiLabelSVC(None, random_state=0, solver_options={"fit_intercept": False}).fit(a * X, Y) for a in (0.1, 10.0)
    )
    assert pytest.approx(1e-4 * small.C_) == large.C_
    np.testing.assert_allclose(small.coef_, 100.0 * large.coef_, rtol=1e-6)


def test_of_many_rows_some_are_looked_at_and_their_C_is_that_of_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    Y = (X[:, :3] + X[:, 1:] > 0).astype(int)
    C = choose(MultiLabelSVC(random_state=0), "auto", 0.0, MultiLabelModel(), X, Y, how=Automatic(most=60)).C
    # Three folds of 60 rows train on 40; C is some half decade over these, whatever the 240 are.
    half = 2.0 * math.log10(40 * C)
    assert half == pytest.approx(round(half))


def test_few_examples_are_fitted_without_a_choice():
    X, Y = sets(19)
    clf = MultiLabelSVC(random_state=0).fit(X, Y)
    assert (clf.C_, clf.offset_) == (1.0, 0.0)
    assert MultiLabelSVC(random_state=0, solver_options={"offset": 0.1}).fit(X, Y).offset_ == 0.1
    one = MultiLabelSVC(C=0.1, random_state=0).fit(X, Y)
    assert (one.C_, one.offset_) == (0.1, 0.0)


def test_the_choice_keeps_within_half_of_the_time():
    X, Y = sets(400)
    with pytest.warns(MarginConvergenceWarning, match="time"):
        clf = MultiLabelSVC(time_budget=1e-4, random_state=0).fit(X, Y)
    assert clf.status_ == "time_limit"
    assert clf.C_ > 0.0
