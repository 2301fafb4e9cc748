"""What all learners minimise, and how they ask for the most violating label of an example.

    min_w  1/2 |w|^2 + C sum_i s_i H_i(w),        H_i = max_y  l_i(y) - w . p_i(y)

with `psi_i(y) = phi(x_i, y_i) - phi(x_i, y)` and, of a label of loss L, `(p, l) = (psi, L)` for margin rescaling and
`(L psi, L)` for slack rescaling (Tsochantaridis et al. 2005). The weights s_i of the examples, 1 by default,
multiply p and l, so that the rest of a learner is the same with and without them, and for both rescalings.
C is scikit-learn's; the regulariser of the papers is `1 / (C n)`.

A dual point is a convex combination of labels per example, of which only `C sum_y alpha(y) p_i(y)`, factored, and
`C sum_y alpha(y) l_i(y)` matter: a small block (a_i, b_i, l_i) per example, n (rows S + P) numbers in all, whatever the
number of features. Its weights are `W = X' a`, `theta = sum_i b_i`; its value is `sum_i l_i - 1/2 |w|^2`.
"""

import inspect
import itertools
import math
import operator
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from widemargin._typing import ArrayLike, Bools, Floats, Ints
from widemargin.exceptions import CapabilityError, DataError, OracleError
from widemargin.structured.compiled import CompiledModel, Structure
from widemargin.structured.learners.check import CheckedOracle
from widemargin.structured.learners.example_rows import (
    add_blocks,
    check_lengths,
    check_weights,
    grams,
    model_rows,
    scores,
)
from widemargin.structured.learners.many_answers import ManyAnswers
from widemargin.structured.model import Examples, Features, StructuredModel, Weights
from widemargin.structured.oracle import CAPABILITIES, CONVEX, FREE, Answer, Oracle, Search
from widemargin.structured.search.automatic import SEARCHES, check_found, named
from widemargin.structured.search.best_label import checked
from widemargin.structured.search.hull import Mixture, all_losses, direct

__all__ = [
    "Blocks", "StructuredProblem", "Violation", "begin", "check_oracle", "dual_value", "held", "norm2", "weights_of",
    "zero_blocks",
]  # fmt: skip


class Violation(NamedTuple):
    """The most violating label of an example.

    Attributes
    ----------
    A : ndarray of shape (rows, S)
    b : ndarray of shape (P,)
        p, factored; 0 where no label violates.
    loss : float
        l, the label's loss.
    value : float
        `l - w . p >= 0`.
    upper : float
        Upper bound of the structured hinge.
    """

    A: Floats
    b: Floats
    loss: float
    value: float
    upper: float
    queries: int


def check_oracle(oracle: Oracle) -> None:
    """Refuse an oracle that does not say what it can do, or gives impossible losses.

    Raises
    ------
    OracleError
    """
    name = type(oracle).__name__
    # The answers themselves are looked at by `check.CheckedOracle`: all in debug mode, else those of some examples.
    lacking = [what for what in ("capabilities", "smallest_loss", "largest_loss") if not hasattr(oracle, what)]
    if lacking:
        raise OracleError(f"{name} has no {', '.join(lacking)}: see widemargin.structured.oracle.Oracle.")
    able = set(oracle.capabilities)
    if able - CAPABILITIES:
        raise OracleError(f"{name}.capabilities names {sorted(able - CAPABILITIES)}; known are {sorted(CAPABILITIES)}.")
    missing = [what for what in sorted(able - {CONVEX}) if not hasattr(oracle, what)]
    if missing:
        raise OracleError(f"{name}.capabilities names {missing}, but there are no such methods.")
    no_least = CONVEX not in able and not oracle.smallest_loss > 0.0  # mixtures of labels have none
    if not 0.0 <= oracle.largest_loss < math.inf or (oracle.largest_loss > 0.0 and no_least):
        raise OracleError(
            f"{name}.smallest_loss is {oracle.smallest_loss:g} and largest_loss {oracle.largest_loss:g}; the first is "
            "the least positive loss of a label, the second the largest."
        )


def check_examples(model: StructuredModel, X: Examples, Y: Examples) -> int:
    """Refuse examples without labels, and an object that lacks a method of models; how many examples there are.

    Raises
    ------
    DataError
    """
    n = check_lengths(X, Y)
    methods = ("prepare", "rows", "features", "loss", "oracle", "decode")
    lacking = [name for name in methods if not callable(getattr(model, name, None))]
    if lacking:
        raise DataError(
            f"the model is {model!r}, which has no {', '.join(lacking)}: give one of widemargin.structured.models, "
            "or an object with the methods of widemargin.structured.model.StructuredModel."
        )
    return n


def example_weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Weights of n examples, 1 each by default.

    Raises
    ------
    DataError
    """
    return check_weights(sample_weight, n, "values of sample_weight", "example")


def held(Y: Floats | Ints, where: Bools) -> Floats:
    """What has to be added to potentials of label sets so that labels of some places keep their value."""
    # A million is far beyond all potentials, and far from where doubles lose what they differ by.
    return np.where(where, 1e6 * (2.0 * Y - 1.0), 0.0)


def prepared_sizes(model: StructuredModel, X: Examples, Y: Examples) -> tuple[int, int, int]:
    """The sizes (d, S, P) of the weights, which the model finds out by looking at the examples.

    Raises
    ------
    DataError
        If it returns something else, or refuses the examples.
    """
    sizes = model.prepare(X, Y)
    try:
        d, S, P = (operator.index(size) for size in sizes)
    except (TypeError, ValueError):
        d = S = P = -1
    if min(d, S, P) < 0:
        raise DataError(
            f"{type(model).__name__}.prepare returned {sizes!r}; give the sizes of the weights, three whole "
            "numbers (d, S, P) >= 0: W has the shape (d, S), theta (P,)."
        )
    return d, S, P


@dataclass
class _Met:
    """What the searches of one example have met so far, which helps the next ones.

    Attributes
    ----------
    truth : Features or None
        Those of y_i, once they were needed.
    labels : list
        The last labels found, as (y, psi, g), the latest first.
    hint : float or None
        h / g of the latest: the factor of g at which its line would be the best one.
    answers : list
        In debug mode: what the oracles answered, as (psi, g).
    """

    truth: Features | None = None
    labels: list[tuple[object, Features, float]] = field(default_factory=list)
    hint: float | None = None
    answers: list[tuple[Features, float]] = field(default_factory=list)


class StructuredProblem:
    """Training examples of a model, with the loss, the search and C.

    Parameters
    ----------
    X, Y : sequence or matrix
        Examples and their labels, one a row or entry.
    sample_weight : array-like of shape (n,), default=None
        Weights of the examples, `>= 0`, not all 0.
    missing : ndarray of bool of shape (n, S), default=None
        For models of one row an example whose labels are sets: labels that are left out of the loss of an example, as
        no other set than those with its own value there is looked at.
    rescaling : {"slack", "margin"}, default="slack"
    search : str or Search, default="auto"
        Of slack rescaling: a name of `structured.search.automatic`, or a function of the protocol `Search`.
    eps, ratio, max_queries
        Of the search; eps is at least the oracle's `tolerance`.
    check : bool, default=False
        Compare every answer of the oracle with the model's own features and loss, and with its earlier answers.
    prove : bool, default=True
        Whether a run whose oracle is not exact ends with an upper bound from its relaxation, where there is one. It
        costs a search of the relaxation for each example.

    Attributes
    ----------
    n, d, S, P : int
        Examples, features, columns of W, length of theta.
    rows : ExampleRows
    start : ndarray of shape (n + 1,)
        First row of every example.
    longest : int
        Most rows of an example.
    gram, gram_start : ndarray
        Products of the rows of every example with each other.
    search : Search or None
        None for margin rescaling, which asks one free question.
    search_name : str
        "margin" for margin rescaling.
    asks_once : bool
        Whether labels come from one question about all losses, or from the free question of margin rescaling: then the
        compiled argmax gives the same labels, and labels met before are of no use.
    certain : bool
        Whether the oracle's answers are exact (an oracle may say `exact = False`): then upper bounds are proved.
    exact : bool
        Whether the search finds the optimum too; one by free questions alone does not.
    rounding : float
        What the losses of the labels found are too large by at most, as a share of them: where the search counts them
        in units that are nearly common. The optimum of these losses is so much larger at most, too.
    many : ManyAnswers or None
        Where the model answers for many examples at a time, by `oracle_many`.

    Raises
    ------
    CapabilityError
        If the oracle cannot answer what the search asks.
    DataError
        If examples and labels do not fit.
    OracleError
        If the oracle of a user's model contradicts it on one of a few examples.
    """

    def __init__(
        self,
        model: StructuredModel,
        X: Examples,
        Y: Examples,
        *,
        C: float = 1.0,
        sample_weight: ArrayLike | None = None,
        missing: Bools | None = None,
        rescaling: str = "slack",
        search: str | Search = "auto",
        eps: float = 1e-9,
        ratio: float = 1.0,
        max_queries: int = 1000,
        check: bool = False,
        prove: bool = True,
    ) -> None:
        self.n = check_examples(model, X, Y)
        self.model, self.X, self.Y, self.C = model, X, Y, float(C)
        self.weight = example_weights(sample_weight, self.n)
        self.shift = np.zeros((0, 0)) if missing is None else held(np.asarray(Y, dtype=np.float64), missing)
        self.slack, self.check, self.prove = rescaling == "slack", check, prove
        # Not a user's, which may be derived from one; those of the papers are tested as well.
        self.own = type(model).__module__.partition(".")[0] in ("widemargin", "widemargin_papers")
        self.d, self.S, self.P = prepared_sizes(model, X, Y)
        self.rows, self.start = model_rows(model, X, self.d)
        lengths = np.diff(self.start)
        self.longest = int(lengths.max())
        # The steps need lengths of features only, which follow from products of rows: computed once, they spare every
        # step a loop over features.
        self.gram_start = np.concatenate([[0], np.cumsum(lengths * lengths)]).astype(np.int64)
        self.gram = grams(self.rows, self.start, self.d)
        self._sees_truth = len(inspect.signature(model.features).parameters) > 2
        self._met = defaultdict[int, _Met](_Met)
        self._met[0].truth = self._features(0, Y[0])  # before an oracle uses the same features
        # What the first oracle says of itself decides for all: capabilities, exactness and tolerance belong to a
        # model.
        oracle = model.oracle(X[0], Y[0], np.zeros((int(self.start[1]), self.S)), np.zeros(self.P))
        check_oracle(oracle)
        self.certain = bool(getattr(oracle, "exact", True))
        self.search_name, self.search = self._resolved(search, oracle)
        self.asks_once = self.search in (None, direct, all_losses)
        # A search that was asked for by name, and debug mode, want the questions of every example one by one.
        self.many: ManyAnswers | None = None
        if search == "auto" and not check and missing is None and callable(getattr(model, "oracle_many", None)):
            self.search_name, self.many = "many", ManyAnswers(
                model, X, Y, self.rows, self.start, (self.S, self.P), self.weight, self.slack, self._features,
                self._refuse_no_label,
            )  # fmt: skip
        exact_search = self.many is not None or self.search is None or bool(getattr(self.search, "exact", False))
        self.exact = self.certain and exact_search
        structure = getattr(model, "structure", None)
        self.rounding = structure.rounding if self.search is direct and isinstance(structure, Structure) else 0.0
        eps = max(eps, float(getattr(oracle, "tolerance", 0.0)))
        self._options: dict[str, Any] = {"eps": eps, "ratio": ratio, "max_queries": max_queries}
        # The library's own models are tested; what a user's oracle answers is not believed unseen.
        if not self.own:
            rng = np.random.default_rng(0)
            W, theta = rng.normal(size=(self.d, self.S)), rng.normal(size=self.P)
            # An oracle that ignores or remembers its weights gives itself away by one of the two signs.
            for sign in (1.0, -1.0):
                self.spot_check(Weights(sign * W, sign * theta))

    @cached_property
    def compiled(self) -> CompiledModel | None:
        """The model, where its compiled argmax answers what its oracle would be asked."""
        model = self.model
        if not isinstance(model, CompiledModel) or not model.compiles(self.slack):
            return None

        def of_library(method: str) -> bool:
            owner = next(one for one in type(model).__mro__ if method in vars(one))
            return owner.__module__.startswith("widemargin.")

        # The loops know nothing of a method that a derived class has put in the place of one of the library. Such a
        # class may say by a `compiles` of its own that both agree.
        agree = not of_library("compiles") or all(map(of_library, ("oracle", "features", "loss")))
        return model if agree else None

    def _resolved(self, search: str | Search, oracle: Oracle) -> tuple[str, Search | None]:
        """The search for this oracle, with its name."""
        if self.slack:
            return named(search, frozenset(oracle.capabilities))
        if FREE not in oracle.capabilities:
            raise CapabilityError(
                f"margin rescaling asks for the label with the largest h + g, and {type(oracle).__name__} has no "
                "'free' questions; use rescaling='slack'."
            )
        return "margin", None

    def spot_check(self, weights: Weights, spots: int = 8) -> None:
        """Compare what a user's oracles of some examples answer at these weights with the model and earlier answers.

        Raises
        ------
        OracleError
            If an answer is wrong, or a label met before is better.
        """
        asked, self.check = self.check, True
        chosen, found = np.unique(np.linspace(0, self.n - 1, spots).astype(int)), []
        for i in chosen.tolist():
            # Training and check do not help each other: a label met in training would hide that the oracle misses it.
            met, self._met[i] = self._met[i], replace(self._met[i], labels=[], hint=None)
            u = self.potentials(i, weights.W)
            # Not what a subclass makes of it, which is not complete yet.
            found.append(StructuredProblem.violation(self, i, u, weights.theta, 0.0).value)
            self._met[i] = met
        self.check = asked
        others: Iterable[float] = found if self.many is None else self.many(chosen, *weights, check=True)[0]
        # A search that is not exact, or a label that does not violate, may well be beaten.
        for i, best, other in zip(chosen.tolist(), found, others, strict=True):
            if other < best - 1e-6 * (1.0 + abs(best)):
                raise OracleError(
                    f"example {i}: {type(self.model).__name__}.oracle_many found a label of violation "
                    f"{other:.9g}, but its oracle one of {best:.9g}: it must return the labels of largest "
                    f"{'loss (1 + score - score of the truth)' if self.slack else 'loss + score'}."
                )

    def _refuse_no_label(self, i: int, y: object) -> None:
        contains = getattr(self.model, "contains", None)
        if contains is not None and not contains(self.X[i], y):
            raise OracleError(
                f"example {i}: {y!r} is none of its labels, says {type(self.model).__name__}.contains. One of them is "
                "wrong."
            )

    def _features(self, i: int, y: object) -> Features:
        self._refuse_no_label(i, y)
        # Features that compare a label with the truth, as those of rankings do, are asked with it.
        made: Callable[..., object] = self.model.features
        features = made(self.X[i], y, self.Y[i]) if self._sees_truth else made(self.X[i], y)
        if not isinstance(features, tuple) or len(features) != 2:
            raise DataError(
                f"{type(self.model).__name__}.features returned {type(features).__name__} for example {i}; give "
                "Features(A, b)."
            )
        A, b = features
        A, b = np.asarray(A, dtype=np.float64), np.asarray(b, dtype=np.float64)
        m = int(self.start[i + 1] - self.start[i])
        if A.shape != (m, self.S) or b.shape != (self.P,):
            raise DataError(
                f"the features of example {i} have shapes {A.shape} and {b.shape}; the model's sizes ask for "
                f"{(m, self.S)} and {(self.P,)}."
            )
        # A NaN would spread over all weights with the first step.
        if not (np.isfinite(A).all() and np.isfinite(b).all()):
            raise DataError(f"the features of example {i} and label {y!r} hold NaN or infinity.")
        return Features(A, b)

    def psi(self, i: int, y: object) -> Features:
        """`phi(x_i, y_i) - phi(x_i, y)`, also of a mixture of labels."""
        # Features are linear in the label, so those of a mixture are the mixture of the features.
        if isinstance(y, Mixture):
            first, second = self.psi(i, y.first), self.psi(i, y.second)
            return Features(
                *((1.0 - y.share) * left + y.share * right for left, right in zip(first, second, strict=True))
            )
        # The features of y_i are computed once and kept.
        label, truth = self._features(i, y), self._met[i].truth
        if truth is None:
            truth = self._met[i].truth = self._features(i, self.Y[i])
        return Features(truth.A - label.A, truth.b - label.b)

    def oracle(self, i: int, u: Floats, theta: Floats) -> Oracle:
        """The oracle of example i at its potentials and theta."""
        # The library's own models look at potentials alone, and a row of a sparse matrix costs as much as a question.
        x = None if self.own else self.X[i]
        oracle = self.model.oracle(x, self.Y[i], u, theta)
        if not self.check:
            return oracle
        error = max(1e-6, self.rounding)
        return CheckedOracle(
            i, self.model, self.X, self.Y, self.psi, u, theta, oracle, self._met[i].answers, error=error
        )

    def potentials(self, i: int, W: Floats, factor: float = 1.0) -> Floats:
        """`factor rows(x_i) W`, and what keeps labels that are left out at their value."""
        first, last = int(self.start[i]), int(self.start[i + 1])
        u = np.empty((last - first, self.S))
        scores(self.rows, first, last, W, u)
        if factor != 1.0:
            u *= factor
        if len(self.shift):
            u += self.shift[i]
        return u

    def fingerprint(self) -> int:
        """A number that tells examples, labels and losses from others, as far as the model shows them.

        Dual points are those of one problem: with another one they prove nothing.
        """
        # A checksum is enough: it guards against mistakes, not against malice.
        structure, graph = getattr(self.model, "structure", None), getattr(self.model, "graph", None)
        loss = getattr(structure, "scored", 0)
        seen = zlib.crc32(repr((self.d, self.S, self.P, self.slack, loss)).encode())
        of_model = [] if structure is None else [structure.weight, structure.pairs, structure.parent, structure.ends]
        of_model += [] if graph is None else [graph.arcs]
        encoded = getattr(self.model, "encode_all", None)  # far quicker than the features one by one
        truths = [encoded(self.Y)] if encoded else (self._features(i, y) for i, y in enumerate(self.Y))
        for array in itertools.chain(self.rows, [self.start, self.weight, self.shift], of_model, *truths):
            seen = zlib.crc32(np.ascontiguousarray(array).tobytes(), seen)
        return seen

    def violation(self, i: int, u: Floats, theta: Floats, slack: float | None = None) -> Violation:
        """The most violating label of example i, times the weight of the example; see `_found`.

        Parameters
        ----------
        i, u, theta, slack
            As there, but the slack is that of the weighted example.
        """
        weight = float(self.weight[i])
        try:
            found = self._found(i, u, theta, slack / weight if slack and weight else slack)
        except Exception as error:
            error.add_note(f"It was raised where example {i} was asked for its most violating label.")
            raise
        if weight == 1.0:
            return found
        A, b, loss, value, upper, queries = found
        return Violation(weight * A, weight * b, weight * loss, weight * value, weight * upper, queries)

    def _found(self, i: int, u: Floats, theta: Floats, slack: float | None) -> Violation:
        """The most violating label of example i, as the search finds it.

        Parameters
        ----------
        u : ndarray of shape (rows, S)
            Potentials.
        theta : ndarray of shape (P,)
        slack : float or None
            xi of the example, where the learner knows it: what Sarawagi and Gupta's search needs.

        Raises
        ------
        CapabilityError
            If the search needs the slack, and there is none.
        OracleError
            If an answer is none, or no number; in `check` mode, if the oracle contradicts the model or itself.
        """
        oracle = self.oracle(i, u, theta)
        none = np.zeros_like(u), np.zeros(self.P), 0.0, 0.0  # y_i itself, where no label violates
        if self.search is None:
            answer = checked(oracle.free(1.0))
            value = answer.h + answer.g - 1.0
            psi = self.psi(i, answer.y)  # refuses labels without right features, also where nothing violates
            return Violation(psi.A, psi.b, answer.g, value, value, 1) if value > 0.0 else Violation(*none, 0.0, 1)
        options = self._options
        # Such a search looks only for labels that violate by more than the slack.
        if getattr(self.search, "needs_slack", False):
            if slack is None:
                raise CapabilityError(
                    f"search={self.search_name!r} needs the slack of each example; "
                    "only solver='cutting-plane' knows it."
                )
            options = options | {"slack": slack}
        # A good label of an earlier visit is often still good; the search may then leave out everything worse.
        met = self._met[i]
        answers = [Answer(y, 1.0 - float((psi.A * u).sum() + psi.b @ theta), g) for y, psi, g in met.labels]
        best = max(answers, key=lambda answer: answer.h * answer.g, default=None)
        winner = self.search(oracle, best=best, hint=met.hint, **options)
        if self.search_name not in SEARCHES:
            check_found(self.search_name, winner, best)
        if not winner.value > 0.0:  # None may be a label of the user's
            return Violation(*none, winner.upper, winner.queries)
        psi = self.psi(i, winner.y)
        if not self.asks_once:
            # The label, and the lam at which its line would be best, help the next search of this example. A label met
            # again goes to the front: the least recently found ones drop out.
            met.hint = winner.h / winner.g
            again = [
                place for place, (_, other, _) in enumerate(met.labels)
                if np.array_equal(other.A, psi.A) and np.array_equal(other.b, psi.b)
            ]  # fmt: skip
            met.labels.insert(0, met.labels.pop(again[0]) if again else (winner.y, psi, winner.g))
            del met.labels[4:]  # more of them are rarely the best one, and each costs a score at every search
        return Violation(winner.g * psi.A, winner.g * psi.b, winner.g, winner.value, winner.upper, winner.queries)


class Blocks(NamedTuple):
    """A dual point.

    Attributes
    ----------
    a : ndarray of shape (all rows, S)
    b : ndarray of shape (n, P)
    loss : ndarray of shape (n,)
    """

    a: Floats
    b: Floats
    loss: Floats

    @staticmethod
    def _stored_arrays() -> dict[str, str]:
        return {"a": "float * *", "b": "float n *", "loss": "float n"}

    def scaled(self, factor: float) -> "Blocks":
        """A copy, times a number in [0, 1]: still feasible; or times C' / C: feasible for C'."""
        return Blocks(factor * self.a, factor * self.b, factor * self.loss)


def zero_blocks(problem: StructuredProblem) -> Blocks:
    """The dual point 0."""
    return Blocks(np.zeros((int(problem.start[-1]), problem.S)), np.zeros((problem.n, problem.P)), np.zeros(problem.n))


def weights_of(problem: StructuredProblem, blocks: Blocks) -> Weights:
    """The weights that the blocks add up to."""
    # Blocks hold multiples of rows: only here are features looked at.
    W = np.zeros((problem.d, problem.S))
    add_blocks(problem.rows, blocks.a, W)
    return Weights(W, blocks.b.sum(axis=0))


def norm2(weights: Weights) -> float:
    """`|w|^2`."""
    return float(np.vdot(weights.W, weights.W) + weights.theta @ weights.theta)


def dual_value(blocks: Blocks, weights: Weights) -> float:
    """Lower bound of the optimum."""
    # At the weights that the blocks add up to, the Lagrangian is this.
    return float(blocks.loss.sum()) - 0.5 * norm2(weights)


def begin(problem: StructuredProblem, start: Blocks | None) -> tuple[Blocks, Weights]:
    """A point to start from, which the learner may change in place, or 0; and its weights.

    Raises
    ------
    DataError
        If the blocks are those of other examples or another model.
    """
    if start is None:
        blocks = zero_blocks(problem)
        return blocks, Weights(np.zeros((problem.d, problem.S)), np.zeros(problem.P))
    # Blocks of another problem would be added up without complaint, and prove nothing.
    wanted = [part.shape for part in zero_blocks(problem)]
    if [part.shape for part in start] != wanted:
        raise DataError(f"the blocks to start from have shapes {[part.shape for part in start]}, not {wanted}.")
    return start, weights_of(problem, start)
