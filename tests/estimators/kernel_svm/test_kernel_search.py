"""The search of C and gamma: the errors are those of cross-validation, and the new rows are new."""

import logging

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import check_random_state

from widemargin import KernelSVC, SBPClassifier, kernel_search
from widemargin.estimators.kernel_svm.search_cells import SearchOptions
from widemargin.exceptions import CapabilityError, DataError, KernelWarning, MarginConvergenceWarning
from widemargin.solvers.kernel_svm.batch_perceptron.svms_by_nu import NuSearch
from widemargin.solvers.kernel_svm.dual import working_set
from widemargin.solvers.kernel_svm.dual.small_problems import SmallProblemOptions
from widemargin_papers.pareto import nu_from_C

CS, GAMMAS = (1.0, 30.0), (0.1, 1.0)


def moons(n=400, seed=0):
    return make_moons(n, noise=0.3, random_state=seed)


@pytest.mark.parametrize("data", [moons(200), load_iris(return_X_y=True)], ids=["two", "three"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_errors_are_those_of_cross_validation(data, multi_class, monkeypatch):
    exact = SearchOptions(duals=NuSearch(tol=1e-6, near=0.02, widest=1e5))
    monkeypatch.setattr("widemargin.estimators.kernel_svm.search_cells.SEARCH", exact)
    X, y = data
    model = KernelSVC(solver_options={"multi_class": multi_class}, class_weight="balanced")
    found = kernel_search(model, X, y, Cs=CS, gammas=GAMMAS, random_state=3)
    assert [(cell.gamma, cell.C) for cell in found.cells] == [(gamma, C) for gamma in GAMMAS for C in CS]
    folds = StratifiedKFold(3, shuffle=True, random_state=check_random_state(3))
    folds = list(folds.split(X, y))
    for cell in found.cells:
        one = KernelSVC(
            C=cell.C,
            gamma=cell.gamma,
            solver_options={"multi_class": multi_class},
            class_weight=dict(enumerate(_balance(y))),
        )
        scores = cross_val_score(one.set_params(tol=1e-6), X, y, cv=folds)
        sizes = [held.shape[0] for _, held in folds]
        assert cell.error == pytest.approx(1.0 - np.average(scores, weights=sizes), abs=1e-12)
        assert cell.standard_error == pytest.approx((cell.error * (1 - cell.error) / y.shape[0]) ** 0.5)
    best = min(found.cells, key=lambda cell: (cell.error, cell.C, cell.gamma))
    assert found.best_params == {"C": best.C, "gamma": best.gamma}
    assert found.best_estimator.C == best.C and found.best_estimator.shape_fit_ == X.shape
    assert (found.new_error, found.new_standard_error, found.n_rows) == (None, None, y.shape[0])


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_every_cell_has_the_nu_of_its_optimum(class_weight, monkeypatch):
    exact = SearchOptions(duals=NuSearch(tol=1e-6, near=0.02, widest=1e5))
    monkeypatch.setattr("widemargin.estimators.kernel_svm.search_cells.SEARCH", exact)
    X, y = moons(150)
    weights = dict(enumerate(_balance(y))) if class_weight else None
    found = kernel_search(KernelSVC(class_weight=class_weight), X, y, Cs=CS, gammas=GAMMAS, random_state=3)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=check_random_state(3)).split(X, y))
    for cell in found.cells:
        classifier = SBPClassifier(gamma=cell.gamma, class_weight=weights)
        nus = [nu_from_C(classifier, X[rows], y[rows], C=cell.C) for rows, _ in folds]
        assert cell.nu == pytest.approx(np.mean(nus), rel=1e-3)
    assert found.best_cell.nu in [cell.nu for cell in found.cells]


def test_pairs_of_few_rows_are_solved_by_compiled_code_alone(monkeypatch):
    """171 pairs of 42 rows, in Python one after the other, took three times as long as GridSearchCV around SVC."""
    exact = SearchOptions(duals=NuSearch(tol=1e-6, near=0.02, widest=1e5))
    monkeypatch.setattr("widemargin.estimators.kernel_svm.search_cells.SEARCH", exact)
    X, y = load_iris(return_X_y=True)
    calls = []
    solve = working_set.solve
    monkeypatch.setattr(working_set, "solve", lambda *given, **named: calls.append(1) or solve(*given, **named))
    options = {"Cs": CS, "gammas": GAMMAS, "refit": False, "random_state": 3}
    found = kernel_search(KernelSVC(class_weight="balanced"), X, y, **options)
    assert not calls
    monkeypatch.setattr(SmallProblemOptions, "rows", 0)
    by_sets = kernel_search(KernelSVC(class_weight="balanced"), X, y, **options)
    assert len(calls) == 36  # three pairs in three folds of four cells
    for one, other in zip(found.cells, by_sets.cells, strict=True):
        assert (one.error, one.support) == pytest.approx((other.error, other.support))
        assert one.nu == pytest.approx(other.nu, rel=1e-3)


def test_nus_are_another_name_of_the_axis(monkeypatch):
    """A search by the nus of its own cells finds their C and their errors again, and nu is a parameter of SBP."""
    X, y = moons(300)
    by_c = kernel_search(KernelSVC(), X, y, Cs=(1.0, 30.0), gammas=(1.0,), random_state=0)
    nus = [cell.nu for cell in by_c.cells]
    assert nus[0] > nus[1]
    near = SearchOptions(duals=NuSearch(tol=0.02, near=1e-3, widest=1e5))
    monkeypatch.setattr("widemargin.estimators.kernel_svm.search_cells.SEARCH", near)
    for model in (KernelSVC(), SBPClassifier(random_state=0)):
        found = kernel_search(model, X, y, nus=nus, gammas=(1.0,), random_state=0)
        assert (found.given, [cell.nu for cell in found.cells]) == ("nu", nus)
        np.testing.assert_allclose([cell.C for cell in found.cells], [1.0, 30.0], rtol=0.1)
        for mine, other in zip(found.cells, by_c.cells, strict=True):
            assert mine.error == pytest.approx(other.error, abs=0.01)
        assert f"nu={nus[1]:.4g}" in str(found).splitlines()[1]
        assert isinstance(found.best_estimator, type(model))
        name, value = ("C", found.best_cell.C) if isinstance(model, KernelSVC) else ("nu", found.best_cell.nu)
        assert found.best_params == {name: value, "gamma": 1.0}
        assert getattr(found.best_estimator, name) == value
        assert found.best_estimator.fit(X, y).score(X, y) > 0.85


def test_a_search_by_C_gives_sbp_its_nu():
    X, y = moons(2000)
    found = kernel_search(SBPClassifier(random_state=0), X, y, Cs=CS, gammas=GAMMAS, n_rows=400, random_state=0)
    assert found.best_params == {"nu": found.best_cell.nu, "gamma": found.best_cell.gamma}
    assert found.new_error == pytest.approx(found.best_cell.error, abs=0.04)


def test_a_nu_that_no_C_has_is_left_out():
    """Rows of both classes at every point: no C makes the hinge loss small."""
    X, y = np.repeat(np.arange(60.0)[:, None], 4, axis=0), np.tile([0, 1, 1, 0, 1, 1, 1, 0], 30)
    nu = kernel_search(KernelSVC(), X, y, Cs=(1.0,), gammas=(1.0,), random_state=0).cells[0].nu
    found = kernel_search(KernelSVC(), X, y, nus=(1e-6, nu), gammas=(1.0,), random_state=0)
    assert [cell.nu for cell in found.cells] == [nu] and found.status == "converged"
    with pytest.raises(DataError, match="none of the nus"):
        kernel_search(KernelSVC(), X, y, nus=(1e-6,), gammas=(1.0,), random_state=0)


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch, capsys):
    X, y = moons(100)
    kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, verbose=1)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes any stream for a terminal
    kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS)
    drawn = capsys.readouterr()
    assert "4/4" not in drawn.err
    kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, verbose=1)
    drawn = capsys.readouterr()
    assert "4/4" in drawn.err and "gamma=0.1" in drawn.err and drawn.out == ""


@pytest.mark.parametrize(
    ("data", "gammas"),
    [(moons(600), (1e-3, 1.0, 1e4)), (load_digits(n_class=4, return_X_y=True), (1e-3, 1.0))],
    ids=["two", "four"],
)
def test_a_race_leaves_only_worse_cells_behind(data, gammas):
    X, y = data
    grid = {"Cs": (1e-3, 1.0, 100.0), "gammas": gammas, "n_folds": 10, "random_state": 0}
    whole, race = (kernel_search(KernelSVC(), X, y, race=race, **grid) for race in (False, True))
    assert {cell.folds for cell in whole.cells} == {10}
    assert {2, 10} <= {cell.folds for cell in race.cells} <= {2, 5, 10}
    assert race.best_params == whole.best_params and race.best_cell.folds == 10
    for mine, other in zip(race.cells, whole.cells, strict=True):
        if mine.folds == 10:
            assert mine.error == pytest.approx(other.error, abs=2 / len(y))  # starts differ, within the tolerance
        else:
            assert other.error > race.best_cell.error
            assert mine.standard_error > other.standard_error


def test_threads_share_the_folds_and_change_nothing():
    X, y = moons(300)
    one, two = (kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, n_jobs=n, random_state=0) for n in (1, 2))
    assert one.cells == two.cells


def test_all_rows_and_a_fitted_model():
    X, y = moons(2500)
    labels = np.array(["no", "yes"])[y]
    options = {"Cs": CS, "gammas": (1.0,), "random_state": 0}
    every = kernel_search(KernelSVC(), X, labels, n_rows=None, **options)
    assert (every.n_rows, every.new_error) == (2500, None)
    again = KernelSVC(**every.best_params).fit(X, labels)
    np.testing.assert_array_equal(every.best_estimator.dual_coef_, again.dual_coef_)
    some = kernel_search(KernelSVC(), X, labels, n_rows=300, **options)
    assert not hasattr(some.best_estimator, "support_")
    asked = kernel_search(KernelSVC(), X, labels, n_rows=300, refit=True, **options)
    assert asked.best_estimator.shape_fit_ == X.shape and asked.cells == some.cells
    assert not hasattr(kernel_search(KernelSVC(), X, y, n_rows=None, refit=False, **options).best_estimator, "support_")


def _balance(y):
    count = np.bincount(y)
    return y.shape[0] / (count.shape[0] * count)


def test_every_matrix_is_computed_once():
    X, y = moons()
    found = kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS)
    assert found.evaluations <= 0.8 * len(GAMMAS) * 400**2


def test_new_rows_are_not_in_the_subsample():
    """Labels without any pattern: only rows that were seen can be predicted."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)
    found = kernel_search(KernelSVC(), X, y, Cs=(1.0, 1000.0), gammas=(1.0, 100.0), n_rows=300, random_state=0)
    assert found.n_rows == 300
    assert found.new_error == pytest.approx(0.5, abs=0.04)
    assert found.new_standard_error == pytest.approx((0.25 / 2700) ** 0.5, rel=0.01)
    assert min(cell.error for cell in found.cells) < found.new_error + 0.02


def test_finds_what_a_fit_on_all_rows_confirms():
    X, y = moons(3000)
    new, labels = moons(3000, 1)
    found = kernel_search(KernelSVC(), X, y, n_rows=600, random_state=0)
    default, best = (model.fit(X, y).predict(new) for model in (SVC(C=1000.0, gamma=100.0), found.best_estimator))
    assert (best != labels).mean() <= (default != labels).mean() - 0.01
    assert found.new_error == pytest.approx((best != labels).mean(), abs=4 * found.new_standard_error)


def test_sparse_rows_precomputed_values_and_kernels_without_gamma():
    X, y = moons(300)
    dense = kernel_search(KernelSVC(), X, y, Cs=CS, gammas=(1.0,), n_rows=150, random_state=0)
    sparse = kernel_search(KernelSVC(), sp.csr_matrix(X), y, Cs=CS, gammas=(1.0,), n_rows=150, random_state=0)
    given = kernel_search(
        KernelSVC(kernel="precomputed"), rbf_kernel(X, gamma=1.0), y, Cs=CS, n_rows=150, random_state=0
    )
    errors = [[cell.error for cell in found.cells] for found in (dense, sparse, given)]
    assert errors[0] == errors[1] == errors[2]
    assert dense.new_error == given.new_error
    assert given.best_params.keys() == {"C"} and given.cells[0].gamma is None
    linear = kernel_search(KernelSVC(kernel="linear"), X, y, Cs=CS, gammas=GAMMAS)
    assert len(linear.cells) == 2
    assert "all" in str(linear)


def test_default_gammas_are_multiples_of_the_scale():
    X, y = moons(100)
    found = kernel_search(KernelSVC(), X, y, Cs=(1.0,))
    scale = 1.0 / (2 * X.var())
    np.testing.assert_allclose([cell.gamma / scale for cell in found.cells], [1 / 64, 1 / 16, 1 / 4, 1, 4])


def test_prints_as_a_table():
    found = kernel_search(KernelSVC(), *moons(300), Cs=CS, gammas=GAMMAS, n_rows=200, random_state=0)
    lines = str(found).splitlines()
    assert "gamma=0.1" in lines[0] and "gamma=1" in lines[0]
    assert lines[1].split()[0] == "C=1" and lines[2].split()[0] == "C=30"
    assert lines[3].startswith("best: C=") and "on new rows" in lines[3]


def test_progress_limits_and_interrupts(caplog):
    X, y = moons(200)
    seen = []
    with caplog.at_level(logging.INFO, logger="widemargin"):
        kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, callbacks=[seen.append], verbose=1)
    assert [progress.iteration for progress in seen] == [1, 2, 3, 4]
    assert all(progress.gap <= progress.objective for progress in seen)
    assert "C=30 gamma=0.1 2: objective" in caplog.text
    with pytest.warns(MarginConvergenceWarning, match=r"after 1 of 4 cells \(stopped\)"):
        stopped = kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, callbacks=[lambda progress: True])
    assert (stopped.status, len(stopped.cells)) == ("stopped", 1)
    with pytest.warns(MarginConvergenceWarning, match="time_limit"):
        late = kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, time_budget=1e-9)
    assert late.status == "time_limit"

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernel_search(KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, callbacks=[interrupt])
    with pytest.warns(MarginConvergenceWarning, match="after 2 of 4 cells"):
        kept = kernel_search(
            KernelSVC(), X, y, Cs=CS, gammas=GAMMAS, callbacks=[interrupt], on_interrupt="return"
        )  # fmt: skip
    assert kept.status == "interrupted" and kept.best_params["C"] in CS


def test_bad_input_is_named():
    X, y = moons(60)
    with pytest.raises(DataError, match=r"Cs=\(0\.0,\) must be a sequence of at least one finite number > 0"):
        kernel_search(KernelSVC(), X, y, Cs=(0.0,))
    with pytest.raises(DataError, match=r"nus=\(\) must be a sequence"):
        kernel_search(KernelSVC(), X, y, nus=())
    with pytest.raises(CapabilityError, match="give one of them"):
        kernel_search(KernelSVC(), X, y, Cs=(1.0,), nus=(0.1,))
    with pytest.raises(CapabilityError, match="nus need two classes and y has 3"):
        kernel_search(KernelSVC(), *load_iris(return_X_y=True), nus=(0.1,))
    for options in ({"gammas": (-1.0,)}, {"gammas": "a"}, {"gammas": 0.1}, {"nus": "a"}, {"Cs": ["a"]}):
        with pytest.raises(DataError, match=r"(gammas|nus|Cs)=.* must be a sequence"):
            kernel_search(KernelSVC(), X, y, **options)
    for options in ({"n_folds": 1}, {"n_folds": 2.5}, {"n_rows": 0}, {"n_rows": "a"}):
        with pytest.raises(DataError, match="must be a whole number >= 2"):
            kernel_search(KernelSVC(), X, y, **options)
    with pytest.raises(CapabilityError, match=r"not Pipeline; of a pipeline give the last step .*pipe\[-1\]"):
        kernel_search(make_pipeline(StandardScaler(), KernelSVC()), X, y)
    with pytest.raises(DataError, match="one class only"):
        kernel_search(KernelSVC(), X, np.zeros(60))
    for n_rows, cure in ((None, "lower n_folds"), (40, "raise n_rows, or lower n_folds")):
        with pytest.raises(DataError, match=rf"of the rarest class and there are 3 folds; {cure}"):
            kernel_search(KernelSVC(), X, np.r_[np.ones(2), np.zeros(58)], n_rows=n_rows)


@pytest.mark.parametrize("model", [KernelSVC(), SBPClassifier(random_state=0)])
def test_features_of_other_scales_are_named_once_for_all_fits(model):
    X, y = moons(300)
    frame = pd.DataFrame(np.column_stack((X, 1000.0 * np.random.default_rng(0).normal(size=300))), columns=list("abc"))
    with pytest.warns(KernelWarning, match=r"feature 'c' makes \d+\.\d% of the squared distances") as told:
        kernel_search(model, frame, y, Cs=CS, n_rows=200, random_state=0)
    assert len([one for one in told if one.category is KernelWarning]) == 1


def test_a_stage_has_four_digits_of_gamma():
    X, y = moons(60)
    told = []
    kernel_search(KernelSVC(), X, y, Cs=CS, gammas=(1 / 3,), callbacks=[told.append])
    kernel_search(KernelSVC(kernel="linear"), X, y, Cs=CS, callbacks=[told.append])
    assert [progress.stage for progress in told] == ["C=1 gamma=0.3333", "C=30 gamma=0.3333", "C=1", "C=30"]
