"""Rules of the Responses API, of Anthropic's Messages and of Bedrock's Converse."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from support.providers.zoo.rules import MAX_CACHE_MARKS, Json, Rule, is_not_strict

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
_DOCUMENT = re.compile(r"(?!.*\s\s)[a-zA-Z0-9\s()\[\]-]{1,200}")
THOUGHTS = ("thinking", "redacted_thinking")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}


# The Responses API


def _items(body: Json, kind: str) -> list[Json]:
    return [item for item in body["input"] if item.get("type", "message") == kind]


def _ids(body: Json, kind: str) -> set[Any]:
    return {item["call_id"] for item in _items(body, kind)}


def _thought_alone(body: Json, given: Sequence[Json]) -> bool:
    """A thought comes before the item that it led to, each under the id that it was given."""
    followers: Json = {}
    for answer in given:
        output = answer["output"]
        followers |= {a["id"]: b["id"] for a, b in itertools.pairwise(output)}
    items = body["input"]
    for item, following in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") == "reasoning" and followers.get(item["id"]) != following.get("id"):
            return True
    return False


def _item_alone(body: Json, given: Sequence[Json]) -> bool:
    leaders: Json = {}
    for answer in given:
        output = answer["output"]
        pairs = itertools.pairwise(output)
        leaders |= {b["id"]: a["id"] for a, b in pairs if a["type"] == "reasoning"}
    items = body["input"]
    return any(
        item.get("id") in leaders and before.get("id") != leaders[item["id"]]
        for before, item in zip([{}, *items], items, strict=False)
    )


def _changes_thought(body: Json, given: Sequence[Json]) -> bool:
    known = [
        (i["id"], i["encrypted_content"])
        for a in given
        for i in a["output"]
        if i["type"] == "reasoning"
    ]
    return any(
        (item.get("id"), item.get("encrypted_content")) not in known
        for item in _items(body, "reasoning")
    )


RESPONSES = (
    Rule(
        "No tool output found for function call call_1.",
        "https://github.com/tjardoo/openai-client/pull/124",
        lambda body, given: bool(_ids(body, "function_call") - _ids(body, "function_call_output")),
    ),
    Rule(
        "No tool call found for function call output with call_id call_1.",
        "https://github.com/continuedev/continue/issues/10092",
        lambda body, given: bool(_ids(body, "function_call_output") - _ids(body, "function_call")),
    ),
    Rule(
        "Invalid 'input[1].id': Expected an ID that begins with 'fc'.",
        "https://github.com/nodetool-ai/nodetool/pull/4252",
        lambda body, given: any(
            "id" in item and not str(item["id"]).startswith(_PREFIXES[item["type"]])
            for item in body["input"]
            if item.get("type") in _PREFIXES
        ),
    ),
    Rule(
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "https://github.com/openai/openai-node/issues/1567",
        _thought_alone,
    ),
    Rule(
        "Item 'msg_1' was provided without its required 'reasoning' item.",
        "https://github.com/continuedev/continue/pull/11785",
        _item_alone,
    ),
    Rule(
        "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted.",
        "https://platform.openai.com/docs/guides/reasoning#encrypted-reasoning-items",
        _changes_thought,
    ),
    Rule(
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64",
        "https://github.com/openclaw/openclaw/pull/875",
        lambda body, given: any(
            len(item["call_id"]) > 64
            for kind in ("function_call", "function_call_output")
            for item in _items(body, kind)
        ),
    ),
    Rule(
        "Invalid 'tools[0].name': Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "https://platform.openai.com/docs/api-reference/responses/create",
        lambda body, given: (
            not all(
                _NAME.fullmatch(each["name"])
                for each in [*body.get("tools", ()), *_items(body, "function_call")]
            )
        ),
    ),
    Rule(
        "Invalid schema for function: 'additionalProperties' is required to be supplied and to be false.",
        "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas",
        is_not_strict,
    ),
)


# Anthropic's Messages, and what Converse has in common with them


def _blocks(body: Json, *roles: str) -> Iterator[Json]:
    for turn in body["messages"]:
        if not roles or turn["role"] in roles:
            yield from turn["content"]


def _does_not_alternate(body: Json, given: Sequence[Json]) -> bool:
    roles = [turn["role"] for turn in body["messages"]]
    return any(a == b for a, b in itertools.pairwise(roles))


def _ends_badly(body: Json, given: Sequence[Json]) -> bool:
    return bool(body["messages"][-1]["role"] != "user")


def _begins_badly(body: Json, given: Sequence[Json]) -> bool:
    return bool(body["messages"][0]["role"] != "user")


def _unmatched(body: Json, given: Sequence[Json]) -> bool:
    open_ids: list[str] = []
    for turn in body["messages"]:
        answered = [b["tool_use_id"] for b in turn["content"] if b["type"] == "tool_result"]
        if sorted(answered) != sorted(open_ids):
            return True
        open_ids = [b["id"] for b in turn["content"] if b["type"] == "tool_use"]
    return bool(open_ids)


def _results_late(body: Json, given: Sequence[Json]) -> bool:
    for turn in body["messages"]:
        kinds = [block["type"] for block in turn["content"]]
        if "tool_result" in kinds[kinds.count("tool_result") :]:
            return True
    return False


def _changes_thinking(body: Json, given: Sequence[Json]) -> bool:
    known = [b for answer in given for b in answer["content"] if b["type"] in THOUGHTS]
    return any(block not in known for block in _blocks(body) if block["type"] in THOUGHTS)


def _thinks(body: Json) -> bool:
    return body.get("thinking", {}).get("type") in ("enabled", "adaptive")


def _begins_without_thought(body: Json, given: Sequence[Json]) -> bool:
    turns = body["messages"]
    waits = any(block["type"] == "tool_result" for block in turns[-1]["content"])
    last = next((t for t in reversed(turns) if t["role"] == "assistant"), None)
    is_wrong = last is not None and last["content"][0]["type"] not in THOUGHTS
    return _thinks(body) and waits and is_wrong


_TURNS = "https://docs.anthropic.com/en/api/messages"
_TOOLS = "https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use"
_THINKING = "https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking"
ANTHROPIC = (
    Rule(
        "max_tokens: Field required",
        _TURNS,
        lambda body, given: not isinstance(body.get("max_tokens"), int),
    ),
    Rule('messages: first message must use the "user" role', _TURNS, _begins_badly),
    Rule(
        "This model does not support assistant message prefill.",
        "https://docs.anthropic.com/en/docs/about-claude/models/whats-new-claude-4-6",
        _ends_badly,
    ),
    Rule(
        'messages: roles must alternate between "user" and "assistant"',
        "https://docs.anthropic.com/en/docs/build-with-claude/working-with-messages",
        _does_not_alternate,
    ),
    Rule(
        "messages.1: all messages must have non-empty content",
        "https://github.com/anthropics/claude-code/issues/4416",
        lambda body, given: not all(turn["content"] for turn in body["messages"]),
    ),
    Rule(
        "messages: text content blocks must contain non-whitespace text",
        "https://github.com/aws-samples/generative-ai-use-cases/issues/1685",
        lambda body, given: any(
            b["type"] == "text" and not b["text"].strip() for b in _blocks(body)
        ),
    ),
    Rule(
        "`tool_use` ids were found without `tool_result` blocks immediately after",
        _TOOLS,
        _unmatched,
    ),
    Rule("`tool_result` blocks have to come first in the content", _TOOLS, _results_late),
    Rule(
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        _TOOLS,
        lambda body, given: (
            not all(
                _ANTHROPIC_ID.fullmatch(b["id"]) for b in _blocks(body) if b["type"] == "tool_use"
            )
        ),
    ),
    Rule(
        "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'",
        _TOOLS,
        lambda body, given: (
            not all(
                _ANTHROPIC_NAME.fullmatch(each["name"])
                for each in [
                    *body.get("tools", ()),
                    *(b for b in _blocks(body) if b["type"] == "tool_use"),
                ]
            )
        ),
    ),
    Rule(
        "tools: Field required, since messages have tool_use blocks",
        _TOOLS,
        lambda body, given: (
            not body.get("tools")
            and any(b["type"] in ("tool_use", "tool_result") for b in _blocks(body))
        ),
    ),
    Rule("messages: Invalid `signature` in `thinking` block", _THINKING, _changes_thinking),
    Rule(
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        _THINKING,
        _begins_without_thought,
    ),
    Rule(
        "The final block in an assistant message cannot be `thinking`.",
        _THINKING,
        lambda body, given: any(
            turn["role"] == "assistant" and turn["content"][-1]["type"] in THOUGHTS
            for turn in body["messages"]
            if turn["content"]
        ),
    ),
    Rule(
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        _THINKING,
        lambda body, given: body.get("thinking", {}).get("budget_tokens", 0) >= body["max_tokens"],
    ),
    Rule(
        "`temperature` may only be set to 1 when thinking is enabled.",
        _THINKING,
        lambda body, given: _thinks(body) and body.get("temperature", 1) != 1,
    ),
    Rule(
        "Thinking may not be enabled when tool_choice forces tool use.",
        _THINKING,
        lambda body, given: (
            _thinks(body) and body.get("tool_choice", {}).get("type") in ("any", "tool")
        ),
    ),
    Rule(
        "A maximum of 4 blocks with cache_control may be provided.",
        "https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching",
        lambda body, given: json.dumps(body).count('"cache_control"') > MAX_CACHE_MARKS,
    ),
    Rule(
        "cache_control cannot be set for `thinking` blocks",
        "https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching",
        lambda body, given: any(
            "cache_control" in b for b in _blocks(body) if b["type"] in THOUGHTS
        ),
    ),
    Rule(
        "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', "
        "'image/gif' or 'image/webp'",
        "https://docs.anthropic.com/en/docs/build-with-claude/vision",
        lambda body, given: any(
            b["source"]["type"] == "base64" and b["source"]["media_type"] not in _IMAGES
            for b in _blocks(body)
            if b["type"] == "image"
        ),
    ),
)


# Converse


def _converse_unmatched(body: Json, given: Sequence[Json]) -> bool:
    open_ids: list[str] = []
    for turn in body["messages"]:
        results = [b["toolResult"]["toolUseId"] for b in turn["content"] if "toolResult" in b]
        if sorted(results) != sorted(open_ids):
            return True
        open_ids = [b["toolUse"]["toolUseId"] for b in turn["content"] if "toolUse" in b]
    return bool(open_ids)


def _changes_reasoning(body: Json, given: Sequence[Json]) -> bool:
    known = [b for answer in given for b in answer["output"]["message"]["content"]]
    return any(b not in known for b in _blocks(body) if "reasoningContent" in b)


def _converse_thinks(body: Json) -> bool:
    thinking = body.get("additionalModelRequestFields", {}).get("thinking", {})
    return thinking.get("type") in ("enabled", "adaptive")


def _begins_without_reasoning(body: Json, given: Sequence[Json]) -> bool:
    turns = body["messages"]
    waits = any("toolResult" in block for block in turns[-1]["content"])
    last = next((t for t in reversed(turns) if t["role"] == "assistant"), None)
    is_wrong = last is not None and "reasoningContent" not in last["content"][0]
    return _converse_thinks(body) and waits and is_wrong


def _documents(body: Json) -> list[str]:
    return [block["document"]["name"] for block in _blocks(body) if "document" in block]


_API = "https://docs.aws.amazon.com/bedrock/latest/APIReference"
CONVERSE = (
    Rule(
        "A conversation must start with a user message.",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-call.html",
        _begins_badly,
    ),
    Rule(
        "This model does not support assistant message prefill.",
        "https://docs.anthropic.com/en/docs/about-claude/models/whats-new-claude-4-6",
        _ends_badly,
    ),
    Rule(
        "A conversation must alternate between user and assistant roles.",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-call.html",
        _does_not_alternate,
    ),
    Rule(
        "The content field in the Message object at messages.1 is empty.",
        f"{_API}/API_runtime_Message.html",
        lambda body, given: not all(turn["content"] for turn in body["messages"]),
    ),
    Rule(
        "The text field in the ContentBlock object at messages.1.content.0 is blank.",
        "https://github.com/aws-samples/generative-ai-use-cases/issues/1685",
        lambda body, given: any("text" in b and not b["text"].strip() for b in _blocks(body)),
    ),
    Rule(
        "Expected toolResult blocks at messages.2.content for the following Ids: tooluse_1",
        f"{_API}/API_runtime_ToolResultBlock.html",
        _converse_unmatched,
    ),
    Rule(
        "Value at 'messages.1.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: "
        "[a-zA-Z0-9_-]+, at most 64 characters",
        f"{_API}/API_runtime_ToolUseBlock.html",
        lambda body, given: (
            not all(
                _NAME.fullmatch(b["toolUse"]["toolUseId"]) for b in _blocks(body) if "toolUse" in b
            )
        ),
    ),
    Rule(
        "Value at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: [a-zA-Z0-9_-]+, "
        "at most 64 characters",
        f"{_API}/API_runtime_ToolSpecification.html",
        lambda body, given: (
            not all(
                _NAME.fullmatch(name)
                for name in [
                    *(
                        t["toolSpec"]["name"]
                        for t in body.get("toolConfig", {}).get("tools", ())
                        if "toolSpec" in t
                    ),
                    *(b["toolUse"]["name"] for b in _blocks(body) if "toolUse" in b),
                ]
            )
        ),
    ),
    Rule(
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        f"{_API}/API_runtime_ToolConfiguration.html",
        lambda body, given: (
            not body.get("toolConfig", {}).get("tools")
            and any("toolUse" in b or "toolResult" in b for b in _blocks(body))
        ),
    ),
    Rule(
        "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, "
        "parentheses, and square brackets, and no more than one consecutive whitespace character.",
        f"{_API}/API_runtime_DocumentBlock.html",
        lambda body, given: not all(map(_DOCUMENT.fullmatch, _documents(body))),
    ),
    Rule(
        "Messages can't contain duplicate document names.",
        "https://github.com/maximhq/bifrost/issues/7003",
        lambda body, given: len(_documents(body)) != len(set(_documents(body))),
    ),
    Rule(
        "A text block is required when a document is given.",
        f"{_API}/API_runtime_DocumentBlock.html",
        lambda body, given: any(
            any("document" in b for b in turn["content"])
            and not any("text" in b for b in turn["content"])
            for turn in body["messages"]
        ),
    ),
    Rule("Invalid `signature` in `thinking` block", _THINKING, _changes_reasoning),
    Rule(
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        _THINKING,
        _begins_without_reasoning,
    ),
    Rule(
        "Thinking may not be enabled when tool_choice forces tool use.",
        _THINKING,
        lambda body, given: (
            _converse_thinks(body)
            and bool(body.get("toolConfig", {}).get("toolChoice", {}).keys() & {"any", "tool"})
        ),
    ),
    Rule(
        "A maximum of 4 blocks with cache_control may be provided.",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html",
        lambda body, given: json.dumps(body).count('"cachePoint"') > MAX_CACHE_MARKS,
    ),
)
