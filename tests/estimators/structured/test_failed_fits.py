"""Fits that are interrupted, or broken off by an error: never attributes of two fits, and no model without weights."""

import copy

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from structured_models import Classes, exact_training
from widemargin import ChainSVC, HierarchicalSVC, MulticlassSVC, MultiLabelSVC, StructuralSVM
from widemargin.exceptions import CapabilityError
from widemargin.structured.models import MulticlassModel

RNG = np.random.default_rng(0)


class Breaks:
    """A callback that raises at its `at`-th call."""

    def __init__(self, error, at):
        self.error, self.at, self.calls = error, at, 0

    def __call__(self, progress):
        self.calls += 1
        if self.calls == self.at:
            raise self.error


def task(kind, n_columns):
    """An estimator with examples: of other columns and labels for each number of columns."""
    X = RNG.normal(size=(40, n_columns))
    if kind == "chain":
        sequences = list(X.reshape(10, 4, -1))
        return ChainSVC(random_state=0), sequences, [np.where(x[:, 0] > 0, 0, n_columns) for x in sequences]
    if kind == "classes":
        return MulticlassSVC(random_state=0), X, X.argmax(axis=1)
    if kind == "hierarchy":
        low = (X[:, :2] > 0.5).astype(int)
        return HierarchicalSVC([-1, 0, 0], random_state=0), X, np.column_stack([low.any(axis=1), low]).astype(int)
    options = {"decode": "expected"} if kind == "sets with probabilities" else None
    calibration = "sigmoid" if options else None
    return MultiLabelSVC(calibration=calibration, solver_options=options, random_state=0), X, (X > 0.5).astype(int)


KINDS = ["chain", "classes", "hierarchy", "sets", "sets with probabilities"]


@pytest.mark.filterwarnings("ignore:stopped after")
@pytest.mark.parametrize("at", [1, 12])
@pytest.mark.parametrize("C", ["auto", 0.1])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_leaves_no_model_of_two_fits(kind, C, at):
    clf, X, y = task(kind, 3)
    clf.set_params(C=C, tol=0.0, max_iter=30)
    broken = Breaks(ZeroDivisionError, at)
    with pytest.raises(ZeroDivisionError):
        clf.set_params(callbacks=[broken]).fit(X, y)
    with pytest.raises(NotFittedError):  # it was an AttributeError
        clf.predict(X)
    clf.set_params(callbacks=None, tol=0.5).fit(X, y)
    _, X2, y2 = task(kind, 4)
    with pytest.raises(ZeroDivisionError):
        clf.set_params(callbacks=[Breaks(ZeroDivisionError, at)], tol=0.0).fit(X2, y2)
    for rows in (X, X2):
        with pytest.raises(NotFittedError):
            clf.predict(rows)


@pytest.mark.filterwarnings("ignore:interrupted after")
@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_keeps_the_new_weights_and_nothing_else(kind):
    clf, X, y = task(kind, 3)
    clf.set_params(C=0.1, tol=0.5).fit(X, y)
    _, X2, y2 = task(kind, 4)
    with pytest.raises(KeyboardInterrupt):
        clf.set_params(tol=0.0, callbacks=[Breaks(KeyboardInterrupt, 3)]).fit(X2, y2)
    assert clf.status_ == "interrupted"
    if kind == "sets with probabilities":
        for asked in (clf.predict_proba, clf.predict):  # they were those of the first fit
            with pytest.raises(CapabilityError, match="fit was interrupted before it made probabilities"):
                asked(X2)
        clf.set_params(solver_options={"decode": "best"})
    assert len(clf.predict(X2)) == len(X2)


@pytest.mark.parametrize("kind", ["hierarchy", "sets", "sets with probabilities"])
def test_label_sets_that_are_refused_leave_the_model_before(kind):
    clf, X, y = task(kind, 3)
    clf.set_params(C=0.1, tol=0.5).fit(X, y)
    before = copy.copy(vars(clf))
    for bad in (None, 2 * y, np.ones_like(y) - 2 * (y == 0), np.where(y == 0, np.nan, 1.0), ["a"], y[1:]):
        with pytest.raises(ValueError):
            clf.fit(X[:, :2], bad)
        assert vars(clf) == before  # the weights and n_features_in_ were gone


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("method", ["prepare", "rows", "features", "loss", "oracle"])
def test_an_error_in_a_user_s_model_leaves_the_model_before(method, error):
    class Breaking(MulticlassModel):
        broken = False

        def asked(self, name):
            if Breaking.broken and name == method:
                raise error

        def stack(self, X):
            self.asked("rows")
            return super().stack(X)

        def prepare(self, X, Y):
            self.asked("prepare")
            return super().prepare(X, Y)

        def features(self, x, y):
            self.asked("features")
            return super().features(x, y)

        def loss(self, y, truth):
            self.asked("loss")
            return super().loss(y, truth)

        def oracle(self, x, truth, potentials, theta):
            self.asked("oracle")
            return super().oracle(x, truth, potentials, theta)

    _, X, y = task("classes", 3)
    svm = StructuralSVM(Breaking(), C=0.1, tol=0.5, random_state=0).fit(X, y)
    before = copy.copy(vars(svm))
    Breaking.broken = True
    with pytest.raises(error):
        svm.set_params(C=1.0).fit(X[:, :2], y)
    with pytest.raises(error):
        (first := StructuralSVM(Breaking())).fit(X, y)
    with pytest.raises(NotFittedError):
        first.predict(X)
    Breaking.broken = False
    assert vars(svm) | {"C": 0.1} == before  # C_ was the new one
    assert svm.predict(X) == StructuralSVM(MulticlassModel(), C=0.1, tol=0.5, random_state=0).fit(X, y).predict(X)


class NoRows(Classes):
    """phi does not depend on x: there are weights of labels only."""

    def __init__(self):
        super().__init__(3)

    def sizes(self, X):
        return 0, 0, 2

    def rows(self, x):
        return np.zeros((0, 0))

    def features(self, x, y):
        return np.zeros((0, 0)), np.array([y * x[0], float(y == 1)])


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_examples_without_rows(rescaling):
    X, y = [np.array([value]) for value in (-1.0, 0.0, 2.0, 3.0)], [0, 1, 2, 1]
    svm = StructuralSVM(NoRows(), rescaling=rescaling, tol=1e-4, max_iter=5000, random_state=0).fit(X, y)
    optimum, _ = exact_training(NoRows(), X, y, C=1.0, slack=rescaling == "slack")
    assert svm.dual_ - 1e-7 <= optimum <= svm.primal_ + 1e-7
    assert svm.predict(X) == [NoRows().decode(x, np.zeros((0, 0)), svm.theta_) for x in X]
