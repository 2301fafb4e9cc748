"""Every section and key of a goals file, stated once: reader, records, JSON Schema and documentation come from here.

A section is a frozen dataclass whose docstring begins with what the section is about. Its fields are keys, each with
its kind (how a value is checked, and how JSON Schema says the same) and what it means, or sections.
"""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, dataclass_transform

from widemargin._typing import JSON
from widemargin.cli.console import CARD_KEYS
from widemargin.cli.goals_file.toml_lines import TomlLines
from widemargin.cli.tables.csv_reading import DECIMALS, CsvFormat
from widemargin.exceptions import GoalError, GoalParseError
from widemargin.goals import Goal
from widemargin.kernels.functions import FEATURE_MAPS, KERNELS

Label: TypeAlias = str | int | float | bool
TablePath: TypeAlias = Path | tuple[Path, ...]
"""One file or folder, or the parts of one table."""
Record = TypeVar("Record")


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


def _kind(must: str, holds: Callable[[Any], bool], schema: Mapping[str, JSON], store: type | None = None) -> Kind:
    """A kind of values for which a condition holds; `must` says what they must be."""

    def check(value: object) -> Any:
        if not holds(value):
            raise ValueError(f"must be {must}; got {shown(value)}")
        return value if store is None else store(value)

    return Kind(check, schema)


def _number(must: str, type_: str = "number", **limits: float) -> Kind:
    """A number within the limits of JSON Schema; `must` tells people the same."""
    within: dict[str, Callable[[float, float], bool]] = {
        "minimum": lambda value, end: value >= end,
        "maximum": lambda value, end: value <= end,
        "exclusiveMinimum": lambda value, end: value > end,
        "exclusiveMaximum": lambda value, end: value < end,
    }
    types, store = (int, int) if type_ == "integer" else (int | float, float)

    def holds(value: Any) -> bool:
        is_number = isinstance(value, types) and not isinstance(value, bool)
        # A float must hold it: neither infinite, nor a whole number of more digits.
        is_finite = is_number and abs(value) <= sys.float_info.max
        return is_finite and all(within[limit](value, end) for limit, end in limits.items())

    return _kind(f"a {must}", holds, {"type": type_, **limits}, store)


def one_of(*options: str) -> Kind:
    """One of a few words."""
    return _kind(f"one of {', '.join(map(repr, options))}", lambda value: value in options, {"enum": list(options)})


def _file(value: object) -> str:
    if not TEXT.check(value).isprintable():
        raise ValueError(f"must be a file name without control characters; got {shown(value)}")
    return str(value)


def _table(value: object) -> str | tuple[str, ...]:
    if value == []:
        raise ValueError("must name at least one file; got []")
    return tuple(map(_file, value)) if isinstance(value, list) else _file(value)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'must be a list of column names, such as ["sex"]; got {shown(value)}')
    if len(set(value)) < len(value):
        raise ValueError(f"names a column twice: {shown(value)}. Name each once")
    return tuple(value)


def _gamma(value: object) -> float | str:
    if value in ("scale", "auto"):
        return str(value)
    try:
        return float(POSITIVE.check(value))
    except ValueError:
        raise ValueError(f"must be 'scale', 'auto' or a number above 0; got {shown(value)}") from None


def _goal(value: object) -> Goal:
    try:
        return Goal.parse(TEXT.check(value))
    except GoalParseError:
        raise
    except GoalError as error:
        raise ValueError(f"no valid goal: {error}") from error


_SOME_TEXT: Mapping[str, JSON] = {"type": "string", "minLength": 1}

TEXT = _kind("a text between quotes", lambda value: isinstance(value, str) and value != "", _SOME_TEXT)
FILE = Kind(_file, _SOME_TEXT, is_path=True)
SEPARATOR = _kind(
    'one character, such as ";" or "\\t"',
    lambda value: isinstance(value, str) and len(value) == 1 and value.isascii() and value not in '\r\n"\0',
    {"type": "string", "pattern": "^[\\x01-\\x09\\x0b\\x0c\\x0e-!#-\\x7f]$"},
)
TABLE = Kind(_table, {"anyOf": [_SOME_TEXT, {"type": "array", "items": _SOME_TEXT, "minItems": 1}]}, is_path=True)
TEXTS = Kind(_texts, {"type": "array", "items": {"type": "string"}, "uniqueItems": True})  # an index has the name ""
PARTS = Kind(
    lambda value: tuple(map(one_of("month", "weekday").check, _texts(value))),
    {"type": "array", "items": {"enum": ["month", "weekday"]}, "uniqueItems": True},
)
LABEL = _kind(
    "one value of the column", lambda value: isinstance(value, Label), {"type": ["string", "number", "boolean"]}
)
NUMBER = _number("number")
POSITIVE = _number("number above 0", exclusiveMinimum=0)
COUNT = _number("whole number above 0", "integer", minimum=1)
BINS = _number("whole number from 2 to 1000", "integer", minimum=2, maximum=1000)
FOLDS = _number("whole number from 2 to 100", "integer", minimum=2, maximum=100)
FRACTION = _number("number above 0 and below 1", exclusiveMinimum=0, exclusiveMaximum=1)
CONFIDENCE = _number("number from 0.5 and below 1", minimum=0.5, exclusiveMaximum=1)
GAMMA = Kind(_gamma, {"anyOf": [{"enum": ["scale", "auto"]}, POSITIVE.schema]})
GOAL = Kind(_goal, _SOME_TEXT)
_FUNCTION = "^[A-Za-z_][A-Za-z0-9_]*(\\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"
FUNCTION = _kind(
    'of the form "module:function"',
    lambda value: isinstance(value, str) and re.fullmatch(_FUNCTION, value) is not None,
    {"type": "string", "pattern": _FUNCTION},
)


# How sections state their keys


class Key(NamedTuple):
    """What a field says of a key besides its type; `name` is its name in the file, if not that of the field."""

    kind: Kind
    about: str
    name: str = ""


class Inner(NamedTuple):
    """What a field says of a section.

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


def _key(kind: Kind, about: str, *, default: Any = MISSING, name: str = "") -> Any:
    """A field that is a key; without a default it has to be there."""
    return dataclasses.field(default=default, metadata={"part": Key(kind, about, name)})


def _inner(inner: Inner, *, default: Any = MISSING, default_factory: Any = MISSING) -> Any:
    """A field that is a section."""
    return dataclasses.field(default=default, default_factory=default_factory, metadata={"part": inner})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(_key, _inner, dataclasses.field))
def _section(record: type[Record]) -> type[Record]:
    return dataclass(frozen=True, kw_only=True)(record)


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
        part = item.metadata.get("part")
        if part is not None:
            yield Entry(part.name or item.name, item.name, part, item.default)


# The sections


@_section
class Split:
    """Which rows to train on and which are held out; by default all rows train."""

    column: str = _key(TEXT, "column that says it")
    train: Label = _key(LABEL, "its value on rows to train on")
    test: Label = _key(LABEL, "its value on rows held out")


@_section
class DataSection:
    """The table and the roles of its columns."""

    table: TablePath = _key(
        TABLE,
        "CSV (also .gz), Parquet or Arrow file, a list of such files (parts of one table), or a folder of Parquet "
        "parts",
    )
    separator: str | None = _key(SEPARATOR, 'between the fields of CSV files, such as ";"; of .tsv files a tab',
                                 default=None)  # fmt: skip
    decimal: str = _key(one_of(*DECIMALS), "before the decimals of numbers in CSV files", default=".")
    missing: tuple[str, ...] = _key(TEXTS, "texts of CSV files that stand for no value, such as \"n/a!\", beside empty "
                                    "fields and the usual spellings (NA, NaN, null, ...)", default=())  # fmt: skip
    target: str = _key(TEXT, "column to predict")
    positive: Label | None = _key(LABEL, "its value that rates call positive; not for a target of several classes, "
                                  "whose goal names them: recall(of=\"cat\")", default=None)  # fmt: skip
    unlabelled: Literal["refuse", "drop"] = _key(
        one_of("refuse", "drop"), 'rows without a value of the target: refused by a message that counts them, or '
        'dropped, from training and from audits', default="refuse"
    )  # fmt: skip
    features: tuple[str, ...] | None = _key(TEXTS, "columns to learn from; by default all that have no other role",
                                            default=None)  # fmt: skip
    protected: tuple[str, ...] = _key(TEXTS, "columns that populations may use and the model never sees", default=())
    protected_as_features: tuple[str, ...] = _key(TEXTS, "protected columns that the model may see all the same",
                                                  default=())  # fmt: skip
    ignore: tuple[str, ...] = _key(TEXTS, "columns that nobody uses", default=())
    words: tuple[str, ...] = _key(TEXTS, "columns to treat as words although they hold numbers (codes)", default=())
    dates: tuple[str, ...] = _key(TEXTS, "columns of days (2024-01-31, 31.01.2024) or times, as numbers of days",
                                  default=())  # fmt: skip
    date_parts: tuple[Literal["month", "weekday"], ...] = _key(
        PARTS, "what else becomes of data.dates: a feature a month, or weekday", default=()
    )
    weight: str | None = _key(TEXT, "column with the weight of each row, a number >= 0; the model never sees it",
                              default=None)  # fmt: skip
    split: Split | None = _inner(Inner(Split, absent="none"), default=None)

    @property
    def needed(self) -> str | None:
        """The column of which rows without a value are left out."""
        return self.target if self.unlabelled == "drop" else None

    @property
    def csv(self) -> CsvFormat:
        """How its CSV files are written."""
        return {"words": self.words, "separator": self.separator, "decimal": self.decimal, "missing": self.missing}


@_section
class ExternalSection:
    """An external data set: rows beside the training rows, which the goal names by `NAME = external()`."""

    table: TablePath = _key(TABLE, "like data.table, but within the folder of this file")
    target: str | None = _key(TEXT, "column of its labels; by default data.target where it has it, else no labels",
                              default=None)  # fmt: skip
    separator: str | None = _key(SEPARATOR, "of its CSV files; by default data.separator", default=None)


@_section
class BaselineSection:
    """Decisions of an earlier model, which the goal names in churn, win_rate, ..."""

    column: str | None = _key(TEXT, "column that holds them, in the target's words", default=None)
    model: Path | None = _key(FILE, "model file (.skops) that makes them, within the folder of this file", default=None)
    function: str | None = _key(FUNCTION, "module:function that makes them of a pyarrow table; needs --allow-code",
                                default=None)  # fmt: skip


@_section
class AuditSection:
    """What is promised for unseen rows, and decides on held-out ones; by default the same goal."""

    text: Goal = _key(GOAL, "the goal; it may be looser")


@_section
class GoalSection:
    """The goal of the model."""

    text: Goal = _key(GOAL, "the goal that training enforces, in the language of goals")
    audit: AuditSection | None = _inner(Inner(AuditSection, absent="none"), default=None)


@_section
class ModelSection:
    """The estimator and its first step.

    See `RateConstrainedClassifier` and `make_preprocessor`.
    """

    learner: Literal["svm", "trees"] = _key(
        one_of("svm", "trees"), 'a linear or kernel SVM, or boosted trees ("trees"), by `GoalReduction`', default="svm"
    )
    C: float = _key(POSITIVE, "inverse strength of the regulariser, as in scikit-learn", default=0.2)
    enforce: Literal["deterministic", "randomized"] = _key(
        one_of("deterministic", "randomized"), "whose rates meet the bounds", default="deterministic"
    )
    numbers: Literal["scale", "bins"] = _key(
        one_of("scale", "bins"), "standard scores, or one 0/1 feature an interval", default="scale"
    )
    bins: int = _key(BINS, "intervals a number is cut into at most", default=30)
    rare_words: int = _key(COUNT, "words with fewer training rows share one feature", default=1)
    kernel_name: str = _key(
        one_of(*(name for name in KERNELS if name != "precomputed")),  # rows of a table are no kernel values
        '"linear", or a kernel of sklearn.svm.SVC, also "laplacian"', default="linear", name="kernel",
    )  # fmt: skip
    gamma: float | str | None = _key(GAMMA, "kernel width; larger is more local", default=None)
    degree: float | None = _key(POSITIVE, "of the kernel poly", default=None)
    coef0: float | None = _key(NUMBER, "of the kernels poly and sigmoid", default=None)
    feature_map: str | None = _key(
        one_of(*FEATURE_MAPS), "train a linear model on features that approximate the kernel", default=None
    )
    n_components: int | None = _key(COUNT, "features of the map", default=None)
    cache_size: float | None = _key(POSITIVE, "megabytes for the kernel matrix of exact training", default=None)
    time_budget: float | None = _key(POSITIVE, "seconds after which the best model so far is kept", default=None)
    abstain: str | None = _key(
        TEXT, "what the model, logistic regression with two thresholds that meet the goal, answers where it decides "
        'nothing; "undecided" by default where the goal is about decisions, as selective_error() is', default=None,
    )  # fmt: skip
    thresholds_by: str | None = _key(
        TEXT, "column each value of which gets two thresholds of its own; the model, which abstains, decides by it",
        default=None,
    )  # fmt: skip
    on_infeasible: Literal["raise", "warn"] = _key(
        one_of("raise", "warn"), "where no model meets the goal: none, or the nearest", default="raise"
    )

    @property
    def kernel(self) -> dict[str, Any]:
        """What the file sets of the estimator's parameters about kernels; empty for a linear model."""
        if self.kernel_name == "linear":
            return {}
        options = {name: getattr(self, name) for name in KERNEL_KEYS}
        return {"kernel": self.kernel_name} | {name: value for name, value in options.items() if value is not None}


KERNEL_KEYS = ("gamma", "degree", "coef0", "feature_map", "n_components", "cache_size")
"""Keys of [model] that are for kernels only."""


@_section
class ValidationSection:
    """Rows that training does not see."""

    fraction: float | None = _key(
        FRACTION, "share of the rows kept from training: measured as test rows, or with a confidence the proof",
        default=None,
    )  # fmt: skip
    confidence: float | None = _key(CONFIDENCE, "prove the goal for new rows with this confidence, or refuse",
                                    default=None)  # fmt: skip
    folds: int | None = _key(FOLDS, "choose C and the number of steps by cross-validation under the goal", default=None)

    @property
    def test_fraction(self) -> float | None:
        """The share of the rows that are held out and measured as test rows."""
        return self.fraction if self.confidence is None else None


@_section
class OutputSection:
    """Where results are saved, within the folder of this file."""

    model: Path | None = _key(FILE, "the model that `train` saves", default=None)
    report: Path | None = _key(FILE, "the HTML page that `report` writes", default=None)
    predictions: Path | None = _key(FILE, "the table that `predict` writes", default=None)


CardSection = dataclasses.make_dataclass(
    "CardSection",
    [(name, str, _key(TEXT, f"the entry “{heading}”", default=None)) for name, heading in CARD_KEYS.items()],
    namespace={
        "__doc__": "What only the owner can say of the model; the report's model card shows it, and marks what is not "
        "stated."
    },
    frozen=True, kw_only=True,
)  # fmt: skip


@_section
class GoalsFile:
    """A goals file of widemargin.

    Attributes
    ----------
    path : Path
    allowed_folders : tuple of Path
        Where external tables may lie: the folder of the file, and those that the command line allowed.
    lines : TomlLines
        Where its keys stand.
    """

    path: Path
    data: DataSection = _inner(Inner(DataSection, absent="refused"))
    external: Mapping[str, ExternalSection] = _inner(
        Inner(ExternalSection, named="External data sets by name."), default_factory=dict
    )
    earlier: Mapping[str, BaselineSection] = _inner(
        Inner(BaselineSection, exactly_one=True, named="Earlier models by name.", name="baselines"),
        default_factory=dict,
    )
    goals: GoalSection = _inner(Inner(GoalSection, absent="refused", name="goal"))
    model: ModelSection = _inner(Inner(ModelSection), default=ModelSection())
    validation: ValidationSection = _inner(Inner(ValidationSection), default=ValidationSection())
    outputs: OutputSection = _inner(Inner(OutputSection, name="output"), default=OutputSection())
    card_section: object = _inner(Inner(CardSection, name="card"), default=CardSection())
    allowed_folders: tuple[Path, ...] = ()
    lines: TomlLines = dataclasses.field(default=TomlLines(""), compare=False, repr=False)

    @property
    def goal(self) -> Goal:
        """What training enforces."""
        return self.goals.text

    @property
    def audit_goal(self) -> Goal | None:
        """What is promised for unseen rows (may be looser); None: the same goal."""
        return None if self.goals.audit is None else self.goals.audit.text

    @property
    def abstain(self) -> str | None:
        """What the model answers where it decides nothing; None: it decides every row."""
        return self.model.abstain or ("undecided" if self.goal.counts_decisions else None)

    def goal_for(self, part: str) -> Goal:
        """What is measured on a part of the rows: the goal on those trained on, else what is promised."""
        return self.goal if part == "train" or self.audit_goal is None else self.audit_goal

    @property
    def baselines(self) -> dict[str, str]:
        """Name in the goal -> column that holds the earlier model's decisions."""
        return {name: section.column for name, section in self.earlier.items() if section.column is not None}

    @property
    def baseline_models(self) -> dict[str, Path]:
        """Name in the goal -> model file."""
        return {name: section.model for name, section in self.earlier.items() if section.model is not None}

    @property
    def baseline_functions(self) -> dict[str, str]:
        """Name in the goal -> "module:function"; empty unless the command line allowed code."""
        return {name: section.function for name, section in self.earlier.items() if section.function is not None}

    @property
    def baseline_names(self) -> tuple[str, ...]:
        """All baselines: columns, models and functions."""
        return (*self.baselines, *self.baseline_models, *self.baseline_functions)

    @property
    def roles(self) -> dict[str, str]:
        """Columns that play a role other than that of a feature, each with the key that names it."""
        data = self.data
        columns = {} if data.weight is None else {data.weight: "data.weight"}
        columns |= {column: f"baselines.{name}" for name, column in self.baselines.items()}
        columns |= {data.target: "data.target"} | dict.fromkeys(data.protected, "data.protected")
        columns |= dict.fromkeys(data.ignore, "data.ignore")
        return columns if data.split is None else columns | {data.split.column: "data.split"}

    @property
    def card(self) -> dict[str, str]:
        """What the owner says in the report's model card, by heading."""
        texts = {heading: getattr(self.card_section, name) for name, heading in CARD_KEYS.items()}
        return {heading: text for heading, text in texts.items() if text is not None}


def paths_of(table: TablePath) -> tuple[Path, ...]:
    """The files of a table, as the goals file names them."""
    return table if isinstance(table, tuple) else (table,)


def table_text(table: TablePath) -> str:
    """A table in messages."""
    if not isinstance(table, tuple):
        return str(table)
    return str(table[0]) if len(table) == 1 else f"{table[0]} and {len(table) - 1} more"


# What follows from the sections for editors


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
    inside, properties = list(entries(section.record)), dict[str, JSON]()
    for name, _, part, default in inside:
        if isinstance(part, Inner):
            properties[name] = _section_schema(part)
        else:
            stated: Any = list(default) if isinstance(default, tuple) else default
            has_default = default is not MISSING and default is not None
            properties[name] = {
                "description": part.about, **part.kind.schema, **({"default": stated} if has_default else {}),
            }  # fmt: skip
    schema: dict[str, JSON] = {
        "description": (section.record.__doc__ or "").partition("\n")[0],
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    needed: list[JSON] = [entry.name for entry in inside if entry.is_needed]
    if section.exactly_one:
        return schema | {"minProperties": 1, "maxProperties": 1}
    return schema | ({"required": needed} if needed else {})
