"""What every route uses: the caller, the services, and answers that fit into a Lambda's."""

import json
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel

from layover.ports import Runtime
from layover.values.event import EventPage
from layover.values.page import Page

MAX_ANSWER = 5_500_000
"""Bytes of a body inside the function's answer, which holds 6 MB."""
_SURELY_FITS = MAX_ANSWER // 6
"""Characters: in the answer a character takes six bytes at most."""

P = ParamSpec("P")
T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=100, description="How many items at most.")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.")]
Wait = Annotated[
    float, Query(description="Seconds to wait, clipped to 0..25.", allow_inf_nan=False)
]


class Host(Protocol):
    """Where the function runs: `layover.wiring`, or a test's."""

    def runtime(self) -> Runtime:
        """The ports."""
        ...

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """The result of `work` on the environment's event loop."""
        ...


@dataclass(frozen=True)
class Call:
    """One request: whose, and on what."""

    host: Host
    owner: str | None

    def do(
        self,
        service: Callable[Concatenate[Runtime, str, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The result of a service for the caller."""
        owner = cast(str, self.owner)

        async def work() -> T:
            return await service(self.host.runtime(), owner, *args, **kwargs)

        return self.host.run(work())


def new_router() -> Router:
    """A group of routes; `api.app` includes it."""
    return Router()  # type: ignore[no-untyped-call]


def call_of(router: Router) -> Call:
    """The request that is answered now."""
    return cast(Call, router.context["call"])


def answer_json(
    value: BaseModel, status: int = 200, headers: dict[str, Any] | None = None
) -> Response[str]:
    """A value as JSON; compressed where it is large and the client takes that."""
    text = value.model_dump_json()
    return Response(
        status_code=status,
        content_type="application/json",
        body=text,
        headers=headers or {},
        compress=len(text) > _SURELY_FITS,
    )


def answer_page(fetch: Callable[[int], Page[Any]], limit: int) -> Response[str]:
    """A page with `limit` items, or with fewer where so many do not fit."""
    while True:
        page = fetch(limit)
        if limit == 1 or fits(page):
            return answer_json(page)
        limit = max(1, limit // 2)


def fitting_events(page: EventPage) -> EventPage:
    """As many of the events as fit, at least one."""
    while len(page.items) > 1 and not fits(page):
        items = page.items[: len(page.items) // 2]
        page = EventPage(items=items, last_seq=items[-1].seq, done=False)
    return page


def fits(value: BaseModel) -> bool:
    """Whether the JSON fits into the function's answer, where it stands as a string."""
    text = value.model_dump_json()
    return len(text) <= _SURELY_FITS or len(json.dumps(text)) <= MAX_ANSWER
