"""Compare the hot kernels of two commits: `python -m benchmarks.regression OLD NEW`.

Both are checked out in git worktrees. Processes of both run side by side and take turns, sample by sample, so that a
slow minute of the machine hits both; several pairs of processes, since a process may be slow by where its memory lies.
Shown is the ratio of the medians of processor seconds, new over old, with a 95% bootstrap interval over the pairs of
samples within pairs of processes. A kernel is flagged as slower where the whole interval lies above 1 and the ratio
above the threshold; "slower" is tried once more before it is believed.

Each commit runs the kernels of its own `hot_kernels.py`, because modules move; what is compared has the same name and
the same docstring in both. `working-tree` in place of a commit means the sources as they lie here. Exit code 1 where a
kernel is slower.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Row, table_of
from benchmarks.machine import ROOT, describe, machine

__all__ = ["WORKING_TREE", "Comparison", "compare", "main", "ratio_with_interval", "sources", "verdict_of"]

WORKING_TREE = "working-tree"
HOT_KERNELS = "benchmarks.hot_kernels"
BOOTSTRAPS = 1000
Pairs = Sequence[Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Comparison:
    """Of one kernel: milliseconds, ratio new / old with its interval; or why there is none."""

    kernel: str
    old_ms: float = 0.0
    new_ms: float = 0.0
    ratio: float = 1.0
    low: float = 1.0
    high: float = 1.0
    verdict: str = ""


class Worker:
    """A process with the sources of one commit; it times a kernel once for each line it is asked."""

    def __init__(self, source: Path, kernels: str) -> None:
        path = os.pathsep.join([str(source / "src"), str(source / "papers" / "src"), str(ROOT)])
        own = source / "benchmarks" / "hot_kernels.py"
        if kernels == HOT_KERNELS and own.is_file():
            kernels = str(own)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.regression_worker", str(source / "src"), kernels],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, kernel: str, number: int = 0) -> dict[str, Any]:
        """Prepare (number 0) or run a kernel so many times."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([kernel, number]) + "\n")
            self._process.stdin.flush()
        said = self._process.stdout.readline()
        return dict(json.loads(said)) if said else {"error": "its process ended"}

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()


@contextlib.contextmanager
def sources(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """A folder with the sources of a commit.

    Raises
    ------
    SystemExit
        If there is no such commit.
    """
    if commit == WORKING_TREE:
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="widemargin-") as folder:
        tree = Path(folder) / "tree"
        made = subprocess.run(
            ["git", "-C", str(root), "worktree", "add", "--quiet", "--detach", str(tree), commit],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise SystemExit(f"git cannot check out {commit!r}: {made.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run(["git", "-C", str(root), "worktree", "remove", "--force", str(tree)], check=False)


def ratio_with_interval(pairs: Pairs, seed: int = 0) -> tuple[float, float, float]:
    """Ratio of medians, new over old, and its 95% interval.

    Parameters
    ----------
    pairs : sequence of sequences of (old, new) seconds
        One sequence for each pair of processes. The bootstrap draws processes first, and then samples within them.
    """
    rng = np.random.default_rng(seed)
    blocks = [np.asarray(block) for block in pairs]
    drawn = []
    for _ in range(BOOTSTRAPS):
        chosen = [blocks[k] for k in rng.integers(0, len(blocks), len(blocks))]
        some = np.concatenate([block[rng.integers(0, len(block), len(block))] for block in chosen])
        drawn.append(_ratio(some))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return _ratio(np.concatenate(blocks)), float(low), float(high)


def _ratio(pairs: Any) -> float:
    old, new = np.median(pairs, axis=0)
    return float(new / old)


def verdict_of(ratio: float, low: float, high: float, threshold: float) -> str:
    """ "slower" or "quicker" by more than the threshold and beyond the interval, else nothing."""
    if low > 1.0 and ratio > threshold:
        return "SLOWER"
    if high < 1.0 and ratio < 1.0 / threshold:
        return "quicker"
    return ""


def compare(old: Path, new: Path, kernels: Sequence[str], options: argparse.Namespace) -> list[Comparison]:
    """Time the kernels of two source folders in turn."""
    pairs: dict[str, list[list[tuple[float, float]]]] = {kernel: [] for kernel in kernels}
    errors: dict[str, str] = {}
    for _ in range(options.processes):
        workers = (Worker(old, options.kernels), Worker(new, options.kernels))
        try:
            for kernel in kernels:
                if kernel not in errors:
                    _add_samples(workers, kernel, options.samples, pairs[kernel], errors)
        finally:
            for worker in workers:
                worker.close()
    return [
        Comparison(kernel, verdict=errors[kernel]) if kernel in errors
        else _conclude(kernel, pairs[kernel], options.threshold) for kernel in kernels
    ]  # fmt: skip


def _add_samples(
    workers: tuple[Worker, Worker], kernel: str, samples: int, into: list[list[tuple[float, float]]],
    errors: dict[str, str],
) -> None:  # fmt: skip
    number = 1
    for worker, name in zip(workers, ("old", "new"), strict=True):
        said = worker.ask(kernel)
        if "error" in said:
            errors[kernel] = f"left out, not in {name}: {said['error']}"
            return
        number = max(number, int(said["number"]))
    block = []
    for k in range(samples):
        order = workers if k % 2 == 0 else workers[::-1]
        seconds = [worker.ask(kernel, number) for worker in order]
        if any("error" in said for said in seconds):
            errors[kernel] = f"left out: {next(said['error'] for said in seconds if 'error' in said)}"
            return
        times = [said["seconds"] / number for said in seconds]
        block.append((times[0], times[1]) if k % 2 == 0 else (times[1], times[0]))
    into.append(block)


def _conclude(kernel: str, pairs: Pairs, threshold: float) -> Comparison:
    ratio, low, high = ratio_with_interval(pairs)
    old, new = np.median(np.concatenate([np.asarray(block) for block in pairs]), axis=0)
    return Comparison(kernel, 1e3 * old, 1e3 * new, ratio, low, high, verdict_of(ratio, low, high, threshold))


def _rows(found: Sequence[Comparison]) -> Iterator[Row]:
    for item in found:
        measured = asdict(item) | {"interval": f"[{item.low:.3f}, {item.high:.3f}]"}
        yield measured if item.old_ms else {"kernel": item.kernel, "verdict": item.verdict[:100]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two commits; 1 where a kernel is slower."""
    options = _parser().parse_args(arguments)
    kernels = _kernels(options)
    with sources(options.old) as old, sources(options.new) as new:
        found: Mapping[str, Comparison] = {item.kernel: item for item in compare(old, new, kernels, options)}
        again = [name for name, item in found.items() if item.verdict == "SLOWER"]
        if again:
            found = {**found, **{item.kernel: item for item in compare(old, new, again, options)}}
    title = f"{options.new} over {options.old}, processor milliseconds ({describe(machine())})"
    columns = "kernel | old ms: {old_ms:.3f} | new ms: {new_ms:.3f} | ratio: {ratio:.3f} | 95%: {interval} | verdict"
    print(f"### {title}\n\n" + table_of(list(_rows(list(found.values()))), columns))
    slower = [name for name, item in found.items() if item.verdict == "SLOWER"]
    what = f"slower by more than {100 * (options.threshold - 1):.0f}%"
    print(f"{len(slower)} of {len(found)} kernels are {what}{': ' if slower else ''}{', '.join(slower)}.")
    return 1 if slower else 0


def _kernels(options: argparse.Namespace) -> list[str]:
    from benchmarks.regression_worker import kernels_of

    known = list(kernels_of(options.kernels))
    chosen = [name for name in known if not options.only or any(text in name for text in options.only)]
    if not chosen:
        raise SystemExit(f"No kernel is called {' or '.join(options.only)}. There are: {', '.join(known)}.")
    return chosen


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    made.add_argument("old", help="a commit, or working-tree")
    made.add_argument("new", nargs="?", default=WORKING_TREE, help="the same (default: working-tree)")
    made.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="kernels whose name contains a TEXT")
    made.add_argument("--threshold", type=float, default=1.1, help="ratio that counts as slower (default 1.1)")
    made.add_argument("--samples", type=int, default=15, help="samples of a pair of processes (default 15)")
    made.add_argument("--processes", type=int, default=3, help="pairs of processes (default 3)")
    made.add_argument("--kernels", default=HOT_KERNELS, help="module or file with the list KERNELS")
    return made


if __name__ == "__main__":
    sys.exit(main())
