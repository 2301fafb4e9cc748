"""What the first call costs: import, compilation into an empty cache, a later process, a second call.

Each estimator is fitted twice on the same small rows in a process whose cache of compiled code is empty, and once more
in a new process that finds the cache filled, as `widemargin compile` leaves it; and the census example is trained by
the command line. Processor seconds of one thread, as compiling is work, not waiting; wall seconds stand beside them.
Run as `python -m benchmarks.first_call`.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, machine, one_thread, parser, show, write


def measure_case(name: str, n: int) -> dict[str, float]:
    """Processor seconds up to the fits (all imports) and of two fits, and wall seconds up to the end of the first."""
    began = time.perf_counter()
    from widemargin.cli.commands.compile import made_estimator, made_rows

    model = made_estimator(name)
    X, y = made_rows(name, n)[0]
    seconds = {"import": time.process_time()}
    for call in ("first", "second"):
        start = time.process_time()
        model.fit(X, y).predict(X)
        seconds[call] = time.process_time() - start
        seconds.setdefault("wall", time.perf_counter() - began)
    return seconds


def run_case(name: str, n: int) -> dict[str, Any]:
    """One estimator in two new processes, one after the other, with a cache folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.first_call", "--case", name, "--rows", str(n)]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        empty, filled = (
            json.loads(
                subprocess.run(
                    command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
                ).stdout.splitlines()[-1]
            )
            for _ in range(2)
        )
    return {"estimator": name, "empty": empty, "filled": filled}


def train_example() -> list[float]:
    """Processor seconds of `widemargin train` on the census example: with an empty cache, and with a filled one."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "adult.skops")
        command = [sys.executable, "-m", "widemargin", "train", "examples/adult.toml", "--model", model]
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
        for _ in range(2):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return seconds


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    made = parser(__doc__.splitlines()[0])
    made.add_argument("--case", default=None, help="measure this one estimator in this process and print it")
    made.add_argument("--rows", type=int, default=500, help="rows of five columns (default 500)")
    made.add_argument("--only", default="", help="only estimators whose name contains this text")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = options_of(arguments)
    if options.case is not None:
        with one_thread():
            print(json.dumps(measure_case(options.case, options.rows)))
        return 0
    about = machine()
    from widemargin.cli.commands.compile import ESTIMATORS

    names = [name for name in ESTIMATORS if options.only in name][: 2 if options.quick else None]
    rows = [run_case(name, options.rows) for name in names]
    section = show(
        f"Processor seconds on {options.rows} rows; compiled code is kept between processes",
        ["estimator", "imports", "first call, empty cache", "both, wall", "first call, filled cache", "second call"],
        [
            [
                row["estimator"],
                *(
                    f"{seconds:.2f}"
                    for seconds in (
                        row["filled"]["import"], row["empty"]["first"], row["empty"]["wall"], row["filled"]["first"],
                        row["empty"]["second"],
                    )
                ),
            ]
            for row in rows
        ],
    )  # fmt: skip
    trained = train_example()
    empty, filled = (f"{seconds:.1f} s" for seconds in trained)
    told = (
        f"`widemargin train examples/adult.toml`: {empty} of processor with an empty cache, {filled} with a filled one."
    )
    write(options, "first_call", {"machine": about, "rows": rows, "train": trained}, [section, told])
    return 0


if __name__ == "__main__":
    sys.exit(main())
