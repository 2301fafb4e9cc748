"""What the columns of a table are for, guessed from their names and values. Every guess carries its reason."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin.cli.checks.column_checks import ID_NAME, codes_of, tells_target
from widemargin.cli.goals_file.keys import Label, Split
from widemargin.exceptions import DataError

# The likeliest first; a name matches where one of its words does.
_TARGET_WORDS = (
    ("target", "label", "labels", "y", "class", "outcome"),
    ("income", "default", "defaulted", "churn", "churned", "fraud", "approved", "recid", "recidivism", "survived"),
    ("response", "risk", "hired", "admitted", "diagnosis", "converted", "clicked", "bad", "good", "result"),
)
_PROTECTED_WORDS = (  # those that requirements are most often about first
    "sex", "gender", "race", "ethnicity", "ethnic", "religion", "disability", "disabled", "nationality", "citizenship",
    "native", "orientation", "pregnant", "veteran", "age", "marital", "marriage", "married",
)  # fmt: skip
_EARLIER_WORDS = {
    "deployed", "old", "earlier", "current", "previous", "baseline", "prediction", "predicted", "decision",
}  # fmt: skip


@dataclass(frozen=True)
class Guesses:
    """Roles of the columns.

    Attributes
    ----------
    target : str
    positive : label
        The rarer class.
    why_target : str
    protected, words : tuple of str
    ignore : mapping of str to str
        Column -> reason.
    earlier : tuple of str
        Columns that look like decisions of an earlier model.
    split : Split or None
    features : tuple of str
        All other columns.
    """

    target: str
    positive: Label
    why_target: str
    protected: tuple[str, ...]
    words: tuple[str, ...]
    ignore: Mapping[str, str]
    earlier: tuple[str, ...]
    split: Split | None
    features: tuple[str, ...]


def guess_roles(table: pa.Table, target: str | None, where: str) -> Guesses:
    """Look at names and values of all columns.

    Parameters
    ----------
    table : pyarrow.Table
    target : str or None
        The target, if it is known.
    where : str
        The table in messages.

    Raises
    ------
    DataError
        No column can be the target, or the one named cannot.
    """
    split = next(filter(None, (_split(name, table[name]) for name in table.column_names)), None)
    taken = set() if split is None else {split.column}
    if target is None:
        target, why = _guessed_target(table, taken, where)
    else:
        why = "named by --target"
        if target not in table.column_names:
            raise DataError(
                f"{where}: there is no column {target!r} (--target). It has {', '.join(table.column_names[:20])}"
            )
        if not _is_target(table[target]):
            n_values, n_missing = pc.count_distinct(table[target]).as_py(), table[target].null_count
            raise DataError(
                f"{where}: column {target!r} (--target) has {n_values} values and {n_missing} gaps; a target needs two "
                "values and no gaps. Join its values to two, and drop rows without"
            )
    taken.add(target)
    labels = table[target].to_numpy()
    classes, counts = np.unique(labels, return_counts=True)
    positive = classes[counts == counts.min()].tolist()[-1]
    earlier = []
    for name in table.column_names:
        values = _values(table[name], 2) if name not in taken and _words_of(name) & _EARLIER_WORDS else None
        earlier += [name] if values and {*map(repr, values)} <= {*map(repr, classes.tolist())} else []
    rest = [name for name in table.column_names if name not in taken and name not in earlier]
    reasons = {name: _reason_to_ignore(name, table[name], labels) for name in rest}
    ignore = {name: reason for name, reason in reasons.items() if reason is not None}
    places = {name: place for name in rest if name not in ignore and (place := _protection(name)) is not None}
    features = tuple(name for name in rest if name not in ignore and name not in places)
    code_words = {"code", "type", "zip", "zipcode", "postcode", "education", "category", "status", "kind", "group",
                  "region", "state"}  # fmt: skip
    words = tuple(name for name in features if _words_of(name) & code_words and is_code(name, table[name]))
    if not features:
        raise DataError(f"{where}: no column is left as a feature. Name the target by --target, or add columns")
    protected = tuple(sorted(places, key=places.__getitem__))
    return Guesses(target, positive, why, protected, words, ignore, tuple(earlier), split, features)


def _words_of(name: str) -> set[str]:
    """The words of a column's name: `marital_status`, `maritalStatus` and `MARITAL STATUS` have the same two."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return {word for word in re.split(r"[\W_]+", spaced.casefold()) if word}


def _protection(name: str) -> int | None:
    """Place of a column's name among the protected ones; None where it is none of them."""
    words = _words_of(name)
    return next((place for place, word in enumerate(_PROTECTED_WORDS) if word in words), None)


def _values(column: pa.ChunkedArray, most: int) -> list[Any] | None:
    """Distinct values where they are few, without missing ones."""
    if pa.types.is_nested(column.type):
        return None
    values = [value for value in pc.unique(column).to_pylist() if value is not None]
    return values if len(values) <= most else None


def _split(name: str, column: pa.ChunkedArray) -> Split | None:
    by_word = {value.strip().casefold(): value for value in _values(column, 5) or [] if isinstance(value, str)}
    train, test = (
        next((by_word[word] for word in words if word in by_word), None)
        for words in (("train", "training"), ("test", "holdout", "held-out", "valid", "validation"))
    )
    return Split(column=name, train=train, test=test) if train is not None and test is not None else None


def _guessed_target(table: pa.Table, taken: set[str], where: str) -> tuple[str, str]:
    """The column with two values whose name is the likeliest, else the last one."""
    two_valued = [name for name in table.column_names if name not in taken and _is_target(table[name])]
    candidates = [name for name in two_valued if _protection(name) is None and not _words_of(name) & _EARLIER_WORDS]
    for words in _TARGET_WORDS:
        named = [name for name in candidates if _words_of(name) & set(words)]
        if named:
            return named[-1], "it has two values and this name"
    if not candidates:
        raise DataError(
            f"{where}: no column without gaps has exactly two values, so none can be the target. Name it by --target, "
            "or join its values to two"
        )
    return candidates[-1], "the last column with two values; name another by --target"


def _is_target(column: pa.ChunkedArray) -> bool:
    values = _values(column, 2)
    return not column.null_count and values is not None and len(values) == 2 and all(
        isinstance(value, str | int | bool) or (isinstance(value, float) and np.isfinite(value)) for value in values
    )  # fmt: skip


def _reason_to_ignore(name: str, column: pa.ChunkedArray, labels: npt.NDArray[Any]) -> str | None:
    """Why a column is no feature; None where nothing speaks against it."""
    kind = column.type
    values_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(values_type) or pa.types.is_large_string(values_type)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if column.null_count == len(column):
        return "holds no value"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "holds bytes that are no UTF-8 text (save the file as UTF-8 to use it)"
    if not (is_text or is_number or pa.types.is_boolean(kind)):
        return f"holds {kind}, which is neither number nor word"
    if pa.types.is_floating(kind) and not np.isfinite(column.drop_null().to_numpy()).all():
        return "holds infinite numbers"
    words, distinct, n_rows = _words_of(name), pc.count_distinct(column, mode="all").as_py(), len(column)
    is_named = is_text or ID_NAME.search(name) is not None
    counts = distinct == n_rows >= 50 and pa.types.is_integer(kind) and (np.diff(column.to_numpy()) == 1).all()
    share = tells_target(codes_of(column), labels)
    told = "" if share is None else f"alone tells the target in {share:.1%} of the rows"
    reasons = {
        "has the same value in every row": distinct == 1,
        "names the rows: nearly every value is another one": distinct > 0.9 * n_rows and n_rows >= 50 and is_named,
        "counts the rows": counts,
        f"has {distinct} different words": is_text and distinct > 1000,
        "seems to say how the rows are to be split": distinct <= 20
        and words & {"split", "part", "fold", "set", "partition", "subset"},
        "seems to be a sampling weight, no property of the row": is_number and words & {"weight", "weights", "fnlwgt"},
        f"{told}: is it known only after the fact?": told,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def is_code(name: str, column: pa.ChunkedArray) -> bool:
    """Whether whole numbers may stand for words: few values, and a name that counts nothing."""
    few = pa.types.is_integer(column.type) and _values(column, 50) is not None
    return few and not _words_of(name) & {"num", "number", "count", "n", "years", "amount", "amt"}
