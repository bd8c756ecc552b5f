"""Rules of providers for the requests that they take. A request that breaks one is refused with a 400."""

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

PLACEHOLDER = "skip_thought_signature_validator"
MAX_CACHE_MARKS = 4
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MISTRAL_ID = re.compile(r"[a-zA-Z0-9]{9}")


@dataclass(frozen=True)
class Rule:
    """`says`: the refusal; `source`: where the rule is public; `breaks`: whether a body breaks it, given what
    the fake answered in this conversation; `is_learned`: no name of a model tells that it holds, so a client
    finds out by one refusal and asks again."""

    says: str
    source: str
    breaks: Callable[[Json, Sequence[Json]], bool]
    is_learned: bool = False


def refuse_field(field: str, says: str, source: str) -> Rule:
    """A field that the provider does not know, or not for this model."""
    return Rule(says, source, lambda body, given: field in body, is_learned=True)


# Chat Completions


def _of_role(body: Json, role: str) -> Iterator[Json]:
    return (message for message in body["messages"] if message["role"] == role)


def _calls(body: Json) -> Iterator[Json]:
    return (call for m in _of_role(body, "assistant") for call in m.get("tool_calls") or ())


def _parts(body: Json) -> Iterator[tuple[str, Json]]:
    for message in body["messages"]:
        if isinstance(message["content"], list):
            yield from ((message["role"], part) for part in message["content"])


def _unanswered(body: Json, given: Sequence[Json]) -> bool:
    open_ids: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            open_ids.discard(message["tool_call_id"])
        elif open_ids:
            return True
        else:
            open_ids = {call["id"] for call in message.get("tool_calls") or ()}
    return bool(open_ids)


def _uncalled(body: Json, given: Sequence[Json]) -> bool:
    ids: set[str] = set()
    for message in body["messages"]:
        if message["role"] != "tool":
            ids = {call["id"] for call in message.get("tool_calls") or ()}
        elif message["tool_call_id"] not in ids:
            return True
    return False


def _has_twins(body: Json, given: Sequence[Json]) -> bool:
    for message in _of_role(body, "assistant"):
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        if len(ids) != len(set(ids)):
            return True
    return False


def _is_empty(message: Json) -> bool:
    content = message.get("content")
    if message["role"] == "assistant" and message.get("tool_calls"):
        return content == []
    return not content or (isinstance(content, str) and not content.strip())


def _has_bad_arguments(body: Json, given: Sequence[Json]) -> bool:
    for call in _calls(body):
        try:
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return True
        except ValueError:
            return True
    return False


def _schemas(body: Json) -> Iterator[tuple[Json, bool]]:
    """Yield the schemas of a body, and whether each is to be strict."""
    for tool in body.get("tools", ()):
        function = tool.get("function", tool)
        if "parameters" in function:  # a tool may have none
            yield function["parameters"], bool(function.get("strict"))
    form: Json = body.get("response_format") or body.get("text", {}).get("format") or {}
    if form.get("type") == "json_schema":
        form = form.get("json_schema", form)
        yield form["schema"], bool(form.get("strict"))


def _objects(schema: Any) -> Iterator[Json]:
    if isinstance(schema, list):
        for each in schema:
            yield from _objects(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for each in schema.values():
            yield from _objects(each)


def is_not_strict(body: Json, given: Sequence[Json]) -> bool:
    return any(
        each.get("additionalProperties") is not False
        or set(each.get("required", ())) != set(each.get("properties", {}))
        for schema, strict in _schemas(body)
        if strict
        for each in _objects(schema)
    )


def _has_bad_name(body: Json, given: Sequence[Json]) -> bool:
    named = [tool.get("function", tool) for tool in body.get("tools", ())]
    named += [call["function"] for call in _calls(body)]
    return not all(_NAME.fullmatch(each["name"]) for each in named)


def _messages_with_more_than(*known: str) -> Callable[[Json, Sequence[Json]], bool]:
    names = {"role", "content", "tool_calls", "tool_call_id", "name", *known}
    return lambda body, given: any(m.keys() - names for m in body["messages"])


def _is_after_tool(body: Json, given: Sequence[Json]) -> bool:
    roles = [message["role"] for message in body["messages"]]
    return ("tool", "user") in itertools.pairwise(roles)


_REFERENCE = "https://platform.openai.com/docs/api-reference/chat/create"
PAIRS = (
    Rule(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'.",
        "https://github.com/agno-agi/agno/issues/4345",
        _unanswered,
    ),
    Rule(
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "https://platform.openai.com/docs/guides/function-calling",
        _uncalled,
    ),
    Rule(
        "tool_calls of one message have the same id",
        "https://platform.openai.com/docs/guides/function-calling",
        _has_twins,
    ),
    Rule("function names: a-z, A-Z, 0-9, _ and -, at most 64", _REFERENCE, _has_bad_name),
    Rule(
        "function.arguments: not the JSON of an object",
        "https://github.com/ggml-org/llama.cpp/blob/master/docs/function-calling.md",
        _has_bad_arguments,
    ),
)
"""Of everybody that speaks Chat Completions."""

OPENAI = (
    *PAIRS,
    Rule(
        "Invalid 'messages[0].tool_calls[0].id': string too long. Expected a string with maximum length 40",
        "https://github.com/vercel/ai/issues/5171",
        lambda body, given: any(len(call["id"]) > 40 for call in _calls(body)),
    ),
    Rule(
        "tools[0].function.description: string too long. Expected a string with maximum length 1024",
        "https://github.com/getsentry/sentry-mcp/issues/106",
        lambda body, given: any(
            len(t["function"].get("description") or "") > 1024 for t in body.get("tools", ())
        ),
    ),
    Rule(
        "Additional properties are not allowed in messages",
        _REFERENCE,
        _messages_with_more_than("refusal", "audio"),
    ),
    Rule(
        "Invalid schema: 'additionalProperties' is required to be supplied and to be false, and 'required' "
        "to include every key in properties",
        "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas",
        is_not_strict,
    ),
    Rule(
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        "https://github.com/langchain-ai/langgraph/issues/5943",
        lambda body, given: {"max_tokens", "max_completion_tokens"} <= body.keys(),
    ),
    Rule(
        "'parallel_tool_calls' is only allowed when 'tools' are specified.",
        "https://github.com/camel-ai/camel/pull/3706",
        lambda body, given: "parallel_tool_calls" in body and not body.get("tools"),
    ),
    Rule(
        "Invalid 'messages': images are only supported in user messages",
        "https://platform.openai.com/docs/guides/images-vision",
        lambda body, given: any(r != "user" and p["type"] != "text" for r, p in _parts(body)),
    ),
)

_VALIDATOR = (
    "https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/"
    "validator.py"
)
MISTRAL = (
    *PAIRS,
    Rule(
        "Tool call id must be a-z, A-Z, 0-9, with a length of 9.",
        _VALIDATOR,
        lambda body, given: (
            not all(
                _MISTRAL_ID.fullmatch(each)
                for each in [
                    *(call["id"] for call in _calls(body)),
                    *(message["tool_call_id"] for message in _of_role(body, "tool")),
                ]
            )
        ),
    ),
    Rule(
        "Unexpected role 'user' after role 'tool'",
        "https://github.com/mistralai/mistral-vibe/issues/578",
        _is_after_tool,
    ),
    Rule(
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
        _VALIDATOR,
        lambda body, given: body["messages"][-1]["role"] not in ("user", "tool"),
    ),
    Rule(
        "Assistant message must have either content or tool_calls",
        _VALIDATOR,
        lambda body, given: any(
            not m.get("content") and not m.get("tool_calls") for m in _of_role(body, "assistant")
        ),
    ),
    Rule(
        "Extra inputs are not permitted in messages",
        "https://github.com/charmbracelet/crush/issues/1590",
        _messages_with_more_than("prefix"),
    ),
    refuse_field(
        "prompt_cache_key",
        "Extra inputs are not permitted: prompt_cache_key",
        "https://docs.mistral.ai/api/#tag/chat",
    ),
    refuse_field(
        "max_completion_tokens",
        "Extra inputs are not permitted: max_completion_tokens",
        "https://github.com/editor-code-assistant/eca/issues/231",
    ),
)


def _lacks_thoughts(body: Json, given: Sequence[Json]) -> bool:
    return any(not message.get("reasoning_content") for message in _of_role(body, "assistant"))


def _changes(*fields: str) -> Callable[[Json, Sequence[Json]], bool]:
    """Return whether a message has these fields of an answer in a way that no answer had them. A blank one,
    for the answers of others, is no change."""

    def breaks(body: Json, given: Sequence[Json]) -> bool:
        known = [[answer.get(field) for field in fields] for answer in given]
        for message in _of_role(body, "assistant"):
            values = [message.get(field) for field in fields]
            is_blank = not any(v.strip() if isinstance(v, str) else v for v in values)
            if not is_blank and values not in known:
                return True
        return False

    return breaks


DEEPSEEK = (
    *PAIRS,
    Rule(
        "Missing `reasoning_content` field in the assistant message",
        "https://api-docs.deepseek.com/guides/thinking_mode",
        _lacks_thoughts,
    ),
    Rule(
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "https://api-docs.deepseek.com/guides/thinking_mode",
        _changes("reasoning_content"),
    ),
    Rule(
        "Failed to deserialize the JSON body: unknown variant `image_url`, expected `text`",
        "https://github.com/rikkahub/rikkahub/issues/1433",
        lambda body, given: any(part["type"] != "text" for _, part in _parts(body)),
        is_learned=True,
    ),
)

GROQ = (
    *PAIRS,
    Rule(
        "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
        "'reasoning_content' is unsupported)]",
        "https://github.com/janhq/jan/issues/8136",
        _messages_with_more_than("reasoning"),
    ),
)

KIMI = (
    *PAIRS,
    Rule(
        "Invalid request: the message at position 1 with role 'assistant' must not be empty",
        "https://github.com/AstrBotDevs/AstrBot/issues/7200",
        lambda body, given: any(map(_is_empty, _of_role(body, "assistant"))),
    ),
    Rule(
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        "https://github.com/MoonshotAI/kimi-cli/issues/2141",
        lambda body, given: any(
            m.get("tool_calls") and not m.get("reasoning_content")
            for m in _of_role(body, "assistant")
        ),
        is_learned=True,
    ),
)

XAI = (
    *PAIRS,
    Rule(
        "Invalid request content: Each message must have at least one content element.",
        "https://github.com/AstrBotDevs/AstrBot/issues/6447",
        lambda body, given: any(map(_is_empty, body["messages"])),
    ),
    refuse_field(
        "stop",
        "Argument not supported on this model: stop",
        "https://github.com/BerriAI/litellm/issues/12635",
    ),
    refuse_field(
        "reasoning_effort",
        "Model grok-4 does not support parameter reasoning_effort.",
        "https://github.com/maximhq/bifrost/pull/1286",
    ),
)


def _has_no_turn_before(body: Json, given: Sequence[Json]) -> bool:
    before = None
    for message in body["messages"]:
        if message["role"] == "system":
            continue
        if message.get("tool_calls") and before not in ("user", "tool"):
            return True
        before = message["role"]
    return False


def _signature_of(call: Json) -> str | None:
    google = call.get("extra_content", {}).get("google", {})
    signature = google.get("thought_signature")
    return signature if isinstance(signature, str) else None


def _lacks_signature(body: Json, given: Sequence[Json]) -> bool:
    messages = body["messages"]
    last = max((n for n, m in enumerate(messages) if m["role"] == "user"), default=-1)
    return any(
        _signature_of(message["tool_calls"][0]) is None
        for message in messages[last + 1 :]
        if message.get("tool_calls")
    )


def _changes_signature(body: Json, given: Sequence[Json]) -> bool:
    known = {_signature_of(call) for m in given for call in m.get("tool_calls") or ()}
    return any(_signature_of(call) not in {*known, None, PLACEHOLDER} for call in _calls(body))


GEMINI = (
    *PAIRS,
    Rule(
        "Function call is missing a thought_signature in functionCall parts.",
        "https://ai.google.dev/gemini-api/docs/thought-signatures",
        _lacks_signature,
    ),
    Rule(
        "Corrupted thought signature.",
        "https://ai.google.dev/gemini-api/docs/thought-signatures",
        _changes_signature,
    ),
    Rule(
        "Please ensure that function call turn comes immediately after a user turn or after a function "
        "response turn.",
        "https://github.com/google-gemini/gemini-cli/issues/11814",
        _has_no_turn_before,
    ),
    Rule(
        "Please ensure that the request does not end with a model turn",
        "https://github.com/crewAIInc/crewAI/pull/6973",
        lambda body, given: body["messages"][-1]["role"] == "assistant",
    ),
    Rule(
        "GenerateContentRequest.tools[0].function_declarations[0].parameters: type should be OBJECT",
        "https://ai.google.dev/gemini-api/docs/function-calling",
        lambda body, given: any(schema.get("type") != "object" for schema, _ in _schemas(body)),
    ),
    refuse_field(
        "prompt_cache_key",
        'Invalid JSON payload received. Unknown name "prompt_cache_key": Cannot find field.',
        "https://github.com/sipeed/picoclaw/pull/790",
    ),
)

LLAMA = (
    *PAIRS,
    Rule(
        "Jinja Exception: System message must be at the beginning.",
        "https://github.com/netease-youdao/LobsterAI/issues/136",
        lambda body, given: any(m["role"] == "system" for m in body["messages"][1:]),
    ),
    Rule(
        "Jinja Exception: No user query found in messages.",
        "https://github.com/langgenius/dify/issues/33152",
        lambda body, given: not any(_of_role(body, "user")),
    ),
)

OPENROUTER = (
    *PAIRS,
    Rule(
        "Provider returned error: thinking blocks in the latest assistant message cannot be modified",
        "https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning",
        _changes("reasoning_details"),
    ),
    Rule(
        "messages: text content blocks must be non-empty",
        "https://github.com/anthropics/claude-code/issues/6774",
        lambda body, given: any(_is_empty(m) for m in body["messages"] if m["role"] != "tool"),
    ),
    Rule(
        "A maximum of 4 blocks with cache_control may be provided.",
        "https://openrouter.ai/docs/features/prompt-caching",
        lambda body, given: json.dumps(body).count('"cache_control"') > MAX_CACHE_MARKS,
    ),
)
