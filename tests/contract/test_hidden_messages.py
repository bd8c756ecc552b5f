"""Reading hidden messages again: only the run's own path, in memory and on Postgres."""

from typing import Any

import pytest

from layover.plugins.memory.reads.blocks import compaction_block
from layover.plugins.memory.reads.hidden_messages import messages_tool
from layover.values.runs.run import RunMeta, Status
from support.worlds.compaction import Branches
from support.worlds.threads import START, Stores


async def read(talk: Branches, through: str | None, **args: Any) -> list[str]:
    """Return the texts that a run of this thread reads, whose prompt hides all up to `through`."""
    meta = RunMeta(
        id="run",
        owner=talk.owner,
        thread_id=talk.id,
        agent="support",
        status=Status.RUNNING,
        input=talk.message("input", "f"),
        created_at=START,
        updated_at=START,
    )
    answer = await messages_tool(meta, talk.memory, lambda: through)(**args)
    return [each["text"] for each in answer["messages"]]


def texts(*ids: str) -> list[str]:
    return [f"text of {id}" for id in ids]


async def test_what_is_not_hidden_is_not_read(branches: Branches) -> None:
    assert await read(branches, None) == []
    assert await read(branches, "c") == texts("a", "b", "c")
    assert await read(branches, "c", first=3, to=9) == texts("c")
    assert await read(branches, "c", query="text of e") == texts("a", "b", "c")


async def test_a_compaction_says_which_messages_each_stretch_has(branches: Branches) -> None:
    assert (await branches.compacted("f")).stretches == ()
    await branches.observe(None, "b")
    await branches.observe("b", "c")
    compacted = await branches.compacted("f")
    stretches = [(s.after_depth, s.through_depth, s.observations) for s in compacted.stretches]
    assert stretches == [(-1, 1, 1), (1, 2, 1)]
    block = compaction_block(compacted).splitlines()
    numbers = [line for line in block if line.startswith(("Messages", "[It stands"))]
    assert numbers == [
        "Messages 1 to 2:",
        "Messages 3 to 3:",
        "[It stands for messages 1 to 3: read_messages shows them again.]",
    ]


async def test_another_branch_is_never_read(branches: Branches) -> None:
    await branches.line("b", "x", "y")
    assert await read(branches, "d") == texts("a", "b", "c", "d")
    assert await read(branches, "y") == texts("a", "b", "x", "y")
    assert texts("x")[0] not in await read(branches, "d", query="text x")


@pytest.mark.parametrize("args", [{}, {"first": 1, "to": 99}, {"query": "text of secret"}])
async def test_another_thread_and_another_user_are_never_read(
    branches: Branches, thread_stores: Stores, args: dict[str, Any]
) -> None:
    other = Branches(thread_stores, branches.owner, "other")
    await other.line(None, "secret", "more")
    stranger = Branches(thread_stores, f"{branches.owner}-stranger", "thread of a stranger")
    await stranger.line(None, "hidden", "too")
    for through in ("more", "too", "nobody"):
        assert await read(branches, through, **args) == []
    stranger.id = branches.id
    assert await read(stranger, "f", **args) == []


async def test_a_refused_message_is_not_shown(branches: Branches) -> None:
    (first, *rest) = branches.chain("f", "g", "h")
    await branches.save(first, *rest, refused=("g",))
    shown = await read(branches, "h", first=7)
    assert shown == ["[refused: you are not shown this message]", "text of h"]
    assert await read(branches, "h", query="g") == []
