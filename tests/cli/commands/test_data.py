"""`widemargin data`: the list of data sets, and tables to begin with."""

import json

import pytest

from command_line import GERMAN_LOAN
from widemargin.cli.main import main
from widemargin.cli.tables.table_files import read_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "german.data").write_text(5 * (GERMAN_LOAN + GERMAN_LOAN.replace("A201 1", "A201 2")))
    monkeypatch.delenv("WIDEMARGIN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def test_the_list_says_what_is_there_and_where_it_is_looked_for(folder, capsys, monkeypatch):
    assert main(["data", "--data", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "german: here." in shown and "adult: not here." in shown and f"looked for in {folder}" in shown
    monkeypatch.setenv("WIDEMARGIN_DATA", str(folder))
    assert main(["data", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["folder"] == str(folder)
    assert content["data_sets"]["german"]["files"] == [str(folder / "german.data")]
    assert content["data_sets"]["mnist"]["here"] is False and content["data_sets"]["mnist"]["table"] is False
    monkeypatch.delenv("WIDEMARGIN_DATA")
    assert main(["data"]) == 0
    assert "no folder is named" in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--out", "sub/g.parquet"), ("--out", "g.csv.gz")])
def test_a_table_is_written(folder, capsys, options):
    assert main(["data", "german", "--data", str(folder), *options]) == 0
    out = options[-1] if options else "german.csv"
    assert f"Saved as {out}. Next: widemargin init {out}" in capsys.readouterr().out
    table = read_table(folder.parent / out)
    assert table.num_rows == 10 and table["credit_risk"].to_pylist() == ["good", "bad"] * 5
    assert main(["data", "german", "--data", str(folder), *options]) == 2
    assert "exists already and is not replaced" in capsys.readouterr().err
    assert main(["data", "german", "--data", str(folder), *options, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist"], "'mnist' is no table of rows and columns. Tables are written of adult, credit-card"),
        (["iris"], "'iris' is unknown"),
        (["adult"], "adult.data is not in"),
        (["german", "--out", "g.xlsx"], "g.xlsx: a table is written as .csv"),
    ],
)
def test_what_cannot_be_written_is_named(folder, capsys, arguments, message):
    assert main(["data", *arguments, "--data", str(folder)]) == 2
    assert message in capsys.readouterr().err
