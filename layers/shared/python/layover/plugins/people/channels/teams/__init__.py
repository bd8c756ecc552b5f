"""Teams: cards in a channel, by the webhook of a workflow."""

from typing import TYPE_CHECKING

from layover.lazy import lazy_pattern
from layover.plugins.people.channel import Channel, Form, Services

if TYPE_CHECKING:
    from layover.plugins.people.channels.teams.sender import TeamsSender


def _make_sender(services: Services) -> "TeamsSender":
    from layover.plugins.people.channels.teams.sender import TeamsSender

    return TeamsSender(services.http, services.config, plain_hosts=services.plain_hosts)


TEAMS = Channel(
    name="teams",
    address=Form(
        lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}"),
        "the name of a secret: put the webhook's URL into one",
    ),
    make_sender=_make_sender,
    webhook="the workflow's webhook",
)
