"""One runner for all benchmark scripts: each in a fresh process, one after the other, with a history and a summary.

A script that fails ends none of the others. What is done on this state of the code with the same settings is not run
again unless asked. Within a script all cases are interleaved (`common.interleave`).
"""

import argparse
import dataclasses
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import findings, history, summary
from benchmarks.common import RESULTS, ROOT, describe, machine, show
from benchmarks.machine import lacking

__all__ = ["SCRIPTS", "Run", "main"]

SCRIPTS = (
    "fairness_a9a",
    "convex_step",
    "frontier_a9a",
    "recall_churn",
    "cut_choosers",
    "kernelised",
    "kernel_scaling",
    "kernel_svm",
    "kernel_svc_accuracy",
    "kernel_choices",
    "kernel_problems",
    "kernel_ablations",
    "margin_speed",
    "margin_robustness",
    "risk_choice",
    "risk_speed",
    "label_suspects",
    "structured_yeast",
    "structured_rcv1",
    "structured_hierarchies",
    "structured_ocr",
    "thermometer_adult",
    "memory",
    "audit_stream",
    "scaling",
    "guarantees",
    "group_thresholds",
    "distributed",
    "first_report",
    "first_call",
    "footprint",
    "threads",
)
QUICK = ROOT / "out" / "bench-quick"


@dataclasses.dataclass(frozen=True)
class Run:
    """How a script ended: "done", "skipped" (no data), "failed", or "kept" (it was done before)."""

    script: str
    status: str
    seconds: float
    processor_s: float | None = None
    message: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked and write the summary; 1 where a script failed."""
    options = _parser().parse_args(arguments)
    chosen = _chosen(options)
    folder = options.out or (QUICK if options.quick else RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    if options.summary_only:
        summary.write(folder, SCRIPTS, quick=options.quick, missing=lacking())
        print(f"Summary: {folder / 'summary.md'}")
        return 0
    about, commit = machine(), history.code_version()
    print(f"{describe(about)}; {options.jobs} script{'s' * (options.jobs > 1)} at a time.")
    if lacking():
        print(f"Left out, as they are not installed: {', '.join(lacking())}.")
    runs = list(run_all(chosen, folder, options, commit, about))
    summary.write(folder, SCRIPTS, quick=options.quick, missing=lacking())
    rows = [
        [run.script, run.status, f"{run.seconds:.0f}", _rounded(run.processor_s), run.message]
        for run in sorted(runs, key=lambda run: chosen.index(run.script))
    ]
    print()
    show("Benchmarks", ["script", "status", "seconds", "processor s", "message"], rows)
    print(f"Summary: {folder / 'summary.md'}")
    return 1 if any(run.status == "failed" for run in runs) else 0


def run_all(
    scripts: Sequence[str], folder: Path, options: argparse.Namespace, commit: str, about: dict[str, Any]
) -> Iterator[Run]:
    """Run them, `--jobs` at a time, and yield each as it ends."""
    console = Console(stderr=True, highlight=False)
    status = console.status("") if console.is_terminal else None
    running: list[str] = []

    def one(script: str) -> Run:
        running.append(script)
        if status is not None:
            status.update(f"{', '.join(running)} ({len(scripts)} in all; Ctrl-C keeps what is done)")
        try:
            return run_script(script, folder, options, commit, about)
        finally:
            running.remove(script)

    if status is not None:
        status.start()
    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            futures = [pool.submit(one, script) for script in scripts]
            try:
                for future in as_completed(futures):
                    run = future.result()
                    print(f"{run.script}: {run.status}, {run.seconds:.0f} s {run.message}".rstrip(), flush=True)
                    yield run
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        if status is not None:
            status.stop()


def run_script(script: str, folder: Path, options: argparse.Namespace, commit: str, about: dict[str, Any]) -> Run:
    """One script in a process of its own; its line goes into the history, what it says into `out/bench-logs`."""
    settings = {
        "quick": options.quick, "repeats": options.repeats, "peers": not options.no_peers, "jobs": options.jobs,
    }  # fmt: skip
    before = None if options.again else history.last(folder, script, commit, settings)
    if before is not None:
        return Run(script, "kept", before["seconds"], before["processor_s"], f"done on {before['date']}")
    result = folder / f"{script}.json"
    written = result.stat().st_mtime_ns if result.is_file() else None
    log = ROOT / "out" / "bench-logs" / f"{script}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    start = time.perf_counter()
    with log.open("w") as file:
        code, processor = _run(_command(script, folder, options), file, options.timeout)
    seconds = time.perf_counter() - start
    fresh = result.is_file() and result.stat().st_mtime_ns != written
    status = "failed" if code else "done" if fresh else "skipped"
    message = "" if status == "done" else _last_line(log, code)
    found = findings.read(folder, script) if status == "done" else findings.Findings()
    history.append(folder, {
        "script": script, "commit": commit, "date": date, "status": status, "exit_code": code,
        "seconds": round(seconds, 1), "processor_s": round(processor, 1), "settings": settings, "machine": about,
        "message": message, **found.to_dict(),
    })  # fmt: skip
    return Run(script, status, seconds, processor, message)


def _run(command: Sequence[str], log: Any, timeout: float | None) -> tuple[int, float]:
    """Exit code (124: out of time) and processor seconds, those of its own children included.

    `wait4` tells the use of this process alone, so that scripts beside it do not count.
    """
    process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    deadline = None if timeout is None else time.monotonic() + timeout
    timed_out = False
    try:
        while True:
            pid, state, use = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if deadline is not None and time.monotonic() > deadline and not timed_out:
                process.terminate()
                timed_out = True
            time.sleep(0.1)
    except KeyboardInterrupt:
        process.terminate()
        raise
    process.returncode = os.waitstatus_to_exitcode(state)
    return (124 if timed_out else process.returncode), _seconds(use)


def _seconds(use: resource.struct_rusage) -> float:
    return use.ru_utime + use.ru_stime


def _command(script: str, folder: Path, options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", f"benchmarks.{script}", "--out", str(folder)]
    command += ["--quick"] if options.quick else []
    command += ["--no-peers"] if options.no_peers else []
    command += ["--data", str(options.data)] if options.data else []
    return command + (["--repeats", str(options.repeats)] if options.repeats else [])


def _last_line(log: Path, code: int) -> str:
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if code == 124:
        return f"out of time; {log.relative_to(ROOT)}"
    return f"{said[-1].strip()[:200] if said else 'said nothing'} ({log.relative_to(ROOT)})"


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _chosen(options: argparse.Namespace) -> list[str]:
    unknown = sorted({*options.only, *options.skip} - set(SCRIPTS))
    if unknown:
        raise SystemExit(f"There is no benchmark {', '.join(unknown)}. Name some of: {', '.join(SCRIPTS)}.")
    if options.jobs > 1 and not options.quick:
        raise SystemExit(f"--jobs is {options.jobs}: scripts side by side disturb each other's times. Add --quick.")
    return [name for name in SCRIPTS if name not in options.skip and (not options.only or name in options.only)]


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("--only", nargs="+", default=[], metavar="SCRIPT", help="run these")
    made.add_argument("--skip", nargs="+", default=[], metavar="SCRIPT", help="leave these out")
    made.add_argument("--again", action="store_true", help="also what is done on this state of the code")
    made.add_argument("--quick", action="store_true", help="small sizes, into out/bench-quick: do they run?")
    made.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    made.add_argument("--repeats", type=int, default=None, help="timed repeats (default: each script's own)")
    made.add_argument("--data", type=Path, default=None, help="folder of the data sets (or $WIDEMARGIN_DATA)")
    made.add_argument("--out", type=Path, default=None, help="folder of the results (default: benchmarks/results)")
    made.add_argument("--jobs", type=int, default=1, help="scripts at a time, with --quick (default 1)")
    made.add_argument("--timeout", type=float, default=None, help="seconds for each script (default: no limit)")
    made.add_argument("--summary-only", action="store_true", help="make the summary of the results that are there")
    return made
