"""The outer state of a long run in a small file: what the convex steps over blocks have found, in their order.

Everything between two convex steps is a function of the rows and of what the steps before have found. So a run that
starts again with the same rows and parameters, and takes the results of its first steps from the file, comes to the
step that the killed one was at with a few passes over the rows. Rows are told apart by sums over them, see `_sketch`.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._files import replace_file
from widemargin._typing import Floats
from widemargin.distributed.blocks import Block, BlockedRows
from widemargin.exceptions import CheckpointError, DataError
from widemargin.solvers.base import Budget, ConstrainedHinge, ConvexResult, ConvexState, Status

__all__ = ["Remembered", "check_checkpoint"]

_FORMAT = 3


class Remembered:
    """A convex solver whose results over blocks are stored in a file.

    Parameters
    ----------
    solver : callable
        As `ramp.majorization.ConvexSolver`; its attribute `name`, if it has one, is part of what must be the same on
        resuming. Its attribute `used`, if it has one, is that of this one, too.
    path : path or None
        None: nothing is stored.
    resume : bool, default=False
        Whether to go on from the results in the file, if there is one. Otherwise the file is written anew.

    Raises
    ------
    CheckpointError
        If the file is damaged; and, when a step is taken from it, if that was another problem's.
    """

    def __init__(self, solver: Callable[..., ConvexResult], path: str | Path | None, *, resume: bool = False) -> None:
        self.solver = solver
        self.used: list[str] = getattr(solver, "used", [])
        self._path = None if path is None else Path(path)
        self._recorded: list[dict[str, Any]] = []
        self._recorded_rows: list[float] = []
        self._rows: list[float] | None = None
        if resume and self._path is not None and self._path.exists():
            self._recorded, self._recorded_rows = _read(self._path)
        self._done: list[dict[str, Any]] = []

    def __call__(
        self, sub: ConstrainedHinge, *, tol: float, start: ConvexState | None, rho: float, budget: Budget | None = None
    ) -> ConvexResult:
        """Solve a subproblem, or take the result from the file."""
        # A step on a sample in memory is over sooner than a file is written.
        if self._path is None or not isinstance(sub.rows, BlockedRows):
            return self.solver(sub, tol=tol, start=start, rho=rho, budget=budget)
        if self._rows is None:
            self._rows = _sketch(sub)
            # The sums over the same rows, added up in another order, differ by rounding only.
            same = len(self._rows) == len(self._recorded_rows) and np.allclose(
                self._rows, self._recorded_rows, rtol=1e-9, atol=0.0
            )
            if self._recorded and not same:
                raise CheckpointError(
                    f"{self._path}: the checkpoint was made with other rows. Start with what it was made with, or "
                    "without resume"
                )
        # Steps are told apart by their place in the run and by a digest of all that decides their results, besides the
        # rows: of these their number and weights by cell.
        assert sub.at is not None
        number, digest, coef = len(self._done), hashlib.sha256(getattr(self.solver, "name", "").encode()), sub.coef
        parts = [sub.gamma, sub.at.w, coef.alpha0, coef.beta0, coef.value, coef.column, coef.indptr]
        parts += [np.array([sub.lam, sub.constant, sub.at.b, tol, rho, sub.rows.n_rows, sub.fit_intercept])]
        # A warm start changes the result, within the tolerance.
        parts += [] if start is None else [start.w, np.array([start.b]), start.v]
        # In double precision, whatever the type: the same numbers have the same digest.
        for part in parts:
            digest.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
        name = digest.hexdigest()
        if number < len(self._recorded):
            entry = self._recorded[number]
            if entry["problem"] != name:
                raise CheckpointError(
                    f"{self._path}: convex step {number + 1} of {len(self._recorded)} was one of other rows, another "
                    "goal or other parameters. Start with what the checkpoint was made with, or without resume"
                )
            self._done.append(entry)
            return _result(entry["result"])
        # Beyond the recorded steps the run goes on by itself, from the point that the last of them has ended at.
        result = self.solver(sub, tol=tol, start=start, rho=rho, budget=budget)
        # A step that time or Ctrl-C has cut off would stand for a solved one when the run is taken up again.
        if result.status in (Status.CONVERGED, Status.MAX_ITER):
            self._done.append({"problem": name, "result": asdict(result)})
            _write(self._path, self._done, self._rows)
        return result


def check_checkpoint(path: str | Path | None, resume: object) -> None:
    """Refuse what cannot be meant by `checkpoint=` and `resume=`.

    Raises
    ------
    DataError
        If resume is no bool, or there is no file to go on from.
    CheckpointError
        If the folder of the file is missing.
    """
    if not isinstance(resume, (bool, np.bool_)):
        raise DataError(f"resume is {resume!r}; give checkpoint=PATH and resume=True to go on from that file.")
    if resume and path is None:
        raise DataError("resume=True, and checkpoint is None; give checkpoint=PATH, the file to go on from.")
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise CheckpointError(
            f"{path}: there is no folder {Path(path).absolute().parent}. Make it, or correct the path"
        )


def _sketch(sub: ConstrainedHinge) -> list[float]:
    """Sums that tell other rows apart from these even where their number and the weights of cells agree: one pass.

    By cell the weighted sum of `|r' x|` and of `(r' x)^2` with one random direction r, the same for all data.
    """
    rows = sub.rows
    # One look at the features with a fixed direction tells other rows apart, whatever their order in blocks.
    direction = np.random.default_rng(0).standard_normal(rows.n_features)
    rows.n_passes += 1

    def sketch_of(block: Block, message: tuple[Floats, int]) -> Floats:
        (direction, n_cells), problem = message, block.data
        z = problem.rows.dot(direction, out=np.empty(problem.rows.n_rows))
        return np.stack([np.bincount(problem.cell, problem.weight * part, n_cells) for part in (np.abs(z), z * z)])

    sums: Floats = rows.blocks.sum(sketch_of, (direction, sub.coef.n_cells))
    return [float(value) for value in sums.ravel()]


def _result(entry: dict[str, Any]) -> ConvexResult:
    # JSON knows lists only, so arrays are made anew.
    w, b, *_, v = entry["state"]
    nothing = np.zeros(0, np.float32)  # Shares stay with the blocks, who make them anew.
    arrays = {name: np.array(entry[name], dtype=float) for name in ("w", "multipliers", "violation")}
    state = ConvexState(np.array(w, dtype=float), b, nothing, nothing, np.array(v, dtype=float))
    rest = {"status": Status(entry["status"]), "state": state, "history": tuple(entry["history"])}
    return ConvexResult(**entry | arrays | rest)


def _write(path: Path, steps: list[dict[str, Any]], rows: list[float]) -> None:
    body = json.dumps({"steps": steps, "rows": rows}, default=lambda array: array.tolist())
    # The digest tells a file that was cut off from one that is whole.
    data = {"format": _FORMAT, "sha256": hashlib.sha256(body.encode()).hexdigest(), "run": body}
    try:
        # Replaced as a whole, so that an end in the middle of writing leaves the earlier checkpoint.
        replace_file(path, json.dumps(data).encode())
    except OSError as error:
        raise CheckpointError(f"{path}: the file cannot be written ({error.strerror}). Check the folder") from error


def _read(path: Path) -> tuple[list[dict[str, Any]], list[float]]:
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != _FORMAT:
            raise CheckpointError(
                f"{path}: the checkpoint is of another format, {data['format']}. Start without resume"
            )
        if data["sha256"] != hashlib.sha256(data["run"].encode()).hexdigest():
            raise CheckpointError(f"{path}: the checkpoint is damaged. Start without resume")
        run = json.loads(data["run"])
        return run["steps"], run["rows"]
    except CheckpointError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: no checkpoint can be read there ({error}). Start without resume") from error
