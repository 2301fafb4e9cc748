"""The budget of a run and the words of its status."""

import itertools

import pytest

from widemargin.solvers import base
from widemargin.solvers.base import Budget, Progress, Status


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock takes a second."""
    ticks = itertools.count()
    monkeypatch.setattr(base.time, "perf_counter", lambda: float(next(ticks)))


def test_time_runs_out(clock: None) -> None:
    budget = Budget(seconds=3.0, started=0.0)
    assert [budget.exhausted for _ in range(5)] == [False, False, False, True, True]


def test_without_a_limit_time_never_runs_out(clock: None) -> None:
    assert not any(Budget(started=0.0).exhausted for _ in range(100))


def test_a_callback_hears_everything_and_may_stop_the_run() -> None:
    heard: list[Progress] = []

    def stop_at_two(progress: Progress) -> bool:
        heard.append(progress)
        return progress.iteration == 2

    budget = Budget(callbacks=(stop_at_two, lambda progress: "anything but True"))
    budget.tell("step", 1, 0.5, 0.1, 0.0)
    assert not budget.exhausted
    budget.tell("step", 2, 0.4, 0.1, 0.0)
    assert budget.exhausted
    assert [(p.stage, p.iteration, p.objective, p.gap, p.violation) for p in heard] == [
        ("step", 1, 0.5, 0.1, 0.0), ("step", 2, 0.4, 0.1, 0.0),
    ]  # fmt: skip
    assert 0.0 <= heard[0].seconds <= heard[1].seconds


def test_an_interrupt_ends_the_run() -> None:
    budget = Budget()
    budget.interrupted = True
    assert budget.exhausted


def test_status_prints_as_its_word() -> None:
    assert f"{Status.TIME_LIMIT}" == "time_limit" == Status("time_limit")


def test_parts_share_the_time_that_is_left() -> None:
    budget = Budget(seconds=100.0)
    with budget.part(4) as part:
        assert 20.0 < part.seconds <= 25.0
    assert not budget.exhausted
    with Budget().part(2) as part:
        assert part.seconds is None
    with Budget(seconds=0.0).part(2) as part:
        assert part.exhausted


@pytest.mark.parametrize("flag", ["stopped", "interrupted"])
def test_the_end_of_a_part_by_hand_ends_the_whole(flag: str) -> None:
    told = []
    budget = Budget(callbacks=(told.append,))
    with budget.part(2) as part:
        part.tell("stage", 1, 0.0, 0.0, 0.0)
        setattr(part, flag, True)
    assert len(told) == 1
    assert getattr(budget, flag)
    with budget.part(1) as part:
        assert part.exhausted
