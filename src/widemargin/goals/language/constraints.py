"""What a user writes with rates and numbers: expressions, and constraints, checked as soon as they are written.

>>> from widemargin.goals import Population, col, positive_rate
>>> women = Population("women", where=col("sex") == "Female")
>>> men = Population("men", where=col("sex") == "Male")
>>> positive_rate(women) - 0.8 * positive_rate(men)
positive_rate(women) - 0.8 * positive_rate(men)

`<=` and `>=` make a `Constraint`. `==` stays identity, because hashing needs it; there are no equality constraints.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, Self, cast

from widemargin.exceptions import GoalError
from widemargin.goals.language.linear import Linear, Range, Rate, Ratio
from widemargin.goals.language.populations import Population
from widemargin.goals.language.values import (
    Immutable,
    Keyed,
    checked_min_rows,
    checked_name,
    checked_number,
    checked_on_small,
    interval_text,
    name_text,
    number_text,
    quoted,
    shown,
)

_CHAIN_MESSAGE = (
    "A constraint has no truth value: it cannot be chained (0.5 <= recall() <= 0.6) or joined by and / or / not. "
    "Write two constraints: recall() >= 0.5 and recall() <= 0.6, as two entries of subject_to."
)


class Factor(NamedTuple):
    """The number that the ratio of two rates is compared with, as in `positive_rate(a) >= 0.8 * positive_rate(b)`.

    Attributes
    ----------
    value : float
    is_left : bool
        Whether the rate above the line of the ratio is the left-hand side.
    is_floor : bool
        Whether the ratio has to be at least that.
    """

    value: float
    is_left: bool
    is_floor: bool


class Expression(Immutable):
    """A linear combination of rates, or a ratio of two; immutable and hashable by identity.

    Parameters
    ----------
    form : Linear
        Its normal form. Users do not call this: they write `error_rate() + 0.5 * churn("deployed")`.
    """

    __slots__ = ("form",)
    __array_ufunc__ = None  # numpy scalars leave the operators to us, arrays are refused
    form: Linear

    def __init__(self, form: Linear) -> None:
        if not isinstance(form, Linear):
            raise GoalError(f"an expression is made of a Linear form, got {shown(form)}. Call a rate, e.g. recall().")
        object.__setattr__(self, "form", form)

    @property
    def range(self) -> Range:
        """Attainable values `(low, high)`."""
        return self.form.range

    @property
    def populations(self) -> tuple[Population, ...]:
        """The populations it is measured on."""
        return self.form.populations

    def _operand(self, value: object, operation: str) -> Linear:
        """The form of the other operand of an operation, which a message shows with this expression for `%s`."""
        if isinstance(value, Expression):
            return value.form
        if isinstance(value, Constraint):
            raise GoalError(f"{value}: {_CHAIN_MESSAGE}")
        return Linear((), checked_number(value, f"the other operand of {operation}", self))

    def __add__(self, other: object) -> "Expression":
        return Expression(self.form.plus(self._operand(other, "%s + ...")))

    __radd__ = __add__

    def __sub__(self, other: object) -> "Expression":
        return Expression(self.form.plus(self._operand(other, "%s - ..."), -1.0))

    def __rsub__(self, other: object) -> "Expression":
        return Expression(self._operand(other, "... - %s").plus(self.form, -1.0))

    def __neg__(self) -> "Expression":
        return Expression(self.form.times(-1.0))

    def __pos__(self) -> "Expression":
        return self

    def __mul__(self, other: object) -> "Expression":
        if isinstance(other, Expression):
            raise GoalError(
                f"({self}) * ({other}): a product of two expressions is not linear. Multiply by numbers only."
            )
        return Expression(self.form.times(checked_number(other, "the factor of %s", self)))

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> "Expression":
        divisor = self._operand(other, "%s / ...")
        if divisor.terms:
            return Expression(Linear(((1.0, Ratio(self.form, divisor)),)))
        number = divisor.constant
        if number == 0.0:
            raise GoalError(f"({self}) / 0: division by zero.")
        return Expression(Linear(tuple((c / number, atom) for c, atom in self.form.terms), self.form.constant / number))

    def __rtruediv__(self, other: object) -> "Expression":
        return Expression(self._operand(other, "... / %s")) / self

    def __abs__(self) -> NoReturn:
        raise GoalError(f"abs({self}) is not linear. Write two constraints: {self} <= d and {self} >= -d.")

    def __pow__(self, other: object) -> NoReturn:
        raise GoalError(f"({self}) ** {shown(other)} is not linear. Use + - and numbers * / only.")

    def __ge__(self, other: object) -> "Constraint":
        return Constraint(self.form, ">=", self._operand(other, "%s >= ..."))

    def __le__(self, other: object) -> "Constraint":
        return Constraint(self.form, "<=", self._operand(other, "%s <= ..."))

    def __gt__(self, other: object) -> NoReturn:
        self._refuse_strict(">", other)

    def __lt__(self, other: object) -> NoReturn:
        self._refuse_strict("<", other)

    def _refuse_strict(self, sign: str, other: object) -> NoReturn:
        written = str(other) if isinstance(other, Expression) else shown(other)
        raise GoalError(f"{self} {sign} {written}: strict inequalities are not supported, use <= or >=.")

    def __bool__(self) -> NoReturn:
        raise GoalError(f"the expression {self} has no truth value. {_CHAIN_MESSAGE}")

    def __reduce__(self) -> tuple[type["Expression"], tuple[Linear]]:
        return Expression, (self.form,)

    def __str__(self) -> str:
        return str(self.form)

    __repr__ = __str__


class Ruled(Keyed):
    """What a constraint and a bundle have in common: a text, a label, a level, and a rule for tiny populations.

    A frozen dataclass with the fields `label`, `min_rows` and `small`, compared by its `key`. The *level* is the one
    number of it that a trade-off moves: `recall() >= 0.6` has the level 0.6, `positive_rate(a) >= 0.8 *
    positive_rate(b)` the level 0.8, a bundle that of its `ratio=` or `difference=`.
    """

    label: str | None
    min_rows: int | None
    small: str | None

    @property
    @abstractmethod
    def text(self) -> str:
        """What it asks for, as it stands in a text."""

    @property
    @abstractmethod
    def populations(self) -> tuple[Population, ...]:
        """Those that it names, in order of first appearance."""

    @property
    def on_small(self) -> str:
        """ "error" or "drop"; where nothing was said, "error"."""
        return self.small or "error"

    def owns(self, label: str) -> bool:
        """Whether the constraint of that label, or text, is this one, or one of this bundle."""
        return label in (self.label, self.text)

    def named(self, label: str) -> Self:
        """The same with a label; that of a bundle starts the labels of its constraints.

        Examples
        --------
        >>> from widemargin.goals import recall
        >>> (recall() >= 0.6).named("floor").label
        'floor'
        """
        return self.changed(label=label)

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
        return self.changed(min_rows=rows, small=self.small if on_small is None else on_small)

    def inheriting(self, min_rows: int | None, on_small: str) -> Self:
        """The goal's rule, which is checked already, wherever there is none of its own."""
        same = object.__new__(type(self))
        vars(same).update(vars(self), min_rows=self.min_rows or min_rows, small=self.small or on_small)
        return same

    def changed(self, **fields: object) -> Self:
        """The same with other values of some fields, which are checked."""
        return cast(Self, replace(cast(Any, self), **fields))

    def statement(self, min_rows: int | None, on_small: str | None) -> str:
        """Label, text and options (unless None): `floor: recall() >= 0.6, min_rows=30, on_small="drop"`."""
        label = "" if self.label is None else f"{name_text(self.label)}: "
        rows = "" if min_rows is None else f", min_rows={min_rows}"
        return label + self.text + rows + ("" if on_small is None else f", on_small={quoted(on_small)}")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.statement(self.min_rows, self.small)}>"


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
    denominator : Linear or None
        What must not be zero: the denominator of the ratio; in `rate(a) >= k * rate(b)`, where only positive decisions
        count, the rate of b, so a model that selects nobody breaks the 80% rule.
    """

    form: Linear
    sense: str
    bound: float
    ratio: Ratio | None = None
    ratio_bound: float | None = None
    denominator: Linear | None = None


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

    Attributes
    ----------
    rates : tuple of Rate
        Every rate of either side, in order of first appearance.
    difference : Linear
        `lhs - rhs`.
    cleared : ClearedConstraint
        The same without ratios, which is what classifiers are trained to.

    Raises
    ------
    GoalError
        If there is no rate in it, if a ratio is compared with something else than one constant, or if the bound lies
        outside the attainable range, so that the constraint never holds or always does.
    """

    lhs: Linear
    sense: str
    rhs: Linear
    label: str | None = None
    min_rows: int | None = None
    small: str | None = None
    rates: tuple[Rate, ...] = field(init=False)
    difference: Linear = field(init=False)
    cleared: ClearedConstraint = field(init=False)

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
        object.__setattr__(self, "rates", tuple(dict.fromkeys(self.lhs.rates + self.rhs.rates)))
        object.__setattr__(self, "difference", self.lhs.plus(self.rhs, -1.0))
        difference, ratios = self.difference, self.difference.ratios
        if not difference.terms:
            raise GoalError(f"{self.text}: there is no rate in it, or all cancel; a constraint needs at least one.")
        bound = -difference.constant + 0.0
        if not ratios:
            compared = self._compared_with()
            cleared = ClearedConstraint(Linear(difference.terms), self.sense, bound, denominator=compared)
        elif len(difference.terms) > 1:
            raise GoalError(
                f"{self.text}: only one ratio against one constant can be cleared, and here {ratios[0]} stands beside"
                " other rates. Write for example precision() >= 0.8, or use rates over fixed populations (recall, ...)."
            )
        else:
            # c * ratio + k >= bound becomes numerator - t * denominator >= 0 with t = (bound - k) / c; <= where c < 0.
            coefficient, ratio = difference.terms[0][0], ratios[0]
            bound = bound / coefficient + 0.0
            sense = self.sense if coefficient > 0 else {">=": "<=", "<=": ">="}[self.sense]
            form = ratio.numerator.plus(ratio.denominator, -bound)
            cleared = ClearedConstraint(
                Linear(form.terms), sense, -form.constant + 0.0, ratio, bound, ratio.denominator
            )
        object.__setattr__(self, "cleared", cleared)
        limited: Linear | Ratio = cleared.ratio or cleared.form
        low, high = limited.range
        slack = 1e-9 * max(1.0, abs(bound))  # a sweep's last bound is one end of the range up to rounding
        if not low - slack <= bound <= high + slack:
            met = "always" if (bound < low) == (cleared.sense == ">=") else "never"
            raise GoalError(
                f"{self.text}: {met} true, because {limited} lies in {interval_text(low, high)}"
                f" and the bound is {number_text(bound)}. Choose a bound inside this range."
            )
        if not cleared.form.terms:
            raise GoalError(f"{self.text}: nothing is left of it after multiplying with the denominator.")

    @property
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""
        return self.lhs, self.sense, self.rhs, self.label, self.min_rows, self.on_small

    def _compared_with(self) -> Linear | None:
        """Of `rate(a) >= k * rate(b)` the rate of b, where the rate counts nothing but positive decisions.

        Where it is zero the population gets none of them, and 0 >= k * 0 says nothing. That of errors is no such rate:
        zero errors are no empty promise.
        """
        sides = self.lhs, self.rhs
        if any(len(side.terms) != 1 or side.constant != 0.0 or side.terms[0][0] <= 0.0 for side in sides):
            return None
        (_, above), (_, below) = (side.terms[0] for side in sides)
        if not isinstance(above, Rate) or not isinstance(below, Rate):
            return None
        kinds = [(rate.metric, rate.baseline, rate.of, rate.actual) for rate in (above, below)]
        if kinds[0] != kinds[1] or above.definition.beta:
            return None
        return Linear(((1.0, above if self.rhs.terms[0][0] == 1.0 != self.lhs.terms[0][0] else below),))

    def __bool__(self) -> bool:
        raise GoalError(f"{self.text}: {_CHAIN_MESSAGE}")

    @property
    def populations(self) -> tuple[Population, ...]:
        """Those of its rates."""
        return tuple(dict.fromkeys(rate.population for rate in self.rates))

    @property
    def text(self) -> str:
        """`lhs sense rhs`, as the user wrote it."""
        return f"{self.lhs} {self.sense} {self.rhs}"

    # -- its level --------------------------------------------------------------------------------------------------

    def _side_of_level(self) -> tuple[str, Linear]:
        """The side that holds the level: "lhs" or "rhs", and its form."""
        lhs, rhs = self.lhs, self.rhs
        factors = all(len(side.terms) == 1 and side.constant == 0.0 for side in (lhs, rhs))
        if not rhs.terms or (lhs.terms and factors and lhs.terms[0][0] == 1.0):
            return "rhs", rhs
        if not lhs.terms or (factors and rhs.terms[0][0] == 1.0):
            return "lhs", lhs
        raise GoalError(
            f"{self.text} has no single level: {len(lhs.terms)} rates stand against {len(rhs.terms)}. Write all rates"
            " on one side and a number on the other, or one rate against a factor times another."
        )

    @property
    def level(self) -> float:
        """The constant of a side that is one; where both sides are one rate times a factor, the factor that is not 1.

        If both factors are 1, the right-hand one.

        Raises
        ------
        GoalError
            If no single number stands out.
        """
        _, side = self._side_of_level()
        return side.terms[0][0] if side.terms else side.constant

    @property
    def is_floor(self) -> bool:
        """Whether a higher level asks for more; a GoalError where there is none, as of `level`."""
        return self.compared_with_level()[2]

    def at_level(self, level: float) -> "Constraint":
        """The same constraint with another level.

        Raises
        ------
        GoalError
            If it has no level, or the new one makes no sense there (a recall above 1).
        """
        name, side = self._side_of_level()
        number = checked_number(level, "a level")
        return self.changed(**{name: Linear(((number, side.terms[0][1]),)) if side.terms else Linear((), number)})

    def compared_with_level(self) -> tuple[Linear, Linear | None, bool]:
        """What the level is compared with.

        Returns
        -------
        above, below : Linear, Linear or None
            A form, or the quotient of two where the level is a factor: of `positive_rate(a) >= 0.8 * positive_rate(b)`
            the quotient of the two rates.
        is_floor : bool
            Whether it has to be at least the level, not at most.

        Raises
        ------
        GoalError
            If the constraint has no level.
        """
        name, side = self._side_of_level()
        below = Linear(((1.0, side.terms[0][1]),)) if side.terms else None
        return (self.lhs if name == "rhs" else self.rhs), below, (self.sense == ">=") == (name == "rhs")

    @property
    def factor(self) -> "Factor | None":
        """By which two rates are compared; None of other rules."""
        if len(self.lhs.terms) != 1 or len(self.rhs.terms) != 1 or self.lhs.constant or self.rhs.constant:
            return None
        try:
            above, _, is_floor = self.compared_with_level()
            return Factor(self.level, above == self.lhs, is_floor) if self.level > 0.0 else None
        except GoalError:  # no single number stands out
            return None
