"""A provider that misbehaves at random, as people have reported: ids, pieces, usage, types, refusals."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from layover.adapters.http.client import Client, Response
from layover.adapters.http.request import Url

FORBIDDEN = "forbidden"
"""A word that some providers' filters do not take, whoever says it."""
ROOMS = ("book", "cancel", "cancel_draft")
Body = dict[str, Any]


class OddResponse(Response):
    """An answer in pieces of any size, which may break off."""

    def __init__(
        self, status: int, kind: str, pieces: list[bytes], *, breaks: bool = False
    ) -> None:
        super().__init__(status, {"content-type": kind} if kind else {})
        self._pieces = pieces
        self._breaks = breaks

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        for piece in self._pieces:
            yield piece
        if self._breaks:
            raise ConnectionResetError("reset by peer")

    async def aclose(self) -> None:
        """Nothing is open."""


class ClientOfFake(Client):
    """A client whose answers are made in this process: nothing is connected, and nothing open."""

    def dial(self, url: Url) -> None:
        """Nothing to connect."""

    async def aclose(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True)
class Wish:
    """What the model means to answer: a text, or calls as (tool, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, Body], ...] = ()


@dataclass
class OddProvider(ClientOfFake):
    """`fair`: it answers without a fault from now on, but keeps its taste. `wishes`: what its model meant, in
    all answers."""

    random: Random
    fair: bool = False
    wishes: list[Wish] = field(default_factory=list)

    def __post_init__(self) -> None:
        r = self.random
        self._takes_files = r.random() < 0.4
        self._filter = r.choice(("", "", "code", "words", "unknown", "stream"))
        self._takes_calls = r.random() < 0.85
        """False if it refuses calls and results in the history of a request."""
        self._style = Style.any_of(r)

    async def post(
        self, url: Url, headers: Mapping[str, str], body: bytes, silence_s: float
    ) -> Response:
        request = json.loads(body)
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        fault = None if self.fair else self._fault()
        if fault is not None:
            return fault
        wish = self._wish(request)
        self.wishes.append(wish)
        return self._answer(wish, stream=bool(request.get("stream")))

    def _refusal(self, request: Body) -> Response | None:
        """Refuse a request for its content: the same one each time."""
        text = json.dumps(request["messages"])
        if not self._takes_files and '"image_url"' in text:
            return _error(
                self.random.choice((400, 413, 415, 422)), {"message": "Could not process image"}
            )
        if self._filter and FORBIDDEN in text:
            return self._filtered()
        history = _before_last_user(request["messages"])
        if not self._takes_calls and any(m.get("tool_calls") for m in history):
            return _error(400, {"message": "messages: invalid tool_use block"})
        return None

    def _filtered(self) -> Response:
        error = {
            "code": {"code": "content_filter", "message": "The response was filtered"},
            "words": {"message": "Content Exists Risk"},
            "unknown": {"message": "Invalid request"},
            "stream": {"code": "content_filter", "message": "filtered"},
        }[self._filter]
        if self._filter == "stream":
            return OddResponse(200, "text/event-stream", [_event({"error": error})])
        return _error(400, error)

    def _fault(self) -> Response | None:
        """Return an answer that is none, now and then."""
        r = self.random
        if r.random() > 0.2:
            return None
        match r.randrange(8):
            case 0:
                return _error(r.choice((429, 500, 502, 503, 529)), {"message": "busy"})
            case 1:
                return OddResponse(200, "text/html", [b"<html><h1>Bad gateway</h1></html>"])
            case 2:
                return OddResponse(200, "text/event-stream", [], breaks=True)
            case 3:
                return OddResponse(
                    200, "text/event-stream", [_event({"error": {"message": "overloaded"}})]
                )
            case 4:
                return self._nothing({"content": ""}, "stop")
            case 5:
                return self._nothing({"content": "Let me see."}, "tool_calls")
            case 6:
                return self._nothing({"reasoning_content": "The user greets me."}, "stop")
            case _:
                wish = Wish(calls=(("book", {"hotel": "half"}),))
                chunks = [*self._style.chunks(self.random, wish)]
                half = [_event(c) for c in chunks[: len(chunks) // 2]]
                return OddResponse(200, "text/event-stream", half, breaks=r.random() < 0.5)

    def _nothing(self, delta: Body, reason: str) -> Response:
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}]
        return OddResponse(200, "text/event-stream", [*map(_event, chunks), b"data: [DONE]\n\n"])

    def _wish(self, request: Body) -> Wish:
        r = self.random
        last = request["messages"][-1]
        number = len(self.wishes)
        if last["role"] == "tool" or "tools" not in request or r.random() < 0.4:
            return Wish(text=f"Answer {number}.")
        calls = [
            (
                r.choice(ROOMS),
                {"hotel": f"h{number}-{i}", "guest": {"name": 'Ada {1} "x"', "nights": 2}},
            )
            for i in range(r.choice((1, 1, 2, 3)))
        ]
        return Wish(calls=tuple(calls))

    def _answer(self, wish: Wish, *, stream: bool) -> Response:
        r, style = self.random, self._style
        if not stream or style.ignores_stream:
            document = json.dumps(style.document(wish)).encode()
            return OddResponse(200, style.kind, [document])
        data = b"".join(style.events(r, wish))
        size = r.choice((7, 60, 5_000))
        return OddResponse(200, style.kind, [data[i : i + size] for i in range(0, len(data), size)])


@dataclass(frozen=True)
class Style:
    """One server's way of sending calls. Each is from a report; what it says is never ambiguous."""

    indexes: str
    ids: str
    names: str
    first: str
    size: int
    repeats_whole: bool
    usage: str
    done: bytes
    reason: str
    splits: bool
    thoughts: str
    ignores_stream: bool
    keeps_alive: bool
    object_args: bool
    kind: str

    @classmethod
    def any_of(cls, r: Random) -> "Style":
        """Return a style at random."""
        indexes = r.choice(("right", "right", "text", "absent"))
        # Without an index, only ids or whole calls tell two calls apart.
        ids = r.choice(
            ("right", "changing", "empty", "once", "same") if indexes != "absent" else ("right",)
        )
        return cls(
            indexes=indexes,
            ids=ids,
            names=r.choice(("first", "each", "pieces")),
            first=r.choice(("", "{}")),
            size=r.choice((1, 4, 13, 400)),
            repeats_whole=indexes == "right" and r.random() < 0.2,
            usage=r.choice(("none", "last", "each", "null", "texts")),
            done=r.choice((b"data: [DONE]\n\n", b"data: [DONE] \n\n", b"data:[DONE]\n\n")),
            reason=r.choice(("right", "stop", "function_call")),
            splits=r.random() < 0.2,
            thoughts=r.choice(("", "", "field", "tags", "unopened")),
            ignores_stream=r.random() < 0.15,
            keeps_alive=r.random() < 0.3,
            object_args=r.random() < 0.2,
            kind=r.choice(("text/event-stream", "application/json", "text/plain", "")),
        )

    def events(self, r: Random, wish: Wish) -> Iterator[bytes]:
        """Yield the events of a stream."""
        for chunk in self.chunks(r, wish):
            if self.keeps_alive and r.random() < 0.3:
                yield r.choice((b": keep-alive\n\n", b"data: ping\n\n", b"data: \n\n"))
            yield _event(chunk)
        yield self.done

    def chunks(self, r: Random, wish: Wish) -> Iterator[Body]:
        """Yield the chunks of a stream."""
        text = self._with_thoughts(wish.text)
        if self.thoughts == "field":
            yield self._chunk({"reasoning_content": "I think."})
        for at in range(0, len(text), self.size):
            yield self._chunk({"content": text[at : at + self.size]})
        choice = 1 if self.splits and wish.calls else 0
        for number, (name, args) in enumerate(wish.calls):
            for piece in self._pieces(number, name, json.dumps(args)):
                yield self._chunk({"tool_calls": [piece]}, choice)
        if self.repeats_whole and wish.calls:
            whole = [self._whole(n, *call) for n, call in enumerate(wish.calls)]
            yield self._chunk({"tool_calls": whole}, choice)
        yield {**self._chunk({}, choice, self._reason(wish)), **self._usage()}
        if self.usage == "last":
            yield {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}

    def _with_thoughts(self, text: str) -> str:
        if not text or self.thoughts not in ("tags", "unopened"):
            return text
        return ("<think>\n" if self.thoughts == "tags" else "") + f"I think.\n</think>\n\n{text}"

    def _pieces(self, number: int, name: str, args: str) -> Iterator[Body]:
        cut = [args[i : i + self.size] for i in range(0, len(args), self.size)]
        names = [name, *[name if self.names == "each" else None] * len(cut)]
        if self.names == "pieces":
            names = [name[:3], name[3:] or None, *[None] * len(cut)]
            cut = ["", *cut]
        arguments = [self.first, *cut]
        names += [None] * (len(arguments) - len(names))
        for at, text in enumerate(arguments):
            function: Body = {"arguments": text}
            if names[at] is not None:
                function["name"] = names[at]
            piece: Body = {"function": function, "type": "function"}
            if self.indexes != "absent":
                piece["index"] = number if self.indexes == "right" else str(number)
            id = self._id(number, at)
            if id is not None:
                piece["id"] = id
            yield piece

    def _id(self, number: int, at: int) -> str | None:
        match self.ids:
            case "right":
                return f"call_{number}"
            case "changing":
                return f"call_{number}_{at}"
            case "empty":
                return ""
            case "same":
                return "call"
            case _:
                return f"call_{number}" if at == 0 else None

    def _whole(self, number: int, name: str, args: Body) -> Body:
        function = {"name": name, "arguments": json.dumps(args)}
        return {
            "index": number,
            "id": self._id(number, 0),
            "type": "function",
            "function": function,
        }

    def document(self, wish: Wish) -> Body:
        """Return an answer that is not a stream."""
        message: Body = {"role": "assistant", "content": self._with_thoughts(wish.text) or None}
        if wish.calls:
            message["tool_calls"] = [self._whole(n, *call) for n, call in enumerate(wish.calls)]
            if self.object_args:
                for call, (_, args) in zip(message["tool_calls"], wish.calls, strict=True):
                    call["function"]["arguments"] = args
        choices = [{"index": 0, "message": message, "finish_reason": self._reason(wish)}]
        if self.splits and wish.calls:
            first = {"role": "assistant", "content": "Let me see."}
            choices.insert(0, {"index": 0, "message": first, "finish_reason": "stop"})
            choices[1]["index"] = 1
        return {"choices": choices, **self._usage()}

    def _reason(self, wish: Wish) -> str:
        if not wish.calls:
            return "stop"
        return "tool_calls" if self.reason == "right" else self.reason

    def _usage(self) -> Body:
        match self.usage:
            case "each":
                return {"usage": {"prompt_tokens": 9, "completion_tokens": 1}}
            case "null":
                return {"usage": None}
            case "texts":
                return {"usage": {"prompt_tokens": "9", "completion_tokens": "x"}}
            case _:
                return {}

    def _chunk(self, delta: Body, choice: int = 0, reason: str | None = None) -> Body:
        chunk = {"choices": [{"index": choice, "delta": delta, "finish_reason": reason}]}
        return {**chunk, **(self._usage() if self.usage == "each" else {})}


def _before_last_user(messages: list[Body]) -> list[Body]:
    last = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=0)
    return messages[:last]


def _event(chunk: Body) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _error(status: int, error: Body) -> Response:
    return OddResponse(status, "application/json", [json.dumps({"error": error}).encode()])
