"""AWS on one machine: S3 and Step Functions by moto, DynamoDB, EventBridge and Lambda by our own."""

import json
import re
import threading
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from moto.core.base_backend import BackendDict
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from layover.adapters.journal.items.schema import TABLE, TIME_TO_LIVE
from layover.clock import SystemClock, rfc3339
from layover.keys import META, Keys
from layover.local.aws import expiry, interpreter
from layover.local.aws.dynamodb.service import TARGET, DynamoDB
from layover.local.aws.presigned import is_as_signed
from layover.local.aws.storage import Storage
from layover.local.aws.wsgi import App, Environ, StartResponse, WsgiServer
from layover.local.functions.invocation import ACCOUNT, REGION, InvokeResult, LambdaError
from layover.local.functions.lambda_service import LambdaService
from layover.local.http.doors import is_loopback
from layover.local.http.socket_front import WebSocketFront
from layover.local.wire import Reply, Request
from layover.values.runs.run import Status

TABLE_NAME = "layover"
BUCKET_NAME = "layover-local"
STATE_MACHINE_NAME = "layover"
STATE_MACHINE_ARN = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{STATE_MACHINE_NAME}"
_in_use = threading.Lock()
_MOST_EVENTS_KEPT = 10_000
_EXPIRE_EVERY = timedelta(minutes=1)
_CONNECTION = re.compile(r"^/@connections/(?P<id>.+)$")
_INVOKE = re.compile(r"^/2015-03-31/functions/(?P<name>.+)/invocations/?$")
_START = "AWSStepFunctions.StartExecution"
_EXECUTIONS = (
    *(_START, "AWSStepFunctions.StopExecution", "AWSStepFunctions.DescribeExecution"),
    *("AWSStepFunctions.ListExecutions", "AWSStepFunctions.SendTask"),
)
_SUBSTITUTION = re.compile(r"\$\{(\w+)FunctionArn\}")


class Events:
    """What was published to EventBridge, newest last."""

    def __init__(self) -> None:
        self._events: deque[dict[str, object]] = deque(maxlen=_MOST_EVENTS_KEPT)

    def put(self, entries: list[dict[str, Any]], now: datetime) -> list[dict[str, str]]:
        """Record `entries` of PutEvents and answer as EventBridge does, one by one."""
        return [self._put(entry, now) for entry in entries]

    def list(self) -> list[dict[str, object]]:
        """Every event kept: `{id, source, detail-type, detail, time, event_bus, resources}`."""
        return list(self._events)

    def _put(self, entry: dict[str, Any], now: datetime) -> dict[str, str]:
        try:
            detail = json.loads(entry["Detail"])
            source, detail_type = entry["Source"], entry["DetailType"]
        except KeyError as error:
            return {"ErrorCode": "InvalidArgument", "ErrorMessage": f"Parameter {error} is missing"}
        except ValueError:
            return {"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."}
        # `detail-type` is EventBridge's own name; the other one is how everything else here is spelt.
        event = {"id": str(uuid.uuid4()), "source": source, "detail-type": detail_type}
        event["detail_type"] = detail_type
        event |= {"event_bus": entry.get("EventBusName", "default"), "time": rfc3339(now)}
        resources = entry.get("Resources", [])
        self._events.append(event | {"detail": detail, "resources": resources})
        return {"EventId": event["id"]}


_NOT_AS_SIGNED = (
    "403 Forbidden",
    [("Content-Type", "application/xml")],
    b"<Error><Code>SignatureDoesNotMatch</Code><Message>The headers are not those that were signed: "
    b"send the content type and the length that were announced</Message></Error>",
)


@dataclass(frozen=True)
class _Answer:
    status: str
    headers: list[tuple[str, str]]
    body: bytes

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        start_response(self.status, self.headers)
        return [self.body]


class Services:
    """The WSGI application: our own services first, moto for the rest."""

    def __init__(
        self,
        functions: LambdaService,
        moto: App,
        sockets: WebSocketFront | None = None,
        storage: Storage | None = None,
    ) -> None:
        self.events = Events()
        self.dynamodb = DynamoDB(storage or Storage())
        self._sockets = sockets
        self._functions = functions
        self._moto = moto
        self._clock = SystemClock()
        # moto's StartExecution checks the name, lists the execution, and starts it (who looks in between
        # finds one without a status), its PutObject looks and then writes: one request at a time is what
        # makes conditions mean something.
        self._executions = threading.Lock()
        self._stopping = False
        self._objects = threading.Lock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request of an AWS client."""
        if not is_loopback([environ.get("HTTP_HOST", "")]):
            refusal = _error(421, "MisdirectedRequest", "this system answers its own machine alone")
            return refusal.send(start_response)
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if match := _INVOKE.match(environ["PATH_INFO"]):
            return self._invoke(unquote(match["name"]), environ).send(start_response)
        if self._sockets and (match := _CONNECTION.match(environ["PATH_INFO"])):
            return _connection(self._sockets, unquote(match["id"]), environ).send(start_response)
        if target == "AWSEvents.PutEvents":
            return self._put_events(environ).send(start_response)
        if not is_as_signed(environ):
            return _Answer(*_NOT_AS_SIGNED).send(start_response)
        with self._one_at_a_time(target, environ):
            if self._stopping and target == _START:
                refusal = _error(503, "ServiceUnavailable", "the runner is stopping")
                return refusal.send(start_response)
            return self._moto(environ, start_response)

    def answer_at_once(self, request: Request) -> Reply | None:
        """DynamoDB's answers; None for every other service's requests."""
        target = request.headers.get("x-amz-target", "")
        if not target.startswith(TARGET):
            return None
        if not is_loopback([request.headers.get("host", "")]):
            refusal = _error(421, "MisdirectedRequest", "this system answers its own machine alone")
            return Reply(HTTPStatus(421), refusal.body, tuple(refusal.headers))
        status, body = self.dynamodb.answer(target.removeprefix(TARGET), request.body)
        return Reply(HTTPStatus(status), body, _dynamodb_headers(body))

    def refuse_starts(self) -> None:
        """Once this is back, every StartExecution is through or refused: one that came later would go on
        in this process, where nobody stops it."""
        with self._executions:
            self._stopping = True

    def _one_at_a_time(self, target: str, environ: Environ) -> AbstractContextManager[object]:
        if environ.keys() & {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}:
            return self._objects
        return self._executions if target.startswith(_EXECUTIONS) else nullcontext()

    def _put_events(self, environ: Environ) -> _Answer:
        entries = self.events.put(json.loads(_body(environ))["Entries"], self._clock.now())
        failed = sum("ErrorCode" in entry for entry in entries)
        return _json("200 OK", {"FailedEntryCount": failed, "Entries": entries})

    def _invoke(self, reference: str, environ: Environ) -> _Answer:
        name = _function_name(reference)
        kind = environ.get("HTTP_X_AMZ_INVOCATION_TYPE", "RequestResponse")
        payload = _body(environ) or b"{}"
        try:
            json.loads(payload)
            if kind == "Event":
                self._functions.accept(name, payload)
                return _Answer("202 Accepted", [], b"")
            return _invoked(self._functions.invoke_blocking(name, payload))
        except LambdaError as error:
            return _error(error.status, error.code, str(error))
        except ValueError:
            return _error(400, "InvalidRequestContentException", "Could not parse request body")


def _connection(sockets: WebSocketFront, connection_id: str, environ: Environ) -> _Answer:
    """A WebSocket API's `@connections`."""
    method = environ["REQUEST_METHOD"]
    if method == "GET":
        found = sockets.describe(connection_id)
        return _json("200 OK", found) if found else _error(410, "GoneException", "Gone")
    if method == "DELETE":
        status = sockets.close(connection_id)
    else:
        status = sockets.post(connection_id, _body(environ))
    if status < HTTPStatus.BAD_REQUEST:
        return _Answer(f"{status.value} {status.phrase}", [], b"")
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


def _function_name(reference: str) -> str:
    """`name`, `name:qualifier`, `account:function:name` or an ARN."""
    parts = reference.split(":")
    return parts[parts.index("function") + 1] if "function" in parts[:-1] else parts[0]


def _json(status: str, document: object, *headers: tuple[str, str]) -> _Answer:
    kind = ("Content-Type", "application/json")
    request = ("x-amzn-RequestId", str(uuid.uuid4()))
    return _Answer(status, [kind, request, *headers], json.dumps(document).encode())


def _error(status: int, code: str, message: str) -> _Answer:
    document = {"__type": code, "Type": "User", "Message": message, "message": message}
    return _json(f"{status} Error", document, ("x-amzn-ErrorType", code))


def _invoked(result: InvokeResult) -> _Answer:
    headers = [("Content-Type", "application/json"), ("x-amzn-RequestId", str(uuid.uuid4()))]
    headers.append(("X-Amz-Executed-Version", "$LATEST"))
    if result.function_error is not None:
        headers.append(("X-Amz-Function-Error", result.function_error))
    return _Answer("200 OK", headers, result.payload)


class AwsServer:
    """The endpoint that any AWS client may use. One a process: moto's state is global."""

    def __init__(
        self,
        functions: LambdaService,
        sockets: WebSocketFront | None = None,
        data: Path | None = None,
    ) -> None:
        moto = DomainDispatcherApplication(create_backend_app)
        self._functions = functions
        self._storage = Storage(data)
        self._services = Services(functions, moto, sockets, self._storage)
        self._server = WsgiServer(self._services, self._services.answer_at_once)
        self._clock = SystemClock()
        self._expired_at: datetime | None = None

    @property
    def endpoint_url(self) -> str:
        """Value of AWS_ENDPOINT_URL."""
        return self._server.url

    @property
    def events(self) -> Events:
        """What was published so far."""
        return self._services.events

    def start(self) -> None:
        """Serve, with empty services."""
        if not _in_use.acquire(blocking=False):
            raise RuntimeError("another runner is active in this process")
        BackendDict.reset()
        expiry.install()
        interpreter.install(self.endpoint_url)
        self._server.start()

    def expire_items(self) -> None:
        """Delete what has outlived its time to live by the system's clock; looks once a minute of it."""
        now = self._clock.now()
        if self._expired_at is None or abs(now - self._expired_at) >= _EXPIRE_EVERY:
            self._expired_at = now
            self._services.dynamodb.expire_items(TABLE_NAME, now)

    def stop_executions(self) -> list[str]:
        """End every execution, start no more; answers the runs that were open, by id. An execution may
        outlive its run, which then has ended: only what memory learns of it is missing."""
        self._services.refuse_starts()
        open_executions = [each for each in _executions() if each.status == "RUNNING"]
        for execution in open_executions:
            execution.stop(stop_date=datetime.now(UTC), error=None, cause="the runner stops")
        return sorted({run for each in open_executions if (run := self._open_run(each))})

    def _open_run(self, execution: Any) -> str | None:
        """The run's id, None where it is over; the execution's name where it drives none."""
        told = json.loads(execution.execution_input)
        if not isinstance(told, dict) or not {"owner", "run_id"} <= told.keys():
            return str(execution.name)
        key = {"pk": {"S": Keys(told["owner"]).run(told["run_id"])}, "sk": {"S": META}}
        request = {"TableName": TABLE_NAME, "Key": key}
        item = self._services.dynamodb.call("GetItem", request).get("Item")
        is_over = item is not None and Status(item["status"]["S"]).over
        return None if is_over else str(told["run_id"])

    def stop(self) -> None:
        """Stop serving."""
        self._server.stop()
        self._storage.close()
        _in_use.release()

    def make_resources(self, definition: Path) -> None:
        """The table, the bucket and the state machine, as `infra/` makes them on AWS."""
        self._make_table()
        interpreter.make_client("s3", self.endpoint_url).create_bucket(Bucket=BUCKET_NAME)
        interpreter.make_client("stepfunctions", self.endpoint_url).create_state_machine(
            name=STATE_MACHINE_NAME,
            definition=substitute(definition.read_text(), function_arn),
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/layover",
        )

    def _make_table(self) -> None:
        database = self._services.dynamodb
        if TABLE_NAME not in database.call("ListTables", {})["TableNames"]:
            database.call("CreateTable", {"TableName": TABLE_NAME, **TABLE})
        expiry = {"TableName": TABLE_NAME, "TimeToLiveSpecification": TIME_TO_LIVE}
        database.call("UpdateTimeToLive", expiry)


def function_arn(name: str) -> str:
    """ARN of a local function; `name` as in a template's `${NameFunctionArn}`."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name.lower()}"


def substitute(definition: str, arn_of: Callable[[str], str]) -> str:
    """A definition with every `${XFunctionArn}` replaced by `arn_of("X")`."""
    return _SUBSTITUTION.sub(lambda match: arn_of(match[1]), definition)


def _executions() -> list[Any]:
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    machines = stepfunctions_parser_backends[ACCOUNT][REGION].state_machines
    return [execution for machine in machines for execution in machine.executions]
