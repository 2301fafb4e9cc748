"""The working-set dual where the rows of the kernel matrix lie on a device: only blocks of a working set leave it.

    scores, gradient, coefficients, kernel rows: on the device
    repeat until the violation is at most tol:
        W = the rows that violate most on either side, found there, and the newest of the last W
        K[W, W] and the scores of W to the host; solve in the variables of W there, by the steps of `pair_steps`
        scores += the rows that moved, in double precision                                           (on the device)

It is `working_set.solve` step by step, but for where its arrays are, and ends at the same model within `tol`.
"""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from widemargin._typing import ArrayLike, Floats, Ints
from widemargin.exceptions import CapabilityError
from widemargin.solvers.base import Budget
from widemargin.solvers.kernel_svm.certificate import KernelRecorder
from widemargin.solvers.kernel_svm.dual.working_set import Block, Violation, WorkingSetOptions, renewed
from widemargin.solvers.kernel_svm.problem import KernelProblem, KernelResult, responses

__all__ = ["DeviceMatrix", "solve"]


@runtime_checkable
class DeviceMatrix(Protocol):
    """A kernel matrix on a device (`kernels.device.DeviceRows`).

    Attributes
    ----------
    xp : module
        A library with NumPy's functions.
    kept : array of the device
        Whole kernel rows.
    room : int
        Most rows that are kept.
    """

    xp: Any
    kept: Any

    @property
    def room(self) -> int: ...
    def put(self, values: ArrayLike) -> Any:
        """An array of the device."""

    def pull(self, values: Any) -> npt.NDArray[Any]:
        """Its numbers."""

    def keep(self, rows: Ints) -> Ints:
        """The places of some rows in `kept`."""

    def weighted(self, places: Ints, change: Floats) -> Any:
        """A sum of rows in `kept`, on the device, in double precision."""


def solve(
    problem: KernelProblem,
    *,
    tol: float | None = 1e-3,
    start: Floats | None = None,
    budget: Budget | None = None,
    scores: Floats | None = None,
    options: WorkingSetOptions | None = None,
) -> KernelResult:
    """Solve the dual of a kernel SVM.

    Parameters
    ----------
    problem : KernelProblem
        Its rows lie on a device.
    tol, start, budget, scores, options
        As `working_set.solve` has them; `scores` is not changed.

    Raises
    ------
    KernelError
        If the cache does not hold two rows (one without a bias).
    CapabilityError
        If the rows do not lie on a device; if `tol` is None and no row is held out.
    """
    if not isinstance(problem.rows, DeviceMatrix):
        raise CapabilityError("the dual on a device needs rows there; use the working-set dual.")
    # Fewer rows than elsewhere: rounds are short, and the steps along pairs, on the host, take most of the time. Their
    # block of 2.3 MB stays in the second cache of large processors. Seconds of a9a: 0.51 in place of 0.68.
    budget, options = budget or Budget(), options or WorkingSetOptions(size=768)
    problem.refuse_small_cache()
    coef = problem.feasible(start)
    run = _Run(problem, problem.rows, coef, responses(problem.rows, coef) if scores is None else scores)
    size = min(max(options.size, 2 if problem.fit_intercept else 1), problem.rows.room, problem.n_rows)
    block = Block(problem, size, budget, options)
    recorder = KernelRecorder(problem, "working set on a device", budget, tol, copy=run.copy)
    goal = options.fine if tol is None else tol
    judged = bool((problem.upper == 0.0).any())  # rows held out are looked at in every round
    work: Ints = np.empty(0, dtype=np.int64)
    size_now, rounds, ended, known = size, 0, False, np.zeros(problem.n_rows)
    try:
        while True:
            left, facts = run.look(max(1, size_now // 4))
            if judged:  # else nobody looks at scores but those of the working set
                known = run.pull(run.scores)
            ended = recorder.watch(rounds, coef, known, left.middle, facts) or left.size <= goal
            if ended or budget.exhausted:
                break
            work = renewed(work, left, size_now, problem.n_rows)
            K, places = run.block(work, known)
            # A block is solved more exactly than the run, so that rounding does not stop it short.
            b, change = block.solve(K, work, coef, known, 0.5 * goal)
            moved = np.flatnonzero(change)
            rounds += 1
            size_now = block.next_size(size_now)
            if not moved.shape[0]:  # rounding: the block cannot be told from its optimum
                break
            run.move(places[moved], change[moved], work, b)
            coef[work] = b
    except KeyboardInterrupt:
        budget.interrupted = True
    if recorder.point is not None:
        recorder.point = run.pull(recorder.point[0]), run.pull(recorder.point[1])
    result = recorder.finish(coef, run.pull(run.scores), rounds, ended=ended)
    return replace(result, indefinite=result.indefinite or block.indefinite)


class _Run:
    """What lies on the device: labels, bounds, coefficients and scores, in double precision."""

    def __init__(self, problem: KernelProblem, matrix: DeviceMatrix, coef: Floats, scores: Floats) -> None:
        self._matrix, self._xp, self.pull = matrix, matrix.xp, matrix.pull
        self._pairs, put = problem.fit_intercept, matrix.put
        self._y, self._cost, self._coef, self.scores = (
            put(vector) for vector in (problem.y, problem.upper, coef, scores)
        )
        self._lower, self._upper = (put(vector) for vector in problem.bounds)

    def copy(self, _: object) -> tuple[Any, Any]:
        """The present coefficients and scores: on the device, as only the last such copy is ever wanted elsewhere."""
        return tuple(self._xp.asarray(vector, copy=True) for vector in (self._coef, self.scores))

    def look(self, count: int) -> tuple[Violation, dict[str, float]]:
        """The largest violation and the `count` rows of either side that violate most; primal and dual value."""
        xp, gradient = self._xp, self._y - self.scores
        sides = []
        for value, free in ((gradient, self._coef < self._upper), (-gradient, self._coef > self._lower)):
            value = xp.where(free, value, -xp.inf)
            # PyTorch finds the largest without sorting them all; a NumPy-like library may have no function for it.
            found = xp.topk(value, count).indices if hasattr(xp, "topk") else xp.argsort(-value)[:count]
            sides.append((self.pull(value[found]), self.pull(found)))
        (up, ups), (down, downs) = sides
        highest, lowest = float(up[0]), -float(down[0])
        middle = 0.5 * (highest + lowest) if self._pairs and np.isfinite(highest - lowest) else 0.0
        size = max(0.0, highest - lowest if self._pairs else max(highest, -lowest))
        # Only rows beyond the middle can gain: at that bias the conditions of all others hold already.
        left = Violation(size, middle, ups[up > middle], downs[down > -middle])
        margin = 1.0 - self._y * (self.scores + middle)
        square, loss = float(self._coef @ self.scores), float(self._cost @ (margin * (margin > 0.0)))
        dual = float(self._y @ self._coef) - 0.5 * square
        return left, {"primal": 0.5 * square + loss, "dual": dual, "violation": size}

    def block(self, work: Ints, known: Floats) -> tuple[Any, Ints]:
        """Kernel values among the rows of `work` on the host, and their places; writes their scores into `known`."""
        places, rows = self._matrix.keep(work), self._matrix.put(work)
        known[work] = self.pull(self.scores[rows])
        return self.pull(self._matrix.kept[self._matrix.put(places)[:, None], rows[None, :]]), places

    def move(self, places: Ints, change: Floats, work: Ints, coef: Floats) -> None:
        """Add what moved to the scores, and write the new coefficients of `work`."""
        self.scores += self._matrix.weighted(places, change)
        self._coef[self._matrix.put(work)] = self._matrix.put(coef)
