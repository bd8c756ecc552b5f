"""Tools of every route: the caller, the services, and answers that fit into Lambda's response."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.openapi.params import Header, Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field

from functions.api.problems import Forbidden
from functions.api.response_limits import MAX_ANSWER, answer_size, fits, is_large, limit_response
from layover.records.deeds import is_operator
from layover.runtime import Runtime
from layover.values.cursor import MAX_CURSOR
from layover.values.deployment.access import Access, Actor
from layover.values.page import Page
from layover.values.runs.event import EventPage
from layover.values.runs.views import Run, RunGlimpse

_ENVELOPE = 10_000
"""Bytes of a page around its runs, including a cursor."""
_ANSWERED_WITHIN_S = 27.0
"""Seconds for an answer: API Gateway gives up after 30 s, and the function may have had to start."""

P = ParamSpec("P")
T = TypeVar("T")

_CURSOR_FIELD = Field(
    json_schema_extra={"minLength": 1, "maxLength": MAX_CURSOR, "pattern": "^[A-Za-z0-9_=-]+$"}
)
Limit = Annotated[int, Query(ge=1, le=100, description="The most items; 20 if absent.")]
Cursor = Annotated[
    Annotated[str, _CURSOR_FIELD] | None,
    Query(description="`next_cursor` of the previous page; another list's is refused."),
]
Wait = Annotated[
    float,
    Query(description="Seconds to wait, clipped to 0..25; 0 if absent.", allow_inf_nan=False),
]


def _written_out(value: object) -> object:
    """Refuse a text that has only digits: pydantic would take it for seconds since 1970."""
    if isinstance(value, str) and value.isdigit():
        raise ValueError("a time is written as 2026-01-31 or 2026-01-31T12:00:00Z")
    return value


_Day = Annotated[date, BeforeValidator(_written_out)]
FirstDay = Annotated[
    _Day | None, Query(alias="from", description="The first UTC day, `2026-01-31`.")
]
LastDay = Annotated[_Day | None, Query(alias="to", description="The last UTC day.")]
Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]
Before = Annotated[
    Moment | None,
    Query(description="Only of calls that waited before this time, `2026-01-31T12:00:00Z`."),
]


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key and request give the same run for 24 hours.",
    ),
]


class Host(Protocol):
    """The function's host: `layover.wiring`, or a test's."""

    def runtime(self) -> Runtime:
        """The ports."""
        ...

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return the result of `work` on the environment's event loop."""
        ...


@dataclass
class Call:
    """One request: its caller, its time, and whether its client reads gzip. `asker` is None on open paths."""

    host: Host
    asker: Actor | None
    takes_gzip: bool = False
    streams: bool = False
    """True if this function can stream its answer."""
    ends_at: datetime | None = None
    """Expiry of the ticket's token, if a ticket names the caller."""
    content_type: str = ""
    """Media type of the body, in lower case. Routes that take JSON take it under any name."""
    pieces: AsyncGenerator[bytes, None] | None = field(default=None, init=False)
    """The answer's body, if it is streamed."""
    now: Callable[[], float] = time.monotonic
    """The seconds by which the time that is left is counted."""
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.now()

    @property
    def actor(self) -> Actor:
        """Return the caller, on paths that need a token."""
        return cast(Actor, self.asker)

    @property
    def access(self) -> Access:
        """The scopes of this deployment."""
        return self.host.runtime().settings.access

    def require(self, scope: str, why: str) -> None:
        """Raise Forbidden unless the token has the scope."""
        if scope not in self.actor.scopes:
            raise Forbidden(why, scope)

    def require_operator(self, why: str) -> None:
        """Raise Forbidden unless the caller is an operator."""
        if not is_operator(self.host.runtime(), self.actor):
            raise Forbidden(why, self.access.operate_scope)

    @property
    def left_s(self) -> float:
        """Return the seconds that the request may still wait."""
        return max(0.0, _ANSWERED_WITHIN_S - (self.now() - self._began))

    def act(
        self,
        service: Callable[Concatenate[Runtime, Actor, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of a service that records the caller."""

        async def work() -> T:
            return await service(self.host.runtime(), self.actor, *args, **kwargs)

        return self.host.run(work())

    def do(
        self,
        service: Callable[Concatenate[Runtime, str, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of a service for the caller."""
        owner = self.actor.owner

        async def work() -> T:
            return await service(self.host.runtime(), owner, *args, **kwargs)

        return self.host.run(work())


def new_router() -> Router:
    """Return a group of routes; `functions.api.app` includes it."""
    return Router()  # type: ignore[no-untyped-call]


def call_of(router: Router) -> Call:
    """Return the request that is being answered."""
    return cast(Call, router.context["call"])


def answer_json(
    value: BaseModel, status: int = 200, headers: dict[str, Any] | None = None
) -> Response[str]:
    """Answer with a value as JSON, compressed if it is large and the client reads gzip."""
    text = value.model_dump_json()
    return _response(text, is_large(text), status, headers)


def answer_text(text: str) -> Response[str]:
    """Answer with JSON, compressed if it is large."""
    return _response(text, is_large(text), 200, None)


def answer_run(
    call: Call, run: Run | RunGlimpse, status: int = 200, headers: dict[str, Any] | None = None
) -> Response[str]:
    """Answer with a run, which is cut if it is larger than a function's answer. An approver gets only the
    parts that approvers may see."""
    return _answer(run, call.takes_gzip, status, headers)


def answer_page(call: Call, fetch: Callable[[int], Page[Any]], limit: int) -> Response[str]:
    """Answer with a page of `limit` items, or of fewer if that many do not fit."""
    while True:
        page = fetch(limit)
        if len(page.items) <= 1 or fits(page):
            return _answer(page, call.takes_gzip)
        limit = max(1, min(limit, len(page.items)) // 2)


def answer_events(call: Call, page: EventPage) -> Response[str]:
    """Answer with as many of the events as fit, at least one."""
    while len(page.items) > 1 and not fits(page):
        items = page.items[: len(page.items) // 2]
        page = EventPage(items=items, last_seq=items[-1].seq, done=False)
    return _answer(page, call.takes_gzip)


def redirect(status: int, url: str) -> Response[str]:
    """Answer with a URL of S3's."""
    headers: dict[str, Any] = {
        "Location": url,
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        # The signature in the URL is a credential.
        "Referrer-Policy": "no-referrer",
    }
    return Response(status_code=status, content_type="text/plain", body="", headers=headers)


class ResponseBudget:
    """The room left in an answer that takes one run after the other. It always takes the first run."""

    def __init__(self) -> None:
        self._room: int | None = None

    def takes(self, run: Run) -> bool:
        """Return whether the run still fits."""
        size = answer_size(run.model_dump_json())
        if self._room is None:
            self._room = MAX_ANSWER - _ENVELOPE - size
            return True
        self._room -= size
        return self._room >= 0


def _answer(
    value: BaseModel, takes_gzip: bool, status: int = 200, headers: dict[str, Any] | None = None
) -> Response[str]:
    return _response(*limit_response(value, takes_gzip), status, headers)


def _response(
    text: str, compress: bool, status: int, headers: dict[str, Any] | None
) -> Response[str]:
    return Response(
        status_code=status,
        content_type="application/json",
        body=text,
        headers=headers or {},
        compress=compress,
    )
