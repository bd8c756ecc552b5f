"""Models of several makers on each wire, as strict as the strictest of them: what one gave, it wants back as
it was; what another gave, it knows nothing of, and has demands of its own on it."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from layover.ids import RandomIds
from layover.plugins.models import makers, wire
from layover.plugins.models.anthropic import request as messages_request
from layover.plugins.models.anthropic.reply import MessagesReply
from layover.plugins.models.bedrock import request as converse_request
from layover.plugins.models.bedrock.reply import ConverseReply
from layover.plugins.models.http_chat import Assembly
from layover.plugins.models.replies import Assembly as ChatReply
from layover.plugins.models.responses import request as responses_request
from layover.plugins.models.responses.reply import ResponsesReply
from layover.values.message import Message
from layover.values.prompt import Prompt, Reply
from support.providers import claude, messages, responses

Json = dict[str, Any]
HOST = "models.example"
SAFE = r"[a-zA-Z0-9_-]{1,64}"
SIGNATURE = {"google": {"thought_signature": "skip_thought_signature_validator"}}
NONE = frozenset[str]()


@dataclass(frozen=True)
class Answer:
    """A model's nth answer in a conversation: a text, and a number of calls of `look`."""

    n: int
    text: str
    calls: int


@dataclass(frozen=True)
class Wire:
    """A model behind an adapter. `document`: an answer as it sends it; `problem`: the fault in a request that
    the adapter makes of a conversation, of which it gave `own`."""

    model: str
    assembly: Callable[[str], Assembly]
    body: Callable[[Prompt], Json]
    document: Callable[[Answer], Json]
    problem: Callable[[Json, Sequence[Json]], str | None]

    def reply(self, answer: Answer) -> Reply:
        """The answer as the adapter reads it."""
        assembly = self.assembly(self.model)
        assembly.add(self.document(answer))
        return assembly.reply()

    def refusal(self, messages: Sequence[Message], answers: Sequence[Answer]) -> str | None:
        """What the model refuses about this conversation; None: it takes it. `answers`: its own in it."""
        body = self.body(Prompt(model=self.model, messages=tuple(messages)))
        return self.problem(json.loads(wire.encode(body)), [self.document(a) for a in answers])


def _args(answer: Answer, at: int) -> str:
    return json.dumps({"at": at, "n": answer.n}, separators=(",", ":"))


# Chat Completions


def chat(
    model: str,
    *,
    ids: Callable[[int, int], str] = lambda n, at: f"call_{n}_{at}",
    of_message: Callable[[Answer], Json] = lambda answer: {},
    of_call: Callable[[Answer], Json] = lambda answer: {},
    allowed: str = SAFE,
    fills: Callable[[Json], bool] = lambda message: True,
) -> Wire:
    """A model by Chat Completions: `ids` of its calls, fields `of_message` and `of_call`, the ids that are
    `allowed` of others, and whether an answer of another has what it `fills` the place of its own with."""

    def message(answer: Answer) -> Json:
        calls = [
            {
                "id": ids(answer.n, at),
                "type": "function",
                "function": {"name": "look", "arguments": _args(answer, at)},
                **of_call(answer),
            }
            for at in range(answer.calls)
        ]
        said = {"role": "assistant", "content": answer.text or None, **of_message(answer)}
        return {**said, "tool_calls": calls} if calls else said

    def problem(body: Json, own: Sequence[Json]) -> str | None:
        mine = [document["choices"][0]["message"] for document in own]
        messages = sent = body["messages"]
        if makers.wants_one_answer(model):
            messages = [_without_joined(message, mine) for message in sent]
            mine = [each for each in mine if each in messages or not _is_joined(each, sent)]
        return _of_chat(messages, mine, allowed, fills)

    return Wire(
        model=model,
        assembly=lambda name: ChatReply(RandomIds(), name, HOST),
        body=lambda prompt: wire.body(prompt, NONE, HOST),
        document=lambda answer: {"choices": [{"index": 0, "message": message(answer)}]},
        problem=problem,
    )


def _is_joined(text: Json, messages: Sequence[Json]) -> bool:
    """Whether an answer without calls is a part of the one that followed it."""
    said = [m["content"] or "" for m in messages if m["role"] == "assistant"]
    return "tool_calls" not in text and any(text["content"] in s.split("\n\n") for s in said)


def _without_joined(message: Json, own: Sequence[Json]) -> Json:
    """An own answer without the texts that came right before it; any other message as it is."""
    text = message.get("content") or ""
    for each in own:
        is_end = not each["content"] or text.endswith(f"\n\n{each['content']}")
        if is_end and {**message, "content": each["content"]} == each:
            return each
    return message


def _of_chat(
    messages: list[Json], own: list[Json], allowed: str, fills: Callable[[Json], bool]
) -> str | None:
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not open_ids or message["tool_call_id"] != open_ids.pop(0):
                return f"no call before its result: {message}"
            continue
        if open_ids:
            return f"calls without results: {open_ids}"
        if message["role"] != "assistant":
            continue
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
        if message in own:
            own = [each for each in own if each != message]
        elif not all(re.fullmatch(allowed, each) for each in open_ids) or not fills(message):
            return f"not as this model wants it: {message}"
    return f"not as it was: {own}" if own else None


def _is_bare(message: Json) -> bool:
    fields = {"role", "content", "tool_calls"}
    calls = message.get("tool_calls", ())
    return message.keys() <= fields and all(len(call) == 3 for call in calls)


def _has_signature(message: Json) -> bool:
    first, *others = message.get("tool_calls") or [{"extra_content": SIGNATURE}]
    return first.get("extra_content") == SIGNATURE and not any("extra_content" in c for c in others)


def _has_thoughts(message: Json) -> bool:
    return message.keys() <= {"role", "content", "tool_calls", "reasoning_content"} and bool(
        message.get("reasoning_content")
    )


def _details(answer: Answer) -> Json:
    block = {"type": "reasoning.encrypted", "data": f"sig{answer.n}", "index": 0}
    return {"reasoning_details": [{**block, "id": _long(answer.n, 0)}]}


def _long(n: int, at: int) -> str:
    return f"tool_look_at_all_the_levels_there_are_{n}_{at}_3ZiChYzj8xER"


# The Responses API


def _responses_document(answer: Answer) -> Json:
    thought = responses.thought(f"rs_{answer.n}", "Hm.", encrypted=f"enc{answer.n}")
    said = responses.said(answer.text, id=f"msg_{answer.n}", phase="commentary")
    calls = [
        responses.call(f"call_{answer.n}_{at}", "look", _args(answer, at))
        for at in range(answer.calls)
    ]
    return responses.response(thought, *([said] if answer.text else []), *calls)


def _of_responses(body: Json, own: Sequence[Json]) -> str | None:
    items = body["input"]
    names = [_name(item) for item in items]
    for document in own:
        mine = [_name(item) for item in document["output"]]
        at = next((n for n, name in enumerate(names) if name == mine[0]), None)
        if at is None or names[at : at + len(mine)] != mine:
            return f"not as it was: {mine} in {names}"
        names[at : at + len(mine)] = [None] * len(mine)
    if left := [name for name in names if name is not None]:
        return f"ids of nobody's: {left}"
    called = [i["call_id"] for i in items if i.get("type") == "function_call"]
    answered = [i["call_id"] for i in items if i.get("type") == "function_call_output"]
    if called != answered or not all(re.fullmatch(SAFE, each) for each in called):
        return f"calls {called}, results {answered}"
    return None


def _name(item: Json) -> tuple[Any, ...] | None:
    """What the API knows an item by; None: an item of ours."""
    if "id" not in item:
        return None
    return item["id"], item.get("phase"), item.get("encrypted_content")


# Converse


def _converse_document(answer: Answer) -> Json:
    blocks: list[Json] = [
        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": f"sig{answer.n}"}}}
    ]
    blocks += [{"text": answer.text}] if answer.text else []
    for at in range(answer.calls):
        use = {"toolUseId": f"tooluse_{answer.n}_{at}", "name": "look"}
        blocks.append({"toolUse": {**use, "input": {"n": answer.n, "at": at}}})
    message = {"role": "assistant", "content": blocks}
    return {"output": {"message": message}, "stopReason": "end_turn"}


def _of_converse(body: Json, own: Sequence[Json]) -> str | None:
    if problem := claude.problem(body):
        return problem
    blocks = [
        b for turn in body["messages"] if turn["role"] == "assistant" for b in turn["content"]
    ]
    for document in own:
        mine = document["output"]["message"]["content"]
        at = next((n for n, block in enumerate(blocks) if block == mine[0]), None)
        if at is None or blocks[at : at + len(mine)] != mine:
            return f"not as it was: {mine} in {blocks}"
        blocks[at : at + len(mine)] = []
    return "thoughts of others" if any("reasoningContent" in b for b in blocks) else None


# Anthropic's Messages


def _messages_document(answer: Answer) -> Json:
    """Thoughts around a tool that Anthropic ran, then what everybody has."""
    found = {"type": "web_search_tool_result", "tool_use_id": f"srv_{answer.n}", "content": []}
    blocks: list[Json] = [
        {"type": "thinking", "thinking": "Hm.", "signature": f"sig{answer.n}"},
        {"type": "server_tool_use", "id": f"srv_{answer.n}", "name": "web_search", "input": {}},
        found,
        {"type": "redacted_thinking", "data": f"data{answer.n}"},
    ]
    blocks += [{"type": "text", "text": answer.text}] if answer.text else []
    for at in range(answer.calls):
        use = {"type": "tool_use", "id": f"toolu_{answer.n}_{at}", "name": "look"}
        blocks.append({**use, "input": {"n": answer.n, "at": at}})
    return messages.message(*blocks)


def _of_messages(body: Json, own: Sequence[Json]) -> str | None:
    if problem := messages.problem(body):
        return problem
    turns = body["messages"]
    blocks = [b for turn in turns if turn["role"] == "assistant" for b in turn["content"]]
    for document in own:
        mine = document["content"]
        at = next((n for n, block in enumerate(blocks) if block == mine[0]), None)
        if at is None or blocks[at : at + len(mine)] != mine:
            return f"not as it was: {mine} in {blocks}"
        blocks[at : at + len(mine)] = []
    others = [b["type"] for b in blocks if b["type"] not in ("text", "tool_use")]
    return f"blocks of others: {others}" if others else None


WIRES = (
    chat("gpt-4o", fills=_is_bare),
    chat(
        "deepseek-v4-pro",
        of_message=lambda answer: {"reasoning_content": f"Hm {answer.n}."},
        fills=_has_thoughts,
    ),
    chat(
        "gpt-oss-120b", of_message=lambda answer: {"reasoning": f"Hm {answer.n}."}, fills=_is_bare
    ),
    chat("gemini-2.5-pro-by-a-router", ids=_long, of_message=_details, fills=_is_bare),
    chat(
        "gemini-3-pro",
        of_call=lambda answer: {"extra_content": {"google": {"thought_signature": f"s{answer.n}"}}},
        fills=_has_signature,
    ),
    chat(
        "mistral-large-2512",
        ids=lambda n, at: f"{n:04}{at:05}",
        allowed=r"[a-zA-Z0-9]{9}",
        fills=_is_bare,
    ),
    chat("kimi-k2", ids=lambda n, at: f"functions.look:{n * 10 + at}", fills=_is_bare),
    Wire(
        model="gpt-5.5",
        assembly=lambda name: ResponsesReply(RandomIds(), name, HOST),
        body=lambda prompt: responses_request.body(prompt, NONE, HOST),
        document=_responses_document,
        problem=_of_responses,
    ),
    Wire(
        model="anthropic.claude-sonnet-4-5",
        assembly=lambda name: ConverseReply(RandomIds(), name, HOST, None),
        body=lambda prompt: converse_request.body(prompt, NONE, HOST),
        document=_converse_document,
        problem=_of_converse,
    ),
    Wire(
        model="claude-sonnet-4-5",
        assembly=lambda name: MessagesReply(RandomIds(), name, HOST),
        body=lambda prompt: messages_request.body(prompt, NONE, HOST),
        document=_messages_document,
        problem=_of_messages,
    ),
)
"""All of one host: what tells them apart is the model's name, as in a fallback behind one gateway."""
