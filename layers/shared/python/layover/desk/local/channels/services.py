"""Slack, Teams and SES as one machine has them, by the places at which they are asked."""

from collections.abc import Callable, Mapping
from typing import Any

from layover.clock import SystemClock
from layover.desk.local.channels import Outbox
from layover.lazy import lazy

Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""
Respond = Callable[[str, str, Mapping[str, str], bytes], Answer]
"""Takes method, path, headers (names in lower case) and body."""
MAILS = "/v2/email/outbound-emails"
"""The path of SES's operation SendEmail, on the endpoint of AWS."""
TOKEN, SIGNING_SECRET = "xoxb-local", "local-signing-secret"
"""The secrets of the one app in the workspace, which nobody else has."""


class ChannelServices:
    """The services, each made when it is first asked. `base_url`: under which Slack and Teams are asked."""

    def __init__(self, base_url: str, outbox: Outbox) -> None:
        self.outbox = outbox
        self._base_url = base_url
        self.slack: Any = lazy(self._make_slack)
        self.teams: Any = lazy(self._make_teams)
        self.ses: Any = lazy(self._make_ses)

    @property
    def slack_url(self) -> str:
        """URL of Slack's Web API."""
        return f"{self._base_url}/slack/api"

    def teams_url(self, name: str) -> str:
        """URL of the webhook of a channel. `name`: of the secret that has it."""
        return f"{self._base_url}/teams/{name}"

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer a request to Slack or to Teams. `path`: below the base URL."""
        service, _, rest = path.removeprefix("/").partition("/")
        if service not in ("slack", "teams"):
            return 404, {}, b""
        respond: Respond = (self.slack if service == "slack" else self.teams).respond
        return respond(method, f"/{rest}", headers, body)

    def send_mail(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer a request to SES."""
        answer: Answer = self.ses.respond("POST", MAILS, headers, body)
        return answer

    def _make_slack(self) -> Any:
        from layover.desk.local.channels.slack import FakeSlack

        # Messages are looked up by the time of their request, which the machine's clock tells.
        now = SystemClock().now
        return FakeSlack(
            self.outbox,
            TOKEN,
            SIGNING_SECRET,
            f"{self._base_url}/slack",
            now=lambda: now().timestamp(),
        )

    def _make_teams(self) -> Any:
        from layover.desk.local.channels.teams import LocalTeams

        return LocalTeams(self.outbox)

    def _make_ses(self) -> Any:
        from layover.desk.local.channels.ses import LocalSes

        return LocalSes(self.outbox)
