"""The whitelist over syntax trees: everything else is refused (what texts look like is tested with the parser)."""

import ast

import pytest

from widemargin.exceptions import GoalError
from widemargin.goals import Population, col, recall
from widemargin.goals.language.bundles import BUNDLE_FUNCTIONS
from widemargin.goals.language.rates import RATES
from widemargin.goals.text.conversion import _READER_OF, Converter, suggestion
from widemargin.goals.text.parser import too_deep

WOMEN = Population("women", where=col("sex") == "Female")


def tree(text):
    return ast.parse(text, mode="eval").body


@pytest.fixture
def convert():
    return Converter({"women": WOMEN})


# One of every kind of expression that Python has.
EVERYTHING = [
    "a or b", "(a := 1)", "a ** b", "a @ b", "a << b", "a // b", "a % b", "a ^ b", "not a", "~a", "lambda: a",
    "a if b else c", "{a: b}", "{a, b}", "[a for a in b]", "{a for a in b}", "{a: b for a in b}",
    "(a for a in b)", "a is b", "a is not b", "a in b", "f(a)", "f(*a)", "f(**a)", "a.b", "a.b()", "a()()",
    "a[0]", "a[0:1]", "a[0]()", "*a", "[a]", "(a, b)", "()", "...", "None", "True", "'s'", "b's'", "3j",
    "f'{a}'", "f'{a!r:>{b}}'", "10 ** 9", "-'a'", "__import__('os')", "a < b", "a == b", "recall", "women",
    "recall().form", "recall(on=women)()", "(recall())(women)", "recall(women, women)", "recall(None)",
]  # fmt: skip


@pytest.mark.parametrize("text", EVERYTHING)
def test_no_expression_but_those_of_the_language(text, convert):
    with pytest.raises(GoalError):
        convert.expression(tree(text) if text != "*a" else tree("[*a]").elts[0])


@pytest.mark.parametrize("text", [*EVERYTHING, "recall()", "3", "recall() + 1"])
def test_no_constraint_without_a_comparison(text, convert):
    with pytest.raises(GoalError):
        convert.constraint(tree(text) if text != "*a" else tree("[*a]").elts[0])


PREDICATES = {"a or b", "not a", "~a"}


@pytest.mark.parametrize("text", [text for text in EVERYTHING if text not in PREDICATES])
def test_no_predicate_but_those_of_the_language(text, convert):
    if text in ("recall", "women"):  # a bare name is a boolean column
        assert convert.predicate(tree(text)) == (col(text) & col("b")).parts[0]
        return
    with pytest.raises(GoalError):
        convert.predicate(tree(text) if text != "*a" else tree("[*a]").elts[0])


@pytest.mark.parametrize("text", [text for text in EVERYTHING if text != "women"])
def test_no_population_but_those_of_the_language(text, convert):
    with pytest.raises(GoalError):
        convert.population(tree(text) if text != "*a" else tree("[*a]").elts[0])


@pytest.mark.parametrize("reader", ["column", "literal", "literals", "number", "string"])
@pytest.mark.parametrize(
    "text", ["f(a)", "a.b", "a[0]", "lambda: a", "f'{a}'", "{1: 2}", "recall()", "[x for x in a]", "...", "b'x'"]
)
def test_no_value_but_plain_ones(reader, text, convert):
    with pytest.raises(GoalError):
        getattr(convert, reader)(tree(text))


def test_arguments_are_read_by_the_name_of_the_parameter(convert, monkeypatch):
    """The seam: a rate that is added to the table can be written at once."""

    def my_rate(baseline, on=None):
        assert baseline == "old"
        return recall(on)

    monkeypatch.setitem(RATES, "my_rate", my_rate)
    assert convert.expression(tree("my_rate('old', on=women)")).form == recall(WOMEN).form

    def my_bundle(share, population=None):
        return recall(population) >= share

    monkeypatch.setitem(BUNDLE_FUNCTIONS, "my_bundle", my_bundle)
    assert convert.constraint(tree("my_bundle(1/2, women)")) == (recall(WOMEN) >= 0.5)


def test_every_parameter_of_every_function_has_a_reader(convert):
    import inspect

    for function in (*RATES.values(), *BUNDLE_FUNCTIONS.values()):
        assert set(inspect.signature(function).parameters) <= _READER_OF.keys()


def test_constants_are_checked_at_every_step(convert):
    assert convert.expression(tree("2 * 3 - 1 / 4")) == 5.75
    for text in ("1e308 * 10", "1 / 0", "1 / (1 - 1)", "recall() / 0"):
        with pytest.raises(GoalError):
            convert.expression(tree(text))


def test_depth():
    assert not too_deep(tree("+".join(["a"] * 500)), 3)
    assert too_deep(tree("(" * 50 + "a" + "+1)" * 50 + "*2"), 3) is False  # brackets on the left make a chain
    assert too_deep(tree("1+(" * 50 + "a" + ")" * 50), 50)
    assert not too_deep(tree("1+(" * 40 + "a" + ")" * 40), 50)
    assert too_deep(tree("a" + ".b" * 60), 50)
    assert too_deep(tree("f(" * 60 + "a" + ")" * 60), 50)


def test_suggestions():
    assert suggestion("recal", ["recall", "churn"]) == " Did you mean 'recall'?"
    assert suggestion("xyz", ["recall"]) == ""
    assert suggestion("r" * 10_000, ["recall"]) == ""
