"""Entry of the `api` function."""

from typing import Any

from layover.collector import collector_at_rest

with collector_at_rest():
    from functions.api.app import answer
    from layover import wiring

    wiring.import_ahead("api")


@wiring.with_logging
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one HTTP request."""
    return answer(event, context, wiring)
