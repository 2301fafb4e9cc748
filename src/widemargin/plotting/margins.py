"""Displays of margins, `MarginDistributionDisplay`, and of the error of the surest rows, `RiskCoverageDisplay`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin._typing import Floats
from widemargin.diagnostics.margins import curve, group_rows, margins_of, row_weights
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import COLOURS, axes_for, curve_style, legend, named, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
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

    margins: Mapping[str, Floats]
    unit: str = "scores"
    ordered: bool = False

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
        each = {name: margins_of(clf, X, y, normalize=normalize) for name, clf in named(estimators).items()}
        units = {item.unit for item in each.values()}
        unit = units.pop() if len(units) == 1 else "own units of each"
        margins = {name: item.values for name, item in each.items()}
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
        """Plot margins that are known already, for example those of checkpoints stored during training.

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
        vectors = {str(name): np.asarray(values, dtype=np.float64) for name, values in margins.items()}
        return cls(margins=vectors, unit=unit, ordered=ordered).plot(kind=kind, axes=axes)

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
            If there is nothing to draw, margins are not finite, or the number of axes is wrong.
        MissingLibraryError
            If matplotlib is not installed.
        """
        parts = {"both": ("density", "cumulative"), "density": ("density",), "cumulative": ("cumulative",)}.get(kind)
        if parts is None:
            raise DataError(f"kind is {kind!r}; give one of density, cumulative, both.")
        if not self.margins or any(values.ndim != 1 or not values.shape[0] for values in self.margins.values()):
            raise DataError("there is nothing to draw; give at least one vector of margins that is not empty.")
        for name, values in self.margins.items():
            lost = int((~np.isfinite(values)).sum())
            if lost:
                raise DataError(f"{lost} of {values.shape[0]} margins of {name!r} are not finite; leave them out.")
        self.axes_ = axes_for(axes, len(parts), figsize=(5.2 * len(parts), 3.6))
        self.figure_ = self.axes_[0].figure
        self.lines_: dict[str, list[Any]] = {name: [] for name in self.margins}
        # An interval that holds nearly all margins of each (0.002 of them may lie beyond either end), and 0.
        ends = np.array([np.quantile(values, [0.002, 0.998]) for values in self.margins.values()])
        low, high = min(0.0, float(ends[:, 0].min())), max(0.0, float(ends[:, 1].max()))
        room = 0.05 * (high - low) or 1.0
        for ax, part in zip(self.axes_, parts, strict=True):
            self._draw(ax, part, low - room, high + room)
        legend(self.axes_[0], outside=axes is None)
        return self

    def _draw(self, ax: "Axes", part: str, low: float, high: float) -> None:
        import matplotlib

        fewest = min(values.shape[0] for values in self.margins.values())
        # The number of bins grows with the cube root of the rows (as in Rice's rule), so that a bin of few rows
        # is not mere noise.
        count = min(60, int(np.ceil(2.5 * np.cbrt(fewest))) + 2)
        bins = np.linspace(low, high, count + 1)
        for number, (name, values) in enumerate(self.margins.items()):
            style = {"linewidth": 1.5, "label": name, **curve_style(number)}
            if self.ordered:  # the lightest colours of the map are hard to see on white, so it begins a little later
                place = 0.15 + 0.85 * number / max(1, len(self.margins) - 1)
                style |= {"color": matplotlib.colormaps["viridis_r"](place), "linestyle": "-"}
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


@dataclass(kw_only=True, eq=False, repr=False)
class RiskCoverageDisplay:
    """Selective risk against coverage: the error of the rows that a classifier is surest of, by their share.

    Made by `from_estimators`; the constructor takes the computed arrays.

    Parameters
    ----------
    curves : dict of str to (ndarray, ndarray)
        By the name that the legend shows: increasing shares of the rows, and the error of that share.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin.plotting import RiskCoverageDisplay
    >>> display = RiskCoverageDisplay.from_estimators(clf, X, y, groups=sex)  # doctest: +SKIP
    >>> display.figure_.savefig("risk-coverage.png")  # doctest: +SKIP
    """

    curves: Mapping[str, tuple[Floats, Floats]]

    @classmethod
    def from_estimators(
        cls, estimators: Any, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None, ax: "Axes | None" = None
    ) -> "RiskCoverageDisplay":
        """Plot the curve of each classifier, or of each group of rows.

        Parameters
        ----------
        estimators : dict of str to fitted classifier, or fitted classifier
            One, if there are groups.
        X, y : array-like
            As for `widemargin.margin_report`; rows that the classifiers did not learn from.
        groups : array-like of shape (n,), default=None
            A curve for each of its values, and one for all rows.
        sample_weight : array-like of shape (n,), default=None
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        RiskCoverageDisplay

        Raises
        ------
        DataError
            If a classifier gives margins and no certainty, or there are groups and several classifiers.
        MissingLibraryError
            If matplotlib is not installed.
        """
        classifiers = named(estimators)
        if groups is not None and len(classifiers) > 1:
            raise DataError(f"{len(classifiers)} classifiers and groups were given; show one classifier by groups.")
        given = row_weights(sample_weight, len(y))
        weight = np.ones(len(y)) if given is None else given
        curves = {}
        for name, clf in classifiers.items():
            margins = margins_of(clf, X, y)
            if margins.certainty is None:
                raise DataError(f"{name} gives margins, which do not say how sure it is where it is wrong.")
            parts = {name if groups is None else "all rows": np.arange(len(weight))}
            if groups is not None:
                parts |= dict(group_rows(groups, len(weight))[0])
            for part, rows in parts.items():
                curves[part] = curve(margins.certainty[rows], margins.values[rows] <= 0.0, weight[rows])
        return cls(curves=curves).plot(ax=ax)

    def plot(self, *, ax: "Axes | None" = None) -> "RiskCoverageDisplay":
        """Draw them.

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
        (self.ax_,) = axes_for(ax, figsize=(5.2, 3.6))
        self.figure_ = self.ax_.figure
        self.lines_: dict[str, Any] = {}
        for number, (name, (covered, errors)) in enumerate(self.curves.items()):
            # Of the few surest rows the error is 0 or large by chance.
            shown = covered >= min(0.02, covered[-1])
            (self.lines_[name],) = self.ax_.plot(
                100.0 * covered[shown], 100.0 * errors[shown], linewidth=1.5, label=name, **curve_style(number)
            )
        self.ax_.set_xlim(0.0, 100.0)
        self.ax_.set_ylim(bottom=0.0)
        legend(self.ax_, outside=ax is None)
        tidy(self.ax_, x="rows that are decided, the surest first (%)", y="error of these rows (%)")
        return self
