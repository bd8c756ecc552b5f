"""AWS on one machine: one endpoint for DynamoDB, Step Functions, EventBridge, Lambda and S3."""

import json
import re
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from layover.adapters.journal.items.schema import TABLE, TIME_TO_LIVE, WATCH_INDEX
from layover.clock import SystemClock
from layover.keys import META, Keys, watch_partitions
from layover.local.aws.dynamodb import service as dynamodb
from layover.local.aws.dynamodb.service import DynamoDB
from layover.local.aws.events import Events
from layover.local.aws.objects import Objects
from layover.local.aws.presigned import is_as_signed
from layover.local.aws.states import service as states
from layover.local.aws.states.errors import StatesError
from layover.local.aws.states.service import StepFunctions
from layover.local.aws.states.tasks import Tasks, function_name
from layover.local.aws.storage import Storage
from layover.local.aws.wsgi import Environ, StartResponse, WsgiServer
from layover.local.functions.invocation import ACCOUNT, REGION, InvokeResult, LambdaError
from layover.local.functions.lambda_service import LambdaService
from layover.local.http.doors import is_loopback
from layover.local.http.socket_front import WebSocketFront
from layover.local.wire import Request, Response
from layover.values.runs.run import Status

TABLE_NAME = "layover"
BUCKET_NAME = "layover-local"
STATE_MACHINE_NAME = "layover"
STATE_MACHINE_ARN = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{STATE_MACHINE_NAME}"
_in_use = threading.Lock()
_EXPIRE_EVERY = timedelta(minutes=1)
_CONNECTION = re.compile(r"^/@connections/(?P<id>.+)$")
_INVOKE = re.compile(r"^/2015-03-31/functions/(?P<name>.+)/invocations/?$")
_SUBSTITUTION = re.compile(r"\$\{(\w+)FunctionArn\}")


_NOT_AS_SIGNED = (
    "403 Forbidden",
    [("Content-Type", "application/xml")],
    b"<Error><Code>SignatureDoesNotMatch</Code><Message>The headers are not those that were signed: "
    b"send the content type and the length that were announced</Message></Error>",
)


@dataclass(frozen=True)
class _WsgiResponse:
    status: str
    headers: list[tuple[str, str]]
    body: bytes

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        start_response(self.status, self.headers)
        return [self.body]

    def reply(self) -> Response:
        return Response(HTTPStatus(int(self.status[:3])), self.body, tuple(self.headers))


class Watch(Protocol):
    """An observer of the services."""

    def on_item(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Called when DynamoDB has another item."""
        ...

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Called when EventBridge took an event."""
        ...


class Services:
    """The servers behind AWS's clients: DynamoDB, Step Functions and EventBridge at once, the rest (Lambda,
    sockets, S3) as a WSGI application."""

    def __init__(
        self,
        functions: LambdaService,
        sockets: WebSocketFront | None,
        storage: Storage,
        watch: Watch | None = None,
    ) -> None:
        self.events = Events(storage, watch.on_event if watch else None)
        self.dynamodb = DynamoDB(storage, watch.on_item if watch else None)
        self.states = StepFunctions(storage, Tasks(functions, self.dynamodb))
        self._objects = Objects(storage, BUCKET_NAME)
        self._sockets = sockets
        self._functions = functions
        self._clock = SystemClock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request of an AWS client."""
        if match := _INVOKE.match(environ["PATH_INFO"]):
            return self._invoke(unquote(match["name"]), environ).send(start_response)
        if self._sockets and (match := _CONNECTION.match(environ["PATH_INFO"])):
            return _connection(self._sockets, unquote(match["id"]), environ).send(start_response)
        if not is_as_signed(environ):
            return _WsgiResponse(*_NOT_AS_SIGNED).send(start_response)
        return self._objects(environ, start_response)

    def answer_at_once(self, request: Request) -> Response | None:
        """Return the answer of a request that takes no time; None for the application's requests. Hosts other
        than this machine's names are refused here, for all."""
        if not is_loopback([request.headers.get("host", "")]):
            text = "this system answers its own machine alone"
            return _error(421, "MisdirectedRequest", text).reply()
        target = request.headers.get("x-amz-target", "")
        if target.startswith(dynamodb.TARGET):
            status, body = self.dynamodb.answer(target.removeprefix(dynamodb.TARGET), request.body)
            return Response(HTTPStatus(status), body, _dynamodb_headers(body))
        if target.startswith(states.TARGET):
            return self._answer_states(target.removeprefix(states.TARGET), request.body).reply()
        if target == "AWSEvents.PutEvents":
            return self._put_events(request.body).reply()
        return None

    def _answer_states(self, operation: str, body: bytes) -> "_WsgiResponse":
        try:
            return _json("200 OK", self.states.call(operation, json.loads(body or b"{}")))
        except StatesError as error:
            return _error(error.status, error.code, str(error))
        except ValueError:
            return _error(400, "SerializationException", "The body is no JSON")

    def _put_events(self, body: bytes) -> "_WsgiResponse":
        entries = self.events.put(json.loads(body)["Entries"], self._clock.now())
        failed = sum("ErrorCode" in entry for entry in entries)
        return _json("200 OK", {"FailedEntryCount": failed, "Entries": entries})

    def _invoke(self, reference: str, environ: Environ) -> _WsgiResponse:
        name = function_name(reference)
        kind = environ.get("HTTP_X_AMZ_INVOCATION_TYPE", "RequestResponse")
        payload = _body(environ) or b"{}"
        try:
            json.loads(payload)
            if kind == "Event":
                self._functions.accept(name, payload)
                return _WsgiResponse("202 Accepted", [], b"")
            return _invoked(self._functions.invoke_blocking(name, payload))
        except LambdaError as error:
            return _error(error.status, error.code, str(error))
        except ValueError:
            return _error(400, "InvalidRequestContentException", "Could not parse request body")


def _connection(sockets: WebSocketFront, connection_id: str, environ: Environ) -> _WsgiResponse:
    """A WebSocket API's `@connections`."""
    method = environ["REQUEST_METHOD"]
    if method == "GET":
        description = sockets.describe(connection_id)
        return _json("200 OK", description) if description else _error(410, "GoneException", "Gone")
    if method == "DELETE":
        status = sockets.close(connection_id)
    else:
        status = sockets.post(connection_id, _body(environ))
    if status < HTTPStatus.BAD_REQUEST:
        return _WsgiResponse(f"{status.value} {status.phrase}", [], b"")
    codes = {410: "GoneException", 413: "PayloadTooLargeException"}
    return _error(status.value, codes.get(status.value, "ForbiddenException"), status.phrase)


def _dynamodb_headers(body: bytes) -> tuple[tuple[str, str], ...]:
    return (
        ("Content-Type", "application/x-amz-json-1.0"),
        ("x-amzn-RequestId", str(uuid.uuid4())),
        ("x-amz-crc32", str(zlib.crc32(body))),
    )


def _body(environ: Environ) -> bytes:
    return bytes(environ["wsgi.input"].read())


def _json(status: str, document: object, *headers: tuple[str, str]) -> _WsgiResponse:
    kind = ("Content-Type", "application/json")
    request = ("x-amzn-RequestId", str(uuid.uuid4()))
    return _WsgiResponse(status, [kind, request, *headers], json.dumps(document).encode())


def _error(status: int, code: str, message: str) -> _WsgiResponse:
    document = {"__type": code, "Type": "User", "Message": message, "message": message}
    return _json(f"{status} Error", document, ("x-amzn-ErrorType", code))


def _invoked(result: InvokeResult) -> _WsgiResponse:
    headers = [("Content-Type", "application/json"), ("x-amzn-RequestId", str(uuid.uuid4()))]
    headers.append(("X-Amz-Executed-Version", "$LATEST"))
    if result.function_error is not None:
        headers.append(("X-Amz-Function-Error", result.function_error))
    return _WsgiResponse("200 OK", headers, result.payload)


class AwsServer:
    """The endpoint that any AWS client may use. One a process: moto's state is global."""

    def __init__(
        self,
        functions: LambdaService,
        sockets: WebSocketFront | None = None,
        data: Path | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`data`: the file that keeps everything; without one, the state ends with this object."""
        self._functions = functions
        self._storage = Storage(data)
        self._services = Services(functions, sockets, self._storage, watch)
        self._server = WsgiServer(self._services, self._services.answer_at_once)
        self._clock = SystemClock()
        self._expired_at: datetime | None = None

    @property
    def endpoint_url(self) -> str:
        """Value of AWS_ENDPOINT_URL."""
        return self._server.url

    @property
    def events(self) -> Events:
        """Return the events published so far."""
        return self._services.events

    def start(self) -> None:
        """Serve, with what the store has."""
        if not _in_use.acquire(blocking=False):
            raise RuntimeError("another runner is active in this process")
        self._server.start()

    def expire_items(self) -> None:
        """Delete items that have outlived their time to live by the system's clock; looks once a minute of
        it."""
        now = self._clock.now()
        if self._expired_at is None or abs(now - self._expired_at) >= _EXPIRE_EVERY:
            self._expired_at = now
            self._services.dynamodb.expire_items(TABLE_NAME, now)

    def waiting_runs(self) -> dict[str, str]:
        """Return runs of which a call waits for a person: id -> owner."""
        database, owners = self._services.dynamodb, {}
        for partition in watch_partitions():
            query = {
                "TableName": TABLE_NAME,
                "IndexName": WATCH_INDEX,
                "KeyConditionExpression": "gsi2pk = :p",
                "ExpressionAttributeValues": {":p": {"S": partition}},
            }
            for place in database.call("Query", query)["Items"]:
                key = {name: place[name] for name in ("pk", "sk")}
                item = database.call("GetItem", {"TableName": TABLE_NAME, "Key": key})["Item"]
                if "waiting" in item and "id" in item:
                    owners[item["id"]["S"]] = item["owner"]["S"]
        return owners

    def resume_executions(self) -> None:
        """Let executions that an earlier runner left open go on."""

        async def resume() -> None:
            self._services.states.resume()

        self._server.run(resume())

    def stop_executions(self) -> list[str]:
        """Stop every execution where it is, and start no more; return the open runs, by id. An execution may
        outlive its run, which then has ended: only its memory work is missing."""
        inputs = self._server.run(self._services.states.suspend())
        return sorted({run for each in inputs if (run := self._open_run(each)) is not None})

    def _open_run(self, text: str) -> str | None:
        """Return the run's id, None if it is over; the execution's input if it drives no run."""
        payload = json.loads(text)
        if not isinstance(payload, dict) or not {"owner", "run_id"} <= payload.keys():
            return text
        key = {"pk": {"S": Keys(payload["owner"]).run(payload["run_id"])}, "sk": {"S": META}}
        request = {"TableName": TABLE_NAME, "Key": key}
        item = self._services.dynamodb.call("GetItem", request).get("Item")
        is_over = item is not None and Status(item["status"]["S"]).over
        return None if is_over else str(payload["run_id"])

    def stop(self) -> None:
        """Stop serving."""
        self._server.stop()
        self._storage.close()
        _in_use.release()

    def make_resources(self, definition: Path) -> None:
        """The table, the bucket and the state machine, as `infra/` makes them on AWS."""
        database = self._services.dynamodb
        if TABLE_NAME not in database.call("ListTables", {})["TableNames"]:
            database.call("CreateTable", {"TableName": TABLE_NAME, **TABLE})
        expiry = {"TableName": TABLE_NAME, "TimeToLiveSpecification": TIME_TO_LIVE}
        database.call("UpdateTimeToLive", expiry)
        machine = {
            "name": STATE_MACHINE_NAME,
            "definition": substitute(definition.read_text(), function_arn),
            "roleArn": f"arn:aws:iam::{ACCOUNT}:role/layover",
        }
        self._services.states.call("CreateStateMachine", machine)


def function_arn(name: str) -> str:
    """ARN of a local function; `name` as in a template's `${NameFunctionArn}`."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name.lower()}"


def substitute(definition: str, arn_of: Callable[[str], str]) -> str:
    """A definition with every `${XFunctionArn}` replaced by `arn_of("X")`."""
    return _SUBSTITUTION.sub(lambda match: arn_of(match[1]), definition)
