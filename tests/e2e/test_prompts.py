"""The messages sent to the model: history, window, branch and input, as the provider got them."""

import json
from itertools import pairwise
from typing import Any

from support.providers.openai import Response, call, fail, say
from support.system.system import Brain, Caller, Json, System, eventually, unique

FULL = fail(400, "This model's maximum context length is 1 token.", code="context_length_exceeded")


def sent(brain: Brain, text: str, step: int = 0) -> list[Json]:
    """The messages of this request of the plan's run; there is one system message, and it is first."""
    messages: list[Json] = brain.requests(text)[step].body["messages"]
    assert [m["role"] for m in messages].count("system") == 1
    assert messages[0]["role"] == "system"
    return messages


def history(brain: Brain, text: str) -> list[Json]:
    """Return the messages between the system message and the run's input."""
    return sent(brain, text)[1:-1]


def said(messages: list[Json]) -> list[Any]:
    """The contents of messages."""
    return [m["content"] for m in messages]


def roles(messages: list[Json]) -> list[str]:
    """Return the roles of the messages."""
    return [m["role"] for m in messages]


def test_a_call_without_a_result_is_not_sent_and_stays_in_the_thread(
    brain: Brain, ann: Caller
) -> None:
    thread = ann.thread()
    refund = ("c2", "refund", '{"order_id": "o", "amount": 1}')
    wanted = (("c1", "look_up", '{"key": "o"}'), refund, ("c3", "look_up", '{"key": "o"}'))
    text = brain.plan(Response(text="I shall.", calls=wanted))
    run = ann.ask(thread, text)
    assert [c["tool_call_id"] for c in run["unexecuted"]] == ["c3"]
    ann.want(202, "POST", f"/runs/{run['id']}/cancel")
    assert ann.over(run["id"])["status"] == "cancelled"
    stored = ann.messages(thread)
    parts = stored[1]["content"]
    assert [p.get("tool_call_id") for p in parts] == [None, "c1", "c2", "c3"]
    after = brain.plan(say("on we go"))
    assert ann.ask(thread, after)["status"] == "success"
    first, assistant, *results = history(brain, after)
    assert first["content"] == text
    assert assistant["content"] == "I shall."
    assert [c["id"] for c in assistant["tool_calls"]] == ["c1", "c2"]
    assert [(m["role"], m["tool_call_id"]) for m in results] == [("tool", "c1"), ("tool", "c2")]
    assert ann.messages(thread)[: len(stored)] == stored


def test_a_message_of_nothing_but_calls_without_results_is_left_out(
    brain: Brain, ann: Caller
) -> None:
    thread = ann.thread()
    text = brain.plan(call("look_up", key="o"), say("found"))
    ann.ask(thread, text)
    asked = ann.messages(thread)[1]
    after = brain.plan(say("on we go"))
    run = ann.ask(thread, after, parent_id=asked["id"])
    assert said(history(brain, after)) == [text]
    assert [m["id"] for m in ann.messages(thread)][1:3] == [asked["id"], run["input"]["id"]]


def test_a_turn_longer_than_the_window_is_sent_whole(brain: Brain, ann: Caller) -> None:
    thread = ann.thread("forgetful")
    ann.ask(thread, brain.plan(say("hello"), text="hi"))
    text = brain.plan(*(call("look_up", key=f"k{n}") for n in range(4)), say("found"))
    ann.ask(thread, text)
    after = brain.plan(say("fine"))
    ann.ask(thread, after)
    shown = history(brain, after)
    assert roles(shown) == ["user", *["assistant", "tool"] * 4, "assistant"]
    assert shown[0]["content"] == text


def test_a_window_of_four_grows_to_six_and_steps_back_at_a_user_message(
    brain: Brain, ann: Caller
) -> None:
    thread = ann.thread("forgetful")
    texts = [brain.plan(say(f"answer {n}"), text=f"question {n}") for n in range(9)]
    for text in texts:
        ann.ask(thread, text)
    shown = [history(brain, text) for text in texts]
    assert [len(messages) for messages in shown] == [0, 2, 4, 6, 4, 6, 4, 6, 4]
    assert all(messages[0]["role"] == "user" for messages in shown[1:])
    stepped = [after[: len(before)] != before for before, after in pairwise(shown)]
    assert stepped == [False, False, False, True, False, True, False, True]


def test_a_token_buffer_sends_whole_turns_and_shortens_one_that_is_too_large(
    brain: Brain, ann: Caller
) -> None:
    thread = ann.thread("thrifty")
    large = brain.plan(call("page", number=1), say("read"))
    ann.ask(thread, large)
    small = brain.plan(say("fine"))
    ann.ask(thread, small)
    question, asked, result, answer = history(brain, small)
    assert (question["content"], answer["content"]) == (large, "read")
    assert asked["tool_calls"][0]["id"] == result["tool_call_id"]
    assert result["content"].startswith("page 1 ...")
    assert "shortened" in result["content"]
    assert len(result["content"]) < 1_000
    last = brain.plan(say("fine"))
    ann.ask(thread, last)
    assert said(history(brain, last)) == [small, "fine"], "the large turn does not fit any more"


def test_a_custom_message_is_stored_and_shown_and_never_sent(brain: Brain, ann: Caller) -> None:
    thread = ann.thread("forgetful")
    text = brain.plan(call("card", key="x"), say("look at it"))
    run = ann.ask(thread, text)
    (custom,) = [m for m in ann.messages(thread) if m["role"] == "custom"]
    part = {"type": "data", "name": "card", "data": {"drawn": "card of x"}}
    assert custom["content"] == [part]
    assert custom in run["messages"]
    after = brain.plan(say("fine"))
    ann.ask(thread, after)
    assert roles(sent(brain, text, 1)) == ["system", "user", "assistant", "tool"]
    assert roles(history(brain, after)) == ["user", "assistant", "tool", "assistant"]
    assert "drawn" not in json.dumps([sent(brain, text, 1), sent(brain, after)])


def test_texts_of_an_input_are_paragraphs_now_and_later(brain: Brain, ann: Caller) -> None:
    for agent, shown in (("plain", "{}"), ("framed", "<asked>{}</asked>")):
        thread, first = ann.thread(agent), brain.plan(say("fine"))
        parts = [{"type": "text", "text": t} for t in ("one", "two", first)]
        ann.ask(thread, parts)
        assert sent(brain, first)[-1]["content"] == shown.format(f"one\n\ntwo\n\n{first}")
        after = brain.plan(say("fine"))
        ann.ask(thread, after)
        assert said(history(brain, after)) == [f"one\n\ntwo\n\n{first}", "fine"]


def test_a_template_wraps_the_input_for_the_model_and_not_in_the_thread(
    brain: Brain, ann: Caller
) -> None:
    thread = ann.thread("framed")
    first, second = (brain.plan(say("fine"), text=f"what {n}?") for n in range(2))
    for text in (first, second):
        ann.ask(thread, text)
        assert sent(brain, text)[-1] == {"role": "user", "content": f"<asked>{text}</asked>"}
    assert [m["content"][0]["text"] for m in ann.messages(thread)][::2] == [first, second]


def test_a_nodes_history_follows_the_branch_and_knows_no_failed_run(
    brain: Brain, ann: Caller
) -> None:
    thread = ann.thread("clerk")
    first = brain.plan(say("one"))
    ann.ask(thread, first)
    fork = ann.messages(thread)[-1]["id"]
    assert ann.ask(thread, brain.plan(fail(400, "no")))["status"] == "failed"
    second = brain.plan(say("two"))
    ann.ask(thread, second)
    third = brain.plan(say("three"))
    ann.ask(thread, third)
    assert said(history(brain, second)) == [first, "one"]
    assert said(history(brain, third)) == [first, "one", second, "two"]
    instead = brain.plan(say("else"))
    ann.ask(thread, instead, parent_id=fork)
    assert said(history(brain, instead)) == [first, "one"]


def test_a_thread_whose_last_runs_had_too_long_an_input_goes_on(brain: Brain, ann: Caller) -> None:
    thread = ann.thread("forgetful")
    for _ in range(2):
        text = brain.plan(say("never"), text="begin " + "x" * 600_000 + " end")
        run = ann.ask(thread, text)
        assert (run["status"], run["error"]["type"]) == ("failed", "ContextLengthExceeded")
        assert brain.requests(text) == []
    after = brain.plan(say("at last"))
    assert ann.ask(thread, after)["text"] == "at last"
    shown = said(history(brain, after))
    assert len(shown) == 2
    for content in shown:
        assert "] begin x" in content
        assert content.endswith("x end")
        assert len(content) < 1_000
    assert len(ann.messages(thread)[0]["content"][0]["text"]) > 600_000


def test_a_thread_that_the_provider_finds_too_long_goes_on(brain: Brain, ann: Caller) -> None:
    thread = ann.thread("forgetful")
    pages = brain.plan(*(call("page", number=n) for n in range(4)), say("read"))
    ann.ask(thread, pages)
    run = ann.ask(thread, brain.plan([FULL]))
    assert (run["status"], run["error"]["type"]) == ("failed", "ContextLengthExceeded")
    after = brain.plan([FULL, say("at last")])
    assert ann.ask(thread, after)["text"] == "at last"
    refused, accepted = (len(json.dumps(sent(brain, after, n))) for n in range(2))
    assert refused > 4 * 5_000 > accepted
    assert ann.messages(thread)[2]["content"][0]["result"].startswith("page 0 ...")


def test_a_message_in_the_middle_ends_the_branch_that_it_names(brain: Brain, ann: Caller) -> None:
    thread = ann.thread("plain")
    for n in range(3):
        ann.ask(thread, brain.plan(say(f"answer {n}"), text=f"question {n}"))
    whole = ann.messages(thread)
    assert ann.messages(thread, branch=whole[3]["id"]) == whole[:4]
    again = brain.plan(say("better"), text="question 1, again")
    ann.ask(thread, again, parent_id=whole[1]["id"])
    assert said(history(brain, again)) == [whole[0]["content"][0]["text"], "answer 0"]
    assert ann.messages(thread, branch=whole[-1]["id"]) == whole


def test_a_run_that_works_is_listed_with_each_finished_step(
    brain: Brain, ann: Caller, system: System
) -> None:
    thread, key = ann.thread(), unique()
    text = brain.plan(call("look_up", key=key), call("slow", key=key), say("done"))
    run = ann.start(thread, text)
    eventually(lambda: [e for e in system.ledger(key) if e["what"] == "slow"])
    listed = ann.messages(thread)
    assert roles(listed) == ["user", "assistant", "tool", "assistant"]
    system.open_gate(key)
    assert ann.over(run["id"])["status"] == "success"
    assert ann.messages(thread)[:4] == listed


def test_no_request_has_more_than_one_system_message(brain: Brain, ann: Caller) -> None:
    """Of any run of this session, whatever its agent remembers. One without instructions has none."""
    thread = ann.thread("keeper")
    ann.want(200, "PUT", "/memory/profile?agent=keeper", {"profile": "likes tea"})
    ann.ask(thread, brain.plan(call("update_working_memory", name="Ann"), say("noted")))
    text = brain.plan(say("fine"))
    ann.ask(thread, text)
    system = sent(brain, text)[0]["content"]
    assert "likes tea" in system
    assert "- name: Ann" in system
    for request in brain.provider.turns:
        who = roles(request.body["messages"])
        assert "system" not in who[1:], request
