"""`feature_map=` of the ready-made structural estimators: one map that is fitted, kept, saved and used for new rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin import (
    ChainSVC,
    HierarchicalSVC,
    MulticlassSVC,
    MultiLabelSVC,
    load_model,
    save_model,
    structural_search,
)
from widemargin.estimators.feature_space import make_feature_map
from widemargin.kernels.functions import Kernel

FEW = {"n_components": 60, "gamma": 1.0}
MAPS = ("nystroem", "fourier")


def rings(n=120, seed=0):
    """Rows of the plane; labels say in which ring they lie, which no linear model can."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, (np.linalg.norm(X, axis=1) > np.array([0.8, 1.3])[:, None]).T.astype(int)


def problem(kind, **given):
    """A model and rows and labels of its kind."""
    X, Y = rings()
    options = {"C": 1.0, "tol": 0.05, "max_iter": 3000, "random_state": 0, "solver_options": FEW, **given}
    if kind == "chain":
        return ChainSVC(**options), [X[i : i + 4] for i in range(0, 120, 4)], np.split(Y.sum(axis=1), 30)
    if kind == "classes":
        return MulticlassSVC(**options), X, Y.sum(axis=1)
    return (MultiLabelSVC if kind == "sets" else lambda **known: HierarchicalSVC([-1, 0], **known))(**options), X, Y


EXPECTED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "training ends within a gap; test_weights_and_searches.py has what holds",
)


@parametrize_with_checks(
    [MulticlassSVC(C=0.1, tol=0.5, max_iter=1000, feature_map="nystroem", solver_options={"n_components": 20})],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["sets", "hierarchy", "chain", "classes"])
@pytest.mark.parametrize("name", MAPS)
def test_what_is_not_linear_is_learnt_saved_and_read(kind, name, tmp_path):
    model, X, y = problem(kind)
    linear = clone(model).set_params(tol=0.5).fit(X, y).score(X, y)
    model.set_params(feature_map=name).fit(X, y)
    assert model.score(X, y) > linear + 0.3
    assert model.coef_.shape[1] == 60 and model.n_features_in_ == 2
    save_model(model, tmp_path / "model.skops")
    for mine, read in zip(model.predict(X), load_model(tmp_path / "model.skops").predict(X), strict=True):
        np.testing.assert_array_equal(mine, read)
    model.set_params(feature_map=None, tol=0.5).fit(X, y)
    assert not hasattr(model, "feature_map_") and model.coef_.shape[1] == 2


@pytest.mark.parametrize("kind", ["sets", "hierarchy", "classes"])
@pytest.mark.parametrize("name", MAPS)
def test_it_is_the_linear_model_of_the_mapped_rows(kind, name):
    model, X, y = problem(kind)
    mapped = clone(model).set_params(feature_map=name).fit(X, y)
    by_hand = model.fit(mapped.feature_map_.transform(X), y)
    np.testing.assert_allclose(
        mapped.decision_function(X), by_hand.decision_function(mapped.feature_map_.transform(X)), atol=1e-9
    )
    drawn = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    own = make_feature_map(name, Kernel("rbf", gamma=1.0), 60, seed=drawn, n_rows=120).fit(X)
    np.testing.assert_allclose(mapped.feature_map_.transform(X), own.transform(X))


@pytest.mark.parametrize("kind", ["sets", "chain", "classes"])
@pytest.mark.parametrize("name", MAPS)
def test_sparse_rows_are_mapped_as_dense_ones(kind, name):
    model, X, y = problem(kind, feature_map=name, tol=0.3)
    csr = [sp.csr_matrix(x) for x in X] if kind == "chain" else sp.csr_matrix(X)
    assert clone(model).fit(csr, y).score(csr, y) == pytest.approx(model.fit(X, y).score(X, y), abs=0.02)


def test_searches_and_warm_starts_keep_the_map():
    model, X, y = problem("sets", feature_map="nystroem", tol=0.3)
    grid = GridSearchCV(model, {"feature_map": [None, "nystroem"]}, cv=2).fit(X, y)
    assert grid.best_params_ == {"feature_map": "nystroem"}
    found = structural_search(model, X, y, Cs=[0.1, 1.0], rescalings=["slack"], cv=2, random_state=0)
    assert found.best_estimator.feature_map == "nystroem" and len(found.cells) == 2
    warm = clone(model).set_params(warm_start=True, random_state=None).fit(X, y)
    kept = warm.feature_map_
    assert warm.set_params(tol=0.31).fit(X, y).feature_map_ is kept
    assert warm.n_iter_ < 10


def test_the_width_is_chosen_with_c():
    """Labels that change faster than the usual width sees; a width that is given is kept."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(200, 2))
    Y = np.stack([np.sin(10.0 * X[:, 0]) > 0, np.sin(10.0 * X[:, 1]) > 0], axis=1).astype(int)
    options = {"n_components": 50, "gamma": None}
    model = MultiLabelSVC(edges=None, tol=0.3, feature_map="nystroem", random_state=0, solver_options=options).fit(
        X[:160], Y[:160]
    )
    usual = clone(model).set_params(solver_options=options | {"gamma": "scale"}).fit(X[:160], Y[:160])
    scale = usual.feature_map_.gamma
    assert scale == pytest.approx(1.0 / (2.0 * X[:160].var()))
    assert model.feature_map_.gamma in (2.0 * scale, 4.0 * scale, 8.0 * scale)
    assert model.score(X[160:], Y[160:]) > usual.score(X[160:], Y[160:]) + 0.05
    assert clone(model).set_params(C=1.0).fit(X[:160], Y[:160]).feature_map_.gamma == scale
