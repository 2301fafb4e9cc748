"""Rate-constrained training over rows that live in blocks: from raw rows to a problem, and back to a report.

survey (shape, labels, weights) -> counts by kind of row -> the goal, tied to the counts -> problems of the blocks

Kinds of rows (`goals/measuring/counting.py`) are counted where the rows are. They are all that a goal asks, so it
is tied to their sum; every block then looks up the cells of its rows. Labels, populations and baselines are looked at
in these passes and in the last one, which counts what the model predicts; training itself sees features and cells.
"""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import _get_feature_names

from widemargin._typing import Bools, Classifier, Floats, Ints, Label
from widemargin.distributed.backends import JoinedMap, SerialMap
from widemargin.distributed.blocks import Block, BlockedRows, BlockMap
from widemargin.distributed.recipes import HeldRows
from widemargin.distributed.tables import as_rows, computed
from widemargin.estimators._binary import asked_rows, checked_block
from widemargin.estimators.rate_constrained.training import Plan, Trained, train
from widemargin.exceptions import DataError, MissingDataError
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import Source, make_source
from widemargin.goals.binding.tables import column_of
from widemargin.goals.binding.tied_goal import TiedGoal, TiedSource
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.counting import CountedRows, columns_used
from widemargin.linalg.matrix_blocks import RowBlocks
from widemargin.losses.ramp import ramp
from widemargin.problems.rate_constrained import RateConstrainedProblem, build_problem, nearest_rows
from widemargin.rows import Rows
from widemargin.solvers.base import Budget
from widemargin.solvers.convex.checkpoints import Remembered
from widemargin.solvers.convex.convex_step import BlockStep, ConvexStep
from widemargin.solvers.convex.newton import is_wide
from widemargin.solvers.convex.subsample_start import DEFAULTS as SAMPLE


@dataclass
class Survey:
    """What must be known of all rows before a goal can be tied.

    Attributes
    ----------
    labels : ndarray
        Distinct labels, increasing.
    n_rows, n_stored : int
        Rows, and numbers stored in them.
    weight : float
        Their weight, that of the training rows alone.
    sums : ndarray of shape (d,)
        Sum of the rows.
    names : ndarray of str, shape (d,), or None
        Features.
    place : str
        The first block, in messages.
    """

    labels: npt.NDArray[Any]
    n_rows: int
    n_stored: int
    weight: float
    sums: Floats
    names: Any
    place: str

    def merge(self, other: "Survey") -> Self:
        """Take in other rows."""
        there, here = other.sums.shape[0], self.sums.shape[0]
        both = [part for part in (self.labels, other.labels) if part.shape[0]]
        strange = ""
        if there != here:
            strange = f"{there} and {here} features"
        elif self.names is not None and other.names is not None and not np.array_equal(self.names, other.names):
            j = int(np.argmax(other.names != self.names))
            strange = f"feature {j} is {other.names[j]!r} and {self.names[j]!r}"
        elif len({isinstance(part.tolist()[0], str) for part in both}) > 1:
            strange = f"labels such as {other.labels.tolist()[0]!r} and {self.labels.tolist()[0]!r}"
        if strange:
            raise DataError(f"{other.place} and {self.place} differ: {strange}. Give all blocks alike.")
        self.labels = np.unique(np.concatenate(both)) if both else self.labels
        self.n_rows += other.n_rows
        self.n_stored += other.n_stored
        self.weight += other.weight
        self.sums = self.sums + other.sums
        self.names = other.names if self.names is None else self.names
        return self


class Labels(NamedTuple):
    """What is needed to read labels and baselines: the pair (negative, positive), the goal, and models it asks."""

    classes: tuple[Any, Any]
    goal: Goal
    models: Mapping[str, Any]


@dataclass
class Counts:
    """Counted kinds of rows, by source."""

    parts: dict[str | None, CountedRows] = field(default_factory=dict)

    def merge(self, other: "Counts") -> Self:
        """Take in the counts of other rows."""
        for name, part in other.parts.items():
            if name in self.parts:
                self.parts[name].join(part)
            else:
                self.parts[name] = part
        return self

    @property
    def names(self) -> list[str | None]:
        """Sources in their order: the training rows first."""
        return sorted(self.parts, key=lambda name: (name is not None, name))


def counted_goal(blocks: BlockMap, labels: Labels) -> tuple[Counts, TiedGoal]:
    """The goal tied to all rows, by their counts.

    Raises
    ------
    GoalError, DataError
        As `bind`.
    """
    counts: Counts = blocks.sum(_count, (labels, None))
    return counts, bind(labels.goal, [counts.parts[name].counted().source for name in counts.names])


def blocked_problem(
    blocks: BlockMap, labels: Labels, counts: Counts, tied: TiedGoal, overview: Survey, *, lam: float,
    fit_intercept: bool, scratch: str | None,
) -> RateConstrainedProblem:  # fmt: skip
    """The ramp problem; its rows stay with the blocks, in memory or in files of the folder `scratch`."""
    d, centre = overview.sums.shape[0], overview.sums / max(overview.n_rows, 1)
    task = (labels, counts, tied, lam, fit_intercept, centre, scratch)
    prepared = blocks.prepared(_problem_of, task, hold=True)  # in memory, or as views of files
    n_rows, n_stored, *cell_count = prepared.sum(_sizes).tolist()
    nothing = TiedSource(None, np.zeros(0, np.int32), None, 0)
    empty = replace(tied, sources=(nothing,))
    head = build_problem(empty, [np.zeros((0, d))], lam, fit_intercept=fit_intercept)
    rows = BlockedRows(prepared, n_rows, d, n_stored, centre)
    return head.over(rows, np.array(cell_count, np.int64))


class BlockTraining:
    """A fit over blocks: the training rows and the external rows that the goal uses, and what is known of them.

    Parameters
    ----------
    blocks : BlockMap
        Training rows.
    external : mapping of str to Rows
        External data sets, kept in this process, also where they are Dask collections.

    Attributes
    ----------
    survey : Survey
    n_passes : int
        How often all rows were looked at.
    """

    def __init__(self, blocks: BlockMap, external: Mapping[str, Rows], goal: Goal) -> None:
        maps: list[BlockMap] = [blocks]
        for name in sorted(name for name in baselines_used(goal) if name is not None):
            data = asked_rows(Rows(external=external), name)
            X, y, weight, table = map(computed, (data.X, data.y, data.sample_weight, data.populations))
            baselines = {key: computed(value) for key, value in data.baselines.items()}
            maps.append(SerialMap([HeldRows(Rows(X, y, weight, table, baselines=baselines, source=name))]))
        self._blocks = blocks if len(maps) == 1 else JoinedMap(maps)
        self._goal = goal
        self.survey: Survey = self._blocks.sum(block_survey)
        self.n_passes = 0

    def train(
        self, classes: tuple[Label, Label], baselines: Mapping[str, Classifier], plan: Plan, budget: Budget, *,
        scratch: str | None, checkpoint: str | None, resume: bool,
    ) -> Trained:  # fmt: skip
        """Train on all rows; the same steps as for rows in memory."""
        self._labels = labels = Labels(classes, self._goal, dict(baselines))
        problem = blocked_problem(
            self._blocks, labels, *counted_goal(self._blocks, labels), self.survey, lam=plan.lam,
            fit_intercept=plan.fit_intercept, scratch=scratch,
        )  # fmt: skip
        rows = problem.rows
        assert isinstance(rows, BlockedRows)
        solver: ConvexStep = BlockStep(plan.solver, rows, problem.n_constraints)
        if plan.solver == "auto" and checkpoint is None and is_wide(rows) and rows.n_stored <= SAMPLE.most_numbers:
            # Of many features each convex step takes hundreds of looks or thousands (dense rows that can be separated).
            # One look brings all rows here where they fit, as moves by 0/1 rates would have them in any case.
            nowhere = np.zeros(problem.n_features)
            problem = nearest_rows(problem, nowhere, 0.0, SAMPLE.most_numbers)
            solver = ConvexStep(plan.solver, problem.n_features)
        try:
            return train(problem, Remembered(solver, checkpoint, resume=resume), plan, budget)
        finally:
            rows.blocks.close()
            self.n_passes = rows.n_passes

    def predictions(self, w: Floats, b: float) -> tuple[TiedGoal, list[Bools], list[Floats]]:
        """The goal on kinds of rows that a model calls alike, with its 0/1 and its mean ramp predictions of each."""
        counts: Counts = self._blocks.sum(_count, (self._labels, (w, b)))
        counted = [counts.parts[name].counted() for name in counts.names]
        tied = bind(self._goal, [part.source for part in counted], warn_trivial=False)
        shares = [np.zeros(0) if part.ramp is None else part.ramp for part in counted]
        return tied, [part.positive for part in counted], shares


# what runs where a block is


def _matrix(rows: Rows, title: str = "a block") -> Any:
    """Checked features."""
    try:
        return checked_block(rows.X)
    except ValueError as error:
        where = "" if rows.source is None else f" of {rows.title}"
        raise DataError(f"{title}{where}: {error}") from error


def block_survey(block: Block, _: None) -> Survey:
    """What is to be known of a block.

    Raises
    ------
    DataError
        If features or weights are not finite numbers, or labels are missing.
    """
    data = as_rows(block.data)
    X, y, weight = _matrix(data, block.title), data.y, data.sample_weight
    main = data.source is None
    labels = np.zeros(0)
    if main:
        if y is None:
            raise DataError(f"{block.title} has no labels. Give y.")
        column = column_of(f"y of {block.title}", y)
        if column.n_missing:
            raise DataError(
                f"y of {block.title} has {column.n_missing} missing values of {len(column.values)}. Leave these rows "
                "out, or fill them in."
            )
        labels = np.unique(np.asarray(y))
    whole = float(X.shape[0] if weight is None else np.asarray(weight, dtype=np.float64).sum())
    names = _get_feature_names(data.X)
    if names is None and data.feature_names:
        names = np.asarray(data.feature_names, dtype=object)
    rows, place = RowBlocks([(X, None)]), block.title if main else data.title
    return Survey(
        labels, rows.n_rows, rows.n_stored, whole if main else 0.0, rows.tdot(np.ones(rows.n_rows)), names, place
    )


def _source(rows: Rows, labels: Labels) -> Source:
    """The rows of a block as a source of the goal."""
    with_models = replace(rows, baselines={**labels.models, **rows.baselines})
    return make_source(with_models, baselines_used(labels.goal).get(rows.source, ()), classes=labels.classes)


def _count(block: Block, message: tuple[Labels, tuple[Floats, float] | None]) -> Counts:
    """Kinds of rows of a block, told apart by the predictions of a model where one is given."""
    (labels, model), data = message, as_rows(block.data)
    source = _source(data, labels)
    positive, share = np.zeros(source.n_rows, bool), None
    if model is not None:
        z = RowBlocks([(_matrix(data), None)]).dot(model[0]) - model[1]
        positive, share = z > 0.0, ramp(z)
    used = baselines_used(labels.goal).get(source.name, ())
    part = CountedRows(source.name, columns_used(labels.goal).get(source.name, {}), used)
    part.add(source, positive, share)
    return Counts({source.name: part})


def _problem_of(
    loaded: Rows | Mapping[str, Any], task: tuple[Labels, Counts, TiedGoal, float, bool, Floats, str | None]
) -> RateConstrainedProblem:
    """The problem of a block's rows, with the coefficients of the whole."""
    labels, counts, whole, lam, fit_intercept, centre, scratch = task
    data = as_rows(loaded)
    source = _source(data, labels)
    of_kind = whole.sources[counts.names.index(source.name)].cell
    cell = counts.parts[source.name].numbers(source, of_kind)
    if scratch is not None and not Path(scratch).is_dir():
        raise MissingDataError(f"scratch: there is no folder {scratch} where a worker runs. Make it there.")
    X = _matrix(data)
    tied = replace(whole, sources=(TiedSource(source.name, cell, source.weight, source.n_rows),))
    # A block is read from its first row to its last, at every look.
    problem = build_problem(tied, [X], lam, fit_intercept=fit_intercept, ordered=False)
    assert isinstance(problem.rows, RowBlocks)
    (block,) = problem.rows.blocks
    if scratch is None:
        return replace(problem, rows=RowBlocks([(block.X, block.row_of)], centre))
    X = block.X if block.whole else block.X[block.row_of]
    weight, cell = (_mapped(a, scratch) for a in (problem.weight, problem.cell))
    return replace(problem, rows=RowBlocks([(_mapped(X, scratch), None)], centre), weight=weight, cell=cell)


def _mapped(array: Any, folder: str) -> Any:
    """An array or CSR matrix of the same numbers in a file of its own, which is gone once nobody looks at it."""
    if sp.issparse(array):
        parts = (_mapped(part, folder) for part in (array.data, array.indices, array.indptr))
        return sp.csr_matrix(tuple(parts), shape=array.shape, copy=False)
    handle, name = tempfile.mkstemp(suffix=".npy", prefix="widemargin-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
        return np.asarray(np.load(name, mmap_mode="r+"))  # "r" would have every loop compiled once more
    except OSError as error:
        raise DataError(f"scratch: {array.nbytes} bytes cannot be written to {folder} ({error}). Make room.") from error
    finally:
        with contextlib.suppress(PermissionError):  # Windows removes no file that is mapped: there it stays
            Path(name).unlink()


def _sizes(block: Block, _: None) -> Ints:
    """Rows, stored numbers, and the rows of each cell."""
    problem: RateConstrainedProblem = block.data
    count = np.bincount(problem.cell, minlength=problem.coef.n_cells)
    return np.array([problem.rows.n_rows, problem.rows.n_stored, *count])
