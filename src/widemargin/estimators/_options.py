"""Options that few users of an estimator change: a frozen record whose fields carry their reasons, or a dict."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from sklearn.utils._param_validation import validate_parameter_constraints

from widemargin.exceptions import DataError

__all__ = ["SolverOptions"]


@dataclass(frozen=True)
class SolverOptions:
    """Base of the records that estimators take as `solver_options`.

    A subclass says in `_constraints` what scikit-learn checks of each field.

    Raises
    ------
    ValueError
        If a value is outside its range.
    """

    _constraints: ClassVar[dict[str, list[object]]] = {}

    def __post_init__(self) -> None:
        validate_parameter_constraints(self._constraints, vars(self), caller_name=type(self).__name__)

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
        names = [item.name for item in fields(cls)]
        unknown = [key for key in entries if key not in names]
        if unknown:
            raise DataError(f"solver_options has no option {unknown[0]!r}; there are {', '.join(names)}.")
        return cls(**entries)
