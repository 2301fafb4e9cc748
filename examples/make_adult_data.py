"""Make `examples/data/adult.csv.gz` from the two raw files of the UCI Adult data set.

    python examples/make_adult_data.py FOLDER [--out FILE]

FOLDER holds `adult.data` and `adult.test` as UCI publishes them, plain or with the ending `.gz`. The script joins them
under a header row, marks the part in a column `split`, turns `?` into empty fields, removes stray blanks and the dots
behind the test labels, and adds the column `deployed`: what an earlier model, trained on 1000 rows, decides.
The same input gives the same table (up to the rounding of another scikit-learn's solver in `deployed`).
"""

import argparse
import csv
import gzip
import io
from pathlib import Path

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
]  # fmt: skip
NUMERIC = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
CATEGORICAL = ["workclass", "education", "marital_status", "occupation", "relationship", "race", "native_country"]
DEPLOYED_ROWS = 1000


def read_raw(folder: Path, name: str) -> list[list[str]]:
    """Rows of one raw file: fields without blanks, `?` as the empty string, labels without the dot."""
    packed = folder / f"{name}.gz"
    text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else (folder / name).read_text()
    rows = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(COLUMNS):  # an empty last line, and the first line of adult.test, a remark
            continue
        rows.append([("" if field == "?" else field) for field in fields[:-1]] + [fields[-1].removesuffix(".")])
    return rows


def deployed_decisions(train: list[list[str]], everything: list[list[str]]) -> list[str]:
    """Decisions of the earlier model on every row: a linear SVM that has seen 1000 training rows, and never `sex`."""
    chosen = np.random.default_rng(0).choice(len(train), DEPLOYED_ROWS, replace=False)
    numbers, words = [COLUMNS.index(name) for name in NUMERIC], [COLUMNS.index(name) for name in CATEGORICAL]
    encode = make_column_transformer((StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), words))
    model = make_pipeline(encode, LinearSVC(C=0.1, random_state=0))
    table = np.array(everything, dtype=object)
    model.fit(table[chosen], table[chosen, -1])  # the training rows come first in the table
    return [str(decision) for decision in model.predict(table)]


def write_table(path: Path, rows: list[list[str]]) -> None:
    """Write a CSV file packed as small as gzip can, without a time stamp, so that equal rows give equal bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, "split", "deployed"])
    writer.writerows(rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0))


def print_rates(rows: list[list[str]], decisions: list[str]) -> None:
    """Rates of the deployed model on each part, for the README of the data."""
    table, says = np.array(rows, dtype=object), np.array(decisions) == ">50K"
    label, sex, split = table[:, 14] == ">50K", table[:, 9], table[:, 15]
    for part in ("train", "test"):
        here = split == part
        female, male = says[here & (sex == "Female")].mean(), says[here & (sex == "Male")].mean()
        print(
            f"{part}: {here.sum()} rows, error {(says != label)[here].mean():.4f}, "
            f"positive rate women {female:.4f} men {male:.4f} ratio {female / male:.3f}, "
            f"recall {says[here & label].mean():.4f}, precision {label[here & says].mean():.4f}"
        )


def main() -> None:
    """Read the raw files, add the two columns, write the table and print its size and rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with adult.data and adult.test (or .gz)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "adult.csv.gz")
    options = parser.parse_args()
    train, test = read_raw(options.folder, "adult.data"), read_raw(options.folder, "adult.test")
    rows = [[*row, "train"] for row in train] + [[*row, "test"] for row in test]
    decisions = deployed_decisions(train, [row[:-1] for row in rows])
    write_table(options.out, [[*row, decision] for row, decision in zip(rows, decisions, strict=True)])
    print(f"{options.out}: {len(rows)} rows, {options.out.stat().st_size} bytes")
    print_rates(rows, decisions)


if __name__ == "__main__":
    main()
