"""Channels as the environment names them: nothing is read or imported before somebody is told."""

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from layover import wiring
from layover.adapters.journal.deliveries import TableDeliveries
from layover.errors import ConfigurationError
from layover.ports.channels import ChannelPorts
from support.aws.loopback import KEYS, answer, loopback

CACHED = (
    wiring.environment,
    wiring.runtime,
    wiring._aws,
    wiring._channel_config,
    wiring._deliveries,
    wiring._decision_links,
)
SECRETS = ("SLACK_BOT_TOKEN", "SLACK_SIGNING_SECRET")
NAMES = (
    *SECRETS,
    "LAYOVER_CHANNELS",
    "LAYOVER_CHANNELS_PARAMETER",
    "LAYOVER_API_URL",
    "AWS_ENDPOINT_URL",
)
DOCUMENT = {"finance": [{"slack": "#payouts"}]}
Environ = Callable[..., None]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[Environ]:
    """`environ(LAYOVER_CHANNELS="...")`: a process that has only just started."""

    def forget() -> None:
        for each in CACHED:
            each.cache_clear()

    def given(**variables: str) -> None:
        for name in NAMES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        forget()

    yield given
    forget()


def test_without_a_document_nobody_is_told(environ: Environ) -> None:
    environ()
    assert wiring.runtime().channels == ChannelPorts()


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "LAYOVER_CHANNELS is not JSON"), ("[]", "channels: an object")]
)
def test_a_document_that_cannot_be_read_says_so_when_it_is_used(
    environ: Environ, text: str, problem: str
) -> None:
    environ(LAYOVER_CHANNELS=text)
    channels = wiring.runtime().channels
    with pytest.raises(ConfigurationError, match=problem.replace("[", r"\[")):
        assert channels.config.groups


def test_the_document_is_the_variables_and_links_begin_with_the_apis_url(environ: Environ) -> None:
    environ(LAYOVER_CHANNELS=json.dumps(DOCUMENT), LAYOVER_API_URL="https://api.example.com/")
    channels = wiring.runtime().channels
    assert set(channels.config.groups) == {"finance"}
    assert channels.base_url == "https://api.example.com"
    assert set(channels.senders) == {"slack", "mail", "teams"}


def test_deliveries_are_in_the_journals_table(environ: Environ) -> None:
    environ(LAYOVER_CHANNELS="{}", AWS_REGION="eu-west-1", LAYOVER_TABLE="t")
    assert isinstance(wiring._deliveries(), TableDeliveries)


async def test_a_parameter_has_the_document_and_is_read_once(environ: Environ) -> None:
    value = {"Parameter": {"Value": json.dumps(DOCUMENT)}}
    async with loopback(answer(value)) as server:
        environ(
            LAYOVER_CHANNELS_PARAMETER="/shop/channels",
            AWS_ENDPOINT_URL=server.url,
            AWS_REGION="eu-west-1",
            **KEYS,
        )
        channels = wiring.runtime().channels
        assert server.requests == []
        for _ in range(2):
            groups = await asyncio.to_thread(lambda: set(channels.config.groups))
            assert groups == {"finance"}
    (request,) = server.requests
    assert json.loads(request.body)["Name"] == "/shop/channels"


def test_nobody_presses_where_slack_has_no_secret_to_sign_by(environ: Environ) -> None:
    environ(LAYOVER_CHANNELS=json.dumps(DOCUMENT), SLACK_BOT_TOKEN="xoxb-1")
    assert wiring.runtime().channels.presses == {}


async def test_slack_signs_by_its_secret(environ: Environ) -> None:
    environ(LAYOVER_CHANNELS=json.dumps(DOCUMENT), SLACK_SIGNING_SECRET="s3cret")
    slack = wiring.runtime().channels.presses["slack"]
    assert await slack.signing_secret() == "s3cret"
