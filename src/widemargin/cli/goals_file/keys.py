"""Every section and key of a goals file, stated once: reader, records, JSON Schema and documentation come from here.

A section is a frozen dataclass whose docstring begins with what the section is about, and a key is one of its fields,
annotated with its kind (how a value is checked, and how JSON Schema says the same) and with what it means.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from widemargin._typing import JSON
from widemargin.cli.console import CARD_KEYS
from widemargin.cli.goals_file.toml_lines import TomlLines
from widemargin.exceptions import GoalError, GoalParseError
from widemargin.goals import Goal
from widemargin.kernels.feature_maps import FEATURE_MAPS
from widemargin.kernels.functions import KERNELS

__all__ = [
    "DataSection", "ExternalSection", "GoalsFile", "Inner", "Key", "Kind", "Label", "ModelSection", "Split",
    "TablePath", "documented_keys", "entries", "goals_schema", "one_of", "shown", "table_text",
]  # fmt: skip

Label: TypeAlias = str | int | float | bool
TablePath: TypeAlias = Path | tuple[Path, ...]
"""One file or folder, or the parts of one table."""


# Kinds of values


class Kind(NamedTuple):
    """A kind of value.

    Attributes
    ----------
    check : callable
        Gives the value in the form that is stored; raises ValueError with what it must be and what was got.
    schema : mapping
        JSON Schema of it.
    is_path : bool
        Whether it names files, relative to the folder of the goals file.
    """

    check: Callable[[object], Any]
    schema: Mapping[str, JSON]
    is_path: bool = False


def shown(value: object) -> str:
    """A value in a message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text between quotes; got {shown(value)}")
    return value


def _file(value: object) -> str:
    text = _text(value)
    if not text.isprintable():
        raise ValueError(f"must be a file name without control characters; got {shown(value)}")
    return text


def _separator(value: object) -> str:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in '\r\n"\0':
        raise ValueError(f'must be one character, such as ";" or "\\t"; got {shown(value)}')
    return value


def _table(value: object) -> str | tuple[str, ...]:
    if not isinstance(value, list):
        return _file(value)
    if not value:
        raise ValueError("must name at least one file; got []")
    return tuple(_file(item) for item in value)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'must be a list of column names, such as ["sex"]; got {shown(value)}')
    if len(set(value)) < len(value):
        raise ValueError(f"names a column twice: {shown(value)}. Name each once")
    return tuple(value)


def _label(value: object) -> Label:
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"must be one value of the column; got {shown(value)}")
    return value


def _number(said: str, type_: str = "number", **limits: float) -> Kind:
    """A number within the limits of JSON Schema; `said` tells people the same."""

    def check(value: object) -> float:
        is_number = isinstance(value, int if type_ == "integer" else int | float) and not isinstance(value, bool)
        if not is_number or not all(_within[limit](value, end) for limit, end in limits.items()):
            raise ValueError(f"must be a {said}; got {shown(value)}")
        assert isinstance(value, int | float)
        if type_ == "integer":
            return value
        if not abs(value) < float("inf"):
            raise ValueError(f"must be a {said}; got {shown(value)}")
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"must be a number below 1e308; got {shown(value)}") from None

    return Kind(check, {"type": type_, **limits})


_within: Mapping[str, Callable[[Any, float], bool]] = {
    "minimum": lambda value, end: value >= end,
    "maximum": lambda value, end: value <= end,
    "exclusiveMinimum": lambda value, end: value > end,
    "exclusiveMaximum": lambda value, end: value < end,
}


def _gamma(value: object) -> float | str:
    if value in ("scale", "auto"):
        return str(value)
    try:
        return float(POSITIVE.check(value))
    except ValueError:
        raise ValueError(f"must be 'scale', 'auto' or a number above 0; got {shown(value)}") from None


def _goal(value: object) -> Goal:
    try:
        return Goal.parse(_text(value))
    except GoalParseError:
        raise
    except GoalError as error:
        raise ValueError(f"no valid goal: {error}") from error


_FUNCTION_FORM = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"


def _function(value: object) -> str:
    text = _text(value)
    if re.fullmatch(_FUNCTION_FORM, text, re.ASCII) is None:
        raise ValueError(f'must be of the form "module:function"; got {shown(value)}')
    return text


def one_of(*options: str) -> Kind:
    """One of a few words."""

    def check(value: object) -> str:
        if value not in options:
            raise ValueError(f"must be one of {', '.join(map(repr, options))}; got {shown(value)}")
        return str(value)

    return Kind(check, {"enum": list(options)})


_SOME_TEXT: Mapping[str, JSON] = {"type": "string", "minLength": 1}

TEXT = Kind(_text, _SOME_TEXT)
FILE = Kind(_file, _SOME_TEXT, is_path=True)
SEPARATOR = Kind(_separator, {"type": "string", "pattern": "^[\\x01-\\x09\\x0b\\x0c\\x0e-!#-\\x7f]$"})
TABLE = Kind(_table, {"anyOf": [_SOME_TEXT, {"type": "array", "items": _SOME_TEXT, "minItems": 1}]}, is_path=True)
TEXTS = Kind(_texts, {"type": "array", "items": {"type": "string"}, "uniqueItems": True})  # an index has the name ""
LABEL = Kind(_label, {"type": ["string", "number", "boolean"]})
NUMBER = _number("number")
POSITIVE = _number("number above 0", exclusiveMinimum=0)
COUNT = _number("whole number above 0", "integer", minimum=1)
BINS = _number("whole number from 2 to 1000", "integer", minimum=2, maximum=1000)
FOLDS = _number("whole number from 2 to 100", "integer", minimum=2, maximum=100)
FRACTION = _number("number above 0 and below 1", exclusiveMinimum=0, exclusiveMaximum=1)
CONFIDENCE = _number("number from 0.5 and below 1", minimum=0.5, exclusiveMaximum=1)
GAMMA = Kind(_gamma, {"anyOf": [{"enum": ["scale", "auto"]}, POSITIVE.schema]})
GOAL = Kind(_goal, _SOME_TEXT)
FUNCTION = Kind(_function, {"type": "string", "pattern": f"^{_FUNCTION_FORM.replace(chr(92) + 'w', '[A-Za-z0-9_]')}$"})
_KERNELS = tuple(name for name in KERNELS if name != "precomputed")  # rows of a table are no kernel values


# How sections state their keys


class Key(NamedTuple):
    """What the annotation of a key says besides its type; `name` is its name in the file, if not that of the field."""

    kind: Kind
    about: str
    name: str = ""


class Inner(NamedTuple):
    """What the annotation of a section says.

    Attributes
    ----------
    record : type
        Its dataclass.
    absent : {"refused", "none", "defaults"}
        What a file without the section gets: a problem, None in its place, or the defaults of its keys.
    exactly_one : bool
        Whether exactly one of its keys has to be there.
    named : str
        What the section holds by names that the user chooses, a `record` each; empty: it is the record itself.
    name : str
        Its name in the file, if not that of the field.
    """

    record: type
    absent: Literal["refused", "none", "defaults"] = "defaults"
    exactly_one: bool = False
    named: str = ""
    name: str = ""

    @property
    def about(self) -> str:
        """What the section is about."""
        return (self.record.__doc__ or "").partition("\n")[0]


class Entry(NamedTuple):
    """A key or section of a record: its name in the file, its field, and the default (`MISSING` where it is needed)."""

    name: str
    field: str
    part: Key | Inner
    default: object

    @property
    def is_needed(self) -> bool:
        """Whether a file without it has a problem."""
        return self.default is MISSING if isinstance(self.part, Key) else self.part.absent == "refused"


def entries(record: type) -> Iterator[Entry]:
    """The keys and sections of a record."""
    for item in dataclasses.fields(record):
        for part in getattr(item.type, "__metadata__", ()):
            yield Entry(part.name or item.name, item.name, part, item.default)


# The sections


@dataclass(frozen=True, kw_only=True)
class Split:
    """Which rows to train on and which are held out; by default all rows train."""

    column: Annotated[str, Key(TEXT, "column that says it")]
    train: Annotated[Label, Key(LABEL, "its value on rows to train on")]
    test: Annotated[Label, Key(LABEL, "its value on rows held out")]


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """The table and the roles of its columns."""

    table: Annotated[
        TablePath,
        Key(
            TABLE,
            "CSV (also .gz), Parquet or Arrow file, a list of such files (parts of one table), or a folder of Parquet "
            "parts",
        ),
    ]
    separator: Annotated[
        str | None, Key(SEPARATOR, 'between the fields of CSV files, such as ";"; of .tsv files a tab')
    ] = None
    target: Annotated[str, Key(TEXT, "column to predict")]
    positive: Annotated[Label, Key(LABEL, "its value that rates call positive")]
    features: Annotated[
        tuple[str, ...] | None, Key(TEXTS, "columns to learn from; by default all that have no other role")
    ] = None
    protected: Annotated[tuple[str, ...], Key(TEXTS, "columns that populations may use and the model never sees")] = ()
    protected_as_features: Annotated[
        tuple[str, ...], Key(TEXTS, "protected columns that the model may see all the same")
    ] = ()
    ignore: Annotated[tuple[str, ...], Key(TEXTS, "columns that nobody uses")] = ()
    words: Annotated[tuple[str, ...], Key(TEXTS, "columns to treat as words although they hold numbers (codes)")] = ()
    weight: Annotated[
        str | None, Key(TEXT, "column with the weight of each row, a number >= 0; the model never sees it")
    ] = None
    split: Annotated[Split | None, Inner(Split, absent="none")] = None


@dataclass(frozen=True, kw_only=True)
class ExternalSection:
    """An external data set: rows beside the training rows, which the goal names by `NAME = external()`."""

    table: Annotated[TablePath, Key(TABLE, "like data.table, but within the folder of this file")]
    target: Annotated[
        str | None, Key(TEXT, "column of its labels; by default data.target where it has it, else no labels")
    ] = None
    separator: Annotated[str | None, Key(SEPARATOR, "of its CSV files; by default data.separator")] = None


@dataclass(frozen=True, kw_only=True)
class BaselineSection:
    """Decisions of an earlier model, which the goal names in churn, win_rate, ..."""

    column: Annotated[str | None, Key(TEXT, "column that holds them, in the target's words")] = None
    model: Annotated[Path | None, Key(FILE, "model file (.skops) that makes them, within the folder of this file")] = (
        None
    )
    function: Annotated[
        str | None, Key(FUNCTION, "module:function that makes them of a pyarrow table; needs --allow-code")
    ] = None


@dataclass(frozen=True, kw_only=True)
class AuditSection:
    """What is promised for unseen rows, and decides on held-out ones; by default the same goal."""

    text: Annotated[Goal, Key(GOAL, "the goal; it may be looser")]


@dataclass(frozen=True, kw_only=True)
class GoalSection:
    """What is asked of the model."""

    text: Annotated[Goal, Key(GOAL, "the goal that training enforces, in the language of goals")]
    audit: Annotated[AuditSection | None, Inner(AuditSection, absent="none")] = None


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """The estimator and its first step.

    See `RateConstrainedClassifier` and `make_preprocessor`.
    """

    C: Annotated[float, Key(POSITIVE, "inverse strength of the regulariser, as in scikit-learn")] = 0.2
    enforce: Annotated[
        Literal["deterministic", "randomized"],
        Key(one_of("deterministic", "randomized"), "whose rates meet the bounds"),
    ] = "deterministic"
    numbers: Annotated[
        Literal["scale", "bins"], Key(one_of("scale", "bins"), "standard scores, or one 0/1 feature an interval")
    ] = "scale"
    bins: Annotated[int, Key(BINS, "intervals a number is cut into at most")] = 30
    rare_words: Annotated[int, Key(COUNT, "words with fewer training rows share one feature")] = 1
    kernel_name: Annotated[
        str, Key(one_of(*_KERNELS), '"linear", or a kernel of sklearn.svm.SVC, also "laplacian"', name="kernel")
    ] = "linear"
    gamma: Annotated[float | str | None, Key(GAMMA, "kernel width; larger is more local")] = None
    degree: Annotated[float | None, Key(POSITIVE, "of the kernel poly")] = None
    coef0: Annotated[float | None, Key(NUMBER, "of the kernels poly and sigmoid")] = None
    feature_map: Annotated[
        str | None, Key(one_of(*FEATURE_MAPS), "train a linear model on features that approximate the kernel")
    ] = None
    n_components: Annotated[int | None, Key(COUNT, "features of the map")] = None
    cache_size: Annotated[float | None, Key(POSITIVE, "megabytes for the kernel matrix of exact training")] = None
    time_budget: Annotated[float | None, Key(POSITIVE, "seconds after which the best model so far is kept")] = None
    on_infeasible: Annotated[
        Literal["raise", "warn"], Key(one_of("raise", "warn"), "where no model meets the goal: none, or the nearest")
    ] = "raise"

    KERNEL_KEYS = ("gamma", "degree", "coef0", "feature_map", "n_components", "cache_size")
    """Keys that are for kernels only."""

    @property
    def kernel(self) -> dict[str, Any]:
        """What the file sets of the estimator's parameters about kernels; empty for a linear model."""
        if self.kernel_name == "linear":
            return {}
        options = {name: getattr(self, name) for name in self.KERNEL_KEYS}
        return {"kernel": self.kernel_name} | {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ValidationSection:
    """Rows that training does not see."""

    fraction: Annotated[
        float | None,
        Key(FRACTION, "share of the rows kept from training: measured as test rows, or with a confidence the proof"),
    ] = None
    confidence: Annotated[
        float | None, Key(CONFIDENCE, "prove the goal for new rows with this confidence, or refuse")
    ] = None
    folds: Annotated[int | None, Key(FOLDS, "choose C and the number of steps by cross-validation under the goal")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class OutputSection:
    """Where results are saved, within the folder of this file."""

    model: Annotated[Path | None, Key(FILE, "the model that `train` saves")] = None
    report: Annotated[Path | None, Key(FILE, "the HTML page that `report` writes")] = None
    predictions: Annotated[Path | None, Key(FILE, "the table that `predict` writes")] = None


CardSection = dataclasses.make_dataclass(
    "CardSection",
    [(name, Annotated[str | None, Key(TEXT, f"the entry “{heading}”")], None) for name, heading in CARD_KEYS.items()],
    namespace={
        "__doc__": "What only the owner can say of the model; the report's model card shows it, and marks what is not "
        "stated."
    },
    frozen=True, kw_only=True,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GoalsFile:
    """A goals file of widemargin.

    Attributes
    ----------
    path : Path
    allowed_folders : tuple of Path
        Where external tables may lie: the folder of the file, and those that the command line allowed.
    lines : TomlLines or None
        Where its keys stand.
    """

    path: Path
    data: Annotated[DataSection, Inner(DataSection, absent="refused")]
    external: Annotated[Mapping[str, ExternalSection], Inner(ExternalSection, named="External data sets by name.")] = (
        field(default_factory=dict)
    )
    earlier: Annotated[
        Mapping[str, BaselineSection],
        Inner(BaselineSection, exactly_one=True, named="Earlier models by name.", name="baselines"),
    ] = field(default_factory=dict)
    goals: Annotated[GoalSection, Inner(GoalSection, absent="refused", name="goal")]
    model: Annotated[ModelSection, Inner(ModelSection)] = ModelSection()
    validation: Annotated[ValidationSection, Inner(ValidationSection)] = ValidationSection()
    outputs: Annotated[OutputSection, Inner(OutputSection, name="output")] = OutputSection()
    card_section: Annotated[object, Inner(CardSection, name="card")] = CardSection()
    allowed_folders: tuple[Path, ...] = ()
    lines: TomlLines | None = field(default=None, compare=False, repr=False)

    @property
    def goal(self) -> Goal:
        """What training enforces."""
        return self.goals.text

    @property
    def audit_goal(self) -> Goal | None:
        """What is promised for unseen rows (may be looser); None: the same goal."""
        return None if self.goals.audit is None else self.goals.audit.text

    def goal_for(self, part: str) -> Goal:
        """What is measured on a part of the rows: the goal on those trained on, else what is promised."""
        return self.goal if part == "train" or self.audit_goal is None else self.audit_goal

    @property
    def baselines(self) -> dict[str, str]:
        """Name in the goal -> column that holds the earlier model's decisions."""
        return {name: said.column for name, said in self.earlier.items() if said.column is not None}

    @property
    def baseline_models(self) -> dict[str, Path]:
        """Name in the goal -> model file."""
        return {name: said.model for name, said in self.earlier.items() if said.model is not None}

    @property
    def baseline_functions(self) -> dict[str, str]:
        """Name in the goal -> "module:function"; empty unless the command line allowed code."""
        return {name: said.function for name, said in self.earlier.items() if said.function is not None}

    @property
    def baseline_names(self) -> tuple[str, ...]:
        """All baselines: columns, models and functions."""
        return (*self.baselines, *self.baseline_models, *self.baseline_functions)

    @property
    def card(self) -> dict[str, str]:
        """What the owner says in the report's model card, by heading."""
        said = {heading: getattr(self.card_section, name) for name, heading in CARD_KEYS.items()}
        return {heading: text for heading, text in said.items() if text is not None}


def table_text(table: TablePath) -> str:
    """A table in messages."""
    if not isinstance(table, tuple):
        return str(table)
    return str(table[0]) if len(table) == 1 else f"{table[0]} and {len(table) - 1} more"


# What follows from the sections for editors and for the documentation


def documented_keys(record: type = GoalsFile, prefix: str = "") -> dict[str, Entry]:
    """All keys by their full names, `NAME` standing for a name that the user chooses."""
    keys: dict[str, Entry] = {}
    for entry in entries(record):
        if isinstance(entry.part, Key):
            keys[prefix + entry.name] = entry
        else:
            below = f"{prefix}{entry.name}.NAME." if entry.part.named else f"{prefix}{entry.name}."
            keys |= documented_keys(entry.part.record, below)
    return keys


def goals_schema() -> dict[str, JSON]:
    """JSON Schema of goals files, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "widemargin goals file",
        **_section_schema(Inner(GoalsFile)),
    }


def _section_schema(section: Inner) -> dict[str, JSON]:
    if section.named:
        each = _section_schema(section._replace(named=""))
        return {"description": section.named, "type": "object", "additionalProperties": each}
    inside = list(entries(section.record))
    schema: dict[str, JSON] = {
        "description": section.about,
        "type": "object",
        "properties": {
            entry.name: _key_schema(entry.part, entry.default)
            if isinstance(entry.part, Key)
            else _section_schema(entry.part)
            for entry in inside
        },
        "additionalProperties": False,
    }
    if section.exactly_one:
        return schema | {"minProperties": 1, "maxProperties": 1}
    needed: list[JSON] = [entry.name for entry in inside if entry.is_needed]
    return schema | ({"required": needed} if needed else {})


def _key_schema(key: Key, default: Any) -> dict[str, JSON]:
    stated = {} if default is MISSING or default is None else {"default": default}
    if isinstance(default, tuple):
        stated = {"default": list(default)}
    return {"description": key.about, **key.kind.schema, **stated}
