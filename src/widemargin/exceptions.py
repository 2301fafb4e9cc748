"""All errors and warnings of the library.

A message states the fact with its number, then the cure. All errors derive from `WidemarginError`; those about input
also derive from `ValueError`, so code that does not know this library catches them, too. `docs/troubleshooting.md`
explains the most frequent messages.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

__all__ = [
    "CapabilityError",
    "CheckpointError",
    "DataError",
    "DoubtfulModelWarning",
    "GoalError",
    "GoalParseError",
    "GoalWarning",
    "GoalsFileError",
    "InfeasibleGoalError",
    "KernelError",
    "KernelWarning",
    "MarginConvergenceWarning",
    "MissingDataError",
    "MissingLibraryError",
    "ModelFileError",
    "ModelFileWarning",
    "OracleError",
    "OracleWarning",
    "TableWarning",
    "TimeBudgetError",
    "WidemarginError",
    "WorkerLostError",
]


class WidemarginError(Exception):
    """Base of every error raised by widemargin."""


class GoalError(WidemarginError, ValueError):
    """A goal that makes no sense, by itself or on the data it was tied to."""


class GoalParseError(GoalError):
    """A text that is no goal; the message names the line.

    Parameters
    ----------
    message : str
    line, column : int, optional
        Where in the text the error is, both from 1.
    reason : str, optional
        The message without the place; by default the whole message.
    """

    def __init__(
        self, message: str, *, line: int | None = None, column: int | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message)
        self.line, self.column, self.reason = line, column, reason or message


class InfeasibleGoalError(GoalError):
    """No model that meets the goal was found; the message gives the violations and the constraints in conflict.

    Parameters
    ----------
    message : str
    **facts
        What the message prints, as attributes. `RateConstrainedClassifier` gives those of its `infeasibility_`:
        `violations`, `ramp_violations`, `conflict`, `irreducible`, `proved`, `best_values`, `asked`.
    """

    violations: Mapping[str, float | None] = MappingProxyType({})
    ramp_violations: Mapping[str, float | None] = MappingProxyType({})
    conflict: tuple[str, ...] = ()
    irreducible: bool = False
    proved: bool = False
    best_values: Mapping[str, float] = MappingProxyType({})
    asked: Mapping[str, float] = MappingProxyType({})

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        vars(self).update(facts)


class DataError(WidemarginError, ValueError):
    """Data that do not fit the goal or the model: wrong length, missing column, missing labels, not finite.

    Parameters
    ----------
    *message : str
    row : int, optional
        The first row of the data at hand that is wrong, where there is one.
    """

    def __init__(self, *message: str, row: int | None = None) -> None:
        super().__init__(*message)
        self.row = row


class MissingDataError(DataError):
    """A data set that is not on this machine; the message says where to get it."""


class MissingLibraryError(WidemarginError, ImportError):
    """An optional library that is not installed; the message names the extra that brings it."""

    @classmethod
    def of(cls, fact: str, extra: str) -> "MissingLibraryError":
        """That something needs the libraries of an extra.

        pip finds the extra in the package that is installed, from a wheel or a checkout, and asks no index for it.
        """
        return cls(f"{fact}: `pip install 'widemargin[{extra}]'` adds it to the widemargin that is installed here.")


class CapabilityError(WidemarginError, ValueError):
    """A combination of options that no algorithm here can serve; the message lists those that can."""


class KernelError(WidemarginError, ValueError):
    """A kernel that cannot be used: unknown, not square, not finite, not positive semi-definite, or too large."""


class KernelWarning(UserWarning):
    """A kernel, or the features for it, that can be used but needs a second look (scales, negative squared norms)."""


class ModelFileError(WidemarginError, ValueError):
    """A model file that is damaged, foreign, too large, or written by a newer format."""


class OracleError(WidemarginError, ValueError):
    """An oracle of a structured model that is wrong: it returns something that is no label, or a point that contradicts
    the model."""


class CheckpointError(WidemarginError, ValueError):
    """A checkpoint that is damaged, of another run, or cannot be written."""


class WorkerLostError(WidemarginError, RuntimeError):
    """Workers of a cluster that were lost again and again; the message says what was being done, and what to change."""


class OracleWarning(UserWarning):
    """An oracle that can be used but proves little: neither labels nor certificate need be the best."""


class TimeBudgetError(WidemarginError):
    """The time is up before all was done, so nothing is decided; the message says how far it came.

    Parameters
    ----------
    message : str
    done, total : int, optional
    kept : str, optional
        The file that holds what was done.
    """

    def __init__(self, message: str, *, done: int = 0, total: int = 0, kept: str | None = None) -> None:
        super().__init__(message)
        self.done, self.total, self.kept = done, total, kept


class GoalWarning(UserWarning):
    """A goal that can be used but deserves a second look (dropped population, trivial solution, ...)."""


class DoubtfulModelWarning(GoalWarning):
    """The goal is met, and still the model may be worth little: constant, beaten by a constant, missed on new rows."""


class GoalsFileError(WidemarginError, ValueError):
    """A goals file (TOML) that cannot be used; the message names every problem by its line and key, with the cure.

    Parameters
    ----------
    message : str
    problems : sequence of dict, optional
        Each with `line` (None where there is none), `key` and `text`.
    """

    def __init__(self, message: str, problems: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(dict(problem) for problem in problems)


class ModelFileWarning(UserWarning):
    """A model file that can be used but was written by other versions of the libraries."""


class TableWarning(UserWarning):
    """A table that deviates from the training table in a way that has a documented fallback."""


PASSED_OVER = frozenset({"widemargin", "widemargin_papers", "sklearn", "joblib"})
"""Packages whose frames are never the user's: ours, and those that call it."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the innermost frame outside this package, scikit-learn and joblib."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED_OVER:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def warn_of_kept(message: str) -> None:
    """Warn in the words of the error that `on_infeasible="warn"` avoids; its last cure, to keep the model, is taken."""
    warn(f"{message.partition(', or keep ')[0].rstrip('.')}. This model is kept.", GoalWarning)


if TYPE_CHECKING:

    class MarginConvergenceWarning(UserWarning):
        """A solver stopped before its certificate reached the tolerance."""


def __getattr__(name: str) -> Any:
    """Make `MarginConvergenceWarning` when it is first asked for: its base costs the import of scikit-learn (1 s)."""
    if name != "MarginConvergenceWarning":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn.exceptions import ConvergenceWarning

    doc = "A solver stopped before its certificate reached the tolerance."
    made = type(name, (ConvergenceWarning,), {"__doc__": doc, "__module__": __name__})
    # Two threads may come here at once; both leave with the class that was first.
    return globals().setdefault(name, made)
