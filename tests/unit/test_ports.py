"""Every adapter beside its port. mypy compares the two: what does not fit is an error of `make check`."""

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import get_args

import layover.adapters
import layover.clock
import layover.ids
import layover.ports
from examples.ollama_model import OllamaModel
from layover.adapters.background.lambda_events import LambdaEvents
from layover.adapters.blobs.s3 import S3Blobs
from layover.adapters.callbacks.stepfunctions import StepFunctions
from layover.adapters.dialer import ClientDialer
from layover.adapters.journal.allowance import TableAllowance
from layover.adapters.journal.audit import TableAudit
from layover.adapters.journal.commands import TableRunCommands
from layover.adapters.journal.decisions import TableDecisions
from layover.adapters.journal.deliveries import TableDecisionLinks, TableDeliveries
from layover.adapters.journal.erasure import TableErasure
from layover.adapters.journal.expiry import TableExpiry
from layover.adapters.journal.feedback import TableFeedback
from layover.adapters.journal.followers.connections import TableConnections
from layover.adapters.journal.heads import TableHeads
from layover.adapters.journal.inbox import TableInbox
from layover.adapters.journal.items.dynamodb import DynamoTable
from layover.adapters.journal.leases import TableLeases
from layover.adapters.journal.log.events import TableRunEvents
from layover.adapters.journal.operations import TableOperations
from layover.adapters.journal.outages import TableOutages
from layover.adapters.journal.overview import TableOverview
from layover.adapters.journal.runlog import TableRunLog
from layover.adapters.journal.runs import TableRuns
from layover.adapters.journal.sweep import TableDues, TableWatch
from layover.adapters.journal.writers import TableWriters
from layover.adapters.metrics.emf import EmfMetrics
from layover.adapters.sockets.apigateway import ApiGatewaySockets, LambdaPush
from layover.adapters.store.postgres.migrate import PostgresMigrations
from layover.adapters.store.postgres.threads import PostgresThreads
from layover.clock import ManualClock, SystemClock
from layover.declare.agents.driver import Driver
from layover.dice import SeededDice, SystemDice
from layover.engine.time_left import NoDeadline
from layover.ids import RandomIds, SequentialIds
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.inmemory.embedder import HashingEmbedder
from layover.inmemory.metrics import InMemoryMetrics
from layover.inmemory.model import ScriptedModel
from layover.inmemory.sealer import InMemorySealer
from layover.inmemory.stores.compaction import InMemoryCompaction
from layover.inmemory.stores.entries import InMemoryEntries
from layover.inmemory.stores.memory import InMemoryMemory
from layover.inmemory.stores.notes import InMemoryNotes
from layover.inmemory.stores.personal import InMemoryPersonal
from layover.inmemory.stores.recall import InMemoryRecall
from layover.inmemory.stores.threads import InMemoryThreads
from layover.inmemory.table import InMemoryTable
from layover.inprocess.aborts import AbortsHere
from layover.inprocess.background_tasks import InThisProcess
from layover.inprocess.driver import InProcess
from layover.invocation import LambdaDeadline
from layover.plugins.memory.postgres.compaction import PostgresCompaction
from layover.plugins.memory.postgres.entries import PostgresEntries
from layover.plugins.memory.postgres.memory import PostgresMemory
from layover.plugins.memory.postgres.notes import PostgresNotes
from layover.plugins.memory.postgres.personal import PostgresPersonal
from layover.plugins.memory.postgres.recall import PostgresRecall
from layover.plugins.memory.postgres.reembedding import PostgresOwners, PostgresReembedding
from layover.plugins.memory.usage import MeteredEmbedder
from layover.plugins.models.anthropic.chat import AnthropicChat
from layover.plugins.models.bedrock.chat import BedrockChat
from layover.plugins.models.bedrock.converse import ConverseChat
from layover.plugins.models.embeddings.bedrock import BedrockEmbedder
from layover.plugins.models.embeddings.offline import OfflineEmbedder
from layover.plugins.models.embeddings.openai import OpenAIEmbedder
from layover.plugins.models.openai_chat import OpenAIChat
from layover.plugins.models.openai_client import OpenAIModel
from layover.plugins.models.own import OwnModel
from layover.plugins.models.providers import Providers
from layover.plugins.models.responses.chat import ResponsesChat
from layover.plugins.people.channels.mail.sender import MailSender
from layover.plugins.people.channels.slack.sender import SlackSender
from layover.plugins.people.channels.teams.sender import TeamsSender
from layover.plugins.people.press_book import TablePressBook
from layover.plugins.reach.adapters.endpoints import HttpTokenEndpoints
from layover.plugins.reach.adapters.grants import TableGrants
from layover.plugins.reach.adapters.key_file import KeyFileSealer
from layover.plugins.reach.adapters.kms import KmsSealer
from layover.plugins.reach.mcp.servers import McpServers
from layover.plugins.traces.background import BackgroundTracing
from layover.plugins.traces.otlp import OtlpTracing
from layover.plugins.traces.requests import TracedModel
from layover.plugins.traces.writers import TracedLog, TracedWriters
from layover.ports import (
    Aborts,
    Allowance,
    Background,
    Blobs,
    Callbacks,
    ChatModel,
    Clock,
    Deadline,
    DecisionLinks,
    Deliveries,
    Dialer,
    Dice,
    Dues,
    Embedder,
    EventSink,
    Grants,
    Ids,
    Leases,
    MemoryStore,
    Metrics,
    Model,
    NoAllowance,
    NoDialer,
    NoLeases,
    NoMetrics,
    NoSink,
    NoToolServers,
    NoTracing,
    Outages,
    PressBook,
    RunEvents,
    RunLog,
    Sealer,
    Sender,
    ThreadStore,
    TokenEndpoints,
    ToolServers,
    Tracing,
    Writers,
)
from layover.ports.channels import Replies
from layover.ports.journal import (
    Audit,
    Decisions,
    Erasure,
    Expiry,
    FeedbackBook,
    Heads,
    Inbox,
    Operations,
    Overview,
    RunCommands,
    Runs,
    Watch,
)
from layover.ports.memory.compaction import CompactionStore
from layover.ports.memory.entries import EntryStore, Owners, ReembeddingStore
from layover.ports.memory.notes import NoteStore
from layover.ports.memory.personal import PersonalStore
from layover.ports.memory.recall import RecallStore
from layover.ports.sockets import Connections, PushLater, Sockets
from layover.ports.table import Table
from layover.records.migrate import Migrator
from layover.sockets.delivery import DeliveryQueue
from support.inmemory.sender import InMemorySender
from support.inmemory.sockets import InMemoryLater, InMemorySockets
from support.inmemory.tracing import InMemoryTracing

aborts: tuple[type[Aborts], ...] = (AbortsHere,)
allowance: tuple[type[Allowance], ...] = (NoAllowance, TableAllowance)
audit: tuple[type[Audit], ...] = (TableAudit,)
background: tuple[type[Background], ...] = (InThisProcess, LambdaEvents)
blobs: tuple[type[Blobs], ...] = (InMemoryBlobs, S3Blobs)
callbacks: tuple[type[Callbacks], ...] = (InMemoryCallbacks, StepFunctions)
chat_model: tuple[type[ChatModel], ...] = (
    TracedModel,
    ScriptedModel,
    OpenAIChat,
    OwnModel,
    BedrockChat,
    ConverseChat,
    AnthropicChat,
    ResponsesChat,
    Providers,
)
clock: tuple[type[Clock], ...] = (SystemClock, ManualClock)
commands: tuple[type[RunCommands], ...] = (TableRunCommands,)
compaction: tuple[type[CompactionStore], ...] = (InMemoryCompaction, PostgresCompaction)
connections: tuple[type[Connections], ...] = (TableConnections,)
deadline: tuple[type[Deadline], ...] = (NoDeadline, LambdaDeadline)
decisions: tuple[type[Decisions], ...] = (TableDecisions,)
decision_links: tuple[type[DecisionLinks], ...] = (TableDecisionLinks,)
deliveries: tuple[type[Deliveries], ...] = (TableDeliveries,)
dialer: tuple[type[Dialer], ...] = (NoDialer, ClientDialer)
driver: tuple[type[Driver], ...] = (InProcess,)
dues: tuple[type[Dues], ...] = (TableDues,)
embedder: tuple[type[Embedder], ...] = (
    HashingEmbedder,
    OfflineEmbedder,
    OpenAIEmbedder,
    BedrockEmbedder,
    MeteredEmbedder,
)
entries: tuple[type[EntryStore], ...] = (InMemoryEntries, PostgresEntries)
erasure: tuple[type[Erasure], ...] = (TableErasure,)
event_sink: tuple[type[EventSink], ...] = (NoSink, DeliveryQueue)
events: tuple[type[RunEvents], ...] = (TableRunEvents,)
expiry: tuple[type[Expiry], ...] = (TableExpiry,)
feedback: tuple[type[FeedbackBook], ...] = (TableFeedback,)
grants: tuple[type[Grants], ...] = (TableGrants,)
heads: tuple[type[Heads], ...] = (TableHeads,)
dice: tuple[type[Dice], ...] = (SystemDice, SeededDice)
ids: tuple[type[Ids], ...] = (SequentialIds, RandomIds)
inbox: tuple[type[Inbox], ...] = (TableInbox,)
leases: tuple[type[Leases], ...] = (NoLeases, TableLeases)
memory: tuple[type[MemoryStore], ...] = (InMemoryMemory, PostgresMemory)
metrics: tuple[type[Metrics], ...] = (NoMetrics, InMemoryMetrics, EmfMetrics)
tracing: tuple[type[Tracing], ...] = (NoTracing, InMemoryTracing, OtlpTracing, BackgroundTracing)
own_models: tuple[type[Model], ...] = (OpenAIModel, OllamaModel)
migrator: tuple[type[Migrator], ...] = (PostgresMigrations,)
notes: tuple[type[NoteStore], ...] = (InMemoryNotes, PostgresNotes)
operations: tuple[type[Operations], ...] = (TableOperations,)
outages: tuple[type[Outages], ...] = (TableOutages,)
overview: tuple[type[Overview], ...] = (TableOverview,)
owners: tuple[type[Owners], ...] = (InMemoryThreads, PostgresOwners)
personal: tuple[type[PersonalStore], ...] = (InMemoryPersonal, PostgresPersonal)
press_book: tuple[type[PressBook], ...] = (TablePressBook,)
push_later: tuple[type[PushLater], ...] = (InMemoryLater, LambdaPush)
recall: tuple[type[RecallStore], ...] = (InMemoryRecall, PostgresRecall)
reembedding: tuple[type[ReembeddingStore], ...] = (InMemoryEntries, PostgresReembedding)
run_log: tuple[type[RunLog], ...] = (TableRunLog, TracedLog)
runs: tuple[type[Runs], ...] = (TableRuns,)
sealer: tuple[type[Sealer], ...] = (InMemorySealer, KeyFileSealer, KmsSealer)
senders: tuple[type[Sender], ...] = (InMemorySender, SlackSender, MailSender, TeamsSender)
slack_replies: tuple[type[Replies], ...] = (SlackSender,)
sockets: tuple[type[Sockets], ...] = (InMemorySockets, ApiGatewaySockets)
table: tuple[type[Table], ...] = (InMemoryTable, DynamoTable)
token_endpoints: tuple[type[TokenEndpoints], ...] = (HttpTokenEndpoints,)
tool_servers: tuple[type[ToolServers], ...] = (NoToolServers, McpServers)
threads: tuple[type[ThreadStore], ...] = (InMemoryThreads, PostgresThreads)
watch: tuple[type[Watch], ...] = (TableWatch,)
writers: tuple[type[Writers], ...] = (TableWriters, TracedWriters)


BESIDE: dict[type, tuple[type, ...]] = {
    get_args(get_args(hint)[0])[0]: globals()[name] for name, hint in list(__annotations__.items())
}
"""Each port with its adapters, as they stand above."""


def is_port(candidate: type) -> bool:
    return bool(getattr(candidate, "_is_protocol", False))


def members(port: type) -> set[str]:
    return {name for name in dir(port) if not name.startswith("_")}


def fields(port: type) -> set[str]:
    """Annotations without a value, of a class and its bases."""
    return {name for each in port.__mro__ for name in vars(each).get("__annotations__", {})}


def classes_of(module: ModuleType) -> Iterator[type]:
    """Classes that are defined in this module, or below this package."""
    yield from (c for _, c in inspect.getmembers(module, inspect.isclass) if is_home(c, module))
    for found in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{module.__name__}."):
        yield from classes_of(import_module(found.name))


def is_home(candidate: type, module: ModuleType) -> bool:
    return candidate.__module__ == module.__name__


def test_every_port_has_an_entry() -> None:
    ports = {c for c in classes_of(layover.ports) if is_port(c)}
    assert ports - BESIDE.keys() == set()


def test_every_adapter_that_has_the_methods_of_a_port_is_compared_with_it() -> None:
    modules = (layover.adapters, layover.clock, layover.ids)
    missing = [
        f"{candidate.__name__} beside {port.__name__}"
        for module in modules
        for candidate in classes_of(module)
        for port, adapters in BESIDE.items()
        if not (is_port(candidate) or issubclass(candidate, str | tuple))
        and members(port) <= members(candidate)
        and fields(port) <= members(candidate) | fields(candidate)
        and not any(issubclass(candidate, a) or issubclass(a, candidate) for a in adapters)
    ]
    assert missing == []
