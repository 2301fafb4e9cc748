"""The figures of the reproductions of slack rescaling, from their summaries."""

from collections.abc import Mapping
from typing import Any

from widemargin.extending import COLOURS, band, new_figure, tidy

PERCENT = 100.0

_SEARCHES = {
    "angular": (COLOURS["blue"], "o"),
    "angular .999": (COLOURS["blue"], "^"),
    "bisecting": (COLOURS["red"], "s"),
    "sarawagi-gupta": (COLOURS["green"], "D"),
    "binary": (COLOURS["violet"], "v"),
    "hull": (COLOURS["black"], "P"),
    "level": (COLOURS["black"], "X"),
    "edge": (COLOURS["black"], "*"),
}
_SIZE = 8.0
_COLUMNS = 2


def search_figure(summary: Mapping[str, Any], titles: Mapping[str, str], searches: Mapping[str, str]) -> Any:
    """Table 1 of slack rescaling: a panel for each problem, a point for each search, exact maxima against questions.

    Parameters
    ----------
    summary : dict
        As `reproduce.slack_rescaling_table1.summarise` makes it.
    titles, searches : dict of str
        Labels of problems and of searches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, _, table = new_figure(len(titles) // _COLUMNS, _COLUMNS, width=8.6, height=6.9)
    handles: dict[str, Any] = {}
    for axes, (name, title) in zip(table.ravel(), titles.items(), strict=True):
        for search, found in summary[name]["found"].items():
            exact, asked = found["exact"], found["queries"]
            if exact["mean"][0] is None:
                continue
            colour, marker = _SEARCHES[search]
            handles[searches[search]] = axes.errorbar(
                asked["mean"], [PERCENT * exact["mean"][0]], xerr=asked["sd"], yerr=[PERCENT * exact["sd"][0]],
                color=colour, marker=marker, markersize=_SIZE, linestyle="none", capsize=3,
                fillstyle="none" if search == "angular .999" else "full",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlim(1.0, 100.0)
        axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
        axes.set_ylim(-4.0, 104.0)
        tidy(axes, x="questions to the oracle, a search", y="exact maximum found (%)", title=title)
    ordered = [label for label in searches.values() if label in handles]
    figure.legend(
        [handles[label] for label in ordered], ordered, loc="outside lower center", ncols=4, fontsize=9, frameon=False
    )
    _name_synthetic(figure, summary)
    return figure


def _name_synthetic(figure: Any, summary: Mapping[str, Any], text: str = "") -> None:
    """A title over all; that of a quick run says what its rows are."""
    if summary["data"] == "synthetic":
        text = f"few synthetic rows{', ' if text else ''}{text}"
    if text:
        figure.suptitle(text, fontsize=11)


_LEARNERS: dict[str, dict[str, Any]] = {
    "sgd angular": {"color": COLOURS["blue"], "marker": "o"},
    "sgd bisecting": {"color": COLOURS["red"], "marker": "s"},
    "cp angular": {"color": COLOURS["blue"], "marker": "o", "linestyle": "--", "fillstyle": "none"},
    "cp bisecting": {"color": COLOURS["red"], "marker": "s", "linestyle": "--", "fillstyle": "none"},
    "cp sarawagi-gupta": {"color": COLOURS["green"], "marker": "D", "linestyle": "--", "fillstyle": "none"},
    "bcfw": {"color": COLOURS["black"], "marker": "^"},
}


def learning_figure(summary: Mapping[str, Any], titles: Mapping[str, str], methods: Mapping[str, str]) -> Any:
    """Figures 4 and 8 of slack rescaling: a column for each task; objective and accuracy against time, and the
    objective against questions to the oracle and against passes.

    Parameters
    ----------
    summary : dict
        As `reproduce.slack_rescaling_fig4.summarise` makes it.
    titles, methods : dict of str
        Labels of tasks and of methods.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, _, table = new_figure(4, len(titles), width=4.1 * len(titles), height=12.5)
    for column, (name, title) in enumerate(titles.items()):
        content = summary[name]
        above, below, asked, passed = (row[column] for row in table)
        for method, label in methods.items():
            curve = content["methods"][method]
            style = {"linewidth": 1.2, "markersize": 3.5, **_LEARNERS[method]}
            seconds = curve["seconds"]["mean"]
            excess = [PERCENT * value for value in curve["excess"]["mean"]]
            above.plot(seconds, excess, label=label, **style)
            asked.plot(curve["questions"]["mean"], excess, **style)
            passed.plot(curve["passes"]["mean"], excess, **style)
            band(below, seconds, curve["accuracy"], PERCENT, label=label, **style)
        for axes in (above, below, asked, passed):
            axes.set_xscale("log")
        for axes, what in (
            (above, "processor seconds"),
            (asked, "questions to the oracle"),
            (passed, "passes, rounds"),
        ):
            axes.set_yscale("log")
            tidy(axes, x=what, y="above the optimum (%)", title=f"{title}, n = {content['n']}")
        best = PERCENT * content["optimum"]["mean"][0]
        below.axhline(best, color="0.6", linewidth=0.9, linestyle=(0, (4, 3)), label="optimum")
        tidy(below, x="processor seconds", y="test Jaccard (%)", title=f"{title}, n = {content['n']}")
    figure.legend(
        *table[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9, frameon=False
    )
    runs = summary[next(iter(titles))]["runs"]
    _name_synthetic(figure, summary, f"means of {runs} runs; bands: standard deviation" if runs > 1 else "one run")
    return figure


_RESCALINGS = {"slack": (COLOURS["blue"], "o"), "margin": (COLOURS["red"], "s")}
_APART = 0.12


def scores_figure(
    summary: Mapping[str, Any],
    titles: Mapping[str, str],
    measures: Mapping[str, str],
    published: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> Any:
    """Tables 2 and 3 of slack rescaling: a panel for each data set, slack and margin rescaling side by side.

    Parameters
    ----------
    summary : dict
        By data set and rescaling, mean and sd of every measure.
    titles, measures : dict of str
        Labels of data sets and of measures.
    published : dict
        The paper's numbers, by data set, rescaling and measure, where it has some.

    Returns
    -------
    matplotlib.figure.Figure
    """
    rows = len(titles) // _COLUMNS
    figure, _, table = new_figure(rows, _COLUMNS, width=8.0, height=3.2 * rows + 0.8)
    shown = [what for what in measures if what != "loss"]
    handles: dict[str, Any] = {}
    for axes, (name, title) in zip(table.ravel(), titles.items(), strict=True):
        content = summary[name]
        for side, (rescaling, (colour, marker)) in zip((-_APART, _APART), _RESCALINGS.items(), strict=True):
            scores = content["scores"][rescaling]
            handles[f"{rescaling} rescaling"] = axes.errorbar(
                [place + side for place in range(len(shown))],
                [PERCENT * scores[what]["mean"][0] for what in shown],
                yerr=[PERCENT * scores[what]["sd"][0] for what in shown],
                color=colour, marker=marker, markersize=6, linestyle="none", capsize=3,
            )  # fmt: skip
            paper = published.get(name, {}).get(rescaling, {})
            places = [place for place, what in enumerate(shown) if what in paper]
            if places:
                handles[f"{rescaling}, the paper"] = axes.plot(
                    [place + side for place in places], [PERCENT * paper[shown[place]] for place in places],
                    color=colour, marker="_", markersize=14, markeredgewidth=2.0, linestyle="none", alpha=0.6,
                )[0]  # fmt: skip
        axes.set_xticks(range(len(shown)), [measures[what] for what in shown], fontsize=8)
        axes.set_xlim(-0.5, len(shown) - 0.5)
        tidy(axes, x="", y="score on test rows (%)", title=f"{title}, n = {content['n']}")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=9, frameon=False)
    several = summary[next(iter(titles))]["runs"]
    _name_synthetic(figure, summary, f"mean and standard deviation of {several} splits" if several > 1 else "one split")
    return figure
