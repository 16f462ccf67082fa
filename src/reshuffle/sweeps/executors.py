"""Who does the work: this process, processes of joblib on this machine, or the workers of a Dask cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from reshuffle import _arrays
from reshuffle._linalg import one_thread

Task = tuple[Any, ...]
"""The arguments of a function; what an executor was given to `share` or to `hold` may stand among them."""


class Executor(Protocol):
    """What a sweep asks of those who work for it."""

    losses: tuple[type[BaseException], ...]
    """What is raised where data are lost that were shared, so that work must begin anew."""

    def share(self, value: Any) -> Any:
        """Hand over what many tasks need, once; what is returned stands for it in tasks."""

    def hold(self, function: Callable[..., Any], tasks: Sequence[Task]) -> list[Any]:
        """function(*task) for every task, kept where it was made: for tasks to come."""

    def compute(self, function: Callable[..., Any], tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """function(*task) for every task with its number, as they are ready."""


class ThisProcess:
    """One after the other."""

    losses: tuple[type[BaseException], ...] = ()

    def share(self, value: Any) -> Any:
        """The value itself."""
        return value

    def hold(self, function: Callable[..., Any], tasks: Sequence[Task]) -> list[Any]:
        """The results."""
        return [function(*task) for task in tasks]

    def compute(self, function: Callable[..., Any], tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """In the order of the tasks."""
        for number, task in enumerate(tasks):
            yield number, function(*task)


class JoblibProcesses:
    """Processes of joblib, each with its share of the cores for its BLAS."""

    losses: tuple[type[BaseException], ...] = ()

    def __init__(self, jobs: int):
        self.jobs = jobs
        self._joblib = required("joblib", "sweep")

    def share(self, value: Any) -> Any:
        """The value itself: joblib puts its large arrays where all processes can read them."""
        return value

    def hold(self, function: Callable[..., Any], tasks: Sequence[Task]) -> list[Any]:
        """The results; a single one is made here, since it would be brought here anyway."""
        if len(tasks) == 1:
            return [function(*tasks[0])]
        return [result for _, result in sorted(self.compute(function, tasks), key=lambda pair: pair[0])]

    def compute(self, function: Callable[..., Any], tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """As they are ready."""
        threads = max(1, (os.cpu_count() or 1) // self.jobs)
        with self._joblib.parallel_config("loky", n_jobs=self.jobs, inner_max_num_threads=threads):
            parallel = self._joblib.Parallel(return_as="generator_unordered")
        yield from parallel(
            self._joblib.delayed(_numbered)(number, function, task) for number, task in enumerate(tasks)
        )


def _numbered(number: int, function: Callable[..., Any], task: Task) -> tuple[int, Any]:
    return number, function(*task)


class DaskWorkers:
    """The workers of a Dask cluster; what a worker had that died is done again by others."""

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
        self._client = client
        self.losses: tuple[type[BaseException], ...] = (
            self._distributed.CancelledError,
            self._distributed.client.FutureCancelledError,
        )

    def share(self, value: Any) -> Any:
        """A future of the value, which every worker has a copy of."""
        return self._client.scatter(value, broadcast=True, hash=False)

    def hold(self, function: Callable[..., Any], tasks: Sequence[Task]) -> list[Any]:
        """Futures of the results, which stay on the workers."""
        return [self._client.submit(_on_one_thread, function, task, pure=False) for task in tasks]

    def compute(self, function: Callable[..., Any], tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """As they are ready, some at a time; those left when nobody waits for them any more are cancelled."""
        together = max(1, len(tasks) // (_ROUNDS * max(1, len(self._client.nthreads()))))
        starts = range(0, len(tasks), together)
        parts = [(function, list(tasks[start : start + together])) for start in starts]
        futures = dict(zip(self.hold(_each, parts), starts, strict=True))
        with self._client.as_current():
            ready = self._distributed.as_completed(list(futures), with_results=True)
        try:
            for future, results in ready:
                if isinstance(results, self.losses):
                    raise results
                yield from enumerate(results, futures.pop(future))
        finally:
            if futures:
                with suppress(Exception):
                    self._client.cancel(list(futures), force=True)


_ROUNDS = 16
"""How many parts of the work each worker is given: a part costs the scheduler some milliseconds, whatever it is."""


def _each(function: Callable[..., Any], tasks: Sequence[Task]) -> list[Any]:
    return [function(*task) for task in tasks]


def _on_one_thread(function: Callable[..., Any], task: Task) -> Any:
    # Dask counts a task as one busy thread of its worker.
    with one_thread():
        return function(*task)


def executor(n_jobs: Any, client: Any) -> Executor:
    """Choose between them; n_jobs = -1 stands for all cores."""
    if client is not None:
        if n_jobs != 1:
            raise TypeError(
                f"n_jobs must be left out with client, whose workers do the work, but it is {n_jobs!r}."
            )
        return DaskWorkers(client)
    jobs = _arrays.whole_number("n_jobs", n_jobs, -1, hint="-1 stands for all cores.")
    if jobs == 0:
        raise ValueError("n_jobs must be a whole number of at least 1, or -1 for all cores, but it is 0.")
    jobs = (os.cpu_count() or 1) if jobs == -1 else jobs
    return ThisProcess() if jobs == 1 else JoblibProcesses(jobs)


def required(module: str, extra: str) -> Any:
    """Import what may not be installed, or say how to install it."""
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"sweeps need {module}, which is not installed: pip install 'reshuffle[{extra}]'."
        ) from None
