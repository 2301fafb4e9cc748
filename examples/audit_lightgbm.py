"""Audit LightGBM in blocks of rows: python examples/audit_lightgbm.py (needs lightgbm)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from widemargin.diagnostics import AuditBlock, audit_stream

GOAL = """
women = population(sex == "Female")
minimize error_rate()
subject to fair: demographic_parity(sex, ratio=0.8)
subject to recall: recall(women) >= 0.6
subject to churn: churn("deployed") <= 0.1
"""
NO_FEATURES = ["income", "split", "deployed", "sex", "race", "fnlwgt"]
BLOCK = 2000


def blocks(model: Any, test: pd.DataFrame) -> Iterator[AuditBlock]:
    """The test rows, a few at a time, with what the model says of them."""
    for start in range(0, len(test), BLOCK):
        rows = test.iloc[start : start + BLOCK].reset_index(drop=True)
        said = model.predict(rows.drop(columns=NO_FEATURES))
        yield AuditBlock(said, rows["income"], populations=rows)


def main() -> None:
    """Fit on the training rows, audit on the others."""
    try:
        import lightgbm
    except ImportError:
        print("This example needs lightgbm: pip install lightgbm")
        return
    table = pd.read_csv(Path(__file__).parent / "data" / "adult.csv.gz", keep_default_na=False)
    for name in table.columns:
        if not pd.api.types.is_numeric_dtype(table[name]):
            table[name] = table[name].astype("category")
    train, test = (table[table["split"] == part].reset_index(drop=True) for part in ("train", "test"))
    model = lightgbm.LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1, random_state=0)
    model.fit(train.drop(columns=NO_FEATURES), train["income"].astype(str))
    print(audit_stream(blocks(model, test), GOAL, pos_label=">50K", data_name="the test rows"))


if __name__ == "__main__":
    main()
