"""`widemargin init TABLE`: a first goals file, guessed from the table, with the reason for every line."""

import argparse
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from widemargin._text import printable
from widemargin.cli.checks.guesses import Guesses, guess_roles
from widemargin.cli.checks.proposals import RARE_WORDS, Proposal, propose, proposed_goal
from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.cli.goals_file.rules import refuse_to_replace
from widemargin.cli.reports import write_text
from widemargin.cli.tables.column_roles import split_rows
from widemargin.cli.tables.csv_reading import CSV_ENDINGS, likely_separator
from widemargin.cli.tables.table_files import read_table
from widemargin.exceptions import DataError

_HELD_OUT = 0.25


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Look at the table and write the file; the exit code and the content for --json."""
    out: Path = options.out
    if out.exists() and not options.force:
        raise DataError(f"{out} exists already and is not replaced. Name another file by --out, or add --force")
    refuse_to_replace(options)
    with Progress() as progress:
        progress.step("looking at the table")
        separator = options.separator
        if separator is None and options.table.name.lower().endswith(CSV_ENDINGS) and options.table.is_file():
            usual, likely = likely_separator(options.table)
            separator = None if likely == usual else likely  # said only where the name of the file does not say it
        table = read_table(options.table, separator=separator)
        guesses = guess_roles(table, options.target, str(options.table))
        parts = split_rows(table, guesses.split, str(out), fraction=_HELD_OUT)
        progress.step("fitting a plain model to see what can be asked")
        proposals = propose(parts["train"].table, guesses, parts["test"].table.num_rows)
    try:
        place = Path(os.path.relpath(options.table, out.parent)).as_posix()
    except ValueError:  # on another drive
        place = options.table.resolve().as_posix()
    write_text(_text(guesses, proposals, place, out.stem, separator), out, "file")
    read_goals_file(out)  # what is written is read again, lest it be refused later
    goal = str(proposed_goal(proposals, promised=False))
    if not options.json:
        say(
            f"Target: {guesses.target} ({guesses.why_target}); positive: {guesses.positive!r}, the rarer value",
            f"Protected: {_names(guesses.protected) or 'none found'}",
            f"Features: {_names(guesses.features)}",
        )
        if guesses.ignore:
            say("Ignored:", *(f"  {_names([name])} {reason}" for name, reason in guesses.ignore.items()))
        say("Goal:", *(f"  {line}" for line in goal.split("\n")))
        say(f"Saved as {out}. Read it, then: widemargin train {out}")
    return 0, {
        "goals_file": str(out),
        "target": guesses.target,
        "positive": guesses.positive,
        "protected": list(guesses.protected),
        "ignore": dict(guesses.ignore),
        "features": list(guesses.features),
        "goal": goal,
    }


def _text(guesses: Guesses, proposals: list[Proposal], table: str, stem: str, separator: str | None) -> str:
    """The goals file."""
    lines = [
        "# A first goals file, guessed from the table by `widemargin init`. Read every line before you rely on it.",
        "# What the keys mean: docs/goals-file.md. Check changes by `widemargin check FILE --data`.",
        "",
        "[data]",
        f"table = {_toml(table)}  # relative to this file",
        *([] if separator is None else [f"separator = {_toml(separator)}  # between the fields of a line"]),
        f"target = {_toml(guesses.target)}  # {guesses.why_target}",
        f"positive = {_toml(guesses.positive)}  # the rarer of its two values; rates call it positive",
    ]
    if guesses.split is not None:
        column, train, test = map(_toml, (guesses.split.column, guesses.split.train, guesses.split.test))
        lines += [
            "# This column says which rows are held out; the model never learns from them.",
            f"split = {{ column = {column}, train = {train}, test = {test} }}",
        ]
    if guesses.protected:
        lines += [
            "# Names of people's attributes: rates may be measured by them, and the model never sees them.",
            f"protected = {_toml(guesses.protected)}",
        ]
    if guesses.words:
        lines += ["# Numbers that are codes of words, as their names say.", f"words = {_toml(guesses.words)}"]
    if guesses.ignore:
        reasons = (f"#   {_names([name])} {printable(reason)}" for name, reason in guesses.ignore.items())
        lines += ["# Columns that nobody uses:", *reasons, f"ignore = {_toml(list(guesses.ignore))}"]
    lines += [f"# All other columns are features: {_names(guesses.features)}.", ""]
    if guesses.split is None:
        why = "no column says which rows to hold out, so these are drawn at random"
        lines += ["[validation]", f"fraction = {_HELD_OUT}  # {why}", ""]
    if guesses.earlier:
        named = (f"{_toml(name)} = {{ column = {_toml(name)} }}" for name in guesses.earlier)
        lines += ["[baselines]  # columns that look like decisions of an earlier model", *named, ""]
    lines += ["[goal]  # what training enforces: about what a plain model does, so that it can be met"]
    lines += [*_goal_text(proposals, promised=False), ""]
    if proposals:
        lines += ["[goal.audit]  # what is promised for rows the model has not seen: three standard errors looser"]
        lines += [*_goal_text(proposals, promised=True), ""]
    lines += [
        "[model]",
        'numbers = "bins"  # one 0/1 feature per interval of a number, so that a linear model can follow any shape',
        f"rare_words = {RARE_WORDS}  # words of fewer rows share one feature",
        "time_budget = 60  # seconds after which the best model so far is kept",
        "",
        "[output]",
        f"model = {_toml(f'{stem}.skops')}",
        f"report = {_toml(f'{stem}.html')}",
        f"predictions = {_toml(f'{stem}-predictions.csv')}",
    ]
    return "\n".join(lines) + "\n"


def _goal_text(proposals: list[Proposal], *, promised: bool) -> list[str]:
    """The goal's statements, before each constraint the reason for it."""
    reasons = {item.constraint.label: item.why for item in proposals if not promised}
    lines = []
    for line in str(proposed_goal(proposals, promised=promised)).split("\n"):
        label = next((label for label in reasons if line.startswith("subject to") and f"{label}" in line), None)
        if label is not None:
            lines.append(f"# {reasons.pop(label)}")
        lines.append(line)
    text = "\n".join(lines)
    if "'''" in text or printable(text.replace("\n", "")) != text.replace("\n", ""):
        return [f"text = {_toml(text)}"]
    return ["text = '''", *lines, "'''"]


def _toml(value: object) -> str:
    """A value as TOML writes it: texts, numbers, true and false and lists of texts as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _names(columns: Iterable[str], most: int = 80) -> str:
    """Columns on one line, whatever is in their names; of long ones the beginning."""
    return ", ".join(name if len(name) <= most else f"{name[:most]}..." for name in map(printable, columns))
