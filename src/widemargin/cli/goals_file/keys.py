"""Every section and key of a goals file, in one table: the reader, the JSON Schema and the documentation go by it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from widemargin.cli.card import CARD_KEYS
from widemargin.cli.goals_file.kinds import (
    BINS,
    CONFIDENCE,
    COUNT,
    FILE,
    FOLDS,
    FRACTION,
    FUNCTION,
    GAMMA,
    GOAL,
    LABEL,
    NUMBER,
    POSITIVE,
    SEPARATOR,
    TABLE,
    TEXT,
    TEXTS,
    Kind,
    one_of,
)
from widemargin.kernels.feature_maps import FEATURE_MAPS
from widemargin.kernels.functions import KERNELS

__all__ = ["GOALS_FILE", "KERNEL_KEYS", "LINEAR", "REQUIRED", "Key", "Named", "Section", "documented_keys"]

REQUIRED = object()
LINEAR = "linear"
KERNEL_KEYS = ("gamma", "degree", "coef0", "feature_map", "n_components", "cache_size")
"""Keys of [model] that are for kernels only."""
_KERNELS = tuple(name for name in KERNELS if name != "precomputed")  # rows of a table are no kernel values


@dataclass(frozen=True)
class Key:
    """A key: its kind, what it says, its default (`REQUIRED`: none)."""

    kind: Kind
    about: str
    default: Any = REQUIRED


@dataclass(frozen=True)
class Section:
    """A section: its keys and sections.

    Attributes
    ----------
    absent : {"refused", "none", "defaults"}
        What a file without the section gets: a problem, None in its place, or the defaults of its keys.
    exactly_one : bool
        Whether exactly one of its keys has to be there.
    """

    about: str
    parts: Mapping[str, "Part"] = field(default_factory=dict)
    absent: Literal["refused", "none", "defaults"] = "defaults"
    exactly_one: bool = False


@dataclass(frozen=True)
class Named:
    """A section of sections whose names the user chooses."""

    about: str
    each: Section


Part: TypeAlias = Key | Section | Named

_DATA = Section(
    "The table and the roles of its columns.",
    {
        "table": Key(
            TABLE,
            "CSV (also .gz), Parquet or Arrow file, a list of such files (parts of one table), or a folder of Parquet "
            "parts",
        ),
        "separator": Key(SEPARATOR, 'between the fields of CSV files, such as ";"; of .tsv files a tab', None),
        "target": Key(TEXT, "column to predict"),
        "positive": Key(LABEL, "its value that rates call positive"),
        "features": Key(TEXTS, "columns to learn from; by default all that have no other role", None),
        "protected": Key(TEXTS, "columns that populations may use and the model never sees", ()),
        "protected_as_features": Key(TEXTS, "protected columns that the model may see all the same", ()),
        "ignore": Key(TEXTS, "columns that nobody uses", ()),
        "words": Key(TEXTS, "columns to treat as words although they hold numbers (codes)", ()),
        "weight": Key(TEXT, "column with the weight of each row, a number >= 0; the model never sees it", None),
        "split": Section(
            "Which rows to train on and which are held out; by default all rows train.",
            {
                "column": Key(TEXT, "column that says it"),
                "train": Key(LABEL, "its value on rows to train on"),
                "test": Key(LABEL, "its value on rows held out"),
            },
            absent="none",
        ),
    },
    absent="refused",
)

_EXTERNAL = Section(
    "An external data set: rows beside the training rows, which the goal names by `NAME = external()`.",
    {
        "table": Key(TABLE, "like data.table, but within the folder of this file"),
        "target": Key(TEXT, "column of its labels; by default data.target where it has it, else no labels", None),
        "separator": Key(SEPARATOR, "of its CSV files; by default data.separator", None),
    },
)

_BASELINE = Section(
    "Decisions of an earlier model, which the goal names in churn, win_rate, ...",
    {
        "column": Key(TEXT, "column that holds them, in the target's words"),
        "model": Key(FILE, "model file (.skops) that makes them, within the folder of this file"),
        "function": Key(FUNCTION, "module:function that makes them of a pyarrow table; needs --allow-code"),
    },
    exactly_one=True,
)

_GOAL = Section(
    "What is asked of the model.",
    {
        "text": Key(GOAL, "the goal that training enforces, in the language of goals"),
        "audit": Section(
            "What is promised for unseen rows, and decides on held-out ones; by default the same goal.",
            {"text": Key(GOAL, "the goal; it may be looser")},
            absent="none",
        ),
    },
    absent="refused",
)

_MODEL = Section(
    "The estimator and its first step.",
    {
        "C": Key(POSITIVE, "inverse strength of the regulariser, as in scikit-learn", 0.2),
        "enforce": Key(one_of("deterministic", "randomized"), "whose rates meet the bounds", "deterministic"),
        "numbers": Key(one_of("scale", "bins"), "standard scores, or one 0/1 feature an interval", "scale"),
        "bins": Key(BINS, "intervals a number is cut into at most", 30),
        "rare_words": Key(COUNT, "words with fewer training rows share one feature", 1),
        "kernel": Key(one_of(*_KERNELS), '"linear", or a kernel of sklearn.svm.SVC, also "laplacian"', LINEAR),
        "gamma": Key(GAMMA, "kernel width; larger is more local", None),
        "degree": Key(POSITIVE, "of the kernel poly", None),
        "coef0": Key(NUMBER, "of the kernels poly and sigmoid", None),
        "feature_map": Key(one_of(*FEATURE_MAPS), "train a linear model on features that approximate the kernel", None),
        "n_components": Key(COUNT, "features of the map", None),
        "cache_size": Key(POSITIVE, "megabytes for the kernel matrix of exact training", None),
        "time_budget": Key(POSITIVE, "seconds after which the best model so far is kept", None),
        "on_infeasible": Key(one_of("raise", "warn"), "where no model meets the goal: none, or the nearest", "raise"),
    },
)  # fmt: skip

_VALIDATION = Section(
    "Rows that training does not see.",
    {
        "fraction": Key(
            FRACTION,
            "share of the rows kept from training: measured as test rows, or with a confidence the proof",
            None,
        ),
        "confidence": Key(CONFIDENCE, "prove the goal for new rows with this confidence, or refuse", None),
        "folds": Key(FOLDS, "choose C and the number of steps by cross-validation under the goal", None),
    },
)

_OUTPUT = Section(
    "Where results are saved, within the folder of this file.",
    {
        "model": Key(FILE, "the model that `train` saves", None),
        "report": Key(FILE, "the HTML page that `report` writes", None),
        "predictions": Key(FILE, "the table that `predict` writes", None),
    },
)

_CARD = Section(
    "What only the owner can say of the model; the report's model card shows it, and marks what is not stated.",
    {key: Key(TEXT, f"the entry “{heading}”", None) for key, heading in CARD_KEYS.items()},
)

GOALS_FILE = Section(
    "A goals file of widemargin.",
    {
        "data": _DATA,
        "external": Named("External data sets by name.", _EXTERNAL),
        "baselines": Named("Earlier models by name.", _BASELINE),
        "goal": _GOAL,
        "model": _MODEL,
        "validation": _VALIDATION,
        "output": _OUTPUT,
        "card": _CARD,
    },
)


def documented_keys(part: Part = GOALS_FILE, name: str = "") -> dict[str, Key]:
    """All keys by their full names, `NAME` standing for a name that the user chooses."""
    if isinstance(part, Key):
        return {name: part}
    inner = {"NAME": part.each} if isinstance(part, Named) else part.parts
    found: dict[str, Key] = {}
    for word, below in inner.items():
        found |= documented_keys(below, f"{name}.{word}" if name else word)
    return found
