"""The ways through the engine that are walked again and again, with a death at every point of them."""

import re
from dataclasses import replace
from typing import Any

from layover.keys import Keys, due_key
from support.kills.accounts import consent_at, live_at
from support.kills.mending import away, judge_pauses, judge_redrives, keyless, pause, redrive
from support.kills.story import Death, Point, Scenario
from support.kills.telling import decide_when_told
from support.kills.torture import DEADLINE_S, NEXT, PAUSE_S, Client
from support.providers.openai import Reply, calls, delta, fail, say, stream
from support.system.follower import Returning, is_over
from support.system.system import Json, unique


def _ask(*wanted: tuple[str, str]) -> Reply:
    return calls(*((name, {"order": f"of {call_id}"}, call_id) for name, call_id in wanted))


_WINDING_STEPS = (
    _ask(("look_up", "c1"), ("charge", "c2")),
    _ask(("refund", "c3"), ("book", "c4"), ("charge", "c5")),
    say("all of it is done"),
)
_WINDING_TEXT = "please do all of that for my order"

WINDING = Scenario("winding", _WINDING_STEPS, _WINDING_TEXT)
"""Two tools at once; then two calls that wait at once, one of them twice, and one behind them."""


def _in_pieces(pause_s: float) -> tuple[Reply, ...]:
    words = (delta(word) for word in ("charged ", "and ", "told ", "in ", "pieces"))
    return _ask(("charge", "s1")), stream(*words, delta(finish="stop"), pause_s=pause_s)


STREAMED = Scenario("streamed", _in_pieces(0.06), "please charge it and tell me", stream=True)
"""Deltas on the way. The last answer comes in pieces, some of them flushed separately."""


NESTED = Scenario(
    "nested",
    (
        calls(
            ("deputy", {"input": "[[nested_one]] do your part"}, "d1"),
            ("deputy", {"input": "[[nested_two]] do yours"}, "d2"),
            ("charge", {"order": "of n1"}, "n1"),
        ),
        say("all of them are through"),
    ),
    "please let others do that for my order",
    briefs={
        "nested_one": (
            _ask(("charge", "n2"), ("refund", "n3")),
            _ask(("look_up", "n4")),
            say("the first is through"),
        ),
        "nested_two": (_ask(("book", "n5"), ("charge", "n6")), say("the second is through")),
    },
)
"""Two sub-agents at once, each of which waits for a person; one call behind them."""


def _wait_beside(client: Client, thread: str, run_id: str) -> None:
    """Let the run say all that it can say without a decision: its events then always come in the same
    order."""
    client.suspended(run_id, 1)


BESIDE = Scenario(
    "beside",
    (
        calls(
            ("aide", {"input": "[[beside_one]] do your part"}, "b1"),
            ("charge", {"order": "of b2"}, "b2"),
        ),
        _ask(("look_up", "b3")),
        say("so far so good"),
        say("all of it is through"),
    ),
    "please let another do that while you go on",
    act=_wait_beside,
    briefs={
        "beside_one": (
            _ask(("charge", "b4"), ("refund", "b5")),
            _ask(("charge", "b6")),
            say("the part is through"),
        ),
    },
)
"""A sub-agent in the background, which waits for somebody while its run goes on; then it is told."""


def _queue_before(client: Client, thread: str, run_id: str) -> str:
    """Queue a run behind one that goes on, before it hands the conversation over: the queued one is answered
    when the first waits again."""
    client.decide(run_id, client.suspended(run_id, 1)["pending"][0])
    next_id = client.start(thread, NEXT, on_busy="enqueue")
    client.over(next_id)
    return next_id


HANDED_OVER = Scenario(
    "handed over",
    (
        _ask(("charge", "h1"), ("refund", "h2")),
        calls(
            ("transfer_to_cashier", {}, "h3"),
            ("charge", {"order": "of h4"}, "h4"),
        ),
        _ask(("charge", "h5"), ("refund", "h6")),
        say("the cashier has done it"),
    ),
    "please have the cashier do that for my order",
    act=_queue_before,
    watched=("api POST /threads/runs", "resume ", "turn "),  # the rest is as in other scenarios
)
"""A conversation that changes hands next to another call, with an approval of either agent. The run that was
queued before is the other agent's."""


def _follow(client: Client, thread: str, run_id: str) -> None:
    """Follow by socket: whichever process dies, the follower misses nothing and gets nothing twice."""
    with Returning(client) as follower:
        follower.subscribe(run_id)
        frames = follower.wait(is_over, DEADLINE_S)
    assert frames == client.caller.events(run_id)


FOLLOWED = replace(
    STREAMED,
    name="followed",
    act=_follow,
    watched=("turn DynamoTable.transact", "turn DynamoTable.write", "turn ApiGatewaySockets"),
)
"""As STREAMED, while a client follows it by socket."""


def _stream(client: Client, thread: str, run_id: str) -> None:
    """Follow by server-sent events, and reconnect whenever the connection breaks."""
    assert client.follow(run_id) == client.caller.events(run_id)


STREAMED_OUT = replace(
    STREAMED,
    name="streamed out",
    steps=_in_pieces(0.6),
    act=_stream,
    watched=("streams ", "turn DynamoTable.transact", "turn DynamoTable.write"),
)
"""As STREAMED, and slow enough for a client that follows it by server-sent events to see it being made."""


def _approve_together(client: Client, thread: str, run_id: str) -> None:
    """Approve as two who do not own the run; each asks again until they are answered."""
    [waiting] = client.suspended(run_id, 1)["pending"]
    for name in ("bob", "carol"):
        with client.system.client(f"{client.name}-{name};groups=finance") as approver:
            approver.decide(run_id, waiting)


QUORUM = Scenario(
    "quorum",
    (_ask(("charge", "q1"), ("wire", "q2")), say("wired")),
    "please charge it and wire it",
    act=_approve_together,
    # A turn of it is so short that whether it polls is chance; other scenarios have those points.
    watched=("api POST /runs", "resume ", "turn DynamoTable.transact", "turn DynamoTable.write"),
)
"""One call waits, which two others have to approve: a vote is given once, whatever dies, and the turn
that follows settles the call."""


def _approve_by_links(client: Client, thread: str, run_id: str) -> None:
    """Approve as two people, each by a link, until they are answered. Their pages then tell what is true."""
    [waiting] = client.suspended(run_id, 1)["pending"]
    for person in LINKED_PEOPLE:
        path = client.system.link(client.name, run_id, waiting, person)
        page = client.want(200, "GET", path, accept="application/json")
        assert page["may"] == ["approve", "deny"], page
        answer = client.ask("POST", path, {"decision": "approve"}, content_type="application/json")
        assert answer.status in (200, 202), answer
        page = client.want(200, "GET", path, accept="application/json")
        assert page["voted"] or page["decided"]["mine"], page
    assert page["closed"] == f"{person}@example.com approved it", page


LINKED_PEOPLE = ("bea", "carl")
"""Ids of the people to whom links are sent."""
LINKED = Scenario(
    "linked",
    (_ask(("charge", "q1"), ("wire", "q2")), say("wired")),
    "please charge it and wire it, says a mail",
    act=_approve_by_links,
    watched=("api GET /decide", "api POST /decide", "resume "),
)
"""As QUORUM, where both decide by a link: whatever dies, each votes once, and the page says what is true."""


TOLD_CHANNELS = {
    "finance": [{"slack": "#payouts"}, {"mail": [f"{id}@example.com" for id in LINKED_PEOPLE]}],
    "people": {
        f"{id}@example.com": {"id": id, "groups": ["finance"], "slack": f"U0{id.upper()}"}
        for id in LINKED_PEOPLE
    },
    "mail_from": "approvals@example.com",
}
"""The people of LINKED, and where they are told."""
TOLD = Scenario(
    "told",
    (_ask(("charge", "t1"), ("wire", "t2")), say("wired")),
    "please charge it and wire it, and tell them",
    act=decide_when_told,
    watched=("notify ", "api POST /channels/slack"),
)
"""As QUORUM, where Slack and mail tell of the call: one decides by a press, the other over HTTP. Whatever
dies, each message is there once (a mail once more for a sender that died), and the outcome is told."""


def _deny_first(client: Client, thread: str, run_id: str) -> None:
    """Deny the first call that waits, and decline the question next to it, until each is answered; whatever
    waits later is approved."""
    client.suspended(run_id, 2)
    for call_id in ("v1", "v5"):
        path = f"/runs/{run_id}/tool-calls/{call_id}/deny"
        answer = client.ask("POST", path, {"reason": "it has a voucher", "attempt": 1})
        assert answer.status in (200, 202, 409), answer


DENIED = Scenario(
    "denied",
    (
        _ask(("refund", "v1"), ("offer", "v5")),
        calls(("refund", {"order": "of v1"}, "v2"), ("refund", {"order": "of v3"}, "v3")),
        calls(("refund", {"order": "of v1"}, "v4"), ("offer", {"order": "of v5"}, "v6")),
        say("one of them is paid back"),
    ),
    "please pay all of them back",
    act=_deny_first,
    denied=frozenset({"v1", "v2", "v4", "v5", "v6"}),
    watched=("api POST /runs", "resume ", "turn DynamoTable.transact", "turn DynamoTable.write"),
)
"""A call that is denied, and is asked for twice more, once next to another one that shows the denial; and a
question that is declined, and asked once more. Nobody is asked for either again, whatever dies."""


def _deny_as_operator(client: Client, thread: str, run_id: str) -> None:
    """Deny what waits as an operator, until the item is answered; its row was there before."""
    client.suspended(run_id, 1)
    body = {"ids": [run_id], "reason": "nobody is left to decide"}
    with client.system.client(f"{client.name}-olga;scopes=operate,audit") as operator:
        while True:
            [item] = operator.want(200, "POST", "/operate/runs/deny", body)["items"]
            if item["status"] < 500:
                break
        # 409: an earlier request has denied it, and died.
        assert item["status"] in (202, 409), item
        outcomes: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = operator.want(200, "GET", f"/audit/operations?limit=100{cursor}")
            outcomes += [row["outcome"] for row in page["items"] if row["run_id"] == run_id]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        assert outcomes, "a call was denied without a row of it"
        assert item["status"] == 202 or "pending" in outcomes or "done" in outcomes, outcomes


OPERATED = Scenario(
    "operated",
    (_ask(("charge", "p1"), ("refund", "p2")), say("nothing is paid back")),
    "please pay it back although nobody decides",
    act=_deny_as_operator,
    denied=frozenset({"p2"}),
    watched=("api POST /operate", "resume ", "turn DynamoTable.transact"),
)
"""A call that an operator denies among others' runs: what was done has its row, whatever dies."""


def _talk_on(client: Client, thread: str, run_id: str) -> str:
    """Say something else while the call waits, until that is answered."""
    client.suspended(run_id, 1)
    other = client.start(thread, NEXT)
    client.over(other)
    return other


ASIDE = Scenario(
    "aside",
    (_ask(("refund", "a1")), say("paid back")),
    "please pay it back while we talk on",
    act=_talk_on,
    watched=(
        "api POST /threads/runs",
        "api POST /runs",
        "resume ",
        "turn Database",
        "turn DynamoTable.transact",
        "turn DynamoTable.write",
    ),
)
"""A run that waits, and is set aside by a message: it goes on behind the other one, whatever dies."""


def _filter(body: Json) -> Reply:
    """Refuse each request that has the charge's result."""
    if any(m["role"] == "tool" and "charged" in m["content"] for m in body["messages"]):
        return fail(400, "The response was filtered", code="content_filter")
    return _ask(("refund", "e3"))


REFUSED = Scenario(
    "refused",
    (
        _ask(("charge", "e1"), ("look_up", "e2")),
        _filter,
        say("done without what it said"),
    ),
    "please charge it and look it up",
    watched=("turn OpenAIChat", "turn DynamoTable.transact", "turn DynamoTable.write"),
)
"""Results that a provider's filter refuses: the step goes on without them, and then a call waits."""


def _smuggle(client: Client, thread: str, run_id: str) -> None:
    """Send the run a message that its hook refuses, while a call waits, until that is answered."""
    client.suspended(run_id, 1)
    body = {"input": "and some contraband, please"}
    client.want(202, "POST", f"/runs/{run_id}/messages", body, idempotency_key=unique("key"))


GUARDED = Scenario(
    "guarded",
    (_ask(("charge", "g1"), ("refund", "g2")),),
    "please charge it and pay it back, with care",
    agent="bouncer",
    act=_smuggle,
    watched=(
        "turn OpenAIChat",
        "turn DynamoTable.transact",
        "turn DynamoTable.write",
        "turn Database",
    ),
)
"""A message on the way that a hook refuses, behind calls that ran: the run ends refused, the message is
marked in the database, and no model is asked, whatever dies."""

SERVED = Scenario(
    "served",
    (
        _ask(("shop_look_up", "t1"), ("shop_charge", "t2")),
        _ask(("shop_refund", "t3"), ("shop_charge", "t4")),
        say("the shop has done all of it"),
    ),
    "please have the shop do that for my order",
    agent="broker",
    watched=(
        "resume ",
        "turn DynamoTable.transact",
        "turn DynamoTable.write",
        "turn McpServers",
        "turn Tool",
    ),
)
"""Calls of the tools of a server that lives on: two at once, then one that waits and one next to it."""


CONNECTED = Scenario(
    "connected",
    (
        _ask(("charge", "k1"), ("star", "k2")),
        _ask(("star", "k3"), ("refund", "k4")),
        say("starred it"),
    ),
    "please charge it and star it in my name",
    agent="stargazer",
    watched=(
        "api POST /me/consents",
        "resume ",
        "turn DynamoTable.transact",
        "turn DynamoTable.write",
    ),
)
"""A call that waits until its user has connected an account, next to one that has run; then one that has the
token."""


def _chat(client: Client, scenario: Scenario) -> tuple[str, str]:
    """Send a chat's first message until its stream has begun: it is the same message each time."""
    parts: list[Any] = [{"type": "text", "text": client.system.input_of(scenario)}]
    message = {"id": "u1", "role": "user", "parts": parts}
    body = {"id": unique("chat"), "messages": [message], "trigger": "submit-message"}
    runs: list[str] = []
    while not runs:
        answer = client.ask("POST", f"/chat/{scenario.agent}", body)
        assert answer.status == 200, answer
        runs = re.findall(r'"messageId": ?"(run_\w+)"', str(answer.body))
    return str(client.run(runs[0])["thread_id"]), runs[0]


CHATTED = Scenario(
    "chatted",
    (_ask(("charge", "w1"), ("refund", "w2")), say("paid back")),
    "please charge it and pay it back, says a page",
    open=_chat,
    stream=True,
    watched=(
        "streams DynamoTable.transact",
        "streams DynamoTable.write HEAD",
        "streams StepFunctions",
    ),
)
"""A page that sends its message again until it is answered: one run, whatever died before its answer."""

# Runs whose provider is away, or refuses them, until their story mends that


_OF_TURNS = ("turn DynamoTable.transact", "turn DynamoTable.write", "turn OpenAIChat")


def _pause_within(client: Client, thread: str, run_id: str) -> None:
    pause(client, run_id, "within")


PAUSED = Scenario(
    "paused",
    (
        _ask(("charge", "o1"), ("look_up", "o2")),
        away("within", _ask(("refund", "o3"))),
        say("paid back, late"),
    ),
    "please charge it and pay it back, however long it takes",
    agent="patient",
    act=_pause_within,
    watched=_OF_TURNS,
    check=judge_pauses,
)
"""The provider goes away within a turn, behind calls that ran. The run pauses, and goes on by itself."""


def _pause_behind(client: Client, thread: str, run_id: str) -> None:
    client.decide(run_id, client.suspended(run_id, 1)["pending"][0])
    pause(client, run_id, "behind")


PAUSED_BEHIND = Scenario(
    "paused behind a payment",
    (
        _ask(("charge", "o4"), ("refund", "o5")),
        away("behind", say("paid back, and told late")),
    ),
    "please charge it and pay it back, and tell me however late",
    agent="patient",
    act=_pause_behind,
    watched=_OF_TURNS,
    check=judge_pauses,
)
"""The provider is away when an approved payment has been made. The payment is made once."""


def _redrive_twice(client: Client, thread: str, run_id: str) -> None:
    redrive(client, run_id, "at first")
    client.decide(run_id, client.suspended(run_id, 1)["pending"][0])
    redrive(client, run_id, "in the end")


REDRIVEN = Scenario(
    "redriven",
    (
        keyless("at first", _ask(("charge", "o6"), ("refund", "o7"))),
        keyless("in the end", say("paid back, at the third go")),
    ),
    "please charge it and pay it back, whatever the key",
    agent="patient",
    act=_redrive_twice,
    watched=("api POST /runs/redrive", *_OF_TURNS),
    check=judge_redrives,
)
"""A run that fails before its first step, and again when an approved payment has been made. Its owner
redrives it each time: it ends as if nothing had been."""

# Runs that only the sweeper, or Settle, brings to their end

_WAITS = (_ask(("charge", "w1"), ("refund", "w2")), say("paid back"))
_WAITS_TEXT = "please charge it and pay it back"
_TAKEN = "DynamoTable.write META"
"""Turn takes the run; the first time it makes a step, suspends, and writes that it has room for that."""
_TURNS_DIE = Death(Point("turn", _TAKEN, 3, "after"), times=5)
"""Every attempt behind the decision dies."""


def _lose_execution(client: Client, thread: str, run_id: str) -> None:
    """Its execution ends, uncatchably, while a call waits; then the call is decided."""
    run = client.suspended(run_id, 1)
    client.system.stop_execution(run_id)
    client.decide(run_id, run["pending"][0])


def _never_send(client: Client, thread: str, run_id: str) -> None:
    """Decide once; `api` dies before it sends the token, and the request is not repeated."""
    client.suspended(run_id, 1)
    path = f"/runs/{run_id}/tool-calls/w2/approve"
    assert client.caller.call("POST", path, {"attempt": 1}).status == 502


def _queue_behind(client: Client, thread: str, run_id: str) -> str:
    # Queued before the decision, it would be answered while the first waits.
    client.decide(run_id, client.suspended(run_id, 1)["pending"][0])
    next_id = client.start(thread, NEXT, on_busy="enqueue")
    client.over(run_id)
    return next_id


def _forsake(client: Client, thread: str, run_id: str) -> str:
    """Its execution ends, uncatchably, while Settle tries to settle it."""
    next_id = client.start(thread, NEXT, on_busy="enqueue")
    client.until(lambda: client.system.deaths(client.name, "settle"))
    client.system.stop_execution(run_id)
    client.over(run_id)
    return next_id


def _cancel(client: Client, thread: str, run_id: str) -> None:
    client.suspended(run_id, 1)
    client.want(202, "POST", f"/runs/{run_id}/cancel")


def _cancel_all(client: Client, thread: str, run_id: str) -> None:
    client.suspended(run_id, _CREWS)
    client.want(202, "POST", f"/runs/{run_id}/cancel")


def _interrupt(client: Client, thread: str, run_id: str) -> str:
    client.suspended(run_id, 1)
    next_id = client.start(thread, NEXT, on_busy="interrupt")
    client.over(run_id)
    return next_id


def _delete(client: Client, thread: str, run_id: str) -> None:
    client.suspended(run_id, 1)
    assert client.ask("DELETE", f"/threads/{thread}").status in (204, 404)


def _delete_once(client: Client, thread: str, run_id: str) -> None:
    """Delete once; `api` dies as soon as the thread is marked, and the request is not repeated."""
    client.suspended(run_id, 1)
    assert client.caller.call("DELETE", f"/threads/{thread}").status == 502


def _forget(client: Client, thread: str, run_id: str) -> None:
    client.suspended(run_id, 1)
    client.want(202, "DELETE", "/me")


def _forget_once(client: Client, thread: str, run_id: str) -> None:
    """Forget once; `api` dies as soon as the user is noted, and the request is not repeated."""
    client.suspended(run_id, 1)
    assert client.caller.call("DELETE", "/me").status == 502


def _cut_database(client: Client, thread: str, run_id: str) -> None:
    """The database is away from the first death of a turn until the run is over."""
    assert client.system.outages is not None, "this system's stories have no outages"
    pending = client.suspended(run_id, 1)["pending"]
    with client.system.outages.outage():
        client.decide(run_id, pending[0])
        client.over_without_database(run_id)


LOST = Scenario("lost", _WAITS, _WAITS_TEXT, act=_lose_execution, watched=("sweep",))
"""An execution that died: the sweeper starts the one that follows."""

UNSENT = Scenario(
    "unsent",
    _WAITS,
    _WAITS_TEXT,
    act=_never_send,
    deaths=(
        Death(Point("api", "POST */approve DynamoTable.transact *#CALL#w2=decided*", 1, "after")),
    ),
    watched=("sweep",),
)
"""A decided call whose token was never sent: the sweeper wakes it."""

DOOMED = Scenario(
    "doomed",
    _WAITS,
    _WAITS_TEXT,
    act=_queue_behind,
    deaths=(_TURNS_DIE,),
    watched=("settle",),
    ends="failed",
)
"""Five attempts die: Settle ends the run and starts the next one."""

FORSAKEN = Scenario(
    "forsaken",
    (_ask(("charge", "w1")), say("never")),
    "please charge it and say nothing",
    act=_forsake,
    deaths=(
        # The first of them made the step before it died, so that it does not count.
        Death(Point("turn", "OpenAIChat.complete turn", 2, "before"), times=6),
        Death(Point("settle", "DynamoTable.get META", 2, "before"), times=99),
    ),
    watched=("sweep",),
    ends="failed",
)
"""Five attempts die, and Settle and the execution as well: the sweeper gives the run up."""

UNSAVED = Scenario(
    "unsaved",
    _WAITS,
    _WAITS_TEXT,
    act=_cut_database,
    deaths=(_TURNS_DIE,),
    watched=("settle", "sweep"),
    ends="failed",
)
"""As DOOMED, while the database is away: the sweeper saves the run when it is back."""

CANCELLED = Scenario(
    "cancelled",
    _WAITS,
    _WAITS_TEXT,
    act=_cancel,
    watched=("api POST /runs/cancel", "sweep"),
    ends="cancelled",
)
"""A cancel hardly waits for the database: what it does not save in time, the sweeper does."""

INTERRUPTED = Scenario(
    "interrupted",
    _WAITS,
    _WAITS_TEXT,
    act=_interrupt,
    watched=("api POST /threads/runs",),
    ends="cancelled",
)
"""A run that makes the one before it end."""

HALF_INTERRUPTED = Scenario(
    "half interrupted",
    _WAITS,
    _WAITS_TEXT,
    act=_interrupt,
    deaths=(Death(Point("api", "POST /threads/runs *META HEAD REQUEST META", 1, "after")),),
    watched=("sweep",),
    ends="cancelled",
)
"""The new run is accepted, the old one flagged, and `api` dies: the sweeper ends the old one."""

_CREWS = 21

CANCELLED_IN_CHUNKS = Scenario(
    "cancelled in chunks",
    (
        calls(
            *(("crew", {"input": f"[[crew_{n}]] do your part"}, f"k{n}") for n in range(_CREWS)),
        ),
    ),
    "please let all of them do that",
    agent="foreman",
    act=_cancel_all,
    briefs={f"crew_{n}": (_ask(("refund", f"x{n}")),) for n in range(_CREWS)},
    watched=(
        "api POST /runs/cancel DynamoTable.transact",
        "api POST /runs/cancel DynamoTable.write",
    ),
    ends="cancelled",
)
"""More calls than one transaction can cancel, half of them sub-agents."""

DELETED = Scenario(
    "deleted", _WAITS, _WAITS_TEXT, act=_delete, watched=("api DELETE ",), ends="erased"
)
"""A thread that is deleted while its run waits."""

HALF_DELETED = Scenario(
    "half deleted",
    _WAITS,
    _WAITS_TEXT,
    act=_delete_once,
    deaths=(Death(Point("api", "DELETE /threads DynamoTable.write HEAD", 1, "after")),),
    watched=("sweep",),
    ends="erased",
)
"""The thread is marked, and `api` dies: the sweeper cancels its run and erases it."""

FORGOTTEN = Scenario(
    "forgotten",
    _WAITS,
    _WAITS_TEXT,
    act=_forget,
    watched=("api DELETE /me",),
    ends="forgotten",
)
"""A user who is forgotten while a run of theirs waits."""

HALF_FORGOTTEN = Scenario(
    "half forgotten",
    _WAITS,
    _WAITS_TEXT,
    act=_forget_once,
    deaths=(Death(Point("api", "DELETE /me DynamoTable.write DUE", 1, "after")),),
    watched=("sweep",),
    ends="forgotten",
)
"""The user is noted, and `api` dies: the sweeper cancels the run and erases all."""


def _connect_and_leave(client: Client, thread: str, run_id: str) -> None:
    """Connect an account and be forgotten, with a consent on the way that is brought after that."""
    [waiting] = client.suspended(run_id, 1)["pending"]
    pages = [str(client.want(200, "POST", "/me/connections/hub")["authorize_url"])]
    late = consent_at(pages[0])
    pages += client.consent(waiting)
    client.until(lambda: [p["kind"] for p in client.run(run_id)["pending"]] == ["approval"])
    client.want(202, "DELETE", "/me")
    # 200: the erasure is not that far yet, and takes it along.
    assert client.ask("POST", "/me/consents", late).status in (200, 404, 409)
    client.until(
        lambda: not client.system.watched(Keys(client.name).partition, due_key("owner", ""))
    )
    trace = client.system.trace(client.name)
    if any(line.died and line.point.startswith("POST /me/consents") for line in trace):
        return  # Tokens that nobody knows: the process that had got them died.
    client.until(lambda: not any(map(live_at, pages)), PAUSE_S)


LEFT = Scenario(
    "left",
    (_ask(("star", "y1")), _ask(("refund", "y2")), say("never")),
    "please star it in my name and forget me",
    agent="stargazer",
    act=_connect_and_leave,
    watched=("api POST /me/consents", "api DELETE /me"),
    ends="forgotten",
)
"""A user who has connected an account is forgotten while a consent is on its way: no token is left, here or
at the service."""

WATCHED = (
    LOST,
    UNSENT,
    DOOMED,
    FORSAKEN,
    CANCELLED,
    CANCELLED_IN_CHUNKS,
    INTERRUPTED,
    HALF_INTERRUPTED,
    DELETED,
    HALF_DELETED,
    FORGOTTEN,
    HALF_FORGOTTEN,
    LEFT,
)
"""Those that need nothing of their system but the points."""
