"""Rules for a first goals file: those with a name in law or practice, where a model keeps them on unseen rows.

No bound is derived from what a plain model happens to do. Its rates are stated, for the person who decides on bounds.
"""

import contextlib
import dataclasses
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from widemargin._text import column_names, listing
from widemargin.cli.checks.column_checks import (
    codes_of,
    few_rows,
    groups_of,
    several_spellings,
    stands_for_none,
    tells_groups,
    tells_target,
)
from widemargin.cli.checks.guesses import Guesses, is_code
from widemargin.cli.goals_file.keys import Label
from widemargin.diagnostics import audit
from widemargin.diagnostics.standards.local_law_144 import is_unknown
from widemargin.estimators.rate_constrained.classifier import RateConstrainedClassifier
from widemargin.estimators.rate_constrained.cross_validated import RateConstrainedClassifierCV
from widemargin.exceptions import WidemarginError
from widemargin.goals import (
    Bundle,
    Constraint,
    Goal,
    Population,
    col,
    demographic_parity,
    equal_opportunity,
    error_rate,
    positive_rate,
    recall,
)
from widemargin.preprocessing import TablePreprocessor, make_preprocessor

Rules: TypeAlias = Sequence[Constraint | Bundle]
Numbers: TypeAlias = Literal["scale", "bins"]
Pairs: TypeAlias = list[tuple[Population, Population]]


@dataclass(frozen=True)
class ProposalOptions:
    """What a first goals file may propose, and what finding it may cost.

    Attributes
    ----------
    rare_words : int
        Words of fewer rows share one feature in a first model.
    least_rows : int
        Of the positive class in each group that a rule is proposed for: of fewer, a rate is known to ten points at
        best.
    shown_rows : int
        In each group that reports show without a rule: of fewer, an interval spans half of all rates.
    columns : int
        Protected columns that rules are proposed for, the first ones that can have one: rules for more at once leave
        little to learn.
    ages : tuple of int
        Where law and practice cut: credit scoring, the US age discrimination act, retirement.
    too_good : float
        Share of the best constant's error; a model that leaves less has probably seen the outcome.
    seconds : float
        For each search over folds: for C, for what a plain model does, and for a model that keeps a rule. A rule whose
        search takes longer is not proposed.
    rows : int
        To fit to: what can be kept on them can about be kept on all.
    folds : int
        On each of which a rule must be kept as promised: a fold is about as large as the part that is held out, so a
        rule that one fold misses is one that the held-out rows may well miss.
    ratios, differences : tuple of float
        What training enforces for the 80% rule, and for 5 points of difference: the first that keeps the promise.
    """

    rare_words: int = 20
    least_rows: int = 100
    shown_rows: int = 20
    columns: int = 3
    ages: tuple[int, ...] = (25, 40, 60)
    too_good: float = 0.1
    seconds: float = 30.0
    rows: int = 10_000
    folds: int = 3
    ratios: tuple[float, ...] = (0.85, 0.9)
    differences: tuple[float, ...] = (0.03, 0.01)


OPTIONS = ProposalOptions()


@dataclass(frozen=True)
class Proposal:
    """A rule for the groups of one column: as training enforces it, as promised for unseen rows, and its meaning."""

    column: str
    name: str
    margin: str
    enforced: Rules
    promised: Rules
    why: str


@dataclass(frozen=True)
class PlainModel:
    """A model without constraints, and what it does on rows that it has not seen.

    Attributes
    ----------
    C : float
    numbers : {"scale", "bins"}
        The setting that is best over folds.
    error, constant_error : float
        Its share of wrong decisions, and that of the best constant.
    recall : dict of label to float
        Of the positive class; of several of each.
    changed : dict of str to float
        Column of an earlier model's decisions -> the share that it changes.
    ranked : float or None
        Where it is no better than the constant: share of the pairs of both classes that scores of a logistic regression
        order rightly on unseen rows, if that is more than chance would give.
    """

    C: float
    numbers: Numbers
    error: float
    constant_error: float
    recall: dict[Label, float]
    changed: dict[str, float]
    ranked: float | None = None

    @classmethod
    def of(
        cls, C: float, numbers: Numbers, true: npt.NDArray[Any], decided: npt.NDArray[Any], found: Sequence[Any],
        earlier: Mapping[str, npt.NDArray[Any]],
    ) -> "PlainModel":  # fmt: skip
        """By its decisions about rows that it has not seen; of which classes the share `found` is told."""
        rows = {label: true == label for label in found}
        recalls = {label: float((decided[of] == label).mean()) if of.any() else 0.0 for label, of in rows.items()}
        classes, counts = np.unique(true, return_counts=True)
        constant_error = float((true != classes[counts.argmax()]).mean())
        changed = {name: float((labels != decided).mean()) for name, labels in earlier.items()}
        return cls(C, numbers, float((decided != true).mean()), constant_error, recalls, changed)


def proposed_goal(proposals: Sequence[Proposal], *, promised: bool, watched: Sequence[Population] = ()) -> Goal:
    """The proposals as a goal, with groups that reports show all the same."""
    rules = (item.promised if promised else item.enforced for item in proposals)
    return Goal(error_rate(), [rule for of_column in rules for rule in of_column], watched=watched)


def groups_to_watch(table: pa.Table, guesses: Guesses, proposals: Sequence[Proposal]) -> list[Population]:
    """Groups of enough rows by the first protected columns that no rule was found for: reports show their rates."""
    found: dict[str, Population] = {}
    with_rule = {item.column for item in proposals}
    told = {*with_rule, *_told_by_others(table, guesses)}
    without = [item for item in guesses.protected.items() if item[0] not in told]
    for column, kind in without[: OPTIONS.columns]:
        pairs, values = _groups(table, column, kind, OPTIONS.shown_rows)
        groups = [group for pair in pairs for group in pair]
        groups += [
            Population(_name(f"{column} {_signs_as_words(value)}"), where=col(column) == value) for value in values
        ]
        for group in groups:
            # Values that differ in signs or accents alone would have one name.
            number = 1 + sum(name.startswith(str(group.name)) for name in found)
            name = str(group.name) if group.name not in found else f"{group.name}_{number}"
            found[name] = group.named(name)
    return [*found.values()]


def _told_by_others(table: pa.Table, guesses: Guesses) -> dict[str, str]:
    """Protected columns that tell the same rows apart as one before them, and which: a rule for both says it twice."""
    codes = {name: codes_of(table[name]).tobytes() for name in guesses.protected}
    first: dict[bytes, str] = {}  # codes count values as they appear, so those of the same groups are the same
    return {name: first[code] for name, code in codes.items() if first.setdefault(code, name) != name}


def propose(
    table: pa.Table, guesses: Guesses, say: Callable[[str], None] = lambda text: None
) -> tuple[PlainModel | None, list[Proposal], list[str]]:
    """Choose C by folds, and the rules that a model is found for.

    Parameters
    ----------
    table : pyarrow.Table
        The training rows.
    guesses : Guesses
    say : callable
        Gets the name of each step before it is done.

    Returns
    -------
    plain : PlainModel or None
        None where none can be fitted.
    proposals : list of Proposal
    left_out : list of str
        Why some protected columns have not this rule, or none.
    """
    rows = table.take(np.random.default_rng(0).permutation(table.num_rows)[: OPTIONS.rows])
    if guesses.positive is None:
        return _plain_of_several(rows, guesses), [], []
    # C and the features are chosen once, without rules, so that all rules are tried with the same model.
    say("choosing C and how numbers become features")
    setting = _best_setting(rows, guesses)
    if setting is None:
        return None, [], []
    trials = _Trials(rows, guesses, *setting)
    plain, proposals, left_out = trials.plain(), list[Proposal](), list[str]()
    if guesses.protected and plain.error >= plain.constant_error:
        # Whoever decides the same for everybody treats all groups alike: such a rule would be met and say nothing.
        fact = f"without one a model has the error {plain.error:.3f} on unseen rows, and the best constant, which keeps"
        return plain, [], [f"any rule: {fact} such rules without telling anybody apart, {plain.constant_error:.3f}"]
    more: list[str] = []
    told = _told_by_others(table, guesses)
    for column, kind in guesses.protected.items():
        shown = column_names([column])
        if column in told:
            left_out.append(f"{shown}: it tells the same rows apart as {column_names([told[column]])}")
            continue
        if len(proposals) == OPTIONS.columns:
            more.append(column)
            continue
        rules = [*_rules(table, column, kind, guesses)]
        values = table[column]
        is_age = _is_age(kind, values)
        # No age is above 1000: such a column holds years of birth instead.
        if not rules and is_age and values.null_count < len(values) and pc.min(values).as_py() > 1000:
            left_out.append(
                f"{shown}: it holds years, and ages are cut at {listing(OPTIONS.ages)}. Add a column of ages, or write "
                f"populations by year yourself"
            )
        elif not rules and _is_uncut(column, kind, values):
            left_out.append(
                f"{shown}: no practice says where to cut its numbers. Write populations yourself, such as "
                f"population({col(column) >= float(f'{pc.approximate_median(values).as_py():.3g}')})"
            )
        elif not rules:
            left_out.append(f"{shown}: no two groups have {OPTIONS.least_rows} training rows of the positive class")
        for rule in rules:
            say(f"trying whether a model can keep a rule: {shown}, {rule[0].name}")
            kept, why = _least_margin_that_keeps(rule, proposals, trials, plain)
            if kept is not None:
                proposals.append(kept)
                break
            left_out.append(f"{shown}, {rule[0].name}: {why}")
    if more:
        left_out.append(f"{column_names(more)}: rules for more than {OPTIONS.columns} columns leave little to learn")
    return plain, proposals, left_out


def _least_margin_that_keeps(
    rule: Sequence[Proposal], others: Sequence[Proposal], trials: "_Trials", plain: PlainModel
) -> tuple[Proposal | None, str]:
    """The rule by the first of its margins that keeps all promises on every fold, or why there is none."""
    why, without = "", plain.error
    # Where a rule costs more than half of what learning gains over a constant, somebody has to want it.
    dearest = 0.5 * (without + plain.constant_error)
    for proposal in rule:
        # Beside the rules that were accepted before: the model has to keep all of them together.
        error, folds_kept = trials.tried([*others, proposal])
        if math.isinf(error):
            return None, "no model was found that keeps it"
        if error > dearest:
            return None, (
                f"it costs more than half of what learning gains: error {error:.3f} on unseen rows, {without:.3f} "
                f"without the rule, {plain.constant_error:.3f} without learning"
            )
        if folds_kept == OPTIONS.folds:
            if trials.plain_keeps(proposal):
                why = f"{proposal.why}; a model without rules keeps it on unseen rows, too"
                proposal = dataclasses.replace(proposal, why=why)
            return proposal, ""
        missed = OPTIONS.folds - folds_kept
        why = f"even trained to {proposal.margin}, it is missed on unseen rows in {missed} of {OPTIONS.folds} folds"
    return None, why


def doubts(table: pa.Table, guesses: Guesses, plain: PlainModel | None) -> list[str]:
    """Why models of these rows may be worth little: values in several spellings or of no meaning, features that tell a
    protected column, a protected column that tells the target, few rows for the columns, or nothing learned by the
    plain one."""
    said = [
        f"{column_names([name])} {text}"
        for name in (guesses.target, *guesses.protected, *guesses.features)
        for text in (several_spellings(table[name]), stands_for_none(table[name], is_target=name == guesses.target))
        if text
    ]
    protected = {name: groups_of(table[name]) for name in guesses.protected}
    for name in guesses.features:
        said += [
            f"{text}: name it in data.protected or data.ignore" for text in tells_groups(name, table[name], protected)
        ]
    labels = table[guesses.target].to_numpy()
    said += [
        f"{column_names([name])} alone tells the target in {share:.1%} of the rows: it may be noted of one class only"
        for name in guesses.protected
        if (share := tells_target(table[name], labels)) is not None
    ]
    counts = np.unique(labels, return_counts=True)[1]
    least = int(counts.min()) if len(counts) > 1 else 0  # of two rows, both may be held out
    if text := few_rows(labels, len(guesses.features)):
        said.append(text)
    if plain is None and least < OPTIONS.folds:
        said.append(
            f"{least} training rows of the rarer class are too few for {OPTIONS.folds} folds, so C is not chosen and "
            "no rule is proposed. Give more rows of it"
        )
    elif plain is None:
        said.append(
            f"no model could be fitted to folds of these rows within {OPTIONS.seconds:g} seconds, so C is not chosen "
            "and no rule is proposed. Give more rows, or fewer columns"
        )
    elif plain.error >= plain.constant_error:
        fact = (
            f"on unseen rows a plain model has the error {plain.error:.2f}, and the best constant has "
            f"{plain.constant_error:.2f}"
        )
        if plain.ranked is not None:
            said.append(
                f"{fact}: the error alone asks for the constant. Yet scores of a logistic regression order "
                f"{plain.ranked:.2f} of the pairs of both classes rightly (chance: 0.50), so something is learned. Ask "
                "for a recall of the rarer class"
            )
        else:
            said.append(f"{fact}: nothing is learned. Add features or rows")
    # In fewer rows a model makes no mistake by chance: a tenth of the constant's in the third unseen is no whole row.
    elif plain.error <= OPTIONS.too_good * plain.constant_error and OPTIONS.too_good * least >= 3:
        shares = {name: tells_target(table[name], labels, least=0.9) for name in guesses.features}
        told = sorted(((share, name) for name, share in shares.items() if share is not None), reverse=True)[:5]
        which = "; alone " + ", ".join(f"{name} tells {share:.0%}" for share, name in told) if told else ""
        said.append(
            f"on unseen rows a plain model is wrong in {plain.error:.1%} only{which}. A column that is known only "
            "after the fact must not be a feature: name it in data.ignore"
        )
    return said


def _best_setting(rows: pa.Table, guesses: Guesses) -> tuple[float, Numbers, Any] | None:
    """C, how numbers become features, and the features: the best over folds; None where no model can be fitted."""
    found = []
    for numbers in get_args(Numbers):
        step = _first_step(guesses, numbers)
        search = RateConstrainedClassifierCV(
            None, Cs=(0.002, 0.02, 0.2, 2.0), max_steps=3, cv=3, random_state=0, refit=False,
            time_budget=OPTIONS.seconds,
        )  # fmt: skip
        with _quiet(), contextlib.suppress(WidemarginError, ValueError):
            X = step.fit_transform(rows)
            search.fit(X, rows[guesses.target].to_numpy())
            if not search.n_splits_:  # the time was too short for a single fold
                continue
            error = float(search.cv_results_["mean_objective"][search.best_index_])
            found.append((error, float(f"{search.C_:.2g}"), numbers, X))
    return min(found, key=lambda item: item[0])[1:] if found else None


def _first_step(guesses: Guesses, numbers: Numbers) -> TablePreprocessor:
    """What makes features of the rows, not fitted."""
    return make_preprocessor(
        list(guesses.features), words=guesses.words, numbers=numbers, rare_words=OPTIONS.rare_words
    )  # fmt: skip


def _plain_of_several(rows: pa.Table, guesses: Guesses) -> PlainModel | None:
    """A logistic regression of several classes, by the best setting over folds, and what it does on unseen rows."""
    labels, unseen, found = rows[guesses.target].to_numpy(), np.arange(rows.num_rows) % 3 == 0, []
    for numbers in get_args(Numbers):
        step = _first_step(guesses, numbers)
        with _quiet(), contextlib.suppress(WidemarginError, ValueError):
            X = step.fit_transform(rows)[~unseen]
            for C in (0.002, 0.02, 0.2, 2.0):
                model = LogisticRegression(C=C, max_iter=300)
                share = cross_val_score(model, X, labels[~unseen], cv=3, error_score="raise").mean()
                found.append((-float(share), C, numbers, step))
    if not found:
        return None
    _, C, numbers, step = min(found, key=lambda item: item[0])
    with _quiet():
        X = step.transform(rows)
        decided = LogisticRegression(C=C, max_iter=300).fit(X[~unseen], labels[~unseen]).predict(X[unseen])
    earlier = {name: rows[name].to_numpy()[unseen] for name in guesses.earlier}
    return PlainModel.of(C, numbers, labels[unseen], decided, np.unique(labels).tolist(), earlier)


class _Trials:
    """Models fitted to all folds of some rows but one, which decide the rows of that one."""

    def __init__(self, rows: pa.Table, guesses: Guesses, C: float, numbers: Numbers, X: Any) -> None:
        self._rows, self._guesses, self._C, self._numbers, self._X = rows, guesses, C, numbers, X
        self._labels, self._fold = rows[guesses.target].to_numpy(), np.arange(rows.num_rows)
        # A rare class is in every fold, lest the rows of the others hold one class alone.
        self._fold[np.argsort(self._labels, kind="stable")] = np.arange(rows.num_rows) % OPTIONS.folds
        self._plain = self._decided(None)

    def _decided(self, goal: Goal | None) -> npt.NDArray[Any]:
        """Labels of all rows, each by a model that is trained to a goal and has not seen the row."""
        decided: npt.NDArray[Any] = np.empty_like(self._labels)
        for fold in range(OPTIONS.folds):
            fit = self._fold != fold
            model = RateConstrainedClassifier(
                goal, C=self._C, pos_label=self._guesses.positive, time_budget=OPTIONS.seconds / OPTIONS.folds
            )
            with _quiet():
                model.fit(self._X[fit], self._labels[fit], populations=self._rows.filter(pa.array(fit)))
            decided[~fit] = model.predict(self._X[~fit])
        return decided

    def plain(self) -> PlainModel:
        """What a model without constraints does."""
        positive = self._guesses.positive
        earlier = {name: self._rows[name].to_numpy() for name in self._guesses.earlier}
        plain = PlainModel.of(self._C, self._numbers, self._labels, self._plain, [positive], earlier)
        if plain.error >= plain.constant_error:
            plain = dataclasses.replace(plain, ranked=self._ranked(self._labels == positive))
        return plain

    def _ranked(self, positive: npt.NDArray[np.bool_]) -> float | None:
        """Share of the pairs that a logistic regression orders rightly; None where chance gives as much.

        Chance: three standard errors of the statistic of Mann and Whitney (1947) above one half.
        """
        n, n_positive = len(positive), int(positive.sum())
        if min(n_positive, n - n_positive) < OPTIONS.folds:
            return None
        model = LogisticRegression(C=self._C, class_weight="balanced", max_iter=300)
        with _quiet():
            share = float(cross_val_score(model, self._X, positive, cv=OPTIONS.folds, scoring="roc_auc").mean())
        chance = math.sqrt((n + 1) / (12.0 * n_positive * (n - n_positive)))
        return share if share > 0.5 + 3.0 * chance else None

    def tried(self, proposals: Sequence[Proposal]) -> tuple[float, int]:
        """Error of models trained to proposals, infinite if none is found, and on how many folds all promises hold."""
        try:
            decided = self._decided(proposed_goal(proposals, promised=False))
            return float((decided != self._labels).mean()), self._folds_kept(decided, proposals)
        except (WidemarginError, ValueError):
            return math.inf, 0

    def plain_keeps(self, proposal: Proposal) -> bool:
        """Whether a model without constraints keeps what is promised on every fold."""
        return self._folds_kept(self._plain, [proposal]) == OPTIONS.folds

    def _folds_kept(self, decided: npt.NDArray[Any], proposals: Sequence[Proposal]) -> int:
        promised, kept = proposed_goal(proposals, promised=True), 0
        for unseen in (self._fold == fold for fold in range(OPTIONS.folds)):
            kept += audit(
                decided[unseen], promised, y=self._labels[unseen], populations=self._rows.filter(pa.array(unseen)),
                pos_label=self._guesses.positive, confidence=None,
            ).passed  # fmt: skip
        return kept


def _quiet() -> "warnings.catch_warnings[None]":
    """Warnings about words of few rows, or a fit that is good enough for a guess, do not help whoever reads a guess."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def _rules(table: pa.Table, column: str, kind: str, guesses: Guesses) -> Iterator[list[Proposal]]:
    """The rules to try for a column, each by rising margins; none where it has no two groups that are large enough.

    Training keeps them with a margin, so that unseen rows keep them, too.
    """
    outcome = repr(guesses.positive)
    pairs, values = _groups(
        table.filter(pc.equal(table[guesses.target], pa.scalar(guesses.positive))), column, kind, OPTIONS.least_rows
    )
    if pairs or values:
        rest_of = [value for value in pc.unique(table[column]).to_pylist() if values and value not in values]
        unknown = [value for value in rest_of if is_unknown(value)]
        small = [value for value in rest_of if value not in unknown]
        rest = f"; not for {listing(small)}, of fewer than {OPTIONS.least_rows} rows with {outcome}" if small else ""
        if unknown:
            rest += "; not for rows whose group nobody knows"
            rest += f" ({listing([value for value in unknown if value is not None])})" if unknown != [None] else ""
        both_ways = [ends for pair in pairs for ends in (pair, pair[::-1])]
        for name, why, margin, margins, rules_at, promised in (
            ("80% rule", f"every group gets {outcome} at least four fifths as often as any other",
             "a ratio of {:g}", OPTIONS.ratios, _four_fifths, 0.8),
            ("equal opportunity", f"of those with {outcome}, as many are found in every group, within 5 points",
             "a difference of {:g}", OPTIONS.differences, _opportunity, 0.05),
        ):  # fmt: skip
            yield [
                Proposal(column, name, margin.format(at), rules_at(column, both_ways, values, at),
                         rules_at(column, both_ways, values, promised),
                         f"{why}; trained to {margin.format(at)}, so that it holds on other rows, too{rest}")
                for at in margins
            ]  # fmt: skip


def _four_fifths(column: str, both_ways: Pairs, values: list[Any], ratio: float) -> Rules:
    if values:
        return [demographic_parity(column, ratio=ratio, values=values).named(f"four_fifths_{_name(column)}")]
    return [(positive_rate(a) / positive_rate(b) >= ratio).named(f"four_fifths_{a.name}") for a, b in both_ways]


def _opportunity(column: str, both_ways: Pairs, values: list[Any], most: float) -> Rules:
    if values:
        return [equal_opportunity(column, difference=most, values=values).named(f"equal_opportunity_{_name(column)}")]
    return [(recall(a) >= recall(b) - most).named(f"equal_opportunity_{a.name}") for a, b in both_ways]


def _is_uncut(column: str, kind: str, values: pa.ChunkedArray) -> bool:
    """Whether a column holds numbers, neither codes nor ages that are cut: no groups of its values are known."""
    if _is_age(kind, values):
        return bool(pc.max(values).as_py() < OPTIONS.ages[0])
    values = _whole(values)
    return bool(pa.types.is_floating(values.type) or (pa.types.is_integer(values.type) and not is_code(column, values)))


def _is_age(kind: str, values: pa.ChunkedArray) -> bool:
    """Whether a column holds ages as numbers; two values say who is old, or of one group of ages."""
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    return kind == "age" and is_number and len(pc.unique(values.drop_null())) > 2


def _whole(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers as such, also where they are written as 0.0 and 1.0 because some are missing."""
    if pa.types.is_floating(values.type) and values.null_count < len(values):
        numbers = values.drop_null().to_numpy()
        if np.array_equal(numbers, np.rint(numbers)):
            return values.cast(pa.int64())
    return values


def _groups(rows: pa.Table, column: str, kind: str, least: int) -> tuple[Pairs, list[Any]]:
    """Groups of enough rows: who is younger and who is not where law and practice cut ages, else two values or more."""
    values, name = rows[column], _name(column)
    if _is_age(kind, values):
        ages = values.to_numpy()
        cuts = [cut for cut in OPTIONS.ages if min((ages < cut).sum(), (ages >= cut).sum()) >= least]
        wheres = [(cut, col(column) < cut, col(column) >= cut) for cut in cuts]
        return [
            (Population(f"{name}_below_{cut}", where=below), Population(f"{name}_from_{cut}", where=above))
            for cut, below, above in wheres
        ], []
    if _is_uncut(column, kind, values):
        return [], []
    values = _whole(values)
    counts = [(item["counts"], item["values"]) for item in pc.value_counts(values).to_pylist()]
    large = [pair for pair in counts if pair[0] >= least and not is_unknown(pair[1])]
    of_size = [value for _, value in sorted(large, key=lambda pair: (-pair[0], str(pair[1])))]
    return [], of_size if len(of_size) > 1 else []


def _signs_as_words(value: Any) -> str:
    """A value whose signs are lost in a name: those of `60+` are not 60 years old, and the codes -1 and 1 differ."""
    text = str(value)
    for sign, words in ((r"^-(?=\d)", "minus "), ("<=|≤", " up to "), (">=|≥", " from "), ("<", " below "),
                        (">", " above "), (r"(?<=\d)\s*\+", " and more ")):  # fmt: skip
        text = re.sub(sign, words, text)
    return text


def _name(text: str) -> str:
    """A name that needs no quotes."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    name = "_".join("".join(c if f"a{c}".isidentifier() else " " for c in folded).split())
    return f"group_{name}"[:80] if not name[:1].isalpha() else name[:80]
