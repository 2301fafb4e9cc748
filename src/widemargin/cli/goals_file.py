"""Goals files: TOML read into checked, frozen records. Every problem is named by its key, all of them at once.

Sections: `[data]` (table, target, positive, features, protected, ignore, words, split), `[baselines]`, `[goal]` with
`[goal.audit]`, `[model]`, `[output]`. Unknown keys are refused, with the nearest known one. Paths are relative to the
file.
"""

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from widemargin.exceptions import GoalError, GoalsFileError
from widemargin.goals import Goal
from widemargin.kernels.feature_maps import FEATURE_MAPS
from widemargin.kernels.functions import KERNELS

__all__ = ["DataSection", "GoalsFile", "ModelSection", "Split", "read_goals_file"]

Label = str | int | float | bool
_MAX_BYTES = 1 << 20
_REQUIRED = object()
_LINEAR = "linear"
_FILE_KERNELS = tuple(name for name in KERNELS if name != "precomputed")  # rows of a table are no kernel values


@dataclass(frozen=True)
class Split:
    """The column that says which rows are for training and which are held out, and the two words in it."""

    column: str
    train: Label
    test: Label


@dataclass(frozen=True)
class DataSection:
    """The table and the roles of its columns."""

    table: Path
    target: str
    positive: Label
    features: tuple[str, ...] | None
    protected: tuple[str, ...]
    ignore: tuple[str, ...]
    words: tuple[str, ...]
    split: Split | None


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
    output : Path or None
        Where `train` saves the model.
    """

    path: Path
    data: DataSection
    baselines: Mapping[str, str]
    goal: Goal
    audit_goal: Goal | None
    model: ModelSection
    output: Path | None


def read_goals_file(path: Path) -> GoalsFile:
    """Read and check a goals file.

    Raises
    ------
    GoalsFileError
        The file cannot be read or is no TOML, or with a list of everything that is wrong in it.
    """
    problems: list[str] = []
    root = _Section("", _parsed(path), problems)
    goals = _collected(root, path)
    root.refuse_unknown()
    if not problems:  # else some values are None
        problems += _contradictions(goals)
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise GoalsFileError(f"{path}: {count}\n" + "\n".join(f"  {problem}" for problem in problems))
    return goals


def _collected(root: "_Section", path: Path) -> GoalsFile:
    """Everything the file says; None in the place of each value that is missing or wrong, which is noted."""
    data, goal = root.section("data", required=True), root.section("goal", required=True)
    audit, model = goal.section("audit"), root.section("model")
    file_name = _path_in(path.parent)
    return GoalsFile(
        path=path,
        data=DataSection(
            table=data.take("table", file_name),
            target=data.take("target", _text),
            positive=data.take("positive", _label),
            features=data.take("features", _texts, None),
            protected=data.take("protected", _texts, ()),
            ignore=data.take("ignore", _texts, ()),
            words=data.take("words", _texts, ()),
            split=_split(data.section("split")),
        ),
        baselines=_baselines(root.section("baselines")),
        goal=goal.take("text", _goal),
        audit_goal=audit.take("text", _goal) if audit.given else None,
        model=ModelSection(
            C=model.take("C", _positive, 0.2),
            enforce=model.take("enforce", _one_of("deterministic", "randomized"), "deterministic"),
            numbers=model.take("numbers", _one_of("scale", "bins"), "scale"),
            bins=model.take("bins", _bins, 30),
            time_budget=model.take("time_budget", _positive, None),
            on_infeasible=model.take("on_infeasible", _one_of("raise", "warn"), "raise"),
            kernel=_kernel(model),
        ),
        output=root.section("output").take("model", file_name, None),
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise GoalsFileError(f"{path}: the file cannot be read ({error.strerror}). Check the path") from error
    if len(raw) > _MAX_BYTES:
        raise GoalsFileError(f"{path}: larger than {_MAX_BYTES} bytes. A goals file is a short text")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise GoalsFileError(f"{path}: no UTF-8 text (byte {error.start}). Save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise GoalsFileError(f"{path}: no valid TOML: {error}. Correct that place") from error
    except RecursionError as error:
        raise GoalsFileError(f"{path}: brackets are nested too deeply. A goals file needs two levels") from error


class _Section:
    """One table of the file: hands out checked values, remembers which keys were asked for, collects the problems."""

    def __init__(self, name: str, table: dict[str, Any], problems: list[str], *, given: bool = True) -> None:
        self.name, self.table, self.problems, self.given = name, table, problems, given
        self._known: list[str] = []
        self._inner: list[_Section] = []
        self._absence_is_said = False

    def section(self, key: str, *, required: bool = False) -> "_Section":
        """The table under a key; an empty one where there is none."""
        self._known.append(key)
        inner = self.table.get(key)
        if inner is not None and not isinstance(inner, dict):
            self.problems.append(f"{self._path(key)}: must be a section, [{self._path(key)}]; got {_shown(inner)}")
        elif inner is None and required:
            self.problems.append(f"[{self._path(key)}]: the section is missing. Add it")
        usable = inner if isinstance(inner, dict) else {}
        part = _Section(self._path(key), usable, self.problems, given=isinstance(inner, dict))
        part._absence_is_said = required and not part.given
        self._inner.append(part)
        return part

    def take(self, key: str, check: Callable[[Any], Any], default: Any = _REQUIRED) -> Any:
        """The checked value of a key, its default, or None after noting a problem."""
        self._known.append(key)
        if key not in self.table:
            if default is _REQUIRED and not self._absence_is_said:
                self.problems.append(f"{self._path(key)}: missing. Add it")
            return None if default is _REQUIRED else default
        try:
            return check(self.table[key])
        except (ValueError, TypeError) as error:
            self.note(key, str(error))
            return None

    def note(self, key: str, problem: str) -> None:
        """Note a problem with the value of a key."""
        self.problems.append(f"{self._path(key)}: {problem}")

    def refuse_unknown(self) -> None:
        """Note every key that nobody asked for, here and below."""
        for key in self.table:
            if key not in self._known:
                alike = {name.lower(): name for name in self._known}
                near = difflib.get_close_matches(key.lower(), alike, 1)
                cure = f"Is it {alike[near[0]]!r}?" if near else f"Known here: {', '.join(self._known)}"
                self.problems.append(f"{self._path(key)}: unknown key. {cure}")
        for part in self._inner:
            part.refuse_unknown()

    def _path(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def _split(section: _Section) -> Split | None:
    if not section.given:
        return None
    return Split(section.take("column", _text), section.take("train", _label), section.take("test", _label))


def _kernel(model: _Section) -> dict[str, Any]:
    """What the file says about the kernel, as parameters of the estimator; empty for a linear model."""
    kernel = model.take("kernel", _one_of(*_FILE_KERNELS), _LINEAR)
    options = {
        key: model.take(key, check, None)
        for key, check in {
            "gamma": _gamma,
            "degree": _positive,
            "coef0": _number,
            "feature_map": _one_of(*FEATURE_MAPS),
            "n_components": _count,
            "cache_size": _positive,
        }.items()
    }
    given = {key: value for key, value in options.items() if value is not None}
    if kernel == _LINEAR:
        for key in given:
            model.note(key, f"is for kernels, and model.kernel is {_LINEAR!r}. Name another kernel or drop it")
        return {}
    if given.get("feature_map") == "fourier" and kernel not in (None, "rbf"):
        model.note("feature_map", f"'fourier' is for the kernel 'rbf'; got {kernel!r}. Use 'nystroem'")
    if "feature_map" in given and "cache_size" in given:
        model.note("cache_size", "is for kernels without a feature_map. Drop one of them")
    if "n_components" in given and "feature_map" not in given:
        model.note("n_components", 'is for a feature_map. Add feature_map = "nystroem" or drop it')
    return {"kernel": kernel, **given}


def _baselines(section: _Section) -> dict[str, str]:
    return {name: section.section(name).take("column", _text) for name in list(section.table)}


def _contradictions(goals: GoalsFile) -> Iterator[str]:
    """Columns that play two roles at once, and baselines that the goal names but the file does not."""
    data, split = goals.data, goals.data.split
    taken = {column: f"baselines.{name}" for name, column in goals.baselines.items()} | {data.target: "data.target"}
    taken |= dict.fromkeys(data.protected, "data.protected") | dict.fromkeys(data.ignore, "data.ignore")
    if split is not None:
        taken[split.column] = "data.split"
        if split.train == split.test:
            yield f"data.split: train and test are both {split.train!r}. Name two different values"
    for name in data.features or ():
        if name in taken:
            yield f"data.features: {name!r} is also named by {taken[name]}. A feature cannot be that: drop one"
    for goal, key in ((goals.goal, "goal.text"), (goals.audit_goal, "goal.audit.text")):
        for name in goal.baselines if goal is not None else ():
            if name not in goals.baselines:
                yield f"{key}: the baseline {name!r} is not in [baselines]. Add: {name} = {{ column = ... }}"
        if goal is not None and goal.sources:
            yield (
                f"{key}: the external data set {goal.sources[0]!r} cannot be given on the command line. "
                "Use RateConstrainedClassifier.fit(..., external=...) in Python"
            )


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text between quotes; got {_shown(value)}")
    return value


def _path_in(folder: Path) -> Callable[[Any], Path]:
    return lambda value: folder / _text(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError(f'must be a list of column names, such as ["sex"]; got {_shown(value)}')
    if len(set(value)) < len(value):
        raise ValueError(f"names a column twice: {_shown(value)}. Name each once")
    return tuple(value)


def _label(value: Any) -> Label:
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"must be one value of the column; got {_shown(value)}")
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"must be a number above 0; got {_shown(value)}")
    return float(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):
        raise ValueError(f"must be a number; got {_shown(value)}")
    return float(value)


def _gamma(value: Any) -> float | str:
    if value in ("scale", "auto"):
        return str(value)
    try:
        return _positive(value)
    except ValueError:
        raise ValueError(f"must be 'scale', 'auto' or a number above 0; got {_shown(value)}") from None


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number above 0; got {_shown(value)}")
    return value


def _bins(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 2 <= value <= 1000:
        raise ValueError(f"must be a whole number from 2 to 1000; got {_shown(value)}")
    return value


def _one_of(*options: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in options:
            raise ValueError(f"must be one of {', '.join(map(repr, options))}; got {_shown(value)}")
        return str(value)

    return check


def _goal(value: Any) -> Goal:
    try:
        return Goal.parse(_text(value))
    except GoalError as error:
        raise ValueError(f"no valid goal: {error}") from error


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
