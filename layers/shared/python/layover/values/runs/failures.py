"""The words about a failure: a run's owner reads ours, operators the provider's as well. Loaded once a run
fails."""

import re
from typing import NamedTuple

from layover.errors import ModelError, RunFailed
from layover.values.runs.status import ErrorDetail, ErrorInfo
from layover.values.text import sanitise

MAX_WORDS = 500
"""Characters of a provider's, or an exception's, words that operators are shown."""
_HIDDEN = "[hidden]"


class _Words(NamedTuple):
    happened: str
    to_do: str


_LATER = "Try again in some minutes. If it fails again, tell whoever runs this service that {run} failed."
_TELL = "Trying again does not help: tell whoever runs this service that {run} failed."
_REFUSED = _Words("The language model refused the request.", _TELL)
_NO_ACCESS = _Words("The language model does not accept this service.", _TELL)
_NO_ANSWER = _Words("The language model did not answer.", _LATER)
_TOO_LONG = _Words(
    "The conversation is too long for the language model.",
    "Send less, or begin a new one. It was {run}.",
)
_OF_CODE = _Words("The agent's own code failed.", _TELL)
_WORDS = {
    "APIConnectionError": _NO_ANSWER,
    "APIError": _NO_ANSWER,
    "APITimeoutError": _NO_ANSWER,
    "InternalServerError": _NO_ANSWER,
    "InvalidResponse": _NO_ANSWER,
    "ProviderAway": _NO_ANSWER,
    "RateLimitError": _Words("The language model takes no more requests for now.", _LATER),
    "AuthenticationError": _NO_ACCESS,
    "PermissionDeniedError": _NO_ACCESS,
    "NotFoundError": _Words("The language model of this agent is not available.", _TELL),
    "ConfigurationError": _Words("A setting of this service is missing.", _TELL),
    "ContextLengthExceeded": _TOO_LONG,
    "RequestTooLargeError": _TOO_LONG,
    "ContentFiltered": _Words(
        "A filter of the language model stopped the request.",
        "Say it in another way. It was {run}.",
    ),
    "AttemptsUsedUp": _Words("The run was tried several times and did not come to an end.", _LATER),
    "DefinitionError": _Words("The agent cannot be loaded.", _TELL),
    "UnknownAgent": _Words("The agent is not part of this service any more.", _TELL),
    "ToolServerError": _Words("A service whose tools the agent needs did not answer.", _LATER),
    "RecordsExpired": _Words(
        "Parts of the run have expired while it stood still.",
        "Send your message again. It was {run}.",
    ),
}
"""The words for an owner, by the type of the failure. Other types of a model are `_REFUSED`; those of an
author's exceptions, whose names nobody here knows, are `_OF_CODE`."""

_SECRETS = (
    # A key as providers make them, whole or masked.
    (re.compile(r"\b(?:sk|pk|rk|gsk|hf|xai|pplx|ghp|xox[a-z])[-_][\w*.-]{4,}"), _HIDDEN),
    (re.compile(r"\b(?:AKIA|ASIA|AIza|ya29)[\w*.-]{8,}"), _HIDDEN),
    (re.compile(r"\S*\*{3,}\S*"), _HIDDEN),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]{6,}", re.I), rf"\1 {_HIDDEN}"),
    (
        re.compile(
            r"((?:api[-_ ]?key|token|secret|password|authorization|signature)[\"']?\s*[:=]\s*[\"']?)"
            r"[^\s\"',;]{4,}",
            re.I,
        ),
        rf"\1{_HIDDEN}",
    ),
    # What a URL has besides its place.
    (re.compile(r"//[^\s/@?#]+@"), "//"),
    (re.compile(r"(https?://[^\s?#]+)[?#][^\s\])]*"), r"\1"),
    # No word is that long and has letters and digits and no hyphen.
    (re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w{32,}\b"), _HIDDEN),
)


def error_of(failure: RunFailed, run_id: str | None = None) -> ErrorInfo:
    """Return what the owner of a run is told of its failure. `run_id`: the run, or None if it goes on all the
    same."""
    return ErrorInfo(type=failure.type, message=words_for_owner(failure, run_id))


def words_for_owner(failure: RunFailed, run_id: str | None) -> str:
    """Return what the owner of a run reads of its failure: what happened, what to do, and the run's id. It
    has no words of a provider, of an exception, and no address.

    ```python
    failure = ModelError("Incorrect API key provided: sk-1234", status=401, type="AuthenticationError")
    assert words_for_owner(failure, "run_1").startswith("The language model does not accept this service.")
    ```
    """
    words = _WORDS.get(failure.type)
    if words is None:
        if not failure.is_internal:
            return sanitise(failure.message)
        words = _REFUSED if isinstance(failure, ModelError) else _OF_CODE
    if run_id is None:
        return words.happened
    return f"{words.happened} {words.to_do.format(run=run_id)}"


def detail_of(failure: RunFailed) -> ErrorDetail | None:
    """Return what operators are told of a failure besides; None: the owner has read all of it."""
    if failure.detail is not None:
        return ErrorDetail.model_validate(failure.detail)
    message = without_secrets(sanitise(failure.message))
    if not isinstance(failure, ModelError):
        is_told = failure.type not in _WORDS and not failure.is_internal
        return None if is_told else ErrorDetail(message=message)
    model = failure.model
    provider = failure.provider or (model.partition("/")[0] if model and "/" in model else None)
    return ErrorDetail(
        provider=provider,
        model=model,
        status=failure.status,
        request_id=failure.request_id,
        message=message,
    )


def is_of_code(type: str, detail: ErrorDetail) -> bool:
    """Return whether the words are those of an exception of the agent's code, which may quote what a user
    wrote."""
    return detail.model is None and type not in _WORDS


def without_secrets(words: str) -> str:
    """Return the words without what looks like a key, a password, or the part of a URL that may have one;
    `MAX_WORDS` characters at most.

    ```python
    assert without_secrets("Incorrect API key: sk-abcd1234") == "Incorrect API key: [hidden]"
    ```
    """
    for pattern, instead in _SECRETS:
        words = pattern.sub(instead, words)
    return words if len(words) <= MAX_WORDS else f"{words[: MAX_WORDS - 1]}…"
