"""Clients of a story: they start runs, decide, cancel and delete, side by side, and know what they were
told."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from layover.approvals.decide import DecisionRequest, Verdict
from layover.desk.local.aws.states.errors import StateFailed, StatesError
from layover.errors import LayoverError, NotFound, RetryableError
from layover.keys import SWITCH
from layover.plugins.fronts.chat.parts import ClientMessage
from layover.plugins.fronts.chat.start import ChatTurn
from layover.plugins.fronts.chat.start import say as say_in_chat
from layover.ports.table import Delete, Put
from layover.records.threads import head_of
from layover.runs.follow import follow
from layover.runtime import Runtime
from layover.threads.messages import list_messages
from layover.values.deployment.access import Access, Actor
from layover.values.message import TextPart
from layover.values.runs.run import CallRecord, OnBusy, OnWaiting, RunMeta, RunSnapshot, Status
from layover.values.thread import ThreadHead
from simulation.agents import make_agents
from simulation.faults import WORDS, Act
from simulation.services import Services
from simulation.world import loop_time
from support.worlds.arrivals import answered

ANN = "ann"
OWNER = Actor(sub=ANN)
OPERATOR = Actor(sub="operator", scopes=frozenset({"layover/operate"}))
BOSSES = tuple(Actor(sub=f"boss-{n}", groups=frozenset({"boss"})) for n in range(3))
CHIEF = Actor(sub="chief", groups=frozenset({"chief"}))
_TRIES = 8
"""How often a client repeats a request that is not answered."""

Request = Callable[[Runtime], Awaitable[Any]]
_ACCESS = Access()


class Refused(Exception):
    """The API has refused a request: the caller is to blame."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text[:160]}")
        self.status = status


def http_event(
    method: str, path: str, body: Any, by: Actor, key: str | None = None
) -> dict[str, Any]:
    """Return a request as API Gateway gives it to the function `api`."""
    claims = {
        "sub": by.sub,
        "scope": " ".join(sorted({_ACCESS.scope, *by.scopes})),
        _ACCESS.groups_claim: f"[{' '.join(sorted(by.groups))}]",
    }
    headers = {"content-type": "application/json", **({"idempotency-key": key} if key else {})}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": headers,
        "queryStringParameters": {},
        "requestContext": {
            "requestId": "request",
            "stage": "$default",
            "http": {"method": method, "path": path},
            "authorizer": {"jwt": {"claims": claims, "scopes": None}},
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }


def path_of(call: CallRecord) -> str:
    """Return the path of a call in the API."""
    return f"/runs/{call.run_id}/tool-calls/{call.tool_call_id}"


def body_of(request: DecisionRequest) -> dict[str, Any]:
    """Return the body of a decision."""
    body: dict[str, Any] = {"attempt": request.attempt}
    if request.verdict is Verdict.RESUME:
        body["data"] = request.data
    if request.args is not None:
        body["args"] = request.args
    return body


CUES: Mapping[str, Callable[[RunSnapshot], bool]] = {
    "begun": lambda run: not run.meta.status.over,
    "queued": lambda run: run.meta.status is Status.QUEUED,
    "works": lambda run: bool(run.steps) and not run.meta.status.over and not run.meta.at_rest,
    "waits": lambda run: any(call.undecided for call in run.calls),
}
"""Moments of a run, by what it is at them."""


@dataclass(frozen=True)
class Acknowledged:
    """A decision that its client was told was made."""

    call: CallRecord
    request: DecisionRequest
    by: str


@dataclass
class Known:
    """What the clients know by the answers that they got."""

    said: dict[str, str] = field(default_factory=dict)
    """The run of each text that was accepted."""
    decisions: list[Acknowledged] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    """Runs that somebody asked to cancel."""
    redriven: set[str] = field(default_factory=set)
    """Runs that had failed, and that somebody redrove once nothing failed any more."""
    deleted: set[str] = field(default_factory=set)
    """Threads that somebody asked to delete."""
    has_branches: bool = False
    """True if a message named its parent: the thread may have several leaves."""
    streams: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """The last number of each stream, and whether it has come to its end."""
    imported: dict[str, list[str]] = field(default_factory=dict)
    """Texts of imported threads."""


class Clients:
    """All clients of a story."""

    def __init__(self, services: Services) -> None:
        self.services, self.world = services, services.world
        self.features = self.world.features
        self.plain = services.plain()
        self.known = Known()
        self.threads = [f"t{n + 1}" for n in range(self.features.threads)]
        self.is_over = False
        """True once nobody follows any more."""
        self.followers: list[asyncio.Task[None]] = []
        self._runs: list[RunSnapshot] = []
        self._runs_at = -1
        self._account = "x"
        self._asked: Counter[str] = Counter()
        self.world.deploy(make_agents(self.world, self._account))

    # What there is, seen without time and faults.

    async def runs(self) -> list[RunSnapshot]:
        """Return the runs of all threads, oldest first in each."""
        if self._runs_at != self.world.table.changes:
            self._runs_at = self.world.table.changes
            self._runs = await self._read_runs()
        return self._runs

    async def _read_runs(self) -> list[RunSnapshot]:
        found = []
        for thread in self.threads:
            page = await self.plain.journal.runs.page_ids(ANN, thread, 100, None)
            for run_id in reversed(page.items):
                snapshot = await self.plain.journal.runs.snapshot(ANN, run_id)
                if snapshot is not None:
                    found.append(snapshot)
        return found

    async def open_runs(self) -> list[RunSnapshot]:
        return [run for run in await self.runs() if not run.meta.status.over]

    async def failed_runs(self) -> list[RunSnapshot]:
        return [run for run in await self.runs() if run.meta.status is Status.FAILED]

    async def waiting(self) -> list[CallRecord]:
        return [call for run in await self.runs() for call in run.calls if call.undecided]

    async def begin(self) -> None:
        """Make the threads."""
        for thread in self.threads:
            now = self.world.now()
            head = ThreadHead(id=thread, owner=ANN, agent="shop", created_at=now, updated_at=now)
            await self.plain.journal.heads.put(head)

    # Requests.

    async def ask(self, work: Request, dice: random.Random, name: str) -> Any:
        """Return what a service answers, asked again until it does; None: it never did."""
        for _ in range(_TRIES):
            try:
                return await self.world.run(
                    f"api {name}", lambda p: self.services.serve(p, work), 29
                )
            except (StateFailed, RetryableError):
                await asyncio.sleep(dice.uniform(0.1, 2))
        self.world.counts["unanswered"] += 1
        return None

    async def send(
        self,
        dice: random.Random,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        by: Actor = OWNER,
        key: str | None = None,
    ) -> Any:
        """Return the body of the API's answer to a request, which its client repeats until it has one; None:
        it got none. Raises Refused."""
        event = http_event(method, path, body, by, key)
        process = f"api {name}"

        async def work(runtime: Runtime) -> Any:
            return await answered(event, runtime)

        for _ in range(_TRIES):
            try:
                answer = await self.world.run(process, lambda p: self.services.serve(p, work), 29)
            except StateFailed:
                answer = {"statusCode": 503}
            status = answer["statusCode"]
            if status == 503:
                await asyncio.sleep(dice.uniform(0.1, 2))
                continue
            text = answer["body"]
            if status >= 500:
                self.world.complain("no request is answered with 500", f"{method} {path}: {text}")
            if status >= 400:
                raise Refused(status, str(text))
            return json.loads(text) if text else {}
        self.world.counts["unanswered"] += 1
        return None

    async def act(self, act: Act) -> None:
        """Do one act of the story at its time."""
        await asyncio.sleep(act.at)
        if act.cue:
            await self._wait_for(CUES[act.cue], random.Random(act.dice))
        doing = _Act(self, act)
        try:
            await getattr(doing, act.kind)()
        except (Refused, LayoverError) as error:
            self.world.counts["refused acts"] += 1
            self.world.note(f"act {act.number} is refused:", type(error).__name__, error)

    async def _wait_for(self, cue: Callable[[RunSnapshot], bool], dice: random.Random) -> None:
        """Return at the moment of a run, or soon after it; after some time without it as well."""
        until, seen = loop_time() + 15, -1
        while loop_time() < until and not self.world.is_quiet:
            if seen != (seen := self.world.table.changes) and any(map(cue, await self.runs())):
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(dice.choice([0, 0, 0.02, 0.1, 0.3, dice.uniform(0, 2)]))

    def acknowledge(self, call: CallRecord, request: DecisionRequest, by: str) -> None:
        self.world.note("acknowledged", request.verdict.value, call.tool_call_id, call.attempt)
        self.known.decisions.append(Acknowledged(call, request, by))

    async def redrive_what_failed(self, dice: random.Random) -> None:
        """Let each run that failed go on, once: its thread may have gone on."""
        for run in await self.failed_runs():
            if run.meta.id not in self.known.redriven:
                self.known.redriven.add(run.meta.id)
                body = {"ids": [run.meta.id]}
                await self.send(dice, "redrive", "POST", "/operate/runs/redrive", body, by=OPERATOR)

    async def decide_all_that_waits(self, dice: random.Random) -> None:
        """Approve, answer or connect whatever waits now."""
        await self.approve(await self.waiting(), dice)

    async def approve(self, calls: Sequence[CallRecord], dice: random.Random) -> None:
        """Approve these calls, answer them, or connect the account for which they wait."""
        for call in calls:
            kind = call.suspension.kind.value if call.suspension else ""
            request = DecisionRequest(Verdict.APPROVE, attempt=call.attempt)
            if kind == "connect":
                # One that is connected is enough: the product finds the calls that wait for it.
                if not await self.is_connected():
                    await self.connect(call, dice)
                continue
            if kind == "input":
                request = DecisionRequest(Verdict.RESUME, data={"slot": "a"}, attempt=call.attempt)
            for actor in BOSSES[:2] if call.rule else [OWNER]:
                await self.decide(call, request, actor, dice)

    async def decide(
        self, call: CallRecord, request: DecisionRequest, actor: Actor, dice: random.Random
    ) -> None:
        """Make one decision, and keep that it was acknowledged."""
        said = [request.verdict.value, call.tool_call_id, call.attempt, "by", actor.sub]
        self.world.note("decide", *said, request.args or "")
        path = f"{path_of(call)}/{request.verdict.value}"
        name = f"decide {call.run_id} {call.tool_call_id} {actor.sub}"
        try:
            outcome = await self.send(dice, name, "POST", path, body_of(request), by=actor)
        except Refused as error:
            self.world.note("refused", *said, error)
            return
        if outcome is not None:
            self.acknowledge(call, request, actor.sub)

    async def is_connected(self) -> bool:
        """Return whether the user has an account that every call may use."""
        grant = await self.plain.connections.grants.get(ANN, "box")
        return grant is not None and not grant.needs_consent(grant.service, ("mail",))

    async def connect(self, call: CallRecord, dice: random.Random) -> None:
        """Connect the account that a call waits for, by a new consent if the first is of no use any more."""
        for _ in range(2):
            page = await self.send(dice, "ask for consent", "POST", "/me/connections/box")
            if page is None:
                return
            try:
                await self.consent(page["authorize_url"], dice)
            except Refused as error:
                self.world.note("refused: consent", error)
            else:
                return

    async def consent(self, url: str, dice: random.Random) -> None:
        """Come back from the page of a service with a code."""
        state = parse_qs(urlsplit(url).query)["state"][0]
        self.world.note("consent", state[:6])
        body = {"code": "code", "state": state}
        await self.send(dice, "consent", "POST", "/me/consents", body)

    async def read_stream(self, run_id: str, dice: random.Random) -> None:
        """Follow a run by streams, and come back after each, as a browser does."""
        last, connections = 0, 0

        async def read(runtime: Runtime) -> None:
            nonlocal last, connections
            connections = mine = connections + 1
            async for page in follow(runtime, ANN, run_id, last, returns=True):
                if mine != connections:
                    # It thawed after its time limit: the browser has come back, and nobody reads this.
                    return
                for event in page:
                    if event.seq != last + 1:
                        seen = f"{run_id}: {event.seq} comes after {last}"
                        self.world.complain("a stream misses and repeats no event", seen)
                    last = event.seq

        is_done = False
        while not self.is_over and not is_done:
            try:
                await self.world.run("streams", lambda p: self.services.serve(p, read), 900)
            except (StateFailed, RetryableError):
                pass
            except NotFound:
                return
            page = await self.plain.journal.events.page(ANN, run_id, last, 5)
            is_done = page.done and not page.items
            if not is_done:
                await asyncio.sleep(dice.uniform(1, 5))
        self.known.streams[run_id] = (last, is_done)

    def redeploy(self, without: tuple[str, ...], window_s: float) -> None:
        """Deploy tools with another default, maybe without some of them."""
        self._account += "x"
        self.world.note("deploy", self._account, "without", without)
        self.world.deploy(make_agents(self.world, self._account, without), window_s)


class _Act:
    """One act of a client: a method for each kind of act."""

    def __init__(self, clients: Clients, act: Act) -> None:
        self._clients, self._act = clients, act
        self._world, self._known = clients.world, clients.known
        self._dice = random.Random(act.dice)
        self._words = 0

    @property
    def _name(self) -> str:
        return f"{self._act.kind} {self._act.number}"

    async def _ask(self, work: Request) -> Any:
        return await self._clients.ask(work, self._dice, self._name)

    async def _send(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        return await self._clients.send(self._dice, self._name, method, path, body, **more)

    def _number(self) -> int:
        """Return a number that nothing else in the story has."""
        self._words += 1
        return self._act.number * 10 + self._words

    def _text(self) -> str:
        """Return a message: one or two tools that its answer calls, or plain words."""
        kinds = self._dice.choices(
            self._clients.features.words or WORDS, k=self._dice.choice([0, 1, 1, 2, 2])
        )
        words = []
        for kind in kinds:
            name, _, both = kind.partition(" ")
            number = f"{self._number()}+{self._number()}" if both else str(self._number())
            words.append(f"{name} {number}")
        return " ".join(words) or f"hi {self._number()}"

    async def _pick_run(self) -> RunMeta | None:
        runs = await self._clients.open_runs()
        return self._dice.choice(runs).meta if runs else None

    async def _look(self, *kinds: str) -> list[CallRecord]:
        """Return the calls that wait, of these kinds or all. Some people look again for a while."""
        until = loop_time() + self._dice.choice([0, 0, 0, 2, 6])
        while True:
            waiting = [
                call
                for call in await self._clients.waiting()
                if not kinds or (call.suspension and call.suspension.kind.value in kinds)
            ]
            if waiting or loop_time() >= until or self._world.is_quiet:
                return waiting
            await asyncio.sleep(self._dice.uniform(0.1, 0.6))

    async def _pick_calls(self, most: int = 1) -> list[CallRecord]:
        """Return calls that wait, as they were a moment ago: decisions are about what was seen."""
        waiting = await self._look()
        chosen = self._dice.sample(waiting, min(len(waiting), most))
        await asyncio.sleep(self._dice.choice([0, 0, self._dice.uniform(0, 2)]))
        return chosen

    def _request(self, call: CallRecord, *, edits: bool = False) -> DecisionRequest:
        assert call.suspension is not None
        kind, attempt = call.suspension.kind.value, call.attempt
        verdict = (
            Verdict.APPROVE if edits else Verdict(self._dice.choice(["approve", "approve", "deny"]))
        )
        if kind == "connect":
            return DecisionRequest(Verdict.DENY, attempt=attempt)
        if kind == "input" and verdict is Verdict.APPROVE:
            slot = self._dice.choice(["a", "b", "full"])
            return DecisionRequest(Verdict.RESUME, data={"slot": slot}, attempt=attempt)
        args = None
        if edits and call.tool_name != "layover.budget" and kind == "approval":
            # Whoever edits leaves defaults out, or keeps those that were shown.
            shown: Any = call.exact_args if self._dice.random() < 0.5 else {}
            args = {**shown, self._edited(call): 1_000 + self._number()}
        return DecisionRequest(verdict, args=args, attempt=attempt)

    def _edited(self, call: CallRecord) -> str:
        return "n" if call.tool_name == "mail" else "amount"

    def _actor(self, call: CallRecord) -> Actor:
        return self._dice.choice(BOSSES) if call.rule else OWNER

    async def say(self) -> None:
        dice, clients = self._dice, self._clients
        thread = dice.choice(clients.threads)
        text, on_busy = self._text(), dice.choice(list(OnBusy))
        body: dict[str, Any] = {"input": text, "on_busy": on_busy.value}
        on_waiting = dice.choice([None, None, *OnWaiting])
        if on_waiting is not None:
            body["on_waiting"] = on_waiting.value
        if dice.random() < 0.3:
            body["stream"] = True
        if clients.features.branches and dice.random() < 0.3:
            page = await list_messages(clients.plain, ANN, thread, None, 200, None)
            newest = [message.id for message in page.items]
            newest = newest[-3:] if dice.random() < 0.7 else newest
            body["parent_id"] = dice.choice([None, *newest])
            self._known.has_branches = True
        self._world.note("say", body, thread)
        run = await self._send("POST", f"/threads/{thread}/runs", body, key=f"key {text}")
        if run is None:
            return
        self._said(text, run["id"])
        if run["status"] == "queued" and dice.random() < 0.3:
            # Somebody thinks better of it.
            await asyncio.sleep(dice.uniform(0, 0.5))
            await self._cancel(run["id"], as_operator=False)

    def _said(self, text: str, run_id: str) -> None:
        self._world.note("said", repr(text), run_id)
        self._known.said[text] = run_id
        if self._clients.features.followers and self._dice.random() < 0.5:
            reading = self._clients.read_stream(run_id, self._dice)
            self._clients.followers.append(asyncio.ensure_future(reading))

    async def chat(self) -> None:
        """A page sends its message with its own id, and again if it has no answer."""
        dice, clients = self._dice, self._clients
        thread, text = dice.choice(clients.threads), self._text()
        message = ClientMessage(f"message-{self._act.number}", (TextPart(text=text),))

        async def work(runtime: Runtime) -> str:
            chat = ChatTurn(runtime, OWNER, await head_of(runtime, ANN, thread))
            return await say_in_chat(chat, message)

        self._world.note("chat", repr(text), thread)
        # A page that is reloaded sends it again, next to the request that nobody reads any more.
        sent = [self._ask(work) for _ in range(dice.choice([1, 1, 2]))]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        known = {answer for answer in answers if isinstance(answer, str)}
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        if refused and not known:
            raise refused[0]
        if len(known) > 1:
            self._world.complain("a chat's message is answered by one run", f"{text!r}: {known}")
        for run_id in sorted(known):
            self._said(text, run_id)

    async def decide(self) -> None:
        for call in await self._pick_calls():
            await self._clients.decide(call, self._request(call), self._actor(call), self._dice)

    async def edit(self) -> None:
        for call in await self._pick_calls():
            request = self._request(call, edits=True)
            await self._clients.decide(call, request, self._actor(call), self._dice)

    async def vote(self) -> None:
        """Somebody decides, with the right to do so or without it."""
        for call in await self._pick_calls():
            if call.rule is None and self._dice.random() < 0.8:
                return
            actor = self._dice.choice([*BOSSES, CHIEF])
            await self._clients.decide(call, self._request(call), actor, self._dice)

    async def bulk(self) -> None:
        calls = await self._pick_calls(4)
        if not calls:
            return
        actor = self._actor(calls[0])
        requests = [(call, self._request(call)) for call in calls]
        shown = [(request.verdict.value, call.tool_call_id) for call, request in requests]
        self._world.note("bulk", shown, "by", actor.sub)
        items = [
            {
                "run_id": call.run_id,
                "tool_call_id": call.tool_call_id,
                "decision": request.verdict.value,
                **body_of(request),
            }
            for call, request in requests
        ]
        answer = await self._send("POST", "/approvals/decisions", {"items": items}, by=actor)
        outcomes = answer["items"] if answer else ()
        for (call, request), outcome in zip(requests, outcomes, strict=False):
            if outcome["status"] < 400:
                self._clients.acknowledge(call, request, actor.sub)

    async def send(self) -> None:
        run = await self._pick_run()
        if run is None:
            return
        text = f"psst {self._number()}"
        self._world.note("send", repr(text), run.id)
        path = f"/runs/{run.id}/messages"
        answer = await self._send("POST", path, {"input": text}, key=f"key {text}")
        if answer is not None:
            self._known.said[text] = run.id

    async def cancel(self) -> None:
        run = await self._pick_run()
        if run is None:
            return
        await self._cancel(run.id, as_operator=self._dice.random() < 0.3)

    async def _cancel(self, run_id: str, *, as_operator: bool) -> None:
        self._known.cancelled.add(run_id)
        self._world.note("cancel", run_id)
        if as_operator:
            await self._send(
                "POST", "/operate/runs/cancel", {"ids": [run_id], "reason": "no"}, by=OPERATOR
            )
        else:
            await self._send("POST", f"/runs/{run_id}/cancel")

    async def operate(self) -> None:
        run, kind = await self._pick_run(), self._dice.choice(["deny", "redrive"])
        failed = await self._clients.failed_runs()
        if failed and (run is None or self._dice.random() < 0.5):
            run, kind = self._dice.choice(failed).meta, "redrive"
        if run is None:
            return
        self._world.note("operate", kind, run.id)
        await self._send(
            "POST", f"/operate/runs/{kind}", {"ids": [run.id], "reason": "no"}, by=OPERATOR
        )

    async def extend(self) -> None:
        calls = [call for call in await self._clients.waiting() if call.expires_at]
        if not calls:
            return
        call = self._dice.choice(calls)
        assert call.expires_at is not None
        at = call.expires_at + timedelta(seconds=self._dice.choice([5, 60]))
        self._world.note("extend", call.tool_call_id)
        body = {"attempt": call.attempt, "expires_at": at.isoformat()}
        await self._send("POST", f"{path_of(call)}/extend", body, by=self._actor(call))

    async def answer(self) -> None:
        """A backend answers a token that the bus gave it, however old that is."""
        asked = [
            detail
            for kind, detail in self._world.events
            if kind == "ApprovalRequested" and detail.get("task_token")
        ]
        if not asked:
            return
        detail = self._dice.choice(asked[-4:])
        output: Any = self._dice.choice(
            [
                {"approved": True},
                {"approved": False, "reason": "no"},
                {"what": 1},
                {"approved": True, "args": {"amount": 1_000 + self._number()}},
            ]
        )
        self._world.note("answer the token of", detail["tool_call_id"], detail["attempt"], output)
        request = {"taskToken": detail["task_token"], "output": json.dumps(output)}
        try:
            self._world.machine.call("SendTaskSuccess", request)
        except StatesError as error:
            self._world.note("refused:", error)

    async def deploy(self) -> None:
        without: Sequence[tuple[str, ...]] = [()]
        if self._clients.features.removals:
            without = [(), (), ("pay",), ("soon",), ("desk",), ("aide",)]
        self._clients.redeploy(self._dice.choice(without), self._dice.choice([0, 0.3, 3, 20]))

    async def consent(self) -> None:
        page = await self._send("POST", "/me/connections/box")
        if page is None:
            return
        await asyncio.sleep(self._dice.uniform(0, 1))
        try:
            await self._clients.consent(page["authorize_url"], self._dice)
        except Refused as error:
            faults = self._world.story.faults
            if not (faults.deaths or faults.stalls or faults.fails or faults.lost):
                # Nobody has died in between, and no service was away.
                self._world.complain("a consent that is brought is taken", str(error))

    async def disconnect(self) -> None:
        self._world.note("disconnect")
        await self._send("DELETE", "/me/connections/box")

    async def stop(self) -> None:
        """The operator stops everything for some time."""
        self._world.note("stop everything")
        await self._world.table.write(Put(SWITCH, SWITCH, {"id": "x"}))
        await asyncio.sleep(self._dice.uniform(1, 100))
        self._world.note("go on")
        await self._world.table.write(Delete(SWITCH, SWITCH))

    async def delete(self) -> None:
        thread = self._dice.choice(self._clients.threads)
        self._world.note("delete", thread)
        self._known.deleted.add(thread)
        await self._send("DELETE", f"/threads/{thread}")

    async def import_(self) -> None:
        """A backend brings a conversation of another system, twice if it has no answer."""
        texts = [f"old {self._number()}" for _ in range(3)]
        messages = [
            {"role": "user" if n % 2 == 0 else "assistant", "content": text}
            for n, text in enumerate(texts)
        ]
        body = {
            "agent": "shop",
            "messages": messages,
            "external_id": f"conversation {self._act.number}",
        }
        self._world.note("import", texts)
        thread = await self._send("POST", "/threads", body)
        if thread is not None:
            self._known.imported[thread["id"]] = texts

    async def export(self) -> None:
        self._world.note("export")
        await self._send("GET", "/me/export")
