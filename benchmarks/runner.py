"""One runner for all tasks: each in a process of its own, one after the other, and a summary of what was measured."""

import argparse
import contextlib
import os
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks import recorded
from benchmarks.machine import RESULTS, ROOT, describe, machine, slug, version_of
from benchmarks.task import Context, MissingPartError, Parts, Row, Task, all_tasks, alone, table_of
from widemargin.exceptions import MissingDataError

QUICK = ROOT / "out" / "bench-quick"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked and write the summary; 1 where a task failed."""
    options, tasks = _parser().parse_args(arguments), all_tasks()
    chosen = _chosen(options, tasks)
    if options.list:
        for name, parts in chosen.items():
            print(f"{name} ({', '.join(parts)}): {tasks[name].question}")
        return 0
    folder = options.out or (QUICK if options.quick else RESULTS)
    runs: list[Row] = []
    if not options.summary_only:
        print(f"{describe(machine())}; {options.jobs} task{'s' * (options.jobs > 1)} at a time.")
        lacking = {peer for name in chosen for peer in tasks[name].peers if version_of(peer) is None}
        if lacking:
            print(f"Left out, as they are not installed: {', '.join(sorted(lacking))}.")

        def one(name: str) -> Row:
            context = Context(tasks[name], options.quick, options.data)
            run = run_task(context, chosen[name], folder, again=options.again)
            print(f"{name}: {run['status']}, {run['seconds']:.0f} s {run['message']}".rstrip(), flush=True)
            return run

        with ThreadPoolExecutor(options.jobs) as pool:
            runs = list(pool.map(one, chosen))
        print("\n" + table_of(runs, "task | status | seconds:.0f | message"))
    recorded.write(folder, tasks, quick=options.quick)
    print(f"Summary: {folder / 'summary.md'}")
    return int(any(run["status"] == "failed" for run in runs))


def run_task(context: Context, parts: Sequence[str], folder: Path, *, again: bool) -> Row:
    """Measure parts of a task in a process of its own.

    The status is "done", "kept" (this state of the code has measured them before), "skipped" (no data, or no peer
    beside which the task was recorded) or "failed".
    """
    task, began, about = context.task, time.perf_counter(), machine()
    stored = recorded.machines(task.name, folder)
    stamps, stamp = stored.get(slug(about), {}).get("measured", {}), _stamp(about, context)
    parts = [part for part in parts if again or stamps.get(part) != stamp]
    status, message = "done" if parts else "kept", ""
    try:
        missing = [peer for peer in task.peers if version_of(peer) is None]
        if stored and missing and folder.resolve() == RESULTS:
            raise MissingDataError(f"it was recorded beside {', '.join(missing)}. Use make bench, or another --out.")
        if parts:
            alone(measure, context, folder, parts)
    except MissingDataError as error:
        status, message = "skipped", str(error)
    except Exception as error:  # the other tasks go on
        status, message = "failed", f"{type(error).__name__}: {error}"[:200]
        traceback.print_exc()
    return {"task": task.name, "status": status, "seconds": time.perf_counter() - began, "message": message}


def measure(context: Context, folder: Path, parts: Sequence[str]) -> None:
    """Measure parts of a task in this process and write after each."""
    task, name = context.task, context.task.name
    about = machine(os.cpu_count() or 1 if task.threads else 1, task.processes)
    content = Parts(recorded.machines(name, folder).get(slug(about), {}))
    content["machine"] = about
    for part in parts:
        with contextlib.nullcontext() if task.threads else threadpool_limits(1):
            content[part] = task.parts[part](context)
        content["measured"] = content.get("measured", {}) | {part: _stamp(about, context)}
        recorded.keep(folder, slug(about), name, content)
    (folder / f"{name}.md").write_text(recorded.page(task, folder))
    if not context.quick:
        with contextlib.suppress(MissingPartError):
            task.picture(content, folder / f"{name}.png")


def _stamp(about: Mapping[str, Any], context: Context) -> Row:
    """What a part that was measured before has to agree with, to be kept."""
    return {"code": about["code"], "quick": context.quick}


def _chosen(options: argparse.Namespace, tasks: Mapping[str, Task]) -> dict[str, list[str]]:
    """The parts of every task that was asked for."""
    if options.jobs > 1 and not options.quick:
        raise SystemExit(f"--jobs is {options.jobs}: tasks side by side disturb each other's times. Add --quick.")
    # Those that inherit from another task have other data, which a quick run does not read.
    by_default = [name for name, task in tasks.items() if not options.quick or type(task).__base__ is Task]
    chosen: dict[str, list[str]] = {}
    for word in options.tasks or by_default:
        name, _, part = word.partition(":")
        if name not in tasks:
            raise SystemExit(f"There is no benchmark {name}. Name some of: {', '.join(tasks)}.")
        if part and part not in tasks[name].parts:
            raise SystemExit(f"{name} has no part {part}. Name some of: {', '.join(tasks[name].parts)}.")
        chosen.setdefault(name, []).extend([part] if part else tasks[name].parts)
    return chosen


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    made.add_argument("tasks", nargs="*", metavar="TASK[:PART]", help="run these (default: all)")
    made.add_argument("--list", action="store_true", help="name the tasks, their parts and questions")
    made.add_argument("--again", action="store_true", help="also what is done on this state of the code")
    made.add_argument("--quick", action="store_true", help="small sizes, into out/bench-quick: do they run?")
    made.add_argument("--data", type=Path, default=None, help="folder of the data sets (or $WIDEMARGIN_DATA)")
    made.add_argument("--out", type=Path, default=None, help="folder of the results (default: benchmarks/results)")
    made.add_argument("--jobs", type=int, default=1, help="tasks at a time, with --quick (default 1)")
    made.add_argument("--summary-only", action="store_true", help="make the summary of the results that are there")
    return made
