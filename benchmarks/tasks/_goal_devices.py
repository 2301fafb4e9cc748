"""The devices of speed of fits to goals, the data each is for, and how it is switched off in this process."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

from benchmarks.data.goal_rows import GoalRows
from benchmarks.task import Context, quietly
from benchmarks.tasks.ablations import set_to
from widemargin import RateConstrainedClassifier
from widemargin.solvers.convex.convex_step import StepOptions
from widemargin.solvers.convex.linear_system import SystemOptions
from widemargin.solvers.convex.subsample_start import SampleOptions

__all__ = ["DEVICES"]

Case = tuple[str, Callable[[], Any], tuple[int, int]]
NEVER = 10**18


def _fit(task: GoalRows) -> RateConstrainedClassifier:
    with quietly():
        made = RateConstrainedClassifier(task.goal, on_infeasible="warn")
        return made.fit(task.X, task.y, populations=task.populations)


def _on(*sizes: tuple[str, int, int]) -> Callable[[Context], Iterator[Case]]:
    """Whole fits on drawn families, each so many rows and columns (of the mixed ones: constraints)."""

    def cases(ctx: Context) -> Iterator[Case]:
        for name, n, second in ctx.pick(sizes, sizes[:1]):
            task = ctx.load(name)(ctx.pick(n, 800), ctx.pick(second, min(second, 20)))
            yield name, partial(_fit, task), (task.X.shape[0], task.X.shape[1])

    return cases


@contextmanager
def _set(kind: type[Any], **values: float) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(set_to(kind, name, value))
        yield


MIXED, HEAVY = "drawn: mixed columns", "drawn: heavy columns"
DEVICES: dict[str, tuple[Callable[[Context], Iterator[Case]], Callable[[], AbstractContextManager[None]]]] = {
    "a start on a sample of the rows": (
        _on((MIXED, 125_000, 4), (MIXED, 500_000, 4), (HEAVY, 120_000, 50)),
        partial(_set, SampleOptions, rows=NEVER, numbers=NEVER),
    ),
    "Newton's matrix updated where few rows change": (
        _on((MIXED, 125_000, 4), (HEAVY, 32_000, 250), (HEAVY, 32_000, 500)),
        partial(_set, SystemOptions, afresh=0.0),
    ),
    "products of rows in float32 where rounding averages out": (
        _on((HEAVY, 32_000, 250), (HEAVY, 32_000, 500), (HEAVY, 16_000, 1000)),
        partial(_set, SystemOptions, single_rows=float(NEVER), rounding=float(NEVER)),
    ),
    "no factor beyond 1,500 features": (
        _on((HEAVY, 4_000, 1600), (HEAVY, 2_000, 2000), (HEAVY, 8_000, 2000)),
        partial(_set, StepOptions, wide=NEVER),
    ),
}
