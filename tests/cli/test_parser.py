"""The table of options in the documentation is that of the parser, and it understands every command shown."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from widemargin.cli.parser import make_parser

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "goals-file.md").read_text(encoding="utf-8")


def options():
    """By command, its long options."""
    (commands,) = (item for item in make_parser()._actions if isinstance(item, argparse._SubParsersAction))
    return {
        name: {option for action in parser._actions for option in action.option_strings}
        for name, parser in commands.choices.items()
    }


def test_the_table_of_options_is_true():
    found = options()
    head, _, *rows = re.search(r"(?ms)^\| Option \| init .*?(?=^$)", TEXT)[0].splitlines()
    commands = [cell.strip() for cell in head.strip("|").split("|")][1:]
    assert commands == list(found)
    listed = set()
    for row in rows:
        names, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        for name in re.findall(r"--[a-z-]+", names):
            listed.add(name)
            has = {command for command, cell in zip(commands, cells, strict=True) if cell == "yes"}
            assert has == {command for command in commands if name in found[command]}, name
    own = {
        "--help",
        "--model",
        "--models",
        "--predictions",
        "--out",
        "--force",
    }  # shown above
    shared = {name for name in set().union(*found.values()) if sum(name in each for each in found.values()) > 1}
    assert {name for name in shared if name.startswith("--")} == listed | (own & shared)


def test_the_commands_of_the_documentation_are_those_of_the_parser():
    shown = re.findall(r"(?m)^    widemargin (\w+) ", TEXT[TEXT.index("## Commands") :])
    assert list(dict.fromkeys(shown)) == list(options())


PAGES = [path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if "_build" not in path.parts]
COMMANDS = {
    f"{path.relative_to(ROOT)}: {line}": line
    for path in PAGES
    for line in re.findall(
        r"(?m)^(?:    |\$ )?widemargin ([a-z].*)$", re.sub(r"\\\n\s*", "", path.read_text(encoding="utf-8"))
    )
    if not re.search(r"\[|\.\.\.| [A-Z]{2,}", line.partition("#")[0])  # a form with places to fill in
}


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_every_command_that_a_page_shows_is_understood(line, capsys):
    try:
        make_parser().parse_args(shlex.split(line, comments=True))
    except SystemExit as end:
        raise AssertionError(capsys.readouterr().err) from end


def test_commands_are_found_on_the_pages():
    assert len(COMMANDS) > 15
