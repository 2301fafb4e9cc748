"""Compare the hot kernels of two commits: `python -m benchmarks.regression OLD NEW`.

Both are checked out in git worktrees, and processes of both take turns, as a minute may be slow, and a process by where
its memory lies. Shown is the ratio of the medians of processor seconds, new over old, with a 95% bootstrap interval
over pairs of processes and the samples within them. A kernel is flagged as slower where the whole interval lies above 1
and the ratio above the threshold; "slower" is tried once more before it is believed.

Each commit runs the kernels of its own `hot_kernels.py`, because modules move; what is compared has the same name in
both. `working-tree` in place of a commit means the sources as they lie here. Exit code 1 where a kernel is slower.
"""

import argparse
import contextlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Row, table_of
from benchmarks.machine import ROOT, describe, machine

WORKING_TREE = "working-tree"
BOOTSTRAPS = 1000
SAMPLE_SECONDS = 0.02
"""A sample repeats its kernel for about that long."""

Pairs = Sequence[Sequence[tuple[float, float]]]


@contextlib.contextmanager
def sources(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """A folder with the sources of a commit."""
    if commit == WORKING_TREE:
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="widemargin-") as folder:
        tree, git = Path(folder) / "tree", ["git", "-C", str(root), "worktree"]
        made = subprocess.run(
            [*git, "add", "--quiet", "--detach", str(tree), commit], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise SystemExit(f"git cannot check out {commit!r}: {made.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=False)


# --- in a process of one commit ---------------------------------------------------------------------------------------


def kernels_of(source: Path) -> dict[str, Callable[[], Callable[[], Any]]]:
    """The kernels of a folder of sources."""
    return dict(runpy.run_path(str(source / "benchmarks" / "hot_kernels.py"))["KERNELS"])


def _samples(make: Callable[[], Callable[[], Any]], count: int) -> list[float]:
    """Processor seconds of one run, a few times, when the kernel is compiled and warm."""

    def seconds(number: int) -> float:
        start = time.process_time()
        for _ in range(number):
            action()
        return (time.process_time() - start) / number

    action = make()
    action()
    number = max(1, int(SAMPLE_SECONDS / max(min(seconds(1) for _ in range(3)), 1e-6)))
    return [seconds(number) for _ in range(count)]


def timed(source: Path, names: Sequence[str], samples: int) -> dict[str, Any]:
    """Samples of each kernel in a new process with the sources of a folder, or why there are none."""
    path = os.pathsep.join([str(source / "src"), str(source / "papers" / "src"), str(ROOT)])
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.regression", "--time", str(source), str(samples), *names],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        return dict.fromkeys(names, f"its process ended: {ended.stderr.strip()[-200:]}")
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def _time(source: str, samples: str, *names: str) -> None:
    known, found = kernels_of(Path(source)), dict[str, Any]()
    for name in names:
        try:
            found[name] = _samples(known[name], int(samples))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


# --- of both ----------------------------------------------------------------------------------------------------------


def ratio_with_interval(pairs: Pairs, seed: int = 0) -> tuple[float, float, float]:
    """Ratio of medians, new over old, and its 95% interval.

    `pairs` has a sequence of old and new seconds for each pair of processes. The bootstrap draws processes first, and
    then samples within them.
    """
    rng = np.random.default_rng(seed)
    blocks = [np.asarray(block) for block in pairs]

    def ratio(some: Sequence[Any]) -> float:
        old, new = np.median(np.concatenate(some), axis=0)
        return float(new / old)

    drawn = []
    for _ in range(BOOTSTRAPS):
        chosen = [blocks[k] for k in rng.integers(0, len(blocks), len(blocks))]
        drawn.append(ratio([block[rng.integers(0, len(block), len(block))] for block in chosen]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return ratio(blocks), float(low), float(high)


def verdict_of(ratio: float, low: float, high: float, threshold: float) -> str:
    """ "slower" or "quicker" by more than the threshold and beyond the interval, else nothing."""
    if low > 1.0 and ratio > threshold:
        return "SLOWER"
    if high < 1.0 and ratio < 1.0 / threshold:
        return "quicker"
    return ""


def compare(old: Path, new: Path, names: Sequence[str], options: argparse.Namespace) -> dict[str, Row]:
    """By kernel: milliseconds of both, ratio with its interval and verdict, or why it was left out."""
    trees = {"old": old, "new": new}
    seen: dict[str, list[dict[str, Any]]] = {side: [] for side in trees}
    for number in range(options.processes):
        for side in sorted(trees, reverse=bool(number % 2)):
            seen[side].append(timed(trees[side], names, options.samples))
    rows: dict[str, Row] = {}
    for name in names:
        sides = {side: [found[name] for found in some] for side, some in seen.items()}
        wrong = [f"not in {side}: {one}" for side, some in sides.items() for one in some if isinstance(one, str)]
        if wrong:
            rows[name] = {"kernel": name, "verdict": f"left out, {wrong[0]}"[:100]}
            continue
        pairs = [list(zip(*both, strict=True)) for both in zip(*sides.values(), strict=True)]
        ratio, low, high = ratio_with_interval(pairs)
        milliseconds = 1e3 * np.median(np.concatenate(pairs), axis=0)
        rows[name] = {
            "kernel": name, "old": milliseconds[0], "new": milliseconds[1], "ratio": ratio,
            "interval": f"[{low:.3f}, {high:.3f}]", "verdict": verdict_of(ratio, low, high, options.threshold),
        }  # fmt: skip
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two commits; 1 where a kernel is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    parser.add_argument("old", help="a commit, or working-tree")
    parser.add_argument("new", nargs="?", default=WORKING_TREE, help="the same (default: working-tree)")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="kernels whose name contains a TEXT")
    parser.add_argument("--threshold", type=float, default=1.1, help="ratio that counts as slower (default 1.1)")
    parser.add_argument("--samples", type=int, default=8, help="samples of a process (default 8)")
    parser.add_argument("--processes", type=int, default=4, help="pairs of processes (default 4)")
    options = parser.parse_args(arguments)
    with sources(options.old) as old, sources(options.new) as new:
        known = list(kernels_of(new))
        names = [name for name in known if any(text in name for text in options.only)]
        if not names:
            raise SystemExit(f"No kernel is called {' or '.join(options.only)}. There are: {', '.join(known)}.")
        found = compare(old, new, names, options)
        if again := [name for name, row in found.items() if row["verdict"] == "SLOWER"]:
            found |= compare(old, new, again, options)
    columns = "kernel | old ms: {old:.3f} | new ms: {new:.3f} | ratio: {ratio:.3f} | 95%: {interval} | verdict"
    print(f"### {options.new} over {options.old}, processor milliseconds ({describe(machine())})\n")
    print(table_of(list(found.values()), columns))
    slower = [name for name, row in found.items() if row["verdict"] == "SLOWER"]
    what = f"slower by more than {100 * (options.threshold - 1):.0f}%"
    print(f"{len(slower)} of {len(found)} kernels are {what}{': ' if slower else ''}{', '.join(slower)}.")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(_time(*sys.argv[2:]) if sys.argv[1:2] == ["--time"] else main())
