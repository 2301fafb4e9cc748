"""Make `examples/data/adult.csv.gz` from the raw files of the UCI Adult data set; print the earlier model's rates.

    python examples/make_adult_data.py FOLDER [--out FILE]

FOLDER holds `adult.data` and `adult.test` as UCI publishes them, plain or with the ending `.gz`. The table is that of
`widemargin data adult`: both parts under a header row, marked in a column `split`, `?` as empty fields, without stray
blanks and the dots behind the test labels, and with the column `deployed`: what an earlier model, trained on 1000 rows,
decides. The same input gives the same table (up to the rounding of another scikit-learn's solver in `deployed`).
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.cli.tables.table_writing import write_table
from widemargin.datasets import load_people


def print_rates(table: Any) -> None:
    """Rates of the deployed model on each part, for the README of the data."""
    column = {name: np.array(table[name].to_pylist(), dtype=object) for name in ("income", "deployed", "sex", "split")}
    says, label = column["deployed"] == ">50K", column["income"] == ">50K"
    for part in ("train", "test"):
        here = column["split"] == part
        female, male = (says[here & (column["sex"] == sex)].mean() for sex in ("Female", "Male"))
        print(
            f"{part}: {here.sum()} rows, error {(says != label)[here].mean():.4f}, "
            f"positive rate women {female:.4f} men {male:.4f} ratio {female / male:.3f}, "
            f"recall {says[here & label].mean():.4f}, precision {label[here & says].mean():.4f}"
        )


def main() -> None:
    """Read the raw files, write the table and print its size and rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with adult.data and adult.test (or .gz)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "data" / "adult.csv.gz")
    options = parser.parse_args()
    table = load_people(options.folder, "adult")
    write_table(table, options.out)
    print(f"{options.out}: {table.num_rows} rows, {options.out.stat().st_size} bytes")
    print_rates(table)


if __name__ == "__main__":
    main()
