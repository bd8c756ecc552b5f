"""Entry of the `streams` function: the routes of `api` whose answers are streamed."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from functions.api.app import answer
    from functions.streams.rest_event import http_event
    from layover import wiring


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one HTTP request. `layover.runtime_client` sends the body: a text, or an iterator of bytes."""
    return answer(http_event(event), context, wiring, streams=True)
