"""`layover login`: codes with PKCE over loopback, and tokens that no other user can read."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from layover.desk.cli.client import ApiError
from layover.desk.cli.login import Callback, login
from layover.desk.cli.tokens import TokenFile
from support.providers.oidc import Browser, Deployment
from support.system.folders import folder


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    with Deployment() as deployment:
        yield deployment


@pytest.fixture
def tokens() -> Iterator[TokenFile]:
    with folder("tokens") as place:
        yield TokenFile(place / "layover")


def sign_in(deployment: Deployment, tokens: TokenFile, browser: Browser | None = None) -> int:
    """The exit code; port 0 takes a free one."""
    with browser or Browser() as opened:
        return login(deployment.url, tokens, 0, opened, patience_s=10)


def stored(tokens: TokenFile) -> bool:
    return tokens.path.exists()


def test_url_in_the_clear_is_refused(tokens: TokenFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert login("http://api.example", tokens, 0, Browser()) == 1
    assert "in the clear" in capsys.readouterr().err


def test_provider_that_is_somebody_else_is_refused(
    deployment: Deployment, tokens: TokenFile
) -> None:
    deployment.says_issuer = "https://evil.example"
    assert sign_in(deployment, tokens) == 1
    assert not stored(tokens)


def test_token_endpoint_in_the_clear_is_refused(deployment: Deployment, tokens: TokenFile) -> None:
    deployment.token_endpoint = "http://evil.example/token"
    assert sign_in(deployment, tokens) == 1
    assert deployment.given == 0


def test_system_without_sign_in_says_so(
    deployment: Deployment, tokens: TokenFile, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.issuer = None
    assert sign_in(deployment, tokens) == 2
    assert "--user NAME" in capsys.readouterr().err


def test_provider_without_a_client_for_people_says_so(
    deployment: Deployment, tokens: TokenFile
) -> None:
    deployment.client_id = None
    assert sign_in(deployment, tokens) == 1


def test_refusal_of_the_provider_ends_the_sign_in(
    deployment: Deployment, tokens: TokenFile, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.denies = True
    assert sign_in(deployment, tokens) == 1
    assert "access_denied" in capsys.readouterr().err
    assert not stored(tokens)


def test_answer_that_was_not_asked_for_is_nobodys(
    deployment: Deployment, tokens: TokenFile
) -> None:
    foreign = (
        lambda back: f"{back}?code=stolen&state=guessed",
        lambda back: f"{back}?error=access_denied",
        lambda back: back.replace("/callback", "/favicon.ico"),
    )
    assert sign_in(deployment, tokens, Browser(*foreign)) == 0
    assert tokens.access(deployment.url) == "access-1"


def test_nobody_waits_for_ever(deployment: Deployment, tokens: TokenFile) -> None:
    assert login(deployment.url, tokens, 0, lambda _: None, patience_s=0.2) == 1


def test_taken_port_is_named() -> None:
    with Callback(0) as callback:
        port = int(callback.uri.split(":")[2].split("/")[0])
        with pytest.raises(ApiError, match=str(port)):
            Callback(port)


def test_code_goes_to_this_machine_alone_and_needs_its_proof(
    deployment: Deployment, tokens: TokenFile
) -> None:
    browser = Browser()
    assert sign_in(deployment, tokens, browser) == 0
    assert deployment.wrong == []
    assert "You may close this page" in browser.shown
    assert "code-" not in browser.shown


def test_tokens_are_for_their_owners_eyes(
    deployment: Deployment, tokens: TokenFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sign_in(deployment, tokens) == 0
    assert stat.S_IMODE(tokens.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(tokens.path.parent.stat().st_mode) == 0o700
    assert [p.name for p in tokens.path.parent.iterdir()] == ["tokens.json"]
    said = capsys.readouterr()
    assert "access-1" not in said.out + said.err
    assert "support" in said.out


def test_scopes_are_asked_for_by_the_names_that_the_provider_has_for_them(
    deployment: Deployment, tokens: TokenFile
) -> None:
    deployment.login_scope = "api://layover/use offline_access"
    assert sign_in(deployment, tokens) == 0
    assert deployment.scopes == ["openid api://layover/use offline_access"]


def test_newest_sign_in_is_meant_where_no_deployment_is_named(
    deployment: Deployment, tokens: TokenFile
) -> None:
    assert tokens.last() is None
    sign_in(deployment, tokens)
    assert tokens.last() == deployment.url


def test_token_that_is_about_to_end_is_renewed(deployment: Deployment, tokens: TokenFile) -> None:
    deployment.expires_in = 30
    sign_in(deployment, tokens)
    assert tokens.access(deployment.url) == "access-2"
    # The provider gave no new refresh token: the old one is still good.
    assert tokens.access(deployment.url) == "access-3"


def test_sign_in_that_has_ended_is_named(deployment: Deployment, tokens: TokenFile) -> None:
    deployment.expires_in = 30
    sign_in(deployment, tokens)
    deployment.refuses_refresh = True
    with pytest.raises(ApiError, match="invalid_grant"):
        tokens.access(deployment.url)


def test_unknown_deployment_asks_for_a_sign_in(tokens: TokenFile) -> None:
    with pytest.raises(ApiError, match=r"layover login --url https://api\.example"):
        tokens.access("https://api.example")


def test_damaged_file_is_named(tokens: TokenFile) -> None:
    tokens.path.parent.mkdir()
    tokens.path.write_text("{")
    with pytest.raises(ApiError, match="damaged"):
        tokens.last()


def test_other_deployments_stay_signed_in(deployment: Deployment, tokens: TokenFile) -> None:
    sign_in(deployment, tokens)
    with Deployment() as other:
        sign_in(other, tokens)
    assert tokens.access(deployment.url) == "access-1"
    assert json.loads(Path(tokens.path).read_text()).keys() == {"last", "tokens"}
