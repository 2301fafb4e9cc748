"""What was measured, and where: a file for each task and machine, `results/MACHINE/TASK.json`."""

import contextlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, describe
from benchmarks.task import Content, Limit, Parts, Task, grouped, made, table_of


def machines(name: str, folder: Path = RESULTS) -> dict[str, Content]:
    """The contents of a task by the machine's folder, the newest first; those without a date are older."""
    found = {path.parent.name: Parts(json.loads(path.read_text())) for path in folder.glob(f"*/{name}.json")}
    return dict(sorted(found.items(), key=lambda item: (item[1]["machine"].get("date", ""), item[0]), reverse=True))


def keep(folder: Path, machine: str, name: str, content: Mapping[str, Any]) -> None:
    """Write what was measured so far, NumPy's numbers as Python's; the file is replaced as a whole."""
    path = folder / machine / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(content, indent=1, default=lambda value: value.tolist()) + "\n")
    beside.replace(path)


def page(task: Task, folder: Path = RESULTS) -> str:
    """The result page: for each machine every table, and the targets of all machines beside each other."""
    half = {
        "neutral": "no constants were chosen on such data",
        "tuning": "the tuning half: constants were chosen on it",
        "reporting": "the reporting half, which nothing was chosen on",
    }
    question = textwrap.fill(task.question, 120)
    parts = [f"# {task.name}\n\n{question}\n\nMade by `python -m benchmarks {task.name}`. Data: {half[task.half]}.\n"]
    for content in machines(task.name, folder).values():
        parts.append(f"## {describe(content['machine'])}\n")
        tables = task.tables().values()
        parts += [f"### {table.title}\n\n{text}" for table in tables if (text := table.markdown(content))]
    return "\n".join(parts)


def write(folder: Path, tasks: Mapping[str, Task], *, quick: bool = False) -> None:
    """Write the result pages and the summary, whose picture needs matplotlib; a quick run has none."""
    folder.mkdir(parents=True, exist_ok=True)
    contents = {name: found for name in tasks if (found := machines(name, folder))}
    for name in contents:
        (folder / f"{name}.md").write_text(page(tasks[name], folder))
    (folder / "summary.md").write_text(text(folder, tasks, quick=quick))
    ratios = [
        limit for name, found in contents.items() for limit in made(tasks[name].targets, next(iter(found.values())))
        if limit.peer
    ]  # fmt: skip
    if ratios and not quick:
        with contextlib.suppress(ImportError):
            draw(ratios, folder / "summary.png")


HALVES = {
    "On data that no constant was chosen on": ("reporting", "neutral"),
    "On tuning data: no evidence for other data": ("tuning",),
}


def text(folder: Path, tasks: Mapping[str, Task], *, quick: bool = False) -> str:
    """The summary as Markdown: every target, once for each machine that it was measured on; tuning data apart."""
    parts = ["# Benchmarks: summary\n"]
    if quick:
        parts.append("A quick run on small sizes: it shows that the tasks run. Its ratios mean nothing.\n")
    else:
        parts.append("Made by `make bench` (`python -m benchmarks`) of the result files beside it.\n")
        parts.append("![Our times beside the peers'](summary.png)\n")
    contents = [(name, machine, content) for name in tasks for machine, content in machines(name, folder).items()]
    for title, halves in HALVES.items():
        rows = [
            limit.to_row() | {"task": name, "machine": machine} | ({"reached": None} if quick else {})
            for name, machine, content in contents
            if tasks[name].half in halves
            for limit in made(tasks[name].targets, content)
        ]
        parts += [f"## {title}\n", table_of(rows, "task | what | machine | measured | target | reached")]
    measured = [{"task": name, "machine": describe(content["machine"])} for name, _, content in contents]
    return "\n".join([*parts, "## Machines\n", table_of(measured, "task | measured on: {machine}")])


def draw(ratios: Sequence[Limit], path: Path) -> None:
    """Dots of the ratios of what was measured last; what a peer is called before its settings has a colour."""
    from matplotlib.figure import Figure

    n_cases = len({limit.case for limit in ratios})
    figure = Figure(figsize=(8, 1.6 + 0.27 * n_cases), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1, color="0.4", linewidth=1)
    named = [{"peer": limit.peer.partition(",")[0], "limit": limit} for limit in ratios]
    for number, (peer, rows) in enumerate(grouped(named, "peer")):
        own = [row["limit"] for row in rows]
        heights = [limit.case for limit in own]
        axes.plot(
            [limit.measured for limit in own], heights, "o", color=f"C{number}", markersize=7, label=peer, alpha=0.9
        )
        targets = [limit.limit or float("nan") for limit in own]  # what has no target leaves a gap
        axes.plot(targets, heights, "|", color=f"C{number}", markersize=15, markeredgewidth=2)
    axes.plot([], [], "|", color="0.4", markersize=12, markeredgewidth=2, label="target, coloured as its peer")
    axes.set(xscale="log", ylim=(n_cases - 0.5, -0.5))
    ticks = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
    axes.set_xticks(ticks, map(str, ticks))
    axes.set_xticks((), minor=True)
    axes.tick_params(axis="y", labelsize=8)
    axes.set_title("Peer's seconds over ours (right of 1: ours is quicker)", fontsize=10)
    axes.grid(color="0.92")
    axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.03), ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, dpi=85, metadata={"Software": None})
