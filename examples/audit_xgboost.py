"""Audit XGBoost, and compare it with the model in use: python examples/audit_xgboost.py (needs xgboost)."""

from pathlib import Path

import pandas as pd

from widemargin.diagnostics import compare_models

GOAL = """
women = population(sex == "Female")
men = population(sex == "Male")
minimize error_rate()
subject to fair: positive_rate(women) / positive_rate(men) >= 0.8
subject to recall: recall() >= 0.6
subject to precision: precision() >= 0.68
"""
NO_FEATURES = ["income", "split", "deployed", "sex", "race", "fnlwgt"]


def main() -> None:
    """Fit on the training rows, compare on the others."""
    try:
        import xgboost
    except ImportError:
        print("This example needs xgboost: pip install xgboost")
        return
    table = pd.read_csv(Path(__file__).parent / "data" / "adult.csv.gz", keep_default_na=False)
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            table[name] = table[name].astype("category")
    train, test = (table[table["split"] == part].reset_index(drop=True) for part in ("train", "test"))
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=4, enable_categorical=True, n_jobs=1, random_state=0)
    model.fit(train.drop(columns=NO_FEATURES), (train["income"] == ">50K").astype(int))
    said = pd.Series(model.predict(test.drop(columns=NO_FEATURES))).map({0: "<=50K", 1: ">50K"})
    print(
        compare_models(
            test["deployed"], said, GOAL, y=test["income"], populations=test, pos_label=">50K",
            names=("deployed", "xgboost"), data_name="the test rows",
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
