"""Sources: baselines in their order, weights, external data sets, and every refusal."""

import warnings

import numpy as np
import pandas as pd
import pytest

from widemargin.exceptions import DataError, GoalWarning
from widemargin.goals import External
from widemargin.goals.binding.sources import Source, make_source, make_sources
from widemargin.goals.binding.tables import PopulationTable
from widemargin.rows import Rows

PAIR = (0, 1)


class Says:
    """A fitted model that always predicts the same and notes what it was asked."""

    def __init__(self, value):
        self.value = value
        self.asked = []

    def predict(self, X):
        self.asked.append(X)
        return np.full(len(X), self.value)


def made(name, X=None, y=None, *, classes, models=None, baselines=None, baseline_names=(), **parts):
    """A source of rows; a baseline that is given as predictions comes before a model of the same name."""
    rows = Rows(X, y, baselines={**(models or {}), **(baselines or {})}, source=name, **parts)
    return make_source(rows, baseline_names, classes=classes)


def test_baselines_are_looked_up_in_the_order_of_decision_2():
    X, names = np.zeros((2, 1)), ["h"]
    table, array, model = pd.DataFrame({"h": [1, 1]}), {"h": [0, 1]}, {"h": Says(0)}
    first = made(None, X, classes=PAIR, populations=table, baselines=array, models=model, baseline_names=names)
    second = made(None, X, classes=PAIR, baselines=array, models=model, baseline_names=names)
    third = made(None, X, classes=PAIR, models=model, baseline_names=names)
    assert first.baselines["h"].tolist() == [1, 1]
    assert second.baselines["h"].tolist() == [-1, 1]
    assert third.baselines["h"].tolist() == [-1, -1]
    assert len(model["h"].asked) == 1


def test_a_feature_is_no_baseline():
    X = pd.DataFrame({"h": [1, 1]})
    with pytest.raises(DataError, match="baseline 'h' is unknown"):
        made(None, X, classes=PAIR, baseline_names=["h"])


def test_only_the_baselines_that_are_used_are_read():
    source = made(None, np.zeros((2, 1)), classes=PAIR, baselines={"bad": [5, 6]})
    assert source.baselines == {}


def test_baselines_use_the_labels_of_y():
    source = made(None, y=["b", "a"], classes=("a", "b"), baselines={"h": ["a", "a"]}, baseline_names=["h"])
    assert source.labels.tolist() == [1, -1]
    assert source.baselines["h"].tolist() == [-1, -1]
    with pytest.raises(DataError, match=r"baseline 'h' has 2 values that are neither class \('a', 'b'\): 0.2, 0.7"):
        made(None, y=["b", "a"], classes=("a", "b"), baselines={"h": [0.2, 0.7]}, baseline_names=["h"])
    with pytest.raises(DataError, match="baseline 'h' has 1 missing values"):
        made(None, y=["b", "a"], classes=("a", "b"), baselines={"h": ["a", None]}, baseline_names=["h"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"y": [0, 1], "baselines": {"h": [0, 1, 1]}, "baseline_names": ["h"]},
            "baseline 'h' has length 3 and the data 2",
        ),
        ({"X": np.zeros((3, 1)), "y": [0, 1]}, "y has length 2 and the data 3 rows"),
        ({"y": [0, 1], "sample_weight": [1.0]}, "sample_weight has length 1"),
        ({"y": [0, 1], "sample_weight": [1.0, -1.0]}, "1 sample weights of the data are negative or not finite"),
        ({"y": [0, 1], "sample_weight": [1e308, 1.0]}, "is 1e[+]308: squares of weights overflow or vanish"),
        ({"y": [0, 1], "sample_weight": [1e-320, 0.0]}, "is 1e-320: squares of weights overflow or vanish"),
        ({"y": [0, 1], "sample_weight": [np.nan, np.inf]}, "2 sample weights"),
        ({"y": [0, 1], "sample_weight": ["a", "b"]}, "sample_weight is not numeric"),
        ({"y": [0, 1], "sample_weight": [[1.0, 1.0]]}, r"sample_weight has shape \(1, 2\)"),
        ({"y": [0, 1], "baseline_names": ["old"]}, r"baseline 'old' is unknown; known are none.*baselines={'old'"),
        ({"y": [0, 1], "models": {"h": Says(0)}, "baseline_names": ["h"]}, "'h' is a model, and there is no X"),
        ({"populations": {"a": [1]}}, "a dict of 1 entries was given in place of a table"),
        ({}, "there are no rows"),
        ({"X": np.zeros((0, 2))}, "the data has no rows"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(DataError, match=message):
        made(None, classes=PAIR, **arguments)


def test_weights_of_one_are_no_weights():
    assert made(None, y=[0, 1], classes=PAIR, sample_weight=[1, 1]).weight is None
    assert made(None, y=[0, 1], classes=PAIR, sample_weight=[0, 2]).weight.tolist() == [0.0, 2.0]


def test_external_data_sets():
    data = External(np.zeros((3, 2)), [1, None, 0], sample_weight=[1, 2, 3], deployed=[0, 1, 1])
    assert repr(data) == "External(3 rows, labelled, baselines: 'deployed')"
    main, traffic = make_sources(
        {None: (), "traffic": ("deployed",)}, Rows(y=[0, 1], external={"traffic": data}), classes=PAIR
    )
    assert (main.name, main.n_rows, traffic.name, traffic.n_rows) == (None, 2, "traffic", 3)
    assert traffic.labels.tolist() == [1, 0, -1]
    assert traffic.weight.tolist() == [1, 2, 3]
    assert traffic.baselines["deployed"].tolist() == [-1, 1, 1]


def test_models_are_asked_everywhere_and_arrays_only_on_the_main_rows():
    model, X, frame = Says(1), np.zeros((2, 1)), pd.DataFrame({"a": [1, 2, 3]})
    uses = {None: ("h",), "traffic": ("h",)}
    main, traffic = make_sources(
        uses, Rows(X, external={"traffic": External(frame)}, baselines={"h": model}), classes=PAIR
    )
    assert main.baselines["h"].tolist() == [1, 1]
    assert traffic.baselines["h"].tolist() == [1, 1, 1]
    assert model.asked[1] is frame
    with pytest.raises(DataError, match=r"baseline 'h' is unknown of external 'traffic'.*External\(X, h=predictions\)"):
        make_sources(uses, Rows(X, external={"traffic": External(frame)}, baselines={"h": [0, 1]}), classes=PAIR)


def test_external_data_sets_that_are_missing_or_bare():
    with pytest.raises(DataError, match=r"'traffic', which was not given; given are 'other'"):
        other = {"other": External(np.zeros((1, 1)))}
        make_sources({None: (), "traffic": ()}, Rows(y=[0, 1], external=other), classes=PAIR)
    with pytest.raises(DataError, match=r"external\['traffic'\] is a ndarray; wrap it: External"):
        make_sources({None: (), "traffic": ()}, Rows(y=[0, 1], external={"traffic": np.zeros((1, 1))}), classes=PAIR)


def test_a_source_checks_its_parts():
    with pytest.raises(DataError, match="the table has 2 rows and external 't' 3"):
        Source("t", None, None, PopulationTable.build(np.zeros((2, 1))), {}, 3)


INDEX = [7, 8, 9]


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"populations": pd.DataFrame({"a": [1, 2, 3]})}, "populations has another index than X"),
        ({"y": pd.Series([0, 1, 0])}, "y has another index"),
        ({"sample_weight": pd.Series([1.0, 2.0, 1.0], index=[9, 8, 7])}, "sample_weight has another index"),
        ({"y": pd.Series([0, 1, 0]), "populations": pd.DataFrame({"a": [1, 2, 3]})}, "y and populations have"),
    ],
)
def test_rows_of_pandas_objects_are_matched_by_position_with_a_warning(parts, named):
    X = pd.DataFrame({"x": [0.0, 1.0, 2.0]}, index=INDEX)
    with pytest.warns(GoalWarning, match=rf"{named}.*by position.*reset_index.*reindex\(X.index\)"):
        made(None, X, classes=PAIR, **parts)
    with pytest.warns(GoalWarning, match=f"{named.split()[0]}.* of external 't'"):
        made("t", X, classes=PAIR, **parts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(None, X.to_numpy(), classes=PAIR, **parts)
        made(None, X, classes=PAIR, **{name: part.set_axis(INDEX) for name, part in parts.items()})
        made(None, X, classes=PAIR, **{name: part.to_numpy() for name, part in parts.items()})
