"""The page in headless Chromium: screens, keyboard, axe, paper; the slider works, nothing is fetched or hostile."""

import itertools
import unicodedata
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from testing.browsers import SIZES, Tab, browser_of_tests
from testing.report_pages import HOSTILE, goal, hostile_page, plain_page, rows
from testing.trade_offs import made_path

from widemargin import RateConstrainedClassifier, goal_scorer, margin_report
from widemargin.diagnostics import local_law_144
from widemargin.report import bias_audit_page, html_report

pypdf = pytest.importorskip("pypdf", reason="no pypdf: `make test-browser` installs it")


@pytest.fixture(scope="module")
def browser():
    with browser_of_tests() as started:
        yield started


def bias_audit():
    sex = ["F"] * 50 + ["M"] * 60 + [None] * 10
    return bias_audit_page(local_law_144([1, 0] * 25 + [1, 1, 0] * 20 + [1] * 10, sex, ["A", "B", "C"] * 40))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {
        name: made.save(folder / f"{name}.html")
        for name, made in {"plain": plain_page(), "hostile": hostile_page(), "bias audit": bias_audit()}.items()
    }


@pytest.mark.parametrize("name", ["plain", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_renders_without_errors_or_requests(browser, files, name, scheme):
    with Tab(browser, files[name], color_scheme=scheme) as tab:
        assert tab.quiet()
        assert tab.page.evaluate("window.hacked") is None
        assert tab.page.locator("h1").count() == 1 and tab.page.locator("article.card").count() == 3
        paper = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")
        box = tab.page.locator("#tradeoff svg.plot").first.bounding_box()
        assert box["width"] > 200 and box["height"] > 100


@pytest.mark.parametrize("name", ["plain", "hostile", "bias audit"])
@pytest.mark.parametrize("size", [*SIZES, (360, 740)], ids=str)
def test_it_fits_every_screen_and_axe_finds_nothing(browser, files, name, size):
    with Tab(browser, files[name], viewport={"width": size[0], "height": size[1]}) as tab:
        assert tab.width() <= size[0]
        for part in tab.page.locator("details").all():
            part.evaluate("part => { part.open = true; }")
        assert tab.width() <= size[0]
        for scheme in ("light", "dark"):
            tab.page.emulate_media(color_scheme=scheme)
            tab.picture(f"{name}-{size[0]}-{scheme}")
            assert tab.violations() == []


@pytest.mark.parametrize("name", ["plain", "bias audit"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_keyboard_goes_down_the_page_once(browser, files, name, size):
    with Tab(browser, files[name], viewport={"width": size[0], "height": size[1]}) as tab:
        walk = tab.keyboard_walk()
        assert "skip" in walk[0][1]  # first the way past the header
        for (number, text, top), (later, other, below) in itertools.pairwise(walk[1:]):
            assert number < later and top <= below + 1, (text, other)
        reached = {number for number, _, _ in walk}
        wanted = tab.page.evaluate(
            """[...document.querySelectorAll("*")].flatMap((part, number) =>
               part.matches("a[href], summary, input") && part.checkVisibility() ? [number] : [])"""
        )
        assert set(wanted) <= reached


def test_the_keyboard_moves_the_bound_through_the_points_of_the_path(browser, files):
    path = made_path()
    with Tab(browser, files["plain"]) as tab:
        page = tab.page
        slider = page.locator("#path-0-slider")
        assert slider.is_visible() and slider.get_attribute("aria-valuetext") == "≥ 60\u00a0%"
        slider.focus()
        page.keyboard.press("Home")
        places = []
        for i, value in enumerate(path.values):
            asked = f"≥ {100 * value:.0f}\u00a0%"
            assert slider.get_attribute("aria-valuetext") == asked
            state = "met" if path.met[i] else "NOT met"
            assert page.locator("#path-0-said").inner_text() == f"Bound {asked}: {state} on the training rows."
            error = _percent(page.locator("#path-0-objective").inner_text())
            assert error == pytest.approx(path.held_out.objective[i], abs=6e-4)
            for j, scale in enumerate((value / path.held_out.bound[i, 0], 1.0)):  # the first one is a ratio
                rate = _percent(page.locator(f"#path-0-rate-{j}").inner_text())
                assert rate == pytest.approx(scale * path.held_out.rate[i, j], abs=6e-4)
            ring = page.locator("#path-0-ring")
            places.append((float(ring.get_attribute("cx")), float(ring.get_attribute("cy"))))
            page.keyboard.press("ArrowRight")
        assert tab.quiet()
        drawn = page.locator("#tradeoff circle.point").evaluate_all(
            "all => all.map(p => [+p.getAttribute('cx'), +p.getAttribute('cy')])"
        )
        met = [place for place, met in zip(places, path.met, strict=True) if met]
        assert [tuple(point) for point in drawn] == [pytest.approx(place, abs=0.06) for place in met]
        assert [x for x, _ in places] == sorted(x for x, _ in places)


def _percent(text):
    return float(text.split("\u00a0%")[0].replace("−", "-")) / 100


def test_what_the_script_writes_is_what_the_page_said_before(browser, files):
    with Tab(browser, files["plain"]) as scripted, Tab(browser, files["plain"], java_script_enabled=False) as plain:
        for part in ("said", "objective", "rate-0", "rate-1", "bound-0", "bound-1"):
            assert (
                scripted.page.locator(f"#path-0-{part}").inner_text()
                == plain.page.locator(f"#path-0-{part}").inner_text()
            )
        assert not plain.page.locator("#path-0-slider").is_visible()
        assert plain.page.locator(".no-script").first.is_visible()
        assert not scripted.page.locator(".no-script").first.is_visible()


def test_the_policy_stops_scripts_that_are_not_the_reports_own(browser, tmp_path):
    text = plain_page().text.replace(
        "<main", "<script>window.hacked = 1</script><img src=x onerror=window.hacked=2><main"
    )
    (tmp_path / "changed.html").write_text(text)
    with Tab(browser, tmp_path / "changed.html") as tab:
        assert tab.page.evaluate("window.hacked") is None
        assert any("Content Security Policy" in line for line in tab.said)


def test_what_notebooks_show_is_plain_html(browser, tmp_path):
    """Diagrams of estimators and the tables of reports, with hostile names in them."""
    X, y, table = rows()
    bad = HOSTILE[0]
    labels = np.array(["no", bad], dtype=object)[y]
    asked = goal(bad, HOSTILE[1], parity=HOSTILE[2], floor=HOSTILE[3])
    table["old"] = np.array(["no", bad], dtype=object)[table["old"]]
    model = RateConstrainedClassifier(asked, pos_label=bad, on_infeasible="warn").fit(X, labels, populations=table)
    shown = {
        "pipeline": make_pipeline(StandardScaler(), RateConstrainedClassifier(asked, pos_label=bad)),
        "fitted": model,
        "scorer": goal_scorer(asked),
        "report": model.goal_report_,
        "margins": margin_report(model, X, labels, groups=[HOSTILE[1]] * len(y)),
        "path": made_path(name=HOSTILE[1], labels=(HOSTILE[2], HOSTILE[0])),
        "page": hostile_page(),
    }
    parts = [f'<div id="{name}">{item._repr_html_()}</div>' for name, item in shown.items()]
    (tmp_path / "notebook.html").write_text("<!DOCTYPE html><meta charset=utf-8>" + "".join(parts), encoding="utf-8")
    with Tab(browser, tmp_path / "notebook.html") as tab:
        assert tab.said == [] and tab.asked[0].startswith("file:")
        assert [url for url in tab.asked[1:] if not url.startswith(("about:", "data:"))] == []
        assert tab.page.evaluate("window.hacked") is None
        for name in shown:
            assert tab.page.locator(f"#{name}").bounding_box()["height"] > 40, name
        for name in ("report", "margins", "path"):
            assert tab.page.locator(f"#{name} table tbody tr").count() >= 2, name
        assert tab.page.locator("img").count() == 0
        inside = tab.page.frame_locator("#page iframe")
        assert inside.locator("article.card").count() == 3
        assert inside.locator("#path-0-slider").is_visible()


def words(text):
    """A text without spaces and ligatures, which a PDF has in places of its own."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def whole_tables(tab, file):
    """How many pages the PDF on A4 has, and for every table how many of them show all of its words in a row."""
    tab.page.pdf(path=file, format="A4")
    pages = [words(page.extract_text()) for page in pypdf.PdfReader(file).pages]
    tab.page.emulate_media(media="print")
    tables = tab.page.locator("table").evaluate_all(
        "all => all.filter(part => part.checkVisibility()).map(part => part.innerText)"
    )
    return len(pages), [sum(words(table) in page for page in pages) for table in tables]


def letters(file):
    """The sizes of the letters of a PDF in points, each with how many there are."""
    counts = Counter()
    for page in pypdf.PdfReader(file).pages:
        page.extract_text(
            visitor_text=lambda text, cm, tm, _, size: counts.update({round(abs(cm[3] * tm[3] * size), 1): len(text)})
        )
    return counts


def test_it_prints_with_everything_unfolded(browser, files, tmp_path):
    with Tab(browser, files["plain"], viewport={"width": 720, "height": 900}) as tab:
        pages, tables = whole_tables(tab, tmp_path / "page.pdf")
        assert pages <= 2 and len(tables) > 4 and set(tables) == {1}
        assert 20_000 < (tmp_path / "page.pdf").stat().st_size < 1_000_000
        assert not tab.page.locator("#path-0-slider").is_visible()
        assert tab.page.locator("details table").first.bounding_box()["height"] > 20
        assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert tab.width() <= 720


def test_many_rules_of_many_groups_take_two_sheets_and_cut_no_table(browser, tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.choice([f"{name} {j}" for j in range(n)], 3000)
                      for name, n in (("sex", 2), ("region", 4), ("employment", 6))})  # fmt: skip
    X = rng.normal(size=(3000, 3))
    y = (X.sum(axis=1) + rng.normal(size=3000) > 0).astype(int)
    goal = """
    a = population(sex == "sex 0")
    b = population(sex == "sex 1")
    subject to fair_region: demographic_parity(region, ratio=0.8)
    subject to fair_employment: demographic_parity(employment, ratio=0.8)
    subject to one: positive_rate(a) / positive_rate(b) >= 0.8
    subject to other: positive_rate(b) / positive_rate(a) >= 0.8
    subject to opportunity_region: equal_opportunity(region, difference=0.1)
    subject to opportunity_employment: equal_opportunity(employment, difference=0.1)
    subject to floor: recall() >= 0.5
    subject to certain: precision() >= 0.5
    """
    page = html_report(LogisticRegression().fit(X, y), goal, X, y, populations=table)
    assert page.text.count("<article") == 7
    with Tab(browser, page.save(tmp_path / "page.html"), viewport={"width": 688, "height": 900}) as tab:
        pages, tables = whole_tables(tab, tmp_path / "page.pdf")
        assert pages == 2 and len(tables) > 2 and set(tables) == {1}
        assert max(letters(tmp_path / "page.pdf")) == 13  # that of the title: what is too wide shrinks all
        for part in tab.page.locator(".scroll").all():
            assert part.evaluate("part => part.scrollWidth - part.clientWidth") <= 0


@pytest.mark.parametrize("missing_groups", [False, True])
def test_a_goal_that_init_proposes_takes_two_sheets_that_can_be_read(browser, tmp_path, missing_groups):
    """Ages cut thrice and both ways round, two columns of groups, a record, an empty card."""
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.integers(18, 80, 900), "sex": rng.choice(["F", "M"], 900),
                      "marital_status": rng.choice(["S", "M", "D", "W", None], 900)})  # fmt: skip
    X = rng.normal(size=(900, 2))
    y = (X.sum(axis=1) + rng.normal(size=900) > 0).astype(int)
    goal, rules = "", ""
    for cut in (25, 40, 60):
        goal += f"age_below_{cut} = population(age < {cut})\nage_from_{cut} = population(age >= {cut})\n"
        for one, other in (("below", "from"), ("from", "below")):
            rules += f"subject to four_fifths_age_{one}_{cut}: "
            rules += f"positive_rate(age_{one}_{cut}) / positive_rate(age_{other}_{cut}) >= 0.8\n"
    goal += f"{rules}subject to four_fifths_sex: demographic_parity(sex, ratio=0.8)\n"
    goal += "subject to four_fifths_marital_status: demographic_parity(marital_status, ratio=0.8)"
    model = LogisticRegression().fit(X, y)
    record = {
        "Files": {
            f"{name}, sha256": "0123456789abcdef" * 4 for name in ("goals file", "model", "table", "measured on")
        },
        "Rows and columns": {"protected": ["age", "sex", "marital_status"], "features": ["a", "b"], "weight": "none"},
        "Training": {f"setting {number}": "value" for number in range(14)},
        "Software": {f"library {number}": "1.2.3" for number in range(9)},
    }
    page = html_report(
        model, goal, X, y, populations=table, others={"without rules": model}, record=record,
        missing_groups=missing_groups,
    )  # fmt: skip
    with Tab(browser, page.save(tmp_path / "page.html"), viewport={"width": 688, "height": 900}) as tab:
        pages, tables = whole_tables(tab, tmp_path / "page.pdf")
    assert pages == 2 and len(tables) > 2 and set(tables) == {1}
    sizes = letters(tmp_path / "page.pdf")
    assert max(sizes) == 13 and sum(sizes[size] for size in sizes if size < 6) < 0.05 * sum(sizes.values())


@pytest.mark.parametrize(
    ("width", "media"), [(390, "screen"), (688, "print"), (1280, "screen")]
)  # a phone; A4 without its margins
def test_tables_with_usual_names_are_seen_whole(browser, tmp_path, width, media):
    long = "four_fifths_staatsangehörigkeit"  # by `init`, of a German table
    names = (long if width > 688 else "fair_race", "churn_deployed")
    page = plain_page(asked=goal("sex_female", "race_white", parity=names[0], floor=names[1]),
                      paths=[made_path(name=names[0], labels=names)])  # fmt: skip
    with Tab(browser, page.save(tmp_path / "page.html"), viewport={"width": width, "height": 844}) as tab:
        tab.page.emulate_media(media=media)
        tables = tab.page.locator(".scroll" if media == "print" else ".scroll:not(details .scroll)").all()
        assert len(tables) > 3
        for table in tables:
            over = table.evaluate("part => part.scrollWidth - part.clientWidth")
            assert over <= 0, table.locator("caption").inner_text()


def test_headings_tables_and_pictures_reach_assistive_technology(browser, files):
    with Tab(browser, files["plain"]) as tab:
        tree = tab.page.locator("body").aria_snapshot()
        for said in (
            'heading "Is it met?" [level=2]',
            'slider "Move the bound of “parity”"',
            "columnheader",
            "rowheader",
            "img",
        ):
            assert said in tree
        slider = tab.page.locator("#path-0-slider")
        for _ in range(60):
            tab.page.keyboard.press("Tab")
            if slider.evaluate("part => part === document.activeElement"):
                break
        else:
            raise AssertionError("the slider cannot be reached by the keyboard")
