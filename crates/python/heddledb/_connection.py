"""Connections and cursors: PEP 249, with what ``sqlite3`` has beside it."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

from . import _errors as errors
from ._adapt import Converter, EnumClass, enum_converter
from ._heddledb import Rows, Session, Statement
from ._placeholders import Parameters, numbered, translate
from ._snapshot import ArrowRows

if TYPE_CHECKING:
    from types import TracebackType

    from ._database import Database
    from ._heddledb import Commits

#: How many rows ``executemany`` gives the engine at a time.
_ROWS_PER_CALL = 500

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]*)", re.DOTALL)
# What opens or ends transactions itself, or runs outside of them only.
_WITHOUT_BLOCK = {"begin", "start", "commit", "end", "rollback", "abort", "vacuum", "checkpoint", "set", "show", "reset"}
_LEVELS = {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}
_COUNT = re.compile(r"(?:INSERT 0|UPDATE|DELETE|MERGE|SELECT|COPY|FETCH|MOVE) (\d+)$")

Description = Tuple[str, int, None, None, Optional[int], Optional[int], None]
RowFactory = Callable[["Cursor", Tuple[Any, ...]], Any]


class Row:
    """A row whose values are found by number and by name: set it as a ``row_factory``."""

    __slots__ = ("_names", "_values")

    def __init__(self, cursor: "Cursor", values: Tuple[Any, ...]) -> None:
        self._names = cursor._names()
        self._values = tuple(values)

    def keys(self) -> List[str]:
        """The names of the columns."""
        return list(self._names)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._values[key]
        for place, name in enumerate(self._names):
            if name == key or name.lower() == key.lower():
                return self._values[place]
        raise IndexError(f"no column {key!r}")

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and self._names == other._names and self._values == other._values

    def __hash__(self) -> int:
        return hash((self._names, self._values))

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(self._names, self._values))})"


class Cursor:
    """Runs statements on a connection, and has the last one's rows.

    A cursor holds all rows of its result in memory; ``Database.snapshot`` reads large tables in batches.
    """

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection
        self.arraysize = 1
        self._row_count: Optional[int] = -1
        self.lastrowid: None = None
        self.row_factory: Optional[RowFactory] = connection.row_factory
        self._results: List[Rows] = []
        self._rows: Optional[Rows] = None
        self._known_names: Optional[Tuple[str, ...]] = None
        self._converters: Optional[List[Optional[Converter]]] = None
        self._is_closed = False

    # Statements

    def execute(self, operation: str, parameters: Parameters = None) -> "Cursor":
        """Runs a statement. Placeholders are ``%s`` for a sequence, ``%(name)s`` or ``:name`` for a mapping.

        Without parameters the text may have several statements, and ``%`` stands for itself.

        Raises one of this package's errors; a transaction block that it was in has failed and must be rolled back.
        """
        session = self._session()
        text, values = translate(operation, parameters)
        self._start(session.execute(text, values, _needs_block(operation)))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> "Cursor":
        """Runs a statement once for each element, as one transaction: in autocommit mode all of them or none happen."""
        session = self._session()
        needs_block = _needs_block(operation)
        opens = (self.connection._autocommit or not needs_block) and session.status == "idle"
        parameters = iter(seq_of_parameters)
        results: List[Rows] = []
        count = 0
        if opens:
            session.execute("begin")
        try:
            while True:
                some = [translate(operation, one) for one in islice(parameters, _ROWS_PER_CALL)]
                if not some:
                    break
                rows = [values if values is not None else [] for _, values in some]
                for result in session.execute_rows(some[0][0], rows, needs_block):
                    count += max(_count(result), 0)
                    if result.columns is not None:
                        results.append(result)
            if opens:
                session.execute("commit")
        except BaseException:
            if opens and session.status not in ("idle", "closed"):
                session.execute("rollback")
            raise
        self._start(results)
        self._row_count = count
        return self

    def executescript(self, script: str) -> "Cursor":
        """Commits what is open, then runs all statements of a text as one transaction."""
        self.connection.commit()
        self._start(self._session().execute(script))
        return self

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
        """Calls a function: its rows are this cursor's."""
        if not re.fullmatch(r"[A-Za-z_][\w.]*", procname):
            raise errors.ProgrammingError(f"{procname!r}: not a function's name")
        self.execute(f"select * from {procname}({', '.join(['%s'] * len(parameters))})", tuple(parameters))
        return parameters

    def _start(self, results: List[Rows]) -> None:
        self._results = results[1:]
        self._use(results[0] if results else None)

    def _use(self, rows: Optional[Rows]) -> None:
        self._rows = rows
        self._known_names = None
        self._row_count = None
        enums = self.connection._enums
        self._converters = None
        if enums and rows is not None and rows.columns:
            converters = [enums.get(oid) for _, oid, _ in rows.columns]
            self._converters = converters if any(converters) else None

    def _session(self) -> Session:
        if self._is_closed:
            raise errors.InterfaceError("the cursor is closed")
        return self.connection._open_session()

    # Rows

    @property
    def rowcount(self) -> int:
        """How many rows the last statement returned or wrote; -1 if it has no such number."""
        if self._row_count is None:
            self._row_count = -1 if self._rows is None else _count(self._rows)
        return self._row_count

    @property
    def description(self) -> Optional[List[Description]]:
        """Name, type's oid, and precision and scale of numerics of each column; ``None`` without rows."""
        if self._rows is None or self._rows.columns is None:
            return None
        return [(name, oid, None, None, *_precision(oid, modifier), None) for name, oid, modifier in self._rows.columns]

    def _names(self) -> Tuple[str, ...]:
        if self._known_names is None:
            columns = (self._rows.columns if self._rows is not None else None) or []
            self._known_names = tuple(name for name, _, _ in columns)
        return self._known_names

    def _result(self) -> Rows:
        self._session()
        rows = self._rows
        if rows is None or rows.columns is None:
            raise errors.ProgrammingError("the last statement returned no rows")
        return rows

    def _made(self, row: Tuple[Any, ...]) -> Any:
        if self._converters is not None:
            row = tuple(one(value) if one else value for one, value in zip(self._converters, row))
        return row if self.row_factory is None else self.row_factory(self, row)

    def fetchone(self) -> Any:
        """The next row; ``None`` behind the last one."""
        row = self._result().next()
        if row is None or (self.row_factory is None and self._converters is None):
            return row
        return self._made(row)

    def fetchmany(self, size: Optional[int] = None) -> List[Any]:
        """The next rows: at most ``size``, or ``arraysize``."""
        rows = self._result().fetch(self.arraysize if size is None else size)
        if self.row_factory is None and self._converters is None:
            return rows
        return [self._made(row) for row in rows]

    def fetchall(self) -> List[Any]:
        """All rows that are left."""
        return self.fetchmany(len(self._result()))

    def arrow(self) -> ArrowRows:
        """The rows that are left, for DuckDB, Polars, pandas and pyarrow."""
        return ArrowRows(self._result())

    def nextset(self) -> Optional[bool]:
        """Goes to the result of the text's next statement; ``None`` behind the last one."""
        self._session()
        if not self._results:
            return None
        self._use(self._results.pop(0))
        return True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._rows is None or self._rows.columns is None:
            raise StopIteration
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def close(self) -> None:
        """Frees the rows: every later call raises InterfaceError."""
        self._is_closed = True
        self._rows = None
        self._results = []

    def setinputsizes(self, sizes: Any) -> None:
        """Does nothing: parameters have the types that their values and the statement say."""

    def setoutputsize(self, size: Any, column: Any = None) -> None:
        """Does nothing: values have any length."""

    def __enter__(self) -> "Cursor":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Connection:
    """A connection to a database; use each in one thread at a time.

    A transaction begins with the first statement, and ends with ``commit`` or ``rollback``; with ``autocommit`` each
    statement is a transaction, which the engine itself retries on conflicts. As a context manager it commits, or rolls
    back if the block raises; it stays open.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(
        self,
        database: "Database",
        session: Session,
        autocommit: bool = False,
        closed: Optional[Callable[[], None]] = None,
    ) -> None:
        self.database = database
        self._closed = closed
        self.row_factory: Optional[RowFactory] = None
        self._session: Optional[Session] = session
        self._autocommit = autocommit
        self._isolation_level: Optional[str] = None
        self._read_only = False
        self._enums: Dict[int, Converter] = {}
        self._set_block()

    def _open_session(self) -> Session:
        if self._session is None:
            raise errors.InterfaceError("the connection is closed")
        return self._session

    def _set_block(self) -> None:
        """Tells the session which statement opens the transaction blocks of this one."""
        level = f" isolation level {self._isolation_level}" if self._isolation_level else ""
        begin = f"begin{level}{' read only' if self._read_only else ''}"
        self._open_session().set_block(None if self._autocommit else begin)

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction. Setting it commits what is open."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.commit()
        self._autocommit = bool(value)
        self._set_block()

    @property
    def read_only(self) -> bool:
        """Whether the transactions that begin from now on only read: they read a snapshot."""
        return self._read_only

    @read_only.setter
    def read_only(self, value: bool) -> None:
        self._read_only = bool(value)
        self._set_block()

    @property
    def isolation_level(self) -> Optional[str]:
        """The isolation level of the transactions that begin from now on; ``None``: the session's.

        Every level is served as serializable.
        """
        return self._isolation_level

    @isolation_level.setter
    def isolation_level(self, level: Optional[str]) -> None:
        if level is not None and level.upper() not in _LEVELS:
            raise errors.ProgrammingError(f"{level!r}: not an isolation level")
        self._isolation_level = level
        self._set_block()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._session is None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or has failed and waits for its rollback."""
        return self._open_session().status in ("in transaction", "failed")

    @property
    def notices(self) -> List[Tuple[str, str, str]]:
        """Severity, SQLSTATE and message of each notice since the last look."""
        return self._open_session().take_notices()

    def cursor(self, factory: Type[Cursor] = Cursor) -> Cursor:
        """A new cursor."""
        self._open_session()
        return factory(self)

    def execute(self, operation: str, parameters: Parameters = None) -> Cursor:
        """As ``Cursor.execute``, on a new cursor."""
        return self.cursor().execute(operation, parameters)

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """As ``Cursor.executemany``, on a new cursor."""
        return self.cursor().executemany(operation, seq_of_parameters)

    def prepare(self, operation: str) -> Statement:
        """A statement that is run again and again: ``item = con.prepare("select * from item where id = %s")``.

        ``item.fetchone(7)``, ``item.fetchall(7)`` and ``item.execute(7)`` take the parameters one by one, and do less than a
        cursor does: rows are tuples, and the labels of enums texts. A text that is wrong is refused when it is run.
        """
        return Statement(self._open_session(), numbered(operation), _needs_block(operation))

    def executescript(self, script: str) -> Cursor:
        """As ``Cursor.executescript``, on a new cursor."""
        return self.cursor().executescript(script)

    def copy_from(self, operation: str, data: bytes) -> int:
        """Runs ``COPY … FROM STDIN`` with this data: the number of rows."""
        results = self._open_session().copy_from(operation, data, _needs_block(operation))
        return max((_count(result) for result in results), default=0)

    def load(self, table: str, rows: Any) -> int:
        """As ``Database.load``, in this connection's transaction."""
        results = self._open_session().load(table, rows, True)
        return max((_count(result) for result in results), default=0)

    def copy_to(self, operation: str) -> bytes:
        """Runs ``COPY … TO STDOUT``: the data."""
        results = self._open_session().execute(operation, None, _needs_block(operation))
        return b"".join(result.data for result in results)

    def commit(self) -> None:
        """Ends the transaction; when this returns, it is durable.

        Raises OperationalError 40001 on a conflict: nothing has happened, and the transaction can be run again.
        A transaction in which a statement has failed cannot be committed: it is rolled back, and InternalError raised.
        """
        session = self._open_session()
        self._end(session.status, lambda: session.execute("commit"))

    def _commit_early(self, commits: "Commits", number: int) -> bool:
        """As ``commit``, without the wait for the disk: whether ``commits`` will say when this number is durable."""
        session = self._open_session()
        return bool(self._end(session.status, lambda: session.commit_early(commits, number)))

    @staticmethod
    def _end(status: str, commit: Callable[[], Any]) -> Any:
        """Commits if a transaction is open, and raises if it had failed."""
        result = commit() if status != "idle" else None
        if status == "failed":
            error = errors.InternalError("the transaction had failed: it was rolled back")
            error.sqlstate = "25P02"
            raise error
        return result

    def rollback(self) -> None:
        """Ends the transaction without its effects; nothing happens if none is open."""
        session = self._open_session()
        if session.status != "idle":
            session.execute("rollback")

    def cancel(self) -> None:
        """Ends the statement in progress with OperationalError 57014, from any thread."""
        self._open_session().cancel()

    interrupt = cancel

    def register_enum(self, name: str, kind: EnumClass) -> None:
        """Returns the labels of the enum type ``name`` as members of ``kind``: by their values, or else their names."""
        session = self._open_session()
        (found,) = session.execute("select $1::regtype::oid, ($1 || '[]')::regtype::oid", [name])
        row = found.next()
        assert row is not None
        converter = enum_converter(kind)
        self._enums.update({row[0]: converter, row[1]: converter})

    def close(self) -> None:
        """Closes the connection: an open transaction is rolled back. The database's last connection closes it."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
            if self._closed is not None:
                self._closed()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional["TracebackType"],
    ) -> None:
        if self._session is None:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()


@lru_cache(maxsize=1024)
def _needs_block(text: str) -> bool:
    """Whether a statement opens a transaction block where statements are not transactions of their own."""
    found = _FIRST_WORD.match(text)
    return not (found and found[1].lower() in _WITHOUT_BLOCK)


def _count(rows: Rows) -> int:
    found = _COUNT.match(rows.tag)
    return int(found[1]) if found else -1


def _precision(oid: int, modifier: int) -> Tuple[Optional[int], Optional[int]]:
    """Precision and scale of a numeric's type modifier."""
    if oid != 1700 or modifier < 4:
        return None, None
    return (modifier - 4) >> 16, (modifier - 4) & 0x7FF


def dict_row(cursor: Cursor, row: Tuple[Any, ...]) -> Mapping[str, Any]:
    """A ``row_factory`` that makes dicts."""
    return dict(zip(cursor._names(), row))
