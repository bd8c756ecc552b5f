"""Tool calls put together from the pieces of a stream (docs/behaviour.md#streamed-calls).

Servers disagree on ids, on indexes and on how a name is cut. A piece that is put into the wrong call runs a
tool that nobody asked for, so the index and the state of the arguments' JSON decide before ids do."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from layover.plugins.models import call_ids
from layover.plugins.models.opaque import Opaque
from layover.plugins.models.text import Text
from layover.ports import Ids
from layover.values.json_answer import read_json
from layover.values.prompt import Delta, RequestedCall
from layover.values.text import sanitise

Json = dict[str, Any]

_EMPTY_BEGINNING = re.compile(r"(\s*\{\s*\}\s*)+(?=\{)")
"""Empty objects before the arguments: some gateways send what the provider's own stream begins with."""
CUT = "{"
"""The arguments of a call that the reply's limit cut before they began: not an object, so nothing runs."""


@dataclass(frozen=True)
class _Piece:
    """One piece of a call. `name` and `args` are empty where it has none."""

    index: int | None
    id: str
    name: str
    args: str
    raw: Json

    @property
    def begins_object(self) -> bool:
        return self.args.lstrip().startswith("{")


class CallPieces:
    """The calls of one reply in the making. `tools`: the names of the tools that the request offers."""

    def __init__(self, ids: Ids, tools: Collection[str] = ()) -> None:
        self._ids = ids
        self._tools = frozenset(tools)
        self._opened: list[_Call] = []
        self._calls: list[_Call] = []
        """Those that have a name or arguments: their places are those of the reply's calls."""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, raw: Json) -> list[Delta]:
        """Take a piece of a stream and return what can be told of it."""
        piece = _read(raw)
        call = self._continued(piece) or self._open(piece)
        call.add(piece)
        return self._news(call)

    def add_whole(self, raw: Json) -> list[Delta]:
        """Take a call of a plain answer. Two with the same id are two calls."""
        piece = _read(raw)
        call = self._open(piece)
        call.add(piece)
        return self._news(call)

    def end(self) -> list[Delta]:
        """Return what was held back: no piece follows."""
        return [delta for call in self._calls for delta in self._news(call, at_end=True)]

    def whole(self, *, cut: bool) -> tuple[RequestedCall, ...]:
        """Return the calls. `cut`: the reply's limit ended it, perhaps within the last call."""
        last = self._calls[-1] if self._calls else None
        return tuple(c.whole(self._ids, cut=cut and c is last) for c in self._calls)

    def _open(self, piece: _Piece) -> "_Call":
        call = _Call(self._tools)
        if not piece.name:
            call.name = next((c.name for c in self._opened[-1:] if c.is_header), "")
        self._opened.append(call)
        return call

    def _news(self, call: "_Call", *, at_end: bool = False) -> list[Delta]:
        if call not in self._calls:
            if call.is_blank:
                return []  # An empty one among the pieces says nothing, unless more of it follows.
            self._calls.append(call)
        text = call.news(at_end=at_end)
        if text is None:
            return []
        at, call_id = self._calls.index(call), call.id_from(self._ids)
        return [
            Delta(kind="tool-call", text=text, call=at, tool_call_id=call_id, tool_name=call.name)
        ]

    def _continued(self, piece: _Piece) -> "_Call | None":
        """Return the call that a piece continues; None if it begins another one."""
        if not self._opened:
            return None
        if piece.index is None:
            return self._without_index(piece)
        same = [call for call in self._opened if piece.index in call.indexes]
        if not same:
            return self._under_new_index(piece)
        call = _unfinished(same, piece.id) if len(same) > 1 else same[-1]
        return call if call.goes_on_with(piece) else None

    def _under_new_index(self, piece: _Piece) -> "_Call | None":
        """Return the unfinished call that a piece continues, although the index is new: some servers count
        pieces and not calls. A header, or the beginning of an object, opens another call."""
        if not self._calls:
            return None
        call = _unfinished(self._calls, piece.id)
        opens = not piece.args.strip() or (piece.name and piece.begins_object)
        return None if opens or call.is_whole() or not call.goes_on_with(piece) else call

    def _without_index(self, piece: _Piece) -> "_Call | None":
        same_id = [call for call in self._opened if piece.id and call.given_id == piece.id]
        call = _unfinished(same_id or self._opened, piece.id)
        is_header = bool(piece.id and piece.name) and not piece.args.strip()
        if is_header and not same_id and call.given_id:
            return None  # Only ids tell calls apart that are made side by side: a header opens one.
        return call if call.goes_on_with(piece) else None


def _unfinished(calls: "list[_Call]", call_id: str) -> "_Call":
    """Return the newest of the calls with this id whose arguments are not whole; without any, the newest of
    all."""
    own = (c for c in reversed(calls) if call_id and c.given_id == call_id and not c.is_whole())
    return next(own, calls[-1])


class _Call:
    """A tool call in the making."""

    def __init__(self, tools: frozenset[str]) -> None:
        self._tools = tools
        self.indexes: set[int] = set()
        self.given_id = ""
        self.name = ""
        self._id = ""
        self._args = Text()
        self._untold = ""
        self._told = False
        self.has_begun = False
        """True once the arguments are more than blanks or an empty object."""
        self.is_header = False
        """True if the name was repeated after whole arguments: if an object follows, it is another call's."""
        self._opaque = Opaque()

    @property
    def is_blank(self) -> bool:
        return not self.name and not self._args.whole()

    def id_from(self, ids: Ids) -> str:
        """Return its id: the provider's first one, else a new one."""
        self._id = self._id or sanitise(self.given_id) or ids.new("call")
        return self._id

    def is_whole(self) -> bool:
        """Return whether the arguments so far are JSON that needs nothing more."""
        return is_json(self._args.whole())

    def goes_on_with(self, piece: _Piece) -> bool:
        """Return whether a piece that stands in its place continues it."""
        if not piece.name:
            return not (self.is_header and piece.begins_object)
        name = join_names(self.name, piece.name, self._tools)
        if name is None:
            return False
        args, more = self._args.whole(), piece.args.strip()
        if not args.strip():
            return True
        both_named = bool(piece.id and self.given_id)
        other_id = both_named and piece.id != self.given_id
        if self.is_whole():
            if piece.name != self.name or not self.has_begun:
                # An empty object before the first real piece is a beginning, whatever the ids say: run by
                # itself, it would have all of the tool's defaults.
                return not self.has_begun and not (other_id and more == "{}")
            return not other_id and more in ("", args.strip())
        return (both_named and not other_id) or is_unfinished_json(args + piece.args)

    def add(self, piece: _Piece) -> None:
        """Take a piece."""
        self._opaque.add(piece.raw)
        if piece.index is not None:
            self.indexes.add(piece.index)
        self.given_id = self.given_id or piece.id
        self.is_header = bool(piece.name) and self.has_begun and self.is_whole()
        if piece.name:
            self.name = join_names(self.name, piece.name, self._tools) or self.name
        self._add_args(piece.args)

    def _add_args(self, text: str) -> None:
        if not text:
            return
        if not self.has_begun:
            text = self._args.whole() + text
            self._args, self._untold = Text(), ""
            if empty := _EMPTY_BEGINNING.match(text):
                text = text[empty.end() :]
            self.has_begun = not "{}".startswith("".join(text.split()))
        elif self._repeats(text):
            return
        self._untold += self._args.add(text)

    def _repeats(self, text: str) -> bool:
        """Return whether the text is the arguments once more: some servers end with the whole call."""
        if not text.lstrip().startswith("{"):
            return False
        args = self._args.whole().strip()
        return args == text.strip() and is_json(args)

    def news(self, *, at_end: bool) -> str | None:
        """Return the text that was not told yet; None as long as nothing can be told. A listener cannot take
        back a name that goes on, nor arguments that begin again."""
        if not at_end and not self._told and not self._is_name_settled():
            return None
        text, is_first = "", not self._told
        if at_end or self.has_begun:
            text, self._untold = self._untold, ""
        self._told = True
        return text if text or is_first else None

    def _is_name_settled(self) -> bool:
        if not self._tools:
            return bool(self.name)
        longer = any(tool.startswith(self.name) and tool != self.name for tool in self._tools)
        return self.name in self._tools and (self.has_begun or not longer)

    def whole(self, ids: Ids, *, cut: bool) -> RequestedCall:
        """Return the call."""
        args = whole_arguments(self._args.whole(), cut=cut)
        call_id = self.id_from(ids)
        state = self._opaque.fields() | call_ids.state_of(call_id)
        return RequestedCall(id=call_id, name=self.name, args=args, state=state)


def join_names(current: str, piece: str, tools: Collection[str]) -> str | None:
    """Return the name of a call whose next piece has this name: pieces are joined until they are a tool of
    the request, a name may be repeated, and it may grow. None: it is another tool's name."""
    joined = current + piece
    if not current or (_begins_tool(joined, tools) and not (piece == current in tools)):
        return joined
    if piece.startswith(current) and (not tools or piece == current or _begins_tool(piece, tools)):
        return piece
    if not tools or current in tools or piece in tools:
        return None
    return joined


def _begins_tool(name: str, tools: Collection[str]) -> bool:
    return any(tool.startswith(name) for tool in tools)


def whole_arguments(args: str, *, cut: bool) -> str:
    """Return a call's arguments. Providers send no text, blanks or `{}` for a call that has none; only the
    finish reason says whether the reply's limit cut them instead (`cut`)."""
    if not args.strip():
        return CUT if cut else "{}"
    return args


def is_json(text: str) -> bool:
    """Return whether a text is whole JSON."""
    if text.rstrip()[-1:] in ("", ",", ":", "{", "["):
        return False
    try:
        read_json(text)
    except ValueError:
        return False
    return True


def is_unfinished_json(text: str) -> bool:
    """Return whether a text is JSON, or the beginning of it."""
    try:
        read_json(text)
    except ValueError as error:
        return str(error).startswith("EOF")
    return True


def _read(raw: Json) -> _Piece:
    function = raw.get("function")
    function = function if isinstance(function, dict) else {}
    args = function.get("arguments")
    text = "" if args is None else args if isinstance(args, str) else json.dumps(args)
    name, call_id = function.get("name"), raw.get("id")
    return _Piece(
        index=read_index(raw.get("index")),
        id="" if call_id is None else str(call_id),
        name=sanitise(name) if isinstance(name, str) and name.strip() else "",
        args=text,
        raw=raw,
    )


def read_index(value: object) -> int | None:
    """Return an index, which some servers send as a text; None where there is none."""
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return int(value) if isinstance(value, int | float) and value == value // 1 else None
