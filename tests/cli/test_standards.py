"""`widemargin audit FILE --standard ll144`: what is guessed, printed, written and refused."""

import csv
import hashlib
import json
from pathlib import Path

import jsonschema
import pytest

from widemargin.cli.main import main
from widemargin.cli.standards import PREDICATE, ll144_schema

ROOT = Path(__file__).parents[2]
LINES = [
    "name,gender,ethnicity,hired,score",
    *(f"p{j},{'F' if j % 2 else 'M'},{'A' if j % 3 else 'B'},{'yes' if j % 5 < 3 else 'no'},{j}" for j in range(60)),
    "q1,,A,yes,3",
    "q2,F,not asked,no,70",
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("\n".join(LINES) + "\n")
    return path


def run(capsys, *arguments):
    code = main(["audit", *map(str, arguments), "--standard", "ll144"])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_what_is_guessed_is_said(table, capsys):
    code, out, err = run(capsys, table, "--unknown", "not asked")
    assert (code, err) == (0, "")
    for text in ("outcome: column 'hired'", "sex: column 'gender'", "race: column 'ethnicity'", "outcome 'yes'"):
        assert text in out
    assert "Sex and race/ethnicity" in out and "Unknown: 2 people" in out
    text = table.read_text()
    for name in ("received_callback", "approved"):
        table.write_text(text.replace("hired", name, 1))
        assert f"outcome: column {name!r}" in run(capsys, table)[1]


def test_odd_spellings_and_values_are_told(tmp_path, capsys):
    path, text = tmp_path / "people.csv", "\n".join(LINES[:-2]) + "\n"
    path.write_text(text.replace(",F,", ",female,", 5).replace(",F,", ",Female,").replace("no", "?", 2))
    _, out, err = run(capsys, path)
    assert "outcome 'yes', guessed by the word, and not '?', 'no'; name another" in out
    assert "column 'gender' has 3 values, and 2 by case and blanks: 'female', 'Female'" in err
    path.write_text(text.replace("yes", "1.0").replace("no", "0.0"))
    assert run(capsys, path)[0] == 0
    path.write_bytes(text.replace(",A,", ",Ä,").encode("latin-1"))
    assert "column 'ethnicity' holds bytes that are no UTF-8 text. Save the file" in run(capsys, path)[2]


def test_scores_beside_texts_and_codes_of_unknown_categories_are_told(tmp_path, capsys):
    path, text = tmp_path / "people.csv", "\n".join(LINES[:-2]) + "\n"
    path.write_text(text.replace(",59\n", ",n/a!\n"))
    said = "column 'score' holds scores and 'n/a!'. Write decimals after a point, and leave cells without a score empty"
    assert said in run(capsys, path, "--outcome", "score")[2]
    rows = [f"{j % 2};{j % 3};0,{j}" for j in range(60)]
    path.write_text("\n".join(["sex;race;score", *rows]) + "\n")
    assert "column 'score' holds scores and decimal commas" in run(capsys, path, "--separator", ";")[2]
    path.write_text(text.replace(",A,", ",1,").replace(",B,", ",2,", 10).replace(",B,", ",99,"))
    said = "column 'ethnicity' holds 99 in 10 of 60 rows: if it stands for no value, name it by --unknown"
    assert said in run(capsys, path)[2]
    out, err = run(capsys, path, "--unknown", "99")[1:]
    assert err == "" and "Unknown: 10 people" in out


def test_all_files_say_the_same(table, capsys, tmp_path):
    model = tmp_path / "model.bin"
    model.write_bytes(b"a model")
    endings = {"report-json": "json", "html": "html", "csv": "csv", "model-card": "md", "in-toto": "intoto.json"}
    files = {key: tmp_path / f"out.{ending}" for key, ending in endings.items()}
    options = [part for key, path in files.items() for part in (f"--{key}", path)]
    code, out, _ = run(
        capsys, table, "--json", "--outcome", "score", "--unknown", "not asked", "--tool", "screen | <b>", "--source",
        "made <up>", "--about", model, *options,
    )  # fmt: skip
    content = json.loads(out)
    assert content == json.loads(files["report-json"].read_text()) and content["exit_code"] == code
    jsonschema.Draft202012Validator(ll144_schema()).validate(content)
    assert content["report"]["kind"] == "scoring"
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    sexes = content["report"]["tables"][0]["categories"]
    assert [float(row["impact_ratio"]) for row in rows[:2]] == pytest.approx([item["impact_ratio"] for item in sexes])
    assert "made &lt;up&gt;" in files["html"].read_text() and "<b>" not in files["html"].read_text()
    head = files["model-card"].read_text().split("---")[1]
    index = json.loads(head.removeprefix("\nmodel-index: "))
    assert index[0]["name"] == "screen | <b>"
    assert index[0]["results"][0]["metrics"][0]["value"] == sexes[0]["impact_ratio"]
    stated = json.loads(files["in-toto"].read_text())
    assert (stated["_type"], stated["predicateType"]) == ("https://in-toto.io/Statement/v1", PREDICATE)
    hashes = {item["name"]: item["digest"]["sha256"] for item in stated["subject"]}
    assert hashes == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (table, model)}
    assert stated["predicate"]["result"] == content and stated["predicate"]["options"]["outcome"] == "score"
    assert stated["predicate"]["options"]["unknown"] == ["not asked"]  # also options that are lists, and paths
    assert stated["predicate"]["options"]["csv"] == str(files["csv"])


def test_the_exit_code_is_that_of_four_fifths(tmp_path, capsys):
    path = tmp_path / "few.csv"
    path.write_text("sex,race,selected\n" + "F,A,1\nF,A,0\nM,A,1\nM,A,1\n" * 5)
    assert run(capsys, path)[0] == 1


def test_the_file_in_the_repository_is_the_schema(capsys):
    code = main(["audit", "--standard", "ll144", "--schema"])
    schema = json.loads(capsys.readouterr().out)
    stored = (ROOT / "docs/ll144.schema.json").read_text(encoding="utf-8")
    text = "run: widemargin audit --standard ll144 --schema > docs/ll144.schema.json"
    assert code == 0 and json.loads(stored) == schema, text
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(("options", "text"), [
    (["--outcome", "hird"], "no column 'hird' (--outcome). Did you mean 'hired'?"),
    (["--sex", "name"], "has 62 values"),
    (["--favourable", "maybe"], "none of them is 'maybe', which counts as selected. Name one by --favourable"),
    (["--rows", "test"], "--rows: 1 option(s) have no meaning with --standard"),
    (["--in-toto", "s.json", "--about", "nowhere.bin"], "nowhere.bin: the file cannot be read"),
])  # fmt: skip
def test_errors_name_the_thing(table, capsys, monkeypatch, tmp_path, options, text):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, table, *options)
    assert (code, out) == (2, "") and text in err


def test_what_is_missing_is_asked_for(tmp_path, capsys):
    path = tmp_path / "plain.csv"
    path.write_text("a,b\n1,2\n")
    assert "no name of a column says that it holds the outcome; there are 'a', 'b'" in run(capsys, path)[2]
    assert "no table was named" in run(capsys)[2]
    assert main(["audit", "goals.toml", "--model", "m.skops", "--html", "x.html"]) == 2
    assert "--html: 1 option(s) belong to audits with --standard" in capsys.readouterr().err
    assert main(["audit", "--model", "m.skops"]) == 2
    assert "no goals file was named" in capsys.readouterr().err


OUTPUTS = ["--html", "--csv", "--model-card", "--report-json", "--in-toto"]


@pytest.mark.parametrize("option", OUTPUTS)
def test_no_output_replaces_what_is_read_or_another_output(option, table, capsys, tmp_path):
    before, other = table.read_bytes(), tmp_path / "about.txt"
    other.write_text("read, too")
    for arguments in ([option, table], ["--about", other, option, other], ["--html", "a.x", "--csv", "a.x"]):
        code, _, err = run(capsys, table, *arguments)
        assert code == 2
        assert "would be replaced" in err
    assert (table.read_bytes(), other.read_text()) == (before, "read, too")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sex", "ethnicity"], "column 'ethnicity' is taken for sex and for race"),
        (["--date", "2026-13-45"], "--date is '2026-13-45', which is no date"),
        (["--distributed", "soon"], "--distributed is 'soon', which is no date"),
    ],
)
def test_two_roles_of_a_column_and_dates_that_are_none(arguments, said, table, capsys):
    code, _, err = run(capsys, table, *arguments)
    assert code == 2
    assert said in err


def test_where_no_ratio_is_defined_nothing_has_passed(capsys, tmp_path):
    path = tmp_path / "nobody.csv"
    path.write_text("sex,race,selected\n" + 2 * "M,W,0\nF,B,0\nF,W,0\nM,B,0\n,,1\n")
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, path, "--html", page)
    assert code == 1
    assert "No impact ratio" in out and "can turn 8 verdicts" in " ".join(out.split())
    assert "Every impact ratio" not in page.read_text()


def test_infinite_scores_are_refused(capsys, tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("sex,race,score\nM,W,1\nF,B,2\nF,W,3\nM,B,inf\n")
    code, _, err = run(capsys, path)
    assert code == 2
    assert "1 outcomes are infinite" in err
