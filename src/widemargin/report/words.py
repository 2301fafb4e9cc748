"""A goal in sentences, and numbers as people read them.

Shares are in percent, differences of shares in points, counts as they are.
"""

import enum
import math
from collections.abc import Mapping
from types import MappingProxyType

from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Atom, Linear, Rate, Ratio
from widemargin.goals.language.populations import EVERYONE, Population
from widemargin.goals.language.predicates import (
    And,
    BaselineSays,
    Compare,
    IsIn,
    IsNull,
    IsTrue,
    LabelIs,
    Not,
    Or,
    Predicate,
)

__all__ = ["NONE", "Unit", "Words", "capital", "decimals", "plain_number", "shown", "unit_of", "unit_of_form"]

_SHARES = frozenset({"precision", "f_beta", "win_change_ratio"})
NONE = "–"
PERCENT = "\u00a0%"  # the space does not break


class Unit(enum.StrEnum):
    """What a number is."""

    SHARE = "share"
    NUMBER = "number"


def unit_of(entry: Constraint | Bundle) -> Unit:
    """Whether both sides of a constraint are shares."""
    if isinstance(entry, Bundle):
        return Unit.SHARE
    return Unit.SHARE if Unit.SHARE is unit_of_form(entry.lhs) is unit_of_form(entry.rhs) else Unit.NUMBER


def unit_of_form(form: Linear) -> Unit:
    """Whether a form is made of shares."""
    return Unit.SHARE if all(_is_share(atom) for _, atom in form.terms) else Unit.NUMBER


def _is_share(atom: Atom) -> bool:
    if isinstance(atom, Rate):
        return not atom.definition.is_count
    if atom.name is not None:
        return atom.name in _SHARES
    # "84 % of the other rate" is how a quotient of shares is said.
    return all(unit_of_form(form) is Unit.SHARE for form in (atom.numerator, atom.denominator))


def shown(value: float | None, unit: Unit, *, points: bool = False, sign: bool = False) -> str:
    """A number in its unit: `64.1 %`, with `points` (of percent) `0.3 points`; a dash where there is none.

    Zeros behind the comma are left out of round numbers: `60 %`.
    """
    if value is None or not math.isfinite(value):
        return NONE
    plus = "+" if sign and value > 0 else ""
    if unit is Unit.NUMBER:
        return plus + plain_number(value).replace("-", "−")
    number = 100.0 * value
    text = (
        f"{number:.0f}"
        if abs(number - round(number)) < 1e-9
        else f"{number:.2f}"
        if abs(number) < 1
        else f"{number:.1f}"
    )
    text = text.replace("-", "−") if float(text) else text.replace("-", "")
    return plus + text + (" points" if points else PERCENT)


def decimals(value: float, digits: int = 2, *, sign: bool = False) -> str:
    """A number with so many digits behind the point, and a true minus."""
    text = f"{value:.{digits}f}"
    text = text.removeprefix("-") if not float(text) else text
    return ("+" if sign and float(text) > 0.0 else "") + text.replace("-", "−")


def plain_number(value: float) -> str:
    """Up to four digits, thousands apart."""
    if abs(value) >= 1000 and float(value).is_integer():
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.4g}"


_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "positive_rate": "the share of {rows} that the model calls {yes}",
        "negative_rate": "the share of {rows} that the model does not call {yes}",
        "error_rate": "the share of {rows} that the model decides wrongly",
        "accuracy": "the share of {rows} that the model decides rightly",
        "recall": "the share of true {yes} cases among {rows} that the model finds",
        "false_positive_rate": "the share of cases that are not {yes}, among {rows}, that the model calls so",
        "true_negative_rate": "the share of cases that are not {yes}, among {rows}, that the model recognises as such",
        "false_negative_rate": "the share of true {yes} cases among {rows} that the model misses",
        "churn": "the share of {rows} that the model decides differently from {base}",
        "win_rate": "the share of {rows} where the model is right and {base} is wrong",
        "loss_rate": "the share of {rows} where the model is wrong and {base} is right",
        "errors": "the number of {counted} that the model decides wrongly",
        "true_positives": "the number of true {yes} cases among {rows} that the model finds",
        "false_positives": "the number of cases that are not {yes}, among {rows}, that the model calls so",
        "true_negatives": "the number of cases that are not {yes}, among {rows}, that the model recognises as such",
        "false_negatives": "the number of true {yes} cases among {rows} that the model misses",
        "wins": "the number of {counted} where the model is right and {base} is wrong",
        "losses": "the number of {counted} where the model is wrong and {base} is right",
        "changes": "the number of {counted} that the model decides differently from {base}",
        "precision": "the share of true {yes} cases among {rows} that the model calls so",
        "f_beta": "the F-score (beta = {beta}) of the model on {rows}",
        "win_loss_ratio": "the number of wins over {base} for each loss, among {rows},",
        "win_change_ratio": "the share of wins among the changes from {base} on {rows}",
    }
)
"""What each rate means. `{rows}`: the population, `{yes}`: the positive class, `{base}`: the model compared with."""
_BUNDLES: Mapping[str, str] = MappingProxyType(
    {
        "demographic_parity": "the share that the model calls {yes}",
        "equal_opportunity": "the share of true {yes} that the model finds",
        "equalized_odds": "the share of true {yes} that the model finds, and the share of others that it calls so,",
    }
)
_COMPARED = MappingProxyType(
    {"==": "is", "!=": "is not", "<": "is below", "<=": "is at most", ">": "is above", ">=": "is at least"}
)
_OPPOSITE = MappingProxyType({"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"})


class Words:
    """Writes the sentences of one goal.

    Parameters
    ----------
    goal : Goal
    positive_class : str, int, float or bool
        What the positive class is called.

    Examples
    --------
    >>> from widemargin.goals import Goal, recall
    >>> goal = Goal(subject_to=(recall() >= 0.6).named("floor"))
    >>> Words(goal, ">50K").sentence(goal.constraints[0])
    'The share of true “>50K” cases among all rows that the model finds must be at least 60\\xa0%.'
    """

    def __init__(self, goal: Goal, positive_class: object) -> None:
        self.goal = goal
        self.positive_class = positive_class
        self.yes = f"“{positive_class}”"

    def objective(self) -> str:
        """What is minimised."""
        first = (
            "Of all models that keep these rules, the best has the smallest value of: "
            if self.goal.constraints
            else ("The best model has the smallest value of: ")
        )
        return f"{first}{self.form(self.goal.objective)}."

    def populations(self) -> list[tuple[str, str]]:
        """Name and meaning of every population that has a name."""
        named = ((p.name or "", self.rows_of(p, by_name=False)) for p in self.goal.populations.values())
        return [(name, meaning) for name, meaning in named if name]

    def sentence(self, entry: Constraint | Bundle) -> str:
        """A constraint or bundle."""
        text = self._bundle(entry) if isinstance(entry, Bundle) else self._constraint(entry)
        return capital(text) + "."

    def form(self, form: Linear) -> str:
        """A linear form: "0.5 times the share of ... plus ..."."""
        parts: list[str] = []
        for coefficient, atom in form.terms:
            size = abs(coefficient)
            text = self.atom(atom) if size == 1.0 else f"{plain_number(size)} times {self.atom(atom)}"
            parts.append(("minus " if coefficient < 0 else "plus " if parts else "") + text)
        if form.constant or not parts:
            sign = "" if not parts else "plus " if form.constant > 0 else "minus "
            number = abs(form.constant) if parts else form.constant
            parts.append(sign + plain_number(number))
        return ", ".join(parts) if len(parts) > 2 else " ".join(parts)

    def atom(self, atom: Atom) -> str:
        """A rate or ratio."""
        if isinstance(atom, Rate):
            return self._metric(atom.metric, atom.population, atom.baseline)
        if atom.name is not None:
            return self._metric(
                atom.name, EVERYONE if atom.population is None else atom.population, atom.baseline, beta=atom.beta
            )
        return f"{self.form(atom.numerator)}, divided by {self.form(atom.denominator)}"

    def rows_of(self, population: Population, *, by_name: bool = True) -> str:
        """A population: its name, or "rows where sex is “F”"."""
        if by_name and population.name is not None:
            return f"“{population.name}”"
        of = "" if population.source is None else f" of the data set “{population.source}”"
        if population.where is None:
            return f"all rows{of}"
        return f"the rows{of} where {self.predicate(population.where)}"

    def predicate(self, predicate: Predicate) -> str:
        """A condition on a row."""
        if isinstance(predicate, And | Or):
            word = " and " if isinstance(predicate, And) else " or "
            parts = (self.predicate(part) for part in predicate.parts)
            inner = (Or,) if isinstance(predicate, And) else (And,)
            return word.join(
                f"({text})" if isinstance(part, inner) else text
                for part, text in zip(predicate.parts, parts, strict=True)
            )
        if isinstance(predicate, Not) and isinstance(predicate.part, Compare):
            part = predicate.part
            return f"{_column(part.column)} {_COMPARED[_OPPOSITE[part.op]]} {_literal(part.value)}"
        if isinstance(predicate, Not):
            return f"not ({self.predicate(predicate.part)})"
        if isinstance(predicate, LabelIs):
            return f"the truth is {self.yes}" if predicate.positive else f"the truth is not {self.yes}"
        if isinstance(predicate, BaselineSays):
            return (
                f"“{predicate.name}” says {self.yes}"
                if predicate.positive
                else f"“{predicate.name}” does not say {self.yes}"
            )
        if isinstance(predicate, Compare):
            return f"{_column(predicate.column)} {_COMPARED[predicate.op]} {_literal(predicate.value)}"
        if isinstance(predicate, IsIn):
            return f"{_column(predicate.column)} is one of {', '.join(map(_literal, predicate.values))}"
        if isinstance(predicate, IsNull):
            return f"{_column(predicate.column)} is missing"
        if isinstance(predicate, IsTrue):
            return f"{_column(predicate.column)} is true"
        return str(predicate)

    def _metric(self, name: str, population: Population, baseline: str | None, *, beta: float | None = None) -> str:
        rows = self.rows_of(population)
        return _METRICS[name].format(
            rows=rows,
            counted=rows.removeprefix("all "),
            yes=self.yes,
            base=f"“{baseline}”",
            beta=plain_number(beta or 1.0),
        )

    def _constraint(self, item: Constraint) -> str:
        """`lhs must be at least rhs`, with the three shapes that people ask for in words of their own."""
        verb = "must be at least" if item.sense == ">=" else "must be at most"
        unit = unit_of(item)
        quotient = _quotient(item)
        if quotient is not None:
            above, below, level = quotient
            return f"{self.form(above)} {verb} {shown(level, unit)} of {self.form(below)}"
        difference = _difference(item)
        if difference is not None:
            above, below, level = difference
            word = "may exceed" if item.sense == "<=" else "must exceed"
            least = "at most" if item.sense == "<=" else "at least"
            return f"{self.form(above)} {word} {self.form(below)} by {least} {shown(level, unit, points=True)}"
        if not item.lhs.terms:  # 0.6 <= recall() is kept as the user wrote it
            verb = "must be at most" if item.sense == ">=" else "must be at least"
            return f"{self.form(item.rhs)} {verb} {shown(item.lhs.constant, unit)}"
        bound = self.form(item.rhs) if item.rhs.terms else shown(item.rhs.constant, unit)
        return f"{self.form(item.lhs)} {verb} {bound}"

    def _bundle(self, item: Bundle) -> str:
        rate = _BUNDLES[item.kind].format(yes=self.yes)
        within = "" if item.population is None else f", among {self.rows_of(item.population)}"
        values = (
            "every two values"
            if item.values is None
            else f"every two of the values {', '.join(map(_literal, item.values))}"
        )
        of = f"{values} of {_column(item.column)}{within}"
        if item.reference is not None:
            of = f"every value of {_column(item.column)}{within}, compared with {_literal(item.reference)} both ways"
        if item.ratio is not None:
            level = f"in the one must be at least {shown(item.ratio, Unit.SHARE)} of that in the other"
        else:
            level = f"may differ by at most {shown(item.difference or 0.0, Unit.SHARE, points=True)}"
        return f"for {of}: {rate} {level}"


def _quotient(item: Constraint) -> tuple[Linear, Linear, float] | None:
    """Numerator, denominator and factor of `a / b >= c` and of `a >= c * b`."""
    if not item.rhs.terms and len(item.lhs.terms) == 1 and item.lhs.constant == 0.0:
        coefficient, atom = item.lhs.terms[0]
        if (
            coefficient == 1.0
            and isinstance(atom, Ratio)
            and atom.name is None
            and _one(atom.numerator, atom.denominator)
        ):
            return atom.numerator, atom.denominator, item.rhs.constant
    if _one(item.lhs) and len(item.rhs.terms) == 1 and item.rhs.constant == 0.0:
        coefficient, atom = item.rhs.terms[0]
        return item.lhs, Linear(((1.0, atom),)), coefficient
    return None


def _difference(item: Constraint) -> tuple[Linear, Linear, float] | None:
    """The two sides and the bound of `a - b <= c`."""
    form = item.lhs
    if item.rhs.terms or form.constant != 0.0 or [coefficient for coefficient, _ in form.terms] != [1.0, -1.0]:
        return None
    (_, above), (_, below) = form.terms
    return Linear(((1.0, above),)), Linear(((1.0, below),)), item.rhs.constant


def _one(*forms: Linear) -> bool:
    """Whether each is one rate and nothing else."""
    return all(len(form.terms) == 1 and form.terms[0][0] == 1.0 and form.constant == 0.0 for form in forms)


def capital(text: str) -> str:
    """With a capital letter in front."""
    return text[:1].upper() + text[1:]


def _column(name: str | int) -> str:
    return f"column {name}" if isinstance(name, int) else f"“{name}”"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f"“{value}”"
    return plain_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value).lower()
