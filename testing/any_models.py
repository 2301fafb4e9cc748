"""A small project with a table of numbers and words, a goals file, and classifiers of several makers for it."""

import json

import numpy as np
import pandas as pd
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

__all__ = ["GOALS", "frame", "linear_pipeline", "onnx_bytes", "project"]

GOALS = """
[data]
table = "people.csv"
target = "income"
positive = "high"
protected = ["sex"]
ignore = ["id"]
features = ["age", "hours", "work"]

[goal]
text = '''
women = population(sex == "F")
minimize error_rate()
subject to fair: positive_rate(women) >= 0.5 * positive_rate()
subject to recall: recall() >= 0.4
subject to sizes: demographic_parity(work, ratio=0.01)
'''
"""


def frame(n_rows=400, seed=0):
    """Rows whose income follows age, hours and work."""
    rng = np.random.default_rng(seed)
    age, hours = rng.integers(18, 70, n_rows), rng.normal(40, 10, n_rows).round(2)
    work, sex = rng.choice(["own", "state", "private"], n_rows), rng.choice(["F", "M"], n_rows)
    score = (age - 44) / 10 + (hours - 40) / 20 + (work == "own") + rng.normal(0, 0.7, n_rows)
    return pd.DataFrame(
        {"id": [f"={row}" for row in range(n_rows)], "age": age, "hours": hours, "work": work, "sex": sex,
         "income": np.where(score > 0.3, "high", "low")}
    )  # fmt: skip


def linear_pipeline(rows, last=None):
    """A pipeline of scikit-learn, fitted on age, hours and work."""
    before = make_column_transformer((StandardScaler(), ["age", "hours"]), (OneHotEncoder(), ["work"]))
    made = make_pipeline(before, LogisticRegression() if last is None else last)
    return made.fit(rows[["age", "hours", "work"]], rows["income"])


def onnx_bytes(model):
    """An ONNX model with an input for each column."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    kinds = [("age", Int64TensorType), ("hours", FloatTensorType), ("work", StringTensorType)]
    return to_onnx(model, initial_types=[(name, kind([None, 1])) for name, kind in kinds]).SerializeToString()


def project(folder):
    """A folder with goals.toml, people.csv, people.parquet, and a logistic regression as m.skops."""
    rows = frame()
    (folder / "goals.toml").write_text(GOALS)
    rows.to_csv(folder / "people.csv", index=False)
    rows.to_parquet(folder / "people.parquet", index=False)
    skops.io.dump(linear_pipeline(rows), folder / "m.skops")
    skops.io.dump(linear_pipeline(rows, DecisionTreeClassifier(max_depth=2)), folder / "tree.skops")
    return rows


def last_json(text):
    """The JSON object that a command printed."""
    return json.loads(text)
