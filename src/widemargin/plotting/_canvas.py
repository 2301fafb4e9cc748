"""Figures without pyplot's global state, and colours, bands, axes and legends of all of them."""

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from widemargin.exceptions import DataError, MissingLibraryError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"blue": "#0072B2", "red": "#D55E00", "green": "#009E73", "violet": "#7A4E9F", "black": "#222222"}
"""Distinct also without red-green vision (Okabe and Ito); methods differ by their lines and markers as well."""


def named(estimators: object) -> Mapping[str, Any]:
    """A dict of estimators as it is; a single one under the name of its class."""
    return estimators if isinstance(estimators, Mapping) else {type(estimators).__name__: estimators}


def curve_style(number: int) -> dict[str, Any]:
    """Colour and dashes of the curve of that number."""
    return {
        "color": list(COLOURS.values())[number % len(COLOURS)],
        "linestyle": ("-", "--", "-.", ":")[number % 4],
    }


def require_matplotlib(module: str = "matplotlib") -> Any:
    """A module of matplotlib; fails early where nothing could be drawn later.

    Raises
    ------
    MissingLibraryError
        If matplotlib is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingLibraryError.of("figures need matplotlib", "plot") from error


def axes_for(axes: "Axes | Sequence[Axes] | None", count: int = 1, **options: Any) -> "list[Axes]":
    """`count` axes: those that are given, else those of a new figure, with options of pyplot's `subplots`.

    Raises
    ------
    MissingLibraryError
        If matplotlib is not installed.
    DataError
        If more or fewer axes are given.
    """
    if axes is None:
        plt = require_matplotlib("matplotlib.pyplot")
        return list(plt.subplots(1, count, layout="constrained", squeeze=False, **options)[1][0])
    given = list(np.ravel(np.array(axes, dtype=object)))
    if len(given) != count:
        raise DataError(f"{len(given)} axes were given and {count} are needed; choose kind, or leave axes out.")
    return given


def legend(axes: "Axes", *, outside: bool, longest: int = 48) -> Any:
    """The legend of the lines of `axes`; a long one lies below the axes, if the figure is ours.

    Parameters
    ----------
    outside : bool
        Whether the figure is ours, with a layout that makes room.
    longest : int, default=48
        Names of its lines are cut off after that many characters.
    """
    handles, names = axes.get_legend_handles_labels()
    shown = [name if len(name) <= longest else f"{name[: longest - 1]}\u2026" for name in names]
    style = {"fontsize": 8, "frameon": False}
    widest = max(map(len, shown), default=0)
    if not outside or (len(shown) <= 6 and widest <= 26):  # a legend of this size fits beside the curves
        return axes.legend(handles, shown, **style)
    across = int(axes.figure.bbox.width / axes.figure.dpi * 15) // (widest + 8)  # about 15 small letters an inch
    columns = max(1, min(len(shown), across))
    return axes.figure.legend(handles, shown, loc="outside lower center", ncols=columns, **style)


def new_figure(rows: int, columns: int, *, width: float, height: float) -> tuple[Any, list[Any], Any]:
    """A figure with a part (subfigure, for a title) for each row, and `columns` axes in each; sizes in inches.

    Returns
    -------
    figure : matplotlib.figure.Figure
    parts : list of matplotlib.figure.SubFigure
    axes : ndarray of object, shape (rows, columns)

    Raises
    ------
    MissingLibraryError
        If matplotlib is not installed.
    """
    figure = require_matplotlib("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    parts = list(figure.subfigures(rows, 1, squeeze=False, hspace=0.04)[:, 0])
    return figure, parts, np.array([part.subplots(1, columns, squeeze=False)[0] for part in parts])


def tidy(axes: "Axes", *, x: str, y: str, title: str = "") -> None:
    """Labels, a light grid, no frame above and to the right."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize=10, loc="left")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def band(
    axes: "Axes",
    x: Sequence[float | None],
    content: Mapping[str, Sequence[float | None]],
    scale: float = 1.0,
    **style: Any,
) -> None:
    """A line of means with a band of one standard deviation around it.

    Parameters
    ----------
    content : mapping with `mean` and `sd`
        None where a number is not defined; such points are left out.
    scale : float, default=1.0
        Factor of mean and sd (100 for percent).
    """
    rows = (x, content["mean"], content["sd"])
    table = np.array([[np.nan if value is None else value for value in row] for row in rows], float)
    table = table[:, ~np.isnan(table).any(axis=0)]
    order = np.argsort(table[0], kind="stable")
    place, mean, spread = table[:, order]
    axes.plot(place, scale * mean, **style)
    axes.fill_between(
        place, scale * (mean - spread), scale * (mean + spread), color=style.get("color"), alpha=0.12, linewidth=0
    )
