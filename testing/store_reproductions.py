"""Put the results of `make reproduce` into the documentation: `python testing/store_reproductions.py FOLDER`.

Records go to `docs/reproductions/` without their single runs, pictures to `docs/images/`. The tables, the table of
claims and the processor seconds in `docs/reproductions.md` are replaced. What it says in words people must read again.
"""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from PIL import Image

from widemargin_papers.reproductions import FIGURES
from widemargin_papers.reproductions.claims import CLAIMS, page_table

__all__ = ["main", "store"]

DOCS = Path(__file__).parent.parent / "docs"


def store(folder: Path, docs: Path = DOCS) -> list[str]:
    """Replace what the documentation holds of the figures that are in the folder.

    Returns
    -------
    list of str
        What could not be replaced.

    Raises
    ------
    ValueError
        If a record is one of a quick run, or of other settings than the figure's own.
    """
    page = (docs / "reproductions.md").read_text()
    before = {name: _read(docs / "reproductions" / f"{name}.json") for name in CLAIMS}
    records = {name: _read(folder / f"{name}.json") for name in CLAIMS if (folder / f"{name}.json").is_file()}
    left = [f"{name}: not in {folder}" for name in CLAIMS if name not in records]
    modules = {
        name: importlib.import_module(f"widemargin_papers.reproductions.{FIGURES[name].module}") for name in records
    }
    for name, record in records.items():  # all of them, before anything is written
        if record["settings"] != modules[name].settings(False):
            raise ValueError(f"{folder / name}.json has other settings than the figure: {record['settings']}")
    for name, record in records.items():
        seconds = sum(run.get("seconds", 0.0) for run in record.pop("runs").values())
        tables = (modules[name].table(one["summary"]).rstrip() for one in (before[name], record))
        page, found = _replaced(page, *tables)
        left += [] if found else [f"{name}: its table is not on the page"]
        if seconds:  # some figures time their methods, not their runs
            record["processor_seconds"] = round(seconds, 1)
            said = rf"(`widemargin reproduce {name}\b[^(]*\()\d+( processor)"
            page, count = re.subn(said, rf"\g<1>{seconds:.0f}\2", page)
            left += [] if count else [f"{name}: its processor seconds"]
        (docs / "reproductions" / f"{name}.json").write_text(_compact(record))
        _shrink(folder / f"{name}.png", docs / "images" / f"{name}.png")
    after = before | records
    claims = [page_table({name: one["summary"] for name, one in all_of.items()}) for all_of in (before, after)]
    page, found = _replaced(page, *claims)
    left += [] if found else ["the table of claims is not on the page"]
    (docs / "reproductions.md").write_text(page)
    return left


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def _compact(record: dict[str, Any]) -> str:
    """JSON with a list of numbers on one line."""
    text = json.dumps(record, indent=1) + "\n"
    return re.sub(
        r"\[\s+[^\[\]{}]*?\]", lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text
    )


def _shrink(source: Path, target: Path) -> None:
    """At most 1300 pixels wide, in 64 colours."""
    with Image.open(source) as picture:
        small = picture.convert("RGB")
    small.thumbnail((1300, 4000))
    small.quantize(64).save(target, optimize=True)


def _replaced(page: str, old: str, new: str) -> tuple[str, bool]:
    return page.replace(old, new), old in page


def main() -> int:
    """Store a folder; 1 where something is left to do by hand."""
    if len(sys.argv) != 2:
        sys.stderr.write(__doc__)
        return 2
    left = store(Path(sys.argv[1]))
    sys.stdout.writelines(f"By hand: {line}\n" for line in left)
    sys.stdout.write("Read docs/reproductions.md again.\n")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
