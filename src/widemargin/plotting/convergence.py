"""The distance of training to the best known objective over time: `ConvergenceDisplay`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import axes_for, curve_style, legend, named, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class ConvergenceDisplay:
    """Objective above the best one known, relative to it, against time or work.

    Made by `from_estimators` or `from_histories`; the constructor takes the computed arrays.

    Parameters
    ----------
    cost : dict of str to ndarray of shape (k,)
    excess : dict of str to ndarray of shape (k,)
        `(value - best) / |best|`.
    cost_name : str

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin.plotting import ConvergenceDisplay
    >>> ConvergenceDisplay.from_estimators({"lbfgs": one, "gd": other}, cost="gradients")  # doctest: +SKIP
    """

    cost: Mapping[str, Floats]
    excess: Mapping[str, Floats]
    cost_name: str

    @classmethod
    def from_estimators(
        cls, estimators: Any, *, cost: str = "seconds", best: float | None = None, ax: "Axes | None" = None
    ) -> "ConvergenceDisplay":
        """Plot the `history_` of fitted estimators that minimise the same objective.

        Parameters
        ----------
        estimators : dict of str to fitted estimator, or fitted estimator
        cost : str, default="seconds"
            Key of the history for the horizontal axis: "seconds", "gradients", "evaluations" or "iteration".
        best : float, optional
            The least value; default: the largest lower bound where all histories have a `dual`, else the least value
            of all histories, whose point is then left out.
        ax : matplotlib Axes, optional

        Returns
        -------
        ConvergenceDisplay
        """
        fitted = named(estimators)
        for name, item in fitted.items():
            if not hasattr(item, "history_"):
                raise DataError(f"{name!r} has no history_; give fitted estimators of this library, or histories.")
        return cls.from_histories({name: item.history_ for name, item in fitted.items()}, cost=cost, best=best, ax=ax)

    @classmethod
    def from_histories(
        cls,
        histories: Mapping[str, Sequence[Mapping[str, float]]],
        *,
        cost: str = "seconds",
        best: float | None = None,
        ax: "Axes | None" = None,
    ) -> "ConvergenceDisplay":
        """Plot histories of solvers.

        Parameters
        ----------
        histories : dict of str to sequence of dict
            Entries with `value`, `primal` or `objective`, and the cost. Of margin pursuit only the entries of the last
            scale are drawn: the others belong to another objective.
        cost, best, ax
            As above.

        Returns
        -------
        ConvergenceDisplay

        Raises
        ------
        DataError
            If a history is empty, lacks the keys, or is of several classes, or if histories have different scales.
        """
        # Of each history the entries at its last scale. All of them must have the same scale, and one class.
        drawn: dict[str, Sequence[Mapping[str, float]]] = {}
        scales = {}
        for name, history in histories.items():
            classes = {entry["class"] for entry in history if "class" in entry}
            if len(classes) > 1:
                raise DataError(
                    f"the history {name!r} is of {len(classes)} classes, each with an objective of its own; give "
                    "that of one: [entry for entry in clf.history_ if entry['class'] == 0]."
                )
            if len(history) and "scale" in history[-1]:
                scales[name] = history[-1]["scale"]
                history = [entry for entry in history if entry.get("scale") == scales[name]]
            drawn[name] = history
        histories = drawn
        if scales and max(scales.values()) > (1.0 + 1e-9) * min(scales.values()):
            shown = ", ".join(f"{name!r}: {scale:.6g}" for name, scale in scales.items())
            raise DataError(f"objectives of different scales cannot be compared ({shown}); train with scale=a number.")
        labels = {"seconds": "time (s)", "gradients": "gradients of single rows", "evaluations": "kernel evaluations"}
        labels["iteration"] = "iterations"
        values = {name: _read(name, history, ("value", "primal", "objective")) for name, history in histories.items()}
        costs = {name: _read(name, history, (cost,)) for name, history in histories.items()}
        if not values:
            raise DataError("there is no history to draw; give at least one.")
        if best is None:
            bounds = [entry.get("dual", np.nan) for history in histories.values() for entry in history]
            best = min(column.min() for column in values.values()) if np.isnan(bounds).any() else np.max(bounds)
        least = float(best)
        excess = {name: (column - least) / max(abs(least), 1e-300) for name, column in values.items()}
        return cls(cost=costs, excess=excess, cost_name=labels.get(cost, cost)).plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "ConvergenceDisplay":
        """Draw the curves on a logarithmic axis.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        self

        Raises
        ------
        MissingLibraryError
            If matplotlib is not installed.
        """
        (axes,) = axes_for(ax, figsize=(5.6, 3.8))
        self.ax_, self.figure_ = axes, axes.figure
        self.lines_: dict[str, Any] = {}
        for number, (name, excess) in enumerate(self.excess.items()):
            shown = excess > 0.0  # the best point itself has no place on a logarithmic axis
            style = curve_style(number) | {"linestyle": "-", "marker": "osD^v"[number % 5]}
            (self.lines_[name],) = axes.plot(
                self.cost[name][shown], excess[shown], markersize=3, markevery=max(1, int(shown.sum()) // 20),
                linewidth=1.3, label=name, **style,
            )  # fmt: skip
        if any((excess > 0.0).any() for excess in self.excess.values()):
            axes.set_yscale("log")
        costs = np.concatenate(list(self.cost.values()))
        if costs.max() > 100.0 * costs.min() > 0.0:
            axes.set_xscale("log")
        else:
            axes.set_xlim(left=0.0)  # where the fit began
        tidy(axes, x=self.cost_name, y="objective above the best (relative)")
        legend(axes, outside=ax is None)
        return self


def _read(name: str, history: Sequence[Mapping[str, float]], keys: Sequence[str]) -> Floats:
    """One column of a history."""
    for key in keys:
        if len(history) and all(key in entry for entry in history):
            return np.array([entry[key] for entry in history], dtype=np.float64)
    raise DataError(f"the history {name!r} has {len(history)} entries and not all hold {' or '.join(keys)}.")
