"""Messages in a channel of Teams, by the webhook of a workflow."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache

from layover.adapters.http.client import Client, MakeClient
from layover.adapters.http.request import InvalidURL, Url, join_url
from layover.declare.secret import Secret
from layover.errors import DefinitionError, RetryableError
from layover.plugins.people.channels.teams.cards import write_card
from layover.ports.channels import ChannelBusy, ChannelRefused
from layover.values.channels import Address, Channels, Notice, NoticeLinks

TIMEOUT_S = 10.0
PAUSE = timedelta(seconds=30)
"""After a refusal by rate that does not say for how long."""
MAX_PAUSE = timedelta(hours=1)


class TeamsSender:
    """`ports.channels.Sender` by webhooks. Whoever has a webhook's URL may post, so the URL is a secret, and
    no log or error has it.

    Args:
        make_client: Makes the client, which follows no redirect.
        channels: The configuration, which names people.
        make_secret: Returns the secret of this name, which has the URL.
        plain_hosts: Hosts that may be asked without TLS: those of this machine.
        now: The time in UTC.
    """

    def __init__(
        self,
        make_client: MakeClient,
        channels: Channels,
        make_secret: Callable[[str], Secret] = Secret,
        *,
        plain_hosts: frozenset[str] = frozenset(),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._make_client = make_client
        self._client: Client | None = None
        self._channels = channels
        self._secret = cache(make_secret)
        self._plain_hosts = plain_hosts
        self._now = now

    async def send(
        self, address: Address, notice: Notice, links: NoticeLinks, *, once: str, unsure: bool
    ) -> str:
        """See `ports.channels.Sender`. A workflow cannot be asked whether it has posted a message, so
        `unsure` changes nothing: a second message is better than none."""
        body = write_card(notice, links, self._channels)
        url = await self._url(address.to, fresh=False)
        status, after = await self._post(address.to, url, body)
        if status in (401, 403, 404, 410):
            # The URL may have been rotated since it was read.
            newest = await self._url(address.to, fresh=True)
            if newest != url:
                status, after = await self._post(address.to, newest, body)
        if 200 <= status < 300:
            return ""
        raise self._fault(address.to, status, after)

    async def update(
        self, address: Address, reference: str, notice: Notice, links: NoticeLinks
    ) -> bool:
        """Return False: a message of a webhook cannot be changed."""
        return False

    async def aclose(self) -> None:
        """Close this event loop's connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _url(self, name: str, *, fresh: bool) -> Url:
        try:
            url = join_url((await self._secret(name).aget(fresh=fresh)).strip(), "")
        except InvalidURL:
            # Without its cause, which may have a part of the URL.
            raise _refused(name, "it has no URL: copy the workflow's URL into it") from None
        except DefinitionError as error:
            raise ChannelRefused(f"Teams cannot be reached: {error.message}") from error
        if url.scheme != "https" and url.target.host not in self._plain_hosts:
            raise _refused(
                name, "its URL does not begin with https://: copy the workflow's own URL into it"
            )
        return url

    async def _post(self, name: str, url: Url, body: bytes) -> tuple[int, str]:
        """Return status and Retry-After of the answer."""
        if self._client is None:
            self._client = self._make_client()
        headers = {"content-type": "application/json"}
        try:
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._client.post(url, headers, body, TIMEOUT_S)
                try:
                    await response.read()
                finally:
                    await response.aclose()
        except OSError as error:  # also a timeout
            # Without its cause, whose text may have the address.
            raise RetryableError(
                f"the webhook of secret({name!r}) did not answer: {type(error).__name__}"
            ) from None
        return response.status, response.headers.get("retry-after", "")

    def _fault(self, name: str, status: int, after: str) -> Exception:
        if status == 429:
            return ChannelBusy(
                f"the webhook of secret({name!r}) takes no more messages now", self._pause(after)
            )
        if status >= 500 or status == 408:
            return RetryableError(f"the webhook of secret({name!r}) answered with status {status}")
        if 300 <= status < 400:
            return _refused(
                name, "it redirects, which is never followed: copy the workflow's own URL into it"
            )
        if status in (401, 403, 404, 410):
            return _refused(
                name,
                f"it answered with status {status}: see that the workflow is there and turned on, that "
                "anyone may trigger it, and copy its URL into the secret again",
            )
        return _refused(
            name,
            f"it answered with status {status}: make the workflow from the template that posts cards of "
            "webhook requests to a channel",
        )

    def _pause(self, after: str) -> timedelta:
        """Return the time that a header asks for: seconds, or a date."""
        try:
            if after.isdecimal() and after.isascii():
                wish = timedelta(seconds=min(int(after), int(MAX_PAUSE.total_seconds())))
            else:
                wish = parsedate_to_datetime(after) - self._now()
        except (ValueError, TypeError, OverflowError):
            return PAUSE
        return min(max(wish, timedelta(seconds=1)), MAX_PAUSE)


def _refused(name: str, what: str) -> ChannelRefused:
    return ChannelRefused(f"the webhook of secret({name!r}) takes no message; {what}")
