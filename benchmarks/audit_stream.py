"""Audit of a million rows from Parquet: seconds, memory, and the numbers of an audit in memory.

Rows are drawn with replacement from the example's table (`examples/data/adult.csv.gz`), the model is the example's.
Each audit runs as `widemargin audit` in a process of its own; its resident set counts the libraries too, so the growth
over an audit of 10,000 rows is shown beside it. Run as `python -m benchmarks.audit_stream`; see README.md here.
"""

import argparse
import contextlib
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import ROOT, machine, one_thread, parser, show, verdict, write
from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.cli.main import main as command_line
from widemargin.cli.tables.table_files import read_table
from widemargin.diagnostics import audit
from widemargin.persistence import load_model

GOALS, ROWS = ROOT / "examples" / "adult.toml", ROOT / "examples" / "data" / "adult.csv.gz"
SMALL, LARGE, QUICK, PART = 10_000, 1_000_000, 3_000, 100_000
SECONDS = 20.0


def drawn(n: int, path: Path, *, parts: int = 1) -> Path:
    """Write n rows drawn from the example as one Parquet file, or as a folder of several."""
    table, rng = read_table(ROWS), np.random.default_rng(0)
    sizes = [min(PART, n - start) for start in range(0, n, PART)]
    pieces = (table.take(pa.array(rng.integers(0, table.num_rows, size))) for size in sizes)
    if parts > 1:
        path.mkdir()
        for number, piece in enumerate(pieces):
            pq.write_table(piece, path / f"{number:02d}.parquet")
        return path
    with pq.ParquetWriter(path, table.schema) as writer:
        for piece in pieces:
            writer.write_table(piece)
    return path


def run_case(arguments: Sequence[str]) -> dict[str, Any]:
    """One audit in this process: seconds, processor seconds, peak resident set, its report."""
    wall, processor = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        with contextlib.redirect_stdout(io.StringIO()):
            code = command_line(["audit", str(GOALS), *arguments, "--rows", "all", "--report-json", str(report)])
        found = json.loads(report.read_text())["report"]
    return {
        "code": code, "wall": time.perf_counter() - wall, "processor": time.process_time() - processor,
        "resident": peak_resident(), "report": found,
    }  # fmt: skip


def peak_resident() -> int:
    """Bytes; of this program alone, where `getrusage` would count what its parent held when it was started."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def fresh(arguments: Sequence[str]) -> dict[str, Any]:
    """The same in a new process."""
    command = [sys.executable, "-m", "benchmarks.audit_stream", "--case", json.dumps(list(arguments))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{arguments}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_memory(data: Path, model: Path | None) -> dict[str, Any]:
    """The report of an audit of all rows at once."""
    goals, table = read_goals_file(GOALS), pq.read_table(data)
    said = table["deployed"] if model is None else load_model(model)
    goal = goals.audit_goal or goals.goal
    return audit(
        said, goal, None if model is None else table, table[goals.data.target], populations=table,
        pos_label=goals.data.positive,
    ).to_dict()  # fmt: skip


def largest_difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Of any rate, bound or end of an interval."""
    pairs = [(one["objective"], other["objective"])]
    for a, b in zip(one["constraints"], other["constraints"], strict=True):
        pairs += [(a[key], b[key]) for key in ("rate", "bound", "slack")]
        pairs += [(a["interval"][key], b["interval"][key]) for key in ("lower", "upper")]
    return max(abs(a - b) for a, b in pairs)


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--case", default=None, help="run this one audit (JSON) in this process and print what it took")
    return made.parse_args(arguments)


def measured(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Every case."""
    if options.quick:
        data = drawn(QUICK, folder / "rows.parquet")
        with one_thread():
            found = run_case(["--predictions", f"{data}:deployed", "--data", str(data)])
        same = largest_difference(found.pop("report"), in_memory(data, None))
        return [{"case": "predictions, one file", "rows": QUICK, "growth": 0, "difference": same, **found}]
    model = folder / "model.skops"
    train = [sys.executable, "-m", "widemargin", "train", str(GOALS), "--model", str(model), "--json"]
    subprocess.run(train, cwd=ROOT, capture_output=True, check=True)
    files = {n: drawn(n, folder / f"{n}.parquet") for n in (SMALL, LARGE)}
    folders = {n: drawn(n, folder / f"{n}", parts=2) for n in (SMALL, LARGE)}
    rows = []
    for case, data_of, said in (
        ("model, one file", files, lambda _: ["--model", str(model)]),
        ("model, folder", folders, lambda _: ["--model", str(model)]),
        ("predictions, one file", files, lambda data: ["--predictions", f"{data}:deployed"]),
    ):
        small, large = (fresh([*said(data_of[n]), "--data", str(data_of[n])]) for n in (SMALL, LARGE))
        whole = in_memory(data_of[LARGE], model if "model" in case else None)
        same = largest_difference(large.pop("report"), whole)
        growth = large["resident"] - small["resident"]
        rows.append({"case": case, "rows": LARGE, "growth": growth, "difference": same, **large})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 unless it breaks (a target missed is shown, not an error)."""
    options = options_of(arguments)
    if options.case is not None:
        with one_thread():
            print(json.dumps(run_case(json.loads(options.case))))
        return 0
    about = machine()
    with tempfile.TemporaryDirectory() as folder:
        rows = measured(options, Path(folder))
    section = show(
        f"Audits from Parquet (target: {SECONDS:g} s of processor, the numbers of an audit in memory)",
        ["case", "rows", "seconds", "processor s", "peak MB", f"over {SMALL} rows MB", "largest difference", "within"],
        [
            [
                row["case"], row["rows"], f"{row['wall']:.1f}", f"{row['processor']:.1f}", row["resident"] >> 20,
                row["growth"] >> 20, f"{row['difference']:.0e}",
                verdict(row["processor"] <= SECONDS and row["difference"] < 1e-9),
            ]
            for row in rows
        ],
    )  # fmt: skip
    write(options, "audit_stream", {"machine": about, "rows": rows}, [section])
    return 0


if __name__ == "__main__":
    sys.exit(main())
