"""AWS on one machine: one endpoint for DynamoDB, Step Functions, EventBridge, Lambda and S3."""

import json
import re
import threading
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from layover.adapters.journal.items.schema import TABLE, TIME_TO_LIVE, WATCH_INDEX
from layover.clock import SystemClock
from layover.desk.local.aws.access_key import AccessKey, make_access_key
from layover.desk.local.aws.dynamodb import service as dynamodb
from layover.desk.local.aws.dynamodb.service import DynamoDB
from layover.desk.local.aws.events import Events
from layover.desk.local.aws.objects import Objects
from layover.desk.local.aws.queue import Queue
from layover.desk.local.aws.states import service as states
from layover.desk.local.aws.states.errors import StatesError
from layover.desk.local.aws.states.service import StepFunctions
from layover.desk.local.aws.states.tasks import Tasks, function_name
from layover.desk.local.aws.storage import Storage
from layover.desk.local.aws.wsgi import Environ, StartResponse, WsgiServer
from layover.desk.local.channels import ChannelServices
from layover.desk.local.functions.invocation import ACCOUNT, REGION, LambdaError
from layover.desk.local.functions.lambda_service import LambdaService
from layover.desk.local.http.socket_front import WebSocketFront
from layover.desk.local.wire import Request, Response
from layover.keys import META, Keys, watch_partitions
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


@dataclass(frozen=True)
class _WsgiResponse:
    status: str
    headers: list[tuple[str, str]]
    body: bytes

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        start_response(self.status, self.headers)
        return [self.body]

    def on_the_wire(self) -> Response:
        return Response(HTTPStatus(int(self.status[:3])), self.body, tuple(self.headers))


class Watch(Protocol):
    """An observer of the services."""

    def on_item(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Take an item that DynamoDB has stored (`old` None: it is new) or deleted (`new` None)."""
        ...

    def on_event(self, event: Mapping[str, Any]) -> None:
        """Take an event that EventBridge has received."""
        ...


class Services:
    """The servers behind AWS's clients. DynamoDB, Step Functions and EventBridge respond at once, in the
    server's event loop. The rest (Lambda, sockets, S3) is a WSGI application, whose requests take a thread
    each: an invocation lasts as long as its function runs."""

    def __init__(
        self,
        functions: LambdaService,
        sockets: WebSocketFront | None,
        storage: Storage,
        watch: Watch | None = None,
        access_key: AccessKey | None = None,
        queued: Collection[str] = (),
    ) -> None:
        """`queued`: types of events that a rule sends to the queue."""
        self.access_key = access_key or make_access_key()
        self.queue = Queue(storage, queued)
        self.channels: ChannelServices | None = None
        """The services that reach people, of which AWS has some; None: there are no channels."""
        self.events = Events(storage, watch.on_event if watch else None, self.queue)
        self.dynamodb = DynamoDB(storage, watch.on_item if watch else None)
        self.states = StepFunctions(storage, Tasks(functions, self.dynamodb))
        self._objects = Objects(storage, BUCKET_NAME, self.access_key)
        self._sockets = sockets
        self._functions = functions
        self._clock = SystemClock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request of an AWS client, or of the owner of a presigned URL, which is S3's."""
        if self.access_key.is_in_query(environ["QUERY_STRING"]):
            return self._objects(environ, start_response)
        if match := _INVOKE.match(environ["PATH_INFO"]):
            return self._invoke(unquote(match["name"]), environ).send(start_response)
        if self._sockets and (match := _CONNECTION.match(environ["PATH_INFO"])):
            return _connection(self._sockets, unquote(match["id"]), environ).send(start_response)
        return self._objects(environ, start_response)

    def respond_at_once(self, request: Request) -> Response | None:
        """Return the response to a request that takes no time; None for the application's requests."""
        if self.is_presigned(request):
            return None
        target = request.headers.get("x-amz-target", "")
        # For all requests, the application's included: others could read task tokens, and run tools.
        if not self.access_key.is_in(request.headers.get("authorization", "")):
            return _unknown_key(request.method, is_json=bool(target))
        if target.startswith(dynamodb.TARGET):
            operation = target.removeprefix(dynamodb.TARGET)
            status, body = self.dynamodb.respond(operation, request.body)
            headers = (
                ("Content-Type", "application/x-amz-json-1.0"),
                ("x-amzn-RequestId", str(uuid.uuid4())),
                # botocore compares it with the body, and retries if they differ.
                ("x-amz-crc32", str(zlib.crc32(body))),
            )
            return Response(HTTPStatus(status), body, headers)
        if target.startswith(states.TARGET):
            operation = target.removeprefix(states.TARGET)
            return self._call_states(operation, request.body).on_the_wire()
        if target == "AWSEvents.PutEvents":
            return self._put_events(request.body).on_the_wire()
        if self.channels is not None and (answer := self.channels.respond_as_aws(request)):
            status, pairs, body = answer
            return Response(HTTPStatus(status), body, tuple(pairs.items()))
        return None

    def is_presigned(self, request: Request) -> bool:
        """Return whether a request has one of this runner's presigned URLs, by its look. Pages upload and
        download files with these, and nothing but S3 takes them."""
        query = request.path.partition("?")[2]
        return self.access_key.is_in_query(query) and "x-amz-target" not in request.headers

    def _call_states(self, operation: str, body: bytes) -> _WsgiResponse:
        try:
            return _json("200 OK", self.states.call(operation, json.loads(body or b"{}")))
        except StatesError as error:
            return _error(error.status, error.code, str(error))
        except ValueError:
            return _error(400, "SerializationException", "The body is not JSON")

    def _put_events(self, body: bytes) -> _WsgiResponse:
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
            result = self._functions.invoke_blocking(name, payload)
            headers = [
                ("Content-Type", "application/json"),
                ("x-amzn-RequestId", str(uuid.uuid4())),
                ("X-Amz-Executed-Version", "$LATEST"),
            ]
            if result.function_error is not None:
                # The status is 200 all the same: only this header tells a function's error.
                headers.append(("X-Amz-Function-Error", result.function_error))
            return _WsgiResponse("200 OK", headers, result.payload)
        except LambdaError as error:
            return _error(error.status, error.code, str(error))
        except ValueError:
            return _error(400, "InvalidRequestContentException", "Could not parse request body")


def _connection(sockets: WebSocketFront, connection_id: str, environ: Environ) -> _WsgiResponse:
    """Respond as a WebSocket API's `@connections` does."""
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


def _unknown_key(method: str, *, is_json: bool) -> Response:
    """Return the refusal of a request that is not signed with the runner's key, in the form that its service
    has for errors."""
    text = "The access key is not this runner's: it is new at each start"
    if is_json:
        return _error(403, "UnrecognizedClientException", text).on_the_wire()
    body = f"<Error><Code>InvalidAccessKeyId</Code><Message>{text}</Message></Error>"
    headers = (
        ("Content-Type", "application/xml"),
        ("x-amzn-ErrorType", "UnrecognizedClientException"),
    )
    return Response(HTTPStatus.FORBIDDEN, body.encode(), headers, bare=method == "HEAD")


def _body(environ: Environ) -> bytes:
    return bytes(environ["wsgi.input"].read())


def _json(status: str, document: object, *headers: tuple[str, str]) -> _WsgiResponse:
    kind = ("Content-Type", "application/json")
    request = ("x-amzn-RequestId", str(uuid.uuid4()))
    return _WsgiResponse(status, [kind, request, *headers], json.dumps(document).encode())


def _error(status: int, code: str, message: str) -> _WsgiResponse:
    document = {"__type": code, "Type": "User", "Message": message, "message": message}
    return _json(f"{status} Error", document, ("x-amzn-ErrorType", code))


class AwsServer:
    """The endpoint for any AWS client. A process has one at a time, because moto's state is global."""

    def __init__(
        self,
        functions: LambdaService,
        sockets: WebSocketFront | None = None,
        data: Path | None = None,
        watch: Watch | None = None,
        access_key: AccessKey | None = None,
        queued: Collection[str] = (),
    ) -> None:
        """Open the store. `data`: the file that keeps everything; without one, the state ends with this
        object. `access_key`: a new one if not given. `queued`: types of events for the queue."""
        self._functions = functions
        self._storage = Storage(data)
        self._services = Services(
            functions, sockets, self._storage, watch=watch, access_key=access_key, queued=queued
        )
        self._server = WsgiServer(
            self._services, self._services.respond_at_once, self._services.is_presigned
        )
        self._clock = SystemClock()
        self._expired_at: datetime | None = None

    @property
    def endpoint_url(self) -> str:
        """Value of AWS_ENDPOINT_URL."""
        return self._server.url

    @property
    def access_key(self) -> AccessKey:
        """The key that every request has to be signed with."""
        return self._services.access_key

    @property
    def events(self) -> Events:
        """Return the events published so far."""
        return self._services.events

    @property
    def queue(self) -> Queue:
        """Return the queue behind the bus."""
        return self._services.queue

    @property
    def storage(self) -> Storage:
        """Return the file with all that the services keep."""
        return self._storage

    def serve_channels(self, channels: ChannelServices) -> None:
        """Let the services that reach people and are AWS's take messages."""
        self._services.channels = channels

    def storage_problem(self) -> str | None:
        """Return why what the services keep cannot be written; None if it can."""
        return self._storage.problem()

    def start(self) -> None:
        """Serve the state that the store has."""
        if not _in_use.acquire(blocking=False):
            raise RuntimeError("another runner is active in this process")
        self._server.start()

    def expire_items(self) -> None:
        """Delete items that have outlived their time to live. It looks once a minute, by the system's clock:
        so moving the clock on deletes at the next sweep what AWS deletes within some days."""
        now = self._clock.now()
        if self._expired_at is None or abs(now - self._expired_at) >= _EXPIRE_EVERY:
            self._expired_at = now
            self._services.dynamodb.expire_items(TABLE_NAME, now)

    def waiting_runs(self) -> dict[str, str]:
        """Return the runs with a call that waits for a person: id -> owner."""
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
        """Let the executions go on that an earlier runner left open."""

        # The executions become tasks of the server's loop, so the call has to be made inside it.
        async def resume() -> None:
            self._services.states.resume()

        self._server.run(resume())

    def advance_timers(self, seconds: float) -> None:
        """Let the timers of every open execution end so much earlier."""

        async def advance() -> None:
            self._services.states.advance(seconds)

        self._server.run(advance())

    def stop_executions(self) -> list[str]:
        """Stop every execution where it is, and start no more. Return the ids of the runs that are still
        open: the run of an open execution may be over, and only memory's work is left."""
        inputs = self._server.run(self._services.states.suspend())
        return sorted({run for each in inputs if (run := self._open_run(each)) is not None})

    def _open_run(self, text: str) -> str | None:
        """Return the id of the run that an execution with this input drives; None if it is over. Return the
        input itself if it names no run."""
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
        """Make the table, the bucket and the state machine, as `infra/` makes them on AWS."""
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
    """Return the ARN of a local function; `name` as in a template's `${NameFunctionArn}`."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name.lower()}"


def substitute(definition: str, arn_of: Callable[[str], str]) -> str:
    """Return the definition with every `${XFunctionArn}` replaced by `arn_of("X")`."""
    return _SUBSTITUTION.sub(lambda match: arn_of(match[1]), definition)
