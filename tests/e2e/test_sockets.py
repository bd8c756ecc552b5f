"""Runs followed by WebSocket: the frames are exactly the events that HTTP answers, whichever process dies
meanwhile."""

import json
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from layover.keys import META, Keys
from layover.values.deployment.access import Access
from support.providers.openai import Raw, call, delta, say, stream
from support.system.follower import Follower, Returning, at_least, events_of, is_over, unclosed
from support.system.system import Brain, Caller, Json, System, at_once, eventually, in_time, unique

WORDS = 60


def slowly(
    words: int = WORDS,
    pause_s: float = 0.03,
    size: int = 1,
    hold: threading.Event | None = None,
) -> Raw:
    """An answer of so many words, streamed for a while; its end waits until it is let go."""
    text = [delta(f"w{i} " + "x" * size) for i in range(words)]
    return stream(delta(), *text, delta(finish="stop"), pause_s=pause_s, hold=hold)


# Refusals


def test_a_handshake_without_a_good_ticket_is_refused(ann: Caller, bob: Caller) -> None:
    url = ann.want(201, "POST", "/socket-tickets")["url"]
    base = url.partition("?")[0]
    for bad in (base, f"{base}?ticket=", f"{base}?ticket=nonsense", f"{url}x".replace("=", "=0")):
        with pytest.raises(InvalidStatus) as refused:
            Follower(bad)
        assert refused.value.response.status_code == 401


def test_a_ticket_opens_one_connection(ann: Caller) -> None:
    ticket = ann.want(201, "POST", "/socket-tickets")
    with Follower(ticket["url"]):
        pass
    with pytest.raises(InvalidStatus):
        Follower(ticket["url"])


def test_of_many_handshakes_with_one_ticket_one_wins(ann: Caller) -> None:
    url = ann.want(201, "POST", "/socket-tickets")["url"]

    def attempt() -> bool:
        try:
            with Follower(url):
                return True
        except InvalidStatus:
            return False

    assert sorted(at_once(*[attempt] * 4)) == [False, False, False, True]


def test_a_ticket_under_another_owners_hash_opens_nothing(ann: Caller, bob: Caller) -> None:
    mine, theirs = (c.want(201, "POST", "/socket-tickets") for c in (ann, bob))
    forged = f"{theirs['ticket'].partition('.')[0]}.{mine['ticket'].partition('.')[2]}"
    with pytest.raises(InvalidStatus):
        Follower(mine["url"].replace(mine["ticket"], forged))


def test_a_ticket_that_is_a_minute_old_opens_nothing(ann: Caller, system: System) -> None:
    ticket = ann.want(201, "POST", "/socket-tickets")
    system.advance_clock(61)
    with pytest.raises(InvalidStatus) as refused:
        Follower(ticket["url"])
    assert refused.value.response.status_code == 401


@unclosed
def test_somebody_elses_run_is_not_found_as_by_http(ann: Caller, bob: Caller, brain: Brain) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(say("mine")))
    with Follower.of(bob) as follower:
        follower.subscribe(run["id"])
        follower.subscribe("run_nonsense")
        frames = follower.wait(lambda f: len(f) == 2)
    by_http = bob.want(404, "GET", f"/runs/{run['id']}/events")
    assert {"error": by_http} in frames
    assert [f["error"]["status"] for f in frames] == [404, 404]


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("no json", 400),
        ("[]", 422),
        ({"action": "dance"}, 422),
        ({"run_id": "run_1"}, 422),
        ({"action": "subscribe"}, 422),
        ({"action": "subscribe", "run_id": "r", "after": -1}, 422),
        ({"action": "subscribe", "run_id": "r", "after": "1"}, 422),
        ({"action": "subscribe", "run_id": "r", "since": 1}, 422),
        ({"action": "subscribe", "run_id": "r" * 5000}, 422),
        (b"\xff\xfe", 400),
    ],
)
@unclosed
def test_a_message_that_cannot_be_understood_is_told_so(
    ann: Caller, message: Any, status: int
) -> None:
    with Follower.of(ann) as follower:
        follower.send(message)
        follower.send({"action": "ping"})
        frames = follower.wait(lambda f: len(f) == 2)
    [problem] = [f["error"] for f in frames if "error" in f]
    assert problem["status"] == status
    assert {"action": "pong"} in frames


# Events


@unclosed
def test_what_comes_is_what_http_answers(ann: Caller, brain: Brain) -> None:
    key = unique()
    text = brain.plan(call("tells", key=key), slowly())
    with Follower.of(ann) as follower:
        run = ann.start(ann.thread(), text, stream=True)
        follower.subscribe(run["id"])
        frames = follower.wait(is_over)
        assert frames == ann.events(run["id"])
        types = [f["type"] for f in frames]
        assert types.count("text-delta") == WORDS
        assert "data" in types
        follower.send({"action": "ping"})
        assert follower.wait(lambda f: len(f) > len(frames))[len(frames) :] == [{"action": "pong"}]


def test_events_come_while_the_model_still_speaks(ann: Caller, brain: Brain) -> None:
    hold = threading.Event()
    first = delta("first")
    text = brain.plan(stream(first, delta(" last"), delta(finish="stop"), pause_s=0.1, hold=hold))
    with Returning(ann) as follower:
        run = ann.start(ann.thread("plain"), text, stream=True)
        follower.subscribe(run["id"])
        follower.wait(lambda f: any(e["type"] == "text-delta" for e in f))
        assert ann.run(run["id"])["status"] == "running"
        hold.set()
        follower.wait(is_over)


@unclosed
def test_a_finished_run_is_replayed_after_any_seq(ann: Caller, brain: Brain) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(slowly(20, 0)), stream=True)
    events = ann.events(run["id"])
    for after in (0, 1, len(events) // 2, len(events) - 1):
        with Follower.of(ann) as follower:
            follower.subscribe(run["id"], after)
            frames = follower.wait(is_over)
        assert frames == events[after:]
    with Follower.of(ann) as follower:
        follower.subscribe(run["id"], len(events))
        follower.send({"action": "ping"})
        assert follower.wait(bool) == [{"action": "pong"}]


def test_whoever_writes_is_heard(ann: Caller, brain: Brain) -> None:
    key = unique()
    refund = call("refund", order_id=key, amount=60)
    text = brain.plan(refund, say("paid"))
    thread = ann.thread()
    with Returning(ann) as follower:
        run = ann.start(thread, text)
        follower.subscribe(run["id"])
        frames = follower.wait(lambda f: any(e["type"] == "tool-call-suspended" for e in f))
        waiting = next(e for e in frames if e["type"] == "tool-call-suspended")
        assert ann.decide(run["id"], waiting["tool_call_id"], "approve").status == 202
        frames = follower.wait(is_over)
        assert frames == ann.events(run["id"])
        assert "tool-call-decided" in [e["type"] for e in frames]


def test_a_cancelled_run_ends_on_its_sockets(ann: Caller, brain: Brain) -> None:
    hold = threading.Event()
    thread = ann.thread("plain")
    run = ann.start(thread, brain.plan(say("never", hold=hold)))
    queued = ann.start(thread, brain.plan(say("never")), on_busy="enqueue")
    with Returning(ann) as follower:
        follower.subscribe(queued["id"])
        follower.subscribe(run["id"])
        follower.wait(lambda f: any(e["type"] == "turn-start" for e in f))
        ann.want(202, "POST", f"/runs/{queued['id']}/cancel")
        ann.want(202, "POST", f"/runs/{run['id']}/cancel")
        frames = follower.wait(lambda f: [e["type"] for e in f].count("finish") == 2)
        for each in (run, queued):
            assert events_of(frames, each["id"]) == ann.events(each["id"])
    hold.set()


def test_two_sockets_on_one_run_and_two_runs_on_one_socket(ann: Caller, brain: Brain) -> None:
    with Returning(ann) as one, Returning(ann) as two:
        runs = [
            ann.start(ann.thread("plain"), brain.plan(slowly()), stream=True)["id"]
            for _ in range(2)
        ]
        for run_id in runs:
            one.subscribe(run_id)
        two.subscribe(runs[0])
        one.wait(lambda f: [e["type"] for e in f].count("agent-end") == 2)
        two.wait(is_over)
        for run_id in runs:
            assert events_of(one.frames, run_id) == ann.events(run_id)
        assert two.frames == ann.events(runs[0])


@unclosed
def test_an_unsubscribed_run_is_silent(ann: Caller, brain: Brain, system: System) -> None:
    hold = threading.Event()
    heard, unheard = ([delta(f"{kind}{i} ") for i in range(40)] for kind in "hu")
    rest = "".join(f"data: {json.dumps(d)}\n\n" for d in [*unheard, delta(finish="stop")])
    # One chunk: it is held, and comes whole once the line is known to be gone.
    rest += "data: [DONE]\n\n"
    text = brain.plan(stream(delta(), *heard, rest, done=False, pause_s=0.03, hold=hold))
    with Follower.of(ann) as follower:
        run = ann.start(ann.thread("plain"), text, stream=True)
        follower.subscribe(run["id"])
        follower.wait(lambda f: len(f) > 5)
        assert _followers_of(run["id"], ann, system)
        follower.send({"action": "unsubscribe", "run_id": run["id"]})
        eventually(lambda: not _followers_of(run["id"], ann, system))
        path = f"/runs/{run['id']}/events?limit=500"
        written = eventually(lambda: ann.get(path)["items"], lambda f: "h39 " in json.dumps(f))
        with Returning(ann) as other:
            other.subscribe(run["id"])
            hold.set()
            other.wait(is_over)
        ann.over(run["id"])
        follower.send({"action": "ping"})
        seen = events_of(follower.wait(lambda f: {"action": "pong"} in f), run["id"])
        assert seen[-1]["seq"] <= written[-1]["seq"] < ann.get(path)["last_seq"] - 10
        follower.subscribe(run["id"], seen[-1]["seq"])
        assert events_of(follower.wait(is_over), run["id"]) == ann.events(run["id"])


def _followers_of(run_id: str, user: Caller, system: System) -> list[str]:
    """Return the connections that the writer of the run's events notifies."""
    key = {"pk": {"S": Keys(user.name).run(run_id)}, "sk": {"S": META}}
    table = system.services["table"]
    item = system.aws("dynamodb").get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
    return list(item.get("sockets", {}).get("SS", []))


def test_an_event_that_no_frame_holds_is_announced(ann: Caller, brain: Brain) -> None:
    long = "x" * 200_000
    run = ann.ask(ann.thread("plain"), brain.plan(say(long)))
    events = ann.events(run["id"])
    with Returning(ann) as follower:
        follower.subscribe(run["id"])
        frames = follower.wait(lambda f: len(f) == len(events))
    large = [f for f in frames if f.get("too_large")]
    assert {f["type"] for f in large} >= {"message", "agent-end"}
    for frame, event in zip(frames, events, strict=True):
        announced = {k: event[k] for k in ("seq", "run_id", "type", "at")} | {"too_large": True}
        assert frame in (event, announced)


# Processes that die


def test_a_client_that_dies_and_comes_back_misses_nothing(ann: Caller, brain: Brain) -> None:
    hold = threading.Event()
    text = brain.plan(slowly(100, hold=hold))
    run = ann.start(ann.thread("plain"), text, stream=True)
    frames: list[Json] = []
    for enough in (5, 30, 60):
        follower = Follower.of(ann)
        follower.subscribe(run["id"], frames[-1]["seq"] if frames else 0)
        follower.until_closed(at_least(enough - len(frames)))
        follower.vanish()
        frames += follower.frames
    hold.set()
    with Returning(ann) as last:
        last.subscribe(run["id"], frames[-1]["seq"])
        frames += last.wait(is_over)
    assert frames == ann.events(run["id"])


@pytest.mark.parametrize("kills", [("turn",), ("turn", "api", "sockets")])
def test_nothing_is_missed_or_doubled_when_functions_die_in_mid_stream(
    ann: Caller, brain: Brain, system: System, kills: tuple[str, ...]
) -> None:
    lost = threading.Event()
    text = brain.plan([slowly(100, hold=lost), slowly(30)])
    with Returning(ann) as follower:
        run = ann.start(ann.thread("plain"), text, stream=True)
        follower.subscribe(run["id"])
        follower.wait(lambda f: len(f) > 20)
        assert system.kill(*kills)
        lost.set()
        frames = follower.wait(is_over, within=60)
    assert [e["seq"] for e in frames] == list(range(1, len(frames) + 1))
    assert frames == ann.events(run["id"])
    # More often where the sweeper thought a slow one dead as well.
    assert [e["type"] for e in frames].count("turn-start") >= 2


def test_a_request_whose_function_died_is_told_and_made_good(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(slowly(400, 0, 5_000)), stream=True)
    written = [e["seq"] for e in ann.events(run["id"])]

    def told() -> bool:
        with Returning(ann) as follower:
            follower.subscribe(run["id"])
            follower.wait(lambda f: len(f) > 20)
            assert system.kill("sockets")
            assert [f["seq"] for f in follower.wait(is_over)] == written
        return bool(follower.failures)

    # A process may have sent all of it when it is killed, and seldom three do.
    assert any(told() for _ in range(3))


def test_a_socket_that_does_not_read_does_not_slow_a_run(ann: Caller, brain: Brain) -> None:
    def timed(stuck: Sequence[Follower] = ()) -> float:
        began = time.monotonic()
        run = ann.start(ann.thread("plain"), brain.plan(slowly(60, 0.03, 100_000)), stream=True)
        for each in stuck:
            each.subscribe(run["id"])
        assert ann.over(run["id"], 60)["status"] == "success"
        return time.monotonic() - began

    def delay() -> float:
        alone = timed()
        stuck = [Follower.of(ann, reads=False) for _ in range(2)]
        try:
            followed = timed(stuck)
        finally:
            for each in stuck:
                each.vanish()
        print(f"alone {alone:.2f} s, followed {followed:.2f} s")
        return followed - alone * 1.5

    in_time(2.5, delay)


# The token behind the ticket


@unclosed
def test_a_connection_is_closed_when_its_token_expires(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(say("done")))
    with Follower(_url_until(system, ann, 3600)) as follower:
        follower.subscribe(run["id"])
        follower.wait(is_over)
        system.advance_clock(3601)
        follower.closed(60)


def test_a_connection_whose_token_has_expired_follows_nothing_more(
    ann: Caller, brain: Brain, system: System
) -> None:
    run = ann.ask(ann.thread("plain"), brain.plan(say("done")))
    with Follower(_url_until(system, ann, 3600)) as follower:
        system.advance_clock(3601)
        with suppress(ConnectionClosed):  # The sweeper may have been there first.
            follower.subscribe(run["id"])
        follower.closed(60)
        assert follower.frames == []


def _url_until(system: System, caller: Caller, seconds: float) -> str:
    """A ticket's URL, for a token that expires: local ones never do."""
    now = caller.want(201, "POST", "/threads", {"agent": "plain"})["created_at"]
    expires = datetime.fromisoformat(now).timestamp() + seconds
    claims = {"sub": caller.name, "scope": Access().scope, "exp": str(int(expires))}
    event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/socket-tickets",
        "rawQueryString": "",
        "headers": {},
        "requestContext": {
            "requestId": "1",
            "stage": "$default",
            "http": {"method": "POST", "path": "/socket-tickets"},
            "authorizer": {"jwt": {"claims": claims}},
        },
        "isBase64Encoded": False,
    }
    answer = system.aws("lambda").invoke(FunctionName="api", Payload=json.dumps(event))
    body = json.loads(answer["Payload"].read())["body"]
    url = json.loads(body)["url"]
    assert re.match(r"ws://127\.0\.0\.1:\d+/socket\?ticket=", url)
    return str(url)
