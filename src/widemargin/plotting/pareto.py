"""The plot of a path over nu: `ParetoDisplay`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin._typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["ParetoDisplay"]


class ParetoDisplay:
    """Mean hinge loss against norm, with the part of the plane that the certificates rule out.

    Made by `from_path`; the constructor takes the computed arrays.

    Parameters
    ----------
    norm, mean_hinge : ndarray of shape (K,)
        Of the classifiers; those of infinite norm are left out.
    nu, least_norm : ndarray of shape (K,)
        No classifier with `mean_hinge <= nu norm` has a norm below `least_norm`.

    Attributes
    ----------
    line_ : matplotlib Line2D
    ruled_out_ : matplotlib PolyCollection
        Below and left of the front: no classifier is there.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from widemargin.plotting import ParetoDisplay
    >>> display = ParetoDisplay.from_path(path)  # doctest: +SKIP
    >>> display.figure_.savefig("front.png")  # doctest: +SKIP
    """

    def __init__(self, *, norm: Floats, mean_hinge: Floats, nu: Floats, least_norm: Floats) -> None:
        self.norm = norm
        self.mean_hinge = mean_hinge
        self.nu = nu
        self.least_norm = least_norm

    @classmethod
    def from_path(cls, path: Any, *, ax: "Axes | None" = None, **kwargs: Any) -> "ParetoDisplay":
        """Plot what `widemargin.pareto_path` gives.

        Parameters
        ----------
        path : ParetoPath
        ax : matplotlib Axes, optional
            Default: a new figure.
        **kwargs
            Given to matplotlib's `plot`.

        Returns
        -------
        ParetoDisplay
        """
        display = cls(norm=path.norm, mean_hinge=path.mean_hinge, nu=path.nu, least_norm=path.least_norm)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: "Axes | None" = None, **kwargs: Any) -> "ParetoDisplay":
        """Draw the front, on a logarithmic axis of the norm.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        **kwargs
            Given to matplotlib's `plot`.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plots need matplotlib: pip install 'widemargin[plot]'.") from None
        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        found = np.isfinite(self.norm)
        order = np.argsort(self.norm[found], kind="stable")
        norm, hinge = self.norm[found][order], self.mean_hinge[found][order]
        style: dict[str, Any] = {"marker": "o", "markersize": 4, "linewidth": 1.2, "label": "classifiers found"}
        self.line_: Line2D = ax.plot(norm, hinge, **(style | kwargs))[0]
        left = 0.8 * min(float(self.least_norm.min()), float(norm.min(initial=np.inf)))
        x, y = self._ruled_out(left, 1.1 * max(float(self.least_norm.max()), float(norm.max(initial=0.0))))
        self.ruled_out_ = ax.fill_between(x, y, alpha=0.15, color="gray", linewidth=0.0, label="no classifier is here")
        ax.set(xscale="log", xlabel="norm of w", ylabel="mean hinge loss", xlim=(left, x[-1]))
        ax.legend()
        return self

    def _ruled_out(self, left: float, right: float) -> tuple[Floats, Floats]:
        """A curve below which no classifier lies: of norm r it has a hinge loss above `nu r` if `r < least_norm`."""
        x = np.union1d(np.geomspace(left, right, 400), self.least_norm)
        allowed = np.where(x[:, None] < self.least_norm, self.nu * x[:, None], 0.0)
        return x, allowed.max(axis=1)
