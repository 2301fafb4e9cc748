"""One runner for all tasks: each in a fresh process, one after the other, with a history and a summary."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks import recorded
from benchmarks.machine import PEERS, RESULTS, ROOT, describe, machine, slug, version_of
from benchmarks.task import Context, MissingPartError, Parts, Row, Task, made, modules, table_of, tasks_of
from widemargin.exceptions import MissingDataError

QUICK = ROOT / "out" / "bench-quick"
WITHOUT_PEERS = ROOT / "out" / "without-peers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked and write the summary; 1 where a task failed."""
    options = _parser().parse_args(arguments)
    # A process of one task imports nothing of the others.
    tasks = {name: task for module in options.child or modules() for name, task in tasks_of(module).items()}
    chosen = _chosen(options, tasks)
    if options.list:
        for name in chosen:
            print(f"{name} ({', '.join(tasks[name].parts)}): {tasks[name].question}")
        return 0
    folder = options.out or (QUICK if options.quick else RESULTS)
    if options.child:
        ((name, parts),) = chosen.items()
        context = Context(tasks[name], options.quick, given_repeats=options.repeats, data=options.data)
        return measure(context, folder, parts)
    runs: list[Row] = []
    if options.summary_only:
        for task in tasks.values():
            if recorded.machines(task.name, folder):
                (folder / f"{task.name}.md").write_text(recorded.page(task, folder))
    else:
        print(f"{describe(machine())}; {options.jobs} task{'s' * (options.jobs > 1)} at a time.")
        lacking = [peer for peer in PEERS if version_of(peer) is None]
        if lacking:
            print(f"Left out, as they are not installed: {', '.join(lacking)}.")

        def one(name: str) -> Row:
            run = run_task(tasks[name], chosen[name], folder, options)
            print(f"{name}: {run['status']}, {run['seconds']:.0f} s {run['message']}".rstrip(), flush=True)
            return run

        with ThreadPoolExecutor(options.jobs) as pool:
            runs = list(pool.map(one, chosen))
        columns = "task: {script} | status | seconds: {seconds:.0f} | processor s: {processor_s:.0f} | message"
        print("\n" + table_of(runs, columns))
    recorded.write(folder, tasks, quick=options.quick)
    print(f"Summary: {folder / 'summary.md'}")
    return int(any(run["status"] == "failed" for run in runs))


def measure(context: Context, folder: Path, parts: Sequence[str]) -> int:
    """Run parts of a task in this process and write after each; 0 also where data are missing.

    What was recorded beside peers is not replaced by a run without them: that goes to `out/without-peers`.
    """
    task, name = context.task, context.task.name
    about = machine(os.cpu_count() or 1 if task.threads else 1, task.processes)
    place = slug(about)
    missing = [peer for peer in task.peers if version_of(peer) is None]
    if folder.resolve() == RESULTS and missing and recorded.machines(name):
        folder = WITHOUT_PEERS
        print(
            f"{name}: measured without {', '.join(missing)}, so what benchmarks/results has of it stays; this run is "
            f"in {folder.relative_to(ROOT)}. With all peers: make bench ARGS='{name} --again'.",
            file=sys.stderr,
        )
    content = Parts(recorded.machines(name, folder).get(place, {}))
    content["machine"], stamps = about, dict(content.get("measured", {}))
    for part in parts:
        with contextlib.nullcontext() if task.threads else threadpool_limits(1):
            try:
                content[part] = task.parts[part](context)
            except MissingDataError as error:
                print(f"skipped: {error}", file=sys.stderr)
                return 0
        stamps[part] = _stamp(about, context.given_repeats, context.quick)
        content["measured"] = stamps
        recorded.keep(folder, place, name, content)
    page = recorded.page(task, folder)
    (folder / f"{name}.md").write_text(page)
    print(page)
    if not context.quick:
        with contextlib.suppress(MissingPartError):
            task.picture(content, folder / f"{name}.png")
    return 0


def _stamp(about: Mapping[str, Any], repeats: int | None, quick: bool) -> dict[str, Any]:
    """What a part that was done before has to agree with, to be kept."""
    return {"code": about["code"], "repeats": repeats, "quick": quick}


def run_task(task: Task, parts: Sequence[str], folder: Path, options: argparse.Namespace) -> Row:
    """One task in a process of its own; its line goes into the history, what it says into `out/bench-logs`.

    The status is "done", "skipped" (no data), "failed", or "kept" (it was done before).
    """
    name, about = task.name, machine()
    place = slug(about)
    before = recorded.machines(name, folder).get(place, {})
    stamps, stamp = before.get("measured", {}), _stamp(about, options.repeats, options.quick)
    parts = [part for part in parts if options.again or stamps.get(part) != stamp]
    if not parts:
        date = before["machine"]["date"]
        return {"script": name, "status": "kept", "seconds": 0.0, "processor_s": 0.0, "message": f"done on {date}"}
    # Unbuffered: the last line of the log is the last that happened, so that of an exception is read as the message.
    command = [sys.executable, "-u", "-m", "benchmarks", *(f"{name}:{part}" for part in parts), "--child"]
    command += [type(task).__module__, "--out", str(folder), *(["--quick"] if options.quick else [])]
    given = {"--data": options.data, "--repeats": options.repeats}
    command += [str(word) for pair in given.items() if pair[1] is not None for word in pair]
    log = ROOT / "out" / "bench-logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    date, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT)
        # This tells the use of this process and its own children alone, so that tasks beside it do not count.
        _, state, use = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(state)
    seconds, processor = time.perf_counter() - start, use.ru_utime + use.ru_stime
    said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] or ["said nothing"]
    skipped = any(line.startswith("skipped:") for line in said)
    status = "failed" if process.returncode else "skipped" if skipped else "done"
    message = "" if status == "done" else f"{said[-1][:200]} ({log.relative_to(ROOT)})"
    found = made(task.targets, recorded.machines(name, folder).get(place, Parts())) if status == "done" else []
    line = {
        "script": name, "parts": parts, "commit": about["code"], "date": date, "status": status,
        "exit_code": process.returncode, "seconds": round(seconds, 1), "processor_s": round(processor, 1),
        "machine": about, "message": message, "settings": {"quick": options.quick, "repeats": options.repeats},
        "limits": [asdict(item) for item in found],
    }  # fmt: skip
    history = folder / "history" / f"{name}.jsonl"
    history.parent.mkdir(parents=True, exist_ok=True)
    with history.open("a") as file:
        file.write(json.dumps(line) + "\n")
    return line


def _chosen(options: argparse.Namespace, tasks: Mapping[str, Task]) -> dict[str, list[str]]:
    """The parts of every task that was asked for."""
    if options.jobs > 1 and not options.quick:
        raise SystemExit(f"--jobs is {options.jobs}: tasks side by side disturb each other's times. Add --quick.")
    by_default = [name for name in tasks if not tasks[name].asked_only]
    if options.quick:  # of a class and those that inherit from it, which have other data, one will do
        by_default = list({type(tasks[name]).__mro__[-3]: name for name in by_default}.values())
    wanted: dict[str, list[str]] = {}
    for word in options.tasks or by_default:
        name, _, part = word.partition(":")
        if name not in tasks:
            raise SystemExit(f"There is no benchmark {name}. Name some of: {', '.join(tasks)}.")
        if part and part not in tasks[name].parts:
            raise SystemExit(f"{name} has no part {part}. Name some of: {', '.join(tasks[name].parts)}.")
        wanted.setdefault(name, []).extend([part] if part else tasks[name].parts)
    return {name: list(dict.fromkeys(parts)) for name, parts in wanted.items() if name not in options.skip}


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("tasks", nargs="*", metavar="TASK[:PART]", help="run these (default: all)")
    made.add_argument("--skip", nargs="+", default=[], metavar="TASK", help="leave these out")
    made.add_argument("--list", action="store_true", help="name the tasks, their parts and questions")
    made.add_argument("--again", action="store_true", help="also what is done on this state of the code")
    made.add_argument("--quick", action="store_true", help="small sizes, into out/bench-quick: do they run?")
    made.add_argument("--repeats", type=int, default=None, help="timed repeats (default: each task's own)")
    made.add_argument("--data", type=Path, default=None, help="folder of the data sets (or $WIDEMARGIN_DATA)")
    made.add_argument("--out", type=Path, default=None, help="folder of the results (default: benchmarks/results)")
    made.add_argument("--jobs", type=int, default=1, help="tasks at a time, with --quick (default 1)")
    made.add_argument("--summary-only", action="store_true", help="make the summary of the results that are there")
    made.add_argument("--child", nargs=1, default=[], metavar="MODULE", help=argparse.SUPPRESS)
    return made
