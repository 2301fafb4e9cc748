"""The summary of all benchmarks: `summary.md` and `summary.png`, made of the result files and the history."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import recorded
from benchmarks.cells import table_of
from benchmarks.machine import describe, slug
from benchmarks.task import Limit, Ratio, Task

HALVES = {
    "On data that no constant was chosen on": ("reporting", "neutral"),
    "On tuning data: no evidence for other data": ("tuning",),
}


def write(folder: Path, tasks: Mapping[str, Task], *, quick: bool = False) -> None:
    """Write both files; the picture needs matplotlib and is left out without it."""
    folder.mkdir(parents=True, exist_ok=True)
    newest = [item for name, task in tasks.items() for item in task.judged(recorded.newest(name, folder))]
    if ratios := [item for item in newest if isinstance(item, Ratio)]:
        draw(ratios, folder / "summary.png", quick=quick)
    (folder / "summary.md").write_text(text(folder, tasks, quick=quick))


def text(folder: Path, tasks: Mapping[str, Task], *, quick: bool = False) -> str:
    """The summary as Markdown: every target, once for each machine that it was measured on; tuning data apart."""
    parts = ["# Benchmarks: summary\n"]
    if quick:
        parts.append("A quick run on small sizes: it shows that the tasks run. Its ratios mean nothing.\n")
    else:
        parts.append("Made by `make bench` (`python -m benchmarks`) of the result files beside it.\n")
        parts.append("![Our times beside the peers'](summary.png)\n")
    contents = [
        (name, machine, content) for name in tasks for machine, content in recorded.machines(name, folder).items()
    ]
    for title, halves in HALVES.items():
        peers, limits = [], []
        for name, machine, content in contents:
            for item in tasks[name].judged(content) if tasks[name].half in halves else ():
                row = asdict(item) | {"task": name, "machine": machine, "reached": None if quick else item.reached}
                if isinstance(item, Limit):
                    limits.append(row | {"asked": item.asked})
                else:
                    peers.append(row)
        parts += [
            f"## {title}\n",
            "Times beside peers: median seconds of the peer over ours in one run; above 1 ours is quicker.\n",
            table_of(peers, "task | case | machine | ours | peer | ratio: {value:.2f} | target: {target:g} | reached"),
            "Other targets:\n",
            table_of(limits, "task | what | machine | measured: {measured:.4g} {unit} | target: {asked} | reached"),
        ]
    last_runs = []
    for name, machine, content in contents:
        mine = [line for line in recorded.runs(folder, name) if slug(line["machine"]) == machine]
        last = mine[-1] if mine else {}
        kept = {key: last.get(key) for key in ("date", "commit", "status", "seconds")}
        last_runs.append({"task": name, "machine": describe(content["machine"])} | kept)
    columns = "task | measured on: {machine} | last run: {date} | code: {commit} | status | seconds: {seconds:.0f}"
    return "\n".join([*parts, "## Runs\n", table_of(last_runs, columns)])


def family(peer: str) -> str:
    """What a peer is called before its settings; each family has a colour."""
    return peer.partition(",")[0]


def draw(ratios: Sequence[Ratio], path: Path, *, quick: bool = False) -> None:
    """Dots of the ratios, of what was measured last; a quick run has no targets."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    cases = list(dict.fromkeys(item.case for item in ratios))
    figure = Figure(figsize=(8, 1.6 + 0.27 * len(cases)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1, color="0.4", linewidth=1)
    for number, name in enumerate(dict.fromkeys(family(item.peer) for item in ratios)):
        own = [item for item in ratios if family(item.peer) == name]
        heights = [cases.index(item.case) for item in own]
        axes.plot([item.value for item in own], heights, "o", color=f"C{number}", markersize=7, label=name, alpha=0.9)
        if not quick:  # what has no target leaves a gap
            targets = [item.target or float("nan") for item in own]
            axes.plot(targets, heights, "|", color=f"C{number}", markersize=15, markeredgewidth=2)
    if not quick:
        axes.plot([], [], "|", color="0.4", markersize=12, markeredgewidth=2, label="target, coloured as its peer")
    ticks = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks((), minor=True)
    axes.set_yticks(range(len(cases)), cases, fontsize=8)
    axes.set_ylim(len(cases) - 0.5, -0.5)
    axes.set_title("Peer's seconds over ours (right of 1: ours is quicker)", fontsize=10)
    axes.grid(axis="both", color="0.92")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.03), ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=85, metadata={"Software": None})
