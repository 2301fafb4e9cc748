"""First use: three commands, the first call of each estimator, audits of a million rows."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyarrow import csv

from benchmarks.machine import ROOT
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing
from widemargin.cli.tables.table_files import read_table

EXAMPLE, PEOPLE = ROOT / "examples" / "adult.toml", ROOT / "examples" / "data" / "adult.csv.gz"


def _children() -> float:
    """Processor seconds of the processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command(*arguments: str, folder: Path = ROOT, codes: Sequence[int] = (0,), **environment: str) -> Timing:
    """Of Python with some arguments in a new process, that may end with these exit codes."""
    # Byte code is kept, also where the environment says otherwise, as an installation has it.
    there = os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | environment
    run = partial(subprocess.run, cwd=folder, env=there, capture_output=True, text=True, check=False)
    timing = Timing().add(lambda: run([sys.executable, *arguments]), _children)
    if timing.result.returncode not in codes:
        raise RuntimeError(f"{' '.join(arguments)}: {timing.result.stderr.strip()[-500:]}")
    return timing


# --- three commands ---------------------------------------------------------------------------------------------------


def three_commands(ctx: Context) -> list[Row]:
    """`widemargin init`, `train` and `report`, each a process, with an empty cache of compiled code for each table."""
    rows = []
    commands = {
        "init": ("people.csv", "--out", "goals.toml"),
        "train": ("goals.toml",),
        "report": ("goals.toml", "--model", "goals.skops", "--out", "report.html"),
    }
    for name, table in ctx.every(slice(1)):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            cache = ctx.pick({"NUMBA_CACHE_DIR": f"{folder / 'cache'}"}, {})
            csv.write_csv(table, folder / "people.csv")
            done = {
                word: command("-m", "widemargin", word, *more, folder=folder, codes=(0, 1), **cache)
                for word, more in commands.items()
            }
            rows.append({
                "table": name, "rows": table.num_rows, "seconds": sum(run.median for run in done.values()),
                "processor_s": sum(run.processor_median for run in done.values()),
                **{f"{word}_s": run.median for word, run in done.items()},
                "report_kb": (folder / "report.html").stat().st_size >> 10,
            })  # fmt: skip
    return rows


class first_report(Task, subject="first use"):
    """From a table to a report: `widemargin init`, `train` and `report`, as the README shows them, on Adult and on
    credit-card clients, each a process of its own, with an empty cache of compiled code for each table.
    """

    parts = {"rows": three_commands}
    seconds = Table("Three commands in a new environment: init, train, report", "rows", """
        table | rows:, | init_s:.1f | train_s:.1f | report_s:.1f | all s: {seconds:.1f} | processor_s:.1f
        | report KB: {report_kb}
    """)  # fmt: skip

    def sentences(self, content: Content) -> Iterable[str]:
        adult, clients = (f"{row['processor_s']:.0f}" for row in content["rows"])
        yield (
            f"On the Adult table (48,842 rows) the three commands took {adult} processor seconds, on credit-card "
            f"clients (30,000 rows) {clients}, on one core in a new environment"
        )


# --- first calls ------------------------------------------------------------------------------------------------------

STRUCTURAL = ("MulticlassSVC", "MultiLabelSVC", "HierarchicalSVC", "ChainSVC")


TWO_FITS = """
import time
from widemargin.cli.commands.compile import made_estimator, made_rows

model, (X, y) = made_estimator({name!r}), made_rows({name!r}, 500)[0]
for _ in range(2):
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(X, y).predict(X)
    print(time.process_time() - processor, time.perf_counter() - wall)
"""
"""A program that fits twice and prints processor and wall seconds of each fit."""


def first_calls(ctx: Context) -> list[Row]:
    """Each estimator in two programs, one after the other, with a cache folder of their own."""
    from widemargin.cli.commands.compile import ESTIMATORS

    command("-c", TWO_FITS.format(name="RateConstrainedClassifier"))  # byte code that is not there yet
    rows = []
    for name in list(ESTIMATORS)[: ctx.pick(None, 2)]:
        with tempfile.TemporaryDirectory() as folder:
            given = {"NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
            programs = [command("-c", TWO_FITS.format(name=name), **given) for _ in range(2)]
        empty, filled = (list(map(float, program.result.stdout.split())) for program in programs)
        rows.append({
            "estimator": name, "empty": {"first": empty[0], "wall": empty[1], "second": empty[2]},
            "filled": {"first": filled[0]}, "program": programs[0].processor_median - empty[2],
        })  # fmt: skip
    return rows


class first_call(Task, half="neutral", document="docs/limits.md"):
    """What compiling costs: the first fit of each estimator in a process with an empty cache of compiled code, the
    second in that process, and the first in a new process that finds the cache filled, as `widemargin compile` leaves
    it.
    """

    parts = {"rows": first_calls}
    seconds = Table("Processor seconds on 500 rows; compiled code is kept between processes", "rows", """
        estimator | first call, empty cache: {empty[first]:.2f} | wall: {empty[wall]:.2f}
        | program with imports: {program:.2f} | first call, filled cache: {filled[first]:.2f}
        | second call: {empty[second]:.2f}
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        programs = {row["estimator"]: row["program"] for row in content["rows"] if "program" in row}
        for named, most in (("other models", 5.0), ("structural models", 8.0)):
            structural = named == "structural models"
            found = [seconds for name, seconds in programs.items() if (name in STRUCTURAL) == structural]
            if found:
                yield Limit(f"a program with one fit, empty cache, slowest of the {named}", max(found), most, "s")

    def sentences(self, content: Content) -> Iterable[str]:
        rows = {row["estimator"]: row["empty"]["first"] for row in content["rows"]}
        structural = [rows.pop(name) for name in STRUCTURAL]
        least, most = f"{min(rows.values()):.1f}".removeprefix("0"), f"{max(rows.values()):.1f}"
        yield (
            f"later ones: {least} to {most} processor seconds, and {min(structural):.0f} to {max(structural):.0f} for"
        )


# --- audits of a million rows -----------------------------------------------------------------------------------------


def audits(ctx: Context) -> list[Row]:
    """By a model, of one file and of a folder of ten, and by a column of predictions; each a process of its own."""
    n, table, rows = ctx.pick(1_000_000, 3000), read_table(PEOPLE), []
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as made:
        folder, file, model = (Path(made) / name for name in ("rows", "rows.parquet", "m.skops"))
        folder.mkdir()
        for number in range(10):
            pq.write_table(table.take(rng.integers(0, table.num_rows, n // 10)), folder / f"{number}.parquet")
        pq.write_table(pq.read_table(folder), file, row_group_size=n // 10)
        cases = [("predictions, one file", file, None)]
        if not ctx.quick:
            command("-m", "widemargin", "train", str(EXAMPLE), "--model", str(model))
            cases += [("model, one file", file, model), ("model, folder", folder, model)]
        for case, data, judged in cases:
            by = ("--model", str(judged)) if judged else ("--predictions", f"{data}:deployed")
            given = (str(EXAMPLE), *by, "--data", str(data), "--rows", "all")
            done = command("-m", "widemargin", "audit", *given, codes=(0, 1), OMP_NUM_THREADS="1")
            rows.append({"case": case, "n": n, "seconds": done.median, "processor": done.processor_median})
    return rows


class audit_stream(Task, half="neutral"):
    """`widemargin audit` of a million rows from Parquet, drawn with replacement from the example's table, each a
    process of its own, its start counted: by a model (one file, and a folder of ten) and by a column of predictions.
    """

    parts = {"rows": audits}
    audits = Table(
        "Audits from Parquet", "rows", "case | rows: {n:,} | seconds: {seconds:.1f} | processor s: {processor:.1f}",
    )  # fmt: skip
