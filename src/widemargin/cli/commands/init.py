"""`widemargin init TABLE`: a first goals file, guessed from the table, with the reason for every line."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from widemargin._text import column_names, listing, printable
from widemargin.cli.checks.guesses import Guesses, guess_roles
from widemargin.cli.checks.proposals import (
    OPTIONS,
    PlainModel,
    Proposal,
    doubts,
    groups_to_watch,
    propose,
    proposed_goal,
)
from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.reader import read_goals_file
from widemargin.cli.goals_file.rules import refuse_to_replace
from widemargin.cli.reports import write_text
from widemargin.cli.tables.column_roles import split_rows
from widemargin.cli.tables.csv_reading import CSV_ENDINGS, CsvFormat, likely_numbers, likely_separator
from widemargin.cli.tables.table_files import read_table
from widemargin.exceptions import DataError
from widemargin.goals import Population
from widemargin.preprocessing.schema import is_number

_HELD_OUT = 0.25


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Look at the table and write the file; the exit code and the content for --json."""
    out: Path = options.out
    if out.exists() and not options.force:
        raise DataError(f"{out} exists already and is not replaced. Name another file by --out, or add --force")
    refuse_to_replace(options)
    if out.suffix.lower() != ".toml":  # --force would replace a table or a model without a question
        raise DataError(f"{out}: --out names the goals file to write. Give a name that ends in .toml")
    with Progress() as progress:
        progress.step("looking at the table")
        table, how = _read(options.table, options.separator)
    # Questions only where a person can answer them: at a terminal, and not with JSON output.
    ask = answer if sys.stdin is not None and sys.stdin.isatty() and not options.json else None
    guesses = guess_roles(table, options.target, str(options.table), favourable=options.favourable, ask=ask)
    train = split_rows(table, guesses.split, str(out), fraction=_HELD_OUT, needed=guesses.target)["train"].table
    with Progress() as progress:
        progress.step("fitting models to see what can be asked")
        plain, proposals, left_out = propose(train, guesses, progress.step)
    cautions, watched = doubts(train, guesses, plain), groups_to_watch(train, guesses, proposals)
    try:
        place = Path(os.path.relpath(options.table, out.parent)).as_posix()
    except ValueError:  # on another drive
        place = options.table.resolve().as_posix()
    lines = [*_data_lines(guesses, place, how), *_goal_lines(guesses, plain, proposals, left_out, watched)]
    lines += _model_lines(plain, cautions, out.stem)
    write_text("\n".join(lines) + "\n", out, "file")
    read_goals_file(out)  # what is written is read again, lest it be refused later
    goal = str(proposed_goal(proposals, promised=False, watched=watched))
    say(
        f"Target: {guesses.target} ({guesses.why_target}); {_positive(guesses)}",
        f"Protected: {column_names(guesses.protected) or 'none found'}",
        *(f"  {column_names([name])} {printable(why)}; if not, take it out" for name, why in guesses.alike.items()),
        f"Features: {column_names(guesses.features)}",
    )
    if guesses.earlier:
        say(f"Decisions of an earlier model, by their names: {column_names(guesses.earlier)}")
    say(*(f"Read with {printable(line)}" for line in _format_lines(how)))
    if guesses.n_unlabelled:
        say(f"Left out: {_unlabelled(guesses)}")
    if guesses.ignore:
        say("Ignored:", *(f"  {line}" for line in _ignored(guesses)))
    say("Goal:", *(f"  {line}" for line in goal.split("\n")))
    say(*(f"Asked: {column_names([item.column])}, {item.name}: {printable(item.why)}" for item in proposals))
    say(*(f"Not asked: {printable(text)}" for text in left_out))
    say(*(f"Caution: {printable(text)}." for text in cautions))
    say(f"Saved as {out}. Read it, then: widemargin train {out}")
    told = ("target", "positive", "why_positive", "alike", "n_unlabelled", "ignore", "earlier", "features")
    return 0, {
        "goals_file": str(out),
        **{name: getattr(guesses, name) for name in told},
        "protected": list(guesses.protected),
        "goal": goal,
        "left_out": left_out,
        "cautions": cautions,
    }


def _unlabelled(guesses: Guesses) -> str:
    """How many rows cannot be learned from."""
    return f"{guesses.n_unlabelled} rows without a value of {column_names([guesses.target])}"


def _positive(guesses: Guesses) -> str:
    """Which class is the positive one, and why, or why none is."""
    return (
        guesses.why_positive if guesses.positive is None else f"positive: {guesses.positive!r}, {guesses.why_positive}"
    )


def answer(question: str, answers: Sequence[str]) -> str:
    """Ask on the terminal until one of the answers, or nothing for the first one, is given; DataError at its end."""
    while True:
        listed = ", ".join(f"{number}: {text!r}" for number, text in enumerate(map(printable, answers), 1))
        try:
            given = input(f"{printable(question)} {listed} [1]: ").strip()
        except EOFError:
            raise DataError(
                f"\n{printable(question)} This was not answered, so no file is written. Answer it, or take the careful "
                "answers by `widemargin init ... </dev/null`"
            ) from None
        if not given:
            return answers[0]
        if given in answers:
            return given
        if given.isdecimal() and 1 <= int(given) <= len(answers):
            return answers[int(given) - 1]
        say(f"{given!r} is none of the answers. Give a number from 1 to {len(answers)}, or press Enter for 1.")


def _read(path: Path, separator: str | None) -> tuple[pa.Table, CsvFormat]:
    """The table, and the format of its CSV file where the file name does not tell it.

    Raises
    ------
    DataError
        The first line of a CSV file seems to be a row, or its fields were not taken apart.
    """
    how: CsvFormat = {"separator": separator}
    if not (path.name.lower().endswith(CSV_ENDINGS) and path.is_file()):
        return read_table(path, **how), {}
    if separator is None:
        usual, likely = likely_separator(path)
        how["separator"] = None if likely == usual else likely  # needed only if the file name does not tell
    table = read_table(path, **how)
    numbers = likely_numbers(table)
    if numbers["decimal"] != "." or numbers["missing"]:
        how |= numbers
        table = read_table(path, **how)
    if table.num_columns == 1:
        raise DataError(
            f"{path}: the table has one column, {table.column_names[0][:80]!r}. Name what stands between its fields by "
            "--separator (a blank: --separator ' '), or give a table with a target and features"
        )
    values = {name: {str(value) for value in table[name].slice(0, 1000).to_pylist()} for name in table.column_names}
    among_values = [name for name in table.column_names if name in values[name]]
    # Words may be the name of a column and one of its values, too; numbers, and most names at once, are not.
    if len(among_values) > 1 and (any(map(is_number, among_values)) or 2 * len(among_values) > table.num_columns):
        raise DataError(
            f"{path}: the first line seems to be a row, not the names of the columns: {listing(among_values[:3])} are "
            "values of their columns, too. Add a line of names"
        )
    return table, how


def _format_lines(how: CsvFormat) -> list[str]:
    """The keys by which the file is read, where it is not in the usual format."""
    lines, separator, missing = list[str](), how.get("separator"), how.get("missing", ())
    if separator is not None:
        lines.append(f"separator = {_toml(separator)}  # between the fields of a line")
    if how.get("decimal") == ",":
        lines.append('decimal = ","  # before the decimals of its numbers')
    if missing:
        lines.append(f"missing = {_toml(list(missing))}  # texts that stand for no value in columns of numbers")
    return lines


def _ignored(guesses: Guesses) -> Iterator[str]:
    """Why columns are left out, those of one reason together: a table may have hundreds of constant ones."""
    together: dict[str, list[str]] = {}
    for name, reason in guesses.ignore.items():
        together.setdefault(printable(reason), []).append(name)
    for reason, names in together.items():
        yield f"{column_names(names, 10)}{': each' * (len(names) > 1)} {reason}"


def _data_lines(guesses: Guesses, table: str, how: CsvFormat) -> list[str]:
    """Table and roles of its columns, and which rows are held out."""
    target, why = _toml(guesses.target), printable(guesses.why_positive)
    classes = [f"target = {target}  # {guesses.why_target}", f"positive = {_toml(guesses.positive)}  # {why}"]
    if guesses.positive is None:
        classes = [f"target = {target}  # {guesses.why_target}; {why}"]
    lines = [
        "# A first goals file, guessed from the table by `widemargin init`. Read every line before you rely on it.",
        "# What the keys mean: docs/goals-file.md. Check changes by `widemargin check FILE --data`.",
        "",
        "[data]",
        f"table = {_toml(table)}  # relative to this file",
        *_format_lines(how),
        *classes,
    ]
    if guesses.n_unlabelled:
        lines.append(f'unlabelled = "drop"  # {_unlabelled(guesses)} are left out')
    if guesses.split is not None:
        column, train, test = map(_toml, (guesses.split.column, guesses.split.train, guesses.split.test))
        lines += [
            "# This column says which rows are held out; the model never learns from them.",
            f"split = {{ column = {column}, train = {train}, test = {test} }}",
        ]
    if guesses.protected:
        lines += [
            "# Attributes of people: rates may be measured by them, and the model never sees them.",
            *(
                f"#   {column_names([name])} {printable(why)}; take it out if not"
                for name, why in guesses.alike.items()
            ),
            f"protected = {_toml(list(guesses.protected))}",
        ]
    if guesses.words:
        lines += ["# Numbers that are codes of words, as their names say.", f"words = {_toml(guesses.words)}"]
    if guesses.ignore:
        reasons = (f"#   {line}" for line in _ignored(guesses))
        lines += ["# Columns that nobody uses:", *reasons, f"ignore = {_toml(list(guesses.ignore))}"]
    lines += [f"# All other columns are features: {column_names(guesses.features)}.", ""]
    if guesses.split is None:
        why = "no column says which rows to hold out, so these are drawn at random"
        lines += ["[validation]", f"fraction = {_HELD_OUT}  # {why}", ""]
    if guesses.earlier:
        named = (f"{_toml(name)} = {{ column = {_toml(name)} }}" for name in guesses.earlier)
        lines += ["[baselines]  # columns that look like decisions of an earlier model", *named, ""]
    return lines


def _goal_lines(
    guesses: Guesses,
    plain: PlainModel | None,
    proposals: list[Proposal],
    left_out: list[str],
    watched: list[Population],
) -> list[str]:
    """The goal, as training enforces it and as it is promised; what a plain model does, for who sets other bounds."""
    lines = ["[goal]  # what training enforces"]
    lines += [f"# {column_names([item.column])}, {item.name}: {printable(item.why)}" for item in proposals]
    lines += [f"# Not asked: {printable(text)}" for text in left_out]
    if plain is not None:
        lines += ["# Other bounds are yours to set. On rows that it has not seen, a plain model"]
        lines += [f"#   decides {plain.error:.2f} of the rows wrongly (the best constant: {plain.constant_error:.2f})"]
        for label, share in plain.recall.items():
            of = "" if guesses.positive is not None else f"of={printable(_toml(label))}"
            whose = "the positives" if guesses.positive is not None else printable(_toml(label))
            lines += [f"#   finds {share:.2f} of {whose}: subject to recall({of}) >= ..."]
        for name, share in plain.changed.items():
            lines += [f"#   changes {share:.2f} of the decisions: subject to churn({printable(_toml(name))}) <= ..."]
    if watched:
        lines += ["# Populations that no rule speaks of: reports show their rates all the same."]
    lines += [*_goal_text(proposals, watched, promised=False), ""]
    if proposals:
        lines += ["[goal.audit]  # what is promised for rows the model has not seen: the rules as they are named"]
        lines += [*_goal_text(proposals, watched, promised=True), ""]
    return lines


def _model_lines(plain: PlainModel | None, cautions: list[str], stem: str) -> list[str]:
    """How the model is trained, and which files are written."""
    chosen = [] if plain is None else [f"C = {plain.C!r}  # of four tried, the best over three folds"]
    bins = (
        "  # one 0/1 feature per interval of a number, so that a linear model can follow any shape; better over folds"
    )
    scale = "  # better over folds than an interval each"
    numbers = "scale" if plain is None else plain.numbers
    return [
        "[model]",
        *(f"# {printable(text)}." for text in cautions),
        '# learner = "trees"  # boosted trees in place of an SVM; then without C and numbers',
        *chosen,
        f'numbers = "{numbers}"{bins if numbers == "bins" else scale}',
        f"rare_words = {OPTIONS.rare_words}  # words of fewer rows share one feature",
        "time_budget = 60  # seconds after which the best model so far is kept",
        "",
        "[output]",
        f"model = {_toml(f'{stem}.skops')}",
        f"report = {_toml(f'{stem}.html')}",
        f"predictions = {_toml(f'{stem}-predictions.csv')}",
    ]


def _goal_text(proposals: list[Proposal], watched: list[Population], *, promised: bool) -> list[str]:
    """The goal's statements."""
    text = str(proposed_goal(proposals, promised=promised, watched=watched))
    if "'''" in text or printable(text.replace("\n", "")) != text.replace("\n", ""):
        return [f"text = {_toml(text)}"]
    return ["text = '''", *text.split("\n"), "'''"]


def _toml(value: object) -> str:
    """A value as TOML writes it: texts, numbers, true and false and lists of texts as in JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
