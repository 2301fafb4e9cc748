"""Populations: the rows that a rate is measured on (the paper's "dataset").

A population is a description: a source (the training or audited rows, or a named external data set) and a predicate.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NoReturn

from widemargin.exceptions import GoalError
from widemargin.goals.language.predicates import And, BaselineSays, Column, LabelIs, Predicate, as_predicate
from widemargin.goals.language.values import ColumnName, Immutable, Literal, checked_name, name_text, quoted, shown


@dataclass(frozen=True, repr=False)
class Population(Immutable):
    """Rows that a rate is measured on: those of `source` on which `where` holds.

    Parameters
    ----------
    name : str or None
        Name in texts and reports; None: the condition itself is shown.
    source : str or None, default=None
        None: the rows being trained on or audited; else the name of an external data set.
    where : Predicate, Column or None, default=None
        Condition on a row; None: every row. Rows on which it is unknown (missing values) do not belong.

    Attributes
    ----------
    rows : (str or None, Predicate or None)
        What decides membership, without the name: `(source, where)`.

    Examples
    --------
    >>> from widemargin.goals import Population, col
    >>> women = Population("women", where=col("sex") == "Female")
    >>> women & Population("young", where=col("age") < 30)
    population(sex == "Female" and age < 30)
    """

    name: str | None
    source: str | None = None
    where: Predicate | None = None
    rows: tuple[str | None, Predicate | None] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.name is not None:
            object.__setattr__(self, "name", checked_name(self.name, "a population's name"))
        if self.source is not None:
            object.__setattr__(self, "source", checked_name(self.source, "the name of an external data set"))
        if self.where is not None:
            object.__setattr__(self, "where", as_predicate(self.where))
        object.__setattr__(self, "rows", (self.source, self.where))

    @classmethod
    def everyone(cls) -> "Population":
        """All rows being trained on or audited."""
        return cls(None)

    @classmethod
    def external(cls, source: str, where: Predicate | Column | None = None, *, name: str | None = None) -> "Population":
        """Rows of the external data set `source`, which are not among the training rows.

        Without `where` and `name` the population is called like the data set.
        """
        name = source if name is None and where is None else name
        return cls(name, source, None if where is None else as_predicate(where))

    @property
    def leaves(self) -> Iterable[Predicate]:
        """The conditions of the predicate that are neither and, or, nor not; none where every row belongs."""
        return () if self.where is None else self.where.leaves()

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Columns that the predicate looks at."""
        return () if self.where is None else self.where.columns

    @property
    def baselines(self) -> tuple[str, ...]:
        """Baselines that the predicate asks."""
        return () if self.where is None else self.where.baselines

    @property
    def uses_label(self) -> bool:
        """Whether the predicate looks at the label."""
        return self.where is not None and self.where.uses_label

    @property
    def is_of_columns(self) -> bool:
        """Whether columns of the main rows alone say who belongs, so that reports can show it without being asked."""
        return self.source is None and bool(self.columns) and not self.baselines and not self.uses_label

    def named(self, name: str) -> "Population":
        """The same rows under another name."""
        return replace(self, name=name)

    def positives(self, *, of: Literal | None = None) -> "Population":
        """Its rows whose label is positive (D+), or the class `of`."""
        return self & LabelIs(True, of)

    def negatives(self, *, of: Literal | None = None) -> "Population":
        """Its rows whose label is negative (D-), or any class but `of`."""
        return self & LabelIs(False, of)

    def predicted_positive(self, baseline: str) -> "Population":
        """Its rows that `baseline` predicts positive (D[h+])."""
        return self & BaselineSays(baseline, True)

    def predicted_negative(self, baseline: str) -> "Population":
        """Its rows that `baseline` predicts negative (D[h-])."""
        return self & BaselineSays(baseline, False)

    def __and__(self, other: object) -> "Population":
        """Rows in both; a population of the training rows narrows an external one by its condition."""
        if isinstance(other, (Predicate, Column)):
            other = Population(None, self.source, as_predicate(other))
        if not isinstance(other, Population):
            raise GoalError(f"a population is intersected with a population or a predicate, got {shown(other)}.")
        if self.source is not None and other.source is not None and self.source != other.source:
            raise GoalError(
                f"{self.reference} and {other.reference} come from different external data sets"
                f" ({shown(self.source)}, {shown(other.source)}) and have no rows in common."
            )
        source = self.source if self.source is not None else other.source
        if other.rows == self.rows or (other.where is None and other.source in (None, self.source)):
            return self
        if self.where is None and self.source in (None, other.source):
            return other
        parts = tuple(part for part in (self.where, other.where) if part is not None)
        return Population(None, source, parts[0] if len(parts) == 1 else And(parts))

    def __or__(self, other: object) -> NoReturn:
        cure = "Join the conditions: Population(name, where=(a) | (b))."
        raise GoalError(f"{self.reference} | ...: populations are combined by & only. {cure}")

    __ror__ = __or__

    def __invert__(self) -> NoReturn:
        condition = "condition" if self.where is None else str(self.where)
        cure = f"Negate the condition: Population(name, where=~({condition}))."
        raise GoalError(f"~{self.reference}: populations are combined by & only. {cure}")

    def __bool__(self) -> bool:
        raise GoalError("a population has no truth value. Use & for the rows in both.")

    @property
    def definition(self) -> str:
        """The right-hand side of its statement: `population(sex == "Female")`, `external("traffic", age > 30)`."""
        if self.source is None:
            return f"population({'' if self.where is None else self.where})"
        if self.where is None:
            return "external()" if self.name == self.source else f"external({quoted(self.source)})"
        return f"external({quoted(self.source)}, {self.where})"

    @property
    def reference(self) -> str:
        """How a rate refers to it: by name, or by its definition where it has none."""
        return self.definition if self.name is None else name_text(self.name)

    def __str__(self) -> str:
        return self.reference

    def __repr__(self) -> str:
        return self.definition if self.name is None else f"{name_text(self.name)} = {self.definition}"


EVERYONE = Population.everyone()


def as_population(value: object, what: str = "on") -> Population:
    """None as everyone, a population as it is; anything else is refused."""
    if value is None:
        return EVERYONE
    if isinstance(value, Population):
        return value
    if isinstance(value, (Predicate, Column)):
        cure = f"Write Population(None, where={value})."
    elif isinstance(value, str):
        cure = f"Write Population({value!r}, where=...), or Population.external({value!r})."
    else:
        cure = 'Write for example Population("women", where=col("sex") == "Female").'
    raise GoalError(f"{what} must be a Population, got {shown(value)} ({type(value).__name__}). {cure}")
