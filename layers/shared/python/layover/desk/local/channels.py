"""The services that reach people, as one machine has them (`layover.plugins.people.channels.twins`)."""

from collections.abc import Mapping
from importlib import import_module

from layover.desk.local.wire import Request
from layover.plugins.people.channels import CHANNELS
from layover.plugins.people.channels.twins import Answer, Outbox, Twin
from layover.values.channels import Channels


class ChannelServices:
    """The twins of all channels. `base_url`: each is asked below it, by the channel's name. `channels`: the
    configuration."""

    def __init__(self, base_url: str, outbox: Outbox, channels: Channels) -> None:
        self.outbox = outbox
        self._base_url = base_url
        self._channels = channels
        self._twins = {c.name: _make_twin(c.name, outbox, self._url(c.name)) for c in CHANNELS}

    @property
    def variables(self) -> dict[str, str]:
        """The variables by which senders find the twins: URLs and secrets."""
        webhooks = {channel.name for channel in CHANNELS if channel.webhook}
        urls = {
            address.to: f"{self._url(address.channel)}/{address.to}"
            for address in self._channels.addresses(self._channels.groups)
            if address.channel in webhooks
        }
        own = (twin.variables.items() for twin in self._twins.values())
        return urls | {name: value for pairs in own for name, value in pairs}

    def respond(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer a request to a twin. `path`: below the base URL."""
        name, _, rest = path.removeprefix("/").partition("/")
        if name not in self._twins:
            return 404, {}, b""
        return self._twins[name].respond(method, f"/{rest}", headers, body)

    def respond_as_aws(self, request: Request) -> Answer | None:
        """Answer a request to AWS; None: it is not a twin's."""
        parts = request.method, request.path, request.headers, request.body
        twins = (t for t in self._twins.values() if ("POST", t.aws_path) == parts[:2])
        return next((twin.respond(*parts) for twin in twins), None)

    def _url(self, name: str) -> str:
        return f"{self._base_url}/{name}"


def _make_twin(name: str, outbox: Outbox, url: str) -> Twin:
    # By its name: the layer, which has the channels, is built without their twins.
    twin: Twin = import_module(f"layover.plugins.people.channels.{name}.twin").make_twin(
        outbox, url
    )
    return twin
