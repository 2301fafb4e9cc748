"""The page as text: well-formed, complete, self-contained, and the numbers are those of the audit."""

import itertools
import json
import re

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from testing.report_pages import HOSTILE, PageReader, goal, hostile_page, plain_page, rows
from testing.trade_offs import made_path

from widemargin import External, GoalThresholdClassifier, audit
from widemargin.exceptions import DataError, GoalError
from widemargin.report import CARD, HtmlReport, html_report
from widemargin.report.drawings import margin_histogram
from widemargin.report.markup import fingerprint
from widemargin.report.words import Unit, shown


@pytest.fixture(scope="module")
def report():
    return plain_page()


@pytest.fixture(scope="module")
def page(report):
    return PageReader(report.text)


def test_the_page_needs_nothing_else(report, page):
    names = {name for _, attributes in page.elements for name in attributes}
    assert not names & {"src", "srcset", "action", "style", "onclick", "onload", "onerror"}
    assert all(attributes["href"].startswith("#") for attributes in page.of("a"))
    assert not page.of("link") and not page.of("img") and not page.of("iframe")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", report.text)
    (policy,) = [item["content"] for item in page.of("meta") if item.get("http-equiv") == "Content-Security-Policy"]
    script, style = (
        "".join(text for tag, text in page.texts if tag == kind and not text.startswith("{"))
        for kind in ("script", "style")
    )
    assert f"script-src {fingerprint(script)}" in policy and f"style-src {fingerprint(style)}" in policy
    assert policy.startswith("default-src 'none'; ")


def test_it_can_be_read_by_everybody(page):
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    for attributes in page.of("section"):
        assert attributes["aria-labelledby"] in ids
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in page.of("svg"))
    assert all(attributes["scope"] in ("col", "row") for attributes in page.of("th"))
    assert len(page.of("caption")) == len(page.of("table"))
    for slider in page.of("input"):
        assert slider["id"] in {label["for"] for label in page.of("label")} and slider["aria-valuetext"]
    assert page.of("html") == [{"lang": "en"}]


def test_the_numbers_are_those_of_the_audit(report, page):
    X, y, table = rows()
    model = LogisticRegression().fit(X, y)
    expected = audit(model, goal(), X, y, populations=table)
    assert report.goal_report.to_dict() == expected.to_dict()
    assert report.content.others["always yes"].objective == pytest.approx(1.0 - y.mean())
    for item in expected.constraints:
        rate = item.rate
        if item.label == "parity":  # positive_rate(a) >= 0.6 * positive_rate(b) is shown as a ratio, with both rates
            other = item.bound / 0.6
            rate = item.rate / other
            assert f"that is {shown(item.rate, Unit.SHARE)} / {shown(other, Unit.SHARE)};" in page.text
        assert f"{shown(rate, Unit.SHARE)} against {'≥' if item.sense == '>=' else '≤'}" in page.text
    said = model.predict(X)
    changed, old = said != table["old"], table["old"].to_numpy()
    (own,) = [item for item in report.content.changes if item.name == "old"]
    assert own.churn[0] == pytest.approx(changed.mean())
    assert own.wins[0] == pytest.approx(((said == y) & (old != y)).mean())
    assert own.losses[0] == pytest.approx(((said != y) & (old == y)).mean())
    assert own.churn[1] < own.churn[0] < own.churn[2]
    other = next(item for item in report.content.changes if item.name == "always yes")
    assert other.churn[0] == pytest.approx((said == 0).mean())


def test_margins_are_those_of_each_population(report):
    X, y, table = rows()
    scores = LogisticRegression().fit(X, y).decision_function(X)
    margins = np.where(y == 1, scores, -scores)
    found = report.content.margins
    assert list(found.reports) == ["all rows", "a", "b"]
    for name, inside in {
        "all rows": np.ones(len(y), bool),
        "a": table["group"] == "a",
        "b": table["group"] == "b",
    }.items():
        summary = found.reports[name].overall
        assert summary.n_rows == inside.sum()
        assert summary.median == pytest.approx(np.median(margins[inside]))
        assert summary.below == pytest.approx((margins[inside] < 0).mean())
        wrong = found.edges[1:] <= 1e-12
        assert found.shares[name][wrong].sum() == pytest.approx((margins[inside] < 0).mean())


def test_prices_are_the_finite_differences_of_the_path(report, page):
    (price,) = made_path().prices(1)
    cost, error = price.price, price.standard_error  # 0.1250 points of error for each point of parity
    assert cost == pytest.approx(0.125)
    sign = "costs nothing that these rows can show (+" if cost < 2 * error else "costs "
    assert f"one point more {sign}{cost:.2f} ± {error:.2f} points of error" in page.text
    assert "between 20\u00a0% and 100\u00a0%" in page.text


def test_the_data_of_the_slider_are_those_of_the_path(page):
    (text,) = [text for tag, text in page.texts if tag == "script" and text.startswith("{")]
    data, path = json.loads(text), made_path()
    assert data["values"] == path.values.tolist()
    assert data["objective"] == path.held_out.objective.tolist()
    (rate, floor), bound = path.held_out.rate.T, path.held_out.bound[:, 0]
    # The first rule compares two rates: the first over the second, which is the bound over the factor asked for.
    assert data["rules"][0]["rate"] == pytest.approx(rate * path.values / bound)
    assert data["rules"][0]["bound"] == path.values.tolist()
    assert data["rules"][1]["rate"] == floor.tolist()
    assert data["met"] == path.met.tolist()


def test_the_model_card_marks_what_nobody_has_said(page):
    blanks = [attributes for attributes in page.of("dd") if attributes.get("class") == "blank"]
    assert len(blanks) == len(CARD) - 1
    assert page.text.count("Not stated. To be filled in by the owner") == len(CARD) - 1
    assert "Tests." in page.text


def test_hostile_names_stay_text():
    report = hostile_page()
    page = PageReader(report.text)
    assert page.comments == []
    scripts = [text for tag, text in page.texts if tag == "script"]
    assert len(scripts) == 2 == len(page.of("script"))
    assert not page.of("img") and all("onload" not in attributes for attributes in page.of("svg"))
    for name in HOSTILE[:4]:
        assert name in page.text
    assert "\u202e" not in report.text and "\x00" not in report.text and "\u2028" not in report.text
    json.loads(next(text for text in scripts if text.startswith("{")))


def test_predictions_alone_and_rows_without_labels():
    X, y, table = rows()
    said = LogisticRegression().fit(X, y).predict(X)
    report = html_report(said, goal(), y=y, populations=table)
    assert report.content.margins == "Only predictions were given; margins need the scores of a model."
    text = PageReader(report.text).text
    assert "A model known by its predictions" in text and "What the rules cost" not in text
    unlabelled = html_report(said, 'subject to churn("old") <= 0.2', populations=table)
    assert unlabelled.content.changes[0].wins is None
    assert "There are no labels" in PageReader(unlabelled.text).text


def test_no_rules_undefined_ratios_bundles_and_external_rows():
    X, y, table = rows()
    model = LogisticRegression().fit(X, y)
    empty = PageReader(html_report(model, "minimize error_rate()", X, y).text)
    assert "The goal has no rules" in empty.text and "There is no rule that could be" in empty.text
    never = PageReader(html_report(np.zeros(len(y), int), "subject to precision() >= 0.5", y=y, pos_label=1).text)
    assert "∅ undefined" in never.text and "Goal NOT met" in never.text
    asked = 'subject to demographic_parity(group, ratio=0.5)\nsubject to positive_rate(external("more")) <= 0.9'
    report = html_report(model, asked, X, y, populations=table, external={"more": External(X[:50])})
    text = PageReader(report.text).text
    assert "For every two values of “group”" in text and "The external data set “more” has 50 rows" in text
    assert (
        list(report.content.margins.reports) == ["all rows", "group == 'a'", "group == 'b'"]
        or len(report.content.margins.reports) == 3
    )


def test_training_rows_without_intervals_and_paths_without_held_out_rows():
    report = plain_page(confidence=None, paths=[made_path(held_out=False)])
    text = PageReader(report.text).text
    assert "There are no intervals" in text
    assert "There are no prices: they are differences on held-out rows" in text


def test_confident_reports_count_what_is_open():
    X, y, table = rows()
    model = LogisticRegression().fit(X, y)
    rate = float(model.predict(X)[y == 1].mean())
    report = html_report(
        model, f"subject to recall() >= {rate - 0.001:.4f}", X, y, decide="confident", populations=table
    )
    text = PageReader(report.text).text
    assert "Goal NOT met: 0 of 1 rule is kept with confidence. 1 rule is undecided" in text
    assert "? undecided, met by the estimate" in text


def test_a_promise_decides_on_held_out_rows_where_training_asked_for_more():
    report = plain_page(trained_goal=goal().with_level(0.7, "<floor>"), paths=[made_path(name="<floor>")])
    data = json.loads(next(text for tag, text in PageReader(report.text).texts if tag == "script" and text[0] == "{"))
    assert data["rules"][1]["bound"] == [0.5] * 5
    rates = made_path().held_out.rate[:, 1]
    assert data["rules"][1]["sign"][0] in "≥≤"
    kept = [
        rate >= 0.5 if sign == "≥" else rate <= 0.5 for rate, sign in zip(rates, data["rules"][1]["sign"], strict=True)
    ]
    assert data["rules"][1]["kept"] == kept


def test_bad_input_is_named(tmp_path):
    _, y, _ = rows(50)
    with pytest.raises(DataError, match="paths holds a dict"):
        html_report(y, "minimize error_rate()", y=y, paths=[{}])
    with pytest.raises(DataError, match="goal and trained_goal"):
        html_report(y, 3, y=y)
    with pytest.raises(GoalError):
        html_report(y, "minimise", y=y)
    report = html_report(y, "minimize error_rate()", y=y)
    with pytest.raises(DataError, match="cannot be written"):
        report.save(tmp_path / "no" / "report.html")
    assert report.save(tmp_path / "report.html").read_text("utf-8") == report.text


def test_notebooks_get_a_frame_of_their_own(report):
    assert isinstance(report, HtmlReport)
    frame = PageReader(report._repr_html_())
    (attributes,) = frame.of("iframe")
    assert attributes["srcdoc"] == report.text and attributes["sandbox"] == "allow-scripts"
    assert repr(report).startswith("<HtmlReport 'Does the model meet its goal?'")


def test_rows_of_unknown_group_have_a_section_where_it_is_asked_for():
    sex = np.array(["F"] * 480 + ["M"] * 480 + [None] * 40, dtype=object)
    decisions = np.r_[np.ones(130), np.zeros(350), np.ones(150), np.zeros(330), np.ones(10), np.zeros(30)].astype(int)
    rule = 'positive_rate(population(sex == "F")) >= 0.8 * positive_rate(population(sex == "M"))'
    texts = [
        html_report(
            decisions,
            f"subject to fair: {rule}",
            populations=pa.table({"sex": sex}),
            pos_label=1,
            missing_groups=asked,
        ).text
        for asked in (False, True)
    ]
    assert "Rows of unknown group" not in texts[0]
    part = texts[1][texts[1].index('id="missing-groups"') :].replace("\u00a0", " ")
    assert "The group of 40 rows is not known" in part and "0 of 1 constraints are met in every case" in part
    assert "25.5 % to 28.6 %" in part and "−1.9 points to +17.1 points" in part and "open</span>" in part


def test_rows_of_unknown_group_show_each_rule_once():
    sex = np.array(["F"] * 50 + ["M"] * 50 + ["X"] * 50 + [None] * 60, dtype=object)
    decisions = np.arange(210) % 2
    goal = """
    women = population(sex == "F")
    men = population(sex == "M")
    subject to one: positive_rate(women) / positive_rate(men) >= 0.8
    subject to other: positive_rate(men) / positive_rate(women) >= 0.8
    subject to all: demographic_parity(sex, ratio=0.8)
    """
    parts = [
        html_report(decisions, goal, populations=pa.table({"sex": known}), pos_label=1, missing_groups=True)
        .text.split('id="missing-groups"')[1].split("</section>")[0]
        for known in (sex, np.where(sex == None, "X", sex))  # noqa: E711
    ]  # fmt: skip
    assert parts[0].split("<caption>Constraints</caption>")[1].count("<tr>") == 1 + 2
    assert "0 of 8 constraints are met in every case" in parts[0] and "several constraints the worst" in parts[0]
    assert "of every row to which populations" in parts[1] and "<table" not in parts[1]


def test_without_rules_no_mark_says_that_all_is_well():
    X, y, table = rows()
    goal_text = "watched_group = population(group == 'a')"
    html = html_report(LogisticRegression().fit(X, y), goal_text, X, y, populations=table).text
    banner = html.split('class="banner ')[1].split("</p>")[0]
    assert banner.startswith("is-undefined") and "no rules" in banner and "✓" not in banner
    assert "watched_group" in html


def test_groups_of_columns_with_any_name_are_called_as_people_write_them():
    X, y, _ = rows()
    table = pa.table({"legal sex": np.where(X[:, 1] > 0, "F", "M"), "flag": (X[:, 2] > 0).astype(int)})
    goal = 'subject to demographic_parity(col("legal sex"), ratio=0.5)\nsubject to demographic_parity(flag, ratio=0.5)'
    page = PageReader(html_report(LogisticRegression().fit(X, y), goal, X, y, populations=table).text)
    texts = {text for _, text in page.texts}
    assert {"legal sex: F", "flag: 1", "legal sex: F and flag: 1"} <= texts


def test_a_model_that_decides_by_populations_is_asked_with_them():
    rng = np.random.default_rng(0)
    X, table = rng.normal(size=(200, 2)), pa.table({"sex": ["F", "M"] * 100})
    y = (X[:, 0] + rng.normal(size=200) > 0.0).astype(int)
    goal = "subject to recall() >= 0.6"
    clf = GoalThresholdClassifier(LogisticRegression(), goal, per_population="sex", random_state=0)
    clf.fit(X, y, populations=table)
    other = LogisticRegression().fit(X, y)
    report = html_report(clf, goal, X, y, populations=table, others={"sex": clf, "plain": other})
    change = {item.name: item.churn[0] for item in report.content.changes}
    said = clf.predict(X, populations=table)
    assert change == pytest.approx({"sex": 0.0, "plain": (said != other.predict(X)).mean()})
    scores = clf.decision_function(X, populations=table)
    margins = np.where(y == 1, scores, -scores)
    assert report.content.margins.reports["all rows"].overall.mean == pytest.approx(margins.mean())
    asked = "subject to tail: margin_below(-0.5) <= 0.5\nsubject to sure: certified_rate(0.1) >= 0.5"
    measured = audit(clf, asked, X, y, populations=table)
    assert measured["tail"].rate == pytest.approx((margins < -0.5).mean())
    far = np.abs(scores) > 0.1 * np.linalg.norm(clf.estimator_.coef_)
    assert measured["sure"].rate == pytest.approx(far.mean())


@pytest.mark.parametrize("edges", [[-0.1, 0.0, 9.0], [-9.0, 0.0, 0.1]])
def test_the_words_beside_zero_stay_in_the_picture(edges):
    picture = str(margin_histogram(np.array(edges), np.array([0.5, 0.5]), 0.5, "margins"))
    wrong, right = (float(x) for x in re.findall(r'<text x="([\d.]+)"', picture))
    assert wrong >= 36.0 and right <= 320.0 - 30.0  # a word has room
