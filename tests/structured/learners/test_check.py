"""Debug mode: every answer of an oracle is compared with the model, with the question and with earlier answers."""

import itertools

import numpy as np
import pytest

from structured_models import Classes, LabelSets, ListedModel
from widemargin import StructuralSVM
from widemargin.exceptions import DataError, OracleError
from widemargin.solvers.base import Budget
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.passes import CompiledPasses, PythonPasses, Responses, choose_passes
from widemargin.structured.learners.problem import StructuredProblem, zero_blocks
from widemargin.structured.learners.result import LearnerRecorder
from widemargin.structured.model import Weights
from widemargin.structured.models import MulticlassModel
from widemargin.structured.oracle import Answer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = [tuple(int(bit) for bit in row > 0.0) for row in X @ RNG.normal(size=(3, 3))]


class Changed(LabelSets):
    """Answers of one kind are changed on the way out; other attributes of the oracle too."""

    def __init__(self, capabilities, question="free", change=None, **attributes):
        super().__init__(3, capabilities)
        self.question, self.change, self.attributes = question, change, attributes

    def oracle(self, x, truth, potentials, theta):
        oracle = super().oracle(x, truth, potentials, theta)
        oracle.__dict__.update(self.attributes)
        if self.change is not None:
            ask = getattr(oracle, self.question)
            setattr(oracle, self.question, lambda *asked: self.change(oracle, ask, *asked))
        return oracle


def train(model, **options):
    options = {"debug": True, "C": 1.0, "random_state": 0, "max_iter": 20, "tol": 0.0} | options
    return StructuralSVM(model, **options).fit(X, Y)


@pytest.mark.filterwarnings("ignore:stopped after", "ignore:the oracle answers free")
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
@pytest.mark.parametrize(
    "capabilities", [("free",), ("free", "cone"), ("free", "level"), ("free", "level", "levels"), ("free", "direct")]
)
def test_a_right_oracle_passes(capabilities, rescaling):
    assert train(Changed(capabilities), rescaling=rescaling, max_iter=8).gap_ < 0.5


def early(oracle, ask, lam):
    """Wrong about h for small lam only: its answer is never what the search returns."""
    answer = ask(lam)
    return Answer(answer.y, answer.h - 0.5, answer.g) if 0.0 < lam < 0.3 else answer


def first(oracle, ask, *asked):
    """Always the first label."""
    return Answer(oracle.labels[0], float(oracle.h[0]), float(oracle.g[0]))


def no_number(oracle, ask, *asked):
    answer = ask(*asked)
    return Answer(answer.y, np.nan, answer.g)


@pytest.mark.filterwarnings("ignore:stopped after", "ignore:the oracle answers free")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Changed(("free",), "free", early), r"says h = .* but 1 \+ f\(y\) - f\(y_i\) is"),
        (Changed(("free",), "free", first), r"answer to free\(.*is not the best: h \+ lam g is .*set exact = False"),
        (Changed(("free",), "free", no_number), "says h = nan"),
        (Changed(("free",), "free", lambda oracle, ask, lam: tuple(ask(lam))), r"answered free.* give an Answer"),
        (Changed(("free",), "free", lambda oracle, ask, lam: None), r"answered free.* by None"),
        (Changed(("free",), largest_loss=2.0), "is not within smallest_loss = 1 and largest_loss = 2"),
        (Changed(("free",), smallest_loss=2.0), "is not within smallest_loss = 2 and largest_loss = 3"),
        (Changed(("free", "cone"), "cone", lambda oracle, ask, lam, alpha, beta: oracle.free(lam)), "outside the cone"),
        (Changed(("free", "level"), "level", lambda oracle, ask, c: oracle.free(0.3)), "has another loss"),
    ],
    ids=["early", "first", "nan", "tuple", "None", "largest", "smallest", "cone", "level"],
)
def test_an_oracle_that_breaks_its_word(model, message):
    with pytest.raises(OracleError, match=f"example [0-9]+: the oracle.*{message}"):
        train(model)


@pytest.mark.filterwarnings("ignore:stopped after")
def test_an_answer_that_is_worse_than_an_earlier_one():
    """A local search that sees single flips of the truth only passes where it says that it is one."""

    def flips(oracle, ask, *asked):
        near = np.flatnonzero(oracle.g <= oracle.rank % 3)
        oracle.rank += 1
        best = near[np.argmax((oracle.h * oracle.g)[near])]
        return Answer(oracle.labels[best], float(oracle.h[best]), float(oracle.g[best]))

    class Counting(Changed):
        asked = 0

        def oracle(self, *example):
            Counting.asked += 1
            oracle = super().oracle(*example)
            oracle.rank = Counting.asked
            return oracle

    with pytest.raises(
        OracleError, match=r"direct\(\).*is not the best: h g is .* of (an earlier answer|the decoded|Y)"
    ):
        train(Counting(("free", "direct"), "direct", flips))
    assert not train(Counting(("free", "direct"), "direct", flips, exact=False)).certified_


@pytest.mark.filterwarnings("ignore:stopped after")
@pytest.mark.parametrize("contains", [True, False])
def test_one_and_the_same_answer_to_every_question(contains):
    """It has always the truth's own score and loss; only labels that no oracle answered show what it misses."""
    model = Changed(("direct",), "direct", first)
    if not contains:
        model.prepare, model.contains = lambda X, Y: model.sizes(X), None
    with pytest.raises(OracleError, match=r"direct\(\).*is not the best: h g is .* of (the decoded label|Y\[)"):
        train(model)


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_without_debug_mode_nan_is_refused_all_the_same(rescaling):
    with pytest.raises(OracleError, match=r"h = nan"):
        train(Changed(("free", "cone"), "free", no_number), debug=False, rescaling=rescaling)


def test_an_oracle_without_its_losses_and_capabilities_in_a_list():
    class Bare(LabelSets):
        def oracle(self, *example):
            oracle = super().oracle(*example)
            del oracle.largest_loss
            return oracle

    with pytest.raises(OracleError, match="has no largest_loss"):
        train(Bare(3))

    class Listed(LabelSets):
        def oracle(self, *example):
            oracle = super().oracle(*example)
            oracle.capabilities = ["free", "direct"]
            return oracle

    assert train(Listed(3), tol=0.5).search_ == "direct"


class Remembers(LabelSets):
    """Its oracles answer at the first potentials that each example was asked about."""

    def __init__(self):
        super().__init__(3, ("free", "direct"))
        self.first = {}

    def oracle(self, x, truth, potentials, theta):
        if not np.any(potentials):
            return super().oracle(x, truth, potentials, theta)
        return super().oracle(x, truth, self.first.setdefault(x.tobytes(), potentials.copy()), theta)


@pytest.mark.parametrize(
    "model",
    [
        Remembers(),
        Changed(("free", "direct"), "direct", lambda oracle, ask: ask()._replace(h=ask().h - 0.5)),
        Changed(("free", "direct"), "direct", lambda oracle, ask: Answer((9, 9, 9), 0.0, 1.0)),
    ],
    ids=["remembers", "another value", "no label"],
)
def test_some_examples_are_checked_without_debug(model):
    with pytest.raises((OracleError, IndexError)):
        train(model, debug=False)


def test_a_negative_gap_is_refused():
    """An oracle that turns lazy after the look at some examples: what it misses ends below the lower bound."""
    problem = StructuredProblem(LabelSets(3, ("free", "direct")), X, Y, C=1.0)
    recorder = LearnerRecorder(problem, PythonPasses(problem), Budget(), "bcfw", 0.01)
    weights = Weights(np.zeros((problem.d, problem.S)), np.zeros(problem.P))
    recorder.evaluate(weights, Responses(np.full(20, 0.1), np.full(20, 0.1), None))
    recorder.bound(2.1)
    with pytest.raises(OracleError, match="below its lower bound"):
        recorder.result(weights, zero_blocks(problem), converged=True)


class Watched(MulticlassModel):
    """A user's model derived from one of the library, which looks at the rows of its examples."""

    def oracle(self, x, truth, potentials, theta):
        assert np.asarray(x).shape == (2,)
        return super().oracle(x, truth, potentials, theta)


def test_a_model_derived_from_a_compiled_one_is_given_its_rows():
    problem = StructuredProblem(Watched(), np.eye(2), np.array(["a", "b"]), C=1.0)
    assert problem.oracle(1, np.zeros((1, 2)), np.zeros(0)).free(1.0).y == "a"
    assert isinstance(choose_passes(problem), PythonPasses)  # compiled ones would not ask its oracle


class CompiledToo(Watched):
    def compiles(self, slack):
        return True


def test_a_derived_model_is_compiled_where_it_has_no_oracle_of_its_own_or_says_that_both_agree():
    for model in (type("Renamed", (MulticlassModel,), {})(), CompiledToo()):
        assert isinstance(choose_passes(StructuredProblem(model, np.eye(2), np.array(["a", "b"]))), CompiledPasses)


class Matchings(ListedModel):
    """Three things are matched with three others; asked for the largest h g, the oracle forgets g."""

    capabilities = ("direct",)
    contains = None

    def prepare(self, X, Y):
        return self.sizes(X)

    def sizes(self, X):
        return 3, 1, 0

    def labels(self, x):
        return list(itertools.permutations(range(3)))

    def features(self, x, y):
        return np.eye(3)[list(y)].reshape(9, 1), np.empty(0)

    def loss(self, y, truth):
        return float(np.sum(np.not_equal(y, truth)))

    def oracle(self, *example):
        oracle = super().oracle(*example)
        oracle.free = oracle.direct = lambda *lam: oracle.answer(int(np.argmax(oracle.h)))
        return oracle


@pytest.mark.filterwarnings("ignore:stopped after")
def test_answers_are_compared_at_the_best_weights_too():
    """At random weights a label of largest score is mostly one of largest product, too, and the gap had closed."""
    rng = np.random.default_rng(1)
    X, w = 3.0 * rng.normal(size=(24, 9, 3)), rng.normal(size=3)
    matchings = np.array(Matchings().labels(None))
    Y = [tuple(matchings[np.argmax(x[range(3), matchings].sum(axis=1))]) for x in (X @ w).reshape(24, 3, 3)]
    problem = StructuredProblem(Matchings(), list(X), Y, C=0.3)
    with pytest.raises(OracleError, match=r"example 6: .*direct\(\).*is not the best: h g is .* of an earlier answer"):
        block_frank_wolfe.solve(problem, tol=0.01, max_iter=200)


class OfNone(Classes):
    """The class 0 is called None."""

    def labels(self, x):
        return [None, 1, 2]

    def features(self, x, y):
        return super().features(x, y or 0)


@pytest.mark.parametrize("rescaling", ["slack", "margin"])
def test_None_may_be_a_label(rescaling):
    y = [[None, 1, 2][sum(label) % 3] for label in Y]
    named = StructuralSVM(OfNone(3), rescaling=rescaling, random_state=0, tol=0.01).fit(X, y)
    numbered = StructuralSVM(Classes(3), rescaling=rescaling, random_state=0, tol=0.01).fit(X, [c or 0 for c in y])
    np.testing.assert_array_equal(named.coef_, numbered.coef_)


def late(change, question):
    """Change the answers once the spot checks at random weights are over."""

    class Late(Changed):
        asked = 0

        def oracle(self, *example):
            Late.asked += 1
            self.change = change if Late.asked > 18 else None
            return super().oracle(*example)

    return Late(("free",) if question == "free" else ("levels", "level"), question)


@pytest.mark.filterwarnings("ignore:the oracle answers free")
@pytest.mark.parametrize("rescaling", ["slack", "margin"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda oracle, ask, lam: None, "answered None; give an Answer"),
        (lambda oracle, ask, lam: ask(lam)._replace(h=np.inf), "h = inf .*both must be finite"),
        (lambda oracle, ask, lam: ask(lam)._replace(g=-1.0), "g = -1; .*>= 0"),
    ],
    ids=["None", "infinite", "negative loss"],
)
def test_late_answers_that_are_none_are_refused(change, message, rescaling):
    with pytest.raises(OracleError, match=message) as refused:
        train(late(change, "free"), debug=False, rescaling=rescaling)
    assert "It was raised where example" in refused.value.__notes__[0]


@pytest.mark.parametrize(
    ("question", "change", "message"),
    [
        ("levels", lambda oracle, ask: ask() * np.nan, "levels are .*nan.*give the largest h of every loss"),
        ("levels", lambda oracle, ask: ask() + np.array([0.0, 0.0, 0.0, np.inf]), "levels are .*inf.*give the largest"),
        ("levels", lambda oracle, ask: ask() + 0.1, r"the best label of loss 3 has h = .*, but level\(3\) is Answer"),
        ("level", lambda oracle, ask, c: None, r"the best label of loss 3 has h = .*, but level\(3\) is None"),
    ],
)
def test_levels_that_contradict_themselves_are_refused(question, change, message):
    with pytest.raises(OracleError, match=message):
        train(late(change, question), debug=False)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_refused(wrong):
    """A NaN times a potential of 0 used to spread over all weights, and the model before it was called certified."""

    class Spoiled(LabelSets):
        def features(self, x, y):
            A, b = super().features(x, y)
            if y == (1, 1, 1):
                A = A * wrong
            return A, b

        def value(self, x, y, potentials, theta):
            A, b = super().features(x, y)
            return float((A * potentials).sum() + b @ theta)

    with pytest.raises(DataError, match=r"features of example [0-9]+ and label \(1, 1, 1\) hold NaN or infinity"):
        train(Spoiled(3, ("levels", "level")), debug=False)
