"""The time that a command may take: afterwards it stops, and says how far it came."""

import time

from widemargin.exceptions import TimeBudgetError

__all__ = ["Deadline"]


class Deadline:
    """The end of `--time-budget`, looked at between blocks of rows, or runs.

    Parameters
    ----------
    seconds : float or None
        From now on; None: as long as it takes.
    why : str
        What stopping means, and the cure, for the message.
    """

    def __init__(self, seconds: float | None, why: str) -> None:
        self._seconds, self._why = seconds, why
        self._end = None if seconds is None else time.perf_counter() + seconds

    def check(self, done: int, total: int, what: str) -> None:
        """Stop if the time is up before all is done; `what` are the things that are counted.

        Raises
        ------
        TimeBudgetError
        """
        if self._end is None or done >= total or time.perf_counter() < self._end:
            return
        raise TimeBudgetError(
            f"--time-budget of {self._seconds:g} s is used up after {done} of {total} {what}. {self._why}",
            done=done, total=total,
        )  # fmt: skip
