"""The server behind `POST /mcp`: JSON-RPC of the Model Context Protocol, one message a request, without
sessions and streams (docs/adr/0018-agents-by-mcp.md). Imported only when it is asked."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from functions.api.call import Call
from layover import __version__
from layover.errors import Conflict, LimitReached, NotFound, RequestError, unknown_name
from layover.plugins.fronts.chat.agent_calls import begin_call
from layover.plugins.fronts.protocols import mcp_tools as words
from layover.runs.read import get
from layover.values.runs.status import Status
from layover.values.runs.views import Run

Json = dict[str, Any]

WAIT_S = 20.0
"""Seconds that a call waits for its run: clients give up after 30 to 60, API Gateway after 30."""
MAX_KEY = 255
INVALID_PARAMS, UNKNOWN_METHOD = -32602, -32601
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
_META = "io.modelcontextprotocol/"
_STATUS = {
    INVALID_PARAMS: HTTPStatus.BAD_REQUEST,
    HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
    UNKNOWN_METHOD: HTTPStatus.NOT_FOUND,
}
"""Statuses of errors in the stateless version. Before it, an error of JSON-RPC is a good answer of HTTP."""
_NAMED_BY_HEADER = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class RpcError(Exception):
    """An error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data else {})
        self.code = code


@dataclass(frozen=True)
class Request:
    """A message to the server. `page`: the URL of the console; None: it is not known. `version`: of the
    protocol; None: the request names none, as before the versions that say it in a header."""

    call: Call
    method: str
    params: Json
    headers: Mapping[str, str]
    page: str | None

    @property
    def version(self) -> str | None:
        """The version that the header names."""
        return self.headers.get("mcp-protocol-version")

    @property
    def is_stateless(self) -> bool:
        """True in the version in which each request says all of it."""
        return self.version == words.STATELESS_VERSION

    @property
    def meta(self) -> Json:
        """The words of the client about its request."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def opens_pages(self) -> bool:
        """True if the client can have its user open a page, and go on with the same call."""
        capabilities = self.meta.get(f"{_META}clientCapabilities")
        ways = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
        return self.is_stateless and isinstance(ways, dict) and isinstance(ways.get("url"), dict)

    def page_of(self, run: Run) -> str | None:
        """Return the page of the console on which the run's user decides."""
        return f"{self.page}/#/t/{run.thread_id}" if self.page else None


def answer(request: Request) -> tuple[int, Json]:
    """Return the status, and the `result` or the `error`. Raises LayoverError for what is nobody's fault."""
    if refused := unserved(request):
        return HTTPStatus.BAD_REQUEST, {"error": refused}
    try:
        _check_envelope(request)
        return HTTPStatus.OK, {"result": _result(request)}
    except RpcError as error:
        status = _STATUS[error.code] if request.is_stateless else HTTPStatus.OK
        return status, {"error": error.error}


def unserved(request: Request) -> Json | None:
    """Return the error of a message in a version that is not served; None for all others."""
    if request.version is None or request.version in words.VERSIONS:
        return None
    data = {"supported": list(words.VERSIONS), "requested": request.version}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data).error


def _check_envelope(request: Request) -> None:
    """Raise RpcError for a request that does not say all of it, or says it in two ways."""
    if not request.is_stateless:
        return
    needed = ("protocolVersion", "clientCapabilities")
    missing = [_META + name for name in needed if _META + name not in request.meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"params._meta needs {', '.join(missing)}")
    expected = {
        "mcp-protocol-version": request.meta[f"{_META}protocolVersion"],
        "mcp-method": request.method,
    }
    if (name := _NAMED_BY_HEADER.get(request.method)) and request.params.get(name) is not None:
        expected["mcp-name"] = request.params[name]
    for header, value in expected.items():
        if _decoded(request.headers.get(header)) != value:
            raise RpcError(HEADER_MISMATCH, f"the header {header} does not match the body")


def _decoded(value: str | None) -> str | None:
    """Return a header's text. One that is not ASCII comes in base64."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _result(request: Request) -> Json:
    match request.method, request.is_stateless:
        case "initialize", False:
            return _handshake(request.params)
        case "ping", False:
            return {}
        case "server/discover", True:
            return _cached(_server() | {"supportedVersions": list(words.VERSIONS)})
        case "tools/list", is_stateless:
            if request.params.get("cursor") is not None:
                raise RpcError(INVALID_PARAMS, "there is no such cursor: the list is one page")
            listed = {"tools": _tools(request.call)}
            return _cached(listed) if is_stateless else listed
        case "tools/call", is_stateless:
            result = _call_tool(request)
            return {"resultType": "complete"} | result if is_stateless else result
        case _:
            raise RpcError(UNKNOWN_METHOD, "there is no such method")


def _server() -> Json:
    about = {"name": "layover", "title": "Layover", "version": __version__}
    return {
        "capabilities": {"tools": {}},
        "serverInfo": about,
        "instructions": words.INSTRUCTIONS,
        "_meta": {f"{_META}serverInfo": about},
    }


def _handshake(params: Json) -> Json:
    version = params.get("protocolVersion")
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, "protocolVersion has to be a text")
    newest = words.HANDSHAKE_VERSIONS[-1]
    return {
        "protocolVersion": version if version in words.HANDSHAKE_VERSIONS else newest
    } | _server()


def _cached(result: Json) -> Json:
    """Return a result that no client may keep: a deployment changes it without a word."""
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} | result


def _tools(call: Call) -> list[Json]:
    agents = call.host.runtime().agents()
    listed = [words.agent_tool(name, agents[name].description) for name in sorted(agents)]
    return [*listed, words.run_tool(_run_tool(agents))]


def _run_tool(agents: Mapping[str, Any]) -> str:
    """Return the name of the tool that waits for a run: one that no agent has."""
    name = "get_run"
    while name in agents:
        name += "_"
    return name


def _call_tool(request: Request) -> Json:
    """Return the result of a call. What its caller can mend is an error that the caller's model reads."""
    agents = request.call.host.runtime().agents()
    name, arguments = request.params.get("name"), request.params.get("arguments")
    again = _run_tool(agents)
    if not isinstance(name, str) or name not in {*agents, again}:
        raise RpcError(INVALID_PARAMS, unknown_name("tool", name, {*agents, again}))
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, "arguments has to be an object")
    goes_on = "requestState" in request.params or "inputResponses" in request.params
    try:
        run = _run_of(request, name, arguments or {}, goes_on=goes_on, waits=name == again)
    except (RequestError, LimitReached) as error:
        return words.refusal(_refused(error, again))
    page = request.page_of(run)
    may_ask = name != again and not goes_on and request.opens_pages
    if may_ask and page and run.status is Status.SUSPENDED and words.owner_decides(run):
        return words.decision_request(run, page)
    return words.run_result(run, again, page)


def _run_of(request: Request, name: str, arguments: Json, *, goes_on: bool, waits: bool) -> Run:
    """Return the run of a call, at its end or as far as it is in time."""
    if waits:
        return _wait_for(request, _texts(arguments, "run_id")["run_id"])
    return _go_on(request) if goes_on else _begin(request, name, arguments)


def _begin(request: Request, agent: str, arguments: Json) -> Run:
    texts = _texts(arguments, "message", thread_id=None)
    call, key = request.call, _key(request.meta)
    run = call.act(begin_call, agent, texts["message"], texts["thread_id"], key)
    return run if run.status.settled else _wait_for(request, run.id)


def _go_on(request: Request) -> Run:
    """Return the run of a call that goes on after its client's user was asked. Whatever they answered decides
    nothing: a person does that on the page, signed in."""
    state, answers = request.params.get("requestState"), request.params.get("inputResponses")
    if not isinstance(state, str):
        raise RpcError(INVALID_PARAMS, "requestState has to be the one of the answer before")
    decision = answers.get(words.DECISION) if isinstance(answers, dict) else None
    is_open = isinstance(decision, dict) and decision.get("action") == "accept"
    return _wait_for(request, state, WAIT_S if is_open else 0.0)


def _wait_for(request: Request, run_id: str, most_s: float = WAIT_S) -> Run:
    return request.call.do(get, run_id, min(most_s, request.call.left_s))


def _texts(arguments: Json, needed: str, **optional: None) -> dict[str, Any]:
    """Return the arguments of a call. Raises InvalidArguments, which says what to do about them."""
    names = [needed, *optional]
    for name, value in arguments.items():
        if name not in names:
            raise InvalidArguments(unknown_name("argument", name, names))
        if not isinstance(value, str) and (name == needed or value is not None):
            raise InvalidArguments(f"{name} has to be a text")
    if needed not in arguments:
        raise InvalidArguments(f"{needed} is missing")
    return {**optional, **arguments}


class InvalidArguments(RequestError):
    """The arguments of a call do not fit its tool."""


def _key(meta: Json) -> str | None:
    key = meta.get(words.KEY)
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY):
        raise RpcError(
            INVALID_PARAMS, f"_meta {words.KEY} has to be a text of 1 to {MAX_KEY} characters"
        )
    return key


def _refused(error: RequestError | LimitReached, again: str) -> str:
    run_id = error.ids.get("run_id")
    if isinstance(error, Conflict) and run_id:
        return f"{error.message}. Call {again} with run_id {run_id} for it."
    if isinstance(error, NotFound):
        return error.message
    if isinstance(error, LimitReached) and error.retry_after is not None:
        return f"{error.message}. Try again in {error.retry_after.total_seconds():.0f} seconds."
    return error.message
