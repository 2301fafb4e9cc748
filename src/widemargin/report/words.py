"""A goal in sentences, and numbers as people read them.

Shares are in percent, differences of shares in points, counts as they are.
"""

import enum
import math
from collections.abc import Mapping

from widemargin.goals.language import predicates
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.constraints import Constraint
from widemargin.goals.language.goal import Goal
from widemargin.goals.language.linear import Atom, Linear, Rate, Ratio
from widemargin.goals.language.populations import EVERYONE, Population

NONE = "–"


class Unit(enum.StrEnum):
    """How a number is written: a share in percent, a difference of shares in points, any other number as it is."""

    SHARE = "share"
    POINTS = "points"
    NUMBER = "number"


def unit_of(entry: Constraint | Bundle) -> Unit:
    """Whether both sides of a constraint are shares, or differences of shares."""
    if isinstance(entry, Bundle):
        return Unit.SHARE if entry.difference is None else Unit.POINTS
    if not Unit.SHARE is unit_of_form(entry.lhs) is unit_of_form(entry.rhs):
        return Unit.NUMBER
    factors = [factor for factor, _ in (entry.lhs if entry.lhs.terms else entry.rhs).terms]
    return Unit.POINTS if not (entry.lhs.terms and entry.rhs.terms) and abs(sum(factors)) < 1e-9 else Unit.SHARE


def unit_of_form(form: Linear) -> Unit:
    """Whether a form is made of shares."""
    for _, atom in form.terms:
        if isinstance(atom, Rate):
            is_share = not atom.definition.is_count
        elif atom.name is not None:
            is_share = atom.range == (0.0, 1.0)
        else:  # "84 % of the other rate" is how a quotient of shares is said
            is_share = unit_of_form(atom.numerator) is Unit.SHARE is unit_of_form(atom.denominator)
        if not is_share:
            return Unit.NUMBER
    return Unit.SHARE


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
    # Whole percents have no decimals; a share below one percent has two, as one would leave a single digit of it.
    digits = 0 if abs(number - round(number)) < 1e-9 else 2 if abs(number) < 1 else 1
    text = f"{number:.{digits}f}"
    text = text.replace("-", "−") if float(text) else text.replace("-", "")
    return plus + text + (" points" if points or unit is Unit.POINTS else "\u00a0%")  # the space does not break


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


_RATIOS: Mapping[str, str] = {
    "selective_error": "the share that is wrong of the decisions of the model on {rows}",
    "precision": "the share that is truly {yes} of {rows} that the model calls {yes}",
    "f_beta": "the F-score (beta = {beta}) of the model on {rows}",
    "win_loss_ratio": "the number of wins over {base} for each loss, among {rows},",
    "win_change_ratio": "the share of wins among the changes from {base} on {rows}",
}
"""What each named ratio means, as `Metric.doc` says it of rates."""
_NORMS = {None: "", "linf": " in each"}
_BUNDLES: Mapping[str, str] = {
    "demographic_parity": "the share that the model calls {yes}",
    "equal_opportunity": "the share that the model finds of those truly {yes}",
    "equalized_odds": "the share that the model finds of those truly {yes}, and that it calls {yes} of all others,",
}
_COMPARED = {
    "==": "is",
    "!=": "is not",
    "<": "is below",
    "<=": "is at most",
    ">": "is above",
    ">=": "is at least",
}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


class Words:
    """Writes the sentences of one goal.

    Parameters
    ----------
    goal : Goal
    positive_class : str, int, float, bool or None
        What the positive class is called; None where a goal names every class.

    Examples
    --------
    >>> from widemargin.goals import Goal, recall
    >>> goal = Goal(subject_to=(recall() >= 0.6).named("floor"))
    >>> Words(goal, ">50K").sentence(goal.constraints[0])
    'The share that the model finds of all rows that are truly “>50K” must be at least 60\\xa0%.'
    """

    def __init__(self, goal: Goal, positive_class: object) -> None:
        self.goal = goal
        self.positive_class = positive_class

    def yes(self, of: object) -> str:
        """A class; None: the positive one."""
        return f"“{self.positive_class if of is None else of}”"

    def objective(self) -> str:
        """What is minimised."""
        which = "Of all models that keep these rules, the best has" if self.goal.constraints else "The best model has"
        return f"{which} the smallest value of: {self.form(self.goal.objective)}."

    def populations(self) -> list[tuple[str, str]]:
        """Name and meaning of every population that has a name."""
        return [(p.name, self.rows_of(p, by_name=False)) for p in self.goal.populations.values() if p.name]

    def sentence(self, entry: Constraint | Bundle) -> str:
        """A constraint or bundle."""
        text = self._bundle(entry) if isinstance(entry, Bundle) else self._constraint(entry)
        return capital(text) + "."

    def form(self, form: Linear) -> str:
        """A linear form: "0.5 times the share of ... plus ..."."""
        parts: list[str] = []
        for coefficient, atom in form.terms:
            text = self.atom(atom)
            if abs(coefficient) != 1.0:
                text = f"{plain_number(abs(coefficient))} times {text}"
            parts.append(("minus " if coefficient < 0 else "plus " if parts else "") + text)
        if not parts:
            return plain_number(form.constant)
        if form.constant > 0.0 > form.terms[0][0]:  # 1 minus a share, not minus a share plus 1
            parts.insert(0, plain_number(form.constant))
        elif form.constant:
            parts.append(f"{'plus' if form.constant > 0 else 'minus'} {plain_number(abs(form.constant))}")
        return ", ".join(parts) if len(parts) > 2 else " ".join(parts)

    def atom(self, atom: Atom) -> str:
        """A rate or ratio."""
        if isinstance(atom, Ratio) and atom.name is None:
            return f"{self.form(atom.numerator)}, divided by {self.form(atom.denominator)}"
        rows = self.rows_of(EVERYONE if atom.population is None else atom.population)
        words = {
            "rows": rows, "counted": rows.removeprefix("all "), "yes": self.yes(atom.of), "base": f"“{atom.baseline}”",
        }  # fmt: skip
        if isinstance(atom, Ratio):
            return _RATIOS[str(atom.name)].format(**words, beta=plain_number(atom.beta or 1.0))
        number = "" if atom.fact is None else plain_number(atom.fact.number) + _NORMS[atom.fact.norm]
        return atom.definition.doc.format(**words, number=number, actual=f"“{atom.actual}”")

    def rows_of(self, population: Population, *, by_name: bool = True) -> str:
        """A population: its name, or "rows where sex is “F”"."""
        if by_name and population.name is not None:
            return f"“{population.name}”"
        of = "" if population.source is None else f" of the data set “{population.source}”"
        if population.where is None:
            return f"all rows{of}"
        return f"the rows{of} where {self.predicate(population.where)}"

    def predicate(self, predicate: predicates.Predicate) -> str:
        """A condition on a row."""
        if isinstance(predicate, predicates.And | predicates.Or):
            word, inner = (
                (" and ", predicates.Or) if isinstance(predicate, predicates.And) else (" or ", predicates.And)
            )
            parts = ((part, self.predicate(part)) for part in predicate.parts)
            return word.join(f"({text})" if isinstance(part, inner) else text for part, text in parts)
        if isinstance(predicate, predicates.Not):
            part = predicate.part
            if not isinstance(part, predicates.Compare):
                return f"not ({self.predicate(part)})"
            predicate = predicates.Compare(part.column, _OPPOSITE[part.op], part.value)
        if isinstance(predicate, predicates.LabelIs):
            return f"the truth is {'' if predicate.positive else 'not '}{self.yes(predicate.of)}"
        if isinstance(predicate, predicates.BaselineSays):
            return f"“{predicate.name}” {'says' if predicate.positive else 'does not say'} {self.yes(predicate.of)}"
        if isinstance(predicate, predicates.Compare):
            return f"{_column(predicate.column)} {_COMPARED[predicate.op]} {_literal(predicate.value)}"
        if isinstance(predicate, predicates.IsIn):
            return f"{_column(predicate.column)} is one of {', '.join(map(_literal, predicate.values))}"
        if isinstance(predicate, predicates.IsNull | predicates.IsTrue):
            state = "missing" if isinstance(predicate, predicates.IsNull) else "true"
            return f"{_column(predicate.column)} is {state}"
        return str(predicate)

    def _constraint(self, item: Constraint) -> str:
        """`lhs must be at least rhs`; the three common shapes, a ratio, a difference, a number first, have their own
        words."""
        lhs, rhs, unit = item.lhs, item.rhs, unit_of(item)
        least, most = ("at least", "at most") if item.sense == ">=" else ("at most", "at least")
        factor, (above, below) = rhs.constant, (lhs, rhs)
        if not rhs.terms and _is_one_atom(lhs) and isinstance(ratio := lhs.terms[0][1], Ratio) and ratio.name is None:
            above, below = ratio.numerator, ratio.denominator
        elif len(rhs.terms) == 1 and rhs.constant == 0.0:
            factor, below = rhs.terms[0][0], Linear(((1.0, rhs.terms[0][1]),))
        if _is_one_atom(above) and _is_one_atom(below):  # a / b >= c, or a >= c * b
            return f"{self.form(above)} must be {least} {shown(factor, unit)} of {self.form(below)}"
        if not rhs.terms and lhs.constant == 0.0 and [factor for factor, _ in lhs.terms] == [1.0, -1.0]:  # a - b <= c
            plus, minus = (self.atom(atom) for _, atom in lhs.terms)
            verb = "may" if item.sense == "<=" else "must"
            return f"{plus} {verb} exceed {minus} by {least} {shown(rhs.constant, unit, points=True)}"
        if not lhs.terms:  # 0.6 <= recall() is kept as the user wrote it
            return f"{self.form(rhs)} must be {most} {shown(lhs.constant, unit)}"
        return f"{self.form(lhs)} must be {least} {self.form(rhs) if rhs.terms else shown(rhs.constant, unit)}"

    def _bundle(self, item: Bundle) -> str:
        rate = _BUNDLES[item.kind].format(yes=self.yes(item.of))
        within = "" if item.population is None else f", among {self.rows_of(item.population)}"
        values = "values" if item.values is None else f"of the values {', '.join(map(_literal, item.values))}"
        of = f"every two {values} of {_column(item.column)}{within}"
        if item.reference is not None:
            of = f"every value of {_column(item.column)}{within}, compared with {_literal(item.reference)} both ways"
        if item.overall:
            of = f"every value of {_column(item.column)}{within}, compared with all of them together both ways"
        if item.ratio is not None:
            level = f"in the one must be at least {shown(item.ratio, Unit.SHARE)} of that in the other"
        else:
            level = f"may differ by at most {shown(item.difference or 0.0, Unit.SHARE, points=True)}"
        return f"for {of}: {rate} {level}"


def capital(text: str) -> str:
    """With a capital letter in front."""
    return text[:1].upper() + text[1:]


def _column(name: str | int) -> str:
    return f"column {name}" if isinstance(name, int) else f"“{name}”"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f"“{value}”"
    return plain_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value).lower()


def _is_one_atom(form: Linear) -> bool:
    """Whether a form is one rate or ratio and nothing else."""
    return len(form.terms) == 1 and form.terms[0][0] == 1.0 and form.constant == 0.0
