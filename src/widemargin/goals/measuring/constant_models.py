"""No empty victories: whether a model decides the same for every row, or is no better than one that does."""

from collections.abc import Sequence

import numpy as np

from widemargin._typing import Floats, Label
from widemargin.goals.binding.sources import SAID
from widemargin.goals.binding.tied_goal import Predictions, TiedGoal
from widemargin.goals.measuring.rates_of_predictions import TOLERANCE, Measured


def of_constants(tied: TiedGoal, predicted: Predictions, measured: Measured, label: Label) -> list[str]:
    """Whether the model decides the same for every row, or a model that does so would be as good."""
    if tied.several:
        return _of_several_constants(tied, predicted, measured)
    # The labels of the rows asked about are those of the main source; an external one may be all of one kind.
    start = tied.space.start[None]
    main = slice(start, start + tied.space.parts[None].n_cells)
    n_rows = tied.sources[0].n_rows
    positive, whole = float(measured.positive_mass[main].sum()), float(tied.cell_weight[main].sum())
    if SAID in tied.space.parts[None].baselines:
        some = positive > TOLERANCE * whole
        return [] if some else [f"the model abstains on all of the {n_rows} rows."]
    for word, share in (("none", 0.0), ("all", 1.0)):
        if abs(positive - share * whole) <= TOLERANCE * whole:
            return [f"the model is constant: it calls {word} of the {n_rows} rows {label!r}. It has learned nothing."]
    words = [f"no row {label!r}", f"every row {label!r}"]
    return _no_worse(tied, measured, list(zip(words, (mass for _, mass in tied.constants()), strict=True)))


def _of_several_constants(tied: TiedGoal, predicted: Predictions, measured: Measured) -> list[str]:
    """The same where there are several classes."""
    numbers = np.unique(predicted[0])
    if len(numbers) == 1:
        label, n_rows = tied.classes[int(numbers[0]) - 1], tied.given[0].n_rows
        return [f"the model is constant: it calls all of the {n_rows} rows {label!r}. It has learned nothing."]
    labels = [f"every row {label!r}" for label in tied.classes]
    return _no_worse(tied, measured, list(zip(labels, (mass for _, mass in tied.constants()), strict=True)))


def _no_worse(tied: TiedGoal, measured: Measured, constants: Sequence[tuple[str, Floats]]) -> list[str]:
    """Whether one of some constants, by what it calls which rows, is as good as the model."""
    if not tied.has_objective or not np.isfinite(measured.objective):
        return []
    for words, constant in constants:
        other = tied.measure(constant)
        if other.objective <= measured.objective + TOLERANCE and (other.met | ~measured.met).all():
            missed = int(np.count_nonzero(~other.met))
            bounds = f"misses only {missed} bounds that it misses too" if missed else "meets every bound"
            text = f"calling {words} has the objective {other.objective:.4f} (the model:"
            return [f"a constant is no worse: {text} {measured.objective:.4f}) and {bounds}. Add features or rows."]
    return []
