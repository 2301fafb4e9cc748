"""What the commands about any classifier begin with: model files opened, the table in blocks, the rows asked for.

Skops files run no code: ours by `load_model`, others by a list of scikit-learn types
(`persistence/model_file_check.py`). ONNX files run in onnxruntime. Joblib and pickle files run whatever is in them, so
they need `--trust-code`.
"""

import argparse
import contextlib
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute as pc

from widemargin.cli.candidates import Candidate, FrameModel, PredictionsFile, Renamed, TableModel
from widemargin.cli.console import Deadline
from widemargin.cli.goals_file.keys import GoalsFile, TablePath
from widemargin.cli.onnx_model import OnnxModel
from widemargin.cli.tables.column_roles import feature_columns, never_learned, require_columns, split_rows, third_class
from widemargin.cli.tables.table_files import Block, TableBlocks, sha256_of
from widemargin.cli.tables.training_data import TableRows, external_rows, is_trained_on, rows_of
from widemargin.exceptions import DataError, ModelFileError, ModelFileWarning, TableWarning
from widemargin.goals import Goal
from widemargin.goals.measuring.counting import columns_used
from widemargin.persistence import load_plain_model, model_info
from widemargin.preprocessing import TableSchema

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
    if not name.endswith((".joblib", ".pkl", ".pickle")):
        model: Any = load_plain_model(path)
    elif not trust_code:
        raise ModelFileError(
            f"{path}: opening such a file runs the code in it, so it was not opened. Save the model as .skops "
            "or .onnx, audit a file of its predictions, or, if you trust its author, give --trust-code"
        )
    else:
        import joblib

        warnings.warn(
            f"{path}: opened with --trust-code; code in the file may have run", ModelFileWarning, stacklevel=2
        )
        try:
            model = joblib.load(path)
        except OSError as error:
            why = error.strerror or error
            raise ModelFileError(f"{path}: the file cannot be read ({why}). Check the path") from error
        except Exception as error:  # another's code may do anything
            raise ModelFileError(
                f"{path}: the model cannot be opened ({type(error).__name__}: {str(error)[:200]}). Save it again, with "
                "the libraries that are installed here"
            ) from error
        if not hasattr(model, "predict"):
            kind = type(model).__name__
            raise ModelFileError(f"{path}: the file holds a {kind}, no classifier. Save one with predict")
    first = model[0] if hasattr(model, "steps") else model
    if isinstance(getattr(first, "schema_", None), TableSchema):
        return TableModel(model, str(path))
    return FrameModel(model, str(path), features)


class Request(NamedTuple):
    """What a command about any classifier is to look at.

    Attributes
    ----------
    goal : Goal
        What is measured.
    blocks : TableBlocks
        The table.
    candidates : list of Candidate
        The classifiers: model files, or columns of files.
    part : str
        Which rows of the table: all, train or test.
    columns : set of str or None
        Columns of the table that are looked at; None where that is not known.
    is_labelled : bool
        Whether some row of the part has a value of the target, or the table no such column. A target without any value
        is like a column that is not there: rates without labels are measured all the same.
    """

    goals: GoalsFile
    goal: Goal
    blocks: TableBlocks
    candidates: list[Candidate]
    part: str
    columns: set[str] | None
    is_labelled: bool

    @property
    def title(self) -> str:
        """The rows in messages and reports."""
        return f"{self.part} rows of {self.blocks.title}"

    @property
    def needed(self) -> str | None:
        """The column of which rows without a value are left out."""
        return self.goals.data.needed if self.is_labelled else None

    def rows(self, block: Block, *, some_labels: bool = False) -> TableRows:
        """Labels and baselines of rows; no labels where no row asked for has one."""
        rows = rows_of(block, self.goals, some_labels=some_labels or not self.is_labelled)
        return rows if self.is_labelled or some_labels else replace(rows, y=None)


def open_request(goals: GoalsFile, given: Collection[Path | str], options: argparse.Namespace) -> Request:
    """Open the table to be read in blocks, and the classifiers: model files, or with `options.predictions` columns."""
    blocks, candidates = _opened(goals, given, options)
    if (abstain := getattr(options, "abstain", None)) is not None:
        for item in candidates:
            known = [*map(str, item.labels), str(item.abstain)]
            if not options.predictions and item.classes is not None and abstain not in known:
                own = "" if item.abstain is None else f", but {item.abstain!r} where nothing is decided"
                raise DataError(f"--abstain {abstain}: {item.title} never says that{own}. Leave it out")
            # As predictions write it, which need not be a text.
            item.abstain = next((label for label in item.labels if str(label) == abstain), abstain)
    candidates = _in_classes_of_target(goals, blocks, candidates, options)
    split, goal = goals.data.split, goals.audit_goal or goals.goal
    splittable = blocks.fraction is not None or (split is not None and split.column in blocks.names)
    part = options.rows or ("test" if splittable else "all")
    if part != "all" and not splittable:
        raise DataError(
            f"{blocks.title}: --rows {part} needs the column that data.split names"
            + (f", {split.column!r}. Add it or use --rows all" if split else "; add data.split to the goals file")
        )
    if blocks.fraction is not None and part == "test" and not options.predictions:
        _warn_of_rows_drawn_anew(goals, given)
    if goals.data.weight not in (None, *blocks.names):
        text = f"{blocks.title} lacks the column {goals.data.weight!r} (data.weight), so every row counts the same"
        warnings.warn(text, TableWarning, stacklevel=2)
    wanted = {column: f"baselines.{name}" for name, column in goals.baselines.items() if name in goal.baselines}
    uses = columns_used(goal).get(None, {})
    of_goal = {str(name) for name, use in uses.items() if use.is_needed or name in blocks.names} - {
        *goals.baseline_names
    }
    wanted |= dict.fromkeys(sorted(of_goal), "goal.text" if goals.audit_goal is None else "goal.audit.text")
    require_columns(blocks.names, wanted, blocks.title)
    # Only the columns that are used are read. Baselines that are models or functions get whole rows.
    columns: set[str] | None = None
    all_know = all(candidate.features is not None for candidate in candidates)
    if all_know and not goals.baseline_models and not goals.baseline_functions:
        columns = {goals.data.target, *wanted, *goals.baselines.values()}
        columns |= {name for candidate in candidates for name in candidate.features or []}
        columns |= set() if goals.data.weight is None else {goals.data.weight}
        columns |= set() if split is None else {split.column}
    is_labelled, target = True, goals.data.target
    if target in blocks.names:
        of_part = [target] if split is None or part == "all" else [target, split.column]
        parts = blocks.read(of_part, split=split, part=part)
        is_labelled = any(block.table[target].null_count < len(block.rows) for block in parts)
    return Request(goals, goal, blocks, candidates, part, columns, is_labelled)


def _warn_of_rows_drawn_anew(goals: GoalsFile, given: Collection[Path | str]) -> None:
    """Warn where the rows held out now are not those that were held out when a model was trained.

    They are drawn by the length of the table, so a row more, or another share, draws others, and rows in another order
    are others.
    """
    known: dict[Path | str, Mapping[str, Any]] = {}
    for name in given:
        with contextlib.suppress(ModelFileError):  # not of `train`, so nothing is known
            known[name] = model_info(name).metadata
    # The whole table is read for its digest, and only where a model says which it was.
    digest = sha256_of(goals.data.table) if any("table_sha256" in each for each in known.values()) else None
    asked = {"table_sha256": digest, "validation_fraction": goals.validation.test_fraction}
    for name, each in known.items():
        if all(each.get(key, value) == value for key, value in asked.items()):
            continue
        other = "the share" if each.get("table_sha256") == digest else "the table"
        text = (
            f"validation.fraction holds out other rows now than when {name} was trained, because {other} was another "
            "then: this model may know the rows that are measured. Train again, or measure new rows by --data"
        )
        warnings.warn(text, TableWarning, stacklevel=2)


def _opened(
    goals: GoalsFile, given: Collection[Path | str], options: argparse.Namespace
) -> tuple[TableBlocks, list[Candidate]]:
    """The table and the classifiers as they are in their files."""
    path: TablePath = options.data or goals.data.table
    how: dict[str, Any] = {
        "fraction": goals.validation.test_fraction if is_trained_on(goals, path) else None,
        "pieces": options.time_budget is not None,
        **goals.data.csv,
    }
    words = goals.data.words
    if options.predictions:
        how["words"] = [*words, *([] if options.key is None else [options.key])]
        blocks = TableBlocks(path, **how)
        return blocks, [PredictionsFile(str(name), options.key, blocks.n_rows) for name in given]
    if getattr(options, "key", None) is not None:
        raise DataError("--key matches rows of --predictions, and a model is asked about every row. Leave it out")
    blocks = TableBlocks(path, **how)
    features = feature_columns(blocks.names, goals)
    candidates = [load_candidate(Path(name), features=features, trust_code=options.trust_code) for name in given]
    # Which columns a model reads as text is known only once it is loaded. Where types were guessed, codes of digits may
    # have become numbers, so the table is opened again.
    all_words = {*words, *(word for candidate in candidates for word in candidate.words)}
    if blocks.is_guessed and len(all_words) > len(words):
        blocks = TableBlocks(path, **how | {"words": all_words})
    return blocks, candidates


def _in_classes_of_target(
    goals: GoalsFile, blocks: TableBlocks, candidates: list[Candidate], options: argparse.Namespace
) -> list[Candidate]:
    """The candidates with the classes of the target, renamed where --model-positive tells how; refused where not."""
    positive = goals.data.positive
    if options.model_positive is not None:
        if positive is None:
            raise DataError(
                "--model-positive needs data.positive in the goals file, which names the class that is meant"
            )
        stated, negative = options.model_positive, _other_class(blocks, goals)
        wanted = [stated] if isinstance(stated, str) else stated
        if len(wanted) > len(candidates):
            what = f"--model-positive stands {len(wanted)} times for {len(candidates)} models"
            raise DataError(f"{what}. Give one for each")
        # Of two that are compared each may have a label of its own, or one may speak of the target's classes already;
        # it is left as it is then.
        has_label = [len(wanted) > 1 or wanted[0] in map(str, item.labels) for item in candidates]
        labels = wanted * len(candidates) if len(wanted) == 1 else wanted
        candidates = [
            item if any(has_label) and not is_named and positive in item.labels
            else Renamed(item, label, positive, negative)
            for item, label, is_named in zip(candidates, labels, has_label, strict=True)
        ]  # fmt: skip
    elif options.predictions and goals.data.target in blocks.names and positive is not None:
        pair = [_other_class(blocks, goals), positive]
        for place, item in enumerate(candidates):
            if any(label in pair for label in item.labels):
                strange = [label for label in item.labels if label not in (*pair, item.abstain)]
                if strange:
                    raise DataError(
                        f"{item.title}: {strange[0]!r} is neither {pair[0]!r} nor {pair[1]!r}. If it stands for no "
                        "decision, say so by --abstain"
                    )
                continue
            texts = {str(label) for label in item.labels} - {str(item.abstain)}
            if item.abstain is not None and texts <= {*map(str, pair)}:
                # Beside a text for no decision, classes that are numbers are texts, too.
                candidates[place] = Renamed(item, str(positive), positive, pair[0])
                continue
            raise DataError(
                f"{item.title}: its labels are {', '.join(map(repr, item.labels[:5]))}, and the target's are "
                f"{pair[0]!r} and {pair[1]!r}. Write these, or say by --model-positive which label is the positive one"
            )
    for item in candidates:
        if item.classes is not None and positive is not None and positive not in item.classes:
            raise DataError(
                f"{item.title}: its classes are {', '.join(map(repr, item.classes[:5]))}, and data.positive is "
                f"{positive!r}. Correct data.positive, or say by --model-positive which of them it is"
            )
    return candidates


def _other_class(blocks: TableBlocks, goals: GoalsFile) -> Any:
    """The negative class, as the target's column writes it."""
    target, positive = goals.data.target, goals.data.positive
    for block in blocks.read([target]) if target in blocks.names else ():
        for value in pc.unique(block.table[target]).to_pylist():
            if value is not None and value != positive:
                return value
    return f"not {positive}" if isinstance(positive, str) else not positive


def classes_of(request: Request, candidate: Candidate) -> list[Any] | None:
    """The classes of a candidate, without data.positive also those of the table's target that it does not know.

    Without a candidate that knows its classes those of the target, and None where the negative one of two shows itself.
    """
    target, known = request.goals.data.target, candidate.classes
    if request.goals.data.positive is not None:
        return known
    seen = {value for block in request.blocks.read([target]) if target in request.blocks.names
            for value in pc.unique(block.table[target]).to_pylist() if value is not None}  # fmt: skip
    if known is None:
        return sorted(seen or {*candidate.labels})
    # Labels of which the model knows none are written otherwise, and are told so where they are counted.
    new = sorted(seen.difference(known)) if seen.intersection(known) else []
    if text := never_learned(new, target):
        warnings.warn(f"{candidate.title}: {text}", TableWarning, stacklevel=2)
    return [*known, *new]


def audited_rows(
    request: Request, *, some_labels: bool = False, deadline: Deadline | None = None
) -> Iterator[tuple[Block, TableRows]]:
    """The rows asked for, with their labels and baselines, a block at a time.

    With `some_labels` labels may be missing; they are None then. Else rows without one are left out where the goals
    file says so.

    Raises
    ------
    DataError
        There are no such rows, or as `rows_of`.
    TimeBudgetError
        The time is up before the last row.
    """
    goals, blocks, split = request.goals, request.blocks, request.goals.data.split
    some, seen, what = False, set[Any](), f"rows of {blocks.title}"
    deadline = deadline or Deadline(None, NO_VERDICT)
    deadline.check(0, blocks.n_rows, what)
    needed = None if some_labels else request.needed
    for block in blocks.read(request.columns, split=split, part=request.part, needed=needed):
        some, rows = True, request.rows(block, some_labels=some_labels)
        if rows.y is not None:
            seen |= {label for label in rows.y.tolist() if label is not None}
            if len(seen) > 2 and goals.data.positive is not None:
                raise third_class(block, goals.data.target, rows.y, sorted(seen, key=str))
        yield block._replace(table=rows.populations), rows
        deadline.check(int(block.rows[-1]) + 1, blocks.n_rows, what)
    if not some and split is not None:
        first = next(blocks.read([split.column])).table.select([split.column])
        cure = "Correct the value, or choose other rows by --rows all|train|test"
        split_rows(first, split, blocks.title, wanted=[request.part], cure=cure)
    if not some:
        target = goals.data.target
        raise DataError(f"{blocks.title}: no row asked for has a value of the target {target!r}. Give rows with one")


def unlabelled_rows(request: Request) -> int:
    """How many of the rows asked for have no value of the target."""
    target, split = request.goals.data.target, request.goals.data.split
    columns = [target] if split is None else [target, split.column]
    return sum(block.table[target].null_count for block in request.blocks.read(columns, split=split, part=request.part))


def external_blocks(request: Request) -> Iterator[tuple[str, Block, TableRows]]:
    """The rows of the external data sets that the goal names; files of predictions know nothing of them."""
    about_main = [item for item in request.candidates if isinstance(getattr(item, "inner", item), PredictionsFile)]
    if request.goal.sources and about_main:
        raise DataError(
            f"the goal is measured on {', '.join(map(repr, request.goal.sources))} too, and {about_main[0].title} are "
            "about the main rows only. Give the model, or in Python widemargin.audit with the predictions of every "
            "data set"
        )
    words = [word for candidate in request.candidates for word in candidate.words]
    for name, rows in external_rows(request.goals, request.goal, words=words).items():
        yield name, Block.whole(rows.populations, f"external.{name}"), rows
