"""The steps of training a kernel SVM, from checked rows to the solutions of its binary problems.

classes -> binary problems -> kernel rows, shared -> a solver for each -> solutions -> coefficients

Coefficients have the layout of `sklearn.svm.SVC`. Support vectors are ordered by class. One against one, the
coefficients of the support vectors of class i against class j stand in row j - 1 of `dual_coef_` where i < j, and in
row j where i > j: every support vector is in k - 1 problems. The problem of i < j has the score `f_ij > 0` for class i.
One against the rest, row c belongs to class c.
"""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from widemargin._threads import in_threads, limit_threads, threads_in_force
from widemargin._typing import Floats, Ints, Matrix, Reals
from widemargin.kernels.device import DeviceRows
from widemargin.kernels.functions import Kernel
from widemargin.kernels.rows import MEGABYTE, KernelRows
from widemargin.solvers.base import Budget, Progress, Status
from widemargin.solvers.kernel_svm.automatic import AutomaticOptions, Chosen, choose
from widemargin.solvers.kernel_svm.certificate import certified, exact_scores, near_scores
from widemargin.solvers.kernel_svm.dual import small_problems
from widemargin.solvers.kernel_svm.dual.small_problems import SmallProblemOptions
from widemargin.solvers.kernel_svm.dual.spatial import SpatialOptions
from widemargin.solvers.kernel_svm.dual.working_set import WorkingSetOptions
from widemargin.solvers.kernel_svm.problem import KernelMatrix, KernelProblem, KernelResult, WholeMatrix
from widemargin.solvers.kernel_svm.stopping import HoldOutOptions


class Split(NamedTuple):
    """A binary problem: the rows of class `positive` against those of `negative` (None: all the others)."""

    positive: int
    negative: int | None


@dataclass(frozen=True)
class Training:
    """Rows to train on, and how their binary problems are solved.

    Attributes
    ----------
    codes : ndarray of int, shape (n,)
        Class of each row.
    upper : ndarray of shape (n,)
        C times the weights; 0 for rows that are held out.
    spatial : bool
        Whether the rows can be put in spatial order.
    told_apart : callable
        Counts the columns that tell which rows are near each other.
    positive : bool
        Whether the kernel is positive semi-definite, as far as is known.
    solver, tol, fit_intercept, max_iter, cache_size, shrinking, seed
        As `KernelSVC` has them.
    """

    rows: KernelRows
    codes: Ints
    upper: Floats
    n_columns: int
    spatial: bool
    told_apart: Callable[[], int]
    positive: bool
    solver: str
    tol: float | None
    fit_intercept: bool
    max_iter: int
    cache_size: float
    shrinking: bool
    seed: int


@dataclass(frozen=True)
class Solved:
    """The solution of a binary problem.

    Attributes
    ----------
    index : ndarray of int64, shape (m,)
        The rows of the problem, as numbers of training rows.
    capacity : int
        Kernel rows that the cache held.
    """

    split: Split
    index: Ints
    result: KernelResult
    chosen: Chosen
    capacity: int


def splits(n_classes: int, multi_class: str) -> tuple[Split, ...]:
    """The binary problems, in the order of scikit-learn; of two classes the second is positive."""
    if n_classes == 2:
        return (Split(1, 0),)
    if multi_class == "ovr":
        return tuple(Split(c, None) for c in range(n_classes))
    return tuple(Split(i, j) for i in range(n_classes) for j in range(i + 1, n_classes))


def kernel_rows(
    kernel: Kernel, X: Matrix, *, cache_size: float, backend: str, precision: str = "auto", tol: float | None = 0.0,
    largest: float = 0.0, n_rows: int = 0,
) -> KernelRows:  # fmt: skip
    """Rows of the kernel matrix, in a precision that suits.

    "auto" is that of X, but single precision for a Gaussian kernel where the largest problem has many rows (`n_rows`)
    and is solved to a `tol` of 1e-3 or more (LIBSVM keeps all values so; a smaller one would see the rounding), and
    double precision for rows far from the origin, where what the norms lose by rounding would be seen: with gamma |x|^2
    up to 100 values are right to about 1e-5. Fewer than 2000 rows are solved about as soon as a certificate of values
    in single precision is computed.

    `largest` is a bound of the norm of the coefficients. Where the rounding of their scores, which adds up as a random
    walk does, could be as large as `tol`, precision is double, too; the certificate is of values in double precision in
    any case (`kernel_svm.certificate`).
    """
    make = partial(KernelRows if backend == "numpy" else DeviceRows, kernel, X, cache_size=cache_size, backend=backend)
    if precision != "auto":
        return make(dtype=np.float32 if precision == "single" else np.float64)
    gaussian = kernel.name == "rbf" and X.shape[0] > 0
    single = X.dtype == np.float32 or (gaussian and n_rows >= 2000 and (tol is None or tol >= 1e-3))
    # Half a unit in the last place of a kernel value of size 1.
    if not single or (tol is not None and largest * 2.0**-25 > tol):
        return make(dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # of rows far out, which are not used
        rows = make(dtype=np.float32)
    near = not gaussian or kernel.gamma * float(rows.norms().max()) <= 100.0
    return rows if near else make(dtype=np.float64)


def largest_problem(counts: Ints, pairs: bool) -> int:
    """Rows of the largest binary problem, by the number of rows of every class."""
    return int(np.sort(counts)[-2:].sum() if pairs else counts.sum())


def train(training: Training, parts: tuple[Split, ...], budget: Budget) -> list[Solved]:
    """Solve the binary problems: side by side where they are many and small, else one after the other.

    Kernel values that are not computed at once come row by row, through the cache of all rows (one against the rest:
    those of one problem serve the next) or of the two classes' rows alone. Where there are few in all, compiled code
    solves one problem after the other.
    """
    n, device = training.rows.n_rows, isinstance(training.rows, DeviceRows)
    pairs = len(parts) > 1 and parts[0].negative is not None
    counts = np.bincount(training.codes)
    size = largest_problem(counts, pairs)
    # Rows of a class lie together, as in LIBSVM, so that the values of a pair of classes do, too.
    order = np.argsort(training.codes, kind="stable") if pairs else np.arange(n)
    members = np.split(order, np.cumsum(counts)[:-1]) if pairs else [order]
    watched = budget.seconds is not None or bool(budget.callbacks) or training.max_iter >= 0
    done = _solve_small(training, parts, members, budget) if pairs and not watched else {}
    if len(done) == len(parts):
        return [done[part] for part in parts]
    # A limit of steps is one of SMO's steps, as in LIBSVM.
    linear = training.rows.kernel.name == "linear" and not device
    linear &= training.max_iter < 0 or training.solver != "auto"
    stored = not device and _are_computed_at_once(training, parts, counts, linear)
    whole: WholeMatrix | None = None
    if (given := training.rows.given) is not None:
        stored, whole = True, WholeMatrix(given, given.size)
    elif stored and not pairs:
        whole = WholeMatrix(training.rows.full(), training.rows.evaluations)
    of_pair = _PairMatrices(training.rows.subset(order), counts) if pairs and stored and given is None else None

    def solved(part: Split, mine: Training, remaining: int) -> Solved:
        if part in done:
            return done[part]
        index = order
        if part.negative is not None:
            index = np.concatenate((members[part.positive], members[part.negative])) if pairs else order
        y = np.where(mine.codes[index] == part.positive, 1.0, -1.0)
        if of_pair is not None and part.negative is not None:
            rows: KernelMatrix = of_pair.matrix(part.positive, part.negative)
        else:
            matrix: KernelMatrix = mine.rows if whole is None else whole
            rows = matrix if index.shape[0] == n else matrix.subset(index)
        problem = KernelProblem(rows, y, mine.upper[index], mine.fit_intercept)
        chosen = choose(
            mine.solver, n_rows=index.shape[0], n_columns=mine.n_columns, tol=mine.tol, told_apart=mine.told_apart,
            stored=stored, reach=partial(share_in_reach, rows) if mine.spatial else None, hold_out=mine.tol is None,
            positive=mine.positive, device=device, linear=linear,
        )  # fmt: skip
        # LIBSVM's first class is the positive one, also of two classes
        mirrored = chosen.name == "smo" and len(parts) == 1
        if mirrored:
            problem = replace(problem, y=-y)
        result = _solve(mine, chosen, problem, index, budget, remaining)
        if mirrored:
            result = replace(result, coef=-result.coef, intercept=-result.intercept)
        return Solved(part, index, result, chosen, rows.capacity)

    # Problems run side by side unless somebody watches the time or the steps, or they are too short for threads. Each
    # thread has a cache that holds a whole problem.
    threads = 1
    if pairs and not (watched or training.rows.kernel.name == "callable" or isinstance(training.rows, DeviceRows)):
        worth = len(parts) * size * size // AutomaticOptions.side_by_side
        threads = min(threads_in_force(), training.rows.shares(size), worth)
    if threads > 1:
        if of_pair is not None:
            in_threads(counts.shape[0], 1, lambda first, last: [of_pair.within(c) for c in range(first, last)])
        return _side_by_side(training, parts, solved, threads, budget)
    return [solved(part, training, len(parts) - number) for number, part in enumerate(parts)]


def _are_computed_at_once(training: Training, parts: Sequence[Split], counts: Ints, linear: bool) -> bool:
    """Whether all kernel values are: where they fit the cache, and all are used, or several times.

    That is so for problems that are one working set, where the symmetric half is all they ask for, and for classes
    against the rest.
    """
    pairs = len(parts) > 1 and parts[0].negative is not None
    against_rest, size = len(parts) > 1 and not pairs, largest_problem(counts, pairs)
    # Beside the matrix of a pair the values within every class are kept, for its other pairs.
    values = size * size + (int(counts @ counts) if pairs else 0)
    if values * training.rows.dtype.itemsize > training.cache_size * MEGABYTE:
        return False
    if linear:
        hold_out, columns = training.tol is None, training.n_columns
        likely = choose(training.solver, n_rows=size, n_columns=columns, hold_out=hold_out, linear=True)
        if likely.name == "interior-point":  # works on the columns, and asks for no kernel values
            return False
    working_sets = training.solver in ("auto", "dual")
    # Steps along pairs of all rows ask for few of narrow ones, and compute them where they are wanted. All polynomials
    # of one working set take BLAS less time than those that are wanted take a loop.
    for_blas = training.rows.kernel.name == "poly" and size <= WorkingSetOptions.size
    by_need = training.rows.are_narrow(size) and training.fit_intercept and not for_blas
    if working_sets and by_need and not against_rest:
        return False
    if working_sets:  # SMO, which solves the indefinite ones, comes back to most rows
        return size <= WorkingSetOptions.size or against_rest or not training.positive
    return len(parts) > 1 and training.solver != "spatial-dual"


def _solve_small(
    training: Training, parts: tuple[Split, ...], members: Sequence[Ints], budget: Budget
) -> dict[Split, Solved]:
    """Solve pairs of classes, of these `members`, that compiled code alone can: of few rows, in double precision.

    In that also where all others would be solved in single precision: it takes no longer than a certificate of that.
    """
    rows, options, counts = training.rows, SmallProblemOptions, np.array([len(some) for some in members])
    as_libsvm = training.solver == "smo" or (training.solver == "auto" and not training.positive)
    plain = as_libsvm or (training.solver in ("auto", "dual") and training.positive)
    plain &= training.fit_intercept and type(rows) is KernelRows
    if not plain or training.tol is None or not training.upper.all():
        return {}
    few = rows.n_rows <= options.all_rows and largest_problem(counts, pairs=True) <= options.rows
    if not few or rows.n_rows**2 * 8 > training.cache_size * MEGABYTE:
        return {}
    order = np.concatenate(members)
    pairs = np.array([(part.positive, int(part.negative or 0)) for part in parts])
    try:
        double = rows if rows.dtype == np.float64 else rows.in_double(np.arange(rows.n_rows), training.cache_size)
        K: Floats = double.subset(order).full().astype(np.float64, copy=False)
        results = small_problems.solve(K, counts, pairs, training.upper[order], training.tol, budget, as_libsvm)
    except KeyboardInterrupt:  # what each problem had is lost: they begin, and end at once, with the models of no step
        budget.interrupted = True
        return {}
    if as_libsvm:
        chosen = choose(training.solver, n_rows=0, n_columns=training.n_columns, positive=training.positive)
    else:
        chosen = Chosen("dual", "the classes have few rows, and one compiled loop solves all pairs")
    return {
        part: Solved(part, np.concatenate([members[c] for c in pair]), result, chosen, rows.n_rows)
        for part, pair, result in zip(parts, pairs, results, strict=True)
        if result is not None
    }


def _side_by_side(
    training: Training, parts: tuple[Split, ...], solved: Callable[[Split, Training, int], Solved], threads: int,
    budget: Budget,
) -> list[Solved]:  # fmt: skip
    """Solve the problems in threads, each with a cache of its own; after an interrupt with what each has by then."""
    done: dict[Split, Solved] = {}
    own: dict[int, Training] = {}

    def some(first: int, last: int) -> None:
        me = threading.get_ident()
        if me not in own:
            own[me] = replace(training, rows=training.rows.apart(threads))
        for part in parts[first:last]:
            done[part] = solved(part, own[me], 1)

    try:
        with limit_threads(threads):
            in_threads(len(parts), 1, some)
    except KeyboardInterrupt:  # all threads have ended
        budget.interrupted = True
    for mine in own.values():
        training.rows.count(mine.rows.evaluations)
    return [done[part] if part in done else solved(part, training, 1) for part in parts]


class _PairMatrices:
    """The kernel matrices of pairs of classes, of rows that lie in the order of their classes.

    Values within a class are kept for its other pairs, and those between two classes are computed in their place: no
    value is computed twice, and the matrix of all rows, most of it far from the processor, is not made.
    """

    def __init__(self, rows: KernelRows, counts: Ints) -> None:
        self._rows, self._ends = rows, np.concatenate(([0], np.cumsum(counts))).tolist()
        self._within: dict[int, Reals] = {}

    def within(self, c: int) -> Reals:
        """Of the rows of a class."""
        if c not in self._within:
            self._within[c] = self._rows.subset(np.arange(self._ends[c], self._ends[c + 1])).full()
        return self._within[c]

    def matrix(self, first: int, second: int) -> WholeMatrix:
        """Of the rows of a class and then of those of a later one."""
        a, b = (slice(self._ends[c], self._ends[c + 1]) for c in (first, second))
        n, middle = a.stop - a.start + b.stop - b.start, a.stop - a.start
        K = np.empty((n, n), dtype=self._rows.dtype)
        K[:middle, :middle], K[middle:, middle:] = self.within(first), self.within(second)
        between = self._rows.block(a, b)
        K[:middle, middle:], K[middle:, :middle] = between, between.T
        return WholeMatrix(K, self._rows.evaluations)


def _in_double(
    training: Training, index: Ints, chosen: Chosen, problem: KernelProblem, result: KernelResult,
    run: Callable[..., KernelResult], tol: float | None,
) -> KernelResult:  # fmt: skip
    """The result certified in double precision, after more steps in it where these are needed for its `tol`."""
    solver, left_out, whose = chosen, 0.0, (training.rows, index, training.cache_size)
    doubt, of_rows = training.rows.rounding(index, result.coef), partial(exact_scores, *whose)
    if chosen.name == "spatial-dual":
        size = float(np.abs(result.coef).sum())
        doubt = doubt + 2.0**-22 * size  # the run leaves out smaller values
        # What the certificate leaves out must be little beside `tol`; steps in double precision leave out nothing.
        left_out = SpatialOptions.negligible * (tol or 1.0)
        of_rows = partial(near_scores, *whose, reach=max(22.0, float(np.log2(size / left_out))) if size else 22.0)
        solver = choose("auto", n_rows=problem.n_rows, n_columns=0)
    result, known = certified(problem, result, of_rows, doubt, left_out)
    # Single precision may have stopped a solver that has no limit of steps.
    useful = result.status == Status.CONVERGED or (
        result.status == Status.MAX_ITER and "max_iter" not in chosen.options
    )
    while tol is not None and useful and result.scores is not None and result.violation > tol:
        double = replace(problem, rows=training.rows.in_double(index, training.cache_size))
        # Scores that are not known in double precision are on their side for certain, so steps hardly ask for them;
        # where a step brings one near its margin, the next certificate sees it.
        more = run(solver, double, start=result.coef, scores=result.scores)
        useful = more.status == Status.CONVERGED and not np.array_equal(more.coef, result.coef)
        more = replace(more, n_iter=result.n_iter + more.n_iter, history=result.history + more.history)
        result, known = certified(problem, more, of_rows, doubt, left_out, known)
    return result


def share_in_reach(rows: KernelMatrix) -> float:
    """Share of the pairs among some rows whose kernel value is not left out in spatial order."""
    some = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, 256)).astype(np.int64)
    return float(np.mean(rows.block(some, some) > 2.0**-22))


def _solve(
    training: Training, chosen: Chosen, problem: KernelProblem, index: Ints, budget: Budget, remaining: int
) -> KernelResult:
    """Solve one of the remaining problems with an equal share of the time, and the limit of steps."""
    most = training.max_iter
    counts = most >= 0 and "max_iter" not in chosen.options  # solvers without a limit are stopped from here
    steps, limited = -1, False

    def count(progress: Progress) -> bool:
        nonlocal steps, limited
        steps += 1
        done = most <= max(steps, progress.iteration)
        limited |= done and not share.stopped
        return done

    seconds = None if budget.left is None else budget.elapsed + budget.left / remaining
    share = replace(budget, seconds=seconds, callbacks=(*budget.callbacks, count) if counts else budget.callbacks)
    tol = HoldOutOptions.without_rows if training.tol is None and problem.upper.all() else training.tol
    run = partial(
        Chosen.solve, tol=tol, budget=share, seed=training.seed, shrinking=training.shrinking,
        max_iter=max(1, most) if most >= 0 else None, positive=training.positive,
    )  # fmt: skip
    try:
        result = run(chosen, problem)
    except KeyboardInterrupt:  # between the solver's own loops: what it had is lost
        share.interrupted = True
        result = run(chosen, problem)
    if problem.rows.dtype == np.float32 or chosen.name == "spatial-dual":
        try:
            result = _in_double(training, index, chosen, problem, result, run, tol)
        except KeyboardInterrupt:  # the model is kept, without a certificate
            share.interrupted = True
            result = replace(result, primal=math.nan, violation=math.nan, status=Status.INTERRUPTED)
    budget.interrupted |= share.interrupted
    budget.stopped |= share.stopped and not limited
    return replace(result, status=Status.MAX_ITER) if result.status == Status.STOPPED and limited else result


def expand(solved: Sequence[Solved], codes: Ints, n_classes: int) -> tuple[Ints, npt.NDArray[np.int32], Floats]:
    """Put the solutions of all problems together.

    Returns
    -------
    support : ndarray of int64, shape (s,)
        Training rows, ordered by class, then by number.
    n_support : ndarray of int32, shape (k,)
    dual_coef : ndarray of shape (k - 1, s), or (k, s) one against the rest
    """
    used = np.zeros(codes.shape[0], dtype=bool)
    for item in solved:
        used[item.index[item.result.coef != 0.0]] = True
    support = np.flatnonzero(used)
    support = support[np.argsort(codes[support], kind="stable")]
    place = np.empty(codes.shape[0], dtype=np.int64)
    place[support] = np.arange(support.shape[0])
    pairs = len(solved) > 1 and solved[0].split.negative is not None
    dual_coef = np.zeros((n_classes - 1 if pairs else len(solved), support.shape[0]))
    for number, item in enumerate(solved):
        chosen = np.flatnonzero(item.result.coef)
        rows, coef = item.index[chosen], item.result.coef[chosen]
        if not pairs:
            dual_coef[number, place[rows]] = coef
            continue
        i, j = item.split.positive, int(item.split.negative or 0)  # i < j, so j is not 0
        dual_coef[np.where(codes[rows] == i, j - 1, i), place[rows]] = coef
    n_support = np.bincount(codes[support], minlength=n_classes).astype(np.int32)
    return support, n_support, dual_coef
