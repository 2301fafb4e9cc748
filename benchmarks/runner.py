"""One runner for all tasks: each in a fresh process, one after the other, with a history and a summary.

    python -m benchmarks                           # all of them; resumable
    python -m benchmarks scaling kernel_choices:caches       # some, or a part of one
    python -m benchmarks --list

A task that fails, or finds no data, ends none of the others. What is done on this state of the code is not run again
unless asked. Within a part all cases take turns (`Context.clock`).
"""

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from benchmarks import recorded, summary
from benchmarks.cells import table_of
from benchmarks.machine import PEERS, RESULTS, ROOT, describe, machine, slug, version_of
from benchmarks.task import Content, Context, Limit, MissingPartError, Parts, Task, modules, tasks_of
from widemargin.exceptions import MissingDataError

__all__ = ["Run", "main", "measure"]

QUICK = ROOT / "out" / "bench-quick"
WITHOUT_PEERS = ROOT / "out" / "without-peers"


class Run(NamedTuple):
    """How a task ended: "done", "skipped" (no data), "failed", or "kept" (it was done before)."""

    task: str
    status: str
    seconds: float
    processor: float = 0.0
    message: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked and write the summary; 1 where a task failed."""
    options = _parser().parse_args(arguments)
    if options.call is not None:
        print(_answer(**json.loads(options.call)))
        return 0
    # A process of one task imports nothing of the others.
    places = {name: module for module in [options.child] if module for name in tasks_of(module)} or {
        name: module for module in modules() for name in tasks_of(module)
    }
    tasks = {name: tasks_of(module)[name] for name, module in places.items()}
    chosen = _chosen(options, tasks)
    if options.list:
        for name in chosen:
            print(f"{name} ({', '.join(tasks[name].parts)}): {tasks[name].question}")
        return 0
    folder = options.out or (QUICK if options.quick else RESULTS)
    if options.child:
        (name,) = chosen
        return measure(name, tasks[name], _context(tasks[name], options), folder, chosen[name], again=options.again)
    if not options.summary_only:
        print(f"{describe(machine())}; {options.jobs} task{'s' * (options.jobs > 1)} at a time.")
        lacking = [peer for peer in PEERS if version_of(peer) is None]
        if lacking:
            print(f"Left out, as they are not installed: {', '.join(lacking)}.")
        runs = sorted(run_all(chosen, tasks, places, folder, options), key=lambda run: list(chosen).index(run.task))
        columns = "task | status | seconds: {seconds:.0f} | processor s: {processor:.0f} | message"
        print("\n" + table_of([run._asdict() for run in runs], columns))
    if options.summary_only:
        for name in [name for name in tasks if recorded.machines(name, folder)]:
            (folder / f"{name}.md").write_text(recorded.page(name, tasks[name], folder))
    summary.write(folder, tasks, quick=options.quick)
    print(f"Summary: {folder / 'summary.md'}")
    return 0 if options.summary_only else int(any(run.status == "failed" for run in runs))


def _answer(function: str, arguments: Sequence[Any], task: str, data: str, **settings: Any) -> str:
    """Make a call of `Context.fresh` in this process; its answer as JSON."""
    name, _, function = function.partition(":")
    module = importlib.import_module(name)  # alone: no other task is loaded
    context = Context(module.TASKS[task], data=Path(data), **settings)
    with threadpool_limits(1):
        return json.dumps(getattr(module, function)(context, *arguments))


def _context(task: Task, options: argparse.Namespace) -> Context:
    return Context(task, options.quick, not options.no_peers, options.repeats, options.data)


def measure(name: str, task: Task, context: Context, folder: Path, parts: Sequence[str], *, again: bool = True) -> int:
    """Run parts of a task in this process and write after each; 0 also where data are missing.

    What was recorded beside peers is not replaced by a run without them: that goes to `out/without-peers`.
    """
    about = machine(os.cpu_count() or 1 if task.threads else 1, task.processes)
    place = slug(about)
    missing = task.lacking() if context.with_peers else list(task.peers)
    if folder.resolve() == RESULTS and missing and recorded.machines(name):
        folder = WITHOUT_PEERS
        print(
            f"{name}: measured without {', '.join(missing)}, so what benchmarks/results has of it stays; this run is "
            f"in {folder.relative_to(ROOT)}. With all peers: make bench ARGS='{name} --again'.",
            file=sys.stderr,
        )
    content = Parts(recorded.machines(name, folder).get(place, {}))
    content["machine"], stamps = about, dict(content.get("measured", {}))
    stamp = {"code": about["code"], "repeats": context.given_repeats, "quick": context.quick}
    for part in parts:
        if not again and part in content and stamps.get(part) == stamp:
            print(f"{name}: {part} is there")
            continue
        with contextlib.nullcontext() if task.threads else threadpool_limits(1):
            try:
                content[part] = task.parts[part](context)
            except MissingDataError as error:
                print(f"skipped: {error}", file=sys.stderr)
                return 0
        stamps[part] = stamp
        content["measured"] = stamps
        recorded.keep(folder, place, name, content)
    (folder / f"{name}.md").write_text(recorded.page(name, task, folder))
    print((folder / f"{name}.md").read_text())
    if task.picture is not None and not context.quick:
        with contextlib.suppress(MissingPartError):
            task.picture(content, folder / f"{name}.png")
    return 0


def run_all(
    chosen: Mapping[str, Sequence[str]],
    tasks: Mapping[str, Task],
    places: Mapping[str, str],
    folder: Path,
    options: argparse.Namespace,
) -> Iterator[Run]:
    """Run them, `--jobs` at a time, and yield each as it ends."""
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [
            pool.submit(run_task, name, parts, tasks[name], places[name], folder, options)
            for name, parts in chosen.items()
        ]
        try:
            for future in as_completed(futures):
                run = future.result()
                print(f"{run.task}: {run.status}, {run.seconds:.0f} s {run.message}".rstrip(), flush=True)
                yield run
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_task(
    name: str, parts: Sequence[str], task: Task, module: str, folder: Path, options: argparse.Namespace
) -> Run:
    """One task in a process of its own; its line goes into the history, what it says into `out/bench-logs`."""
    about = machine()
    place = slug(about)
    before = recorded.machines(name, folder).get(place, {})
    code = about["code"]
    stamps = before.get("measured", {})
    if not options.again and all(
        stamps.get(part) == {"code": code, "repeats": options.repeats, "quick": options.quick} for part in parts
    ):
        return Run(name, "kept", 0.0, message=f"done on {before['machine']['date']}")
    log = ROOT / "out" / "bench-logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    date, start = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    with log.open("w") as file:
        exit_code, processor = _run(_command(name, parts, module, folder, options), file, options.timeout)
    seconds = time.perf_counter() - start
    said = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    status = "failed" if exit_code else "skipped" if any(line.startswith("skipped:") for line in said) else "done"
    last = "out of time" if exit_code == 124 else said[-1][:200] if said else "said nothing"
    message = "" if status == "done" else f"{last} ({log.relative_to(ROOT)})"
    content: Content = recorded.machines(name, folder).get(place, {}) if status == "done" else {}
    found = task.judged(content) if content else []
    recorded.log(folder, {
        "script": name, "parts": list(parts), "commit": code, "date": date, "status": status, "exit_code": exit_code,
        "seconds": round(seconds, 1), "processor_s": round(processor, 1), "machine": about, "message": message,
        "settings": {"quick": options.quick, "repeats": options.repeats, "peers": not options.no_peers},
        "ratios": [asdict(item) for item in found if not isinstance(item, Limit)],
        "limits": [asdict(item) for item in found if isinstance(item, Limit)],
    })  # fmt: skip
    return Run(name, status, seconds, processor, message)


def _run(command: Sequence[str], log: Any, timeout: float | None) -> tuple[int, float]:
    """Exit code (124: out of time) and processor seconds, those of its own children included.

    `wait4` tells the use of this process alone, so that tasks beside it do not count.
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
    return (124 if timed_out else process.returncode), use.ru_utime + use.ru_stime


def _command(name: str, parts: Sequence[str], module: str, folder: Path, options: argparse.Namespace) -> list[str]:
    # Unbuffered: the last line of the log is the last that happened, so that of an exception is read as the message.
    command = [sys.executable, "-u", "-m", "benchmarks", *(f"{name}:{part}" for part in parts), "--child", module]
    command += ["--out", str(folder)]
    for flag in ("quick", "no_peers", "again"):
        command += [f"--{flag.replace('_', '-')}"] if getattr(options, flag) else []
    command += ["--data", str(options.data)] if options.data else []
    return command + (["--repeats", str(options.repeats)] if options.repeats else [])


def _chosen(options: argparse.Namespace, tasks: Mapping[str, Task]) -> dict[str, list[str]]:
    """The parts of every task that was asked for."""
    wanted: dict[str, list[str]] = {}
    for word in [*options.tasks, *options.only] or _by_default(tasks, quick=options.quick):
        name, _, part = word.partition(":")
        if name not in tasks:
            raise SystemExit(f"There is no benchmark {name}. Name some of: {', '.join(tasks)}.")
        if part and part not in tasks[name].parts:
            raise SystemExit(f"{name} has no part {part}. Name some of: {', '.join(tasks[name].parts)}.")
        wanted.setdefault(name, []).extend([part] if part else tasks[name].parts)
    if options.jobs > 1 and not options.quick:
        raise SystemExit(f"--jobs is {options.jobs}: tasks side by side disturb each other's times. Add --quick.")
    return {name: list(dict.fromkeys(parts)) for name, parts in wanted.items() if name not in options.skip}


def _by_default(tasks: Mapping[str, Task], *, quick: bool) -> list[str]:
    """What runs where no task is named; of those that show the same tables of other data, a quick run needs one."""
    named = [name for name in tasks if not tasks[name].asked_only]
    return list({id(tasks[name].tables): name for name in named}.values()) if quick else named


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("tasks", nargs="*", metavar="TASK[:PART]", help="run these (default: all)")
    made.add_argument("--only", nargs="+", default=[], metavar="TASK[:PART]", help="the same")
    made.add_argument("--skip", nargs="+", default=[], metavar="TASK", help="leave these out")
    made.add_argument("--list", action="store_true", help="name the tasks, their parts and questions")
    made.add_argument("--again", action="store_true", help="also what is done on this state of the code")
    made.add_argument("--quick", action="store_true", help="small sizes, into out/bench-quick: do they run?")
    made.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    made.add_argument("--repeats", type=int, default=None, help="timed repeats (default: each task's own)")
    made.add_argument("--data", type=Path, default=None, help="folder of the data sets (or $WIDEMARGIN_DATA)")
    made.add_argument("--out", type=Path, default=None, help="folder of the results (default: benchmarks/results)")
    made.add_argument("--jobs", type=int, default=1, help="tasks at a time, with --quick (default 1)")
    made.add_argument("--timeout", type=float, default=None, help="seconds for each task (default: no limit)")
    made.add_argument("--summary-only", action="store_true", help="make the summary of the results that are there")
    made.add_argument("--child", default="", metavar="MODULE", help=argparse.SUPPRESS)
    made.add_argument("--call", default=None, help=argparse.SUPPRESS)
    return made
