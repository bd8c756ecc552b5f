"""The HTTP API on in-memory ports, as its clients see it: the local front, the real handler, runs that are
driven on after each request, and a witness of what each user is shown."""

import asyncio
import json
import re
from collections.abc import Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

from functions.api.app import answer
from layover import Agent, ToolContext, tool
from layover.adapters.journal.leases import TableLeases
from layover.approvals.token_answer import DECIDED
from layover.clock import ManualClock
from layover.desk.local.functions.invocation import InvokeResult
from layover.desk.local.http.gateway import Front
from layover.engine.time_left import NoDeadline
from layover.ids import SequentialIds
from layover.inmemory.callbacks import InMemoryCallbacks
from layover.inmemory.table import InMemoryTable
from layover.plugins.memory.learns.rules import hash_of
from layover.runs.resume import await_decision, resume
from layover.runs.turn import turn
from layover.runtime import Runtime
from layover.testing import call, calls, say
from layover.values.deployment.settings import Settings
from layover.values.memory.context import Extraction
from layover.values.memory.entry import NewEntry
from layover.values.runs.payload import (
    AwaitPayload,
    ResumePayload,
    RunPayload,
    TurnPayload,
    WaitingCall,
)
from support.worlds.builder import build_runtime
from support.worlds.runs import Choice, Offer, answers

T = TypeVar("T")
Json = dict[str, Any]
_ID = re.compile(r"\b(?:thread|run|msg|file|ent)_\d+")
_WAIT = re.compile(r"(?<![\w.])wait=[^&;,]*")


@tool(needs_approval=True)
def refund(order_id: str, amount: float) -> str:
    """Pay back."""
    return f"{order_id}: {amount}"


@tool(suspend=Offer, resume=Choice)
async def book(ctx: ToolContext, day: str) -> str:
    """Book a slot."""
    if ctx.resume is None:
        return ctx.suspend(Offer(slots=["9:00", "10:00"]))
    return f"{day} {ctx.resume.slot}"


@tool
def export(order_id: str) -> str:
    """More of an order than a model is shown."""
    return order_id + "x" * 300_000


SUPPORT = Agent(name="support", instructions="Help.", tools=[refund, book, export])
PLAIN = Agent(name="plain", instructions="Chat.")


class Served:
    """`front` is the ASGI application. `leaks`: what a user saw or reached of another one's."""

    def __init__(self) -> None:
        self.front = Front(self)
        self.leaks: list[str] = []
        self._runner = asyncio.Runner()
        self.restart()

    def restart(self) -> None:
        """Begin anew, with nothing in it."""
        self.clock = ManualClock()
        self.callbacks = InMemoryCallbacks()
        self._owners: dict[str, str] = {}
        self._driven = 0
        self._branches: dict[str, tuple[RunPayload, WaitingCall]] = {}
        """The calls that wait on a token."""
        self._open: dict[str, set[str]] = {}
        """The tokens that an execution waits for."""
        self._alone: set[str] = set()
        """Executions that wait for one call, without a branch."""
        script = (
            calls(
                call("export", tool_call_id="export", order_id="o1"),
                call("refund", tool_call_id="refund/1", order_id="o1", amount=5),
                call("book", tool_call_id="book", day="monday"),
            ),
            say("done"),
        )
        self._runtime = build_runtime(
            SUPPORT,
            PLAIN,
            clock=self.clock,
            callbacks=self.callbacks,
            ids=SequentialIds(),
            model=answers(*script),
            # The handler waits in real time, for what happens between requests only.
            leases=TableLeases(InMemoryTable()),
            settings=Settings(max_user_waits=0),
        )

    def close(self) -> None:
        """End its loop."""
        self._runner.close()

    def runtime(self) -> Runtime:
        """`functions.api.call.Host`."""
        return self._runtime

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """`functions.api.call.Host`: on the one loop, from whichever thread answers."""
        return self._runner.run(work)

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        """`layover.desk.local.http.gateway.Functions`: the handler of `api`, then what the state machine
        does."""
        assert name == "api"
        event = json.loads(payload)
        result = await asyncio.to_thread(self._answer, event)
        return InvokeResult(json.dumps(result).encode())

    def learn(self, owner: str, thread_id: str, run_id: str) -> str:
        """The id of an entry that the run taught the agent `support`."""
        text = f"{owner} likes lamps"
        entry = NewEntry(
            id=self._runtime.ids.new("ent"),
            agent="support",
            content=text,
            source="user_assertion",
            evidence=text,
            created_at=self.clock.now(),
            thread_id=thread_id,
            message_id=run_id,
            hash=hash_of(text),
        )
        extraction = Extraction(
            run_id=run_id, thread_id=thread_id, agent="support", entries=(entry,)
        )
        assert self.run(self._runtime.memory.record_extraction(owner, extraction))
        self._owners[entry.id] = owner
        return entry.id

    def _answer(self, event: Json) -> Json:
        self.clock.advance(timedelta(seconds=1))
        _wait_no_time(event)
        result = answer(event, None, self)
        self._witness(event, result)
        self.run(self._drive())
        return result

    def _witness(self, event: Json, result: Json) -> None:
        """Check that ids are shown to, and used by, only the user who first saw them; auditors and operators
        excepted."""
        http = event["requestContext"]["http"]
        if http["path"].startswith(("/audit/", "/operate/")):
            return
        status = result["statusCode"]
        claims = event["requestContext"].get("authorizer", {}).get("jwt", {}).get("claims", {})
        owner = claims.get("sub", "")
        place = set(_ID.findall(event["rawPath"]))
        named = place | set(_ID.findall(f"{event['rawQueryString']} {event.get('body')}"))
        shown = set(_ID.findall(f"{result['body']} {result['headers'].get('Location', '')}"))
        theirs = {id for id in shown - named if self._owners.setdefault(id, owner) != owner}
        if status < 400:
            theirs |= {id for id in place if self._owners.get(id, owner) != owner}
        if theirs:
            self.leaks.append(f"{owner}: {http['method']} {http['path']} {status} {theirs}")

    async def _drive(self) -> None:
        """Executions that were started and branches that were woken, until everything waits or is over."""
        while self._driven < len(self.callbacks.started) or self.callbacks.woken:
            for owner, run_id, n in self.callbacks.started[self._driven :]:
                self._driven += 1
                await self._turn(
                    RunPayload(owner=owner, run_id=run_id, n=n, execution=f"{run_id}-{n}")
                )
            woken, self.callbacks.woken = self.callbacks.woken, []
            for token in woken:
                await self._resume(token)

    async def _turn(self, payload: RunPayload, **answer: Any) -> None:
        heard = TurnPayload(**payload.model_dump(), **answer)
        done = await turn(self._runtime, heard, NoDeadline())
        while done["status"] == "yielded":
            done = await turn(self._runtime, payload, NoDeadline())
        if done["next"] == "await":
            self._alone.add(payload.execution)
        for each in done["waiting"]:
            item = WaitingCall.model_validate(each)
            await self._await(payload, item)

    async def _await(self, payload: RunPayload, item: WaitingCall) -> None:
        token = f"{payload.execution} {item.key} {item.attempt}"
        self._branches[token] = (payload, item)
        self._open.setdefault(payload.execution, set()).add(token)
        about = payload.model_dump()
        await await_decision(self._runtime, AwaitPayload(**about, call=item, token=token))

    async def _resume(self, token: str) -> None:
        payload, item = self._branches.pop(token, (None, None))
        if payload is None or item is None:
            return None
        tokens = self._open[payload.execution]
        tokens.discard(token)
        if payload.execution in self._alone:
            self._alone.discard(payload.execution)
            return await self._turn(payload, call=item, output=DECIDED)
        about = ResumePayload(**payload.model_dump(), call=item, output=DECIDED)
        next_item = await resume(self._runtime, about)
        if next_item.status == "waiting":
            await self._await(payload, next_item)
        elif not tokens:
            await self._turn(payload)
        return None


def _wait_no_time(event: Json) -> None:
    """The handler waits in real time, for what happens between requests only."""
    parameters = event.get("queryStringParameters", {})
    with suppress(ValueError, KeyError):
        parameters["wait"] = str(min(float(parameters["wait"]), 0))
    if "prefer" in event["headers"]:
        event["headers"]["prefer"] = _WAIT.sub("wait=0", event["headers"]["prefer"])
