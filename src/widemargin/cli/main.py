"""The command line: `widemargin train`, `widemargin audit`, `widemargin reproduce`.

Exit codes: 0 the goal is met, 1 it is not, or the time was up before that was known, 2 the input is bad (or something
unexpected happened), 130 interrupted (Ctrl-C or SIGTERM). Results go to stdout, everything else to stderr; no traceback
unless `--traceback` is given.
"""

import argparse
import contextlib
import importlib
import io
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from widemargin._text import printable
from widemargin.cli.console import finish, put, warnings_as_lines
from widemargin.cli.parser import make_parser
from widemargin.exceptions import InfeasibleGoalError, TimeBudgetError, WidemarginError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            options = make_parser().parse_args(given)
    except SystemExit as stop:  # an error of usage, told as JSON too, where that was asked for
        text = told.getvalue().rstrip()
        if text:
            put(text, sys.stderr)
        if stop.code == 2 and "--json" in given:
            command = next((item for item in given if not item.startswith("-")), None)
            _print_json({"command": command, "exit_code": 2, "error": text.partition("error: ")[2]})
        finish()
        raise
    with _ended_like_ctrl_c():
        code = _run(options)
    # Python remembers a KeyboardInterrupt that went through `exec` of a text (dataclasses and numba do this), caught or
    # not, and ends by the signal in place of the exit code; it forgets it with the next text.
    exec("")
    try:
        finish()
    except WidemarginError as error:
        code = _failed(options, 2, str(error))
    return code


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM, by which machines and schedulers end a program, keeps what Ctrl-C keeps.

    Handlers belong to the main thread, and one that somebody else has set stays.
    """
    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run(options: argparse.Namespace) -> int:
    """Run the command and print its result; every error ends as a message and an exit code."""
    try:
        # What a command says is not shown where one JSON object is asked for.
        shown = contextlib.redirect_stdout(io.StringIO()) if options.json else contextlib.nullcontext()
        with warnings_as_lines(), shown:
            # Audits by a standard need no model, so the modules of models, slow to import, are left alone.
            home = "commands." + options.command if getattr(options, "standard", None) is None else "standards"
            # Imported late, so that --help and errors of usage are quick, and here, so that Ctrl-C meanwhile is caught.
            run = importlib.import_module(f"widemargin.cli.{home}").run
            code, content = run(options)
        if options.json:
            _print_json({"command": options.command, "exit_code": code, **content})
        return int(code)
    except KeyboardInterrupt as interrupt:
        return _failed(options, 130, "; ".join(["interrupted", *map(str, interrupt.args)]))
    except InfeasibleGoalError as error:
        text = str(error).replace('with on_infeasible="warn"', 'by [model] on_infeasible = "warn"')
        text = text.replace("use a better estimator", "try other features or another [model]")
        return _failed(options, 1, f"the goal cannot be met: {text}")
    except TimeBudgetError as error:
        return _failed(options, 1, str(error), {"done": error.done, "total": error.total, "kept": error.kept})
    except WidemarginError as error:
        return _failed(options, 2, str(error))
    except OSError as error:  # a disk or a device that fails where no step has words for it
        return _failed(
            options, 2, f"{error.filename or 'a file'}: {error.strerror or error}. Check the disk and the folder"
        )
    except MemoryError:
        return _failed(options, 2, "the memory of this machine is used up. Give fewer rows, or use a larger machine")
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # a library that was being imported reports Ctrl-C so
            return _failed(options, 130, "interrupted")
        again = f"run `widemargin --traceback {options.command} ...` and report it"
        return _failed(options, 2, f"unexpected {type(error).__name__}: {error}. This is a defect; {again}")


def _failed(options: argparse.Namespace, code: int, text: str, facts: Mapping[str, Any] | None = None) -> int:
    if options.traceback:
        import traceback

        traceback.print_exc()
    lines = "\n".join(printable(line) for line in text.split("\n"))
    put(f"widemargin: {lines}", sys.stderr)
    if options.json:
        _print_json({"command": options.command, "exit_code": code, "error": text, **(facts or {})})
    return code


def _print_json(content: dict[str, Any]) -> None:
    put(json.dumps(content, indent=1, allow_nan=False))
