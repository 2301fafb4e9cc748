"""Tables about people, made of small files in the published formats."""

import gzip

import pytest

from widemargin.datasets import CATALOGUE, PEOPLE_FILES, load_people
from widemargin.exceptions import DataError, MissingDataError
from widemargin_papers.data.two_classes import load_ijcnn1

ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, "
    "United-States, <=50K\n"
    "50, ?, 83311, Masters, 14, Married-civ-spouse, ?, Husband, Black, Female, 0, 0, 13, ?, >50K\n"
)
COMPAS = (
    "id,sex,age,race,juv_fel_count,juv_misd_count,juv_other_count,priors_count,days_b_screening_arrest,c_charge_degree,"
    "is_recid,score_text,priors_count,two_year_recid\n"
    "1,Male,69,Other,0,0,0,3,-1,F,0,Low,9,0\n"
    "2,Female,34,Caucasian,0,0,0,0,30,M,1,High,9,1\n"
    "3,Male,24,Other,0,0,0,0,31,F,0,Low,9,0\n"
    "4,Male,24,Other,0,0,0,0,,F,0,Low,9,0\n"
    "5,Male,24,Other,0,0,0,0,1,O,0,Low,9,0\n"
    "6,Male,24,Other,0,0,0,0,1,F,-1,Low,9,0\n"
    "7,Male,24,Other,0,0,0,0,1,F,0,N/A,9,0\n"
    "8,Male,24,Other,0,0,0,0,1,F,0,Medium,9,0\n"
)
CREDIT = "ID,LIMIT_BAL,SEX,AGE,default payment next month\n" + "".join(
    f"{i},20000,{1 + i % 2},{20 + i},{i % 2}\n" for i in range(10)
)
GERMAN = (
    "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n"
    "A12 48 A32 A43 5951 A61 A73 2 A92 A101 2 A121 22 A143 A152 1 A173 1 A191 A201 2\n"
) * 5  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fairness").mkdir()
    (tmp_path / "adult.data").write_text(ADULT * 5 + "\n")
    (tmp_path / "fairness" / "adult.test.gz").write_bytes(
        gzip.compress(("|1x3 Cross validator\n" + ADULT.replace("50K\n", "50K.\n")).encode())
    )
    (tmp_path / "compas-scores-two-years.csv").write_text(COMPAS)
    (tmp_path / "credit-card-clients.csv").write_text(CREDIT)
    (tmp_path / "german.data").write_text(GERMAN)
    return tmp_path


def test_adult_is_both_parts_with_missing_values_and_an_earlier_model(folder):
    table = load_people(folder, "adult")
    assert table["split"].to_pylist() == ["train"] * 10 + ["test"] * 2
    first, second = table.slice(0, 2).to_pylist()
    assert (first["age"], first["workclass"], first["sex"], first["income"]) == (39, "State-gov", "Male", "<=50K")
    assert (second["occupation"], second["native_country"], second["fnlwgt"]) == (None, None, 83311)
    assert set(table["income"].to_pylist()) == {"<=50K", ">50K"}
    assert table["deployed"].to_pylist() == ["<=50K", ">50K"] * 6  # two rows are told apart


def test_compas_keeps_the_usual_rows(folder):
    table = load_people(folder, "compas")
    assert table["age"].to_pylist() == [69, 34, 24]
    assert table["deployed"].to_pylist() == [0, 1, 1]
    assert table["two_year_recid"].to_pylist() == [0, 1, 0]
    assert table["priors_count"].to_pylist() == [3, 0, 0]  # the first of two columns of that name
    assert "id" not in table.column_names


def test_credit_cards_have_no_number_and_a_short_target(folder):
    table = load_people(folder, "credit-card")
    assert table.column_names == ["LIMIT_BAL", "SEX", "AGE", "default", "split"]
    assert table["default"].to_pylist() == [0, 1] * 5
    assert sorted(table["split"].to_pylist()) == ["test"] * 3 + ["train"] * 7
    assert load_people(folder, "credit-card").equals(table)


def test_german_loans_have_words_for_labels_and_the_sex(folder):
    table = load_people(folder, "german")
    assert table["credit_risk"].to_pylist() == ["good", "bad"] * 5
    assert table["sex"].to_pylist() == ["male", "female"] * 5
    assert table["amount"].to_pylist()[:2] == [1169, 5951] and table["checking_account"].to_pylist()[0] == "A11"


@pytest.mark.parametrize("name", PEOPLE_FILES)
def test_what_is_missing_or_foreign_is_named(folder, name):
    file = PEOPLE_FILES[name][0]
    (folder / file).write_text("something else\n")
    with pytest.raises(MissingDataError, match=rf"{file} is no file of {name} .*Get it from http"):
        load_people(folder, name)
    (folder / file).unlink()
    with pytest.raises(MissingDataError, match=rf"{file} is not in .*fairness.*Get it from http"):
        load_people(folder, name)
    with pytest.raises(MissingDataError, match=r"no folder of data was named"):
        load_people(None, name)


def test_unknown_tables_are_refused():
    with pytest.raises(DataError, match=r"'iris' is not one of the tables adult"):
        load_people(None, "iris")


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_finds_what_loaders_look_for(tmp_path, name):
    entry = CATALOGUE[name]
    assert entry.found(None) is None and entry.found(tmp_path) is None
    (tmp_path / entry.below).mkdir()
    for number, names in enumerate(entry.files):
        assert entry.found(tmp_path) is None
        (tmp_path / (entry.below if number % 2 else "") / names[-1]).write_text("")
    assert len(entry.found(tmp_path)) == len(entry.files)


LOADERS = {
    "a9a": lambda d, folder: d.load_a9a(folder), "ijcnn1": lambda d, folder: load_ijcnn1(folder),
    "covtype": lambda d, folder: d.load_covtype(folder), "mnist": lambda d, folder: d.load_mnist(folder),
    "yeast": lambda d, folder: d.load_yeast(folder), "rcv1subset1": lambda d, folder: d.load_rcv1(folder),
    **{name: lambda d, folder, name=name: d.load_hierarchy(folder, name) for name in ("Enron_corr", "Diatoms")},
}  # fmt: skip


@pytest.mark.parametrize("name", LOADERS)
def test_loaders_ask_for_the_files_of_the_catalogue(tmp_path, name):
    from widemargin import datasets

    with pytest.raises(MissingDataError) as caught:
        LOADERS[name](datasets, tmp_path)
    entry = CATALOGUE[name]
    assert entry.files[0][0] in str(caught.value) and entry.below in str(caught.value)
    assert entry.source.split(" ")[0] in str(caught.value)
