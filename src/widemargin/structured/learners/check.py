"""Whether an oracle keeps its word: what it says of itself, and its answers against the model's features and loss."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import OracleError
from widemargin.structured.learners.example_rows import count
from widemargin.structured.model import Examples, Features, StructuredModel
from widemargin.structured.oracle import CAPABILITIES, CONVEX, Answer, Oracle

__all__ = ["CheckedExample", "CheckedOracle", "check_oracle"]

_TOLERANCE = 1e-6
_COMPARED = 8  # labels of an example, and as many of other examples, that an answer is compared with


def check_oracle(oracle: Oracle) -> None:
    """Refuse an oracle that does not say what it can do, or gives impossible losses.

    Raises
    ------
    OracleError
    """
    name = type(oracle).__name__
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


class CheckedExample(NamedTuple):
    """An example whose oracle is checked, and what tells right answers from wrong ones.

    Attributes
    ----------
    number : int
        Its place in X and Y.
    model : StructuredModel
    X, Y : sequence or matrix
        All examples and labels: labels of others may be labels of this one.
    psi : callable
        `psi(number, y)`, the joint features of the truth minus those of y.
    u : ndarray of shape (rows, S)
    theta : ndarray of shape (P,)
    """

    number: int
    model: StructuredModel
    X: Examples
    Y: Examples
    psi: Callable[[int, object], Features]
    u: Floats
    theta: Floats


class CheckedOracle:
    """An oracle in debug mode: every answer is compared with the model, with the question, and with earlier answers.

    Parameters
    ----------
    example : CheckedExample
    oracle : Oracle
    met : list
        Labels that the example's oracles answered before, as (psi, g); answers are added.

    Raises
    ------
    OracleError
        By every question: if the answer is no label (by `contains(x, y)`, which a model may have), differs from its
        score or loss by more than 1e-6, is outside the losses or the cone or level that were asked for, or if another
        label is better: y_i, the one that the model decodes, one that was an answer before, or, where the model has
        `contains`, one of another example.
    """

    def __init__(self, example: CheckedExample, oracle: Oracle, met: list[tuple[Features, float]]) -> None:
        self._example, self._oracle, self._met = example, oracle, met

    def __getattr__(self, name: str) -> Any:
        return getattr(self._oracle, name)

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        answer = self._compare(f"free({lam:g})", self._oracle.free(lam))
        self._best("h + lam g", f"free({lam:g})", answer, lambda h, g: h + lam * g)
        return answer

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same in a cone."""
        question = f"cone({lam:g}, {alpha:g}, {beta:g})"
        in_cone = self._oracle.cone(lam, alpha, beta)
        if in_cone is None:
            return None
        answer = self._compare(question, in_cone)
        # Cones are closed, and h and g are right up to rounding: labels on a face may fall outside by that much.
        room = 10.0 * _TOLERANCE * (1.0 + abs(answer.h) + abs(answer.g))
        steep = math.inf if math.isinf(alpha) else alpha * (answer.h + room)
        if answer.h < -room or beta * (answer.h - room) > answer.g + room or answer.g - room > steep:
            self._refuse(question, answer, "lies outside the cone")
        return answer

    def level(self, c: int) -> Answer | None:
        """The label with the largest h of one loss."""
        of_loss = self._oracle.level(c)
        if of_loss is None:
            return None
        answer = self._compare(f"level({c})", of_loss)
        if abs(answer.g - c) > _TOLERANCE * (1.0 + c):
            self._refuse(f"level({c})", answer, "has another loss")
        return answer

    def direct(self) -> Answer:
        """The label with the largest `h g`."""
        answer = self._compare("direct()", self._oracle.direct())
        self._best("h g", "direct()", answer, lambda h, g: max(0.0, h * g))
        return answer

    def _refuse(self, question: str, answer: Answer, what: str) -> None:
        raise OracleError(
            f"example {self._example.number}: the oracle's answer to {question}, label {answer.y!r} of "
            f"h = {answer.h:.9g} and g = {answer.g:.9g}, {what}."
        )

    def _compare(self, question: str, answer: Answer) -> Answer:
        """Compare the point of an answer with the label's own score and loss."""
        i, model, X, Y, psi_of, _, _ = self._example
        oracle, name = self._oracle, type(model).__name__
        if not all(hasattr(answer, part) for part in Answer._fields):
            raise OracleError(f"example {i}: the oracle answered {question} by {answer!r}; give an Answer(y, h, g).")
        contains = getattr(model, "contains", None)
        if contains is not None and not contains(X[i], answer.y):
            raise OracleError(f"example {i}: the oracle returned {answer.y!r}, which is not a label of {name}.")
        psi = psi_of(i, answer.y)
        score = self._score(psi)
        if not abs(answer.h - (1.0 - score)) <= _TOLERANCE * self._scale(psi):
            raise OracleError(
                f"example {i}: the oracle says h = {answer.h:.9g} of label {answer.y!r}, but 1 + f(y) - f(y_i) is "
                f"{1.0 - score:.9g} by {name}.features. One of them is wrong."
            )
        loss = model.loss(answer.y, Y[i])
        if not abs(answer.g - loss) <= _TOLERANCE * (1.0 + abs(loss)):
            raise OracleError(
                f"example {i}: the oracle says g = {answer.g:.9g} of label {answer.y!r}, but its loss is {loss:.9g} by "
                f"{name}.loss. One of them is wrong."
            )
        least, most, room = oracle.smallest_loss, oracle.largest_loss, _TOLERANCE * (1.0 + oracle.largest_loss)
        small = CONVEX not in oracle.capabilities and room < answer.g < least - room
        if small or not -room <= answer.g <= most + room:
            self._refuse(question, answer, f"is not within smallest_loss = {least:g} and largest_loss = {most:g}")
        return answer

    def _score(self, psi: Features) -> float:
        return float((psi.A * self._example.u).sum() + psi.b @ self._example.theta)

    def _scale(self, psi: Features) -> float:
        return 1.0 + float(np.abs(psi.A * self._example.u).sum() + np.abs(psi.b * self._example.theta).sum())

    def _best(self, what: str, question: str, answer: Answer, value: Callable[[float, float], float]) -> None:
        """Compare with the labels known: no other may have a larger value. Then the answer is one of them."""
        psi = self._example.psi(self._example.number, answer.y)
        # An oracle that says it is not exact may answer by any label.
        if getattr(self._oracle, "exact", True):
            mine = value(answer.h, answer.g)
            for name, other, g in self._rivals():
                h = 1.0 - self._score(other)
                more = value(h, g)
                scale = (self._scale(psi) + self._scale(other)) * (1.0 + answer.g + g)
                if more > mine + 10.0 * _TOLERANCE * (scale + abs(mine)):
                    self._refuse(
                        question, answer,
                        f"is not the best: {what} is {mine:.9g}, and {more:.9g} of {name} of h = {h:.9g} and "
                        f"g = {g:.9g}. If answers need not be the best, set exact = False",
                    )  # fmt: skip
        self._met.insert(0, (psi, answer.g))
        del self._met[_COMPARED:]

    def _rivals(self) -> Iterator[tuple[str, Features, float]]:
        """Labels that no answer may be worse than: what they are, psi and loss."""
        i, model, X, Y, psi_of, u, theta = self._example
        x, truth = X[i], Y[i]
        contains = getattr(model, "contains", None)
        yield from (("an earlier answer", psi, g) for psi, g in self._met)
        if contains is None or contains(x, truth):
            yield "y_i", psi_of(i, truth), 0.0
        decoded = model.decode(x, u, theta)
        if contains is None or contains(x, decoded):
            yield "the decoded label", psi_of(i, decoded), float(model.loss(decoded, truth))
        if contains is None:
            return
        for step in range(1, min(_COMPARED, count(Y) - 1) + 1):
            j = (i + step) % count(Y)
            if contains(x, Y[j]):
                yield f"Y[{j}]", psi_of(i, Y[j]), float(model.loss(Y[j], truth))
