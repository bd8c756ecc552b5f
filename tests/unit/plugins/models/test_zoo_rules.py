"""Each rule of the zoo refuses a request that breaks it, and no other one."""

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest

from support.providers import messages, responses
from support.providers.zoo import blocks, rules
from support.providers.zoo.fakes import ZOO, Answer
from support.providers.zoo.rules import PLACEHOLDER, Json, Rule

LOOSE = {"type": "object", "properties": {"n": {"type": "integer"}}}
STRICT = {**LOOSE, "required": ["n"], "additionalProperties": False}


def call(id: str = "call_1", **more: Any) -> Json:
    return {"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}, **more}


def asks(*calls: Json, **more: Any) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **more}


def result(id: str = "call_1", text: str = "seen") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": text}


def says(role: str, content: Any, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


PICTURE = {"type": "image_url", "image_url": {"url": "https://files.example/a.png"}}


def chat(*thread: Json, **more: Any) -> Json:
    """A request that no provider refuses, or one with this thread."""
    usual = (
        says("system", "You help."),
        says("user", "hi"),
        asks(call("000010000")),
        result("000010000"),
    )
    tool = {"name": "look", "description": "Look.", "parameters": STRICT, "strict": True}
    tools = [{"type": "function", "function": tool}]
    return {"messages": list(thread or usual), "tools": tools, **more}


def thought(text: str = "Hm.") -> Json:
    return {"reasoning_content": text}


def signed(signature: str) -> Json:
    return {"extra_content": {"google": {"thought_signature": signature}}}


def with_tool(**more: Any) -> Json:
    body = copy.deepcopy(chat())
    body["tools"][0]["function"].update(more)
    return body


def request(*items: Json, **more: Any) -> Json:
    tool = {"type": "function", "name": "look", "parameters": STRICT, "strict": True}
    usual = (says("user", "hi"), function_call(), output())
    return {"input": list(items or usual), "tools": [tool], **more}


def function_call(call_id: str = "call_1", **more: Any) -> Json:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}", **more}


def output(call_id: str = "call_1") -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": "seen"}


THOUGHT = responses.thought("rs_1", "Hm.", encrypted="enc")
SAID = responses.said("So.", id="msg_1")
GIVEN_RESPONSE = [responses.response(THOUGHT, SAID)]

THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
TEXT = {"type": "text", "text": "hi"}
THINKS: Json = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def use(id: str = "toolu_1", name: str = "look") -> Json:
    return {"type": "tool_use", "id": id, "name": name, "input": {}}


def seen(id: str = "toolu_1") -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": "seen"}


def claude(*turns: Sequence[Json], first: str = "user", **more: Any) -> Json:
    """Turns of users and the assistant."""
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    usual = ([TEXT], [use()], [seen()])
    said = [says(roles[n % 2], list(turn)) for n, turn in enumerate(turns or usual)]
    tools = [{"name": "look", "input_schema": LOOSE}]
    return {"max_tokens": 8000, "messages": said, "tools": tools, **more}


B_TEXT: Json = {"text": "hi"}
REASONING = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "sig"}}}


def b_use(id: str = "tooluse_1", name: str = "look") -> Json:
    return {"toolUse": {"toolUseId": id, "name": name, "input": {}}}


def b_seen(id: str = "tooluse_1") -> Json:
    return {"toolResult": {"toolUseId": id, "content": [{"text": "seen"}]}}


def b_file(name: str) -> Json:
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": ""}}}


def converse(*turns: Sequence[Json], first: str = "user", **more: Any) -> Json:
    roles = ("user", "assistant") if first == "user" else ("assistant", "user")
    usual = ([B_TEXT], [b_use()], [b_seen()])
    said = [says(roles[n % 2], list(turn)) for n, turn in enumerate(turns or usual)]
    tools = [{"toolSpec": {"name": "look", "inputSchema": {"json": LOOSE}}}]
    return {"messages": said, "toolConfig": {"tools": tools}, **more}


B_THINKS: Json = {"additionalModelRequestFields": THINKS}
USER, ANSWER = says("user", "hi"), says("assistant", "so")
MARK = {"cache_control": {"type": "ephemeral"}}
TWO_USERS = [says("user", [TEXT]), says("user", [TEXT])]
B_TWO_USERS = [says("user", [B_TEXT]), says("user", [B_TEXT])]


def where(of: Sequence[Rule], beginning: str) -> Rule:
    (found,) = [rule for rule in of if beginning in rule.says]
    return found


BROKEN: list[tuple[Sequence[Rule], str, Json]] = [
    # Chat Completions
    (rules.PAIRS, "must be followed by tool messages", chat(USER, asks(call()), USER)),
    (rules.PAIRS, "must be a response to", chat(USER, result())),
    (rules.PAIRS, "same id", chat(USER, asks(call(), call()), result(), result())),
    (rules.PAIRS, "function names", with_tool(name="no such.tool!")),
    (
        rules.PAIRS,
        "not the JSON of an object",
        chat(USER, asks(call(function={"name": "look", "arguments": "[1]"})), result()),
    ),
    (rules.OPENAI, "tool_calls[0].id", chat(USER, asks(call("c" * 41)), result("c" * 41))),
    (rules.OPENAI, "function.description", with_tool(description="d" * 1025)),
    (rules.OPENAI, "Additional properties", chat(USER, {**ANSWER, **thought()}, USER)),
    (rules.OPENAI, "Invalid schema", with_tool(parameters=LOOSE)),
    (rules.OPENAI, "at the same time", chat(max_tokens=1, max_completion_tokens=1)),
    (rules.OPENAI, "parallel_tool_calls", chat(tools=[], parallel_tool_calls=False)),
    (rules.OPENAI, "images", chat(USER, says("assistant", [PICTURE]), USER)),
    (rules.MISTRAL, "length of 9", chat(USER, asks(call()), result())),
    (
        rules.MISTRAL,
        "Unexpected role",
        chat(USER, asks(call("000010000")), result("000010000"), USER),
    ),
    (rules.MISTRAL, "Expected last role", chat(USER, ANSWER)),
    (rules.MISTRAL, "either content or tool_calls", chat(USER, says("assistant", None), USER)),
    (rules.MISTRAL, "in messages", chat(USER, {**ANSWER, **thought()}, USER)),
    (rules.MISTRAL, "prompt_cache_key", chat(prompt_cache_key="k")),
    (rules.MISTRAL, "max_completion_tokens", chat(max_completion_tokens=1)),
    (rules.DEEPSEEK, "Missing", chat(USER, ANSWER, USER)),
    (rules.DEEPSEEK, "passed back", chat(USER, {**ANSWER, **thought("Other.")}, USER)),
    (rules.DEEPSEEK, "image_url", chat(says("user", [PICTURE]))),
    (rules.GROQ, "reasoning_content", chat(USER, {**ANSWER, **thought()}, USER)),
    (rules.KIMI, "must not be empty", chat(USER, says("assistant", " "), USER)),
    (rules.KIMI, "is missing in assistant", chat(USER, asks(call()), result())),
    (rules.XAI, "content element", chat(USER, asks(call()), result(text=""))),
    (rules.XAI, "stop", chat(stop=["END"])),
    (rules.XAI, "reasoning_effort", chat(reasoning_effort="low")),
    (rules.GEMINI, "missing a thought_signature", chat(USER, asks(call()), result())),
    (
        rules.GEMINI,
        "Corrupted",
        chat(USER, asks(call(**signed("another"))), result()),
    ),
    (
        rules.GEMINI,
        "immediately after a user turn",
        chat(says("system", "s"), asks(call(**signed(PLACEHOLDER))), result()),
    ),
    (rules.GEMINI, "end with a model turn", chat(USER, ANSWER)),
    (rules.GEMINI, "should be OBJECT", with_tool(parameters={"type": "string"})),
    (rules.GEMINI, "prompt_cache_key", chat(prompt_cache_key="k")),
    (rules.LLAMA, "at the beginning", chat(USER, says("system", "s"))),
    (rules.LLAMA, "No user query", chat(asks(call()), result())),
    (
        rules.OPENROUTER,
        "cannot be modified",
        chat(USER, {**ANSWER, "reasoning_details": [{"text": "Other."}]}, USER),
    ),
    (rules.OPENROUTER, "non-empty", chat(says("user", " "))),
    (
        rules.OPENROUTER,
        "cache_control",
        chat(says("user", [{"type": "text", "text": "a", **MARK}] * 5)),
    ),
    # The Responses API
    (blocks.RESPONSES, "No tool output", request(USER, function_call())),
    (blocks.RESPONSES, "No tool call", request(USER, output())),
    (blocks.RESPONSES, "begins with 'fc'", request(USER, function_call(id="call_1"), output())),
    (blocks.RESPONSES, "following item", request(USER, THOUGHT, says("assistant", "So."), USER)),
    (blocks.RESPONSES, "'reasoning' item", request(USER, SAID, USER)),
    (
        blocks.RESPONSES,
        "could not be verified",
        request(USER, {**THOUGHT, "encrypted_content": "changed"}, SAID, USER),
    ),
    (
        blocks.RESPONSES,
        "call_id': string too long",
        request(USER, function_call("c" * 65), output("c" * 65)),
    ),
    (blocks.RESPONSES, "tools[0].name", request(USER, function_call(name="a.b"), output())),
    (
        blocks.RESPONSES,
        "Invalid schema",
        request(tools=[{"type": "function", "name": "look", "parameters": LOOSE, "strict": True}]),
    ),
    # Anthropic's Messages
    (blocks.ANTHROPIC, "max_tokens: Field required", {**claude(), "max_tokens": None}),
    (blocks.ANTHROPIC, "first message", claude([TEXT], [TEXT], first="assistant")),
    (blocks.ANTHROPIC, "prefill", claude([TEXT], [TEXT])),
    (blocks.ANTHROPIC, "alternate", {**claude(), "messages": TWO_USERS}),
    (blocks.ANTHROPIC, "non-empty content", claude([TEXT], [], [TEXT])),
    (blocks.ANTHROPIC, "non-whitespace", claude([{"type": "text", "text": " \n"}])),
    (blocks.ANTHROPIC, "without `tool_result`", claude([TEXT], [use()], [TEXT])),
    (blocks.ANTHROPIC, "come first", claude([TEXT], [use()], [TEXT, seen()])),
    (blocks.ANTHROPIC, "tool_use.id", claude([TEXT], [use("a:1")], [seen("a:1")])),
    (
        blocks.ANTHROPIC,
        "custom.name",
        claude(tools=[{"name": "no such.tool!", "input_schema": LOOSE}]),
    ),
    (blocks.ANTHROPIC, "tools: Field required", claude(tools=[])),
    (
        blocks.ANTHROPIC,
        "Invalid `signature`",
        claude([TEXT], [{**THINKING, "signature": "other"}, TEXT], [TEXT]),
    ),
    (blocks.ANTHROPIC, "but found `tool_use`", claude(**THINKS)),
    (blocks.ANTHROPIC, "final block", claude([TEXT], [TEXT, THINKING], [TEXT])),
    (blocks.ANTHROPIC, "greater than", {**claude([TEXT], **THINKS), "max_tokens": 1024}),
    (blocks.ANTHROPIC, "may only be set to 1", claude([TEXT], **THINKS, temperature=0.2)),
    (blocks.ANTHROPIC, "forces tool use", claude([TEXT], **THINKS, tool_choice={"type": "any"})),
    (blocks.ANTHROPIC, "A maximum of 4", claude([{**TEXT, **MARK}] * 5)),
    (blocks.ANTHROPIC, "`thinking` blocks", claude([TEXT], [{**THINKING, **MARK}, TEXT], [TEXT])),
    (
        blocks.ANTHROPIC,
        "media_type",
        claude([{"type": "image", "source": {"type": "base64", "media_type": "image/bmp"}}]),
    ),
    # Converse
    (blocks.CONVERSE, "start with a user", converse([B_TEXT], [B_TEXT], first="assistant")),
    (blocks.CONVERSE, "prefill", converse([B_TEXT], [B_TEXT])),
    (blocks.CONVERSE, "alternate", {**converse(), "messages": B_TWO_USERS}),
    (blocks.CONVERSE, "is empty", converse([B_TEXT], [], [B_TEXT])),
    (blocks.CONVERSE, "is blank", converse([{"text": " "}])),
    (blocks.CONVERSE, "Expected toolResult", converse([B_TEXT], [b_use()], [B_TEXT])),
    (blocks.CONVERSE, "toolUseId", converse([B_TEXT], [b_use("a:1")], [b_seen("a:1")])),
    (blocks.CONVERSE, "toolSpec.name", converse([B_TEXT], [b_use(name="a.b")], [b_seen()])),
    (blocks.CONVERSE, "toolConfig field", converse(toolConfig={})),
    (blocks.CONVERSE, "file name", converse([b_file("a.pdf"), B_TEXT])),
    (blocks.CONVERSE, "duplicate", converse([b_file("a"), b_file("a"), B_TEXT])),
    (blocks.CONVERSE, "text block is required", converse([b_file("a")])),
    (
        blocks.CONVERSE,
        "Invalid `signature`",
        converse(
            [B_TEXT], [{"reasoningContent": {"reasoningText": {"text": ""}}}, B_TEXT], [B_TEXT]
        ),
    ),
    (blocks.CONVERSE, "but found `tool_use`", converse(**B_THINKS)),
    (
        blocks.CONVERSE,
        "forces tool use",
        converse([B_TEXT], **B_THINKS, toolConfig={"toolChoice": {"any": {}}}),
    ),
    (blocks.CONVERSE, "A maximum of 4", converse([B_TEXT, *[{"cachePoint": {}}] * 5])),
]
GIVEN: dict[int, list[Json]] = {
    id(blocks.RESPONSES): GIVEN_RESPONSE,
    id(blocks.ANTHROPIC): [messages.message(THINKING, TEXT)],
    id(blocks.CONVERSE): [{"output": {"message": {"content": [REASONING, B_TEXT]}}}],
    id(rules.DEEPSEEK): [{**ANSWER, **thought()}],
    id(rules.OPENROUTER): [{**ANSWER, "reasoning_details": [{"text": "Hm."}]}],
    id(rules.GEMINI): [asks(call(**signed("sig")))],
}
"""Answers that a fake has given."""


@pytest.mark.parametrize(("of", "beginning", "body"), BROKEN, ids=[words for _, words, _ in BROKEN])
def test_a_request_that_breaks_a_rule_is_refused(
    of: Sequence[Rule], beginning: str, body: Json
) -> None:
    rule = where(of, beginning)
    assert rule.breaks(json.loads(json.dumps(body)), GIVEN.get(id(of), []))


def test_every_rule_of_the_zoo_is_broken_here() -> None:
    broken_here = {id(where(of, beginning)) for of, beginning, _ in BROKEN}
    assert [r.says for fake in ZOO for r in fake.rules if id(r) not in broken_here] == []


def test_every_rule_names_its_public_source() -> None:
    sources = [rule.source for fake in ZOO for rule in fake.rules]
    assert all(source.startswith("https://") for source in sources)


def own(fake: Any) -> Any:
    """An answer of the fake's own in a request of the next turn."""
    written = fake.write(Answer(1, "So.", (("look", {"n": 1}),)))
    if fake.api == "responses":
        calls = [item["call_id"] for item in written["output"] if item["type"] == "function_call"]
        body = request(USER, *written["output"], *map(output, calls), USER)
    elif fake.name == "anthropic":
        body = claude([TEXT], written["content"], [seen("toolu_1_0")], **THINKS)
    elif fake.name == "bedrock":
        content = written["output"]["message"]["content"]
        body = converse([B_TEXT], content, [b_seen("tooluse_1_0")], **B_THINKS)
    else:
        body = chat(USER, written, result(written["tool_calls"][0]["id"]))
    return written, body


@pytest.mark.parametrize("fake", ZOO, ids=lambda fake: fake.name)
def test_a_fake_takes_its_own_answer_back(fake: Any) -> None:
    written, body = own(fake)
    assert fake.broken(json.loads(json.dumps(body)), [written]) is None
