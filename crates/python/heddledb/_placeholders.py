"""Placeholders: ``%s``, ``%(name)s`` and ``:name`` become SQL's ``$1``, ``$2``, …"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import ProgrammingError

Parameters = Union[Sequence[Any], Mapping[str, Any], None]

_PYFORMAT = re.compile(r"%(?:\((?P<name>[^)]*)\))?(?P<kind>.)?", re.DOTALL)

# What may hold a colon that is no placeholder: texts, names, comments, and casts.
_NAMED = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | --[^\n]*
    | /\*.*?\*/
    | (?P<dollar>\$(?:[A-Za-z_]\w*)?\$).*?(?P=dollar)
    | ::
    | :=
    | (?<!\[)(?<![\w\])]):(?P<name>[A-Za-z_]\w*)
    """,
    re.DOTALL | re.VERBOSE,
)


@lru_cache(maxsize=1024)
def _positional(text: str) -> Tuple[str, int]:
    """A text with ``%s``; without any, it may have ``$1`` itself."""
    count = 0

    def replace(found: "re.Match[str]") -> str:
        nonlocal count
        if found["name"] is not None:
            raise ProgrammingError("the statement has %(name)s placeholders: pass a mapping")
        if found["kind"] == "%":
            return "%"
        if found["kind"] != "s":
            raise ProgrammingError(f"placeholders are %s, not {found[0]}: write % itself as %%")
        count += 1
        return f"${count}"

    return _PYFORMAT.sub(replace, text), count


@lru_cache(maxsize=1024)
def _named(text: str) -> Tuple[str, Tuple[str, ...]]:
    """A text with ``%(name)s``, or with ``:name``."""
    names: List[str] = []

    def number(name: str) -> str:
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    def pyformat(found: "re.Match[str]") -> str:
        if found["name"] is not None and found["kind"] == "s":
            return number(found["name"])
        if found["name"] is None and found["kind"] == "%":
            return "%"
        raise ProgrammingError(f"placeholders are %(name)s, not {found[0]}: write % itself as %%")

    if "%(" in text:
        return _PYFORMAT.sub(pyformat, text), tuple(names)
    text = _NAMED.sub(lambda found: number(found["name"]) if found["name"] else found[0], text)
    return text, tuple(names)


def numbered(text: str) -> str:
    """The text of a statement with ``%s``, or with ``$1`` itself, as SQL has it."""
    return _positional(text)[0] if "%" in text else text


def translate(text: str, parameters: Parameters) -> Tuple[str, Optional[List[Any]]]:
    """SQL's text and the parameters in order; ``None`` without parameters."""
    if parameters is None:
        return text, None
    # Asking for the type itself is faster than asking whether it is some mapping.
    kind = type(parameters)
    if kind is not tuple and kind is not list and isinstance(parameters, Mapping):
        # Frameworks pass empty mappings, and double each % of every statement.
        text, names = _named(text) if parameters else (_positional(text)[0], ())
        missing = [name for name in names if name not in parameters]
        if missing:
            raise ProgrammingError(f"the parameter {missing[0]} is missing")
        return text, [parameters[name] for name in names]
    if isinstance(parameters, (str, bytes)) or not hasattr(parameters, "__len__"):
        raise ProgrammingError("parameters are a sequence or a mapping")
    if "%" not in text:
        return text, list(parameters)
    text, count = _positional(text)
    if count and count != len(parameters):
        raise ProgrammingError(f"the statement has {count} placeholders, but {len(parameters)} parameters were given")
    return text, list(parameters)
