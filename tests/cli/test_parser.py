"""The table of options in the documentation is that of the parser."""

import argparse
import re
from pathlib import Path

from widemargin.cli.parser import make_parser

TEXT = (Path(__file__).parents[2] / "docs" / "goals-file.md").read_text(encoding="utf-8")


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
