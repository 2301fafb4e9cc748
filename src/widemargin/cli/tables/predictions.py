"""Predictions that somebody made elsewhere: a column of a table file, matched by row or by a key."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widemargin.cli.models import Answer
from widemargin.cli.tables.column_roles import Block, is_it
from widemargin.cli.tables.csv_out import plain_text
from widemargin.cli.tables.table_blocks import TableBlocks
from widemargin.cli.tables.table_files import CSV_ENDINGS, likely_separator
from widemargin.exceptions import DataError

__all__ = ["PREDICTION", "PredictionsFile"]

PREDICTION = "prediction"
"""What `widemargin predict` calls its column of labels."""


class PredictionsFile:
    """A file of predictions in the place of a model.

    Parameters
    ----------
    given : str
        `FILE` or `FILE:COLUMN`. Without a column: `prediction`, or the only one beside the key.
    key : str or None
        Column by which rows are matched, in this file and in the audited one; None: by their order.
    n_rows : int
        Rows of the audited file, which must be as many where there is no key.

    Raises
    ------
    DataError
        The file or column is not there, the numbers of rows differ, a key stands twice.
    """

    def __init__(self, given: str, key: str | None, n_rows: int) -> None:
        path, column = _parted(given)
        is_csv = path.name.lower().endswith(CSV_ENDINGS)
        separator = likely_separator(path) if is_csv and path.is_file() else None
        blocks = TableBlocks(path, words=[] if key is None else [key], separator=separator)
        column = column or _only(blocks.names, key, path)
        for name in (column, *([] if key is None else [key])):
            if name not in blocks.names:
                raise DataError(f"{path}: there is no column {name!r}.{is_it(name, blocks.names)}")
        parts = list(blocks.read([column, *([] if key is None else [key])]))
        self.title = f"predictions {path}, column {column!r}"
        self.classes: list[Any] | None = None
        self.features: list[str] | None = [] if key is None else [key]
        self.words: list[str] = [] if key is None else [key]
        plain = plain_text if is_csv else _plain
        said = self._said = plain(_one([part.table[column] for part in parts]))
        if said.null_count:
            raise DataError(f"{path}: column {column!r} has {said.null_count} missing values. Fill them in")
        self.labels: list[Any] = pc.unique(said).to_pylist()
        self._key, self._path = key, path
        self._keys: Any = None
        if key is not None:
            self._keys = plain(_one([part.table[key] for part in parts]))
            if pc.count_distinct(self._keys, mode="all").as_py() < len(self._keys):
                raise DataError(
                    f"{path}: a value of the key {key!r} stands in more than one row. Give each row its own"
                )
        elif len(said) != n_rows:
            raise DataError(
                f"{path}: {len(said)} predictions for the {n_rows} rows of the audited file. Give one for each, in the "
                "same order, or name a column that both files have by --key"
            )

    def answer(self, block: Block, *, everything: bool = False) -> Answer:
        """See `Candidate`."""
        if self._key is None:
            return Answer(self._said.take(pa.array(block.rows)))
        if self._key not in block.table.column_names:
            raise DataError(
                f"the audited table has no column {self._key!r}.{is_it(self._key, block.table.column_names)}"
            )
        wanted = _plain(block.table[self._key])
        try:
            place = pc.index_in(wanted, value_set=self._keys.cast(wanted.type))
        except pa.ArrowException as error:
            raise DataError(
                f"the key {self._key!r} holds {wanted.type} in the audited table and {self._keys.type} in "
                f"{self._path}. Give both one type"
            ) from error
        if place.null_count:
            first = wanted[int(np.flatnonzero(np.asarray(pc.is_null(place)))[0])].as_py()
            raise DataError(
                f"{self._path}: {place.null_count} row(s) of the audited table have no prediction, the first has "
                f"{self._key} {first!r}. Add them"
            )
        return Answer(self._said.take(place))

    def finish(self) -> list[str]:
        """See `Candidate`."""
        return []


def _parted(given: str) -> tuple[Path, str | None]:
    """File and column; a file that has a colon in its own name is taken whole."""
    path = Path(given)
    if path.exists() or ":" not in given:
        return path, None
    name, _, column = given.rpartition(":")
    return Path(name), column


def _only(names: list[str], key: str | None, path: Path) -> str:
    others = [name for name in names if name != key]
    if PREDICTION in others:
        return PREDICTION
    if len(others) != 1:
        raise DataError(
            f"{path}: which of the {len(others)} columns holds the predictions ({', '.join(map(repr, others[:10]))})? "
            f"Write {path}:COLUMN"
        )
    return others[0]


def _one(chunks: list[Any]) -> Any:
    plain = [_plain(chunk) for chunk in chunks]
    return pa.chunked_array([piece for chunk in plain for piece in chunk.chunks], plain[0].type)


def _plain(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
