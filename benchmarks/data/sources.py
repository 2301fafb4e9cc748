"""How the data sets of `halves` are read, and what stands in for each in a quick run."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp
from pyarrow import csv
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from benchmarks.data import families
from benchmarks.data.families import Floats, GoalRows, Rows
from benchmarks.machine import ROOT
from widemargin.datasets import GENES, HIERARCHIES, load_people
from widemargin.exceptions import MissingDataError
from widemargin.preprocessing import make_preprocessor
from widemargin_papers import data as papers
from widemargin_papers.data import Hierarchy, LabelSets, load_hierarchy
from widemargin_papers.data.covtype import read_covtype
from widemargin_papers.data.two_classes import load_ijcnn1, synthetic_rows

Array = npt.NDArray[Any]


class Words(NamedTuple):
    """Handwritten words, as arrays of arrays: the pixels of each, one row a letter; its letters. And its fold."""

    X: Array
    Y: Array
    fold: Array


def ragged(some: Sequence[Array]) -> Array:
    """An array of arrays, of which some can be picked."""
    made = np.empty(len(some), dtype=object)
    made[:] = some
    return made


# --- splits and scalings ----------------------------------------------------------------------------------------------


def rows_of(task: LabelSets, chosen: Array, rest: Array) -> LabelSets:
    """Some training rows as training rows, others as test rows."""
    return replace(task, X=task.X[chosen], Y=task.Y[chosen], X_test=task.X[rest], Y_test=task.Y[rest])


def shuffled(task: LabelSets, seed: int) -> LabelSets:
    """All rows drawn anew into as many training and test rows as before."""
    both = (task.X, task.X_test)
    X = sp.vstack(both, format="csr") if sp.issparse(task.X) else np.concatenate(both)
    Y = np.concatenate((task.Y, task.Y_test))
    order, n = np.random.default_rng(seed).permutation(Y.shape[0]), task.Y.shape[0]
    return rows_of(replace(task, X=X, Y=Y), np.sort(order[:n]), np.sort(order[n:]))


def hold_outs(task: LabelSets, folds: int = 1) -> list[LabelSets]:
    """For the choice of parameters: training rows as training and test rows.

    One fold: a fifth of the rows are test rows. More: each of that many parts in turn.
    """
    cuts = KFold(5 if folds == 1 else folds, shuffle=True, random_state=0).split(task.Y)
    return [rows_of(task, chosen, rest) for chosen, rest in itertools.islice(cuts, folds)]


def unit_rows(task: LabelSets) -> LabelSets:
    """Rows of length 1, as CSR."""
    return replace(task, X=sp.csr_matrix(normalize(task.X)), X_test=sp.csr_matrix(normalize(task.X_test)))


def standardised(task: LabelSets) -> LabelSets:
    """Columns of mean 0 and variance 1/d by the training rows; missing values are the mean."""
    scaler, root = StandardScaler().fit(task.X), task.X.shape[1] ** 0.5
    X, X_test = (np.nan_to_num(scaler.transform(some) / root) for some in (task.X, task.X_test))
    return replace(task, X=X, X_test=X_test)


# --- stand-ins --------------------------------------------------------------------------------------------------------


def paths() -> Hierarchy:
    """Rows whose labels are one path each."""
    task = papers.synthetic_hierarchy(200)
    one, one_test = (Y.sum(axis=1) == 2 for Y in (task.Y, task.Y_test))
    return replace(task, X=task.X[one], Y=task.Y[one], X_test=task.X_test[one_test], Y_test=task.Y_test[one_test])


def words(n: int = 60) -> Words:
    """Four letters that follow each other in turn, seen through noise; two folds."""
    rng = np.random.default_rng(0)
    Y = [(int(first) + np.arange(length)) % 4 for first, length in zip(*rng.integers(2, 7, (2, n)), strict=True)]
    X = [np.eye(4)[y] + 0.6 * rng.normal(size=(y.shape[0], 4)) for y in Y]
    return Words(ragged(X), ragged(Y), np.arange(n) % 2)


QUICK_ROWS = 1500
TRAIN_ROWS, TEST_ROWS = 3000, 10_000
OUTCOMES = {
    "german": "credit_risk", "credit-card": "default", "compas": "two_year_recid", "adult": "income", "bank": "y",
}  # fmt: skip

Source = tuple[Callable[[Path], Any], Callable[[], Any]]
"""What reads a data set of a folder, and what stands in for it in a quick run, which has none."""


class Split(NamedTuple):
    """Training and test rows; labels 0 and 1."""

    X: Floats
    y: npt.NDArray[np.int64]
    X_test: Floats
    y_test: npt.NDArray[np.int64]


Draw = Callable[[int], Split]
"""The split of a seed."""


def drawn(X: Any, y: npt.NDArray[Any], train_rows: int = TRAIN_ROWS, test_rows: int = TEST_ROWS) -> Draw:
    """Training and test rows of a table, by seed, standardised by the training rows; labels are counted from 0."""
    y = np.unique(y, return_inverse=True)[1].astype(np.int64)

    def split(seed: int) -> Split:
        order = np.random.default_rng(seed).permutation(len(y))
        n = min(train_rows, len(order) // 2)
        return _standardised(X, y, order[:n], order[n : n + test_rows])

    return split


def family(name: str) -> Draw:
    """A drawn family of risks: other rows, and other parameters, for every seed."""
    make, n = families.RISK_FAMILIES[name]
    return lambda seed: _standardised(
        *make(np.random.default_rng((seed, 25)), n + TEST_ROWS), np.arange(n), np.arange(n, n + TEST_ROWS)
    )


def _standardised(X: Any, y: npt.NDArray[np.int64], train: npt.NDArray[Any], test: npt.NDArray[Any]) -> Split:
    """Columns with the mean 0 and the spread 1 on the training rows; constant ones are left out."""
    scaler = make_pipeline(VarianceThreshold(1e-18), StandardScaler()).fit(X[train])
    return Split(scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test])


class People(NamedTuple):
    """Rows, labels of 0 and 1, and who is in the first of two groups."""

    X: Any
    y: npt.NDArray[np.int64]
    first: npt.NDArray[np.bool_]

    def take(self, rows: npt.NDArray[np.intp] | slice) -> "People":
        """Some rows."""
        return People(*(column[rows] for column in self))

    @property
    def code(self) -> npt.NDArray[np.int64]:
        """The groups as numbers, as other libraries take them."""
        return (~self.first).astype(np.int64)

    @property
    def table(self) -> pa.Table:
        """For populations."""
        return pa.table({"group": np.where(self.first, "first", "second")})

    def asked(self, rules: str) -> GoalRows:
        """The least error under rules on `w`, the first group, and `m`, the second."""
        groups = "w = population(group == 'first')\nm = population(group == 'second')\n"
        return GoalRows(self.X, self.y, self.table, f"{groups}minimize error_rate()\n{rules}")


def encoded(table: pa.Table, outcome: str) -> tuple[sp.csr_matrix, npt.NDArray[np.int64]]:
    """A table of people, each word a column of 0 and 1, and its outcome as 0 and 1."""
    y = np.asarray(table[outcome])
    names = [name for name in (outcome, "split", "deployed") if name in table.column_names]
    X = make_preprocessor().fit_transform(table.drop_columns(names))
    return sp.csr_matrix(X), (y == np.unique(y)[-1]).astype(np.int64)


def two_classes(name: str, data: Any) -> Rows:
    """Dense rows of a data set, and its labels joined to two classes."""
    if name in OUTCOMES:
        X, y = encoded(data, OUTCOMES[name])
        return X.toarray(), y
    if name == "a9a":
        return data.X.toarray(), data.y > 0
    if name == "mnist":
        chosen = np.isin(data.digit, (3, 8))
        return data.X[chosen].astype(np.float64), data.digit[chosen] == 8
    X, y = data
    positive = {"covtype": y == 1, "letter": y > 13, "digits": y % 2 == 1}.get(name, y == y.max())
    return np.asarray(X, dtype=np.float64), positive


# --- what is read, and what stands in for it --------------------------------------------------------------------------


def ocr(folder: Path) -> Words:
    """OCR letters: 6877 words in ten folds."""
    with np.load(_there(folder / "structured" / "ocr_letters.npz")) as data:
        X, label, word, fold = (data[name] for name in ("pixels", "label", "word", "fold"))
    start = np.flatnonzero(np.diff(word, prepend=-1))
    parts = (ragged(np.split(each, start[1:])) for each in (X.astype(np.float64), label.astype(int)))
    return Words(*parts, fold[start])


def _svmlight(path: str, columns: int, folder: Path) -> Rows:
    X, y = load_svmlight_file(str(_there(folder / path)), n_features=columns)
    return X.toarray(), y.astype(np.int64)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise MissingDataError(f"{path} is missing; name the folder of the data by --data or $WIDEMARGIN_DATA.")
    return path


def _people(name: str) -> pa.Table:
    """A thirty-second of Adult, with the names of another table of people."""
    table, named = ADULT().take(np.arange(0, 48_842, 32)), {"income": OUTCOMES[name], "marital_status": "marital"}
    case = str.upper if name == "credit-card" else str.lower
    return table.rename_columns([named.get(column) or case(column) for column in table.column_names])


def _two(rows: Any) -> Rows:
    return rows.X, (rows.y > 0).astype(np.int64)


def _two_classes(columns: int, *labels: int) -> Rows:
    X, y = _two(synthetic_rows(400, columns))
    return X, np.array(labels)[y]


def _drawn(same: Any) -> Source:
    return lambda _: same, lambda: same


def _topics() -> LabelSets:
    return unit_rows(papers.synthetic_label_sets(80, 20))


ADULT = partial(csv.read_csv, ROOT / "examples" / "data" / "adult.csv.gz")
"""The table of the examples, which is in the repository."""

A9A = partial(papers.synthetic_a9a, QUICK_ROWS)
SOURCES: dict[str, Source] = {
    "a9a": (papers.load_a9a, A9A),
    "adult": (lambda _: ADULT(), partial(_people, "adult")),
    # Without the length of the call, beside the other data.
    "bank": (
        lambda folder: csv.read_csv(_there(folder.parent / "cases" / "bank" / "bank.csv.gz")),
        partial(_people, "bank"),
    ),
    **{name: (partial(load_people, name=name), partial(_people, name)) for name in ("compas", "credit-card", "german")},
    "covtype": (read_covtype, partial(_two_classes, 54, 1, 2)),
    "ijcnn1": (lambda folder: _two(load_ijcnn1(folder)), partial(_two_classes, 22, 0, 1)),
    "letter": (partial(_svmlight, "multiclass/letter.libsvm.gz", 16), partial(_two_classes, 16, 1, 26)),
    "mushrooms": (partial(_svmlight, "binary/mushrooms.libsvm.gz", 112), partial(_two_classes, 112, 1, 2)),
    "mnist": (papers.load_mnist, partial(papers.synthetic_digits, QUICK_ROWS)),
    "breast cancer": (lambda _: load_breast_cancer(return_X_y=True), partial(load_breast_cancer, return_X_y=True)),
    "digits": (lambda _: load_digits(return_X_y=True), partial(load_digits, return_X_y=True)),
    "drawn: people of a9a": (
        lambda folder: partial(families.resampled_task, papers.load_a9a(folder)),
        lambda: partial(families.resampled_task, A9A()),
    ),
    **{name: _drawn(make) for name, make in (families.KERNEL_FAMILIES | families.GOAL_FAMILIES).items()},
    **{name: _drawn(family(name)) for name in families.RISK_FAMILIES},
    "yeast": (papers.load_yeast, partial(papers.synthetic_label_sets, 60, 5)),
    "rcv1": (partial(papers.load_rcv1, n_labels=50), _topics),
    "rcv1, all topics": (papers.load_rcv1, _topics),
    **{
        name: (lambda folder, name=name: standardised(load_hierarchy(folder, name)), paths)
        for name in HIERARCHIES | GENES
    },
    "Enron_corr": (lambda folder: unit_rows(load_hierarchy(folder, "Enron_corr")), paths),
    "ocr": (ocr, words),
}
