"""Snapshots as Arrow: live data in DuckDB, Polars, pandas and pyarrow, without a copy through text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _errors as errors
from ._heddledb import Session

if TYPE_CHECKING:
    from ._database import Database


class Snapshot:
    """The database as it was at one moment: ``with db.snapshot() as snapshot: polars.DataFrame(snapshot.table("item"))``.

    All tables and queries of a snapshot are of the same moment, beside all writers. While it is open, and a stream of it
    has not ended, the engine keeps the versions of rows that it reads.
    """

    def __init__(self, database: "Database") -> None:
        self._database = database
        self._session: Optional[Session] = database._session()
        self._session.execute("begin isolation level repeatable read read only")
        (found,) = self._session.execute("select pg_export_snapshot()")
        row = found.next()
        assert row is not None
        self._name: str = row[0]

    def table(self, name: str) -> "Stream":
        """The rows of a table or view; ``name`` is SQL, such as ``item`` or ``sales."Item"``."""
        return Stream(self, f"table {name}")

    def query(self, text: str) -> "Stream":
        """The rows of a query without parameters."""
        return Stream(self, text)

    def _read(self) -> Session:
        """A new session that reads this snapshot."""
        if self._session is None:
            raise errors.InterfaceError("the snapshot is closed")
        session = self._database._session()
        session.execute("begin isolation level repeatable read read only")
        session.execute(f"set transaction snapshot '{self._name}'")
        return session

    def close(self) -> None:
        """Ends the snapshot: streams that are being read go on to their end."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Stream:
    """A table or a query of a snapshot, for whatever reads ``__arrow_c_stream__``: each reader gets all rows, in batches.

    It keeps its snapshot open as long as it is there.
    """

    def __init__(self, snapshot: Snapshot, text: str) -> None:
        self._snapshot = snapshot
        self._text = text
        # Read from the start on: a snapshot that the program closes goes on in its streams.
        self._next: Optional[Session] = snapshot._read()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a PyCapsule of Arrow's C data interface. A requested schema is ignored, as the interface allows."""
        session, self._next = self._next, None
        return (session or self._snapshot._read()).stream(self._text)


class ArrowRows:
    """The rows that a cursor has left, for whatever reads ``__arrow_c_stream__``: they can be read once."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a PyCapsule of Arrow's C data interface. A requested schema is ignored, as the interface allows."""
        return self._rows.arrow()
