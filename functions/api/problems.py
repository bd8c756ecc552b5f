"""Errors as RFC 9457 problem documents. They contain nothing internal and nothing that the caller sent."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, ConfigDict, Field

from layover.errors import (
    AgentsNotLoaded,
    Conflict,
    ConsentRefused,
    DatabaseWaking,
    DecisionAlreadyMade,
    DecisionInvalid,
    InvalidRequest,
    LayoverError,
    LimitReached,
    NotAnApprover,
    NotFound,
    RequestError,
    RetryableError,
    StoppedByOperator,
    ThreadBusy,
    TooLarge,
    UnknownAgent,
)
from layover.plugins.people.links import SignInRequired

CONTENT_TYPE = "application/problem+json"
_MAX_NAME = 100
"""Characters of a field's name: a caller may have chosen it."""
LOG = "the function's log"
PREFIX = "urn:layover:problem:"
BEYOND_SCHEMAS = {
    "cursor": "another list's",
    "unknown_agent": "no agent here has the name",
    "unknown_message": "the thread has no such message",
    "unknown_file": "the caller has no such file, or its bytes have not arrived",
    "too_many_files": "more than 20 in an input",
    "too_deep": "more than 100 levels of JSON",
    "file_name": "characters that are not printable",
    "https_url": "a URL without a host",
    "resource": "a header that names no user",
    "entry_text": "no letter or digit, or too long with what stands for a secret",
    "not_overridable": "the agent does not let a run choose it",
    "approver_only": "a filter that only an approver's list has",
    "expires_at": "a time that does not lengthen the wait, or more than a year after the request",
    "import": "no letter, a time to come or out of order, a thread that is not the caller's",
    "superseded": "a search finds only what still holds",
    "duplicate_key": "a key that stands twice in an object",
    "unknown_parameter": "a query parameter that the call does not have",
}
"""Reasons to refuse requests that the OpenAPI document lets pass, by the `type` of the field's error."""


class MalformedBody(RequestError):
    """The body is not JSON in UTF-8."""


class Unauthenticated(RequestError):
    """No verified token came with the request."""


class Unsigned(RequestError):
    """A service's request is not signed as it has to be. Its sender is not told what is wrong with it."""

    def __init__(self) -> None:
        super().__init__("the request is not accepted")


class Forbidden(RequestError):
    """The token is valid but does not allow this: `scope` is missing."""

    def __init__(self, message: str, scope: str) -> None:
        super().__init__(f"{message}: it needs `{scope}`")
        self.scope = scope


class ForeignOrigin(RequestError):
    """A web page asked that may not call the API."""


class NotJson(RequestError):
    """The client does not say that its body is JSON, where a page of another site must not be able to send
    one."""


class NotAcceptable(RequestError):
    """A stream was requested at an address that cannot stream. `stream_url` can."""

    def __init__(self, stream_url: str | None) -> None:
        elsewhere = f"ask for the same path at {stream_url}" if stream_url else "poll with `wait=N`"
        super().__init__(f"this address does not stream: {elsewhere}")


class MethodNotAllowed(RequestError):
    """The path exists, with other methods: `allowed`."""

    def __init__(self, allowed: Iterable[str]) -> None:
        super().__init__("this path does not have that method")
        self.allowed = sorted(allowed)


class FieldError(BaseModel):
    """One field that is wrong: where, and why."""

    loc: list[str | int]
    msg: str
    type: str = Field(
        description="The rule that it breaks. Rules that no schema can express: "
        + ", ".join(f"`{name}` ({rule})" for name, rule in BEYOND_SCHEMAS.items())
    )


class Problem(BaseModel):
    """RFC 9457. The ids of its subject are further members (`run_id`, `thread_id`, `active_run`)."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=[PREFIX + "thread-busy"])
    title: str
    status: int
    detail: str
    errors: list[FieldError] = Field(
        default_factory=list, description="Present only for requests of a wrong shape."
    )


@dataclass(frozen=True)
class Kind:
    """An error's form in an answer."""

    status: HTTPStatus
    slug: str
    title: str
    headers: Mapping[str, str] = field(default_factory=dict)


_KINDS: dict[type[LayoverError], Kind] = {
    AgentsNotLoaded: Kind(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "agents-not-loaded",
        "The agents of this deployment cannot be loaded",
    ),
    MalformedBody: Kind(HTTPStatus.BAD_REQUEST, "malformed-body", "The body is not JSON"),
    Unauthenticated: Kind(
        HTTPStatus.UNAUTHORIZED,
        "unauthenticated",
        "A bearer token is needed",
        {"WWW-Authenticate": "Bearer"},
    ),
    Unsigned: Kind(HTTPStatus.UNAUTHORIZED, "unsigned", "A signature is needed"),
    Forbidden: Kind(HTTPStatus.FORBIDDEN, "forbidden", "The token does not allow this"),
    ForeignOrigin: Kind(HTTPStatus.FORBIDDEN, "wrong-origin", "This page may not call the API"),
    SignInRequired: Kind(
        HTTPStatus.FORBIDDEN, "sign-in-required", "This link decides nothing by itself"
    ),
    NotAnApprover: Kind(HTTPStatus.FORBIDDEN, "not-an-approver", "Others decide about this call"),
    NotFound: Kind(HTTPStatus.NOT_FOUND, "not-found", "There is no such thing"),
    MethodNotAllowed: Kind(
        HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed"
    ),
    NotAcceptable: Kind(
        HTTPStatus.NOT_ACCEPTABLE, "not-acceptable", "This address does not stream"
    ),
    NotJson: Kind(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "The body has to be JSON"
    ),
    ThreadBusy: Kind(HTTPStatus.CONFLICT, "thread-busy", "The thread has an active run"),
    DecisionAlreadyMade: Kind(
        HTTPStatus.CONFLICT, "decision-already-made", "The call does not wait for this decision"
    ),
    ConsentRefused: Kind(
        HTTPStatus.CONFLICT, "consent-refused", "The service did not take the consent"
    ),
    Conflict: Kind(HTTPStatus.CONFLICT, "conflict", "Something else came first"),
    TooLarge: Kind(HTTPStatus.CONTENT_TOO_LARGE, "too-large", "The request is too large")
    if hasattr(HTTPStatus, "CONTENT_TOO_LARGE")
    else Kind(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "The request is too large"),
    DecisionInvalid: Kind(
        HTTPStatus.UNPROCESSABLE_ENTITY, "decision-invalid", "The decision does not fit the call"
    ),
    UnknownAgent: Kind(HTTPStatus.UNPROCESSABLE_ENTITY, "unknown-agent", "There is no such agent"),
    InvalidRequest: Kind(
        HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", "The request has the wrong shape"
    ),
    LimitReached: Kind(HTTPStatus.TOO_MANY_REQUESTS, "limit-reached", "A limit is reached"),
    DatabaseWaking: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "database-waking",
        "The database is waking up",
        {"Retry-After": "5"},
    ),
    StoppedByOperator: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE, "stopped", "The system is stopped", {"Retry-After": "60"}
    ),
    RetryableError: Kind(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "try-again",
        "This may work in a moment",
        {"Retry-After": "1"},
    ),
}
_INTERNAL = Kind(
    HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", "Something failed in the service"
)


def has_problem_title(error: LayoverError) -> bool:
    """Return whether the caller learns the error's kind; every other error is an internal error."""
    return _kind(error) is not None


def problem_of(error: LayoverError) -> Problem:
    """Return the problem of one item of several that were asked for together."""
    return Problem.model_validate_json(str(answer_error(error).body))


def answer_error(error: LayoverError, log: str = LOG) -> Response[str]:
    """Return the problem document of an error that has its own title. `log`: the place that says more."""
    kind = _kind(error) or _INTERNAL
    errors = error.errors if isinstance(error, InvalidRequest) else []
    extra: dict[str, Any] = dict(error.ids)
    headers = dict(kind.headers)
    if isinstance(error, ThreadBusy) and "run_id" in error.ids:
        extra["active_run"] = error.ids["run_id"]
    if isinstance(error, NotAnApprover):
        extra["approvers"] = list(error.by)
    if isinstance(error, Forbidden):
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{error.scope}"'
    if isinstance(error, LimitReached) and error.retry_after is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after.total_seconds()))
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allowed)
    detail = error.message
    if isinstance(error, AgentsNotLoaded):
        detail = f"{error.told}; {log} says more"
    return problem(kind, detail, errors, extra, headers)


def internal_error(request_id: str, log: str = LOG) -> Response[str]:
    """Return the answer to an unforeseen failure. `log`: the log that has the reason."""
    detail = f"the request failed; {log} says why"
    return problem(_INTERNAL, detail, extra={"request_id": request_id})


def problem(
    kind: Kind,
    detail: str,
    errors: Sequence[Mapping[str, Any]] = (),
    extra: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response[str]:
    """Return a problem document."""
    document: dict[str, Any] = {
        **(extra or {}),
        "type": PREFIX + kind.slug,
        "title": kind.title,
        "status": kind.status.value,
        "detail": detail,
    }
    if errors:
        document["errors"] = [_field_error(e) for e in errors]
    return Response(
        status_code=kind.status.value,
        content_type=CONTENT_TYPE,
        body=json.dumps(document),
        headers=dict(headers if headers is not None else kind.headers),
    )


def wrong_fields(errors: Iterable[Mapping[str, Any]], body: Any = None) -> InvalidRequest:
    """Return the error for a request whose fields pydantic refused. `body`: as sent."""
    field_errors = [{**_without_input(e), "loc": _sent_path(e, body)} for e in errors]
    return InvalidRequest("some fields are missing or wrong", field_errors)


def _kind(error: LayoverError) -> Kind | None:
    return next((_KINDS[c] for c in type(error).__mro__ if c in _KINDS), None)


def _field_error(error: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "loc": [at[:_MAX_NAME] if isinstance(at, str) else at for at in error["loc"]],
        "msg": str(error["msg"]),
        "type": str(error.get("type", "value_error")),
    }


def _sent_path(error: Mapping[str, Any], body: Any) -> list[str | int]:
    """Return the error's path in the caller's body: without pydantic's names of a union's alternatives."""
    where, *path = error["loc"] or ("body",)
    if where != "body":
        return [where, *path]
    path_in_body: list[str | int] = []
    is_part = True
    for n, at in enumerate(path):
        if isinstance(body, dict):
            if is_part and at == body.get("type"):
                is_part = False
                continue
            is_missing = error["type"] == "missing" and n == len(path) - 1
            if at in body or is_missing:
                path_in_body, body, is_part = [*path_in_body, at], body.get(at), True
        elif isinstance(body, list) and isinstance(at, int) and at < len(body):
            path_in_body, body = [*path_in_body, at], body[at]
    return [where, *path_in_body]


def _without_input(error: Mapping[str, Any]) -> dict[str, Any]:
    # The messages of these two repeat what was sent.
    if error["type"] in ("union_tag_invalid", "extra_forbidden"):
        message = {
            "union_tag_invalid": "an unknown kind of part",
            "extra_forbidden": "there is no such field",
        }[error["type"]]
        return {"loc": list(error["loc"]), "msg": message, "type": error["type"]}
    return {"loc": list(error["loc"]), "msg": error["msg"], "type": error["type"]}
