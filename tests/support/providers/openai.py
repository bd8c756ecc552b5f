"""A model provider on loopback whose every byte can be scripted: Chat Completions, Converse, Messages.

    with FakeOpenAI() as server:
        server.script([calls(("refund", {"amount": 40})), say("done")])
        ...  # OPENAI_BASE_URL=server.base_url
        assert server.requests[0].headers["x-layover-task"] == "turn"

Its own HTTP, because a broken stream, a cut connection and the count of connections are the point."""

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from layover.desk.local.model.server import embeddings
from layover.inmemory.model import BACKGROUND
from support.providers import converse, messages, responses
from support.providers.answers import Raw as Raw
from support.providers.answers import Request as Request
from support.providers.answers import Response as Response
from support.providers.answers import document as document
from support.providers.answers import words

Json = dict[str, Any]
WAIT_S = 90.0
"""No wait in here is longer."""


Reply = Raw | Response
Responder = Callable[[Any], Reply]


def say(text: str, **more: Any) -> Response:
    """An answer in words."""
    return Response(text=text, **more)


def calls(*wanted: tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], str]) -> Response:
    """One step's calls: `(name, args)` or `(name, args, id)`."""
    return Response(calls=tuple(_call(*call) for call in wanted))


def call(name: str, /, **args: Any) -> Response:
    """One call."""
    return calls((name, args))


def fail(
    status: int = 500, message: str = "boom", *, code: str | None = None, **headers: str
) -> Raw:
    """An error answer; `retry_after="1"` becomes the header `retry-after`."""
    body = {"error": {"message": message, "type": "error", "code": code}}
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return document(body, status=status, headers=named)


def stream(*events: Json | str | bytes, done: bool = True, **more: Any) -> Raw:
    """A stream of chunks: objects become `data:` events, text and bytes go out as they are."""
    chunks = [_event(event) for event in events] + ([b"data: [DONE]\n\n"] if done else [])
    return Raw(200, {"content-type": "text/event-stream"}, tuple(chunks), **more)


def delta(content: str | None = None, finish: str | None = None, **more: Any) -> Json:
    """One chunk of a stream."""
    said = more if content is None else {"content": content, **more}
    return {"choices": [{"index": 0, "delta": said, "finish_reason": finish}]}


def _call(name: str, args: Mapping[str, Any], call_id: str = "") -> tuple[str, str, str]:
    return (call_id, name, json.dumps(dict(args)))


def _event(event: Json | str | bytes) -> bytes:
    if isinstance(event, bytes):
        return event
    return (event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n").encode()


class FakeOpenAI:
    """The server; a context manager, usable from any thread and from other processes.

    A request for a background task is answered from that task's script, or with something empty but valid, so
    that only the turn uses a turn's script."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.abandoned = 0
        """Answers whose client left before their end."""
        self._changed = threading.Condition()
        self._scripts: dict[str, deque[Reply]] = {}
        self._responders: dict[str, Responder] = {}
        self._made = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="fake-openai", daemon=True)
        self._ready = threading.Event()
        self._port = 0

    def __enter__(self) -> "FakeOpenAI":
        self._thread.start()
        if not self._ready.wait(WAIT_S):
            raise RuntimeError("the fake provider did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_S)

    @property
    def base_url(self) -> str:
        """The value for `OPENAI_BASE_URL`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def turns(self) -> list[Request]:
        """The chat requests of runs."""
        return [r for r in self.requests if r.task == "turn" and r.asks_a_model]

    def script(self, replies: Iterable[Reply], task: str = "turn") -> None:
        """Answer requests for this task with these, in order (after those already scripted)."""
        with self._changed:
            self._scripts.setdefault(task, deque()).extend(replies)

    def respond_with(self, responder: Responder, task: str = "turn") -> None:
        """Answer requests for this task with what the function makes of their bodies."""
        with self._changed:
            self._responders[task] = responder

    def wait_for(self, what: Callable[["FakeOpenAI"], bool], timeout_s: float = WAIT_S) -> None:
        """Block until this holds. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: what(self), timeout_s):
                raise TimeoutError(f"did not happen within {timeout_s} s")

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        # A connection of the last moment is served some turns of the loop after it was accepted. A
        # server that is closed meanwhile, or a cancel, would leave it open for good.
        self._loop.remove_reader(server.sockets[0])
        while asyncio.all_tasks() != {asyncio.current_task()}:
            for task in self._serving:
                task.cancel()
            await asyncio.sleep(0)
        server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with self._changed:
            self.connections += 1
            number = self.connections
        with contextlib.suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError
        ):
            while await self._exchange(reader, writer, number):
                pass
        writer.transport.abort()
        self._serving.discard(task)

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> bool:
        request = await _read(reader, number)
        if request is None:
            return False
        reply = await self._decide(request)
        raw = self._rendered(reply, request) if isinstance(reply, Response) else reply
        try:
            finished = await _write(raw, reader, writer)
        except ConnectionError:
            finished = False
        if not finished and not raw.breaks:
            with self._changed:
                self.abandoned += 1
                self._changed.notify_all()
        return finished and not raw.breaks

    async def _decide(self, request: Request) -> Reply:
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
            scripted = self._scripts.get(request.task)
            responder = self._responders.get(request.task)
            if (request.asks_a_model or request.path.endswith("/embeddings")) and scripted:
                return scripted.popleft()
        if not request.asks_a_model:
            return _other(request)
        if responder is not None:
            return await asyncio.to_thread(responder, request.body)
        if request.task != "turn":
            return Response(text=BACKGROUND.get(request.task, ""))
        return fail(400, f"the fake provider has no reply scripted for {request.body!r:.500}")

    def _rendered(self, answer: Response, request: Request) -> Raw:
        with self._changed:
            named = []
            for call_id, name, args in answer.calls:
                self._made += not call_id
                named.append((call_id or f"call_{self._made}", name, args))
        answer = replace(answer, calls=tuple(named))
        body = request.body if isinstance(request.body, dict) else {}
        if "/converse" in request.path:
            raw = converse.rendered(answer, request)
        elif request.path.endswith("/messages"):
            raw = messages.rendered(answer, request)
        elif request.path.endswith("/responses"):
            raw = responses.rendered(answer, request)
        else:
            raw = _streamed(answer, body) if body.get("stream") else _plain(answer, body)
        return replace(raw, delay_s=answer.delay_s, hold=answer.hold)


async def _read(reader: asyncio.StreamReader, number: int) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parsed = json.loads(body) if body else None
    return Request(first.split(" ")[1], headers, parsed, number, body)


async def _write(raw: Raw, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Write the response, and return whether the client stayed to the end."""
    if not await _pause(reader, raw.delay_s):
        return False
    lines = [f"HTTP/1.1 {raw.status} Status", *(f"{k}: {v}" for k, v in raw.headers.items())]
    writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
    for at, chunk in enumerate(raw.chunks):
        is_last = at == len(raw.chunks) - 1
        if is_last and raw.hold is not None and not await _held(reader, raw.hold):
            return False
        if at and not await _pause(reader, raw.pause_s):
            return False
        if chunk:
            writer.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await writer.drain()
    if not raw.breaks:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
    if raw.breaks:
        writer.close()
    return True


async def _pause(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Wait; False as soon as the client is gone."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if _gone(reader):
            return False
        await asyncio.sleep(min(left, 0.01))
    return not _gone(reader)


def _gone(reader: asyncio.StreamReader) -> bool:
    """A client that closes with something unread resets the connection: an exception, no end."""
    return reader.at_eof() or reader.exception() is not None


async def _held(reader: asyncio.StreamReader, event: threading.Event) -> bool:
    until = time.monotonic() + WAIT_S
    while not event.is_set() and time.monotonic() < until:
        if not await _pause(reader, 0.005):
            return False
    return not _gone(reader)


def _usage(answer: Response, body: Json) -> Json:
    if answer.usage is not None:
        return answer.usage
    asked = len(json.dumps(body.get("messages"))) // 4
    said = (len(answer.text) + sum(len(args) for _, _, args in answer.calls)) // 4
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _head(answer: Response, body: Json, kind: str) -> Json:
    model = answer.model or body.get("model", "")
    return {"id": "chatcmpl-fake", "object": kind, "created": 0, "model": model}


def _finish(answer: Response) -> str:
    return answer.finish_reason or ("tool_calls" if answer.calls else "stop")


def _tool_calls(answer: Response) -> list[Json]:
    return [
        {"id": i, "type": "function", "function": {"name": name, "arguments": args}}
        for i, name, args in answer.calls
    ]


def _plain(answer: Response, body: Json) -> Raw:
    message: Json = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = _tool_calls(answer)
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    head = _head(answer, body, "chat.completion")
    return document({**head, "choices": [choice], "usage": _usage(answer, body)})


def _streamed(answer: Response, body: Json) -> Raw:
    head = _head(answer, body, "chat.completion.chunk")
    pieces: list[Json] = [{"role": "assistant", "content": ""}]
    pieces += [{"reasoning_content": word} for word in words(answer.reasoning)]
    pieces += [{"content": word} for word in words(answer.text)]
    pieces += [{"tool_calls": [piece]} for piece in _call_pieces(answer)]
    events: list[Json] = [
        {**head, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in pieces
    ]
    last = {"index": 0, "delta": {}, "finish_reason": _finish(answer)}
    events.append({**head, "choices": [last]})
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append({**head, "choices": [], "usage": _usage(answer, body)})
    return stream(*events)


def _call_pieces(answer: Response) -> list[Json]:
    pieces: list[Json] = []
    for index, whole in enumerate(_tool_calls(answer)):
        function = whole["function"]
        args, half = function["arguments"], len(function["arguments"]) // 2
        opening = {**whole, "function": {"name": function["name"], "arguments": ""}}
        pieces.append({"index": index, **opening})
        pieces += [
            {"index": index, "function": {"arguments": part}} for part in (args[:half], args[half:])
        ]
    return pieces


def _other(request: Request) -> Raw:
    if request.path.endswith("/embeddings"):
        return document(embeddings(request.body))
    if request.path.endswith("/models"):
        return document({"object": "list", "data": []})
    return fail(404, f"no such path: {request.path}")
