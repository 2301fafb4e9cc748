"""Two classifiers side by side: counts, exact tests and numbers of labels against brute force and simulation."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.linear_model import LogisticRegression

from widemargin.diagnostics import (
    ComparisonCounts,
    ComparisonReport,
    audit,
    compare_models,
    comparison_report,
    labels_needed,
    mcnemar_p,
)
from widemargin.diagnostics.compare import gain_interval, power_of
from widemargin.exceptions import DataError
from widemargin.goals import External, Goal

GOAL = """
women = population(sex == "F")
old = population(age > 40 and predicted_positive("h"))
traffic = external()
minimize error_rate()
subject to fair: positive_rate(women) >= 0.5 * positive_rate()
subject to recall: recall(on=old) >= 0.5
subject to demographic_parity(race, ratio=0.1)
"""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 2000
    table = pd.DataFrame(
        {"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 80, n), "race": rng.choice(["x", "y"], n)}
    )
    y = rng.choice(["no", "yes"], n)
    flip = np.where(y == "yes", "no", "yes")
    a = np.where(rng.random(n) < 0.75, y, flip)
    b = np.where(rng.random(n) < 0.85, y, flip)
    return table, y, a, b, rng.choice(["no", "yes"], n)


def test_every_population_is_counted_as_by_hand(data):
    table, y, a, b, h = data
    report = compare_models(a, b, GOAL, y=y, populations=table, baselines={"h": h}, pos_label="yes")
    inside = {
        "all rows": np.ones(len(y), bool),
        "women": (table.sex == "F").to_numpy(),
        "old": (table.age > 40).to_numpy() & (h == "yes"),
        "race == 'x'": (table.race == "x").to_numpy(),
        "race == 'y'": (table.race == "y").to_numpy(),
    }
    assert [item.name for item in report.populations] == list(inside)
    for name, rows in inside.items():
        item, wins, losses = report[name], (b == y) & (a != y) & rows, (b != y) & (a == y) & rows
        assert (item.n_rows, item.wins, item.losses) == (rows.sum(), wins.sum(), losses.sum())
        assert item.changes == wins.sum() + losses.sum() and item.churn == pytest.approx((a != b)[rows].mean())
        assert item.gain == pytest.approx((b == y)[rows].mean() - (a == y)[rows].mean())
        test = scipy.stats.binomtest(item.wins, item.changes)
        ends = test.proportion_ci(method="exact")
        assert item.p_value == pytest.approx(test.pvalue)
        assert (item.win_share_lower, item.win_share_upper) == pytest.approx((ends.low, ends.high))
        assert item.gain_lower < item.gain < item.gain_upper
    assert report.overall.verdict == "B better"
    for said, found in zip((a, b), report.reports, strict=True):
        assert found == audit(said, GOAL, y=y, populations=table, baselines={"h": h}, pos_label="yes")
    assert report.exit_code == report.reports[1].exit_code


def test_blocks_merged_in_any_order_give_the_same_report(data):
    table, y, a, b, h = data
    goal = Goal.parse(GOAL)
    whole = ComparisonCounts(goal, pos_label="yes")
    whole.update(a, b, y, populations=table, baselines={"h": h})
    merged = ComparisonCounts(goal, pos_label="yes")
    for part in (slice(900, 2000), slice(0, 1), slice(1, 900)):
        counts = ComparisonCounts(goal, pos_label="yes")
        counts.update(a[part], b[part], y[part], populations=table.iloc[part], baselines={"h": h[part]})
        merged.merge(pickle.loads(pickle.dumps(counts)))
    assert comparison_report(merged, None) == comparison_report(whole, None)
    with pytest.raises(DataError, match="two different goals"):
        merged.merge(ComparisonCounts(Goal.parse("subject to recall() >= 0.5"), pos_label="yes"))


def test_without_labels_churn_and_labels_needed_remain(data):
    table, _, a, b, h = data
    report = compare_models(a, b, GOAL, populations=table, baselines={"h": h}, pos_label="yes", gain=0.05)
    item = report.overall
    assert report.reports is None and "its verdicts are left out" in str(report)
    assert (item.wins, item.losses, item.p_value, item.verdict) == (0, 0, None, "no labels")
    assert item.labels_needed == labels_needed(0.5 + 0.05 / (2 * item.churn))
    assert item.rows_needed == int(np.ceil(item.labels_needed / item.churn))
    assert "a difference of 5 points of accuracy" in " ".join(str(report).split())
    too_much = compare_models(
        a, np.where(np.arange(2000) < 5, b, a), "subject to positive_rate() <= 0.9", pos_label="yes"
    )
    assert too_much.overall.labels_needed is None and "none: they differ on fewer rows" in str(too_much)
    assert too_much.reports is not None  # this goal needs no labels
    positives = "subject to positive_rate(population(positive_label())) <= 0.9"
    assert "needs labels, and there are none" in str(compare_models(a, b, positives, pos_label="yes"))


def test_labels_of_some_rows_are_used(data):
    _, y, a, b, _ = data
    some = np.where(np.arange(2000) % 2, y, None)
    report = compare_models(a, b, "subject to recall() >= 0.5", y=some, pos_label="yes")
    known = np.arange(2000) % 2 == 1
    assert report.n_labelled == 1000 and report.reports is None
    assert report.overall.wins == ((b == y) & (a != y) & known).sum()
    assert report.overall.churn == pytest.approx((a != b).mean())


def test_external_data_sets_are_counted_as_by_hand(data):
    table, y, a, b, h = data
    text = """
women = population(sex == "F")
traffic = external()
subject to few: positive_rate(on=traffic & women) <= 0.9
subject to calm: churn("h", on=traffic) <= 0.9
subject to recall() >= 0.5
"""
    said = ({None: a[:1500], "traffic": a[1500:]}, {None: b[:1500], "traffic": b[1500:]})
    some = np.where(np.arange(500) % 3, y[1500:], None)
    external = {"traffic": External(None, some, populations=table[1500:], h=h[1500:])}
    report = compare_models(*said, text, y=y[:1500], populations=table[:1500], external=external, pos_label="yes")
    differ, labelled = (a != b)[1500:], np.arange(500) % 3 > 0
    women = (table.sex == "F").to_numpy()[1500:]
    names = {"traffic": np.ones(500, bool), 'traffic: sex == "F"': women}
    assert [item.name for item in report.populations] == ["all rows", *names]
    for name, rows in names.items():
        wins = (differ & labelled & rows & (b == y)[1500:]).sum()
        losses = (differ & labelled & rows & (a == y)[1500:]).sum()
        item = report[name]
        assert (item.n_rows, item.changes, item.wins, item.losses) == (rows.sum(), (differ & rows).sum(), wins, losses)
    assert (report.n_rows, report.n_labelled) == (1500, 1500) and report.reports is not None
    with pytest.raises(DataError, match="no predictions for external 'traffic'"):
        compare_models(a[:1500], b[:1500], text, y=y[:1500], external=external, pos_label="yes")


def test_weights_count_as_effective_rows(data):
    table, y, a, b, h = data
    plain = compare_models(a, b, GOAL, y=y, populations=table, baselines={"h": h}, pos_label="yes")
    equal = compare_models(
        a, b, GOAL, y=y, populations=table, baselines={"h": h}, pos_label="yes", sample_weight=np.full(2000, 2.5)
    )
    for one, other in zip(plain.populations, equal.populations, strict=True):
        for field in ("churn", "churn_lower", "gain", "gain_lower", "gain_upper", "p_value", "rows_needed", "verdict"):
            assert getattr(other, field) == pytest.approx(getattr(one, field))
    weight = np.random.default_rng(0).choice([0.0, 1.0, 3.0], 2000)
    report = compare_models(
        a, b, "subject to recall() >= 0.5", y=y, pos_label="yes", sample_weight=weight, names=("A", "B")
    )
    item = report.overall
    assert item.n_rows == (weight > 0).sum() and item.wins == ((b == y) & (a != y) & (weight > 0)).sum()
    assert item.churn == pytest.approx(np.average(a != b, weights=weight))
    assert item.gain == pytest.approx(np.average(b == y, weights=weight) - np.average(a == y, weights=weight))
    size = weight.sum() ** 2 / (weight**2).sum()
    ends = scipy.stats.beta.ppf([0.025, 0.975], [item.churn * size, item.churn * size + 1],
                                [size * (1 - item.churn) + 1, size * (1 - item.churn)])  # fmt: skip
    assert (item.churn_lower, item.churn_upper) == pytest.approx(tuple(ends))
    assert f"{size:.6g} of all" in " ".join(str(report).split())
    assert report.reports[1] == audit(b, "subject to recall() >= 0.5", y=y, pos_label="yes", sample_weight=weight)


def test_the_test_of_weighted_rows_keeps_its_level():
    rng = np.random.default_rng(0)
    found, draws = 0, 100
    for _ in range(draws):
        weight = rng.choice([1.0, 2.0, 5.0], 300)
        y, a = rng.integers(0, 2, (2, 300))
        b = np.where(rng.random(300) < 0.3, rng.integers(0, 2, 300), a)
        report = compare_models(a, b, "subject to recall() >= 0.5", y=y, pos_label=1, sample_weight=weight)
        found += report.overall.p_value <= 0.05
    assert found <= 0.05 * draws + 2 * np.sqrt(draws * 0.05 * 0.95)


def test_equal_classifiers(data):
    _, y, a, _, _ = data
    report = compare_models(a, a, "subject to recall() >= 0.5", y=y, pos_label="yes")
    assert (report.overall.verdict, report.overall.labels_needed, report.overall.churn) == ("equal", None, 0.0)
    even = compare_models(
        ["yes", "no"], ["no", "yes"], "subject to positive_rate() <= 0.9", y=["yes", "yes"], pos_label="yes"
    )
    assert even.overall.labels_needed is None and "none: as many wins as losses" in str(even)


def test_models_external_sets_and_forms():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=list("abc"))
    y = np.where(X.a + rng.normal(size=300) > 0, 1, 0)
    one, other = LogisticRegression().fit(X[["a", "b", "c"]], y), LogisticRegression(C=1e-3).fit(X, y)
    text = "traffic = external()\nsubject to positive_rate(on=traffic) <= 0.9\nsubject to <b>: recall() >= 0.1".replace(
        "<b>", '"<b>"'
    )
    report = compare_models(
        one, other, text, X, y, external={"traffic": External(X[:50])}, names=("<old>", "new"), data_name="<rows>"
    )
    assert report.reports[0].external_rows == (("traffic", 50),)
    page = report._repr_html_()
    assert "<old>" not in page and "&lt;old&gt;" in page and "&lt;b&gt;" in page
    assert ComparisonReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert report.to_frame().loc["all rows", "changes"] == report.overall.changes
    assert all(len(line) <= 120 for line in str(report).splitlines())
    assert "two-sided, which decides the verdict" in " ".join(str(report).split())
    with pytest.raises(KeyError, match="no population 'x'"):
        report["x"]


@pytest.mark.parametrize(("share", "power"), [(0.55, 0.8), (0.7, 0.9), (0.95, 0.8), (0.3, 0.8)])
def test_labels_needed_by_simulation(share, power):
    """The test finds the better one as often as promised with that many labels, and not with one fifth less."""
    number = labels_needed(share, power=power)
    rng = np.random.default_rng(0)

    def found(labels):
        wins = rng.binomial(labels, share, 20_000)
        right = wins > labels / 2 if share > 0.5 else wins < labels / 2
        p = np.array([mcnemar_p(k, labels - k) for k in range(labels + 1)])[wins]
        return (right & (p <= 0.05)).mean()

    assert found(number) >= power - 0.01
    assert found(int(0.8 * number) - 1) < power


def test_labels_needed_joins_its_two_formulas_and_keeps_its_promise_from_there_on():
    assert (power_of(np.arange(labels_needed(0.6), 2000), 0.6) >= 0.8).all()
    assert power_of([labels_needed(0.6) - 1], 0.6)[0] < 0.8
    far = labels_needed(0.509)  # beyond the exact range
    assert far > 20_000
    assert power_of([far], 0.509)[0] == pytest.approx(0.8, abs=0.003)
    assert labels_needed(0.5) is None and labels_needed(0.0) == labels_needed(1.0)


def test_the_interval_of_the_gain_covers():
    rng = np.random.default_rng(0)
    churn, share, n, hits = 0.1, 0.6, 400, 0
    for _ in range(1000):
        changes = rng.binomial(n, churn)
        wins = rng.binomial(changes, share)
        low, high = gain_interval(wins, changes - wins, changes, n)
        hits += low <= churn * (2 * share - 1) <= high
    assert hits >= 950


BAD = {
    "names": (
        lambda: compare_models([1, 0], [0, 1], "subject to recall() >= 0.5", y=[1, 0], names=("a", "a")),
        "give two different",
    ),
    "power": (
        lambda: compare_models([1, 0], [0, 1], "subject to recall() >= 0.5", y=[1, 0], power=1.5),
        "power is 1.5",
    ),
    "gain": (lambda: compare_models([1, 0], [0, 1], "subject to recall() >= 0.5", y=[1, 0], gain=0.0), "gain is 0.0"),
    "lengths": (lambda: compare_models([1, 0], [0], "subject to recall() >= 0.5"), "has length 2"),
    "no X": (lambda: compare_models(LogisticRegression(), [0], "subject to recall() >= 0.5"), "give X"),
    "no comparison": (lambda: ComparisonReport.from_dict({"format": 1}), "this is no comparison"),
    "newer": (lambda: ComparisonReport.from_dict({"format": 9}), "format 9 cannot be read"),
    "share": (lambda: labels_needed(1.5), "share is 1.5"),
    "level": (lambda: labels_needed(0.7, alpha=0.0), "alpha is 0.0"),
    "scores": (lambda: compare_models([0.3, 0.1], [0.1, 1], "subject to recall() >= 0.5"), "scores or probabilities"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_cannot_be_compared_is_named(kind):
    call, text = BAD[kind]
    with pytest.raises(DataError, match=text):
        call()


def test_ratio_rules_are_compared_as_ratios_and_of_a_bundle_by_the_worst_pairs():
    y, table = np.arange(400) % 2, pd.DataFrame({"g": np.repeat([*"abcd"], 100)})
    one, other = (np.concatenate([np.arange(100) < share for share in shares]).astype(int)
                  for shares in ((50, 40, 50, 50), (50, 50, 50, 30)))  # fmt: skip
    text = 'subject to fair: positive_rate(population(g == "b")) >= 0.7 * positive_rate(population(g == "a"))\n'
    goal = f"{text}subject to parity: demographic_parity(g, ratio=0.5)"
    report = compare_models(one, other, goal, y=y, populations=table)
    lines = {line.split("  ")[0]: line.split() for line in str(report).splitlines() if " >= 0." in line}
    assert lines["fair"][1:4] == [">=", "0.7000", "0.8000"] and "1.0000" in lines["fair"]
    # The worst pair of each is `b / a` and `d / a`, up to ties with c.
    assert 2 <= sum(name.startswith("parity") for name in lines) <= 6


@pytest.fixture(scope="module")
def animals():
    rng = np.random.default_rng(1)
    n, kinds = 900, np.array(["cat", "dog", "fox", "owl"])
    y = rng.choice(kinds, n, p=[0.4, 0.3, 0.2, 0.1])
    a, b = (np.where(rng.random(n) < right, y, rng.choice(kinds, n)) for right in (0.6, 0.75))
    return pd.DataFrame({"home": rng.choice(["farm", "town"], n)}), y, a, b


ANIMALS = """
town = population(home == "town")
minimize error_rate()
subject to dogs: recall(town, of="dog") >= 0.7
subject to cats: precision(of="cat") >= 0.5
"""


def test_of_several_classes_both_may_be_wrong_where_they_differ(animals):
    table, y, a, b = animals
    report = compare_models(a, b, ANIMALS, y=y, populations=table)
    for name, rows in (("all rows", np.ones(len(y), bool)), ("town", (table.home == "town").to_numpy())):
        item, differ = report[name], (a != b) & rows
        wins, losses = (differ & (b == y)).sum(), (differ & (a == y)).sum()
        assert (item.n_rows, item.changes, item.wins, item.losses) == (rows.sum(), differ.sum(), wins, losses)
        assert item.neither == differ.sum() - wins - losses > 0
        assert item.gain == pytest.approx((b == y)[rows].mean() - (a == y)[rows].mean())
        assert item.gain_lower < item.gain < item.gain_upper
        assert item.p_value == pytest.approx(scipy.stats.binomtest(int(wins), int(wins + losses)).pvalue)
        # Of the labelled rows on which they differ only those count on which one of the two is right.
        assert item.labels_needed >= labels_needed(wins / (wins + losses)) * differ.sum() / (wins + losses)
    for said, found in zip((a, b), report.reports, strict=True):
        assert found == audit(said, ANIMALS, y=y, populations=table)
    assert f"on {report.overall.neither} of the rows that differ both are wrong" in " ".join(str(report).split())
    assert ComparisonReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_blocks_and_weights_of_several_classes(animals):
    table, y, a, b = animals
    whole = compare_models(a, b, ANIMALS, y=y, populations=table)
    parts = [ComparisonCounts(Goal.parse(ANIMALS), classes=np.unique(y)) for _ in range(3)]
    for number, counts in enumerate(parts):
        rows = slice(300 * number, 300 * (number + 1))
        counts.update(a[rows], b[rows], y[rows], populations=table[rows])
    merged = parts[2].merge(parts[0]).merge(pickle.loads(pickle.dumps(parts[1])))
    assert comparison_report(merged, None).populations == whole.populations
    twice = compare_models(a, b, ANIMALS, y=y, populations=table, sample_weight=np.full(len(y), 2.0))
    fields = ("n_rows", "wins", "losses", "neither", "gain", "p_value", "labels_needed")
    for item, other in zip(whole.populations, twice.populations, strict=True):
        assert [getattr(item, name) for name in fields] == pytest.approx([getattr(other, name) for name in fields])


def test_the_gain_of_some_labels_counts_rows_where_both_are_wrong(animals):
    table, y, a, b = animals
    some = np.where(np.arange(len(y)) % 3 == 0, y, None)
    goal = 'subject to prediction_rate(of="dog") >= 0.1'
    item = compare_models(a, b, goal, y=some, populations=table).overall
    known = (a != b) & (some != None)  # noqa: E711
    assert item.wins + item.losses + item.neither == known.sum()
    differing = ((b == y)[known].astype(float) - (a == y)[known]).mean()
    assert item.gain == pytest.approx((a != b).mean() * differing)
    assert item.gain_lower < (b == y).mean() - (a == y).mean() < item.gain_upper
    unlabelled = compare_models(a, b, goal, populations=table)
    assert "of several classes both may be wrong" in unlabelled.notes[0]


def test_nobody_is_right_where_they_differ():
    report = compare_models(["a", "b", "c"], ["b", "c", "c"], "minimize error_rate()", y=["c", "a", "c"])
    item = report.overall
    assert (item.wins, item.losses, item.neither, item.gain, item.verdict) == (0, 0, 2, 0.0, "undecided")
    assert item.labels_needed is None and item.gain_lower < 0.0 < item.gain_upper


def test_the_interval_of_a_gain_of_several_classes_covers():
    rng = np.random.default_rng(2)
    shares = np.array([0.7, 0.12, 0.06, 0.12])  # alike, B right, A right, both wrong
    covered = []
    for same, wins, losses, neither in rng.multinomial(200, shares, size=400):
        low, high = gain_interval(wins, losses, 200 - same, 200, 0.8, neither=neither)
        covered.append(low <= 0.06 <= high)
    assert np.mean(covered) >= 0.8
