"""Searches that users write: how they are passed, what is checked of them, and where the papers' searches are."""

import math
import sys

import numpy as np
import pytest

from structured_models import examples
from widemargin import StructuralSVM
from widemargin.exceptions import CapabilityError, OracleError
from widemargin.structured.oracle import FREE, Found, declare, require
from widemargin.structured.search.angular import angular
from widemargin.structured.search.automatic import IN_PAPERS, named
from widemargin.structured.search.best_label import BestLabel

pytestmark = pytest.mark.filterwarnings("ignore:stopped after")


@declare(exact=False)
def two_lines(oracle, *, best=None, hint=None, eps=1e-9, ratio=1.0, max_queries=2):
    """Ask for the steepest and the flattest line only."""
    require(oracle, (FREE,), "two_lines")
    met = BestLabel(best)
    for lam in (1e-3, 1e3):
        met.line(lam, oracle.free(lam))
    return met.found(eps)


def train(search, **options):
    model, X, Y = examples("label sets")
    return StructuralSVM(model, C=0.3, search=search, random_state=0, **options).fit(X, Y)


def test_a_function_is_a_search():
    svm = train(two_lines, max_iter=5)
    assert svm.search_ == "two_lines"
    assert np.isfinite(svm.primal_)
    assert svm.n_queries_ >= 2 * svm.n_oracle_calls_


def test_a_search_of_the_library_gives_the_same_by_name_and_as_a_function():
    by_name, passed = train("angular"), train(angular)
    np.testing.assert_array_equal(by_name.coef_, passed.coef_)
    assert by_name.search_ == passed.search_ == "angular"


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((None, 1.0, 0.0, 0.0, 1, True), r"returned tuple; give a Found"),
        (Found(None, 1.0, 0.0, math.nan, 1, True), "is worth more than nan"),
        (Found((1, 1, 1), 2.0, 1.0, 1.0, 1, True), "is worth more than 1, but one is worth 2"),
    ],
)
def test_what_a_search_returns_is_checked(returned, message):
    with pytest.raises(OracleError, match=message):
        train(lambda oracle, **options: returned)


def test_a_search_must_be_called_as_searches_are():
    with pytest.raises(CapabilityError, match=r"cannot be called as search\(oracle, \*, best, hint, eps, ratio"):
        train(lambda oracle, best=None: None)


@pytest.mark.parametrize("name", IN_PAPERS)
def test_the_searches_of_the_papers_are_named_where_they_are_not_installed(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "widemargin_papers.solvers.label_searches", None)
    monkeypatch.setattr("widemargin.structured.search.automatic.SEARCHES", {})
    with pytest.raises(CapabilityError, match="lives in widemargin-papers, which is not installed"):
        named(name, frozenset({FREE}))
