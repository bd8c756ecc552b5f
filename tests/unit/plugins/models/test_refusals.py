"""Refusals of settings, in the words of providers."""

import pytest

from layover.errors import ModelError
from layover.plugins.models.refusals import refused_settings
from layover.values.places import place_within

SETTINGS = frozenset(
    {
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "reasoning_effort",
        "reasoning_content",
        "reasoning",
        "verbosity",
        "tool_choice",
        "parallel_tool_calls",
        "seed",
        "stop",
        "prompt_cache_key",
    }
)


def refused(message: str, status: int = 400) -> set[str]:
    error = ModelError(message, status=status, type="BadRequestError")
    return set(refused_settings(error, SETTINGS))


@pytest.mark.parametrize(
    "message",
    [
        "max_completion_tokens is too large: 50",
        "Invalid value for 'tool_choice': no such tool",
        "messages: unexpected role",
        "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.",
        "temperature must be between 0 and 2",
        "temperature: Input should be less than or equal to 1",
        "The model `x` does not exist or you do not have access to it.",
        "Function call is missing a thought_signature in functionCall parts.",
        "Unsupported image format",
    ],
)
def test_wrong_value_and_other_faults_leave_nothing_out(message: str) -> None:
    assert refused(message) == set()


def placed(place: str, message: str, code: str = "") -> ModelError:
    error = ModelError(message, status=400, type="BadRequestError")
    error.place, error.code = place, code
    return error


def test_the_providers_own_fields_come_before_its_words() -> None:
    words = "The value is wrong: top_p and temperature are two of a kind."
    assert refused_settings(placed("seed", words, "unsupported_parameter"), SETTINGS) == {"seed"}
    assert refused_settings(placed("seed", words, "invalid_value"), SETTINGS) == frozenset()
    assert refused_settings(placed("", "Unsupported: 'temperature'"), SETTINGS) == {"temperature"}


def test_a_place_counts_if_the_request_has_it() -> None:
    assert place_within("seed", {"seed", "messages"}) == "seed"
    assert place_within("tools[3].name", {}) == "tools[3].name"
    assert place_within("error", {"messages"}) == ""


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
def test_other_statuses_leave_nothing_out(status: int) -> None:
    assert refused("Unsupported parameter: 'seed'", status) == set()


def test_an_answer_that_its_provider_cannot_read_refuses_no_setting() -> None:
    words = "parameters for tool look did not match schema: additionalProperties 'temperature' not allowed"
    unread = ModelError(words, status=400, type="InvalidResponse")
    assert refused_settings(unread, SETTINGS) == frozenset()


WORDINGS = [
    ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
    (
        "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) "
        "value is supported.",
        "temperature",
    ),
    ("Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
    ("property 'reasoning_content' is unsupported", "reasoning_content"),
    ('Invalid JSON payload received. Unknown name "seed": Cannot find field.', "seed"),
    ("extraneous key [stop] is not permitted", "stop"),
    ("deepseek-reasoner does not support this tool_choice", "tool_choice"),
    ("invalid temperature: only 1 is allowed for this model", "temperature"),
    ("`temperature` may only be set to 1 when thinking is enabled.", "temperature"),
    (
        "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.",
        "top_p",
    ),
    ("seed is not currently supported", "seed"),
    ("seed is not yet supported", "seed"),
    ("'seed' is not implemented", "seed"),
    ("`parallel_tool_calls` is not a valid parameter", "parallel_tool_calls"),
    ("verbosity cannot be used with this model", "verbosity"),
    ("reasoning_effort cannot be set because thinking is disabled", "reasoning_effort"),
    ("stop is incompatible with reasoning models", "stop"),
    ("Model grok-4 does not support parameter reasoningEffort.", "reasoning_effort"),
    ("Model does not support parallelToolCalls", "parallel_tool_calls"),
    ("Parallel tool calling is not available for this model", "parallel_tool_calls"),
    ("This model does not support stop sequences", "stop"),
    ("parameter top_p: \u4e0d\u652f\u6301", "top_p"),
    ("reasoning_effort must be one of `none` or `default`", "reasoning_effort"),
    (
        "Invalid value: 'xhigh'. Supported values are: 'low', 'high'. (reasoning_effort)",
        "reasoning_effort",
    ),
    ("body.verbosity: Input should be 'medium'", "verbosity"),
    (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "max_tokens",
    ),
    ("'max_tokens' is unsupported; use 'max_completion_tokens'", "max_tokens"),
    ("'max_completion_tokens' is unsupported; use 'max_tokens'", "max_completion_tokens"),
    (
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        "max_tokens",
    ),
    ("max_completion_tokens and max_tokens are mutually exclusive", "max_tokens"),
    (
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        "top_p",
    ),
    ("max_tokens is not supported with reasoning models", "max_tokens"),
]


@pytest.mark.parametrize(("message", "name"), WORDINGS)
def test_setting_that_a_model_does_not_take_is_left_out(message: str, name: str) -> None:
    assert refused(message) == {name}
    assert refused(message, 422) == {name}


@pytest.mark.parametrize(
    "message",
    [
        '"gemma3" does not support thinking',
        "Thinking level is not supported for this model.",
        "Reasoning is not supported by this model",
    ],
)
def test_model_that_does_not_think_is_asked_without_a_level(message: str) -> None:
    assert "reasoning_effort" in refused(message)


def test_router_without_a_provider_for_a_setting_is_asked_without_it() -> None:
    message = "No endpoints found that support the provided 'tool_choice' value."
    assert refused(message, 404) == {"tool_choice"}


def test_word_is_not_a_field() -> None:
    assert refused("This endpoint is unsupported. See the notes on reasoning_models.") == set()
    assert refused("property 'reasoning' is unsupported") == {"reasoning"}
    assert refused("Unknown field messages.3.reasoning") == {"reasoning"}


def test_setting_that_was_not_sent_is_not_refused() -> None:
    error = ModelError("Unsupported parameter: 'seed'", status=400, type="BadRequestError")
    assert refused_settings(error, frozenset({"stop"})) == frozenset()
