"""What the documentation says in sentences, made anew from the result files: `python -m benchmarks.claims`.

A text must stand in its document word for word, line breaks aside, beside the command that measures it. Where another
machine gives another text, the document has to name the machine. The command prints what differs, and a test looks.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks import recorded
from benchmarks.data.halves import BlindDataError
from benchmarks.machine import RESULTS, ROOT
from benchmarks.task import Task, all_tasks, made


def claims(tasks: Mapping[str, Task], folder: Path = RESULTS, root: Path = ROOT) -> dict[str, str]:
    """Every text of the newest result file of each task, with what its document should say and does not."""
    found = {}
    for name, task in tasks.items():
        contents = recorded.machines(name, folder)
        texts = {machine: said for machine, content in contents.items() if (said := made(task.sentences, content))}
        if texts and task.half == "tuning":
            raise BlindDataError(f"{name} reads data that constants were chosen on: nothing may be claimed from it.")
        for text in next(iter(texts.values()), []):
            document = " ".join((root / task.document).read_text().split())
            needed = [text, f"benchmarks {name}"]
            if any(text not in said for said in texts.values()):
                needed.append(contents[next(iter(texts))]["machine"]["processor"])
            lacking = [words for words in needed if words not in document]
            found[text] = "".join(f"{task.document} should say: {words}\n" for words in lacking)
    return found


def main() -> int:
    """Print what the documents should say where they say something else; 1 if there is anything."""
    found = claims(all_tasks())
    print("\n".join(filter(None, found.values())), end="")
    right = sum(not wrong for wrong in found.values())
    print(f"{right} of {len(found)} texts are those of the results.")
    return int(right < len(found))


if __name__ == "__main__":
    sys.exit(main())
