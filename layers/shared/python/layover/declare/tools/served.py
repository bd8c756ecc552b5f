"""The tools that a server outside lists, as far as Layover takes them (docs/guides/mcp.md#hostile).

Everything here is a stranger's: names, texts and schemas are data that are cut, cleaned and checked, and a
tool that cannot be used is left out with the reason. No other tool suffers from it."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layover.declare.schemas.references import nested, put_objects
from layover.declare.tools.json_schema_signature import json_schema_signature
from layover.errors import DefinitionError, InvalidRequest
from layover.values.base import TOO_DEEP, too_deep
from layover.values.runs.served import ServedTool
from layover.values.text import json_size, sanitise

MAX_TOOLS = 200
"""Tools of one server. A model that reads more chooses badly, and a run pins all of them."""
MAX_DESCRIPTION = 4_000
"""Characters of a tool's description."""
MAX_TEXT = 1_000
"""Characters of a description within a schema."""
MAX_SCHEMA = 32 * 1024
"""Bytes of a tool's schema."""
MAX_LIST = 512 * 1024
"""Bytes of all definitions that a run pins of one server."""
MAX_CHECKED = 1_000
"""Schemas of a list that are checked. A list of bad ones would keep a process busy."""
_MAX_CHECKED_BYTES = 4 * MAX_LIST
_MAX_NAME = 64
_MAX_SHOWN = 80
_DIGITS = 6
_CHECKED_BY_THE_SERVER = ("pattern", "patternProperties")
"""A stranger's regular expression may take years for a short text. The server checks these itself."""
_TEXTS = ("description", "title", "$comment")


@dataclass(frozen=True)
class LeftOut:
    """A tool that a server has and no run gets. `name`: printable and short."""

    name: str
    reason: str


@dataclass(frozen=True)
class Accepted:
    """The tools of a list that can be used, and the others."""

    tools: tuple[ServedTool, ...]
    left_out: tuple[LeftOut, ...]


def accept(
    server: str, listed: Iterable[Any], wants: Callable[[str], bool] = lambda _: True
) -> Accepted:
    """Return what can be used of a server's list. The first of two tools with one name stays. `wants`:
    whether the agent is to have the tool of this name; others are not looked at."""
    tools: dict[str, ServedTool] = {}
    left_out: list[LeftOut] = []
    room = _Room()
    for raw in listed:
        name = raw.get("name") if isinstance(raw, Mapping) else None
        if isinstance(name, str) and not wants(name):
            continue
        try:
            if isinstance(name, str) and alias_of(server, name) in tools:
                raise DefinitionError("another tool of the list has this name")
            tool = _served_tool(server, raw, room)
            room.take(tool)
        except (DefinitionError, InvalidRequest) as error:
            left_out.append(LeftOut(shown_name(name), error.message))
        else:
            tools[tool.alias] = tool
    return Accepted(tuple(tools.values()), tuple(left_out))


class _Room:
    """The room that is left for a list, in a run and in the time of a process."""

    def __init__(self) -> None:
        self._tools = MAX_TOOLS
        self._bytes = MAX_LIST
        self._checks = MAX_CHECKED
        self._bytes_to_check = _MAX_CHECKED_BYTES

    def check(self, size: int) -> None:
        """Count a schema that is about to be checked. Raises DefinitionError if it is not worth it: checks
        cost far more than what comes before them."""
        if self._tools == 0:
            raise DefinitionError(f"a run takes {MAX_TOOLS} tools of a server")
        if self._checks == 0 or self._bytes_to_check < size:
            raise DefinitionError("too many tools before it could not be used")
        self._checks -= 1
        self._bytes_to_check -= size

    def take(self, tool: ServedTool) -> None:
        """Count a tool that is kept. Raises DefinitionError if it does not fit."""
        size = json_size(tool.model_dump(mode="json"))
        if size > self._bytes:
            raise DefinitionError(f"a run takes {MAX_LIST // 1024} KB of a server's definitions")
        self._tools -= 1
        self._bytes -= size


def shown_name(name: Any) -> str:
    """Return a stranger's name for a log or a terminal."""
    return plain(name, _MAX_SHOWN) if isinstance(name, str) else "(no name)"


def alias_of(server: str, name: str) -> str:
    """Return the name by which the model calls a server's tool: with the server's name in front, so that no
    server takes the place of another's tool or of the author's. A name that providers would refuse is changed
    and gets a hash of the real one: two names stay two."""
    whole = f"{server}_{name}"
    alias = re.sub(r"[^a-zA-Z0-9_-]", "_", whole)
    if alias == whole and len(alias) <= _MAX_NAME:
        return alias
    digits = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{alias[: _MAX_NAME - _DIGITS - 1]}_{digits}"


def plain(text: str, limit: int) -> str:
    """Return a stranger's text without what cannot be seen, and cut: no controls, no characters that turn the
    direction of others or stand for nothing, such as the tags in which instructions are hidden."""
    visible = "".join(
        c for c in text[: 4 * limit] if c in "\n\t" or unicodedata.category(c)[0] != "C"
    )
    return visible if len(visible) <= limit else f"{visible[: limit - 1]}…"


def _served_tool(server: str, raw: Any, room: _Room) -> ServedTool:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("name"), str) or not raw["name"]:
        raise DefinitionError("it has no name")
    name = raw["name"]
    if len(name) > 256 or name != sanitise(name):
        raise DefinitionError("its name is longer than 256 characters, or no text")
    schema = raw.get("inputSchema")
    if not isinstance(schema, Mapping):
        raise DefinitionError("it has no schema of its arguments")
    description = raw.get("description")
    hints = raw.get("annotations")
    hints = hints if isinstance(hints, Mapping) else {}
    read_only = hints.get("readOnlyHint") is True
    return ServedTool(
        name=name,
        alias=alias_of(server, name),
        description=plain(description, MAX_DESCRIPTION) if isinstance(description, str) else "",
        parameters=_usable(dict(schema), room),
        read_only=read_only,
        destructive=not read_only and hints.get("destructiveHint") is True,
        idempotent=read_only or hints.get("idempotentHint") is True,
    )


def _usable(schema: dict[str, Any], room: _Room) -> dict[str, Any]:
    """Return the schema with cleaned texts. Raises DefinitionError for one that no tool could have."""
    if too_deep(schema):
        raise DefinitionError(f"schema: {TOO_DEEP}")
    size = json_size(schema)
    if size > MAX_SCHEMA:
        raise DefinitionError(f"schema: it is larger than {MAX_SCHEMA // 1024} KB")
    room.check(size)
    clean: dict[str, Any] = _clean(sanitise(schema))
    for _, each in nested(clean):
        put_objects(each)
        for keyword in _CHECKED_BY_THE_SERVER:
            each.pop(keyword, None)
    try:
        json_schema_signature(_takes_all, "served", clean)
    except DefinitionError as error:
        raise DefinitionError(error.message.removeprefix("tool 'served': ")[:300]) from error
    except RecursionError:
        raise DefinitionError("schema: its references lead too deep") from None
    return clean


def _takes_all(**arguments: Any) -> None:
    """Stands for a handler while a schema is checked."""


def _clean(value: Any) -> Any:
    """Return JSON with every text in it that is shown to a model cleaned. A property may be called
    `description`: its schema is not a text, and stays."""
    if isinstance(value, Mapping):
        return {
            key: plain(inner, MAX_TEXT)
            if key in _TEXTS and isinstance(inner, str)
            else _clean(inner)
            for key, inner in value.items()
        }
    return (
        [_clean(inner) for inner in value]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
    )
