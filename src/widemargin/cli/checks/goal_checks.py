"""A goal against the rows it is about, constraint by constraint, before anything is trained."""

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from widemargin._typing import Floats
from widemargin.cli.checks.findings import Findings
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.cli.goals_file.toml_lines import mention
from widemargin.cli.tables.table_files import held_out
from widemargin.cli.tables.training_data import PART_NAMES, TableRows, as_external
from widemargin.estimators.thresholds.guarantee import Judged
from widemargin.exceptions import CapabilityError, GoalWarning, WidemarginError
from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind, why_unknown
from widemargin.goals.binding.labels import ordered_classes
from widemargin.goals.binding.sources import make_source, make_sources
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.constraints import Expression
from widemargin.goals.measuring.exact_tests import Possible, best_evidence
from widemargin.goals.text.parser import statements
from widemargin.rows import Rows
from widemargin.solvers.ramp.conflicts import impossible_subset


def check_goals(
    findings: Findings,
    rows: Mapping[str, TableRows],
    external: Mapping[str, TableRows],
    baselines: Collection[str],
    *,
    made_up: bool = False,
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
    made_up : bool, default=False
        Whether the labels are, so that constraints do not contradict each other because of them.

    Returns
    -------
    Findings
        The same.
    """
    goals = findings.goals
    # Where rows that were to be held out cannot be told, what is promised for them is tied to the training rows.
    for part in [*rows, *(["test"] if goals.data.split is not None and "test" not in rows else [])]:
        audited = part != "train" and goals.audit_goal is not None
        goal = goals.goal_for(part)
        if goal is None or not (audited or part in rows):
            continue
        here = part if part in rows else "train"
        path = ("goal", "audit", "text") if audited else ("goal", "text")
        look = _Look(findings, rows[here], external, path, PART_NAMES[here])
        main = make_source(Rows(populations=rows[here].populations), (), classes=(0, 1))
        for group in goal.watched:
            reason = why_unknown(group, main)
            if reason is not None and not any(reason in other.text for other in findings.warnings):
                told = f"{reason} Reports will show this group without rows. Correct it, or take it out"
                look.note(findings.warning, told, reason, 0)
        # The objective alone, then each constraint beside an objective that needs nothing.
        objective, numbers = Expression(goal.objective), dict[str, int]()
        for number, single in enumerate([Goal(objective), *(Goal(objective, entry) for entry in goal.constraints)]):
            if {*single.sources} <= {*external} and {*single.baselines} <= {*baselines}:
                tied = look.tied(single, number)
                numbers |= {} if tied is None else {item.label: number for item in tied.constraints}
                if tied is not None and here == part != "train":
                    look.warn_of_few_rows(tied, number)
        if not made_up:
            look.note_conflict(goal, numbers)
    confidence = goals.validation.confidence
    if confidence is None or goals.goal is None:
        return findings
    # Whether the held-out rows can prove the constraints at all, whatever the model.
    place, train, fraction = ("validation", "confidence"), rows["train"], goals.validation.fraction or 0.2
    try:
        held = train.take(np.flatnonzero(held_out(train.n_rows, fraction)))  # as many as training holds out
        tied = _bind(goals, goals.goal, held, external)
        # A classifier that decides the same for every row meets some goals by definition, and needs no rows as proof.
        settled = any(Judged.of(None, tied, mass, possible).p_value == 0.0 for mass, possible in _constants(tied))
        best = best_evidence(tied)
    except CapabilityError as error:
        findings.problem(place, str(error))
        return findings
    except WidemarginError:  # reported already, for the training rows
        return findings
    for item, each in zip(tied.constraints, best, strict=True):
        if each.p_value > 1.0 - confidence and not settled:
            text = (
                f"{item.label!r} cannot be proved with confidence {confidence:g} by about {each.n_rows} rows kept "
                f"aside: if every one of them spoke for it, that could still be chance (p = {each.p_value:.2g}, "
                f"{each.method}). Give more rows, raise validation.fraction, or lower the confidence"
            )
            findings.problem(place, text)
    return findings


class _Look(NamedTuple):
    """Rows beside which a goal of the file is looked at: the key of its text, and what the rows are called."""

    findings: Findings
    rows: TableRows
    external: Mapping[str, TableRows]
    path: tuple[str, ...]
    part: str

    def note(self, how: Callable[..., None], told: str, about: str, number: int) -> None:
        """Note a problem or warning, at the place in the goal that `_place` finds by what it is about."""
        text = self.findings.goals.lines.value_of(self.path)
        how(self.path, told, _place(text, about, number), text)

    def tied(self, goal: Goal, number: int) -> TiedGoal | None:
        """A goal tied to the rows; None after noting why it cannot be."""
        tied, refused, findings = None, "", self.findings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", GoalWarning)
            try:
                tied = _bind(findings.goals, goal, self.rows, self.external)
            except WidemarginError as error:
                refused = str(error)
        notes = [(findings.problems, findings.problem, refused)] if tied is None else []
        notes += [(findings.warnings, findings.warning, str(item.message)) for item in caught]
        for noted, how, message in notes:
            if not any(message in other.text for other in noted):  # of other rows, perhaps
                self.note(how, f"on the {self.part}: {message}", message, number)
        return tied

    def warn_of_few_rows(self, tied: TiedGoal, number: int) -> None:
        """Say which constraint is measured on so few rows that its verdict hangs on chance."""
        few = [item for item in tied.constraints if item.n_rows < 100]
        if not few:
            return
        # The pairs of one bundle have one cause and one cure, so its smallest one speaks for them.
        item = min(few, key=lambda each: each.n_rows)
        width = min(0.5, 0.98 / item.n_rows**0.5)
        others = f"{item.label!r}" if len(few) == 1 else f"{item.label!r}, the smallest of {len(few)} such pairs,"
        told = (
            f"{others} is measured on {item.n_rows} of the {self.part}: a 95% interval around a rate "
            f"there reaches up to {width:.2f} to either side, so --decide confident will often be undecided. Give "
            'more rows, widen the population, or leave small ones out by min_rows and on_small = "drop"'
        )
        self.note(self.findings.warning, told, f"'{item.label}'", number)

    def note_conflict(self, goal: Goal, numbers: Mapping[str, int]) -> None:
        """Say which constraints contradict each other on these rows, whatever the model; each by itself can be met.

        Where they stand in the goal, from 1 on, is told by their labels.
        """
        findings = self.findings
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", GoalWarning)
                tied = _bind(findings.goals, goal, self.rows, self.external)
        except WidemarginError:  # reported already, for one constraint
            return
        coef = tied.coefficients
        in_rates = coef._replace(value=coef.value / tied.scale[coef.column])
        conflict = impossible_subset(in_rates, tied.cell_weight, tied.bound / tied.scale)
        if len(conflict) < 2:
            return
        labels = [tied.constraints[j].label for j in conflict]
        told = (
            f"on the {self.part}: no classifier of any kind meets these {len(conflict)} constraints together: "
            f"{', '.join(map(repr, labels))}. Loosen one of them"
        )
        # A model of least violation is made all the same where the file asks for it.
        how = findings.warning if findings.goals.model.on_infeasible == "warn" else findings.problem
        self.note(how, told, "", max(numbers[label] for label in labels))


def _place(text: str, message: str, number: int) -> tuple[int, int] | None:
    """Where in the text of a goal the last thing stands that a message names before it lists what there is; else the
    constraint of that number."""
    fact = re.split(" The values there are| Did you mean|; |, and the classes of ", message)[0]
    names = [first or second for first, second in re.findall(r"'([^']+)'|\"([^\"]+)\"", fact)]
    names += re.findall(r"\bpopulation (\w+) is empty", fact)
    places = [place for name in names if (place := mention(text, name)) is not None]
    if places:
        return places[-1]
    constraints = [
        (item.line, item.column)
        for item in statements(text)
        if [token.text for token in item.tokens[:2]] == ["subject", "to"]
    ]
    return constraints[number - 1] if 0 < number <= len(constraints) else None


def _bind(goals: GoalsFile, goal: Goal, rows: TableRows, external: Mapping[str, TableRows]) -> TiedGoal:
    positive = goals.data.positive
    classes = np.unique(rows.y).tolist() if rows.y is not None else [positive]
    if len(classes) == 1:  # another label than this one has to be there for the pair to be known
        classes = [value for value in classes if value != positive] + [positive]
    # What is promised may be about scores. Whatever they are, each row has such a fact or has it not.
    promised = () if goals.audit_goal is None else goals.audit_goal.facts
    facts = {fact.name: rows.y for fact in promised if rows.y is not None}
    main = Rows(
        y=rows.y, sample_weight=rows.sample_weight, populations=rows.populations, external=as_external(external),
        baselines=facts,
    )  # fmt: skip
    sources = make_sources(baselines_used(goal), main, classes=ordered_classes(classes, positive, goal))
    return bind(goal, sources, warn_trivial=False, for_training=False)


def _constants(tied: TiedGoal) -> Iterator[tuple[Floats, Possible]]:
    """What the two constant classifiers decide, and that it is all they can; of several classes nothing is asked."""
    if tied.several:
        return
    yield tied.cell_weight, lambda population: slice(0, 1)
    yield np.zeros_like(tied.cell_weight), lambda population: slice(1, 2)
