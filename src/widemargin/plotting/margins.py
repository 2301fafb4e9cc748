"""Margin distributions over each other: `MarginDistributionDisplay`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin._typing import Floats
from widemargin.diagnostics.margins import margins_of
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import COLOURS, legend, require_matplotlib, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MarginDistributionDisplay"]


KINDS = ("density", "cumulative", "both")
_MOST_BINS = 60
_TAIL = 0.002  # share of margins on either side that the axis may leave out
_STYLES = ("-", "--", "-.", ":")


class MarginDistributionDisplay:
    """Density and cumulative share of margins, of several classifiers or training checkpoints.

    Made by `from_estimators` or `from_margins`; the constructor takes the computed arrays.

    Parameters
    ----------
    margins : dict of str to ndarray of shape (n,)
        By the name that the legend shows.
    unit : str, default="scores"
        Of the horizontal axis.
    ordered : bool, default=False
        Whether the distributions are stages of one training: then their colours go from light to dark.

    Attributes
    ----------
    lines_ : dict of str to list of matplotlib artists
    axes_ : list of matplotlib Axes
        One for each kind that is drawn.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin.plotting import MarginDistributionDisplay
    >>> display = MarginDistributionDisplay.from_estimators({"SVM": svm, "pursuit": clf}, X, y)  # doctest: +SKIP
    >>> display.figure_.savefig("margins.png")  # doctest: +SKIP
    """

    def __init__(self, *, margins: Mapping[str, Floats], unit: str = "scores", ordered: bool = False) -> None:
        self.margins = margins
        self.unit = unit
        self.ordered = ordered

    @classmethod
    def from_estimators(
        cls,
        estimators: Any,
        X: Any,
        y: Any,
        *,
        normalize: str | float | None = None,
        ordered: bool = False,
        kind: str = "both",
        axes: "Axes | Sequence[Axes] | None" = None,
    ) -> "MarginDistributionDisplay":
        """Plot the margins of fitted classifiers.

        Parameters
        ----------
        estimators : dict of str to fitted classifier, or fitted classifier
        X, y : array-like
            As for `widemargin.margin_report`.
        normalize : {None, "norm", "median", "max"} or float, default=None
            As for `widemargin.margin_report`; classifiers of different kinds are compared by "median" or "norm".
        ordered : bool, default=False
            Whether they are stages of one training.
        kind : {"both", "density", "cumulative"}, default="both"
        axes : matplotlib Axes, or sequence of them, optional
            Default: a new figure.

        Returns
        -------
        MarginDistributionDisplay
        """
        named = estimators if isinstance(estimators, Mapping) else {type(estimators).__name__: estimators}
        found = {name: margins_of(clf, X, y, normalize=normalize) for name, clf in named.items()}
        units = {item.unit for item in found.values()}
        unit = units.pop() if len(units) == 1 else "own units of each"
        margins = {name: item.values for name, item in found.items()}
        return cls(margins=margins, unit=unit, ordered=ordered).plot(kind=kind, axes=axes)

    @classmethod
    def from_margins(
        cls,
        margins: Mapping[str, Any],
        *,
        unit: str = "scores",
        ordered: bool = False,
        kind: str = "both",
        axes: "Axes | Sequence[Axes] | None" = None,
    ) -> "MarginDistributionDisplay":
        """Plot margins that are known already, for example those of checkpoints kept during training.

        Parameters
        ----------
        margins : dict of str to array-like of shape (n,)
        unit, ordered, kind, axes
            As above.

        Returns
        -------
        MarginDistributionDisplay
        """
        if not isinstance(margins, Mapping):
            raise DataError("margins must be a dict of names and vectors, such as {'SVM': margins}.")
        known = {str(name): np.asarray(values, dtype=np.float64) for name, values in margins.items()}
        return cls(margins=known, unit=unit, ordered=ordered).plot(kind=kind, axes=axes)

    def plot(self, *, kind: str = "both", axes: "Axes | Sequence[Axes] | None" = None) -> "MarginDistributionDisplay":
        """Draw them.

        Parameters
        ----------
        kind : {"both", "density", "cumulative"}, default="both"
        axes : matplotlib Axes, or a sequence of two for "both", optional

        Returns
        -------
        self

        Raises
        ------
        DataError
            If there is nothing to draw, margins are not finite, or as many axes are not given.
        MissingLibraryError
            If matplotlib is not installed.
        """
        if kind not in KINDS:
            raise DataError(f"kind is {kind!r}; give one of {', '.join(KINDS)}.")
        if not self.margins or any(values.ndim != 1 or not values.shape[0] for values in self.margins.values()):
            raise DataError("there is nothing to draw; give at least one vector of margins that is not empty.")
        for name, values in self.margins.items():
            lost = int((~np.isfinite(values)).sum())
            if lost:
                raise DataError(f"{lost} of {values.shape[0]} margins of {name!r} are not finite; leave them out.")
        parts = ("density", "cumulative") if kind == "both" else (kind,)
        self.axes_ = self._axes(axes, len(parts))
        self.figure_ = self.axes_[0].figure
        self.lines_: dict[str, list[Any]] = {name: [] for name in self.margins}
        low, high = self._range()
        for ax, part in zip(self.axes_, parts, strict=True):
            self._draw(ax, part, low, high)
        legend(self.axes_[0], outside=axes is None)
        return self

    def _draw(self, ax: "Axes", part: str, low: float, high: float) -> None:
        fewest = min(values.shape[0] for values in self.margins.values())
        count = min(_MOST_BINS, int(np.ceil(2.5 * np.cbrt(fewest))) + 2)  # few rows make a noisy density of fine bins
        bins = np.linspace(low, high, count + 1)
        for number, (name, values) in enumerate(self.margins.items()):
            style = {"color": self._colour(number), "linewidth": 1.5, "linestyle": self._style(number), "label": name}
            if part == "density":
                height = np.histogram(values, bins)[0] / (values.shape[0] * (bins[1] - bins[0]))
                self.lines_[name].append(ax.stairs(height, bins, **style))
            else:
                x = np.sort(values)
                share = 100.0 * np.arange(1, x.shape[0] + 1) / x.shape[0]
                self.lines_[name].append(ax.plot(x, share, drawstyle="steps-post", **style)[0])
        ax.axvline(0.0, color=COLOURS["black"], linewidth=0.8, alpha=0.6)
        ax.set_xlim(low, high)
        ax.set_ylim(bottom=0.0)
        label = "share of rows per unit of margin" if part == "density" else "rows with a smaller margin (%)"
        tidy(ax, x=f"margin ({self.unit}; wrong left of 0)", y=label)

    def _range(self) -> tuple[float, float]:
        """An interval that holds nearly all margins of each, and 0."""
        ends = np.array([np.quantile(values, [_TAIL, 1.0 - _TAIL]) for values in self.margins.values()])
        low, high = min(0.0, float(ends[:, 0].min())), max(0.0, float(ends[:, 1].max()))
        room = 0.05 * (high - low) or 1.0
        return low - room, high + room

    def _colour(self, number: int) -> Any:
        if not self.ordered:
            return list(COLOURS.values())[number % len(COLOURS)]
        import matplotlib

        return matplotlib.colormaps["viridis_r"](0.15 + 0.85 * number / max(1, len(self.margins) - 1))

    def _style(self, number: int) -> str:
        return "-" if self.ordered else _STYLES[number % len(_STYLES)]

    @staticmethod
    def _axes(axes: "Axes | Sequence[Axes] | None", count: int) -> "list[Axes]":
        require_matplotlib()
        if axes is None:
            import matplotlib.pyplot as plt

            _, made = plt.subplots(1, count, figsize=(5.2 * count, 3.6), layout="constrained", squeeze=False)
            return list(made[0])
        given = list(np.ravel(np.array(axes, dtype=object)))
        if len(given) != count:
            raise DataError(f"{len(given)} axes were given and {count} are needed; choose kind, or leave axes out.")
        return given
