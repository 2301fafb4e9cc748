"""`widemargin audit FILE --standard ll144`: the tables that a law asks for, from decisions or scores alone."""

import argparse
import dataclasses
import json
import types
import typing
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widemargin import __version__
from widemargin._text import close_match, listing
from widemargin.cli.checks.column_checks import several_spellings, stands_for_none
from widemargin.cli.checks.vocabulary import AFFIRMATIVE, GOOD_VALUES, PROTECTED, is_one_of, matching_kind
from widemargin.cli.console import Progress, say
from widemargin.cli.goals_file.rules import refuse_to_replace
from widemargin.cli.parser import refuse_options
from widemargin.cli.reports import FORMAT, statement, write_json, write_text
from widemargin.cli.tables.csv_reading import likely_numbers
from widemargin.cli.tables.table_files import TableBlocks, table_files
from widemargin.cli.tables.table_writing import write_table
from widemargin.diagnostics import BiasAudit, local_law_144
from widemargin.exceptions import DataError, TableWarning

_OUTCOMES = {
    "decision": "selected hired hire advanced moved_forward shortlisted invited callback* interviewed offered decision "
    "decided outcome passed approved accepted admitted",
    "score": "score* rating* rank* prediction* predicted",
}
"""Words in the names of columns of decisions and of scores."""
_SELECTED = f"{AFFIRMATIVE} {GOOD_VALUES} selected advanced shortlisted invited"
PREDICATE = "urn:widemargin:bias-audit:ll144:1"
"""The predicate type of the in-toto statement; the documentation describes it."""

_OPTION_OF = {"selected=": "--favourable", "audit_date": "--date", "distribution_date": "--distributed"}
"""How the command line calls what messages of the audit name."""

_OF_GOALS = (
    "--key", "--model-positive", "--trust-code", "--data", "--rows", "--workers", "--time-budget", "--junit",
    "--allow-code", "--allow-outside", "--missing-groups",
)  # fmt: skip


def run(options: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    """Measure, print and write; the exit code and the content for --json."""
    refuse_options(options, _OF_GOALS, "have no meaning with --standard")
    if options.schema:
        schema = ll144_schema()
        say(json.dumps(schema, indent=1))
        return 0, {"schema": schema}
    path: Path | None = options.goals
    if path is None:
        raise DataError("no table was named. Name a CSV or Parquet file of decisions or scores, or ask for --schema")
    refuse_to_replace(options)
    with Progress() as progress:
        progress.step("reading the table")
        blocks = TableBlocks(path, separator=options.separator)
        columns, guessed = _columns(blocks.names, options, path)
        table = pa.concat_tables([block.table.select([*columns.values()]) for block in blocks.read(columns.values())])
        for text in _oddities(table, columns, options, path):
            warnings.warn(text, TableWarning, stacklevel=2)
        outcome, selected, why = table[columns["outcome"]], options.favourable, None
        if selected is None and pa.types.is_string(outcome.type):  # numbers or true and false tell it themselves
            values = [value for value in pc.unique(outcome).to_pylist() if value is not None]
            likely = [value for value in values if is_one_of(_SELECTED, value)]
            # Where several words are likely, or none, the audit asks for one and lists the values.
            if len(likely) == 1:
                selected, others = likely[0], listing([value for value in values if value != likely[0]], 5)
                why = f"selected: outcome {selected!r}, guessed by the word, and not {others}"
                why += "; name another by --favourable"
        progress.step("counting")
        try:
            audit = local_law_144(
                *(table[columns[role]] for role in ("outcome", "sex", "race")), selected=selected,
                unknown=options.unknown or (), leave_out_small=options.leave_out_small, decide=options.decide,
                data_name=path.name, audit_date=options.date, source=options.source,
                distribution_date=options.distributed,
            )  # fmt: skip
        except DataError as error:
            named = ", ".join(f"{role} {name!r}" for role, name in columns.items())
            text = str(error)
            for argument, option in _OPTION_OF.items():
                text = text.replace(argument, option)
            raise DataError(f"{path} (columns taken: {named}): {text}") from error
        document = {
            "format": FORMAT, "command": "audit", "standard": options.standard, "widemargin": __version__,
            "data": str(path), "columns": columns, "passed": audit.passed, "exit_code": audit.exit_code,
            "report": audit.to_dict(),
        }  # fmt: skip
        _write(audit, document, path, options)
    said = [f"{role}: column {columns[role]!r}, guessed by its name; name another by --{role}" for role in guessed]
    say(*said, *([] if why is None else [why]), *([""] if said or why else []), str(audit))
    return audit.exit_code, document


def _columns(names: Sequence[str], options: argparse.Namespace, path: Path) -> tuple[dict[str, str], list[str]]:
    """The column of the outcome, of sex and of race or ethnicity, and which of them were guessed.

    Raises
    ------
    DataError
        A column that was named is not there, or none has a likely name.
    """
    columns, guessed = dict[str, str](), list[str]()
    for role, patterns in (
        ("outcome", _OUTCOMES),
        ("sex", {"sex": PROTECTED["sex"]}),
        ("race", {"race": PROTECTED["race"]}),
    ):
        named: str | None = getattr(options, role)
        likely = {name: kind for name in names if (kind := matching_kind(patterns, name)) is not None}
        if named is None and not likely:
            raise DataError(
                f"{path}: no name of a column says that it holds the {role}; there are {listing(names, 20)}. "
                f"Name it by --{role}"
            )
        if named is not None and named not in names:
            near = close_match(named, names)
            raise DataError(f"{path}: there is no column {named!r} (--{role}).{near} It has {listing(names, 20)}")
        guessed += [role] if named is None else []
        # A table that has both says by its decisions what was done.
        columns[role] = named or min(likely, key=lambda name: [*patterns].index(likely[name]))
        twice = [other for other, column in columns.items() if column == columns[role] and other != role]
        if twice:
            raise DataError(
                f"{path}: column {columns[role]!r} is taken for {twice[0]} and for {role}. Name another one by "
                f"--{twice[0]} or --{role}"
            )
    return columns, guessed


def _oddities(table: pa.Table, columns: Mapping[str, str], options: argparse.Namespace, path: Path) -> list[str]:
    """Values in several spellings, and numbers that often stand for no category.

    Raises
    ------
    DataError
        A column holds bytes, or scores beside texts.
    """
    told = []
    for role, name in columns.items():
        column = table[name]
        if pa.types.is_binary(column.type):
            raise DataError(f"{path}: column {name!r} holds bytes that are no UTF-8 text. Save the file as UTF-8")
        told += [f"column {name!r} {text}" for text in [several_spellings(column)] if text]
        if role == "outcome" and options.favourable is None:
            how = likely_numbers(table.select([name]))
            texts = [*map(repr, how["missing"]), *(["decimal commas"] if how["decimal"] == "," else [])]
            if texts:
                raise DataError(
                    f"{path}: column {name!r} holds scores and {' and '.join(texts)}. Write decimals after a point, "
                    "and leave cells without a score empty"
                )
        elif role != "outcome" and not pa.types.is_string(column.type):
            named = pc.is_in(column.cast(pa.string()), pa.array(options.unknown or (), pa.string()))
            text = stands_for_none(column.filter(pc.invert(named))).replace("in data.missing", "by --unknown")
            told += [f"column {name!r} {text}"] if text else []
    return told


def _write(audit: BiasAudit, document: dict[str, Any], path: Path, options: argparse.Namespace) -> None:
    """Write all files that the options name."""
    write_json(document, options.report_json)
    if options.html is not None:
        from widemargin.report import bias_audit_page  # not needed, and slow to import, without a page

        title = "Bias audit under Local Law 144" + ("" if options.tool is None else f": {options.tool}")
        write_text(bias_audit_page(audit, title=title).text, options.html, "page")
    if options.csv is not None:
        write_table(pa.Table.from_pylist(audit.rows()), options.csv)
    if options.model_card is not None:
        from widemargin.report import bias_audit_card

        write_text(bias_audit_card(audit, model_name=options.tool or path.stem), options.model_card, "model card")
    if options.in_toto is not None:
        write_json(statement(PREDICATE, document, options, table_files(path)), options.in_toto)


def ll144_schema() -> dict[str, Any]:
    """JSON Schema of what --json prints and --report-json writes, made from the records."""
    text, flag = {"type": "string"}, {"type": "boolean"}
    report = _schema_of(BiasAudit)
    report["properties"]["format"] = {"const": 1}
    report["required"].append("format")
    properties = {
        "format": {"const": FORMAT}, "command": {"const": "audit"}, "standard": {"const": "ll144"}, "widemargin": text,
        "data": text, "columns": _object(dict.fromkeys(("outcome", "sex", "race"), text)), "passed": flag,
        "exit_code": {"enum": [0, 1]}, "report": report,
    }  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bias audits of widemargin under Local Law 144",
        **_object(properties),
    }


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": [*properties], "additionalProperties": False, "properties": {**properties}}


def _schema_of(kind: object) -> dict[str, Any]:
    """JSON Schema of a type: records, tuples, unions, literals and plain values."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {"description": (kind.__doc__ or "").partition("\n")[0]} | _object(
            {field.name: _schema_of(hints[field.name]) for field in dataclasses.fields(kind)}
        )
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return {"type": "array", "items": _schema_of(inside[0])}
    if origin is typing.Literal:
        return {"enum": [*inside]}
    if origin is types.UnionType:
        return {"anyOf": [_schema_of(part) for part in inside]}
    names: dict[object, str] = {
        str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null",
    }  # fmt: skip
    return {"type": names[kind]}
