"""Histories of named steps of workflows."""

import asyncio
import gzip
import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from layover import Agent, Memory, NodeMemory, ToolContext, tool
from layover.errors import ConfigurationError, NewerFormat, NotFound, RetryableError
from layover.files.node_log import COMPRESS_ABOVE, NodeLog
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.model import ScriptedModel, call, calls, fail, say
from layover.keys import Keys
from layover.threads import threads
from layover.values.deployment.settings import Settings
from layover.values.message import FilePart, Message, Role, TextPart
from layover.values.runs.run import Status
from layover.values.runs.views import Run
from layover.wiring import in_memory_runtime
from support.worlds.runs import ANN, Bench


class Slow(InMemoryBlobs):
    """Lets all other writers go first: a writer that read before is late."""

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        await asyncio.sleep(0)
        return await super().put_if(key, data, content_type, tag)

    async def delete(self, key: str) -> None:
        await asyncio.sleep(0)
        await super().delete(key)


class ReadOnly(InMemoryBlobs):
    """Takes nothing once it is full."""

    full = False

    async def put_if(self, key: str, data: bytes, content_type: str, tag: str | None) -> bool:
        if self.full:
            raise RetryableError("S3 answered SlowDown")
        return await super().put_if(key, data, content_type, tag)


async def bench(blobs: InMemoryBlobs | None = None, **settings: Any) -> Bench:
    """Ports with a thread `t1` of ANN's."""
    made = Bench(
        Agent("helper", model="m"),
        [say("ok")],
        blobs=blobs or InMemoryBlobs(),
        settings=Settings(**settings),
    )
    await made.go()
    return made


def node(made: Bench, node_id: str = "n", thread: str = "t1") -> NodeLog:
    return NodeLog(made.plain, ANN, "helper", thread, node_id)


async def old(days: int | None = 7, blobs: InMemoryBlobs | None = None) -> tuple[Bench, NodeLog]:
    """A node that goes after so many days, and remembers `old` since now."""
    blobs = blobs or InMemoryBlobs()
    made = await bench(blobs, node_memory_days=days)
    blobs._clock = made.clock
    log = node(made)
    await log.add([{"content": "old", "message_id": "m"}])
    await log.flush()
    return made, log


async def stored(made: Bench, log: NodeLog) -> Any:
    data = await made.plain.blobs.get(log.key)
    return None if data is None else json.loads(data)


def texts(entries: list[dict[str, Any]]) -> list[Any]:
    return [e["content"] for e in entries]


async def test_outside_a_thread_there_is_no_node_memory() -> None:
    with pytest.raises(ConfigurationError):
        ToolContext.for_test(thread_id=None).node_memory("n")


async def test_a_run_without_a_thread_has_no_node_memory_not_even_after_an_approval() -> None:
    places: list[str | None] = []

    async def noted(ctx: ToolContext) -> int:
        """Note."""
        places.append(ctx.thread_id)
        node = ctx.node_memory("n")
        await node.add([{"content": "x"}])
        return len(await node.history())

    script = [calls(call("now"), call("later", tool_call_id="c")), say("done")]
    tools = [tool(name="now")(noted), tool(name="later", needs_approval=True)(noted)]
    helper = Agent("helper", tools=tools, tool_concurrency=2)
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel([*script, *script]))
    for thread_id in (None, "t"):
        run = await helper.generate("hi", thread_id=thread_id)
        done = await helper.approve(run.run_id, "c")
        results = [m.content[0] for m in done.messages if m.role is Role.TOOL]
        assert [r.is_error for r in results] == [thread_id is None] * 2  # type: ignore[union-attr]
    assert places == [None, None, "t", "t"]


async def test_an_agent_of_a_node_takes_no_run_without_a_thread() -> None:
    helper = Agent("helper", memory=Memory(history=NodeMemory("n")))
    helper.runtime = in_memory_runtime(helper, model=ScriptedModel([say("fine")]))
    with pytest.raises(ConfigurationError, match="thread_id"):
        await helper.generate("hi")
    assert helper.state().status == "idle"
    assert (await helper.generate("hi", thread_id="t")).text == "fine"


@pytest.mark.parametrize("node_id", ["", "x" * 301, "ü" * 51])
async def test_an_id_that_is_no_key_is_refused(node_id: str) -> None:
    with pytest.raises(ConfigurationError):
        node(await bench(), node_id)


async def test_what_is_no_message_is_refused() -> None:
    log = node(await bench())
    with pytest.raises(ValueError, match="dict or a Message"):
        await log.add(["hello"])


async def test_a_thread_that_is_gone_keeps_nothing() -> None:
    made = await bench()
    await threads.delete(made.plain, ANN, "t1")
    log = node(made)
    await log.add([{"role": "user", "content": "late"}])
    with pytest.raises(NotFound):
        await log.flush()
    assert await made.plain.blobs.keys("u/") == []


async def test_unknown_messages_have_no_history() -> None:
    log = node(await bench())
    assert await log.history() == []
    await log.add([{"content": "hi"}])
    assert await log.history("nobody") == []


async def test_a_document_of_a_newer_release_is_refused_and_left_alone() -> None:
    made = await bench()
    log = node(made)
    data = json.dumps({"version": 99, "messages": "of another shape"}).encode()
    await made.plain.blobs.put(log.key, data, "application/json")
    with pytest.raises(NewerFormat, match="version 99"):
        await log.history()
    await log.add([{"role": "user", "content": "hi"}])
    with pytest.raises(NewerFormat):
        await log.flush()
    assert await made.plain.blobs.get(log.key) == data


async def test_the_document_has_its_shape_and_its_place() -> None:
    made = await bench()
    log = node(made, "plan/ü")
    await log.add([{"role": "user", "content": "hi", "message_id": "m1"}])
    await log.flush()
    key = Keys(ANN).blob("node_memory", "helper", "t1", "plan/ü.json")
    assert log.key == key
    assert key.endswith("/node_memory/helper/t1/plan%2F%C3%BC.json")
    document = await stored(made, log)
    assert document == {
        "version": 1,
        "messages": [
            {
                "message_id": "m1",
                "parent_message_id": None,
                "role": "user",
                "content": "hi",
                "files": [],
                "token_count": 5,
                "created_at": "2026-01-01T00:00:00.000000Z",
            }
        ],
    }


async def test_what_was_added_is_seen_at_once_and_by_others_once_flushed() -> None:
    made = await bench()
    log = node(made)
    await log.add([{"content": "a"}, {"role": "assistant", "content": "b"}])
    assert texts(await log.history()) == ["a", "b"]
    assert await node(made).history() == []
    await log.flush()
    found = await node(made).history()
    assert texts(found) == ["a", "b"]
    assert found[1]["parent_message_id"] == found[0]["message_id"] != found[1]["message_id"]
    assert await node(made, "other").history() == []


async def test_what_is_said_again_stands_once() -> None:
    made = await bench()
    log = node(made)
    for text in ("first", "second"):
        await log.add([{"message_id": "m1", "content": text}, {"message_id": "m2", "content": "x"}])
        await log.flush()
    assert texts(await log.history()) == ["second", "x"]


async def test_ten_writers_at_once_lose_nothing() -> None:
    made = await bench(Slow())

    async def write(n: int) -> None:
        log = node(made)
        await log.add([{"content": f"{n}a"}, {"content": f"{n}b"}])
        await log.flush()

    await asyncio.gather(*(write(n) for n in range(10)))
    found = texts(await node(made).history())
    assert sorted(found) == sorted(f"{n}{x}" for n in range(10) for x in "ab")
    assert [a[0] for a in found[::2]] == [b[0] for b in found[1::2]]


async def test_history_follows_one_branch() -> None:
    log = node(await bench())
    await log.add(
        [
            {"message_id": "q", "content": "q"},
            {"message_id": "a1", "content": "a1"},
            {"message_id": "a2", "content": "a2", "parent_message_id": "q"},
            {"message_id": "lost", "content": "lost", "parent_message_id": "nobody"},
        ]
    )
    assert texts(await log.history("a1")) == ["q", "a1"]
    assert texts(await log.history("a2")) == ["q", "a2"]
    assert texts(await log.history()) == ["lost"]


async def test_the_newest_that_fit_are_shown_and_equality_fits() -> None:
    log = node(await bench())
    await log.add([{"content": str(n), "token_count": 10} for n in range(4)])
    assert texts(await log.history(max_tokens=20)) == ["2", "3"]
    assert texts(await log.history(max_tokens=19)) == ["3"]
    assert texts(await log.history(max_tokens=9)) == []


async def test_files_are_references_and_come_back_as_parts() -> None:
    made = await bench()
    part = FilePart(file_id="f1", name="a.png", mime_type="image/png")
    message = Message(
        id="m",
        thread_id="t1",
        role=Role.USER,
        content=(TextPart(text="see"), part),
        created_at=made.clock.now(),
    )
    log = node(made)
    await log.add([message, {"content": "and", "files": ["f2", part]}])
    await log.flush()
    document = await stored(made, log)
    reference = {"file_id": "f1", "name": "a.png", "mime_type": "image/png"}
    assert document["messages"][0]["files"] == [reference]
    assert document["messages"][1]["files"] == [{"file_id": "f2"}, reference]
    first, second = await node(made).history()
    assert (first["content"], first["message_id"]) == ("see", "m")
    assert first["files"] == [part.model_dump()]
    assert [f["file_id"] for f in second["files"]] == ["f2", "f1"]


async def test_a_large_document_is_compressed() -> None:
    made = await bench()
    log = node(made)
    await log.add([{"content": "x" * COMPRESS_ABOVE}])
    await log.flush()
    data = await made.plain.blobs.get(log.key)
    assert data is not None
    assert len(data) < 1000
    assert json.loads(gzip.decompress(data))["version"] == 1
    assert texts(await node(made).history()) == ["x" * COMPRESS_ABOVE]


async def test_what_was_cleared_is_forgotten() -> None:
    made = await bench()
    log, beside = node(made), node(made, "n.json")
    for each in (log, beside):
        await each.add([{"content": "a"}])
        await each.flush()
    await log.add([{"content": "b"}])
    await log.clear()
    assert await log.history() == []
    assert texts(await beside.history()) == ["a"]


async def test_what_nobody_used_for_too_long_is_empty() -> None:
    made, log = await old()
    made.clock.advance(timedelta(days=7))
    assert await log.history() == []
    assert (await stored(made, log))["messages"] == [], "it is removed, not only hidden"
    await log.add([{"content": "new"}])
    await log.flush()
    assert texts(await node(made).history()) == ["new"]


async def test_what_nobody_read_for_too_long_is_written_over() -> None:
    made, log = await old()
    made.clock.advance(timedelta(days=7))
    await log.add([{"content": "new"}])
    await log.flush()
    assert texts(await node(made).history()) == ["new"]


async def test_what_is_read_is_used() -> None:
    made, log = await old()
    for read in (log.history, partial(log.branch, ["m"]), log.history):
        made.clock.advance(timedelta(days=6))
        assert texts(await read()) == ["old"]


@pytest.mark.parametrize("days", [1, 2, 7, None])
async def test_reading_writes_once_a_day_twice_where_a_day_is_all_and_never_where_nothing_goes(
    days: int | None,
) -> None:
    made, log = await old(days)
    written: set[datetime] = set()
    for _ in range(48):
        made.clock.advance(timedelta(hours=1))
        assert texts(await log.history()) == ["old"]
        facts = await made.plain.blobs.head(log.key)
        assert facts is not None
        written.add(facts.modified_at)
    assert len(written) - 1 == {1: 4, 2: 2, 7: 2, None: 0}[days]


async def test_what_somebody_adds_while_it_is_removed_stays() -> None:
    made, log = await old(blobs=Slow())
    made.clock.advance(timedelta(days=7))
    other = node(made)
    await other.add([{"content": "new"}])
    await asyncio.gather(other.flush(), log.history())
    assert texts(await node(made).history()) == ["new"]


async def test_a_use_that_cannot_be_noted_costs_nothing() -> None:
    blobs = ReadOnly()
    made, log = await old(blobs=blobs)
    blobs.full = True
    made.clock.advance(timedelta(days=6))
    assert texts(await log.history()) == ["old"]


async def test_node_memory_goes_with_its_thread() -> None:
    made = await bench()
    for node_id in ("n", "n/1", ".."):
        log = node(made, node_id)
        await log.add([{"content": "a"}])
        await log.flush()
    await threads.delete(made.plain, ANN, "t1")
    assert await made.plain.blobs.keys("u/") == []


async def test_a_tool_has_nodes() -> None:
    @tool
    async def note(ctx: ToolContext, text: str) -> int:
        """Note."""
        log = ctx.node_memory("notes")
        await log.add([{"role": "user", "content": text}])
        await log.flush()
        return len(await log.history())

    made = Bench(
        Agent("helper", model="m", tools=[note]),
        [call("note", text="a"), call("note", text="b"), say("done")],
    )
    assert (await made.go()).status is Status.SUCCESS
    assert texts(await node(made, "notes").history()) == ["a", "b"]


def shown(made: Bench, turn: int) -> list[str]:
    """User and assistant texts of a prompt."""
    return [m.text for m in made.model.prompts[turn].messages]


async def test_an_agent_of_a_node_sees_the_nodes_history_and_not_the_threads() -> None:
    agent = Agent("helper", model="m", memory=Memory(history=NodeMemory("n")))
    made = Bench(agent, [say("one"), say("two"), say("three")])
    await made.go("1")
    made.agent = made.agents["helper"] = Agent("helper", model="m")
    await made.go("2")
    made.agent = made.agents["helper"] = agent
    await made.go("3")
    assert shown(made, 1) == ["1", "one", "2"]
    assert shown(made, 2) == ["1", "one", "3"]
    assert texts(await node(made).history()) == ["1", "one", "3", "three"]


async def test_what_was_said_in_turns_that_failed_or_were_cancelled_is_remembered() -> None:
    @tool
    async def leave(ctx: ToolContext) -> str:
        """The user presses stop while this runs, and the process dies: the next one sees it."""
        await made.plain.journal.commands.request_cancel(ANN, ctx.run_id)
        made.power.dead = True
        return "left"

    agent = Agent("helper", model="m", tools=[leave], memory=Memory(history=NodeMemory("n")))
    script = [calls(call("leave"), text="one"), fail(), calls(call("nope"), text="three"), fail()]
    made = Bench(agent, [*script, say("four")])
    ends = [(await made.go(text)).status for text in ("1", "2", "3", "4")]
    assert ends == [Status.CANCELLED, Status.FAILED, Status.FAILED, Status.SUCCESS]
    assert shown(made, -1) == ["1", "one", "3", "three", "4"], "the second had one side only"
    assert texts(await node(made).history()) == ["1", "one", "3", "three", "4", "four"]


async def test_a_turn_that_ends_on_a_later_attempt_is_remembered_once() -> None:
    agent = Agent("helper", model="m", memory=Memory(history=NodeMemory("n")))
    made = Bench(agent, [say("one")])
    made.threads.away = True
    await made.go("1")
    assert texts(await node(made).history()) == ["1", "one"]


async def test_a_thread_deleted_meanwhile_leaves_nothing_in_a_node() -> None:
    @tool
    async def leave(ctx: ToolContext) -> str:
        """Delete the thread."""
        await made.plain.journal.erasure.mark_deleted(ANN, "t1")
        return "gone"

    memory = Memory(history=NodeMemory("n"))
    made = Bench(
        Agent("helper", model="m", tools=[leave], memory=memory), [call("leave"), say("x")]
    )
    await made.go("1")
    assert await made.plain.blobs.keys("u/") == []


async def test_a_run_from_an_earlier_message_sees_that_branch() -> None:
    agent = Agent("helper", model="m", memory=Memory(history=NodeMemory("n")))
    made = Bench(agent, [say("one"), say("two"), say("other"), say("fresh")])
    first: Run = await made.go("1")
    await made.go("2")
    await made.go("2b", parent_id=first.messages[-1].id)
    assert shown(made, 2) == ["1", "one", "2b"]
    await made.go("new", parent_id=None)
    assert shown(made, 3) == ["new"]


async def test_a_long_node_shows_its_newest_turns() -> None:
    agent = Agent("helper", model="m", memory=Memory(history=NodeMemory("n"), last_messages=8))
    made = Bench(agent, [say(f"a{n}") for n in range(11)])
    for n in range(11):
        await made.go(f"q{n}")
    sizes = [len(p.messages) - 1 for p in made.model.prompts]
    assert sizes == [0, 2, 4, 6, 8, 10, 12, 10, 12, 10, 12]
