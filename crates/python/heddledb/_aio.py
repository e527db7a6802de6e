"""Transactions for asyncio.

An open transaction has a thread of its database's pool from its beginning to its end, and a transaction that waits for a
thread holds nothing: so transactions that wait for locks never keep those that hold the locks from going on, however many
wait. A transaction ends with its commit; the wait until that is durable has no thread: the extension watches all commits of an
event loop, and tells the loop by a descriptor which of them are. The result of a statement reaches its loop by
``call_soon_threadsafe``, in the thread of the transaction: the engine's threads never call Python.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import queue
import random
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Iterable, Optional, Tuple, TypeVar, Union

from . import _errors as errors
from . import _heddledb
from ._connection import Connection, Cursor
from ._placeholders import Parameters

if TYPE_CHECKING:
    from ._database import Database, Transaction

T = TypeVar("T")
_Work = Tuple["Future[Any]", Callable[[], Any]]


class _Commits:
    """The commits that the coroutines of one event loop wait for."""

    #: Each loop's; an entry goes with its loop.
    _of_loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Commits]" = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # It must not keep the loop: the loop keeps it.
        self._commits = _heddledb.Commits()
        self._waiting: "dict[int, asyncio.Future[None]]" = {}
        self._numbers = itertools.count()
        loop.add_reader(self._commits.fileno(), self._take)

    @classmethod
    def of_this_loop(cls) -> "_Commits":
        loop = asyncio.get_running_loop()
        found = cls._of_loops.get(loop)
        if found is None:
            found = cls._of_loops[loop] = cls(loop)
        return found

    def commit(self) -> "_Commit":
        """A commit to come, of a transaction of this loop."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        return _Commit(self, number)

    def _take(self) -> None:
        for number, error in self._commits.take():
            future = self._waiting.get(number)
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


class _Commit:
    """One commit: made in a thread, waited for in the loop."""

    def __init__(self, commits: _Commits, number: int) -> None:
        self._commits = commits
        self._number = number
        self._is_pending = False

    def make(self, connection: Connection) -> None:
        """Commits; in the transaction's thread."""
        self._is_pending = connection._commit_early(self._commits._commits, self._number)

    async def durable(self) -> None:
        """Waits until it is durable."""
        if self._is_pending:
            await self._commits._waiting[self._number]

    def forget(self) -> None:
        self._commits._waiting.pop(self._number, None)


class AsyncTransaction:
    """A transaction of a coroutine: ``async with db.atransaction() as tx: await tx.execute(…)``.

    It commits at the end of the block, and rolls back if the block raises or is cancelled. Do not wait inside of it for
    another transaction of the same database: all threads may be taken by transactions that do.
    """

    def __init__(self, database: "Database", read_only: bool) -> None:
        self._database = database
        self._begin = "begin read only" if read_only else "begin"
        self._work: "queue.SimpleQueue[Optional[_Work]]" = queue.SimpleQueue()
        self._connection: Optional[Connection] = None
        self._thread: Optional["Future[None]"] = None

    async def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """As ``Cursor.execute``: the cursor has all rows, so that fetching them does not wait."""
        return await self._do(lambda connection: connection.execute(operation, parameters))

    async def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """As ``Cursor.executemany``."""
        return await self._do(lambda connection: connection.executemany(operation, seq_of_parameters))

    async def _do(self, call: Callable[[Connection], T]) -> T:
        connection = self._connection
        if connection is None:
            raise errors.InterfaceError("the transaction is not open")
        return await self._wait(connection, lambda: call(connection))

    async def _wait(self, connection: Connection, call: Callable[[], T]) -> T:
        """Runs this in the transaction's thread; a coroutine that is cancelled cancels the statement, and waits for its end."""
        done: "Future[T]" = Future()
        self._work.put((done, call))
        waiter = asyncio.wrap_future(done)
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            while not waiter.done():
                connection.cancel()
                await asyncio.wait([waiter], timeout=0.01)
            waiter.exception()
            raise

    async def __aenter__(self) -> "AsyncTransaction":
        opened: "Future[Connection]" = Future()
        self._thread = self._database._threads().submit(self._serve, opened)
        waiter = asyncio.wrap_future(opened)
        try:
            self._connection = await asyncio.shield(waiter)
        except asyncio.CancelledError:
            self._work.put(None)
            self._thread.cancel()
            raise
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None and self._thread is not None
        commit = _Commits.of_this_loop().commit()
        try:
            try:
                if kind is None:
                    made = connection
                    await self._wait(connection, lambda: commit.make(made))
            finally:
                self._work.put(None)
                await asyncio.wait([asyncio.wrap_future(self._thread)])
            await commit.durable()
        finally:
            commit.forget()

    def _serve(self, opened: "Future[Connection]") -> None:
        """The transaction's thread."""
        try:
            connection = self._database._take()
        except BaseException as error:
            opened.set_exception(error)
            return
        try:
            try:
                connection.execute(self._begin)
            except BaseException as error:
                opened.set_exception(error)
                return
            opened.set_result(connection)
            while (work := self._work.get()) is not None:
                done, call = work
                try:
                    done.set_result(call())
                except BaseException as error:
                    done.set_exception(error)
        finally:
            self._database._give_back(connection)


def pool(threads: int) -> ThreadPoolExecutor:
    """The threads of a database's asynchronous transactions."""
    return ThreadPoolExecutor(threads, thread_name_prefix="heddledb")


async def arun(
    database: "Database",
    function: Callable[[Any], Union[T, Awaitable[T]]],
    read_only: bool,
    attempts: int,
) -> T:
    """``Database.arun``."""
    if not inspect.iscoroutinefunction(function):
        done: T = await _in_thread(database, function, read_only, attempts)
        return done
    for attempt in range(1, attempts + 1):
        try:
            async with AsyncTransaction(database, read_only) as tx:
                result: T = await function(tx)
            return result
        except errors.Error as error:
            if not error.retryable or attempt == attempts:
                raise
        await asyncio.sleep(random.uniform(0, 0.0005 * 2 ** min(attempt, 6)))
    raise errors.InterfaceError("attempts is at least 1")


async def _in_thread(database: "Database", function: Callable[[Any], Any], read_only: bool, attempts: int) -> Any:
    """Runs a function that is no coroutine, with all its attempts, in one thread."""
    current: "list[Connection]" = []

    def body(tx: "Transaction") -> Any:
        current[:] = [tx._connection]
        result = function(tx)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("arun was given a function that returns a coroutine: give it a coroutine function (async def)")
        return result

    commit = _Commits.of_this_loop().commit()
    job = database._threads().submit(database._run, body, read_only, attempts, commit.make)
    waiter = asyncio.wrap_future(job)
    try:
        result = await asyncio.shield(waiter)
        await commit.durable()
        return result
    except asyncio.CancelledError:
        if job.cancel() or waiter.done():
            raise
        while not waiter.done():
            for connection in current:
                connection.cancel()
            await asyncio.wait([waiter], timeout=0.01)
        waiter.exception()
        raise
    finally:
        commit.forget()
