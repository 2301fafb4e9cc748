"""Tables of many kinds for judging the search under a goal: families drawn fresh from a seed, and published tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.preprocessing import OneHotEncoder
from testing.naive_rates import NaiveSource

from widemargin.datasets.files import Folder, data_folder, load_people
from widemargin.exceptions import MissingDataError

__all__ = ["FAMILIES", "Part", "Table", "drawn_table", "published_tables"]

Features: TypeAlias = Any
"""Dense or CSR rows."""


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one origin; labels are 0 and 1, `people` has the columns `group` and `deployed`."""

    X: Features
    y: npt.NDArray[np.int64] | None
    people: pd.DataFrame
    weight: npt.NDArray[np.float64] | None = None

    def naive(self) -> NaiveSource:
        """The same for the naive counts."""
        signs = None if self.y is None else (2 * self.y - 1).tolist()
        deployed = {"deployed": (2 * self.people["deployed"] - 1).tolist()}
        columns = {"group": self.people["group"].tolist()}
        return NaiveSource(
            columns, signs, None if self.weight is None else self.weight.tolist(), deployed, len(self.people)
        )


@dataclass(frozen=True, eq=False)
class Table:
    """A table in two parts: rows to train on, and rows to judge by.

    Attributes
    ----------
    name : str
    train, test : mapping of source name to Part
        The main rows by None, then external data sets.
    reference : {"all", "milp", "none"}
        How the best classifier can be found: by trying all, by a mixed-integer program, or not.
    """

    name: str
    train: Mapping[str | None, Part]
    test: Mapping[str | None, Part]
    reference: str = "none"

    @property
    def groups(self) -> tuple[str, str]:
        """The smallest and the largest group."""
        sizes = self.train[None].people["group"].value_counts()
        return str(sizes.index[-1]), str(sizes.index[0])


@dataclass(frozen=True)
class Family:
    """A law of tables.

    Attributes
    ----------
    n, d : int
        Training rows and columns.
    positives, group : float
        Share of positive labels, and of the smaller group.
    noise : float
        Of the labels, in standard deviations of the score; 0 with `bent=0` gives separable rows.
    bent : float
        Part of the score that is not linear.
    grid : bool
        Whether features are rounded to a coarse grid, which makes duplicates.
    spread : float
        Standard deviation of the logarithm of the weights; 0: no weights.
    external : int
        Rows of each external data set: traffic without labels, last year's rows with them. 0: none.
    reference : str
        As in `Table`.
    """

    n: int
    d: int
    positives: float = 0.4
    group: float = 0.35
    noise: float = 0.7
    bent: float = 0.4
    grid: bool = False
    spread: float = 0.0
    external: int = 0
    reference: str = "none"


FAMILIES: Mapping[str, Family] = {
    "plane": Family(150, 2, reference="all"),
    "plane-rare": Family(180, 2, positives=0.1, reference="all"),
    "plane-noisy": Family(140, 2, noise=2.5, reference="all"),
    "plane-grid": Family(160, 2, grid=True, reference="all"),
    "plane-weights": Family(130, 2, spread=1.5, reference="all"),
    "plane-external": Family(90, 2, external=40, reference="all"),
    "space": Family(60, 3, group=0.2, reference="all"),
    "milp": Family(110, 6, reference="milp"),
    "separable": Family(400, 8, noise=0.0, bent=0.0),
    "wide": Family(90, 200),
    "rare": Family(3000, 15, positives=0.03),
    "small-group": Family(3000, 10, group=0.01),
    "external": Family(1000, 8, external=500),
    "weights": Family(1500, 12, spread=2.0),
}
"""Kinds of tables by name. In the first seven every linear classifier can be tried."""


def drawn_table(name: str, seed: int, n_test: int = 4000) -> Table:
    """A table of a family; the law itself, its direction and thresholds too, is drawn from the seed."""
    family = FAMILIES[name]
    rng = np.random.default_rng([seed, list(FAMILIES).index(name)])
    d = family.d
    true, old, shift = rng.normal(size=(3, d)) / np.sqrt(min(d, 10))
    true[10:] *= 0.1
    shift *= rng.uniform(0.3, 1.2)
    bend = rng.normal(size=d) / np.sqrt(d)
    cut, old_cut = 0.0, 0.0

    def scores(X: npt.NDArray[np.float64], noise: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        size = np.linalg.norm(true)
        return (X @ true) / size + family.bent * ((X @ bend) ** 2 - 1.0) + family.noise * noise

    def part(n: int, *, moved: float = 0.0, labelled: bool = True) -> Part:
        first = rng.random(n) < family.group
        first[:2] = True, False  # no group is ever empty
        X = rng.normal(size=(n, d)) + np.outer(first, shift) + moved * bend
        if family.grid:
            X = np.round(1.5 * X)
        y = (scores(X, rng.logistic(size=n) / 1.8) > cut).astype(np.int64)
        deployed = (X @ (true + 0.5 * old) > old_cut).astype(np.int64)
        weight = np.exp(rng.normal(scale=family.spread, size=n)) if family.spread else None
        people = pd.DataFrame({"group": np.where(first, "a", "b"), "deployed": deployed})
        return Part(X, y if labelled else None, people, weight)

    many = rng.normal(size=(20_000, d)) + np.outer(rng.random(20_000) < family.group, shift)
    cut = float(np.quantile(scores(many, rng.logistic(size=20_000) / 1.8), 1.0 - family.positives))
    old_cut = float(np.quantile(many @ (true + 0.5 * old), 1.0 - family.positives))

    def parts(n: int, n_external: int) -> dict[str | None, Part]:
        made: dict[str | None, Part] = {None: part(n)}
        if n_external:
            made["last year"] = part(n_external, moved=-0.4)
            made["traffic"] = part(n_external, moved=0.6, labelled=False)
        return made

    return Table(
        name, parts(family.n, family.external), parts(n_test, 2000 if family.external else 0), family.reference
    )


def published_tables(data: Folder, most_rows: int, seed: int) -> list[Table]:
    """Those that are at hand: shipped ones always, others where a folder has their files."""
    rng, folder = np.random.default_rng(seed), data_folder(data)
    tables = [_numbers("breast cancer", *load_breast_cancer(return_X_y=True), rng)]
    X, digit = load_digits(return_X_y=True)
    tables.append(_numbers("digits: an eight", X / 16.0, digit == 8, rng))
    shipped = Path(__file__).parent.parent / "examples" / "data" / "adult.csv.gz"
    frames = {"adult": (pd.read_csv(shipped), "income", ">50K", "sex", "deployed", ["fnlwgt", "race"])}
    if folder is not None:
        bank = folder.parent / "cases" / "bank" / "bank.csv.gz"
        if bank.exists():
            frames["bank"] = (pd.read_csv(bank), "y", "yes", "age", "old_model", [])
        described = {
            "compas": ("two_year_recid", 1, "race", "deployed", []), "german": ("credit_risk", "bad", "sex", "", []),
            "credit-card": ("default", 1, "SEX", "", []),
        }  # fmt: skip
        for name, (target, positive, group, deployed, left_out) in described.items():
            try:
                frames[name] = (load_people(folder, name).to_pandas(), target, positive, group, deployed, left_out)
            except MissingDataError:
                continue
        rows = folder / "binary" / "ijcnn1.libsvm.gz"
        if rows.exists():
            X, y = load_svmlight_file(str(rows))
            keep = rng.permutation(len(y))[: 2 * most_rows]
            tables.append(_numbers("ijcnn1", X[keep].toarray(), y[keep] > 0, rng))
    tables += [_people(name, *described, most_rows, rng) for name, described in frames.items()]
    return tables


def _numbers(name: str, X: Any, y: Any, rng: np.random.Generator) -> Table:
    """Half for training; groups by the size of a column, decisions of the past by another one."""
    X, y = np.asarray(X, np.float64), np.asarray(y, np.int64)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    order = rng.permutation(len(y))
    some = order[: len(y) // 10]
    direction = X[some].T @ (y[some] - y[some].mean())
    old = X @ direction
    column = X[:, int(np.argmax(np.abs(X[:, : X.shape[1] // 2]).std(axis=0)))]
    people = pd.DataFrame({
        "group": np.where(np.argsort(np.argsort(column)) >= 0.8 * len(y), "a", "b"),
        "deployed": (old > np.quantile(old, 1.0 - y.mean())).astype(np.int64),
    })  # fmt: skip
    half = len(y) // 2
    parts = [Part(X[rows], y[rows], people.iloc[rows].reset_index(drop=True)) for rows in (order[:half], order[half:])]
    return Table(name, {None: parts[0]}, {None: parts[1]})


def _people(
    name: str, frame: Any, target: str, positive: Any, group: str, deployed: str, left_out: list[str], most_rows: int,
    rng: np.random.Generator,
) -> Table:  # fmt: skip
    """Numbers in ten quantile bins, the rest one-hot; groups as the column has them, ages in two."""
    y = (frame[target] == positive).to_numpy().astype(np.int64)
    groups = frame[group]
    if group == "age":
        groups = pd.Series(np.where(groups > 60, "old", "younger"))
    common = groups.value_counts().index[:2]
    groups = groups.where(groups.isin(common), common[0]).astype(str)
    old = np.zeros(len(y), np.int64)
    if deployed:
        old = (frame[deployed] == positive).to_numpy().astype(np.int64)
    else:  # nothing is known of a model before this one: every second decision of luck, the others right
        old = np.where(rng.random(len(y)) < 0.75, y, 1 - y)
    columns = frame.drop(columns=[c for c in (target, deployed, "split", *left_out) if c in frame])
    for column in columns:
        if columns[column].dtype.kind in "if" and columns[column].nunique() > 12:
            columns[column] = pd.qcut(columns[column], 10, duplicates="drop").astype(str)
    columns = columns.astype(str)
    train = (frame["split"] == "train").to_numpy()
    encoder = OneHotEncoder(min_frequency=5, handle_unknown="infrequent_if_exist").fit(columns[train])
    X = sp.csr_matrix(encoder.transform(columns))
    people = pd.DataFrame({"group": groups.to_numpy(), "deployed": old})
    parts = []
    for mask in (train, ~train):
        rows = np.flatnonzero(mask)
        rows = np.sort(rng.permutation(rows)[:most_rows])
        parts.append(Part(X[rows], y[rows], people.iloc[rows].reset_index(drop=True)))
    return Table(name, {None: parts[0]}, {None: parts[1]})
