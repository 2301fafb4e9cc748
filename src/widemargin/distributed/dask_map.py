"""Blocks on the workers of a Dask cluster.

Blocks, their states after every advance and the results of every call are tasks of the scheduler that depend on nothing
but other tasks and pickled values. So Dask itself computes them again when a worker is lost: blocks from their recipes,
states from the messages sent so far. Tasks that Dask gives up are submitted again from here: those that too many
workers died on, and blocks of rows in memory. These rows are sent straight to a worker, which takes an eighth of the
time that they take through the scheduler, but leaves Dask nothing to compute them from.

A task costs some milliseconds, whatever it does. Blocks that hold their rows stay where they are, so each thread of the
cluster gets one bundle of neighbouring blocks. Once these are made, a call is no task at all: every worker is asked for
the results of its bundles, which takes a sixth of the time of a task. Where one is not there, because its worker was
lost, or anything else goes wrong, the call is made once more, as one task a bundle. Blocks that are read at every call
make bundles of one, which any worker that is free may take.
"""

import asyncio
import copy
import logging
import pickle
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from importlib.util import find_spec
from itertools import groupby, repeat
from typing import Any

from widemargin.distributed.backends import SerialMap, called
from widemargin.distributed.blocks import FAN_IN, Block, BlockFunction, Step, bytes_of, combined, filled_blocks, summed
from widemargin.distributed.recipes import FramePartition, HeldRows, Recipe
from widemargin.exceptions import DataError, MissingLibraryError, WidemarginError, WorkerLostError

Summands = list[tuple[int, Any]]
"""Results of blocks, or sums of them, each with the number of its first block."""

_LOST = ("cancelled", "error", "lost")
"""States of a task that has no result any more. A task that killed too many workers is in the state "error", too."""

logger = logging.getLogger(__name__)


class DaskMap:
    """Blocks on the workers of a Dask cluster; they stay there from call to call.

    Parameters
    ----------
    recipes : sequence of Recipe
        How the rows of every block are read. Files must be readable by the workers under the same path. Rows in memory
        (`ArrayRows`) are sent to the workers, or through the scheduler, which then holds a copy, if this process cannot
        connect to them; for workers on this machine `spool` avoids both.
    client : distributed.Client, default=None
        None: the current client.
    hold : bool, default=True
        As in `SerialMap`.
    patience : float, default=300
        Seconds to wait for a worker when there is none.
    attempts : int, default=5
        How often a call is tried if its workers are lost.

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
        self._direct: bool | None = None  # whether rows can be sent straight to a worker; None: nobody has tried
        self._patience, self._attempts = patience, attempts
        self._take(recipes, (), hold)

    def _take(
        self, recipes: Sequence[Recipe], steps: Sequence[Step], hold: bool, source: "DaskMap | None" = None
    ) -> None:
        self._recipes, self._steps, self._hold, self._source = list(recipes), tuple(steps), hold, source
        if not self._recipes:
            raise DataError("there are no blocks. Give one recipe at least.")
        self._log: list[Step] = []
        n_bundles = min(self.n_blocks, sum(self._client.nthreads().values()) or 1) if hold else self.n_blocks
        ends = [self.n_blocks * (k + 1) // n_bundles for k in range(n_bundles)]
        # Rows that are held stay in their bundles, whatever workers there are by now.
        self._bundles: list[range] = source._bundles if source else list(map(range, [0, *ends], ends))
        self._blocks: list[Any] = [None] * len(self._bundles)
        self._states: list[Any] = [None] * len(self._bundles)

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self._recipes)

    def map(self, function: BlockFunction, message: object = None) -> list[Any]:
        """See `BlockMap`."""
        step = Step(function, message)
        parts = self._sure(lambda: self._calls(step), step, gather=True, ask=_call if self._hold else None)
        return [result for results in parts for result in results]

    def stream(self, function: BlockFunction, message: object = None) -> Iterator[Any]:
        """See `BlockMap`; if the caller stops early, the remaining tasks are cancelled."""
        step = Step(function, message)
        waiting = dict(enumerate(self._calls(step)))
        try:
            for k in range(len(self._bundles)):
                # `_sure` calls this again after a loss; the task of the first try is gone then, and a new one is made.
                def one(k: int = k) -> list[Any]:
                    return [waiting.pop(k)] if k in waiting else self._calls(step, bundles=[k])

                yield from self._sure(one, step, gather=True)[0]
        finally:
            if is_connected(self._client):
                self._client.cancel(list(waiting.values()))

    def sum(self, function: BlockFunction, message: object = None) -> Any:
        """See `BlockMap`; each bundle is added up where it is, and from five bundles on the workers add these sums."""
        step = Step(function, message)

        def tree() -> list[Any]:
            level = self._calls(step, _call_and_add)
            while len(level) > 4:  # transferring so few sums takes less time than one more task
                runs = [level[first : first + FAN_IN] for first in range(0, len(level), FAN_IN)]
                level = self._submit("sum", _merged, runs)
            return level

        # The sums of many bundles are added by the workers, so that not all of them are sent here.
        ask = _call_and_add if self._hold and len(self._bundles) <= FAN_IN else None
        return summed(value for _, value in _merged(self._sure(tree, step, gather=True, ask=ask)))

    def advance(self, function: BlockFunction, message: object = None, *, restart: bool = False) -> None:
        """See `BlockMap`."""
        step = Step(function, message)
        if restart:
            self._log, self._states = [], [None] * len(self._bundles)
        self._states = self._sure(lambda: self._calls(step), step, gather=False)
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
        other, number = copy.copy(self), {i: n for n, i in enumerate(filled)}
        other._take([self._recipes[i] for i in filled], self._steps, self._hold)
        if self._hold:
            numbers = [[number[i] for i in held if i in number] for held in self._bundles]
            kept = [k for k, some in enumerate(numbers) if some]
            other._bundles = [range(numbers[k][0], numbers[k][-1] + 1) for k in kept]
            other._blocks = self._submit("block", _numbered, map(self._held, kept), repeat(number))
            other._states = [None] * len(kept)
        return other

    def close(self) -> None:
        """See `BlockMap`: Dask frees tasks that no future refers to."""
        self._blocks = [None] * len(self._bundles)
        self._states = [None] * len(self._bundles)

    def _calls(
        self, step: Step, how: Callable[..., Any] | None = None, bundles: Sequence[int] | None = None
    ) -> list[Any]:
        """One task a bundle; None: the results of all blocks, of all bundles."""
        chosen = range(len(self._bundles)) if bundles is None else bundles
        # Each bundle is made right before its call, so that workers begin while the rest is still being sent.
        of_bundles = map(self._held, chosen), map(self._state, chosen)
        return self._submit("call", how or _call, repeat(self._sent(step)), *of_bundles, repeat(len(self._log)))

    def _held(self, k: int) -> Any:
        """The task that makes the blocks of bundle k."""
        if self._blocks[k] is None:
            held, sources = self._bundles[k], list[Any]()
            steps = _packed(self._steps if self._source is None else self._steps[-1:])
            if self._source is None:
                for recipe in self._recipes[held.start : held.stop]:
                    if isinstance(recipe, FramePartition):
                        sources.append(self._client.compute(recipe.delayed))
                    else:
                        sources.append(self._placed(_packed(recipe), k))
            else:  # a prepared map: its last step is applied to rows that a worker holds already
                sources.append(self._source._held(k))
            self._blocks[k] = self._submit("block", _built, [held.start], [sources], [steps], [self._hold])[0]
        return self._blocks[k]

    def _placed(self, packed: bytes, k: int) -> Any:
        """A pickled recipe; if it is so large that it holds rows, it is in the memory of the worker of bundle k."""
        if len(packed) < 1_000_000 or self._direct is False:
            return packed
        threads = [address for address, n in sorted(self._client.nthreads().items()) for _ in range(n)]
        if not threads:
            return packed  # as a part of the task, which waits for a worker
        worker = threads[k % len(threads)]
        if self._direct is None:
            self._direct = _connects(self._client, worker)
        return self._client.scatter(packed, workers=[worker], direct=True, hash=False) if self._direct else packed

    def _state(self, k: int) -> Any:
        """The task that computes the states of bundle k; after a loss, a chain of tasks from the first advance on."""
        if self._states[k] is None:
            for n, step in enumerate(self._log):
                values = [self._sent(step)], [self._held(k)], [self._states[k]], [n]
                self._states[k] = self._submit("state", _call, *values)[0]
        return self._states[k]

    def _sent(self, step: Step) -> Any:
        """A function and its message as the workers get them: pickled, or as a task if they are large."""
        packed = _packed(step)
        # Bytes are sent again with the call of every bundle. From about 20,000 bytes on one task that holds them, whose
        # result the workers pass to each other, is cheaper than that.
        return packed if len(packed) < 20_000 else self._submit("message", bytes, [packed])[0]

    def _submit(self, name: str, function: Callable[..., Any], *values: Iterable[object]) -> list[Any]:
        """A task for the first of all values, one for the second, and so on, until some values end."""
        # Recipes of rows in memory are large by design, see the parameter `recipes`.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*Sending large graph", category=UserWarning)
            try:
                # Keys are new each time: to Dask an equal key means the same task, whose old result it would return.
                # `Client.map` would send all tasks at once, but spends ten times as long on names for their arguments.
                return [
                    self._client.submit(function, *arguments, key=f"widemargin-{name}-{uuid.uuid4().hex}")
                    for arguments in zip(*values, strict=False)
                ]
            except Exception as error:
                if is_connected(self._client):
                    raise
                raise _disconnected(self._client, f"a {name}") from error

    def _answers(self, step: Step, how: Callable[..., Any]) -> list[Any] | None:
        """What the workers that hold the bundles answer, by bundle; None where one has no answer."""
        needed = [*self._blocks, *(self._states if self._log else ())]
        if not all(task is not None and task.status == "finished" for task in needed):
            return None
        states = [state.key for state in self._states] if self._log else repeat(None)
        keys = list(zip([block.key for block in self._blocks], states, strict=False))
        try:
            found = self._client.run(_answered, how, _packed(step), keys, len(self._log))
        except Exception as error:  # as a task it says what is wrong, or does not fail
            logger.debug("no answer to %s: %s", _named(step), error)
            return None
        answers = {k: answer for some in found.values() for k, answer in some}
        return [answers[k] for k in range(len(keys))] if len(answers) == len(keys) else None

    def _sure(
        self, make: Callable[[], list[Any]], step: Step, *, gather: bool, ask: Callable[..., Any] | None = None
    ) -> list[Any]:
        """What the workers answer when they are asked by `ask`; else results (or finished tasks) of the tasks that
        `make` submits; where workers are lost, blocks are rebuilt and `make` is called again.

        Raises
        ------
        WorkerLostError
            If that has to be done too often, or there is no scheduler any more.
        """
        from distributed.scheduler import KilledWorker

        if ask is not None and (answers := self._answers(step, ask)) is not None:
            return answers
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
                logger.warning(
                    "Dask gave up a task (%s); building %d of %d bundles again", error, lost, len(self._blocks)
                )
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
        """Drop the tasks of lost bundles, so that they are submitted again; returns how many these are."""
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


def _built(first: int, sources: Sequence[object], steps: bytes, hold: bool) -> list[Block]:
    """The blocks from number `first` on: of pickled recipes, of partitions that Dask has computed, or of the rows of
    other blocks."""
    if isinstance(sources[0], list):
        sources = [block.data for block in sources[0]]
    made = []
    for i, source in enumerate(sources, first):
        recipe: Recipe = pickle.loads(source) if isinstance(source, bytes) else HeldRows(source)
        block = Block(i, recipe, pickle.loads(steps), hold=hold)
        if hold:
            block.data  # noqa: B018  read now, so that Dask measures the blocks with their rows
        made.append(block)
    return made


def _numbered(blocks: Sequence[Block], number: Mapping[int, int]) -> list[Block]:
    return [block.numbered(number[block.index]) for block in blocks if block.index in number]


def _call(sent: bytes, blocks: Sequence[Block], states: Sequence[object] | None, n_advances: int) -> list[Any]:
    function, message = pickle.loads(sent)
    before = [None] * len(blocks) if states is None else states
    return [
        called(function, block.with_state(state, n_advances), message)
        for block, state in zip(blocks, before, strict=True)
    ]


async def _answered(
    how: Callable[..., Any], sent: bytes, keys: Sequence[tuple[str, str | None]], n_advances: int, dask_worker: Any
) -> list[tuple[int, Any]]:
    """Run by a worker: numbers and results of those bundles that it holds, computed in its threads."""
    data, loop = dask_worker.data, asyncio.get_running_loop()
    here = [
        (k, data[block], None if state is None else data[state])
        for k, (block, state) in enumerate(keys)
        if block in data and (state is None or state in data)
    ]
    threads = dask_worker.executors["default"]
    calls = [loop.run_in_executor(threads, how, sent, blocks, states, n_advances) for _, blocks, states in here]
    return [(k, result) for (k, *_), result in zip(here, await asyncio.gather(*calls), strict=True)]


def _call_and_add(sent: bytes, blocks: Sequence[Block], states: Sequence[object] | None, n_advances: int) -> Summands:
    results = _call(sent, blocks, states, n_advances)
    return _merged([[(block.index, result) for block, result in zip(blocks, results, strict=True)]])


def _merged(parts: Sequence[Summands]) -> Summands:
    """Summands one after the other, of which those of a run are added up where its first one is among them.

    Others wait for the summands before them, so that what is added in several places is added in one order.
    """
    merged: Summands = []
    for run, members in groupby((one for part in parts for one in part), lambda one: one[0] // FAN_IN):
        summands = list(members)
        from_its_start = summands[0][0] == run * FAN_IN
        merged += [(summands[0][0], combined([value for _, value in summands]))] if from_its_start else summands
    return merged


def _connects(client: Any, address: str) -> bool:
    """Whether this process can talk to a worker without the scheduler, which a firewall may prevent."""

    async def connected() -> None:
        client.rpc.reuse(address, await client.rpc.connect(address, timeout=2))

    try:
        client.sync(connected)
    except OSError:
        return False
    return True


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
