"""Kinds of rows, looked up again."""

import numpy as np
import pandas as pd

from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_source
from widemargin.goals.language.goal import Goal
from widemargin.goals.measuring.counting import CountedRows, columns_used
from widemargin.rows import Rows

GOAL = Goal.parse("""
women = population(sex == "f")
old = population(age >= 40)
minimize error_rate()
subject to equal_opportunity("town", difference=0.2)
subject to recall(women) >= 0.5
subject to churn("old") <= 0.3
subject to positive_rate(old) >= 0.1
""")


def test_rows_of_blocks_find_the_cells_of_the_whole():
    """Cells of a goal tied to counts of blocks tell rows apart as those of the rows themselves do."""
    rng = np.random.default_rng(0)
    n = 400
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "age": rng.integers(18, 80, n).astype(float),
                          "town": rng.choice(["a", "b", "c"], n), "old": rng.choice(["no", "yes"], n)})  # fmt: skip
    frame.loc[:9, "age"] = np.nan
    frame.loc[5:12, "sex"] = None
    y, weight = rng.choice(["no", "yes"], n), rng.choice([0.5, 1.0, 3.0], n)
    used, names = columns_used(GOAL)[None], baselines_used(GOAL)[None]

    def source(rows):
        return make_source(
            Rows(y=y[rows], sample_weight=weight[rows], populations=frame.iloc[rows]), names, classes=("no", "yes")
        )

    blocks = [source(np.arange(low, low + 100)) for low in range(0, n, 100)]
    whole = CountedRows(None, used, names)
    for block in blocks:
        part = CountedRows(None, used, names)
        part.add(block, np.zeros(100, bool), None)
        whole.join(part)
    tied = bind(GOAL, [whole.counted().source])
    cell = np.concatenate([whole.numbers(block, tied.sources[0].cell) for block in blocks])
    direct = bind(GOAL, [source(np.arange(n))])
    pairs = set(zip(cell.tolist(), direct.sources[0].cell.tolist(), strict=True))
    assert len(pairs) == direct.cell_weight.shape[0] == tied.cell_weight.shape[0]
    np.testing.assert_allclose(np.bincount(cell, weight), tied.cell_weight)
    here, there = (dict(pairs), direct.coefficients.alpha0)
    for mine, other in here.items():
        np.testing.assert_allclose(tied.coefficients.alpha0[mine], there[other])
