"""Goals on more than two classes: rates, intervals and reports through views of two classes."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testing.naive_rates import NaiveSource, naive_constraint, naive_form

from widemargin.exceptions import GoalError
from widemargin.goals import (
    Goal,
    Population,
    accuracy,
    churn,
    col,
    confusion,
    demographic_parity,
    equalized_odds,
    error_rate,
    errors,
    f_beta,
    false_positive_rate,
    negative_label,
    positive_rate,
    precision,
    predicted_positive,
    prediction_rate,
    recall,
    true_negatives,
    win_change_ratio,
    win_rate,
    wins,
)
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.labels import encode_labels
from widemargin.goals.binding.sources import Source
from widemargin.goals.binding.tables import PopulationTable
from widemargin.goals.measuring.exact_tests import evidence
from widemargin.goals.measuring.intervals import clopper_pearson, slack_intervals, slack_variances
from widemargin.goals.measuring.measured_report import make_report

CLASSES = ("bird", "cat", "dog", "eel")
WOMEN = Population("women", where=col("sex") == "f")
MEN = Population("men", where=col("sex") == "m")
CATS_BEFORE = Population("cats before", where=predicted_positive("old", of="cat"))
NO_BIRDS = Population("no birds", where=negative_label(of="bird"))
CONSTRAINTS = [
    recall(of="cat") >= 0.5,
    recall(WOMEN, of="dog") - recall(MEN, of="dog") <= 0.1,
    recall(of="cat") + recall(of="dog") >= 0.4,
    precision(WOMEN, of="eel") >= 0.2,
    f_beta(2, NO_BIRDS, of="dog") >= 0.1,
    prediction_rate(WOMEN, of="bird") >= 0.8 * prediction_rate(MEN, of="bird"),
    confusion("cat", "dog") <= 0.2,
    confusion("cat", "cat", WOMEN) >= 0.2,
    error_rate(WOMEN) - error_rate(CATS_BEFORE) <= 0.3,
    accuracy(NO_BIRDS) >= 0.1,
    churn("old") <= 0.5,
    win_rate("old", WOMEN) >= 0.05,
    win_change_ratio("old") >= 0.1,
    false_positive_rate(of="eel") <= 0.4,
    errors() - 2 * true_negatives(of="cat") <= 30,
    churn("old", WOMEN) + prediction_rate(of="cat") <= 1.1,
]


def numbered(labels, classes=CLASSES):
    return encode_labels(labels, classes)


def world(seed, n=60, *, weighted=False, classes=CLASSES):
    rng = np.random.default_rng(seed)
    y, said, predicted = rng.choice(np.array(classes, object), (3, n))
    y[: len(classes)] = said[: len(classes)] = classes
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], n)})
    table.loc[: 2 * len(classes), "sex"] = np.tile(["f", "m"], len(classes) + 1)[: 2 * len(classes) + 1]
    weight = rng.integers(1, 4, n).astype(float) if weighted else None
    source = Source(
        None, numbered(y, classes), weight, PopulationTable.build(table), {"old": numbered(said, classes)}, n,
        classes=classes,
    )  # fmt: skip
    naive = NaiveSource(
        {"sex": table["sex"].tolist()}, y.tolist(), None if weight is None else weight.tolist(),
        {"old": said.tolist()}, n, classes,
    )  # fmt: skip
    return source, naive, predicted


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.booleans(), st.lists(st.sampled_from(CONSTRAINTS), min_size=1, max_size=5))
def test_a_goal_is_measured_as_its_definitions_say(seed, weighted, chosen):
    source, naive, predicted = world(seed, weighted=weighted)
    objective = error_rate() + 0.5 * recall(of="cat") + 0.25 * churn("old")
    tied = bind(Goal(objective, dict.fromkeys(chosen)), [source], warn_trivial=False)
    measured = tied.measure(tied.positive_mass([numbered(predicted)]))
    said = {None: predicted.tolist()}
    assert measured.objective == pytest.approx(naive_form(objective.form, {None: naive}, said))
    for slack, item in zip(measured.slack, tied.constraints, strict=True):
        expected = naive_constraint(item.constraint, {None: naive}, said)
        if item.cleared.denominator is not None and item.cleared.ratio is None:
            below = naive_form(item.cleared.denominator, {None: naive}, said)
            expected = np.nan if below == 0.0 else expected
        np.testing.assert_allclose(slack, expected, rtol=1e-9, atol=1e-12)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans())
def test_two_classes_seen_one_by_one_are_the_binary_goal(seed, weighted):
    """A third class that nobody has turns the goal of two classes into one of several, and changes no number."""
    pair = ("cat", "dog")
    source, _, predicted = world(seed, weighted=weighted, classes=pair)
    several = Source(
        None, numbered(np.where(source.labels > 0, "dog", "cat"), ("cat", "dog", "eel")), source.weight, source.table,
        {"old": numbered(np.where(source.baselines["old"] > 0, "dog", "cat"), ("cat", "dog", "eel"))}, source.n_rows,
        classes=("cat", "dog", "eel"),
    )  # fmt: skip
    named = [
        recall(of="cat") >= 0.5, recall(WOMEN, of="dog") - recall(MEN, of="dog") <= 0.1, precision(of="cat") >= 0.3,
        confusion("cat", "dog") <= 0.2, error_rate(WOMEN) <= 0.3, churn("old") <= 0.5, win_change_ratio("old") >= 0.1,
        prediction_rate(MEN, of="cat") <= 0.5, wins("old", WOMEN) >= 1,
    ]  # fmt: skip
    plain = [
        1 - false_positive_rate() >= 0.5, recall(WOMEN) - recall(MEN) <= 0.1, None, false_positive_rate() <= 0.2,
        named[4], named[5], named[6], 1 - positive_rate(MEN) <= 0.5, named[8],
    ]  # fmt: skip
    positive = predicted == "dog"
    binary = bind(Goal(subject_to=named), [source], warn_trivial=False)
    views = bind(Goal(subject_to=named), [several], warn_trivial=False)
    one = binary.measure(binary.positive_mass([positive]))
    other = views.measure(views.positive_mass([numbered(predicted, ("cat", "dog", "eel"))]))
    np.testing.assert_allclose(one.slack, other.slack, rtol=1e-12)
    assert one.objective == pytest.approx(other.objective)
    said = [numbered(predicted, ("cat", "dog", "eel"))]
    np.testing.assert_allclose(slack_variances(binary, [positive]), slack_variances(views, said))
    for j, other_way in enumerate(plain):
        if other_way is not None:
            tied = bind(Goal(subject_to=other_way), [source], warn_trivial=False)
            np.testing.assert_allclose(tied.measure(tied.positive_mass([positive])).slack, one.slack[j], rtol=1e-12)
    if not weighted:
        shares = [entry for entry in named if "wins" not in str(entry)]
        binary, views = (bind(Goal(subject_to=shares), [rows], warn_trivial=False) for rows in (source, several))
        masses = binary.positive_mass([positive]), views.positive_mass(said)
        for a, b in zip(evidence(binary, masses[0]), evidence(views, masses[1]), strict=True):
            assert a.p_value == pytest.approx(b.p_value)


def test_intervals_of_one_proportion_are_exact():
    source, _, predicted = world(3, n=400)
    tied = bind(Goal(subject_to=[recall(of="cat") >= 0.5, precision(of="dog") >= 0.2]), [source], warn_trivial=False)
    report = make_report(tied, [numbered(predicted)], positive_class=None, confidence=0.9)
    cats = np.array(CLASSES)[source.labels - 1] == "cat"
    low, high = clopper_pearson((predicted[cats] == "cat").sum(), cats.sum(), 0.9)
    interval = report["#1"].interval
    assert (interval.method, interval.lower, interval.upper) == ("clopper-pearson", low - 0.5, high - 0.5)
    assert report["#2"].interval.method == "clopper-pearson"
    assert "4 classes: 'bird', 'cat', 'dog', 'eel'" in str(report)


def test_the_bootstrap_draws_a_row_once_for_all_classes():
    """The spread of the replicates is that of draws of whole rows, one by one."""
    source, _, predicted = world(5, n=300)
    goal = Goal(subject_to=[
        recall(of="cat") + recall(of="dog") >= 0.4, error_rate(WOMEN) - confusion("cat", "dog") <= 0.9,
        prediction_rate(of="cat") - prediction_rate(of="dog") <= 0.5, churn("old") - error_rate() <= 0.5,
        prediction_rate(of="cat") + prediction_rate(of="dog") + prediction_rate(of="eel") <= 0.9,
    ])  # fmt: skip
    tied = bind(goal, [source])
    said = numbered(predicted)
    intervals = slack_intervals(tied, [said], confidence=0.9, n_replicates=4000)
    rng = np.random.default_rng(0)
    slack = []
    strata = [np.flatnonzero(source.table.column("sex").values == sex) for sex in (0, 1)]
    for _ in range(600):  # a standard error of 2.6% of the width, six times below what is asked for
        rows = np.concatenate([rng.choice(stratum, len(stratum)) for stratum in strata])
        frame = pd.DataFrame({"sex": np.array(["f", "m"])[source.table.column("sex").values[rows]]})
        drawn = Source(
            None, source.labels[rows], None, PopulationTable.build(frame), {"old": source.baselines["old"][rows]}, 300,
            classes=CLASSES,
        )  # fmt: skip
        again = bind(goal, [drawn], warn_trivial=False)
        slack.append(again.measure(again.positive_mass([said[rows]])).slack)
    for interval, (low, high) in zip(intervals, np.quantile(slack, [0.05, 0.95], axis=0).T, strict=True):
        width = high - low
        assert interval.lower == pytest.approx(low, abs=0.15 * width)
        assert interval.upper == pytest.approx(high, abs=0.15 * width)


def test_all_classes_together_leave_nothing_to_chance():
    source, _, predicted = world(5, n=100)
    total = sum(prediction_rate(of=label) for label in CLASSES)
    tied = bind(Goal(subject_to=total - 0.5 * error_rate() <= 1), [source])
    (interval,) = slack_intervals(tied, [numbered(predicted)], n_replicates=200)
    plain = bind(Goal(subject_to=0.5 * error_rate() >= 0), [source])
    (alone,) = slack_intervals(plain, [numbered(predicted)], n_replicates=200)
    assert interval.lower == pytest.approx(alone.lower, abs=0.02)
    assert interval.upper - interval.lower == pytest.approx(alone.upper - alone.lower, abs=0.02)


def test_what_a_goal_must_say_of_several_classes():
    source, _, _ = world(0)
    for constraint in (recall() >= 0.5, positive_rate(WOMEN) >= 0.2, true_negatives() >= 3):
        with pytest.raises(GoalError, match="does not say which of the 4 classes 'bird', 'cat', 'dog', 'eel'"):
            bind(Goal(subject_to=constraint), [source])
    with pytest.raises(GoalError, match=r"positive_label\(\) does not say which of the 4 classes"):
        bind(Goal(subject_to=error_rate(WOMEN.positives()) <= 0.5), [source])
    with pytest.raises(GoalError, match="the goal speaks of the class 'rat', and the classes of the data are"):
        bind(Goal(subject_to=recall(of="rat") <= 0.5), [source])
    with pytest.raises(GoalError, match="does not say which"):
        bind(Goal(subject_to=demographic_parity("sex", ratio=0.8)), [source])
    few = Source(None, numbered(["cat", "dog"]), None, None, {}, 2, classes=CLASSES)
    with pytest.raises(GoalError, match="none is one with the label 'eel'"):
        bind(Goal(subject_to=recall(of="eel") >= 0.1), [few])


def test_bundles_name_their_class():
    source, _, predicted = world(1, n=200)
    goal = Goal(
        subject_to=[demographic_parity("sex", ratio=0.5, of="cat"), equalized_odds("sex", difference=0.4, of="dog")]
    )
    assert Goal.parse(str(goal)) == goal
    tied = bind(goal, [source])
    texts = [item.constraint.text for item in tied.constraints]
    assert any("prediction_rate" in text and 'of="cat"' in text for text in texts)
    report = make_report(tied, [numbered(predicted)], positive_class=None, confidence=0.95)
    assert len(report.constraints) == 6
    assert type(report).from_dict(report.to_dict()) == report


def test_a_constant_is_named():
    source, _, _ = world(2)
    tied = bind(Goal(subject_to=recall(of="cat") >= 0.0), [source])
    report = make_report(tied, [np.full(60, 2)], positive_class=None)
    assert report.cautions == ("the model is constant: it calls all of the 60 rows 'cat'. It has learned nothing.",)
    wrong = np.array([next(k for k in itertools.count(1) if k != label) for label in source.labels])
    (caution,) = make_report(tied, [wrong], positive_class=None).cautions
    assert "a constant is no worse: calling every row" in caution
