"""What every structural estimator takes: weights of the examples, and a search by name."""

import numpy as np
import pytest
from sklearn.base import clone

from widemargin import ChainSVC, HierarchicalSVC, MulticlassSVC, MultiLabelSVC, StructuralSVM
from widemargin.exceptions import CapabilityError, DataError
from widemargin.structured.models import MultiLabelModel

KINDS = ("pairs", "tree", "independent", "hierarchy", "path", "sequences", "classes", "own", "local", "relaxed")
SOLVERS = ("bcfw", "sgd", "cutting-plane", "one-slack")


def task(kind, n=24, **options):
    """An estimator of a kind with examples and labels."""
    options = {"C": 0.05, "tol": 1e-3, "max_iter": 20_000, "random_state": 0} | options
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    Y = (X + 0.7 * rng.normal(size=X.shape) > 0).astype(int)
    if kind == "hierarchy":
        Y[:, 1:] &= Y[:, :1]
        return HierarchicalSVC([-1, 0, 0], **options), X, Y
    if kind == "path":
        Y = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 0]])[Y.sum(axis=1) % 3]
        return HierarchicalSVC([-1, 0, 0], labels="path", **options), X, Y
    if kind == "sequences":
        return ChainSVC(**options), list(X[:, :, None]), list(Y)
    if kind == "classes":
        return MulticlassSVC([[0, 1, 2], [1, 0, 1], [2, 1, 0]], **options), X, np.minimum(Y.sum(axis=1), 2)
    if kind == "own":
        return StructuralSVM(MultiLabelModel("full"), **options), X, Y
    edges = {"tree": [(0, 1), (1, 2)], "independent": None}.get(kind, "full")
    oracle = {"local": "greedy", "relaxed": "roof"}.get(kind, "auto")
    return MultiLabelSVC(edges, solver_options={"oracle": oracle}, **options), X, Y


def objective(model, other):
    """Lower and upper bound of the one objective must enclose a value of the other."""
    assert model.dual_ <= other.primal_ * (1 + 1e-9)
    assert other.dual_ <= model.primal_ * (1 + 1e-9)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=0.1 * np.abs(other.coef_).max())


def taken(X, order):
    return X[order] if isinstance(X, np.ndarray) else [X[i] for i in order]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_weights_are_repetitions(kind, rescaling):
    model, X, Y = task(kind, rescaling=rescaling)
    weight = np.random.default_rng(1).integers(0, 4, 24)
    order = np.repeat(np.arange(24), weight)
    weighted = task(kind, rescaling=rescaling)[0].fit(X, Y, sample_weight=weight)
    objective(weighted, model.fit(taken(X, order), taken(Y, order)))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["pairs", "own"])
def test_every_solver_knows_the_weights(solver, kind):
    weight = np.random.default_rng(2).random(24)
    search = "angular" if kind == "own" else "auto"  # the one in compiled loops, the other in Python
    models = []
    for chosen, options in (("bcfw", {}), (solver, {"tol": 0.02, "search": search})):
        model, X, Y = task(kind, solver=chosen, **options)
        models.append(model.fit(X, Y, sample_weight=weight))
    assert models[1].status_ == "converged"
    objective(*models)


def test_wrong_weights_are_named():
    model, X, Y = task("pairs")
    for weight, message in (
        (np.ones(23), r"shape \(23,\)"), (np.r_[np.ones(23), -1.0], "example 23 is -1"), (np.zeros(24), "all are zero"),
        (np.r_[np.nan, np.ones(23)], "example 0 is nan"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            model.fit(X, Y, sample_weight=weight)


def test_a_choice_of_C_trains_with_weights():
    model, X, Y = task("pairs", 60, C="auto", tol=0.05)
    weight = np.ones(60)
    plain = model.fit(X, Y).coef_
    np.testing.assert_array_equal(task("pairs", 60, C="auto", tol=0.05)[0].fit(X, Y, weight).coef_, plain)
    weight[:30] = 0.0
    assert not np.array_equal(model.fit(X, Y, weight).coef_, plain)


def test_the_size_of_weights_does_not_matter_to_the_choice_of_C():
    """Weights of a survey say how many people a row stands for. They led to a C as many times too large."""
    model, X, Y = task("pairs", 60, C="auto", tol=0.05)
    own = model.fit(X, Y).coef_
    many = clone(model).fit(X, Y, sample_weight=np.full(60, 1024.0))
    assert abs(1024.0 * many.C_ - model.C_) <= 1e-9 * model.C_
    np.testing.assert_allclose(many.coef_, own, rtol=1e-9)


@pytest.mark.parametrize("kind", ["pairs", "hierarchy", "sequences"])
def test_rows_without_weight_are_left_out_of_the_choice_of_C(kind):
    model, X, Y = task(kind, n=60, C="auto", tol=0.05)
    weight = np.zeros(60)
    weight[::2] = 1.0
    weighted = task(kind, C="auto", tol=0.05)[0].fit(X, Y, sample_weight=weight)
    model.fit(taken(X, np.arange(0, 60, 2)), taken(Y, np.arange(0, 60, 2)))
    assert abs(weighted.C_ - model.C_) <= 1e-9 * model.C_
    assert getattr(weighted, "offset_", 0.0) == getattr(model, "offset_", 0.0)
    assert task(kind, C="auto")[0].fit(X, Y, sample_weight=np.arange(60) == 7).C_ == 1.0


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_features_whose_squares_are_no_numbers(scale):
    model, X, Y = task("pairs", C="auto")
    with pytest.raises(DataError, match=r"the largest feature is .*e.*: scale the features"):
        model.fit(scale * X, Y)


def test_weights_of_scores():
    model, X, Y = task("pairs")
    model.fit(X, Y)
    for weight in (np.zeros(24), np.ones(3)):
        with pytest.raises(DataError, match="sample_weight"):
            model.score(X, Y, sample_weight=weight)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "local"])
def test_the_angular_search_is_everywhere(kind):
    """The paper's best search ends at the same optimum as the compiled one, proved."""
    model, X, Y = task(kind, tol=0.01)
    angular = task(kind, tol=0.01, search="angular")[0].fit(X, Y)
    objective(angular, model.fit(X, Y))
    assert (angular.search_, angular.certified_, angular.status_) == ("angular", True, "converged")


def test_a_local_search_has_no_cones():
    model, X, Y = task("local", search="angular")
    with pytest.raises(CapabilityError, match=r"needs an oracle that answers cone; GreedyOracle .* local search"):
        model.fit(X, Y)


def test_bounds_with_weights_without_a_unit_are_those_of_the_weights():
    """Losses of trees are counted in levels that are nearly common, but the bounds are proved for the weights."""
    weights = [1.0, 1.981, 1.981]  # as 1, 2 and 2
    model, X, Y = task("tree", weights=weights)
    exact, rounded, tight = (
        clone(model).set_params(solver_options={"oracle": oracle}, tol=tol).fit(X, Y)
        for oracle, tol in (("enumeration", 1e-3), ("tree", 0.03), ("tree", 0.0105))
    )
    for clf in (rounded, tight):
        assert (clf.status_, clf.search_, clf.certified_) == ("converged", "direct", True)
        assert clf.model_.structure.rounding == pytest.approx(2.0 / 1.981 - 1.0)
        assert clf.dual_ <= exact.primal_ and exact.dual_ <= clf.primal_
    # The optimum of the rounded losses is no lower bound.
    assert exact.primal_ < tight.dual_ * (1.0 + tight.model_.structure.rounding)


def test_sequences_with_weights_without_a_unit_are_proved():
    model, X, Y = task("sequences", n=8, weights={0: 1.0, 1: 2.0**0.5}, tol=0.05, C=0.3)
    clf = model.fit(X, Y)
    assert (clf.status_, clf.certified_) == ("converged", True)
    labels, theta = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T, clf.theta_.reshape(2, 2)
    total = 0.5 * (np.sum(clf.coef_**2) + np.sum(clf.intercept_**2) + np.sum(theta**2))
    for x, y in zip(X, Y, strict=True):
        u = x @ clf.coef_.T + clf.intercept_
        score = u[np.arange(3), labels].sum(axis=1) + theta[labels[:, :-1], labels[:, 1:]].sum(axis=1)
        loss = ((labels != y) * np.array([1.0, 2.0**0.5])[y]).sum(axis=1)
        total += 0.3 * max(0.0, (loss * (1.0 + score - score[(labels == y).all(axis=1)])).max())
    assert clf.dual_ <= total <= clf.primal_ * (1.0 + 1e-9)
    svm = StructuralSVM(clf.model_.__class__(weights={0: 1.0, 1: 2.0**0.5}), tol=0.1, debug=True, random_state=0)
    assert svm.fit(X, Y).search_ == "direct"
