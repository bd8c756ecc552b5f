"""Mail to people, by SES (version 2 of its API)."""

import json
import re
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.retries import THROTTLES, NoAnswer, RetryRules, ServiceError
from layover.adapters.aws.services import AwsServices
from layover.errors import RetryableError
from layover.plugins.people.channels.mail.mails import Mail, write_mail
from layover.ports.channels import ChannelBusy, ChannelRefused
from layover.values.channels import Address, Channels, Notice, NoticeLinks

PATH = "/v2/email/outbound-emails"
TIMEOUT_S = 10.0
PAUSE = timedelta(seconds=2)
"""After SES has refused by its rate, which is counted by the second."""
DAY_PAUSE = timedelta(hours=1)
"""After the quota of 24 hours, which moves along with the time, is used up."""
_TAG = re.compile(r"[A-Za-z0-9_-]{1,256}")
_DOMAIN = re.compile(r"[A-Za-z0-9.-]{1,250}")
_UNVERIFIED = (
    "verify the address or the domain of `mail_from` in SES, in the region of the deployment. While the "
    "account is in SES's sandbox, verify each recipient as well, or request production access"
)
_TO_DO = MappingProxyType(
    {
        "AccessDeniedException": "allow the role `ses:SendEmail` for the identity of `mail_from`",
        "AccountSuspendedException": "read AWS's mail about the account, and appeal: its sending has ended",
        "BadRequestException": "correct the address in the channels' document, and `mail_from`",
        "MailFromDomainNotVerifiedException": "finish the DNS records of the identity's MAIL FROM domain",
        "MessageRejected": "look at the content that the agents' tools ask with: SES does not take it",
        "NotFoundException": "create the identity of `mail_from` in SES, in the region of the deployment",
        "SendingPausedException": "resume sending in SES, after the reason for its pause is gone",
    }
)


class MailSender:
    """`ports.channels.Sender` by SES. `client`: see `mail_client`. Nothing of a message is ever logged."""

    def __init__(self, client: AwsClient, channels: Channels) -> None:
        self._client = client
        self._channels = channels

    async def send(
        self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
    ) -> str:
        """See `ports.channels.Sender`. SES cannot be asked whether it has sent a mail, so `unsure` changes
        nothing: a second mail is better than none."""
        if self._channels.mail_from is None:
            raise ChannelRefused("there is no sender of mails: set `mail_from` of the channels")
        reader = self._channels.person_at(address)
        mail = write_mail(notice, links, self._channels, reader)
        body = json.dumps(
            _request(self._channels.mail_from, address.to, mail, notice, once), ensure_ascii=False
        )
        try:
            answer = await self._client.send(
                "POST", PATH, {"content-type": "application/json"}, body.encode()
            )
        except ServiceError as error:
            raise _fault(error) from error
        except NoAnswer as error:
            raise RetryableError(f"SES did not answer: {error}") from error
        return _message_id(answer.body)

    async def update(
        self, address: Address, reference: str, notice: Notice, links: NoticeLinks
    ) -> bool:
        """Return False: a mail cannot be changed."""
        return False

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        await self._client.aclose()


def mail_client(aws: AwsServices) -> AwsClient:
    """Return a client of SES that never repeats a request: the mail could then be sent twice, and the queue
    of `notify` repeats anyway."""
    return aws.client_at(
        aws.endpoint("ses"), "ses", retries=RetryRules(max_attempts=1), timeout_s=TIMEOUT_S
    )


def _request(sender: str, to: str, mail: Mail, notice: Notice, once: str) -> dict[str, object]:
    # RFC 3834: no absence is answered to us. Exchange has a header of its own for it.
    headers = {"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All"}
    domain = sender.rpartition("@")[2].strip("> ")
    if _DOMAIN.fullmatch(domain):
        # The same for all mails about a call, so that readers see them as one conversation.
        call = f"{notice.call.run_id}/{notice.call.tool_call_id}"
        headers["References"] = f"<{sha256(call.encode()).hexdigest()[:32]}@{domain}>"
        headers["List-Id"] = f"Approvals <approvals.{domain}>"
    return {
        "FromEmailAddress": sender,
        "Destination": {"ToAddresses": [to]},
        "Content": {
            "Simple": {
                "Subject": _content(mail.subject),
                "Body": {"Text": _content(mail.text), "Html": _content(mail.html)},
                "Headers": [{"Name": name, "Value": value} for name, value in headers.items()],
            }
        },
        "EmailTags": [
            {"Name": "delivery", "Value": _tag(once)},
            {"Name": "kind", "Value": notice.kind.value},
        ],
    }


def _content(text: str) -> dict[str, str]:
    return {"Data": text, "Charset": "UTF-8"}


def _tag(id: str) -> str:
    """Return a delivery's id as tags take it: others are hashed."""
    return id if _TAG.fullmatch(id) else sha256(id.encode()).hexdigest()


def _message_id(body: bytes) -> str:
    try:
        return str(json.loads(body)["MessageId"])
    except (ValueError, KeyError, TypeError):
        # It was sent: a retry would send it again.
        return ""


def _fault(error: ServiceError) -> Exception:
    # The service's text names addresses, so no message has it.
    text = str(error.document.get("message") or error.document.get("Message") or "")
    if error.status == 429 or error.code in THROTTLES:
        if "daily" in text.lower():
            return ChannelBusy(
                "SES has sent as many mails as the account may in 24 hours", DAY_PAUSE
            )
        wish = error.retry_after_s
        after = PAUSE if wish is None else max(PAUSE, timedelta(seconds=wish))
        return ChannelBusy("SES takes no more mails in this second", after)
    if error.status >= 500:
        return RetryableError(f"SES answered {error.code}")
    to_do = _UNVERIFIED if "not verified" in text else _TO_DO.get(error.code)
    advice = to_do or "look the code up in SES's documentation"
    return ChannelRefused(f"SES refused a mail ({error.code}): {advice}")
