"""Audit a logistic regression, and see where it fails: python examples/audit_logistic_regression.py."""

from pathlib import Path

import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from widemargin import audit
from widemargin.diagnostics import metric_frame

GOAL = """
women = population(sex == "Female")
men = population(sex == "Male")
minimize error_rate()
subject to fair: positive_rate(women) / positive_rate(men) >= 0.8
subject to recall: recall() >= 0.6
subject to precision: precision() >= 0.68
subject to churn: churn("deployed") <= 0.1
"""
NUMBERS = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
WORDS = ["workclass", "education", "marital_status", "occupation", "relationship"]


def main() -> None:
    """Fit on the training rows, audit on the others."""
    table = pd.read_csv(Path(__file__).parent / "data" / "adult.csv.gz", keep_default_na=False)
    train, test = (table[table["split"] == part].reset_index(drop=True) for part in ("train", "test"))
    before = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), WORDS))
    model = make_pipeline(before, LogisticRegression(max_iter=1000)).fit(train, train["income"])
    print(audit(model, GOAL, test, test["income"], populations=test, pos_label=">50K", data_name="the test rows"))
    print()
    print(metric_frame(["positive_rate()", "recall()", "precision()"], test["income"], model.predict(test), test["sex"],
                       pos_label=">50K"))  # fmt: skip


if __name__ == "__main__":
    main()
