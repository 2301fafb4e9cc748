"""Expressions: what a user writes with rates and numbers.

>>> from widemargin.goals import Population, col, positive_rate
>>> women = Population("women", where=col("sex") == "Female")
>>> men = Population("men", where=col("sex") == "Male")
>>> positive_rate(women) - 0.8 * positive_rate(men)
positive_rate(women) - 0.8 * positive_rate(men)

`<=` and `>=` make a `Constraint`. `==` stays identity, because hashing needs it; there are no equality constraints.
"""

from typing import Any, NoReturn

from widemargin.exceptions import GoalError
from widemargin.goals.language.checks import checked_number, shown
from widemargin.goals.language.constraints import CHAIN_MESSAGE, Constraint
from widemargin.goals.language.linear import Atom, Linear, Rate, Ratio
from widemargin.goals.language.populations import Population
from widemargin.goals.language.ranges import Range

__all__ = ["Atom", "Expression", "Linear", "Rate", "Ratio"]


class Expression:
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

    def __add__(self, other: object) -> "Expression":
        return Expression(self.form.plus(_form(other, f"{self} + ...")))

    def __radd__(self, other: object) -> "Expression":
        return Expression(_form(other, f"... + {self}").plus(self.form))

    def __sub__(self, other: object) -> "Expression":
        return Expression(self.form.plus(_form(other, f"{self} - ..."), -1.0))

    def __rsub__(self, other: object) -> "Expression":
        return Expression(_form(other, f"... - {self}").plus(self.form, -1.0))

    def __neg__(self) -> "Expression":
        return Expression(self.form.times(-1.0))

    def __pos__(self) -> "Expression":
        return self

    def __mul__(self, other: object) -> "Expression":
        if isinstance(other, Expression):
            raise GoalError(
                f"({self}) * ({other}): a product of two expressions is not linear. Multiply by numbers only."
            )
        return Expression(self.form.times(checked_number(other, f"the factor of {self}")))

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> "Expression":
        divisor = _form(other, f"{self} / ...")
        if divisor.terms:
            return Expression(Linear(((1.0, Ratio(self.form, divisor)),)))
        number = divisor.constant
        if number == 0.0:
            raise GoalError(f"({self}) / 0: division by zero.")
        return Expression(Linear(tuple((c / number, atom) for c, atom in self.form.terms), self.form.constant / number))

    def __rtruediv__(self, other: object) -> "Expression":
        return Expression(_form(other, f"... / {self}")) / self

    def __abs__(self) -> NoReturn:
        raise GoalError(f"abs({self}) is not linear. Write two constraints: {self} <= d and {self} >= -d.")

    def __pow__(self, other: object) -> NoReturn:
        raise GoalError(f"({self}) ** {shown(other)} is not linear. Use + - and numbers * / only.")

    def __ge__(self, other: object) -> Constraint:
        return Constraint(self.form, ">=", _form(other, f"{self} >= ..."))

    def __le__(self, other: object) -> Constraint:
        return Constraint(self.form, "<=", _form(other, f"{self} <= ..."))

    def __gt__(self, other: object) -> NoReturn:
        raise GoalError(f"{self} > {_operand_text(other)}: strict inequalities are not supported, use <= or >=.")

    def __lt__(self, other: object) -> NoReturn:
        raise GoalError(f"{self} < {_operand_text(other)}: strict inequalities are not supported, use <= or >=.")

    def __bool__(self) -> NoReturn:
        raise GoalError(f"the expression {self} has no truth value. {CHAIN_MESSAGE}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an expression cannot be changed: {name} = {shown(value)}.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an expression cannot be changed: del {name}.")

    def __reduce__(self) -> tuple[type["Expression"], tuple[Linear]]:
        return Expression, (self.form,)

    def __copy__(self) -> "Expression":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Expression":
        return self

    def __str__(self) -> str:
        return str(self.form)

    __repr__ = __str__


def _form(value: object, what: str) -> Linear:
    if isinstance(value, Expression):
        return value.form
    if isinstance(value, Constraint):
        raise GoalError(f"{value}: {CHAIN_MESSAGE}")
    return Linear((), checked_number(value, f"the other operand of {what}"))


def _operand_text(value: object) -> str:
    return str(value) if isinstance(value, Expression) else shown(value)
