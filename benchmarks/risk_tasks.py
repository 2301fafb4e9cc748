"""Tasks of two classes on which risks are chosen, and others on which they are reported.

`TUNING` holds what `risk="auto"` and the defaults of the risks were chosen on, `REPORTING` what nothing was chosen on.
Published data are split by name, drawn families by kind; a seed draws the training rows, at most 3,000, and test rows.
Columns are standardised by the training rows before any of them is spoiled.

How clean the reporting half is: two earlier variants of the rule of "auto" had been looked at on it before that rule
was fixed, and none since. The drawn families are drawn afresh for every seed.
"""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file, make_classification

from benchmarks.common import ROOT, MissingDataError, load_adult
from benchmarks.margin_robustness import Split
from widemargin.datasets import data_folder, load_mnist, load_people
from widemargin.preprocessing import make_preprocessor
from widemargin_papers.data.two_classes import load_ijcnn1, load_spruce

TRAIN_ROWS, TEST_ROWS = 3000, 10_000

Task = Callable[[int], Split]
Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def drawn(X: npt.NDArray[np.float64], y: npt.NDArray[np.int64]) -> Task:
    """Training and test rows of a table, by seed."""

    def split(seed: int) -> Split:
        order = np.random.default_rng(seed).permutation(len(y))
        n = min(TRAIN_ROWS, len(order) // 2)
        return standardised(X, y, order[:n], order[n : n + TEST_ROWS])

    return split


def standardised(
    X: npt.NDArray[np.float64], y: npt.NDArray[np.int64], train: npt.NDArray[np.intp], test: npt.NDArray[np.intp]
) -> Split:
    """Columns with the mean 0 and the spread 1 on the training rows; constant ones are left out."""
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0)
    kept = spread > 1e-9
    scaled = (X[:, kept] - mean[kept]) / spread[kept]
    return Split(scaled[train], y[train], scaled[test], y[test])


def family(make: Callable[[np.random.Generator, int], Rows], n: int = 1000) -> Task:
    """A drawn family: other rows, and other parameters, for every seed."""

    def split(seed: int) -> Split:
        X, y = make(np.random.default_rng((seed, 25)), n + TEST_ROWS)
        return standardised(X, y, np.arange(n), np.arange(n, len(y)))

    return split


def noisy(rng: np.random.Generator, n: int, d: int, noise: float) -> Rows:
    """A hyperplane, normal features and a logistic chance of the label."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=d)
    score = X @ w / np.linalg.norm(w)
    return X, (score + noise * rng.logistic(size=n) > 0).astype(np.int64)


def clusters(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Several clusters a class, in a corner of the features."""
    X, y = make_classification(n, d, n_informative=6, n_clusters_per_class=3, random_state=int(rng.integers(2**31)))
    return X, y.astype(np.int64)


def heavy(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Features with tails of Student's t with 2 degrees of freedom."""
    X, w = rng.standard_t(2.0, size=(n, d)), rng.normal(size=d)
    return X, (np.tanh(X) @ w + 0.5 * rng.logistic(size=n) > 0).astype(np.int64)


def rare(rng: np.random.Generator, n: int, d: int, share: float) -> Rows:
    """A rare class, shifted."""
    y = (rng.random(n) < share).astype(np.int64)
    return rng.normal(size=(n, d)) + 2.5 * y[:, None] * rng.normal(size=d) / np.sqrt(d), y


def minority(rng: np.random.Generator, n: int, d: int) -> Rows:
    """A tenth of the rows follow a rule of their own, and a feature says which."""
    X, w = rng.normal(size=(n, d)), rng.normal(size=(2, d))
    few = (rng.random(n) < 0.1).astype(np.int64)
    X[:, 0] = few * 2.0 + 0.3 * X[:, 0]
    score = np.einsum("ij,ij->i", X[:, 1:], w[few][:, 1:]) / np.sqrt(d)
    return X, (score + 0.3 * rng.logistic(size=n) > 0).astype(np.int64)


def words(rng: np.random.Generator, n: int, d: int) -> Rows:
    """Sparse counts, most of which say nothing."""
    X = rng.poisson(0.1, size=(n, d)).astype(np.float64)
    w = np.where(rng.random(d) < 0.2, rng.normal(size=d), 0.0)
    return X, (X @ w + 0.3 * rng.logistic(size=n) > np.median(X @ w)).astype(np.int64)


def tuning(options: argparse.Namespace) -> Mapping[str, Task]:
    """What choices are made on."""
    made: dict[str, Task] = {
        "drawn: 20 columns": family(lambda rng, n: noisy(rng, n, 20, 0.3)),
        "drawn: 100 columns": family(lambda rng, n: noisy(rng, n, 100, 0.1)),
        "drawn: clusters": family(lambda rng, n: clusters(rng, n, 20)),
        "drawn: rare class": family(lambda rng, n: rare(rng, n, 10, 0.1)),
    }
    if options.quick:
        return made
    folder = data_folder(options.data) or ROOT.parent / "shared" / "data"
    cover = load_spruce(folder)
    letters = svmlight(folder, "multiclass/letter.libsvm.gz")
    return made | {
        "covtype": drawn(cover.X.astype(np.float64), (cover.y > 0).astype(np.int64)),
        "letter A-M/N-Z": drawn(letters[0], (letters[1] > 13).astype(np.int64)),
        **{name: people(folder, name) for name in ("german", "credit-card")},
    }


def reporting(options: argparse.Namespace) -> Mapping[str, Task]:
    """What results are reported on."""
    made: dict[str, Task] = {
        "drawn: 50 columns": family(lambda rng, n: noisy(rng, n, 50, 0.2)),
        "drawn: heavy tails": family(lambda rng, n: heavy(rng, n, 15)),
        "drawn: words": family(lambda rng, n: words(rng, n, 200)),
        "drawn: minority": family(lambda rng, n: minority(rng, n, 10)),
        "drawn: rare, 3%": family(lambda rng, n: rare(rng, n, 30, 0.03), 3000),
    }
    if options.quick:
        return made
    folder = data_folder(options.data) or ROOT.parent / "shared" / "data"
    adult, ijcnn, mnist = load_adult(options), load_ijcnn1(folder), load_mnist(folder)
    mushrooms = svmlight(folder, "binary/mushrooms.libsvm.gz")
    is_one = np.isin(mnist.digit, (3, 8))
    cancer, digits = load_breast_cancer(), load_digits()
    return made | {
        "a9a": drawn(adult.X.toarray().astype(np.float64), (adult.y > 0).astype(np.int64)),
        "ijcnn1": drawn(np.asarray(ijcnn.X, dtype=np.float64), (ijcnn.y > 0).astype(np.int64)),
        "mushrooms": drawn(mushrooms[0], (mushrooms[1] == mushrooms[1].max()).astype(np.int64)),
        "mnist 3/8": drawn(np.asarray(mnist.X, dtype=np.float64)[is_one], (mnist.digit[is_one] == 8).astype(np.int64)),
        "COMPAS": people(folder, "compas"),
        "breast cancer": drawn(cancer.data, cancer.target.astype(np.int64)),
        "digits odd/even": drawn(digits.data, (digits.target % 2).astype(np.int64)),
    }


def svmlight(folder: Path, name: str) -> Rows:
    """A file of the data folder in LIBSVM's format.

    Raises
    ------
    MissingDataError
        If it is not there.
    """
    if not (folder / name).is_file():
        raise MissingDataError(
            f"{folder / name} is missing; name the folder of the data by --data or $WIDEMARGIN_DATA."
        )
    X, y = load_svmlight_file(str(folder / name))
    return X.toarray(), y.astype(np.int64)


TARGETS = {"german": "credit_risk", "credit-card": "default", "compas": "two_year_recid"}


def people(folder: Path, name: str) -> Task:
    """A table of people, each word a column of 0 and 1."""
    table = load_people(folder, name)
    y = np.asarray(table[TARGETS[name]])
    frame = table.drop_columns(
        [column for column in (TARGETS[name], "split", "deployed") if column in table.column_names]
    )
    X = make_preprocessor().fit_transform(frame).toarray()
    return drawn(X, (y == np.unique(y)[-1]).astype(np.int64))
