"""What users set, stated once: parameters of estimators and records of options; time, callbacks, and early ends.

A parameter is a field with its type and its default: `C: kinds.Positive = 1.0`. The constructor and what scikit-learn
checks are read off the fields, by `parameters` for estimators, and by `SolverOptions` for the options that few users
change.
"""

import functools
import logging
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Generic, Self, TypeVar

from sklearn.utils._param_validation import StrOptions, validate_parameter_constraints

from widemargin.estimators import _kinds as kinds
from widemargin.exceptions import DataError, MarginConvergenceWarning, warn
from widemargin.solvers.base import Budget, Callback, Progress, Status

T = TypeVar("T")
Options = TypeVar("Options", bound="SolverOptions")

CURES = {"time_limit": "the time budget is spent: raise time_budget", "stopped": "by a callback"}
"""What a warning says of a status, where that is the same for all."""


@typing.dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def parameters(cls: type[T]) -> type[T]:
    """Make a class's fields the parameters of its constructor, and what scikit-learn checks of them."""
    decorated: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    decorated._parameter_constraints = _checks_of(decorated)
    # Plain types, for help() and the docs.
    decorated.__init__.__annotations__ = typing.get_type_hints(decorated.__init__) | {"return": None}
    return cls


@functools.cache
def _checks_of(record: Any) -> dict[str, list[object] | str]:
    """What scikit-learn checks of the fields of a dataclass, by their types."""
    return {item.name: _checks_of_type(item.type) for item in fields(record) if item.init}


def _checks_of_type(kind: Any) -> list[object] | str:
    origin = typing.get_origin(kind)
    if kind is Any:
        return "no_validation"
    if origin in (typing.Union, UnionType):
        return [check for part in typing.get_args(kind) for check in _checks_of_type(part)]
    if origin is typing.Annotated:
        return list(kind.__metadata__)
    if origin is typing.Literal:
        return [StrOptions(set(typing.get_args(kind)))]
    named = {NoneType: None, bool: "boolean", int: Integral, float: Real, Callable: callable}
    return [named.get(origin or kind, origin or kind)]


@dataclass(frozen=True)
class SolverOptions:
    """Base of the records that estimators take as `solver_options`: options that few users change, each with a reason.

    Raises
    ------
    ValueError
        If a value is outside its range.
    """

    def __post_init__(self) -> None:
        record: Any = type(self)
        validate_parameter_constraints(_checks_of(record), vars(self), caller_name=record.__name__)

    def __repr__(self) -> str:
        changed = (item.name for item in fields(self) if getattr(self, item.name) != item.default)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"

    @classmethod
    def of(cls, given: "SolverOptions | Mapping[str, object] | None") -> Self:
        """Options from what an estimator was given; None is all defaults.

        Raises
        ------
        DataError
            If a dict has a key that is no option.
        ValueError
            If a value is outside its range.
        """
        if isinstance(given, cls):
            return given
        entries = {} if given is None else dict(given) if isinstance(given, Mapping) else vars(given)
        names = cls.__dataclass_fields__
        if unknown := entries.keys() - names:
            raise DataError(f"solver_options has no option {min(unknown)!r}; there are {', '.join(names)}.")
        return cls(**entries)


class Checked(Generic[Options]):
    """`_options` of an estimator: the record of its kind that `solver_options` stands for."""

    def __init__(self, record: type[Options]) -> None:
        self.record = record

    @cached_property
    def _defaults(self) -> Options:
        return self.record()

    def __get__(self, estimator: Any, owner: type) -> Options:
        # The defaults are checked once: that takes as long as a fit of some ten rows.
        given = estimator.solver_options
        return self._defaults if given is None else self.record.of(given)


def budget_of(time_budget: float | None, callbacks: kinds.Callbacks, verbose: int = 0, *others: Callback) -> Budget:
    """The time and the callbacks of a run; with `verbose` one that logs every step under "widemargin"."""
    return Budget(time_budget, (*(callbacks or ()), *((_log_progress,) if verbose else ()), *others))


def _log_progress(progress: Progress) -> None:
    logging.getLogger("widemargin").info(
        "%s %d: objective %.6g, gap %.1e, violation %.1e, %.2f s",
        progress.stage, progress.iteration, progress.objective, progress.gap, progress.violation, progress.seconds,
    )  # fmt: skip


def cause_of(budget: Budget) -> str:
    """Why a run ended early, in a few words."""
    if budget.interrupted:
        return "interrupted"
    return "stopped by a callback" if budget.stopped else CURES["time_limit"]


def worst(statuses: Iterable[Status], budget: Budget) -> Status:
    """How training ended: as the binary problem that ended worst."""
    if budget.interrupted:
        return Status.INTERRUPTED
    all_of_them = set(statuses)
    for status in (Status.STOPPED, Status.TIME_LIMIT, Status.MAX_ITER):
        if status in all_of_them:
            return status
    return Status.CONVERGED


class MayRaise(typing.Protocol):
    """What says how a fit ends after Ctrl-C: an estimator, or its options."""

    @property
    def on_interrupt(self) -> str: ...


def interrupted(options: MayRaise, budget: Budget, kept: str = "the model so far") -> bool:
    """Whether Ctrl-C ended the fit, with a warning; raised again where `on_interrupt` says so."""
    if not budget.interrupted:
        return False
    warn(f"interrupted after {budget.elapsed:.1f} s; {kept} is kept.", MarginConvergenceWarning)
    if options.on_interrupt == "raise":
        raise KeyboardInterrupt
    return True


@contextmanager
def bar(total: int, verbose: int) -> Iterator[Callback]:
    """A callback that draws how much of `total` steps is done, where stderr is a terminal and verbose is not 0."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Drawing

    console = Console(stderr=True)
    if not (verbose and console.is_terminal):
        yield lambda progress: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Drawing(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task("", total=total)

        def show(progress: Progress) -> None:
            text = f"{progress.stage}: {progress.objective:.4f}, least {progress.gap:.4f}"
            drawn.update(task, completed=progress.iteration, description=text, refresh=True)

        yield show
