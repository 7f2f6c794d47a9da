"""Executors: where a study's jobs run. Asyncio in this process, or worker processes for work that keeps a CPU busy.

An executor takes jobs from an iterator as it gets room, so a plan of any length costs no memory, and hands each
finished episode on at once: nothing waits for a slow sibling.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import current_process
from typing import Any, Protocol

import msgspec

from palestra.core.budget import Account
from palestra.core.errors import BadInput, BudgetExceeded
from palestra.core.records import Episode
from palestra.runner.study import Job, Study
from palestra.store.codec import decode, encode, plain

Save = Callable[[Episode], Awaitable[None]]
TURN = 0.002  # seconds of episodes that never wait, before the event loop gets a turn
WORKER_DEATHS = 2  # a job whose worker died this often has failed
WORKER_STARTS = 3  # a worker that died this often before it played has something in its way
GUARD = "a script that starts its study below `if __name__ == '__main__':`, so that workers can import it"
GRACE = 1.0  # seconds an episode may take to end by itself once its time is up


class Executor(Protocol):
    """Runs jobs. `run` returns when all jobs it took are saved; it takes no more once `stopping` is set."""

    async def run(
        self, study: Study, jobs: Iterator[Job], *, account: Account, save: Save, stopping: asyncio.Event
    ) -> None: ...


class Local:
    """Runs up to `concurrency` episodes at a time in this process's event loop.

    Workers are started only as they are needed: another one when all there are wait for something. Episodes that never
    wait are then played by two workers whatever the concurrency, instead of by thousands that take turns.
    """

    def __init__(self, concurrency: int = 32) -> None:
        if concurrency < 1:
            raise BadInput("concurrency", concurrency, "at least 1")
        self.concurrency = concurrency

    async def run(
        self, study: Study, jobs: Iterator[Job], *, account: Account, save: Save, stopping: asyncio.Event
    ) -> None:
        """See `Executor`."""
        workers = playing = 0
        spent: list[BudgetExceeded] = []
        clock = asyncio.get_running_loop().time
        turn_ends = clock() + TURN

        async def work() -> None:
            nonlocal workers, playing, turn_ends
            for job in jobs:
                if stopping.is_set():
                    return
                playing += 1
                if playing == workers < self.concurrency:
                    workers += 1
                    group.create_task(work())
                try:
                    account.check()
                    episode = await study.play(job, account)
                except BudgetExceeded as error:  # siblings go on: those that need no further call still finish
                    spent.append(error)
                    stopping.set()
                    return
                finally:
                    playing -= 1
                await save(episode)
                if clock() >= turn_ends:  # episodes that never wait must not starve the others
                    await asyncio.sleep(0)
                    turn_ends = clock() + TURN

        try:
            async with asyncio.TaskGroup() as group:
                workers = 1
                group.create_task(work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        if spent:
            raise spent[0]


class Processes:
    """Runs one episode at a time in each of `workers` processes, for environments and agents that compute.

    The agents and tasks of the study must be picklable. A worker that dies, or sits in one episode for longer than the
    episode's wall limit, is killed and replaced. Limits on calls, tokens and dollars of the whole study are checked
    between episodes.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise BadInput("processes", workers, "at least 1")
        self.workers = workers or os.cpu_count() or 1
        if getattr(current_process(), "_inheriting", False):  # we are a worker that imports its parent's script
            raise BadInput("processes", self.workers, GUARD)

    async def run(
        self, study: Study, jobs: Iterator[Job], *, account: Account, save: Save, stopping: asyncio.Event
    ) -> None:
        """See `Executor`.

        Raises:
            BadInput: the study's agents or tasks cannot be sent to another process, or no process starts.
        """
        try:
            sent = pickle.dumps(study)
        except Exception as error:
            raise BadInput("processes", self.workers, f"agents and tasks that can be pickled ({error})") from error
        spent: list[BudgetExceeded] = []

        async def work() -> None:
            worker = _Worker(sent)
            try:
                for job in jobs:
                    if stopping.is_set():
                        return
                    try:
                        account.check()
                        episode = await _play_in(worker, study, job, account)
                    except BudgetExceeded as error:  # siblings go on
                        spent.append(error)
                        stopping.set()
                        return
                    account.add(episode.usage)
                    await save(episode)
            finally:
                await asyncio.to_thread(worker.stop)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.workers, len(study))):
                    group.create_task(work())
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        if spent:
            raise spent[0]


class _Worker:
    """One worker process. It has a pool to itself, so that its death at any moment is noticed and harms no other."""

    def __init__(self, sent: bytes) -> None:
        self._sent = sent
        self._pool: Any = None

    async def run(self, job: Job, *, seconds: float | None) -> Episode:
        """The episode of `job`, in a process that was started for it if need be.

        Raises:
            TimeoutError: no end after `seconds`.
            ProcessExpired: the process died while it played.
            BrokenProcessPool: it died before.
        """
        import multiprocessing

        from pebble import ProcessPool

        if self._pool is not None and not self._pool.active:
            await asyncio.to_thread(self.stop)
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # forking a process that runs threads is unsafe
            self._pool = ProcessPool(1, initializer=_begin, initargs=(self._sent,), context=context)
        try:
            future = self._pool.schedule(_play, args=(job,), timeout=seconds)
        except RuntimeError as error:  # it died just now
            raise BrokenProcessPool(str(error)) from None
        return _unpacked(await asyncio.wrap_future(future))

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._pool is not None:
            self._pool.stop()
            self._pool.join()
            self._pool = None


async def _play_in(worker: _Worker, study: Study, job: Job, account: Account) -> Episode:
    """Play `job` in `worker`: again when the process dies, unless it does so each time."""
    from pebble import ProcessExpired

    limit, deaths, starts = study.longest(), 0, 0
    while True:
        left = account.seconds_left()
        seconds = limit if left is None else left if limit is None else min(left, limit)
        try:
            return await worker.run(job, seconds=None if seconds is None else max(seconds, 0.0) + GRACE)
        except TimeoutError:
            account.check()
            return _lost(study, job, "timeout", f"no end after {seconds or 0.0:.3g} s; the worker was stopped")
        except ProcessExpired as error:
            deaths += 1
            if deaths == WORKER_DEATHS:
                code = getattr(error, "exitcode", None)
                return _lost(study, job, "error", f"its worker process died {deaths} times (exit code {code})")
        except BrokenProcessPool:
            starts += 1
            if starts == WORKER_STARTS:
                raise BadInput("processes", study.name, GUARD) from None
        except BadInput:
            raise
        except Exception as error:
            return _lost(study, job, "error", f"{type(error).__name__}: {error}")


def _lost(study: Study, job: Job, reason: str, error: str) -> Episode:
    return Episode(
        study=study.name,
        index=job.index,
        agent=job.agent,
        task=study.tasks[job.task].id,
        seed=job.seed,
        status="failed",
        reason=reason,
        error=error,
    )


_sent = b""
_study: Study | None = None


def _begin(sent: bytes) -> None:
    """Receive the study in a new worker; unpacked with the first job, whose failure then says what is wrong."""
    global _sent
    _sent = sent


def _play(job: Job) -> bytes | str:
    global _study
    if _study is None:
        try:
            _study = pickle.loads(_sent)
        except Exception as error:
            reason = f"agents and tasks that another process can import ({type(error).__name__}: {error})"
            raise BadInput("processes", "study", reason) from None
    assert _study is not None
    return _packed(asyncio.run(_study.play(job, Account("worker"))))


def _packed(episode: Episode) -> bytes | str:
    try:
        return msgspec.msgpack.encode(episode, enc_hook=plain)
    except (OverflowError, UnicodeEncodeError):  # JSON as the store writes it holds what msgpack cannot
        return encode(episode)


def _unpacked(packed: bytes | str) -> Episode:
    return msgspec.msgpack.decode(packed, type=Episode) if isinstance(packed, bytes) else decode(packed, Episode)
