"""From a table to a report: `widemargin init`, `train` and `report`, as the README shows them, on two tables of people.

Each command is a process of its own, with a new and empty cache of compiled code for each table.
Run as `python -m benchmarks.first_report`; see README.md here.
"""

import argparse
import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, MissingDataError, machine, parser, show, skipped, write
from widemargin.datasets import data_folder

TABLES = {"adult": 48_842, "credit-card": 30_000}
QUICK_LINES = 1500


def command_line(folder: Path, cache: Path | None, arguments: Sequence[str]) -> tuple[int, float, float]:
    """Exit code, seconds and processor seconds of one command.

    Raises
    ------
    MissingDataError
        If the table is not on this machine.
    """
    before, wall = _processor(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "widemargin", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}),
    )  # fmt: skip
    if done.returncode not in (0, 1):
        problem = MissingDataError if arguments[0] == "data" else RuntimeError
        raise problem(f"widemargin {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return done.returncode, time.perf_counter() - wall, _processor() - before


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def three_commands(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """What the three commands take on one table."""
    data = (data_folder(options.data) or ROOT.parent / "shared" / "data").resolve()
    with tempfile.TemporaryDirectory() as made:
        folder, cache = Path(made), None if options.quick else Path(made) / "cache"
        if options.quick:
            with gzip.open(ROOT / "examples" / "data" / "adult.csv.gz", "rt") as table:
                (folder / "people.csv").write_text("".join(islice(table, QUICK_LINES)))
        else:
            command_line(folder, None, ["data", name, "--data", str(data), "--out", "people.csv"])
        row: dict[str, Any] = {"table": name, "rows": TABLES[name], "seconds": 0.0, "processor_s": 0.0}
        for arguments in (
            ["init", "people.csv", "--out", "goals.toml"],
            ["train", "goals.toml"],
            ["report", "goals.toml", "--model", "goals.skops", "--out", "report.html"],
        ):
            code, wall, processor = command_line(folder, cache, arguments)
            row |= {f"{arguments[0]}_s": wall, f"{arguments[0]}_code": code}
            row["seconds"] += wall
            row["processor_s"] += processor
        row["report_kb"] = (folder / "report.html").stat().st_size >> 10
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands; 0 also where the data are missing."""
    options = parser(__doc__ or "").parse_args(arguments)
    about = machine()
    try:
        rows = [three_commands(name, options) for name in (list(TABLES)[:1] if options.quick else TABLES)]
    except MissingDataError as error:
        return skipped(error)
    section = show(
        "Three commands in a new environment: init, train, report",
        ["table", "rows", "init s", "train s", "report s", "all s", "processor s", "report KB"],
        [
            [row["table"], row["rows"], *(f"{row[f'{what}_s']:.1f}" for what in ("init", "train", "report")),
             f"{row['seconds']:.1f}", f"{row['processor_s']:.1f}", row["report_kb"]]
            for row in rows
        ],
    )  # fmt: skip
    write(options, "first_report", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
