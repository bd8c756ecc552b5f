"""Named queries from the `.sql` files of this package.

A query begins with `-- name: something` and goes on to the next one. Parameters are written
`%(name)s` and reach the server as `$1`, `$2`, ... in the order in which they first appear. A line
`-- include: file.sql` stands for the text of that file, which has no names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (\S+)\n", re.MULTILINE)
_COMMENT = re.compile(r"\s*--[^\n]*")
_PARAMETER = re.compile(r"%\((\w+)\)s")

Value = str | int | bytes | None
"""A parameter's value; everything travels as text."""


@dataclass(frozen=True)
class Query:
    """One statement. `name` is also the name under which a connection prepares it."""

    name: str
    sql: bytes
    parameters: tuple[str, ...]

    def __call__(self, **values: Value) -> "Statement":
        """The statement with its parameters' values."""
        return Statement(self, [_encode(values[p]) for p in self.parameters])


@dataclass(frozen=True)
class Statement:
    """A query and the values of its parameters, as the wire wants them."""

    query: Query
    values: list[bytes | None]


def _encode(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    # Postgres's text has no NUL, and UTF-8 no lone surrogates.
    text = str(value).replace("\0", "\ufffd")
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


@cache
def load(file: str) -> Mapping[str, Query]:
    """The queries of one file by name. Raises KeyError if a name is used twice."""
    pieces = _NAME.split(_text(file))[1:]
    queries: dict[str, Query] = {}
    for name, sql in zip(pieces[::2], pieces[1::2], strict=True):
        if name in queries:
            raise KeyError(f"two queries named {name} in {file}")
        queries[name] = _compile(name, sql)
    return queries


def _text(file: str) -> str:
    text = files(__package__).joinpath("sql", file).read_text("utf-8")
    return _INCLUDE.sub(lambda match: _text(match[1]), text)


def _compile(name: str, sql: str) -> Query:
    order: dict[str, int] = {}

    def placeholder(match: re.Match[str]) -> str:
        return f"${order.setdefault(match[1], len(order) + 1)}"

    numbered = _PARAMETER.sub(placeholder, _COMMENT.sub("", sql)).strip()
    return Query(name, numbered.encode(), tuple(order))
