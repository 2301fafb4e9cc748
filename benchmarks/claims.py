"""What the documentation says in sentences, made anew from the result files: `python -m benchmarks.claims`.

A text must stand in its document word for word, line breaks aside, beside the command that measures it. Where another
machine gives another text, the document has to name the machine. The command prints what differs, and a test looks.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import recorded
from benchmarks.data.halves import BlindDataError
from benchmarks.machine import RESULTS, ROOT
from benchmarks.task import Task, all_tasks, made


class Said(NamedTuple):
    """A text, the document that holds it, the task that measures it, and the machines where it is so and is not."""

    document: str
    text: str
    task: str
    machine: str
    others: tuple[str, ...] = ()


def claims(tasks: Mapping[str, Task], folder: Path = RESULTS) -> list[Said]:
    """All of them, from the newest result file of each task."""
    found = []
    for name, task in tasks.items():
        contents = recorded.machines(name, folder)
        texts = {machine: said for machine, content in contents.items() if (said := made(task.sentences, content))}
        if task.half == "tuning" and any(texts.values()):
            raise BlindDataError(f"{name} reads data that constants were chosen on: nothing may be claimed from it.")
        for machine, said in list(texts.items())[:1]:
            for text in said:
                others = tuple(contents[other]["machine"]["processor"] for other in texts if text not in texts[other])
                found.append(Said(task.document, text, name, contents[machine]["machine"]["processor"], others))
    return found


def differing(found: Sequence[Said], root: Path = ROOT) -> list[Said]:
    """Those whose document says something else, does not name their command, or not the machine where it has to."""
    wrong = []
    for said in found:
        text = _plain((root / said.document).read_text())
        named = f"benchmarks {said.task}" in text or f"## {said.task}:" in text
        if _plain(said.text) not in text or not named or (said.others and said.machine not in text):
            wrong.append(said)
    return wrong


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def main() -> int:
    """Print what the documents should say where they say something else; 1 if there is anything."""
    found = claims(all_tasks())
    wrong = differing(found)
    for said in wrong:
        where = f", and {said.machine}, as it differs on {', '.join(said.others)}" if said.others else ""
        print(f"{said.document} should say, and name `python -m benchmarks {said.task}`{where}:\n  {said.text}\n")
    print(f"{len(found) - len(wrong)} of {len(found)} texts are those of the results.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
