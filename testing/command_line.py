"""A small project for the command line: a table, a goals file, and ways to spoil them."""

import io
import json
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from widemargin.cli.main import main

GOALS = """
[data]
table = "people.csv"
target = "income"
positive = "high"
protected = ["sex"]
split = { column = "split", train = "train", test = "test" }

[baselines]
deployed = { column = "old" }

[goal]
text = '''
women = population(sex == "F")
men = population(sex == "M")
minimize error_rate()
subject to fair: positive_rate(women) >= 0.8 * positive_rate(men)
subject to recall: recall() >= 0.6
subject to churn: churn("deployed") <= 0.3
'''

[goal.audit]
text = "subject to recall: recall() >= 0.4"

[output]
model = "out/people.skops"
"""


def people(n_rows=600, seed=0):
    """Rows whose income follows age and work; the earlier model looks at age alone."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 70, n_rows)
    work = rng.choice(["own", "state", "private"], n_rows)
    sex = rng.choice(["F", "M"], n_rows)
    score = (age - 44) / 10 + (work == "own") + 0.5 * (sex == "M") + rng.normal(0, 0.7, n_rows)
    return {
        "age": age.tolist(),
        "work": [None if rng.random() < 0.02 else str(word) for word in work],
        "sex": sex.tolist(),
        "split": ["train" if row % 3 else "test" for row in range(n_rows)],
        "income": np.where(score > 0.6, "high", "low").tolist(),
        "old": np.where(age > 48, "high", "low").tolist(),
    }


def write_csv(path, columns):
    rows = zip(*columns.values(), strict=True)
    lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
    path.write_text("\n".join([",".join(columns), *lines, ""]))


def write_project(folder):
    """`goals.toml` and `people.csv` into a folder, which is returned."""
    (folder / "goals.toml").write_text(GOALS)
    write_csv(folder / "people.csv", people())
    return folder


def widemargin(*arguments, **more):
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "widemargin", *map(str, arguments)], capture_output=True, text=True, timeout=300, **more
    )


def widemargin_here(capsys, *arguments):
    """The same in this process: some seconds of imports less, and the same endings, for a process only calls `main`."""
    code = main([str(item) for item in arguments])
    printed = capsys.readouterr()
    return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)


def content_and_print(capsys, *arguments):
    """Exit code, what `--json` gives, and what is printed without it: of one run, which prints it to nobody."""
    made = []
    keeps = SimpleNamespace(StringIO=lambda: made.append(io.StringIO()) or made[-1])
    with patch("widemargin.cli.main.io", keeps):
        code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out), made[-1].getvalue()


GERMAN_LOAN = "A11 6 A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 1\n"
"""A row of `german.data` as it is published."""
