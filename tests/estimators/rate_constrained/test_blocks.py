"""`fit_blocks` against `fit`, and what only rows in blocks can do wrong."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.dummy import DummyClassifier

from clusters import kill_a_worker
from widemargin import External, RateConstrainedClassifier
from widemargin.distributed import DaskMap, JoblibMap, SerialMap, labelled_parquet, labelled_rows
from widemargin.estimators.rate_constrained import training
from widemargin.estimators.rate_constrained.ramp_model import gathered
from widemargin.exceptions import (
    CapabilityError,
    CheckpointError,
    DataError,
    GoalError,
    InfeasibleGoalError,
    MissingDataError,
)

GOAL = """
women = population(sex == "f")
men = population(sex == "m")
old = population(age >= 40)
minimize error_rate()
subject to floor: recall() >= 0.7
subject to rule: positive_rate(women) >= 0.8 * positive_rate(men)
subject to old: error_rate(old) <= 0.3
"""


def task(n: int = 1500, d: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    table = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "age": rng.integers(18, 80, n).astype(float)})
    table.loc[rng.random(n) < 0.05, "age"] = np.nan
    y = np.where(X[:, 0] + 0.3 * (table["sex"] == "m") + 0.7 * rng.standard_normal(n) > 0.6, "yes", "no")
    return X, y, table


def blocks(X: Any, y: Any, block_rows: int = 400, **more: Any) -> SerialMap:
    return SerialMap(labelled_rows(X, y, block_rows=block_rows, **more))


def check_report(model: Any, X: Any, y: Any, table: Any, weight: Any = None) -> None:
    """The report's rates are those of the model's predictions on all rows, exactly."""
    report, said = model.goal_report_, model.predict(X) == "yes"
    w = np.ones(len(y)) if weight is None else weight
    positive = np.asarray(y) == "yes"
    assert report["floor"].rate == pytest.approx(np.average(said[positive], weights=w[positive]))
    women, men = (np.asarray(table["sex"] == sex) for sex in "fm")
    expected = np.average(said[women], weights=w[women])
    assert report["rule"].rate == pytest.approx(expected)
    assert report.objective == pytest.approx(np.average(said != positive, weights=w))
    assert report["rule"].bound == pytest.approx(0.8 * np.average(said[men], weights=w[men]))


@pytest.mark.parametrize("kind", ["dense", "float32", "csr", "frame"])
def test_as_good_as_in_memory_and_reported_exactly(kind: str) -> None:
    X, y, table = task()
    given: Any = {"dense": X, "float32": X.astype(np.float32), "csr": sp.csr_matrix(X), "frame": pd.DataFrame(X)}[kind]
    if kind == "frame":
        given.columns = list("abcde")
    here = RateConstrainedClassifier(GOAL).fit(given, y, populations=table)
    model = RateConstrainedClassifier(GOAL).fit_blocks(blocks(given, y, populations=table))
    assert model.subproblem_gap_ <= 1e-4
    assert model.status_ == "converged"
    assert [item.met for item in model.goal_report_.constraints] == [True] * 3
    assert model.goal_report_.objective <= here.goal_report_.objective + 0.01
    assert model.goal_report_["old"].n_rows == here.goal_report_["old"].n_rows
    assert [item.n_missing for item in model.goal_report_.constraints] == [
        item.n_missing for item in here.goal_report_.constraints
    ]
    check_report(model, given, y, table)
    assert hasattr(model, "feature_names_in_") == (kind == "frame")
    assert model.n_passes_ > 20


def test_moves_by_the_rows_near_the_boundary_are_nearly_as_good_as_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, table = task(4000, 6, 1)
    objective = {}
    for most in (10**7, 8000, 0):
        monkeypatch.setattr(training, "SAMPLE", replace(training.SAMPLE, most_numbers=most))
        model = RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y, populations=table))
        assert model.goal_report_.passed
        check_report(model, X, y, table)
        objective[most] = model.goal_report_.objective
    assert objective[8000] < objective[0]  # no row near: no moves but of the mean rows
    assert objective[8000] <= objective[10**7] + 0.003


def test_the_ramp_problem_that_is_solved_is_the_one_in_memory() -> None:
    """Randomised enforcement has no moves: both paths solve the same problem to the same gap."""
    X, y, table = task()
    models = [
        RateConstrainedClassifier(GOAL, enforce="randomized", solver_options={"tol": 1e-06}, max_steps=1).fit(
            X, y, populations=table
        ),
        RateConstrainedClassifier(GOAL, enforce="randomized", solver_options={"tol": 1e-06}, max_steps=1).fit_blocks(
            blocks(X, y, populations=table)
        ),
    ]
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=0, atol=0.02)
    rates = [[item.ramp_rate for item in model.goal_report_.constraints] for model in models]
    np.testing.assert_allclose(rates[0], rates[1], rtol=0, atol=5e-3)


def test_the_bundle_method_solves_the_same_problem() -> None:
    X, y, table = task(500)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    plan: Any = {"enforce": "randomized", "tol": 1e-5, "max_steps": 1}
    given = blocks(X, y, 150, populations=table, sample_weight=weight)
    newton, bundle = (
        RateConstrainedClassifier(GOAL, **gathered(plan | {"solver": name})).fit_blocks(given)
        for name in ("auto", "bundle")
    )
    assert (newton.solver_, bundle.solver_) == ("newton", "bundle")
    assert bundle.subproblem_gap_ <= 1e-5
    np.testing.assert_allclose(bundle.coef_, newton.coef_, rtol=0, atol=0.02)
    rates = [[item.ramp_rate for item in model.goal_report_.constraints] for model in (newton, bundle)]
    np.testing.assert_allclose(rates[0], rates[1], rtol=0, atol=5e-3)
    whole = RateConstrainedClassifier(GOAL, solver_options={"solver": "bundle"}).fit_blocks(given)
    assert [item.met for item in whole.goal_report_.constraints] == [True] * 3
    check_report(whole, X, y, table, weight)


def test_rows_of_many_features_are_gathered_or_solved_by_cuts(tmp_path) -> None:
    X, y, table = task(300)
    wide = sp.csr_matrix(sp.hstack([sp.csr_matrix(X), sp.random(300, 700, 0.01, random_state=0)]))
    given = blocks(wide, y, populations=table)
    model = RateConstrainedClassifier(GOAL, max_steps=2).fit_blocks(given)
    assert (model.solver_, model.n_passes_) == ("newton", 1)
    memory = RateConstrainedClassifier(GOAL, max_steps=2).fit(wide, y, populations=table)
    np.testing.assert_allclose(model.coef_, memory.coef_, rtol=0, atol=1e-6)
    # a checkpoint is of steps over blocks
    kept = RateConstrainedClassifier(GOAL, max_steps=2).fit_blocks(given, checkpoint=tmp_path / "steps.json")
    assert kept.solver_ == "bundle"
    for one in (model, kept):
        assert one.subproblem_gap_ <= 1e-4
        check_report(one, wide, y, table)


def test_the_bundle_method_is_for_blocks_alone() -> None:
    X, y, table = task(100)
    with pytest.raises(CapabilityError, match=r"'bundle' is for rows in blocks: use fit_blocks"):
        RateConstrainedClassifier(GOAL, solver_options={"solver": "bundle"}).fit(X, y, populations=table)
    with pytest.raises(CapabilityError, match="bundle"):
        RateConstrainedClassifier(GOAL, solver_options={"solver": "bundle"}, kernel="rbf").fit(X, y, populations=table)


def test_weights_count_as_rows() -> None:
    X, y, table = task()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    model = RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y, populations=table, sample_weight=weight))
    check_report(model, X, y, table, weight)
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    again = RateConstrainedClassifier(GOAL).fit_blocks(
        blocks(X[rows], y[rows], populations=table.iloc[rows].reset_index(drop=True))
    )
    assert again.goal_report_.objective == pytest.approx(model.goal_report_.objective, abs=0.02)


def test_block_sizes_and_back_ends_change_nothing_but_rounding(tmp_path: Path) -> None:
    X, y, table = task()
    recipes = labelled_rows(X, y, populations=table, block_rows=300)
    one = RateConstrainedClassifier(GOAL).fit_blocks(SerialMap(recipes))
    threads = RateConstrainedClassifier(GOAL).fit_blocks(JoblibMap(recipes, n_jobs=2))
    files = RateConstrainedClassifier(GOAL).fit_blocks(SerialMap(recipes, hold=False), scratch=str(tmp_path))
    assert np.array_equal(one.coef_, threads.coef_)
    assert np.array_equal(one.coef_, files.coef_)
    assert list(tmp_path.iterdir()) == []
    whole = RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y, 10_000, populations=table))
    assert whole.goal_report_.objective == pytest.approx(one.goal_report_.objective, abs=5e-3)


def test_a_system_that_removes_no_mapped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Windows: the fit goes on, and the files stay."""

    def refused(path: Path) -> None:
        raise PermissionError(f"{path} is in use")

    X, y, table = task()
    recipes = labelled_rows(X, y, populations=table, block_rows=1000)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        model = RateConstrainedClassifier(max_steps=1).fit_blocks(SerialMap(recipes), scratch=str(tmp_path))
    assert model.coef_.shape == (1, 5) and list(tmp_path.glob("widemargin-*.npy"))


def test_external_rows_and_baselines() -> None:
    X, y, _ = task()
    traffic = np.random.default_rng(5).standard_normal((300, 5))
    old = DummyClassifier(strategy="constant", constant="no").fit(X, y)
    goal = """
    traffic = external()
    minimize error_rate()
    subject to calm: churn("old", on=traffic) <= 0.2
    subject to wins: win_rate("old") >= 0.05
    """
    given = {"traffic": External(traffic)}
    model = RateConstrainedClassifier(goal, baselines={"old": old}).fit_blocks(blocks(X, y), given)
    assert model.goal_report_["calm"].rate == pytest.approx(np.mean(model.predict(traffic) == "yes"))
    assert model.goal_report_["calm"].met
    with pytest.raises(DataError, match="traffic"):
        RateConstrainedClassifier(goal, baselines={"old": old}).fit_blocks(blocks(X, y))


@pytest.mark.parametrize("kind", ["dask", "csr", "lists"])
def test_external_rows_of_any_kind(kind: str) -> None:
    """All of their partitions count, also after one without rows."""
    X, y, _ = task(400)
    traffic, label = np.random.default_rng(5).standard_normal((120, 5)), np.arange(120) % 2 == 0
    given: Any = {"csr": sp.csr_matrix, "lists": np.ndarray.tolist}.get(kind, np.asarray)(traffic)
    said: Any = np.where(label, "yes", "no")
    if kind == "dask":
        da = pytest.importorskip("dask.array")
        given, said = (da.from_array(part, chunks=((0, 60, 60), *rest)) for part, rest in ((given, [5]), (said, [])))
    goal = "traffic = external()\nminimize error_rate()\nsubject to floor: recall(on=traffic) >= 0.7"
    plan: dict[str, Any] = {"enforce": "randomized", "max_steps": 2}
    here = RateConstrainedClassifier(goal, **gathered(plan)).fit_blocks(
        blocks(X, y), {"traffic": External(traffic, np.where(label, "yes", "no"))}
    )
    model = RateConstrainedClassifier(goal, **gathered(plan)).fit_blocks(
        blocks(X, y), {"traffic": External(given, said)}
    )
    assert model.goal_report_["floor"].n_rows == here.goal_report_["floor"].n_rows
    np.testing.assert_allclose(model.coef_, here.coef_, rtol=1e-6, atol=1e-8)


def test_a_parquet_folder(tmp_path: Path) -> None:
    X, y, table = task()
    whole = pa.table({**{f"x{j}": X[:, j] for j in range(5)}, "y": y, "sex": table["sex"], "age": table["age"]})
    for part in range(3):
        pq.write_table(whole.slice(500 * part, 500), tmp_path / f"part{part}.parquet", row_group_size=200)
    features = [f"x{j}" for j in range(5)]
    recipes = labelled_parquet(tmp_path, "y", features=features, block_rows=400)
    model = RateConstrainedClassifier(GOAL).fit_blocks(SerialMap(recipes, hold=False), scratch=str(tmp_path))
    assert model.feature_names_in_.tolist() == features
    here = pd.DataFrame(X, columns=features)
    check_report(model, here, y, table)
    with pytest.raises(DataError, match="no column 'z'"):
        labelled_parquet(tmp_path, "z")
    with pytest.raises(DataError, match=r"'sex' .* holds .*string"):
        SerialMap(labelled_parquet(tmp_path, "y", features=["sex"])).map(lambda block, _: block.data)


def test_checkpoints_go_on_and_say_when_they_are_foreign(tmp_path: Path) -> None:
    X, y, table = task()
    path = tmp_path / "run.json"
    first = RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y, populations=table), checkpoint=path)
    again = RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y, populations=table), checkpoint=path, resume=True)
    assert np.array_equal(first.coef_, again.coef_)
    assert again.n_passes_ < 0.6 * first.n_passes_
    for other in ({"C": 1.0}, {"solver": "bundle"}):
        model = RateConstrainedClassifier(GOAL, **gathered(other))
        with pytest.raises(CheckpointError, match="other parameters"):
            model.fit_blocks(blocks(X, y, populations=table), checkpoint=path, resume=True)


def test_checkpoints_of_other_rows_are_refused(tmp_path: Path) -> None:
    """As many rows with the same labels, populations and means: one feature reflected, or the rows in another order."""
    X, y, table = task(600)
    path, plan = tmp_path / "run.json", {"max_steps": 2, "enforce": "randomized"}
    rng = np.random.default_rng(7)

    def fit(rows: Any, block_rows: int = 200, **more: Any) -> RateConstrainedClassifier:
        given = blocks(rows, y, block_rows, populations=table)
        return RateConstrainedClassifier(GOAL, **gathered(plan)).fit_blocks(given, checkpoint=path, **more)

    first = fit(X)
    other = X.copy()
    other[:, 2] = -other[:, 2] + 2 * other[:, 2].mean()
    for rows in (other, X[rng.permutation(len(y))]):
        with pytest.raises(CheckpointError, match="was made with other rows"):
            fit(rows, resume=True)
    assert np.array_equal(fit(X, resume=True).coef_, first.coef_)
    np.testing.assert_allclose(fit(X, 150, resume=True).coef_, first.coef_, rtol=0, atol=1e-6)  # cut differently


def test_how_to_resume_is_said_clearly(tmp_path: Path) -> None:
    X, y, table = task(100)
    for more, text in [
        ({"resume": True}, "resume=True, and checkpoint is None"),
        ({"resume": str(tmp_path / "run.json")}, r"resume is '.*run\.json'; give checkpoint=PATH and resume=True"),
    ]:
        with pytest.raises(DataError, match=text):
            RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y, populations=table), **more)
    with pytest.raises(CheckpointError, match=r"there is no folder .*nowhere"):
        RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y), checkpoint=tmp_path / "nowhere" / "run.json")
    with pytest.raises(MissingDataError, match=r"no folder .*nowhere"):
        RateConstrainedClassifier().fit_blocks(blocks(X, y), scratch=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("rows", [[1, 2], np.zeros((3, 2)), pd.DataFrame({"a": [1.0]})], ids=["list", "array", "frame"])
def test_rows_that_are_not_in_blocks_are_refused(rows: Any) -> None:
    with pytest.raises(DataError, match=r"no blocks of rows\. Give block_map\(labelled_rows"):
        RateConstrainedClassifier().fit_blocks(rows)


def test_blocks_that_differ_are_named(tmp_path: Path) -> None:
    X, y, _ = task(200)
    frame = pd.DataFrame(X, columns=list("abcde"))
    for other, text in [
        (frame[list("abdce")], "block 1 and block 0 differ: feature 2 is 'd' and 'c'"),
        (frame.rename(columns={"e": "z"}), "block 1 and block 0 differ: feature 4 is 'z' and 'e'"),
        (frame[list("abc")], "block 1 and block 0 differ: 3 and 5 features"),
    ]:
        recipes = [*labelled_rows(frame, y), *labelled_rows(other, y)]
        with pytest.raises(DataError, match=text):
            RateConstrainedClassifier().fit_blocks(SerialMap(recipes))
    numbers = np.arange(200) % 2
    with pytest.raises(DataError, match="labels such as 0 and 'no'"):
        RateConstrainedClassifier().fit_blocks(SerialMap([*labelled_rows(X, y), *labelled_rows(X, numbers)]))


@pytest.mark.parametrize("table", [True, False], ids=["parquet", "arrays"])
def test_labels_that_are_missing_or_mixed_name_their_block(tmp_path: Path, table: bool) -> None:
    X, y, _ = task(200)
    missing = y.astype(object)
    missing[150] = None

    def fit(labels: Any) -> None:
        recipes: Any = labelled_rows(X, labels, block_rows=100)
        if table:
            pq.write_table(pa.table({"a": X[:, 0], "y": labels}), tmp_path / "rows.parquet", row_group_size=100)
            recipes = labelled_parquet(tmp_path / "rows.parquet", "y")
        RateConstrainedClassifier().fit_blocks(SerialMap(recipes))

    with pytest.raises(DataError, match=r"y of block 1.* has 1 missing values of 100") as caught:
        fit(missing)
    assert ("rows.parquet" in str(caught.value)) == table
    with pytest.raises(DataError, match=r"y of block 1.* has 1 missing"):
        fit(np.where(np.arange(200) == 150, np.nan, np.arange(200) % 2))
    if not table:
        mixed = y.astype(object)
        mixed[20] = 3
        with pytest.raises(DataError, match="y of block 0"):
            fit(mixed)


def test_what_cannot_be_met_is_refused_with_its_reason() -> None:
    X, y, _ = task()
    goal = "minimize error_rate()\nsubject to a: positive_rate() <= 0.1\nsubject to b: recall() >= 0.9"
    with pytest.raises(InfeasibleGoalError, match="Proved") as caught:
        RateConstrainedClassifier(goal).fit_blocks(blocks(X, y))
    assert set(caught.value.conflict) == {"a", "b"}


def test_bad_rows_name_their_block() -> None:
    X, y, table = task()
    broken = X.copy()
    broken[900, 2] = np.nan
    with pytest.raises(DataError, match=r"block 2: .*NaN"):
        RateConstrainedClassifier(GOAL).fit_blocks(blocks(broken, y, populations=table))
    with pytest.raises(DataError, match="has no labels"):
        RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, None, populations=table))
    with pytest.raises(DataError, match="one class only"):
        RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, np.full(len(y), "no"), populations=table))
    with pytest.raises(ValueError, match="Only binary classification"):
        RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, np.arange(len(y)) % 3, populations=table))
    with pytest.raises(GoalError, match="x"):
        RateConstrainedClassifier('a = population(sex == "x")\nsubject to recall(a) >= 0.5').fit_blocks(
            blocks(X, y, populations=table)
        )
    with pytest.raises(DataError, match=r"weights .* negative"):
        RateConstrainedClassifier(GOAL).fit_blocks(blocks(X, y, populations=table, sample_weight=np.full(len(y), -1.0)))
    recipes = [*labelled_rows(X, y, populations=table), *labelled_rows(X[:, :3], y, populations=table)]
    with pytest.raises(DataError, match="block 1 and block 0 differ: 3 and 5 features"):
        RateConstrainedClassifier(GOAL).fit_blocks(SerialMap(recipes))


@pytest.mark.parametrize("option", [{"kernel": "rbf"}, {"confidence": 0.9}, {"calibration": "sigmoid"},
                                    {"solver": "cutting-plane"}])  # fmt: skip
def test_what_needs_all_rows_in_one_place_is_refused(option: dict[str, Any]) -> None:
    X, y, _ = task(100)
    with pytest.raises(CapabilityError, match="all rows in one place"):
        RateConstrainedClassifier(**gathered(option)).fit_blocks(blocks(X, y))


def test_dask_collections_and_a_worker_that_dies(dask_client: Any) -> None:
    """Dask frames, fetched by `fit`, or left to workers one of whom is killed: the model of this process to the bit."""
    dd = pytest.importorskip("dask.dataframe")
    X, y, table = task(300, 3)
    features = pd.DataFrame(X, columns=list("abc"))
    plan: dict[str, Any] = {"max_steps": 2, "enforce": "randomized", "tol": 1e-2, "step_tol": 1e-2}
    recipes = [labelled_rows(features[low : low + 150], y[low : low + 150], populations=table[low : low + 150])[0]
               for low in (0, 150)]  # fmt: skip
    here = RateConstrainedClassifier(GOAL, **gathered(plan)).fit_blocks(SerialMap(recipes))
    given = [dd.from_pandas(part, npartitions=2, sort=False) for part in (features, pd.Series(y), table)]
    steps: list[int] = []

    def kill(progress: Any) -> None:
        steps.append(progress.iteration)
        if len(steps) == 1:
            kill_a_worker(dask_client)

    model = RateConstrainedClassifier(GOAL, callbacks=[kill], **gathered(plan))
    left = DaskMap(labelled_rows(given[0], given[1], populations=given[2]), dask_client)
    model.fit_blocks(left, gather_below=0)
    assert len(steps) >= 2
    fetched = RateConstrainedClassifier(GOAL, **gathered(plan)).fit(given[0], given[1], populations=given[2])
    for other in (model, fetched):
        assert np.array_equal(other.coef_, here.coef_)
        assert other.goal_report_.objective == here.goal_report_.objective
