"""The summary of all benchmarks: `summary.md` and `summary.png`, made of the result files and the history."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import recorded
from benchmarks.cells import table_of
from benchmarks.machine import describe, slug
from benchmarks.task import Limit, Ratio, Row, Task


def write(folder: Path, tasks: Mapping[str, Task], *, quick: bool = False) -> None:
    """Write both files; the picture needs matplotlib and is left out without it."""
    draw(
        {name: task.judged(recorded.newest(name, folder)) for name, task in tasks.items()},
        folder / "summary.png",
        quick=quick,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.md").write_text(text(folder, tasks, quick=quick))


def text(folder: Path, tasks: Mapping[str, Task], *, quick: bool = False) -> str:
    """The summary as Markdown: every target, once for each machine that it was measured on; tuning data apart."""
    parts = ["# Benchmarks: summary\n"]
    if quick:
        parts.append("A quick run on small sizes: it shows that the tasks run. Its ratios mean nothing.\n")
    else:
        parts.append("Made by `make bench` (`python -m benchmarks`) of the result files beside it.\n")
        parts.append("![Our times beside the peers'](summary.png)\n")
    every = [
        (task, {"task": name, "machine": machine, "reached": None if quick else item.reached}, item)
        for name, task in tasks.items()
        for machine, content in recorded.machines(name, folder).items()
        for item in task.judged(content)
    ]
    for title, kept in _HALVES:
        some = [(about, item) for task, about, item in every if kept(task)]
        peers = [asdict(item) | about for about, item in some if isinstance(item, Ratio)]
        limits = [asdict(item) | about | {"asked": item.asked} for about, item in some if isinstance(item, Limit)]
        parts.append(f"## {title}\n")
        parts.append("Times beside peers: median seconds of the peer over ours in one run; above 1 ours is quicker.\n")
        parts.append(
            table_of(peers, "task | case | machine | ours | peer | ratio: {value:.2f} | target: {target:g} | reached")
        )
        parts.append("Other targets:\n")
        parts.append(
            table_of(limits, "task | what | machine | measured: {measured:.4g} {unit} | target: {asked} | reached")
        )
    parts.append("## Runs\n")
    parts.append(
        table_of(_run_rows(folder, tasks), "task | measured on | last run | code | status | seconds: {seconds:.0f}")
    )
    return "\n".join(parts)


_HALVES: Sequence[tuple[str, Callable[[Task], bool]]] = (
    ("On data that no constant was chosen on", lambda task: task.half != "tuning"),
    ("On tuning data: no evidence for other data", lambda task: task.half == "tuning"),
)


def _run_rows(folder: Path, tasks: Mapping[str, Task]) -> list[Row]:
    rows = []
    for name in tasks:
        lines = recorded.runs(folder, name)
        for machine, content in recorded.machines(name, folder).items():
            mine = [line for line in lines if slug(line["machine"]) == machine]
            last = mine[-1] if mine else {}
            rows.append({
                "task": name, "measured on": describe(content["machine"]), "last run": last.get("date"),
                "code": last.get("commit"), "status": last.get("status"), "seconds": last.get("seconds"),
            })  # fmt: skip
    return rows


def family(peer: str) -> str:
    """What a peer is called before its settings; each family has a colour."""
    return peer.partition(",")[0]


def draw(found: Mapping[str, Sequence[Ratio | Limit]], path: Path, *, quick: bool = False) -> None:
    """Dots of the ratios, of what was measured last; a quick run has no targets."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FixedLocator
    except ImportError:
        return
    ratios = [item for some in found.values() for item in some if isinstance(item, Ratio)]
    if not ratios:
        return
    cases = list(dict.fromkeys(item.case for item in ratios))
    families = list(dict.fromkeys(family(item.peer) for item in ratios))
    figure = Figure(figsize=(8, 1.6 + 0.27 * len(cases)), layout="constrained")
    axes, shown = figure.subplots(), set[str]()
    axes.axvline(1, color="0.4", linewidth=1)
    for item in ratios:
        height = cases.index(item.case)
        name = family(item.peer)
        shade, label = f"C{families.index(name)}", None if name in shown else name
        shown.add(name)
        axes.plot(item.value, height, "o", color=shade, markersize=7, label=label, alpha=0.9)
        if item.target is not None and not quick:
            axes.plot(item.target, height, "|", color=shade, markersize=15, markeredgewidth=2)
    if not quick:
        axes.plot([], [], "|", color="0.4", markersize=12, markeredgewidth=2, label="target, coloured as its peer")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator((0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(FixedLocator(()))
    axes.set_yticks(range(len(cases)), cases, fontsize=8)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.set_title("Peer's seconds over ours (right of 1: ours is quicker)", fontsize=10)
    axes.grid(axis="both", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.03), ncols=3, fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=85, metadata={"Software": None})
