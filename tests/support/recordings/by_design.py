"""Differences between Layover and the recordings that are meant to be, each with the words of the page that
says so. A difference that is not here fails the tests, and so does one of these that does not occur."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

BEHAVIOUR = "docs/behaviour.md"
SOURCES = "tests/unit/plugins/models/recorded/SOURCES.md"
SHORTENED = re.compile(r"\(\d+ characters left out\)")


@dataclass(frozen=True)
class Rule:
    """`page`, `anchor`, `words`: of the documentation that says it; `fits`: whether two values differ as it
    says, Layover's and the recorded one; `places`: where they do, as `Deviation.place` has it."""

    page: str
    anchor: str
    words: str
    fits: Callable[[Any, Any], bool]
    places: Sequence[str]


def _is_left_out(ours: Any, recorded: Any) -> bool:
    return not ours and bool(recorded)


def _is_added(ours: Any, recorded: Any) -> bool:
    return bool(ours) and not recorded


def _is_same_json(ours: Any, recorded: Any) -> bool:
    return bool(json.loads(ours) == json.loads(recorded))


def _has_same_words(ours: Any, recorded: Any) -> bool:
    return bool(ours.strip() == recorded.strip())


def _lacks_thoughts(ours: Any, recorded: Any) -> bool:
    """Return whether a text is the recorded one without `<think>`."""
    text = re.sub(r"<think>.*?</think>", "", recorded, flags=re.S)
    return bool((ours or "").strip() == text.strip())


def _are(*values: Any) -> Callable[[Any, Any], bool]:
    return lambda ours, recorded: (ours, recorded) == values


RULES = (
    # The reading of an answer
    Rule(
        BEHAVIOUR,
        "provider-retries",
        "The `type` of an error is the name that the package `openai` has for its status",
        lambda ours, recorded: ours in ("BadRequestError", "NotFoundError"),
        (
            "read anthropic/error_400#0 type",
            "read anthropic/error_404#0 type",
            "read bedrock/error_400#0 type",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "provider-retries",
        "An answer that the provider itself cannot read (Groq's `tool_use_failed`",
        lambda ours, recorded: ours in ("InvalidResponse", 400),
        (
            "read groq/stream_tool_error_after_text#0 type",
            "read groq/stream_tool_error_after_text#0 status",
            "read groq/tool_use_failed_then_goes_on#0 type",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "provider-retries",
        "an answer whose finish reason is empty, unless it has calls",
        lambda ours, recorded: ours in ("stop", "tool-calls") and not recorded,
        (
            "read snowflake/empty_function_call#0 finish",
            "read snowflake/stream_thinking_blocks#0 finish",
            "read snowflake/thoughts_call_then_text#0 finish",
            "read snowflake/thoughts_call_then_text#1 finish",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "empty-answers",
        "Blanks before a closing tag are told and kept with the thoughts.",
        _has_same_words,
        ("read groq/inline_thoughts#0 reasoning", "read huggingface/inline_thoughts#0 reasoning"),
    ),
    Rule(
        BEHAVIOUR,
        "anthropic",
        "Where Anthropic compacts a prompt on its own, the usage is the sum of its iterations.",
        lambda ours, recorded: ours["input"] > recorded["input"],
        ("read anthropic/stream_compaction#0 usage",),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "are no answers. The step fails at once with `InvalidResponse`",
        _are("InvalidResponse", None),
        (
            "read responses/background_queued#0 outcome",
            "back responses/background_queued#0 outcome",
        ),
    ),
    # What goes back
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "go back as the JSON of an object with sorted keys",
        _is_same_json,
        (
            "back crusoe/call_then_text#0 call.arguments",
            "history crusoe/call_then_text#1 call.arguments",
            "back deepseek/responses_call_then_text#0 call.arguments",
            "history deepseek/responses_call_then_text#1 call.arguments",
            "back deepseek/thoughts_with_calls#0 call.arguments",
            "history deepseek/thoughts_with_calls#1 call.arguments",
            "back mistral/call_then_text#0 call.arguments",
            "history mistral/call_then_text#1 call.arguments",
            "back openai/plain_tool_output#1 call.arguments",
            "back openai/stream_one_two_one_calls#1 call.arguments",
            "back openai/stream_one_two_one_calls#2 call.arguments",
            "history openai/stream_one_two_one_calls#2 call.arguments",
            "back openai/two_calls_plain#0 call.arguments",
            "history openai/two_calls_plain#1 call.arguments",
            "back openrouter/claude_cache#0 call.arguments",
            "history openrouter/claude_cache#1 call.arguments",
            "back openrouter/gemini_long_call_ids#0 call.arguments",
            "back openrouter/gemini_long_call_ids#1 call.arguments",
            "history openrouter/gemini_long_call_ids#1 call.arguments",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "`custom` or `function_call`) do not go back.",
        _is_left_out,
        (
            "back anthropic/stream_calls#0 call.caller",
            "back anthropic/web_search#0 text.citations",
            "back anthropic/web_search#0 web_search_tool_result.caller",
            "back groq/stream_call_then_text#0 text.channel",
            "back groq/stream_call_then_text#1 text.channel",
            "back openrouter/annotations_plain#0 text.annotations",
            "back openrouter/stream_annotations#0 text.annotations",
            "back snowflake/empty_function_call#0 text.audio",
            "back snowflake/empty_function_call#0 text.function_call",
            "back snowflake/thoughts_call_then_text#0 call.custom",
            "back snowflake/thoughts_call_then_text#0 text.audio",
            "back snowflake/thoughts_call_then_text#0 text.function_call",
            "back snowflake/thoughts_call_then_text#1 text.audio",
            "back snowflake/thoughts_call_then_text#1 text.function_call",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "A `reasoning` that repeats `reasoning_content` or a block does not go back with it.",
        _is_left_out,
        (
            "back openrouter/claude_signed_thoughts#0 text.reasoning",
            "back openrouter/plain_reasoning_field#0 text.reasoning",
            "back openrouter/stream_reasoning_details#0 text.reasoning",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "Thoughts that a model wrote into its text (`<think>`) do not.",
        _lacks_thoughts,
        (
            "back groq/inline_thoughts#0 text.content",
            "back huggingface/inline_thoughts#0 text.content",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "On Bedrock only signed or encrypted thoughts go back.",
        _are([], ["reasoningContent"]),
        (
            "back bedrock/kimi_call#0 order",
            "back bedrock/qwen_thoughts_alone#0 order",
            "back bedrock/qwen_thoughts_alone#1 order",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "Chat Completions and Converse offer none.",
        _are([], ["provider's call", "provider's result"]),
        (
            "back bedrock/nova_server_tool#0 order",
            "back bedrock/nova_server_tool#1 order",
            "history bedrock/nova_server_tool#1 order",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "On Bedrock, blanks at the end of a text do not.",
        lambda ours, recorded: ours == recorded.rstrip(),
        (
            "back bedrock/nova_stream_call#0 text.content",
            "history bedrock/nova_stream_call#1 text.content",
        ),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "One of nothing but blanks does not go back",
        _are([], ["text"]),
        ("history responses/two_calls#1 order",),
    ),
    Rule(
        BEHAVIOUR,
        "kept-and-sent-back",
        "are kept and go back. Open models",
        _is_added,
        (
            "history groq/stream_call_then_text#1 text.reasoning",
            "history groq/tool_use_failed_then_goes_on#2 text.reasoning",
        ),
    ),
    # What the recorded client does
    Rule(
        SOURCES,
        "recorded-client",
        "It sends thoughts that are not signed as a text, or in `<think>` within a text.",
        lambda ours, recorded: recorded == ["text"] or _lacks_thoughts(ours, recorded),
        (
            "history bedrock/kimi_call#1 order",
            "history bedrock/qwen_thoughts_alone#1 order",
            "history groq/stream_call_then_text#1 text.content",
            "history groq/tool_use_failed_then_goes_on#2 text.content",
        ),
    ),
    Rule(
        SOURCES,
        "recorded-client",
        "It sends a call under the id of the item, or puts the id of the response before it.",
        lambda ours, recorded: recorded.startswith(("fc_", "resp_")),
        (
            "history bedrock-mantle/reused_call_ids#1 call.id",
            "history bedrock-mantle/reused_call_ids#1 result.id",
            "history bedrock-mantle/reused_call_ids#2 call.id",
            "history bedrock-mantle/reused_call_ids#2 result.id",
            "history responses/stream_call_then_text#1 call.id",
            "history responses/stream_call_then_text#1 result.id",
        ),
    ),
    Rule(
        SOURCES,
        "recorded-client",
        "It sends an answer of the Responses API without the ids of messages and calls, and the results of "
        "the provider's own tools without their output.",
        _is_added,
        (
            "history deepseek/responses_call_then_text#1 call.item",
            "history responses/code_interpreter#1 code_interpreter_call.outputs",
            "history responses/mcp#1 mcp_call.output",
            "history responses/mcp#1 mcp_list_tools.tools",
            "history responses/stream_call_then_text#1 call.item",
            "history responses/two_calls#1 call.item",
        ),
    ),
    Rule(
        SOURCES,
        "recorded-client",
        "It adds calls of its own making to a conversation",
        _are([], ["text", "call", "result"]),
        ("history deepseek/thoughts_with_calls#1 order",),
    ),
    Rule(
        SOURCES,
        "recorded-client",
        "Its author has changed the history between two requests",
        lambda ours, recorded: True,
        (
            "history responses/error_400_thought_alone#2 order",
            "history responses/error_400_thought_alone#2 text.content",
            "history responses/error_400_thought_alone#2 text.id",
        ),
    ),
    Rule(
        SOURCES,
        "recorded-client",
        "A text is shortened where it is long",
        lambda ours, recorded: SHORTENED.search(json.dumps(recorded)) is not None,
        ("history anthropic/mcp#1 mcp_tool_result.content",),
    ),
)
BY_PLACE = {place: rule for rule in RULES for place in rule.places}
