"""The data sets that experiments and examples use: their files, whether these are there, and tables about people.

The tables with labels and protected columns are Adult, credit-card clients, COMPAS and German credit. Each comes as
published, with readable column names, a column `split` (train or test) and, where there is something to make it from, a
column `deployed` with the decisions of an earlier model.
"""

import csv
import gzip
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from widemargin.exceptions import DataError, MissingDataError

__all__ = [
    "CATALOGUE", "DATA_VARIABLE", "GENES", "HIERARCHIES", "PEOPLE_FILES", "DataSet", "Folder", "data_folder",
    "find", "get_it", "text_of",
]  # fmt: skip


Folder = str | os.PathLike[str] | None

DATA_VARIABLE = "WIDEMARGIN_DATA"
"""Environment variable that names the folder of the data."""


def data_folder(option: Folder) -> Path | None:
    """Folder of the data: as given, else that of the environment variable, else None."""
    named = os.environ.get(DATA_VARIABLE) if option is None else option
    return Path(named) if named else None


def get_it(what: str, source: str) -> str:
    """The cure of messages about missing or wrong files."""
    return f"Get {what} from {source} and name the folder by --data or ${DATA_VARIABLE}."


def find(folder: Folder, below: str, names: Sequence[str], data: str, cure: str) -> Path:
    """The first of some files that is in a folder or in its subfolder `below`.

    Parameters
    ----------
    names : sequence of str
        Names that one file may have, packed or not; the first one stands in messages.
    data : str
        What the data set is called.
    cure : str
        End of the messages, see `get_it`.

    Raises
    ------
    MissingDataError
    """
    if folder is None:
        raise MissingDataError(f"the data set {data} is needed, and no folder of data was named. {cure}")
    folder = Path(folder)
    places = [place / name for place in (folder, folder / below) for name in names]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise MissingDataError(f"{names[0]} is not in {folder} nor in {folder / below}. {cure}")
    return path


def text_of(path: Path) -> str:
    """Content of a text file, packed or not."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", errors="replace")


class DataSet(NamedTuple):
    """A data set.

    Attributes
    ----------
    files : tuple of tuple of str
        The files it needs, each with the names it may have.
    below : str
        The subfolder in which they are looked for after the folder itself.
    source : str
    about : str
    """

    files: tuple[tuple[str, ...], ...]
    below: str
    source: str
    about: str

    def paths(self, folder: Folder, name: str) -> list[Path]:
        """Its files; `name` is what messages call it.

        Raises
        ------
        MissingDataError
            If one is missing; the message says where to get it.
        """
        return [find(folder, self.below, names, name, get_it("it", self.source)) for names in self.files]

    def found(self, folder: Path | None) -> list[Path] | None:
        """Its files; None where one is missing."""
        try:
            return self.paths(folder, "")
        except MissingDataError:
            return None


PEOPLE_FILES = {
    "adult": ("adult.data", "adult.test"),
    "credit-card": ("credit-card-clients.csv",),
    "compas": ("compas-scores-two-years.csv",),
    "german": ("german.data",),
}
"""Names of the tables about people, and of the files they are made from."""

HIERARCHIES = {
    "Enron_corr": ("Enron_corr_trainvalid", "Enron_corr_test"),
    "ImCLEF07A": ("ImCLEF07A_Train", "ImCLEF07A_Test"),
    "Diatoms": ("Diatoms_train", "Diatoms_test"),
    "cellcycle_FUN": ("cellcycle_FUN.train", "cellcycle_FUN.test"),
}
"""Names of the files of training and test rows."""

GENES = {
    name: tuple(f"{stem}.{part}" for part in ("train", "valid", "test"))
    for name, stem in (("cellcycle_FUN+valid", "cellcycle_FUN"), ("cellcycle_GO", "cellcycle_GO"))
}
"""The same with rows for validation, which are training rows here; the nodes of GO have several parents."""

_PACKED, _LIBSVM_PACKED = ("", ".gz"), ("", ".gz", ".bz2", ".txt", ".libsvm", ".libsvm.gz")
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html"
_LABEL_SETS = "https://mulan.sourceforge.net/datasets-mlc.html (yeast) and LIBSVM's multi-label page (rcv1subset1)"
_UCI = "https://archive.ics.uci.edu/dataset"
_MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _data_set(names: Sequence[str], below: str, source: str, about: str, endings: Sequence[str] = _PACKED) -> DataSet:
    return DataSet(tuple(tuple(name + ending for ending in endings) for name in names), below, source, about)


CATALOGUE: dict[str, DataSet] = {
    "adult": _data_set(
        PEOPLE_FILES["adult"], "fairness", f"{_UCI}/2/adult",
        "48,842 people of a census; income above 50,000 dollars; sex, race",
    ),
    "credit-card": _data_set(
        PEOPLE_FILES["credit-card"], "fairness",
        f"{_UCI}/350/default+of+credit+card+clients (saved as CSV)",
        "30,000 clients of a bank; default of a payment; sex, age",
    ),
    "compas": _data_set(
        PEOPLE_FILES["compas"], "fairness", "https://github.com/propublica/compas-analysis",
        "6,172 defendants; arrest within two years; sex, race",
    ),
    "german": _data_set(
        PEOPLE_FILES["german"], "fairness", f"{_UCI}/144/statlog+german+credit+data",
        "1,000 loans; good or bad; sex, age",
    ),
    "a9a": _data_set(("a9a", "a9a.t"), "binary", _LIBSVM, "Adult in LIBSVM's binary coding", _LIBSVM_PACKED),
    "ijcnn1": _data_set(("ijcnn1",), "binary", _LIBSVM, "49,990 rows of 22 numbers", _LIBSVM_PACKED),
    "covtype": _data_set(
        ("covtype",), "binary", f"{_UCI}/31/covertype", "581,012 patches of forest", (".data.gz", ".data", ".npz")
    ),
    "mnist": _data_set(_MNIST, "mnist", "https://ossci-datasets.s3.amazonaws.com/mnist/", "70,000 handwritten digits"),
    "yeast": _data_set(("yeast-train.arff", "yeast-test.arff"), "multilabel", _LABEL_SETS, "2,417 genes, 14 labels"),
    "rcv1subset1": _data_set(("rcv1subset1.libsvm",), "multilabel", _LABEL_SETS, "6,000 news stories, 101 topics"),
    **{
        name: _data_set(
            files, "hierarchical", "https://github.com/EGiunchiglia/C-HMCNN (HMC_data)", "labels in a hierarchy",
            (".arff", ".arff.gz"),
        )
        for name, files in (HIERARCHIES | GENES).items()
    },
}  # fmt: skip
"""Data sets by name; those about people can be written as tables."""


_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
_COMPAS = (
    "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree",
    "two_year_recid",
)  # fmt: skip

_GERMAN = (
    "checking_account", "months", "credit_history", "purpose", "amount", "savings", "employed_since",
    "installment_rate", "personal_status", "other_debtors", "residence_since", "property", "age",
    "other_installments", "housing", "existing_credits", "job", "dependents", "telephone", "foreign_worker",
    "credit_risk",
)  # fmt: skip


def load_people(folder: Folder, name: str) -> Any:
    """One of the tables of `PEOPLE_FILES`.

    Parameters
    ----------
    folder : path-like or None
        Holds the files, packed (`.gz`) or not, itself or in its subfolder `fairness`.
    name : str

    Returns
    -------
    pyarrow.Table

    Raises
    ------
    DataError
        If there is no such table.
    MissingDataError
        If the files are not there, or hold something else.
    """
    if name not in PEOPLE_FILES:
        raise DataError(f"{name!r} is not one of the tables {', '.join(PEOPLE_FILES)}.")
    paths = CATALOGUE[name].paths(folder, name)
    try:
        return _MAKERS[name](*map(text_of, paths))
    except (ValueError, IndexError, KeyError, EOFError, OSError) as error:
        raise MissingDataError(
            f"{paths[0]} is no file of {name} ({type(error).__name__}: {error}). Get it from {CATALOGUE[name].source}."
        ) from error


def _adult(train_text: str, test_text: str) -> Any:
    """Both parts, as UCI publishes them, and the decisions of an earlier model."""
    train, test = _adult_rows(train_text), _adult_rows(test_text)
    rows = [*train, *test]
    seen = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
    columns: dict[str, list[Any]] = {
        name: [int(row[j]) if name in (*seen, "fnlwgt") else row[j] or None for row in rows]
        for j, name in enumerate(_ADULT)
    }
    columns["split"] = ["train"] * len(train) + ["test"] * len(test)
    # decisions of a linear SVM that has seen 1000 training rows (they come first), and never `sex`
    chosen = np.random.default_rng(0).choice(len(train), min(1000, len(train)), replace=False)
    numbers = [_ADULT.index(name) for name in seen]
    words = [j for j, name in enumerate(_ADULT) if name not in (*seen, "fnlwgt", "sex", "income")]
    encode = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), words))
    model = make_pipeline(encode, LinearSVC(C=0.1, random_state=0))
    table = np.array(rows, dtype=object)
    model.fit(table[chosen], table[chosen, -1])
    columns["deployed"] = [str(decision) for decision in model.predict(table)]
    return pa.table(columns)


def _adult_rows(text: str) -> list[list[str]]:
    """Fields without blanks, `?` as the empty string, labels without the dot."""
    rows = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(_ADULT):  # an empty last line, and the first line of adult.test, a remark
            continue
        rows.append([("" if field == "?" else field) for field in fields[:-1]] + [fields[-1].removesuffix(".")])
    if not rows:
        raise ValueError(f"no line has {len(_ADULT)} fields")
    return rows


def _credit_card(text: str) -> Any:
    """All columns but a running number; the target is called `default`."""
    names, rows = _csv(text)
    target = next((name for name in reversed(names) if name.casefold().startswith("default")), None)
    if target is None:
        raise ValueError("no column is called default...")
    columns = {name: [int(float(row[name])) for row in rows] for name in names if name.casefold() != "id"}
    columns["default"] = columns.pop(target)
    return _with_split(columns)


def _compas(text: str) -> Any:
    """The 6172 rows that ProPublica's analysis keeps; `deployed` is a COMPAS score above low."""
    rows = []
    for row in _csv(text)[1]:
        days = row["days_b_screening_arrest"]
        in_time = days != "" and abs(int(float(days))) <= 30
        if in_time and row["is_recid"] != "-1" and row["c_charge_degree"] != "O" and row["score_text"] != "N/A":
            rows.append(row)
    numbers = {name for name in _COMPAS if name.endswith("count")} | {"age", "two_year_recid"}
    columns: dict[str, list[Any]] = {
        name: [int(row[name]) if name in numbers else row[name] for row in rows] for name in _COMPAS
    }
    columns["deployed"] = [int(row["score_text"] != "Low") for row in rows]
    return _with_split(columns)


def _german(text: str) -> Any:
    """All columns, the sex taken out of the personal status, and the label in words."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    if any(len(row) != len(_GERMAN) for row in rows):
        raise ValueError(f"a line has not {len(_GERMAN)} fields")
    columns: dict[str, list[Any]] = {}
    for j, name in enumerate(_GERMAN):
        values = [row[j] for row in rows]
        columns[name] = list(map(int, values)) if all(value.isdigit() for value in values) else values
    columns["sex"] = ["female" if status in ("A92", "A95") else "male" for status in columns["personal_status"]]
    columns["credit_risk"] = [{1: "good", 2: "bad"}[value] for value in columns.pop("credit_risk")]
    return _with_split(columns)


def _csv(text: str) -> tuple[list[str], list[dict[str, str]]]:
    """Names of the columns and rows by name; of two columns with one name the first."""
    lines = csv.reader(io.StringIO(text))
    names = next(lines, [])
    place = {name: names.index(name) for name in names}
    return list(place), [{name: line[j] for name, j in place.items()} for line in lines if line]


def _with_split(columns: dict[str, list[Any]]) -> Any:
    """A table with a column `split`: three rows of ten, drawn with seed 0, are for testing."""
    n = len(next(iter(columns.values())))
    if n < 2:
        raise ValueError(f"{n} rows")
    split = np.full(n, "train", dtype=object)
    split[np.random.default_rng(0).permutation(n)[: round(0.3 * n)]] = "test"
    return pa.table({**columns, "split": split.tolist()})


_MAKERS: dict[str, Callable[..., Any]] = {
    "adult": _adult,
    "credit-card": _credit_card,
    "compas": _compas,
    "german": _german,
}
