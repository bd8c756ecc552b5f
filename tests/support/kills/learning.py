"""Two runs of a user whose agent learns from them, and all that is remembered of them afterwards."""

import json
import re
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from support.kills.story import Line
from support.kills.torture import Client
from support.providers.openai import FakeOpenAI, Response, call, say

PAGES = 8
FAULT = "The hinge of my walnut cabinet broke on the second day"
FACTS = {"facts": [{"key": "wood", "content": "walnut cabinet", "evidence": FAULT}]}
DECIDED = {"facts": [{"field": "objective", "content": "a new hinge", "evidence": FAULT}]}
ENTRIES = {"entries": [{"content": FAULT, "source": "user_assertion", "evidence": FAULT}]}
LESSON = {"profile": FACTS["facts"], "session": DECIDED["facts"], **ENTRIES}
_INCOMPLETE = """select c.generation, c.kind, c.active, c.chain, c.after_depth, c.through_depth,
    c.token_count,
    (select count(*) from observations o where (o.resource_id, o.thread_id, o.generation)
        = (c.resource_id, c.thread_id, c.generation))
from compactions c where c.resource_id = %s order by c.generation"""
_EXTRACTED = "select run_id, count(*) from extractions where resource_id = %s group by run_id"


def observed(body: Any) -> Response:
    """Note the code of each page; of messages without one, that they were read. A slice without a note would
    be waited for after the run."""
    text = json.dumps(body["messages"])
    found = re.findall(r"page (\d+): the code is (K-\d+)", text)
    lines = [f"* INFO (00:00) page {p} has the code {c}" for p, c in found]
    return say("\n".join(lines or [f"* INFO (00:00) looked again, {crc32(text.encode())}"]))


def reflected(_: Any) -> Response:
    """Drops the first observation."""
    return say(json.dumps({"drop": [1], "merge": []}))


def learned(answer: Any) -> Any:
    """Of the turn in which the fault was told, and of no other."""
    nothing: dict[str, list[Any]] = {name: [] for name in answer}
    return lambda body: say(
        json.dumps(answer if FAULT in json.dumps(body["messages"]) else nothing)
    )


OPENED = 40
"""Characters of the first page that are not opened again: they name it, and it is observed once."""


def next_page(body: Any) -> Response:
    """Read page after page, then list their results and open the first one again."""
    newest = body["messages"][-1]
    if '"characters"' in str(newest["content"]):
        first = json.loads(newest["content"])[0]["id"]
        return call("read_result", id=first, start=OPENED)
    read = re.findall(r"page (\d+):", str(newest["content"])) if newest["role"] == "tool" else []
    page = max(map(int, read), default=0) + 1
    if (page <= PAGES and read) or newest["role"] == "user":
        return call("read_note", page=page)
    return call("read_result") if read else say("done")


@dataclass
class Memory:
    """The memory of one user after two runs."""

    entries: list[str] = field(default_factory=list)
    profile: Any = None
    session: Any = None
    observations: list[str] = field(default_factory=list)
    generations: list[tuple[Any, ...]] = field(default_factory=list)
    extracted: list[int] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    messages: int = 0
    trace: list[Line] = field(default_factory=list)


EMBEDDER = {"LAYOVER_EMBEDDER_MODEL": "hashing/256"}
"""Variables of a system that may learn everything."""


def teach(provider: FakeOpenAI) -> None:
    """The provider's memory models answer the same way every time."""
    provider.respond_with(observed, task="observer")
    provider.respond_with(reflected, task="reflector")
    provider.respond_with(learned(LESSON), task="lesson")


def live(client: Client, thread: str) -> Memory:
    """Read the pages, tell the fault, and wait until both were remembered."""
    brain = client.system.brain
    texts = [brain.mind(next_page, "read the pages"), brain.mind(lambda _: say("sorry"), FAULT)]
    run_ids: list[str] = []
    for text in texts:
        path = f"/threads/{thread}/runs"
        key = f"{client.name}-{len(run_ids)}"
        run = client.want(202, "POST", path, {"input": text}, idempotency_key=key)
        assert client.over(run["id"])["status"] == "success"
        client.closed(run["id"])
        run_ids.append(run["id"])
    return look(client, thread)


def look(client: Client, thread: str) -> Memory:
    system, name = client.system, client.name
    kept = client.want(200, "GET", f"/threads/{thread}/memory")
    listed = client.want(200, "GET", "/memory/entries?agent=learner")["items"]
    return Memory(
        entries=[entry["content"] for entry in listed],
        profile=client.want(200, "GET", "/memory/profile?agent=learner")["profile"],
        session=kept["session"],
        observations=[o["text"] for o in kept["observations"] if o["active"]],
        generations=system.sql(_INCOMPLETE, name),
        extracted=[row[1] for row in system.sql(_EXTRACTED, name)],
        pages=[line["what"] for line in system.ledger_of(name)],
        messages=len(client.caller.messages(thread)),
        trace=system.trace(name),
    )


def judge(memory: Memory) -> None:
    """Everything once, and every generation whole."""
    assert memory.pages == [f"page {n + 1}" for n in range(PAGES)]
    assert memory.messages == 1 + 2 * PAGES + 4 + 1 + 2, "pages, a list, a page again, the answer"
    assert memory.entries == [FAULT]
    assert memory.profile == {"wood": "walnut cabinet"}
    assert memory.session["objective"] == "a new hinge"
    assert memory.extracted == [1, 1], "each run is extracted once"
    assert memory.observations
    assert len(set(memory.observations)) == len(memory.observations), "no page is observed twice"
    ends = {number: through for number, _, _, _, _, through, _, _ in memory.generations}
    for number, kind, active, chain, after, _, tokens, count in memory.generations:
        assert min(count, tokens) > 0, f"{kind} {number} is half there"
        assert bool(chain) == active
        if active:
            assert chain[-1] == number
        if active and len(chain) > 1:
            assert ends[chain[-2]] == after, "a chain without gaps"
