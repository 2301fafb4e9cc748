"""What a goals file says, as frozen records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from widemargin.cli.goals_file.toml_lines import TomlLines
from widemargin.goals import Goal

__all__ = [
    "DataSection", "ExternalSection", "GoalsFile", "Label", "ModelSection", "Split", "TablePath", "ValidationSection",
    "table_text",
]  # fmt: skip

Label: TypeAlias = str | int | float | bool
TablePath: TypeAlias = Path | tuple[Path, ...]
"""One file or folder, or the parts of one table."""


@dataclass(frozen=True)
class Split:
    """The column that says which rows are for training and which are held out, and the two words in it."""

    column: str
    train: Label
    test: Label


@dataclass(frozen=True)
class DataSection:
    """The table and the roles of its columns."""

    table: TablePath
    target: str
    positive: Label
    features: tuple[str, ...] | None
    protected: tuple[str, ...]
    ignore: tuple[str, ...]
    words: tuple[str, ...]
    split: Split | None
    protected_as_features: tuple[str, ...] = ()
    separator: str | None = None
    weight: str | None = None


@dataclass(frozen=True)
class ExternalSection:
    """The table of an external data set, the column of its labels (None: that of the main target, if there), and what
    separates the fields of its CSV files (None: as in the main table)."""

    table: TablePath
    target: str | None = None
    separator: str | None = None


@dataclass(frozen=True)
class ModelSection:
    """Options of the estimator and of its first step; see `RateConstrainedClassifier` and `make_preprocessor`.

    `kernel` holds what the file sets of the estimator's kernel, gamma, degree, coef0, feature_map, n_components and
    cache_size; it is empty for a linear model.
    """

    C: float
    enforce: Literal["deterministic", "randomized"]
    numbers: Literal["scale", "bins"]
    bins: int
    time_budget: float | None
    on_infeasible: Literal["raise", "warn"] = "raise"
    kernel: Mapping[str, Any] = field(default_factory=dict)
    rare_words: int = 1


@dataclass(frozen=True)
class ValidationSection:
    """Rows kept from training: a share of them, a confidence to prove, or folds to choose C by."""

    fraction: float | None = None
    confidence: float | None = None
    folds: int | None = None


@dataclass(frozen=True)
class GoalsFile:
    """A goals file that has been read and checked.

    Attributes
    ----------
    path : Path
    data : DataSection
    baselines : mapping of str to str
        Name in the goal -> column that holds the earlier model's decisions.
    goal : Goal
        What training enforces.
    audit_goal : Goal or None
        What is promised for unseen rows (may be looser); None: the same goal.
    model : ModelSection
    output, report, predictions : Path or None
        Where `train` saves the model, `report` its page and `predict` its table.
    external : mapping of str to ExternalSection
    baseline_models : mapping of str to Path
        Name in the goal -> model file.
    baseline_functions : mapping of str to str
        Name in the goal -> "module:function"; empty unless the command line allowed code.
    validation : ValidationSection
    card : mapping of str to str
        What the owner says in the report's model card, by heading.
    allowed_folders : tuple of Path
        Where external tables may lie: the folder of the file, and those that the command line allowed.
    lines : TomlLines or None
        Where its keys stand.
    """

    path: Path
    data: DataSection
    baselines: Mapping[str, str]
    goal: Goal
    audit_goal: Goal | None
    model: ModelSection
    output: Path | None
    report: Path | None = None
    predictions: Path | None = None
    external: Mapping[str, ExternalSection] = field(default_factory=dict)
    baseline_models: Mapping[str, Path] = field(default_factory=dict)
    baseline_functions: Mapping[str, str] = field(default_factory=dict)
    validation: ValidationSection = ValidationSection()
    card: Mapping[str, str] = field(default_factory=dict)
    allowed_folders: tuple[Path, ...] = ()
    lines: TomlLines | None = field(default=None, compare=False, repr=False)

    @property
    def baseline_names(self) -> tuple[str, ...]:
        """All baselines: columns, models and functions."""
        return (*self.baselines, *self.baseline_models, *self.baseline_functions)

    def goal_for(self, part: str) -> Goal:
        """What is measured on a part of the rows: the goal on those trained on, else what is promised."""
        return self.goal if part == "train" or self.audit_goal is None else self.audit_goal


def table_text(table: TablePath) -> str:
    """A table in messages."""
    if not isinstance(table, tuple):
        return str(table)
    return str(table[0]) if len(table) == 1 else f"{table[0]} and {len(table) - 1} more"
