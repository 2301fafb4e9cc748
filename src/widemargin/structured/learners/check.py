"""Debug mode: whether an oracle keeps its word, by its answers against the model's features and loss."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import OracleError
from widemargin.structured.learners.example_rows import count
from widemargin.structured.model import Examples, Features, StructuredModel
from widemargin.structured.oracle import CONVEX, Answer, Oracle


@dataclass
class CheckedOracle:
    """An oracle in debug mode: every answer is compared with the model, with the question, and with earlier answers.

    Parameters
    ----------
    number : int
        Place of the example in X and Y.
    X, Y : sequence or matrix
        All examples and labels: labels of others may be labels of this one.
    psi : callable
        `psi(number, y)`, the joint features of the truth minus those of y.
    u : ndarray of shape (rows, S)
    theta : ndarray of shape (P,)
    met : list
        Labels that the example's oracles answered before, as (psi, g); answers are added.
    error : float
        Relative error of scores and losses that counts as rounding.
    compared : int
        Labels of an example, and as many of other examples, that an answer is compared with.

    Raises
    ------
    OracleError
        By every question: if the answer is no label (by `contains(x, y)`, which a model may have), differs from its
        score or loss by more than 1e-6, is outside the losses or the cone or level that were asked for, or if another
        label is better: y_i, the one that the model decodes, one that was an answer before, or, where the model has
        `contains`, one of another example.
    """

    number: int
    model: StructuredModel
    X: Examples
    Y: Examples
    psi: Callable[[int, object], Features]
    u: Floats
    theta: Floats
    checked: Oracle
    met: list[tuple[Features, float]]
    error: float = 1e-6
    compared: int = 8

    def __getattr__(self, name: str) -> Any:
        # What it says of itself is what the oracle says.
        return getattr(self.checked, name)

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        answer = self._compare(f"free({lam:g})", self.checked.free(lam))
        self._best("h + lam g", f"free({lam:g})", answer, lambda h, g: h + lam * g)
        return answer

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same in a cone."""
        question = f"cone({lam:g}, {alpha:g}, {beta:g})"
        answer = self.checked.cone(lam, alpha, beta)
        if answer is None:
            return None
        self._compare(question, answer)
        # Cones are closed, and h and g are right up to rounding: labels on a face may fall outside by that much.
        room = 10.0 * self.error * (1.0 + abs(answer.h) + abs(answer.g))
        steep = math.inf if math.isinf(alpha) else alpha * (answer.h + room)
        if answer.h < -room or beta * (answer.h - room) > answer.g + room or answer.g - room > steep:
            self._refuse(question, answer, "lies outside the cone")
        return answer

    def level(self, c: int) -> Answer | None:
        """The label with the largest h of one loss."""
        answer = self.checked.level(c)
        if answer is not None and abs(self._compare(f"level({c})", answer).g - c) > self.error * (1.0 + c):
            self._refuse(f"level({c})", answer, "has another loss")
        return answer

    def direct(self) -> Answer:
        """The label with the largest `h g`."""
        answer = self._compare("direct()", self.checked.direct())
        self._best("h g", "direct()", answer, lambda h, g: max(0.0, h * g))
        return answer

    def _refuse(self, question: str, answer: Answer, what: str) -> None:
        raise OracleError(
            f"example {self.number}: the oracle's answer to {question}, label {answer.y!r} of "
            f"h = {answer.h:.9g} and g = {answer.g:.9g}, {what}."
        )

    def _compare(self, question: str, answer: Answer) -> Answer:
        """Compare the point of an answer with the label's own score and loss."""
        i, model, oracle, name = self.number, self.model, self.checked, type(self.model).__name__
        if not all(hasattr(answer, part) for part in Answer._fields):
            raise OracleError(f"example {i}: the oracle answered {question} by {answer!r}; give an Answer(y, h, g).")
        # A model that can tell what is a label is believed about every answer.
        contains = getattr(model, "contains", None)
        if contains is not None and not contains(self.X[i], answer.y):
            raise OracleError(f"example {i}: the oracle returned {answer.y!r}, which is not a label of {name}.")
        psi = self.psi(i, answer.y)
        # The label is scored anew, from its features and the weights.
        score = self._score(psi)
        if not abs(answer.h - (1.0 - score)) <= self.error * self._scale(psi):
            raise OracleError(
                f"example {i}: the oracle says h = {answer.h:.9g} of label {answer.y!r}, but 1 + f(y) - f(y_i) is "
                f"{1.0 - score:.9g} by {name}.features. One of them is wrong."
            )
        # Its loss is computed by the model itself, too.
        loss = model.loss(answer.y, self.Y[i])
        if not abs(answer.g - loss) <= self.error * (1.0 + abs(loss)):
            raise OracleError(
                f"example {i}: the oracle says g = {answer.g:.9g} of label {answer.y!r}, but its loss is {loss:.9g} by "
                f"{name}.loss. One of them is wrong."
            )
        least, most, room = oracle.smallest_loss, oracle.largest_loss, self.error * (1.0 + oracle.largest_loss)
        # Mixtures of labels may have any loss below the least one.
        small = CONVEX not in oracle.capabilities and room < answer.g < least - room
        if small or not -room <= answer.g <= most + room:
            self._refuse(question, answer, f"is not within smallest_loss = {least:g} and largest_loss = {most:g}")
        return answer

    def _score(self, psi: Features) -> float:
        return float(np.vdot(psi.A, self.u) + psi.b @ self.theta)

    def _scale(self, psi: Features) -> float:
        return 1.0 + float(np.vdot(np.abs(psi.A), np.abs(self.u)) + np.abs(psi.b) @ np.abs(self.theta))

    def _best(self, what: str, question: str, answer: Answer, value: Callable[[float, float], float]) -> None:
        """Compare with other labels: none may have a larger value. Then the answer is one of them."""
        i, model, x, truth = self.number, self.model, self.X[self.number], self.Y[self.number]
        psi = self.psi(i, answer.y)
        rivals = [("an earlier answer", other, g) for other, g in self.met]
        self.met.insert(0, (psi, answer.g))
        # Old answers were best at other weights: the latest are the likeliest to be better now.
        del self.met[self.compared :]
        # An oracle that says it is not exact may answer by any label.
        if not getattr(self.checked, "exact", True):
            return
        # Only a model that says which labels an example has can be given those of other examples.
        contains = getattr(model, "contains", None)
        labels = {"y_i": truth, "the decoded label": model.decode(x, self.u, self.theta)}
        if contains is not None:
            places = [(i + step) % count(self.Y) for step in range(1, min(self.compared, count(self.Y) - 1) + 1)]
            labels |= {f"Y[{j}]": self.Y[j] for j in places}
        rivals += [
            (name, self.psi(i, label), float(model.loss(label, truth)))
            for name, label in labels.items()
            if contains is None or contains(x, label)
        ]
        # Sums of features and of potentials come in other orders, so better has to mean better by more than rounding.
        mine = value(answer.h, answer.g)
        for name, other, g in rivals:
            h = 1.0 - self._score(other)
            if (more := value(h, g)) <= mine:
                continue
            scale = (self._scale(psi) + self._scale(other)) * (1.0 + answer.g + g)
            if more > mine + 10.0 * self.error * (scale + abs(mine)):
                self._refuse(
                    question, answer,
                    f"is not the best: {what} is {mine:.9g}, and {more:.9g} of {name} of h = {h:.9g} and "
                    f"g = {g:.9g}. If answers need not be the best, set exact = False",
                )  # fmt: skip
