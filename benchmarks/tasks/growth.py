"""How time and memory grow: exponents over at least four doublings, threads, and a billion rows on a cluster."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from joblib import cpu_count
from scipy.stats import linregress
from sklearn.base import clone
from sklearn.metrics import jaccard_score
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from benchmarks.data.families import GoalRows
from benchmarks.machine import resident_growth
from benchmarks.task import Content, Context, Limit, Row, Table, Task, Timing, each_fresh, grouped, quietly
from benchmarks.tasks.distributed import cluster
from widemargin import GoalThresholdClassifier, KernelSVC, MultiLabelSVC, RateConstrainedClassifier, audit
from widemargin._threads import in_threads
from widemargin.diagnostics import AuditBlock, audit_stream
from widemargin.distributed import DaskMap, SerialMap

GOAL = "minimize error_rate()\nsubject to recall() >= 0.75\nsubject to demographic_parity(g, difference=0.05)"


def drawn(n: int, d: int, groups: int = 2, seed: int = 0) -> GoalRows:
    """Fresh rows of a noisy linear rule, their labels, and one of so many groups of one size a row."""
    rng = np.random.default_rng(seed)
    X, group = rng.normal(size=(n, d)), np.arange(n) % groups
    score = X @ rng.normal(size=d) / np.sqrt(d) + 0.3 * (group % 2) + 0.6 * rng.normal(size=n)
    return GoalRows(X, (score > 0.4).astype(int), pa.table({"g": [f"g{k}" for k in group]}), GOAL)


def _trained(n: int, d: int, m: int = 0) -> Callable[[], Any]:
    floors = "".join(f"\nsubject to recall(population(g == 'g{k}')) >= 0.5" for k in range(m))
    task = drawn(n, d, max(m, 2))
    return (task._replace(goal="minimize error_rate()" + floors) if m else task).fit


def _kernel_fit(n: int, d: int = 10) -> Callable[[], Any]:
    return partial(KernelSVC().fit, *drawn(n, d)[:2])


def _kernel_predictions(n: int) -> Callable[[], Any]:
    model, new = _kernel_fit(n)(), drawn(10_000, 10, seed=1).X
    model.predict(new[:10])  # support vectors are packed at the first call
    return partial(model.predict, new)


def _thresholds(groups: int) -> Callable[[], Any]:
    X, y, table, _ = drawn(32_000, 3, groups)
    model = RateConstrainedClassifier("minimize error_rate()").fit(X[:4000], y[:4000])
    goal = "minimize error_rate()\nsubject to demographic_parity(g, difference=0.05)"
    rule = GoalThresholdClassifier(model, goal, cv="prefit", per_population="g", on_infeasible="warn")
    return partial(rule.fit, X, y, populations=table)


def _label_sets(n: int, d: int, labels: int, noise: float, above: float, **options: Any) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    score = X @ rng.normal(size=(d, labels)) / int(np.sqrt(d)) + noise * rng.normal(size=(n, labels))
    model = MultiLabelSVC(solver_options={"offset": 0.0}, **options)
    return partial(model.fit, X, (score > above).astype(int))


def _audit(n: int) -> Callable[[], Any]:
    X, y, groups, _ = drawn(n, 1)
    return partial(audit, (X[:, 0] > 0).astype(int), GOAL, None, y, populations=groups)


def _audit_blocks(n: int) -> Callable[[], Any]:
    def blocks() -> Iterator[AuditBlock]:
        for start in range(0, n, 100_000):
            X, y, groups, _ = drawn(min(n - start, 100_000), 1, seed=start)
            yield AuditBlock((X[:, 0] > 0).astype(int), y, populations=groups)

    return lambda: audit_stream(blocks(), GOAL, classes=(0, 1))


class Axis(NamedTuple):
    """What is measured, its first size, and of how many numbers the data are, by size."""

    what: str
    first: int
    prepare: Callable[[int], Callable[[], Any]]
    numbers: Callable[[int], int]


DOUBLINGS = (1, 2, 4, 8, 16)
AXES = {
    "rows": Axis("RateConstrainedClassifier.fit, rows (30 columns)", 25_000,
                 lambda n: _trained(n, 30), lambda n: 30 * n),
    "columns": Axis("RateConstrainedClassifier.fit, columns (20,000 rows)", 32,
                    lambda d: _trained(20_000, d), lambda d: 20_000 * d),
    "constraints": Axis("RateConstrainedClassifier.fit, constraints (100,000 rows, 20 columns)", 4,
                        lambda m: _trained(100_000, 20, m), lambda m: 100_000 * 20),
    "groups": Axis("thresholds by group, groups (32,000 rows)", 2, _thresholds, lambda g: 32_000),
    "kernel rows": Axis("KernelSVC.fit, rows (10 columns)", 2000, _kernel_fit, lambda n: 10 * n),
    "kernel columns": Axis("KernelSVC.fit, columns (8,000 rows)", 64,
                           lambda d: _kernel_fit(8000, d), lambda d: 8000 * d),
    "support vectors": Axis("KernelSVC.predict of 10,000 rows, training rows (their support vectors are a share)",
                            1000, _kernel_predictions, lambda n: 10 * n),
    "labels": Axis("MultiLabelSVC.fit, labels (1,000 rows, a tree of labels)", 8,
                   lambda k: _label_sets(1000, 20, k, 0.5, 0.8, edges="tree", C=1.0), lambda k: 1000 * (20 + k)),
    "audited rows": Axis("audit, rows", 250_000, _audit, lambda n: 2 * n),
    "rows audited in blocks": Axis("audit_stream, rows, drawn as it goes", 250_000, _audit_blocks, lambda n: 2 * n),
}  # fmt: skip


def measured(ctx: Context, name: str, times: int) -> Row:
    """Of an axis so many times its first size, in a process of its own; the first size compiles."""
    axis = AXES[name]
    first = ctx.pick(axis.first, max(axis.first // 50, 4))
    size = times * first
    with quietly():
        axis.prepare(first)()
        run = axis.prepare(size)
        _, grown = resident_growth(run)
    timing = Timing.of(run, ctx.repeats)
    return {
        "axis": name, "size": size, "processor_s": min(timing.processor),
        "grown_mb": grown and round(grown, 1), "data_mb": round(8e-6 * axis.numbers(size), 1),
    }  # fmt: skip


def thread(ctx: Context) -> list[Row]:
    """What this machine can do at most on one thread: bytes of memory read a second, and multiplications of GEMM."""
    size = ctx.pick(50_000_000, 100_000)
    array, A = np.ones(size), np.ones((ctx.pick(1500, 50),) * 2)
    read, product = (min(Timing.of(run, 6).wall) for run in (array.sum, lambda: A @ A))
    return [{"gigabytes_a_second": 8e-9 * size / read, "gigaflops": 2e-9 * A.shape[0] ** 3 / product}]


def exponents(content: Content) -> Iterable[Row]:
    """Slopes of log time and log memory on log size, and the largest size in readings of its data from memory."""
    bandwidth = content["thread"][0]["gigabytes_a_second"]
    for name, rows in grouped(content["growth"], "axis"):
        if len(rows) < 5:
            continue
        grown, last = [row["grown_mb"] or 0.0 for row in rows], rows[-1]
        # Of few megabytes it is the allocator's pages that are counted, not the method's.
        much = min(grown) >= 1.0 and grown[-1] >= 10.0
        yield last | {
            "what": AXES[name].what, "from": rows[0]["size"], "time": _slope(rows, "size", "processor_s"),
            "memory": _slope(rows, "size", "grown_mb") if much else None,
            "readings": last["processor_s"] / (last["data_mb"] / 1000 / bandwidth),
        }  # fmt: skip


def _slope(rows: Sequence[Row], size: str, cost: str) -> float:
    return float(linregress(*(np.log([row[key] for row in rows]) for key in (size, cost))).slope)


# --- many labels ------------------------------------------------------------------------------------------------------

LABELS, WORDS, TOPICS, GAP = 1000, 5000, 200, 0.1


def tagged_texts(n: int, seed: int = 0) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Texts of 90 words about three topics each, a tenth of them other words, and their labels, at most 30, as CSR."""
    rng = np.random.default_rng(seed)
    words, labels = rng.integers(WORDS, size=(TOPICS, 100)), rng.integers(LABELS, size=(TOPICS, 15))
    topics = rng.integers(TOPICS, size=(n, 3))

    def drawn_of(of_topic: np.ndarray, each: int, columns: int) -> sp.csr_matrix:
        place = np.repeat(topics, each, axis=1)
        columns_of = of_topic[place, rng.integers(of_topic.shape[1], size=place.shape)]
        other = rng.random(place.shape) < 0.1
        columns_of[other] = rng.integers(columns, size=int(other.sum()))
        ends = np.arange(0, place.size + 1, place.shape[1])
        made = sp.csr_matrix((np.ones(place.size), columns_of.ravel(), ends), shape=(n, columns))
        made.sum_duplicates()
        return made

    X, Y = drawn_of(words, 30, WORDS), drawn_of(labels, 10, LABELS)
    Y.data[:] = 1.0
    return sp.csr_matrix(normalize(X)), Y.astype(np.int64)


def many_labels_of(ctx: Context, n: int) -> Row:
    """A fit at a C and an offset near those chosen for some thousand rows, until the gap is a tenth."""
    n = ctx.pick(n, 300)
    X, Y = tagged_texts(n + 2000)
    model = MultiLabelSVC(C=2.4, tol=GAP, random_state=0, solver_options={"offset": 0.3})
    with quietly():
        clone(model).set_params(max_iter=1).fit(X[:200], Y[:200])  # compiles
        timing, grown = resident_growth(lambda: Timing.of(partial(model.fit, X[:n], Y[:n])))
    return {
        "rows": n, "labels": LABELS, "processor_s": timing.processor_median,
        "grown_mb": grown, "passes": model.n_iter_, "gap": model.gap_,
        "jaccard": float(jaccard_score(Y[n:], model.predict(X[n:]), average="samples")),
    }  # fmt: skip


# --- a cluster --------------------------------------------------------------------------------------------------------


def _late(kind: Any, delay: float, calls: list[str]) -> Any:
    """Blocks of a kind whose every call is answered so many seconds late, as on a far cluster; notes the calls."""

    def asked(name: str) -> Callable[..., Any]:
        def call(self: Any, *message: Any, **options: Any) -> Any:
            time.sleep(delay)
            calls.append(name)
            return getattr(kind, name)(self, *message, **options)

        return call

    return type("Late", (kind,), {name: asked(name) for name in ("map", "sum", "advance")})


def late(ctx: Context, workers: int, delay: float) -> Row:
    """A fit over blocks on so many workers of this machine (0: in this process) that answer late; its second run."""
    task, calls = drawn(ctx.pick(400_000, 400), 20), list[str]()
    model, rows = RateConstrainedClassifier(ctx.pick(GOAL, "minimize error_rate()")), task.blocks(ctx.pick(25_000, 200))
    with cluster(workers) if workers else nullcontext() as client:
        for _ in range(ctx.pick(2, 1)):
            calls.clear()
            blocks = _late(DaskMap if workers else SerialMap, delay, calls)(rows, *([client] if workers else []))
            timing = Timing.of(partial(model.fit_blocks, blocks, gather_below=0))
    return {
        "workers": workers, "delay_ms": 1000 * delay, "seconds": timing.median, "processor_s": timing.processor_median,
        "calls": len(calls), "looks": model.n_passes_, "n": len(task.y), "d": task.X.shape[1], "cores": cpu_count(),
        "blocks": blocks.n_blocks,
    }  # fmt: skip


def _account(content: Content) -> tuple[Row, Callable[[int], float]]:
    """What a fit over blocks costs, from the fits that answer at once: that of one process, as workers share its
    arithmetic; and on some workers, which shows the seconds of a call to all of them beside that.
    """
    alone, *others = (row for row in content["cluster"] if not row["delay_ms"])
    shared = [
        (row["workers"], (row["seconds"] - alone["processor_s"] / min(row["workers"], row["cores"])) / row["calls"])
        for row in others
    ]
    line = linregress(*zip(*shared, strict=True))
    return alone, lambda workers: float(line.intercept + line.slope * workers)


def _delayed(content: Content) -> Iterable[Row]:
    alone, calling = _account(content)
    for row in content["cluster"]:
        compute = alone["processor_s"] / max(1, min(row["workers"], row["cores"]))
        a_call = (calling(row["workers"]) if row["workers"] else 0.0) + row["delay_ms"] / 1000
        yield {"blocks": 8} | row | {  # runs before 30 November 2026 had 8
            "call_ms": 1000 * (row["seconds"] - compute) / row["calls"], "foretold": compute + row["calls"] * a_call,
        }  # fmt: skip


def _by_workers(content: Content) -> Iterable[Row]:
    """Slopes of log time on the logarithm of the number of workers, all on this machine, that answer at once."""
    rows = [row for row in _delayed(content) if row["workers"] and not row["delay_ms"]]
    for what, cost in (("a call, beside its arithmetic, ms", "call_ms"), ("a fit, s", "seconds")):
        if len(rows) >= 5:
            last = rows[-1]
            slope = _slope(rows, "workers", cost)
            yield {"what": what, "to": last["workers"], "least": rows[0][cost], "last": last[cost], "time": slope}


NETWORK = 1e9
"""Bytes a second between machines."""


def _billion(content: Content) -> Iterable[Row]:
    """A billion rows of 20 columns, by workers of one thread that hold their rows in memory."""
    row, calling = _account(content)
    numbers = row["d"] ** 2 + 10 * row["d"]
    for workers in (16, 64, 256):
        compute = row["processor_s"] * 1e9 / row["n"] / workers
        talk = row["calls"] * (calling(workers) + workers * 8 * numbers / NETWORK)
        yield {
            "workers": workers, "memory_gb": 8e-9 * 1e9 * (row["d"] + 7) / workers, "compute": compute / 60,
            "talk": talk / 60, "whole": (compute + talk) / 60,
        }  # fmt: skip


class growth(Task, half="neutral", repeats=2):
    """How processor time and memory grow with rows, columns, constraints, groups, support vectors and labels, on rows
    drawn here; what late answers of a cluster cost a fit over blocks, and what follows for a billion rows.
    """

    parts = {
        "thread": thread,
        "growth": each_fresh(measured, tuple(product(AXES, DOUBLINGS)), slice(None, None, len(DOUBLINGS))),
        "cluster": each_fresh(late, [(0, 0.0), (1, 0.0), *product((2, 4, 8), (0.0, 0.05)), (16, 0.0)], slice(3)),
        "many labels": each_fresh(many_labels_of, [(25_000,), (100_000,)], slice(1)),
    }
    exponents = Table(
        "Exponents over at least four doublings: time and the memory that a call adds; the largest size in "
        "readings of its data from memory",
        exponents,
        "what | from:, | to: {size:,} | seconds there: {processor_s:.2f} | time:.2f | MB there: {grown_mb:,.0f} "
        "| memory:.2f | readings:,.0f",
    )  # fmt: skip
    thread = Table("One thread of this machine", "thread", """
        GB a second: {gigabytes_a_second:.1f} | GFLOP a second: {gigaflops:.0f}
    """)  # fmt: skip
    labels = Table(f"`MultiLabelSVC` with a tree of labels, sparse rows, to a gap of {GAP:.0%}", "many labels", """
        rows:, | labels:, | processor_s:.0f | MB added: {grown_mb:,.0f} | passes | gap:.1%
        | Jaccard on other rows: {jaccard:.3f}
    """)  # fmt: skip
    delays = Table("A fit over blocks, in one process and on workers of this machine that answer late", _delayed, """
        workers | blocks | delay, ms: {delay_ms:.0f} | rows: {n:,} | calls | ms a call: {call_ms:.0f} | seconds:.1f
        | foretold:.1f
    """)  # fmt: skip
    workers = Table(
        "The same by the number of workers that answer at once: exponents over four doublings", _by_workers,
        "what | workers, from 1 to: {to} | with one: {least:.1f} | with most: {last:.1f} | exponent: {time:.2f}",
    )  # fmt: skip
    billion = Table("A billion rows of 20 columns on a Dask cluster, foretold", _billion, """
        workers | memory each, GB: {memory_gb:.0f} | minutes computing: {compute:.1f} | talking: {talk:.1f}
        | in all: {whole:.0f}
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        for row in content.get("many labels", []):
            yield Limit(f"{row['rows']:,} rows with {LABELS:,} labels, gap", 100 * row["gap"], 100 * GAP, "%")
        if late := [row for row in _delayed(content) if row["delay_ms"]] if "cluster" in content else []:
            apart = max(abs(row["seconds"] / row["foretold"] - 1.0) for row in late)
            yield Limit("delayed fits, largest distance from what is foretold", apart, 0.2)

    def picture(self, content: Content, path: Path) -> None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7.5, 4.5), layout="constrained")
        axes = figure.add_subplot()
        for name, rows in grouped(content["growth"], "axis"):
            axes.loglog(DOUBLINGS, [row["processor_s"] for row in rows], marker="o", label=name)
        axes.set(xlabel="size, in multiples of the smallest", ylabel="processor seconds")
        axes.set_xscale("log", base=2)
        axes.legend(fontsize=8, ncols=2)
        figure.savefig(path, dpi=110)


# --- threads ----------------------------------------------------------------------------------------------------------


def _reading(size: int) -> Callable[[], Any]:
    vector = np.ones(size)
    return partial(in_threads, size, 1, lambda first, last: vector[first:last].sum())


_PAIRS: Row = {"noise": 0.3, "above": 0.5, "edges": "full", "C": 0.01, "max_iter": 20}
THREADED: dict[str, tuple[Callable[..., Callable[[], Any]], tuple[int, ...]]] = {
    "rate-constrained, 500,000 x 30": (_trained, (500_000, 30)),
    "rate-constrained, 30,000 x 1,000": (_trained, (30_000, 1000)),
    "label sets, 4,000 x 14, all pairs, 20 passes": (partial(_label_sets, **_PAIRS), (4000, 100, 14)),
    "kernel, 12,000 x 10": (_kernel_fit, (12_000,)),
    "kernel prediction": (_kernel_predictions, (12_000,)),
    "reading memory": (_reading, (50_000_000,)),
}
WANTED = {2: 1.6, 16: 5.0}
"""Gains of the first three by number of threads."""


def by_threads(ctx: Context) -> list[Row]:
    """The same calls with one thread, two, four, up to the cores of the machine, in turn in one process."""
    cores, found = cpu_count(), []
    counts = sorted({1, cores, *(2**k for k in range(8) if 2**k < cores)})
    for name, (prepare, sizes) in THREADED.items():
        with quietly():
            call = prepare(*(ctx.pick(size, min(size, 300)) for size in sizes))
            call()
        calls = {count: threadpool_limits.wrap(limits=count)(call) for count in counts}
        timings = ctx.clock(calls, warm_up=False)
        found += [
            {"task": name, "threads": count, "wall_s": timing.median, "processor_s": timing.processor_median,
             "gain": timings[1].median / timing.median}
            for count, timing in timings.items()
        ]  # fmt: skip
    return found


def _thread_exponents(content: Content) -> Iterable[Row]:
    """Slopes of log time on log threads where these doubled at least four times: -1 is what no call can beat."""
    for name, rows in grouped(content["rows"], "task"):
        if len(rows) >= 5:
            slope = _slope(rows, "threads", "wall_s")
            yield {"task": name, "to": rows[-1]["threads"], "time": slope, "gain": rows[-1]["gain"]}


class threads(Task, half="neutral", threads=True):
    """What further threads gain: rate-constrained, kernel and structural fits and kernel predictions with one thread,
    two, four, up to the cores of the machine, and how much faster they read a large vector, which bounds what loops can
    gain.
    """

    parts = {"rows": by_threads}
    gains = Table("Seconds by number of threads", "rows", "task | threads | wall_s:.2f | processor_s:.2f | gain:.2f")
    exponents = Table("Exponents of the wall time in the number of threads", _thread_exponents, """
        task | threads, from 1 to: {to} | exponent of time: {time:.2f} | gain there: {gain:.2f}
    """)  # fmt: skip

    def targets(self, content: Content) -> Iterable[Limit]:
        """Gains of fits with two threads and sixteen; and no thread may make a call slower by more than a tenth."""
        for row in content["rows"]:
            if row["threads"] in WANTED and row["task"] in list(THREADED)[:3]:
                what = f"{row['task']}, gain of {row['threads']} threads"
                yield Limit(what, row["gain"], WANTED[row["threads"]], at_least=True)
        several = [row["gain"] for row in content["rows"] if row["threads"] > 1]
        if several:
            yield Limit("least gain of further threads", min(several), 0.9, at_least=True)
