"""HiGHS as the solvers here use it: one thread, no output, tight tolerances, and a second try from scratch."""

import highspy
import numpy as np

from widemargin._typing import Floats


def quiet_highs(tolerance: float = 1e-10, **options: str | float) -> highspy.Highs:
    """An empty model on one thread, without output, of that feasibility tolerance, with further options."""
    model = highspy.Highs()
    # Rates are compared with their bounds to 1e-9, so the tolerance of HiGHS has to be finer than its default.
    feasibility = {f"{name}_feasibility_tolerance": tolerance for name in ("primal", "dual", "mip")}
    for name, value in {"output_flag": False, "threads": 1, **feasibility, **options}.items():
        model.setOptionValue(name, value)
    return model


def solved(model: highspy.Highs) -> bool:
    """Solve; whether there is an optimum, which a warm start and a start from scratch both have to deny."""
    model.run()
    if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        # A warm basis may mislead after many nearly equal rows, up to a wrong "infeasible".
        model.clearSolver()
        model.run()
    return bool(model.getModelStatus() == highspy.HighsModelStatus.kOptimal)


class CutModel:
    """Maximum of `z` over `z <= f_s + c_s . v`, `0 <= v <= top`: one HiGHS model, warm from solve to solve.

    It is exact to about `tolerance`, the feasibility that HiGHS is asked for.
    """

    tolerance = 1e-10

    def __init__(self, top: Floats) -> None:
        self.top = top.copy()
        self._m = top.shape[0]
        self._columns = np.arange(self._m + 1, dtype=np.int32)
        self._lp = quiet_highs(self.tolerance)
        for end in top:
            self._lp.addVar(0.0, float(end))
        # The last variable is z, the height below all cuts.
        self._lp.addVar(-highspy.kHighsInf, highspy.kHighsInf)
        self._lp.changeColCost(self._m, 1.0)
        self._lp.changeObjectiveSense(highspy.ObjSense.kMaximize)

    @property
    def number(self) -> int:
        """How many cuts there are."""
        return int(self._lp.getNumRow())

    def add(self, value: float, excess: Floats) -> None:
        """Add the cut `z - excess . v <= value`."""
        self._lp.addRow(-highspy.kHighsInf, value, self._m + 1, self._columns, np.append(-excess, 1.0))

    def widen(self, j: int, top: float) -> None:
        """Move the upper end of multiplier j."""
        self.top[j] = top
        self._lp.changeColBounds(j, 0.0, top)

    def maximise(self) -> tuple[float, Floats, Floats]:
        """U, its multipliers v, and the weights theta >= 0 of the cuts, which sum to one.

        Raises
        ------
        RuntimeError
            Where HiGHS fails, also from scratch.
        """
        if not solved(self._lp):
            status = self._lp.getModelStatus()
            raise RuntimeError(f"HiGHS ended with {status} on an LP that has a solution; report the problem")
        solution = self._lp.getSolution()
        # Duals of a maximisation have a sign of their own; rounding may leave them short of one in sum.
        theta = np.abs(np.asarray(solution.row_dual))
        v = np.asarray(solution.col_value)
        return float(v[-1]), np.clip(v[:-1], 0.0, self.top), theta / theta.sum()
