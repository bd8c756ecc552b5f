"""Environment -> Runtime. Only this module reads `os.environ`. No client is made before its first use."""

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from layover import logs, ports
from layover.clock import SystemClock
from layover.errors import ConfigurationError
from layover.ids import RandomIds
from layover.invocation import InvocationLoop
from layover.lazy import lazy
from layover.ports import secrets
from layover.runtime import Runtime
from layover.values.base import strict_json
from layover.values.deployment.environment import Environment
from layover.values.deployment.providers import HASHING_PREFIX, OFFLINE_PREFIX

if TYPE_CHECKING:
    from decimal import Decimal

    from layover.adapters.aws.services import AwsServices
    from layover.adapters.journal.items.dynamodb import DynamoTable
    from layover.adapters.metrics.emf import EmfMetrics
    from layover.adapters.store.postgres.database import Database
    from layover.declare.agent import Agent
    from layover.inprocess.driver import InProcess
    from layover.plugin import Accounts, AgentMemory
    from layover.plugins.models.bedrock.chat import BedrockChat
    from layover.plugins.models.providers import Providers
    from layover.plugins.people.channel import Services
    from layover.plugins.traces.writers import TracedWriters
    from layover.ports.memory.entries import Owners
    from layover.records.migrate import Migrator
    from layover.sockets.delivery import DeliveryQueue
    from layover.values.channels import Channels
    from layover.values.runs.usage import Usage

T = TypeVar("T")
H = TypeVar("H", bound=Callable[..., Any])


@cache
def environment() -> Environment:
    """Return the process's environment, read once; an empty variable counts as not set."""
    names = {f.alias for f in Environment.model_fields.values() if f.alias}
    variables = {k: v for k, v in os.environ.items() if k in names and v}
    return Environment.model_validate(variables)


def unset(*names: str) -> list[str]:
    """Return the names of the variables that are not set."""
    fields = {f.alias: name for name, f in Environment.model_fields.items()}
    return [name for name in names if not getattr(environment(), fields[name])]


@cache
def runtime() -> Runtime:
    """Return the ports on AWS (or on the server that `AWS_ENDPOINT_URL` names)."""
    from layover.adapters.dialer import ClientDialer

    secrets.read_by(_secret, lambda: environment().tool_secrets.split(","))
    clock = SystemClock()
    return Runtime(
        journal=lazy(_journal),
        threads=lazy(_threads),
        memory=lazy(_memory),
        blobs=lazy(_blobs),
        model=lazy(_traced_model if environment().traces else _model),
        callbacks=lazy(_callbacks),
        clock=clock,
        ids=RandomIds(),
        settings=environment().settings,
        agents=_agents,
        make_agent_memory=_agent_memory,
        make_accounts=_accounts,
        price=_price,
        window=_window,
        embedder=lazy(_embedder) if _embeds() else None,
        embedder_named=_embedder_named,
        metrics=_metrics(),
        allowance=lazy(_allowance),
        leases=lazy(_leases),
        background=lazy(_background) if environment().compact_function else None,
        sockets=lazy(_sockets) if environment().socket_endpoint else None,
        dialer=ClientDialer(_database, _model),
        tracing=lazy(_tracing) if environment().traces else ports.NoTracing(),
        tool_servers=lazy(_tool_servers),
        connections=_connections(),
        channels=_channels(),
        own_model=_traced_own_model if environment().traces else _own_model,
    )


def _own_model(model: ports.Model) -> ports.ChatModel:
    from layover.plugins.models.own import OwnModel

    return OwnModel(model)


def _traced_own_model(model: ports.Model) -> ports.ChatModel:
    from layover.plugins.traces.requests import TracedModel

    return TracedModel(_own_model(model), content=environment().trace_content)


def _table() -> "DynamoTable":
    from layover.adapters.journal.items.dynamodb import DynamoTable

    return DynamoTable(_aws().client("dynamodb"), environment().table)


@cache
def _aws() -> "AwsServices":
    from layover.adapters.aws.services import AwsServices

    return AwsServices(os.environ)


@cache
def _journal() -> ports.Journal:
    journal = _plain_journal()
    # Lazy: `api` has a journal and takes no run, so it never imports OpenTelemetry.
    return replace(journal, writers=lazy(_traced_writers)) if environment().traces else journal


@cache
def _plain_journal() -> ports.Journal:
    from layover.adapters.journal.journal import table_journal

    sink = lazy(_pusher) if environment().socket_endpoint else None
    audit_retention = timedelta(days=environment().audit_days)
    return table_journal(
        _table(), lazy(_blobs), SystemClock(), sink, audit_retention=audit_retention
    )


@cache
def _tracing() -> ports.Tracing:
    """Return the receiver's client of a function, which sends at the end of each invocation."""
    return _make_tracing(in_background=False)


@cache
def _background_tracing() -> ports.Tracing:
    """Return the receiver's client of any other process."""
    return _make_tracing(in_background=True)


def _make_tracing(*, in_background: bool) -> ports.Tracing:
    """Without the packages of the extra, says so and traces nothing: a run never fails for want of a
    trace."""
    env = environment()
    try:
        from layover.plugins.traces.background import BackgroundTracing
        from layover.plugins.traces.otlp import OtlpTracing
    except ModuleNotFoundError as error:
        logging.getLogger("layover").warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, and nothing is traced: the packages of the extra `otel` are "
            "missing. Install `layover[otel]`; for AWS, list them in the requirements.txt of the agents",
            extra={"missing": error.name},
        )
        return ports.NoTracing()
    parameter = env.otlp_headers_parameter
    headers = _headers(_parameter(parameter)) if parameter else None
    if in_background:
        return BackgroundTracing(SystemClock(), env.service, os.environ, headers=headers).start()
    return OtlpTracing(SystemClock(), env.service, os.environ, headers=headers)


def _headers(text: str) -> dict[str, str]:
    """Return the headers of a list as `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value,...`, in which
    values may be percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if "=" in pair)
    return {name.strip().lower(): unquote(value.strip()) for name, _, value in pairs}


@cache
def _traced_writers() -> "TracedWriters":
    from layover.plugins.traces.writers import TracedWriters

    content = environment().trace_content
    return TracedWriters(_plain_journal(), _tracing(), SystemClock(), content=content)


@cache
def _traced_model() -> ports.ChatModel:
    from layover.plugins.traces.requests import TracedModel

    return TracedModel(_model(), content=environment().trace_content)


@cache
def _tool_servers() -> ports.ToolServers:
    from layover.plugins.reach.mcp.servers import McpServers

    return McpServers()


def _accounts(runtime: Runtime) -> "Accounts":
    from layover.plugins.reach.connections.accounts import GrantedAccounts

    return GrantedAccounts(runtime)


def _connections() -> ports.GrantPorts:
    """Return the ports of users' connections. Without a key nothing can be sealed or opened, but grants are
    erased, and a deployment's own accounts work."""
    env = environment()
    connections = ports.GrantPorts(
        grants=lazy(_grants),
        endpoints=lazy(_token_endpoints),
        redirect_url=env.connections_url,
    )
    return replace(connections, sealer=lazy(_sealer)) if env.connections_key else connections


@cache
def _grants() -> ports.Grants:
    from layover.plugins.reach.adapters.grants import TableGrants

    return TableGrants(_table())


@cache
def _sealer() -> ports.Sealer:
    env = environment()
    if env.connections_key.startswith("arn:"):
        from layover.plugins.reach.adapters.kms import KmsSealer

        return KmsSealer(_aws().client("kms"), env.connections_key, env.service)
    from layover.plugins.reach.adapters.key_file import KeyFileSealer

    return KeyFileSealer(Path(env.connections_key))


@cache
def _token_endpoints() -> ports.TokenEndpoints:
    from layover.adapters.http.choice import choose_client
    from layover.plugins.reach.adapters.endpoints import HttpTokenEndpoints

    return HttpTokenEndpoints(choose_client(os.environ))


def _channels() -> ports.ChannelPorts:
    """Return the ports of channels; no document is read, and no sender imported, before somebody is told."""
    env = environment()
    if not (env.channels or env.channels_parameter):
        return ports.ChannelPorts()
    return ports.ChannelPorts(
        config=lazy(_channel_config),
        senders=_senders(),
        deliveries=lazy(_deliveries),
        outages=lazy(_outages),
        links=lazy(_decision_links),
        base_url=env.api_url.rstrip("/"),
        presses=_presses(),
    )


def _senders() -> Mapping[str, ports.Sender]:
    """Return a sender for each channel. Each is made when it first sends: a module that is missing harms no
    other."""
    from layover.plugins.people.channels import CHANNELS

    return {c.name: lazy(cache(partial(_of_services, c.make_sender))) for c in CHANNELS}


def _presses() -> Mapping[str, ports.PressPorts]:
    """Return the ports of presses in the channels whose secrets the process has."""
    from layover.declare.secret import Secret
    from layover.plugins.people.channels import CHANNELS

    each = {channel.name: channel.presses for channel in CHANNELS}
    return {
        name: ports.PressPorts(
            signing_secret=Secret(presses.signing_secret).aget,
            replies=lazy(cache(partial(_of_services, presses.make_replies))),
            book=lazy(_press_book),
        )
        for name, presses in each.items()
        if presses is not None and os.environ.get(presses.signing_secret)
    }


def _of_services(make: "Callable[[Services], T]") -> T:
    from layover.adapters.http.choice import choose_client
    from layover.plugins.people.channel import Services

    # Only the system on one machine has an API without TLS, and its services with it.
    url = urlsplit(environment().api_url)
    plain = frozenset({url.hostname}) if url.scheme == "http" and url.hostname else frozenset()
    http = choose_client(os.environ)
    return make(Services(_channel_config(), os.environ, http, _aws, plain_hosts=plain))


@cache
def _press_book() -> ports.PressBook:
    from layover.plugins.people.press_book import TablePressBook

    return TablePressBook(_table())


@cache
def _channel_config() -> "Channels":
    """Return the document, read once by each process. Raises ConfigurationError, RetryableError."""
    from layover.plugins.people.config import read_channels

    env = environment()
    text, name = env.channels, "LAYOVER_CHANNELS"
    if not text:
        from layover.adapters.parameters import secret_parameter

        name = env.channels_parameter
        text = secret_parameter(name, _aws().client("ssm"), what="the channels' document")
    try:
        document = strict_json(text)
    except ValueError as error:
        raise ConfigurationError(f"{name} is not JSON: {error}") from error
    return read_channels(document)


@cache
def _deliveries() -> ports.Deliveries:
    from layover.adapters.journal.deliveries import TableDeliveries

    return TableDeliveries(_table(), SystemClock())


@cache
def _outages() -> ports.Outages:
    from layover.adapters.journal.outages import TableOutages

    return TableOutages(_table(), SystemClock())


@cache
def _decision_links() -> ports.DecisionLinks:
    from layover.adapters.journal.deliveries import TableDecisionLinks

    return TableDecisionLinks(_table(), SystemClock())


@cache
def _allowance() -> ports.Allowance:
    from layover.adapters.journal.allowance import TableAllowance

    env = environment()
    has_limits = env.daily_tokens is not None or env.daily_cost_usd is not None
    return TableAllowance(_table(), SystemClock(), counts=has_limits)


@cache
def _leases() -> ports.Leases:
    from layover.adapters.journal.leases import TableLeases

    return TableLeases(_table())


@cache
def _sockets() -> ports.SocketPorts:
    from layover.adapters.sockets.apigateway import socket_ports

    env, aws = environment(), _aws()
    return socket_ports(_table(), aws, env.socket_url, env.socket_endpoint, env.socket_function)


@cache
def _pusher() -> "DeliveryQueue":
    from layover.sockets.delivery import DeliveryQueue, SocketDelivery

    return DeliveryQueue(SocketDelivery(_journal(), _sockets(), SystemClock()))


@cache
def _blobs() -> ports.Blobs:
    from layover.adapters.aws.sdk import client
    from layover.adapters.blobs.s3 import S3Blobs

    return S3Blobs(lambda: client("s3"), environment().bucket)


@cache
def _callbacks() -> ports.Callbacks:
    from layover.adapters.callbacks.stepfunctions import StepFunctions

    env = environment()
    states, events = _aws().client("states"), _aws().client("events")
    return StepFunctions(states, events, env.state_machine_arn, env.event_bus)


@cache
def _background() -> ports.Background:
    from layover.adapters.background.lambda_events import LambdaEvents

    return LambdaEvents(_aws().client("lambda"), environment().compact_function)


@cache
def _database() -> "Database":
    from layover.adapters.store.postgres.database import Database

    env = environment()
    wake_timeout = timedelta(seconds=env.database_waking_s)
    return Database(
        env.database_url, password=_token(env, env.database_url), wake_timeout=wake_timeout
    )


def _token(env: Environment, dsn: str) -> Callable[[], str] | None:
    """Return the maker of sign-in tokens for the database of this URL, if it uses IAM."""
    if env.database_auth == "url":
        return None
    from layover.adapters.store.postgres.sign_in import iam_token

    return iam_token(dsn, _aws())


def _owner_password(env: Environment) -> Callable[[], str] | None:
    if not env.database_admin_secret:
        return _token(env, env.database_admin_url)
    from layover.adapters.aws.sdk import client
    from layover.adapters.store.postgres.sign_in import secret_password

    return secret_password(env.database_admin_secret, lambda: client("secretsmanager"))


@cache
def _threads() -> ports.ThreadStore:
    from layover.adapters.store.postgres.threads import PostgresThreads
    from layover.plugins.memory.postgres.additions import MemoryAdditions

    return PostgresThreads(_database(), MemoryAdditions())


@cache
def _memory() -> ports.MemoryStore:
    from layover.plugins.memory.postgres.memory import PostgresMemory

    return PostgresMemory(_database())


def _agent_memory(runtime: Runtime) -> "AgentMemory":
    from layover.plugins.memory.reads.turns import RememberedTurns

    return RememberedTurns(runtime)


@cache
def _model() -> "Providers | BedrockChat":
    from layover.plugins.models.providers import make_model

    return make_model(environment(), _api_key, os.environ, _parameter, _aws)


@cache
def _api_key() -> str | None:
    """Return the model provider's key, from the variable or the parameter."""
    env = environment()
    if env.openai_api_key or not env.api_key_parameter:
        return env.openai_api_key
    return _parameter(env.api_key_parameter)


def _parameter(name: str) -> str:
    from layover.adapters.parameters import secret_parameter

    return secret_parameter(name, _aws().client("ssm"))


def _secret(place: str) -> str:
    """Return a secret of tools: that of an ARN from Secrets Manager, else a parameter."""
    from layover.adapters.parameters import secret_parameter, secret_value

    what = "the secret of a tool"
    if place.startswith("arn:"):
        return secret_value(place, _aws().client("secretsmanager"), what=what)
    return secret_parameter(place, _aws().client("ssm"), what=what)


@cache
def _embeds() -> bool:
    """Return whether the deployment has an embedder. A Bedrock model without an adapter is logged once."""
    from layover.plugins.models.embeddings.providers import has_embedder

    return has_embedder(environment(), os.environ)


def _embedder() -> ports.Embedder:
    return _embedder_named(environment().embedder_model or "")


@cache
def _embedder_named(name: str) -> ports.Embedder:
    if name.startswith(HASHING_PREFIX):
        from layover.inmemory.embedder import HashingEmbedder

        return HashingEmbedder()
    from layover.plugins.models.embeddings.providers import make_embedder

    if name.startswith(OFFLINE_PREFIX):
        # Before numpy is imported: the threads of its matrix products wait for each other on a busy machine.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return make_embedder(name, environment(), _api_key, os.environ, _parameter, aws=_aws)


@cache
def _metrics() -> "EmfMetrics":
    from layover.adapters.metrics.emf import EmfMetrics

    return EmfMetrics(environment().service)


@cache
def _agents() -> "Mapping[str, Agent]":
    from layover.declare.registry import load_agents

    return load_agents(environment().agents)


def _price(model: str, usage: "Usage") -> "Decimal | None":
    from layover.plugins.models.prices import price_of

    return price_of(model, usage, environment())


def _window(model: str) -> int | None:
    from layover.plugins.models.prices import window_of

    return window_of(model, environment())


def serves_model(name: str) -> bool:
    """Return whether the environment names somebody to ask for this model."""
    from layover.plugins.models.providers import can_serve

    return can_serve(environment(), name)


def import_ahead(function: str) -> None:
    """Import what each invocation needs, in Lambda's init phase only: elsewhere a process may never be
    used."""
    if "AWS_LAMBDA_INITIALIZATION_TYPE" in os.environ:
        from layover.ahead import import_all

        import_all(function, _agents, traces=environment().traces)


def owners() -> "Owners":
    """Return the list of owners with any data, as the role that owns the tables sees it."""
    from layover.adapters.store.postgres.database import Database
    from layover.plugins.memory.postgres.reembedding import PostgresOwners

    return PostgresOwners(Database(environment().database_admin_url))


def migrator() -> "Migrator":
    """Return the migrator to this release's schema, as the role that owns the tables."""
    from layover.adapters.store.postgres.migrate import PostgresMigrations

    env = environment()
    return PostgresMigrations(env.database_admin_url, password=_owner_password(env))


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run on the environment's loop. Raises `RetryableError` for any passing fault."""
    _logging()
    return _loop.run(work)


async def _finish() -> None:
    """Send and record what an invocation has left in its clients."""
    if _pusher.cache_info().currsize:
        await _pusher().finish()
    await _write_allowance()
    _publish_metrics()
    await _send_traces()


_loop = InvocationLoop(_finish)


async def _write_allowance() -> None:
    """Record the spending. A failure does not cost an invocation its answer."""
    if not _allowance.cache_info().currsize:
        return
    try:
        await _allowance().flush()
    except Exception:
        logging.getLogger("layover").warning("a day's use was not written", exc_info=True)


def _publish_metrics() -> None:
    """Publish the metrics. A failure does not cost an invocation its answer."""
    try:
        _metrics().flush()
    except Exception:
        logging.getLogger("layover").warning("metrics were not published", exc_info=True)


async def _send_traces() -> None:
    """Send the traces, for as long as an invocation may wait. A failure does not cost it its answer."""
    if _traced_writers.cache_info().currsize:
        # For the next process: what this one did will be sent by this one.
        await _traced_writers().leave()
    if _tracing.cache_info().currsize:
        await _tracing().finish()


def with_logging(handler: H) -> H:
    """Return the handler with log lines that name the invocation: its request and its run."""
    return logs.with_ids(handler, _logging)


@cache
def _logging() -> None:
    """Write JSON lines for everything that logs to `layover`."""
    env = environment()
    logs.write_json(env.service, env.log_level)


def in_process(agent: "Agent") -> "InProcess":
    """Return the driver of an agent that runs in this process: `Agent(runtime=...)`, else stores in memory
    and the model that the environment names."""
    from layover.inprocess.driver import InProcess

    bell = asyncio.Event()
    runtime = agent.runtime or _traced(in_memory_runtime(agent, on_change=bell.set))
    return InProcess(runtime, agent, bell)


def _traced(runtime: Runtime) -> Runtime:
    """Return the runtime of this process with traces, if they are on."""
    if not environment().traces:
        return runtime
    from layover.plugins.traces.requests import TracedModel
    from layover.plugins.traces.writers import TracedWriters

    tracing, content = _background_tracing(), environment().trace_content
    writers = TracedWriters(runtime.journal, tracing, runtime.clock, content=content)
    return replace(
        runtime,
        journal=replace(runtime.journal, writers=writers),
        model=TracedModel(runtime.model, content=content),
        own_model=lambda model: TracedModel(runtime.own_model(model), content=content),
        tracing=tracing,
    )


def in_memory_runtime(
    *agents: "Agent",
    model: ports.ChatModel | None = None,
    embedder: ports.Embedder | None = None,
    clock: ports.Clock | None = None,
    ids: ports.Ids | None = None,
    on_change: Callable[[], None] | None = None,
    metrics: ports.Metrics | None = None,
    table: ports.Table | None = None,
) -> Runtime:
    """Return a runtime whose stores end with the process, for these agents and all agents to which they may
    hand a conversation. Without `model` (`layover.testing.ScriptedModel`) and `embedder` (`HashingEmbedder`),
    it uses those of the environment; `model` also answers for the models that agents bring. `metrics`: the
    counter, for example `InMemoryMetrics`. `table`: holds the journal in place of one in memory, whose writes
    call `on_change`."""
    from layover.declare.tools.delegate import with_handoffs
    from layover.inmemory.allowance import in_memory_allowance
    from layover.inmemory.blobs import InMemoryBlobs
    from layover.inmemory.callbacks import NobodyListens
    from layover.inmemory.journal import in_memory_journal
    from layover.inmemory.sealer import InMemorySealer
    from layover.inmemory.stores.memory import InMemoryMemory
    from layover.inmemory.stores.threads import InMemoryThreads
    from layover.inmemory.table import InMemoryTable

    clock = clock or SystemClock()
    blobs, threads, all_agents = InMemoryBlobs(clock), InMemoryThreads(), with_handoffs(agents)
    journal_table = InMemoryTable(on_change) if table is None else table

    def grants() -> ports.Grants:
        from layover.plugins.reach.adapters.grants import TableGrants

        return TableGrants(journal_table)

    def own_model(brought: ports.Model) -> ports.ChatModel:
        from layover.plugins.models.own import OwnModel

        async def sleep(seconds: float) -> None:
            await clock.sleep(timedelta(seconds=seconds))

        return model or OwnModel(brought, sleep)

    return Runtime(
        journal=in_memory_journal(clock, blobs, table=journal_table),
        threads=threads,
        memory=InMemoryMemory(threads),
        blobs=blobs,
        model=model or lazy(_model),
        callbacks=NobodyListens(),
        clock=clock,
        ids=ids or RandomIds(),
        settings=environment().settings,
        agents=lambda: all_agents,
        make_agent_memory=_agent_memory,
        make_accounts=_accounts,
        price=_price,
        window=_window,
        embedder=embedder or (lazy(_embedder) if _embeds() else None),
        embedder_named=_embedder_named,
        metrics=metrics or ports.NoMetrics(),
        allowance=in_memory_allowance(clock, environment().settings, table),
        tool_servers=lazy(_tool_servers),
        connections=ports.GrantPorts(
            grants=lazy(grants),
            sealer=InMemorySealer(),
            endpoints=lazy(_token_endpoints),
            redirect_url="http://localhost/connected",
        ),
        own_model=own_model,
    )
