"""Newton, the interior point and the paper's nest agree on real data: the same optimum to 1e-6, each with its proof."""

from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
import scipy.sparse as sp

from widemargin.goals import Goal
from widemargin.goals.binding.bind import baselines_used, bind
from widemargin.goals.binding.sources import make_sources
from widemargin.preprocessing.tables import TablePreprocessor
from widemargin.problems.rate_constrained import build_problem
from widemargin.rows import Rows
from widemargin.solvers.base import Status
from widemargin.solvers.convex import newton
from widemargin.solvers.paper_nest import cutting_plane
from widemargin_papers.solvers import interior_point

ADULT = Path(__file__).parents[2] / "examples" / "data" / "adult.csv.gz"
FEW, ALL = 1000, 32_561
TOL = 1e-6
RHO = 1.0

SOLVERS = {"newton": newton.solve, "interior point": interior_point.solve, "nest": cutting_plane.solve}

CONSTRAINTS = [
    "positive_rate(women) >= 0.8 * positive_rate(men)",
    "recall() >= 0.6",
    "precision() >= 0.65",
    'churn("deployed") <= 0.1',
]


@pytest.fixture(scope="module")
def adult():
    """The training rows of the shipped example: features, labels, table of what rates are measured by, old model."""
    table = pyarrow.csv.read_csv(ADULT).slice(0, ALL)
    y = np.where(np.array(table["income"].to_pylist()) == ">50K", 1, -1)
    deployed = np.where(np.array(table["deployed"].to_pylist()) == ">50K", 1, -1)
    features = table.drop_columns(["income", "split", "deployed", "sex", "race", "fnlwgt"])
    return TablePreprocessor(numbers="bins").fit_transform(features), y, table.select(["sex"]), deployed


def convex_step(adult, n, m, *, fit_intercept, step):
    """The convex problem of a majorisation step on the first n rows with the first m constraints."""
    X, y, table, deployed = (part[:n] for part in adult)
    X = sp.csr_matrix(X)
    lines = ['women = population(sex == "Female")', 'men = population(sex == "Male")', "minimize error_rate()"]
    goal = Goal.parse("\n".join(lines + [f"subject to {text}" for text in CONSTRAINTS[:m]]))
    sources = make_sources(
        baselines_used(goal), Rows(X, y, populations=table, baselines={"deployed": deployed}), classes=(-1, 1)
    )
    problem = build_problem(bind(goal, sources, warn_trivial=False), [X], 10.0 / n, fit_intercept=fit_intercept)
    sub = problem.majorise(np.zeros(problem.rows.n_rows))
    for _ in range(step - 1):
        solved = newton.solve(sub, tol=1e-3)
        sub = problem.majorise(problem.scores(solved.w, solved.b))
    return sub


def agree(sub, *, feasible):
    """Whether all solvers find the same optimum of the penalised problem, and none disproves another one's bound."""
    results = {name: solve(sub, tol=0.5 * TOL, rho=RHO) for name, solve in SOLVERS.items()}
    objectives = []
    for name, result in results.items():
        assert result.status is Status.CONVERGED, name
        loss, excess = sub.values(sub.scores(result.w, result.b))
        violation = float(np.maximum(excess, 0.0).sum())
        assert (violation <= 1e-6) == feasible, name
        objectives.append(loss + 0.5 * sub.lam * float(result.w @ result.w) + RHO * violation)
    assert max(objectives) - min(objectives) <= TOL * min(objectives)
    highest = max(result.dual for result in results.values())
    assert highest <= min(objectives) + 1e-12
    assert max(objectives) - highest <= TOL * max(objectives)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("step", [1, 3])
def test_all_solvers_find_the_same_optimum(adult, m, fit_intercept, step):
    sub = convex_step(adult, FEW, m, fit_intercept=fit_intercept, step=step)
    agree(sub, feasible=m < 4 or step > 1)  # hinges of all four from zero leave no feasible point


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_all_solvers_find_the_same_optimum_of_all_rows(adult, m, fit_intercept):
    agree(convex_step(adult, ALL, m, fit_intercept=fit_intercept, step=3), feasible=True)
