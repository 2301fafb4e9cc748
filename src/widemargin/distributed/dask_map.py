"""Blocks on the workers of a Dask cluster.

A block, its state after every advance and the result of every call are tasks of the scheduler that depend on nothing
but other tasks and pickled values. So Dask itself computes them again when a worker is lost: the block from its recipe,
its state from the messages sent so far. Nothing is scattered, because Dask cannot compute scattered values again. Tasks
that Dask gives up, since too many workers died on them, are submitted again from here.
"""

import copy
import logging
import pickle
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from importlib.util import find_spec
from typing import Any

from widemargin.distributed.backends import SerialMap, called
from widemargin.distributed.blocks import FAN_IN, Block, BlockFunction, Step, bytes_of, combined, filled_blocks
from widemargin.distributed.recipes import FramePartition, HeldRows, Recipe
from widemargin.exceptions import DataError, MissingLibraryError, WidemarginError, WorkerLostError

_LOST = ("cancelled", "error", "lost")
"""States of a task that has no result any more. A task that killed too many workers is in the state "error", too."""

logger = logging.getLogger(__name__)


class DaskMap:
    """Blocks on the workers of a Dask cluster; they stay there from call to call.

    Parameters
    ----------
    recipes : sequence of Recipe
        How the rows of every block are read. Files must be readable by the workers under the same path. Of rows in
        memory (`ArrayRows`) the scheduler holds a copy, too; where the workers are on this machine, `spool` avoids it.
    client : distributed.Client, default=None
        None: the current client.
    hold : bool, default=True
        As in `SerialMap`.
    patience : float, default=300
        Seconds to wait for a worker when there is none.
    attempts : int, default=5
        How often a call is tried when Dask gives it up because its workers were lost.

    Raises
    ------
    MissingLibraryError
        If Dask is not installed, or widemargin is not where a worker runs.
    DataError
        If there is no recipe, or no client.
    WorkerLostError
        If the client is closed, or has lost its scheduler.

    Notes
    -----
    A worker may be lost at any time: its blocks are read again and advanced again by the logged messages (see
    `BlockMap.advance`), and the result is the same to the last bit. `WorkerLostError` is raised when that fails
    `attempts` times in a row, when there is no worker for `patience` seconds, or when the scheduler is lost.
    """

    def __init__(
        self,
        recipes: Sequence[Recipe],
        client: Any = None,
        *,
        hold: bool = True,
        patience: float = 300.0,
        attempts: int = 5,
    ) -> None:
        self._client = dask_client(client)
        # A worker without this library would fail in the middle of a task with an error of unpickling; here the message
        # names it. Each worker is asked once per client.
        able = _able.setdefault(self._client, set())
        new = sorted(worker_addresses(self._client, "work in blocks") - able)
        answers = self._client.run(find_spec, "widemargin", workers=new, on_error="return") if new else {}
        if lacking := [address for address, spec in answers.items() if spec is None]:
            raise MissingLibraryError(
                f"{len(lacking)} of {len(new)} Dask worker(s) cannot import widemargin: {', '.join(lacking[:3])}. "
                "Install it there, in the version that is installed here."
            )
        able.update(new)
        self._patience, self._attempts = patience, attempts
        self._take(recipes, (), hold)

    def _take(
        self, recipes: Sequence[Recipe], steps: Sequence[Step], hold: bool, source: "DaskMap | None" = None
    ) -> None:
        self._recipes, self._steps, self._hold, self._source = list(recipes), tuple(steps), hold, source
        if not self._recipes:
            raise DataError("there are no blocks. Give one recipe at least.")
        self._log: list[Step] = []
        self._blocks: list[Any] = [None] * len(self._recipes)
        self._states: list[Any] = [None] * len(self._recipes)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self._recipes)

    def map(self, function: BlockFunction, message: object = None) -> list[Any]:
        """See `BlockMap`."""
        step = Step(function, message)
        return self._sure(lambda: self._calls(step), step, gather=True)

    def stream(self, function: BlockFunction, message: object = None) -> Iterator[Any]:
        """See `BlockMap`; if the caller stops early, the remaining tasks are cancelled."""
        step = Step(function, message)
        waiting = dict(enumerate(self._calls(step)))
        try:
            for i in range(self.n_blocks):
                # `_sure` calls this again after a loss; the task of the first try is gone then, and a new one is made.
                def one(i: int = i) -> list[Any]:
                    return [waiting.pop(i) if i in waiting else self._one_call(self._sent(step), i)]

                yield self._sure(one, step, gather=True)[0]
        finally:
            if is_connected(self._client):
                self._client.cancel(list(waiting.values()))

    def sum(self, function: BlockFunction, message: object = None) -> Any:
        """See `BlockMap`; from five blocks on the workers add, and only the sum is transferred."""
        if self.n_blocks <= 4:  # transferring so few summands takes less time than one more task
            return combined(self.map(function, message))
        step = Step(function, message)

        def tree() -> list[Any]:
            level = self._calls(step)
            while True:
                runs = [level[first : first + FAN_IN] for first in range(0, len(level), FAN_IN)]
                level = [self._submit("sum", combined, run) for run in runs]
                if len(level) == 1:
                    return level

        return self._sure(tree, step, gather=True)[0]

    def advance(self, function: BlockFunction, message: object = None, *, restart: bool = False) -> None:
        """See `BlockMap`."""
        step = Step(function, message)
        if restart:
            self._log, self._states = [], [None] * self.n_blocks

        def states() -> list[Any]:
            sent, n = self._sent(step), len(self._log)
            return [self._submit("state", _call, sent, self._block(i), self._state(i), n) for i in range(self.n_blocks)]

        self._states = self._sure(states, step, gather=False)
        self._log.append(step)

    def prepared(
        self, function: Callable[[Any, Any], Any], message: object = None, *, hold: bool | None = None
    ) -> "DaskMap":
        """See `BlockMap`."""
        other = copy.copy(self)
        steps = (*self._steps, Step(function, message))
        other._take(self._recipes, steps, self._hold if hold is None else hold, self if self._hold else None)
        return other

    def near(self, n_bytes: int) -> "DaskMap | SerialMap":
        """See `BlockMap`."""
        # Measuring the rows reads them; with a limit of 0 that would be for nothing.
        if n_bytes <= 0 or sum(self.map(lambda block, _: bytes_of(block.data))) > n_bytes:
            return self
        logger.info("%d blocks take no more than %d bytes: they are worked on here", self.n_blocks, n_bytes)
        return SerialMap([HeldRows(data) for data in self.map(lambda block, _: block.data)])

    def filled(self) -> "DaskMap":
        """See `BlockMap`; blocks that hold their rows are renumbered and not read again."""
        filled = filled_blocks(self, self._recipes)
        if len(filled) == self.n_blocks:
            return self
        other = copy.copy(self)
        other._take([self._recipes[i] for i in filled], self._steps, self._hold)
        if self._hold:
            other._blocks = [self._submit("block", Block.numbered, self._block(i), n) for n, i in enumerate(filled)]
        return other

    def close(self) -> None:
        """See `BlockMap`: Dask frees tasks that no future refers to."""
        self._blocks = [None] * self.n_blocks
        self._states = [None] * self.n_blocks

    def _calls(self, step: Step) -> list[Any]:
        """One task a block."""
        sent = self._sent(step)
        return [self._one_call(sent, i) for i in range(self.n_blocks)]

    def _one_call(self, sent: Any, i: int) -> Any:
        return self._submit("call", _call, sent, self._block(i), self._state(i), len(self._log))

    def _block(self, i: int) -> Any:
        """The task that makes block i."""
        if self._blocks[i] is None:
            recipe: Recipe = self._recipes[i]
            source: Any
            steps = _packed(self._steps if self._source is None else self._steps[-1:])
            if self._source is not None:  # a prepared map: its last step is applied to rows that a worker holds already
                source = self._source._block(i)
            elif isinstance(recipe, FramePartition):
                source = self._client.compute(recipe.delayed)
            else:
                source = _packed(recipe)
            self._blocks[i] = self._submit("block", _built, i, source, steps, self._hold)
        return self._blocks[i]

    def _state(self, i: int) -> Any:
        """The task that computes the state of block i; after a loss, a chain of tasks from the first advance on."""
        if self._states[i] is None:
            for n, step in enumerate(self._log):
                self._states[i] = self._submit("state", _call, self._sent(step), self._block(i), self._states[i], n)
        return self._states[i]

    def _sent(self, step: Step) -> Any:
        """A function and its message as the workers get them: pickled, or as a task if they are large."""
        packed = _packed(step)
        # Bytes are sent again with the call of every block. From about 20,000 bytes on one task that holds them, whose
        # result the workers pass to each other, is cheaper than that.
        return packed if len(packed) < 20_000 else self._submit("message", bytes, packed)

    def _submit(self, name: str, function: Callable[..., Any], *values: object) -> Any:
        # Recipes of rows in memory are large by design, see the parameter `recipes`.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*Sending large graph", category=UserWarning)
            try:
                # The key is new each time: to Dask an equal key means the same task, whose old result it would return.
                return self._client.submit(function, *values, key=f"widemargin-{name}-{uuid.uuid4().hex}")
            except Exception as error:
                if is_connected(self._client):
                    raise
                raise _disconnected(self._client, f"a {name}") from error

    def _sure(self, make: Callable[[], list[Any]], step: Step, *, gather: bool) -> list[Any]:
        """Results (or finished tasks) of the tasks that `make` submits; where workers are lost, blocks are rebuilt and
        `make` is called again.

        Raises
        ------
        WorkerLostError
            If that has to be done too often, or there is no scheduler any more.
        """
        from distributed.scheduler import KilledWorker

        for _ in range(self._attempts):
            tasks: list[Any] = []
            try:
                tasks = make()
                self._wait(tasks, step)
                if gather:
                    return list(self._client.gather(tasks))
                for task in tasks:
                    if task.status in _LOST:
                        task.result()  # raises the error of the task, which is handled below
                return tasks
            except WidemarginError:
                raise
            except Exception as error:
                if not is_connected(self._client):
                    raise _disconnected(self._client, _named(step)) from error
                # Only a loss of workers is worth another try. It shows as a cancelled task, as KilledWorker, or as an
                # OSError of the connection; an OSError of a task in the state "error" was raised by the function.
                failed = any(task.status == "error" for task in tasks)
                if not isinstance(error, (CancelledError, KilledWorker)) and (failed or not isinstance(error, OSError)):
                    raise
                lost = self._mend()
                logger.warning("Dask gave up a task (%s); building %d of %d blocks again", error, lost, self.n_blocks)
        raise WorkerLostError(
            f"{_named(step)} lost its workers {self._attempts} times in a row on {self.n_blocks} blocks. "
            "Look at the workers' logs (memory?), give smaller blocks or more memory, and start again"
        )

    def _wait(self, tasks: list[Any], step: Step) -> None:
        """Wait until all tasks are done, and no longer than `patience` while there is no worker."""
        from distributed import wait

        alone_since: float | None = None
        while True:
            try:
                with self._client.as_current():  # otherwise `wait` asks the default client, perhaps of another cluster
                    wait(tasks, timeout=0.5)  # seconds between two checks whether there are workers at all
                return
            except TimeoutError:
                now = time.monotonic()
                alone_since = None if worker_addresses(self._client, _named(step)) else alone_since or now
                if alone_since is not None and now - alone_since > self._patience:
                    raise WorkerLostError(
                        f"{_named(step)} waits for {len(tasks)} tasks, and the cluster has had no worker for "
                        f"{self._patience:g} s. Start workers, and start again"
                    ) from None

    def _mend(self) -> int:
        """Drop the tasks of lost blocks, so that they are submitted again; returns how many blocks that are."""
        lost = 0
        if self._source is not None:
            self._source._mend()
        for i, pair in enumerate(zip(self._blocks, self._states, strict=True)):
            if any(task is not None and task.status in _LOST for task in pair):
                self._blocks[i] = self._states[i] = None
                lost += 1
        return lost


def _packed(value: object) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(value))


def _built(i: int, source: object, steps: bytes, hold: bool) -> Block:
    """The block of a pickled recipe, of a partition that Dask has computed, or of the rows of another block."""
    if isinstance(source, bytes):
        recipe: Recipe = pickle.loads(source)
    else:
        recipe = HeldRows(source.data if isinstance(source, Block) else source)
    block = Block(i, recipe, pickle.loads(steps), hold=hold)
    if hold:
        block.data  # noqa: B018  read now, so that Dask measures the block with its rows
    return block


def _call(sent: bytes, block: Block, state: object, n_advances: int) -> Any:
    function, message = pickle.loads(sent)
    return called(function, block.with_state(state, n_advances), message)


def is_connected(client: Any) -> bool:
    """Whether a client has a scheduler to talk to."""
    return bool(client.status == "running")


def worker_addresses(client: Any, what: str) -> set[str]:
    """Addresses of the workers.

    Raises
    ------
    WorkerLostError
        If there is no scheduler to be asked for them.
    """
    try:
        if is_connected(client):
            return set(client.nthreads())
    except (OSError, AttributeError) as error:  # closed or lost between the two calls
        raise _disconnected(client, what) from error
    raise _disconnected(client, what)


def _disconnected(client: Any, what: str) -> WorkerLostError:
    closed = client.status in ("closed", "closing")
    why = "the Dask client is closed" if closed else "the Dask client has lost its scheduler"
    return WorkerLostError(
        f"{what} cannot go on: {why}. Start a cluster, connect a new client, and start again (a checkpoint stays: "
        "resume=True goes on from it)"
    )


_able: "weakref.WeakKeyDictionary[Any, set[str]]" = weakref.WeakKeyDictionary()
"""By client the addresses of the workers that can import widemargin."""


def _named(step: Step) -> str:
    return str(getattr(step.function, "__qualname__", type(step.function).__name__))


def dask_client(client: Any = None) -> Any:
    """The client given, or the current one.

    Raises
    ------
    MissingLibraryError
        If Dask is not installed.
    DataError
        If there is no client.
    """
    if client is not None:
        return client
    try:
        from distributed import get_client
    except ImportError as error:
        raise MissingLibraryError.of("Dask is not installed", "dask") from error
    try:
        return get_client()
    except ValueError as error:
        raise DataError("there is no Dask client. Make one: distributed.Client(...).") from error
