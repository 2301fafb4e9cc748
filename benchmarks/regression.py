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
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.machine import ROOT, describe, machine
from benchmarks.task import Row, alone, table_of

WORKING_TREE = "working-tree"
PAIRS, SAMPLES, SAMPLE_SECONDS, THRESHOLD = 5, 8, 0.02, 1.1
"""Pairs of processes; samples of a kernel in each, which repeat it for about so long; the ratio that is slower."""


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


def kernels_of(source: Path) -> dict[str, Callable[[], Callable[[], Any]]]:
    """The kernels of a folder of sources."""
    return dict(runpy.run_path(str(source / "benchmarks" / "hot_kernels.py"))["KERNELS"])


def _seconds(source: Path, names: Sequence[str]) -> dict[str, float | str]:
    """Processor seconds of kernels with the sources of a folder, in a process that has imported none yet."""
    sys.path[:0] = [str(source / "src"), str(source / "papers" / "src")]
    warnings.simplefilter("ignore")
    known, found = kernels_of(source), dict[str, float | str]()
    for name in names:
        try:
            run = known[name]()
            run()  # compiles
            timer = timeit.Timer(run, timer=time.process_time)
            number = max(1, int(SAMPLE_SECONDS / max(min(timer.repeat(3, 1)), 1e-6)))
            found[name] = statistics.median(timer.repeat(SAMPLES, number)) / number
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def verdict_of(ratios: Sequence[float]) -> str:
    """Slower or quicker by more than the threshold and in every pair of processes, else nothing."""
    if min(ratios) > 1.0 and statistics.median(ratios) > THRESHOLD:
        return "SLOWER"
    return "quicker" if max(ratios) < 1.0 and statistics.median(ratios) < 1.0 / THRESHOLD else ""


def compare(old: Path, new: Path, names: Sequence[str]) -> dict[str, Row]:
    """By kernel: milliseconds of both, ratios and verdict, or why it was left out."""
    pairs = []
    for number in range(PAIRS):
        with patch.dict(os.environ, OMP_NUM_THREADS="1"):
            found = {tree: alone(_seconds, tree, names) for tree in ((new, old) if number % 2 else (old, new))}
        pairs.append((found[old], found[new]))
    return {name: _row(name, [before[name] for before, _ in pairs], [now[name] for _, now in pairs]) for name in names}


def _row(name: str, old: Sequence[Any], new: Sequence[Any]) -> Row:
    for side, seconds in (("old", old), ("new", new)):
        if wrong := [why for why in seconds if isinstance(why, str)]:
            return {"kernel": name, "verdict": f"left out, not in {side}: {wrong[0]}"[:100]}
    ratios = [after / before for before, after in zip(old, new, strict=True)]
    return {
        "kernel": name, "old": 1e3 * statistics.median(old), "new": 1e3 * statistics.median(new),
        "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios), "verdict": verdict_of(ratios),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two commits; 1 where a kernel is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regression", description=__doc__)
    parser.add_argument("old", help="a commit, or working-tree")
    parser.add_argument("new", nargs="?", default=WORKING_TREE, help="the same (default: working-tree)")
    options = parser.parse_args(arguments)
    with sources(options.old) as old, sources(options.new) as new:
        found = compare(old, new, list(kernels_of(new)))
        if again := [name for name, row in found.items() if row["verdict"] == "SLOWER"]:
            found |= compare(old, new, again)
    columns = "kernel | old ms: {old:.3f} | new ms: {new:.3f} | ratio:.3f | least:.3f | most:.3f | verdict"
    print(f"### {options.new} over {options.old}, processor milliseconds ({describe(machine())})\n")
    print(table_of(list(found.values()), columns))
    slower = [name for name, row in found.items() if row["verdict"] == "SLOWER"]
    what = f"slower by more than {THRESHOLD - 1.0:.0%}"
    print(f"{len(slower)} of {len(found)} kernels are {what}{': ' if slower else ''}{', '.join(slower)}.")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
