"""The summary of all benchmarks: `summary.md` and `summary.png`, made of the result files and the history."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import findings, history
from benchmarks.common import describe

__all__ = ["text", "write"]

PEER_COLOURS = {
    "LIBSVM": "#4c72b0",
    "scikit-learn-intelex": "#8172b3",
    "fairlearn": "#dd8452",
    "Cooper": "#c44e52",
    "clarabel": "#64b5cd",
    "OneVsRest": "#2d6a4f",
    "ClassifierChain": "#a1c659",
    "LinearSVC": "#55a868",
    "LogisticRegression": "#ccb974",
    "SGDClassifier": "#da8bc3",
    "hiclass": "#937860",
}
"""By how a peer's name starts."""
REACHED, MISSED = "#55a868", "#c44e52"


def write(folder: Path, scripts: Sequence[str], *, quick: bool = False, missing: Sequence[str] = ()) -> None:
    """Write both files; the picture needs matplotlib and is left out without it."""
    found = {script: findings.read(folder, script) for script in scripts}
    picture = draw(found, folder / "summary.png", quick=quick)
    (folder / "summary.md").write_text(text(folder, scripts, quick=quick, missing=missing, picture=picture))


def text(
    folder: Path, scripts: Sequence[str], *, quick: bool = False, missing: Sequence[str] = (), picture: bool = True
) -> str:
    """The summary as Markdown."""
    found = {script: findings.read(folder, script) for script in scripts}
    parts = ["# Benchmarks: summary\n"]
    if quick:
        parts.append("A quick run on small sizes: it shows that the scripts run. Its ratios mean nothing.\n")
    else:
        parts.append("Made by `make bench` (`python -m benchmarks`) of the result files beside it.\n")
    if missing:
        parts.append(
            f"Drawn without {', '.join(missing)}: results that need them are those of the last run with them.\n"
        )
    if picture:
        parts.append("![Our times beside the peers', and measurements beside their limits](summary.png)\n")
    parts.append("## Times beside peers\n\nMedian seconds of the peer over ours in one run; above 1 ours is quicker.\n")
    parts.append(_table(["script", "case", "ours", "peer", "ratio", "target", "reached"], _ratio_rows(found, quick)))
    parts.append("## Other targets\n")
    parts.append(_table(["script", "what", "measured", "target", "reached"], _limit_rows(found, quick)))
    parts.append("## Runs\n")
    parts.append(
        _table(["script", "machine", "last run", "commit", "status", "seconds"], _run_rows(folder, scripts))
    )  # fmt: skip
    return "\n".join(parts)


def _verdict(reached: bool | None, quick: bool) -> str:
    return "" if reached is None or quick else "yes" if reached else "**no**"


def _ratio_rows(found: Mapping[str, findings.Findings], quick: bool) -> Iterable[Sequence[str]]:
    for script, some in found.items():
        for item in some.ratios:
            target = "" if item.target is None else f"{item.target:g}"
            yield [
                f"`{script}`", item.case, item.ours, item.peer, f"{item.value:.2f}", target,
                _verdict(item.reached, quick),
            ]  # fmt: skip


def _limit_rows(found: Mapping[str, findings.Findings], quick: bool) -> Iterable[Sequence[str]]:
    for script, some in found.items():
        for item in some.limits:
            sign = "at least" if item.at_least else "at most"
            yield [
                f"`{script}`", item.what, f"{item.measured:.4g} {item.unit}".rstrip(),
                f"{sign} {item.limit:,.4g} {item.unit}".rstrip(), _verdict(item.reached, quick),
            ]  # fmt: skip


def _run_rows(folder: Path, scripts: Sequence[str]) -> Iterable[Sequence[str]]:
    for script in scripts:
        path = folder / f"{script}.json"
        about = describe(json.loads(path.read_text())["machine"]) if path.is_file() else "no results"
        runs = history.lines(folder, script)
        last = runs[-1] if runs else {}
        yield [
            f"`{script}`", about, last.get("date", "before the history"), last.get("commit", ""),
            last.get("status", ""), f"{last['seconds']:.0f}" if last else "",
        ]  # fmt: skip


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in [columns, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]]) + "\n"


def colour(peer: str) -> tuple[str, str]:
    """Family of a peer and its colour."""
    for name, value in PEER_COLOURS.items():
        if peer.startswith(name):
            return name, value
    return peer, "#8c8c8c"


def draw(found: Mapping[str, findings.Findings], path: Path, *, quick: bool = False) -> bool:
    """Dots of the ratios and of the shares of limits; whether there is a picture."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    ratios = [item for some in found.values() for item in some.ratios]
    limits = [] if quick else [item for some in found.values() for item in some.limits]
    if not ratios and not limits:
        return False
    cases = list(dict.fromkeys(item.case for item in ratios))
    figure = Figure(figsize=(13, 1.6 + 0.27 * max(len(cases), len(limits))), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_ratios(left, ratios, cases, quick)
    _draw_limits(right, limits)
    figure.savefig(path, dpi=85, metadata={"Software": None})
    return True


def _draw_ratios(axes: Any, ratios: Sequence[findings.Ratio], cases: Sequence[str], quick: bool) -> None:
    axes.axvline(1, color="0.4", linewidth=1)
    shown: set[str] = set()
    for item in ratios:
        height = cases.index(item.case)
        family, shade = colour(item.peer)
        label = None if family in shown else family
        shown.add(family)
        axes.plot(item.value, height, "o", color=shade, markersize=7, label=label, alpha=0.9)
        if item.target is not None and not quick:
            axes.plot(item.target, height, "|", color=shade, markersize=15, markeredgewidth=2)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(_ticks(0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(_ticks())
    _rows(axes, cases, "Peer's seconds over ours (right of 1: ours is quicker)")
    if ratios:
        if not quick:
            axes.plot([], [], "|", color="0.4", markersize=12, markeredgewidth=2, label="target, coloured as its peer")
        axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.03), ncols=3, fontsize=8, frameon=False)


def _draw_limits(axes: Any, limits: Sequence[findings.Limit]) -> None:
    axes.axvline(1, color="0.4", linewidth=1)
    for height, item in enumerate(limits):
        shade = REACHED if item.reached else MISSED
        share = max(item.share, 0.01)
        inside = 0.3 < share <= 1.001
        axes.plot(share, height, "o" if item.reached else "X", color=shade, markersize=7)
        axes.annotate(
            _beside(item), (share, height), fontsize=7, va="center",
            xytext=(-7, 0) if inside else (7, 0), textcoords="offset points", ha="right" if inside else "left",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(0.06, 16)
    axes.xaxis.set_major_locator(_ticks(0.1, 0.2, 0.5, 1, 2))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(_ticks())
    _rows(axes, [item.what for item in limits], "Share of the limit used (cross: missed)")


def _beside(item: findings.Limit) -> str:
    sign = "at least " if item.at_least else ""
    return f"{item.measured:.3g} of {sign}{item.limit:,.4g} {item.unit}".rstrip()


def _ticks(*places: float) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator(places)


def _rows(axes: Any, names: Sequence[str], title: str) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="both", color="0.92")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
