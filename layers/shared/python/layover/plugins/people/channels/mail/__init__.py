"""Mail, by SES."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from layover.lazy import lazy_pattern
from layover.plugins.people.channel import Channel, Form, Grant, Services
from layover.values.channels import Channels

if TYPE_CHECKING:
    from layover.plugins.people.channels.mail.sender import MailSender

_ADDRESS = Form(
    # SES takes no other letters, and of other domains only their names in ASCII (xn--...).
    lazy_pattern(r"[^@,;:<>\"()\[\]\\\x00-\x20\x7f-\U0010ffff]{1,64}@[A-Za-z0-9.-]{1,189}"),
    "a mail address in ASCII",
)


def _make_sender(services: Services) -> "MailSender":
    from layover.plugins.people.channels.mail.sender import MailSender, mail_client

    return MailSender(mail_client(services.aws()), services.config)


def _grants(channels: Channels) -> Sequence[Grant]:
    if channels.mail_from is None:
        return ()
    send = Grant(
        actions=("ses:SendEmail",),
        service="ses",
        # An account in its sandbox also checks the identity of whoever gets a mail.
        kind="identity",
        conditions={"StringEquals": {"ses:FromAddress": channels.mail_from}},
        reason="The sender's address limits what it sends.",
    )
    return (send,)


MAIL = Channel(
    name="mail", address=_ADDRESS, person=_ADDRESS, make_sender=_make_sender, grants=_grants
)
