"""HiGHS as the solvers here use it: one thread, no output, tight tolerances, and a second try from scratch."""

import highspy


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
