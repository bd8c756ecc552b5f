"""A script that brings a user over from another system, and all that is there of it afterwards.

It sends each request until it is answered, as docs/guides/memory.md#import asks, and looks into every list
and search after each request that failed: what a request brings is there whole, or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from layover.keys import HEAD, Keys, due_key
from support.kills.story import Death, Point, Scenario, Story
from support.kills.torture import PAUSE_S, Client
from support.providers.openai import say
from support.system.documented import Json, Response

AGENT = "learner"
CELLAR = (
    "The key of the cellar hangs behind the fridge, next to the fuses.",
    "Understood, the cellar's key is behind the fridge.",
    "My bicycle is a green one with 21 gears.",
)
"""The first request of a long conversation, and the second. The next run's window has the last four."""
GARDEN = (
    "The garden is watered on Mondays.",
    "I keep that in mind.",
    "The hedge was cut in spring.",
    "Then it is due again in autumn.",
)
MAILBOX = ("Where do parcels go?", "To the neighbours on the left.")
"""A conversation in one request, and without an id of its own."""
ASKED = "Where is the key of the cellar, and until when is the office open?"
CLOSES_EARLY = "The office is open until 17 o'clock"
CLOSES_LATE = "The office is open until 19 o'clock"
NUTS = "Ada is allergic to hazelnuts"
ENTRIES: tuple[Mapping[str, str], ...] = tuple(
    {
        "agent": AGENT,
        "content": content,
        "evidence": f"I said it myself: {content}, every day",
        "said_at": f"{year}-05-01T12:00:00Z",
    }
    for content, year in ((CLOSES_EARLY, 2024), (NUTS, 2024), (CLOSES_LATE, 2025))
)
"""The last one is newer than the first one, and says otherwise: both stand, since no model is asked."""
WRITTEN = "POST /threads Database.run *import_messages*"
"""The point at which a conversation's messages are written."""


def request_of(
    messages: tuple[str, ...], first: int = 0, conversation: str | None = None
) -> dict[str, Any]:
    """Return the body that imports messages; `first`: the day of the first one, and its place in the
    conversation."""
    sent = [
        {
            "role": "user" if n % 2 == 0 else "assistant",
            "content": text,
            "created_at": f"2024-03-{n + 1:02}T09:00:00Z",
        }
        for n, text in enumerate(messages, first)
    ]
    body = {"agent": AGENT, "title": "From elsewhere", "metadata": {"moved": True}}
    place = {"external_id": conversation, "offset": first} if conversation else {}
    return {**body, "messages": sent, **place}


HOUSE = "house"
"""The id that the long conversation has in the other system."""
TALKS = (
    (request_of(MAILBOX), MAILBOX),
    (request_of(CELLAR, conversation=HOUSE), CELLAR),
    (request_of(GARDEN, first=len(CELLAR), conversation=HOUSE), CELLAR + GARDEN),
)
"""Each request for a conversation, and the messages that the conversation has after it."""


@dataclass
class Import:
    """The import of one user: `threads` and `entries` have the ids that the answers named."""

    client: Client
    threads: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Send all of it, each request until it is answered."""
        # The first list of a user's threads restores those that the journal does not know.
        self.look()
        self.threads = [str(self._send("/threads", dict(body))["id"]) for body, _ in TALKS]
        self.entries = [str(self._send("/memory/entries", dict(e))["id"]) for e in ENTRIES]

    def _send(self, path: str, body: Json) -> Json:
        """Return the first answer that is not a server's error."""
        answers: list[Response] = []

        def is_answered() -> bool:
            answers.append(self.client.caller.call("POST", path, body))
            self.look()
            return answers[-1].status < 500

        self.client.until(is_answered, PAUSE_S)
        assert answers[-1].status in (200, 201), f"POST {path}: {answers[-1]}"
        return dict(answers[-1].body)

    def look(self) -> None:
        """Check that nothing is seen in part."""
        self._look_at_threads()
        self._look_at_entries()

    def _look_at_threads(self) -> None:
        whole = [list(messages) for _, messages in TALKS]
        seen = [self.said(thread["id"]) for thread in self.listed()]
        assert all(texts in whole for texts in seen), f"a conversation is there in part: {seen}"
        firsts = [texts[0] for texts in seen]
        assert len(set(firsts)) == len(firsts), f"a conversation is there twice: {seen}"

    def _look_at_entries(self) -> None:
        known = [entry["content"] for entry in ENTRIES]
        lists = [self.remembered(), self.remembered("&query=" + quote(ASKED))]
        for found in (contents_of(entries) for entries in lists):
            assert set(found) <= set(known), found
            assert len(set(found)) == len(found), f"an entry is there twice: {found}"
            if {CLOSES_EARLY, CLOSES_LATE} <= set(found):
                assert found.index(CLOSES_LATE) < found.index(CLOSES_EARLY), found
        everything = self.remembered("&superseded=true")
        assert [entry for entry in everything if entry["superseded_by"]] == []

    def listed(self) -> list[Json]:
        """Return the user's threads."""
        return list(self.client.want(200, "GET", "/threads?limit=100")["items"])

    def remembered(self, more: str = "") -> list[Json]:
        """Return a page of the user's entries."""
        path = f"/memory/entries?agent={AGENT}&limit=100{more}"
        return list(self.client.want(200, "GET", path)["items"])

    def said(self, thread: str) -> list[str]:
        """Return what the imported messages of a thread say."""
        page = self.client.want(200, "GET", f"/threads/{thread}/messages?limit=100")["items"]
        return [text_of(message) for message in page if message["run_id"] is None]


def text_of(message: Json) -> str:
    """Return what a message says."""
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


def contents_of(entries: list[Json]) -> list[str]:
    """Return what entries say."""
    return [entry["content"] for entry in entries]


def _bring_over(client: Client, scenario: Scenario) -> tuple[str, str]:
    """Import everything, and go on with the long conversation."""
    brought = Import(client)
    brought.run()
    thread = brought.threads[-1]
    return thread, client.start(thread, scenario)


def _bring_over_once(client: Client, scenario: Scenario) -> tuple[str, str]:
    """Import a conversation; `api` dies when its messages are written, and the request is not repeated until
    the sweeper has shown the thread."""
    brought = Import(client)
    body, messages = TALKS[0]
    brought.look()
    assert client.caller.call("POST", "/threads", body).status == 502
    client.until(brought.listed, PAUSE_S)
    brought.run()
    thread = brought.threads[0]
    assert brought.said(thread) == list(messages)
    return thread, client.start(thread, scenario)


def _judge(client: Client, story: Story) -> None:
    """Check that all of it is there once and is used, that the same import changes nothing, and that it can
    be erased."""
    brought = Import(client)
    before = brought.listed(), brought.remembered("&superseded=true")
    brought.run()
    assert (brought.listed(), brought.remembered("&superseded=true")) == before
    threads, entries = before
    assert len(set(brought.threads)) == len(TALKS) - 1
    assert {thread["id"] for thread in threads} == set(brought.threads)
    assert all((t["title"], t["metadata"]) == ("From elsewhere", {"moved": True}) for t in threads)
    assert sorted(contents_of(entries)) == sorted(entry["content"] for entry in ENTRIES)
    assert {entry["id"] for entry in brought.remembered()} == set(brought.entries)
    whole = dict(zip(brought.threads, (messages for _, messages in TALKS), strict=True))
    for thread, messages in whole.items():
        assert brought.said(thread) == list(messages)
    _judge_prompt(client, story, whole[story.thread["id"]][0])
    _judge_erasure(client, brought.threads)


def _judge_prompt(client: Client, story: Story, oldest: str) -> None:
    """Check that runs of this scenario read what was imported: the oldest message of their thread, which
    recall finds if their window does not have it, and the newer of two entries first."""
    asked = client.system.brain.requests(client.system.input_of(story.scenario))
    assert asked
    for body in (str(request.body) for request in asked):
        assert oldest in body, body
        assert 0 <= body.find(CLOSES_LATE) < body.find(CLOSES_EARLY), body


def _judge_erasure(client: Client, threads: list[str]) -> None:
    """Check that nothing is left of a user who is forgotten, wherever it was."""
    client.want(202, "DELETE", "/me")
    brought = Import(client)
    assert (brought.listed(), brought.remembered("&superseded=true")) == ([], [])
    await_erasure(client, threads)


def await_erasure(client: Client, threads: list[str]) -> None:
    """Wait until the sweeper has erased a user with these threads; nothing is left then."""
    keys = Keys(client.name)
    for thread in threads:
        client.let_alone(keys.thread(thread), HEAD)
    client.let_alone(keys.partition, due_key("owner", ""))
    left = [each for thread in threads for each in client.system.left_of_user(client.name, thread)]
    assert left == [], "erasing forgot something"


_ANSWERED = (say("it hangs behind the fridge, and it is open until 19 o'clock"),)
_SHOWS = (
    "DynamoTable.due",
    *(f"DynamoTable.{verb} {item}" for verb in ("get", "write") for item in ("DUE", "HEAD")),
    "Database.run thread_head",
)
"""The sweeper's work on a conversation that was imported by halves."""
_IMPORTS = ("api POST /threads Dynamo", "api POST /threads Database", "api POST /memory/entries ")

IMPORTED = Scenario(
    "imported",
    _ANSWERED,
    ASKED,
    agent=AGENT,
    open=_bring_over,
    watched=_IMPORTS,
    check=_judge,
)
"""Conversations and entries of another system: whatever dies, each is there once and whole, a run goes on
from them, and an erasure takes all."""

HALF_IMPORTED = Scenario(
    "half imported",
    _ANSWERED,
    ASKED,
    agent=AGENT,
    open=_bring_over_once,
    deaths=(Death(Point("api", WRITTEN, 1, "after")),),
    # Whether it looks at the run, too, is a matter of time.
    watched=tuple(f"sweep {work}" for work in _SHOWS),
    check=_judge,
)
"""The messages of a conversation are written, and `api` dies: the sweeper shows the thread."""
