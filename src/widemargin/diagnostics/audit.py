"""Does a classifier meet a goal on these rows? For any fitted classifier, or for its predictions alone.

Rows in memory are one block: a block is asked for predictions, encoded, and measured; of many blocks the counts are
added up first.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._text import listing
from widemargin._typing import Classifier, Column, Features, Label, Seed, Table
from widemargin.diagnostics.robustness import caution_of_bounds, score_facts
from widemargin.diagnostics.streaming import (
    AuditBlock,
    AuditCounts,
    encode_block,
    named_parts,
    opened_blocks,
    report_of,
)
from widemargin.distributed.blocks import Block
from widemargin.distributed.predict import fitted_columns
from widemargin.distributed.recipes import rows_of
from widemargin.exceptions import DataError
from widemargin.goals.binding.bind import baselines_used
from widemargin.goals.binding.labels import find_classes, innermost, ordered_classes, plain_value
from widemargin.goals.binding.tables import Scalar, column_of
from widemargin.goals.language.goal import Goal, checked_goal
from widemargin.goals.language.linear import ScoreFact
from widemargin.goals.measuring.goal_report import GoalReport, check_decide
from widemargin.rows import (
    External,
    ask_model,
    external_data,
    is_asked,
    is_collection,
    refuse_no_classifier,
    with_populations,
)

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
    classes: Column | None = None,
    abstain: Label = None,
    confidence: float | None = 0.95,
    decide: str = "estimate",
    random_state: Seed = 0,
    data_name: str = "the data",
    workers: object = None,
    missing_groups: bool = False,
) -> GoalReport:
    """Measure a classifier's 0/1 predictions on a goal, with confidence intervals and a verdict per constraint.

    Parameters
    ----------
    model_or_predictions : fitted classifier, array-like of shape (n,), or dict
        A classifier's `predict` is called on X and on each external data set's X, with the table of populations if it
        has a parameter of that name. An array holds predictions as labels of y (never scores or probabilities). With
        external data sets give a dict: the main predictions under None (or ""), the others under the names of their
        data sets.
    goal : Goal or str
        A goal or its text.
    X : array-like or data frame of shape (n, d), default=None
        Needed for a classifier. A data frame is also looked at by the goal's predicates, after `populations`.
    y : array-like of shape (n,), default=None
        Labels; constraints on positive rates and churn need none. Without labels, an objective that needs them is
        reported as not measured.
    populations : table with n rows, default=None
    external : dict of str to External, default=None
    baselines : dict of str to array-like of shape (n,) or fitted model, default=None
        Looked up after the columns of `populations`. A model is also asked about the external data sets.
    sample_weight : array-like of shape (n,), default=None
    pos_label : label, default=None
        None: the classifier's own `pos_label`, else the second of two classes. Not needed where the goal names its
        classes, as in `recall(of="cat")`, which it has to with more than two.
    classes : array-like of labels, default=None
        All labels that may be predicted; None: the classifier's own classes, else those of y. Needed if predictions
        alone are given and a rare class does not occur in y.
    abstain : label, default=None
        The prediction that stands for no decision; None: the classifier's own `abstain`, else every row is decided.
        Rates count decisions: see `widemargin.goals.decision_rate`.
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
    missing_groups : bool, default=False
        Whether `report.missing_groups` says how far rows of unknown group (a missing value in a column that a
        population looks at) can change every rate and constraint. With `decide="confident"` a constraint whose verdict
        they can change then counts as not met.

    Returns
    -------
    GoalReport

    Notes
    -----
    Rows that do not fit in memory may come in blocks: X, y, populations, weights, baselines and predictions as Dask
    collections with the same partitions, or X as the path of a Parquet file or folder. With a Dask frame or files, y,
    sample_weight and predictions may be names of columns, and populations may use every column. The report is that of
    all rows at once (`AuditCounts`, `docs/scaling.md`).

    Raises
    ------
    GoalError
        If the goal does not fit the data (see `bind`), or the text is no goal.
    DataError
        If the data are malformed, or a prediction is no label; if a constraint needs labels
        and there are none; if a class or a function stands in place of a fitted classifier.

    Examples
    --------
    >>> from widemargin.diagnostics import audit
    >>> report = audit([1, 1, 0, 0], "subject to floor: recall() >= 0.5", y=[1, 0, 1, 0])
    >>> report["floor"].rate, report["floor"].verdict, report.passed
    (0.5, 'undecided', True)
    """
    check_decide(decide)
    goal = checked_goal(goal)
    refuse_no_classifier(model_or_predictions, "predictions")
    main = {"X": X, "y": y, "sample_weight": sample_weight, "populations": populations}
    sets = _row_sets(model_or_predictions, goal, main, external or {}, baselines or {})
    model = sets[0].model
    positive = own_setting(model, "pos_label") if pos_label is None else pos_label
    abstain = own_setting(model, "abstain") if abstain is None else abstain
    known = _own_classes(model) if classes is None else list(find_classes({"classes": classes}))
    settings: dict[str, Any] = {
        "confidence": confidence, "decide": decide, "random_state": random_state, "data_name": data_name,
    }  # fmt: skip
    if any(rows.in_blocks for rows in sets):
        counts = _count_blocks(goal, sets, known, positive, abstain, workers)
        report = counts.report(**settings, missing_groups=missing_groups)
    else:
        # All rows are in memory, one block for each source: each row is an entry of its own, and nothing is counted.
        for rows in sets:
            rows.parts.setdefault("predictions", rows.answer("predict", rows.parts))
        ordered = ordered_classes(known or find_classes(_label_vectors(sets, abstain), pos_label), positive, goal)
        positive = ordered[1] if len(ordered) == 2 else None
        blocks = [rows.block(rows.parts, positive) for rows in sets]
        if missing_groups:
            # Rows that the goal cannot tell apart are filled in together, so they have to be counted by kind.
            counts = AuditCounts(goal, classes=ordered, pos_label=positive, abstain=abstain)
            for block in blocks:
                counts.add(block)
            report = counts.report(**settings, missing_groups=True)
        else:
            used = baselines_used(goal)
            encoded = [encode_block(block, used[block.source], ordered, abstain) for block in blocks]
            report = report_of(goal, encoded, positive, **settings)
    # Where the model itself was asked for rates that are lower bounds, the report says so, once.
    for rows in sets:
        asked = [fact for fact in rows.facts if f"{_BASELINE}{fact.name}" not in rows.parts]
        if asked and rows.model is not None and (caution := caution_of_bounds(asked, rows.model)) is not None:
            return replace(report, cautions=(*report.cautions, caution))
    return report


@dataclass(frozen=True)
class _RowSet:
    """Rows of one source, in memory or in blocks, and the classifiers that predict them.

    Attributes
    ----------
    model : fitted classifier or None
        None: predictions were given.
    models : mapping of str to fitted classifier
        Baselines.
    source : str or None
        As in `AuditBlock`.
    parts : dict of str to array or table
        Beside rows in blocks, texts name columns of X.
    facts : sequence of ScoreFact
        Facts about the model's scores that the goal counts.
    """

    model: Classifier | None
    models: Mapping[str, Classifier]
    source: str | None
    parts: dict[str, Any]
    facts: Sequence[ScoreFact] = ()

    @property
    def in_blocks(self) -> bool:
        """Whether the rows lie in files or are Dask collections."""
        return isinstance(self.parts.get("X"), (str, Path)) or any(map(is_collection, self.parts.values()))

    @property
    def where(self) -> str:
        """Whose rows they are, in messages."""
        return "" if self.source is None else f" for external {self.source!r}"

    def answer(self, method: str, parts: Mapping[str, Any]) -> Column | None:
        """The result of a method of the model for rows; None where there is no such method."""
        ask = getattr(self.model, method, None)
        return None if ask is None else ask_model(ask, parts["X"], parts.get("populations"))

    def block(self, parts: Mapping[str, Any], positive: Label, features: Features | None = None) -> AuditBlock:
        """The rows as `AuditCounts` takes them; the model gets `features`, by default X."""
        # One probability a row describes a randomised classifier of two classes only.
        answer = None
        if positive is not None:
            answer = self.answer("randomized_proba", parts if features is None else {**parts, "X": features})
        ramp = None if answer is None else np.asarray(answer, dtype=np.float64)
        if ramp is not None and ramp.ndim == 2:
            ramp = ramp[:, (_own_classes(self.model) or []).index(positive)]
        baselines = {name.removeprefix(_BASELINE): value for name, value in parts.items() if name.startswith(_BASELINE)}
        unknown = [fact for fact in self.facts if fact.name not in baselines]
        if unknown and self.model is not None:
            X = parts["X"] if features is None else features
            known = with_populations(self.model, parts.get("populations"))
            baselines |= score_facts(unknown, known, X, parts.get("y"), positive)
        return AuditBlock(
            parts["predictions"], parts.get("y"), parts.get("X"), parts.get("populations"), parts.get("sample_weight"),
            {**self.models, **baselines}, self.source, ramp,
        )  # fmt: skip


def _row_sets(
    subject: Classifier | Column | Mapping[str | None, Column], goal: Goal, main: Mapping[str, Any],
    external: Mapping[str, External], baselines: Mapping[str, Column | Classifier],
) -> list[_RowSet]:  # fmt: skip
    """The audited rows first, then those of each external data set that the goal uses, with their classifiers."""
    used = baselines_used(goal)
    facts = {name: list(filter(None, map(ScoreFact.named, asked))) for name, asked in used.items()}
    names = [None, *sorted(name for name in used if name is not None)]
    model = subject if is_asked(subject) else None
    given: dict[str | None, Column] = {}
    if not is_asked(subject):
        by_source = subject if isinstance(subject, Mapping) else {None: subject}
        given = {None if name == "" else name: values for name, values in by_source.items()}
        external_names = listing([name for name in names if name is not None])
        strange = sorted(str(name) for name in given if name is not None and name not in names)
        if strange:
            raise DataError(
                f"predictions for {listing(strange)}, which the goal does not use. Its external data sets: "
                f"{external_names}."
            )
        for name in names:
            if given.get(name) is None:
                where = "" if name is None else f" for external {name!r}"
                raise DataError(
                    f"there are no predictions{where} among those given; give the model, or a dict with the keys None "
                    f"(the main rows) and {external_names}."
                )
    # Baselines that are models are asked about every set of rows; predictions of a baseline belong to the main rows.
    models = {name: value for name, value in baselines.items() if is_asked(value)}
    sets = []
    for name in names:
        parts: dict[str, Any] = dict(main)
        others: Mapping[str, Any] = {key: value for key, value in baselines.items() if key not in models}
        if name is not None:
            data = external_data(name, external)
            parts, others = {part: getattr(data, part) for part in parts}, data.baselines
        parts |= {f"{_BASELINE}{key}": value for key, value in others.items()}
        if name in given:
            parts["predictions"] = given[name]
        elif parts["X"] is None:
            what = "X" if name is None else f"External(X) for {name!r}"
            raise DataError(f"a classifier needs rows to classify; give {what}.")
        parts = {key: value for key, value in parts.items() if value is not None}
        sets.append(_RowSet(model, models, name, parts, facts[name]))
    return sets


def _count_blocks(
    goal: Goal, sets: Sequence[_RowSet], classes: list[Label] | None, positive: Label, abstain: Label, workers: object
) -> AuditCounts:
    """Counts of all rows: in one pass, or in two where the classes must be found first."""
    total: AuditCounts | None = None
    for rows in sets:
        if total is not None and not rows.in_blocks:
            rows.parts.setdefault("predictions", rows.answer("predict", rows.parts))
            total.add(rows.block(rows.parts, total.positive))
            continue
        is_unknown = total is None and classes is None and positive is None
        blocks, columns = opened_blocks(
            rows.parts, workers, model=rows.model, goal=goal, hold=is_unknown,
            more=sorted(baselines_used(goal).get(None, ())), read_all=bool(rows.models),
        )  # fmt: skip
        with closing(blocks):
            if is_unknown:
                seen: dict[str, list[Label]] = {}
                for labels in blocks.map(_labels_of_block, columns):
                    for name, values in labels.items():
                        seen[name] = list(dict.fromkeys([*seen.get(name, ()), *values]))
                # Labels that show both classes settle it; else predictions and baselines may show the other one.
                classes = list(find_classes({"y": seen["y"]} if len(seen.get("y", ())) >= 2 else seen))
            message = goal, classes, positive, abstain, replace(rows, parts={}), columns
            counts: AuditCounts = blocks.sum(_count, message)
        total = counts if total is None else total.merge(counts)
    assert total is not None  # there is always a main source
    return total


def _count(
    block: Block, message: tuple[Goal, Sequence[Label] | None, Label, Label, _RowSet, Mapping[str, str]]
) -> AuditCounts:
    goal, classes, positive, abstain, rows, columns = message
    counts = AuditCounts(goal, classes=classes, pos_label=positive, abstain=abstain)
    if rows_of(block.data):  # a model refuses to predict none
        parts = named_parts(block.data, columns)
        features = fitted_columns(rows.model, parts.get("X"))
        if rows.model is not None:
            parts["predictions"] = rows.answer("predict", {**parts, "X": features})
        counts.add(rows.block(parts, counts.positive, features))
    return counts


def _labels_of_block(block: Block, columns: Mapping[str, str]) -> dict[str, list[Scalar]]:
    """The different labels in a block, by where they stand."""
    return {
        name: column_of(name, value).distinct()
        for name, value in named_parts(block.data, columns).items()
        if (name in ("y", "predictions") or name.startswith(_BASELINE)) and len(value)
    }


def _label_vectors(sets: Sequence[_RowSet], abstain: Label) -> dict[str, Column]:
    """The vector y if it shows both classes, else everything in memory that holds labels and nothing else."""
    main = sets[0].parts
    if "y" in main and len(column_of("y", main["y"]).distinct()) >= 2:
        return {"y": main["y"]}
    vectors: dict[str, Column] = {"y": main["y"]} if "y" in main else {}
    if abstain is None:
        vectors |= {f"predictions{rows.where}": rows.parts["predictions"] for rows in sets}
    vectors |= {f"baseline {name.removeprefix(_BASELINE)!r}": main[name] for name in main if name.startswith(_BASELINE)}
    return vectors | {f"y{rows.where}": rows.parts["y"] for rows in sets[1:] if "y" in rows.parts}


def _own_classes(model: Classifier | None) -> list[Label] | None:
    """The classes that a classifier was fitted to, where it says so."""
    classes = getattr(model, "classes_", None)
    return None if classes is None else [plain_value(value) for value in classes]


def own_setting(model: object, name: str) -> Label:
    """A classifier's own `pos_label` or `abstain`, also inside a pipeline or a search; None where it has none."""
    if not hasattr(model, "predict"):
        return None
    label: Label = getattr(innermost(model), name, None)
    return label
