"""Faults that pass by themselves, and the caller's view of the others."""

import json
import socket
import ssl
from typing import Any

import pytest

from layover.errors import ContentFiltered, ContextLengthExceeded, ModelError
from layover.plugins.models.faults import (
    from_event,
    from_status,
    make_disconnect_fault,
)


@pytest.mark.parametrize(
    ("status", "passes", "type"),
    [
        (400, False, "BadRequestError"),
        (401, False, "AuthenticationError"),
        (403, False, "PermissionDeniedError"),
        (404, False, "NotFoundError"),
        (422, False, "UnprocessableEntityError"),
        (418, False, "APIStatusError"),
        (408, True, "APITimeoutError"),
        (409, True, "ConflictError"),
        (429, True, "RateLimitError"),
        (500, True, "InternalServerError"),
        (529, True, "InternalServerError"),
    ],
)
def test_a_status_says_whether_the_fault_passes(status: int, passes: bool, type: str) -> None:
    fault = from_status(status, {"error": {"message": "no"}}, {})
    assert (fault.is_transient, fault.error.type, fault.error.status) == (passes, type, status)
    assert fault.error.message == "no"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": " m "}}, "m"),
        ({"error": "m"}, "m"),
        ({"message": "m"}, "m"),
        ({"detail": "m"}, "m"),
        ([{"error": {"message": "m"}}], "m"),
    ],
)
def test_the_providers_message_is_found_in_every_shape(body: Any, message: str) -> None:
    assert from_status(400, body, {}).error.message == message


def wrapped(raw: Any) -> Any:
    error = {"message": "Provider returned error", "metadata": {"raw": raw, "provider_name": "X"}}
    return {"error": error}


def routed(raw: Any, status: int = 400) -> Any:
    return from_status(status, wrapped(raw), {}).error


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("slow down", "Provider returned error: slow down"),
        ('{"error": {"message": "no seed here"}}', "Provider returned error: no seed here"),
        ("<p>Bad\ngateway</p>", "Provider returned error: Bad gateway"),
        ("x" * 900, "Provider returned error: " + "x" * 500),
        ("error", "Provider returned error"),
        ("", "Provider returned error"),
        ("{}", "Provider returned error"),
        ("[[1", "Provider returned error: [[1"),
        (None, "Provider returned error"),
        ({"a": 1}, "Provider returned error"),
    ],
)
def test_the_words_of_the_provider_behind_a_router_are_told(raw: Any, message: str) -> None:
    assert routed(raw).message == message


@pytest.mark.parametrize("metadata", [None, [], "x", {"raw": 1}])
def test_an_error_with_other_metadata_has_its_own_words(metadata: Any) -> None:
    error = {"message": "m", "metadata": metadata}
    assert from_status(400, {"error": error}, {}).error.message == "m"


def test_a_prompt_that_is_too_long_for_the_provider_behind_a_router_has_its_own_error() -> None:
    raw = '{"error": {"message": "This model\'s maximum context length is 8192 tokens."}}'
    assert isinstance(routed(raw), ContextLengthExceeded)


def test_a_page_is_told_by_its_words() -> None:
    page = "<html><head><title>t</title><style>b{}</style></head><h1>Bad gateway</h1></html>"
    assert from_status(502, page, {}).error.message.endswith("HTTP 502: Bad gateway")


@pytest.mark.parametrize("body", [None, {}, "", [], {"error": {}}])
def test_a_fault_without_words_has_a_message_all_the_same(body: Any) -> None:
    assert "HTTP 500" in from_status(500, body, {}).error.message


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 128000 tokens. However, you requested 130000.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Please reduce the length of the messages or completion.",
        "input length and max_tokens exceed context limit: the context window was exceeded",
        "Your input exceeds the context window of this model.",
    ],
)
def test_a_prompt_that_is_too_long_has_its_own_error(message: str) -> None:
    error = from_status(400, {"error": {"message": message}}, {}).error
    assert isinstance(error, ContextLengthExceeded)
    assert error.status == 400


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        ("Kimi", "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
        ("vLLM", "The decoder prompt (length 9123) is longer than the maximum model length of 8192."),
        ("vLLM", "You passed 40961 input tokens. However, the model's context length is only 40960."),
        ("SGLang", "The input (40000 tokens) is longer than the model's context length (32768 tokens)."),
        ("SGLang", "Requested token count exceeds the model's maximum context length of 32768 tokens."),
        ("Together", "Input validation: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 9000"),
        ("TGI", "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
        ("llama.cpp", "the request exceeds the available context size, try increasing it"),
        ("LM Studio", "The number of tokens to keep is greater than the context length."),
        ("Mistral", "Prompt contains 40000 tokens, too large for model with 32768 tokens"),
        ("Cohere", "total number of tokens in the prompt cannot exceed 128000 - received 150000."),
        ("Groq", "Please reduce the length of the messages or completion."),
        ("Fireworks", "The prompt is too long: 150000, model maximum context length: 131071"),
        ("Qwen", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]"),
        ("Zhipu", "Prompt exceeds max length"),
        ("MiniMax", "invalid params, context window exceeds limit (2013)"),
        ("Anthropic", "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
        ("Copilot", "prompt token count of 140000 exceeds the limit of 128000"),
        ("GitHub Models", "Request body too large for gpt-4o model. Max size: 8000 tokens."),
        ("watsonx", "the number of input tokens 5000 cannot exceed the total tokens limit 4096"),
        ("Bedrock", "Input is too long for requested model."),
        ("OpenRouter", "This endpoint's maximum context length is 131072 tokens."),
        ("DeepSeek", "This model's maximum context length is 65536 tokens."),
    ],
)  # fmt: skip
def test_each_provider_says_in_its_own_words_that_a_prompt_is_too_long(
    provider: str, message: str
) -> None:
    assert isinstance(
        from_status(400, {"error": {"message": message}}, {}).error, ContextLengthExceeded
    )


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": {"code": "content_filter", "message": "The response was filtered."}}),
        (400, {"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        (400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
        (400, {"error": {"code": "data_inspection_failed", "message": "Input data may be wrong."}}),
        (400, {"error": {"message": "The request was rejected because it was considered high risk"}}),
        (400, {"error": {"message": "Invalid prompt: your prompt was flagged as violating our policy."}}),
        (400, {"error": {"message": "Output blocked by content filtering policy"}}),
        (400, {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}}),
        (403, {"code": "permission", "error": "Content violates usage guidelines."}),
        (403, {"error": {"message": "Your chosen model requires moderation and your input was flagged"}}),
        (422, {"error": {"message": "input new_sensitive (1026): sensitive words"}}),
    ],
)  # fmt: skip
def test_a_filter_that_refuses_a_request_has_its_own_error(status: int, body: Any) -> None:
    fault = from_status(status, body, {})
    assert isinstance(fault.error, ContentFiltered)
    assert (fault.is_transient, fault.error.status) == (False, status)


def test_a_filter_that_refuses_within_a_stream_has_its_own_error() -> None:
    body = {"error": {"code": "content_filter", "message": "The response was filtered."}}
    assert isinstance(from_event(body).error, ContentFiltered)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Tool names are case-sensitive."),
        (400, "Could not process image"),
        (403, "Your key has no access to this model"),
        (429, "Content policy checks are overloaded"),
        (500, "content_filter is down"),
    ],
)
def test_other_refusals_are_not_a_filters(status: int, message: str) -> None:
    fault = from_status(status, {"error": {"message": message}}, {})
    assert not isinstance(fault.error, ContentFiltered | ContextLengthExceeded)


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (
            {"message": "Invalid schema", "param": "tools[0].function.parameters"},
            "tools[0].function.parameters",
        ),
        ({"message": "tools.1.custom.input_schema: no oneOf"}, "tools.1.custom.input_schema"),
        (
            {"message": "* GenerateContentRequest.tools[0].function_declarations[3].name: bad"},
            "tools[0].function_declarations[3].name",
        ),
        (
            {"message": "Value at 'toolConfig.tools.1.member.toolSpec.name' failed"},
            "toolConfig.tools.1.member.toolSpec.name",
        ),
        ({"message": "messages.3.content.1.image: too many pixels"}, "messages.3.content.1.image"),
        ({"message": "temperature: Input should be at most 1"}, "temperature"),
        ({"message": "The model does not support tools. Use another."}, ""),
        ({"message": "Error: no", "param": None}, ""),
        ({"message": "Could not process the image: broken"}, ""),
    ],
)
def test_an_error_names_its_place_in_the_request(error: Any, place: str) -> None:
    assert from_status(400, {"error": error}, {}).error.place == place


@pytest.mark.parametrize("name", ["moderation", "check_content_policy", "context_window_exceeded"])
def test_the_name_of_a_refused_tool_is_no_filters_word(name: str) -> None:
    message = f"Invalid schema for function '{name}': array schema missing items."
    error = {
        "message": message,
        "param": "tools[1].function.parameters",
        "code": "invalid_function_parameters",
    }
    fault = from_status(400, {"error": error}, {})
    assert not isinstance(fault.error, ContentFiltered | ContextLengthExceeded)
    assert fault.error.code == "invalid_function_parameters"


def test_the_code_alone_says_that_a_prompt_is_too_long() -> None:
    body = {"error": {"message": "no", "code": "context_length_exceeded"}}
    assert isinstance(from_status(400, body, {}).error, ContextLengthExceeded)
    assert isinstance(from_event(body).error, ContextLengthExceeded)


def test_a_rate_limit_on_tokens_is_no_prompt_that_is_too_long() -> None:
    body = {"error": {"message": "Rate limit: too many tokens per minute, maximum context length"}}
    assert from_status(429, body, {}).is_transient


@pytest.mark.parametrize(
    ("error", "passes", "status"),
    [
        ({"code": 502}, True, 502),
        ({"code": "429"}, True, 429),
        ({"code": "rate_limit_exceeded"}, True, 429),
        ({"type": "overloaded_error"}, True, 503),
        ({"type": "server_error"}, True, 500),
        ({"message": "hm"}, True, None),
        ({"type": "invalid_request_error"}, False, 400),
        ({"code": "invalid_api_key", "type": "invalid_request_error"}, False, 401),
        ({"code": "tool_use_failed", "status_code": 400}, True, 400),
        ({"type": "server_error", "status_code": 400}, False, 400),
    ],
)
def test_an_error_inside_a_stream_counts_by_its_code(
    error: dict[str, Any], passes: bool, status: int | None
) -> None:
    fault = from_event({"error": error})
    assert (fault.is_transient, fault.error.status) == (passes, status)


UNREAD = [
    {"code": "tool_use_failed", "message": "Failed to call a function.", "failed_generation": "<f"},
    {
        "code": "tool_use_failed",
        "message": "Tool choice is required, but model did not call a tool",
    },
    {
        "code": "json_validate_failed",
        "message": "Failed to generate JSON.",
        "failed_generation": "",
    },
    {"code": "output_parse_failed", "message": "Parsing failed."},
    {"type": "invalid_request_error", "message": "No call.", "failed_generation": "look(x="},
]
"""Errors with which Groq gives back what its model said."""


@pytest.mark.parametrize("error", UNREAD)
def test_an_answer_that_the_provider_cannot_read_is_no_fault_of_the_request(error: Any) -> None:
    for fault in (
        from_status(400, {"error": error}, {}),
        from_event({"error": error | {"status_code": 400}}),
        from_status(400, wrapped(json.dumps({"error": error})), {}),
    ):
        assert (fault.is_transient, fault.most_attempts) == (True, 3)
        assert (fault.error.type, fault.error.status) == ("InvalidResponse", 400)
        # What the model said is the user's, and no business of a log.
        assert fault.error.message.endswith(error["message"])
        assert not fault.of_settings


def test_the_words_of_an_unread_answer_are_not_taken_for_a_filters_or_a_windows() -> None:
    message = "Tool call validation failed: 'prompt too long, flagged by the content filter'"
    fault = from_status(400, {"error": {"code": "tool_use_failed", "message": message}}, {})
    assert fault.error.type == "InvalidResponse"
    assert type(fault.error) is ModelError


@pytest.mark.parametrize(
    ("cause", "passes", "attempts"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), False, None),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True, 3),
        (ssl.SSLCertVerificationError("certificate verify failed"), False, None),
        (ssl.SSLEOFError("EOF occurred in violation of protocol"), True, None),
        (ConnectionRefusedError(111, "Connection refused"), True, None),
        (ConnectionResetError(104, "Connection reset by peer"), True, None),
    ],
)
def test_a_broken_connection_passes_unless_the_address_is_wrong(
    cause: Exception, passes: bool, attempts: int | None
) -> None:
    outer = OSError("All connection attempts failed")
    outer.__context__ = cause
    wrapped = RuntimeError("Connection error.")
    wrapped.__cause__ = outer
    fault = make_disconnect_fault(wrapped, timeout=False)
    assert (fault.is_transient, fault.most_attempts) == (passes, attempts)
