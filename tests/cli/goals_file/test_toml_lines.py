import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widemargin.cli.goals_file.toml_lines import TomlLines

TEXT = '''# first
[data]
table = "a.csv"   # [no.section]
"odd key" = 1
list = [
  "x", # ] = [
  { a = 1 },
]
split = { column = "c", "train" = "= a",
  test = 'b' }
[goal]
text = """
one
two \\
   three\\tfour
"""
same = "in\\u0041line"
[goal.audit]
a.b."c.d" = true
[[many]]
x = 1
[[many]]
x = 2
'''.replace('"= a",\n ', '"= a",')


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("data", 2), ("data/table", 3), ("data/odd key", 4), ("data/list", 5), ("data/split", 9),
        ("data/split/column", 9), ("data/split/train", 9), ("data/split/test", 9), ("goal", 10), ("goal/text", 11),
        ("goal/same", 16), ("goal/audit", 17), ("goal/audit/a", 18), ("goal/audit/a/b", 18), ("goal/audit/a/b/c.d", 18),
        ("many", 19), ("many/x", 20), ("data/absent", 2), ("data/split/absent", 9), ("absent/too", None),
    ],
)  # fmt: skip
def test_keys_have_lines(path, line):
    tomllib.loads(TEXT)
    assert TomlLines(TEXT).line(path.split("/")) == line


def test_every_character_of_a_text_has_its_place():
    lines, value = TomlLines(TEXT), tomllib.loads(TEXT)["goal"]["text"]
    assert value == "one\ntwo three\tfour\n"
    places = {
        (1, 1): (12, 1), (1, 3): (12, 3), (2, 1): (13, 1), (2, 5): (14, 4), (2, 10): (14, 9), (2, 11): (14, 11),
    }  # fmt: skip
    assert {place: tuple(lines.place_in(["goal", "text"], value, *place)) for place in places} == places
    assert lines.place_in(["goal", "same"], "inAline", 1, 4) == (16, 17)
    assert lines.place_in(["goal", "same"], "inAline", 1, 99) == (16, 20)
    assert lines.place_in(["goal", "same"], "another", 1) is None
    assert lines.place_in(["goal", "none"], "x", 1) is None
    assert lines.place_in(["goal", "audit", "a", "b", "c.d"], "x", 1) is None
    windows = TomlLines(TEXT.replace("\n", "\r\n"))
    assert windows.place_in(["goal", "text"], value, 2, 1) == (13, 1)
    assert windows.text.split("\n")[2] == 'table = "a.csv"   # [no.section]'


KEYS = st.one_of(st.text("ab-_1", min_size=1, max_size=4), st.text("a.\"'\\ =[]{}#é\n", max_size=4))
TEXTS = st.text("ab\n\"'\\ \t#=[]{}é", max_size=12)


def quoted(text):
    made = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{made}"'


def long(text):
    made = "\n" + text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').replace("\t", "\\t")
    return '"""' + (made[:-1] + '\\"' if made.endswith('"') else made) + '"""'


VALUES = st.one_of(
    st.integers().map(str),
    st.booleans().map(lambda value: str(value).lower()),
    TEXTS.map(quoted),
    TEXTS.map(long),
    st.lists(TEXTS.map(long), max_size=3).map(lambda items: "[ # ]\n" + ",\n".join(items) + "]"),
)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), max_size=4), st.data())
def test_lines_of_written_files(sections, data):
    """The writer knows where it puts each key."""
    written, expected = "", {}
    for name, table in sections.items():
        written += data.draw(st.sampled_from(["", "\n", "# [x]\n"]))
        if data.draw(st.booleans()):
            expected[name,] = written.count("\n") + 1
            written += f" [ {quoted(name)} ]\n"
            for key, value in table.items():
                expected[name, key] = written.count("\n") + 1
                written += f'{quoted(key)} = {value} # = "\n'
        elif not any(header.startswith(" [") for header in written.split("\n")):  # dotted and inline keys of the root
            expected[name,] = written.count("\n") + 1
            pairs = []
            for key, value in table.items():
                value = value if "\n" not in value else "0"
                expected[name, key] = written.count("\n") + 1
                pairs.append(f"{quoted(key)} = {value}")
            written += f"{quoted(name)} = {{{', '.join(pairs)}}}\n"
    tomllib.loads(written)
    lines = TomlLines(written)
    assert {path: lines.line(path) for path in expected} == expected
    assert set(lines.keys) == set(expected)


@given(TEXTS, st.sampled_from([quoted, long]), st.data())
def test_characters_of_written_texts(text, style, data):
    written = f"# é\nkey = {style(text)}\n"
    value = tomllib.loads(written)["key"]
    lines = TomlLines(written)
    if not value:
        assert lines.place_in(["key"], value, 1) is None
        return
    index = data.draw(st.integers(0, len(value) - 1))
    line, column = value.count("\n", 0, index) + 1, index - value.rfind("\n", 0, index)
    place = lines.place_in(["key"], value, line, column)
    found = lines.text.split("\n")[place.line - 1][place.column - 1 :] or "\n"
    assert found[0] == "\\" if found[0] != value[index] else True


@given(st.text("[]{}=.\"'\\#\n\t a1,@", max_size=40))
def test_the_scanner_ends_on_any_text(text):
    lines = TomlLines(text)
    assert all(lines.line(path) <= text.count("\n") + 1 for path in lines.keys)
    TomlLines("a = {" + text)
    TomlLines("a = [" + text)


def test_deep_nesting_is_left_alone():
    assert TomlLines("a = " + "[" * 20_000).line(["a"]) == 1
