"""`audit` of rows in blocks: Dask collections, and folders of Parquet files. One pass, counts that add up."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.diagnostics.streaming import AuditBlock, AuditCounts
from widemargin.distributed.backends import block_map
from widemargin.distributed.blocks import Block
from widemargin.distributed.predict import fitted_columns
from widemargin.distributed.recipes import rows_of
from widemargin.distributed.tables import as_frame, is_collection, part_recipes
from widemargin.exceptions import DataError
from widemargin.goals.binding.bind import baselines_used
from widemargin.goals.binding.columns import listing
from widemargin.goals.binding.digest import columns_used
from widemargin.goals.binding.labels import column_of, find_classes
from widemargin.goals.binding.sources import External
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.goal_report import GoalReport, check_decide

__all__ = ["Roles", "audit_in_blocks", "needed_columns", "roles_of"]


@dataclass(frozen=True)
class Roles:
    """What the parts of a block are, and who is asked about its rows.

    Attributes
    ----------
    model : fitted classifier or None
    named : mapping of str to str
        Columns of X that are the predictions, y or sample_weight.
    models : mapping of str to fitted model
        Baselines.
    source : str or None
        As in `AuditBlock`.
    """

    model: Any = None
    named: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None

    def parts(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The parts of a block by name: X without the named columns, these, and the whole table for populations.

        Raises
        ------
        DataError
            If a column is missing.
        """
        parts = {name: as_frame(value) for name, value in data.items()}
        frame = parts.get("X")
        for role, column in self.named.items():
            have = [str(name) for name in getattr(frame, "columns", ())]
            if frame is None or column not in have:
                raise DataError(f"X has no column {column!r} ({role}); it has {listing(have[:20])}.")
            parts[role] = frame[column]
        if self.named and frame is not None:
            parts.setdefault("populations", frame)
            parts["X"] = frame.drop(columns=list(self.named.values()))
        return parts

    def answer(self, name: str, parts: Mapping[str, Any]) -> Any:
        """What a method of the model says; None where it has none."""
        method = getattr(self.model, name, None)
        if method is None:
            return None
        table, X = parts.get("populations"), fitted_columns(self.model, parts["X"])
        takes = table is not None and "populations" in inspect.signature(method).parameters
        return method(X, populations=table) if takes else method(X)

    def block(self, data: Mapping[str, Any], positive: Any) -> AuditBlock:
        """The rows as `AuditCounts` takes them."""
        parts = self.parts(data)
        ramp = None
        if self.model is None:
            predictions = parts["predictions"]
        else:
            predictions, ramp = self.answer("predict", parts), self.answer("randomized_proba", parts)
            if ramp is not None and np.ndim(ramp) == 2:
                ramp = np.asarray(ramp)[:, list(self.model.classes_).index(positive)]
        prefix = "baseline "
        given = {name.removeprefix(prefix): value for name, value in parts.items() if name.startswith(prefix)}
        return AuditBlock(
            predictions, parts.get("y"), X=parts.get("X"), populations=parts.get("populations"),
            sample_weight=parts.get("sample_weight"), baselines={**given, **self.models}, source=self.source, ramp=ramp,
        )  # fmt: skip


def roles_of(model: Any, columns: Mapping[str, Any]) -> tuple[Roles, dict[str, Any]]:
    """Roles, and the collections among what was given for predictions, y and sample_weight; texts name columns."""
    named = {role: value for role, value in columns.items() if isinstance(value, str)}
    return Roles(model, named), {role: value for role, value in columns.items() if role not in named}


def needed_columns(
    model: Any, goal: Goal | None, named: Mapping[str, str], more: Sequence[str] = ()
) -> list[str] | None:
    """Columns of a file that must be read; None: all."""
    features = getattr(model, "feature_names_in_", None)
    if model is not None and features is None:
        return None
    looked_at = [] if goal is None else [str(name) for name in columns_used(goal).get(None, {})]
    return list(dict.fromkeys([*map(str, [] if features is None else features), *named.values(), *looked_at, *more]))


def audit_in_blocks(
    candidate: Any,
    goal: Goal,
    X: Any,
    y: Any,
    *,
    populations: Any,
    external: Mapping[str, External],
    baselines: Mapping[str, Any],
    sample_weight: Any,
    pos_label: Any,
    workers: Any,
    confidence: float | None,
    decide: str,
    random_state: Any,
    data_name: str,
) -> GoalReport:
    """See `audit`; some of its data are Dask collections or the path of Parquet files."""
    check_decide(decide)
    said = (
        {None if name == "" else name: value for name, value in candidate.items()}
        if isinstance(candidate, dict)
        else {}
    )
    model = candidate if hasattr(candidate, "predict") else None
    predictions = None if model is not None else said.get(None) if said else candidate
    if model is None and predictions is None:
        raise DataError("there are no predictions of the main rows among those given; give them under the key None.")
    models = {name: value for name, value in baselines.items() if hasattr(value, "predict")}
    arrays = {f"baseline {name}": value for name, value in baselines.items() if name not in models}
    if model is not None and X is None:
        raise DataError("a classifier needs rows to classify; give X.")
    columns = {"predictions": predictions, "y": y, "sample_weight": sample_weight, **arrays}
    roles, parts = roles_of(model, columns)
    roles = Roles(model, roles.named, models)
    wanted = None
    if isinstance(X, (str, Path)) and not models:
        wanted = needed_columns(model, goal, roles.named, sorted(baselines_used(goal).get(None, ())))
    recipes = part_recipes({"X": X, "populations": populations, **parts}, columns=_present(X, wanted))
    learned = pos_label is not None or getattr(model, "classes_", None) is not None
    blocks = block_map(recipes, workers, hold=not learned)
    try:
        classes = _classes(model, blocks, roles, pos_label)
        message = (goal, classes, pos_label, roles)
        counts: AuditCounts = blocks.sum(_count, message)
    finally:
        blocks.close()
    for name, data in external.items():
        counts.merge(_external_counts(name, data, said.get(name), message, workers))
    return counts.report(confidence=confidence, decide=decide, random_state=random_state, data_name=data_name)


def _count(block: Block, message: tuple[Goal, Sequence[Any] | None, Any, Roles]) -> AuditCounts:
    goal, classes, pos_label, roles = message
    counts = AuditCounts(goal, classes=classes, pos_label=pos_label)
    if rows_of(block.data):  # a model refuses to predict none
        counts.add(roles.block(block.data, counts.positive))
    return counts


def _labels(block: Block, roles: Roles) -> dict[str, list[Any]]:
    """The different labels in a block, by where they stand."""
    parts = roles.parts(block.data)
    held = {
        name: value for name, value in parts.items() if name in ("y", "predictions") or name.startswith("baseline ")
    }
    return {name: list(column_of(name, value).distinct()) for name, value in held.items() if len(value)}


def _classes(model: Any, blocks: Any, roles: Roles, pos_label: Any) -> Sequence[Any] | None:
    """The two classes, as `audit` finds them: the model's, else those of y, else of everything that holds labels."""
    own = getattr(model, "classes_", None)
    if own is not None:
        return [value.item() if isinstance(value, np.generic) else value for value in own]
    if pos_label is not None:
        return None  # the negative one shows itself
    seen: dict[str, dict[Any, None]] = {}
    for found in blocks.map(_labels, roles):
        for name, values in found.items():
            seen.setdefault(name, {}).update(dict.fromkeys(values))
    vectors = {name: list(values) for name, values in seen.items()}
    if len(vectors.get("y", ())) >= 2:
        vectors = {"y": vectors["y"]}
    return find_classes(vectors, None)


def _present(X: Any, wanted: Sequence[str] | None) -> list[str] | None:
    """Those of the columns that the files have; others (baselines given as arrays) are looked for elsewhere."""
    if wanted is None or is_collection(X):
        return None
    from widemargin.distributed.recipes import parquet_columns

    have = set(parquet_columns(X))
    return [name for name in wanted if name in have]


def _external_counts(name: str, data: External, predictions: Any, message: Any, workers: Any) -> AuditCounts:
    """Counts of an external data set: in blocks as well, or in memory."""
    goal, classes, pos_label, main = message
    arrays = {f"baseline {key}": value for key, value in data.baselines.items()}
    roles = Roles(main.model, {}, main.models, name)
    parts = {"X": data.X, "y": data.y, "sample_weight": data.sample_weight, "populations": data.populations, **arrays}
    if main.model is None:
        if predictions is None:
            raise DataError(f"there are no predictions for external {name!r} among those given; add them to the dict.")
        parts["predictions"] = predictions
    given = {key: value for key, value in parts.items() if value is not None}
    if not any(is_collection(value) for value in given.values()):
        counts = AuditCounts(goal, classes=classes, pos_label=pos_label)
        counts.add(roles.block(given, counts.positive))
        return counts
    blocks = block_map(part_recipes(given), workers, hold=False)
    try:
        found: AuditCounts = blocks.sum(_count, (goal, classes, pos_label, roles))
    finally:
        blocks.close()
    return found
