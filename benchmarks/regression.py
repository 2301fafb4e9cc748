"""Compare the hot kernels of two commits: `python -m benchmarks.regression OLD NEW`.

Both are checked out in git worktrees, and processes of both take turns, as a minute may be slow, and a process by where
its memory lies. Shown is the ratio of the medians of processor seconds, new over old, with a 95% bootstrap interval
over pairs of processes and the samples within them. A kernel is flagged as slower where the whole interval lies above 1
and the ratio above the threshold; "slower" is tried once more before it is believed.

Each commit runs the kernels of its own `hot_kernels.py`, because modules move; what is compared has the same name and
the same docstring in both. `working-tree` in place of a commit means the sources as they lie here. Exit code 1 where a
kernel is slower.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cells import Row, table_of
from benchmarks.machine import ROOT, describe, machine

WORKING_TREE = "working-tree"
HOT_KERNELS = Path(__file__).with_name("hot_kernels.py")
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


# --- in a process of one commit ---------------------------------------------------------------------------------------


def kernels_of(path: Path) -> Mapping[str, Callable[[], Callable[[], Any]]]:
    """KERNELS of a file."""
    return dict(runpy.run_path(str(path))["KERNELS"])


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


def timed(source: Path, kernels: Path, names: Sequence[str], samples: int) -> dict[str, Any]:
    """Samples of each kernel in a new process with the sources of a folder, or why there are none."""
    own = source / "benchmarks" / HOT_KERNELS.name
    call = [str(own if kernels == HOT_KERNELS and own.is_file() else kernels), *names]
    path = os.pathsep.join([str(source / "src"), str(source / "papers" / "src"), str(ROOT)])
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.regression", "--time", str(samples), *call],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        return dict.fromkeys(names, f"its process ended: {ended.stderr.strip()[-200:]}")
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def _time(samples: str, path: str, *names: str) -> None:
    known, found = kernels_of(Path(path)), dict[str, Any]()
    for name in names:
        try:
            found[name] = _samples(known[name], int(samples))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    print(json.dumps(found))


# --- of both ----------------------------------------------------------------------------------------------------------


def ratio_with_interval(pairs: Pairs, seed: int = 0) -> tuple[float, float, float]:
    """Ratio of medians, new over old, and its 95% interval.

    `pairs` has a sequence of old and new seconds for each pair of processes. The bootstrap draws processes first, and
    then samples within them.
    """
    rng = np.random.default_rng(seed)
    blocks = [np.asarray(block) for block in pairs]
    drawn = []
    for _ in range(BOOTSTRAPS):
        chosen = [blocks[k] for k in rng.integers(0, len(blocks), len(blocks))]
        drawn.append(_ratio(np.concatenate([block[rng.integers(0, len(block), len(block))] for block in chosen])))
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


def compare(old: Path, new: Path, names: Sequence[str], options: argparse.Namespace) -> dict[str, Row]:
    """By kernel: milliseconds of both, ratio with its interval and verdict, or why it was left out."""
    pairs: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in names}
    rows: dict[str, Row] = {}
    for number in range(options.processes):
        left = [name for name in names if name not in rows]
        sides = {"old": old, "new": new}
        seen = {
            side: timed(sides[side], options.kernels, left, options.samples)
            for side in sorted(sides, reverse=bool(number % 2))
        }
        for name in left:
            wrong = [f"not in {side}: {seen[side][name]}" for side in sides if isinstance(seen[side][name], str)]
            if wrong:
                rows[name] = {"kernel": name, "verdict": f"left out, {wrong[0]}"[:100]}
            else:
                pairs[name].append(list(zip(seen["old"][name], seen["new"][name], strict=True)))
    for name in [name for name in names if name not in rows]:
        ratio, low, high = ratio_with_interval(pairs[name])
        milliseconds = 1e3 * np.median(np.concatenate(pairs[name]), axis=0)
        rows[name] = {
            "kernel": name, "old": milliseconds[0], "new": milliseconds[1], "ratio": ratio,
            "interval": f"[{low:.3f}, {high:.3f}]", "verdict": verdict_of(ratio, low, high, options.threshold),
        }  # fmt: skip
    return {name: rows[name] for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two commits; 1 where a kernel is slower."""
    options = _parser().parse_args(arguments)
    known = list(kernels_of(options.kernels))
    names = [name for name in known if not options.only or any(text in name for text in options.only)]
    if not names:
        raise SystemExit(f"No kernel is called {' or '.join(options.only)}. There are: {', '.join(known)}.")
    with sources(options.old) as old, sources(options.new) as new:
        found = compare(old, new, names, options)
        again = [name for name, row in found.items() if row["verdict"] == "SLOWER"]
        if again:
            found |= compare(old, new, again, options)
    title = f"{options.new} over {options.old}, processor milliseconds ({describe(machine())})"
    columns = "kernel | old ms: {old:.3f} | new ms: {new:.3f} | ratio: {ratio:.3f} | 95%: {interval} | verdict"
    print(f"### {title}\n\n" + table_of(list(found.values()), columns))
    slower = [name for name, row in found.items() if row["verdict"] == "SLOWER"]
    what = f"slower by more than {100 * (options.threshold - 1):.0f}%"
    print(f"{len(slower)} of {len(found)} kernels are {what}{': ' if slower else ''}{', '.join(slower)}.")
    return 1 if slower else 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    made.add_argument("old", help="a commit, or working-tree")
    made.add_argument("new", nargs="?", default=WORKING_TREE, help="the same (default: working-tree)")
    made.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="kernels whose name contains a TEXT")
    made.add_argument("--threshold", type=float, default=1.1, help="ratio that counts as slower (default 1.1)")
    made.add_argument("--samples", type=int, default=8, help="samples of a process (default 8)")
    made.add_argument("--processes", type=int, default=4, help="pairs of processes (default 4)")
    made.add_argument("--kernels", type=Path, default=HOT_KERNELS, help="file with the list KERNELS")
    return made


if __name__ == "__main__":
    sys.exit(_time(*sys.argv[2:]) if sys.argv[1:2] == ["--time"] else main())
