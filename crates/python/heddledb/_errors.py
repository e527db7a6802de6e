"""The exceptions of PEP 249, chosen by SQLSTATE."""

from __future__ import annotations

from typing import Optional


class Warning(Exception):  # noqa: A001 - the name that PEP 249 gives it
    """An important warning. HeddleDB raises none: notices are in ``Connection.notices``."""


class Error(Exception):
    """The base of all errors of this package.

    ``sqlstate`` has the five characters by which PostgreSQL's errors are known, ``hint`` the way out. Each field is
    ``None`` where it does not apply, and ``position`` counts characters of the statement from 1.
    """

    sqlstate: Optional[str] = None
    detail: Optional[str] = None
    hint: Optional[str] = None
    position: Optional[int] = None
    context: Optional[str] = None
    schema_name: Optional[str] = None
    table_name: Optional[str] = None
    column_name: Optional[str] = None
    constraint_name: Optional[str] = None

    @property
    def retryable(self) -> bool:
        """True if the same transaction may succeed when it is run again (40001, 40P01)."""
        return self.sqlstate in ("40001", "40P01")


class InterfaceError(Error):
    """A mistake in the use of this package, such as a closed cursor."""


class DatabaseError(Error):
    """The base of the errors that the database reports."""


class DataError(DatabaseError):
    """A value that its type cannot hold, a division by zero (class 22)."""


class OperationalError(DatabaseError):
    """A conflict, a timeout, a full disk: not the statement's fault (classes 08, 40, 53, 55, 57, 58)."""


class IntegrityError(DatabaseError):
    """A violated constraint (class 23)."""


class InternalError(DatabaseError):
    """A fault of the engine's, or a transaction in the wrong state (classes XX, 25, 24)."""


class ProgrammingError(DatabaseError):
    """A mistake in the statement (classes 42, 07, 08P01, 26, 34, 3D, 3F)."""


class NotSupportedError(DatabaseError):
    """A feature that HeddleDB does not have (0A000)."""


_BY_CLASS = {
    "0A": NotSupportedError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "24": InternalError,
    "25": InternalError,
    "26": ProgrammingError,
    "27": OperationalError,
    "28": OperationalError,
    "2B": InternalError,
    "2D": InternalError,
    "34": ProgrammingError,
    "3B": ProgrammingError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "08": OperationalError,
    "40": OperationalError,
    "42": ProgrammingError,
    "44": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "XX": InternalError,
}
_BY_STATE = {"08P01": ProgrammingError, "08003": InterfaceError}


def from_engine(message: str, sqlstate: str, **fields: object) -> Error:
    """The exception of an error of the engine's, with all its fields."""
    kind: type[Error] = _BY_STATE.get(sqlstate) or _BY_CLASS.get(sqlstate[:2], DatabaseError)
    text = message
    if fields.get("detail"):
        text += f"\nDETAIL: {fields['detail']}"
    if fields.get("hint"):
        text += f"\nHINT: {fields['hint']}"
    error = kind(text)
    error.sqlstate = sqlstate
    for name, value in fields.items():
        setattr(error, name, value)
    return error
