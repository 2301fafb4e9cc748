"""Reports on made-up rows, with names that try to break out of the page, and a reader that checks the page."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from testing.trade_offs import made_path

from widemargin.goals import Goal, Population, churn, col, error_rate, positive_rate, recall
from widemargin.report import html_report

__all__ = ["HOSTILE", "PageReader", "hostile_page", "plain_page", "rows"]

HOSTILE = (
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    "'\"><svg/onload=window.hacked=1>",
    "{{7*7}}${7*7}<!--",
    "\u2028\u2029\u202e]]>&amp;\x00",
)
VOID = {"br", "circle", "input", "line", "link", "meta", "path", "polyline", "rect"}


def rows(n=600, seed=0):
    """Features, labels, and a table with a group and the decisions of an earlier model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    group = rng.choice(["a", "b"], n)
    y = (X[:, 0] + 0.3 * (group == "a") + rng.normal(size=n) > 0.3).astype(int)
    return X, y, pd.DataFrame({"group": group, "old": (X[:, 0] > 0.5).astype(int)})


def goal(a="a", b="b", *, parity="parity", floor="<floor>", old="old"):
    """Three rules; the first two are those of the path of `made_path`."""
    first, second = (Population(name, where=col("group") == value) for name, value in ((a, "a"), (b, "b")))
    return Goal(
        error_rate(),
        [
            (positive_rate(first) >= 0.6 * positive_rate(second)).named(parity),
            (recall() >= 0.5).named(floor),
            churn(old) <= 0.5,
        ],
    )


def plain_page(asked=None, **changes):
    """A report with everything in it; of a goal with other names, if one is given."""
    X, y, table = rows()
    model = LogisticRegression().fit(X, y)
    options = {
        "populations": table,
        "others": {"always yes": np.ones(len(y), int)},
        "paths": [made_path()],
        "record": {"Files": {"table": "people.csv"}},
        "card": {"Intended use": "Tests."},
    }
    return html_report(model, goal() if asked is None else asked, X, y, **(options | changes))


def hostile_page():
    """The same with every name out of `HOSTILE`, as far as the goal language takes it."""
    X, y, table = rows()
    words = np.array(["no", HOSTILE[0]], dtype=object)
    model = LogisticRegression().fit(X, words[y])
    first, second, third, fourth, fifth = HOSTILE
    asked = goal(first, second, parity=third, floor=fourth, old=first)
    table = table.drop(columns="old").assign(**{first: words[table["old"]]})
    path = made_path(name=third, labels=(third, fourth), objective_text=second)
    return html_report(
        model, asked, X, words[y],
        populations=table, others={second: words[y]}, paths=[path], title=fifth, model_name=first, data_name=second,
        pos_label=first, record={first: {second: third, fourth: [fifth]}}, card={first: second, "Intended use": third},
    )  # fmt: skip


class PageReader(HTMLParser):
    """Reads a page strictly: every element is closed, in order; keeps ids, elements and texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.elements, self.texts, self.comments = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def handle_comment(self, data):
        self.comments.append(data)

    def of(self, tag):
        """Attributes of every element of a kind."""
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def text(self):
        """What is read on the page."""
        return "".join(data for tag, data in self.texts if tag not in ("script", "style"))
