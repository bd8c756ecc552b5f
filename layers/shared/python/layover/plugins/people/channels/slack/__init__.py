"""Slack: messages with buttons, by which people decide."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from layover.lazy import lazy_pattern
from layover.plugins.people.channel import Channel, Form, Presses, Services
from layover.values.channels import Channels, Person

if TYPE_CHECKING:
    from layover.plugins.people.channels.slack.sender import SlackSender

BOT_TOKEN, SIGNING_SECRET = "SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET"
"""Names of the secrets."""
URL, BASE_URL = "LAYOVER_SLACK_URL", "https://slack.com/api"
"""Variable with the URL of Slack's Web API; tests and one machine have another."""


def _make_sender(services: Services) -> "SlackSender":
    from layover.declare.secret import Secret
    from layover.plugins.people.channels.slack.sender import SlackSender

    url = services.variables.get(URL) or BASE_URL
    return SlackSender(Secret(BOT_TOKEN), url, services.http, services.config)


def _warnings(members: Sequence[Person]) -> Iterator[str]:
    if not members:
        yield "is told in Slack, and nobody of `people` is in it: every press is refused"
    for person in members:
        if person.place_on(SLACK.name) is None:
            yield f"{person.mail} cannot decide in Slack: add the person's `slack` id (U...)"


def _advice(channels: Channels) -> Iterator[str]:
    if channels.slack_team is None:
        yield (
            "a press counts from every installation of the app: name the workspace and the app whose presses "
            'count, as `"slack_team": {"team": "T...", "app": "A..."}`'
        )


SLACK = Channel(
    name="slack",
    address=Form(
        lazy_pattern(r"#[^\s#@<>\x00-\x1f]{1,80}|[CGDUW][A-Z0-9]{1,30}"),
        "#channel, or the id of a channel or a user",
    ),
    person=Form(lazy_pattern(r"[UW][A-Z0-9]{1,30}"), "the id of a user, such as U123"),
    make_sender=_make_sender,
    variables={URL: BASE_URL},
    secrets=(BOT_TOKEN,),
    presses=Presses(signing_secret=SIGNING_SECRET, make_replies=_make_sender),
    warnings=_warnings,
    advice=_advice,
)
