"""The columns of a table, before anything is trained: do they fit the goals file, and should they be features?"""

import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._typing import Ints
from widemargin.cli.checks.findings import Findings
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.cli.tables.column_roles import feature_columns, is_it
from widemargin.exceptions import DataError, TableWarning
from widemargin.preprocessing import TableSchema

__all__ = ["ID_NAME", "check_features", "check_names", "codes_of", "share_told", "tells_target"]

ID_NAME = re.compile(
    r"(?:^|[_\W])(?:id|uuid|guid|key|index|rowid|row_?number)$|Id$|ID$|^id(?=[_\W])|^$|^Unnamed: \d+$", re.ASCII
)
"""Names of columns that number or name the rows; those that pandas writes for its index have none."""

_TELLS_ALL = 0.995
_TELLS_PROTECTED = 0.98
_LEAST_ROWS = 50  # with fewer, a column tells the target by chance


def check_names(findings: Findings, table: pa.Table, named: Mapping[str, str]) -> None:
    """Columns that the file names and the table lacks."""
    for column, key in named.items():
        if column not in table.column_names:
            near = is_it(column, table.column_names) or f" It has {', '.join(map(repr, table.column_names[:20]))}"
            findings.problem(tuple(key.split(".")), f"column {column!r} is not in the table.{near}")


def check_features(
    findings: Findings,
    parts: Mapping[str, pa.Table],
    external: Mapping[str, pa.Table],
    labels: npt.NDArray[Any] | None,
) -> None:
    """The features, one by one: can they be read, in all tables, and do they look like features?

    Parameters
    ----------
    findings : Findings
    parts : mapping of str to pyarrow.Table
        The rows by part, "train" among them.
    external : mapping of str to pyarrow.Table
    labels : ndarray of shape (n_train,) or None
    """
    goals, train = findings.goals, parts["train"]
    features = [name for name in feature_columns(train, goals) if name in train.column_names]
    if not features:
        findings.problem(("data",), "no feature column is left. Name some in data.features, or ignore fewer")
    protected = [name for name in goals.data.protected if name in train.column_names]
    others = {f"the {part} rows": table for part, table in parts.items() if part != "train"}
    others |= {f"external data set {name!r}": table for name, table in external.items()}
    for name in features:
        schema = _learnt(findings, train, name)
        if schema is None:
            continue
        _check_others(findings, schema, name, others)
        _check_looks(findings, train, name, labels)
        if name in protected:
            text = f"{name!r} is protected and a feature all the same, as asked"
            findings.warning(("data", "protected_as_features"), text)
        else:
            _check_proxy(findings, train, name, protected)


def _place(goals: GoalsFile) -> tuple[str, ...]:
    """The key that made a column a feature."""
    return ("data", "features") if goals.data.features is not None else ("data",)


def _learnt(findings: Findings, train: pa.Table, name: str) -> TableSchema | None:
    """The schema of one column; None where it cannot be a feature."""
    words = [name] if name in findings.goals.data.words else []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TableWarning)
        try:
            schema = TableSchema.of(train, columns=[name], words=words)
        except DataError as error:
            findings.problem(_place(findings.goals), f"{error} (data.ignore)")
            return None
    for item in caught:
        findings.warning(_place(findings.goals), f"{item.message} (data.words)")
    return schema


def _check_others(findings: Findings, schema: TableSchema, name: str, others: Mapping[str, pa.Table]) -> None:
    """The same column in the tables that the model meets later."""
    for where, table in others.items():
        try:
            deviations = schema.read(table).deviations
        except DataError as error:
            findings.problem(_place(findings.goals), f"on {where}: {error}")
            continue
        for deviation in deviations:
            what = {"unknown": "words that training does not know", "missing": "no value, and training always had one"}
            listed = f" ({', '.join(deviation.examples)})" if deviation.examples else ""
            text = f"on {where} column {name!r} has {what[deviation.what]} in {deviation.n_rows} row(s){listed}"
            findings.warning(_place(findings.goals), f"{text}. The model falls back")


def _check_looks(findings: Findings, train: pa.Table, name: str, labels: npt.NDArray[Any] | None) -> None:
    """Constants, identifiers, and columns that know the answer."""
    column, place = train[name], _place(findings.goals)
    distinct = pc.count_distinct(column, mode="all").as_py()
    if distinct == 1:
        findings.warning(place, f"feature {name!r} has the same value in all {len(column)} rows. Add it to data.ignore")
        return
    if _looks_like_an_identifier(name, column, distinct):
        text = f"feature {name!r} has {distinct} distinct values in {len(column)} rows and looks like an identifier"
        findings.warning(place, f"{text}. If it is one, add it to data.ignore")
    share = None if labels is None else tells_target(codes_of(column), labels)
    if share is not None:
        text = f"feature {name!r} alone tells the target in {share:.1%} of the rows. If it is known only after the fact"
        findings.warning(place, f"{text}, add it to data.ignore")


def _looks_like_an_identifier(name: str, column: pa.ChunkedArray, distinct: int) -> bool:
    if distinct < 0.9 * len(column) or len(column) < _LEAST_ROWS:
        return False
    values = column.to_numpy()
    if values.dtype.kind not in "iu":
        return ID_NAME.search(name) is not None
    return ID_NAME.search(name) is not None or bool((np.diff(values) > 0).all() or (np.diff(values) < 0).all())


def _check_proxy(findings: Findings, train: pa.Table, name: str, protected: list[str]) -> None:
    """Whether a feature stands for a protected column."""
    codes = codes_of(train[name])
    for other in protected:
        groups = codes_of(train[other])
        share, before = share_told(codes, groups), float(np.bincount(groups).max() / len(groups))
        if share >= _TELLS_PROTECTED and share > before + 0.5 * (1.0 - before) and codes.max() < len(codes) / 10:
            text = f"feature {name!r} tells the protected {other!r} in {share:.1%} of the rows"
            findings.warning(_place(findings.goals), f"{text}, so the model knows it nearly as well as if it saw it")


def codes_of(column: pa.ChunkedArray) -> Ints:
    """Values of a column numbered from 0; missing ones have a number of their own."""
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    codes: Ints = np.asarray(encoded.indices, dtype=np.int64)
    return codes


def share_told(codes: Ints, target: Ints) -> float:
    """Share of the rows whose target is the commonest among the rows of the same code."""
    width = int(target.max()) + 1
    pairs, counts = np.unique(codes * width + target, return_counts=True)
    best = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    np.maximum.at(best, pairs // width, counts)
    return float(best.sum() / len(codes))


def tells_target(codes: Ints, labels: npt.NDArray[Any]) -> float | None:
    """How many rows a column tells the target of, where these are nearly all and not by its many values; else None."""
    if len(codes) < _LEAST_ROWS or codes.max() >= len(codes) / 10:
        return None
    target = np.unique(labels, return_inverse=True)[1]
    share, before = share_told(codes, target), float(np.bincount(target).max() / len(target))
    return share if share >= _TELLS_ALL and share > before + 0.5 * (1.0 - before) else None
