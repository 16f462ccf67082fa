"""Executors of a grid: this process, processes of joblib, or the workers of Dask."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from reshuffle import _arrays
from reshuffle._linalg import one_thread
from reshuffle.errors import ArgumentError

Function = Callable[..., Iterator[Any]]
Part = tuple[int, list[Any]]
"""The number of a data set, and what is to be computed with it."""
_ROUNDS = 16
"""Parts of the work for each worker: a part costs the scheduler of Dask some milliseconds, whatever it is."""
_PATIENCE = 60
"""Seconds until a worker that died has been replaced, at most."""


class Here:
    """Computes one part after the other, in this process."""

    losses: tuple[type[BaseException], ...] = ()
    """Exceptions that tell that shared data are lost, so that the work must begin anew."""
    workers = 1

    def compute(self, function: Function, data: Sequence[Any], parts: Sequence[Part]) -> Iterator[Any]:
        """Everything that function(data[number], items) yields for every part (number, items), as it is ready."""
        for number, items in parts:
            yield from function(data[number], items)


class Processes(Here):
    """Processes of joblib on this machine, each with its share of the cores for its BLAS."""

    def __init__(self, jobs: int):
        self.workers, self._joblib = jobs, required("joblib", "sweep")

    def compute(self, function: Function, data: Sequence[Any], parts: Sequence[Part]) -> Iterator[Any]:
        """Compute parts in any order; joblib puts large arrays where all processes can read them."""
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        with self._joblib.parallel_config("loky", n_jobs=self.workers, inner_max_num_threads=threads):
            parallel = self._joblib.Parallel(return_as="generator_unordered")
        call = self._joblib.delayed(_listed)
        for found in parallel(call(function, data[number], items) for number, items in parts):
            yield from found


class DaskWorkers(Here):
    """The workers of a Dask cluster; the tasks of a worker that dies are done again by others."""

    def __init__(self, client: Any):
        self._distributed = required("distributed", "dask")
        if not isinstance(client, self._distributed.Client):
            raise TypeError(f"client must be a distributed.Client, but it is a {type(client).__name__}.")
        if client.asynchronous:
            raise TypeError("client must be a synchronous distributed.Client, but it is asynchronous.")
        if client.status != "running":
            raise ConnectionError(
                f"client must be connected to a scheduler, but it is {client.status}; make a new Client."
            )
        self._client, self.workers = client, max(1, len(client.nthreads()))
        self.losses = (self._distributed.CancelledError, self._distributed.client.FutureCancelledError)

    def compute(self, function: Function, data: Sequence[Any], parts: Sequence[Part]) -> Iterator[Any]:
        """Compute parts in any order; tasks that nobody waits for any more are cancelled."""
        client = self._client
        try:
            # Workers that died are replaced, but not at once; and the scheduler may take dead ones for living.
            client.wait_for_workers(1, timeout=_PATIENCE)
            used = {number: client.scatter(data[number], broadcast=True, hash=False) for number, _ in parts}
        except (ValueError, TimeoutError) as failure:
            raise self.losses[0]("all workers were lost while data were sent to them") from failure
        pending = {
            client.submit(_on_one_thread, function, used[number], items, pure=False)
            for number, items in parts
        }
        with client.as_current():
            ready = self._distributed.as_completed(list(pending), with_results=True)
        try:
            for future, results in ready:
                if isinstance(results, self.losses):
                    raise results
                pending.discard(future)
                yield from results
        finally:
            if pending:
                with suppress(Exception):
                    client.cancel(list(pending), force=True)


def _listed(function: Function, data: Any, items: list[Any]) -> list[Any]:
    return list(function(data, items))


def _on_one_thread(function: Function, data: Any, items: list[Any]) -> list[Any]:
    # Dask counts a task as one busy thread of its worker.
    with one_thread():
        return list(function(data, items))


def chosen(n_jobs: Any, client: Any) -> Here:
    """Choose between this process, n_jobs others, and the workers of a client; -1 means all cores."""
    if client is not None:
        if n_jobs != 1:
            raise TypeError(
                f"n_jobs must be left out with client, whose workers do the work, but it is {n_jobs!r}."
            )
        return DaskWorkers(client)
    jobs = _arrays.whole_number("n_jobs", n_jobs, -1, hint="-1 stands for all cores.")
    if jobs == 0:
        raise ArgumentError("n_jobs", "be a whole number of at least 1, or -1 for all cores", "it is 0")
    jobs = (os.cpu_count() or 1) if jobs == -1 else jobs
    return Here() if jobs == 1 else Processes(jobs)


def split(families: Sequence[Part], workers: int) -> list[Part]:
    """Cut families of items that share work into a part per worker, and gather single items into parts.

    >>> split([(0, [1, 2, 3]), (1, [4])], 1)
    [(0, [1, 2, 3]), (1, [4])]
    >>> split([(0, [1, 2, 3]), (1, [4])], 2)
    [(0, [1, 2]), (0, [3]), (1, [4])]
    """
    alone: dict[int, list[Any]] = {}
    gathered = []
    for number, items in families:
        if len(items) == 1:
            alone.setdefault(number, []).extend(items)
        else:
            gathered.append((number, items, workers))
    gathered += [(number, items, _ROUNDS * workers) for number, items in alone.items()]
    parts = []
    for number, items, count in gathered:
        size = -(-len(items) // count)
        parts += [(number, items[start : start + size]) for start in range(0, len(items), size)]
    return parts


def required(module: str, extra: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"sweeps need {module}, which is not installed: pip install 'reshuffle[{extra}]'."
        ) from None
