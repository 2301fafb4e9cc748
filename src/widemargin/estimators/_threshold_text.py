"""What a threshold classifier says about its goal: the guarantee, or why there is no threshold."""

from collections.abc import Sequence

import numpy as np

from widemargin.estimators._threshold_guarantee import Margin
from widemargin.goals.bound import BoundGoal
from widemargin.goals.measure import Measured
from widemargin.goals.printing import number_text

__all__ = ["guarantee_text", "refusal_text"]


def guarantee_text(bound: BoundGoal, proofs: Sequence[Margin], confidence: float) -> str:
    """The statement proved, with its assumptions."""
    how = "; ".join(
        f"{item.label!r} by {proof.method} on {proof.n_rows} rows"
        for item, proof in zip(bound.constraints, proofs, strict=True)
    )
    left_out = f" {len(bound.dropped)} dropped constraints are not covered." if bound.dropped else ""
    which = "the constraint holds" if bound.n_constraints == 1 else f"all {bound.n_constraints} constraints hold"
    return (
        f"With probability >= {number_text(confidence)} over the draw of the validation rows, {which} in the "
        "distribution that they come from, valid for every threshold searched, if these rows are independent draws "
        f"from it and were used for nothing else ({how}).{left_out}"
    )


def refusal_text(
    bound: BoundGoal, measured: Measured, threshold: float, proofs: Sequence[Margin] | None, met_by_estimate: bool
) -> str:
    """Which constraints the nearest threshold misses, by how much, and what can be done."""
    lines = []
    for j, item in enumerate(bound.constraints):
        value, slack = float(measured.value[j]), float(measured.slack[j])
        name = "" if item.constraint.label is None else f"{item.label!r}: "
        need = 0.0
        if proofs is not None:
            need = proofs[j].size / (float(measured.denominator[j]) if item.is_ratio else 1.0)
        if np.isnan(slack):
            lines.append(f"{name}{item.text} is undefined (zero denominator)")
        elif slack < need - 1e-9:
            lines.append(f"{name}{item.text} reaches {value:.4g}, short by {need - slack:.2g}{_sure(proofs, j, need)}")
    rows = sum(bound.n_rows)
    head = (
        f"no threshold of these scores meets the goal on the {rows} validation rows (every one was tried)"
        if proofs is None
        else f"no threshold of these scores can be shown to meet the goal on the {rows} validation rows"
    )
    nearest = f"the nearest, {threshold:.6g}, misses {len(lines)} of {bound.n_constraints} constraints"
    return f"{head}; {nearest}: {'; '.join(lines)}. {_cure(proofs, met_by_estimate)}"


def _sure(proofs: Sequence[Margin] | None, j: int, need: float) -> str:
    if proofs is None:
        return ""
    proof = proofs[j]
    text = f" (to be sure it must pass the bound by {need:.2g}: {proof.method}, {proof.n_rows} rows"
    return f"{text}; at least {proof.n_needed} are needed)" if proof.n_needed > proof.n_rows else f"{text})"


def _cure(proofs: Sequence[Margin] | None, met_by_estimate: bool) -> str:
    keep = 'or keep this threshold with on_infeasible="warn".'
    if proofs is None:
        return f"Loosen one of them, use a better estimator, {keep}"
    estimate = "By estimate it can be met (confidence=None). " if met_by_estimate else "Nor is it met by estimate. "
    return f"{estimate}Give more validation rows, a lower confidence or looser bounds, {keep}"
