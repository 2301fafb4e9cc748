"""The outer state of a long run in a small file: what the convex steps over blocks have found, in their order.

Everything between two convex steps is a function of the rows and of what the steps before have found. So a run that
starts again with the same rows and parameters, and takes the results of its first steps from the file, comes to the
step that the killed one was at with a few passes over the rows.
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._files import replace_file
from widemargin.exceptions import CheckpointError
from widemargin.solvers.base import ConvexResult, ConvexState, Status
from widemargin.solvers.newton_blocks import BlockedHinge

__all__ = ["Remembered"]

_FORMAT = 1


class Remembered:
    """A convex solver whose results over blocks are kept in a file.

    Parameters
    ----------
    solver : callable
        As `majorize.ConvexSolver`.
    path : path or None
        None: nothing is kept.
    resume : bool, default=False
        Whether to take the results that the file holds, if there is one. Otherwise it is written anew.

    Raises
    ------
    CheckpointError
        If the file is damaged; and, when a step is taken from it, if that was another problem's.
    """

    def __init__(self, solver: Callable[..., ConvexResult], path: str | Path | None, *, resume: bool = False) -> None:
        self.solver = solver
        self._path = None if path is None else Path(path)
        self._known: list[dict[str, Any]] = []
        if resume and self._path is not None and self._path.exists():
            self._known = _read(self._path)
        self._done: list[dict[str, Any]] = []

    def __call__(self, sub: Any, *, tol: float, start: ConvexState | None, rho: float, **options: Any) -> ConvexResult:
        """Solve a subproblem, or take the result from the file."""
        if self._path is None or not isinstance(sub, BlockedHinge):
            return self.solver(sub, tol=tol, start=start, rho=rho, **options)
        number, name = len(self._done), _name_of(sub, tol, start, rho)
        if number < len(self._known):
            entry = self._known[number]
            if entry["problem"] != name:
                raise CheckpointError(
                    f"{self._path}: convex step {number + 1} of {len(self._known)} was one of other rows, another goal "
                    "or other parameters. Start with what the checkpoint was made with, or without resume"
                )
            self._done.append(entry)
            return _result(entry)
        result = self.solver(sub, tol=tol, start=start, rho=rho, **options)
        if result.status in (Status.CONVERGED, Status.MAX_ITER):  # others ended early, and not by their own rule
            self._done.append(_entry(name, result))
            _write(self._path, self._done)
        return result


def _name_of(sub: Any, tol: float, start: ConvexState | None, rho: float) -> str:
    """A digest of everything that decides a result, besides the rows: of these their number and weights by cell."""
    digest = hashlib.sha256()
    parts = [sub.gamma, sub.at.w, sub.coef.alpha0, sub.coef.beta0, sub.coef.value, sub.coef.column, sub.coef.indptr]
    parts += [np.array([sub.lam, sub.constant, sub.at.b, tol, rho, sub.rows.n_rows, sub.fit_intercept])]
    parts += [] if start is None else [start.w, np.array([start.b]), start.v]
    for part in parts:
        digest.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return digest.hexdigest()


def _entry(name: str, result: ConvexResult) -> dict[str, Any]:
    return {
        "problem": name,
        "w": result.w.tolist(), "b": result.b, "multipliers": result.multipliers.tolist(),
        "primal": result.primal, "dual": result.dual, "gap": result.gap, "violation": result.violation.tolist(),
        "status": str(result.status), "n_iter": result.n_iter, "seconds": result.seconds,
        "state": [result.state.w.tolist(), result.state.b, result.state.v.tolist()],
        "history": [{key: float(value) for key, value in step.items()} for step in result.history],
    }  # fmt: skip


def _result(entry: dict[str, Any]) -> ConvexResult:
    w, b, v = entry["state"]
    nothing = np.zeros(0, np.float32)
    return ConvexResult(
        w=np.array(entry["w"], dtype=np.float64), b=entry["b"], multipliers=np.array(entry["multipliers"], dtype=float),
        primal=entry["primal"], dual=entry["dual"], gap=entry["gap"],
        violation=np.array(entry["violation"], dtype=float), status=Status(entry["status"]), n_iter=entry["n_iter"],
        n_epochs=0, seconds=entry["seconds"],
        state=ConvexState(np.array(w, dtype=float), b, nothing, nothing, np.array(v, dtype=float)),
        history=tuple(entry["history"]),
    )  # fmt: skip


def _write(path: Path, steps: list[dict[str, Any]]) -> None:
    body = json.dumps(steps)
    data = {"format": _FORMAT, "sha256": hashlib.sha256(body.encode()).hexdigest(), "steps": body}
    try:
        replace_file(path, json.dumps(data).encode())
    except OSError as error:
        raise CheckpointError(f"{path}: the file cannot be written ({error.strerror}). Check the folder") from error


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        data = json.loads(path.read_bytes())
        whole = data["format"] == _FORMAT and data["sha256"] == hashlib.sha256(data["steps"].encode()).hexdigest()
        steps: list[dict[str, Any]] = json.loads(data["steps"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: no checkpoint can be read there ({error}). Start without resume") from error
    if not whole:
        raise CheckpointError(f"{path}: the checkpoint is damaged, or of another format. Start without resume")
    return steps
