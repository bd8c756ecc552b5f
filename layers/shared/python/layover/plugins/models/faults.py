"""Faults between a prompt and its reply, and which of them pass by themselves."""

import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any

from layover.errors import (
    INVALID_RESPONSE,
    ContentFiltered,
    ContextLengthExceeded,
    ModelError,
)

NOT_CONFIGURED = "ConfigurationError"
"""`error.type` of a provider that the deployment does not give what a request needs."""

_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    408: "APITimeoutError",
    409: "ConflictError",
    413: "RequestTooLargeError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
}
NETWORK = ("APIConnectionError", "APITimeoutError")
_PASSING = frozenset({408, 409, 425, 429})

_STATUS_OF_NAME = (
    (re.compile(r"rate_?limit|too_many_requests|quota", re.I), 429),
    (re.compile(r"auth(entication|orization)|invalid_api_key", re.I), 401),
    (re.compile(r"permission|forbidden", re.I), 403),
    (re.compile(r"not_?found", re.I), 404),
    (re.compile(r"overload|unavailable|capacity", re.I), 503),
    (re.compile(r"time_?out", re.I), 504),
    (
        re.compile(r"invalid|bad_?request|context_length|content_(filter|policy)|tool_use", re.I),
        400,
    ),
    (re.compile(r"server|internal|api_error", re.I), 500),
)
"""Statuses of an error event by the words of its code or type, where it brings no number."""

_REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id")
"""The headers in which providers name a request: OpenAI and most others, Anthropic, Amazon, Azure."""
_OF_SETTINGS = frozenset({401, 402, 403, 404, 405})
_UNPAID = re.compile(r"insufficient_quota|billing_(hard_limit|not_active)|credit_balance", re.I)
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")
"""OpenSSL's reasons if the other side does not speak TLS."""
MAX_LOCATION = 200
MAX_CAUSE = 500
"""Characters of what a provider behind a router said."""
BRIEFLY = 3
"""Attempts for a fault that is as likely a wrong address as a passing one: some seconds."""

_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|tokens_limit_reached|model_max_prompt_tokens"
    r"|(maximum|available|model'?s?|allowed) (context|prompt|input|model) (length|size|window)"
    r"|context (length|window|size)[^.]{0,40}(exceed|overflow)|greater than the context length"
    r"|exceed[^.]{0,60}context (length|window|size|limit)|(prompt|input) (is|was)? ?too (long|large)"
    r"|(prompt|input) exceeds (the )?(max|limit)|exceeded (the )?(model|max)\w* tokens?( limit)?"
    r"|reduce (the length of )?(the|your) (messages|prompt|input)|too many (input )?tokens"
    r"|token count[^.]{0,40}exceeds|tokens exceeds? (the )?(model|limit|max)"
    r"|tokens[^.]{0,20} cannot exceed|inputs\W{0,2} [^.]{0,30}must (be <=|have less than)"
    r"|range of input length|longer than the (maximum )?model|too large for model|body too large for",
    re.I,
)
"""The words in which providers say that a prompt is too long. Whatever else they say of a long prompt is
taken for it, too (`layover.engine.models.refused_content`)."""
_FILTERED = re.compile(
    r"content[ _-]?(filter|policy|management|moderation)|responsible_?ai_?policy|data_?inspection_?failed"
    r"|content exists risk|considered high risk|safety[_ ](check|system)|moderation|flagged"
    r"|violat\w* [^.]{0,60}(polic(y|ies)|guidelines|terms)|blocked by [^.]{0,40}(filter|safety)"
    r"|(inappropriate|unsafe|harmful|prohibited)[ _](content|input)|(?<!case[- ])\bsensitive\b|\u654f\u611f",
    re.I,
)
"""The words in which providers say that a filter refused a request."""
_GENERATION = "failed_generation"
"""The field of an error in which Groq gives back what its model said. It is not told: it is the user's."""
_UNREAD = re.compile(r"tool_use_failed|(json_validate|output_parse)_failed", re.I)
"""The codes of such errors."""
_OF_FILTERS = (None, 400, 403, 422, 451)
_OF_LENGTH = (None, 400, 413, 422)


class ProviderFault(Exception):
    """One attempt failed. The run sees `error` if no other attempt follows; `retry_after`: seconds that the
    provider asked for; `started`: part of a stream had been received."""

    def __init__(
        self, error: ModelError, *, is_transient: bool, retry_after: float | None = None
    ) -> None:
        super().__init__(error.message)
        self.error = error
        self.is_transient = is_transient
        self.retry_after = retry_after
        self.started = False
        self.most_attempts: int | None = None
        """The number of attempts that the fault is worth; None: as many as any fault."""
        self.of_settings = False
        """True if the operator of the deployment can mend it: a URL, a key, an account."""

    def name_provider(self, url: str, model: str) -> None:
        """Add the provider and the model to the message, if these have to be checked. Credentials in the URL
        are left out."""
        if self.of_settings:
            self.add(f" [model {model} at {shown_url(url)}]")

    def add(self, text: str) -> None:
        """Add words to the message."""
        self.error.message += text
        self.error.args = (self.error.message,)

    @property
    def is_disconnection(self) -> bool:
        """True if the connection broke; False if the provider answered with an error."""
        return self.error.type in NETWORK


def shown_url(url: str) -> str:
    """The URL without credentials, query and fragment."""
    return re.split(r"[?#]", re.sub(r"//[^/?#]*@", "//", url))[0].rstrip("/")


def type_of(status: int) -> str:
    """The name of an error with this HTTP status, as the openai package says it."""
    if status >= 500:
        return "InternalServerError"
    return _TYPES.get(status, "APIStatusError")


def invalid(message: str, status: int | None = None) -> ProviderFault:
    """The provider broke the protocol; as a rule a proxy's passing mood."""
    fault = ProviderFault(
        ModelError(message, status=status, type=INVALID_RESPONSE), is_transient=True
    )
    fault.of_settings = True
    return fault


def page(text: str) -> ProviderFault:
    """The answer is not JSON: a proxy's page, which may pass, or the address of something else."""
    page_text = plain_text(text) or "nothing"
    fault = invalid(f"The model's provider answered with invalid JSON: {page_text}")
    fault.most_attempts = BRIEFLY
    return fault


def unusable(cause: Exception) -> ProviderFault:
    """The URL or the key cannot be used at all: no connection can be tried with it."""
    what = f"{type(cause).__name__}: {cause}" if not isinstance(cause, UnicodeError) else "a key"
    error = ModelError(f"The provider's settings cannot be used: {what}", type="APIConnectionError")
    fault = ProviderFault(error, is_transient=False)
    fault.of_settings = True
    return fault


def redirected(status: int, location: str) -> ProviderFault:
    """The provider is elsewhere. Nothing is sent there: conversations go where the settings say."""
    where = shown_url(location)[:MAX_LOCATION] or "another address"
    message = f"The provider has moved to {where}: set its base URL"
    fault = ProviderFault(
        ModelError(message, status=status, type=type_of(status)), is_transient=False
    )
    fault.of_settings = True
    return fault


def not_configured(why: str) -> ProviderFault:
    """The deployment lacks something that a request needs, such as the key: nothing was sent."""
    fault = ProviderFault(ModelError(why, type=NOT_CONFIGURED), is_transient=False)
    fault.of_settings = True
    return fault


def make_disconnect_fault(cause: BaseException, *, timeout: bool) -> ProviderFault:
    """No answer, or half of one: refused, reset, silent for too long."""
    what = "The model's provider did not answer in time" if timeout else "Connection error"
    root = cause.__cause__ or cause
    detail = str(root).strip() or type(root).__name__
    name = "APITimeoutError" if timeout else "APIConnectionError"
    fault = ProviderFault(ModelError(f"{what}: {detail}", type=name), is_transient=True)
    fault.of_settings = True
    for each in _chain(cause):
        if isinstance(each, socket.gaierror) and each.errno == socket.EAI_AGAIN:
            fault.most_attempts = BRIEFLY
        elif isinstance(each, socket.gaierror) or _is_of_settings(each):
            fault.is_transient = False
    return fault


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_of_settings(error: BaseException) -> bool:
    """Return whether the fault is one of settings: waiting does not help. A refused connection is not: a
    server may be about to start again."""
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None)  # not every one of them has it
        return isinstance(error, ssl.SSLCertVerificationError) or reason in _NO_TLS
    return False


def unread(message: str, status: int | None) -> ProviderFault:
    """The provider could not read what its model said, and says so instead of an answer: the next answer may
    be another one."""
    fault = invalid(message, status)
    fault.most_attempts = BRIEFLY
    fault.of_settings = False
    return fault


def blocked(reason: str) -> ProviderFault:
    """A filter blocked the prompt, and the answer with status 200 says so instead of an answer."""
    message = f"The model's provider blocked the prompt ({plain_text(reason, 100)})"
    return ProviderFault(ContentFiltered(message), is_transient=False)


def from_status(status: int, body: object, headers: Mapping[str, str]) -> ProviderFault:
    """An answer with an error status. `body`: decoded JSON, or the text."""
    fault = _fault(status, body, headers)
    fault.error.request_id = next(filter(None, map(headers.get, _REQUEST_IDS)), None)
    return fault


def from_event(body: object) -> ProviderFault:
    """An error inside an answer with status 200. It counts by its code; one without any may pass."""
    return _fault(_status_of(_details(body)), body, {})


def _fault(status: int | None, body: object, headers: Mapping[str, str]) -> ProviderFault:
    message = _message(body, status)
    details = _details(body)
    if _is_unread(details):
        return unread(message, status)
    from layover.values.places import is_of_tools, place_in

    place = place_in(details, message)
    # Names of tools are the author's, or a stranger's: they say nothing about length and filters.
    fault = _by_words(status, body, headers, message, "" if is_of_tools(place) else message)
    code = details.get("code")
    fault.error.code, fault.error.place = code if isinstance(code, str) else "", place
    return fault


def _by_words(
    status: int | None, body: object, headers: Mapping[str, str], message: str, words: str
) -> ProviderFault:
    codes = " ".join(_codes(_details(body)))
    if status in _OF_LENGTH and (_TOO_LONG.search(codes) or _TOO_LONG.search(words)):
        return ProviderFault(ContextLengthExceeded(message, status=status), is_transient=False)
    if status in _OF_FILTERS and (_FILTERED.search(codes) or _FILTERED.search(words)):
        return ProviderFault(ContentFiltered(message, status=status), is_transient=False)
    if status is None:
        return ProviderFault(ModelError(message, type="APIError"), is_transient=True)
    is_unpaid = any(_UNPAID.search(str(_details(body).get(k) or "")) for k in ("code", "type"))
    is_transient = may_pass(status) and not is_unpaid
    error = ModelError(message, status=status, type=type_of(status))
    fault = ProviderFault(error, is_transient=is_transient)
    if is_transient:
        # Most processes meet no such fault.
        from layover.plugins.models.waits import wait_of

        fault.retry_after = wait_of(headers, _details(body), message)
    fault.of_settings = is_unpaid or status in _OF_SETTINGS
    return fault


def may_pass(status: int) -> bool:
    """Return whether the fault that a status tells may be over in a moment."""
    return status in _PASSING or status >= 500


def _is_unread(details: Mapping[str, Any]) -> bool:
    """Return whether an error, or its cause behind a router, is about what the model said."""
    if _GENERATION in details or _UNREAD.search(" ".join(_codes(details))):
        return True
    metadata = details.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    cause = _details(_json_or_none(raw)) if isinstance(raw, str) else {}
    return _GENERATION in cause or _UNREAD.search(" ".join(_codes(cause))) is not None


def _json_or_none(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _codes(details: Mapping[str, Any]) -> Iterator[str]:
    """Yield the codes of an error, its own and that of a cause within it."""
    inner = details.get("innererror")
    for each in (details, inner if isinstance(inner, Mapping) else {}):
        yield from (str(each[name]) for name in ("code", "type") if each.get(name))


def _details(body: object) -> Mapping[str, Any]:
    """The object that describes the error: `{"error": {...}}`, `[{"error": ...}]` or the body itself."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _message(body: object, status: int | None) -> str:
    details = _details(body)
    for key in ("message", "error", "detail", "msg"):
        value = details.get(key)
        if isinstance(value, str) and value.strip():
            param = details.get("param")
            is_news = isinstance(param, str) and param not in value
            return value.strip() + (f" ({param})" if is_news else "") + _cause(details, value)
        if isinstance(value, list) and value:  # a list of what is wrong with the fields
            return plain_text(json.dumps(value, ensure_ascii=False), 500)
    at = f"HTTP {status}" if status is not None else "an error"
    if isinstance(body, str) and (text := plain_text(body)):
        return f"The model's provider answered {at}: {text}"
    return f"The model's provider answered {at} without a message"


def _cause(details: Mapping[str, Any], message: str) -> str:
    """The words of the provider behind a router: OpenRouter's own only say that there is an error."""
    metadata = details.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    if not isinstance(raw, str):
        return ""
    try:
        cause = _message(json.loads(raw), None)
    except ValueError:
        cause = plain_text(raw, MAX_CAUSE)
    is_news = bool(cause) and cause not in message and "without a message" not in cause
    return f": {cause[:MAX_CAUSE]}" if is_news else ""


def plain_text(body: str, limit: int = 200) -> str:
    """The words of a text or an HTML page, at most `limit` characters, on one line."""
    body = re.sub(r"(?is)<(script|style|head)\b.*?</\1>", " ", body)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())[:limit]


def _status_of(details: Mapping[str, Any]) -> int | None:
    for key in ("status_code", "status", "code"):
        value = details.get(key)
        if isinstance(value, int | str) and str(value).isdigit() and 400 <= int(value) <= 599:
            return int(value)
    for key in ("code", "type", "status"):
        value = details.get(key)
        for pattern, status in _STATUS_OF_NAME:
            if isinstance(value, str) and pattern.search(value):
                return status
    return None
