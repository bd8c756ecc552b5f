"""Scenarios that make each function do everything that it does: the system behind `recorded`
(tests/infra)."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2

from layover.adapters.journal.items.schema import WATCH_INDEX
from layover.clock import rfc3339
from layover.keys import DUE
from support.agents.keeping import PLENTY, plenty
from support.kills.scenarios import DOOMED, HALF_DELETED, LOST, UNSENT
from support.kills.story import Scenario
from support.kills.torture import DEADLINE_S, Client, Torture
from support.providers.openai import Response, call, calls, fail, say
from support.system.follower import Follower, Returning
from support.system.system import Brain, Caller, Json, eventually

STORIES = (LOST, UNSENT, DOOMED, HALF_DELETED)
"""A run that goes on in another execution, one woken, one given up, one erased by the sweeper."""
_MUCH = calls(
    *(("charge", {"order": plenty("w1")}, "w1"), ("refund", {"order": plenty("w2")}, "w2"))
)
PAGES = 14
LIMIT_S = 120.0
MAX_CANCELS = 20
CHANNELS = {
    "owner": [{"mail": "all@example.com"}],
    "finance": [{"mail": "bea@example.com"}],
    "people": {"bea@example.com": {"id": "bea", "groups": ["finance"]}},
    "mail_from": "approvals@example.com",
}
"""Everybody is told of every call that waits."""
AT_ONCE = 6
"""Scenarios: a system that has only just started is slow to answer all of them."""


class Recorded(Torture):
    """The whole system, written down; processes die where a scenario says so."""

    def __init__(self, folder: Path, brain: Brain, notes: Path) -> None:
        super().__init__(
            folder,
            brain,
            LAYOVER_LOCAL_PRELOAD="support.aws.call_recorder",
            LAYOVER_RECORDED=str(notes),
            # So that what users spend is counted.
            LAYOVER_DAILY_COST_USD="1000000",
            LAYOVER_EMBEDDER_MODEL="openai/fake-embedder",
            LAYOVER_CONTEXT_WINDOWS='{"fake-1": 128000}',
            # So that everything that may outlive its use does.
            LAYOVER_NODE_MEMORY_DAYS="1",
            LAYOVER_THREAD_RETENTION_DAYS="1",
            LAYOVER_ENTRY_RETENTION_DAYS="1",
            LAYOVER_CHANNELS=json.dumps(CHANNELS),
        )
        self._notes = notes

    def has_posted(self, function: str) -> bool:
        """Return whether this function has posted to a socket."""
        notes = self._notes / function
        return notes.exists() and "PostToConnection" in notes.read_text()


def everything(system: Recorded) -> None:
    """All scenarios, several at once: most of their time they wait."""
    brain = system.brain
    brain.provider.respond_with(_observed, task="observer")
    brain.provider.respond_with(lambda body: say('{"learnings": []}'), task="extractor")
    plain = (
        approved,
        streamed,
        interrupted,
        cancelled,
        queued,
        kept,
        hoarded,
        observed,
        learned,
        filed,
        let_go,
        told,
        forgotten,
    )
    stories = [_told(system, story) for story in STORIES]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # The longest ones first.
        done = [pool.submit(story) for story in stories]
        done += [pool.submit(each, system, brain) for each in plain]
        for each in done:
            each.result()
    outlived(system)


def _told(system: Recorded, scenario: Scenario) -> Callable[[], None]:
    """Return a scenario of the torture tests, with long texts in its calls, and a follower of its run."""

    def tell() -> None:
        with system.client() as client, ExitStack() as sockets:

            def act(client: Client, thread: str, run_id: str) -> str | None:
                sockets.enter_context(_accompanied(client.caller, run_id))
                return scenario.act(client, thread, run_id) if scenario.act else None

            client.story(replace(scenario, act=act, steps=(_MUCH, *scenario.steps[1:])))

    return tell


@contextmanager
def _accompanied(user: Caller, run_id: str) -> Iterator[None]:
    """Follow the run all the time. A late post ends the connection, as it should, and functions post only to
    connections that exist."""
    over = threading.Event()
    with _following(user, run_id) as socket, ThreadPoolExecutor(1) as pool:
        # A subscription that is only sent may come after the end. Once a frame has come, all that was said
        # before a process dies is through, so that the next writer finds no other one sending.
        socket.wait(asked, LIMIT_S)
        there = pool.submit(socket.wait, lambda f: over.is_set() or ended(f), DEADLINE_S)
        try:
            yield
        finally:
            over.set()
        there.result()


def _following(user: Caller, run_id: str) -> Returning:
    socket = Returning(user)
    socket.subscribe(run_id)
    return socket


def approved(system: Recorded, brain: Brain) -> None:
    """Two calls that wait at once, one of them large, followed; then read again, and the thread deleted."""
    ann = system.caller()
    assert ann.call("GET", "/docs").status == 200
    assert ann.call("GET", "/").status == 200
    thread = ann.thread("wide")
    large, small = ({"order_id": id, "amount": 1} for id in (plenty("o1"), "o2"))
    text = brain.plan(calls(("refund", large, "a1"), ("refund", small, "a2")), say("done"))
    run = ann.ask(thread, text)
    with _following(ann, run["id"]) as socket:
        socket.wait(bool, LIMIT_S)
        decide(ann, run, 2)
        socket.wait(ended, LIMIT_S)
    # The model's window has no room for so much.
    assert ann.over(run["id"], LIMIT_S)["error"]["type"] == "ContextLengthExceeded"
    assert ann.ask(thread, brain.plan(fail(400, "no")))["status"] == "failed"
    ann.want(204, "DELETE", f"/threads/{thread}")


def streamed(system: Recorded, brain: Brain) -> None:
    """A run and a chat that are streamed, a decision that goes on, and the same again."""
    ann = system.caller()
    with _streaming(system, ann) as browser:
        text = brain.plan(say("hello"))
        runs = f"/threads/{ann.thread()}/runs"
        said = browser.post(runs, json={"input": text})
        assert "event: finish" in said.text
        lines = [x.removeprefix("data: ") for x in said.text.splitlines() if '"message":' in x]
        # A backend of hers goes on behind the answer, with a long input.
        acting = {"authorization": "Bearer dev+act-as:desk", "x-layover-resource": ann.name}
        long = f"{brain.plan(say('yes'))} {plenty('l')}"
        body = {"input": long, "parent_id": json.loads(lines[-1])["message"]["id"]}
        assert browser.post(runs, json=body, headers=acting).status_code == 200
        words = brain.plan(call("refund", order_id="o9", amount=1), say("done"))
        message = {"id": "m", "role": "user", "parts": [{"type": "text", "text": words}]}
        chat = {"id": "c9", "messages": [message]}
        asked = browser.post("/chat/support", json=chat).text
        assert "tool-approval-request" in asked
        lines = [line.removeprefix("data: ") for line in asked.splitlines()]
        request = next(json.loads(x) for x in lines if "tool-approval-request" in x)
        (waiting,) = ann.get("/approvals")["items"]
        # The token has to exist first: without it, the decision would wake no branch.
        eventually(lambda: system.published(waiting["run_id"]), within=LIMIT_S)
        approval = {"id": request["approvalId"], "approved": True}
        part = {"type": "tool-refund", "state": "approval-responded", "approval": approval}
        decided = {"id": "", "role": "assistant", "parts": [part]}
        assert "done" in browser.post("/chat/support", json={**chat, "messages": [decided]}).text
        again = {**chat, "trigger": "regenerate-message"}
        assert "tool-approval-request" in browser.post("/chat/support", json=again).text


def interrupted(system: Recorded, brain: Brain) -> None:
    """Let a followed run that waits make way for a streamed one. Again, until `streams` posted the end of the
    first: a `sockets` that still sends the run's events sends it, too."""
    ann = system.caller()
    for _ in range(MAX_CANCELS):
        _interrupt(system, brain, ann)
        if system.has_posted("streams"):
            return


def _interrupt(system: Recorded, brain: Brain, ann: Caller) -> None:
    """A followed run that waits for a large call, and a streamed one in its place behind an older message."""
    thread = ann.thread()
    ann.ask(thread, brain.plan(say("hello")))
    older = ann.messages(thread)[0]["id"]
    run = ann.ask(thread, brain.plan(call("refund", order_id=plenty("o8"), amount=1)))
    with _following(ann, run["id"]) as socket, _streaming(system, ann) as browser:
        socket.wait(asked, LIMIT_S)
        body = {"input": brain.plan(say("now")), "on_busy": "interrupt", "parent_id": older}
        assert "event: finish" in browser.post(f"/threads/{thread}/runs", json=body).text
        socket.wait(ended, LIMIT_S)
        assert "event: finish" in browser.get(f"/runs/{run['id']}/events").text


def _streaming(system: Recorded, user: Caller) -> httpx2.Client:
    """A client of this user that asks for streams."""
    headers = {"authorization": f"Bearer dev:{user.name}", "accept": "text/event-stream"}
    return httpx2.Client(
        base_url=system.url, headers=headers, timeout=LIMIT_S, trust_env=False, verify=False
    )


def cancelled(system: Recorded, brain: Brain) -> None:
    """Cancel a followed run that waits. Again, until `api` posted the cancel: a `sockets` that still sends
    the run's events sends it, too."""
    ann = system.caller()
    for _ in range(MAX_CANCELS):
        run = ann.ask(ann.thread(), brain.plan(call("refund", order_id="o2", amount=1)))
        with _following(ann, run["id"]) as socket:
            socket.wait(asked, LIMIT_S)
            ann.want(202, "POST", f"/runs/{run['id']}/cancel", {})
            socket.wait(ended, LIMIT_S)
        if system.has_posted("api"):
            return


def queued(system: Recorded, brain: Brain) -> None:
    """Two runs wait for one thread: the end of the first starts the second; the third is dropped."""
    ann, answered = system.caller(), threading.Event()
    thread = ann.thread()
    # At work: a run that only waits for a person does not hold its thread.
    ann.start(thread, brain.plan(say("first", hold=answered)))
    second = ann.start(thread, brain.plan(say("second")), on_busy="enqueue")
    third = ann.start(thread, brain.plan(say("third")), on_busy="enqueue")
    ann.want(202, "POST", f"/runs/{third['id']}/cancel", {})
    answered.set()
    assert ann.over(second["id"], LIMIT_S)["status"] == "success"


def kept(system: Recorded, brain: Brain) -> None:
    """Tools with their own memory, before and after an approval, and much to answer."""
    ann = system.caller()
    thread = ann.thread("archivist")
    steps = (call("keep", key="k1"), call("keep_more", key="k2"))
    run = ann.ask(thread, brain.plan(*steps, say("kept")))
    decide(ann, run)
    assert ann.over(run["id"], LIMIT_S)["status"] == "success"
    both = calls(("keep_more", {"key": "k2"}, "m1"), ("keep_more", {"key": "k3"}, "m2"))
    piled = (call("keep", key="k1"), call("pile", key="d"), both)
    run = ann.ask(thread, brain.plan(*piled, say("all kept")))
    decide(ann, run, 2)
    assert ann.over(run["id"], LIMIT_S)["status"] == "success"
    assert any(len(json.dumps(e)) > PLENTY for e in ann.events(run["id"]))
    with _following(ann, run["id"]) as socket:
        socket.wait(ended, LIMIT_S)
    ann.want(204, "DELETE", f"/threads/{thread}")


def hoarded(system: Recorded, brain: Brain) -> None:
    """A run with a large result, of an agent whose memory observes."""
    ann = system.caller()
    assert (
        ann.ask(ann.thread("hoarder"), brain.plan(call("pile", key="h"), say("dumped")))["status"]
        == "success"
    )


def observed(system: Recorded, brain: Brain) -> None:
    """A run so long that it is observed ahead."""
    ann = system.caller()

    def next_page(body: Any) -> Response:
        newest = body["messages"][-1]
        told = str(newest["content"]) if newest["role"] == "tool" else ""
        page = max(map(int, re.findall(r"page (\d+):", told)), default=0) + 1
        return call("read_note", page=page) if page <= PAGES else say("done")

    text = brain.mind(next_page, "read the pages")
    run = ann.start(ann.thread("note-observer"), text)
    assert ann.over(run["id"], LIMIT_S)["status"] == "success"


def learned(system: Recorded, brain: Brain) -> None:
    """Let a turn teach something, and search for it."""
    ann = system.caller()
    thread = ann.thread("learner")
    assert ann.ask(thread, brain.plan(say("your code is K-1")))["status"] == "success"
    ann.get("/agents")
    ann.get("/.well-known/layover")
    ann.get("/memory/entries?agent=learner&query=code")
    ann.get(f"/threads/{thread}/memory")


def filed(system: Recorded, brain: Brain) -> None:
    """A file, from a browser to a prompt and back."""
    ann = system.caller()
    facts = {"name": "a.png", "mime_type": "image/png", "size": 2}
    file = ann.want(201, "POST", "/files", facts)
    with httpx2.Client(trust_env=False, verify=False) as browser:
        headers = {"content-type": "image/png"}
        assert browser.put(file["upload_url"], content=b"12", headers=headers).status_code == 200
    text = {"type": "text", "text": brain.plan(say("seen"))}
    thread = ann.thread()
    run = ann.ask(thread, [text, {"type": "file", "file_id": file["id"]}])
    assert run["status"] == "success"
    ann.call("GET", f"/files/{file['id']}")
    ann.want(204, "DELETE", f"/threads/{thread}")


def forgotten(system: Recorded, brain: Brain) -> None:
    """A user takes all that there is, and is forgotten; a file was never used."""
    ann = system.caller()
    ann.want(201, "POST", "/files", {"name": "a.png", "mime_type": "image/png", "size": 2})
    assert ann.ask(ann.thread(), brain.plan(say("hello")))["status"] == "success"
    ann.want(200, "GET", "/me/export")
    ann.want(202, "DELETE", "/me")


def told(system: Recorded, brain: Brain) -> None:
    """A large call of which people are told, and one that a person decides by the link in the mail."""
    ann = system.caller()

    def mails(run: Json, count: int) -> list[Json]:
        """The first mails about a run, once there are so many."""
        return eventually(
            lambda: [mail for mail in system.outbox() if run["id"] in (mail["link"] or "")],
            lambda found: len(found) >= count,
            LIMIT_S,
        )

    large = ann.ask(ann.thread(), brain.plan(call("refund", order_id=plenty("o7"), amount=1)))
    mails(large, 1)
    decide(ann, large)
    mails(large, 2)
    asking = brain.plan(call("pay_by_others", amount=1), say("paid"))
    run = ann.ask(ann.thread("treasurer"), asking)
    link = mails(run, 1)[0]["link"].removeprefix(system.url)
    reader = system.caller("-")
    assert reader.call("GET", link).status == 200
    answer = reader.call("POST", link, {"decision": "approve"}, content_type="application/json")
    assert answer.status in (200, 202), answer
    assert ann.over(run["id"], LIMIT_S)["status"] == "success"
    mails(run, 2)


def outlived(system: Recorded) -> None:
    """Months pass, and the sweeper looks at what was left."""
    months = timedelta(days=100)
    system.advance_clock(months.total_seconds())
    now = rfc3339(datetime.now(UTC) + months)
    dynamodb, table = system.aws("dynamodb"), system.services["table"]

    def due() -> int:
        answer = dynamodb.query(
            TableName=table,
            IndexName=WATCH_INDEX,
            KeyConditionExpression="gsi2pk = :p AND gsi2sk <= :t",
            ExpressionAttributeValues={":p": {"S": DUE}, ":t": {"S": now}},
        )
        return len(answer["Items"])

    eventually(lambda: not due(), within=LIMIT_S)


def let_go(system: Recorded, brain: Brain) -> None:
    """Let a follower vanish without a word while a tool works; the run goes on."""
    ann = system.caller()
    run = ann.ask(ann.thread("archivist"), brain.plan(call("ponder"), say("done")))
    with ExitStack() as sockets:
        socket = sockets.enter_context(Follower.of(ann))
        socket.subscribe(run["id"])
        decide(ann, run)
        eventually(lambda: decided(socket.frames) or socket.dropped, within=LIMIT_S)
        if socket.dropped:
            # A late post, or a request that failed: there would be no follower to lose.
            socket = sockets.enter_context(Follower.of(ann))
            socket.subscribe(run["id"])
            socket.wait(decided, LIMIT_S)
        socket.vanish()
    assert ann.over(run["id"], LIMIT_S)["status"] == "success"


def ended(frames: list[Json]) -> bool:
    """Return whether a run's last event has come."""
    return "finish" in [f.get("type") for f in frames]


def asked(frames: list[Json]) -> bool:
    """Return whether a call that waits for a decision has come."""
    return "tool-call-suspended" in [f.get("type") for f in frames]


def decided(frames: list[Json]) -> bool:
    """Return whether the event of a decision has come: its tool is about to run."""
    return "tool-call-decided" in [f.get("type") for f in frames]


def decide(user: Caller, run: Json, calls: int = 1) -> None:
    """Approve what the run waits for: so many calls at once."""
    waiting = eventually(lambda: user.suspended(run["id"])["pending"], lambda p: len(p) == calls)
    for each in waiting:
        assert (
            user.decide(run["id"], each["tool_call_id"], "approve", attempt=each["attempt"]).status
            == 202
        )


def _observed(body: Any) -> Response:
    found = re.findall(r"page (\d+): the code is (K-\d+)", json.dumps(body["messages"]))
    return say("\n".join(f"* IMPORTANT (00:00) page {p} has the code {c}" for p, c in found))
