"""What the commands about any classifier look at: model files opened, the table in blocks, the rows asked for.

Skops files run no code: ours by `load_model`, others by a list of scikit-learn types
(`persistence/model_file_check.py`). ONNX files run in onnxruntime. Joblib and pickle files run whatever is in them, so
they need `--trust-code`.
"""

import argparse
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from widemargin.cli.candidates import Candidate, FrameModel, PredictionsFile, Renamed, TableModel
from widemargin.cli.console import Deadline
from widemargin.cli.goals_file.keys import GoalsFile, TablePath
from widemargin.cli.onnx_model import OnnxModel
from widemargin.cli.tables.column_roles import TableRows, feature_columns, rows_of, split_rows, third_class
from widemargin.cli.tables.table_files import Block, TableBlocks
from widemargin.cli.tables.training_data import is_trained_on
from widemargin.exceptions import (
    DataError,
    ModelFileError,
    ModelFileWarning,
)
from widemargin.goals import Goal
from widemargin.goals.measuring.counting import columns_used
from widemargin.persistence import load_plain_model
from widemargin.preprocessing import TableSchema

__all__ = [
    "NO_VERDICT",
    "audited_rows",
    "blocks_and_candidates",
    "columns_needed",
    "load_candidate",
    "named_part",
    "refuse_main_rows_only",
]

NO_VERDICT = "A verdict on these alone would mislead, so there is none. Give more time, or fewer rows, drawn at random"


def load_candidate(path: Path, *, features: Sequence[str] | None, trust_code: bool = False) -> Candidate:
    """The classifier in a model file.

    Parameters
    ----------
    path : Path
        `.onnx`; `.joblib`, `.pkl`, `.pickle`; anything else is taken for a skops file.
    features : sequence of str or None
        The goals file's feature columns, for models that do not know theirs.
    trust_code : bool, default=False
        Whether a pickle may be opened, which runs whatever is in it.

    Raises
    ------
    ModelFileError
        The file cannot be read, is refused, or holds no classifier.
    """
    name = path.name.lower()
    if name.endswith(".onnx"):
        return OnnxModel(path, features)
    model = _unpickled(path, trust_code) if name.endswith((".joblib", ".pkl", ".pickle")) else load_plain_model(path)
    first = model[0] if hasattr(model, "steps") else model
    if isinstance(getattr(first, "schema_", None), TableSchema):
        return TableModel(model, str(path))
    return FrameModel(model, str(path), features)


def _unpickled(path: Path, trust_code: bool) -> Any:
    if not trust_code:
        raise ModelFileError(
            f"{path}: opening such a file runs whatever code is in it, so it was not opened. Save the model as .skops "
            "or .onnx, audit a file of its predictions, or, if you trust whoever made it, give --trust-code"
        )
    import joblib

    warnings.warn(f"{path}: opened with --trust-code; code in the file may have run", ModelFileWarning, stacklevel=2)
    try:
        model = joblib.load(path)
    except OSError as error:
        raise ModelFileError(f"{path}: the file cannot be read ({error.strerror or error}). Check the path") from error
    except Exception as error:  # another's code may do anything
        raise ModelFileError(
            f"{path}: the model cannot be opened ({type(error).__name__}: {str(error)[:200]}). Save it again, with the "
            "libraries that are installed here"
        ) from error
    if not hasattr(model, "predict"):
        raise ModelFileError(f"{path}: the file holds a {type(model).__name__}, no classifier. Save one with predict")
    return model


def blocks_and_candidates(
    given: Collection[str], goals: GoalsFile, path: TablePath, options: argparse.Namespace
) -> tuple[TableBlocks, list[Candidate]]:
    """The table to be read in blocks, and the classifiers: model files, or (`options.predictions`) columns of files."""
    held = goals.validation.fraction if goals.validation.confidence is None and is_trained_on(goals, path) else None
    how: dict[str, Any] = {
        "fraction": held,
        "pieces": options.time_budget is not None,
        "separator": goals.data.separator,
    }
    if options.predictions:
        key = options.key
        blocks = TableBlocks(path, words=[*goals.data.words, *([] if key is None else [key])], **how)
        predicted = [PredictionsFile(str(name), key, blocks.n_rows) for name in given]
        if options.model_positive is None:
            _refuse_other_labels(predicted, blocks, goals)
        return blocks, _renamed(predicted, blocks, goals, options)
    blocks = TableBlocks(path, words=goals.data.words, **how)
    features = feature_columns(SimpleNamespace(column_names=blocks.names), goals)
    candidates = [load_candidate(Path(name), features=features, trust_code=options.trust_code) for name in given]
    words = dict.fromkeys([*goals.data.words, *(word for candidate in candidates for word in candidate.words)])
    if blocks.is_guessed and len(words) > len(goals.data.words):
        blocks = TableBlocks(path, words=list(words), **how)
    candidates = _renamed(candidates, blocks, goals, options)
    for item in candidates:
        if item.classes is not None and goals.data.positive not in item.classes:
            raise DataError(
                f"{item.title}: its classes are {', '.join(map(repr, item.classes[:5]))}, and data.positive is "
                f"{goals.data.positive!r}. Correct data.positive, or say by --model-positive which of them it is"
            )
    return blocks, candidates


def _renamed(
    candidates: Sequence[Candidate], blocks: TableBlocks, goals: GoalsFile, options: argparse.Namespace
) -> list[Candidate]:
    """The candidates, told by --model-positive, where it is given, what their labels mean.

    Of two that are compared, each may have a label of its own, or one may speak of the target's classes already; it is
    left as it is then.
    """
    positive = goals.data.positive
    if options.model_positive is None:
        return list(candidates)
    said = [options.model_positive] if isinstance(options.model_positive, str) else options.model_positive
    if len(said) > len(candidates):
        raise DataError(f"--model-positive stands {len(said)} times for {len(candidates)} models. Give one for each")
    if len(said) > 1:
        other = _other_class(blocks, goals)
        return [Renamed(item, label, positive, other) for item, label in zip(candidates, said, strict=True)]
    wanted = said[0]
    labels = [getattr(item, "labels", item.classes) or () for item in candidates]
    named = [wanted in map(str, own) for own in labels]
    ready = [any(named) and not is_named and positive in own for is_named, own in zip(named, labels, strict=True)]
    negative = _other_class(blocks, goals)
    pairs = zip(candidates, ready, strict=True)
    return [item if is_ready else Renamed(item, wanted, positive, negative) for item, is_ready in pairs]


def _refuse_other_labels(predicted: Sequence[PredictionsFile], blocks: TableBlocks, goals: GoalsFile) -> None:
    """Refuse files of predictions of which no label is one of the target's."""
    if goals.data.target not in blocks.names:
        return
    pair = [_other_class(blocks, goals), goals.data.positive]
    for item in predicted:
        if not any(label in pair for label in item.labels):
            raise DataError(
                f"{item.title}: its labels are {', '.join(map(repr, item.labels[:5]))}, and the target's are "
                f"{pair[0]!r} and {pair[1]!r}. Write these, or say by --model-positive which label is the positive one"
            )


def _other_class(blocks: TableBlocks, goals: GoalsFile) -> Any:
    """The negative class, as the target's column writes it."""
    target, positive = goals.data.target, goals.data.positive
    if target in blocks.names:
        for block in blocks.read([target]):
            for value in pc.unique(block.table[target]).to_pylist():
                if value is not None and value != positive:
                    return value
    return f"not {positive}" if isinstance(positive, str) else not positive


def named_part(blocks: TableBlocks, goals: GoalsFile, rows: str | None) -> str:
    """Which rows are asked for: all, train or test."""
    split = goals.data.split
    splittable = blocks.fraction is not None or (split is not None and split.column in blocks.names)
    wanted = rows or ("test" if splittable else "all")
    if wanted != "all" and not splittable:
        raise DataError(
            f"{blocks.title}: --rows {wanted} needs the column that data.split names"
            + (f", {split.column!r}. Add it or use --rows all" if split else "; add data.split to the goals file")
        )
    return wanted


def columns_needed(goals: GoalsFile, goal: Goal, candidates: Collection[Candidate]) -> set[str] | None:
    """Columns of the table that an audit looks at; None where that is not known."""
    if any(candidate.features is None for candidate in candidates) or goals.baseline_models or goals.baseline_functions:
        return None
    names = {goals.data.target, *goals.baselines.values()}
    names |= {name for candidate in candidates for name in candidate.features or []}
    names |= {str(name) for name in columns_used(goal).get(None, {})}
    names |= set() if goals.data.weight is None else {goals.data.weight}
    return names if goals.data.split is None else names | {goals.data.split.column}


def audited_rows(
    blocks: TableBlocks,
    goals: GoalsFile,
    part: str,
    columns: Collection[str] | None,
    *,
    some_labels: bool = False,
    deadline: Deadline | None = None,
) -> Iterator[tuple[Block, TableRows]]:
    """The rows asked for, with their labels and baselines, a block at a time.

    With `some_labels` labels may be missing; they are None then.

    Raises
    ------
    DataError
        There are no such rows, or as `rows_of`.
    TimeBudgetError
        The time is up before the last row.
    """
    some, seen = False, set[Any]()
    deadline = deadline or Deadline(None, NO_VERDICT)
    deadline.check(0, blocks.n_rows, f"rows of {blocks.title}")
    for block in blocks.read(columns, split=goals.data.split, part=part):
        some = True
        rows = _partly_labelled(block, goals) if some_labels else None
        rows = rows or rows_of(block, goals)
        if rows.y is not None:
            seen |= {label for label in rows.y.tolist() if label is not None}
            if len(seen) > 2:
                raise third_class(block, goals.data.target, rows.y, sorted(seen, key=str))
        yield Block(rows.populations, block.rows, block.title), rows
        deadline.check(int(block.rows[-1]) + 1, blocks.n_rows, f"rows of {blocks.title}")
    if not some and goals.data.split is not None:
        whole = [block.table.select([goals.data.split.column]) for block in blocks.read([goals.data.split.column])]
        cure = "Correct the value, or choose other rows by --rows all|train|test"
        split_rows(whole[0], goals.data.split, blocks.title, wanted=[part], cure=cure)


def _partly_labelled(block: Block, goals: GoalsFile) -> TableRows | None:
    """Rows in which labels are missing; None if none is."""
    target, table = goals.data.target, block.table
    if target not in table.column_names or not table[target].null_count:
        return None
    rows = rows_of(block._replace(table=table.drop([target])), goals)
    labels = np.array(table[target].to_pylist(), dtype=object)
    return TableRows(
        populations=rows.populations.append_column(target, table[target]), y=labels, sample_weight=rows.sample_weight
    )


def refuse_main_rows_only(goal: Goal, candidates: Collection[Candidate]) -> None:
    """Refuse files of predictions where the goal is measured on other rows than theirs too."""
    about_main = [item for item in candidates if isinstance(getattr(item, "inner", item), PredictionsFile)]
    if goal.sources and about_main:
        raise DataError(
            f"the goal is measured on {', '.join(map(repr, goal.sources))} too, and {about_main[0].title} are about "
            "the main rows only. Give the model, or in Python widemargin.audit with the predictions of every data set"
        )
