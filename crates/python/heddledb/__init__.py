"""HeddleDB in Python: the engine in this process, by DB-API 2.0 (PEP 249), transactions as functions, asyncio and Arrow.

    >>> import heddledb
    >>> con = heddledb.connect(":memory:")
    >>> con.execute("select 6 * 7").fetchone()
    (42,)
"""

from __future__ import annotations

import datetime
import os
import threading
import time

from . import _heddledb
from ._aio import AsyncTransaction
from ._adapt import Json, register_adapter
from ._connection import Connection, Cursor, Row, dict_row
from ._database import Database, Transaction, connect
from ._errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from ._heddledb import Statement, __version__
from ._snapshot import ArrowRows, Snapshot, Stream

apilevel = "2.0"
#: Threads may share the module and databases, not connections.
threadsafety = 1
paramstyle = "pyformat"

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp
Binary = bytes


def TimeFromTicks(ticks: float) -> datetime.time:
    """The time of day, in the local zone, of a moment in seconds since 1970."""
    return datetime.time(*time.localtime(ticks)[3:6])


class _TypeObject:
    """Equals the oids of the types that it stands for."""

    def __init__(self, *oids: int) -> None:
        self._oids = frozenset(oids)

    def __eq__(self, other: object) -> bool:
        return other in self._oids if isinstance(other, int) else self is other

    def __hash__(self) -> int:
        return hash(self._oids)


STRING = _TypeObject(18, 19, 25, 1042, 1043)
BINARY = _TypeObject(17)
NUMBER = _TypeObject(20, 21, 23, 700, 701, 1700)
DATETIME = _TypeObject(1082, 1083, 1114, 1184, 1186, 1266)
ROWID = _TypeObject(26)


def _after_fork_in_child() -> None:
    _heddledb.after_fork_in_child()
    _heddledb.set_main_thread(threading.get_ident())


_heddledb.set_main_thread(threading.main_thread().ident or 0)
os.register_at_fork(
    before=_heddledb.before_fork,
    after_in_parent=_heddledb.after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)

__all__ = [
    "ArrowRows",
    "AsyncTransaction",
    "BINARY",
    "Binary",
    "Connection",
    "Cursor",
    "DATETIME",
    "DataError",
    "Database",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Json",
    "NUMBER",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ROWID",
    "Row",
    "STRING",
    "Snapshot",
    "Statement",
    "Stream",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Transaction",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "dict_row",
    "paramstyle",
    "register_adapter",
    "threadsafety",
]
