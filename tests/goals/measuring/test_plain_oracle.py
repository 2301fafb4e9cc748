"""Every rate, ratio and bundle against plain loops over rows, on fresh random goals and rows in every run.

The loops are written from the definitions (docs, the paper's Tables 2 and 4), not from the library's tables of metrics.
"""

import itertools
import math
import random
import secrets
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from widemargin import GoalThresholdClassifier, RateConstrainedClassifier, audit
from widemargin.diagnostics import AuditCounts
from widemargin.exceptions import GoalError
from widemargin.goals import Goal, Population, col, demographic_parity, equal_opportunity, equalized_odds
from widemargin.goals.language import rates as asked
from widemargin.goals.measuring.goal_report import GoalReport
from widemargin.rows import External

COMPARISONS = 2000


@dataclass(frozen=True)
class Row:
    label: int | None
    weight: float
    said: int
    dep: int
    old: int
    s: str | None
    age: float | None


@dataclass(frozen=True)
class Where:
    """A population of the library beside the test that decides whether a row belongs to it."""

    source: str | None
    kind: str
    threshold: float = 0.0

    @property
    def population(self):
        whole = Population.everyone() if self.source is None else Population.external(self.source)
        conditions = {
            "a": col("s") == "a", "not a": ~(col("s") == "a"), "old": col("age") >= self.threshold,
            "both": (col("s") == "b") & (col("age") < self.threshold),
        }  # fmt: skip
        if self.kind == "positives":
            return whole.positives()
        if self.kind == "all":
            return whole
        return (
            Population.external(self.source, conditions[self.kind])
            if self.source
            else Population(None, where=conditions[self.kind])
        )

    @property
    def judged(self):
        return self.kind == "positives"

    def holds(self, row):
        known = {"a": row.s, "not a": row.s, "old": row.age, "positives": row.label, "all": 0}.get(self.kind)
        if self.kind == "both":  # false as soon as one part is false, unknown belongs to nobody
            return row.s == "b" and row.age is not None and row.age < self.threshold
        if known is None:
            return False
        return {
            "a": row.s == "a", "not a": row.s != "a", "old": row.age is not None and row.age >= self.threshold,
            "positives": row.label == 1, "all": True,
        }[self.kind]  # fmt: skip


JUDGED = {
    "error_rate", "accuracy", "recall", "false_positive_rate", "true_negative_rate", "false_negative_rate", "win_rate",
    "loss_rate", "errors", "true_positives", "false_positives", "true_negatives", "false_negatives", "wins", "losses",
}  # fmt: skip
OF_BASELINE = {"churn", "win_rate", "loss_rate", "wins", "losses", "changes"}
SHARES = [
    "positive_rate", "negative_rate", "error_rate", "accuracy", "recall", "false_positive_rate", "true_negative_rate",
    "false_negative_rate", "churn", "win_rate", "loss_rate",
]  # fmt: skip
COUNTS = [
    "errors",
    "true_positives",
    "false_positives",
    "true_negatives",
    "false_negatives",
    "wins",
    "losses",
    "changes",
]
SELECTING = {"positive_rate", "recall", "false_positive_rate"}


@dataclass(frozen=True)
class Asked:
    metric: str
    where: Where
    baseline: str | None

    @property
    def expression(self):
        arguments = [] if self.baseline is None else [self.baseline]
        return getattr(asked, self.metric)(*arguments, on=self.where.population)

    @property
    def judged(self):
        return self.metric in JUDGED or self.where.judged

    def measured(self, data, *, labelled=False):
        """Value and number of rows of weight > 0 that it is measured on; the value is None for 0/0."""
        above = below = 0.0
        rows = 0
        for row in data[self.where.source]:
            if not self.where.holds(row):
                continue
            if row.label is None and (labelled or self.metric in JUDGED):
                continue
            right, before = row.said == row.label, None
            if self.baseline is not None:
                before = row.dep if self.baseline == "dep" else row.old
            if self.metric in ("recall", "false_negative_rate") and row.label != 1:
                continue
            if self.metric in ("false_positive_rate", "true_negative_rate") and row.label == 1:
                continue
            counts = {
                "positive_rate": row.said == 1, "negative_rate": row.said != 1,
                "error_rate": not right, "accuracy": right, "errors": not right,
                "recall": right, "false_negative_rate": not right,
                "false_positive_rate": not right, "true_negative_rate": right,
                "true_positives": right and row.label == 1, "true_negatives": right and row.label != 1,
                "false_positives": not right and row.said == 1, "false_negatives": not right and row.said != 1,
                "churn": row.said != before, "changes": row.said != before,
                "win_rate": right and before != row.label, "wins": right and before != row.label,
                "loss_rate": not right and before == row.label, "losses": not right and before == row.label,
            }[self.metric]  # fmt: skip
            above += row.weight * counts
            below += row.weight
            rows += row.weight > 0
        if self.metric in COUNTS:
            return above, rows
        return (above / below if below > 0 else None), rows


class Draw:
    """Random rows and constraints, each constraint with what the loops say of it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def rows(self, n, *, unlabelled, weighted, selective):
        rng = self.rng
        share = rng.choice([0.0, 0.05, 0.5, 1.0]) if selective else 0.5
        return [
            Row(
                None if rng.random() < unlabelled else rng.choice([1, 0, 0]),
                rng.choice([0.0, 0.5, 1.0, rng.random() * 3]) if weighted else 1.0,
                int(rng.random() < share), rng.randint(0, 1), rng.randint(0, 1),
                rng.choice(["a", "b", "c", None]), rng.choice([None, *map(float, range(20, 60))]),
            )
            for _ in range(n)
        ]  # fmt: skip

    def where(self):
        source = self.rng.choice([None, None, "ext"])
        return Where(
            source, self.rng.choice(["all", "a", "not a", "old", "both", "positives"]), self.rng.uniform(25, 50)
        )

    def rate(self, metrics, where=None):
        metric = self.rng.choice(metrics)
        baseline = self.rng.choice(["dep", "old"]) if metric in OF_BASELINE else None
        return Asked(metric, where or self.where(), baseline)

    def constraint(self, data):
        """A constraint and a list with (rate, bound, is it undefined, numerator, denominator, rows) of each line."""
        kind = self.rng.choice(["single", "difference", "rule", "ratio", "named", "bundle"])
        return getattr(self, kind)(data)

    def compared(self, form, bound):
        return form >= bound if self.rng.random() < 0.5 else form <= bound

    def single(self, data):
        rate = self.rate(SHARES + COUNTS)
        bound = self.rng.random() * (1 if rate.metric in SHARES else 5)
        value, rows = rate.measured(data)
        return self.compared(rate.expression, bound), [(value, bound, value is None, None, None, rows)]

    def difference(self, data):
        one, two = self.rate(SHARES), self.rate(SHARES)
        bound = self.rng.uniform(-0.5, 0.5)
        (first, n), (second, m) = one.measured(data), two.measured(data)
        value = None if first is None or second is None else first - second
        return self.compared(one.expression - two.expression, bound), [
            (value, bound, value is None, None, None, min(n, m))
        ]

    def rule(self, data):
        one = self.rate(SHARES)
        two = Asked(one.metric, self.where(), one.baseline)
        factor = self.rng.uniform(0.2, 1.5)
        (value, n), (other, m) = one.measured(data), two.measured(data)
        empty = value is None or other is None or (one.metric in SELECTING and other == 0.0)
        bound = None if other is None else factor * other
        return self.compared(one.expression, factor * two.expression), [(value, bound, empty, None, None, min(n, m))]

    def ratio(self, data):
        above, below = self.rate(COUNTS), [self.rate(COUNTS) for _ in range(self.rng.choice([1, 2]))]
        if self.rng.random() < 0.3:
            above, below = self.rate(SHARES), [self.rate(SHARES)]
        expression = above.expression / sum(rate.expression for rate in below)
        return self.divided(data, expression, [(1.0, above)], [(1.0, rate) for rate in below])

    def named(self, data):
        where, baseline = self.where(), self.rng.choice(["dep", "old"])

        def count(metric):
            return Asked(metric, where, baseline if metric in OF_BASELINE else None)

        name, on = self.rng.choice(["precision", "f_beta", "win_loss_ratio", "win_change_ratio"]), where.population
        if name == "precision":
            forms = [(1.0, count("true_positives"))], [(1.0, count("true_positives")), (1.0, count("false_positives"))]
            return self.divided(data, asked.precision(on), *forms)
        if name == "f_beta":
            beta = self.rng.uniform(0.3, 3)
            hits = (1.0 + beta**2, count("true_positives"))
            below = [hits, (beta**2, count("false_negatives")), (1.0, count("false_positives"))]
            return self.divided(data, asked.f_beta(beta, on), [hits], below)
        under = count("losses" if name == "win_loss_ratio" else "changes")
        return self.divided(data, getattr(asked, name)(baseline, on), [(1.0, count("wins"))], [(1.0, under)])

    def divided(self, data, expression, above, below):
        rates = [rate for _, rate in above + below]
        judged = {rate.where.source for rate in rates if rate.judged}

        def total(terms):
            values = [(c, rate.measured(data, labelled=rate.where.source in judged)[0]) for c, rate in terms]
            return None if any(value is None for _, value in values) else math.fsum(c * value for c, value in values)

        top, bottom = total(above), total(below)
        rows = min(rate.measured(data, labelled=rate.where.source in judged)[1] for rate in rates)
        empty = top is None or bottom is None or bottom == 0.0
        bound = self.rng.random()
        line = (None if empty else top / bottom, bound, empty, top, bottom, rows)
        return self.compared(expression, bound), [line]

    def bundle(self, data):
        source = self.rng.choice([None, "ext"])
        within = Where(source, self.rng.choice(["all", "all", "old", "positives"]), 40.0)
        make, metrics = self.rng.choice([
            (demographic_parity, ["positive_rate"]), (equal_opportunity, ["recall"]),
            (equalized_odds, ["recall", "false_positive_rate"]),
        ])  # fmt: skip
        level, is_ratio = self.rng.random(), self.rng.random() < 0.7
        rows = [row for row in data[source] if within.holds(row)]
        present = sorted({row.s for row in rows if row.s is not None})
        if len(present) < 2:  # nothing to compare, which is refused
            return self.single(data)
        pairs, more = list(itertools.permutations(present, 2)), {}
        if present and self.rng.random() < 0.3:
            more["reference"] = first = self.rng.choice(present)
            pairs = [pair for value in present if value != first for pair in ((value, first), (first, value))]
        lines = []
        for metric in metrics:
            for pair in pairs:
                measured = []
                for value in pair:
                    part = {source: [row for row in rows if row.s == value]}
                    measured.append(Asked(metric, Where(source, "all"), None).measured(part))
                (one, n), (two, m) = measured
                empty = one is None or two is None
                if is_ratio:
                    bound = None if empty else level * two
                    lines.append((one, bound, empty or two == 0.0, None, None, min(n, m)))
                else:
                    lines.append((None if empty else one - two, level, empty, None, None, min(n, m)))
        more |= {"ratio": level} if is_ratio else {"difference": level}
        return make(
            "s", population=None if within.kind == "all" and source is None else within.population, **more
        ), lines

    def objective(self, data):
        """A weighted sum of rates of the main rows, its value, and the rows of the smallest."""
        rates = [self.rate(SHARES + COUNTS, Where(None, self.rng.choice(["all", "a", "old"]), 40.0)) for _ in range(2)]
        weights = [self.rng.uniform(-1, 2) for _ in rates]
        (one, n), (two, m) = (rate.measured(data) for rate in rates)
        value = None if one is None or two is None else weights[0] * one + weights[1] * two + 0.25
        return weights[0] * rates[0].expression + weights[1] * rates[1].expression + 0.25, value, min(n, m)


def given(rows):
    """The rows as the library takes them: labels with NaN, weights, table."""
    labels = np.array([np.nan if row.label is None else row.label for row in rows])
    table = pa.table({name: [getattr(row, name) for row in rows] for name in ("s", "age", "dep", "old")})
    return labels, [row.weight for row in rows], table, [row.said for row in rows]


def measured_by_library(draw, goal, data):
    y, weight, table, said = given(data[None])
    labels, weights, others, answers = given(data["ext"])
    plain = {"pos_label": 1, "confidence": None}
    uses_external = "external" in str(goal)
    if draw.rng.random() < 0.7:
        external = External(None, None if np.isnan(labels).all() else labels, sample_weight=weights, populations=others)
        predictions = {None: said, "ext": answers} if uses_external else said
        return audit(
            predictions,
            goal,
            y=y.astype(int),
            populations=table,
            sample_weight=weight,
            external={"ext": external} if uses_external else None,
            **plain,
        )
    counts, cut = AuditCounts(goal, classes=[0, 1], pos_label=1), draw.rng.randint(1, len(said) - 1)
    for part in (slice(0, cut), slice(cut, None)):
        counts.update(
            said[part],
            y[part].astype(int),
            populations=table.take(np.arange(len(said))[part]),
            sample_weight=weight[part],
        )
    if uses_external:
        counts.update(
            answers, None if np.isnan(labels).all() else labels, populations=others, sample_weight=weights, source="ext"
        )
    return counts.report(confidence=None)


def test_the_library_says_what_plain_loops_say():
    seed = secrets.randbits(64)
    draw, done, refused = Draw(seed), 0, 0
    while done < COMPARISONS:
        weighted = draw.rng.random() < 0.5
        data = {
            None: draw.rows(draw.rng.randint(30, 80), unlabelled=0.0, weighted=weighted, selective=True),
            "ext": draw.rows(
                draw.rng.randint(30, 80), unlabelled=draw.rng.choice([0.0, 0.4]), weighted=weighted, selective=True
            ),
        }
        entries, expected = [], []
        for _ in range(12):
            try:
                entry, lines = draw.constraint(data)
            except GoalError:  # a bound outside of what the expression can be, or a constraint that cancels
                continue
            entries.append(entry)
            expected.append(lines)
        for entry, lines in zip(entries, expected, strict=True):
            try:
                minimized, objective, rows_of_objective = draw.objective(data)
                report = measured_by_library(draw, Goal(minimized, [entry]), data)
            except GoalError as error:
                unmeasurable = any(rows == 0 for rows in [*(line[-1] for line in lines), rows_of_objective])
                assert unmeasurable or "cannot hold" in str(error) or "no predictions" in str(error), (
                    f"{seed=}: {error}"
                )
                refused += 1
                continue
            assert len(report.constraints) == len(lines), f"{seed=}: {entry}"
            assert report.objective == pytest.approx(objective, rel=1e-9, abs=1e-9), f"{seed=}: {minimized}"
            for item, (rate, bound, empty, above, below, rows) in zip(report.constraints, lines, strict=True):
                where = f"{seed=}: {item.text}: {item} and by hand {rate=} {bound=} {empty=} {above=} {below=} {rows=}"
                assert item.n_rows == rows, where
                assert (item.verdict == "undefined") == empty, where
                assert not (empty and item.met), where
                if not empty:
                    assert (item.rate, item.bound) == pytest.approx((rate, bound), rel=1e-9, abs=1e-12), where
                    slack = rate - bound if item.sense == ">=" else bound - rate
                    assert item.slack == pytest.approx(slack, rel=1e-9, abs=1e-9), where
                    assert item.met == (slack >= -1e-9 * max(1.0, abs(bound))), where
                if below is not None:
                    assert (item.numerator, item.denominator) == pytest.approx((above, below), rel=1e-9, abs=1e-12), (
                        where
                    )
                done += 1
    assert refused < COMPARISONS, f"{seed=}: {refused} goals were refused"


def test_both_sides_of_a_ratio_are_over_the_same_rows():
    """Two wins among two labelled changes are all of them, whatever the rows without a label do."""
    nan = math.nan
    outside = External(None, [1, 1, 0, 0, nan, nan, nan, nan], dep=[0, 0, 1, 1, 0, 1, 0, 1])
    ratios = 'win_change_ratio("dep", on=ext) >= 0.5', 'wins("dep", on=ext) / changes("dep", on=ext) >= 0.5'
    goal = "ext = external()" + "".join(f"\nsubject to {text}" for text in (*ratios, 'changes("dep", on=ext) >= 1'))
    said = {None: [1, 0], "ext": [1, 0, 0, 1, 1, 0, 1, 0]}
    report = audit(said, goal, y=[1, 0], external={"ext": outside}, pos_label=1, confidence=None)
    for item in report.constraints[:2]:
        assert (item.rate, item.numerator, item.denominator, item.n_rows, item.met) == (1.0, 2.0, 2.0, 4, True)
    assert (report["#3"].rate, report["#3"].numerator, report["#3"].n_rows) == (6.0, None, 8)
    assert "[2 / 2; 4 rows]" in str(report)
    assert GoalReport.from_dict(report.to_dict()) == report


RULES = [
    "demographic_parity(s, ratio=0.8)",
    'positive_rate(population(s == "a")) >= 0.8 * positive_rate(population(s == "b"))',
    "equal_opportunity(s, ratio=0.5)",
    'false_positive_rate(population(s == "a")) <= 1.2 * false_positive_rate(population(s == "b"))',
]


@pytest.mark.parametrize("entry", RULES)
def test_a_ratio_rule_is_not_met_by_a_model_that_selects_nobody(entry):
    y, table = np.tile([1, 0], 10), pa.table({"s": list("aabb") * 5})
    reports = [
        audit(np.full(20, said), f"subject to {entry}", y=y, populations=table, pos_label=1, confidence=confidence)
        for said in (0, 1)
        for confidence in (None, 0.95)
    ]
    for report in reports[:2]:
        assert [item.verdict for item in report.constraints] == ["undefined"] * len(report.constraints)
        assert not report.passed
    assert reports[2].passed


def test_errors_and_differences_may_be_zero():
    """A model without errors keeps a rule on errors, and one that selects nobody treats all alike."""
    y, table = np.tile([1, 0], 10), pa.table({"s": list("aabb") * 5})
    rule = 'subject to error_rate(population(s == "a")) <= 1.2 * error_rate(population(s == "b"))'
    assert audit(y, rule, y=y, populations=table).passed
    assert audit(0 * y, "subject to demographic_parity(s, difference=0.1)", y=y, populations=table).passed


@pytest.mark.parametrize("entry", RULES[:3])
def test_training_to_a_ratio_rule_selects_somebody(entry):
    """The best model without the rule selects nobody here; the fit moves the threshold, or says that it cannot."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y, table = (X[:, 0] + rng.normal(size=300) > 2.2).astype(int), pa.table({"s": rng.choice(list("ab"), 300)})
    whole = RateConstrainedClassifier(f"subject to {entry}")
    held_out = GoalThresholdClassifier(RateConstrainedClassifier(), f"subject to {entry}", random_state=0)
    for model in (whole, held_out):
        model.fit(X, y, populations=table)
        assert model.goal_report_.passed
        assert model.predict(X).any()
