"""`StructuralSVM`: any model, any solver, and what it says when an oracle does not keep its word."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from structured_models import Classes, LabelSets, ListedModel, exact_training, examples
from widemargin import StructuralSVM
from widemargin.exceptions import CapabilityError, DataError, MarginConvergenceWarning, OracleError, OracleWarning
from widemargin.structured.model import Features
from widemargin.structured.models import ChainModel, MultiLabelModel
from widemargin.structured.oracle import Answer


class OnlyLambda(ListedModel):
    """A user's model with the least an oracle can do; costs 1 per class apart."""

    capabilities = ("free",)

    def sizes(self, X):
        return 4, 5, 0

    def labels(self, x):
        return range(5)

    def features(self, x, y):
        return np.eye(5)[[y]], np.empty(0)

    def loss(self, y, truth):
        return abs(float(y - truth))


class Lying(Classes):
    """Answers changed on the way out."""

    def __init__(self, change):
        super().__init__(3)
        self.change = change

    def oracle(self, x, truth, potentials, theta):
        oracle = super().oracle(x, truth, potentials, theta)
        direct = oracle.direct
        oracle.direct = lambda: self.change(direct())
        return oracle


@pytest.mark.parametrize("solver", ["bcfw", "cutting-plane", "one-slack"])
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_every_solver_reaches_the_optimum(solver, rescaling):
    model, X, Y = examples("sequences")
    svm = StructuralSVM(
        model, C=0.3, rescaling=rescaling, solver=solver, tol=1e-3, max_iter=500, debug=True, random_state=0
    ).fit(X, Y)
    optimum, _ = exact_training(model, X, Y, C=0.3, slack=rescaling == "slack")
    assert svm.dual_ <= optimum * (1.0 + 1e-7) <= svm.primal_ * (1.0 + 2e-7)
    assert svm.gap_ <= 1e-3
    assert svm.status_ == "converged"
    assert svm.certified_
    assert svm.search_ == ("direct" if rescaling == "slack" else "margin")
    assert svm.n_features_in_ == 4
    assert len(svm.history_) >= 1


def test_predictions_are_decoded_and_scored():
    model, X, Y = examples("label sets", n=40)
    svm = StructuralSVM(model, C=0.3, random_state=0).fit(X, Y)
    predicted = svm.predict(X)
    assert predicted == [model.decode(x, np.atleast_2d(x) @ svm.coef_, svm.theta_) for x in X]
    assert svm.score(X, Y) == pytest.approx(-np.mean([model.loss(p, y) for p, y in zip(predicted, Y, strict=True)]))
    assert svm.score(X, Y) > -0.9  # 1.5 by chance


def test_a_user_s_oracle_with_free_questions_alone_is_enough():
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(30, 4)))
    Y = [int(np.argmax(np.append(x, 0.0))) for x in X]
    with pytest.warns(OracleWarning, match="free questions only, so the search is heuristic"):
        svm = StructuralSVM(OnlyLambda(), C=1.0, tol=0.5, random_state=0).fit(X, Y)
    assert svm.search_ == "hull"
    optimum, _ = exact_training(OnlyLambda(), X, Y, C=1.0, slack=True)
    assert svm.dual_ <= optimum <= svm.primal_
    assert svm.score(X, Y) > -0.4
    StructuralSVM(OnlyLambda(), tol=0.5, rescaling="margin", random_state=0).fit(X, Y)  # exact: no warning


def test_the_model_is_copied():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 4))
    model = MultiLabelModel("tree")
    svm = StructuralSVM(model, tol=0.5, random_state=0).fit(X, Y)
    assert not hasattr(model, "structure")
    assert svm.model is model
    assert not hasattr(clone(svm), "coef_")


def test_same_random_state_same_bits_and_it_survives_pickle():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(m, 3)) for m in (2, 4, 3, 5, 1)]
    Y = [(x[:, 0] > 0).astype(int) for x in X]
    svm = StructuralSVM(ChainModel(), tol=0.1, random_state=3).fit(X, Y)
    again = clone(svm).fit(X, Y)
    np.testing.assert_array_equal(svm.coef_, again.coef_)
    loaded = pickle.loads(pickle.dumps(svm))
    for a, b in zip(svm.predict(X), loaded.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("solver", ["bcfw", "sgd", "cutting-plane", "one-slack"])
def test_warm_start_goes_on_and_knows_another_C(solver):
    model, X, Y = examples("label sets")
    tol = 0.05 if solver == "sgd" else 0.01
    svm = StructuralSVM(model, C=0.3, tol=tol, max_iter=900, warm_start=True, random_state=0, solver=solver).fit(X, Y)
    first, dual = svm.n_iter_, svm.dual_
    svm.fit(X, Y)
    assert svm.n_iter_ < first
    assert svm.dual_ >= dual * (1.0 - (2.0 * tol if solver == "sgd" else 1e-12))
    svm.set_params(C=0.2, solver="bcfw").fit(X, Y)
    optimum, _ = exact_training(model, X, Y, C=0.2, slack=True)
    assert svm.dual_ <= optimum <= svm.primal_


def test_warm_start_does_not_mix_problems():
    model, X, Y = examples("label sets")
    svm = StructuralSVM(model, C=0.3, tol=0.05, max_iter=500, warm_start=True, random_state=0).fit(X, Y)
    for changed, labels in (({"rescaling": "margin"}, Y), ({}, Y[::-1])):
        svm.set_params(**changed).fit(X, labels)
        fresh = clone(svm).fit(X, labels)
        np.testing.assert_array_equal(svm.coef_, fresh.coef_)


def test_it_says_where_it_stopped():
    model, X, Y = examples("label sets")
    with pytest.warns(MarginConvergenceWarning, match=r"stopped after 2 passes with a duality gap of .*raise max_iter"):
        svm = StructuralSVM(model, C=1.0, tol=0.0, max_iter=2).fit(X, Y)
    assert svm.status_ == "max_iter"
    with pytest.warns(MarginConvergenceWarning, match=r"a duality gap of 0\.0[1-9]\d*% \(raise max_iter or tol"):
        StructuralSVM(model, C=0.1, tol=1e-12, max_iter=300, random_state=0).fit(X, Y)
    with pytest.warns(MarginConvergenceWarning, match="raise time_budget"):
        svm = StructuralSVM(model, C=1.0, tol=0.0, max_iter=10**6, time_budget=0.05).fit(X, Y)
    assert svm.status_ == "time_limit"
    with pytest.warns(MarginConvergenceWarning, match="by a callback"):
        StructuralSVM(model, C=1.0, tol=0.0, callbacks=[lambda progress: progress.iteration == 3]).fit(X, Y)


@pytest.mark.parametrize("on_interrupt", ["raise", "return"])
def test_an_interrupt_leaves_a_fitted_model(on_interrupt):
    def interrupt(progress):
        if progress.iteration == 5:
            raise KeyboardInterrupt

    model, X, Y = examples("label sets")
    svm = StructuralSVM(
        model, C=1.0, tol=0.0, callbacks=[interrupt], solver_options={"check_every": 2, "on_interrupt": on_interrupt}
    )
    with pytest.warns(MarginConvergenceWarning, match="interrupted after"):
        if on_interrupt == "raise":
            with pytest.raises(KeyboardInterrupt):
                svm.fit(X, Y)
        else:
            svm.fit(X, Y)
    assert svm.status_ == "interrupted"
    assert len(svm.predict(X)) == len(X)
    assert svm.dual_ <= svm.primal_ < np.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda answer: Answer(7, answer.h, answer.g), "returned 7, which is not a label of Lying"),
        (lambda answer: Answer(answer.y, answer.h + 0.01, answer.g), r"says h = .*but 1 \+ f\(y\) - f\(y_i\) is"),
        (lambda answer: Answer(answer.y, answer.h, 2.0 * answer.g), "says g = 2 of label .*, but its loss is 1"),
    ],
    ids=["foreign label", "wrong score", "wrong loss"],
)
def test_debug_mode_catches_an_oracle_that_contradicts_its_model(change, message):
    _, X, Y = examples("classes")
    with pytest.raises(OracleError, match=f"example [0-9]+: the oracle {message}"):
        StructuralSVM(Lying(change), debug=True).fit(X, Y)


def test_oracles_that_promise_what_they_do_not_have():
    _, X, Y = examples("label sets")
    with pytest.raises(OracleError, match=r"names \['guess'\]; known are"):
        StructuralSVM(LabelSets(3, ("free", "guess"))).fit(X, Y)

    class Losses(LabelSets):
        def oracle(self, *args):
            oracle = super().oracle(*args)
            oracle.smallest_loss = 0.0
            return oracle

    with pytest.raises(OracleError, match="smallest_loss is 0"):
        StructuralSVM(Losses(3)).fit(X, Y)


def test_data_that_do_not_fit():
    model, X, Y = examples("label sets")
    with pytest.raises(DataError, match="there are 12 examples and 11 labels"):
        StructuralSVM(model).fit(X, Y[:-1])
    with pytest.raises(DataError, match="there are no examples"):
        StructuralSVM(model).fit([], [])
    with pytest.raises(DataError, match=r"label 2 is .* none of the model's"):
        StructuralSVM(model).fit(X, [*Y[:2], (0, 1, 7), *Y[3:]])
    with pytest.raises(DataError, match=r"the rows of example 3 have shape \(1, 2\)"):
        StructuralSVM(model).fit([*X[:3], X[3][:2], *X[4:]], Y)
    with pytest.raises(DataError, match="NaN or infinity"):
        StructuralSVM(model).fit([*X[:3], X[3] * np.nan, *X[4:]], Y)
    svm = StructuralSVM(model, C=0.3, tol=0.1).fit(X, Y)
    with pytest.raises(DataError, match="the model says"):
        svm.predict([x[:2] for x in X])
    with pytest.raises(DataError, match="12 examples and 11 labels"):
        svm.score(X, Y[:-1])
    with pytest.raises(NotFittedError):
        StructuralSVM(model).predict(X)


def test_the_search_of_sarawagi_and_gupta_needs_the_cutting_plane():
    model, X, Y = examples("label sets")
    with pytest.raises(CapabilityError, match="only solver='cutting-plane' knows it"):
        StructuralSVM(model, search="sarawagi-gupta").fit(X, Y)
    with pytest.warns(MarginConvergenceWarning, match="'sarawagi-gupta' leaves 100.0% between its labels"):
        svm = StructuralSVM(model, C=0.3, search="sarawagi-gupta", solver="cutting-plane").fit(X, Y)
    assert svm.search_ == "sarawagi-gupta"


def test_decode_certified_asks_the_model():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 3)), rng.integers(0, 2, (20, 4))
    svm = StructuralSVM(MultiLabelModel("full", oracle="greedy"), C=0.1, tol=0.5, random_state=0).fit(X, Y)
    labels, proved = svm.decode_certified(X)
    exact = MultiLabelModel("full")
    exact.prepare(X, Y)
    for x, y, sure in zip(X, labels, proved, strict=True):
        u = x[None, :] @ svm.coef_
        if sure:
            assert exact.score(y, u, svm.theta_) == pytest.approx(
                exact.score(exact.decode(None, u, svm.theta_), u, svm.theta_), abs=1e-9
            )
    assert proved.any()
    model, X, Y = examples("label sets")
    with pytest.raises(CapabilityError, match="LabelSets has no `decode_certified"):
        StructuralSVM(model, C=0.1, tol=0.5).fit(X, Y).decode_certified(X)


@pytest.mark.parametrize("model", ["hamming", object(), None])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(DataError, match="has no prepare, rows, features, loss, oracle, decode"):
        StructuralSVM(model).fit([[0.0]], [0])


class Signs(ListedModel):
    """A user's model: rows of numbers, labels -1 and 1."""

    capabilities = ("free", "direct")

    def sizes(self, X):
        return 2, 1, 0

    def labels(self, x):
        return (-1, 1)

    def rows(self, x):
        return np.asarray(x, dtype=float)[None, :]

    def features(self, x, y):
        return Features(np.array([[float(y)]]), np.empty(0))

    def loss(self, y, truth):
        return float(y != truth)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_with_a_model_of_ones_own(library):
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 2))
    signs = np.where(rows[:, 0] > 0, 1, -1)
    X, Y = frames.DataFrame({"a": rows[:, 0], "b": rows[:, 1]}), frames.Series(signs)
    if library == "pandas":  # rows are counted, not looked up by their names
        X.index = Y.index = np.arange(30)[::-1]
    svm = StructuralSVM(Signs(), max_iter=1000, debug=True, random_state=0).fit(X, Y)
    plain = StructuralSVM(Signs(), max_iter=1000, random_state=0).fit(rows, signs)
    np.testing.assert_array_equal(svm.coef_, plain.coef_)
    assert svm.predict(X) == plain.predict(rows)
    assert svm.score(X, Y) == plain.score(rows, signs) > -0.2


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("prepare", None, r"Broken.prepare returned None; give the sizes of the weights, three whole numbers"),
        ("prepare", (2, 1), r"Broken.prepare returned \(2, 1\)"),
        ("prepare", (2, 1.5, 0), r"Broken.prepare returned \(2, 1.5, 0\)"),
        ("prepare", (2, -1, 0), r"Broken.prepare returned \(2, -1, 0\)"),
        ("rows", [[1.0, 2.0]], r"Broken.rows returned list for example 0; give a NumPy array or CSR matrix"),
        ("rows", None, r"Broken.rows returned NoneType for example 0"),
        ("features", None, r"Broken.features returned NoneType for example 0; give Features\(A, b\)"),
        ("features", np.ones((2, 1)), r"Broken.features returned ndarray for example 0"),
    ],
)
def test_a_model_whose_methods_return_something_else(method, answer, message):
    Broken = type("Broken", (Signs,), {method: lambda self, *given: answer})
    with pytest.raises(DataError, match=message):
        StructuralSVM(Broken()).fit(np.ones((4, 2)), [-1, 1, -1, 1])


def test_a_C_far_too_large_is_named():
    with pytest.warns(MarginConvergenceWarning, match=r"gap of 100% \(.*C=1e\+300 is far from what"):
        StructuralSVM(Signs(), C=1e300).fit(np.eye(2), [-1, 1])


@pytest.mark.parametrize(("X", "Y"), [(None, [1]), (iter([np.ones(2)]), [1]), ([np.ones(2)], None)])
def test_examples_and_labels_that_cannot_be_counted(X, Y):
    with pytest.raises(DataError, match="is no sequence of examples or labels: give a list or an array"):
        StructuralSVM(Signs()).fit(X, Y)
