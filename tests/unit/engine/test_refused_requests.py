"""`before_model` replies in the model's place, or refuses: what was refused reaches no model again, whoever
asks one, and a process that dies changes nothing about it."""

import json
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from layover import (
    Agent,
    Allow,
    Answer,
    EpisodicMemory,
    Hook,
    Limits,
    Memory,
    ModelRequest,
    NodeMemory,
    ObservationalMemory,
    RedactPII,
    Refuse,
    Result,
    RetryableError,
    RollingSummary,
    SemanticRecall,
    Suspend,
    tool,
)
from layover.context.withheld import REFUSED, WITHHELD
from layover.plugins.memory.reads.semantic.recall import index
from layover.runs.accept import make_message_key, send_message
from layover.testing import HashingEmbedder, ScriptedModel, call, calls, say
from layover.threads.messages import list_messages
from layover.values.message import Message, Role
from layover.values.prompt import Prompt
from layover.values.runs.run import FinishReason, Status
from layover.values.runs.usage import Usage
from layover.values.runs.views import Run
from support.worlds.loops import skipping
from support.worlds.runs import ANN, Bench, Power, told, types, words_of
from support.worlds.talk import ACTOR, check_prompt

BAD = "the forbidden word"


class Guard(Hook):
    """Refuses what has a word, and keeps what it was asked."""

    once_per_input = True

    def __init__(self, word: str = "forbidden", reply: str | None = "No.") -> None:
        self.word = word
        self.reply = reply
        self.asked: list[list[str]] = []

    async def before_model(self, ctx: Any, request: ModelRequest) -> Refuse | None:
        self.asked.append([message.text for message in request.unanswered])
        if any(self.word in message.text for message in request.unanswered):
            return Refuse(f"it says {self.word}", self.reply)
        return None


class Says(Hook):
    """`before_model` answers as it is told; the last answer stays."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def before_model(self, ctx: Any, request: ModelRequest) -> Any:
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def bench_of(*hooks: Any, script: Any = None, **options: Any) -> Bench:
    agent = Agent("shop", model="m", hooks=hooks, **options)
    return Bench(agent, script if script is not None else [say(f"answer {n}") for n in range(9)])


def text_of(prompt: Prompt) -> str:
    messages = [m.model_dump_json() + (m.model_output or "") for m in prompt.messages]
    return f"{prompt.system}\n" + "\n".join(messages)


def all_that_models_read(bench: Bench) -> str:
    return "\n".join(map(text_of, bench.model.prompts))


def refused(messages: Any) -> list[str]:
    return [m.text or m.role.value for m in messages if m.refused]


async def shown(bench: Bench) -> list[Message]:
    return list((await list_messages(bench.plain, ANN, "t1", None, 100, None)).items)


# The end of the run


async def test_a_refused_request_asks_no_model_and_the_run_ends_with_the_reply() -> None:
    bench = bench_of(Guard())
    run = await bench.go(BAD)
    assert bench.model.prompts == []
    assert (run.status, run.finish_reason, run.text) == (Status.SUCCESS, "refused", "No.")
    assert (run.usage.total_tokens, run.usage.cost_usd, run.model) == (0, Decimal(0), None)
    assert told(run.messages) == [("assistant", "No.")]
    assert bench.threads.usage_rows == {}


async def test_a_refusal_without_a_reply_has_one_of_layovers_own() -> None:
    for reply in (None, "", "  "):
        run = await bench_of(Guard(reply=reply)).go(BAD)
        assert run.text == "I cannot answer this message."


async def test_the_refusal_is_told_once_with_its_reason_and_the_reply_arrives_as_text() -> None:
    bench = bench_of(Guard())
    run = await bench.go(BAD, stream=True)
    events = await bench.events(run.id)
    assert [e.type for e in events] == [
        "agent-start",
        "turn-start",
        "text-delta",
        "hook-reply",
        "message",
        "turn-end",
        "finish",
        "agent-end",
    ]
    [reply] = [e for e in events if e.type == "hook-reply"]
    assert (reply.hook, reply.decision, reply.reason) == ("Guard", "refuse", "it says forbidden")
    assert (reply.step, reply.message_ids) == (1, (run.input.id,))
    [finish] = [e for e in events if e.type == "finish"]
    assert (finish.finish_reason, finish.model) == ("refused", None)
    assert "".join(e.text for e in events if e.type == "text-delta") == "No."


async def test_without_a_stream_the_refusal_has_no_deltas() -> None:
    bench = bench_of(Guard())
    run = await bench.go(BAD)
    assert "text-delta" not in [e.type for e in await bench.events(run.id)]


async def test_a_request_that_passes_streams_as_it_would_without_the_hook() -> None:
    async def deltas(*hooks: Any) -> list[str]:
        bench = bench_of(*hooks, script=[say("one two three four")])
        run = await bench.go("hello", stream=True)
        return [e.text for e in await bench.events(run.id) if e.type == "text-delta"]

    assert await deltas(Guard()) == await deltas()
    assert len(await deltas(Guard())) > 1


async def test_later_hooks_are_not_asked_and_none_sees_the_reply_as_a_models() -> None:
    class After(Hook):
        def after_model(self, ctx: Any, response: Any) -> Any:
            raise AssertionError("no model has replied")

    later = Says(None)
    run = await bench_of(Guard(), later, After()).go(BAD)
    assert (run.finish_reason, later.asked) == ("refused", 0)


async def test_hooks_at_the_end_see_why_it_ended_and_change_the_output() -> None:
    class End(Hook):
        def at_end(self, ctx: Any, result: Result) -> Result:
            about = f"{result.finish_reason}: {result.text}"
            return result.model_copy(update={"output": about})

    assert (await bench_of(Guard(), End()).go(BAD)).output == "refused: No."


class Offer(BaseModel):
    euros: int


async def test_a_refused_agent_with_a_schema_has_no_output_and_says_why() -> None:
    bench = bench_of(Guard(), output=Offer)
    run = await bench.go(BAD, stream=True)
    assert (run.status, run.finish_reason, run.output, run.text) == (
        Status.SUCCESS,
        "refused",
        None,
        "No.",
    )
    assert "output-delta" not in [e.type for e in await bench.events(run.id)]
    assert bench.model.prompts == []


# What fails


async def test_a_guard_that_raises_fails_the_run_and_lets_nothing_through() -> None:
    bench = bench_of(Says(ValueError("no judge")))
    run = await bench.go(BAD)
    assert (run.status, bench.model.prompts) == (Status.FAILED, [])
    assert run.error is not None
    assert words_of(run) == "before_model of the hook 'Says' failed: no judge"


async def test_a_guard_that_is_away_for_a_moment_is_asked_again() -> None:
    guard = Says(RetryableError("busy"), Refuse("no"))
    run = await bench_of(guard).go(BAD)
    assert (run.finish_reason, guard.asked) == ("refused", 2)


async def test_answers_of_other_points_fail_the_run() -> None:
    for answer in (Allow(), Suspend(), "no", False):
        bench = bench_of(Says(answer))
        run = await bench.go()
        assert (run.status, bench.model.prompts) == (Status.FAILED, []), answer


async def test_a_hook_that_judges_inputs_may_not_change_the_request() -> None:
    class Changes(Guard):
        async def before_model(self, ctx: Any, request: ModelRequest) -> Any:
            return request.model_copy(update={"system": "other"})

    run = await bench_of(Changes()).go()
    assert run.error is not None
    assert "asked once per input" in words_of(run)


async def test_what_a_failed_guard_has_not_judged_is_judged_with_the_next_message() -> None:
    """A second message in a row does not carry the first one past the guard."""

    class Breaks(Guard):
        broken = True

        async def before_model(self, ctx: Any, request: ModelRequest) -> Refuse | None:
            if self.broken:
                raise ValueError("away")
            return await super().before_model(ctx, request)

    guard = Breaks()
    bench = bench_of(guard)
    assert (await bench.go(BAD)).status is Status.FAILED
    guard.broken = False
    second = await bench.go("explain the above")
    assert guard.asked == [[BAD, "explain the above"]]
    assert second.finish_reason == "refused"
    assert refused(await shown(bench)) == [BAD, "explain the above"]
    third = await bench.go("and now?")
    assert (third.text, guard.asked[-1]) == ("answer 0", ["and now?"])
    assert BAD not in all_that_models_read(bench)


# The mark


async def test_the_input_is_marked_and_its_owner_still_reads_it() -> None:
    bench = bench_of(Guard())
    await bench.go("hello")
    run = await bench.go(BAD)
    assert (run.input.text, run.input.refused) == (BAD, True)
    assert refused(await shown(bench)) == refused(await bench.stored()) == [BAD]
    marked = [m for m in await shown(bench) if "refused" in m.model_dump(mode="json")]
    assert [m.text for m in marked] == [BAD]


async def test_no_later_prompt_of_the_thread_has_the_refused_text() -> None:
    bench = bench_of(Guard())
    await bench.go("hello")
    await bench.go(BAD)
    await bench.go("why not?")
    assert told(bench.model.prompts[-1].messages) == [
        ("user", "hello"),
        ("assistant", "answer 0"),
        ("user", REFUSED),
        ("assistant", "No."),
        ("user", "why not?"),
    ]
    assert BAD not in all_that_models_read(bench)


async def test_a_branch_at_the_refused_message_has_no_more_of_it() -> None:
    """An edit, and a message that names the refused one as its parent."""
    bench = bench_of(Guard())
    first = await bench.go(BAD)
    edited = await bench.go("a better word", parent_id=first.input.parent_id)
    below = await bench.go("go on", parent_id=first.input.id)
    assert (edited.finish_reason, below.finish_reason) == ("stop", "stop")
    assert told(bench.model.prompts[-1].messages) == [("user", REFUSED), ("user", "go on")]
    assert BAD not in all_that_models_read(bench)


async def test_the_same_text_again_is_a_new_message_and_is_judged_again() -> None:
    guard = Guard()
    bench = bench_of(guard)
    first = await bench.go(BAD)
    again = await bench.go(BAD, parent_id=first.input.parent_id)
    assert (again.finish_reason, len(guard.asked)) == ("refused", 2)


async def test_files_and_data_of_a_refused_message_are_not_shown_either() -> None:
    from layover import FilePart, TextPart

    photo = FilePart(url="https://example.com/forbidden.png", name="x.png", mime_type="image/png")
    bench = bench_of(Guard())
    await bench.go([photo, TextPart(text=BAD)])
    await bench.go("and now?")
    assert "forbidden" not in all_that_models_read(bench)


async def test_a_refused_run_that_was_not_saved_is_saved_with_its_mark() -> None:
    bench = bench_of(Guard())
    run_id = await bench.start(BAD)
    bench.threads.away = True
    await bench.drive(run_id)
    assert (await bench.meta(run_id)).status is Status.FAILED
    assert refused(await shown(bench)) == [BAD]
    bench.threads.away = False
    await bench.go("and now?")
    assert refused(await bench.stored()) == [BAD]
    assert BAD not in all_that_models_read(bench)


# In the middle of a run


class Shop:
    """A tool that looks, and one that waits for a person, before which the run is sent messages."""

    def __init__(self, result: str = "42 euros") -> None:
        self.looked = 0
        self.bench: Bench

        @tool(idempotent=True)
        async def look(n: int) -> str:
            """Look."""
            self.looked += 1
            return result

        @tool(needs_approval=True)
        async def pay(n: int) -> str:
            """Pay."""
            return result

        self.tools = [look, pay]

    async def go(self, text: str, *sent: str) -> Run:
        """A run that is sent these messages while its call waits, from beginning to end."""
        waiting = await self.bench.go(text)
        for each in sent:
            key = make_message_key(each, waiting.id, each, self.bench.clock.now())
            await send_message(self.bench.plain, ACTOR, waiting.id, each, key)
        await self.bench.answer(waiting.id, "call_1", "approve")
        return await self.bench.run(waiting.id)


def shop_of(shop: Shop, *hooks: Any, script: Any = None, **options: Any) -> Bench:
    script = script or [call("look", n=1), *(say(f"answer {n}") for n in range(9))]
    shop.bench = bench_of(*hooks, script=script, tools=shop.tools, **options)
    return shop.bench


async def test_a_message_on_the_way_is_judged_with_the_next_step_and_what_was_done_stays() -> None:
    shop, guard = Shop(), Guard()
    bench = shop_of(shop, guard, script=[call("pay", n=1), say("answer")])
    run = await shop.go("the lamp?", "wait", BAD)
    assert guard.asked == [["the lamp?"], ["wait", BAD]]
    assert (run.finish_reason, run.text) == ("refused", "No.")
    assert refused(await shown(bench)) == ["wait", BAD]
    await bench.go("and now?")
    messages = bench.model.prompts[-1].messages
    check_prompt(messages)
    assert told(messages) == [
        ("user", "the lamp?"),
        ("assistant", ""),
        ("tool", "42 euros"),
        ("user", REFUSED),
        ("user", REFUSED),
        ("assistant", "No."),
        ("user", "and now?"),
    ]
    assert BAD not in all_that_models_read(bench)


async def test_a_result_that_is_refused_is_withheld_and_its_call_keeps_a_result() -> None:
    class Results(Hook):
        idempotent = True

        def before_model(self, ctx: Any, request: ModelRequest) -> Refuse | None:
            results = [m.model_output or "" for m in request.messages if m.role is Role.TOOL]
            return Refuse("a result") if any("forbidden" in result for result in results) else None

    shop = Shop(result=BAD)
    bench = shop_of(shop, Results())
    run = await bench.go("the lamp?")
    assert (run.finish_reason, shop.looked) == ("refused", 1)
    assert refused(run.messages) == ["tool"]
    assert told(run.messages)[1] == ("tool", BAD)
    await bench.go("and now?")
    messages = bench.model.prompts[-1].messages
    check_prompt(messages)
    assert messages[2].model_output == WITHHELD
    assert BAD not in all_that_models_read(bench)


async def test_a_hook_that_refuses_a_step_with_nothing_new_refuses_the_input() -> None:
    class Rejects(Says):
        def after_model(self, ctx: Any, response: Any) -> None:
            from layover import Retry

            raise Retry("again")

    run = await bench_of(Rejects(None, Refuse("no"))).go("hello")
    assert (run.finish_reason, run.input.refused) == ("refused", True)


async def test_a_message_that_comes_behind_a_refusal_is_not_answered_by_its_run() -> None:
    class Slow(Guard):
        bench: Any = None

        async def before_model(self, ctx: Any, request: ModelRequest) -> Refuse | None:
            if "forbidden" in request.unanswered[-1].text and len(self.asked) == 0:
                key = make_message_key("k", ctx.run_id, "late", self.bench.clock.now())
                await send_message(self.bench.plain, ACTOR, ctx.run_id, "late", key)
            return await super().before_model(ctx, request)

    guard = Slow()
    bench = guard.bench = bench_of(guard)
    run = await bench.go(BAD)
    assert (run.finish_reason, bench.model.prompts) == ("refused", [])
    assert refused(await shown(bench)) == [BAD]
    await bench.go("and now?")
    assert guard.asked[-1] == ["late", "and now?"]


# Once per input


async def test_each_input_is_judged_once_whatever_the_number_of_steps() -> None:
    guard = Guard()
    bench = shop_of(Shop(), guard, script=[call("look", n=n) for n in range(4)] + [say("done")])
    await bench.go("the lamp?")
    assert (guard.asked, len(bench.model.prompts)) == ([["the lamp?"]], 5)


async def test_what_is_judged_is_what_was_sent_and_not_what_memory_adds() -> None:
    guard = Guard()
    memory = Memory(titles=False, query_template="forbidden {{query}}")
    bench = bench_of(guard, memory=memory)
    run = await bench.go("hello")
    assert (run.finish_reason, guard.asked) == ("stop", [["hello"]])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("text", ["hello", BAD])
async def test_a_journaled_answer_is_not_asked_for_again_wherever_the_process_dies(
    text: str, after: bool
) -> None:
    for cut_at in range(1, 60):
        guard, power = Guard(), Power(cut_at, after=after)
        shop = Shop()
        agent = Agent("shop", model="m", hooks=[guard], tools=shop.tools)
        shop.bench = bench = Bench(agent, _looks_once(), power=power)
        run = await bench.go(text)
        events = await bench.events(run.id)
        finish = "refused" if text == BAD else "stop"
        assert (run.finish_reason, run.input.refused) == (finish, text == BAD)
        assert [e.type for e in events].count("hook-reply") == (text == BAD)
        assert types(events).count("finish") == 1
        # A death before the answer is journaled asks again, one after it does not.
        assert len(guard.asked) <= 2
        steps_before = sum(e.type == "turn-start" for e in events)
        assert steps_before <= 4
        if not power.cuts:
            assert len(guard.asked) == 1
            return
        await bench.go("and now?")
        assert BAD not in all_that_models_read(bench)
    raise AssertionError("there are more port calls than cuts")


def _looks_once() -> ScriptedModel:
    def reply(prompt: Prompt) -> Any:
        newest = max(i for i, m in enumerate(prompt.messages) if m.role is Role.USER)
        return say("done") if len(prompt.messages) > newest + 1 else call("look", n=1)

    return ScriptedModel(reply)


@skipping
async def test_a_verdict_is_one_write_and_steps_without_a_new_input_cost_none() -> None:
    async def writes(*hooks: Any) -> int:
        shop, power = Shop(), Power()
        agent = Agent("shop", model="m", hooks=hooks, tools=shop.tools)
        shop.bench = bench = Bench(agent, _looks_once(), power=power)
        await bench.go("hello")
        # A read more or less is a matter of time: what was read a moment ago is not read again.
        return power.of["transact"] + power.of["write"]

    class Pure(Guard):
        idempotent = True

    class Nothing(Hook):
        idempotent = True

        def before_model(self, ctx: Any, request: ModelRequest) -> None:
            return None

    assert await writes(Guard()) - await writes(Nothing()) == 1
    assert await writes(Pure()) == await writes(Nothing())


# Answers


async def test_an_answer_is_the_reply_and_the_thread_has_it_like_any_other() -> None:
    bench = bench_of(Says(Answer("We open at nine."), None))
    run = await bench.go("when?", stream=True)
    assert (run.finish_reason, run.text, run.model) == ("stop", "We open at nine.", None)
    assert (run.usage.total_tokens, bench.model.prompts) == (0, [])
    [reply] = [e for e in await bench.events(run.id) if e.type == "hook-reply"]
    assert (reply.decision, reply.message_ids) == ("answer", ())
    await bench.go("thanks")
    assert told(bench.model.prompts[-1].messages) == [
        ("user", "when?"),
        ("assistant", "We open at nine."),
        ("user", "thanks"),
    ]
    assert refused(await shown(bench)) == []


async def test_an_answer_in_place_of_structured_output_is_the_output() -> None:
    run = await bench_of(Says(Answer(Offer(euros=5))), output=Offer).go()
    assert (run.output, json.loads(run.text)) == ({"euros": 5}, {"euros": 5})


async def test_an_answer_that_fits_no_schema_fails_the_run_and_asks_no_model() -> None:
    bench = bench_of(Says(Answer("five")), output=Offer)
    run = await bench.go()
    assert (run.status, bench.model.prompts) == (Status.FAILED, [])
    assert run.error is not None
    assert "before_model of the hook 'Says'" in words_of(run)


async def test_a_message_on_the_way_may_be_answered_by_a_hook() -> None:
    shop, late = Shop(), Says(None, Answer("one moment"))
    bench = shop_of(shop, late, script=[call("pay", n=1)])
    run = await shop.go("the lamp?", "and the table?")
    assert (run.finish_reason, run.text, len(bench.model.prompts)) == ("stop", "one moment", 1)


# Sub-agents and hand-offs


async def test_a_refused_sub_agent_is_a_result_for_its_caller_and_the_run_goes_on() -> None:
    desk = Agent("desk", model="m", hooks=[Guard()])
    script = [call("desk", input=BAD), say("It was refused.")]
    bench = bench_of(script=script, tools=[desk.as_tool("Answers.")])
    run = await bench.go("ask the desk")
    assert (run.finish_reason, run.text) == ("stop", "It was refused.")
    [child] = run.children
    assert (child.status, child.finish_reason, child.text) == (Status.SUCCESS, "refused", "No.")
    assert (child.input.refused, child.model) == (True, None)
    result = json.loads(bench.model.prompts[-1].messages[-1].model_output or "")
    assert result == {"result": "No.", "finish_reason": "refused"}


async def test_a_refused_sub_agent_with_a_schema_says_so_in_words() -> None:
    desk = Agent("desk", model="m", hooks=[Guard()], output=Offer)
    script = [call("desk", input=BAD), say("ok")]
    bench = bench_of(script=script, tools=[desk.as_tool("Answers.")])
    await bench.go("ask the desk")
    result = json.loads(bench.model.prompts[-1].messages[-1].model_output or "")
    assert result == {"result": "No.", "finish_reason": "refused"}


async def test_a_sub_agents_memory_keeps_nothing_of_a_refused_briefing() -> None:
    desk = Agent("desk", model="m", hooks=[Guard()])
    script = [
        call("desk", input="forbidden one", tool_call_id="a"),
        call("desk", input="two", tool_call_id="b"),
        say("desk says two"),
        say("done"),
    ]
    bench = bench_of(script=script, tools=[desk.as_tool("Answers.", memory=True)])
    await bench.go("ask the desk twice")
    assert [m.text for m in bench.model.prompts[2].messages] == ["two"]


async def test_an_agent_that_gets_the_conversation_judges_its_input_by_its_own_hooks() -> None:
    guard = Guard()
    expert = Agent("expert", model="m", instructions="expert", hooks=[guard])
    script = [call("transfer_to_expert"), say("never")]
    bench = bench_of(script=script, handoffs=[expert])
    bench.agents["expert"] = expert
    run = await bench.go(BAD)
    assert guard.asked == [[BAD]]
    assert (run.finish_reason, run.input.refused) == ("refused", True)
    assert len(bench.model.prompts) == 1
    assert run.messages[1].refused is False


# Memory


async def test_memory_learns_nothing_of_a_refused_run_and_titles_no_thread_after_it() -> None:
    long = f"{BAD} which is more than four words"
    memory = Memory(profile=True, session=True, episodic=EpisodicMemory(), titles=True)
    background = {"title": [say("A chair")]}
    agent = Agent("shop", model="m", hooks=[Guard()], memory=memory)
    bench = Bench(agent, ScriptedModel([say("ok")] * 9, background=background))
    await bench.go(long)
    await bench.remember()
    assert bench.model.prompts == []
    await bench.go("a chair for my desk, please, a red one")
    await bench.remember()
    assert {"turn", "title", "extractor"} <= {p.task for p in bench.model.prompts}
    assert BAD not in all_that_models_read(bench)
    assert (await bench.head()).title == "A chair"


@pytest.mark.parametrize(
    ("compaction", "task", "answer"),
    [
        (RollingSummary(max_window=12_000, tail=1), "summary", "## Goal\nA lamp."),
        (
            ObservationalMemory(message_tokens=3_000),
            "observer",
            "Date: 2026-01-01\n* 🔴 (10:00) Ann wants a lamp.",
        ),
    ],
)
async def test_compaction_reads_nothing_of_a_refused_message(
    compaction: Any, task: str, answer: str
) -> None:
    memory = Memory(titles=False, compaction=compaction)
    agent = Agent("shop", model="m", hooks=[Guard()], memory=memory)
    model = ScriptedModel([say("ok")] * 19, background={task: lambda prompt: say(answer)})
    bench = Bench(agent, model)
    for n in range(6):
        await bench.go("A lamp, please. " + "It is late. " * 1_000)
        await bench.remember()
        await bench.go(f"{BAD} {n} " + "It is late. " * 1_000)
        await bench.remember()
    assert task in {p.task for p in bench.model.prompts}
    assert BAD not in all_that_models_read(bench)


async def test_recall_has_neither_words_nor_a_vector_of_a_refused_message() -> None:
    class Reads(HashingEmbedder):
        def __init__(self) -> None:
            super().__init__()
            self.texts: list[str] = []

        async def embed(self, texts: Any) -> Any:
            self.texts += texts
            return await super().embed(texts)

    memory = Memory(titles=False, last_messages=2, semantic_recall=SemanticRecall())
    agent = Agent("shop", model="m", hooks=[Guard()], memory=memory)
    reads = Reads()
    bench = Bench(agent, [say("ok")] * 9, embedder=reads)
    await bench.go("the lamp is red")
    await bench.remember()
    reads.texts.clear()
    await bench.go(BAD)
    await bench.remember()
    thread = bench.threads.find(ANN, "t1")
    assert thread is not None
    texts = [row.text.text for row in thread.texts.values()]
    assert any("the lamp is red" in text for text in texts)
    assert not any("forbidden" in text for text in texts)
    # The search for memories comes before the hooks.
    assert not any("forbidden" in text for text in reads.texts[1:])
    await bench.go("hm")
    await bench.go("which word was it, is the lamp red?")
    assert BAD not in all_that_models_read(bench)


async def test_a_message_that_was_indexed_and_is_refused_later_is_found_no_more() -> None:
    class Breaks(Guard):
        broken = True

        async def before_model(self, ctx: Any, request: ModelRequest) -> Refuse | None:
            if self.broken:
                raise ValueError("away")
            return await super().before_model(ctx, request)

    guard = Breaks()
    memory = Memory(titles=False, semantic_recall=SemanticRecall())
    agent = Agent("shop", model="m", hooks=[guard], memory=memory)
    bench = Bench(agent, [say("ok")] * 9, embedder=HashingEmbedder())
    failed = await bench.go(BAD)
    await bench.remember()
    thread = bench.threads.find(ANN, "t1")
    assert thread is not None
    assert failed.input.id in thread.texts
    guard.broken = False
    await bench.go("go on")
    assert thread.texts.keys().isdisjoint({failed.input.id})
    # Its own extraction may come late.
    snapshot = await bench.plain.journal.runs.snapshot(ANN, failed.id)
    assert snapshot is not None
    await index(bench.plain, agent, snapshot)
    assert failed.input.id not in thread.texts


async def test_a_node_keeps_nothing_of_a_refused_turn() -> None:
    memory = Memory(titles=False, history=NodeMemory("desk"))
    bench = bench_of(Guard(), memory=memory)
    await bench.go("hello")
    await bench.go(BAD)
    await bench.go("and now?")
    assert BAD not in all_that_models_read(bench)
    assert [m.text for m in bench.model.prompts[-1].messages] == ["hello", "answer 0", "and now?"]


async def test_a_hook_of_all_requests_that_refuses_memorys_leaves_it_unsent() -> None:
    class Everywhere(Hook):
        everywhere = True
        idempotent = True

        def before_model(self, ctx: Any, request: ModelRequest) -> Any:
            # Memory's own requests have nothing that a user has just sent.
            return None if request.unanswered else Refuse("not to memory")

    agent = Agent("shop", model="m", hooks=[Everywhere()])
    bench = Bench(agent, ScriptedModel([say("ok")], background={"title": [say("A title")]}))
    run = await bench.go("a red chair for my desk")
    await bench.remember()
    assert run.finish_reason == "stop"
    assert [p.task for p in bench.model.prompts] == ["turn"]
    assert (await bench.head()).title is None


# Questions to a model


class Judge(Hook):
    """Asks a model."""

    once_per_input = True

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.answers: list[str] = []

    async def before_model(self, ctx: Any, request: ModelRequest) -> Refuse | None:
        text = request.unanswered[-1].text
        self.answers.append(await ctx.ask_model(text, system="Judge.", **self.options))
        return Refuse("the judge says so") if self.answers[-1] == "no" else None


def judged(answer: Any, *hooks: Any, script: Any = None, **options: Any) -> Bench:
    agent = Agent("shop", model="m", hooks=hooks, **options)
    model = ScriptedModel(script or [say("ok")] * 3, background={"hook": answer})
    return Bench(agent, model)


async def test_a_hooks_question_is_part_of_the_runs_usage_and_of_its_days() -> None:
    usage = Usage(input_tokens=70, output_tokens=5)
    bench = judged([say("yes", usage=usage)], Judge(model="j"))
    run = await bench.go()
    question, turn = bench.model.prompts
    assert (question.model, question.system, question.task) == ("j", "Judge.", "hook")
    assert run.usage.total_tokens == 75 + turn_usage(bench)
    rows = [row for _, row in bench.threads.usage_rows.values()]
    assert sum(row.usage.total_tokens for row in rows) == run.usage.total_tokens
    assert turn.task == "turn"


def turn_usage(bench: Bench) -> int:
    return say("ok").usage.total_tokens


async def test_a_refused_run_costs_what_its_judge_has_cost() -> None:
    usage = Usage(input_tokens=70, output_tokens=5)
    run = await judged([say("no", usage=usage)], Judge()).go()
    assert (run.finish_reason, run.usage.total_tokens) == ("refused", 75)


async def test_a_hooks_question_counts_towards_the_runs_limits() -> None:
    usage = Usage(input_tokens=70, output_tokens=5)
    shop = Shop()
    script = [call("look", n=1), say("ok")]
    bench = judged(
        [say("yes", usage=usage)],
        Judge(),
        script=script,
        tools=shop.tools,
        limits=Limits(tokens=60, on_reached="fail"),
    )
    run = await bench.go()
    assert run.error is not None
    assert run.error.type == "LimitReached"


async def test_a_hooks_question_is_redacted_like_every_request() -> None:
    bench = judged([say("[EMAIL_1]")], Judge(), RedactPII())
    await bench.go("write to ada@example.com")
    question = bench.model.prompts[0]
    assert question.messages[-1].text == "write to [EMAIL_1]"
    [judge] = [h for h in bench.agent.hooks if isinstance(h, Judge)]
    assert judge.answers == ["ada@example.com"]


async def test_a_question_at_another_point_says_where_it_is_possible() -> None:
    class Late(Hook):
        async def at_end(self, ctx: Any, result: Result) -> None:
            await ctx.ask_model("now?")

    run = await bench_of(Late()).go()
    assert run.error is not None
    assert "before_model and after_model" in words_of(run)


async def test_calls_of_a_refused_reply_run_no_tool() -> None:
    """Nothing runs beside the guard: the model is not asked before the verdict."""
    shop = Shop()
    bench = shop_of(shop, Guard(), script=[calls(call("look", n=1))])
    await bench.go(BAD)
    assert (shop.looked, bench.model.prompts) == (0, [])


async def test_the_finish_reason_is_of_the_enum() -> None:
    assert (await bench_of(Guard()).go(BAD)).finish_reason is FinishReason.REFUSED
