"""Channels to people: what they press in Slack."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.event_handler import Response
from pydantic import Field

from functions.api.call import answer_json, call_of, new_router
from functions.api.documented import responses
from functions.api.problems import Unsigned
from layover.errors import TooLarge
from layover.ports.channels import PressPorts
from layover.runtime import Runtime
from layover.values.base import Value, is_none
from layover.values.deployment.access import SLACK

MAX_BODY = 1024 * 1024
"""Bytes. Slack sends a press with the message around it."""
_FORM = "application/x-www-form-urlencoded"

router = new_router()


class SlackAnswer(Value):
    """The answer to Slack: what it does with a form that came back. Empty: nothing more."""

    response_action: str | None = Field(
        None, description="`clear`, `errors` or `update`.", exclude_if=is_none
    )
    errors: dict[str, str] | None = Field(
        None, description="What is wrong, by the form's blocks.", exclude_if=is_none
    )
    view: dict[str, Any] | None = Field(
        None, description="The view that takes the form's place.", exclude_if=is_none
    )
    challenge: str | None = Field(
        None, description="Slack's own, at the set-up of a URL.", exclude_if=is_none
    )


_ANSWERS: Any = {
    status: each
    for status, each in responses(200, SlackAnswer, "It is done, or passed over", (413,)).items()
    if status in (200, 401, 413, 500, 503)
}


@router.post(
    SLACK,
    tags=["approvals"],
    summary="What people press in Slack",
    description="For Slack only: a form with `payload`, signed by Slack (`X-Slack-Signature`, "
    "`X-Slack-Request-Timestamp`) at most five minutes ago. Whoever pressed decides. Whoever may not is told "
    "so in Slack, and the answer is the same.",
    operation_id="slack_interaction",
    responses=_ANSWERS,
    openapi_extensions={"security": []},
)
def take_interaction() -> Response[str]:
    call, event = call_of(router), router.current_event
    text = event.body or ""
    # Half of a character cannot be signed, and is not sent by Slack.
    body = text.encode("utf-8", "surrogatepass")
    if len(body) > MAX_BODY:
        raise TooLarge(f"the body is larger than {MAX_BODY} bytes")
    headers = {name.lower(): str(value) for name, value in event.headers.items()}
    runtime = call.host.runtime()
    slack = runtime.channels.presses.get("slack")
    # Strangers do not learn whether this deployment has Slack.
    if slack is None or call.content_type != _FORM:
        raise Unsigned()
    answer = call.host.run(_take(runtime, slack, headers, body, text))
    return answer_json(SlackAnswer(**(answer or {})), headers={"Cache-Control": "no-store"})


async def _take(
    runtime: Runtime, slack: PressPorts, headers: Mapping[str, str], body: bytes, text: str
) -> dict[str, Any] | None:
    """Return the answer to a request of Slack's. Raises Unsigned for any other."""
    # Most processes never see a press.
    from layover.plugins.people.channels.slack.presses import answer_interaction
    from layover.plugins.people.channels.slack.requests import interaction_in, is_signed

    now = runtime.clock.now()
    signature = headers.get("x-slack-signature", "")
    secret = (await slack.signing_secret()).strip()
    if not is_signed(secret, headers.get("x-slack-request-timestamp", ""), signature, body, now):
        raise Unsigned()
    # After the check of the signature, so that strangers write nothing.
    if not await slack.book.accept_once(signature, now):
        if "x-slack-retry-num" in headers:
            # Slack's own copy. The first one has been answered, or is being answered.
            return None
        raise Unsigned()
    return await answer_interaction(runtime, slack, interaction_in(text))
