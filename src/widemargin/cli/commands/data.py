"""`widemargin data`: which data sets experiments and examples use, whether they are there, and tables to begin with."""

import argparse
from pathlib import Path
from typing import Any

from widemargin.cli.console import Progress, say
from widemargin.cli.tables.table_writing import write_table
from widemargin.datasets import CATALOGUE, DATA_VARIABLE, PEOPLE_FILES, data_folder, load_people
from widemargin.exceptions import DataError


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """List the data sets, or write one as a table; the exit code and the content for --json."""
    folder = data_folder(options.data)
    if options.name is None:
        sets = {}
        for name, entry in CATALOGUE.items():
            files = entry.found(folder)
            sets[name] = {
                "here": files is not None, "files": [str(path) for path in files or []],
                "needs": [names[0] for names in entry.files], "subfolder": entry.below, "source": entry.source,
                "about": entry.about, "table": name in PEOPLE_FILES,
            }  # fmt: skip
        where = "no folder is named" if folder is None else f"looked for in {folder} and its subfolders named below"
        say(f"Data sets ({where}; name a folder by --data or ${DATA_VARIABLE}):", "")
        for name, entry in CATALOGUE.items():
            say(f"{name}: {'here' if sets[name]['here'] else 'not here'}. {entry.about}")
            say(f"    {entry.below}/: {', '.join(names[0] for names in entry.files)}", f"    from {entry.source}")
        say("", f"Tables to begin with: widemargin data NAME --out FILE.csv, NAME one of {', '.join(PEOPLE_FILES)}")
        return 0, {"folder": None if folder is None else str(folder), "data_sets": sets}
    if options.name not in PEOPLE_FILES:
        what = "is no table of rows and columns" if options.name in CATALOGUE else "is unknown"
        raise DataError(f"{options.name!r} {what}. Tables are written of {', '.join(PEOPLE_FILES)}")
    out: Path = options.out or Path(f"{options.name}.csv")
    if out.exists() and not options.force:
        raise DataError(f"{out} exists already and is not replaced. Name another file by --out, or add --force")
    with Progress() as progress:
        progress.step("reading the data set")
        table = load_people(folder, options.name)
        progress.step("writing the table")
        write_table(table, out)
    say(
        f"{options.name}: {table.num_rows} rows, {table.num_columns} columns ({', '.join(table.column_names)})",
        f"Source: {CATALOGUE[options.name].source}",
        f"Saved as {out}. Next: widemargin init {out}",
    )
    return 0, {"name": options.name, "file": str(out), "rows": table.num_rows, "columns": table.column_names}
