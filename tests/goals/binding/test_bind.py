"""Binding: one goal on the same data in every form, weights as repetition, and every refusal with its numbers."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tied_goals import assert_same_tied, make_data, predictions
from widemargin.exceptions import DataError, GoalError, GoalWarning
from widemargin.goals import (
    External,
    Goal,
    Population,
    churn,
    col,
    demographic_parity,
    equal_opportunity,
    equalized_odds,
    error_rate,
    errors,
    f_beta,
    false_positive_rate,
    must_be_right,
    positive_rate,
    precision,
    recall,
    true_positives,
    win_loss_ratio,
)
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import Source, make_source, make_sources
from widemargin.goals.binding.tied_goal import Dropped, dropped_texts
from widemargin.rows import Rows

WOMEN = Population("women", where=col("sex") == "F")
MEN = Population("men", where=col("sex") == "M")
TRAFFIC = Population.external("traffic")
N = 40


def columns(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return {
        "sex": rng.choice(np.array(["F", "M", None], dtype=object), n, p=[0.45, 0.45, 0.1]),
        "race": rng.choice(np.array(["a", "b", "c"], dtype=object), n),
        "age": np.round(rng.normal(40, 10, n)),
        "old": rng.integers(0, 2, n),
    }


def labels(seed=1, n=N):
    return np.random.default_rng(seed).integers(0, 2, n)


def tied_goal_of(goal, *, table=None, y=None, weight=None, external=None, **options):
    table = pd.DataFrame(columns()) if table is None else table
    sources = make_sources(
        baselines_used(goal),
        Rows(y=labels() if y is None else y, sample_weight=weight, populations=table, external=external or {}),
        classes=(0, 1),
    )
    return bind(goal, sources, **options)


GOAL = Goal(
    error_rate() + 0.5 * churn("old"),
    [
        (positive_rate(WOMEN) >= 0.8 * positive_rate(MEN)).named("fair"),
        recall() >= 0.6,
        precision(Population("young", where=col("age") < 40)) >= 0.3,
        errors(WOMEN) <= 8,
        demographic_parity("race", difference=0.2),
    ],
)


def test_every_kind_of_table_gives_the_same_tied_goal():
    data = columns()
    plain = {name: list(values) for name, values in data.items()}
    array = np.column_stack([np.array(values, dtype=object) for values in data.values()])
    text = str(GOAL)
    for place, name in enumerate(data):
        text = text.replace(f"({name} ", f"(col({place}) ").replace(f"({name},", f"(col({place}),")
    by_position = Goal.parse(text)
    reference = tied_goal_of(GOAL)
    assert len(reference.constraints) == 10
    for table in (pl.DataFrame(plain), pa.table(plain), pd.DataFrame(data).astype({"sex": "category"})):
        assert_same_tied(reference, tied_goal_of(GOAL, table=table))
    sources = make_sources(
        {None: ()}, Rows(y=labels(), populations=array), classes=(0, 1)
    )  # the array has no column names, so the baseline comes beside it
    sources = (
        Source(None, sources[0].labels, None, sources[0].table, {"old": (2 * data["old"] - 1).astype(np.int8)}, N),
    )
    positions = bind(by_position, sources)
    assert_same_tied(
        reference,
        bind(
            GOAL, make_sources(baselines_used(GOAL), Rows(y=labels(), populations=pd.DataFrame(data)), classes=(0, 1))
        ),
    )
    for name in ("bound", "cell_weight", "scale"):
        assert np.array_equal(getattr(reference, name), getattr(positions, name))
    assert np.array_equal(reference.coefficients.alpha, positions.coefficients.alpha)
    assert np.array_equal(reference.sources[0].cell, positions.sources[0].cell)


def test_features_in_a_frame_serve_as_the_table():
    data = pd.DataFrame(columns()).drop(columns="old")
    goal = Goal(error_rate(), positive_rate(WOMEN) >= 0.5 * positive_rate(MEN))
    by_table = bind(goal, [make_source(Rows(y=labels(), populations=data), classes=(0, 1))])
    by_X = bind(goal, [make_source(Rows(data, labels()), classes=(0, 1))])
    assert_same_tied(by_table, by_X)


def test_weights_are_repetition():
    counts = np.random.default_rng(5).integers(1, 4, N)
    rows = np.repeat(np.arange(N), counts)
    weighted = tied_goal_of(GOAL, weight=counts)
    repeated = tied_goal_of(GOAL, table=pd.DataFrame(columns()).iloc[rows], y=labels()[rows])
    assert_same_tied(weighted, repeated, exact=False)
    said = np.random.default_rng(6).random(N)
    one, other = weighted.positive_mass([said]), repeated.positive_mass([said[rows]])
    np.testing.assert_allclose(weighted.measure(one).slack, repeated.measure(other).slack, rtol=1e-12, atol=1e-12)
    assert weighted.constraints[0].n_rows < repeated.constraints[0].n_rows  # rows are rows, whatever they weigh


def test_rows_of_weight_zero_change_nothing():
    weight = np.ones(N)
    weight[::5] = 0
    kept = np.flatnonzero(weight)
    zero = tied_goal_of(GOAL, weight=weight)
    without = tied_goal_of(GOAL, table=pd.DataFrame(columns()).iloc[kept], y=labels()[kept])
    said = np.random.default_rng(6).integers(0, 2, N)
    np.testing.assert_allclose(
        zero.measure(zero.positive_mass([said])).slack,
        without.measure(without.positive_mass([said[kept]])).slack,
        atol=1e-12,
    )


def test_rows_share_cells_and_the_coefficients_do_not_grow_with_them():
    tied = tied_goal_of(GOAL)
    assert len(tied.cell_weight) < N
    assert tied.cell_count.sum() == N
    assert tied.sources[0].cell.dtype == np.int32
    assert tied.coefficients.indptr[-1] == len(tied.coefficients.column) == len(tied.coefficients.alpha)
    assert tied.coefficients.n_cells == len(tied.cell_weight)
    touched = np.diff(tied.coefficients.indptr)
    assert touched.max() <= tied.n_constraints


def test_what_both_predictions_cost_alike_is_a_constant():
    # errors + churn: where the label and the baseline differ, either prediction costs the same
    tied = tied_goal_of(Goal(error_rate() + churn("old")))
    differ = (labels() == 1) != (columns()["old"] == 1)
    assert tied.objective_constant == pytest.approx(differ.mean())
    cells = tied.sources[0].cell[differ]
    assert (tied.coefficients.alpha0[cells] == 0).all()
    assert (tied.coefficients.beta0[cells] == 0).all()


def test_scales():
    y = labels()
    goal = Goal(
        error_rate(),
        [recall() >= 0.5, errors() <= 10, precision() >= 0.3, win_loss_ratio("old") >= 1, f_beta(2) >= 0.3],
    )
    scale = tied_goal_of(goal).scale
    assert scale[0] == 1.0
    assert scale[1] == N
    assert scale[2] == y.sum()  # the perfect classifier predicts exactly the positives
    losses = ((columns()["old"] == y).sum()) * 0.05
    assert scale[3] == pytest.approx(losses)  # it loses nothing, so the floor of 5% holds
    assert scale[4] == pytest.approx(5 * y.sum())


def test_external_sources_continue_the_cells():
    said = np.array([0, 1, 1, 0, 1])
    goal = Goal(error_rate(), [churn("old", on=TRAFFIC) <= 0.4, recall() >= 0.1])
    tied = tied_goal_of(goal, external={"traffic": External(np.zeros((5, 2)), old=said)})
    assert [(part.name, part.n_rows) for part in tied.sources] == [(None, N), ("traffic", 5)]
    assert set(tied.sources[0].cell).isdisjoint(tied.sources[1].cell)
    mass = tied.positive_mass([np.zeros(N), np.ones(5)])
    assert tied.measure(mass).value.tolist() == [0.4, 0.0]
    assert tied.constraints[0].n_rows == 5
    with pytest.raises(DataError, match="external 'traffic': 5 rows and predictions of shape"):
        tied.positive_mass([np.zeros(N), np.ones(4)])
    with pytest.raises(DataError, match="1 arrays of predictions for the 2 sources"):
        tied.positive_mass([np.zeros(N)])


def test_external_sources_have_their_own_tables_and_labels():
    goal = Goal(error_rate(), [positive_rate(WOMEN & TRAFFIC) >= 0.1, must_be_right(Population.external("exam"), 0.5)])
    external = {
        "traffic": External(None, populations=pl.DataFrame({"sex": ["F", "M", "F"]})),
        "exam": External(pd.DataFrame({"x": [1, 2]}), [1, 0]),
    }
    tied = tied_goal_of(goal, external=external)
    assert [item.n_rows for item in tied.constraints] == [2, 2]
    assert [part.name for part in tied.sources] == [None, "exam", "traffic"]


def test_baselines_used_are_told_by_source():
    goal = Goal(
        error_rate() + 0.1 * churn("a"),
        [churn("b", on=TRAFFIC) <= 0.3, recall(Population(None, where=col("x") > 0).predicted_positive("c")) >= 0.1],
    )
    assert baselines_used(goal) == {None: ("a", "c"), "traffic": ("b",)}
    assert baselines_used(Goal(None, demographic_parity("sex", ratio=0.8, population=TRAFFIC))) == {
        None: (),
        "traffic": (),
    }


def test_bundles_expand_over_the_values_there_are():
    tied = tied_goal_of(Goal(None, [equalized_odds("race", difference=0.9), demographic_parity("sex", ratio=0.1)]))
    assert len(tied.constraints) == 12 + 2
    assert tied.constraints[0].label == 'equalized_odds(race), recall: "a" <= 0.9 + "b"'
    assert tied.constraints[-1].n_missing == sum(value is None for value in columns()["sex"])
    young = Population("young", where=col("race") != "c")
    assert len(tied_goal_of(Goal(None, demographic_parity("race", ratio=0.1, population=young))).constraints) == 2
    with pytest.raises(DataError, match="no table of populations"):
        bind(Goal(None, demographic_parity("sex", ratio=0.1)), [make_source(Rows(y=labels()), classes=(0, 1))])


def test_missing_rows_are_counted_per_constraint():
    tied = tied_goal_of(Goal(None, [positive_rate(WOMEN) >= 0.1, recall() >= 0.1]))
    assert tied.constraints[0].n_missing == sum(value is None for value in columns()["sex"])
    assert tied.constraints[1].n_missing == 0


def raises(error, message, goal, **arguments):
    with pytest.raises(error, match=message):
        tied_goal_of(goal, **arguments)


def one(constraint, label=None):
    return Goal(error_rate(), constraint if label is None else constraint.named(label))


def test_an_empty_population_names_itself_and_its_rows():
    old = Population("old people", where=col("age") > 200)
    message = (
        r"'floor' \(positive_rate\(\"old people\"\) >= 0.1\): population \"old people\" is empty: none of the 40 rows"
    )
    raises(GoalError, message, one(positive_rate(old) >= 0.1, "floor"))
    table = pd.DataFrame(columns()).assign(age=[np.nan, 20.0] * 20)
    raises(GoalError, r"and for 20 of them a missing value leaves it open", one(positive_rate(old) >= 0.1), table=table)
    raises(GoalError, r"the objective positive_rate\(\"old people\"\): population", Goal(positive_rate(old)))
    raises(GoalError, "is empty", one(true_positives(old) <= 3))


def test_denominators_without_rows_or_weight():
    raises(GoalError, r"recall\(\) has no rows: of the 40 rows of population everyone .* none is one with a positive",
           one(recall() >= 0.1), y=np.zeros(N, int))  # fmt: skip
    raises(GoalError, "none is one with a negative label", one(false_positive_rate() <= 0.1), y=np.ones(N, int))
    weight = (np.array(columns()["sex"]) != "F").astype(float)
    raises(GoalError, r"all \d+ rows of population women in the data have weight zero",
           one(positive_rate(WOMEN) >= 0.1), weight=weight)  # fmt: skip
    data = External(None, [None, 1, None], old=[0, 0, 0])
    raises(GoalError, "have weight zero", Goal(None, must_be_right(TRAFFIC, 0.5)),
           external={"traffic": External(None, [None, 1, None], sample_weight=[1, 0, 1])})  # fmt: skip
    assert tied_goal_of(Goal(None, must_be_right(TRAFFIC, 0.5)), external={"traffic": data}).constraints[0].n_rows == 1


def test_rates_with_labels_need_labels():
    data = External(np.zeros((3, 1)), old=[0, 1, 1])
    raises(DataError, r"'quick' \(recall\(traffic\) >= 0.1\): recall needs labels, and external 'traffic' has none\. "
           r"Give External\(X, y\) for 'traffic'", one(recall(TRAFFIC) >= 0.1, "quick"),
           external={"traffic": data})  # fmt: skip
    raises(DataError, "needs labels", one(recall(TRAFFIC) >= 0.1),
           external={"traffic": External(np.zeros((2, 1)), [None, None])})  # fmt: skip
    with pytest.raises(DataError, match=r"the objective's error_rate\(\): error_rate needs labels.*Give y=labels"):
        bind(Goal(), [make_source(Rows(np.zeros((3, 1))), classes=(0, 1))])


def test_unknown_sources_and_baselines():
    source = make_source(Rows(y=labels()), classes=(0, 1))
    with pytest.raises(
        DataError,
        match=r"measured on the external data set 'traffic', which is not given; .* given: none",
    ):
        bind(one(churn("old", on=TRAFFIC) <= 0.1), [source])
    with pytest.raises(
        DataError, match=r"churn\(\"older\"\) <= 0.1: baseline 'older' is unknown on the data; known are none"
    ):
        bind(one(churn("older") <= 0.1), [source])
    with pytest.raises(DataError, match="two sources have the same name: None, None"):
        bind(Goal(), [source, source])
    raises(
        DataError,
        r"baseline 'older' is unknown; known are none, and the columns of populations",
        one(churn("older") <= 0.1),
    )


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (
            true_positives() >= 500,
            r"true_positives\(\) is at most \d+ for any predictions \(40 rows\), and the bound is 500",
        ),
        (errors() + 2 * true_positives() >= 200, "is at most"),
        (
            positive_rate(WOMEN) - positive_rate(Population("same", where=col("sex").isin(["F"]))) >= 0.5,
            "is at most 0 ",
        ),
    ],
)
def test_bounds_that_no_predictions_reach(constraint, message):
    raises(GoalError, message, one(constraint))


def test_ratio_bounds_that_no_predictions_reach():
    # the baseline is right everywhere, so nothing can be won and no row can be both changed and won
    table = pd.DataFrame(columns()).assign(old=labels())
    raises(GoalError, r"no predictions on these rows bring .* to >= 2", one(win_ratio() >= 2), table=table)


def win_ratio():
    from widemargin.goals import loss_rate, win_rate

    return (win_rate("old") + 0.1) / (loss_rate("old") + 0.1)


def test_small_populations_are_refused_or_dropped():
    goal = Goal(error_rate(), [recall() >= 0.1, positive_rate(WOMEN) >= 0.1], min_rows=30)
    raises(GoalError, r"is measured on \d+ rows with a positive label .* fewer than min_rows=30", goal)
    constraint = (positive_rate(WOMEN) >= 0.1).named("w").with_options(min_rows=39, on_small="drop")
    with pytest.warns(
        GoalWarning, match=r"1 of 2 constraints are dropped\. w: positive_rate\(women\) is measured on \d+ rows"
    ):
        tied = tied_goal_of(Goal(error_rate(), [recall() >= 0.1, constraint]))
    assert [item.constraint.text for item in tied.constraints] == ["recall() >= 0.1"]
    assert tied.dropped[0].label == "w"
    assert "fewer than min_rows=39" in tied.dropped[0].reason
    assert len(tied.bound) == len(tied.scale) == 1
    assert {rate.metric for rate in tied.table.rates} == {"error_rate", "recall"}


def test_dropping_also_covers_empty_groups_of_bundles():
    table = pd.DataFrame({"race": ["a"] * 20 + ["b"] * 19 + ["c"]})
    y = np.array([0, 1] * 19 + [0, 0])
    goal = Goal(None, equal_opportunity("race", ratio=0.5), on_small="drop")
    with pytest.warns(GoalWarning, match="4 of 6 constraints are dropped"):
        tied = tied_goal_of(goal, table=table, y=y)
    assert len(tied.constraints) == 2
    raises(
        GoalError,
        r"none is one with a positive label",
        Goal(None, equal_opportunity("race", ratio=0.5)),
        table=table,
        y=y,
    )


def test_rows_of_weight_zero_are_no_rows():
    positives = np.flatnonzero(labels())
    weight = np.ones(N)
    weight[positives[3:]] = 0.0
    goal = Goal(error_rate(), recall() >= 0.1, min_rows=4)
    idle = len(positives) - 3
    raises(
        GoalError, rf"measured on 3 rows with a positive label .* \({idle} more have weight zero\)", goal, weight=weight
    )
    tied = tied_goal_of(Goal(error_rate(), recall() >= 0.1, min_rows=3), weight=weight)
    assert tied.constraints[0].n_rows == 3
    assert tied_goal_of(Goal(error_rate(), recall() >= 0.1)).constraints[0].n_rows == len(positives)
    none = np.where(labels() == 1, 0.0, 1.0)
    raises(GoalError, rf"all {len(positives)} rows with a positive label .* have weight zero", goal, weight=none)


def test_drops_of_one_population_are_told_once():
    table = pd.DataFrame({"race": ["a"] * 30 + ["b"] * 8 + ["c", "c"]})
    y = np.array([0, 1] * 20)
    with pytest.warns(GoalWarning) as caught:
        tied = tied_goal_of(
            Goal(None, demographic_parity("race", ratio=0.5), min_rows=3, on_small="drop"), table=table, y=y
        )
    assert str(caught[0].message) == (
        "4 of 6 constraints are dropped. race == 'c' (2 rows < min_rows 3): 4 constraints dropped."
    )
    assert dropped_texts(tied.dropped) == ["race == 'c' (2 rows < min_rows 3): 4 constraints dropped"]
    assert dropped_texts([Dropped("x", "t", "why"), Dropped("y", "t", "why")]) == ["x: why", "y: why"]


def test_the_sets_under_a_constraint_are_counted():
    goal = Goal(
        None,
        [
            positive_rate(WOMEN) >= 0.1 * positive_rate(MEN),
            recall() >= false_positive_rate() - 0.5,
            precision() >= 0.1,
            positive_rate(WOMEN) + 2 * positive_rate(WOMEN) >= 0.1,
            demographic_parity("race", ratio=0.1, values=["a", "b"]),
        ],
    )
    found = tied_goal_of(goal).constraints
    assert [item.n_populations for item in found] == [2, 2, 1, 1, 2, 2]
    assert [item.bundle for item in found] == [None] * 4 + [goal.constraints[4].text] * 2


def test_an_objective_without_labels_may_be_left_out():
    goal = Goal(None, positive_rate(WOMEN) >= 0.1)
    unlabelled = make_source(Rows(populations=pd.DataFrame(columns())), classes=(0, 1))
    with pytest.raises(DataError, match="the objective's error_rate\\(\\): error_rate needs labels"):
        bind(goal, [unlabelled])
    tied = bind(goal, [unlabelled], for_training=False)
    assert not tied.has_objective
    assert np.isnan(tied.measure(tied.positive_mass([np.ones(N)])).objective)
    assert not tied.coefficients.alpha0.any()
    with pytest.raises(DataError, match="recall needs labels"):
        bind(Goal(None, recall() >= 0.1), [unlabelled], for_training=False)
    assert tied_goal_of(goal).has_objective


def test_the_rule_of_the_constraint_wins_over_the_goals():
    constraint = (recall() >= 0.1).with_options(min_rows=5)
    assert len(tied_goal_of(Goal(None, constraint, min_rows=35)).constraints) == 1


def test_trivial_classifiers_are_warned_of():
    with pytest.warns(GoalWarning, match=r"predicts nothing positive breaks no bound: 'precision\(\)' is 0/0"):
        tied_goal_of(Goal(None, precision() >= 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tied_goal_of(Goal(None, [precision() >= 0.5, recall() >= 0.1]))  # nothing positive fails the recall
        tied_goal_of(Goal(None, precision() >= 0.5), warn_trivial=False)
        tied_goal_of(Goal(None, f_beta(1) >= 0.5))  # defined for it: 0
    with pytest.warns(GoalWarning, match="predicts everything positive"):
        negatives = Population(None, where=col("age") > 0)
        from widemargin.goals import false_negatives, true_negatives

        tied_goal_of(
            Goal(None, true_negatives(negatives) / (true_negatives(negatives) + false_negatives(negatives)) >= 0.4)
        )


def test_a_goal_without_constraints():
    tied = tied_goal_of(Goal())
    assert tied.n_constraints == 0
    assert tied.bound.shape == (0,)
    assert tied.coefficients.column.shape == (0,)
    mass = tied.positive_mass([np.ones(N)])
    assert tied.measure(mass).objective == pytest.approx((labels() == 0).mean())
    assert tied.measure(mass).met.all()


def test_probabilities_never_exceed_the_weight():
    tied = tied_goal_of(Goal())
    mass = tied.positive_mass([np.full(N, np.nextafter(1, 2))])
    assert (mass <= tied.cell_weight).all()


def test_tied_goals_can_be_pickled():
    tied = tied_goal_of(GOAL)
    again = pickle.loads(pickle.dumps(tied))
    assert_same_tied(tied, again)
    sources, _ = make_data(0)
    assert len(predictions(0, sources, soft=True)) == 2


# --- bound like another goal ------------------------------------------------------------------------------------------


def _rebinding_sources():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 60), "age": rng.integers(20, 60, 60)})
    goal = Goal.parse(
        "w = population(sex == 'F'); m = population(sex == 'M')\n"
        "subject to fair: positive_rate(w) >= 0.8 * positive_rate(m)\nsubject to demographic_parity(sex, ratio=0.5)"
    )
    y = rng.integers(0, 2, 60)
    return goal, make_sources(baselines_used(goal), Rows(y=y, populations=frame), classes=(0, 1))


def test_a_goal_bound_like_its_neighbour_is_bound_as_from_nothing():
    goal, sources = _rebinding_sources()
    first = bind(goal, sources)
    for moved in (goal.with_level(0.3, "fair"), goal.with_level(0.9, "demographic_parity(sex, ratio=0.5)")):
        like, fresh = bind(moved, sources, like=first), bind(moved, sources)
        assert like.space is first.space
        assert [item.constraint for item in like.constraints] == [item.constraint for item in fresh.constraints]
        np.testing.assert_array_equal(like.bound, fresh.bound)
        np.testing.assert_array_equal(like.sources[0].cell, fresh.sources[0].cell)
        for field in ("alpha0", "beta0", "alpha", "beta", "column"):
            np.testing.assert_array_equal(getattr(like.coefficients, field), getattr(fresh.coefficients, field))


def test_cells_are_found_anew_where_a_goal_looks_at_more():
    goal, sources = _rebinding_sources()
    first = bind(goal, sources)
    young = Goal.parse("young = population(age < 40)\nsubject to positive_rate(young) >= 0.1")
    like, fresh = bind(young, sources, like=first), bind(young, sources)
    assert like.space is not first.space
    np.testing.assert_array_equal(like.sources[0].cell, fresh.sources[0].cell)
    unlabelled = bind(Goal.parse("minimize positive_rate()"), sources)
    assert bind(goal, sources, like=unlabelled).n_constraints == first.n_constraints  # labels were not in its cells


def test_an_objective_is_left_out_only_where_its_labels_are_missing():
    unlabelled = [make_source(Rows(np.zeros((3, 1))), classes=(0, 1))]
    assert bind(Goal(positive_rate()), unlabelled, for_training=False).coefficients.alpha0.any()
    assert not bind(Goal(error_rate()), unlabelled, for_training=False).coefficients.alpha0.any()
    labelled = [make_source(Rows(y=labels()), classes=(0, 1))]
    assert bind(Goal(error_rate()), labelled, for_training=False).coefficients.alpha0.any()


def test_values_that_are_listed_are_looked_for_in_every_row():
    young = Population("young", where=col("race") != "c")
    some = demographic_parity("race", ratio=0.1, population=young, values=["a", "b"])
    assert len(tied_goal_of(Goal(None, some)).constraints) == 2
    listed = demographic_parity("race", ratio=0.1, population=young, values=["a", "c"])
    raises(GoalError, r"is empty: none of the 40 rows of the data belongs to it", Goal(None, listed))


def test_rows_of_weight_zero_are_named_only_where_there_are_some():
    goal = Goal(error_rate(), [recall() >= 0.1], min_rows=30)
    raises(GoalError, r"recall\(\) is measured on \d+ rows with a positive label of population everyone in the data, "
           "fewer than min_rows=30", goal)  # fmt: skip


def test_three_undefined_ratios_are_named_and_the_others_counted():
    ages = [Population(f"p{k}", where=col("age") > k) for k in range(5)]
    with pytest.warns(GoalWarning, match=r"bound: 'precision\(p0\)'.*'precision\(p2\)' and 2 more are 0/0 for it"):
        tied_goal_of(Goal(error_rate(), [precision(age) >= 0.1 for age in ages]))
