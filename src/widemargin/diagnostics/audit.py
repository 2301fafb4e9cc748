"""Does a classifier meet a goal on these rows? For any fitted classifier, or for its predictions alone.

Rows in memory are one block: a block is asked for predictions, encoded, and measured; of many blocks the counts are
added up first.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from widemargin._text import listing
from widemargin._typing import Classifier, Column, Features, Label, Seed, Table
from widemargin.diagnostics.block_parts import named_parts, opened_blocks
from widemargin.diagnostics.streaming import AuditBlock, AuditCounts, report_of
from widemargin.distributed.blocks import Block, BlockMap
from widemargin.distributed.predict import fitted_columns
from widemargin.distributed.recipes import rows_of
from widemargin.distributed.tables import is_collection
from widemargin.exceptions import DataError
from widemargin.goals.binding.bind import baselines_used
from widemargin.goals.binding.sources import External, external_data, find_classes, plain_value, positive_class
from widemargin.goals.binding.tables import Scalar, column_of
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import GoalReport, check_decide
from widemargin.rows import is_asked

__all__ = ["ask_model", "audit", "own_pos_label"]

_BASELINE = "baseline "


def audit(
    model_or_predictions: Classifier | Column | Mapping[str | None, Column],
    goal: Goal | str,
    X: Features | Path | None = None,
    y: Column | None = None,
    *,
    populations: Table | None = None,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Column | Classifier] | None = None,
    sample_weight: Column | None = None,
    pos_label: Label = None,
    confidence: float | None = 0.95,
    decide: str = "estimate",
    random_state: Seed = 0,
    data_name: str = "the data",
    workers: object = None,
) -> GoalReport:
    """Measure a classifier's 0/1 predictions on a goal, with confidence intervals and a verdict per constraint.

    Parameters
    ----------
    model_or_predictions : fitted classifier, array-like of shape (n,), or dict
        A classifier is asked for `predict(X)`, and for `predict` of each external data set's X; it also gets the table
        of populations if its `predict` has a parameter of that name. An array holds
        predictions in y's label space (never scores or probabilities). Where the goal has external data sets, give a
        dict with the main predictions under None (or "") and the others under the names of their data sets.
    goal : Goal or str
        A goal or its text.
    X : array-like or data frame of shape (n, d), default=None
        Needed for a classifier. A data frame is also looked at by the goal's predicates, after `populations`.
    y : array-like of shape (n,), default=None
        Labels; not needed by constraints on positive rates and churn alone. An objective that needs them is then
        reported as not measured.
    populations : table with n rows, default=None
    external : dict of str to External, default=None
    baselines : dict of str to array-like of shape (n,) or fitted model, default=None
        Looked up after the columns of `populations`. A model is also asked about the external data sets.
    sample_weight : array-like of shape (n,), default=None
    pos_label : label, default=None
        None: the classifier's own `pos_label`, else the second of the two classes.
    confidence : float in (0, 1) or None, default=0.95
        Of each interval; None: no intervals.
    decide : {"estimate", "confident"}, default="estimate"
        What `report.passed` and `report.exit_code` go by; with "confident" an undecided constraint counts as not met.
    random_state : int, RandomState, Generator or None, default=0
        Of the bootstrap.
    data_name : str, default="the data"
        What the report calls the rows.
    workers : None, int or distributed.Client, default=None
        For rows in blocks, see Notes: None: one block after the other (Dask collections: the client in force); an
        integer: so many blocks at a time on this machine; a client: its cluster.

    Returns
    -------
    GoalReport

    Notes
    -----
    Rows that do not fit may come in blocks: X, y, populations, weights, baselines and predictions as Dask collections
    with the same partitions, or X as the path of a Parquet file or folder. Of a Dask frame or of files y, sample_weight
    and predictions may be given by the names of columns; the whole table then serves the populations. The rows are
    counted in one pass (in two, if neither a classifier nor `pos_label` says which class is the positive one), and the
    report is that of all rows at once, see `AuditCounts`.

    Raises
    ------
    GoalError
        If the goal does not fit the data (see `bind`), or the text is no goal.
    DataError
        If the data are malformed, have more than two classes, or a prediction is no label; if a constraint needs labels
        and there are none; if a class or a function stands in place of a fitted classifier.

    Examples
    --------
    >>> from widemargin.diagnostics import audit
    >>> report = audit([1, 1, 0, 0], "subject to floor: recall() >= 0.5", y=[1, 0, 1, 0])
    >>> report["floor"].rate, report["floor"].verdict, report.passed
    (0.5, 'undecided', True)
    """
    check_decide(decide)
    goal = Goal.parse(goal) if isinstance(goal, str) else goal
    if not isinstance(goal, Goal):
        raise DataError(f"goal is a {type(goal).__name__}; give a Goal or its text.")
    _check_candidate(model_or_predictions)
    names = sorted(name for name in baselines_used(goal) if name is not None)
    model = model_or_predictions if is_asked(model_or_predictions) else None
    said = {} if is_asked(model_or_predictions) else _by_source(model_or_predictions, names)
    models = {name: value for name, value in (baselines or {}).items() if is_asked(value)}
    arrays = {f"{_BASELINE}{name}": value for name, value in (baselines or {}).items() if name not in models}
    main = {"X": X, "y": y, "sample_weight": sample_weight, "populations": populations, **arrays}
    sets = [_RowSet.of(_Asked(model, models), said, main)]
    for name in names:
        data = external_data(name, external or {})
        parts = {part: getattr(data, part) for part in ("X", "y", "sample_weight", "populations")}
        parts |= {f"{_BASELINE}{key}": value for key, value in data.baselines.items()}
        sets.append(_RowSet.of(_Asked(model, models, name), said, parts))
    positive = own_pos_label(model) if pos_label is None else pos_label
    if any(rows.in_blocks for rows in sets):
        counts = _counted(goal, sets, _own_classes(model), positive, workers)
        return counts.report(confidence=confidence, decide=decide, random_state=random_state, data_name=data_name)
    # All rows are in memory, one block for each source: each row is an entry of its own, and nothing is counted.
    for rows in sets:
        rows.parts.setdefault("predictions", rows.asked.answer("predict", rows.parts))
    pair = positive_class(_own_classes(model) or find_classes(_label_vectors(sets), pos_label), positive)
    counts = AuditCounts(goal, classes=pair, pos_label=pair[1])
    return report_of(
        goal, [counts.encoded(rows.asked.block(rows.parts, pair[1])) for rows in sets], pair[1],
        confidence=confidence, decide=decide, random_state=random_state, data_name=data_name,
    )  # fmt: skip


@dataclass(frozen=True)
class _Asked:
    """Who is asked about rows, and whose they are; travels to the blocks.

    Attributes
    ----------
    model : fitted classifier or None
        None: predictions were given.
    models : mapping of str to fitted classifier
        Baselines.
    source : str or None
        As in `AuditBlock`.
    columns : mapping of str to str
        Parts of the rows that are columns of X, in blocks.
    """

    model: Classifier | None
    models: Mapping[str, Classifier]
    source: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def answer(self, method: str, parts: Mapping[str, Any]) -> Column | None:
        """What a method of the model says of rows; None where there is no such method."""
        asked = getattr(self.model, method, None)
        return None if asked is None else ask_model(asked, parts["X"], parts.get("populations"))

    def read(self, data: Mapping[str, object]) -> dict[str, Any]:
        """The parts of a block that was read, with the predictions for it."""
        parts = named_parts(data, self.columns)
        if self.model is not None:
            parts["predictions"] = self.answer("predict", {**parts, "X": fitted_columns(self.model, parts["X"])})
        return parts

    def block(self, parts: Mapping[str, Any], positive: Label, features: Features | None = None) -> AuditBlock:
        """The rows as `AuditCounts` takes them; the model gets `features`, by default X."""
        said = self.answer("randomized_proba", parts if features is None else {**parts, "X": features})
        ramp = None if said is None else np.asarray(said, dtype=np.float64)
        if ramp is not None and ramp.ndim == 2:
            ramp = ramp[:, (_own_classes(self.model) or []).index(positive)]
        baselines = {name.removeprefix(_BASELINE): value for name, value in parts.items() if name.startswith(_BASELINE)}
        return AuditBlock(
            parts["predictions"], parts.get("y"), parts.get("X"), parts.get("populations"), parts.get("sample_weight"),
            {**self.models, **baselines}, self.source, ramp,
        )  # fmt: skip


@dataclass(frozen=True)
class _RowSet:
    """Rows of one source: in memory, or somewhere in blocks."""

    asked: _Asked
    parts: dict[str, Any]
    in_blocks: bool

    @classmethod
    def of(cls, asked: _Asked, said: Mapping[str | None, Column], given: Mapping[str, Any]) -> "_RowSet":
        """The parts that are given; beside rows in blocks, texts name columns of X.

        Raises
        ------
        DataError
            If a classifier has no rows to classify.
        """
        parts = {name: value for name, value in given.items() if value is not None}
        if asked.source in said:
            parts["predictions"] = said[asked.source]
        elif "X" not in parts:
            what = "X" if asked.source is None else f"External(X) for {asked.source!r}"
            raise DataError(f"a classifier needs rows to classify; give {what}.")
        if not (isinstance(parts.get("X"), (str, Path)) or any(map(is_collection, parts.values()))):
            return cls(asked, parts, False)
        columns = {name: value for name, value in parts.items() if isinstance(value, str) and name != "X"}
        parts = {name: value for name, value in parts.items() if name not in columns}
        return cls(replace(asked, columns=columns), parts, True)

    def opened(self, goal: Goal, workers: object, *, hold: bool) -> AbstractContextManager[BlockMap]:
        """The blocks of these rows."""
        return opened_blocks(
            self.parts, self.asked.columns, workers, model=self.asked.model, goal=goal, hold=hold,
            more=sorted(baselines_used(goal).get(None, ())), read_all=bool(self.asked.models),
        )  # fmt: skip


_Message: TypeAlias = tuple[Goal, Sequence[Label] | None, Label, _Asked]
"""What every block is told: the goal, the classes where they are known, the positive one, and who is asked."""


def _counted(
    goal: Goal, sets: Sequence[_RowSet], classes: Sequence[Label] | None, positive: Label, workers: object
) -> AuditCounts:
    """Counts of all rows: in one pass, or in two where the classes must be found first."""
    main, *others = sets
    with main.opened(goal, workers, hold=classes is None and positive is None) as blocks:
        if classes is None and positive is None:
            seen: dict[str, dict[Label, None]] = {}
            for labels in blocks.map(_labels_of_block, main.asked):
                for name, values in labels.items():
                    seen.setdefault(name, {}).update(dict.fromkeys(values))
            vectors: dict[str, Column] = {name: list(values) for name, values in seen.items()}
            classes = find_classes({"y": vectors["y"]} if len(seen.get("y", ())) >= 2 else vectors)
        counts: AuditCounts = blocks.sum(_count, (goal, classes, positive, main.asked))
    for rows in others:
        if rows.in_blocks:
            with rows.opened(goal, workers, hold=False) as blocks:
                counts.merge(blocks.sum(_count, (goal, classes, positive, rows.asked)))
        else:
            rows.parts.setdefault("predictions", rows.asked.answer("predict", rows.parts))
            part = AuditCounts(goal, classes=classes, pos_label=positive)
            part.add(rows.asked.block(rows.parts, part.positive))
            counts.merge(part)
    return counts


def _count(block: Block, message: _Message) -> AuditCounts:
    goal, classes, positive, asked = message
    counts = AuditCounts(goal, classes=classes, pos_label=positive)
    if rows_of(block.data):  # a model refuses to predict none
        parts = asked.read(block.data)
        counts.add(asked.block(parts, counts.positive, fitted_columns(asked.model, parts.get("X"))))
    return counts


def _labels_of_block(block: Block, asked: _Asked) -> dict[str, list[Scalar]]:
    """The different labels in a block, by where they stand."""
    parts = named_parts(block.data, asked.columns)
    held = {name: value for name, value in parts.items() if name in ("y", "predictions") or name.startswith(_BASELINE)}
    return {name: column_of(name, value).distinct() for name, value in held.items() if len(value)}


def _label_vectors(sets: Sequence[_RowSet]) -> dict[str, Column]:
    """The vector y if it shows both classes, else everything in memory that holds labels."""
    main = sets[0].parts
    y: dict[str, Column] = {"y": main["y"]} if "y" in main else {}
    if y and len(column_of("y", main["y"]).distinct()) >= 2:
        return y
    vectors = y | {_called("predictions", rows.asked.source): rows.parts["predictions"] for rows in sets}
    vectors |= {f"baseline {name.removeprefix(_BASELINE)!r}": main[name] for name in main if name.startswith(_BASELINE)}
    return vectors | {_called("y", rows.asked.source): rows.parts["y"] for rows in sets[1:] if "y" in rows.parts}


def _own_classes(model: Classifier | None) -> list[Label] | None:
    """The classes that a classifier was fitted to, where it says so."""
    classes = getattr(model, "classes_", None)
    return None if classes is None else [plain_value(value) for value in classes]


def _check_candidate(candidate: object) -> None:
    """Refuse a class and a function, which say nothing about rows."""
    name = getattr(candidate, "__name__", type(candidate).__name__)
    if isinstance(candidate, type):
        raise DataError(f"{name} is a class; give a fitted classifier, such as {name}().fit(X, y), or its predictions.")
    if callable(candidate) and not hasattr(candidate, "predict") and not hasattr(candidate, "__len__"):
        raise DataError(
            f"{name} is a {type(candidate).__name__}, no fitted classifier; give an object with predict(X), or the "
            "predictions themselves."
        )


def _called(what: str, source: str | None) -> str:
    return what if source is None else f"{what} for external {source!r}"


def ask_model(method: Callable[..., Column], X: Features, populations: Table | None) -> Column:
    """Call `predict` (or `randomized_proba`) on rows, with their table where it is a parameter."""
    takes = populations is not None and "populations" in inspect.signature(method).parameters
    return method(X, populations=populations) if takes else method(X)


def _by_source(predictions: Column | Mapping[str | None, Column], names: Sequence[str]) -> dict[str | None, Column]:
    """Predictions for the main rows (None) and for each external data set that the goal uses.

    Raises
    ------
    DataError
        If some are missing, or belong to no data set of the goal.
    """
    said: dict[str | None, Column] = {}
    if isinstance(predictions, Mapping):
        said = {None if name == "" else name: values for name, values in predictions.items()}
    else:
        said[None] = predictions
    strange = sorted(str(name) for name in said if name is not None and name not in names)
    if strange:
        raise DataError(
            f"predictions for {listing(strange)}, and the goal uses the external data sets {listing(names)}."
        )
    for name in (None, *names):
        if said.get(name) is None:
            raise DataError(
                f"there are no {_called('predictions', name)} among those given; give the model, or a dict with "
                f"the keys None (the main rows) and {listing(names)}."
            )
    return said


def own_pos_label(model: object) -> Label:
    """A classifier's own `pos_label`, also inside a pipeline or a search; None where it has none."""
    if not hasattr(model, "predict"):
        return None
    for attribute in ("best_estimator_", "steps"):
        inner = getattr(model, attribute, None)
        if inner is not None:
            return own_pos_label(inner[-1][1] if attribute == "steps" else inner)
    label: Label = getattr(model, "pos_label", None)
    return label
