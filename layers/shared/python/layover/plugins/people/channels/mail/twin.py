"""SES (version 2 of its API) on one machine: `SendEmail` with simple content, with the limits and refusals of
the service."""

import json
import re
import time
from collections.abc import Callable, Collection, Mapping
from email.utils import parseaddr
from typing import Any

from layover.plugins.people.channels.twins import Answer, Outbox, Rate, Twin

RATE = 14
"""Mails in a second: what an account has when it leaves the sandbox."""
MAX_RECIPIENTS = 50
MAX_BYTES = 40 * 1024 * 1024
MAX_HEADERS = 15
MAX_HEADER = 996
"""Characters of a header's name and value."""
_PATH = "/v2/email/outbound-emails"
_SIGNATURE = re.compile(
    r"AWS4-HMAC-SHA256 Credential=[^/,]+/\d{8}/[a-z0-9-]+/ses/aws4_request, "
    r"SignedHeaders=[a-z0-9;-]+, Signature=[0-9a-f]{64}"
)
_HEADER_NAME = re.compile(r"[!-9;-@A-~]{1,126}")
_HEADER_VALUE = re.compile(r"[ -~]+")
_TAG = re.compile(r"[A-Za-z0-9_-]{1,256}")
_OWN_HEADERS = frozenset(
    {
        "bcc",
        "cc",
        "content-disposition",
        "content-type",
        "date",
        "from",
        "message-id",
        "mime-version",
        "reply-to",
        "return-path",
        "subject",
        "to",
    }
)
"""Headers that SES sets itself, and so refuses."""
_URL = re.compile(r"^https?://\S+$", re.M)
"""A link of the mail's own: those in the words of others share their line."""


def make_twin(outbox: Outbox, url: str) -> Twin:
    """Return SES, which is asked at the endpoint of AWS."""
    return Twin(LocalSes(outbox).respond, aws_path=_PATH)


class _Refusal(Exception):
    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class LocalSes:
    """A region of an account.

    Args:
        outbox: The place for mails that were taken.
        identities: Addresses and domains that are verified; None: all.
        sandbox: Recipients have to be verified, too.
        suspended: The account may not send.
        paused: The deployer has paused sending.
        rate: Mails in a second.
        quota: Mails in 24 hours; None: any number.
        now: Seconds that only grow.
    """

    def __init__(
        self,
        outbox: Outbox,
        *,
        identities: Collection[str] | None = None,
        sandbox: bool = False,
        suspended: bool = False,
        paused: bool = False,
        rate: int = RATE,
        quota: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox = outbox
        self._identities = identities
        self._sandbox = sandbox
        self._suspended = suspended
        self._paused = paused
        self._rate = Rate(rate, now)
        self._quota = quota
        self.requests: list[dict[str, Any]] = []
        """The documents of all mails that were taken."""

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return status, headers and body of the answer to a request. `headers`: names in lower case."""
        try:
            id = self._send(method, path, headers, body)
        except _Refusal as error:
            document = json.dumps({"message": str(error)}).encode()
            kind = {"content-type": "application/json", "x-amzn-errortype": error.code}
            return error.status, kind, document
        answer = json.dumps({"MessageId": id}).encode()
        return 200, {"content-type": "application/json"}, answer

    def _send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> str:
        if (method, path) != ("POST", _PATH):
            raise _Refusal("UnknownOperationException", "no such operation", 404)
        if "authorization" not in headers:
            raise _Refusal("MissingAuthenticationTokenException", "no signature", 403)
        if not _SIGNATURE.fullmatch(headers["authorization"]) or "x-amz-date" not in headers:
            raise _Refusal("IncompleteSignatureException", "no signature for `ses`", 403)
        if len(body) > MAX_BYTES:
            raise _Refusal("MessageRejected", "Message length is more than 41943040 bytes long")
        try:
            request = json.loads(body)
            to, simple = request["Destination"]["ToAddresses"], request["Content"]["Simple"]
            parts = [simple["Subject"]["Data"], simple["Body"]["Text"]["Data"]]
            parts.append(simple["Body"].get("Html", {"Data": ""})["Data"])
            sender = request["FromEmailAddress"]
        except (ValueError, KeyError, TypeError) as error:
            raise _Refusal("BadRequestException", "Invalid request") from error
        if not all(isinstance(part, str) for part in (*parts, sender, *to)):
            raise _Refusal("BadRequestException", "Invalid request")
        self._check_account()
        self._check_addresses(sender, to)
        _check_subject(parts[0])
        _check_headers(simple.get("Headers", []))
        tags = _tags(request.get("EmailTags", []))
        if not self._rate.takes():
            raise _Refusal("TooManyRequestsException", "Maximum sending rate exceeded.", 429)
        if self._quota is not None and len(self.requests) >= self._quota:
            raise _Refusal("TooManyRequestsException", "Daily message quota exceeded.", 429)
        self.requests.append(request)
        link = _URL.search(parts[1])
        for each in to:
            self._outbox.add(
                "mail",
                each,
                tags.get("kind", "mail"),
                f"{parts[0]}\n\n{parts[1]}",
                link[0] if link else None,
            )
        return f"local-{len(self.requests):06d}"

    def _check_account(self) -> None:
        if self._suspended:
            raise _Refusal("AccountSuspendedException", "Sending is suspended for this account")
        if self._paused:
            raise _Refusal("SendingPausedException", "Sending is paused for this account")

    def _check_addresses(self, sender: str, to: list[str]) -> None:
        if not to or len(to) > MAX_RECIPIENTS:
            raise _Refusal("BadRequestException", f"1 to {MAX_RECIPIENTS} recipients are taken")
        if not all(map(_is_address, (sender, *to))):
            raise _Refusal("BadRequestException", "Illegal address")
        checked = [sender, *to] if self._sandbox else [sender]
        failed = [each for each in checked if not self._is_verified(each)]
        if failed:
            raise _Refusal(
                "MessageRejected",
                "Email address is not verified. The following identities failed the check in region "
                f"EU-CENTRAL-1: {', '.join(failed)}",
            )

    def _is_verified(self, address: str) -> bool:
        plain = parseaddr(address)[1]
        names = self._identities
        return names is None or plain in names or plain.rpartition("@")[2] in names


def _is_address(text: str) -> bool:
    address = parseaddr(text)[1]
    return (
        text.isprintable()
        and text.isascii()
        and re.fullmatch(r"[^@\s]+@[^@\s]+", address) is not None
    )


def _check_subject(subject: str) -> None:
    if not subject or not subject.isprintable():
        raise _Refusal("BadRequestException", "Illegal subject")


def _check_headers(headers: list[dict[str, str]]) -> None:
    if len(headers) > MAX_HEADERS:
        raise _Refusal("BadRequestException", f"{MAX_HEADERS} headers are taken")
    for each in headers:
        name, value = each.get("Name", ""), each.get("Value", "")
        is_long = len(name) + len(value) > MAX_HEADER
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value) or is_long:
            raise _Refusal("BadRequestException", "Illegal header")
        if name.lower() in _OWN_HEADERS:
            raise _Refusal("BadRequestException", f"{name} is set by SES")


def _tags(tags: list[dict[str, str]]) -> dict[str, str]:
    for each in tags:
        if not _TAG.fullmatch(each.get("Name", "")) or not _TAG.fullmatch(each.get("Value", "")):
            raise _Refusal("BadRequestException", "Illegal tag")
    return {each["Name"]: each["Value"] for each in tags}
