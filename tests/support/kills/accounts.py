"""A service at which users have accounts, which outlives the processes of a system."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2

from layover.clock import SystemClock
from support.agents import ledger
from support.oauth import OAuthServer, served


@contextmanager
def accounts(folder: Path) -> Iterator[OAuthServer]:
    """Serve on a free port, whose address `folder` gets."""
    folder.mkdir(parents=True, exist_ok=True)
    server = OAuthServer(SystemClock())
    with served(server) as url:
        ledger.address_of_accounts(folder).write_text(url.removesuffix("/token"))
        yield server


def consent_at(authorize_url: str) -> dict[str, str]:
    """Consent as a user's browser does; return what it is sent back with: `{code, state}`."""
    with httpx2.Client(trust_env=False) as browser:
        answer = browser.get(authorize_url)
    assert answer.status_code == 302, answer.text
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


def live_at(authorize_url: str) -> list[str]:
    """Return the refresh tokens that came of the consent at this page, and that the service would take."""
    page = urlsplit(authorize_url)
    user = dict(parse_qsl(page.query))["state"]
    with httpx2.Client(trust_env=False) as browser:
        answer = browser.get(f"{page.scheme}://{page.netloc}/live?user={user}")
    return list(answer.json())
