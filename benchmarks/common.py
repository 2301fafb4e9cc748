"""What the benchmark scripts share: options, data, repeated timings, tables and result files."""

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.machine import THREADS, describe, lacking, machine
from benchmarks.places import RESULTS, ROOT
from widemargin.datasets import DATA_VARIABLE, FEMALE, MALE, N_FEATURES, Adult, data_folder, load_a9a
from widemargin.datasets import synthetic_a9a as synthetic_adult
from widemargin.exceptions import MissingDataError

__all__ = [
    "FEMALE", "MALE", "N_FEATURES", "ROOT", "Adult", "MissingDataError", "Timing", "compare", "describe",
    "fresh_process", "interleave", "load_adult", "load_peers", "machine", "one_thread", "parser", "show", "skipped",
    "synthetic_adult", "targets", "verdict", "write",
]  # fmt: skip


def parser(description: str) -> argparse.ArgumentParser:
    """Command line with the options that every script has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--data", type=Path, default=None, help=f"folder of binary/a9a.libsvm.gz (or ${DATA_VARIABLE})")
    made.add_argument("--repeats", type=int, default=5, help="timed repeats after one warm-up (default 5)")
    made.add_argument("--quick", action="store_true", help="small synthetic data: shows that the script runs, no more")
    made.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    made.add_argument("--out", type=Path, default=None, help="folder for the result files (default: results/ here)")
    return made


def load_adult(options: argparse.Namespace) -> Adult:
    """a9a from `--data`, $WIDEMARGIN_DATA or `../shared/data` beside the repository; synthetic rows with `--quick`.

    Raises
    ------
    MissingDataError
        If the files are not there; the message says how to name their folder.
    """
    if options.quick:
        return synthetic_adult(1500)
    return load_a9a(data_folder(options.data) or ROOT.parent / "shared" / "data")


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and OpenMP limited to one thread, for us and for the peers alike (compiled loops here use one anyway)."""
    with threadpool_limits(limits=THREADS):
        yield


@dataclass
class Timing:
    """Repeated runs of one case: wall and processor seconds of each, and what the last one returned.

    On a machine with other work the processor seconds are the steadier ones; all cases use one thread.
    """

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    result: Any = None

    @property
    def median(self) -> float:
        """Median wall seconds."""
        return statistics.median(self.wall)

    @property
    def processor_median(self) -> float:
        """Median processor seconds."""
        return statistics.median(self.processor)

    def to_dict(self) -> dict[str, Any]:
        """For the result file."""
        return {
            "median_s": round(self.median, 4),
            "fastest_s": round(min(self.wall), 4),
            "slowest_s": round(max(self.wall), 4),
            "median_processor_s": round(self.processor_median, 4),
            "repeats": len(self.wall),
        }


def interleave(cases: Mapping[str, Callable[[], Any]], repeats: int, *, warm_up: bool = True) -> dict[str, Timing]:
    """Run every case in turn, `repeats` times round, so that a slow minute of the machine hits all of them."""
    timings = {name: Timing() for name in cases}
    if warm_up:
        for run in cases.values():
            run()
    for _ in range(max(1, repeats)):
        for name, run in cases.items():
            wall, processor = time.perf_counter(), time.process_time()
            timings[name].result = run()
            timings[name].processor.append(time.process_time() - processor)
            timings[name].wall.append(time.perf_counter() - wall)
    return timings


def compare(peer: Timing, ours: Timing) -> float:
    """How many times as long the peer takes (median wall seconds)."""
    return peer.median / ours.median


def verdict(holds: bool) -> str:
    """Short mark for tables."""
    return "yes" if holds else "NO"


def targets(lines: Sequence[tuple[str, float, float]]) -> str:
    """Print and return, for every `(what, measured, wanted at least)`, whether it is reached."""
    made = [
        f"- {what}: {measured:.2f} times, target {wanted:g}: {'reached' if measured >= wanted else 'MISSED'}"
        for what, measured, wanted in lines
    ]
    text = "\nTargets:\n\n" + "\n".join(made) + "\n" if made else ""
    print(text)
    return text


def fresh_process(module: str, case: Sequence[Any], label: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """The last line that `python -m MODULE --case CASE` prints, read as JSON; None, and a message, where it fails."""
    command = [sys.executable, "-m", module, "--case", json.dumps(list(case))]
    command += ["--quick"] if options.quick else []
    command += ["--data", str(options.data)] if options.data else []
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        print(f"{label} is left out: {ended.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table under a title; it is printed and returned."""
    cells = [[str(value) for value in row] for row in rows]
    widths = [max([len(name), *(len(row[j]) for row in cells)]) for j, name in enumerate(columns)]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in [list(columns), *cells]
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    text = f"### {title}\n\n" + "\n".join(lines) + "\n"
    print(text, flush=True)
    return text


def write(options: argparse.Namespace, name: str, results: Mapping[str, Any], sections: Sequence[str]) -> None:
    """Write NAME.json and NAME.md to the results folder; a quick run writes only where it is told to.

    What is recorded beside the peers stays: a run without them goes to `out/without-peers`.
    """
    if options.quick and options.out is None:
        return
    folder = options.out or RESULTS
    missing = ["the peers"] if options.no_peers else lacking(name)
    if folder.resolve() == RESULTS and missing and (RESULTS / f"{name}.json").is_file():
        folder = ROOT / "out" / "without-peers"
        print(
            f"{name}: measured without {', '.join(missing)}, so benchmarks/results/{name}.json stays as it is; this "
            f"run is in {folder.relative_to(ROOT)}. With all peers: make bench ARGS='--only {name} --again'.",
            file=sys.stderr,
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1, default=_plain) + "\n")
    head = f"# {name}\n\nMade by `python -m benchmarks.{name}` on one machine: {describe(results['machine'])}.\n\n"
    (folder / f"{name}.md").write_text(head + "\n".join(sections))


def _plain(value: Any) -> Any:
    """NumPy values for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a result file")


def load_peers(options: argparse.Namespace, module: str = "benchmarks.peers") -> Any:
    """A module with peers (by default fairlearn's); None where unwanted or not installed."""
    if options.no_peers:
        return None
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"without {module}: {error} (install the dependency group `bench`)", file=sys.stderr)
        return None


def skipped(error: MissingDataError) -> int:
    """Say that a benchmark is skipped; the exit code of a skipped script."""
    print(f"skipped: {error}", file=sys.stderr)
    return 0
