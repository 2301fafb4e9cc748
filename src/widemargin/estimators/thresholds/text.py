"""What is said about a goal on validation rows: the guarantee, or why there is none."""

from collections.abc import Sequence

import numpy as np

from widemargin.estimators.thresholds.guarantee import Margin
from widemargin.goals.binding.tied_goal import TiedGoal
from widemargin.goals.language.values import number_text
from widemargin.goals.measuring.rates_of_predictions import Measured

__all__ = ["cure_text", "guarantee_text", "refusal_text"]


def guarantee_text(
    tied: TiedGoal,
    proofs: Sequence[Margin],
    confidence: float,
    *,
    searched: str = "threshold searched",
    more: str = "",
) -> str:
    """The statement proved, with its assumptions.

    Parameters
    ----------
    searched : str
        What it is valid for every one of.
    more : str
        Further sentences, about what is not covered.
    """
    how = "; ".join(
        f"{item.label!r} by {proof.method} on {proof.n_rows} rows"
        for item, proof in zip(tied.constraints, proofs, strict=True)
    )
    left_out = f" {len(tied.dropped)} dropped constraints are not covered." if tied.dropped else ""
    which = "the constraint holds" if tied.n_constraints == 1 else f"all {tied.n_constraints} constraints hold"
    return (
        f"With probability >= {number_text(confidence)} over the draw of the validation rows, {which} in the "
        f"distribution that they come from, valid for every {searched}, if these rows are independent draws "
        f"from it and were used for nothing else ({how}).{left_out}{more}"
    )


def refusal_text(
    tied: TiedGoal, measured: Measured, proofs: Sequence[Margin] | None, *, refused: str, tried: str, nearest: str
) -> str:
    """Which constraints the nearest candidate misses, and by how much.

    Parameters
    ----------
    refused : str
        Such as "no threshold of these scores".
    tried : str
        Which were tried; said where the goal is missed by estimate.
    nearest : str
        The nearest candidate, which is measured.
    """
    lines = []
    for j, item in enumerate(tied.constraints):
        value, slack = float(measured.value[j]), float(measured.slack[j])
        name = "" if item.constraint.label is None else f"{item.label!r}: "
        if np.isnan(slack):
            lines.append(f"{name}{item.text} is undefined (zero denominator)")
            continue
        need = 0.0
        if proofs is not None:
            need = proofs[j].size / (float(measured.denominator[j]) if item.is_ratio else 1.0)
        if slack < need - 1e-9:
            lines.append(f"{name}{item.text} reaches {value:.4g}, short by {need - slack:.2g}{_sure(proofs, j, need)}")
    rows = sum(tied.n_rows)
    head = (
        f"{refused} meets the goal on the {rows} validation rows ({tried})"
        if proofs is None
        else f"{refused} can be shown to meet the goal on the {rows} validation rows"
    )
    return f"{head}; {nearest} misses {len(lines)} of {tied.n_constraints} constraints: {'; '.join(lines)}."


def _sure(proofs: Sequence[Margin] | None, j: int, need: float) -> str:
    if proofs is None:
        return ""
    proof = proofs[j]
    text = f" (to be sure it must pass the bound by {need:.2g}: {proof.method}, {proof.n_rows} rows"
    return f"{text}; at least {proof.n_needed} are needed)" if proof.n_needed > proof.n_rows else f"{text})"


def cure_text(*, proved: bool, rows: int | None, kept: str) -> str:
    """What can be done.

    Parameters
    ----------
    proved : bool
        Whether a proof was asked for.
    rows : int or None
        Number of validation rows that would do, of a goal that is met by estimate; None: it is not.
    kept : str
        What `on_infeasible="warn"` keeps.
    """
    keep = f'or keep {kept} with on_infeasible="warn".'
    if not proved:
        return f"Loosen one of them, use a better estimator, {keep}"
    if rows is None:
        return f"Nor is it met by estimate. Give looser bounds or a better estimator, {keep}"
    return (
        f"By estimate it can be met (confidence=None); if the rates stay as they are, about {rows} validation rows "
        f"prove it. Give more rows, a lower confidence or looser bounds, {keep}"
    )
