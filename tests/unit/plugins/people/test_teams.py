"""Messages to Teams: the webhook's URL is a secret, and its workflow may be gone."""

import json
import logging
from collections.abc import Mapping
from datetime import timedelta
from traceback import format_exception
from typing import Any

import pytest

from layover.adapters.http.client import MakeClient
from layover.adapters.http.direct import DirectClient
from layover.adapters.http.proxied import ProxiedClient
from layover.declare.secret import Secret
from layover.errors import ConfigurationError
from layover.plugins.people.channels.teams.cards import MAX_BYTES, write_card
from layover.plugins.people.channels.teams.sender import MAX_PAUSE, PAUSE, TeamsSender
from layover.plugins.people.channels.teams.twin import LocalTeams
from layover.plugins.people.channels.twins import Outbox
from layover.ports.channels import ChannelBusy, ChannelRefused
from layover.values.channels import Address, Channels, NoticeLinks
from support.notices import NOW, the_notice
from support.services import Answer, served

TO = Address(channel="teams", to="TEAMS_WEBHOOK")
LINKS = NoticeLinks(
    console="https://layover.example.com/console/1", decide="https://layover.example.com/decide/s3"
)
KEY = "s3cr-et"


class Kept(Secret):
    """A secret, as it was read before and as it is now."""

    def __init__(self, *values: str) -> None:
        super().__init__(TO.to)
        self.values = values

    async def aget(self, *, fresh: bool = False) -> str:
        return self.values[-1 if fresh else 0]


async def send(secret: Secret, client: MakeClient = DirectClient, **settings: Any) -> str:
    """Send one message."""
    sender = TeamsSender(
        client,
        Channels(),
        lambda name: secret,
        **({"plain_hosts": frozenset({"127.0.0.1"})} | settings),
        now=lambda: NOW,
    )
    try:
        return await sender.send(TO, the_notice(), LINKS, once="d-1", unsure=False)
    finally:
        await sender.aclose()


@pytest.mark.parametrize(
    ("url", "to_do"),
    [
        (f"http://teams.example.com/{KEY}", "https://"),
        (f"{KEY}", "copy the workflow's URL"),
        (f"https://teams.example.com:{KEY}/", "copy the workflow's URL"),
        ("", "copy the workflow's URL"),
    ],
)
async def test_secret_that_is_no_https_url_is_never_shown(url: str, to_do: str) -> None:
    with pytest.raises(ChannelRefused, match=to_do) as caught:
        await send(Kept(url), plain_hosts=frozenset())
    assert KEY not in "".join(format_exception(caught.value))


async def test_secret_without_a_value_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEAMS_WEBHOOK", raising=False)
    with pytest.raises(ChannelRefused, match="TEAMS_WEBHOOK") as caught:
        await send(Secret(TO.to))
    assert isinstance(caught.value.__cause__, ConfigurationError)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_is_refused(status: int) -> None:
    requests: list[str] = []

    def respond(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        requests.append(path)
        return status, {"location": "/other"}, b""

    async with served(respond) as url:
        with pytest.raises(ChannelRefused, match="never followed"):
            await send(Kept(f"{url}/{KEY}"))
    assert requests == [f"/{KEY}"]


@pytest.mark.parametrize(
    ("header", "pause"),
    [
        ("7", timedelta(seconds=7)),
        ("0", timedelta(seconds=1)),
        ("99999999999999999999", MAX_PAUSE),
        ("Fri, 01 May 2026 12:01:00 GMT", timedelta(minutes=1)),
        ("Fri, 01 May 2020 12:01:00 GMT", timedelta(seconds=1)),
        ("Fri, 01 May 2026 12:01:00", PAUSE),
        ("soon", PAUSE),
        ("-5", PAUSE),
        ("", PAUSE),
    ],
)
async def test_pause_is_what_the_service_asks_for_within_reason(
    header: str, pause: timedelta
) -> None:
    async with served(lambda *_: (429, {"retry-after": header}, b"")) as url:
        with pytest.raises(ChannelBusy) as caught:
            await send(Kept(f"{url}/{KEY}"))
    assert caught.value.after == pause
    assert KEY not in str(caught.value)


async def test_workflow_that_is_gone_has_to_be_made_again() -> None:
    teams = LocalTeams(Outbox(), deleted=frozenset({f"/{KEY}"}))
    async with served(teams.respond) as url:
        with pytest.raises(ChannelRefused, match="see that the workflow is there") as caught:
            await send(Kept(f"{url}/{KEY}"))
    assert KEY not in str(caught.value)


async def test_url_that_was_rotated_is_read_again() -> None:
    teams = LocalTeams(Outbox(), deleted=frozenset({"/old"}))
    async with served(teams.respond) as url:
        await send(Kept(f"{url}/old", f"{url}/new"))
    assert len(teams.cards) == 1


@pytest.mark.parametrize("client", [DirectClient, lambda: ProxiedClient(10, 60.0, 5.0)])
async def test_url_is_in_no_log(client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(LocalTeams(Outbox()).respond) as url:
        await send(Kept(f"{url}/{KEY}?sig={KEY}"), client=client)
    assert KEY not in caplog.text


async def test_query_of_a_workflow_arrives_as_it_is() -> None:
    query = "api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=a_b-C"
    paths: list[str] = []

    def respond(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        paths.append(path)
        return 202, {}, b""

    async with served(respond) as url:
        await send(Kept(f"{url}/workflows/1/triggers/manual/paths/invoke?{query}\n"))
    assert paths == [f"/workflows/1/triggers/manual/paths/invoke?{query}"]


def test_card_has_no_markdown_and_no_link_of_one_person() -> None:
    text = "[click](https://evil.example) {{DATE(2026-05-01)}}"
    notice = the_notice(summary=text, args={"note": text})
    message = json.loads(write_card(notice, LINKS, Channels()))
    [attachment] = message["attachments"]
    card = attachment["content"]
    assert {element["type"] for element in card["body"]} == {"RichTextBlock"}
    assert [action["url"] for action in card["actions"]] == [LINKS.console]
    assert "decide/s3" not in json.dumps(message)
    assert "{{" not in json.dumps(message)


def test_card_that_is_too_large_is_shortened_and_stays_useful() -> None:
    args = {f"argument-{n}": "\U0001f40e" * 900 for n in range(20)}
    written = write_card(the_notice(args=args), LINKS, Channels())
    assert asks(written) == 202
    text = written.decode()
    assert "argument-19" in text
    assert "Requested by" in text
    assert "…" in text


def asks(document: Any, **changes: Any) -> int:
    """The status with which a webhook answers."""
    headers = {"content-type": changes.pop("kind", "application/json")}
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    method = changes.pop("method", "POST")
    return LocalTeams(Outbox()).respond(method, "/1", headers, body)[0]


def test_local_teams_keeps_the_rules_of_the_service() -> None:
    good = write_card(the_notice(), LINKS, Channels())
    assert asks(good) == 202
    assert asks(good, kind="text/plain") == 400
    assert asks(good, method="GET") == 405
    assert asks(good + b" " * MAX_BYTES) == 413
    quotes = 5_800
    assert asks({"text": '"' * quotes}) == 400
    # Each quotation mark has a backslash in a text, and both have one more in a text within a text.
    assert asks({"text": '"' * (quotes + 1_500)}) == 413
    assert asks({"text": "Hello"}) == 400
    message = json.loads(good)
    card = message["attachments"][0]["content"]
    changes: list[dict[str, Any]] = [
        {"version": "2.0"},
        {"body": []},
        {"body": [{"type": "Script"}]},
        {"actions": [{"type": "Action.Submit", "title": "Approve"}]},
        {"actions": [{"type": "Action.OpenUrl", "title": "x", "url": "javascript:x"}]},
    ]
    for change in changes:
        wrong = {"contentType": message["attachments"][0]["contentType"], "content": card | change}
        assert asks({"type": "message", "attachments": [wrong]}) == 400, change
