"""Goals: an objective and the constraints it is subject to. A goal holds no data and can be used again and again."""

from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from widemargin._text import listing
from widemargin.exceptions import DataError, GoalError
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint, Expression
from widemargin.goals.language.linear import Linear, Rate, ScoreFact
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import BaselineSays, LabelIs
from widemargin.goals.language.rates import error_rate
from widemargin.goals.language.values import (
    ColumnName,
    Keyed,
    checked_min_rows,
    checked_on_small,
    name_text,
    quoted,
    shown,
)
from widemargin.goals.text.parser import parse_goal


class Goal(Keyed):
    """What a classifier has to achieve: minimise an expression subject to constraints.

    Immutable, hashable, compared by structure; `str(goal)` prints it and `Goal.parse` reads it back.

    Parameters
    ----------
    minimize : Expression, default=error_rate()
        Weighted sum of rates or counts; no ratio.
    subject_to : Constraint, Bundle, or iterable of them, default=()
    min_rows : int, optional
        Least number of rows of weight > 0 that each rate of a constraint must be measured on (for recall: rows with a
        positive label), unless the constraint says otherwise.
    on_small : {"error", "drop"}, default="error"
        What to do with a constraint where there are fewer: refuse the goal, or drop the constraint with a warning.
    watched : iterable of Population, default=()
        Groups of the main rows that reports show beside those of the constraints; training ignores them.

    Attributes
    ----------
    objective : Linear
    constraints : tuple of Constraint and Bundle
        With the goal's rule for tiny populations filled in where they had none of their own.
    min_rows, on_small
    watched : tuple of Population
        Without those that a rate is measured on.

    Raises
    ------
    GoalError
        If the objective has a ratio in it or no rate, if an entry of `subject_to` is no constraint, if two different
        populations have the same name, if two constraints have the same label, or if a watched population is not
        defined by columns of the main rows.

    Examples
    --------
    >>> from widemargin.goals import Goal, Population, col, error_rate, positive_rate, recall
    >>> women = Population("women", where=col("sex") == "Female")
    >>> men = Population("men", where=col("sex") == "Male")
    >>> goal = Goal(error_rate(), [positive_rate(women) >= 0.8 * positive_rate(men), (recall() >= 0.6).named("floor")])
    >>> print(goal)
    women = population(sex == "Female")
    men = population(sex == "Male")
    minimize error_rate()
    subject to positive_rate(women) >= 0.8 * positive_rate(men)
    subject to floor: recall() >= 0.6
    >>> Goal.parse(str(goal)) == goal
    True
    """

    __slots__ = ("_populations", "constraints", "min_rows", "objective", "on_small", "watched")

    objective: Linear
    constraints: tuple[Constraint | Bundle, ...]
    min_rows: int | None
    on_small: str
    watched: tuple[Population, ...]
    _populations: tuple[Population, ...]

    def __init__(
        self,
        minimize: Expression | None = None,
        subject_to: Constraint | Bundle | Iterable[Constraint | Bundle] = (),
        *,
        min_rows: int | None = None,
        on_small: str = "error",
        watched: Iterable[Population] = (),
    ) -> None:
        rows, small = checked_min_rows(min_rows), checked_on_small(on_small) or "error"
        object.__setattr__(self, "objective", _objective(minimize))
        object.__setattr__(self, "constraints", tuple(c.inheriting(rows, small) for c in _entries(subject_to)))
        object.__setattr__(self, "min_rows", rows)
        object.__setattr__(self, "on_small", small)
        populations = dict.fromkeys(self.objective.populations)
        for constraint in self.constraints:
            populations |= dict.fromkeys(constraint.populations)
        more = tuple(dict.fromkeys(population for population in watched if population not in populations))
        for population in more:
            if not population.is_of_columns:
                raise GoalError(
                    f"{population.definition} cannot be watched: only groups of the main rows by columns of their "
                    "table can. Use it in a constraint."
                )
        object.__setattr__(self, "watched", more)
        populations |= dict.fromkeys(more)
        object.__setattr__(self, "_populations", tuple(populations))
        by_name: dict[str | None, Population] = {}
        for population in populations:
            first = by_name.setdefault(population.name, population)
            if population.name is not None and first != population:
                raise GoalError(
                    f"two different populations are called {shown(population.name)}: {first.definition} and"
                    f" {population.definition}. Give one of them another name."
                )
        labels = [constraint.label for constraint in self.constraints if constraint.label is not None]
        for label in labels:
            if labels.count(label) > 1:
                raise GoalError(f"{labels.count(label)} constraints are called {shown(label)}; labels must differ.")

    @classmethod
    def parse(
        cls, text: str, populations: Mapping[str, Population] | None = None, *, max_characters: int = 10_000
    ) -> "Goal":
        """Read a goal from its text: one statement on a line (or several, separated by `;`); `#` starts a comment.

        Nothing is ever evaluated. Statements: `name = population(predicate)`, `name = external()`, `minimize
        expression` (default: `error_rate()`), `subject to label: constraint`, `min_rows = 30`, `on_small = "drop"`.
        Populations that no rate uses are watched: reports show them; those defined by labels or baselines, or on
        external data sets, are dropped.

        Parameters
        ----------
        text : str
        populations : mapping of str to Population, optional
            Names that the text may use besides its own.
        max_characters : int, default=10_000
            Longest text that is looked at.

        Raises
        ------
        GoalParseError
            If the text is no goal; the message names the line and shows the statement.
        """
        return parse_goal(text, populations, build=cls, max_characters=max_characters)

    @property
    def populations(self) -> dict[str, Population]:
        """The named populations, by name, in order of first appearance."""
        return {population.name: population for population in self._populations if population.name is not None}

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the external data sets."""
        sources = dict.fromkeys(population.source for population in self._populations)
        return tuple(source for source in sources if source is not None)

    @property
    def baselines(self) -> tuple[str, ...]:
        """Names of the baseline models, in rates and in predicates."""
        names = [rate.baseline for rate in self._rates if rate.baseline is not None and rate.fact is None]
        names += [name for population in self._populations for name in population.baselines]
        return tuple(dict.fromkeys(names))

    @property
    def facts(self) -> tuple[ScoreFact, ...]:
        """What its rates ask about the classifier's scores of the main rows."""
        facts = [rate.fact for rate in self._rates if rate.population.source is None]
        return tuple(dict.fromkeys(fact for fact in facts if fact is not None))

    @property
    def counts_decisions(self) -> bool:
        """Whether it asks how many rows are decided, or about the rows that are."""
        return any(rate.definition.counts_decisions for rate in self._rates)

    @property
    def limits_decisions(self) -> bool:
        """Whether it asks how many rows are decided, as the number of decisions below `selective_error` does not."""
        return any(rate.definition.counts_decisions and not rate.definition.is_count for rate in self._rates)

    @property
    def _rates(self) -> list[Rate]:
        """Those of the objective and of constraints that are no bundles."""
        plain = [entry for entry in self.constraints if isinstance(entry, Constraint)]
        measured: list[Linear | Constraint] = [self.objective, *plain]
        return [rate for item in measured for rate in item.rates]

    @property
    def needs_positive_class(self) -> bool:
        """Whether it speaks of the positive class without naming it, so that `pos_label` has to."""
        rates = [rate.of is None and rate.definition.names_class for rate in self._rates]
        bundles = [entry.of is None for entry in self.constraints if isinstance(entry, Bundle)]
        leaves = [leaf for population in self._populations for leaf in population.leaves]
        return any(
            [*rates, *bundles, *(leaf.of is None for leaf in leaves if isinstance(leaf, LabelIs | BaselineSays))]
        )

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Columns that predicates and bundles look at, on the training rows or in external data sets."""
        names = [column for population in self._populations for column in population.columns]
        names += [constraint.column for constraint in self.constraints if isinstance(constraint, Bundle)]
        return tuple(dict.fromkeys(names))

    def level(self, constraint: str | None = None) -> float:
        """The level of a constraint: its bound, or the factor between its two rates; of a bundle, its ratio.

        Parameters
        ----------
        constraint : str, optional
            Its label, or its text where it has none; not needed where there is only one.

        Raises
        ------
        GoalError
            If there is no such constraint, or it has no single level.
        """
        return self.constraints[self.place_of(constraint)].level

    def with_level(self, level: float, constraint: str | None = None) -> "Goal":
        """The same goal with one constraint at another level.

        Parameters
        ----------
        level : float
        constraint : str, optional
            As in `level`.

        Raises
        ------
        GoalError
            As in `level`, or if the new level makes no sense.

        Examples
        --------
        >>> from widemargin.goals import Goal, error_rate, recall
        >>> print(Goal(error_rate(), (recall() >= 0.6).named("floor")).with_level(0.7, "floor"))
        minimize error_rate()
        subject to floor: recall() >= 0.7
        """
        place = self.place_of(constraint)
        entries = list(self.constraints)
        entries[place] = entries[place].at_level(level)
        return Goal(
            Expression(self.objective), entries, min_rows=self.min_rows, on_small=self.on_small, watched=self.watched
        )

    def place_of(self, constraint: str | None = None) -> int:
        """Number of the constraint of that label or text; without one, of the only constraint there is."""
        names = [entry.label or entry.text for entry in self.constraints]
        places = [j for j, name in enumerate(names) if constraint is None or name == constraint]
        if len(places) == 1:
            return places[0]
        fault = "a constraint has to be named" if constraint is None else f"{shown(constraint)} names {len(places)}"
        raise GoalError(f"{fault} of the goal's {len(names)} constraints; there are {listing(names)}.")

    @property
    def key(self) -> tuple[object, ...]:
        """What decides equality and hash."""
        return self.objective, self.constraints, self.min_rows, self.on_small, self.watched

    def __reduce__(self) -> tuple[object, ...]:
        rebuild = partial(Goal, min_rows=self.min_rows, on_small=self.on_small, watched=self.watched)
        return rebuild, (Expression(self.objective), self.constraints)

    def __str__(self) -> str:
        lines = [f"{name_text(name)} = {population.definition}" for name, population in self.populations.items()]
        lines += [] if self.min_rows is None else [f"min_rows = {self.min_rows}"]
        lines += [] if self.on_small == "error" else [f"on_small = {quoted(self.on_small)}"]
        lines.append(f"minimize {self.objective}")
        for constraint in self.constraints:
            rows = None if constraint.min_rows == self.min_rows else constraint.min_rows
            small = None if constraint.on_small == self.on_small else constraint.on_small
            lines.append(f"subject to {constraint.statement(rows, small)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        statements = "; ".join(str(self).split("\n"))  # one line: it is shown inside the repr of estimators
        return f"<Goal {statements}>"


def checked_goal(goal: object) -> Goal:
    """A goal, or the one that a text says.

    Raises
    ------
    DataError
        If it is neither.
    GoalParseError
        If the text is no goal.
    """
    goal = _read(goal) if isinstance(goal, str) else goal
    if not isinstance(goal, Goal):
        raise DataError(f"goal is a {type(goal).__name__}; give a Goal or its text.")
    return goal


@lru_cache(maxsize=64)
def _read(text: str) -> Goal:
    """Every fit looks at its goal more than once, and a search fits the same goal many times: to read it takes 4 ms."""
    return Goal.parse(text)


def _objective(minimize: object) -> Linear:
    if minimize is None:
        return error_rate().form
    if isinstance(minimize, (Constraint, Bundle)):
        raise GoalError(f"minimize got the constraint {minimize}; put it into subject_to.")
    if not isinstance(minimize, Expression):
        raise GoalError(
            f"minimize must be an expression such as error_rate(), got {shown(minimize)} ({type(minimize).__name__})."
        )
    form = minimize.form
    if form.ratios:
        ratio = form.ratios[0]
        bound = "<= 0.2" if ratio.name == "selective_error" else ">= 1" if ratio.range[1] > 1 else ">= 0.8"
        raise GoalError(
            f"the objective holds the ratio {ratio}: its denominator depends on the classifier, so it is not a"
            f" linear combination of rates. Minimise rates, and ask for the ratio in subject_to, such as"
            f" {ratio} {bound}."
        )
    if not form.terms:
        raise GoalError(
            f"the objective {form} is constant, there is nothing to minimise. Use error_rate() or another rate."
        )
    return form


def _entries(subject_to: object) -> tuple[Constraint | Bundle, ...]:
    if isinstance(subject_to, (Constraint, Bundle)):
        return (subject_to,)
    if isinstance(subject_to, str):
        raise GoalError(f"subject_to got a text, {shown(subject_to)}. Use Goal.parse for texts.")
    if not isinstance(subject_to, Iterable):
        raise GoalError(f"subject_to must be a constraint or a list of them. {_refusal(subject_to)}")
    entries = tuple(subject_to)
    for position, entry in enumerate(entries):
        if not isinstance(entry, (Constraint, Bundle)):
            raise GoalError(f"entry {position} of subject_to is not a constraint. {_refusal(entry)}")
    return entries


def _refusal(entry: object) -> str:
    if type(entry).__name__ in ("bool", "bool_"):
        return (
            f"Got {entry}: comparing expressions with == or != gives True or False, not a constraint; for an equality"
            " write two inequalities, expression >= value - d and expression <= value + d."
        )
    if isinstance(entry, Expression):
        return f"Got the expression {entry} without a bound; compare it, such as {entry} <= 0.1."
    if isinstance(entry, str):
        return f"Got the text {shown(entry)}; use Goal.parse for texts."
    return f"Got {shown(entry)} ({type(entry).__name__}); write for example recall() >= 0.6."
