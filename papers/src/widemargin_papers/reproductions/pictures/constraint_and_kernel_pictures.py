"""The figures of the reproductions, from their summaries."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from widemargin.extending import COLOURS, band, new_figure, tidy

PERCENT = 100.0

Style = dict[str, Any]

_THRESHOLDED: Style = {"color": COLOURS["blue"], "marker": "o", "markersize": 3, "linewidth": 1.2}
_RANDOMISED: Style = {"color": COLOURS["red"], "marker": "^", "markersize": 3, "linewidth": 1.2, "linestyle": "--"}
_ZAFAR: Style = {"color": COLOURS["green"], "marker": "s", "markersize": 3, "linewidth": 1.2, "linestyle": "-."}
_BASELINE: Style = {"color": COLOURS["green"], "linewidth": 1.4, "linestyle": "-."}
_ENFORCED: Style = {"color": COLOURS["violet"], "marker": "D", "markersize": 3, "linewidth": 1.2, "linestyle": ":"}

_FAIRNESS = {
    "thresholded": ("rate constraint, thresholded", _THRESHOLDED),
    "randomised": ("rate constraint, randomised", _RANDOMISED),
    "zafar": ("Zafar et al. (covariance), c varied", _ZAFAR),
}

_CHURN = {
    "thresholded": ("rate constraints, thresholded", _THRESHOLDED),
    "randomised": ("rate constraints, randomised", _RANDOMISED),
    "deterministic": ('the same, enforce="deterministic"', _ENFORCED),
}

_OPTIMISERS: dict[str, Style] = {
    "sbp": {"color": COLOURS["blue"], "linewidth": 1.8},
    "pegasos": {"color": COLOURS["red"], "linewidth": 1.4, "linestyle": "--"},
    "sdca": {"color": COLOURS["green"], "linewidth": 1.4, "linestyle": "-."},
    "smo": {"color": COLOURS["black"], "linewidth": 1.4, "linestyle": ":"},
    "perceptron": {"color": COLOURS["violet"], "linewidth": 1.4},
    "cached sbp": {"color": COLOURS["blue"], "linewidth": 1.0, "marker": "o", "markersize": 3, "markevery": 3},
    "dual": {"color": COLOURS["black"], "linewidth": 1.0, "marker": "s", "markersize": 3, "markevery": 3},
    "fourier": {"color": COLOURS["red"], "linewidth": 1.4, "marker": "^", "markersize": 4},
}
for _name in ("sbp", "pegasos", "perceptron"):
    _OPTIMISERS[f"{_name} weighted"] = _OPTIMISERS[_name] | {"linewidth": 0.9, "linestyle": (0, (1, 1))}
_OPTIMISERS["libsvm"] = {"color": COLOURS["red"]}
_MARKERS = {"libsvm": "D", "sbp": "o", "cached sbp": "^", "dual": "s"}
_FIRST = 5.0  # rows of the kernel matrix from which on errors are shown
_ABOVE, _SHARE = 4.0, 0.7  # what is shown above the best error, in percent points or as a share of it


def fairness_figure(summary: Mapping[str, Any], groupings: Sequence[str]) -> Any:
    """Figure 2: a row for each grouping; error against the ratio on test and on training rows, ratio against 1/kappa.

    Parameters
    ----------
    summary : dict
        As `reproduce.dataset_constraints_fig2.summarise` makes it.
    groupings : sequence of str
        Keys of it.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, parts, table = new_figure(len(groupings), 3, width=13.0, height=4.2 * len(groupings))
    for row, axes, grouping in zip(parts, table, groupings, strict=True):
        content = summary[grouping]
        for panel, part, name in ((axes[0], "test", "Test rows"), (axes[1], "train", "Training rows")):
            for method, (label, style) in _FAIRNESS.items():
                place = content[method][part]
                band(panel, place["ratio"]["mean"], place["error"], PERCENT, label=label, **style)
            plain = content["svm"][part]
            panel.plot(
                plain["ratio"]["mean"], [PERCENT * plain["error"]["mean"][0]], "*", color=COLOURS["black"],
                markersize=11, label="unconstrained SVM", zorder=4,
            )  # fmt: skip
            tidy(panel, x="observed ratio of positive rates, A / B", y="error (%)", title=name)
        axes[0].legend(fontsize=8, frameon=False)
        _control_panel(axes[2], summary["inverse_kappa"], content)
        runs = content["runs"]
        basis = f"mean and standard deviation of {runs} bootstrap runs" if runs else "one run on all rows"
        row.suptitle(f"{content['title']} ({basis})", fontsize=11, weight="bold")
    return figure


def _control_panel(axes: Any, asked: Sequence[float], content: Mapping[str, Any]) -> None:
    """Observed test ratio against the 1/kappa asked."""
    axes.plot(asked, asked, color="0.6", linewidth=1.0, label="as asked")
    for method in ("thresholded", "randomised"):
        label, style = _FAIRNESS[method]
        band(axes, asked, content[method]["test"]["ratio"], label=label, **style)
    free = content["svm"]["test"]["ratio"]["mean"][0]
    if free is not None:
        axes.axhline(free, color=COLOURS["black"], linewidth=0.9, linestyle=(0, (4, 3)), label="unconstrained SVM")
    tidy(axes, x="1/kappa asked on the training rows", y="observed ratio A / B", title="Control: test rows")
    axes.legend(fontsize=8, frameon=False)


def churn_figure(summary: Mapping[str, Any]) -> Any:
    """Figure 3: churn (above) and error (below) against the churn target, on training (left) and test rows (right).

    Parameters
    ----------
    summary : dict
        As `reproduce.dataset_constraints_fig3.summarise` makes it.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, _, table = new_figure(2, 2, width=10.5, height=7.8)
    targets = [PERCENT * target for target in summary["targets"]]
    quantities = (("churn", "churn on D3 (%)"), ("error", "error on D1 and D2 (%)"))
    for axes, (what, label_y) in zip(table, quantities, strict=True):
        for panel, part, name in ((axes[0], "train", "Training rows (80%)"), (axes[1], "test", "Held-out rows (20%)")):
            if what == "churn":
                panel.plot(targets, targets, color="0.6", linewidth=1.0, label="churn = target")
            for method, (label, style) in _CHURN.items():
                band(panel, targets, summary["methods"][method][part][what], PERCENT, label=label, **style)
            baseline = summary["methods"]["baseline"][part][what]
            flat = {key: [baseline[key][0]] * len(targets) for key in ("mean", "sd")}
            band(panel, targets, flat, PERCENT, label="SVM, threshold shifted to the recall", **_BASELINE)
            tidy(panel, x="largest churn asked (%)", y=label_y, title=name)
    low = min(axes.get_ylim()[0] for axes in table[1])
    high = max(axes.get_ylim()[1] for axes in table[1])
    for axes in table[1]:
        axes.set_ylim(low, high)
    table[0][0].legend(fontsize=8, frameon=False)
    figure.suptitle(
        f"Recall on D2 at least the deployed model's, churn on D3 at most the target; {summary['runs']} draws, "
        "mean and standard deviation", fontsize=11,
    )  # fmt: skip
    return figure


def evaluations_figure(summary: Mapping[str, Any], titles: Mapping[str, str], methods: Mapping[str, str]) -> Any:
    """Figure 2 of the batch perceptron: a panel for each task, test error against kernel evaluations.

    Parameters
    ----------
    summary : dict
        As `reproduce.sbp_fig2.summarise` makes it.
    titles, methods : dict of str
        Labels of tasks and of methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return _cost_figure(summary, titles, methods, lambda content, method: content["rows"], "kernel evaluations")


def features_figure(summary: Mapping[str, Any], titles: Mapping[str, str], methods: Mapping[str, str]) -> Any:
    """Figure 3 of the batch perceptron: a panel for each task, test error against inner products of rows.

    Parameters
    ----------
    summary : dict
        As `reproduce.sbp_fig3.summarise` makes it.
    titles, methods : dict of str
        Labels of tasks and of methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return _cost_figure(summary, titles, methods, lambda content, method: content["rows"][method], "inner products")


def quarter_figure(summary: Mapping[str, Any], titles: Mapping[str, str], methods: Mapping[str, str]) -> Any:
    """LIBSVM and the batch perceptron: a panel for each task, a point (with standard deviations) for each method.

    Parameters
    ----------
    summary : dict
        As `reproduce.sbp_table.summarise` makes it.
    titles, methods : dict of str
        Labels of tasks and of methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = math.ceil(len(titles) / 2)
    figure, _, table = new_figure(rows, 2, width=10.4, height=3.6 * rows)
    for axes, (name, title) in zip(table.flat, titles.items(), strict=False):
        content = summary[name]
        for method, at in content["methods"].items():
            colour = _OPTIMISERS["smo" if method == "dual" else method]["color"]
            axes.errorbar(
                at["seconds"]["mean"], [PERCENT * at["error"]["mean"][0]], xerr=at["seconds"]["sd"],
                yerr=[PERCENT * at["error"]["sd"][0]], marker=_MARKERS[method], color=colour, capsize=3,
                label=methods[method], linestyle="none",
            )  # fmt: skip
        axes.margins(y=0.1)
        axes.set_xlim(0.0, 1.1 * axes.dataLim.x1)
        tidy(axes, x="processor seconds", y="test error (%)", title=f"{title}, n = {content['n']}")
    for axes in table.flat[len(titles) :]:
        axes.remove()
    table[0][0].legend(fontsize=8, frameon=False)
    return figure


def _cost_figure(summary: Mapping[str, Any], titles: Any, methods: Any, rows_of: Any, cost: str) -> Any:
    """Test error against a cost of so many times n, on a logarithmic scale."""
    figure, _, table = new_figure(1, len(titles), width=6.2 * len(titles), height=4.6)
    for axes, (name, title) in zip(table[0], titles.items(), strict=True):
        content = summary[name]
        n, best = content["n"], PERCENT * content["optimum"]["mean"][0]
        for method, label in methods.items():
            at = [n * rows for rows in rows_of(content, method)]
            band(axes, at, content["error"][method], PERCENT, label=label, **_OPTIMISERS[method])
        axes.axhline(best, color="0.6", linewidth=0.9, linestyle=(0, (4, 3)), label="optimum of the SVM")
        axes.axvline(n * n, color="0.8", linewidth=0.9)
        axes.set_xscale("log")
        axes.set_xlim(left=_FIRST * n)
        least = min(value for part in content["error"].values() for value in part["mean"] if value is not None)
        axes.set_ylim(0.95 * PERCENT * least, best + max(_ABOVE, _SHARE * best))
        tidy(axes, x=f"{cost} (grey line: n², an epoch)", y="test error (%)", title=f"{title}, n = {n}")
    table[0][0].legend(fontsize=8, frameon=False)
    figure.suptitle(f"mean and standard deviation of {summary[next(iter(titles))]['runs']} runs", fontsize=11)
    return figure
