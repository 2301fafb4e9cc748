"""Tables about people with labels and protected columns: Adult, credit-card clients, COMPAS, German credit.

Each comes as published, with readable column names, a column `split` (train or test) and, where there is something to
make it from, a column `deployed` with the decisions of an earlier model.
"""

import csv
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from widemargin.datasets.files import CATALOGUE, PEOPLE_FILES, Folder, text_of
from widemargin.exceptions import DataError, MissingDataError

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
        Holds the files, packed (`.gz`) or not; or its subfolder `fairness` does.
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
