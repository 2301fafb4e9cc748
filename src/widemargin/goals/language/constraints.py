"""Constraints: two expressions with `<=` or `>=` between them, checked as soon as they are written."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast

from widemargin.exceptions import GoalError
from widemargin.goals.language.checks import checked_min_rows, checked_name, checked_on_small, shown
from widemargin.goals.language.linear import Linear, Rate, Ratio
from widemargin.goals.language.ranges import Range
from widemargin.goals.text.printing import interval_text, name_text, number_text, quoted

__all__ = ["CHAIN_MESSAGE", "ClearedConstraint", "Constraint", "Ruled", "options_text"]

CHAIN_MESSAGE = (
    "A constraint has no truth value: it cannot be chained (0.5 <= recall() <= 0.6) or joined by and / or / not. "
    "Write two constraints: recall() >= 0.5 and recall() <= 0.6, as two entries of subject_to."
)

_TOLERANCE = 1e-9


class Ruled(ABC):
    """What a constraint and a bundle have in common: a label, and a rule for tiny populations.

    A frozen dataclass with the fields `label`, `min_rows` and `small`, compared by its `key`.
    """

    label: str | None
    min_rows: int | None
    small: str | None

    @property
    def on_small(self) -> str:
        """ "error" or "drop"; where nothing was said, "error"."""
        return self.small or "error"

    @property
    @abstractmethod
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""

    def __eq__(self, other: object) -> bool:
        return self.key == cast(Self, other).key if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def named(self, label: str) -> Self:
        """The same with a label; that of a bundle starts the labels of its constraints.

        Examples
        --------
        >>> from widemargin.goals import recall
        >>> (recall() >= 0.6).named("floor").label
        'floor'
        """
        return self._changed(label=label)

    def with_options(self, *, min_rows: int | None = None, on_small: str | None = None) -> Self:
        """The same with its own rule for tiny populations; None keeps what it has.

        Parameters
        ----------
        min_rows : int, optional
            Least number of rows of weight > 0 (at least 1) that each of its rates must be measured on.
        on_small : {"error", "drop"}, optional
            Refuse the goal where there are fewer, or drop the constraint with a warning.
        """
        rows = self.min_rows if min_rows is None else min_rows
        return self._changed(min_rows=rows, small=self.small if on_small is None else on_small)

    def inheriting(self, min_rows: int | None, on_small: str) -> Self:
        """The goal's rule wherever there is none of its own."""
        rows = min_rows if self.min_rows is None else self.min_rows
        return self._changed(min_rows=rows, small=self.small or on_small)

    def _changed(self, **fields: object) -> Self:
        return cast(Self, replace(cast(Any, self), **fields))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class ClearedConstraint(NamedTuple):
    """A constraint without ratios and with its constants on one side: `form sense bound`.

    Attributes
    ----------
    form : Linear
        No ratio in it, constant 0.
    sense : {">=", "<="}
        Of the cleared form, and of `ratio sense ratio_bound`; differs from the user's where the ratio's coefficient
        is negative.
    bound : float
    ratio : Ratio or None
        The ratio that was cleared. `ratio sense ratio_bound` was multiplied by its denominator (>= 0).
    ratio_bound : float or None
    """

    form: Linear
    sense: str
    bound: float
    ratio: Ratio | None
    ratio_bound: float | None

    @property
    def linear(self) -> Linear:
        """The same as `form`."""
        return self.form


@dataclass(frozen=True, eq=False, repr=False)
class Constraint(Ruled):
    """`lhs >= rhs` or `lhs <= rhs`. Written by comparing expressions: `recall() >= 0.6`.

    Parameters
    ----------
    lhs, rhs : Linear
        As the user wrote them.
    sense : {">=", "<="}
    label : str or None
        Name in reports.
    min_rows : int or None
        Least number of rows of weight > 0 that each of its rates must be measured on (for recall: rows with a positive
        label); None: the goal's.
    small : {"error", "drop"} or None
        What to do where there are fewer; None: the goal's rule. Read it as `on_small`.

    Raises
    ------
    GoalError
        If there is no rate in it, if a ratio is not alone against a constant, or if the bound lies outside the
        attainable range, so that the constraint holds never or always.
    """

    lhs: Linear
    sense: str
    rhs: Linear
    label: str | None = None
    min_rows: int | None = None
    small: str | None = None

    __array_ufunc__ = None

    def __post_init__(self) -> None:
        for side in (self.lhs, self.rhs):
            if not isinstance(side, Linear):
                raise GoalError(f"a constraint compares linear forms, got {shown(side)}.")
        if self.sense not in (">=", "<="):
            raise GoalError(f"a constraint's sense is >= or <=, got {shown(self.sense)}.")
        if self.label is not None:
            object.__setattr__(self, "label", checked_name(self.label, "a constraint's label"))
        object.__setattr__(self, "min_rows", checked_min_rows(self.min_rows))
        object.__setattr__(self, "small", checked_on_small(self.small))
        self._check_range()

    @property
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""
        return self.lhs, self.sense, self.rhs, self.label, self.min_rows, self.on_small

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Every rate of either side, in order of first appearance."""
        return tuple(dict.fromkeys(self.lhs.rates + self.rhs.rates))

    @property
    def difference(self) -> Linear:
        """`lhs - rhs`."""
        return self.lhs.plus(self.rhs, -1.0)

    def cleared(self) -> ClearedConstraint:
        """The constraint as `form sense bound` with a form that holds no ratio.

        `c * ratio + k >= bound` becomes `numerator - t * denominator >= 0` with `t = (bound - k) / c` (`<=` for c < 0).

        Raises
        ------
        GoalError
            If a ratio is not alone against a constant.
        """
        difference = self.difference
        bound = -difference.constant + 0.0
        ratios = difference.ratios
        if not ratios:
            return ClearedConstraint(difference.without_constant(), self.sense, bound, None, None)
        if len(difference.terms) > 1:
            raise GoalError(
                f"{self.text}: only one ratio against one constant can be cleared, and here {ratios[0]} stands beside"
                " other rates. Write for example precision() >= 0.8, or use rates over fixed populations (recall, ...)."
            )
        coefficient, ratio = difference.terms[0][0], ratios[0]
        target = bound / coefficient + 0.0
        sense = self.sense if coefficient > 0 else {">=": "<=", "<=": ">="}[self.sense]
        form = ratio.numerator.plus(ratio.denominator, -target)
        return ClearedConstraint(form.without_constant(), sense, -form.constant + 0.0, ratio, target)

    def _check_range(self) -> None:
        difference = self.difference
        if not difference.terms:
            raise GoalError(f"{self.text}: there is no rate in it, or all cancel; a constraint needs at least one.")
        cleared = self.cleared()
        if cleared.ratio is not None and cleared.ratio_bound is not None:
            _check_bound(self.text, str(cleared.ratio), cleared.ratio.range, cleared.sense, cleared.ratio_bound)
        if not cleared.form.terms:
            raise GoalError(f"{self.text}: nothing is left of it after multiplying with the denominator.")
        if cleared.ratio is None:
            _check_bound(self.text, str(cleared.form), cleared.form.range, cleared.sense, cleared.bound)

    def __bool__(self) -> bool:
        raise GoalError(f"{self.text}: {CHAIN_MESSAGE}")

    @property
    def text(self) -> str:
        """`lhs sense rhs`, as the user wrote it."""
        return f"{self.lhs} {self.sense} {self.rhs}"

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        label = "" if self.label is None else f"{name_text(self.label)}: "
        return f"<Constraint {label}{self.text}{options_text(self.min_rows, self.small)}>"


def _check_bound(text: str, expression: str, interval: Range, sense: str, bound: float) -> None:
    low, high = interval
    slack = _TOLERANCE * max(1.0, abs(bound))
    if low - slack <= bound <= high + slack:
        return
    met = (bound < low) == (sense == ">=")
    raise GoalError(
        f"{text}: {'always' if met else 'never'} true, because {expression} lies in {interval_text(low, high)}"
        f" and the bound is {number_text(bound)}. Choose a bound inside this range."
    )


def options_text(min_rows: int | None, on_small: str | None) -> str:
    """`, min_rows=30, on_small="drop"`, as it follows a constraint in a text; empty where nothing is said."""
    rows = "" if min_rows is None else f", min_rows={min_rows}"
    return rows + ("" if on_small is None else f", on_small={quoted(on_small)}")
