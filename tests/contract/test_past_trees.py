"""What every store of threads gives back of runs that are over, and what it gives back without storing it."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from layover.records.past_runs import tree_of
from layover.values.memory.context import IndexedText, RecallQuery, StepUsage
from layover.values.message import Message, Role, TextPart, ToolResultPart
from layover.values.runs.run import Status
from layover.values.runs.status import ErrorInfo, FinishReason
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run
from support.worlds.threads import START, Conversation, Stores

SPENT = Usage(input_tokens=200, output_tokens=120, cost_usd=Decimal("0.000102"))
LATER = START + timedelta(seconds=60)


@pytest.fixture
def talk(thread_stores: Stores, owner: str) -> Conversation:
    return Conversation(thread_stores.threads, owner)


def run_of(messages: tuple[Message, ...], **fields: Any) -> Run:
    """A run with these messages, the input first."""
    usual: dict[str, Any] = {
        "id": "run",
        "thread_id": "thread",
        "agent": "support",
        "status": Status.SUCCESS,
        "finish_reason": FinishReason.STOP,
        "text": messages[-1].text,
        "usage": SPENT,
        "model": "m",
        "created_at": messages[0].created_at,
        "updated_at": LATER,
    }
    return Run(**{**usual, "input": messages[0], "messages": messages[1:], **fields})


def row(step: str = "a", **fields: Any) -> StepUsage:
    usual = {"step": step, "agent": "support", "model": "m", "usage": SPENT, "at": LATER}
    return StepUsage(**{**usual, **fields})


async def read_back(talk: Conversation, run_id: str = "run") -> tuple[dict[str, Any], list[str]]:
    """The tree and the messages of a run that is over."""
    past = await talk.store.past_run(talk.owner, run_id)
    assert past is not None
    assert past.thread_id == talk.id
    return past.tree, [m.id for m in past.messages]


async def test_the_run_of_a_thread_that_was_erased_is_gone(talk: Conversation) -> None:
    messages = talk.chain(None, "q", "a")
    await talk.save(*messages, usage=(row(),), snapshot=tree_of(run_of(messages)))
    await talk.store.erase(talk.owner, talk.id)
    assert await talk.store.past_run(talk.owner, "run") is None
    await talk.save(*messages, usage=(row(),), snapshot=tree_of(run_of(messages)))
    assert await talk.store.past_run(talk.owner, "run") is None


async def test_a_run_is_nobody_elses(talk: Conversation) -> None:
    messages = talk.chain(None, "q", "a")
    stranger = Conversation(talk.store, f"{talk.owner}-stranger")
    await stranger.say(None, "q", "a")
    await talk.save(*messages, usage=(row(),), snapshot=tree_of(run_of(messages)))
    assert await stranger.store.past_run(stranger.owner, "run") is None


async def test_a_message_of_the_same_id_in_another_thread_is_not_the_runs(
    talk: Conversation,
) -> None:
    other = Conversation(talk.store, talk.owner, id="other")
    first = [m.model_copy(update={"run_id": "another"}) for m in other.chain(None, "x", "y", "a")]
    await other.save(*first)
    messages = talk.chain(None, "q", "a")
    await talk.save(*messages, usage=(row(),), snapshot=tree_of(run_of(messages)))
    assert (await read_back(talk))[1] == ["q", "a"]


VARIANTS: dict[str, tuple[dict[str, Any], tuple[StepUsage, ...]]] = {
    "usual": ({}, (row(),)),
    "several rows": (
        {"usage": Usage.total([SPENT, SPENT])},
        (row(), row("b", agent="desk", model="n")),
    ),
    "failed without usage": (
        {
            "status": Status.FAILED,
            "finish_reason": FinishReason.ERROR,
            "usage": Usage(),
            "model": None,
            "error": ErrorInfo(type="ModelError", message="no"),
        },
        (),
    ),
    "failed behind a call": (
        {"status": Status.FAILED, "finish_reason": FinishReason.ERROR},
        (row(),),
    ),
    "without a reason": ({"status": Status.CANCELLED, "finish_reason": None}, (row(),)),
    "that changed behind its last answer": ({"updated_at": LATER + timedelta(days=1)}, (row(),)),
    "that changed before its row": ({}, (row(at=LATER + timedelta(milliseconds=120)),)),
    "of another model": ({"model": "n"}, (row(),)),
    "without a model": ({"model": None}, (row(),)),
    "of another agent": ({"agent": "other"}, (row(),)),
    "of an unknown price": (
        {"usage": SPENT.model_copy(update={"cost_usd": None})},
        (row(usage=SPENT.model_copy(update={"cost_usd": None})),),
    ),
    "of another price": (
        {"usage": SPENT.model_copy(update={"cost_usd": Decimal("0.1")})},
        (row(),),
    ),
    "that spent nothing": ({"usage": Usage()}, (row(),)),
    "with what its sub-agents spent": (
        {"usage": SPENT.model_copy(update={"sub_agents": ({"agent": "desk"},)})},
        (row(),),
    ),
    "accepted earlier": ({"created_at": START - timedelta(seconds=5)}, (row(),)),
    "with an output": ({"output": {"z": 1, "a": [None]}}, (row(),)),
    "with an output of null": ({"output": {"status": None}}, (row(),)),
}


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_tree_of_a_run_comes_back_as_it_was(talk: Conversation, variant: str) -> None:
    await talk.say(None, "before")
    fields, usage = VARIANTS[variant]
    messages = talk.chain("before", "q", "a", "b")
    tree = tree_of(run_of(messages, **fields))
    await talk.save(*messages, usage=usage, snapshot=tree)
    await talk.say("b", "after")
    assert await read_back(talk) == (tree, ["q", "a", "b"])


async def test_children_come_back_with_their_messages(talk: Conversation) -> None:
    messages = talk.chain(None, "q", "a")
    child = run_of(talk.chain(None, "cq", "ca"), id="child", agent="desk", model=None)
    tree = tree_of(run_of(messages, children=(child,)))
    await talk.save(*messages, usage=(row(),), snapshot=tree)
    assert await read_back(talk) == (tree, ["q", "a"])
    assert tree["run"]["children"][0]["messages"][0]["content"][0]["text"] == "text of ca"


async def test_a_run_without_an_answer_has_its_input(talk: Conversation) -> None:
    messages = talk.chain(None, "q")
    tree = tree_of(run_of(messages))
    await talk.save(*messages, usage=(row(),), snapshot=tree)
    assert await read_back(talk) == (tree, ["q"])


async def test_a_run_that_forked_has_the_messages_of_its_path(talk: Conversation) -> None:
    await talk.say(None, "p", "x", "y")
    messages = talk.chain("p", "q", "a")
    tree = tree_of(run_of(messages))
    await talk.open(messages[0])
    await talk.say("q", "edited")
    await talk.save(*messages, usage=(row(),), snapshot=tree)
    assert await talk.path("a") == ["p", "q", "a"]
    assert await read_back(talk) == (tree, ["q", "a"])


async def test_the_last_tree_of_a_run_counts(talk: Conversation) -> None:
    messages = talk.chain(None, "q", "a", "b")
    first, last = tree_of(run_of(messages[:2])), tree_of(run_of(messages, output="done"))
    await talk.save(*messages[:2], usage=(row(),), snapshot=first)
    await talk.save(*messages, usage=(row(),), snapshot=last)
    assert await read_back(talk) == (last, ["q", "a", "b"])
    later = row(at=LATER + timedelta(seconds=1))
    again = tree_of(run_of(messages, output="again"))
    await talk.save(*messages, usage=(later,), snapshot=again)
    assert await read_back(talk) == (again, ["q", "a", "b"])


async def test_a_tree_stays_when_more_was_spent_since(talk: Conversation) -> None:
    messages = talk.chain(None, "q", "a")
    # Its time is not its row's, which becomes later.
    tree = tree_of(run_of(messages, usage=Usage(), updated_at=START))
    await talk.save(*messages, usage=(row(),), snapshot=tree)
    await talk.save(*messages, usage=(row(at=LATER + timedelta(seconds=1)),))
    assert await read_back(talk) == (tree, ["q", "a"])


async def test_a_run_that_had_spent_nothing_goes_on(talk: Conversation) -> None:
    messages = talk.chain(None, "q", "a")
    early = tree_of(run_of(messages[:1], usage=Usage(), status=Status.CANCELLED))
    await talk.save(messages[0], snapshot=early)
    assert await read_back(talk) == (early, ["q"])
    tree = tree_of(run_of(messages))
    await talk.save(*messages, usage=(row(),), snapshot=tree)
    assert await read_back(talk) == (tree, ["q", "a"])


@pytest.mark.parametrize("usage", [(), (row(),)], ids=["without usage", "with usage"])
@pytest.mark.parametrize("version", [1, 2])
async def test_a_tree_of_before_names_its_messages(
    talk: Conversation, version: int, usage: tuple[StepUsage, ...]
) -> None:
    messages = talk.chain(None, "q", "a")
    tree = {"version": version, "message_ids": ["q", "a"], "run": {"text": "ü", "model": None}}
    await talk.save(*messages, usage=usage, snapshot=tree)
    assert await read_back(talk) == (tree, ["q", "a"])


async def test_of_two_equal_ids_in_one_call_the_first_stays(talk: Conversation) -> None:
    question = talk.message("q", None)
    first, second = (
        talk.message("a", "q", Role.ASSISTANT, TextPart(text=text)) for text in ("first", "second")
    )
    await talk.save(question, first, second, talk.message("b", "a", Role.ASSISTANT))
    assert await talk.path("b") == ["q", "a", "b"]
    stored = await talk.store.message(talk.owner, talk.id, "a")
    assert stored == first


async def test_every_reader_tells_the_parent(talk: Conversation) -> None:
    await talk.say(None, "a", "b", "c", "d")
    await talk.say("b", "e", "f", "g")
    await talk.say(None, "root")
    parents = {"a": None, "b": "a", "c": "b", "d": "c", "e": "b", "f": "e", "g": "f"}
    for id, parent in {**parents, "root": None}.items():
        message = await talk.store.message(talk.owner, talk.id, id)
        assert message is not None
        assert message.parent_id == parent
    context = await talk.store.open_turn(talk.query(talk.message("next", "g")))
    path = ["a", "b", "e", "f", "g"]
    assert [(m.id, m.parent_id) for m in context.history] == [(id, parents[id]) for id in path]
    pinned = talk.query(talk.message("next", "g")).model_copy(update={"pinned_depth": 2})
    context = await talk.store.open_turn(pinned)
    assert [(m.id, m.parent_id) for m in context.history] == [(id, parents[id]) for id in path[2:]]
    for limit in (1, 2, 3):
        cursor, found = None, []
        while True:
            page = await talk.store.messages(talk.owner, talk.id, "g", limit, cursor)
            assert page is not None
            found += [(m.id, m.parent_id) for m in page.items]
            if (cursor := page.next_cursor) is None:
                break
        assert found == [(id, parents[id]) for id in path]


async def test_every_reader_beside_the_turn_tells_the_parent(
    talk: Conversation, thread_stores: Stores
) -> None:
    memory, owner = thread_stores.memory, talk.owner
    await talk.say(None, "a", "b", "c", "d")
    messages = talk.chain("b", "e", "f", "g")
    await talk.save(*messages, usage=(row(),), snapshot=tree_of(run_of(messages)))
    parents = {"a": None, "b": "a", "c": "b", "d": "c", "e": "b", "f": "e", "g": "f"}
    past = await talk.store.past_run(owner, "run")
    assert past is not None
    found = {
        "tree": {m.id: m.parent_id for m in past.messages},
        "export": {
            m["id"]: m["parent_id"]
            for m in (await memory.list_stored(owner, "messages", None, 100, talk.id)).items
        },
    }
    for after, through in ((None, "g"), ("b", "g"), ("e", "f"), ("a", "d")):
        span = await memory.span(owner, talk.id, after, through)
        assert span is not None
        found[f"{after}-{through}"] = {m.id: m.parent_id for m in span.messages}
    texts = [
        IndexedText(thread_id=talk.id, message_id=id, agent="support", text=id) for id in "aefg"
    ]
    await memory.index_messages(owner, texts)
    query = RecallQuery(agent="support", text="f", now=START, thread_id=talk.id)
    recalled = await memory.recall(owner, query)
    found["recall"] = {r.message.id: r.message.parent_id for r in recalled}
    stale = await memory.stale_messages(owner, "support", "m", None, "", 10)
    found["stale"] = {m.id: m.parent_id for m in stale}
    expected = {
        "tree": "efg",
        "export": "abcdefg",
        "None-g": "abefg",
        "b-g": "efg",
        "e-f": "f",
        "a-d": "bcd",
        "recall": "aefg",
        "stale": "aefg",
    }
    assert found == {who: {id: parents[id] for id in ids} for who, ids in expected.items()}


@pytest.mark.parametrize("result", ["", "=", "=x", "==", "sunny", {"sky": "blue"}, None])
@pytest.mark.parametrize("output", ["", "=", "=x", "==", "sunny", '{"sky": "blue"}', None])
async def test_what_a_model_saw_of_a_result_comes_back(
    talk: Conversation, result: Any, output: str | None
) -> None:
    part = ToolResultPart(tool_call_id="c", tool_name="look", result=result)
    asked, told = (
        talk.message("q", None),
        talk.message("t", "q", Role.TOOL, part, model_output=output),
    )
    custom = talk.message("c", "t", Role.CUSTOM, model_output=output)
    await talk.save(asked, told, custom)
    context = await talk.store.open_turn(talk.query(talk.message("next", "c")))
    assert context.history == (asked, told, custom)
    assert await talk.store.message(talk.owner, talk.id, "t") == told
    page = await talk.store.messages(talk.owner, talk.id, "c", 10, None)
    assert page is not None
    assert page.items == (asked, told, custom)
