"""Named queries from the `.sql` files of this package.

A query begins with `-- name: something` and goes on to the next one. Parameters are written
`%(name)s` and reach the server as `$1`, `$2`, ... in the order in which they first appear. A line
`-- include: file.sql` stands for the text of that file, which has no names.

Columns that several queries name are listed once, with their types, in `columns.sql`. Where it lists
`run_id text, role text` as `messages`, a query may say:

- `{messages}`: `run_id, role`
- `{m.messages}`: `m.run_id, m.role`
- `{messages:types}`: `run_id text, role text`
- `{messages:values}`: `%(run_id)s::text, %(role)s::text`
- `{messages:excluded}`: `run_id = excluded.run_id, role = excluded.role`
- `{messages:defaults}`: `run_id = default, role = default`
- `{m.messages:pairs}`: `'run_id', m.run_id, 'role', m.role`
- `{m.messages:sums}`: `sum(m.run_id) as run_id, sum(m.role) as role`
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_INCLUDE = re.compile(r"^-- include: (\S+)\n", re.MULTILINE)
_LIST = re.compile(r"^-- columns: (\w+)\n", re.MULTILINE)
_COLUMNS = re.compile(r"\{(\w+\.)?(\w+)(?::(\w+))?\}")
_FORMS = {
    "": "{of}{name}",
    "types": "{name} {type}",
    "values": "%({name})s::{type}",
    "excluded": "{name} = excluded.{name}",
    "defaults": "{name} = default",
    "pairs": "'{name}', {of}{name}",
    "sums": "sum({of}{name}) as {name}",
}
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
    """A query and the values of its parameters, in wire format."""

    query: Query
    values: list[bytes | None]


def _encode(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    # Postgres's text has no NUL, and UTF-8 no lone surrogates.
    text = str(value)
    text = text.replace("\0", "\ufffd") if "\0" in text else text
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


@cache
def load(file: str) -> Mapping[str, Query]:
    """The queries of one file by name. Raises KeyError if a name is used twice, or a list of columns is
    not there."""
    pieces = _NAME.split(_COLUMNS.sub(_columns, _text(file)))[1:]
    queries: dict[str, Query] = {}
    for name, sql in zip(pieces[::2], pieces[1::2], strict=True):
        if name in queries:
            raise KeyError(f"two queries named {name} in {file}")
        queries[name] = _compile(name, sql)
    return queries


def _columns(placeholder: re.Match[str]) -> str:
    """Return the columns that a placeholder stands for, in its form."""
    of, list_name, form = (part or "" for part in placeholder.groups())
    columns = (column.split() for column in column_lists()[list_name])
    return ", ".join(_FORMS[form].format(of=of, name=name, type=type) for name, type in columns)


@cache
def column_lists() -> Mapping[str, list[str]]:
    """The lists of `columns.sql` by name: each column with its type."""
    pieces = _LIST.split(_text("columns.sql"))[1:]
    texts = (_COMMENT.sub("", text) for text in pieces[1::2])
    return dict(zip(pieces[::2], (re.split(r",\s+", text.strip()) for text in texts), strict=True))


def _text(file: str) -> str:
    text = files(__package__).joinpath("sql", file).read_text("utf-8")
    return _INCLUDE.sub(lambda match: _text(match[1]), text)


def _compile(name: str, sql: str) -> Query:
    order: dict[str, int] = {}

    def placeholder(match: re.Match[str]) -> str:
        return f"${order.setdefault(match[1], len(order) + 1)}"

    numbered = _PARAMETER.sub(placeholder, _COMMENT.sub("", sql)).strip()
    return Query(name, numbered.encode(), tuple(order))
