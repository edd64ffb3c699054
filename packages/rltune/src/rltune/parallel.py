"""Work spread over this process, its threads, several processes or a Ray cluster: the same results from each.

A function is sent once to every worker, however often it is mapped, so it may hold a whole trace; items are sent one by
one and should be small.
"""

from __future__ import annotations

import logging
import pickle
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

from rltune.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

DIED = (
    "a worker process died: for want of memory (try fewer workers), or because a script that compares with several "
    'workers does so outside `if __name__ == "__main__":`'
)
TRIES = 5  # of a Ray task whose worker died


class Spread(ABC):
    """A place to work. Use it in a `with` block."""

    @abstractmethod
    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Generator[tuple[int, Result]]:
        """Return the index and the result of every item, in the order in which they are done."""

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        done: Callable[[int], None] | None = None,
    ) -> list[Result]:
        """Return the results in the order of the items; `done` is told how many there are."""
        results: dict[int, Result] = {}
        with closing(self.each(function, items)) as made:
            for index, result in made:
                results[index] = result
                if done is not None:
                    done(len(results))
        return [results[index] for index in range(len(items))]

    def close(self) -> None:  # noqa: B027  most places hold something, this process does not
        """Let go of what was held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def spread_over(workers: int = 1, ray: str | None = None) -> Spread:
    """Work here, in several processes, or on the Ray cluster at an address."""
    if ray is not None:
        return Ray(ray)
    return Processes(workers) if workers > 1 else Here()


class Here(Spread):
    """One item after the other, in this process."""

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Generator[tuple[int, Result]]:
        """Call the function."""
        for index, item in enumerate(items):
            yield index, function(item)


class Threads(Spread):
    """Threads of this process: for functions that spend their time in compiled code without the interpreter's lock."""

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers)

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Generator[tuple[int, Result]]:
        """Call the function in the threads."""
        yield from _as_done(self._pool, function, dict(enumerate(items)))

    def close(self) -> None:
        """Wait for what runs."""
        self._pool.shutdown(cancel_futures=True)


class Processes(Spread):
    """Processes of this machine. If one is killed, what it had not finished is done again."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._folder = TemporaryDirectory(prefix="rltune-")
        self._sent: tuple[Any, Path] | None = None
        self._pool: ProcessPoolExecutor | None = None

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Generator[tuple[int, Result]]:
        """Call the function in the processes."""
        call = _Call(self._written(function))
        left = dict(enumerate(items))
        while left:
            before = len(left)
            try:
                for index, result in _as_done(self._started(), call, dict(left)):
                    del left[index]
                    yield index, result
            except BrokenProcessPool:
                self._stop()
                if len(left) == before:
                    raise InputError(DIED) from None

    def close(self) -> None:
        """Wait for what runs, and remove the files."""
        self._stop()
        self._folder.cleanup()

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Fresh processes: a copy of one that has started threads (polars, numba) may hang.
            self._pool = ProcessPoolExecutor(self._workers, get_context("spawn"), _ignore_interrupts)
        return self._pool

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def _written(self, function: Any) -> Path:
        """Send by file, not by argument: if a worker dies while it is sent much, its parent waits for ever."""
        if self._sent is None or self._sent[0] is not function:
            name = "function" if self._sent is None else f"{self._sent[1].name}+"
            path = Path(self._folder.name) / name
            path.write_bytes(pickle.dumps(function))
            self._sent = (function, path)
        return self._sent[1]


class _Call:
    """Calls a function that lies in a file, in a process that reads it once."""

    _read: tuple[Path, Callable[[Any], Any]] | None = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, item: Any) -> Any:
        known = _Call._read
        if known is None or known[0] != self._path:
            known = (self._path, pickle.loads(self._path.read_bytes()))  # noqa: S301  written by our parent
            _Call._read = known
        return known[1](item)


def _ignore_interrupts() -> None:
    # Ctrl-C is the parent's to hear: a worker that died while it sends a result would make the parent wait for ever.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _as_done(
    pool: Executor, function: Callable[[Item], Result], items: dict[int, Item]
) -> Generator[tuple[int, Result]]:
    futures: dict[Future[Result], int] = {pool.submit(function, item): index for index, item in items.items()}
    broken: BaseException | None = None
    try:
        for future in as_completed(futures):
            if isinstance(future.exception(), BrokenProcessPool):
                broken = future.exception()  # others may have been finished before
                continue
            yield futures[future], future.result()
        if broken is not None:
            raise broken
    finally:
        for future in futures:
            future.cancel()


class Ray(Spread):
    """An existing Ray cluster, on which this version of rltune is installed. Ray does again what a dead worker lost."""

    def __init__(self, address: str) -> None:
        self._ray = _connected(address)
        self._sent: tuple[Any, Any] | None = None
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self._in_flight = 2 * max(cpus, 1)  # enough that no worker waits; more would only fill the object store

    def each(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Generator[tuple[int, Result]]:
        """Call the function on the cluster."""
        task = self._ray.remote(num_cpus=1, max_retries=TRIES - 1, scheduling_strategy="SPREAD")(_call)
        function_ref = self._put(function)
        waiting = iter(enumerate(items))
        running: dict[Any, int] = {}
        try:
            while True:
                while len(running) < self._in_flight and (following := next(waiting, None)) is not None:
                    running[task.remote(function_ref, following[1])] = following[0]
                if not running:
                    return
                (ready,), _ = self._ray.wait(list(running), num_returns=1)
                yield running.pop(ready), self._result(ready)
        finally:
            for ref in running:
                with suppress(Exception):  # what is given up may have failed as well
                    self._ray.cancel(ref)

    def close(self) -> None:
        """Leave the cluster as it is."""
        self._ray.shutdown()

    def _put(self, function: Any) -> Any:
        if self._sent is None or self._sent[0] is not function:
            self._sent = (function, self._ray.put(function))
        return self._sent[1]

    def _result(self, ref: Any) -> Any:
        from ray.exceptions import RayError, RayTaskError

        try:
            return self._ray.get(ref)
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            first = str(error).strip().partition("\n")[0]
            raise InputError(f"Ray gave a task up after {TRIES} tries: {first}") from None


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    return function(item)


def _connected(address: str) -> Any:
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: pip install 'rltune[ray]'") from None
    _require_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"no Ray cluster at {address!r}: {first}") from None
    return ray


def _require_reachable(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if address == "auto":
        return
    if not host or not port.isdecimal():
        raise InputError(f"--ray {address!r}: give host:port of the cluster's head, or auto")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"no Ray cluster at {address!r}: {error}") from None
