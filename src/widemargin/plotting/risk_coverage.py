"""Error against the share of rows that are decided: `RiskCoverageDisplay`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin._typing import Floats
from widemargin.diagnostics.margins import group_rows, margins_of, row_weights
from widemargin.diagnostics.risk_coverage import curve
from widemargin.exceptions import DataError
from widemargin.plotting._canvas import axes_for, curve_style, legend, named, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
