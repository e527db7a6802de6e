"""SQLAlchemy's dialect: ``create_engine("heddledb:///shop.heddle")``, or ``heddledb://`` for a database in memory.

It is SQLAlchemy's PostgreSQL dialect with this package as its driver: its types, its constructs and its reflection. Left
out is what HeddleDB does not have: hstore, ranges, and transactions in two phases.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any, List, Optional, Tuple

from sqlalchemy import types as sqltypes
from sqlalchemy import util
from sqlalchemy.dialects.postgresql import JSON, JSONB, ranges
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine.url import URL

from . import _adapt
from ._connection import Connection
from ._database import Database


class _Json(JSON):
    def bind_processor(self, dialect: Any) -> Any:
        untyped: Any = self
        return untyped._make_bind_processor(None, _adapt.Json)

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        return None


class _Jsonb(JSONB):
    def bind_processor(self, dialect: Any) -> Any:
        untyped: Any = self
        return untyped._make_bind_processor(None, _adapt.Json)

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        return None


_WITHOUT_RANGES = {
    kind: made
    for kind, made in PGDialect_psycopg.colspecs.items()
    if kind not in (ranges.AbstractSingleRange, ranges.AbstractMultiRange)
}


class HeddleDialect(PGDialect_psycopg):
    """PostgreSQL's dialect on the engine in this process."""

    driver = "heddledb"
    supports_statement_cache = True
    supports_server_side_cursors = False
    minimum_dbapi_version: Any = None
    use_native_hstore = False
    _has_native_hstore = False

    colspecs = util.update_copy(
        _WITHOUT_RANGES,
        {sqltypes.JSON: _Json, JSON: _Json, JSONB: _Jsonb},
    )

    def __init__(self, durability: Optional[str] = None, **options: Any) -> None:
        self._durability = durability
        self._database: Optional[Database] = None
        self._lock = threading.Lock()
        options["use_native_hstore"] = False
        self._psycopg_adapters_map = None
        self._above_psycopg().__init__(**options)

    def _above_psycopg(self) -> Any:
        """The dialect without what is psycopg's own."""
        return super(PGDialect_psycopg, self)

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        import heddledb

        return heddledb

    @classmethod
    def load_provisioning(cls) -> None:
        """Tests of SQLAlchemy's make their databases as those of PostgreSQL do."""
        import sqlalchemy.dialects.postgresql.provision  # noqa: F401

    @classmethod
    def get_async_dialect_cls(cls, url: URL) -> Any:
        raise NotImplementedError("heddledb has no asyncio dialect: use Database.arun")

    def create_connect_args(self, url: URL) -> Tuple[List[Any], Any]:
        options = dict(url.query)
        return [url.database or ":memory:"], {"user": url.username, **options}

    def connect(self, *arguments: Any, **options: Any) -> Any:
        """Connects to the one database of this engine: one in memory is shared by the pool's connections."""
        with self._lock:
            if self._database is None:
                user = options.get("user")
                durability = options.get("durability", self._durability)
                self._database = Database(arguments[0], durability=durability, user=user)
            return self._database.connect()

    def initialize(self, connection: Any) -> None:
        self._above_psycopg().initialize(connection)

    def _do_isolation_level(self, connection: Connection, autocommit: bool, isolation_level: Optional[str]) -> None:
        connection.autocommit = autocommit
        connection.isolation_level = isolation_level

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        is_auto = level == "AUTOCOMMIT"
        self._do_isolation_level(dbapi_connection, is_auto, None if is_auto else level)

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        if dbapi_connection.isolation_level is not None:
            return dbapi_connection.isolation_level
        return self._above_psycopg().get_isolation_level(dbapi_connection)

    def on_connect(self) -> Any:
        level = getattr(self, "isolation_level", None)
        if level is None:
            return None
        return lambda connection: self.set_isolation_level(connection, level)

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return connection is not None and bool(getattr(connection, "closed", False))

    @util.memoized_property
    def _dialect_specific_select_one(self) -> str:
        return "select 1"
