"""Databases: opened once for a process, shared by its threads, with transactions as functions."""

from __future__ import annotations

import functools
import os
import random
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Deque, Iterable, Optional, TypeVar, Union, overload

from . import _aio
from . import _errors as errors
from . import _heddledb
from ._connection import Connection, Cursor
from ._placeholders import Parameters
from ._snapshot import Snapshot

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")
Path = Union[str, "os.PathLike[str]"]

#: How many sessions without a transaction a database keeps for the next one.
_IDLE_SESSIONS_MAX = 64
#: The longest wait before a transaction is retried, in seconds.
_BACKOFF_MAX = 0.05


class Transaction:
    """The transaction of a function: what it executes, happens when the function has returned, or not at all."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """As ``Cursor.execute``."""
        return self._connection.execute(operation, parameters)

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """As ``Cursor.executemany``."""
        return self._connection.executemany(operation, seq_of_parameters)

    def cursor(self) -> Cursor:
        """A cursor in this transaction."""
        return self._connection.cursor()

    def copy_from(self, operation: str, data: bytes) -> int:
        """As ``Connection.copy_from``."""
        return self._connection.copy_from(operation, data)

    def load(self, table: str, rows: Any) -> int:
        """As ``Database.load``, in this transaction."""
        return self._connection.load(table, rows)


class Database:
    """A database that this process has open; all threads may use it.

    ``path``: a directory, which is created if it is not there, or ``":memory:"``. A path that is opened twice in a process
    is one database; the ``durability`` of the first one counts: ``"group"`` (the default: a commit returns when it is
    on disk), ``"async"`` (a crash may lose the last moments), ``"none"`` (nothing is logged).

    ``async_threads``: how many transactions of coroutines are open at a time; more of them wait without a thread, and so do
    those whose commits wait for the disk.

    Raises OperationalError if another process has the database open.
    """

    def __init__(
        self,
        path: Path,
        *,
        durability: Optional[str] = None,
        user: Optional[str] = None,
        async_threads: int = 64,
    ) -> None:
        name = os.fspath(path)
        self._engine = _heddledb.Database(None if name == ":memory:" else name, durability)
        self._user = user
        self._idle: Deque[Connection] = deque()
        # Of a database that `connect` has opened: it is closed with the last connection that the program has.
        self._closes_with_connections = False
        self._connections = 0
        self._lock = threading.Lock()
        self._async_threads = async_threads
        self._pool: Optional["ThreadPoolExecutor"] = None
        self._process = os.getpid()

    @property
    def path(self) -> Optional[str]:
        """The database's directory; ``None`` for one in memory."""
        path = self._engine.path
        return None if path is None else os.fspath(path)

    def connect(self, *, autocommit: bool = False) -> Connection:
        """A new connection."""
        connection = Connection(self, self._session(), autocommit, self._left)
        with self._lock:
            self._connections += 1
        return connection

    def _session(self) -> _heddledb.Session:
        session = self._engine.session(self._user)
        if session is None:
            raise errors.InterfaceError("the database is closed")
        return session

    def run(self, function: Callable[[Transaction], T], *, read_only: bool = False, attempts: int = 1000) -> T:
        """Runs ``function`` in a transaction, commits, and returns its result.

        On a conflict (40001, 40P01) the transaction is rolled back and the function called again, at most ``attempts``
        times: what it does beside the database may happen several times. An exception of the function rolls back.
        """
        return self._run(function, read_only, attempts, Connection.commit)

    def _run(
        self,
        function: Callable[[Transaction], T],
        read_only: bool,
        attempts: int,
        commit: Callable[[Connection], object],
    ) -> T:
        for attempt in range(1, attempts + 1):
            connection = self._take()
            try:
                connection.execute("begin read only" if read_only else "begin")
                result = function(Transaction(connection))
                commit(connection)
                return result
            except errors.Error as error:
                if not error.retryable or attempt == attempts:
                    raise
            finally:
                self._give_back(connection)
            time.sleep(random.uniform(0, min(_BACKOFF_MAX, 0.0005 * 2 ** min(attempt, 10))))
        raise errors.InterfaceError("attempts is at least 1")

    def transaction(self, function: Callable[..., T]) -> Callable[..., T]:
        """A decorator: the function's first argument is a transaction, which ``run`` gives it."""

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> T:
            return self.run(lambda tx: function(tx, *arguments, **named))

        return call

    @overload
    async def arun(
        self, function: Callable[[_aio.AsyncTransaction], Awaitable[T]], *, read_only: bool = ..., attempts: int = ...
    ) -> T: ...
    @overload
    async def arun(
        self, function: Callable[[Transaction], T], *, read_only: bool = ..., attempts: int = ...
    ) -> T: ...
    async def arun(self, function: Any, *, read_only: bool = False, attempts: int = 1000) -> Any:
        """As ``run``, for coroutines: ``function`` is a coroutine function, or a function that runs in a thread.

        A coroutine that is cancelled cancels its statement, and rolls back.
        """
        return await _aio.arun(self, function, read_only, attempts)

    def atransaction(self, *, read_only: bool = False) -> _aio.AsyncTransaction:
        """One transaction of a coroutine, which is not retried: ``async with db.atransaction() as tx: …``."""
        return _aio.AsyncTransaction(self, read_only)

    def _threads(self) -> "ThreadPoolExecutor":
        with self._lock:
            if self._pool is None:
                self._pool = _aio.pool(self._async_threads)
            return self._pool

    def snapshot(self) -> Snapshot:
        """The database as it is now, for Arrow: ``db.snapshot().table("item")``."""
        return Snapshot(self)

    def load(self, table: str, rows: Any) -> int:
        """Inserts the rows of an object with ``__arrow_c_stream__`` as one transaction: how many they were.

        Columns are found by their names; ``table`` is SQL. Values are read by the table's types, as COPY reads them.
        """
        return self.run(lambda tx: tx.load(table, rows), attempts=1)

    def check(self) -> None:
        """Checks constraints, and indexes against tables, in a snapshot. Raises InternalError at the first fault."""
        self._engine.check()

    def close(self) -> None:
        """Closes this handle and its idle sessions; the last handle or connection of the process closes the database."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
        while self._idle:
            self._idle.popleft().close()
        self._engine.close()

    def _take(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return Connection(self, self._session())

    def _give_back(self, connection: Connection) -> None:
        """Keeps a connection for the next transaction; one that is open ends without effects."""
        try:
            connection.rollback()
        except errors.Error:
            connection.close()
            return
        if len(self._idle) < _IDLE_SESSIONS_MAX and self._process == os.getpid():
            self._idle.append(connection)
        else:
            connection.close()

    def _left(self) -> None:
        """A connection of the program's has closed."""
        with self._lock:
            self._connections -= 1
            is_last = self._connections == 0
        if is_last and self._closes_with_connections:
            self.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def connect(
    path: Path, *, autocommit: bool = False, durability: Optional[str] = None, user: Optional[str] = None
) -> Connection:
    """Opens a database, or finds it open in this process, and connects to it: see ``Database``.

    Each ``":memory:"`` is a database of its own, which is gone with its connections: ``connection.database`` connects
    again.
    """
    database = Database(path, durability=durability, user=user)
    database._closes_with_connections = True
    try:
        connection = database.connect(autocommit=autocommit)
    except BaseException:
        database.close()
        raise
    return connection
