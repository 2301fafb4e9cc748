"""Compare the hot kernels of two commits: `python -m benchmarks.regression OLD NEW`.

Both are unpacked into folders, and processes of both take turns, as a minute may be slow, and a process by where
its memory lies. Shown is the median over pairs of processes of the ratio of processor seconds, new over old, with the
least and the largest. A kernel is flagged as slower where every pair says so and the median lies above the threshold;
"slower" is tried once more before it is believed.

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
import timeit
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import ROOT, describe, machine
from benchmarks.task import Row, table_of

WORKING_TREE = "working-tree"
SAMPLE_SECONDS = 0.02
"""A sample repeats its kernel for about that long."""


@contextlib.contextmanager
def sources(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """A folder with the sources of a commit."""
    if commit == WORKING_TREE:
        yield root
        return
    with tempfile.TemporaryDirectory(prefix="widemargin-") as folder:
        packed = subprocess.run(["git", "-C", str(root), "archive", commit], capture_output=True, check=False)
        if packed.returncode:
            raise SystemExit(f"git cannot read {commit!r}: {packed.stderr.decode().strip()}")
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder)


# --- in a process of one commit ---------------------------------------------------------------------------------------


def kernels_of(source: Path) -> dict[str, Callable[[], Callable[[], Any]]]:
    """The kernels of a folder of sources."""
    return dict(runpy.run_path(str(source / "benchmarks" / "hot_kernels.py"))["KERNELS"])


def _median(make: Callable[[], Callable[[], Any]], samples: int) -> float:
    """Processor seconds of one run, when the kernel is compiled and warm."""
    action = make()
    action()
    timer = timeit.Timer(action, timer=time.process_time)
    number = max(1, int(SAMPLE_SECONDS / max(min(timer.repeat(3, 1)), 1e-6)))
    return float(np.median(timer.repeat(samples, number))) / number


def _time(source: str, samples: str, *names: str) -> None:
    known, found = kernels_of(Path(source)), dict[str, Any]()
    for name in names:
        try:
            found[name] = _median(known[name], int(samples))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


# --- of both ----------------------------------------------------------------------------------------------------------


def timed(source: Path, names: Sequence[str], samples: int) -> dict[str, Any]:
    """Seconds of each kernel in a new process with the sources of a folder, or why there are none."""
    path = os.pathsep.join([str(source / "src"), str(source / "papers" / "src"), str(ROOT)])
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.regression", "--time", str(source), str(samples), *names],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        return dict.fromkeys(names, f"its process ended: {ended.stderr.strip()[-200:]}")
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def verdict_of(ratios: Sequence[float], threshold: float) -> str:
    """ "slower" or "quicker" by more than the threshold and in every pair of processes, else nothing."""
    if min(ratios) > 1.0 and np.median(ratios) > threshold:
        return "SLOWER"
    if max(ratios) < 1.0 and np.median(ratios) < 1.0 / threshold:
        return "quicker"
    return ""


def compare(old: Path, new: Path, names: Sequence[str], options: argparse.Namespace) -> dict[str, Row]:
    """By kernel: milliseconds of both, ratios and verdict, or why it was left out."""
    seen: dict[Path, list[dict[str, Any]]] = {old: [], new: []}
    for number in range(options.processes):
        for tree in (new, old) if number % 2 else (old, new):
            seen[tree].append(timed(tree, names, options.samples))
    rows: dict[str, Row] = {}
    for name in names:
        sides = {side: [found[name] for found in seen[tree]] for side, tree in (("old", old), ("new", new))}
        wrong = [f"not in {side}: {one}" for side, some in sides.items() for one in some if isinstance(one, str)]
        if wrong:
            rows[name] = {"kernel": name, "verdict": f"left out, {wrong[0]}"[:100]}
            continue
        ratios = np.divide(sides["new"], sides["old"])
        rows[name] = {side: 1e3 * np.median(some) for side, some in sides.items()} | {
            "kernel": name, "ratio": np.median(ratios), "least": ratios.min(), "most": ratios.max(),
            "verdict": verdict_of(ratios, options.threshold),
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
    parser.add_argument("--processes", type=int, default=5, help="pairs of processes (default 5)")
    options = parser.parse_args(arguments)
    with sources(options.old) as old, sources(options.new) as new:
        known = list(kernels_of(new))
        names = [name for name in known if any(text in name for text in options.only)]
        if not names:
            raise SystemExit(f"No kernel is called {' or '.join(options.only)}. There are: {', '.join(known)}.")
        found = compare(old, new, names, options)
        if again := [name for name, row in found.items() if row["verdict"] == "SLOWER"]:
            found |= compare(old, new, again, options)
    columns = "kernel | old ms: {old:.3f} | new ms: {new:.3f} | ratio:.3f | least:.3f | most:.3f"
    print(f"### {options.new} over {options.old}, processor milliseconds ({describe(machine())})\n")
    print(table_of(list(found.values()), f"{columns} | verdict"))
    slower = [name for name, row in found.items() if row["verdict"] == "SLOWER"]
    what = f"slower by more than {100 * (options.threshold - 1):.0f}%"
    print(f"{len(slower)} of {len(found)} kernels are {what}{': ' if slower else ''}{', '.join(slower)}.")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(_time(*sys.argv[2:]) if sys.argv[1:2] == ["--time"] else main())
