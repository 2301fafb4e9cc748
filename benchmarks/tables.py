"""The tables of numbers in README.md and docs/, made of the result files: `python -m benchmarks.tables [--write]`.

A document says `<!-- table TASK.NAME -->`, and what lies from there to `<!-- end of table -->` is made anew, with the
machine and the command below it. Without `--write` the command says which tables differ; a test does the same.
"""

import re
import sys
from pathlib import Path

from benchmarks import recorded
from benchmarks.data.halves import HALVES
from benchmarks.machine import ROOT
from benchmarks.task import all_tasks, table_of

REGION = re.compile(r"<!-- table (\w+)\.(\w+) -->\n.*?<!-- end of table -->", re.DOTALL)


def documents() -> list[Path]:
    """Both README.md and everything in docs/ that is written by hand."""
    written = sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts)
    return [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *written]


def region(task_name: str, table_name: str) -> str:
    """The marked lines of a table, with where it was measured."""
    tasks = all_tasks()
    known = tasks[task_name].tables() if task_name in tasks else {}
    if (task_name, table_name) == ("suite", "halves"):
        halves = [{"subject": subject} | both for subject, both in HALVES.items()]
        text, where = table_of(halves, "subject | tuning | reporting"), ""
    elif table_name not in known:
        raise LookupError(f"there is no table {task_name}.{table_name}")
    else:
        contents = recorded.machines(task_name).values()
        every = [(known[table_name].markdown(content), content["machine"]) for content in contents]
        text, about = next((pair for pair in every if pair[0]), ("", {}))  # what was measured last
        if not text:
            raise LookupError(f"{task_name}.{table_name} has no rows yet: run `python -m benchmarks {task_name}`")
        date = f", {about['date'][:10]}" if "date" in about else ""
        chosen = " Constants were chosen on such data, too." if tasks[task_name].half == "tuning" else ""
        where = f"*`python -m benchmarks {task_name}` on {about['processor']}{date}.{chosen}*\n\n"
    return f"<!-- table {task_name}.{table_name} -->\n\n{text}\n{where}<!-- end of table -->"


def made(text: str) -> str:
    """A document with all its tables made anew."""
    return REGION.sub(lambda found: region(*found.groups()), text)


def main() -> int:
    """Say which documents have other tables than the results, or write them; 1 where they differ."""
    write, differing = "--write" in sys.argv, 0
    for path in documents():
        old = path.read_text()
        if (new := made(old)) != old:
            differing += not write
            print(f"{path.relative_to(ROOT)}: {'written' if write else 'differs from the results; run with --write'}")
            if write:
                path.write_text(new)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
