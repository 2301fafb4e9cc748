"""Two classifiers against one goal: who meets it, what one gains and loses over the other, and what proves it.

Only rows on which two classifiers differ can tell which one is better (Goh et al., section 1, "Churn"): on all others
both are right or both wrong. Of m labelled rows of that kind, the number W on which the second one is right is binomial
with a share p, and the two are equally good if p = 1/2. That is McNemar's test, exact.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.special

from widemargin._text import listing
from widemargin._typing import ArrayLike, Bools, Classifier, Column, Features, Label, Table
from widemargin.diagnostics.audit import audit, own_setting
from widemargin.diagnostics.comparison_report import ComparisonReport, PopulationComparison
from widemargin.diagnostics.streaming import GoalCounts
from widemargin.exceptions import DataError
from widemargin.goals.binding.labels import ClassPair, encode_labels, find_classes
from widemargin.goals.binding.membership import members
from widemargin.goals.binding.sources import Source, make_source
from widemargin.goals.binding.tables import column_of
from widemargin.goals.language.bundles import Bundle
from widemargin.goals.language.goal import Goal, checked_goal
from widemargin.goals.language.linear import METRICS
from widemargin.goals.language.populations import Population
from widemargin.goals.language.predicates import Compare
from widemargin.goals.measuring.counting import CountedRows, columns_used
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.goals.measuring.intervals import clopper_pearson
from widemargin.rows import External, Rows, ask_model, is_asked, length_of, rows_of_source


def mcnemar_p(wins: float, losses: float) -> float:
    """Two-sided p value of the exact test of McNemar that a win is as likely as a loss.

    Effective counts of weighted rows need not be whole; the incomplete beta function then continues the binomial
    distribution, as in the interval of Korn and Graubard.

    Examples
    --------
    >>> from widemargin.diagnostics.compare import mcnemar_p
    >>> mcnemar_p(9, 1)
    0.021484375
    """
    if wins + losses == 0:
        return 1.0
    return float(min(1.0, 2.0 * scipy.special.betainc(max(wins, losses), min(wins, losses) + 1.0, 0.5)))


def power_of(labels: ArrayLike, share: float, alpha: float = 0.05) -> npt.NDArray[np.float64]:
    """Probability that the exact two-sided test at level alpha finds the difference and its direction.

    Parameters
    ----------
    labels : array-like of int, shape (k,)
        Labelled rows on which the two differ.
    share : float in [0, 1]
        Probability that the better one is right on such a row; above 1/2.
    """
    from scipy.stats import binom  # slow to import, and not needed by other diagnostics

    number = np.asarray(labels, dtype=np.int64)
    # reject where wins >= least: the smallest number whose upper tail under p = 1/2 is at most alpha / 2
    least = binom.isf(alpha / 2.0, number, 0.5) + 1.0
    return np.asarray(binom.sf(least - 1.0, number, share), dtype=np.float64)


def labels_needed(share: float, *, power: float = 0.8, alpha: float = 0.05) -> int | None:
    """How many labelled rows on which two classifiers differ prove, with some power, which one is better.

    The least number such that with it, and with every larger one, the exact two-sided test of McNemar at level alpha
    finds the better one with at least this probability. (The power of an exact test rises and falls like a saw.) Beyond
    20,000 labels: `((z_a / 2 + z_b sqrt(p (1 - p))) / (p - 1/2))^2` with the normal quantiles z of `1 - alpha / 2` and
    of `power`, and `1 / (p - 1/2)` more for continuity.

    Parameters
    ----------
    share : float in [0, 1]
        Probability that the second one is right on such a row.
    power, alpha : float in (0, 1)

    Returns
    -------
    int or None
        None: the two are equally good, and no number proves a difference.

    Examples
    --------
    The example of Goh et al. (2016): 70% and 75% accurate. If the second one wins on all of the 5% on which they
    differ, a few labels suffice; if it wins on 30% of all rows and loses on 25%, nearly 1000 are needed.

    >>> from widemargin.diagnostics import labels_needed
    >>> labels_needed(1.0), labels_needed(30 / 55)
    (6, 981)
    """
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0.0 < value < 1.0:
            raise DataError(
                f"{name} is {value!r}; it must lie between 0 and 1, such as {0.8 if name == 'power' else 0.05}."
            )
    if not 0.0 <= share <= 1.0:
        raise DataError(f"share is {share!r}; it must lie between 0 and 1.")
    better = max(share, 1.0 - share)
    if better - 0.5 < 1e-12:
        return None
    z_alpha, z_power = (float(scipy.special.ndtri(level)) for level in (1.0 - alpha / 2.0, power))
    spread = z_alpha / 2.0 + z_power * math.sqrt(better * (1.0 - better))
    guess = max(1.0, spread / (better - 0.5)) ** 2 + 1.0 / (better - 0.5)
    if guess > 20_000:  # beyond, computing the power of each number takes long, and the guess is near
        return math.ceil(guess)
    # The power of an exact test falls now and then as labels are added, so the last number that is too small counts.
    numbers = np.arange(1, int(1.2 * guess) + 100)
    short = np.flatnonzero(power_of(numbers, better, alpha) < power)
    return int(numbers[short[-1]]) + 1 if short.size else 1


def gain_interval(
    wins: float, losses: float, changes: float, n_rows: float, confidence: float = 0.95, *, neither: float = 0.0
) -> tuple[float, float]:
    """Interval of the difference in accuracy, from those of churn and of the share of wins.

    The difference is `c (2 p - 1)`, with the churn c (of all rows) and the share p of wins among the labelled rows that
    differ. Of several classes both may be wrong there, on `neither` of the labelled rows that differ, and only the
    share of the others counts of c. Each gets the interval of Clopper and Pearson; the result covers at least
    `confidence` (Bonferroni).
    """
    told = wins + losses
    each = 1.0 - (1.0 - confidence) / (3.0 if neither else 2.0)
    churn = clopper_pearson(changes, n_rows, each)
    share = clopper_pearson(wins, told, each) if told else (0.0, 1.0)
    telling = clopper_pearson(told, told + neither, each) if neither else (1.0, 1.0)
    ends = [c * q * (2.0 * p - 1.0) for c, q in zip(churn, telling, strict=True) for p in share]
    return min(ends), max(ends)


_FIRST = "the first classifier"
_Estimate = tuple[float | None, float | None, float | None]


def compare_models(
    model_a: Classifier | Column | Mapping[str | None, Column],
    model_b: Classifier | Column | Mapping[str | None, Column],
    goal: Goal | str,
    X: Features | None = None,
    y: Column | None = None,
    *,
    populations: Table | None = None,
    external: Mapping[str, External] | None = None,
    baselines: Mapping[str, Column | Classifier] | None = None,
    sample_weight: Column | None = None,
    pos_label: Label = None,
    names: Sequence[str] = ("A", "B"),
    confidence: float = 0.95,
    power: float = 0.8,
    gain: float = 0.01,
    decide: str = "estimate",
    data_name: str = "the data",
) -> ComparisonReport:
    """Compare two classifiers: the goal's verdicts, and wins, losses and churn of the second one over the first.

    Parameters
    ----------
    model_a, model_b : fitted classifier, array-like of shape (n,), or dict
        As `audit` takes them, of two classes or several. A win is a row on which B is right and A wrong.
    goal : Goal or str
        Both are audited; its populations are compared one by one, and the rows of each of its external data sets.
    X, y, populations, external, baselines, sample_weight, pos_label, decide
        As in `audit`. `y` may be None or have missing values: only the labels of rows on which A and B differ count
        here (the goal is then measured only if it needs no labels).
    names : sequence of two str
    confidence : float in (0, 1), default=0.95
        Of the intervals; `1 - confidence` is the level of the tests.
    power : float in (0, 1), default=0.8
        For `labels_needed`. Higher asks for more labels.
    gain : float in (0, 1], default=0.01
        Without labels: the difference in accuracy that `labels_needed` assumes.
    data_name : str

    Returns
    -------
    ComparisonReport

    Raises
    ------
    GoalError, DataError
        As `audit`.

    Notes
    -----
    If some labels are missing, the labelled rows must be a random part of those on which the two differ.

    With weights, shares are weighted, and intervals, tests and numbers of labels use effective numbers of rows, `(sum
    w)^2 / sum w^2` (Kish 1965), in place of counts, as Korn and Graubard (1998) do for proportions: an approximation,
    exact for equal weights.

    Examples
    --------
    >>> from widemargin.diagnostics import compare_models
    >>> y = [1] * 20 + [0] * 20
    >>> a = [1] * 10 + [0] * 30
    >>> b = [1] * 19 + [0] * 21
    >>> report = compare_models(a, b, "subject to recall() >= 0.9", y=y)
    >>> report.overall.wins, report.overall.losses, report.overall.verdict
    (9, 0, 'B better')
    >>> [found.passed for found in report.reports]
    [False, True]
    """
    goal = checked_goal(goal)
    main = Rows(X, y, sample_weight, populations, external or {}, baselines or {})
    classes = None
    for name in (None, *goal.sources):
        rows = rows_of_source(main, name)
        both = [_predictions(model, rows) for model in (model_a, model_b)]
        if classes is None:
            # The classes that a model was fitted to; else those that occur in the predictions and labels.
            fitted = [own for model in (model_a, model_b) if (own := getattr(model, "classes_", None)) is not None]
            vectors = {"the predictions of A": both[0], "the predictions of B": both[1]}
            if y is not None and len(column_of("y", y).distinct()) > 0:  # all labels may be missing here
                vectors["y"] = y
            classes = list(fitted[0]) if fitted else find_classes(vectors, pos_label)
            own = own_setting(model_b, "pos_label") if pos_label is None else pos_label
            counts = ComparisonCounts(goal, classes=classes, pos_label=own)
        counts.add(rows, *both)
    reports = None
    if counts.is_labelled or not needs_labels(goal):
        a, b = (
            audit(
                model, goal, X, y if counts.is_labelled else None, populations=populations, external=external,
                baselines=baselines, sample_weight=sample_weight, pos_label=counts.positive, confidence=confidence,
                decide=decide, data_name=data_name, classes=counts.several,
            )
            for model in (model_a, model_b)
        )  # fmt: skip
        reports = a, b
    return comparison_report(
        counts, reports, names=names, confidence=confidence, power=power, gain=gain, data_name=data_name
    )


def comparison_report(
    counts: "ComparisonCounts",
    reports: tuple[GoalReport, GoalReport] | None,
    *,
    names: Sequence[str] = ("A", "B"),
    confidence: float = 0.95,
    power: float = 0.8,
    gain: float = 0.01,
    data_name: str = "the data",
) -> ComparisonReport:
    """The report of rows that were counted in blocks; parameters as in `compare_models`."""
    if len(names) != 2 or names[0] == names[1]:
        raise DataError(f"names are {list(names)}; give two different ones.")
    for what, value in (("confidence", confidence), ("power", power), ("gain", gain)):
        if not 0.0 < value < 1.0:
            raise DataError(f"{what} is {value!r}; it must lie between 0 and 1.")
    lines, notes = counts.compared(names, confidence=confidence, power=power, gain=gain)
    if reports is None:
        notes.append("the goal needs labels of all rows, so its verdicts are left out.")
    return ComparisonReport(
        (str(names[0]), str(names[1])), data_name, counts.n_rows, counts.n_labelled, confidence, power, gain,
        lines, reports, tuple(notes),
    )  # fmt: skip


def _predictions(model: Classifier | Column | Mapping[str | None, Column], rows: Rows) -> Column:
    """Predictions for the main rows, or those of an external data set."""
    where = "" if rows.source is None else f" for external {rows.source!r}"
    if is_asked(model):
        if rows.X is None:
            raise DataError(f"a classifier needs rows to classify; give X{where}.")
        return ask_model(model.predict, rows.X, rows.populations)
    predictions: Column | None = None
    if isinstance(model, Mapping):
        predictions = model.get(rows.source, model.get("") if rows.source is None else None)
    elif rows.source is None:
        predictions = model
    if predictions is None:
        raise DataError(
            f"there are no predictions{where}; give the models, or dicts with predictions of every data set."
        )
    return predictions


def needs_labels(goal: Goal) -> bool:
    """Whether a constraint of a goal (not its objective) looks at the labels of the main rows."""
    for entry in goal.constraints:
        if isinstance(entry, Bundle):
            needed = entry.within.uses_label or any(METRICS[name].needs_label for name in entry.rates)
        else:
            main = (rate for rate in entry.rates if rate.population.source is None)
            needed = any(rate.needs_label or rate.population.uses_label for rate in main)
        if needed:
            return True
    return False


class ComparisonCounts(GoalCounts):
    """What a comparison needs of the rows seen so far; can be pickled, and merged in any order.

    Parameters
    ----------
    goal : Goal
        Its populations are compared one by one, and the rows of each of its external data sets.
    classes, pos_label
        As in `AuditCounts`.

    Attributes
    ----------
    n_rows, n_labelled : int
        Of the main rows.
    """

    def __init__(self, goal: Goal, *, classes: Sequence[Label] | None = None, pos_label: Label = None) -> None:
        self.goal = goal
        self.n_labelled = 0
        self._pair = ClassPair(classes, pos_label, goal)
        columns = columns_used(goal)
        self._named: dict[str | None, dict[str, Population]] = {name: {} for name in (None, *goal.sources)}
        for entry in goal.constraints:  # each population once, by its name or condition
            for population in entry.populations:
                named = self._named[population.source]
                if population.where is not None and population.rows not in {item.rows for item in named.values()}:
                    named[population.name or str(population.where)] = population
        self._baselines: dict[str | None, tuple[str, ...]] = {}
        self._parts = {}
        for name, named in self._named.items():
            baselines = tuple(dict.fromkeys(item for population in named.values() for item in population.baselines))
            self._baselines[name] = baselines
            self._parts[name] = CountedRows(name, columns.get(name, {}), (*baselines, _FIRST))

    @property
    def is_labelled(self) -> bool:
        """Whether every row seen has a label."""
        return 0 < self.n_rows == self.n_labelled

    def update(
        self,
        predictions_a: Column,
        predictions_b: Column,
        y: Column | None = None,
        *,
        X: Features | None = None,
        sample_weight: Column | None = None,
        populations: Table | None = None,
        baselines: Mapping[str, Column | Classifier] | None = None,
        source: str | None = None,
    ) -> None:
        """Count a block of rows, the main ones or those of an external data set (`source`); labels may be missing.

        Raises
        ------
        DataError
            The goal has no such external data set, or the rows do not fit together.
        """
        rows = Rows(X, y, sample_weight, populations, baselines=baselines or {}, source=source)
        self.add(rows, predictions_a, predictions_b)

    def add(self, rows: Rows, predictions_a: Column, predictions_b: Column) -> None:
        """Count a block of rows; errors as in `update`."""
        if rows.source not in self._parts:
            raise DataError(f"rows of {rows.source!r} were given, and the goal uses {listing(self.goal.sources)}.")
        n_rows = length_of(predictions_b)
        where = "" if rows.source is None else f" for external {rows.source!r}"
        vectors = {f"the predictions of A{where}": predictions_a, f"the predictions of B{where}": predictions_b}
        pair = self._pair.learn(vectors if rows.y is None else {**vectors, "y": rows.y})
        # `make_source` refuses missing labels of the main rows, which are allowed here: they are encoded separately.
        source = make_source(rows.replaced(y=None), self._baselines[rows.source], classes=pair, n_rows=n_rows)
        first, second = (encode_labels(values, pair, what=what) for what, values in vectors.items())
        labels = np.zeros_like(second) if rows.y is None else encode_labels(rows.y, pair, allow_missing=True)
        signs = {**source.baselines, _FIRST: first}
        counted = dataclasses.replace(source, labels=labels, baselines=signs)
        self._parts[rows.source].add(counted, second if source.several else second > 0, None)
        if rows.source is None:
            self.n_labelled += int(np.count_nonzero(labels))

    def merge(self, other: Self) -> Self:
        """Take in the counts of other rows; returns self."""
        super().merge(other)
        self.n_labelled += other.n_labelled
        return self

    def compared(
        self, names: Sequence[str], *, confidence: float, power: float, gain: float
    ) -> tuple[tuple[PopulationComparison, ...], list[str]]:
        """The populations, all rows first, those of external data sets last, and notes about them."""
        lines, notes = [], list[str]()
        for part_name, part in self._parts.items():
            if part_name is not None and not part.n_rows:
                notes.append(f"external data set {part_name}: no rows were given.")
                continue
            counted = part.counted(self._pair.known)
            source, second = counted.source, counted.positive
            first, labels = source.baselines[_FIRST], source.labels
            if labels is None:
                labels = np.zeros_like(first)
            if not source.several:
                second = np.where(second, 1, -1)
            # Only rows on which the two differ tell which one is better. Of several classes both may be wrong there.
            differ = first != second
            verdicts = [differ & said for said in (labels == second, labels == first, labels != 0)]
            if source.several and differ.any() and not labels[differ].any():
                notes.append(
                    "numbers of labels suppose that one of the two is right wherever they differ; of several classes "
                    "both may be wrong there, and more labels are needed then."
                )
            everyone = np.ones(source.n_rows, bool)
            prefix = "" if part_name is None else f"{part_name}: "
            named = self._named[part_name]
            inside = {part_name or "all rows": everyone}
            for name, population in named.items():
                if population.uses_label and not labels.any():
                    notes.append(f"population {name} needs labels, and there are none.")
                else:
                    inside[f"{prefix}{name}"] = members(population, source).true
            bundles = [entry for entry in self.goal.constraints if isinstance(entry, Bundle)]
            for entry in bundles:
                if entry.within.source != part_name:
                    continue
                values = [] if source.table is None else source.table.column(entry.column).distinct()
                if len(values) > 50:  # more lines would bury the others
                    notes.append(f"column {entry.column} has {len(values)} values; they are not compared one by one.")
                    continue
                for value in values:
                    group = Population(None, part_name, Compare(entry.column, "==", value))
                    if group.rows not in {item.rows for item in named.values()}:
                        inside[f"{prefix}{entry.column} == {value!r}"] = members(group, source).true
            for name, rows in inside.items():
                tallies = [_Tally.of(source, rows & some) for some in (everyone, differ, *verdicts)]
                lines.append(_compared(name, tallies, names, confidence, power, gain))
            if source.weight is not None:
                tally = _Tally.of(source, everyone)
                where = "rows" if part_name is None else f"the rows of {part_name}"
                notes.append(
                    f"{where} have weights: shares are weighted, and intervals, tests and numbers of labels go by "
                    f"effective numbers of rows (Kish), {tally.effective:.6g} of all {tally.rows}."
                )
        return tuple(lines), list(dict.fromkeys(notes))


class _Tally(NamedTuple):
    """Rows of positive weight, their weight and the sum of its squares."""

    rows: int
    weight: float
    squares: float

    @classmethod
    def of(cls, source: Source, inside: Bools) -> Self:
        """Of some entries of a source."""
        count = source.repeats.count[inside] if source.repeats is not None else np.ones(int(inside.sum()), np.int64)
        weight = np.ones(len(count)) if source.weight is None else source.weight[inside]
        return cls(int(count[weight > 0.0].sum()), float(count @ weight), float(count @ weight**2))

    @property
    def effective(self) -> float:
        """Effective number of rows, `(sum w)^2 / sum w^2` (Kish, *Survey Sampling*, 1965); all if weights are equal."""
        if self.weight == self.squares == self.rows:
            return float(self.rows)
        return self.weight**2 / self.squares


def _compared(
    name: str, tallies: Sequence[_Tally], names: Sequence[str], confidence: float, power: float, gain: float
) -> PopulationComparison:
    """One line; with weights intervals and tests take effective numbers of rows (Korn and Graubard 1998)."""
    everyone, changed, won, lost, labelled = tallies
    # `told`: rows on which the two differ and whose label says which one is right; of two classes each label does.
    told, size = _Tally(*np.add(won, lost).tolist()), everyone.effective
    both_wrong = int(labelled.rows - told.rows)
    telling = told.weight / labelled.weight if both_wrong else 1.0
    churn: _Estimate = (None, None, None)
    share = better = churn
    if everyone.rows:
        rate = changed.weight / everyone.weight
        churn = (rate, *clopper_pearson(rate * size, size, confidence))
    if told.rows:
        part = won.weight / told.weight
        share = (part, *clopper_pearson(part * told.effective, told.effective, confidence))
    p_value = needed = None
    verdict = "equal" if everyone.rows and not changed.rows else "no labels"
    if labelled.rows and churn[0] is not None:
        won_part = 0.5 if share[0] is None else share[0]
        wins, losses = won_part * told.effective, (1.0 - won_part) * told.effective
        neither = told.effective * (1.0 / telling - 1.0) if told.rows else labelled.effective
        ends = gain_interval(wins, losses, churn[0] * size, size, confidence, neither=neither)
        better = (churn[0] * telling * (2.0 * won_part - 1.0), *ends)
        p_value = mcnemar_p(wins, losses)
        verdict = "undecided"
        if p_value <= 1.0 - confidence:
            verdict = f"{names[1] if wins > losses else names[0]} better"
        needed = labels_needed(won_part, power=power, alpha=1.0 - confidence)
        # Unequal weights make n rows worth n_effective, so as many times more rows have to be labelled.
        needed = None if needed is None else math.ceil(needed * (told.rows / told.effective) / telling)
    elif churn[0] and gain <= churn[0]:
        # The gain in accuracy is `churn (2 p - 1)`, so an assumed gain asks for this share p of wins.
        needed = labels_needed(0.5 + gain / (2.0 * churn[0]), power=power, alpha=1.0 - confidence)
        needed = None if needed is None else math.ceil(needed * (changed.rows / changed.effective))
    return PopulationComparison(
        name, everyone.rows, changed.rows, won.rows, lost.rows, *churn, *share, *better, p_value, verdict, needed,
        None if needed is None else int(np.ceil(needed * everyone.rows / changed.rows)), both_wrong,
    )  # fmt: skip
