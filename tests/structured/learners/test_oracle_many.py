"""Models that answer for many examples at a time."""

import numpy as np
import pytest
from sklearn.base import clone

from widemargin import StructuralSVM
from widemargin.exceptions import OracleError
from widemargin.structured.learners.problem import StructuredProblem
from widemargin.structured.model import Features
from widemargin.structured.oracle import Answer


class PartsOracle:
    capabilities = frozenset({"free", "direct"})

    def __init__(self, u, truth):
        self.truth, self.smallest_loss, self.largest_loss = truth, 1.0, float(len(truth))
        self.gain = np.where(truth == 1, -u[0], u[0])  # of turning each label

    def of(self, turned):
        return Answer(np.where(turned, 1 - self.truth, self.truth), float(1.0 + self.gain[turned].sum()),
                      float(turned.sum()))  # fmt: skip

    def free(self, lam):
        return self.of(self.gain + lam > 0)

    def direct(self):
        # The best label of every loss turns those of largest gain.
        order = np.argsort(-self.gain, kind="stable")
        value = np.arange(len(order) + 1) * (1.0 + np.concatenate([[0.0], np.cumsum(self.gain[order])]))
        return self.of(np.isin(np.arange(len(order)), order[: int(value.argmax())]))


class Parts:
    """Independent labels, in Python, one example after the other."""

    def prepare(self, X, Y):
        return X.shape[1], Y.shape[1], 0

    def rows(self, x):
        return np.asarray(x)[None, :]

    def features(self, x, y):
        return Features(np.asarray(y, dtype=float)[None, :], np.zeros(0))

    def loss(self, y, truth):
        return float(np.abs(np.asarray(y) - truth).sum())

    def oracle(self, x, truth, potentials, theta):
        return PartsOracle(potentials, truth)

    def decode(self, x, potentials, theta):
        return (potentials[0] > 0).astype(int)


class ManyParts(Parts):
    calls = 0

    def oracle_many(self, X, Y, potentials, theta, rescaling):
        type(self).calls += 1
        u, truth = np.concatenate(potentials), np.array(Y)
        gain = np.where(truth == 1, -u, u)
        if rescaling == "margin":
            return np.where(gain + 1.0 > 0, 1 - truth, truth)
        order = np.argsort(-gain, axis=1, kind="stable")
        total = np.cumsum(np.take_along_axis(gain, order, axis=1), axis=1)
        value = np.arange(1, u.shape[1] + 1) * (1.0 + total)
        size = np.where(value.max(axis=1) > 0, value.argmax(axis=1) + 1, 0)
        place = np.argsort(order, axis=1)
        return np.where(place < size[:, None], 1 - truth, truth)


class AllParts(ManyParts):
    """Features and losses of many labels in one call, too: nothing is asked of a single example after the checks."""

    checked = False

    def features(self, x, y):
        assert not self.checked
        return super().features(x, y)

    def features_many(self, X, Y):
        assert isinstance(X, np.ndarray) and len(X) == len(Y)
        return Features(np.asarray(Y, dtype=float), np.zeros((len(Y), 0)))

    def loss_many(self, Y, truths):
        return np.abs(np.asarray(Y) - truths).sum(axis=1)


def task(n=120):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, (X[:, :3] + 0.5 * rng.normal(size=(n, 3)) > 0).astype(int)


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
@pytest.mark.parametrize("solver", ["bcfw", "one-slack"])
@pytest.mark.parametrize("kind", [ManyParts, AllParts])
def test_it_is_the_same_optimum(rescaling, solver, kind):
    X, Y = task()
    weight = np.random.default_rng(1).uniform(0.0, 2.0, len(X))
    one = StructuralSVM(Parts(), C=0.1, tol=0.01, rescaling=rescaling, solver=solver, random_state=0)
    many = clone(one).set_params(model=kind())
    one.fit(X, Y, sample_weight=weight)
    before = kind.calls
    many.fit(X, Y, sample_weight=weight)
    assert many.gap_ <= 0.01 and many.certified_ and many.search_ == "many"
    assert one.dual_ <= many.primal_ * (1.0 + 1e-9) and many.dual_ <= one.primal_ * (1.0 + 1e-9)
    # A call for many examples: fewer calls than examples that were asked about.
    assert kind.calls - before < many.n_oracle_calls_ / 4


class Steps(AllParts):
    """Sequences of several lengths: a label a step, and how often a label follows itself; by trying all labels."""

    def prepare(self, X, Y):
        return X[0].shape[1], 1, 1

    def rows(self, x):
        return x

    def features(self, x, y):
        return Features(np.asarray(y, dtype=float)[:, None], np.array([float((y[1:] == y[:-1]).sum())]))

    def oracle(self, x, truth, potentials, theta):
        return StepsOracle(potentials[:, 0], theta[0], np.asarray(truth))

    def oracle_many(self, X, Y, potentials, theta, rescaling):
        assert [len(x) for x in X] == [len(u) for u in potentials]
        oracles = [self.oracle(*one, theta) for one in zip(X, Y, potentials, strict=True)]
        return [(o.free(1.0) if rescaling == "margin" else o.direct()).y for o in oracles]

    def features_many(self, X, Y):
        same = [float((y[1:] == y[:-1]).sum()) for y in Y]
        return Features(np.concatenate(Y)[:, None], np.array(same)[:, None])

    def loss_many(self, Y, truths):
        return [float((y != truth).sum()) for y, truth in zip(Y, truths, strict=True)]

    def decode(self, x, potentials, theta):
        return StepsOracle(potentials[:, 0], theta[0], np.zeros(len(x))).free(0.0).y


class StepsOracle(PartsOracle):
    def __init__(self, u, same, truth):
        self.truth, self.smallest_loss, self.largest_loss = truth, 1.0, float(len(truth))
        self.labels = (np.arange(2 ** len(u))[:, None] >> np.arange(len(u))) & 1
        score = self.labels @ u + same * (self.labels[:, 1:] == self.labels[:, :-1]).sum(axis=1)
        self.h = 1.0 + score - (truth @ u + same * (truth[1:] == truth[:-1]).sum())
        self.g = (self.labels != truth).sum(axis=1).astype(float)

    def best(self, value):
        at = int(np.argmax(value))
        return Answer(self.labels[at], float(self.h[at]), float(self.g[at]))

    def free(self, lam):
        return self.best(self.h + lam * self.g)

    def direct(self):
        return self.best(self.h * self.g)


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_examples_may_have_different_numbers_of_rows(rescaling):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(m, 3)) for m in rng.integers(1, 5, 60)]
    Y = [(x[:, 0] + 0.5 * rng.normal(size=len(x)) > 0).astype(int) for x in X]
    many = StructuralSVM(Steps(), C=0.1, tol=0.01, rescaling=rescaling, random_state=0).fit(X, Y)
    one = StructuralSVM(Steps(), C=0.1, tol=0.01, rescaling=rescaling, debug=True, random_state=0).fit(X, Y)
    assert many.search_ == "many" and many.gap_ <= 0.01 and many.certified_
    assert one.dual_ <= many.primal_ * (1.0 + 1e-9) and many.dual_ <= one.primal_ * (1.0 + 1e-9)


def test_a_search_by_name_and_debug_mode_ask_one_by_one():
    X, Y = task(40)
    ManyParts.calls = 0
    assert StructuralSVM(ManyParts(), C=0.1, search="direct", random_state=0).fit(X, Y).search_ == "direct"
    assert StructuralSVM(ManyParts(), C=0.1, debug=True, random_state=0).fit(X, Y).search_ == "direct"
    assert ManyParts.calls == 0


class Strict(Parts):
    """One that says no to a label which an oracle only finds after the spot checks."""

    forbidden = False

    def prepare(self, X, Y):
        self.forbidden = False
        return super().prepare(X, Y)

    def contains(self, x, y):
        return not (self.forbidden and np.sum(y) == 3)


def test_whether_it_is_a_label_is_asked_of_every_answer():
    X, Y = task(40)
    problem = StructuredProblem(Strict(), X, Y, rescaling="margin")
    problem.model.forbidden = True
    i = int(np.flatnonzero(Y.sum(axis=1) < 3)[0])
    with pytest.raises(OracleError, match=f"example {i}: .* is none of its labels, says Strict.contains"):
        problem.violation(i, np.full((1, 3), 5.0), np.zeros(0))


class WithTruth(Parts):
    def features(self, x, y, truth):
        return Features(np.where(np.asarray(y) == truth, 1.0, -1.0)[None, :] * (2.0 * np.asarray(truth) - 1.0) / 2.0,
                        np.zeros(0))  # fmt: skip


def test_features_may_see_the_truth():
    X, Y = task()
    plain, other = (StructuralSVM(one, C=0.1, tol=0.01, random_state=0).fit(X, Y) for one in (Parts(), WithTruth()))
    np.testing.assert_allclose(plain.coef_, other.coef_, atol=1e-12)


class Worse(ManyParts):
    def oracle_many(self, X, Y, potentials, theta, rescaling):
        return np.array(Y)  # the truth never violates


class Fewer(ManyParts):
    def oracle_many(self, X, Y, potentials, theta, rescaling):
        return []


class OtherFeatures(AllParts):
    def features_many(self, X, Y):
        return Features(np.roll(np.asarray(Y, dtype=float), 1, axis=0), np.zeros((len(Y), 0)))


class FewerFeatures(AllParts):
    def features_many(self, X, Y):
        return Features(np.asarray(Y, dtype=float)[:, :, None], np.zeros((len(Y), 0)))


class ListOfFeatures(AllParts):
    def features_many(self, X, Y):
        return [Features(y[None, :], np.zeros(0)) for y in Y]


class OtherLosses(AllParts):
    def loss_many(self, Y, truths):
        return super().loss_many(Y, truths) + 1.0


class OneLoss(AllParts):
    def loss_many(self, Y, truths):
        return super().loss_many(Y, truths).sum()


class NoLabel(ManyParts):
    def contains(self, x, y):
        return np.sum(y) < 3


class NoLabelOfMany(AllParts, NoLabel):
    pass


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Worse(), "Worse.oracle_many found a label of violation 0, but"),
        (Fewer(), "Fewer.oracle_many returned 0 labels for 8 examples"),
        (OtherFeatures(), "OtherFeatures.features_many and OtherFeatures.features differ on examples"),
        (FewerFeatures(), r"FewerFeatures.features_many returned A and b of shapes \(40, 3, 1\) and \(40, 0\)"),
        (ListOfFeatures(), "ListOfFeatures.features_many returned list; give Features"),
        (OtherLosses(), "OtherLosses.loss_many says .* by OtherLosses.loss"),
        (OneLoss(), r"OneLoss.loss_many returned an array of shape \(\) for 8 examples"),
        (NoLabel(), "is none of its labels, says NoLabel.contains"),
        (NoLabelOfMany(), "is none of its labels, says NoLabelOfMany.contains"),
    ],
)
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_wrong_answers_are_refused(model, said, rescaling):
    X, Y = task(40)
    with pytest.raises(OracleError, match=said):
        StructuralSVM(model, rescaling=rescaling).fit(X, Y)
