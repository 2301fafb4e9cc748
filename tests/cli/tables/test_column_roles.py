import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from widemargin.cli.goals_file.keys import BaselineSection, DataSection, GoalSection, GoalsFile, Split
from widemargin.cli.tables.column_roles import feature_columns, require_columns, split_rows
from widemargin.cli.tables.table_files import Block, read_table
from widemargin.cli.tables.training_data import rows_of
from widemargin.exceptions import DataError
from widemargin.goals import Goal

TEXT = 'age,work,split,y\n20,own,train,no\n,NA,train,yes\n40,"NA",test,no\n'


def goals(tmp_path, *, target="y", positive="yes", baselines=None, features=None, **data):
    section = {
        "table": tmp_path / "t.csv",
        "target": target,
        "positive": positive,
        "features": features,
        "protected": ("sex",),
        "ignore": ("id",),
        "words": (),
        "split": split_by("split", "train", "test"),
    }
    earlier = {name: BaselineSection(column=column) for name, column in (baselines or {}).items()}
    data = DataSection(**{**section, **data})
    return GoalsFile(path=tmp_path, data=data, earlier=earlier, goals=GoalSection(text=Goal()))


def split_by(column, train, test):
    return Split(column=column, train=train, test=test)


@pytest.mark.parametrize("name", ["t.csv", "t.CSV", "t.csv.gz", "t.tsv", "t.tsv.gz", "t.parquet", "t.pq"])
def test_every_kind_of_table_is_read_the_same(tmp_path, name):
    (tmp_path / "plain.csv").write_text(TEXT)
    expected = read_table(tmp_path / "plain.csv")
    path = tmp_path / name
    if name.endswith(("parquet", "pq")):
        pyarrow.parquet.write_table(expected, path)
    else:
        text = (TEXT.replace(",", "\t") if "tsv" in name else TEXT).encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert read_table(path).equals(expected)


def test_missing_values_are_empty_fields_and_na_but_not_in_quotes(tmp_path):
    (tmp_path / "t.csv").write_text(TEXT)
    table = read_table(tmp_path / "t.csv")
    assert table["age"].to_pylist() == [20, None, 40]
    assert table["work"].to_pylist() == ["own", None, "NA"]


def test_columns_can_be_kept_as_text(tmp_path):
    (tmp_path / "t.csv").write_text("zip,n\n01234,1\n,2\n")
    assert read_table(tmp_path / "t.csv")["zip"].to_pylist() == [1234, None]
    assert read_table(tmp_path / "t.csv", words=["zip", "absent"])["zip"].to_pylist() == ["01234", None]


def test_quoted_fields_may_hold_line_ends_and_separators(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n"x\ny",1\n"p,q",2\n')
    assert read_table(tmp_path / "t.csv")["a"].to_pylist() == ["x\ny", "p,q"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.csv", None, r"absent\.csv: the table cannot be read \(.*No such file"),
        ("t.xlsx", b"", r"t\.xlsx: unknown kind of table\. Use \.csv"),
        ("t.csv", b"", r"t\.csv: the table cannot be read \(the file is empty\)"),
        ("t.csv", b"\xef\xbb\xbf \r\n", r"the file is empty"),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), r"it is UTF-16 or UTF-32 text\). Save it as UTF-8"),
        ("t.csv", b"a,b\n1,\x00\n", r"holds bytes 0 and is no text"),
        ("t.csv", b"a,b\n1,2\n3\n", r"row 3, '3', has 1 fields, and row 1, the names, 2\). Is it cut off"),
        ("t.csv", b"a,b\n", r"t\.csv: the table has 0 rows"),
        (
            "t.csv",
            b"a,b\n1,2\n1,2,3\n",
            r"\(row 3, '1,2,3', has 3 fields, and row 1, the names, 2\). Put fields that hold",
        ),
        ("t.csv", b"a,a\n1,2\n", r"1 column name\(s\) stand twice: 'a'"),
        ("t.csv", b"\xff\xfe\xff", r"t\.csv: the table"),
        ("t.csv.gz", b"no gzip", r"t\.csv\.gz: the table cannot be read"),
        ("t.parquet", b"no parquet", r"t\.parquet: the table cannot be read"),
    ],
)
def test_unreadable_tables_are_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(path)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_the_line_that_is_no_text_is_named(tmp_path, name):
    content = "a,b\n1,2\n3,Käse\n".encode("latin-1")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DataError, match=r"\(line 3 is no UTF-8 text, by byte 0xe4\). Save it as UTF-8"):
        read_table(tmp_path / name, words=["b"])


def test_a_folder_is_no_table(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(DataError, match=r"t\.csv: the table cannot be read"):
        read_table(tmp_path / "t.csv")


def test_features_are_what_plays_no_other_role(tmp_path):
    table = pa.table({name: [1] for name in ("id", "age", "sex", "work", "split", "y", "old")})
    assert feature_columns(table.column_names, goals(tmp_path, baselines={"deployed": "old"})) == ["age", "work"]
    assert feature_columns(table.column_names, goals(tmp_path, features=("work",))) == ["work"]


def test_rows_are_split_by_value(tmp_path):
    table = pa.table({"split": ["train", "test", None, "train", "other"], "n": [1, 2, 3, 4, 5]})
    parts = split_rows(table, split_by("split", "train", "test"), "t.csv")
    assert {name: part.table["n"].to_pylist() for name, part in parts.items()} == {"train": [1, 4], "test": [2]}
    assert list(split_rows(table, None, "t.csv")) == ["train"]
    packed = table.set_column(0, "split", table["split"].dictionary_encode())
    assert split_rows(packed, split_by("split", "train", "test"), "t.csv")["test"].table["n"].to_pylist() == [2]
    numbers = pa.table({"fold": [0, 1, 1]})
    assert len(split_rows(numbers, split_by("fold", 1, 0), "t.csv")["train"].table) == 2


@pytest.mark.parametrize("value", ["tset", 3])
def test_a_split_value_without_rows_is_named(tmp_path, value):
    table = pa.table({"split": ["train", "test"]})
    with pytest.raises(
        DataError, match=rf"t\.csv: 0 rows have {value!r} in column 'split' \(data\.split\.test\); it holds"
    ):
        split_rows(table, split_by("split", "train", value), "t.csv")


def test_baselines_get_their_own_names(tmp_path):
    table = pa.table({"y": ["no", "yes"], "old": ["yes", "no"]})
    rows = rows_of(Block.whole(table, "t.csv"), goals(tmp_path, baselines={"deployed": "old"}))
    assert rows.populations["deployed"].to_pylist() == ["yes", "no"]
    assert rows.y.tolist() == ["no", "yes"] and rows.n_rows == 2
    assert rows_of(Block.whole(table, "t.csv"), goals(tmp_path, baselines={"old": "old"})).populations.column_names == [
        "y",
        "old",
    ]
    with pytest.raises(DataError, match=r"baselines\.y reads column 'old', but there is a column 'y' too"):
        rows_of(Block.whole(table, "t.csv"), goals(tmp_path, baselines={"y": "old"}))


def test_labels_may_be_absent(tmp_path):
    assert rows_of(Block.whole(pa.table({"a": [1]}), "t.csv"), goals(tmp_path)).y is None


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(["no", "yes"], "yes"), ([0, 1], 1), ([-1.0, 1.0], 1.0), ([True, False], True), (["no", "no"], "yes")],
)
def test_labels_of_every_kind(tmp_path, labels, positive):
    rows = rows_of(Block.whole(pa.table({"y": labels}), "t.csv"), goals(tmp_path, positive=positive))
    np.testing.assert_array_equal(rows.y, labels)


@pytest.mark.parametrize(("labels", "positive"), [([0.0, 1.0, None], 1), ([0, 1, None], 1.0)])
def test_whole_numbers_are_the_labels_that_the_goals_file_writes(tmp_path, labels, positive):
    """Programs that know no missing whole number write 1.0 for 1 in a column with gaps."""
    file, block = goals(tmp_path, positive=positive), Block.whole(pa.table({"y": labels}), "t.csv")
    for rows in (rows_of(block.having("y"), file), rows_of(block, file, some_labels=True)):
        known = [label for label in rows.y.tolist() if label is not None]
        assert known == [0, 1] and {type(label) for label in known} == {type(positive)}


@pytest.mark.parametrize(
    ("labels", "positive", "message"),
    [
        (["a", "b", "c"], "a", r"t\.csv: the target 'y' has 3 classes \('a', 'b', 'c'\); two are needed"),
        (["a", "b"], "c", r"data\.positive is 'c', but the target 'y' holds 'a', 'b'"),
        ([0, 1], "1", r"data\.positive is '1', but the target 'y' holds 0, 1"),
        ([0, 1], True, r"data\.positive is True, but the target 'y' holds 0, 1"),
        (["a", None], "a", r"the target 'y' is missing in 1 of 2 row\(s\) looked at, the first is row 1"),
        ([0.0, float("nan")], 1.0, r"the target 'y' holds numbers that are not finite"),
        ([[1], [2]], 1, r"the target 'y' holds list"),
        ([0.7, 1.0], 0.7, r"the target 'y' holds 2 different values, such as 0\.7, 1\.0\. A class is"),
    ],
)
def test_labels_that_cannot_be_used(tmp_path, labels, positive, message):
    with pytest.raises(DataError, match=message):
        rows_of(Block.whole(pa.table({"y": labels}), "t.csv"), goals(tmp_path, positive=positive))


def test_absent_columns_are_named_with_their_key():
    with pytest.raises(
        DataError, match=r"t\.csv: 1 column\(s\) .* not in the table: 'sex' \(data\.protected\)\. It has 'a'"
    ):
        require_columns(["a"], {"sex": "data.protected", "a": "data.target"}, "t.csv")
