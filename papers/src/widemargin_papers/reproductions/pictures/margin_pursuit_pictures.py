"""The figures of the reproductions of margin pursuit, from their summaries."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from widemargin.extending import COLOURS, band, new_figure, tidy

PERCENT = 100.0

Style = dict[str, Any]

_STYLES: dict[str, Style] = {
    "pursuit": {"color": COLOURS["blue"], "linewidth": 1.6},
    "pegasos": {"color": COLOURS["red"], "linewidth": 1.4, "linestyle": "--"},
    "best": {"color": COLOURS["black"], "linewidth": 1.4},
    "fixed": {"color": COLOURS["red"], "linewidth": 1.4, "linestyle": "--"},
    "rescaled": {"color": COLOURS["green"], "linewidth": 1.4, "linestyle": ":"},
    "plain": {"color": COLOURS["blue"], "linewidth": 1.6, "linestyle": "-."},
}
_LINES = ("-", "--", "-.", ":")


def course_figure(summary: Mapping[str, Any], methods: Mapping[str, str]) -> Any:
    """Figures 3 and 4: a row for each data set; error, location, spread and skewness of margins against the cost.

    Parameters
    ----------
    summary : dict
        As `reproduce.margin_pursuit_fig3.summarise` makes it.
    methods : dict of str
        Labels of the methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, parts, panels = new_figure(len(summary), 4, width=13.0, height=2.9 * len(summary))
    for part, axes, content in zip(parts, panels, summary.values(), strict=True):
        for method, label in methods.items():
            style, course = _STYLES[method], content[method]
            cost, named = content["cost"], f"{label}, lambda {course['lambda']:g}"
            band(axes[0], cost, course["test"]["error"], PERCENT, label=named, **style)
            axes[0].plot(cost, _percent(course["train"]["error"]["mean"]), **{**style, "linewidth": 0.7, "alpha": 0.7})
            band(axes[1], cost, course["test"]["median"], label="median", **style)
            band(axes[2], cost, course["test"]["sd"], **style)
            band(axes[3], cost, course["test"]["skewness"], **style)
        labels = ("error (%), thin: training", "median of the margins", "sd of the margins", "skewness of the margins")
        for panel, name in zip(axes, labels, strict=True):
            panel.set_xscale("log")
            tidy(panel, x="gradients", y=name)
        axes[2].set_yscale("log")
        axes[0].legend(fontsize=7, frameon=False)
        axes[3].axhline(0.0, color="0.6", linewidth=0.9)
        part.suptitle(_heading(content), fontsize=10, weight="bold")
    return figure


def rescaling_figure(summary: Mapping[str, Any], methods: Mapping[str, str]) -> Any:
    """Figure 5: a row for each data set; error, and median and spread of the margins over each other, against the cost.

    Parameters
    ----------
    summary : dict
        As `reproduce.margin_pursuit_fig5.summarise` makes it.
    methods : dict of str
        Labels of the runs.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, parts, panels = new_figure(len(summary), 3, width=11.5, height=2.9 * len(summary))
    for part, axes, content in zip(parts, panels, summary.values(), strict=True):
        for method, label in methods.items():
            test, style, cost = content[method]["test"], _STYLES[method], content["cost"]
            band(axes[0], cost, test["error"], PERCENT, label=label, **style)
            axes[1].plot(cost, test["median"]["mean"], **style)
            axes[2].plot(cost, test["sd"]["mean"], **style)
        for panel, name in zip(axes, ("test error (%)", "median of the margins", "sd of the margins"), strict=True):
            panel.axvline(content["rescaled_at"], color="0.6", linewidth=0.9, linestyle=(0, (4, 3)))
            panel.set_xscale("log")
            tidy(panel, x="gradients (grey line: rescaling)", y=name)
        axes[1].set_yscale("symlog", linthresh=1.0)
        axes[2].set_yscale("log")
        axes[0].legend(fontsize=7, frameon=False)
        part.suptitle(f"{_heading(content)}, best lambda {content['lambda']:g}", fontsize=10, weight="bold")
    return figure


def link_figure(summary: Mapping[str, Any]) -> Any:
    """Figure 2: Psi, its inverse, the inverse over level and excess risk, and the inverse as the scale grows.

    Parameters
    ----------
    summary : dict
        As `reproduce.margin_pursuit_fig2.summarise` makes it.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, _, ((first, second, third, fourth),) = new_figure(1, 4, width=15.0, height=3.7)
    colours = [COLOURS[name] for name in ("blue", "red", "green", "violet")]
    for gamma, forward, inverse, colour, line in zip(
        summary["margin_levels"], summary["forward"], summary["inverse"], colours, _LINES, strict=True
    ):
        style = {"color": colour, "linestyle": line, "label": f"margin level {gamma:g}"}
        first.plot(summary["theta"], forward, **style)
        second.plot(*inverse, **style)
    tidy(first, x="theta", y="Psi(theta)", title="Psi, scale 1")
    tidy(second, x="excess surrogate risk", y="bound of the excess error", title="its inverse")
    for panel in (first, second):
        panel.legend(fontsize=8, frameon=False)
    mesh = third.pcolormesh(
        summary["level"],
        summary["excess"],
        np.array(summary["plane"]),
        cmap="cividis",
        vmin=0.0,
        vmax=1.0,
        shading="auto",
    )
    figure.colorbar(mesh, ax=third, label="bound of the excess error")
    third.set_xscale("log")
    third.set_yscale("log")
    tidy(third, x="margin level", y="excess surrogate risk", title="the inverse, scale 1")
    third.grid(visible=False)
    for value, grown, colour, line in zip(summary["values"], summary["grown"], colours, _LINES, strict=False):
        fourth.plot(summary["scale"], grown, color=colour, linestyle=line, label=f"excess surrogate risk {value:g}")
    fourth.set_xscale("log")
    fourth.set_ylim(0.0, 1.05)
    tidy(fourth, x="scale", y="bound of the excess error", title="growing scale, margin level 1")
    fourth.legend(fontsize=8, frameon=False)
    return figure


def _percent(values: Sequence[float]) -> list[float]:
    return [PERCENT * value for value in values]


def _heading(content: Mapping[str, Any]) -> str:
    return f"{content['title']}, n = {content['n']}, mean and standard deviation of {content['runs']} trials"
