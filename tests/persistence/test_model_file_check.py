"""The fixed list of types: true to the code, free of anything that runs."""

import importlib
import json

import pytest

from widemargin.persistence.model_file_check import TRUSTED_TYPES, refused_nodes

SCORES = {f"sklearn.feature_selection._univariate_selection.{name}" for name in ("chi2", "f_classif")}


@pytest.mark.parametrize("name", TRUSTED_TYPES)
def test_every_name_on_the_list_is_a_class_or_one_of_two_scores_of_features(name):
    # Scikit-learn 1.7 calls the module of two losses as if it stood at the top.
    module, _, attribute = name.replace("_loss.Cy", "sklearn._loss._loss.Cy", name.startswith("_loss.")).rpartition(".")
    assert name in SCORES or isinstance(getattr(importlib.import_module(module), attribute), type)


def test_no_function_is_on_the_list():
    for name in TRUSTED_TYPES:
        assert not name.startswith(("os.", "subprocess.", "builtins.eval", "builtins.exec", "functools.", "operator."))


def node(loader, name, **more):
    module, _, kind = name.rpartition(".")
    return {"__loader__": loader, "__module__": module, "__class__": kind, **more}


def test_allowed_nodes_pass_and_others_are_yielded_with_their_place():
    good = node("ListNode", "builtins.list", content=[node("JsonNode", "builtins.str", content="1")])
    assert list(refused_nodes(good)) == []
    bad = node("DictNode", "builtins.dict", content={"a": good, "b": node("FunctionNode", "os.system")})
    assert list(refused_nodes(bad)) == [("model.b", "os.system by FunctionNode")]


def test_a_type_is_allowed_by_its_own_loader_only():
    assert list(refused_nodes(node("TypeNode", "sklearn.pipeline.Pipeline")))
    assert list(refused_nodes(node("ObjectNode", "builtins.dict")))
    assert list(refused_nodes(node("ConstructorFromReduceNode", "sklearn.pipeline.Pipeline")))


def test_a_key_named_like_a_loader_does_not_hide_a_node():
    inner = node("FunctionNode", "os.system")
    assert list(refused_nodes(node("DictNode", "builtins.dict", content={"__loader__": inner})))
    assert list(refused_nodes({"anything": [{"deep": inner}]}))


def test_depth_is_no_limit():
    nested = node("FunctionNode", "os.system")
    for _ in range(100_000):
        nested = [nested]
    assert len(list(refused_nodes(nested))) == 1


def test_what_is_no_node_is_no_problem():
    assert list(refused_nodes(json.loads('[1, "x", null, {"protocol": 2}]'))) == []
