"""The tables of Local Law 144, against counts made row by row."""

import json

import numpy as np
import pandas as pd
import pytest

from widemargin.diagnostics import BiasAudit, local_law_144
from widemargin.exceptions import DataError


def people(n=600, seed=2):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "sex": rng.choice(["F", "M", None, "Prefer not to say"], n, p=[0.45, 0.45, 0.05, 0.05]),
        "race": rng.choice(["A", "B", "C", "unknown"], n, p=[0.6, 0.3, 0.01, 0.09]),
        "score": rng.normal(size=n).round(1),
        "chosen": rng.choice(["yes", "no"], n),
    })  # fmt: skip


def by_hand(rows, chosen, column, categories):
    rates = {name: chosen[rows[column] == name].mean() for name in categories}
    return {name: rate / max(rates.values()) for name, rate in rates.items()}


def test_scores_count_above_the_median_of_everybody():
    rows = people()
    audit = local_law_144(rows["score"], rows["sex"], rows["race"])
    assert (audit.kind, audit.median) == ("scoring", rows["score"].median())
    above = rows["score"] > rows["score"].median()
    wanted = by_hand(rows, above, "sex", ["F", "M"])
    assert {item.name: item.impact_ratio for item in audit["Sex"].categories} == pytest.approx(wanted)
    unknown = ~rows["sex"].isin(["F", "M"])
    assert (audit["Sex"].n_unknown, audit["Sex"].n_unknown_selected) == (unknown.sum(), above[unknown].sum())
    assert sum(item.n_people for item in audit["Sex"].categories) + audit["Sex"].n_unknown == audit.n_people == 600


def test_decisions_and_both_columns_together():
    rows = people()
    audit = local_law_144(rows["chosen"], rows["sex"], rows["race"], selected="yes")
    both = rows.assign(both=rows["sex"] + ", " + rows["race"])
    wanted = by_hand(both, rows["chosen"] == "yes", "both", [f"{sex}, {race}" for sex in "FM" for race in "ABC"])
    table = audit["Sex and race/ethnicity"]
    assert {item.name: item.impact_ratio for item in table.categories} == pytest.approx(wanted, nan_ok=True)
    assert table.n_unknown == (~(rows["sex"].isin(["F", "M"]) & rows["race"].isin([*"ABC"]))).sum()
    for item in table.categories:
        if item.impact_ratio is not None:
            assert item.least <= item.impact_ratio <= item.largest
    assert local_law_144((rows["chosen"] == "yes").astype(int), rows["sex"], rows["race"]).tables == audit.tables
    assert local_law_144(rows["chosen"] == "yes", rows["sex"], rows["race"]).tables == audit.tables


def test_small_categories_are_marked_and_left_out_with_a_reason():
    rows = people()
    marked = local_law_144(rows["chosen"], rows["sex"], rows["race"], selected="yes")["Race/ethnicity"]
    assert [item.is_small for item in marked.categories] == [False, False, True]
    assert marked.categories[2].impact_ratio is not None
    audit = local_law_144(rows["chosen"], rows["sex"], rows["race"], selected="yes", leave_out_small="too few")
    small = audit["Race/ethnicity"].categories[2]
    assert (small.impact_ratio, small.least, small.four_fifths) == (None, None, "left out")
    assert small.n_people and small.rate.value is not None  # the rules want both published
    assert "too few" in str(audit)


def test_verdicts_that_unknown_people_can_turn():
    sex, race = ["F"] * 100 + ["M"] * 100 + [None] * 20, ["A"] * 220
    decisions = [1] * 45 + [0] * 55 + [1] * 50 + [0] * 50 + [0] * 20
    audit = local_law_144(decisions, sex, race)
    first, second = audit["Sex"].categories
    assert (first.impact_ratio, first.four_fifths) == (0.9, "open")
    assert first.least == pytest.approx(45 / 120 / 0.5)
    assert (second.four_fifths, audit.passed, audit.exit_code) == ("yes", True, 0)
    careful = local_law_144(decisions, sex, race, decide="confident")
    assert (careful.passed, careful.exit_code) == (False, 1)


def test_records_go_through_json_and_frames():
    rows = people()
    audit = local_law_144(rows["score"], rows["sex"], rows["race"], source="made up", audit_date="2026-01-02")
    assert BiasAudit.from_dict(json.loads(json.dumps(audit.to_dict()))) == audit
    assert audit.to_frame().loc[("Sex", "F"), "scoring_rate"] == audit["Sex"].categories[0].rate.value
    assert "made up" in str(audit) and "2026-01-02" in str(audit)
    assert "<table>" in audit._repr_html_()
    with pytest.raises(KeyError, match="no table 'sex'"):
        audit["sex"]


def test_people_without_an_outcome_are_counted_apart():
    audit = local_law_144([1, 0, None, 1], ["F", "M", "M", "F"], ["A", "A", "A", "A"])
    assert (audit.n_people, audit.n_not_assessed) == (3, 1)


@pytest.mark.parametrize(("given", "text"), [
    ({"outcomes": [1, 0]}, "outcomes 2, sex 3, race_ethnicity 3"),
    ({"outcomes": [None] * 3}, "none of 3 people"),
    ({"outcomes": ["a", "b", "c"]}, "the values 'a', 'b', 'c'; nothing says which of them counts as selected"),
    ({"outcomes": ["a", "b", "c"], "selected": "d"}, "none of them is 'd'"),
    ({"sex": [None, "unknown", "N/A "]}, "names nobody's category"),
    ({"race_ethnicity": range(3), "outcomes": [1, 0, 1], "decide": "maybe"}, "decide must be"),
])  # fmt: skip
def test_errors_name_the_thing_and_the_number(given, text):
    usual = {"outcomes": [1, 0, 1], "sex": ["F", "M", "F"], "race_ethnicity": ["A", "B", "A"]} | given
    with pytest.raises(DataError, match=text):
        local_law_144(**usual)


def test_a_column_of_names_is_refused():
    with pytest.raises(DataError, match="has 30 values"):
        local_law_144([1, 0] * 15, ["F", "M"] * 15, [f"person {j}" for j in range(30)])


def test_only_verdicts_that_there_are_can_turn():
    """Nobody is known to be a woman of B: that category has no verdict, whatever the unknown people make of it."""
    sex, race = ["F", "F", "M", "M", "M", "M", None, None], ["A", "A", "A", "A", "B", "B", "B", "B"]
    audit = local_law_144([1, 0, 1, 0, 1, 1, 1, 0], sex, race)
    verdicts = [item.four_fifths for table in audit.tables for item in table.categories if item.n_people]
    assert audit["Sex and race/ethnicity"].categories[1].n_people == 0
    assert f"can turn {verdicts.count('open')} of these verdicts" in audit.headline()
