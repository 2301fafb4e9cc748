"""First use: three commands, the first call of each estimator, imports and sizes, audits of a million rows."""

import contextlib
import gzip
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, distribution, requires
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import ROOT
from benchmarks.task import Content, Context, Limit, Row, Table, Task
from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.cli.main import main as command_line
from widemargin.cli.tables.table_files import read_table
from widemargin.diagnostics import audit
from widemargin.exceptions import MissingDataError
from widemargin.persistence import load_model

EXAMPLE, PEOPLE = ROOT / "examples" / "adult.toml", ROOT / "examples" / "data" / "adult.csv.gz"


def _processor() -> float:
    """Processor seconds of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- three commands ---------------------------------------------------------------------------------------------------

SIZES = {"adult": 48_842, "credit-card": 30_000}


def _command(folder: Path, arguments: Sequence[str], cache: Path | None) -> tuple[int, float, float]:
    """Exit code, seconds and processor seconds of one command."""
    before, wall = _processor(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "widemargin", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": str(cache)}),
    )  # fmt: skip
    if done.returncode not in (0, 1):
        problem = MissingDataError if arguments[0] == "data" else RuntimeError
        raise problem(f"widemargin {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return done.returncode, time.perf_counter() - wall, _processor() - before


def three_commands(ctx: Context) -> list[Row]:
    """`widemargin init`, `train` and `report`, each a process, with an empty cache of compiled code for each table."""
    rows = []
    for name in ctx.pick(tuple(SIZES), ("adult",)):
        with tempfile.TemporaryDirectory() as made:
            folder, cache = Path(made), ctx.pick(Path(made) / "cache", None)
            if ctx.quick:
                with gzip.open(PEOPLE, "rt") as table:
                    (folder / "people.csv").write_text("".join(islice(table, 1500)))
            else:
                ctx.load(name)
                _command(folder, ["data", name, "--data", str(ctx.folder.resolve()), "--out", "people.csv"], None)
            row: Row = {"table": name, "rows": SIZES[name], "seconds": 0.0, "processor_s": 0.0}
            for arguments in (
                ["init", "people.csv", "--out", "goals.toml"],
                ["train", "goals.toml"],
                ["report", "goals.toml", "--model", "goals.skops", "--out", "report.html"],
            ):
                code, wall, processor = _command(folder, arguments, cache)
                row |= {f"{arguments[0]}_s": wall, f"{arguments[0]}_code": code}
                row["seconds"] += wall
                row["processor_s"] += processor
            row["report_kb"] = (folder / "report.html").stat().st_size >> 10
            rows.append(row)
    return rows


def _report_sentences(content: Content) -> Iterable[tuple[str, str]]:
    adult, clients = (f"{row['processor_s']:.0f}" for row in content["rows"])
    yield (
        "docs/comparison.md",
        (
            f"On the Adult table (48,842 rows) the three commands took {adult} processor seconds, on credit-card "
            f"clients (30,000 rows) {clients}, on one core in a new environment"
        ),
    )


# --- first calls ------------------------------------------------------------------------------------------------------

STRUCTURAL = ("MulticlassSVC", "MultiLabelSVC", "HierarchicalSVC", "ChainSVC")


def first_fits(ctx: Context, name: str) -> dict[str, float]:
    """Processor seconds of two fits, and wall seconds of the first."""
    from widemargin.cli.commands.compile import made_estimator, made_rows

    began, model = time.perf_counter(), made_estimator(name)
    X, y = made_rows(name, 500)[0]
    seconds: dict[str, float] = {}
    for call in ("first", "second"):
        start = time.process_time()
        model.fit(X, y).predict(X)
        seconds[call] = time.process_time() - start
        seconds.setdefault("wall", time.perf_counter() - began)
    return seconds


def first_calls(ctx: Context) -> list[Row]:
    """Each estimator in two new processes, one after the other, with a cache folder of their own."""
    from widemargin.cli.commands.compile import ESTIMATORS

    rows = []
    for name in list(ESTIMATORS)[: ctx.pick(None, 1)]:
        with tempfile.TemporaryDirectory() as folder:
            empty, filled = (ctx.fresh(first_fits, name, NUMBA_CACHE_DIR=folder) for _ in range(2))
        rows.append({"estimator": name, "empty": empty, "filled": filled})
    return rows


def trained_example(ctx: Context) -> list[float]:
    """Processor seconds of `widemargin train` on the census example: with an empty cache, and with a filled one."""
    seconds: list[float] = []
    if ctx.quick:
        return seconds
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "widemargin", "train", str(EXAMPLE), "--model", f"{folder}/adult.skops"]
        for _ in range(2):
            before = _processor()
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
            seconds.append(_processor() - before)
    return seconds


def _call_sentences(content: Content) -> Iterable[tuple[str, str]]:
    rows = {row["estimator"]: row["empty"]["first"] for row in content["rows"]}
    structural = [rows.pop(name) for name in STRUCTURAL]
    least, most = f"{min(rows.values()):.1f}".removeprefix("0"), f"{max(rows.values()):.1f}"
    yield (
        "docs/limits.md",
        f"later ones: {least} to {most} processor seconds, and {min(structural):.0f} to {max(structural):.0f} for",
    )


# --- what an installation weighs --------------------------------------------------------------------------------------

IMPORTS = (
    "import widemargin", "import widemargin.goals", "from widemargin import audit", "from widemargin import KernelSVC",
    "from widemargin import RateConstrainedClassifier", "from widemargin import MultiLabelSVC",
    "from widemargin import save_model", "import widemargin.cli.commands.audit", "import widemargin.cli.commands.train",
)  # fmt: skip
NEEDED_FOR = {
    "numpy": "arrays",
    "scipy": "sparse rows, linear algebra",
    "scikit-learn": "the interface of estimators, checks of input",
    "numba": "compiled loops",
    "highspy": "linear programmes: mixtures of thresholds, relaxations; not loaded by kernel models",
    "narwhals": "pandas, polars and other data frames",
    "pyarrow": "CSV and Parquet; columns of populations and cells of rows, also of arrays in memory",
    "rich": "progress and tables on a terminal",
    "skops": "model files; loaded when one is read or written",
}


def imports(ctx: Context) -> list[Row]:
    """Processor seconds of imports in new processes, and which libraries they load."""
    rows, called = [], {"scikit-learn": "sklearn"}
    for statement in IMPORTS[: ctx.pick(None, 2)]:
        code = (
            f"import json, sys, time\nstart = time.process_time()\n{statement}\nseconds = time.process_time() - start\n"
            "print(json.dumps([seconds, sorted({name.partition('.')[0] for name in sys.modules})]))"
        )
        seconds, modules = [], []
        for _ in range(ctx.repeats):
            ended = subprocess.run(
                [sys.executable, "-c", code], env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
                check=True,
            )  # fmt: skip
            taken, modules = json.loads(ended.stdout)
            seconds.append(taken)
        loads = [name for name in NEEDED_FOR if called.get(name, name) in modules]
        rows.append({"statement": statement, "seconds": round(statistics.median(seconds), 3), "loads": loads})
    return rows


def megabytes(ctx: Context) -> dict[str, int]:
    """Bytes of the files of every library that is installed with the package, without byte code."""
    names, sizes = [text for text in requires("widemargin") or () if "extra ==" not in text], {}
    for name in NEEDED_FOR:
        if any(text.startswith(name) for text in names):
            with contextlib.suppress(PackageNotFoundError):
                files = (Path(str(file.locate())) for file in distribution(name).files or [])
                kept = (path for path in files if "__pycache__" not in str(path) and path.is_file())
                sizes[name] = sum(path.stat().st_size for path in kept)
    return sizes


def wheel(ctx: Context) -> list[int] | None:
    """Bytes of the wheel, and of what it holds unpacked; None where it cannot be built (no network, no tools)."""
    if ctx.quick:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        (made,) = Path(folder).glob("*.whl")
        return [made.stat().st_size, sum(item.file_size for item in zipfile.ZipFile(made).infolist())]


# --- audits of a million rows -----------------------------------------------------------------------------------------

SMALL, LARGE, QUICK, PIECE = 10_000, 1_000_000, 3_000, 100_000


def _drawn(n: int, path: Path, *, parts: int = 1) -> Path:
    """Write n rows drawn from the example as one Parquet file, or as a folder of several."""
    table, rng = read_table(PEOPLE), np.random.default_rng(0)
    sizes = [min(PIECE, n - start) for start in range(0, n, PIECE)]
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


def one_audit(ctx: Context, *arguments: str) -> Row:
    """One audit in this process: seconds, processor seconds, peak resident set, its report."""
    wall, processor = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        with contextlib.redirect_stdout(io.StringIO()):
            code = command_line(["audit", str(EXAMPLE), *arguments, "--rows", "all", "--report-json", str(report)])
        found = json.loads(report.read_text())["report"]
    # The peak of this program alone, where `getrusage` would count what its parent held when it was started.
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return {
        "code": code, "wall": time.perf_counter() - wall, "processor": time.process_time() - processor,
        "resident": 1024 * int(line.split()[1]), "report": found,
    }  # fmt: skip


def _apart(report: Row, data: Path, model: Path | None) -> float:
    """The largest difference of any rate, bound or end of an interval to an audit of all rows in memory."""
    goals, table = read_goals_file(EXAMPLE), pq.read_table(data)
    said = table["deployed"] if model is None else load_model(model)
    whole = audit(
        said, goals.audit_goal or goals.goal, None if model is None else table, table[goals.data.target],
        populations=table, pos_label=goals.data.positive,
    ).to_dict()  # fmt: skip
    pairs = [(report["objective"], whole["objective"])]
    for a, b in zip(report["constraints"], whole["constraints"], strict=True):
        pairs += [(a[key], b[key]) for key in ("rate", "bound", "slack")]
        pairs += [(a["interval"][key], b["interval"][key]) for key in ("lower", "upper")]
    return max(abs(a - b) for a, b in pairs)


def audits(ctx: Context) -> list[Row]:
    """By a model of one file and of a folder, and by a column of predictions; growth over an audit of few rows."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if ctx.quick:
            data = _drawn(QUICK, folder / "rows.parquet")
            found = one_audit(ctx, "--predictions", f"{data}:deployed", "--data", str(data))
            apart = _apart(found.pop("report"), data, None)
            return [{"case": "predictions, one file", "rows": QUICK, "growth": 0, "difference": apart, **found}]
        model = folder / "model.skops"
        train = [sys.executable, "-m", "widemargin", "train", str(EXAMPLE), "--model", str(model), "--json"]
        subprocess.run(train, cwd=ROOT, capture_output=True, check=True)
        files = {n: _drawn(n, folder / f"{n}.parquet") for n in (SMALL, LARGE)}
        folders = {n: _drawn(n, folder / f"{n}", parts=2) for n in (SMALL, LARGE)}
        rows = []
        for case, data_of in (("model, one file", files), ("model, folder", folders), ("predictions, one file", files)):
            uses = "model" in case
            small, large = (
                ctx.fresh(
                    one_audit, *(("--model", str(model)) if uses else ("--predictions", f"{data_of[n]}:deployed")),
                    "--data", str(data_of[n]),
                )
                for n in (SMALL, LARGE)
            )  # fmt: skip
            apart = _apart(large.pop("report"), data_of[LARGE], model if uses else None)
            growth = large["resident"] - small["resident"]
            rows.append({"case": case, "rows": LARGE, "growth": growth, "difference": apart, **large})
    return rows


def _audit_targets(content: Content) -> Iterable[Limit]:
    rows = [row for row in content["rows"] if row["rows"] >= LARGE]
    if rows:
        yield Limit("audit of a million rows, processor", max(row["processor"] for row in rows), 20.0, "s")
        yield Limit("audit of a million rows, from one in memory", max(row["difference"] for row in rows), 1e-9)


def _megabytes(content: Content) -> Iterable[Row]:
    for row in content["rows"]:
        yield row | {"MB": row["resident"] >> 20, "over": row["growth"] >> 20}


TASKS = {
    "first_report": Task(
        "From a table to a report: `widemargin init`, `train` and `report`, as the README shows them, on Adult and on "
        "credit-card\n"
        "clients, each a process of its own, with an empty cache of compiled code for each table.",
        {"rows": three_commands},
        {
            "seconds": Table(
                "Three commands in a new environment: init, train, report", "rows",
                "table | rows: {rows:,} | init s: {init_s:.1f} | train s: {train_s:.1f} | report s: {report_s:.1f} "
                "| all s: {seconds:.1f} | processor s: {processor_s:.1f} | report KB: {report_kb}",
            ),
        },
        lambda content: [Limit("three commands, slower table", max(row["seconds"] for row in content["rows"]), 120.0,
            "s")],
        _report_sentences, subject="first use",
    ),
    "first_call": Task(
        "What compiling costs: the first fit of each estimator in a process with an empty cache of compiled code, the "
        "second in\n"
        "that process, and the first in a new process that finds the cache filled, as `widemargin compile` leaves it.",
        {"rows": first_calls, "train": trained_example},
        {
            "seconds": Table(
                "Processor seconds on 500 rows; compiled code is kept between processes", "rows",
                "estimator | first call, empty cache: {empty[first]:.2f} "
                "| wall: {empty[wall]:.2f} | first call, filled cache: {filled[first]:.2f} | second call: "
                "{empty[second]:.2f}",
            ),
            "train": Table(
                "`widemargin train examples/adult.toml`, processor seconds",
                lambda content: [dict(zip(("empty", "filled"), content["train"], strict=True))]
                    if content.get("train") else [],
                "empty cache: {empty:.1f} | filled cache: {filled:.1f}",
            ),
        },
        sentences=_call_sentences, half="neutral",
    ),
    "footprint": Task(
        "What an installation weighs: the wheel, the libraries below it, and how long imports take (processor seconds "
        "of a new\n"
        "process, the interpreter's own start taken off).",
        {"imports": imports, "megabytes": megabytes, "wheel": wheel},
        {
            "imports": Table("Imports, processor seconds", "imports",
                "import: `{statement}` | seconds: {seconds:.2f} | loads: {loads}"),
            "sizes": Table(
                "Libraries that are installed with it, megabytes on disk",
                lambda content: [{"name": name, "MB": size / 1e6, "for": NEEDED_FOR[name]} for name,
                    size in content["megabytes"].items()],
                "library: {name} | MB: {MB:.1f} | what for: {for}",
            ),
            "wheel": Table(
                "The wheel",
                lambda content: [{"packed": content["wheel"][0] / 1e6, "unpacked": content["wheel"][1] / 1e6}]
                    if content.get("wheel") else [],
                "MB: {packed:.2f} | MB unpacked: {unpacked:.1f}",
            ),
        },
        half="neutral",
    ),
    "audit_stream": Task(
        "`widemargin audit` of a million rows from Parquet, drawn with replacement from the example's table, in a "
        "process of its\n"
        "own: by a model (one file, and a folder of ten) and by a column of predictions; the numbers are those of an "
        "audit in memory.",
        {"rows": audits},
        {
            "audits": Table(
                "Audits from Parquet", _megabytes,
                "case | rows: {rows:,} | seconds: {wall:.1f} | processor s: {processor:.1f} | peak MB: {MB} "
                "| over 10,000 rows, MB: {over} | largest difference: {difference:.0e}",
            ),
        },
        _audit_targets, half="neutral",
    ),
}  # fmt: skip
