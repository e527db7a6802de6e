"""Python's values as texts that SQL reads, and the types that they suggest for their parameters."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import uuid
from typing import Any, Callable, Dict, Type

BOOL, BYTEA, INT8, INT4, TEXT, FLOAT8, NUMERIC = 16, 17, 20, 23, 25, 701, 1700
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIMETZ, UUID, JSONB = 1082, 1083, 1114, 1184, 1186, 1266, 2950, 3802

_ARRAYS = {
    BOOL: 1000,
    BYTEA: 1001,
    INT4: 1007,
    INT8: 1016,
    FLOAT8: 1022,
    NUMERIC: 1231,
    DATE: 1182,
    TIME: 1183,
    TIMESTAMP: 1115,
    TIMESTAMPTZ: 1185,
    INTERVAL: 1187,
    TIMETZ: 1270,
    UUID: 2951,
}

_adapters: Dict[type, Callable[[Any], Any]] = {}


class Json:
    """A value that is passed as JSON, whatever Python type it has: ``Json([1, 2])``."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Json({self.value!r})"


def register_adapter(kind: Type[Any], adapter: Callable[[Any], Any]) -> None:
    """Passes values of this class as what ``adapter`` returns: a value that this package knows."""
    _adapters[kind] = adapter


def _adapted(value: Any) -> Any:
    """The value that stands for one of a class of the program's own."""
    adapter = _adapters.get(type(value))
    if adapter is not None:
        return adapter(value)
    if isinstance(value, enum.Enum):
        return value.value if isinstance(value.value, (str, int)) else value.name
    return value


def hint(value: Any) -> int:
    """The oid of the type that a value suggests for its parameter; 0: the statement decides."""
    value = _adapted(value)
    if value is None or isinstance(value, str):
        return 0
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT4 if -(2**31) <= value < 2**31 else INT8 if -(2**63) <= value < 2**63 else NUMERIC
    if isinstance(value, float):
        return FLOAT8
    if isinstance(value, decimal.Decimal):
        return NUMERIC
    if isinstance(value, datetime.datetime):
        return TIMESTAMP if value.tzinfo is None else TIMESTAMPTZ
    if isinstance(value, datetime.date):
        return DATE
    if isinstance(value, datetime.time):
        return TIME if value.tzinfo is None else TIMETZ
    if isinstance(value, datetime.timedelta):
        return INTERVAL
    if isinstance(value, uuid.UUID):
        return UUID
    if isinstance(value, (bytes, bytearray, memoryview)):
        return BYTEA
    if isinstance(value, (dict, Json)):
        return JSONB
    if isinstance(value, (list, tuple)):
        return _array_hint(value)
    return 0


def _array_hint(value: Any) -> int:
    """The array type of the elements, if one holds them all. Texts suggest none: the statement decides."""
    found = 0
    for element in value:
        if isinstance(element, (list, tuple)):
            kind = _array_hint(element)
        else:
            kind = _ARRAYS.get(hint(element), 0) if element is not None else found
        if kind == 0 and element is not None:
            return 0
        if found and kind != found:
            numbers = [1007, 1016, 1231, 1022]
            if kind not in numbers or found not in numbers:
                return 0
            kind = max(kind, found, key=numbers.index)
        found = kind
    return found


def _default(value: Any) -> Any:
    """What JSON has no type for."""
    value = _adapted(value)
    if isinstance(value, Json):
        return value.value
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time, uuid.UUID)):
        return value.isoformat() if not isinstance(value, uuid.UUID) else str(value)
    if isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _interval(value: datetime.timedelta) -> str:
    return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"


def literal(value: Any, as_json: bool) -> str:
    """The text that SQL reads as this value; ``as_json``: for a parameter of type json or jsonb."""
    value = _adapted(value)
    if isinstance(value, Json):
        return json.dumps(value.value, default=_default)
    if as_json and not isinstance(value, str):
        return json.dumps(value, default=_default)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _interval(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\x" + bytes(value).hex()
    if isinstance(value, dict):
        return json.dumps(value, default=_default)
    if isinstance(value, (list, tuple)):
        return _array(value)
    from ._errors import ProgrammingError

    error = ProgrammingError(f"cannot pass a value of type {type(value).__name__}")
    error.hint = "Convert it, or use heddledb.register_adapter."
    raise error


def _array(value: Any) -> str:
    return "{" + ",".join(_element(element) for element in value) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (list, tuple)):
        return _array(value)
    text = literal(value, False)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def uuid_of(value: bytes) -> uuid.UUID:
    """The UUID of 16 bytes."""
    return uuid.UUID(bytes=value)


Converter = Callable[[Any], Any]
EnumClass = Type[enum.Enum]


def enum_converter(kind: EnumClass) -> Converter:
    """What makes members of labels: by their values, or else by their names."""
    by_label: Dict[str, enum.Enum] = {}
    for member in kind:
        by_label[member.value if isinstance(member.value, str) else member.name] = member

    def convert(label: Any) -> Any:
        if isinstance(label, list):
            return [convert(element) for element in label]
        return label if label is None else by_label.get(label, label)

    return convert
