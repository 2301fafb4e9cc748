"""All learners against the exact optimum, their certificates, and what they promise of a run."""

import functools
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

from fresh import fresh_seed
from structured_models import LabelSets, exact_training, examples
from widemargin._threads import limit_threads
from widemargin.exceptions import CapabilityError, DataError
from widemargin.solvers.base import Budget, Status
from widemargin.structured.learners import block_frank_wolfe
from widemargin.structured.learners.problem import StructuredProblem, dual_value, weights_of
from widemargin.structured.learners.result import next_look
from widemargin.structured.models import MulticlassModel, MultiLabelModel
from widemargin_papers.solvers import structured_sgd as sgd
from widemargin_papers.solvers.structured_cutting_planes import one_slack, slack_per_example

LEARNERS = [block_frank_wolfe.solve, sgd.solve, slack_per_example, one_slack]
KINDS = ["classes", "label sets", "sequences"]


def name(learner):
    return learner.__module__.rpartition(".")[2] + "." + learner.__name__


def flat(weights):
    return np.concatenate([weights.W.ravel(), weights.theta])


@pytest.mark.parametrize(
    ("learner", "kind", "rescaling"),
    [
        (learner, kind, ("slack", "margin")[(i + j) % 2])
        for i, learner in enumerate(LEARNERS)
        for j, kind in enumerate(KINDS)
    ],
    ids=lambda value: value if isinstance(value, str) else name(value),
)
def test_every_learner_reaches_the_exact_optimum(learner, kind, rescaling):
    model, X, Y = examples(kind, n=6)
    optimum, w = exact_training(model, X, Y, C=0.3, slack=rescaling == "slack")
    problem = StructuredProblem(model, X, Y, C=0.3, rescaling=rescaling, check=True)
    tol = {sgd.solve: 0.03, block_frank_wolfe.solve: 0.003}.get(learner, 1e-3)
    result = learner(problem, tol=tol, max_iter=600)
    assert result.status == Status.CONVERGED
    assert result.dual <= optimum * (1.0 + 1e-7) <= result.primal * (1.0 + 2e-7)
    assert result.gap <= tol
    assert result.certified
    assert np.linalg.norm(flat(result.weights) - w) <= np.sqrt(2.0 * (result.primal - optimum)) + 1e-4


@pytest.mark.parametrize("learner", [slack_per_example, one_slack], ids=name)
def test_cutting_planes_always_close_the_gap(learner):
    """On small problems an exact search leaves nothing that could end a run early."""
    rng = np.random.default_rng(fresh_seed())
    for _ in range(15):
        n, C, tol = int(rng.integers(2, 9)), 10.0 ** rng.uniform(-2.0, 2.0), 10.0 ** rng.uniform(-4.0, -1.0)
        model, X, Y = examples(str(rng.choice(KINDS)), n=n, seed=int(rng.integers(2**32)))
        rescaling = str(rng.choice(["slack", "margin"]))
        optimum, _ = exact_training(model, X, Y, C=C, slack=rescaling == "slack")
        result = learner(StructuredProblem(model, X, Y, C=C, rescaling=rescaling), tol=tol, max_iter=3000)
        assert result.status == Status.CONVERGED, (n, C, tol, rescaling, result.gap, result.n_iter)
        assert result.dual <= optimum * (1.0 + 1e-6) + 1e-7
        assert optimum * (1.0 - 1e-6) - 1e-7 <= result.primal <= optimum * (1.0 + 1.01 * tol / (1.0 - tol)) + 1e-7


def test_cutting_planes_solve_their_problem_before_they_blame_the_search():
    """Three rows, on which the second round found no new label at a gap of 3%."""
    rng = np.random.default_rng(57)
    X, Y = rng.normal(size=(int(rng.integers(3, 8)), 2))[:3], np.arange(3)
    result = slack_per_example(StructuredProblem(MulticlassModel(), X, Y, C=1.4), tol=0.01, max_iter=100)
    assert result.status == Status.CONVERGED


@pytest.mark.parametrize("learner", LEARNERS, ids=name)
@given(seed=st.integers(0, 10_000), C=st.sampled_from([1e-3, 0.1, 1.0, 30.0]), slack=st.booleans())
@settings(max_examples=8)
def test_the_certificate_holds_at_any_time(learner, seed, C, slack):
    """Dual <= optimum <= primal from the first look on; and both are what the formulas say."""
    model, X, Y = examples("label sets", n=5, seed=seed)
    rescaling = "slack" if slack else "margin"
    optimum, _ = exact_training(model, X, Y, C=C, slack=slack)
    problem = StructuredProblem(model, X, Y, C=C, rescaling=rescaling)
    result = learner(problem, tol=1e-9, max_iter=4)
    for entry in result.history:
        assert entry["dual"] <= optimum * (1.0 + 1e-6) + 1e-9
        assert entry["primal"] >= optimum * (1.0 - 1e-6) - 1e-9
    w, hinges = result.weights, 0.0
    for i, (x, truth) in enumerate(zip(X, Y, strict=True)):
        oracle = model.oracle(x, truth, problem.potentials(i, w.W), w.theta)
        values = oracle.h * oracle.g if slack else oracle.h + oracle.g - 1.0
        hinges += max(0.0, values.max())
    assert result.primal == pytest.approx(0.5 * float((flat(w) ** 2).sum()) + C * hinges, rel=1e-8)
    assert dual_value(result.blocks, weights_of(problem, result.blocks)) <= optimum * (1.0 + 1e-6) + 1e-9


def test_margin_rescaling_of_classes_is_the_svm_of_crammer_and_singer():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = np.argmax(X[:, :3] + rng.normal(size=(60, 3)), axis=1)
    problem = StructuredProblem(MulticlassModel(), X, y, C=0.5, rescaling="margin")
    result = block_frank_wolfe.solve(problem, tol=1e-4, max_iter=5000)
    reference = LinearSVC(multi_class="crammer_singer", C=0.5, fit_intercept=False, tol=1e-6, max_iter=100_000)
    coef = reference.fit(X, y).coef_
    scores = X @ coef.T
    hinge = (1.0 * (np.arange(3) != y[:, None]) + scores - scores[np.arange(60), y][:, None]).max(axis=1)
    value = 0.5 * (coef**2).sum() + 0.5 * hinge.sum()
    assert result.primal == pytest.approx(value, rel=2e-4)
    assert result.dual <= value


@pytest.mark.parametrize("learner", LEARNERS, ids=name)
def test_same_seed_same_bits_and_another_order_for_another_seed(learner):
    model, X, Y = examples("sequences")

    def run(seed):
        problem = StructuredProblem(model, X, Y, C=0.3)
        return flat(learner(problem, tol=1e-9, max_iter=3, seed=seed).weights)

    np.testing.assert_array_equal(run(1), run(1))
    if learner in (block_frank_wolfe.solve, sgd.solve):
        assert (run(1) != run(2)).any()


@pytest.mark.parametrize("learner", LEARNERS, ids=name)
@pytest.mark.parametrize("kind", ["label sets", "sequences"])
def test_csr_rows_give_the_model_of_dense_rows(learner, kind):
    """Rounding may decide where a step ends, so the two need not go the same way, but they come to the same optimum."""
    model, X, Y = examples(kind, n=6)
    X = [np.where(np.abs(x) > 0.6, x, 0.0) for x in X]
    sparse = [sp.csr_matrix(np.atleast_2d(x)) for x in X]
    dense, csr = (learner(StructuredProblem(model, rows, Y, C=0.3), tol=0.01, max_iter=100) for rows in (X, sparse))
    assert max(dense.dual, csr.dual) <= min(dense.primal, csr.primal)
    assert dense.primal == pytest.approx(csr.primal, rel=max(dense.gap, csr.gap) + 1e-9)


def test_float32_rows():
    model, X, Y = examples("label sets")
    double = block_frank_wolfe.solve(StructuredProblem(model, X, Y, C=0.3), tol=4e-4, max_iter=300)
    single = block_frank_wolfe.solve(
        StructuredProblem(model, [x.astype(np.float32) for x in X], Y, C=0.3), tol=4e-4, max_iter=300
    )
    assert single.primal == pytest.approx(double.primal, rel=1e-3)


def test_a_run_goes_on_where_it_stopped():
    model, X, Y = examples("label sets")
    problem = StructuredProblem(model, X, Y, C=0.3)
    first = block_frank_wolfe.solve(problem, tol=1e-9, max_iter=30)
    again = block_frank_wolfe.solve(problem, tol=1e-9, max_iter=1, start=first.blocks)
    assert again.dual >= first.dual * (1.0 - 1e-12)
    fresh = block_frank_wolfe.solve(problem, tol=1e-9, max_iter=1)
    assert again.gap < fresh.gap


def test_blocks_of_one_C_are_a_start_for_another():
    model, X, Y = examples("label sets")
    large = block_frank_wolfe.solve(StructuredProblem(model, X, Y, C=1.0), tol=1e-3, max_iter=300)
    problem = StructuredProblem(model, X, Y, C=0.5)
    optimum, _ = exact_training(model, X, Y, C=0.5, slack=True)
    warm = block_frank_wolfe.solve(problem, tol=1e-9, max_iter=1, start=large.blocks.scaled(0.5))
    assert warm.dual <= optimum <= warm.primal
    assert warm.gap < block_frank_wolfe.solve(problem, tol=1e-9, max_iter=1).gap


def test_foreign_blocks_are_refused():
    model, X, Y = examples("label sets")
    blocks = block_frank_wolfe.solve(StructuredProblem(model, X[:5], Y[:5]), max_iter=1).blocks
    with pytest.raises(DataError, match="the blocks to start from have shapes"):
        block_frank_wolfe.solve(StructuredProblem(model, X, Y), start=blocks)


@pytest.mark.parametrize("learner", LEARNERS, ids=name)
def test_time_limit_and_callback_end_a_run(learner):
    model, X, Y = examples("label sets", n=60)
    problem = StructuredProblem(model, X, Y, C=1.0)
    late = learner(problem, tol=0.0, max_iter=10_000, budget=Budget(0.03))
    assert late.status == Status.TIME_LIMIT
    assert late.dual <= late.primal < np.inf
    told = []

    def stop(progress):
        told.append(progress)
        return len(told) == 2

    stopped = learner(problem, tol=0.0, max_iter=1000, budget=Budget(None, (stop,)))
    assert stopped.status == Status.STOPPED
    assert len(told) >= 2
    assert told[-1].seconds <= time.perf_counter()


@pytest.mark.parametrize("learner", LEARNERS, ids=name)
def test_an_interrupt_keeps_what_there_is(learner):
    model, X, Y = examples("label sets")
    problem = StructuredProblem(model, X, Y, C=1.0)
    oracle, calls = problem.oracle, []

    def interrupted(*args):
        calls.append(args)
        if len(calls) == 60:
            raise KeyboardInterrupt
        return oracle(*args)

    problem.oracle = interrupted
    budget = Budget()
    result = learner(problem, tol=0.0, max_iter=1000, budget=budget)
    assert budget.interrupted
    assert result.status == Status.INTERRUPTED
    optimum, _ = exact_training(model, X, Y, C=1.0, slack=True)
    assert result.dual <= optimum * (1.0 + 1e-7) <= result.primal * (1.0 + 2e-7)
    assert dual_value(result.blocks, weights_of(problem, result.blocks)) <= optimum * (1.0 + 1e-7)


@pytest.mark.parametrize("search", ["angular", "level", "levels", "hull", "bisecting", "binary"])
def test_searches_in_training(search):
    """Exact searches reach the optimum of the problem; the others a point with a bound that holds all the same."""
    model, X, Y = examples("label sets", n=4)
    problem = StructuredProblem(model, X, Y, C=0.3, search=search, check=True)
    passes = 150 if problem.exact else 8  # without an exact search the gap never closes, however long it takes
    result = block_frank_wolfe.solve(problem, tol=5e-3, max_iter=passes)
    optimum, _ = exact_training(model, X, Y, C=0.3, slack=True)
    assert result.dual <= optimum * (1.0 + 1e-9) <= result.primal * (1.0 + 2e-9)
    assert problem.exact == (search in ("angular", "level", "levels"))
    if problem.exact:
        assert result.gap <= 5e-3
    assert result.n_queries >= result.n_oracle_calls


def test_sarawagi_and_gupta_s_search_needs_the_slacks_of_the_cutting_plane():
    model, X, Y = examples("label sets")
    problem = StructuredProblem(model, X, Y, C=0.3, search="sarawagi-gupta")
    with pytest.raises(CapabilityError, match="only solver='cutting-plane' knows it"):
        block_frank_wolfe.solve(problem)
    with pytest.raises(CapabilityError, match="only solver='cutting-plane' knows it"):
        one_slack(problem)
    optimum, _ = exact_training(model, X, Y, C=0.3, slack=True)
    result = slack_per_example(problem, tol=1e-3, max_iter=60)
    assert result.dual <= optimum * (1.0 + 1e-9) <= result.primal * (1.0 + 2e-9)


def test_known_labels_save_questions():
    model, X, Y = examples("label sets")
    plain, helped = (StructuredProblem(model, X, Y, C=0.3, search="angular") for _ in range(2))
    plain.asks_once = True  # labels met before are then of no use, and forgotten
    results = [block_frank_wolfe.solve(problem, tol=1e-9, max_iter=30) for problem in (plain, helped)]
    assert results[1].n_queries < results[0].n_queries
    assert results[1].primal == pytest.approx(results[0].primal, rel=1e-6)


def test_margin_rescaling_needs_free_questions():
    _, X, Y = examples("label sets")
    with pytest.raises(CapabilityError, match="use rescaling='slack'"):
        StructuredProblem(LabelSets(3, ("direct",)), X, Y, rescaling="margin")


def test_averaging_helps_sgd_at_first():
    model, X, Y = examples("label sets", n=30)
    problem = StructuredProblem(model, X, Y, C=0.3)
    plain = sgd.solve(problem, tol=1e-9, max_iter=2, average=False)
    averaged = sgd.solve(problem, tol=1e-9, max_iter=2)
    assert averaged.primal < plain.primal
    assert averaged.averaged
    assert not plain.averaged


def test_the_history_counts():
    model, X, Y = examples("label sets")
    result = block_frank_wolfe.solve(
        StructuredProblem(model, X, Y, C=0.3), tol=1e-9, max_iter=6, check_every=2, average=False
    )
    assert [entry["iteration"] for entry in result.history] == [2, 4, 6]
    n = len(X)
    assert [entry["oracle_calls"] for entry in result.history] == [3 * n, 6 * n, 9 * n]
    duals = [entry["dual"] for entry in result.history]
    assert duals == sorted(duals)


@functools.cache
def first_part(learner):
    """The end of a run with C = 0.3."""
    return learner(StructuredProblem(*examples("label sets"), C=0.3), tol=1e-3, max_iter=60)


@functools.cache
def optimum_of_label_sets(C):
    """The value of the exact optimum."""
    return exact_training(*examples("label sets"), C=C, slack=True)[0]


@pytest.mark.parametrize("first", LEARNERS, ids=name)
@pytest.mark.parametrize("second", LEARNERS, ids=name)
def test_any_learner_goes_on_from_any_dual_point(first, second):
    """A run in two parts is no worse than its first part, and the certificate holds; also for another C."""
    (model, X, Y), C, start = examples("label sets"), 0.3, first_part(first)
    for then in (0.3, 1.0, 0.1):
        options = {"start": start.blocks.scaled(then / C)} | ({"steps": start.steps} if second is sgd.solve else {})
        problem = StructuredProblem(model, X, Y, C=then)
        given = dual_value(options["start"], weights_of(problem, options["start"]))
        result = second(problem, tol=0.0, max_iter=2, **options)
        optimum = optimum_of_label_sets(then)
        assert result.dual <= optimum * (1.0 + 1e-7) <= result.primal * (1.0 + 2e-7)
        if second is not sgd.solve:  # its steps are no ascent
            assert result.dual >= given * (1.0 - 1e-9)
        elif then == C:
            assert result.gap <= 0.25
        assert result.n_iter == 2


def test_sgd_in_two_parts_takes_the_steps_of_one():
    """Step sizes go on: the last iterate of 3 + 2 passes is that of 5, if the examples come in the same order."""
    model, X, Y = examples("label sets", n=1)  # one example has one order
    problem = StructuredProblem(model, X, Y, C=0.3)
    whole = sgd.solve(problem, tol=0.0, max_iter=5, average=False)
    half = sgd.solve(problem, tol=0.0, max_iter=3, average=False)
    rest = sgd.solve(problem, tol=0.0, max_iter=2, start=half.blocks, steps=half.steps, average=False)
    assert (half.steps, rest.steps, rest.n_iter) == (3, 5, 2)
    for one, other in zip(rest.blocks, whole.blocks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_the_fingerprint_knows_the_problem():
    _, X, Y = examples("label sets")

    def print_of(X=X, Y=Y, rescaling="slack", **model):
        return StructuredProblem(MultiLabelModel(**model), np.array(X), np.array(Y), rescaling=rescaling).fingerprint()

    seen = [
        print_of(),
        print_of(X=[X[0] + 1e-9, *X[1:]]),
        print_of(Y=[Y[1], *Y[1:]]) if Y[0] != Y[1] else 0,
        print_of(rescaling="margin"),
        print_of(weights=[1, 2, 1]),
        print_of(edges="tree"),
        print_of(edges=[(0, 1), (1, 2), (2, 0)][:2]),
    ]
    assert len(set(seen)) == len(seen)
    assert print_of() == seen[0]


@pytest.mark.parametrize("learner", LEARNERS, ids=name)
@pytest.mark.parametrize("compiled", [None, False])
def test_threads_change_nothing(learner, compiled):
    _, X, Y = examples("label sets", n=150)
    problem = StructuredProblem(MultiLabelModel(), np.array(X), np.array(Y), C=0.05)
    runs = []
    for threads in (1, 2):
        with limit_threads(threads):
            runs.append(learner(problem, tol=0.0, max_iter=3, compiled=compiled))
    np.testing.assert_array_equal(flat(runs[0].weights), flat(runs[1].weights))
    assert (runs[0].primal, runs[0].dual, runs[0].n_queries) == (runs[1].primal, runs[1].dual, runs[1].n_queries)


def test_the_next_look_is_where_the_gap_should_be_closed():
    assert next_look(100, 0.015, 0.01) == 158  # 1.05 * 150, rounded up
    assert next_look(100, 0.5, 0.01) == 200  # at most twice as many
    assert next_look(100, 0.0101, 0.01) == 111  # 1.1 times: not at once again
    assert next_look(10, 0.011, 0.01) == 15
    assert next_look(10, 0.5, 0.0) == 20
