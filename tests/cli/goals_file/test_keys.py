"""The schema for editors, the documentation and the reader say the same."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

from widemargin.cli.goals_file import keys as goals_kinds
from widemargin.cli.goals_file.keys import Entry, GoalsFile, Key, Kind, entries, goals_schema
from widemargin.cli.goals_file.reader import read_values
from widemargin.cli.main import main

ROOT = Path(__file__).parents[3]
SCHEMA = goals_schema()


def documented_keys(record: type = GoalsFile, prefix: str = "") -> dict[str, Entry]:
    """All keys by their full names, `NAME` standing for a name that the user chooses."""
    keys: dict[str, Entry] = {}
    for entry in entries(record):
        if isinstance(entry.part, Key):
            keys[prefix + entry.name] = entry
        else:
            below = f"{prefix}{entry.name}.NAME." if entry.part.named else f"{prefix}{entry.name}."
            keys |= documented_keys(entry.part.record, below)
    return keys


KINDS = {name: value for name, value in vars(goals_kinds).items() if isinstance(value, Kind)}
KINDS["ONE_OF"] = goals_kinds.one_of("a", "b")

VALUES = [
    "", "a", "b", "scale", "m:f", "a.b:c_1", "1a:f", "a:b:c", "é:f", 0, 1, 2, 100, 101, 1001, -1, 0.0, 0.5, 0.2, 2.5,
    True, False, [], ["a"], ["a", "b"], ["a", "a"], [""], [1], ["a", 1], {}, {"a": 1}, [[]],
]  # fmt: skip


def accepted(kind, value):
    try:
        kind.check(value)
    except ValueError:
        return False
    return True


def test_the_file_in_the_repository_is_the_schema(capsys):
    assert main(["check", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
    stored = (ROOT / "docs/goals-file.schema.json").read_text(encoding="utf-8")
    assert json.loads(stored) == SCHEMA, "run: widemargin check --schema > docs/goals-file.schema.json"
    assert main(["check", "--schema", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == SCHEMA


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", sorted({*KINDS} - {"GOAL"}))  # JSON Schema cannot tell a goal from another text
def test_reader_and_schema_agree_on_values(name):
    kind = KINDS[name]
    validator = jsonschema.Draft202012Validator(kind.schema)
    # no 2.0 among the values: JSON Schema takes it for an integer, and TOML does not
    told = {repr(value): (accepted(kind, value), validator.is_valid(value)) for value in VALUES}
    assert {value: answers for value, answers in told.items() if answers[0] != answers[1]} == {}
    assert any(answers[0] for answers in told.values()) and not all(answers[0] for answers in told.values())


FILES = {
    "example": (ROOT / "examples" / "adult.toml").read_text(),
    "all": """
[data]
table = ["a.csv", "b.csv"]
target = "y"
positive = 1
protected_as_features = ["sex"]
[external.traffic]
table = "t.parquet"
target = "z"
[baselines.old]
model = "old.skops"
[baselines.new]
function = "m:f"
[goal]
text = "minimize error_rate()"
[model]
rare_words = 20
[validation]
fraction = 0.3
[output]
report = "r.html"
""",
}


@pytest.mark.parametrize("name", FILES)
def test_goals_files_validate(name):
    table = tomllib.loads(FILES[name])
    assert not read_values(table)[1]
    jsonschema.Draft202012Validator(SCHEMA).validate(table)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[data]", "[dat]"),
        ('target = "y"', ""),
        ('target = "y"', "target = 1"),
        ('table = ["a.csv", "b.csv"]', "table = []"),
        ("[goal]", "[gaol]"),
        ('model = "old.skops"', ""),
        ('model = "old.skops"', 'model = "old.skops"\ncolumn = "x"'),
        ('table = "t.parquet"', ""),
        ("fraction = 0.3", "fraction = 1"),
        ("fraction = 0.3", "folds = 1"),
        ("rare_words = 20", "rare_word = 20"),
        ("[output]", "[output.more]"),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(old, new):
    assert old in FILES["all"]
    table = tomllib.loads(FILES["all"].replace(old, new))
    assert read_values(table)[1]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(table)


def test_every_key_is_documented_with_its_default():
    text = (ROOT / "docs/goals-file.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([A-Za-z0-9_.]+)` \|.*\| ?(.*?) ?\|$", text, re.MULTILINE))
    keys = documented_keys()
    assert set(keys) == set(rows) - {"data.split"}
    for name, key in keys.items():
        if isinstance(key.default, int | float) and not isinstance(key.default, bool):
            assert rows[name].startswith(f"{key.default:g}"), name
        elif isinstance(key.default, str):
            assert rows[name] == f'`"{key.default}"`', name


def test_keys_have_descriptions():
    assert all(len(entry.part.about) > 5 for entry in documented_keys().values())
    assert SCHEMA["properties"]["data"]["description"].endswith(".")
