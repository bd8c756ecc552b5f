"""The whole system on one machine, started in order and stopped in the reverse."""

import asyncio
import json
import logging
import os
import secrets
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

from layover.clock import install_offset
from layover.desk import shipped
from layover.desk.local import agents_module, newest_release, schema
from layover.desk.local.aws.emulator import BUCKET_NAME, STATE_MACHINE_ARN, TABLE_NAME, AwsServer
from layover.desk.local.aws.outbox import StoredOutbox
from layover.desk.local.aws.queue import Poller
from layover.desk.local.aws.storage import StorageFailed
from layover.desk.local.channels import ChannelServices
from layover.desk.local.functions.clock_file import ClockFile
from layover.desk.local.functions.execution_environment import FunctionSpec
from layover.desk.local.functions.invocation import REGION
from layover.desk.local.functions.lambda_service import LambdaService
from layover.desk.local.functions.log_lines import LogWatch
from layover.desk.local.health import Health
from layover.desk.local.http.cors import Cors
from layover.desk.local.http.event import Response
from layover.desk.local.http.gateway import Front
from layover.desk.local.http.programs import ForPrograms
from layover.desk.local.http.server import HttpServer
from layover.desk.local.http.socket_front import WebSocketFront
from layover.desk.local.postgres import Postgres
from layover.desk.local.settings import (
    Settings,
    child_variables,
    function_variables,
    model_providers,
)
from layover.desk.local.terminal import show
from layover.desk.local.terminal.show import RunWatch
from layover.errors import ConfigurationError
from layover.plugins.people.config import read_channels
from layover.values.base import strict_json
from layover.values.channels import OPERATORS_GROUP, QUEUED_FOR_OPERATORS, Channels
from layover.values.decision import BusEvent
from layover.values.deployment.access import AUDITORS, CONNECTED, OPERATORS, READERS
from layover.values.deployment.providers import BEDROCK_PREFIX, split_model
from layover.values.lease import max_waits

logger = logging.getLogger(__name__)

RUNTIME_ROLE = "layover_runtime"
ADMIN_ROLE = "postgres"
STAND_IN_NOTICE = (
    "model: a built-in stand-in answers; for a real one set OPENAI_API_KEY (and OPENAI_BASE_URL "
    "for any other OpenAI-compatible server) and start again"
)
STANDARD_MODEL = "openai/gpt-5-mini"
SWEEPER = "the sweeper"
NOTIFY = "notify"
"""The function that tells people of calls that wait."""
_MAX_SWEEP = timedelta(seconds=180)
"""More than a process takes to start and a sweep to time out, after each other."""
_MAX_PAUSE_S = 60.0
# Interpreter threads and this loop share the GIL; an answer must not wait 5 ms for it.
_SWITCH_INTERVAL_S = 0.001


def model_notice(variables: Mapping[str, str]) -> str:
    """Return the line that says which model answers for agents that name none, and where, without a name or a
    password in the address."""
    model = variables.get("LAYOVER_MODEL") or STANDARD_MODEL
    place = urlsplit(variables.get("OPENAI_BASE_URL") or "").netloc.rpartition("@")[2]
    provider = split_model(model, model_providers(variables))[0]
    at = (
        f" at {place}"
        if place and provider is None and not model.startswith(BEDROCK_PREFIX)
        else ""
    )
    return f"model: {model}{at} answers for agents that name none"


class RunnerFailed(Exception):
    """The system could not be started; the text says what to do."""


class Runner:
    """`async with Runner(settings) as runner:` serves at `runner.url` until the block ends. Runs that were
    open when the last runner of the same `data` ended go on.

    One for each process, because moto's state is global. Raises RunnerFailed or PortInUse on entry."""

    def __init__(
        self,
        settings: Settings,
        base_variables: Mapping[str, str] | None = None,
        watch: RunWatch | None = None,
        loading: asyncio.Task[agents_module.LoadReport] | None = None,
    ) -> None:
        """`base_variables`: variables for the functions; the process's own if not given. `watch` shows the
        progress of runs. `loading`: the import of the agents, if it has begun; it ends with this runner."""
        self.settings = settings
        self._loading = loading
        self.models: tuple[str, ...] = ()
        self._watch = watch
        self.notices: list[str] = []
        self.left_open: list[str] = []
        self._inherited = os.environ if base_variables is None else base_variables
        self._stack = AsyncExitStack()
        self._data = settings.data.resolve()
        self._front_server: HttpServer | None = None
        self.functions = LambdaService(concurrency=settings.concurrency)
        self._aws: AwsServer | None = None
        self._clock: ClockFile | None = None
        self._sockets: WebSocketFront
        self._lock_file: IO[str]
        self._health = Health()
        self._channels: Channels | None = None
        self.channel_services: ChannelServices | None = None
        """The services that reach people; None: nobody is told of anything."""
        self._front: Front
        self._postgres = Postgres(self._data / "postgres", self._data / "logs" / "postgres.log")

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Base URL of the HTTP API."""
        assert self._front_server is not None
        return self._front_server.url

    @property
    def aws(self) -> AwsServer:
        """DynamoDB, S3, Step Functions, EventBridge and Lambda's Invoke API."""
        assert self._aws is not None
        return self._aws

    @property
    def clock(self) -> ClockFile:
        """The clock that the system reads."""
        assert self._clock is not None
        return self._clock

    def services(self) -> dict[str, str]:
        """Return the body of `GET /_local/services`."""
        return {
            "endpoint_url": self.aws.endpoint_url,
            "access_key_id": self.aws.access_key.id,
            "secret_access_key": self.aws.access_key.secret,
            "region": REGION,
            "table": TABLE_NAME,
            "bucket": BUCKET_NAME,
            "state_machine_arn": STATE_MACHINE_ARN,
            "postgres": self._postgres.dsn(RUNTIME_ROLE),
            "postgres_admin": self._postgres.dsn(ADMIN_ROLE),
            "events": f"{self.url}/_local/events",
        }

    def outbox(self) -> list[dict[str, Any]]:
        """Return what people were sent, newest last: `{channel, to, kind, text, link}`."""
        services = self.channel_services
        return [] if services is None else services.outbox.items

    async def _start(self) -> None:
        if self._loading is not None:
            self._stack.callback(self._loading.cancel)
        self._prepare_folders()
        # The port first: nothing else is worth starting if it is taken.
        functions, health = self.functions, self._health.answer
        self._sockets = WebSocketFront(functions)
        front = Front(functions, websocket=self._sockets.serve, streaming=functions, health=health)
        self._front = front
        self._front_server = HttpServer(Cors(front, self.settings.origins), self.settings.port)
        self._say_who_locks()
        self._stack.callback(self._front_server.close)
        self._channels = self._read_channels()
        self._start_clock()
        self._stack.push_async_callback(self._postgres.stop)
        loading = asyncio.create_task(self._load_agents())
        self._stack.callback(loading.cancel)
        starting = asyncio.create_task(self._postgres.start())
        self._stack.push_async_callback(_end, starting)
        # Stopped after the functions, which answer every open request when they stop.
        self._stack.push_async_callback(self._front_server.stop)
        await self._start_aws()
        schema_digest = schema.digest_of(shipped.SHIPPED.migrations)
        is_new = not schema.is_applied(self._data / "postgres", schema_digest)
        if is_new:
            # It imports what it needs while PostgreSQL starts.
            self.functions.prewarm("migrate")
        await starting
        # In this order, whichever was there first.
        self.notices += await loading
        self._health.check("PostgreSQL", self._postgres.problem)
        self._keep("PostgreSQL's watch", self._postgres.watch)
        if is_new:
            await self._migrate()
            schema.note(self._data / "postgres", schema_digest)
        if (warning := newest_release.note(self._data)) is not None:
            self.notices.append(warning)
        self._watch_logs()
        if self._watch is not None:
            self._watch.resume(self.aws.waiting_runs(), self.aws.events.list())
        await asyncio.to_thread(self.aws.resume_executions)
        self._start_sweeper()
        if self._channels is not None:
            self._keep("the queue", Poller(self.aws.queue, self.functions, NOTIFY).poll)
        self._health.check("the functions", self._start_problem)
        self._health.check("the data folder", self.aws.storage_problem)
        self._keep("the starter of functions", self._start_functions_again)
        self._add_local_routes(front)
        await self._front_server.start()
        self.functions.prewarm("api", "turn")

    def _prepare_folders(self) -> None:
        if not self.settings.function_names():
            raise RunnerFailed(
                f"no functions in {self.settings.functions}: this installation is not whole, install "
                "layover again"
            )
        try:
            make_folders(self._data)
            lock = (self._data / "run" / "lock").open("a+")
        except OSError as error:
            text = f"no data can be kept in {self._data} ({error}): give another folder with --data"
            raise RunnerFailed(text) from error
        self._stack.callback(lock.close)
        _lock(lock, self._data)
        self._lock_file = lock

    def _say_who_locks(self) -> None:
        """Record this process in the lock, for a runner that finds the folder taken."""
        self._lock_file.truncate(0)
        self._lock_file.write(f"pid {os.getpid()}, {self.url}")
        self._lock_file.flush()

    def _start_clock(self) -> None:
        self._clock = ClockFile.create(self._data / "run" / "clock")
        install_offset(self._clock.offset)
        self._stack.callback(install_offset, None)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._stack.callback(sys.setswitchinterval, interval)

    async def _start_aws(self) -> None:
        try:
            store = self._data / "aws.sqlite"
            queued = [event.value for event in BusEvent] if self._channels is not None else []
            if self._channels is not None and self._channels.groups.get(OPERATORS_GROUP):
                queued += QUEUED_FOR_OPERATORS
            self._aws = AwsServer(self.functions, self._sockets, store, self._watch, queued=queued)
        except StorageFailed as error:
            raise RunnerFailed(str(error)) from error
        self._serve_channels()
        self._aws.start()
        self._stack.callback(self._aws.stop)
        await asyncio.to_thread(self._aws.make_resources, self.settings.definition)
        common = child_variables(self.settings, self._inherited, self._service_variables())
        common |= await self._start_model()
        for name in self.settings.function_names():
            waits = name in ("api", "streams")
            most = self.settings.api_concurrency if waits else self.settings.concurrency
            self.functions.add(self._spec(name, common), most)
        await self.functions.start()
        self._stack.push_async_callback(self.functions.stop)
        self._stack.push_async_callback(self._stop_executions)

    def _read_channels(self) -> Channels | None:
        """Return the channels; None if nobody is told of anything."""
        text = self._inherited.get("LAYOVER_CHANNELS")
        if not text or NOTIFY not in self.settings.function_names():
            return None
        try:
            return read_channels(strict_json(text))
        except (ValueError, ConfigurationError) as error:
            raise RunnerFailed(f"LAYOVER_CHANNELS: {error}") from error

    def _serve_channels(self) -> None:
        if self._channels is not None:
            # A key in the path: pages of a browser could ask here as well.
            prefix = f"channels/{secrets.token_hex(8)}"
            outbox = StoredOutbox(self.aws.storage)
            self.channel_services = ChannelServices(
                f"{self.url}/_local/{prefix}", outbox, self._channels
            )
            self._front.add_service(prefix, self.channel_services.respond)
            self.aws.serve_channels(self.channel_services)

    async def _stop_executions(self) -> None:
        self.left_open = await asyncio.to_thread(self.aws.stop_executions)

    def _service_variables(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.aws.endpoint_url,
            **self.aws.access_key.variables(),
            "LAYOVER_TABLE": TABLE_NAME,
            "LAYOVER_BUCKET": BUCKET_NAME,
            "LAYOVER_STATE_MACHINE_ARN": STATE_MACHINE_ARN,
            "LAYOVER_COMPACT_FUNCTION": "compact",
            "LAYOVER_SOCKET_URL": f"ws{self.url.removeprefix('http')}/socket",
            "LAYOVER_SOCKET_ENDPOINT": self.aws.endpoint_url,
            "LAYOVER_SOCKET_FUNCTION": "sockets",
            "LAYOVER_EVENT_BUS": "default",
            # As in a stack with users of its own.
            "LAYOVER_OPERATE_GROUP": OPERATORS,
            "LAYOVER_AUDIT_GROUP": AUDITORS,
            "LAYOVER_READ_CONTENT_GROUP": READERS,
            "LAYOVER_MAX_WAITS": str(max_waits(self.settings.api_concurrency)),
            "LAYOVER_SWEEP_PATIENCE_S": "2",
            "LAYOVER_DATABASE_URL": self._postgres.dsn(RUNTIME_ROLE),
            "LAYOVER_CONNECTIONS_KEY": str(self._data / "connections.key"),
            "LAYOVER_CONNECTIONS_URL": f"{self.url}{CONNECTED}",
            "LAYOVER_API_URL": self.url,
            **(self.channel_services.variables if self.channel_services else {}),
        }

    def _spec(self, name: str, common: Mapping[str, str]) -> FunctionSpec:
        timeout = self.settings.timeout(name)
        variables = dict(common) | function_variables(name, timeout)
        if (wrapper := self.settings.functions / name / "bootstrap").exists():
            variables["AWS_LAMBDA_EXEC_WRAPPER"] = str(wrapper)
        if name == "turn":
            variables["LAYOVER_DATABASE_WAKING_S"] = "90"
        if name == "migrate":
            variables["LAYOVER_DATABASE_ADMIN_URL"] = self._postgres.dsn(ADMIN_ROLE)
        log = self._log(name)
        variables["LAYOVER_LOG_FILE"] = str(log)
        return FunctionSpec(name, timeout, variables, log, self._data / "run" / "clock")

    def _log(self, function: str) -> Path:
        return self._data / "logs" / f"{function}.log"

    async def _load_agents(self) -> list[str]:
        """Load the agents once, before any request. Return what is to be said about them."""
        if not self.settings.has_agents():
            return []
        report = await (
            self._loading or agents_module.load(child_variables(self.settings, self._inherited, {}))
        )
        if report.problem is not None:
            module = self.settings.agents or "user_agents"
            raise RunnerFailed(
                f"the agents in {module!r} cannot be loaded: mend this and start again\n"
                f"  {report.problem}"
            )
        self.models = report.models
        logs = (
            f"logs: {self._data / 'logs'}/FUNCTION.log; what tools print is in turn.log, resume.log"
        )
        return [*report.agents, *(f"warning: {line}" for line in report.warnings), logs]

    def _watch_logs(self) -> None:
        logs = [self._log(name) for name in self.functions.names()]
        watch = LogWatch(logs, show.say_log if self._watch is not None else None)
        self._keep("the watch of logs", watch.follow)

    async def _start_model(self) -> dict[str, str]:
        if self._inherited.get("OPENAI_API_KEY") or self._inherited.get("OPENAI_BASE_URL"):
            self.notices.append(model_notice(self._inherited))
            return {}
        key = secrets.token_hex(16)
        server = HttpServer(ForPrograms(_StandIn(), key))
        self._stack.push_async_callback(server.stop)
        await server.start()
        self.notices.append(STAND_IN_NOTICE)
        return {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": key}

    async def _migrate(self) -> None:
        if "migrate" not in self.functions.names():
            return
        result = await self.functions.invoke("migrate", b'{"RequestType":"Create"}')
        if result.function_error is not None:
            log = self._log("migrate")
            message = json.loads(result.payload).get("errorMessage")
            raise RunnerFailed(f"migrations failed: {message} (see {log})")

    def _start_sweeper(self) -> None:
        if "sweep" not in self.functions.names():
            return
        self._health.expect(SWEEPER, self.settings.sweep_every + _MAX_SWEEP)
        self._keep(SWEEPER, self._sweep_forever)

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.sweep_every.total_seconds())
            try:
                # The sweeper first: a run must not lose records because the clock was moved on.
                result = await self.functions.invoke("sweep", b"{}")
                await asyncio.to_thread(self.aws.expire_items)
            except Exception as error:
                logger.exception("a sweep failed; the next one comes")
                self._health.fails(SWEEPER, f"its last sweep failed ({type(error).__name__})")
                continue
            if result.function_error is None:
                self._health.works(SWEEPER)
            else:
                why = f"its last sweep failed ({result.error_type}), see {self._log('sweep')}"
                self._health.fails(SWEEPER, why)

    def _keep(self, part: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have `work` done until the runner stops: if it ends, it is begun again."""

        async def keep() -> None:
            while True:
                task = asyncio.create_task(work(), name=part)
                try:
                    await asyncio.wait([task])
                finally:
                    task.cancel()
                error = None if task.cancelled() else task.exception()
                logger.error("%s ended (%r) and is started again", part, error)
                await asyncio.sleep(self._pause_s)

        self._stack.callback(asyncio.create_task(keep()).cancel)

    async def _start_functions_again(self) -> None:
        """Start the functions whose last start failed, at growing intervals: an event would do so, but none
        may come."""
        pause = self._pause_s
        while True:
            await asyncio.sleep(pause)
            failed = self.functions.failed_starts()
            self.functions.prewarm(*failed)
            pause = min(pause * 2, _MAX_PAUSE_S) if failed else self._pause_s

    @property
    def _pause_s(self) -> float:
        return self.settings.sweep_every.total_seconds()

    def _start_problem(self) -> str | None:
        failed = self.functions.failed_starts()
        return "; ".join(f"{name}: {why}" for name, why in failed.items()) or None

    def _add_local_routes(self, front: Front) -> None:
        front.add_local("POST", "/_local/clock", self._advance_clock)
        front.add_local("POST", "/_local/readers", self._notice_readers)
        front.add_local(
            "GET", "/_local/environments", lambda _: Response.json(self.functions.environments())
        )
        front.add_local("GET", "/_local/services", lambda _: Response.json(self.services()))
        front.add_local("GET", "/_local/events", lambda _: Response.json(self.aws.events.list()))
        front.add_local("GET", "/_local/outbox", lambda _: Response.json(self.outbox()))

    def _advance_clock(self, body: bytes) -> Response:
        from http import HTTPStatus

        try:
            request = json.loads(body)
            seconds = float(request["advance_s"])
            moves_timers = request.get("timers", False)
            if not isinstance(moves_timers, bool):
                raise TypeError("timers is true or false")
            offset = self.clock.advance(seconds)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            detail = f'send {{"advance_s": SECONDS, "timers"?: true}}: {error}'
            return Response.problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", detail)
        if moves_timers:
            self.aws.advance_timers(seconds)
        return Response.json({"offset_s": offset.total_seconds()})

    def _notice_readers(self, body: bytes) -> Response:
        from http import HTTPStatus

        try:
            notices = json.loads(body)["noticed"]
        except (ValueError, TypeError, KeyError):
            notices = None
        if not isinstance(notices, bool):
            detail = (
                'send {"noticed": false} for streams whose functions do not learn of closed readers'
            )
            return Response.problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", detail)
        self.functions.notices_readers = notices
        return Response.json({"noticed": notices})


class _StandIn:
    """The stand-in model's application, imported while the system starts: no request reaches it before a run
    does."""

    def __init__(self) -> None:
        self._model_task = asyncio.create_task(asyncio.to_thread(_make_model))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        application = await asyncio.shield(self._model_task)
        await application(scope, receive, send)


def _make_model() -> Any:
    from layover.desk.local.model.server import create_app

    return create_app()


async def _end(task: asyncio.Task[None]) -> None:
    """Wait until the task is over, by itself or cancelled."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def make_folders(data: Path) -> None:
    """Make the folder of the data, unless it is there, and those in it. git ignores a new one, wherever it
    is: it has what users said. Raises OSError."""
    is_new = not data.exists()
    for folder in ("logs", "run"):
        (data / folder).mkdir(parents=True, exist_ok=True)
    if is_new:
        (data / ".gitignore").write_text("*\n")


def _lock(file: IO[str], data: Path) -> None:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        who = f" ({holder})" if (holder := file.read(200).strip()) else ""
        raise RunnerFailed(
            f'another runner{who} uses {data}: stop it, or give --data (make dev ARGS="--data DIR")'
        ) from error
