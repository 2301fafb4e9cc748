"""What the columns of a table are for, guessed from their names and values. Every guess carries its reason."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widemargin._text import folded, listing
from widemargin.cli.checks.column_checks import (
    first_texts,
    names_rows,
    numbers_rows,
    one_hot_siblings,
    several_spellings,
    tells_target,
    written_days,
    written_numbers,
)
from widemargin.cli.checks.vocabulary import (
    AFFIRMATIVE,
    AGED,
    ALIKE,
    BAD_VALUES,
    BIRTH,
    DENYING,
    EARLIER,
    GOOD_VALUES,
    HARMS,
    OF_THINGS,
    PROTECTED,
    SAMPLING,
    SIZES,
    TARGETS,
    VALUES,
    is_one_of,
    matching_kind,
    plain_letters,
    plain_word,
    words_of,
)
from widemargin.cli.goals_file.keys import Label, Split
from widemargin.exceptions import DataError
from widemargin.preprocessing.schema import squares_overflow

_PLACES = {"zip", "zipcode", "postcode", "postal", "plz", "fips"}
"""Words of numbers that name places: the next larger number is no more of anything."""
_PARTS = {"train", "training", "test", "testing", "valid", "validation", "holdout", "dev", "fold", "cv", "learn"}
"""Words in columns that split the rows: voices have parts, and arms fold, too."""


@dataclass(frozen=True)
class Guesses:
    """Roles of the columns.

    Attributes
    ----------
    target : str
    positive : label or None
        The outcome that people want, where some columns are protected; else the rarer one; None of several.
    why_target, why_positive : str
    protected : mapping of str to str
        Column -> what people are protected by, such as "sex".
    alike : mapping of str to str
        Of those that may be none, column -> why it looks like one.
    words : tuple of str
    ignore : mapping of str to str
        Column -> reason.
    earlier : tuple of str
        Columns that look like decisions of an earlier model.
    split : Split or None
    features : tuple of str
        All other columns.
    n_unlabelled : int
        Rows without a value of the target.
    """

    target: str
    positive: Label | None
    why_target: str
    why_positive: str
    protected: Mapping[str, str]
    alike: Mapping[str, str]
    words: tuple[str, ...]
    ignore: Mapping[str, str]
    earlier: tuple[str, ...]
    split: Split | None
    features: tuple[str, ...]
    n_unlabelled: int


MOST_NAMED = 20
"""Classes of a target that was named; one that is guessed has two."""

Ask: TypeAlias = Callable[[str, Sequence[str]], str]
"""A question and its answers, the likeliest first: gives one of them."""


def guess_roles(
    table: pa.Table,
    target: str | None,
    where: str,
    *,
    favourable: str | None = None,
    ask: Ask | None = None,
) -> Guesses:
    """Look at names and values of all columns.

    Parameters
    ----------
    table : pyarrow.Table
    target : str or None
        The target, if it is known.
    where : str
        The table in messages.
    favourable : str or None
        The outcome that people want, as text, if it is known.
    ask : callable or None
        Settles what the names leave open; None: the careful answer is taken.

    Raises
    ------
    DataError
        No column can be the target, or the one named cannot; it has no such outcome.
    """
    split = next(filter(None, (_split(name, table[name]) for name in table.column_names)), None)
    taken = set() if split is None else {split.column}
    if target is None:
        target, why = _guessed_target(table, taken, where, ask)
    else:
        _check_target(table, target, where)
        why = "named by --target"
    taken.add(target)
    n_unlabelled = table[target].null_count
    table = table.filter(table[target].is_valid())
    labels = table[target].to_numpy()
    classes = np.unique(labels)
    earlier = [
        name for name in table.column_names if name not in taken and _is_earlier_decision(name, table[name], classes)
    ]
    rest = [name for name in table.column_names if name not in taken and name not in earlier]
    # Beside a height or a length, a weight is what a scale shows.
    sampling = SAMPLING if any(map(partial(matching_kind, {"size": SIZES}), rest)) else f"{SAMPLING} weight wght"
    reasons = {name: _reason_to_ignore(name, table[name], labels, sampling) for name in rest}
    # Values of what the target holds one value of are known no sooner than the target.
    siblings = one_hot_siblings(table, target)
    reasons |= {name: f"holds another value of what {target!r} holds one of" for name in siblings if name in reasons}
    if siblings:
        why += f"; one of {len(siblings) + 1} columns for the values of one: join them to predict all of these values"
    ignore = {name: reason for name, reason in reasons.items() if reason is not None}
    used = [name for name in rest if name not in ignore]
    kinds = {name: kind for name in used if (kind := _protected_kind(name)) is not None}
    alike = {}
    for name in used:
        kind, reason = (None, "") if name in kinds else _looks_protected(name, table[name])
        question = f"{name!r} {reason}. Is it a protected attribute?"
        # Without anybody to ask, the careful answer: a column that may be protected is kept from the model.
        if kind is not None and (ask is None or ask(question, ("yes", "no")) == "yes"):
            kinds[name], alike[name] = kind, reason
    # Rules are proposed for the first ones: those that only their values make look like one come last.
    by_value = {name for name in alike if matching_kind(ALIKE, name) is None}
    order = sorted(kinds, key=lambda name: (name in by_value, [*PROTECTED].index(kinds[name])))
    protected = {name: kinds[name] for name in order}
    of_people = [*protected, *(name for name in ignore if _protected_kind(name) is not None)]
    positive, why_positive = _positive(target, labels, bool(of_people), favourable, ask)
    features = tuple(name for name in used if name not in protected)
    code_words = {"code", "type", "education", "category", "status", "kind", "group", "region", "state", *_PLACES}
    codes = (name for name in features if words_of(name) & code_words and is_code(name, table[name]))
    words = tuple(name for name in codes if _values(table[name], 2) is None)  # of two values a number says as much
    if not features:
        # First what a user may mend: columns that are left out as they are written.
        others = [f"{name!r} {reason}" for name, reason in ignore.items()]
        others += [f"{name!r} ({kind})" for name, kind in protected.items()]
        why = f": {'; '.join(others[:5])}{'; ...' if len(others) > 5 else ''}" if others else ""
        cure = "Add columns, or name another target by --target"
        stop = "" if why.endswith(("?", "...")) else "."
        raise DataError(f"{where}: no column is left as a feature of {target!r}{why}{stop} {cure}")
    return Guesses(
        target, positive, why, why_positive, protected, alike, words, ignore, tuple(earlier), split, features,
        n_unlabelled,
    )  # fmt: skip


def _check_target(table: pa.Table, target: str, where: str) -> None:
    """Refuse a target that was named and is not there, or has one value or too many."""
    if target not in table.column_names:
        raise DataError(f"{where}: there is no column {target!r} (--target). It has {listing(table.column_names, 20)}")
    if _is_target(table[target].drop_null(), most=MOST_NAMED):
        return
    n_values = pc.count_distinct(table[target]).as_py()
    fact, cure = (
        f"{n_values} values of type {table[target].type}",
        "Cut numbers into classes, join words, or name another column",
    )
    numbers = _values(table[target], MOST_NAMED) or []
    if in_parts := [value for value in numbers if isinstance(value, float) and not value.is_integer()]:
        fact = f"numbers that are not whole, such as {in_parts[0]!r}"
    if n_values == 1:
        fact, cure = f"1 value, {pc.min_max(table[target])['min'].as_py()!r}", "Add rows of another one"
    raise DataError(
        f"{where}: column {target!r} (--target) has {fact}; a target needs 2 to {MOST_NAMED} words or whole numbers. "
        f"{cure}"
    )


def _is_earlier_decision(name: str, column: pa.ChunkedArray, classes: npt.NDArray[Any]) -> bool:
    """Whether a column is named like the decisions of an earlier model, and holds classes of the target alone."""
    values = _values(column, 2) if words_of(name) & EARLIER else None
    # `old` with yes and no says who is old.
    if not values or (plain_letters(name) in AGED and any(is_one_of(AFFIRMATIVE, str(value)) for value in values)):
        return False
    return {*map(repr, values)} <= {*map(repr, classes.tolist())}


def _protected_kind(name: str) -> str | None:
    """What a column is about, as its name says plainly."""
    kind = matching_kind(PROTECTED, name)
    return None if kind == "age" and words_of(name) & OF_THINGS else kind


def _looks_protected(name: str, column: pa.ChunkedArray) -> tuple[str | None, str]:
    """What a column may be about that its name does not say plainly, and why it looks like that."""
    kind = "age" if plain_letters(name) in AGED else matching_kind(ALIKE, name) or matching_kind(PROTECTED, name)
    if kind is not None:
        return kind, f"may be about {kind}, as its name says"
    texts = {plain_word(str(value)) for value in _values(column, 12) or []}
    if "m" in texts and texts & {"f", "w"} and texts <= {"m", "f", "w", "d", "x", "u", "o"}:
        return "sex", f"may be about sex: it holds {' and '.join(sorted(texts))}"
    for kind, of_kind in VALUES.items():
        if len(texts & of_kind) >= 2:
            return kind, f"may be about {kind}: it holds {' and '.join(sorted(texts & of_kind)[:2])}"
    return None, ""


def _positive(
    target: str, labels: npt.NDArray[Any], is_about_people: bool, favourable: str | None, ask: Ask | None
) -> tuple[Label | None, str]:
    """The class that rates call positive, and why: the outcome that people want, or the rarer one; None of several."""
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) > 2:
        rule = f"recall(of={classes.tolist()[0]!r}) >= 0.8"
        return None, f"it has {len(classes)} values: write the rules that you need, such as {rule}"
    by_text = {str(value): value for value in classes.tolist()}
    rarer = str(classes[counts == counts.min()].tolist()[-1])
    if favourable is not None:
        if favourable not in by_text:
            known = " and ".join(map(repr, by_text))
            raise DataError(f"--favourable {favourable!r}: the target {target!r} has the values {known}. Name one")
        return by_text[favourable], "the outcome that people want, named by --favourable"
    if not is_about_people:
        return by_text[rarer], "the rarer of its two values"
    # Rates of groups are about the outcome that people want, so for people that is the positive class. The words of the
    # values say which it is; else the name of the target does, as a harm or a benefit.
    judged, named = _judging([*by_text]), [text for text in by_text if is_one_of(AFFIRMATIVE, text)]
    # 1 says yes beside 0 or -1; of 1 and 2 both are codes, and often 2 is the harm.
    named = [] if all(isinstance(value, int | float) and value > 0 for value in by_text.values()) else named
    is_harm, is_benefit = (matching_kind({"it": words}, target) is not None for words in (HARMS, GOOD_VALUES))
    if words_of(target) & DENYING:
        is_harm, is_benefit = is_benefit, is_harm
    if judged is not None:
        likely, why = judged, "as the words say"
    elif is_harm:
        harm = named[0] if len(named) == 1 else rarer
        (likely,), why = [text for text in by_text if text != harm], f"because {target!r} names a harm"
    elif is_benefit and len(named) == 1:
        likely, why = named[0], f"because {target!r} names it"
    else:
        likely, why = named[0] if len(named) == 1 else rarer, "no name says which"
    if ask is not None:
        other = next(text for text in by_text if text != likely)
        chosen = ask(f"Which value of {target!r} is the outcome that people want?", (likely, other))
        return by_text[chosen], "the outcome that people want, as was answered"
    return by_text[likely], f"assumed to be the outcome that people want ({why}); name it by --favourable"


def _judging(values: Sequence[str]) -> str | None:
    """Of two values the one that people want, where the words of just one of them say that it is wanted, or a harm."""
    good = [value for value in values if is_one_of(GOOD_VALUES, value)]
    wanted = good if len(good) == 1 else [value for value in values if not is_one_of(f"{BAD_VALUES} {HARMS}", value)]
    return wanted[0] if len(wanted) == 1 else None


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


def _guessed_target(table: pa.Table, taken: set[str], where: str, ask: Ask | None) -> tuple[str, str]:
    """The column with two values whose name is the likeliest, else the one that is chosen, else the last one.

    Of more than two values only the one is taken whose name is a target's, where no column has two.
    """
    two_valued = [name for name in table.column_names if name not in taken and _is_target(table[name])]
    of_people = {name for name in two_valued if matching_kind(PROTECTED, name) is not None}
    earlier = {name for name in two_valued if words_of(name) & EARLIER}
    candidates = [name for name in two_valued if name not in of_people | earlier]
    # A decision is what is to be learned where nothing else can be.
    candidates = candidates or [name for name in two_valued if name not in of_people and "decision" in words_of(name)]
    kinds = {name: _target_kind(name) for name in candidates}
    for likely in TARGETS:
        named = [name for name in candidates if kinds[name] == likely]
        if named:
            return named[-1], "it has two values and this name"
    for name in table.column_names:
        texts = {str(value) for value in _values(table[name], MOST_NAMED) or ()} if name not in taken else set()
        if _target_kind(name) is not None and len(texts) > len({*map(folded, texts)}) == 2:
            raise DataError(f"{where}: {name!r} {several_spellings(table[name])}. Or name the target by --target")
    judged = [name for name in candidates if _judging(list(map(str, _values(table[name], 2) or ())))]
    if judged:
        return judged[-1], "one of its two values is a word of success or of a harm"
    # A column that may be about a group of people is a target only where there is no other; so is one of several for
    # the values of one, and one of a pair such as `searched_N` and `searched_Y`.
    candidates = [name for name in candidates if _looks_protected(name, table[name])[0] is None] or candidates
    candidates = [name for name in candidates if not one_hot_siblings(table, name, 1)] or candidates
    # Of a value in a few rows the training rows may have none.
    counts = {name: pc.min(pc.value_counts(table[name]).field("counts")).as_py() for name in candidates}
    candidates = [name for name in candidates if counts[name] > min(3, table.num_rows // 20)] or candidates
    if not candidates:
        said = "no column without gaps has exactly two values"
        if two_valued:
            said += f", except {listing(two_valued)}: by name attributes of people, or decisions of an earlier model"
        others = [name for name in table.column_names if name not in taken and name not in two_valued]
        others = [name for name in others if matching_kind(PROTECTED, name) is None]
        more = [name for name in others if _is_target(table[name], MOST_NAMED)]
        named = [name for name in more if _target_kind(name) is not None]
        if not two_valued and len(named) == 1:
            return named[0], "it has this name, and no column has two values"
        may_be = [f"{listing(more, 5)}, of more values"] if more else []
        gaps = {name: table[name] for name in others if table[name].null_count}
        most = {name: MOST_NAMED if pa.types.is_string(column.type) else 2 for name, column in gaps.items()}
        with_gaps = [name for name, column in gaps.items() if _is_target(column.drop_null(), most[name])]
        may_be += [
            f"{name!r}, of which {gaps[name].null_count} row(s) without a value are left out then"
            for name in sorted(with_gaps, key=lambda name: len(_values(gaps[name], MOST_NAMED) or ()))[:3]
        ]
        needs = f", of 2 to {MOST_NAMED} words or whole numbers: cut numbers into classes, or join words, to make one"
        cure = f" ({' or '.join(may_be)})" if may_be else "" if two_valued else needs
        raise DataError(f"{where}: {said}. Name the target by --target{cure}")
    open_ones = [*reversed(candidates), *(name for name in two_valued if "decision" in words_of(name))]
    if ask is not None and len(set(open_ones)) > 1:
        return ask("Which column is to be predicted?", list(dict.fromkeys(open_ones))), "as was answered"
    return candidates[-1], "the last column with two values; name another by --target"


def _target_kind(name: str) -> str | None:
    """How a column's name speaks of a target. A y behind another word may say yes, as in `searched_Y`."""
    return matching_kind(TARGETS, re.sub(r"(?<=[^\W_])[\W_]+[yY]$", "", name))


def _is_target(column: pa.ChunkedArray, most: int = 2) -> bool:
    values = _values(column, most)
    return not column.null_count and values is not None and len(values) >= 2 and all(
        isinstance(value, str | int | bool) or (isinstance(value, float) and value.is_integer()) for value in values
    )  # fmt: skip


def _reason_to_ignore(name: str, column: pa.ChunkedArray, labels: npt.NDArray[Any], sampling: str) -> str | None:
    """Why a column is no feature; None where nothing speaks against it. `sampling`: words of weights."""
    kind, (first, is_text) = column.type, first_texts(column)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if column.null_count == len(column):
        return "holds no value"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "holds bytes that are no UTF-8 text (save the file as UTF-8 to use it)"
    # Whatever tells the target of people's groups, rates are measured by them, and the model never sees them.
    share = None if _protected_kind(name) is not None else tells_target(column, labels)
    if share is not None:
        return f"alone tells the target in {share:.1%} of the rows: is it known only after the fact?"
    is_date, days = pa.types.is_date(kind) or pa.types.is_timestamp(kind), written_days(column)
    if (is_date or days) and matching_kind({"birth": BIRTH}, name) is not None:
        return "tells the age: add a column of ages in years and name that in data.protected, to measure rates by it"
    if is_date:
        return "holds days or times: name it in data.dates, not here, to learn from it"
    if days:
        return days
    if not (is_text or is_number or pa.types.is_boolean(kind)):
        return f"holds {kind}, which is neither number nor word"
    numbers = column.drop_null().to_numpy() if pa.types.is_floating(kind) else np.empty(0)
    if np.isinf(numbers).any():
        return "holds infinite numbers: leave these cells empty, or name them in data.missing, to learn from it"
    if squares_overflow(numbers):
        return "holds numbers whose squares overflow: divide them to learn from it"
    words, distinct = words_of(name), pc.count_distinct(column, mode="all").as_py()
    if text := written_numbers(column):
        return text
    # In quotes an empty text is a word, and names no row.
    empty = pc.sum(pc.equal(column, ""), min_count=0).as_py() if is_text else 0
    n_values = len(column) - column.null_count - empty
    is_named = names_rows(name, distinct, n_values)
    reasons = {
        "has the same value in every row": distinct == 1,
        # Training fails where none of its rows has a value.
        f"is empty in all rows but {n_values}": n_values < min(10, column.null_count),
        # Words that stand in one row each teach nothing about another row, however few the rows are.
        "names the rows: nearly every value is another one": distinct > 0.9 * n_values
        and (is_named or (is_text and n_values >= 10)),
        f"is an identifier by its name: {distinct} of them in {n_values} rows": is_named,
        "numbers the rows": numbers_rows(column),
        f"has {distinct} different words": is_text and distinct > 1000,
        "seems to say how the rows are to be split": distinct <= 20
        and words & {"split", "part", "fold", "set", "partition", "subset"}
        and (is_number or any(words_of(text) & _PARTS for text in first)),
        "seems to be a sampling weight, no property of the row": is_number
        and matching_kind({"weight": sampling}, name) is not None,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def is_code(name: str, column: pa.ChunkedArray) -> bool:
    """Whether whole numbers may stand for words: few values (of places, hundreds), and a name that counts nothing."""
    few = 1000 if words_of(name) & _PLACES else 50
    is_few = pa.types.is_integer(column.type) and _values(column, few) is not None
    return is_few and not words_of(name) & {"num", "number", "count", "n", "years", "amount", "amt"}
