"""The ports of a simulated process, each with the network before it, and the functions that it runs."""

import asyncio
import contextvars
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, cast

from layover.adapters.journal.allowance import TableAllowance
from layover.adapters.journal.deliveries import TableDecisionLinks, TableDeliveries
from layover.adapters.journal.journal import table_journal
from layover.adapters.journal.leases import TableLeases
from layover.adapters.journal.outages import TableOutages
from layover.desk.local.aws.states.errors import StateFailed, StatesError
from layover.errors import RetryableError
from layover.inmemory.model import ScriptedModel, say
from layover.inmemory.sealer import InMemorySealer
from layover.inmemory.table import InMemoryTable
from layover.plugins.memory.condenses.compact import compact
from layover.plugins.memory.learns.extract import extract
from layover.plugins.memory.reads.turns import RememberedTurns
from layover.plugins.people.notify import notify
from layover.plugins.people.turns import Turns
from layover.plugins.reach.adapters.grants import TableGrants
from layover.plugins.reach.connections.accounts import GrantedAccounts
from layover.ports.channels import ChannelBusy, ChannelPorts
from layover.ports.grants import GrantPorts
from layover.ports.platform import ChatModel, OnDelta
from layover.ports.stores import ThreadStore
from layover.ports.table import Action, Check, Item, Table, Write, apply_all
from layover.recovery.give_up import give_up
from layover.recovery.sweep import sweep
from layover.runs.resume import await_decision, resume
from layover.runs.turn import turn
from layover.runtime import Runtime
from layover.values.channels import QUEUED, QUEUED_FOR_OPERATORS, Address, Channels, Person
from layover.values.decision import WakeUp
from layover.values.prompt import Prompt, Reply
from layover.values.runs.payload import (
    AwaitPayload,
    CompactPayload,
    ResumePayload,
    RunPayload,
    SettlePayload,
    TurnPayload,
)
from simulation.world import BEGINNING, Process, World, loop_time
from support.inmemory.sender import InMemorySender
from support.worlds.loops import LoopDeadline

OBSERVER: Mapping[str, Any] = {"observer": lambda _: say("* INFO (00:00) words")}
BACK = "https://console.example/back"


class LayoverAwaitAgain(Exception):
    """The error of `functions/resume` that lets the state machine try again."""


class DistantTable:
    """The table behind the network. Its indexes lag."""

    def __init__(self, world: World) -> None:
        self._world, self._table = world, world.table

    async def get(self, pk: str, sk: str, *, consistent: bool = True) -> Item | None:
        answer = await self._world.ask(f"get {sk[:24]}", lambda: self._base().get(pk, sk))
        return cast(Item | None, answer)

    async def query(
        self, pk: str, low: str, high: str, *, limit: int | None = None, forward: bool = True
    ) -> list[Item]:
        work = lambda: self._base().query(pk, low, high, limit=limit, forward=forward)  # noqa: E731
        return cast(list[Item], await self._world.ask("query", work))

    def _base(self) -> InMemoryTable:
        """Return the table as it is, unless its reads are broken."""
        stale_s = self._world.mutation.stale_s
        if not stale_s:
            return self._table
        return self._table.seen_at(loop_time() - self._world.chance().uniform(0, stale_s))

    def _index(self) -> InMemoryTable:
        """Return the table as an index shows it: a moment late."""
        lag_s = self._world.story.faults.lag_s
        if not lag_s or self._world.is_quiet:
            return self._table
        return self._table.seen_at(loop_time() - self._world.chance().uniform(0, lag_s))

    async def query_index(
        self, partition: str, prefix: str, *, limit: int, forward: bool, after: str | None
    ) -> list[Item]:
        work = lambda: self._index().query_index(  # noqa: E731
            partition, prefix, limit=limit, forward=forward, after=after
        )
        return cast(list[Item], await self._world.ask("query index", work))

    async def due(self, partition: str, until: str, limit: int) -> list[tuple[str, str]]:
        work = lambda: self._index().due(partition, until, limit)  # noqa: E731
        return cast(list[tuple[str, str]], await self._world.ask("due", work))

    async def behind(self, partition: str, after: str, limit: int) -> list[tuple[str, str, str]]:
        work = lambda: self._index().behind(partition, after, limit)  # noqa: E731
        return cast(list[tuple[str, str, str]], await self._world.ask("behind", work))

    async def write(self, action: Write) -> Item | None:
        label = f"{type(action).__name__} {action.sk[:24]}"
        changed = self._changed(action)
        answer = await self._world.ask(label, lambda: self._table.write(changed), writes=True)
        return cast(Item | None, answer)

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        label = "transact " + " ".join(action.sk[:18] for action in actions)
        changed = [self._changed(action) for action in actions]
        if self._world.mutation.tears:
            await self._tear(label, changed)
            return
        await self._world.ask(label, lambda: self._table.transact(changed, token), writes=True)

    def _changed(self, action: Any) -> Any:
        """Return the action as the broken product makes it."""
        change = self._world.mutation.changes
        if change is None:
            return action
        changed = change(action)
        self._world.counts["mutated"] += changed != action
        return changed

    async def _tear(self, label: str, actions: Sequence[Any]) -> None:
        """Check all, and then write each in a request of its own."""
        olds = [await self._table.get(action.pk, action.sk) for action in actions]
        apply_all(actions, olds)
        for action in actions:
            if not isinstance(action, Check):
                self._world.counts["mutated"] += 1
                plain = replace(action, when=None)
                await self._world.ask(label, partial(self._table.write, plain), writes=True)


class DistantThreads:
    """The database behind the network."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._world.threads, name)
        if not iscoroutinefunction(method):
            return method

        def ask(*args: Any, **kwargs: Any) -> Any:
            return self._world.ask(
                f"database {name}",
                lambda: method(*args, **kwargs),
                takes_s=(0.002, 0.03),
                fails=1.0 if self._world.is_away else self._world.story.faults.database,
            )

        return ask


class DistantModel:
    """A provider that takes its time."""

    def __init__(self, world: World, reply: Callable[[Prompt], Reply]) -> None:
        self._world = world
        self._scripted = ScriptedModel(reply, background=OBSERVER)

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        await self._world.pause()
        dice = self._world.chance()
        await asyncio.sleep(
            dice.uniform(0.05, 1.5) if dice.random() < 0.95 else dice.uniform(5, 40)
        )
        await self._world.pause()
        if (refusal := self._world.refusal) is not None:
            self._world.counts["model calls in vain"] += 1
            raise refusal
        self._world.counts["model calls"] += 1
        return await self._scripted.complete(prompt, on_delta)


class DistantExecutions:
    """`ports.Callbacks` on the interpreter of the state machine."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _arn(self, execution: str) -> str:
        machine = self._world.machine_arn.replace(":stateMachine:", ":execution:")
        return f"{machine}:{execution}"

    def _is_forgotten(self, operation: str) -> bool:
        is_it = operation in self._world.mutation.forgets
        self._world.counts["mutated"] += is_it
        return is_it

    async def _call(self, operation: str, request: dict[str, Any], *passes: str) -> Any:
        if self._is_forgotten(operation):
            return {}

        async def work() -> Any:
            try:
                # What it starts belongs to no process.
                return contextvars.Context().run(self._world.machine.call, operation, request)
            except StatesError as error:
                if error.code in passes:
                    return None
                raise RetryableError(error.code) from error

        return await self._world.ask(operation, work)

    async def start(self, owner: str, run_id: str, n: int) -> None:
        given = json.dumps({"v": 1, "owner": owner, "run_id": run_id, "n": n})
        request = {
            "stateMachineArn": self._world.machine_arn,
            "name": f"{run_id}-{n}",
            "input": given,
        }
        await self._call("StartExecution", request, "ExecutionAlreadyExists")

    async def alive(self, execution: str) -> bool:
        world = self._world

        async def work() -> bool:
            try:
                found = world.machine.call(
                    "DescribeExecution", {"executionArn": self._arn(execution)}
                )
            except StatesError:
                return False
            lag_s = world.story.faults.executions_lag_s
            shown_at = loop_time() + BEGINNING
            shown_at -= 0 if world.is_quiet else world.chance().uniform(0, lag_s)
            is_begun = found["startDate"] <= shown_at
            is_open = found["status"] == "RUNNING" or found.get("stopDate", math.inf) > shown_at
            return bool(is_begun and is_open)

        return bool(await world.ask("DescribeExecution", work))

    async def wake(self, token: str, news: WakeUp = WakeUp.DECIDED) -> bool:
        request = {"taskToken": token, "output": json.dumps({"layover": news.value})}
        gone = ("TaskTimedOut", "InvalidToken", "TaskDoesNotExist")
        return await self._call("SendTaskSuccess", request, *gone) is not None

    async def stop(self, execution: str, reason: str) -> None:
        request = {"executionArn": self._arn(execution), "cause": reason}
        await self._call("StopExecution", request, "ExecutionDoesNotExist")

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        async def work() -> None:
            self._world.publish(detail_type, detail)

        if self._is_forgotten(detail_type):
            return
        faults = self._world.story.faults
        await self._world.ask("PutEvents", work, fails=max(faults.bus, faults.fails))


class DistantTokens:
    """A service that gives access tokens, and a new refresh token with each."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def ask(self, url: str, form: Mapping[str, str], client: Any = None) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            self._world.counts["tokens"] += 1
            n = self._world.counts["tokens"]
            return {
                "access_token": f"access-{n}",
                "refresh_token": f"refresh-{n}",
                "expires_in": 3600,
                "token_type": "bearer",
            }

        answer = await self._world.ask("tokens", work, takes_s=(0.02, 0.2))
        return cast(dict[str, Any], answer)


class DistantSender:
    """A channel that is busy now and then."""

    def __init__(self, world: World, sender: InMemorySender) -> None:
        self._world, self._sender = world, sender

    async def _enter(self) -> None:
        await self._world.pause()
        world, dice = self._world, self._world.chance()
        if not world.is_quiet and dice.random() < world.story.faults.busy:
            world.counts["busy"] += 1
            raise ChannelBusy("busy", timedelta(seconds=dice.uniform(0.5, 8)))

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        await self._enter()
        work = lambda: self._sender.send(*args, **kwargs)  # noqa: E731
        return await self._world.ask("send", work, takes_s=(0.05, 0.4))

    async def update(self, *args: Any, **kwargs: Any) -> Any:
        await self._enter()
        work = lambda: self._sender.update(*args, **kwargs)  # noqa: E731
        return await self._world.ask("update", work, takes_s=(0.05, 0.4))


def _at(channel: str, to: str) -> Address:
    return Address(channel=channel, to=to)


CHANNELS = Channels(
    groups={
        "boss": (_at("slack", "#boss"), _at("mail", "boss@example.com")),
        "chief": (_at("slack", "#chief"),),
        "owner": (_at("slack", "@owner"),),
    },
    people=(Person(id="ann", groups=frozenset(), places={"slack": "U1"}, mail="ann@example.com"),),
    mail_from="layover@example.com",
)


@dataclass
class Services:
    """The services of a deployment."""

    world: World
    reply: Callable[[Prompt], Reply]
    config: Channels = CHANNELS

    def __post_init__(self) -> None:
        self.on_their_way = 0
        """Events that the bus has taken and `notify` has not."""
        self.senders = {
            "slack": InMemorySender(),
            "mail": InMemorySender(updates=False),
        }
        self.world.run_function = self.run_function
        if self.world.features.channels:
            self.world.told = self._deliver

    def runtime(self, process: Process) -> Runtime:
        """Return the ports of a process."""
        world = self.world
        table = cast(Table, DistantTable(world))
        counts = world.settings.daily_tokens is not None
        return Runtime(
            journal=table_journal(table, world.blobs, world, dice=world.rolls),
            threads=cast(ThreadStore, DistantThreads(world)),
            memory=world.memory,
            blobs=world.blobs,
            model=cast(ChatModel, DistantModel(world, self.reply)),
            callbacks=DistantExecutions(world),
            clock=world,
            ids=world.ids,
            dice=world.rolls,
            settings=world.settings,
            agents=lambda: process.agents,
            make_agent_memory=RememberedTurns,
            make_accounts=GrantedAccounts,
            allowance=TableAllowance(table, world, counts=counts),
            leases=TableLeases(table),
            channels=self._channels(table) if world.features.channels else ChannelPorts(),
            connections=GrantPorts(
                TableGrants(table), InMemorySealer(), cast(Any, DistantTokens(world)), BACK
            ),
        )

    def plain(self) -> Runtime:
        """Return ports without a process, time or faults: they show what there is."""
        world = self.world
        return Runtime(
            journal=table_journal(world.table, world.blobs, world, dice=world.rolls),
            threads=world.threads,
            memory=world.memory,
            blobs=world.blobs,
            model=cast(Any, None),
            callbacks=cast(Any, None),
            clock=world,
            ids=world.ids,
            dice=world.rolls,
            settings=world.settings,
            agents=lambda: world.deployments[-1][2],
            make_agent_memory=RememberedTurns,
            make_accounts=GrantedAccounts,
        )

    def _channels(self, table: Table) -> ChannelPorts:
        senders = {kind: DistantSender(self.world, each) for kind, each in self.senders.items()}
        return ChannelPorts(
            config=self.config,
            senders=cast(Any, senders),
            deliveries=TableDeliveries(table, self.world, self.world.rolls),
            links=TableDecisionLinks(table, self.world, self.world.rolls),
            outages=TableOutages(table, self.world, self.world.rolls),
            base_url="https://layover.example",
        )

    async def serve(self, process: Process, work: Callable[[Runtime], Any]) -> Any:
        """Return what `work` makes of the ports of the process, which then notes its part in the day."""
        runtime = self.runtime(process)
        try:
            return await work(runtime)
        finally:
            if not process.dead:
                try:
                    await runtime.allowance.flush()
                except RetryableError:
                    self.world.counts["use not noted"] += 1

    async def run_function(self, name: str, payload: Mapping[str, Any], process: Process) -> Any:
        """Run one function of the state machine."""
        end = loop_time() + (self.world.features.turn_s if name == "turn" else 900)

        async def work(runtime: Runtime) -> Any:
            match name:
                case "turn":
                    given = TurnPayload.model_validate(payload)
                    return dict(await turn(runtime, given, LoopDeadline(end)))
                case "resume" if payload["op"] == "await":
                    try:
                        return await await_decision(runtime, AwaitPayload.model_validate(payload))
                    except RetryableError as error:
                        raise LayoverAwaitAgain(str(error)) from error
                case "resume":
                    branch = await resume(runtime, ResumePayload.model_validate(payload))
                    return branch.model_dump()
                case "settle":
                    return dict(await give_up(runtime, SettlePayload.model_validate(payload)))
                case "compact":
                    return await compact(runtime, CompactPayload.model_validate(payload))
                case "extract":
                    return await extract(runtime, RunPayload.model_validate(payload))
            raise AssertionError(f"the state machine has a function {name}")

        return await self.serve(process, work)

    async def sweep(self) -> None:
        """One run of the sweeper."""
        try:
            counts = await self.world.run("sweep", lambda p: self.serve(p, sweep), 60)
        except (StateFailed, RetryableError) as error:
            self.world.note("the sweep fails", type(error).__name__)
            return
        except Exception as error:
            self.world.complain("the sweeper raises nothing", repr(error)[:300])
            return
        self.world.swept.update(counts)
        if counts:
            self.world.note("swept", counts)

    def _deliver(self, event: Mapping[str, Any]) -> None:
        """Bring an event of the bus to `notify`, now and then twice."""
        dice = self.world.chance()
        copies = 2 if dice.random() < 0.1 and not self.world.is_quiet else 1
        self.on_their_way += copies
        for _ in range(copies):
            delay = dice.uniform(0.05, 0.5) if dice.random() < 0.9 else dice.uniform(0.5, 5)
            asyncio.get_running_loop().create_task(
                self._queue(event, delay), context=contextvars.Context()
            )

    async def _queue(self, event: Mapping[str, Any], delay: float) -> None:
        """Do what SQS does: the event comes again until `notify` has taken it."""
        world = self.world
        names = QUEUED_FOR_OPERATORS.get(event["detail-type"], QUEUED)
        ids = {name: event["detail"].get(name, "") for name in names}
        await asyncio.sleep(delay)

        async def work(runtime: Runtime) -> None:
            turns = Turns(world, LoopDeadline(loop_time() + 30))
            await notify(runtime, {**event, "detail": ids}, turns)

        try:
            for _ in range(30):
                try:
                    await world.run("notify", lambda p: self.serve(p, work), 30)
                    return
                except (StateFailed, RetryableError) as error:
                    world.note("notify fails", type(error).__name__, error)
                    await asyncio.sleep(20 if world.is_quiet else 120)
            world.complain("an event reaches the people it is for", str(event)[:200])
        except Exception as error:
            world.complain("notify raises nothing that no repetition mends", repr(error)[:300])
        finally:
            self.on_their_way -= 1
