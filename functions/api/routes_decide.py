"""Links by which one person decides one call: a page that shows, and a request that decides
(docs/security.md#links-that-decide)."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body

from functions.api.bodies import ByLink
from functions.api.call import answer_json, call_of, new_router
from functions.api.console import assets
from functions.api.console.policy import page_headers
from functions.api.documented import also, responses
from functions.api.problems import ForeignOrigin, NotJson
from functions.api.request import host_of
from layover.errors import NotFound
from layover.plugins.people.links import LinkPage, decide_by_link, look
from layover.runtime import Runtime

router = new_router()
SECRET_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept, Accept-Encoding",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}
"""Of every answer under a link: the address is a secret."""
_PAGE = "text/html; charset=utf-8"
_JSON = "application/json"
_OPEN: Any = {"security": []}
_OWN_SITES = (None, "same-origin", "none")
"""`Sec-Fetch-Site` of our own page, of an address that a person typed, and of a program."""

P = ParamSpec("P")
T = TypeVar("T")


def _or_page(documented: dict[int, Any]) -> dict[int, Any]:
    """Return the responses without the one to a missing token, and with the page."""
    for status in (200, 404):
        content = {**documented[status]["content"], "text/html": {"schema": {}}}
        documented[status] = {**documented[status], "content": content}
    return _without_token(documented)


def _without_token(documented: dict[int, Any]) -> dict[int, Any]:
    return {status: each for status, each in documented.items() if status != 401}


@router.get(
    "/decide/<token>",
    tags=["approvals"],
    summary="The call of a link, as its person sees it",
    description="A page for browsers; JSON for `Accept: application/json`. It decides nothing. Every text "
    "that is not a link of somebody who may decide is answered alike.",
    operation_id="look_by_link",
    responses=_or_page(responses(200, LinkPage, "What the page shows", (404,))),
    openapi_extensions=_OPEN,
)
def get_decision(token: str) -> Response[str]:
    accepts = router.current_event.headers.get("accept", "").lower()
    is_program = _JSON in accepts and "text/html" not in accepts
    try:
        page = _ask(look, token)
    except NotFound:
        if is_program:
            raise
        return _shell(404)
    return answer_json(page) if is_program else _shell(200)


@router.post(
    "/decide/<token>",
    tags=["approvals"],
    summary="Decide the call of a link as its person",
    description="For the page of the link, and for programs: `Content-Type: application/json`, and no page "
    "of another site. 409 has the words with which the page then says why nothing is to be decided.",
    operation_id="decide_by_link",
    responses=_without_token(
        also(
            responses(
                202, LinkPage, "The decision, or the vote, is recorded", (400, 404, 409, 413, 415)
            ),
            200,
            LinkPage,
            "The person had already made the same decision",
        )
    ),
    openapi_extensions=_OPEN,
)
def post_decision(token: str, body: Annotated[ByLink, Body()]) -> Response[str]:
    _check_sender()
    outcome = _ask(decide_by_link, token, body.request())
    return answer_json(outcome.page, 200 if outcome.again else 202)


def _ask(
    service: Callable[Concatenate[Runtime, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> T:
    host = call_of(router).host

    async def work() -> T:
        return await service(host.runtime(), *args, **kwargs)

    return host.run(work())


def _check_sender() -> None:
    """Raise NotJson or ForeignOrigin for what the page of another site could send. Such a page would have to
    know the link; then its reader's click would be its own."""
    call, event = call_of(router), router.current_event.raw_event
    if call.content_type != _JSON:
        raise NotJson("send `Content-Type: application/json`")
    headers = {name.lower(): str(value) for name, value in (event.get("headers") or {}).items()}
    own = {host_of(event).lower(), urlsplit(call.host.runtime().channels.base_url).netloc.lower()}
    origin = headers.get("origin")
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() not in own - {""}
    if is_foreign or headers.get("sec-fetch-site") not in _OWN_SITES:
        raise ForeignOrigin("only the page of the link may decide by it")


def _shell(status: int) -> Response[str]:
    """Return the page itself, which is the same for every link: its script asks for what it shows."""
    headers: dict[str, Any] = {**page_headers("'self'")}
    return Response(
        status_code=status,
        content_type=_PAGE,
        body=assets.decide_page(),
        headers=headers,
        compress=True,
    )
