"""`widemargin reproduce FIGURE` or `--all`: the door to the papers' experiments, which are in widemargin-papers."""

import argparse
from typing import Any

from widemargin._papers import papers_module
from widemargin.cli.console import Deadline, Progress, say
from widemargin.cli.workers import connected


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Run the figures; returns the exit code and the content for --json."""
    command = papers_module("reproductions.command", "`widemargin reproduce`")
    why = f"They are kept in {options.out}; the same command goes on from there"
    console = command.Console(say, Progress, Deadline(options.time_budget, why).check, connected)
    code, content = command.run(options, console)
    return int(code), dict(content)
