"""What a rate-constrained model says about new rows without any held out (Appendix C of the paper)."""

from typing import Any

import numpy as np

from widemargin._typing import Floats
from widemargin.estimators.rate_constrained.fitting import Trained
from widemargin.goals.binding.bind import TiedGoal
from widemargin.problems.generalization import capacity, datasets_of, violation_bound
from widemargin.solvers.ramp.majorization import MajorizeOptions

__all__ = ["DELTA", "generalization_note", "model_bound"]

DELTA = 0.05
"""Probability with which the bound may fail."""

BOXES = MajorizeOptions.rhos
"""Largest multipliers that the steps of the ladder allow, known before any data are seen. The bound holds for all of
them at once, each with its share of `DELTA`, so that of the step that was reached may be used."""


def model_bound(tied: TiedGoal, trained: Trained, enforcement: str, *, mapped: bool) -> tuple[float, Floats] | None:
    """E, and by how much each constraint may fail on new rows, shape (m,), in rates; 1 and more says nothing.

    None for a model that the theorem is not about: one whose bias was chosen by 0/1 rates, that is no solution of a
    convex step, or was trained on weighted rows or on features that were themselves fitted (`mapped`). The largest norm
    of the training rows (in the kernel's space, where there is one) stands for that of all rows.
    """
    weighted = any(weight is not None for weight in tied.weight)
    searched = enforcement != "randomized" or trained.best.shifted or not trained.solution.certified
    if searched or weighted or mapped or tied.n_constraints == 0:
        return None
    rows: Any = trained.problem.rows
    radius = float(np.sqrt(rows.norms2().max()))
    data = datasets_of(tied)
    box, share = trained.solution.rho, DELTA / len(BOXES)
    factor = capacity(data, radius=radius, lam=trained.problem.lam, box=box, delta=share)
    return factor, violation_bound(data, factor)


def generalization_note(tied: TiedGoal, found: tuple[float, Floats] | None) -> tuple[str, ...]:
    """The note for the report, none without constraints; `found` None stands for a model that it is not about."""
    if tied.n_constraints == 0:
        return ()
    if found is None:
        cause = "the bias was searched, or rows are weighted, or features fitted"
        return (f"generalisation bound (Appendix C): not applicable ({cause}; it is about the randomised classifier)",)
    factor, violation = found
    shown = np.minimum(violation, 1.0)
    if (shown >= 1.0).all():
        values = "1 for every constraint: vacuous"
    else:
        values = ", ".join(
            f"{item.constraint.label or f'#{j + 1}'} {value:.3f}{' (vacuous)' if value >= 1.0 else ''}"
            for j, (item, value) in enumerate(zip(tied.constraints, shown, strict=True))
        )
    note = (
        f"generalisation bound (Appendix C, {1.0 - DELTA:.0%}, E = {factor:.3g}): a constraint of the randomised "
        f"classifier is violated on new rows by at most {values}; held-out rows say more"
    )
    return (note,)
