"""The columns of a table, before anything is trained: do they fit the goals file, and should they be features?"""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._text import folded, listing, time_of
from widemargin._typing import Ints
from widemargin.cli.checks.findings import Findings
from widemargin.cli.goals_file.keys import GoalsFile
from widemargin.cli.tables.column_roles import feature_columns
from widemargin.exceptions import DataError, TableWarning

ID_NAME = re.compile(
    r"(?:^|[_\W])(?:id|uuid|guid|key|index|rowid|row_?names?|row_?number)$|Id$|ID$|^id(?=[_\W])|[a-z]ID(?=[_\W])|^$"
    r"|^Unnamed: \d+$",
    re.ASCII,
)
"""Names of columns that number or name the rows; those that pandas writes for its index have none."""


_MONEY = "[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CNY|CAD|AUD|BRL|SEK|NOK|DKK|PLN|kr|zł"
_NUMBER = re.compile(rf"[-+]?({_MONEY})?\s?[-+]?\d+([.,'’\s]\d{{3}})*([.,]\d+)?\s?({_MONEY}|%)?")
"""A number as people write it: thousands apart, with a currency or a percent sign."""
_DAYS = re.compile(
    r"(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{1,2}[ .-]+[^\W\d_]{3,}[ .,-]+\d{2,4}|[^\W\d_]{3,}[ .]+\d{1,2},? +\d{4})"
    r"([ T].*)?"
)
"""Days in another order than ISO's, with or without a time, the month as a number or a word."""
_COMPACT_DAY = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_NO_VALUE = {"?", "-", ".", "", "none", "unknown", "missing", "n/a", "n.a.", "undefined", "#n/a"}
"""Texts that often stand for no value."""


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
    for key, named in (("target", [goals.data.target]), ("protected", goals.data.protected)):
        for name in named:
            chunks = [chunk for table in parts.values() if name in table.column_names for chunk in table[name].chunks]
            text = several_spellings(pa.chunked_array(chunks)) if chunks else ""
            if text:
                findings.warning(("data", key), f"{name!r} {text}")
    present = {*train.column_names} - {*goals.baseline_names}  # decisions are no features
    features = [name for name in feature_columns(train.column_names, goals) if name in present]
    if not features:
        findings.problem(("data",), "no feature column is left. Name some in data.features, or ignore fewer")
    elif labels is not None and (text := few_rows(labels, len(features))):
        findings.warning(("data",), text)
    from widemargin.preprocessing import TableSchema  # slow to import, and not needed where no features are looked at

    # The key that made a column a feature.
    place = ("data", "features") if goals.data.features is not None else ("data",)
    protected = {name: groups_of(train[name]) for name in goals.data.protected if name in train.column_names}
    others = {f"the {part} rows": table for part, table in parts.items() if part != "train"}
    others |= {f"external data set {name!r}": table for name, table in external.items()}
    columns = {where: {*table.column_names} for where, table in others.items()}
    for name in features:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TableWarning)
            try:
                words, dates = ({name}.intersection(asked) for asked in (goals.data.words, goals.data.dates))
                schema = TableSchema.of(train.select([name]), columns=[name], words=words, dates=dates)
            except DataError as error:
                findings.problem(place, f"{error} (data.ignore)")
                continue
        for item in caught:
            findings.warning(place, f"{item.message} (data.words)")
        for where, table in others.items():
            try:
                deviations = schema.read(table.select([name]) if name in columns[where] else table).deviations
            except DataError as error:
                findings.problem(place, f"on {where}: {error}")
                continue
            for deviation in deviations:
                what, unlike = "no value", ", unlike in training"
                if deviation.what == "unknown":
                    what, unlike = "words that training does not know", ""
                listed = f" ({', '.join(deviation.examples)})" if deviation.examples else ""
                text = f"on {where} column {name!r} has {what} in {deviation.n_rows} row(s){listed}{unlike}"
                findings.warning(place, f"{text}. The model falls back")
        if text := unread_texts(name, train[name], goals):
            findings.warning(place, text)
        for text in _looks(name, train[name], labels):
            findings.warning(place, f"feature {name!r} {text}")
        if name in protected:
            text = f"{name!r} is protected and a feature all the same, as asked"
            findings.warning(("data", "protected_as_features"), text)
            continue
        for text in tells_groups(name, train[name], protected):
            findings.warning(place, text)


def tells_groups(name: str, column: pa.ChunkedArray, protected: Mapping[str, Ints]) -> list[str]:
    """Which protected columns, given by `groups_of`, a feature tells: the model then uses them without seeing them."""
    codes = codes_of(column)
    shares = {other: _share_told(codes, groups, 0.98) for other, groups in protected.items()}
    return [
        f"feature {name!r} tells the protected {other!r} in {share:.1%} of the rows, so the model knows it nearly as "
        "well as if it saw it"
        for other, share in shares.items()
        if share is not None
    ]


def _looks(name: str, column: pa.ChunkedArray, labels: npt.NDArray[Any] | None) -> list[str]:
    """What speaks against a feature: constants, identifiers, and columns that know the answer."""
    distinct = pc.count_distinct(column, mode="all").as_py()
    if distinct == 1:
        return [f"has the same value in all {len(column)} rows. Add it to data.ignore"]
    text = several_spellings(column)
    told = [text] if text else []
    if numbers_rows(column) or names_rows(name, distinct, len(column)):
        text = f"has {distinct} distinct values in {len(column)} rows and looks like an identifier"
        told.append(f"{text}. If it is one, add it to data.ignore")
    # A column that nearly determines the target was often filled in after the outcome was known.
    share = None if labels is None else tells_target(column, labels)
    if share is not None:
        text = f"alone tells the target in {share:.1%} of the rows. If it is known only after the fact"
        told.append(f"{text}, add it to data.ignore")
    return told


def few_rows(labels: npt.NDArray[Any], n_features: int) -> str:
    """That rows are few for so many columns; else nothing."""
    counts, wanted = np.unique(labels, return_counts=True)[1], 10 * n_features  # events a variable, as usual
    least, rare = int(counts.min()), "rarer" if len(counts) == 2 else "rarest"
    if least >= wanted:
        return ""
    return (
        f"{least} training rows of the {rare} class for {n_features} feature columns, and {wanted} are the usual "
        "least: rates on unseen rows will be worse than on these. Use fewer columns, or give more rows"
    )


def several_spellings(column: pa.ChunkedArray) -> str:
    """That words of a column, of which there are few, differ in case or blanks only; else nothing."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return ""
    values = [value for value in pc.unique(column).to_pylist() if value is not None]
    alike: dict[str, list[str]] = {}
    for value in values if len(values) <= 1000 else ():
        alike.setdefault(folded(value), []).append(value)
    first = next((spellings for spellings in alike.values() if len(spellings) > 1), None)
    if first is None:
        return ""
    return (
        f"has {len(values)} values, and {len(alike)} by case and blanks: {listing(first, 4)} count as different. Write "
        "each in one way, if they are the same"
    )


def stands_for_none(column: pa.ChunkedArray, *, is_target: bool = False) -> str:
    """That a column holds a value that often stands for no value; else nothing.

    In a target, "?" and words such as "unknown", which make a class of their own. In numbers, one of nines alone (-99,
    999): the only one below 0, or the largest and half as much again as any other.
    """
    values, held = column.drop_null(), []
    if is_target and pa.types.is_string(column.type):
        held = [value for value in pc.unique(values).to_pylist() if value.strip().casefold() in _NO_VALUE]
    elif len(values) and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        least, largest = pc.min_max(values).as_py().values()
        others = values.filter(pc.and_(pc.not_equal(values, least), pc.not_equal(values, largest)))
        next_least, next_largest = pc.min_max(others).as_py().values()
        if least < 0 and next_least is not None and next_least >= 0 and largest >= 0:
            held.append(least)
        if next_largest is not None and largest > max(98, 1.5 * next_largest):
            held.append(largest)
        held = [value for value in held if not str(abs(value)).removesuffix(".0").strip("9")]
    told = [(value, pc.sum(pc.equal(values, value)).as_py()) for value in held]
    said = " and ".join(f"{value!r} in {number} of {len(column)} rows" for value, number in told if number > 1)
    return said and f"holds {said}: if it stands for no value, name it in data.missing"


def unread_texts(name: str, column: pa.ChunkedArray, goals: GoalsFile) -> str:
    """That a feature holds numbers or days as texts, each of which would be a word of its own; else nothing.

    Nothing either where the goals file says that they are words, or dates.
    """
    text = "" if name in (*goals.data.words, *goals.data.dates) else written_days(column) or written_numbers(column)
    return text and f"feature {name!r} {text}, or name it in data.words"


def written_numbers(column: pa.ChunkedArray) -> str:
    """That texts are numbers in a spelling that is not read, so that they would be taken for words; else nothing."""
    first, is_text = first_texts(column)
    # Digits alone may be codes, and so may a few values.
    if not is_text or not all(map(_NUMBER.fullmatch, first)) or all(map(str.isdecimal, first)):
        return ""
    if pc.count_distinct(column).as_py() <= 20:
        return ""
    cure = "write digits and the sign of data.decimal alone to learn from it"
    return f"holds numbers written as texts, such as {first[0]}: {cure}"


def written_days(column: pa.ChunkedArray) -> str:
    """That values are days in a spelling that is not read, so that each would be a word or a number; else nothing."""
    first, is_text = first_texts(column)
    pattern = _DAYS if is_text else _COMPACT_DAY
    if not first or not all(map(pattern.fullmatch, first)):
        return ""
    learn = "name it in data.dates to learn from it"
    others = [str(value) for value in pc.unique(column.drop_null()).to_pylist() if not (is_text and time_of(value))]
    if not others:
        return f"holds days or times: {learn}"
    if is_text and any(map(time_of, first)):
        return (
            f"holds days as 2024-01-31 beside {listing(others, 3)}: write these in the same way, or name them in "
            f"data.missing, and {learn}"
        )
    return f"holds days such as {first[0]}: write them as 2024-01-31 and {learn}"


def first_texts(column: pa.ChunkedArray) -> tuple[list[str], bool]:
    """The first values as texts, and whether they are texts in the table."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    first = [str(value) for value in column.drop_null().slice(0, 100).to_pylist()]
    return first, pa.types.is_string(kind) or pa.types.is_large_string(kind)


def names_rows(name: str, distinct: int, n_rows: int) -> bool:
    """Whether a column is an identifier by its name, of one row or of somebody who has several; of at least 50 rows.

    Somebody may have many rows where the name says nothing else; `plot_id` of few values may be a word to learn from.
    """
    least = 10 if name.casefold() == "id" else 0.1 * n_rows
    return ID_NAME.search(name) is not None and n_rows >= 50 and distinct >= least


def numbers_rows(column: pa.ChunkedArray) -> bool:
    """Whether whole numbers are another one in every row, and rise, fall, leave no gap or have the same eight digits or
    more, as numbers of people and accounts: of at least 50 rows."""
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < 50:
        return False
    values: Ints = column.to_numpy().astype(np.int64)
    steps = np.diff(values)
    if (steps > 0).all() or (steps < 0).all():
        return True
    least, largest = int(values.min()), int(values.max())
    has_form = largest - least == len(values) - 1 or (least >= 10**7 and len(str(least)) == len(str(largest)))
    return has_form and len(np.unique(values)) == len(values)


def codes_of(column: pa.ChunkedArray) -> Ints:
    """Values of a column numbered from 0 as they appear; missing ones have a number of their own."""
    encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    codes: Ints = np.asarray(encoded.indices, dtype=np.int64)
    return codes


def groups_of(column: pa.ChunkedArray) -> Ints:
    """The same codes, -1 for missing values: that a row has no group says nothing of who it is."""
    groups: Ints = np.where(column.is_null().to_numpy(), -1, codes_of(column))
    return groups


def one_hot_siblings(table: pa.Table, name: str, fewest: int = 2) -> list[str]:
    """The columns, at least so many, that hold the other values of what a column holds one value of: names that start
    like its own, a number behind that where it has one, and one 1 among them in a row (see `_are_one_hot`), of at least
    50 rows."""
    if table.num_rows < 50:
        return []
    # Behind the signs between words, before a number at the end (`grade4`), and where small letters end (`gradeHigh`).
    ends = re.finditer(r"[\W_]|(?<=[^\W\d_])(?=\d+$)|(?<=[a-z])(?=[A-Z])", name)
    for end in reversed([match.end() for match in ends]):
        columns = [other for other in table.column_names if other.startswith(name[:end])]
        if name[end:].isdecimal():
            columns = [other for other in columns if other[end:].isdecimal()]
        if len(columns) > fewest and _are_one_hot(table, columns):
            return [other for other in columns if other != name]
    return []


def _are_one_hot(table: pa.Table, columns: Sequence[str]) -> bool:
    """Whether every row has exactly one 1 among these columns; the first one that has another number ends the look.

    Of three columns or more also where some rows have none, as one value is often left out: at most one, where columns
    that have nothing to do with each other would have two in 20 rows or more (none then has a chance of exp(-20)).
    """
    total, counts = np.zeros(table.num_rows, dtype=np.int64), []
    for name in columns:
        ones = _ones(table[name])
        if ones is None:
            return False
        total += ones
        counts.append(int(ones.sum()))
        if total.max() > 1:
            return False
    both = (sum(counts) ** 2 - sum(count**2 for count in counts)) / (2 * len(total))
    return bool(total.min() == 1) or (len(columns) > 2 and both >= 20)


def _ones(column: pa.ChunkedArray) -> Ints | None:
    """A column of zeros and ones, or of false and true; None of any other."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    values = column.to_numpy()
    return values.astype(np.int64) if np.isin(values, (0, 1)).all() else None


def tells_target(column: pa.ChunkedArray, labels: npt.NDArray[Any], *, least: float = 0.995) -> float | None:
    """Share of the rows that a column tells the target of, where it is so large and not by many values; else None.

    A number of many values tells it where the rows above some value are of one class, and those below of the other;
    any other column of many values where the rows with a value are of one class, and those without of the other.
    """
    if len(column) < 50:  # with fewer, a column tells the target by chance
        return None
    codes, groups = codes_of(column), np.unique(labels, return_inverse=True)[1]
    has_many_values = codes.max() >= len(codes) / 10
    if has_many_values and not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        codes = column.is_null().to_numpy().astype(np.int64)
    elif has_many_values:
        numbers = np.asarray(column.to_numpy(), np.float64)
        order = np.argsort(numbers)
        ordered = numbers[order]
        ends = np.flatnonzero(ordered[1:] != ordered[:-1])  # a cut lies between different numbers
        # How many rows of either class are up to each cut, and how many beyond.
        below = np.cumsum(np.eye(int(groups.max()) + 1, dtype=np.int64)[groups[order]], axis=0)[ends]
        told = below.max(axis=1) + (np.bincount(groups) - below).max(axis=1)
        value = ordered[ends[np.argmax(told)]] if len(ends) else np.inf
        codes = (~(numbers <= value)).astype(np.int64)  # missing ones stand above
    return _share_told(codes, groups, least)


def _share_told(codes: Ints, groups: Ints, least: float) -> float | None:
    """Share of the rows whose group is the commonest among the rows of the same code, where it is at least so large.

    Rows of the group -1 are left out. None also where the codes are many, or where the commonest of all groups tells
    half as much beyond itself.
    """
    codes, groups = codes[groups >= 0], groups[groups >= 0]
    if not len(codes) or codes.max() >= len(codes) / 10:
        return None
    # Pairs of code and group as one number, so that one count serves all; then the largest count of each code.
    width = int(groups.max()) + 1
    pairs, counts = np.unique(codes * width + groups, return_counts=True)
    best = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    np.maximum.at(best, pairs // width, counts)
    share, before = float(best.sum() / len(codes)), float(np.bincount(groups).max() / len(groups))
    return share if share >= least and share > before + 0.5 * (1.0 - before) else None
