"""Bundles: one line for many constraints, one per pair of values of a column.

Which values there are is known only when the goal meets data, so a bundle stays whole until then and is expanded by
the binder. The constraints of a bundle with `ratio=k` are `rate(a) >= k rate(b)` for all ordered pairs (a, b) of
values, or each value against `reference` in both directions; with `difference=d` they are `rate(a) - rate(b) <= d`.
Against the rate of all rows together (`overall=True`) there are two bounds a value, however many values there are.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec

from widemargin.exceptions import DataError, GoalError
from widemargin.goals.language.constraints import Constraint, Factor, Ruled
from widemargin.goals.language.linear import Linear, Rate
from widemargin.goals.language.populations import EVERYONE, Population, as_population
from widemargin.goals.language.predicates import Column, Compare
from widemargin.goals.language.values import (
    LIMITS,
    ColumnName,
    Literal,
    checked_column,
    checked_literal,
    checked_literals,
    checked_min_rows,
    checked_name,
    checked_number,
    checked_on_small,
    column_text,
    list_text,
    literal_text,
    number_text,
    quoted,
    shown,
    typed,
)

BUNDLE_KINDS = MappingProxyType(
    {
        "demographic_parity": ("positive_rate",),
        "equal_opportunity": ("recall",),
        "equalized_odds": ("recall", "false_positive_rate"),
    }
)
"""The rates that a bundle compares."""


@dataclass(frozen=True, eq=False, repr=False)
class Bundle(Ruled):
    """A family of constraints over the values of a column. Made by `demographic_parity` and the like.

    Attributes
    ----------
    kind : str
        Key of `BUNDLE_KINDS`.
    column : str or int
        Column of the populations table.
    ratio : float or None
        In (0, 1].
    difference : float or None
        In [0, 1]; exactly one of the two is given.
    reference : str, int, float, bool or None
        Compare every value with this one; None: all pairs.
    values : tuple or None
        The values to compare; None: all that the data have.
    population : Population or None
        Rows among which the rates are measured; None: everyone.
    overall : bool
        Compare every value with all rows of the population together, instead of with each other.
    of : label or None
        The class whose rates are compared; None: the positive one of two.
    min_rows, small, label
        As in `Constraint`.
    """

    kind: str
    column: ColumnName
    ratio: float | None = None
    difference: float | None = None
    reference: Literal | None = None
    values: tuple[Literal, ...] | None = None
    population: Population | None = None
    min_rows: int | None = None
    small: str | None = None
    label: str | None = None
    overall: bool = False
    of: Literal | None = None

    def __post_init__(self) -> None:
        if self.kind not in BUNDLE_KINDS:
            raise GoalError(f"unknown bundle {shown(self.kind)}; known: {', '.join(BUNDLE_KINDS)}.")
        if (self.ratio is None) == (self.difference is None):
            raise GoalError(f"{self.kind} takes exactly one of ratio= (such as 0.8) and difference= (such as 0.05).")
        column: object = self.column
        object.__setattr__(self, "column", checked_column(column.name if isinstance(column, Column) else column))
        checks: dict[str, Callable[[object], object]] = {
            "ratio": lambda value: checked_number(value, "ratio"),
            "difference": lambda value: checked_number(value, "difference"),
            "reference": checked_literal,
            "of": checked_literal,
            "values": lambda values: checked_literals(values, "values"),
            "population": lambda value: as_population(value, "population"),
            "min_rows": checked_min_rows,
            "small": checked_on_small,
            "label": lambda value: checked_name(value, "a bundle's label"),
        }
        for name, check in checks.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check(getattr(self, name)))
        if self.population == EVERYONE:
            object.__setattr__(self, "population", None)
        if self.ratio is not None and not 0.0 < self.ratio <= 1.0:
            raise GoalError(f"ratio must lie in (0, 1], got {self.ratio}; 0.8 is the 80% rule.")
        if self.difference is not None and not 0.0 <= self.difference <= 1.0:
            raise GoalError(f"difference must lie in [0, 1], got {self.difference}.")
        if not isinstance(self.overall, bool):
            raise GoalError(f"overall must be True or False, got {shown(self.overall)}.")
        if self.overall and self.reference is not None:
            raise GoalError(f"reference={shown(self.reference)} and overall=True exclude each other; give one of them.")
        if self.values is not None:
            if self.reference is not None and typed(self.reference) not in map(typed, self.values):
                raise GoalError(f"reference={shown(self.reference)} is not among values={list_text(self.values)}.")
            if len(self.values) < 2:
                raise GoalError(f"values={list_text(self.values)}: at least two values are needed for a comparison.")

    @property
    def head(self) -> str:
        """What the labels of its constraints begin with."""
        of = "" if self.of is None else f", of={literal_text(self.of)}"
        return _short(self.label or f"{self.kind}({column_text(self.column)}{of})", 60)

    def owns(self, label: str) -> bool:
        """Whether a constraint of that label is one of this bundle."""
        return label.startswith((f"{self.head}:", f"{self.head},"))

    @property
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""
        values = tuple(map(typed, self.values or ()))
        what = (self.kind, self.column, self.ratio, self.difference, typed(self.reference), values, self.population)
        return (*what, self.min_rows, self.on_small, self.label, self.overall, typed(self.of))

    @property
    def rates(self) -> tuple[str, ...]:
        """Names of the rates that are compared."""
        return BUNDLE_KINDS[self.kind]

    @property
    def within(self) -> Population:
        """The rows among which the rates are measured."""
        return EVERYONE if self.population is None else self.population

    @property
    def populations(self) -> tuple[Population, ...]:
        """The rows among which the rates are measured; those of each value are known with the data."""
        return (self.within,)

    @property
    def level(self) -> float:
        """The `ratio` or `difference`."""
        return self.ratio if self.ratio is not None else self.difference or 0.0

    @property
    def factor(self) -> Factor | None:
        """By which two rates are compared; None where their difference is."""
        return None if self.ratio is None else Factor(self.ratio, is_left=True, is_floor=True)

    @property
    def is_floor(self) -> bool:
        """Whether a higher level asks for more."""
        return self.difference is None

    def at_level(self, level: float) -> "Bundle":
        """The same bundle with another level, which must make sense (no ratio of 0)."""
        return self.changed(**{"difference" if self.ratio is None else "ratio": checked_number(level, "a level")})

    def expand(self, values: Sequence[object]) -> tuple[Constraint, ...]:
        """The constraints over the distinct values of the column.

        Parameters
        ----------
        values : sequence
            Distinct non-missing values found in the data, sorted. Where the bundle lists `values` itself, those are
            used, and each must be among the found ones.

        Returns
        -------
        tuple of Constraint
            Labelled; their populations are named like `sex == 'Female'`, which needs no escapes in a text.

        Raises
        ------
        GoalError
            If a listed value or the reference is not among them.
        DataError
            If there are fewer than two values, or too many.
        """
        present = checked_literals(values, f"the values of column {column_text(self.column)}") if len(values) else ()
        wanted = present if self.values is None else self.values
        for value in wanted if self.reference is None else (*wanted, self.reference):
            if value not in present:
                raise GoalError(
                    f"{self}: {literal_text(value)} is no value of column {column_text(self.column)};"
                    f" found: {shown(list(present))}."
                )
        if len(wanted) < 2:
            held = f"only the value {literal_text(wanted[0])}" if wanted else "no value"
            raise DataError(
                f"{self}: column {column_text(self.column)} holds {held} on these rows, and two groups are needed to"
                " compare. Give rows of more groups, or leave this rule out."
            )
        all_pairs = self.reference is None and not self.overall
        number = (len(wanted) * (len(wanted) - 1) if all_pairs else 2 * len(wanted)) * len(self.rates)
        if number > LIMITS.bundle:
            raise DataError(
                f"{self}: column {column_text(self.column)} has {len(wanted)} distinct values, which makes {number}"
                f" constraints (at most {LIMITS.bundle}). Compare with overall=True or reference=, which makes two a"
                " value, group the values, or list some with values=."
            )
        groups = {literal_text(value): self._group(value) for value in wanted}
        pairs = list(itertools.permutations(groups, 2))
        if not all_pairs:
            hub = "overall" if self.reference is None else literal_text(self.reference)
            others = [name for name in groups if name != hub or self.overall]
            groups[hub] = self.within if self.reference is None else self._group(self.reference)
            pairs = [pair for name in others for pair in ((name, hub), (hub, name))]
        constraints = []
        for rate, (a, b) in itertools.product(self.rates, pairs):
            of_a, of_b = (Linear(((1.0, Rate(rate, groups[name], of=self.of)),)) for name in (a, b))
            if self.ratio is not None:
                lhs, sense, rhs, level = of_a, ">=", of_b.times(self.ratio), f">= {number_text(self.ratio)} *"
            else:
                lhs, sense, rhs = of_a.plus(of_b, -1.0), "<=", Linear((), self.level)
                level = f"<= {number_text(self.level)} +"
            metric = f", {rate}" if len(self.rates) > 1 else ""
            label = f"{self.head}{metric}: {_short(a, 40)} {level} {_short(b, 40)}"
            constraints.append(Constraint(lhs, sense, rhs, label, self.min_rows, self.small))
        return tuple(constraints)

    def _group(self, value: Literal) -> Population:
        """The rows with a value, called like `race == 'Asian'`, because a text puts this name into double quotes."""
        within = self.within
        group = within & Compare(self.column, "==", value)
        column = column_text(self.column)
        if isinstance(self.column, str) and column != self.column:
            column = f"col({quoted(self.column, mark=chr(39))})"
        name = f"{column} == {quoted(value, mark=chr(39)) if isinstance(value, str) else literal_text(value)}"
        if within.name is not None or within.where is not None:
            name = f"{within.name or within.reference} and {name}"
        return group.named(name) if len(name) <= LIMITS.name and name.isprintable() else group

    @property
    def text(self) -> str:
        """`demographic_parity(sex, ratio=0.8)`."""
        writers: dict[str, Callable[[Any], str]] = {
            "ratio": number_text,
            "difference": number_text,
            "reference": literal_text,
            "of": literal_text,
            "values": list_text,
            "population": str,
        }
        written = [column_text(self.column)]
        written += [
            f"{name}={write(value)}" for name, write in writers.items() if (value := getattr(self, name)) is not None
        ]
        if self.overall:
            written.append("overall=True")
        return f"{self.kind}({', '.join(written)})"


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


P = ParamSpec("P")


def _bundle(
    kind: str,
    column: ColumnName | Column,
    *,
    ratio: float | None = None,
    difference: float | None = None,
    reference: Literal | None = None,
    values: Sequence[Literal] | None = None,
    population: Population | None = None,
    min_rows: int | None = None,
    on_small: str | None = None,
    overall: bool = False,
    of: Literal | None = None,
) -> Bundle:
    # A bundle brings them to their stored form.
    return Bundle(kind, column, ratio, difference, reference, values, population, min_rows, on_small, None, overall, of)  # type: ignore[arg-type]


def _makes_bundle(
    make: Callable[Concatenate[str, P], Bundle],
) -> Callable[[Callable[[], None]], Callable[P, Bundle]]:
    """Give a function of nothing but a name and a text the parameters and the body of `make`, for that kind."""

    def completed(function: Callable[[], None]) -> Callable[P, Bundle]:
        @functools.wraps(function)
        def of_that_kind(*args: P.args, **kwargs: P.kwargs) -> Bundle:
            return make(function.__name__, *args, **kwargs)

        signature = inspect.signature(make)
        vars(of_that_kind)["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[1:])
        return of_that_kind

    return completed


@_makes_bundle(_bundle)
def demographic_parity() -> None:
    """Similar positive rates for all values of a column: `s_p(a) >= ratio * s_p(b)` (0.8: the 80% rule).

    Parameters
    ----------
    column : str, int or Column
        Column of the populations table.
    ratio : float in (0, 1], optional
    difference : float in [0, 1], optional
        Exactly one of the two: the least ratio, or the greatest difference, of any two values' rates.
    reference : optional
        Compare each value with this one only, in both directions; default: all ordered pairs.
    values : sequence, optional
        The values to compare; default: all in the data.
    population : Population, optional
        Rows among which the rates are measured; default: everyone.
    min_rows : int, optional
    on_small : {"error", "drop"}, optional
        Rule for tiny groups, as in `Constraint.with_options`.
    overall : bool, default=False
        Compare each value with all these rows together, in both directions: two constraints for each value, for columns
        with too many pairs of values. Two values may then differ by twice the difference.
    of : label, optional
        The class that is meant, for targets of several classes; default: the positive one of two.

    Examples
    --------
    >>> from widemargin.goals import demographic_parity
    >>> for constraint in demographic_parity("sex", ratio=0.8).expand(["Female", "Male"]):
    ...     print(constraint.label)
    demographic_parity(sex): "Female" >= 0.8 * "Male"
    demographic_parity(sex): "Male" >= 0.8 * "Female"
    """


@_makes_bundle(_bundle)
def equal_opportunity() -> None:
    """Similar recalls for all values of a column: `s_p(a and D+) >= ratio * s_p(b and D+)`.

    Parameters as in `demographic_parity`.
    """


@_makes_bundle(_bundle)
def equalized_odds() -> None:
    """Similar recalls and similar false positive rates for all values of a column.

    Parameters as in `demographic_parity`.
    """


def must_be_right(population: Population, share: float = 1.0) -> Constraint:
    """At least `share` of a (small, hand-made) labelled set must be classified correctly: `accuracy >= share`.

    Parameters
    ----------
    population : Population
        The egregious examples.
    share : float in [0, 1], default=1.0
    """
    if population is None:
        raise GoalError("must_be_right needs the population of the examples, got None.")
    form = Linear(((1.0, Rate("accuracy", as_population(population, "population"))),))
    return Constraint(form, ">=", Linear((), checked_number(share, "share")))


BUNDLE_FUNCTIONS: dict[str, Callable[..., Bundle | Constraint]] = {
    function.__name__: function for function in (demographic_parity, equal_opportunity, equalized_odds, must_be_right)
}
"""The functions that a text may use as a whole constraint, by name."""
