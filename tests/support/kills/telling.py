"""People who are told of a run's call by Slack and by mail, and decide it; and a judge of what they got."""

import json
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import urlencode

from layover.plugins.people.channels.slack.block_kit import APPROVE, CallRef
from layover.plugins.people.channels.slack.twin import FakeSlack
from layover.plugins.people.channels.twins import Outbox
from support.kills.torture import PAUSE_S, Client
from support.system.system import Json, unique

SECONDS_OF_A_CLAIM = 70.0
"""A claim of a sender that died holds for a minute."""
PAYOUTS = "#payouts"
MAILS = ("bea@example.com", "carl@example.com")


def decide_when_told(client: Client, thread: str, run_id: str) -> None:
    """Be told, press as Bea, and approve as Carl; then everybody has been told of the outcome."""
    [waiting] = client.suspended(run_id, 1)["pending"]
    people = _People(client, run_id)
    people.until(lambda: people.have({PAYOUTS, *MAILS}, "message", "requested"))
    people.until(lambda: people.press(waiting))
    people.until(lambda: people.shown().get(PAYOUTS, "").startswith("1 of 2 approvals"))
    with client.system.client("carl;groups=finance") as carl:
        carl.decide(run_id, waiting)
    people.until(lambda: people.have(set(MAILS), "decided"))
    people.until(lambda: people.shown()[PAYOUTS].startswith("Approved by carl@example.com"))
    # An event that comes again later would tell them again.
    people.until(lambda: not client.system.queued(run_id))
    judge_messages(people.messages(), client.system.dead_senders(client.name))


def judge_messages(messages: list[Json], deaths: int) -> None:
    """Check that each message is there once, that of a service that cannot be asked once more for each sender
    that died, and that the newest words in Slack are the outcome."""
    sent = Counter((m["to"], m["kind"]) for m in messages if m["kind"] != "update")
    mails = {(to, kind) for to in MAILS for kind in ("requested", "decided")}
    assert sent.keys() == {(PAYOUTS, "message"), *mails}, sent
    assert sent.pop((PAYOUTS, "message")) == 1, "Slack has a message twice"
    assert max(sent.values()) <= 1 + deaths, f"{sent} after {deaths} deaths"
    assert "Approved by carl@example.com" in messages_in_slack(messages)[-1]["text"]
    for message in messages:
        asks = message["kind"] == "requested"
        assert ("/decide/" in message["link"]) == asks, message


def messages_in_slack(messages: list[Json]) -> list[Json]:
    """Return those of Slack, as they were sent and changed."""
    return [message for message in messages if message["channel"] == "slack"]


class _People:
    """Whoever is told of one run. Whenever a sender has died, the time of its claims passes."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._system = client.system
        self._run_id = run_id
        self._deaths = 0

    def messages(self) -> list[Json]:
        """Return what they were sent of the run, the newest last."""
        return [m for m in self._system.outbox() if self._run_id in (m["link"] or "")]

    def shown(self) -> dict[str, str]:
        """Return the newest words at each address."""
        return {message["to"]: message["text"] for message in self.messages()}

    def have(self, places: set[str], *kinds: str) -> bool:
        """Return whether all these addresses have a message of one of the kinds."""
        return places <= {m["to"] for m in self.messages() if m["kind"] in kinds}

    def press(self, waiting: Json) -> bool:
        """Press the button as Bea; return whether that is answered. She presses again if Slack shows that
        it failed."""
        ref = CallRef(self._run_id, waiting["tool_call_id"], waiting["attempt"])
        action = {"type": "button", "action_id": APPROVE, "value": ref.encode()}
        press = {"type": "block_actions", "user": {"id": "U0BEA"}, "trigger_id": unique("press")}
        body = urlencode({"payload": json.dumps({**press, "actions": [action]})})
        at = time.time() + self._system.advance_clock(0)
        signed = FakeSlack(Outbox()).sign(body.encode(), at)
        headers = {name.replace("-", "_"): value for name, value in signed.items()}
        answer = self._client.caller.call("POST", "/channels/slack", body, **headers)
        assert answer.status in (200, 502), answer
        return answer.status == 200

    def until(self, done: Callable[[], object]) -> None:
        """Wait for it, and let the time of claims pass whose sender died."""

        def look() -> object:
            deaths = self._system.dead_senders(self._client.name)
            if deaths > self._deaths:
                self._deaths = deaths
                self._system.advance_clock(SECONDS_OF_A_CLAIM)
            return done()

        self._client.until(look, PAUSE_S)
