"""The model behind `tests/data/model-format-1.skops`, and how that file was made.

    python testing/golden_model.py FOLDER

writes the file and the decisions it must reproduce. Each format of model files keeps the file written when it was new,
so make one for a new format only, under a new name.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.pipeline import Pipeline

from widemargin import RateConstrainedClassifier, save_model
from widemargin.persistence import FORMAT
from widemargin.preprocessing import make_preprocessor

GOAL = """
women = population(sex == "F")
minimize error_rate()
subject to fair: positive_rate(women) >= 0.8 * positive_rate()
subject to recall: recall() >= 0.7
"""


def golden_table():
    """80 rows, the same on every machine: no random numbers, no rounding."""
    row = np.arange(80)
    return pa.table(
        {
            "age": [None if r % 17 == 3 else int(20 + (r * 7) % 40) for r in row],
            "score": [((r * 13) % 32) / 8 for r in row],
            "work": [None if r % 23 == 5 else ["own", "state", "private"][r % 3] for r in row],
            "citizen": [bool(r % 4) for r in row],
            "sex": ["F" if r % 5 < 2 else "M" for r in row],
        }
    )


def golden_labels():
    """Labels that follow age and score, with some exceptions."""
    table = golden_table()
    age = np.nan_to_num(table["age"].to_numpy(zero_copy_only=False), nan=40)
    positive = (age / 20 + table["score"].to_numpy() > 4) ^ (np.arange(80) % 11 == 0)
    return np.where(positive, "yes", "no")


def golden_model():
    """Pipeline of a table step with bins and a classifier with a goal."""
    table = golden_table()
    step = make_preprocessor(["age", "score", "work", "citizen"], numbers="bins", n_bins=4)
    classifier = RateConstrainedClassifier(GOAL, C=1.0, pos_label="yes")
    X = step.fit_transform(table)
    classifier.fit(X, golden_labels(), populations=table)
    return Pipeline([("table", step), ("model", classifier)])


if __name__ == "__main__":
    folder, model = Path(sys.argv[1]), golden_model()
    save_model(model, folder / f"model-format-{FORMAT}.skops", metadata={"what": "golden file"})
    scores = model.decision_function(golden_table()).tolist()
    (folder / f"model-format-{FORMAT}.json").write_text(json.dumps({"scores": scores}) + "\n")
