"""Training over blocks: rows that do not fit, passes, overhead of a cluster, killed workers."""

import os
import random
import resource
import signal
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from benchmarks.data.families import GoalRows, goal_of
from benchmarks.machine import status
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, grouped, quietly
from widemargin import RateConstrainedClassifier
from widemargin.distributed import BlockMap, DaskMap, ParquetRows, SerialMap, parquet_rows
from widemargin.estimators.rate_constrained.blocks import Labels, block_survey, blocked_problem, counted_goal
from widemargin.goals import Goal
from widemargin.solvers.convex import newton

CHUNK = 500_000
"""Rows of a file."""


def write_people(draw: Callable[..., GoalRows], n: int, folder: Path) -> None:
    """Parquet files of n drawn people: the numbers of their ones, their labels, and who they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, low in enumerate(range(0, n, CHUNK)):
        task = draw(min(CHUNK, n - low), 2, part)
        ones = pa.ListArray.from_arrays(task.X.indptr, task.X.indices.astype(np.uint8))
        table = task.populations.append_column("ones", ones).append_column("y", pa.array(task.y))
        pq.write_table(table, folder / f"part{part:04d}.parquet", row_group_size=250_000)


@dataclass(frozen=True)
class People:
    """A recipe: Parquet rows of drawn people, with columns of 0 and 1."""

    rows: ParquetRows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

    def load(self) -> dict[str, Any]:
        """Training rows as `labelled_rows` gives them."""
        table = self.rows.load()
        ones = table["ones"].combine_chunks()
        columns, ends = ones.flatten().to_numpy(), ones.offsets.to_numpy()
        X = sp.csr_matrix((np.ones(len(columns), np.float32), columns, ends - ends[0]), shape=(len(ones), 142))
        return {"X": X, "y": table["y"].to_numpy(), "populations": table.select(["sex"])}


@contextmanager
def cluster(n_workers: int = 2) -> Iterator[Any]:
    """A client of worker processes of one thread each on this machine."""
    import logging

    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),  # else a dead one is not started again
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as made,
        Client(made) as client,
    ):
        yield client


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run something in a thread beside the block; its event tells that the block has ended."""
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work, done)
        try:
            yield
        finally:
            done.set()


def watch(peak: dict[str, int], done: threading.Event) -> None:
    """Note the largest bytes, looked at ten times a second: resident, and of that private."""
    while not done.wait(0.1):
        for name, field in {"resident": "VmRSS", "private": "RssAnon"}.items():
            peak[name] = max(peak.get(name, 0), status(field))


def kill(client: Any, rng: random.Random, killed: list[int], most: int, done: threading.Event) -> None:
    """Kill a worker every other second on average, and note its process, until there are so many."""
    while len(killed) < most and not done.wait(rng.uniform(0.0, 4.0)):
        pids = [pid for worker in client.cluster.workers.values() if (pid := getattr(worker, "pid", None))]
        with suppress(ProcessLookupError, IndexError):  # all are dead already
            os.kill(chosen := rng.choice(pids), signal.SIGKILL)
            killed.append(chosen)


GAPS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
CONSTRAINTS = (1, 4, 20, 50)
LARGE, LIMIT = 20_000_000, 2 << 30
KILLS = 50
PEOPLE = "drawn: people of a9a"


def fit_blocks(goal: Any, blocks: BlockMap, options: Row | None = None, **more: Any) -> RateConstrainedClassifier:
    """Over blocks."""
    with quietly():
        model = RateConstrainedClassifier(goal, on_infeasible="warn", solver_options=options)
        return model.fit_blocks(blocks, **more)


def _one_step(goal: Goal, blocks: BlockMap, gap: float) -> tuple[Any, int]:
    """A convex step from nothing, with the default regulariser, over rows with the labels 1 and -1; and its looks."""
    labels = Labels((-1.0, 1.0), goal, {})
    found, (counts, tied) = blocks.sum(block_survey), counted_goal(blocks, labels)
    lam = 10.0 / found.weight
    problem = blocked_problem(blocks, labels, counts, tied, found, lam=lam, fit_intercept=True, scratch=None)
    at = problem.scores(np.zeros(problem.n_features), problem.constant_start(1.0))
    step = newton.solve(problem.majorise(at), tol=gap)
    return step, problem.rows.n_passes


def overhead(ctx: Context) -> list[Row]:
    """Whole fits in memory and by two workers, rows in memory; medians of the wall, and processor seconds of them all.

    By default rows of less than 256 MB are fetched from the workers; they are also timed where they are ("kept").
    """
    rows, adult = list[Row](), ctx.load("a9a")
    if ctx.quick:
        return rows
    found = {
        "a9a": GoalRows(adult.X, adult.y, pa.table({"sex": np.where(adult.women, "Female", "Male")}), goal_of(2)),
        "a9a, 500,000 rows drawn": ctx.load(PEOPLE)(500_000, 4),
        "dense, 600,000 x 59": ctx.load("drawn: dense")(600_000, 59),
    }
    with cluster() as client:
        for name, task in found.items():
            recipes = task.blocks(-(-len(task.y) // 4))

            def on_workers(task: GoalRows = task, recipes: Any = recipes, **options: Any) -> Any:
                return fit_blocks(task.goal, DaskMap(recipes, client), **options)

            cases = {"in memory": task.fit, "dask": on_workers, "kept": partial(on_workers, gather_below=0)}
            timings = ctx.clock(cases, used=partial(_processor_seconds, client))
            row: Row = {"data": name, "n": len(task.y)}
            for way, timing in timings.items():
                row |= {f"{way} s": timing.median, f"{way} processor s": timing.processor_median}
            for ratio, way in (("ratio", "dask"), ("ratio kept", "kept")):
                row[ratio] = row[f"{way} s"] / row["in memory s"]
                row[f"{ratio}, processor"] = row[f"{way} processor s"] / row["in memory processor s"]
            rows.append(row)
    return rows


def _processor_seconds(client: Any) -> float:
    """Of this process and of the workers."""
    return time.process_time() + float(sum(client.run(time.process_time).values()))


def passes(ctx: Context) -> list[Row]:
    """Looks at all rows by gap and by number of constraints: one convex step from nothing, and a whole fit."""
    rows, n = [], ctx.pick(200_000, 2000)
    for m in ctx.pick(CONSTRAINTS, CONSTRAINTS[:2]):
        task = ctx.load(PEOPLE)(n, m)
        recipes = task.blocks(-(-len(task.y) // 4))
        for gap in ctx.pick(GAPS, GAPS[1:3]):
            _, looks = _one_step(task.goal, SerialMap(recipes), gap)
            passes = {"one step": looks, "fit": fit_blocks(task.goal, SerialMap(recipes), {"tol": gap}).n_passes_}
            rows += [{"what": what, "n": n, "m": m, "gap": gap, "passes": count} for what, count in passes.items()]
    return rows


class CountedMap(SerialMap):
    """Notes the processor seconds of the Newton passes, by name."""

    seconds: dict[str, list[float]]

    def stream(self, function: Any, message: Any = None) -> Any:
        """Also when it is asked."""
        began = time.process_time()
        results = list(super().stream(function, message))
        name = getattr(getattr(message, "call", None), "name", "")
        self.seconds[name].append(time.process_time() - began)
        return iter(results)


CALLS = ((PEOPLE, 142, 130_000), *(("drawn: dense", d, n) for d, n in ((100, 65_536), (500, 32_768), (1000, 32_768))))
"""Rows, columns, and how many rows."""


def costs(ctx: Context) -> list[Row]:
    """Processor nanoseconds a row of each kind of pass of a convex step to 1e-4, in blocks of 16,384 rows."""
    rows = []
    for name, d, n in ctx.pick(CALLS, CALLS[:1]):
        n = ctx.pick(n, 3000)
        task = ctx.load(name)(n, 4 if name == PEOPLE else d)
        blocks = CountedMap((task if name == PEOPLE else task._replace(X=task.X.astype(np.float32))).blocks(16_384))
        for gap in (1e-2, 1e-4):  # the first one compiles
            blocks.seconds = defaultdict(list)
            step, looks = _one_step(task.goal, blocks, gap)
        passes = {call: 1e9 * np.mean(blocks.seconds[call]) / n for call in ("slopes", "move", "settle", "smooth")}
        what = "CSR, 19 of 142 stored" if name == PEOPLE else f"dense float32, {d} features"
        rows.append({"rows": what, "n": n, **passes, "newton": step.n_iter, "looks": looks})
    return rows


def large_fit(ctx: Context, folder: str, limit: int) -> Row:
    """Rows from Parquet files, under a limit of private memory of this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))  # rows in mapped files are not private
    place = Path(folder)
    recipes = [People(rows) for rows in parquet_rows(place / "rows", block_rows=250_000)]
    blocks, began, peak = SerialMap(recipes, hold=False), time.perf_counter(), dict[str, int]()
    with beside(partial(watch, peak)):
        model = fit_blocks(goal_of(2), blocks, scratch=folder, checkpoint=place / "run.json")
    return {
        "seconds": time.perf_counter() - began, "processor": time.process_time(), "passes": model.n_passes_,
        "met": model.goal_report_.all_met(), **peak,
    }  # fmt: skip


def large(ctx: Context) -> list[Row]:
    """More rows than the process may hold."""
    n = ctx.pick(LARGE, 4000)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "rows"
        write_people(ctx.load(PEOPLE), n, place)
        # Without these settings a gigabyte is set aside unused; a quick run stays in this process.
        settings = ctx.pick({"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}, {})
        done = ctx.fresh(large_fit, folder, ctx.pick(LIMIT, -1), **settings)
        size = sum(path.stat().st_size for path in place.iterdir())
    return [{"n": n, **done, "limit": LIMIT, "parquet": size}]


def kills(ctx: Context) -> list[Row]:
    """Fits during which workers are killed: the model of an undisturbed run, to the last bit."""
    rows, task, rng = list[Row](), ctx.load(PEOPLE)(ctx.pick(60_000, 400), 4), random.Random(0)
    if ctx.quick:
        return rows
    recipes = task.blocks(10_000)
    expected, left = fit_blocks(task.goal, SerialMap(recipes)), KILLS
    with cluster() as client:
        undisturbed = Timing.of(lambda: fit_blocks(task.goal, DaskMap(recipes, client), gather_below=0)).median
        while left > 0 and len(rows) < KILLS:
            killed = list[int]()
            with beside(partial(kill, client, rng, killed, left)):
                run = Timing.of(lambda: fit_blocks(task.goal, DaskMap(recipes, client), gather_below=0))
            same = bool(np.array_equal(run.result.coef_, expected.coef_))
            rows.append({"kills": len(killed), "seconds": run.median, "undisturbed s": undisturbed, "same": same})
            left -= len(killed)
    return rows


def _by_gap(content: Content) -> Iterable[Row]:
    """One row with all gaps for each kind of solution and number of constraints."""
    for (what, m), some in grouped(content["passes"], "what", "m"):
        yield {"what": f"{what}, {m} constraints"} | {f"{row['gap']:g}": row for row in some}


def _killed(content: Content) -> list[Row]:
    rows = content["kills"]
    return [{"workers": sum(row["kills"] for row in rows), "fits": len(rows), "same": all(row["same"] for row in rows)}]


def _out_of_core(content: Content) -> Iterable[Row]:
    for row in content["large"]:
        sizes = {name: row[name] / 1e9 for name in ("private", "resident", "parquet")}
        yield row | {"minutes": row["seconds"] / 60, **sizes}


class distributed(Task, half="tuning", repeats=3, processes=2):
    """Training over blocks, a pass being a sum over blocks; two worker processes of one thread each (Dask), everything
    else on one thread.
    """

    parts = {"overhead": overhead, "passes": passes, "costs": costs, "large": large, "kills": kills}
    overhead = Table("Whole fits, rows in memory, two workers", "overhead", """
        data | rows: {n:,} | `fit`, s: {in memory s:.1f} | on a cluster, s: {dask s:.1f} | ratio:.1f
        | ratio, never fetched: {ratio kept:.1f} | ratio of processor s: {ratio, processor:.1f}
        | of those, never fetched: {ratio kept, processor:.1f}
    """)  # fmt: skip
    passes = Table(
        "Looks at all rows, by gap and number of constraints", _by_gap,
        "what | " + " | ".join(f"to {gap:g}: {{{gap:g}[passes]}}" for gap in GAPS),
    )  # fmt: skip
    costs = Table("Processor nanoseconds a row and pass", "costs", """
        rows | slopes and Gram matrix: {slopes:.0f} | change of scores: {move:.0f} | exact values: {settle:.0f}
        | point of a line search: {smooth:.0f} | Newton steps: {newton} | looks at all rows: {looks}
    """)  # fmt: skip
    large = Table("More rows than fit into 2 GB of private memory", _out_of_core, """
        rows: {n:,} | minutes:.1f | processor s: {processor:.0f} | looks: {passes} | private GB: {private:.1f}
        | with pages of mapped files, GB: {resident:.1f} | Parquet GB: {parquet:.1f} | goal met: {met}
    """)  # fmt: skip
    kills = Table("Workers killed at random", _killed, """
        workers killed: {workers} | fits | same bits as undisturbed: {same}
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        for row in content.get("overhead", []):
            yield Limit(f"a fit by two workers over one in memory, {row['data']}", row["ratio"], 2.0)
            if row["n"] >= 500_000:
                yield Limit(f"rows that stay on two workers over one in memory, {row['data']}", row["ratio kept"], 1.3)
        if content.get("kills"):
            alike = sum(row["kills"] for row in content["kills"] if row["same"])
            yield Limit("workers killed in fits that end with the same bits", alike, KILLS, at_least=True)
