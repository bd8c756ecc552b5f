"""Links that are not: answered alike through the real HTTP front, and written down nowhere."""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import unquote

import pytest

from support.hostile_links import hostile_tokens, send_raw
from support.worlds.link_site import LinkSite
from support.worlds.linked import BEA, FINANCE

BODY = b'{"decision": "approve"}'
MIN_FRAGMENT = 12
"""Characters of a token that may stand in no log."""


@pytest.fixture
def site() -> Iterator[LinkSite]:
    with LinkSite().serve() as served:
        yield served


def test_hostile_links_are_answered_alike_and_stand_in_no_output(
    site: LinkSite, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    run, [path] = site.asked()
    token = path.removeprefix("/decide/")
    owner, _, secret = token.split(".")
    other, _ = site.asked()
    links = [
        *hostile_tokens(run.id, secret),
        *(token[:n] for n in (5, 40, len(token) - 1)),
        f"{owner}.{other.id}.{secret}",
        token.swapcase(),
    ]
    assert len(links) >= 50
    answers = set()
    for link in links:
        for method, body in (("GET", b""), ("POST", BODY)):
            answer = send_raw(site.url, method, f"/decide/{link}", body)
            answers.add((answer.status, answer.body, answer.headers["content-type"]))
            assert "set-cookie" not in answer.headers
            assert "x-injected" not in answer.headers
            assert answer.headers["cache-control"] == "no-store"
    [(status, text, kind)] = answers
    assert (status, kind) == (404, "application/problem+json")
    assert json.loads(text)["detail"] == "there is no such path"
    assert site.call_of(run).decision is None
    output = caplog.text + "".join(capfd.readouterr())
    output += "".join(str(vars(record)) for record in caplog.records)
    assert secret not in output
    assert [link for link in links if len(link) >= MIN_FRAGMENT and link in output] == []
    assert [link for link in links if len(link) >= MIN_FRAGMENT and unquote(link) in output] == []


def test_real_link_stands_in_no_output_whatever_becomes_of_it(
    site: LinkSite, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    expires_at = site.world.clock.now() + timedelta(hours=1)
    _, [path, expiring] = site.asked(FINANCE, BEA, BEA, expires_at=expires_at)
    assert send_raw(site.url, "GET", path).status == 200
    assert send_raw(site.url, "POST", path, b"{").status == 400
    assert send_raw(site.url, "POST", path, BODY, Origin="http://localhost:9").status == 403
    # A failure of ours is logged with what is needed to find it, and the link is not.
    site.world.links.get_link, kept = None, site.world.links.get_link  # type: ignore[method-assign,assignment]
    assert send_raw(site.url, "GET", path).status == 500
    site.world.links.get_link = kept  # type: ignore[method-assign]
    assert send_raw(site.url, "POST", path, BODY).status == 202
    site.world.clock.advance(timedelta(hours=2))
    assert send_raw(site.url, "GET", expiring).status == 200
    assert send_raw(site.url, "DELETE", path).status == 405
    output = caplog.text + "".join(capfd.readouterr())
    output += "".join(str(vars(record)) for record in caplog.records)
    assert "a request failed" in output
    for link in (path, expiring):
        assert link.rpartition(".")[2] not in output
