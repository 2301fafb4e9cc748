"""Every rate on cells equals its definition, row by row."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from naive_rates import naive_constraint, naive_form, naive_rate
from tied_goals import POOL, make_data, predictions, rate, rates, ratios
from widemargin.exceptions import GoalError
from widemargin.goals import Goal, Population, error_rate, f_beta, precision, true_positives
from widemargin.goals.binding.bind import bind
from widemargin.goals.binding.cells import CellSpace, build_cells
from widemargin.goals.language.constraints import Constraint, Expression
from widemargin.goals.language.linear import METRICS, Linear, Rate
from widemargin.goals.measuring import rates_of_predictions as measure
from widemargin.goals.measuring.rates_of_predictions import Measured, RateTable, form_value, rate_values

seeds = st.integers(0, 10**6)
factors = st.sampled_from([1.0, -1.0, 0.8, -2.5, 3.0])


def table_of(wanted, sources):
    """Rate table without the checks of binding."""
    parts = [
        build_cells(s, [rate.population for rate in wanted if rate.population.source == s.name], ["h"], use_label=True)
        for s in sources
    ]
    return RateTable.build(wanted, CellSpace(sources, parts)), CellSpace(sources, parts)


def mass_of(space, sources, p):
    mass = np.zeros(space.n_cells)
    for source, share in zip(sources, p, strict=True):
        weight = np.ones(source.n_rows) if source.weight is None else source.weight
        mass += np.bincount(space.parts[source.name].cell + space.start[source.name], weight * share, space.n_cells)
    return mass


@given(st.lists(rates, min_size=1, max_size=6, unique=True), seeds, st.booleans(), st.booleans())
def test_rates_equal_their_definitions(wanted, seed, weighted, soft):
    sources, naive = make_data(seed, weighted=weighted)
    table, space = table_of(wanted, sources)
    p = predictions(seed, sources, soft=soft)
    values = table.values(mass_of(space, sources, p))
    by_name = dict(zip((None, "ext"), p, strict=True))
    expected = [naive_rate(rate, naive, by_name) for rate in wanted]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)  # NaN where the definition is 0/0


@settings(max_examples=20)
@given(seeds, st.booleans())
@pytest.mark.parametrize("metric", sorted(METRICS))
def test_rates_lie_between_0_and_1_and_counts_below_their_total(metric, seed, weighted):
    sources, _ = make_data(seed, weighted=weighted)
    wanted = [rate(metric, on, of) for on in POOL for of in (None, 0)]
    table, space = table_of(wanted, sources)
    values = table.values(mass_of(space, sources, predictions(seed, sources, soft=True)))
    top = np.where(table.is_count, table.total, 1.0)
    assert (np.isnan(values) | ((values >= 0) & (values <= top + 1e-12))).all()
    assert (values[~np.isnan(values)] <= table.cap[~np.isnan(values)] + 1e-12).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_cells_change_nothing(weighted, monkeypatch):
    """Cells are looked at a few at a time where they are many; the numbers are those of a single block."""
    sources, _ = make_data(3, weighted=weighted)
    wanted = [
        Rate("recall", POOL[1]),
        Rate("errors", POOL[0]),
        Rate("churn", POOL[8], "h"),
        Rate("churn", POOL[1], "h"),
    ]
    form = Linear(((2.0, wanted[0]), (-1.0, wanted[1]), (0.5, wanted[3])), 0.5)
    goal = Goal(error_rate(), [Constraint(form, "<=", Linear((), 2.5))])
    results = []
    for block, width in ((1 << 18, 256), (1, 2)):
        monkeypatch.setattr(measure, "BLOCKS", measure.BlockSize(block, width))
        table, space = table_of(wanted, sources)
        assert (len(list(table.blocks())) == len(sources)) == (width == 256)
        mass = mass_of(space, sources, predictions(1, sources, soft=True))
        tied = bind(goal, sources)
        results.append(
            [
                table.values(mass), table.population_rows, table.rows, table.all_rows, table.total, table.cap,
                *table.weighted(form), *tied.coefficients, tied.bound, tied.scale,
            ]
        )  # fmt: skip
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def test_replicates_are_divided_one_by_one():
    above, total = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[2.0, 0.0], [5.0, 0.0]])
    np.testing.assert_array_equal(rate_values(above, total, np.array([False, True])), [[0.5, np.nan], [3.0, 4.0]])


def test_forms_of_values():
    sources, _ = make_data(3)
    wanted = [Rate("recall", POOL[1]), Rate("errors", POOL[0])]
    table, space = table_of(wanted, sources)
    values = table.values(mass_of(space, sources, predictions(0, sources, soft=True)))
    form = Linear(((2.0, wanted[0]), (-1.0, wanted[1])), 0.5)
    np.testing.assert_allclose(form_value(form, table, values), 2 * values[0] - values[1] + 0.5)
    batch = np.column_stack([values, 3 * values])
    np.testing.assert_allclose(form_value(form, table, batch), 2 * batch[0] - batch[1] + 0.5)


@st.composite
def linear_constraints(draw):
    terms = draw(st.lists(st.tuples(factors, rates), min_size=1, max_size=3))
    other = draw(st.lists(st.tuples(factors, rates), max_size=1))
    left, right = Linear(tuple(terms)), Linear(tuple(other))
    difference = left.plus(right, -1.0)
    assume(difference.terms)
    low, high = difference.range
    sense = draw(st.sampled_from([">=", "<="]))
    end = low if sense == ">=" else high  # attainable whatever the data are
    end = max(-1e9, min(1e9, end))
    return Constraint(left, sense, right.plus(Linear((), end)))


@given(
    st.lists(linear_constraints(), min_size=1, max_size=3),
    st.lists(rates, min_size=1, max_size=2),
    seeds,
    st.booleans(),
)
def test_measuring_a_goal_and_its_canonical_form(constraints, objective, seed, weighted):
    sources, naive = make_data(seed, weighted=weighted)
    goal = Goal(Expression(Linear(tuple((1.5, rate) for rate in objective), 0.25)), constraints)
    used = [*goal.objective.rates, *(r for c in constraints for side in (c.lhs, c.rhs) for r in side.rates)]
    p = predictions(seed, sources, soft=True)
    by_name = dict(zip((None, "ext"), p, strict=True))
    if any(math.isnan(naive_rate(rate, naive, by_name)) for rate in used):
        with pytest.raises(GoalError):
            bind(goal, sources)
        return
    if any(not population_rows(rate, naive) for rate in used):
        with pytest.raises(GoalError):  # a count on nobody is refused too
            bind(goal, sources)
        return
    tied = bind(goal, sources)
    mass = tied.positive_mass(p)
    measured = tied.measure(mass)
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(measured.objective, naive_form(goal.objective, naive, by_name), **close)
    np.testing.assert_allclose(measured.value, [naive_form(c.lhs, naive, by_name) for c in constraints], **close)
    np.testing.assert_allclose(measured.bound, [naive_form(c.rhs, naive, by_name) for c in constraints], **close)
    np.testing.assert_allclose(measured.slack, [naive_constraint(c, naive, by_name) for c in constraints], **close)
    coefficients = tied.coefficients
    objective_value, totals = coefficients.totals(mass, tied.cell_weight - mass, tied.n_constraints)
    np.testing.assert_allclose(objective_value + tied.objective_constant, measured.objective, **close)
    np.testing.assert_allclose(tied.bound - totals, measured.slack, rtol=1e-6, atol=1e-6)
    for alpha, beta in ((coefficients.alpha0, coefficients.beta0), (coefficients.alpha, coefficients.beta)):
        assert (alpha >= 0).all()
        assert (beta >= 0).all()
        assert (np.minimum(alpha, beta) == 0).all()


def population_rows(rate, naive):
    """Whether anybody with a label, where one is needed, is in the rate's population."""
    from naive_rates import naive_holds

    source = naive[rate.population.source]
    return any(
        naive_holds(rate.population.where, source, row) is True
        and (not rate.needs_label or source.labels[row] is not None)
        and source.weight_of(row) > 0
        for row in range(source.n_rows)
    )


@given(ratios, st.sampled_from([">=", "<="]), st.sampled_from([1.0, 2.0, -3.0]), seeds, st.booleans(), st.booleans())
def test_ratios(ratio, sense, factor, seed, weighted, soft):
    sources, naive = make_data(seed, weighted=weighted)
    target = 0.5
    constraint = Constraint(Linear(((factor, ratio),), 1.0), sense, Linear((), factor * target + 1.0))
    try:
        tied = bind(Goal(error_rate(), constraint), sources, warn_trivial=False)
    except GoalError as error:
        assume("empty" not in str(error) and "no rows" not in str(error) and "weight zero" not in str(error))
        assert "no predictions on these rows" in str(error)
        return
    p = predictions(seed, sources, soft=soft)
    by_name = dict(zip((None, "ext"), p, strict=True))
    mass = tied.positive_mass(p)
    measured = tied.measure(mass)
    below = naive_form(ratio.denominator, naive, by_name)
    expected = naive_form(Linear(((1.0, ratio),)), naive, by_name)
    assert math.isnan(expected) == bool(measured.undefined[0])
    if math.isnan(expected):
        assert not measured.met[0]
        return
    np.testing.assert_allclose(measured.value, expected, rtol=1e-9)
    np.testing.assert_allclose(measured.bound, target, rtol=1e-12)
    np.testing.assert_allclose(measured.denominator, below, rtol=1e-9)
    np.testing.assert_allclose(measured.numerator, naive_form(ratio.numerator, naive, by_name), rtol=1e-9)
    np.testing.assert_allclose(measured.slack * abs(factor), naive_constraint(constraint, naive, by_name), atol=1e-9)
    _, totals = tied.coefficients.totals(mass, tied.cell_weight - mass, 1)
    np.testing.assert_allclose(tied.bound - totals, measured.slack * below, rtol=1e-9, atol=1e-9)
    # moving the ratio's bound by d moves that of the cleared form by d times the denominator
    np.testing.assert_allclose(measured.user_multipliers(np.array([2.0])), 2.0 * below, rtol=1e-9)


def test_an_undefined_ratio_is_never_met():
    sources, _ = make_data(0)
    nothing = [np.zeros(s.n_rows) for s in sources[:1]]
    for expression in (precision(), f_beta(1.0)):
        tied = bind(Goal(error_rate(), expression >= 0.1), sources[:1], warn_trivial=False)
        measured = tied.measure(tied.positive_mass(nothing))
        assert measured.undefined[0] == (expression.form.ratios[0].name == "precision")
        assert not measured.met[0]
        assert not measured.met.all()


def test_equality_is_met_in_spite_of_rounding():
    sources, _ = make_data(0)
    everyone = Population.everyone()
    tied = bind(Goal(error_rate(), true_positives(everyone) >= 3), sources[:1])
    labels = sources[0].labels
    said = np.zeros(25)
    said[np.flatnonzero(labels == 1)[:3]] = 1.0 - 1e-12
    measured = tied.measure(tied.positive_mass([said]))
    assert measured.slack[0] < 0
    assert measured.met[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_and_weights_under_a_rate(weighted):
    """Counted by looking at the rows: of the population, of the denominator, of those with a weight."""
    sources, naive = make_data(5, weighted=weighted)
    wanted = [Rate("recall", POOL[1]), Rate("positive_rate", POOL[2]), Rate("errors", POOL[1])]
    table, _ = table_of(wanted, sources)
    main = sources[0]
    weight = np.ones(main.n_rows) if main.weight is None else main.weight
    group = np.array(naive[None].columns["g"])
    inside = np.array([group == "a", group == "b", group == "a"])
    over = inside & np.array([main.labels == 1, np.ones(main.n_rows, bool), main.labels != 0])
    np.testing.assert_array_equal(table.population_rows, inside.sum(axis=1))
    np.testing.assert_array_equal(table.all_rows, over.sum(axis=1))
    np.testing.assert_array_equal(table.rows, (over & (weight > 0)).sum(axis=1))
    np.testing.assert_allclose(table.total, over @ weight)
    np.testing.assert_allclose(table.cap, [1.0, 1.0, over[2] @ weight])


def test_a_constant_has_a_value_in_every_replicate():
    sources, _ = make_data(0)
    table, _ = table_of([Rate("recall", POOL[0])], sources)
    np.testing.assert_array_equal(form_value(Linear((), 0.5), table, np.zeros((1, 3))), [0.5, 0.5, 0.5])


@pytest.mark.parametrize(("bound", "slack", "met"), [(0.5, -0.9e-9, True), (0.5, -1.1e-9, False), (1e6, -0.9e-3, True),
                                                     (-1e6, -0.9e-3, True), (1e6, -1.1e-3, False)])  # fmt: skip
def test_rounding_is_allowed_by_the_size_of_the_bound(bound, slack, met):
    found = Measured(
        np.zeros(0),
        0.0,
        np.array([bound + slack]),
        np.array([bound]),
        np.array([slack]),
        np.array([np.nan]),
        np.array([np.nan]),
    )
    assert bool(found.met.all()) is met
