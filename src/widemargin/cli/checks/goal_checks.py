"""A goal against the rows it is about, constraint by constraint, before anything is trained."""

import re
import warnings
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from widemargin.cli.checks.findings import Findings
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.cli.goals_file.toml_lines import mention
from widemargin.cli.tables.column_roles import TableRows, as_external
from widemargin.cli.tables.table_files import held_out
from widemargin.estimators.rate_constrained.proof import TIGHTENINGS
from widemargin.estimators.thresholds.guarantee import margins
from widemargin.exceptions import CapabilityError, GoalWarning, WidemarginError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources, positive_class
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.constraints import Expression
from widemargin.goals.text.parser import statements
from widemargin.rows import Rows

__all__ = ["check_goals"]

_FEW_ROWS = 100
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")
_POPULATION = re.compile(r"\bpopulation (\w+) is empty")
_TITLES = {"train": "training rows", "test": "test rows"}


def check_goals(
    findings: Findings, rows: Mapping[str, TableRows], external: Mapping[str, TableRows], baselines: Collection[str]
) -> Findings:
    """Bind every constraint to the rows it will be measured on; note what cannot be bound, met or proved.

    Parameters
    ----------
    findings : Findings
    rows : mapping of str to TableRows
        By part, "train" among them.
    external : mapping of str to TableRows
    baselines : collection of str
        A constraint on another external data set or baseline than these is left out: they have problems of their own.

    Returns
    -------
    Findings
        The same.
    """
    goals = findings.goals
    for part, goal, path in _measured(goals, rows):
        place = _Places(path, "" if goals.lines is None else goals.lines.value_of(path) or "")
        content = rows.get(part, rows["train"])
        for number, single in enumerate(_singles(goal)):
            if not ({*single.sources} <= {*external} and {*single.baselines} <= {*baselines}):
                continue
            tied = _tie(findings, single, content, external, place, number, part if part in rows else "train")
            if tied is not None and part in rows and part != "train":
                _check_rows(findings, tied, place, number, _TITLES[part])
    if goals.validation.confidence is not None and goals.goal is not None:
        _check_confidence(findings, rows["train"], external, goals.validation.confidence)
    return findings


def _measured(goals: GoalsFile, rows: Mapping[str, TableRows]) -> Iterator[tuple[str, Goal, tuple[str, ...]]]:
    """What is measured on each part; where rows that were to be held out cannot be told, what is promised for them."""
    parts = [*rows, *(["test"] if goals.data.split is not None and "test" not in rows else [])]
    for part in parts:
        audited = part != "train" and goals.audit_goal is not None
        goal = goals.goal_for(part)
        if goal is not None and (audited or part in rows):
            yield part, goal, ("goal", "audit", "text") if audited else ("goal", "text")


class _Places:
    """Where in the text of a goal something stands."""

    def __init__(self, path: tuple[str, ...], text: str) -> None:
        self.path, self.text = path, text
        self.constraints = [
            (item.line, item.column)
            for item in statements(text)
            if [token.text for token in item.tokens[:2]] == ["subject", "to"]
        ]

    def of(self, message: str, number: int) -> tuple[int, int] | None:
        """The last thing that a message names before it lists what there is; else the constraint of that number."""
        fact = message.split(" The values there are")[0].split(" Did you mean")[0].split("; ")[0]
        names = [first or second for first, second in _QUOTED.findall(fact)] + _POPULATION.findall(fact)
        found = [place for name in names if (place := mention(self.text, name)) is not None]
        if found:
            return found[-1]
        return self.constraints[number - 1] if 0 < number <= len(self.constraints) else None


def _singles(goal: Goal) -> Iterator[Goal]:
    """The objective alone, then each constraint beside an objective that needs nothing."""
    yield Goal(Expression(goal.objective))
    for entry in goal.constraints:
        yield Goal(Expression(goal.objective), entry)


def _tie(
    findings: Findings,
    goal: Goal,
    rows: TableRows,
    external: Mapping[str, TableRows],
    place: _Places,
    number: int,
    part: str,
) -> TiedGoal | None:
    """A goal tied to rows; None after noting why it cannot be."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GoalWarning)
        try:
            tied = _bind(findings.goals, goal, rows, external)
        except WidemarginError as error:
            text = f"on the {_TITLES[part]}: {error}"
            if not any(str(error) in other.text for other in findings.problems):
                findings.problem(place.path, text, place.of(str(error), number), place.text)
            tied = None
    for item in caught:
        text = str(item.message)
        if not any(text in other.text for other in findings.warnings):
            findings.warning(place.path, f"on the {_TITLES[part]}: {text}", place.of(text, number), place.text)
    return tied


def _bind(goals: GoalsFile, goal: Goal, rows: TableRows, external: Mapping[str, TableRows]) -> TiedGoal:
    classes = np.unique(rows.y).tolist() if rows.y is not None else [goals.data.positive]
    if len(classes) == 1:  # another label than this one has to be there for the pair to be known
        classes = [value for value in classes if value != goals.data.positive] + [goals.data.positive]
    main = Rows(y=rows.y, populations=rows.populations, external=as_external(external) or {})
    sources = make_sources(baselines_used(goal), main, classes=positive_class(classes, goals.data.positive))
    return bind(goal, sources, warn_trivial=False, need_objective=False)


def _check_rows(findings: Findings, tied: TiedGoal, place: _Places, number: int, title: str) -> None:
    """Warn of constraints whose verdict will hang on few rows."""
    for item in tied.constraints:
        if item.n_rows < _FEW_ROWS:
            width = min(0.5, 0.98 / item.n_rows**0.5)
            text = (
                f"{item.label!r} is measured on {item.n_rows} of the {title}: a 95 % interval around a rate there "
                f"reaches up to {width:.2f} to either side, so --decide confident will often be undecided. Give more "
                "rows, or widen the population"
            )
            findings.warning(place.path, text, place.of(f"'{item.label}'", number), place.text)


def _check_confidence(
    findings: Findings, rows: TableRows, external: Mapping[str, TableRows], confidence: float
) -> None:
    """Whether the rows kept aside can prove the constraints at all, whatever the model."""
    goals = findings.goals
    fraction = goals.validation.fraction or 0.2
    place = ("validation", "confidence")
    try:
        held = rows.take(np.flatnonzero(held_out(rows.n_rows, fraction)))  # as many as training keeps aside
        tied = _bind(goals, goals.goal, held, external)
        each = 1.0 - (1.0 - confidence) / len(TIGHTENINGS)
        found = margins(tied, each)
    except CapabilityError as error:
        findings.problem(place, str(error))
        return
    except WidemarginError:  # said already, for the training rows
        return
    for j, (item, margin) in enumerate(zip(tied.constraints, found, strict=True)):
        room = float(tied.bound[j])
        if margin.n_rows < margin.n_needed or margin.size > room:
            needed = f" (at least {margin.n_needed} are needed)" if margin.n_rows < margin.n_needed else ""
            text = (
                f"{item.label!r} cannot be proved with confidence {confidence:g} by about {margin.n_rows} rows kept "
                f"aside{needed}: it takes a margin of {margin.size:.3g}, and no model has more than {room:.3g}. Give "
                "more rows, raise validation.fraction, or lower the confidence"
            )
            findings.problem(place, text)
