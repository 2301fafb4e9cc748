"""The plot of a trade-off over bounds, `TradeoffDisplay`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from widemargin._typing import Floats
from widemargin.exceptions import DataError
from widemargin.goals.measuring.tradeoff_path import TradeoffPath
from widemargin.plotting._canvas import axes_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.container import ErrorbarContainer
    from matplotlib.lines import Line2D


@dataclass(kw_only=True, eq=False, repr=False)
class TradeoffDisplay:
    """Objective against the bound that is swept, with error bars on held-out rows.

    Made by `from_path`; the constructor takes the computed arrays.

    Parameters
    ----------
    values : ndarray of shape (K,)
        Horizontal coordinates of the points on the training rows.
    training : ndarray of shape (K,)
        0/1 objective on the training rows.
    met : ndarray of bool, shape (K,)
        Points that do not meet the goal are drawn hollow.
    held_out_values, held_out, held_out_error : ndarray of shape (K,), optional
        The same on held-out rows, with its standard error.
    held_out_values_error : ndarray of shape (K,), optional
    x_name, y_name : str
        Of the axes.

    Attributes
    ----------
    training_line_ : matplotlib Line2D
    held_out_bars_ : matplotlib ErrorbarContainer or None
    missed_ : matplotlib PathCollection or None
        The points that do not meet the goal.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin.plotting import TradeoffDisplay
    >>> display = TradeoffDisplay.from_path(path)  # doctest: +SKIP
    >>> display.figure_.savefig("frontier.png")  # doctest: +SKIP
    """

    values: Floats
    training: Floats
    met: npt.NDArray[np.bool_]
    held_out_values: Floats | None = None
    held_out: Floats | None = None
    held_out_error: Floats | None = None
    held_out_values_error: Floats | None = None
    x_name: str = "bound"
    y_name: str = "objective"

    @classmethod
    def from_path(
        cls, path: TradeoffPath, *, x: str = "reached", errors: float = 1.0, ax: "Axes | None" = None, **kwargs: Any
    ) -> "TradeoffDisplay":
        """Plot a path.

        Parameters
        ----------
        path : TradeoffPath
        x : {"reached", "asked"}, default="reached"
            The horizontal axis: the level that the 0/1 predictions reach on the rows of each curve, or the bound that
            was asked for (always, if no single constraint is swept).
        errors : float, default=1.0
            Half length of the error bars in standard errors.
        ax : matplotlib Axes, optional
        **kwargs
            Given to `plot`.

        Returns
        -------
        TradeoffDisplay

        Raises
        ------
        DataError
            If x is none of the two.
        """
        if x not in ("reached", "asked"):
            raise DataError(f'x must be "reached" or "asked", got {x!r}.')
        reached = x == "reached" and bool(np.isfinite(path.training.reached).any())
        held = path.held_out
        display = cls(
            values=path.training.reached if reached else path.values,
            training=path.training.objective,
            met=path.met,
            held_out_values=None if held is None else (held.reached if reached else path.values),
            held_out=None if held is None else held.objective,
            held_out_error=None if held is None else errors * held.objective_error,
            held_out_values_error=errors * held.reached_error if held is not None and reached else None,
            x_name=f"{path.name}, {'reached' if reached else 'asked'}",
            y_name=path.objective_text,
        )
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: "Axes | None" = None,
        *,
        training: bool = True,
        color: str | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> "TradeoffDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.
        training : bool, default=True
            Whether to draw the training curve where there is a held-out one.
        color : matplotlib color, optional
        name : str, optional
            Prefix of the names in the legend, for several paths in the same axes.
        **kwargs
            Given to `errorbar`.

        Returns
        -------
        self

        Raises
        ------
        MissingLibraryError
            If matplotlib is not installed.
        """
        (axes,) = axes_for(ax)
        self.ax_, self.figure_ = axes, axes.figure
        # Each path in these axes has added up to two entries to the legend, training and held-out rows.
        color = f"C{len(axes.get_legend_handles_labels()[1]) // 2}" if color is None else color
        prefix = "" if name is None else f"{name}, "
        self.training_line_: Line2D | None = None
        self.held_out_bars_: ErrorbarContainer | None = None
        self.missed_: PathCollection | None = None
        if training or self.held_out is None:
            order = np.argsort(self.values, kind="stable")
            (self.training_line_,) = axes.plot(
                self.values[order], self.training[order], color=color, linestyle="--", linewidth=1.0, alpha=0.7,
                label=f"{prefix}training rows",
            )  # fmt: skip
        if self.held_out is not None and self.held_out_values is not None:
            order = np.argsort(self.held_out_values, kind="stable")
            style: dict[str, Any] = {"fmt": "o-", "markersize": 4, "linewidth": 1.2, "elinewidth": 0.8, "capsize": 2}
            y_error, x_error = (
                None if error is None else error[order] for error in (self.held_out_error, self.held_out_values_error)
            )
            self.held_out_bars_ = axes.errorbar(
                self.held_out_values[order], self.held_out[order], yerr=y_error, xerr=x_error,
                color=color, label=f"{prefix}held-out rows", **(style | kwargs),
            )  # fmt: skip
        missed = ~self.met
        if missed.any():  # hollow marks where the goal is not met on the training rows
            x = self.values if self.held_out_values is None else self.held_out_values
            y = self.training if self.held_out is None else self.held_out
            style = {"s": 45, "facecolors": "white", "edgecolors": color, "zorder": 3}
            self.missed_ = axes.scatter(x[missed], y[missed], label=f"{prefix}goal not met", **style)
        axes.set(xlabel=self.x_name, ylabel=self.y_name)
        axes.legend()
        return self
