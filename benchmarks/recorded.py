"""What was measured, and where: a file for each task and machine, `results/MACHINE/TASK.json`."""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import RESULTS, describe
from benchmarks.task import Content, Parts, Task


def machines(name: str, folder: Path = RESULTS) -> dict[str, Content]:
    """The contents of a task by the machine's folder, the newest first; those without a date are older."""
    found = {path.parent.name: Parts(json.loads(path.read_text())) for path in folder.glob(f"*/{name}.json")}
    return dict(sorted(found.items(), key=lambda item: (item[1]["machine"].get("date", ""), item[0]), reverse=True))


def newest(name: str, folder: Path = RESULTS) -> Content:
    """What was measured last, on whatever machine; an empty content where nothing was."""
    return next(iter(machines(name, folder).values()), Parts())


def keep(folder: Path, machine: str, name: str, content: Mapping[str, Any]) -> None:
    """Write what was measured so far, NumPy's numbers as Python's; the file is replaced as a whole."""
    path = folder / machine / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(content, indent=1, default=lambda value: value.tolist()) + "\n")
    beside.replace(path)


def page(name: str, task: Task, folder: Path = RESULTS) -> str:
    """The result page: for each machine every table, and the targets of all machines beside each other."""
    half = {
        "neutral": "no constants were chosen on such data",
        "tuning": "the tuning half: constants were chosen on it",
        "reporting": "the reporting half, which nothing was chosen on",
    }
    question = textwrap.fill(task.question, 120)
    parts = [f"# {name}\n\n{question}\n\nMade by `python -m benchmarks {name}`. Data: {half[task.half]}.\n"]
    for content in machines(name, folder).values():
        parts.append(f"## {describe(content['machine'])}\n")
        tables = [*task.tables.values(), task.table("targets")]
        parts += [f"### {table.title}\n\n{text}" for table in tables if (text := table.markdown(content))]
    return "\n".join(parts)


def log(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a run to the history of its task, `history/TASK.jsonl`."""
    path = folder / "history" / f"{line['script']}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
