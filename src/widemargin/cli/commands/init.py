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
from widemargin.cli.goals_file.keys import Label
from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.cli.goals_file.rules import refuse_to_replace
from widemargin.cli.tables.column_roles import hold_out, split_rows
from widemargin.cli.tables.csv_reading import CSV_ENDINGS, likely_separator, usual_separator
from widemargin.cli.tables.table_files import read_table
from widemargin.exceptions import DataError

__all__ = ["run"]

_HELD_OUT = 0.25
_LONG = 80
"""Letters of a column's name that are printed."""


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Look at the table and write the file; the exit code and the content for --json."""
    out: Path = options.out
    if out.exists() and not options.force:
        raise DataError(f"{out} exists already and is not replaced. Name another file by --out, or add --force")
    refuse_to_replace(options)
    with Progress() as progress:
        progress.step("looking at the table")
        separator = options.separator or _separator(options.table)
        table = read_table(options.table, separator=separator)
        guesses = guess_roles(table, options.target, str(options.table))
        parts = hold_out(table, _HELD_OUT) if guesses.split is None else split_rows(table, guesses.split, str(out))
        progress.step("fitting a plain model to see what can be asked")
        proposals = propose(parts["train"].table, guesses, parts["test"].table.num_rows)
    text = _text(guesses, proposals, _relative(options.table, out), out.stem, separator)
    _write(out, text)
    read_goals_file(out)  # what is written is read again, lest it be refused later
    if not options.json:
        _show(guesses, proposals, out)
    return 0, {
        "goals_file": str(out),
        "target": guesses.target,
        "positive": guesses.positive,
        "protected": list(guesses.protected),
        "ignore": dict(guesses.ignore),
        "features": list(guesses.features),
        "goal": str(proposed_goal(proposals, promised=False)),
    }


def _separator(table: Path) -> str | None:
    """What separates the fields of a CSV file, where it is not what its name says."""
    if not table.name.lower().endswith(CSV_ENDINGS) or not table.is_file():
        return None
    seen = likely_separator(table)
    return seen if seen != usual_separator(table) else None


def _relative(table: Path, out: Path) -> str:
    try:
        return Path(os.path.relpath(table, out.parent)).as_posix()
    except ValueError:  # on another drive
        return table.resolve().as_posix()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise DataError(f"{path}: the file cannot be written ({error.strerror}). Choose another place") from error


def _text(guesses: Guesses, proposals: list[Proposal], table: str, stem: str, separator: str | None) -> str:
    sections = [
        _header(),
        _data(guesses, table, separator),
        _baselines(guesses),
        _goal(proposals),
        _model(),
        _output(stem),
    ]
    return "\n".join(line for section in sections if section for line in [*section, ""]).rstrip("\n") + "\n"


def _header() -> list[str]:
    return [
        "# A first goals file, guessed from the table by `widemargin init`. Read every line before you rely on it.",
        "# What the keys mean: docs/goals-file.md. Check changes by `widemargin check FILE --data`.",
    ]


def _data(guesses: Guesses, table: str, separator: str | None) -> list[str]:
    lines = [
        "[data]",
        f"table = {_quoted(table)}  # relative to this file",
        *([] if separator is None else [f"separator = {_quoted(separator)}  # between the fields of a line"]),
        f"target = {_quoted(guesses.target)}  # {guesses.why_target}",
        f"positive = {_value(guesses.positive)}  # the rarer of its two values; rates call it positive",
    ]
    if guesses.split is not None:
        column, train, test = _quoted(guesses.split.column), _value(guesses.split.train), _value(guesses.split.test)
        lines += [
            "# This column says which rows are held out; the model never learns from them.",
            f"split = {{ column = {column}, train = {train}, test = {test} }}",
        ]
    if guesses.protected:
        lines += [
            "# Names of people's attributes: rates may be measured by them, and the model never sees them.",
            f"protected = {_list(guesses.protected)}",
        ]
    if guesses.words:
        lines += ["# Numbers that are codes of words, as their names say.", f"words = {_list(guesses.words)}"]
    if guesses.ignore:
        lines += ["# Columns that nobody uses:"]
        lines += [f"#   {_names([name])} {printable(reason)}" for name, reason in guesses.ignore.items()]
        lines += [f"ignore = {_list(guesses.ignore)}"]
    lines += [f"# All other columns are features: {_names(guesses.features)}."]
    if guesses.split is None:
        lines += [
            "",
            "[validation]",
            f"fraction = {_HELD_OUT}  # no column says which rows to hold out, so these are drawn at random",
        ]
    return lines


def _baselines(guesses: Guesses) -> list[str]:
    named = [f"{_quoted(name)} = {{ column = {_quoted(name)} }}" for name in guesses.earlier]
    return ["[baselines]  # columns that look like decisions of an earlier model", *named] if named else []


def _goal(proposals: list[Proposal]) -> list[str]:
    lines = [
        "[goal]  # what training enforces: about what a plain model does, so that it can be met",
        *_goal_text(proposals, promised=False),
    ]
    if proposals:
        lines += [
            "",
            "[goal.audit]  # what is promised for rows the model has not seen: three standard errors looser",
            *_goal_text(proposals, promised=True),
        ]
    return lines


def _goal_text(proposals: list[Proposal], *, promised: bool) -> list[str]:
    """The goal's statements, before each constraint the reason for it."""
    reasons = {item.constraint.label: item.why for item in proposals if not promised}
    told = []
    for line in str(proposed_goal(proposals, promised=promised)).split("\n"):
        label = next((label for label in reasons if line.startswith("subject to") and f"{label}" in line), None)
        if label is not None:
            told.append(f"# {reasons.pop(label)}")
        told.append(line)
    text = "\n".join(told)
    if "'''" in text or printable(text.replace("\n", "")) != text.replace("\n", ""):
        return [f"text = {_quoted(text)}"]
    return ["text = '''", *told, "'''"]


def _model() -> list[str]:
    return [
        "[model]",
        'numbers = "bins"  # one 0/1 feature per interval of a number, so that a linear model can follow any shape',
        f"rare_words = {RARE_WORDS}  # words of fewer rows share one feature",
        "time_budget = 60  # seconds after which the best model so far is kept",
    ]


def _output(stem: str) -> list[str]:
    kinds = {"model": ".skops", "report": ".html", "predictions": "-predictions.csv"}
    return ["[output]", *(f"{key} = {_quoted(stem + ending)}" for key, ending in kinds.items())]


def _quoted(text: str) -> str:
    """A TOML basic string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Label) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(_quoted(name) for name in names)}]"


def _show(guesses: Guesses, proposals: list[Proposal], out: Path) -> None:
    say(
        f"Target: {guesses.target} ({guesses.why_target}); positive: {guesses.positive!r}, the rarer value",
        f"Protected: {_names(guesses.protected) or 'none found'}",
        f"Features: {_names(guesses.features)}",
    )
    if guesses.ignore:
        say("Ignored:", *(f"  {_names([name])} {reason}" for name, reason in guesses.ignore.items()))
    say("Goal:", *(f"  {line}" for line in str(proposed_goal(proposals, promised=False)).split("\n")))
    say(f"Saved as {out}. Read it, then: widemargin train {out}")


def _names(columns: Iterable[str]) -> str:
    """Columns on one line, whatever is in their names."""
    return ", ".join(name if len(name) <= _LONG else f"{name[:_LONG]}..." for name in map(printable, columns))
