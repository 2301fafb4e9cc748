"""Counts for an audit of rows that come in blocks: each block is encoded, counted by kinds of rows, and dropped.

Rates are sums over kinds of rows, so the number of rows of each kind is enough (`goals/measuring/counting.py`). Counts
of different blocks, from other processes perhaps, merge in any order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from widemargin._text import listing
from widemargin._typing import Classifier, Column, Features, Label, Seed, Table
from widemargin.distributed.blocks import BlockMap
from widemargin.distributed.tables import as_frame, part_recipes
from widemargin.distributed.workers import block_map
from widemargin.exceptions import CapabilityError, DataError
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.labels import ClassPair
from widemargin.goals.binding.sources import SAID, make_source, with_predictions
from widemargin.goals.binding.tables import PopulationTable
from widemargin.goals.language.goal import Goal, checked_goal
from widemargin.goals.measuring.counting import Counted, CountedRows, columns_used
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.measured_report import make_report
from widemargin.goals.measuring.missing_groups import missing_groups
from widemargin.rows import Rows, is_asked


class AuditBlock(Rows):
    """Some rows with what was predicted for them.

    Parameters
    ----------
    predictions : array-like of shape (n,)
        Labels, never scores or probabilities.
    y : array-like of shape (n,), default=None
        Labels. Either all blocks of a source have them or none.
    X : data frame or array with n rows, default=None
        Looked at by predicates after `populations` if it is a data frame, and by baselines that are models.
    populations : table with n rows, default=None
    sample_weight : array-like of shape (n,), default=None
    baselines : mapping of str to array-like of shape (n,) or fitted model, default=None
        Looked up after the columns of `populations`.
    source : str, default=None
        Name of the external data set that the rows belong to; None: the audited rows.
    ramp : array-like of shape (n,), default=None
        Probability of a positive prediction by the randomised classifier.

    Raises
    ------
    DataError
        If two parts differ in their number of rows.
    """

    predictions: Column
    ramp: Column | None

    def __init__(
        self,
        predictions: Column,
        y: Column | None = None,
        X: Features | None = None,
        populations: Table | None = None,
        sample_weight: Column | None = None,
        baselines: Mapping[str, Column | Classifier] | None = None,
        source: str | None = None,
        ramp: Column | None = None,
    ) -> None:
        object.__setattr__(self, "predictions", predictions)
        object.__setattr__(self, "ramp", ramp)
        super().__init__(X, y, sample_weight, populations, baselines=baselines or {}, source=source)

    def _parts(self) -> Iterator[tuple[str, Features | Column | Table]]:
        yield "predictions", self.predictions
        yield from super()._parts()


class GoalCounts:
    """Base of counts of rows for a goal; they can be pickled, and merged in any order."""

    goal: Goal
    _pair: ClassPair
    _parts: dict[str | None, CountedRows]

    @property
    def positive(self) -> Label:
        """The positive class; None where there are several."""
        return self._pair.positive

    @property
    def several(self) -> tuple[Label, ...] | None:
        """All classes where there are more than two."""
        return self._pair.several

    @property
    def n_rows(self) -> int:
        """Main rows seen so far."""
        return self._parts[None].n_rows

    def merge(self, other: Self) -> Self:
        """Take in the counts of other rows for the same goal; returns self.

        Raises
        ------
        DataError
            If goal or classes differ.
        """
        if other.goal != self.goal:
            raise DataError("counts for two different goals cannot be merged. Count both for the same goal.")
        self._pair.join(other._pair)
        for name, part in self._parts.items():
            part.join(other._parts[name])
        return self


class AuditCounts(GoalCounts):
    """All that an audit needs of the rows seen so far.

    Parameters
    ----------
    goal : Goal or str
    classes : sequence of labels, default=None
        None: there are two, and the negative one is learned from the rows.
    pos_label : label, default=None
        The positive class; None: the second of `classes`.
    abstain : label, default=None
        The prediction of rows that are not decided, where there are any.

    Attributes
    ----------
    goal : Goal

    Raises
    ------
    DataError
        If neither `classes` nor `pos_label` is given, or the goal is none.

    Notes
    -----
    Counts are plain Python and NumPy objects: they can be pickled, sent between processes and merged in any order.
    Their size depends on the kinds of rows that the goal tells apart, not on the number of rows. Results are those of
    `audit` on all rows at once, up to the order of sums of weights: rates, verdicts, and intervals (in both, the
    bootstrap draws counts of kinds). In both, up to 256 different weights are kept apart; with more, weights within 5%
    of each other are averaged.

    Examples
    --------
    >>> from widemargin.diagnostics import AuditCounts
    >>> counts = AuditCounts("subject to floor: recall() >= 0.5", classes=(0, 1))
    >>> counts.update([1, 1], y=[1, 0])
    >>> counts.update([0, 0], y=[1, 0])
    >>> report = counts.report()
    >>> report["floor"].rate, report.n_rows
    (0.5, 4)
    """

    def __init__(
        self,
        goal: Goal | str,
        *,
        classes: Sequence[Label] | None = None,
        pos_label: Label = None,
        abstain: Label = None,
    ) -> None:
        self.goal = checked_goal(goal)
        self._abstain = abstain
        self._pair = ClassPair(classes, pos_label, self.goal)
        self._uses = baselines_used(self.goal)
        columns = columns_used(self.goal)
        more = () if abstain is None else (SAID,)
        self._parts = {
            name: CountedRows(name, columns.get(name, {}), (*used, *more)) for name, used in self._uses.items()
        }

    @property
    def negative(self) -> Label:
        """The negative class; None until a row has shown it."""
        return self._pair.negative

    def update(
        self,
        predictions: Column,
        y: Column | None = None,
        *,
        X: Features | None = None,
        populations: Table | None = None,
        sample_weight: Column | None = None,
        baselines: Mapping[str, Column | Classifier] | None = None,
        source: str | None = None,
        ramp: Column | None = None,
    ) -> None:
        """Count a block of rows; parameters as in `AuditBlock`.

        Raises
        ------
        DataError
            As `audit`; also if the block does not agree with those before it (other types, a third class).
        """
        self.add(AuditBlock(predictions, y, X, populations, sample_weight, baselines, source, ramp))

    def add(self, block: AuditBlock) -> None:
        """Count a block of rows."""
        name = block.source
        if name not in self._parts:
            external = [other for other in self._parts if other is not None]
            raise DataError(
                f"rows of {name!r} were given, which the goal does not use. Its external data sets: "
                f"{listing(external)}."
            )
        if not block.n_rows:
            return
        pair = self._pair.known
        # With `pos_label` alone the other class is the first label that is not it, wherever labels stand.
        if self.negative is None:
            vectors: dict[str, Column] = {}
            if self._abstain is None:
                vectors["predictions"] = block.predictions
            if block.y is not None:
                vectors["y"] = block.y
            table = PopulationTable.build(block.populations)
            for baseline in self._uses[name]:
                column = None if table is None else table.own_column(baseline)
                given = block.baselines.get(baseline) if column is None else column.to_values()
                if given is not None and not is_asked(given):
                    vectors[f"baseline {baseline!r}"] = given
            pair = self._pair.learn(vectors)
        rows = encode_block(block, self._uses[name], pair, self._abstain)
        self._parts[name].add(rows.source, rows.positive, rows.ramp)

    def report(
        self,
        *,
        confidence: float | None = 0.95,
        decide: str = "estimate",
        random_state: Seed = 0,
        data_name: str = "the data",
        missing_groups: bool = False,
    ) -> GoalReport:
        """The report of all rows seen so far; parameters and errors as in `audit`."""
        names = [None, *sorted(name for name in self._parts if name is not None)]
        for name in names:
            if not self._parts[name].n_rows:
                raise DataError(f"{'the data have' if name is None else f'external {name!r} has'} no rows. Give some.")
        parts = [self._parts[name].counted(self._pair.known) for name in names]
        return report_of(
            self.goal, parts, self.positive, confidence=confidence,
            decide=decide, random_state=random_state, data_name=data_name, with_missing_groups=missing_groups,
        )  # fmt: skip


def encode_block(
    block: AuditBlock, baselines: Collection[str], classes: tuple[Label, ...], abstain: Label = None
) -> Counted:
    """The rows of a block checked and encoded, each of them an entry of its own; nothing is counted.

    Parameters
    ----------
    baselines : names of those that the goal uses
    classes : (negative, positive), or all of several
    abstain : label, default=None
        The prediction of rows that are not decided, where there are any.

    Raises
    ------
    DataError
        As `AuditCounts.update`.
    """
    source = make_source(block, baselines, classes=classes)
    source, positive = with_predictions(source, block.predictions, classes, abstain=abstain)
    if block.ramp is None or len(classes) > 2:  # one probability a row describes two classes only
        return Counted(source, positive, None)
    ramp = np.asarray(block.ramp, dtype=np.float64)
    if ramp.shape != (block.n_rows,) or not ((ramp >= 0.0) & (ramp <= 1.0)).all():
        raise DataError(f"ramp has shape {ramp.shape}; give {block.n_rows} probabilities, from 0 to 1.")
    return Counted(source, positive, ramp)


def report_of(
    goal: Goal,
    parts: Sequence[Counted],
    positive_class: Label,
    *,
    confidence: float | None,
    decide: str,
    random_state: Seed,
    data_name: str,
    with_missing_groups: bool = False,
) -> GoalReport:
    """The report of rows with their predictions, the audited ones first; parameters and errors as in `audit`."""
    tied = bind(goal, [part.source for part in parts], warn_trivial=False, for_training=False)
    ramps = [part.ramp for part in parts if part.ramp is not None]
    report = make_report(
        tied, [part.positive for part in parts], positive_class=positive_class, data_name=data_name,
        confidence=confidence, decide=decide, random_state=random_state, with_groups=True,
        soft=tied.measure(tied.positive_mass(ramps)) if len(ramps) == len(parts) else None,
    )  # fmt: skip
    if not with_missing_groups:
        return report
    if tied.several:
        raise CapabilityError(
            f"missing_groups is for two classes, and there are {len(tied.classes)}. Leave it out, or audit one class "
            "against all others."
        )
    spans = missing_groups(tied, [part.source for part in parts], [part.positive for part in parts])
    return replace(report, missing_groups=spans)


def audit_stream(
    blocks: Iterable[AuditBlock],
    goal: Goal | str,
    *,
    classes: Sequence[Label] | None = None,
    pos_label: Label = None,
    abstain: Label = None,
    confidence: float | None = 0.95,
    decide: str = "estimate",
    random_state: Seed = 0,
    data_name: str = "the data",
) -> GoalReport:
    """Measure predictions on a goal, a block of rows at a time; the report is that of `audit` on all rows at once.

    Parameters
    ----------
    blocks : iterable of AuditBlock
        Read once, one after the other.
    goal : Goal or str
    classes : sequence of labels, default=None
    pos_label : label, default=None
        One of the two must be given, see `AuditCounts`.
    abstain : label, default=None
        As in `audit`, for predictions that may abstain.
    confidence, decide, random_state, data_name
        As in `audit`.

    Returns
    -------
    GoalReport

    Raises
    ------
    GoalError, DataError
        As `audit`; also if the blocks do not agree with each other, or there are none.

    Examples
    --------
    >>> from widemargin.diagnostics import AuditBlock, audit_stream
    >>> blocks = (AuditBlock([1, 0], y=[1, 1]) for _ in range(1000))
    >>> report = audit_stream(blocks, "subject to floor: recall() >= 0.4", classes=(0, 1))
    >>> report["floor"].rate, report["floor"].verdict
    (0.5, 'met')
    """
    counts = AuditCounts(goal, classes=classes, pos_label=pos_label, abstain=abstain)
    for block in blocks:
        counts.add(block)
    return counts.report(confidence=confidence, decide=decide, random_state=random_state, data_name=data_name)


def named_parts(data: Mapping[str, object], columns: Mapping[str, str]) -> dict[str, Any]:
    """The parts of a block by name: X without the columns that are other parts, these, and all of it as populations.

    Parameters
    ----------
    data : mapping of str to array or table
        What was read.
    columns : mapping of str to str
        Parts that are columns of X: `{"y": "income"}`.

    Raises
    ------
    DataError
        If a column is missing.
    """
    parts = {name: as_frame(value) for name, value in data.items()}
    frame = parts.get("X")
    for part, column in columns.items():
        have = [str(name) for name in getattr(frame, "columns", ())]
        if frame is None or column not in have:
            raise DataError(f"X has no column {column!r} ({part}); it has {listing(have[:20])}.")
        parts[part] = frame[column]
    if columns and frame is not None:
        parts.setdefault("populations", frame)
        parts["X"] = frame.drop(columns=list(columns.values()))
    return parts


def opened_blocks(
    rows: Mapping[str, Any],
    workers: object,
    *,
    model: Classifier | None,
    goal: Goal | None = None,
    more: Sequence[str] = (),
    read_all: bool = False,
    hold: bool = False,
) -> tuple[BlockMap, dict[str, str]]:
    """Blocks of the rows, to be closed in the end, and which parts are columns of X: those that are texts.

    Of files only those columns are read that the model, the goal and the names need, and `more` where they exist; all
    of them if the model does not know its columns, or with `read_all`.
    """
    named = {part: value for part, value in rows.items() if isinstance(value, str) and part != "X"}
    X, columns = rows.get("X"), None
    features = getattr(model, "feature_names_in_", None)
    if isinstance(X, (str, Path)) and not read_all and (model is None or features is not None):
        from widemargin.distributed.recipes import parquet_columns

        looked_at = [] if goal is None else [str(name) for name in columns_used(goal).get(None, {})]
        wanted = [*map(str, () if features is None else features), *named.values(), *looked_at, *more]
        there = set(parquet_columns(X))
        # A column that the file lacks may have been given as an array, such as a baseline. If not, the goal refuses it.
        columns = [name for name in dict.fromkeys(wanted) if name in there]
    parts = {part: value for part, value in rows.items() if part not in named}
    return block_map(part_recipes(parts, columns=columns), workers, hold=hold), named
