"""The pairwise model as a linear programme in HiGHS, warm from query to query; with integers, as an exact MILP.

Columns `mu_l`, `mu_lm`, `h` and `g`; rows of the local polytope, of the definitions of h and g, and of the cone.
Between queries one cost, two coefficients and the bounds of the cone's rows change; between examples the rows of h and
g, so the basis is kept.
"""

from typing import NamedTuple

import highspy
import numpy as np

from widemargin._typing import Floats, Ints
from widemargin.exceptions import WidemarginError
from widemargin.solvers.highs import quiet_highs, solved
from widemargin.structured.compiled import Structure
from widemargin.structured.oracle import CONE, CONVEX, FREE, LEVEL, Answer, PartialOracle

__all__ = ["PairwiseProgram", "ProgramOracle", "Relaxed"]

_INF = highspy.kHighsInf


class Relaxed(NamedTuple):
    """Means of the labels and of their products; joint features are `A = mu`, `b = pairs`.

    Attributes
    ----------
    mu : ndarray of shape (k,)
        In [0, 1].
    pairs : ndarray of shape (P,)
        Of `y_p y_q`.
    """

    mu: Floats
    pairs: Floats


class PairwiseProgram:
    """One HiGHS model for all examples of a pairwise multi-label model.

    Parameters
    ----------
    structure : Structure
        Of any multi-label kind.
    integer : bool, default=False
        Exact label sets by branch and bound, instead of the relaxation.
    arcs : ndarray of shape (m, 2), optional
        (parent, child): labels that come with their parents only.
    """

    def __init__(self, structure: Structure, *, integer: bool = False, arcs: Ints | None = None) -> None:
        self.structure, self.integer = structure, integer
        self._k, pairs = structure.weight.shape[1], structure.pairs
        self._n_pairs = pairs.shape[0]
        self._h, self._g = self._k + self._n_pairs, self._k + self._n_pairs + 1
        self._owner: object = None
        # Without presolve the basis survives from query to query.
        lp = self._lp = quiet_highs(1e-9, presolve="off", mip_rel_gap=0.0)
        for _ in range(self._k + self._n_pairs):
            lp.addVar(0.0, 1.0)
        # The two columns after the labels and pairs: h, which may be negative, and g.
        lp.addVar(-_INF, _INF)
        lp.addVar(0.0, _INF)
        if integer:
            for label in range(self._k):
                lp.changeColIntegrality(label, highspy.HighsVarType.kInteger)
        lp.changeObjectiveSense(highspy.ObjSense.kMaximize)
        # The local polytope: the product is below each of its labels, and above their sum minus one.
        for e, (p, q) in enumerate(pairs.tolist()):
            both = self._k + e
            lp.addRow(-_INF, 0.0, 2, np.array([both, p], dtype=np.int32), np.array([1.0, -1.0]))
            lp.addRow(-_INF, 0.0, 2, np.array([both, q], dtype=np.int32), np.array([1.0, -1.0]))
            lp.addRow(-1.0, _INF, 3, np.array([both, p, q], dtype=np.int32), np.array([1.0, -1.0, -1.0]))
        above = np.zeros((0, 2), dtype=np.int64) if arcs is None else arcs
        # A child is no larger than its parent: closed sets.
        for parent, child in above.tolist():
            lp.addRow(-_INF, 0.0, 2, np.array([child, parent], dtype=np.int32), np.array([1.0, -1.0]))
        self._first = 3 * self._n_pairs + above.shape[0]  # rows of h, of g, and the two of the cone
        columns = np.arange(self._g + 1, dtype=np.int32)
        every = columns[: self._h + 1]
        lp.addRow(0.0, 0.0, every.shape[0], every, np.ones(every.shape[0]))
        labels = np.append(columns[: self._k], np.int32(self._g))
        lp.addRow(0.0, 0.0, labels.shape[0], labels, np.ones(labels.shape[0]))
        for _ in range(2):
            lp.addRow(-_INF, _INF, 2, columns[self._h : self._g + 1], np.ones(2))

    def bind(self, owner: object, u: Floats, theta: Floats, truth: Ints) -> None:
        """Write the rows of h and g of an example."""
        if self._owner is owner:
            return
        self._owner = owner
        lp, row, weight = self._lp, self._first, self.structure.weight[0]
        p, q = self.structure.pairs[:, 0], self.structure.pairs[:, 1]
        # h = 1 + f(y) - f(y_i): the score of the truth goes to the right-hand side.
        own = float(u[0] @ truth + theta @ (truth[p] * truth[q]))
        for column, value in enumerate(np.concatenate([u[0], theta]).tolist()):
            lp.changeCoeff(row, column, -value)
        lp.changeCoeff(row, self._h, 1.0)
        lp.changeRowBounds(row, 1.0 - own, 1.0 - own)
        for column, value in enumerate((weight * (1.0 - 2.0 * truth)).tolist()):
            lp.changeCoeff(row + 1, column, -value)
        lp.changeCoeff(row + 1, self._g, 1.0)
        # g counts a label that is on as an error where the truth is off, and one that is off where it is on.
        errors = float(weight @ truth)
        lp.changeRowBounds(row + 1, errors, errors)

    def solve(
        self, lam: float, alpha: float = np.inf, beta: float = 0.0, level: float | None = None, cone: bool = False
    ) -> tuple[Relaxed, float, float] | None:
        """The best `h + lam g` of the bound example, in a cone or at a level; None where there is nothing.

        A cone with alpha above 1e6 has no upper end but `h >= 0`: the labels this adds have next to no `h g`.
        """
        lp, row = self._lp, self._first + 2
        lp.changeColCost(self._h, 1.0)
        lp.changeColCost(self._g, float(lam))
        lp.changeColBounds(self._h, 0.0 if cone else -_INF, _INF)
        lp.changeColBounds(self._g, 0.0 if level is None else level, _INF if level is None else level)
        # Divided by the root of alpha, both coefficients of the row are of one size, which keeps HiGHS accurate.
        # With alpha of 1e9 it took cones for empty, or returned a worse label.
        bounded = cone and alpha <= 1e6
        steep, flat = np.sqrt(alpha) if bounded else 1.0, np.sqrt(beta) if cone and beta > 0.0 else 1.0
        lp.changeCoeff(row, self._h, float(steep))  # alpha h >= g, of like coefficients
        lp.changeCoeff(row, self._g, float(-1.0 / steep))
        lp.changeRowBounds(row, 0.0 if bounded else -_INF, _INF)
        # The lower side of the cone, g >= beta h, in the same way.
        lp.changeCoeff(row + 1, self._h, float(-beta / flat))
        lp.changeCoeff(row + 1, self._g, float(1.0 / flat))
        lp.changeRowBounds(row + 1, 0.0 if cone else -_INF, _INF)
        if not solved(lp):
            status = lp.getModelStatus()
            if status == highspy.HighsModelStatus.kInfeasible:
                return None
            raise WidemarginError(
                f"HiGHS stopped with {lp.modelStatusToString(status)} on {self._k} labels; use oracle='roof'."
            )
        x = np.array(lp.getSolution().col_value)
        return Relaxed(x[: self._k], x[self._k : self._h]), float(x[self._h]), float(x[self._g])


class ProgramOracle(PartialOracle):
    """Oracle of an example over a `PairwiseProgram`.

    The relaxation answers "free" and "cone" with `Relaxed` labels (its points fill a polygon: "convex"); the integer
    programme with label sets, exactly, and levels too where the losses are integers. Answers satisfy a cone up to 1e-9
    of HiGHS, so `tolerance` is 1e-6.

    Parameters
    ----------
    u : ndarray of shape (1, k)
    theta : ndarray of shape (P,)
    truth : ndarray of shape (k,)
    program : PairwiseProgram
        Shared by the examples; one per thread.
    """

    tolerance = 1e-6

    def __init__(self, u: Floats, theta: Floats, truth: Ints, program: PairwiseProgram) -> None:
        self._u, self._theta, self._truth, self._program = u, theta, truth, program
        weight = program.structure.weight[0]
        # Levels exist where losses are integers; a relaxation has points between them.
        whole = program.integer and bool((weight == np.rint(weight)).all())
        able = [LEVEL] if whole else [] if program.integer else [CONVEX]
        self.capabilities = frozenset({FREE, CONE, *able})
        self.smallest_loss = float(weight[weight > 0.0].min()) if program.integer else 0.0
        self.largest_loss = float(weight.sum())

    def _solve(self, lam: float, **limits: float | bool) -> Answer | None:
        self._program.bind(self, self._u, self._theta, self._truth)
        solution = self._program.solve(lam, **limits)  # type: ignore[arg-type]
        if solution is None:
            return None
        y, h, g = solution
        if not self._program.integer:
            return Answer(y, h, g)
        # The point is computed anew from whole labels: that of HiGHS is right up to its tolerance only.
        label = np.rint(y.mu).astype(np.int64)
        p, q = self._program.structure.pairs[:, 0], self._program.structure.pairs[:, 1]
        change, pairs = label - self._truth, label[p] * label[q] - self._truth[p] * self._truth[q]
        h = 1.0 + float(self._u[0] @ change + self._theta @ pairs)
        return Answer(label, h, float(self._program.structure.weight[0] @ np.abs(change)))

    def free(self, lam: float) -> Answer:
        """The label with the largest `h + lam g`."""
        answer = self._solve(lam)
        assert answer is not None
        return answer

    def cone(self, lam: float, alpha: float, beta: float) -> Answer | None:
        """The same among the labels with `beta h <= g <= alpha h` and `h >= 0`."""
        return self._solve(lam, alpha=alpha, beta=beta, cone=True)

    def level(self, c: int) -> Answer | None:
        """The label with the largest h among those of loss c."""
        return self._solve(0.0, level=float(c))
