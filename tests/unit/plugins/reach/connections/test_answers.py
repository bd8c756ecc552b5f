"""Grants as services really answer: their words for a grant that is over, answers that say less than the ones
before, and tokens that are not at the top."""

import json
import logging
from base64 import urlsafe_b64encode
from datetime import timedelta
from typing import Any

import pytest

from layover import Connection, DefinitionError
from layover.adapters.http.direct import DirectClient
from layover.clock import ManualClock
from layover.errors import ConfigurationError, ConsentRefused, RetryableError
from layover.plugins.reach.adapters.endpoints import HttpTokenEndpoints
from layover.plugins.reach.connections.answers import tokens_in
from layover.plugins.reach.connections.tokens import token_of
from layover.ports.grants import TokenRefused
from layover.values.grant import Grant
from support.oauth import TOKEN_URL, served
from unit.plugins.reach.connections.test_tokens import ANN, SERVICE, Shop


def service(**options: Any) -> Connection:
    facts: dict[str, Any] = {
        "authorize_url": "https://accounts.example.com/authorize",
        "token_url": TOKEN_URL,
        "client_id": "layover",
    }
    return Connection("github", **(facts | options))


def id_token(**claims: Any) -> str:
    body = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.sig"


# Refusals of a renewal


async def renewed(refusal: tuple[int, Any]) -> tuple[str | None, Grant]:
    """Connect, and renew an hour later; return what the tool gets, and the grant."""
    shop = Shop(odd=[None, refusal])
    with served(shop.server) as url:
        http = HttpTokenEndpoints(DirectClient)
        shop.runtime = shop.process(http)
        connection = service(token_url=url)
        await shop.connect(connection)
        shop.clock.advance(timedelta(hours=2))
        try:
            token = await token_of(shop.runtime, connection, ANN)
        except (RetryableError, ConfigurationError):
            assert (await shop.grant()).ended_at is None
            shop.server.odd.clear()
            # Nothing is lost: whoever asks later gets a token.
            assert await token_of(shop.runtime, connection, ANN)
            raise
        finally:
            await http.aclose()
        return token, await shop.grant()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": "invalid_grant"}),
        (400, {"error": "interaction_required", "suberror": "basic_action"}),  # Microsoft
        (400, {"error": "consent_required"}),
        (400, {"status": "BAD_REFRESH_TOKEN", "message": "missing or invalid"}),  # HubSpot
        (401, {"reason": "Invalid Token!", "error": "invalid_request"}),  # Zoom
        (200, {"ok": False, "error": "token_revoked"}),  # Slack
        (200, {"ok": False, "error": "invalid_refresh_token"}),
        (200, {"ok": False, "error": "account_inactive"}),
        (403, {"error": "unauthorized_client", "error_description": "refresh_token is invalid"}),
        (400, {"error": {"message": "expired", "type": "OAuthException", "code": 190}}),  # Facebook
        (400, {"message": "Bad Request", "errors": [{"resource": "RefreshToken"}]}),  # Strava
        (400, b"<html>no</html>"),
        (401, b""),
        (400, {"error": "a_word_of_tomorrow"}),
    ],
)
async def test_grant_that_is_over_in_whatever_words_asks_its_user(status: int, body: Any) -> None:
    token, grant = await renewed((status, body))
    assert token is None
    assert grant.ended_at is not None


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, {"error": "invalid_client"}),
        (400, {"status": "BAD_CLIENT_SECRET"}),  # HubSpot
        (200, {"error": "incorrect_client_credentials"}),  # GitHub
        (200, {"ok": False, "error": "invalid_client_id"}),  # Slack
        (401, {"error": "deleted_client"}),  # Google
        (400, {"error": "unsupported_grant_type"}),
        (404, b"no such page"),
        (403, b"a wall before it"),
        (302, b""),
        (200, {"welcome": "to another page"}),
    ],
)
async def test_deployer_is_blamed_for_the_registration_and_no_grant_ends(
    status: int, body: Any
) -> None:
    with pytest.raises(ConfigurationError, match="deployer"):
        await renewed((status, body))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": "temporarily_unavailable"}),
        (200, {"ok": False, "error": "ratelimited"}),  # Slack
        (400, {"error": "slow_down"}),
        (400, {"error": "rate_limit_exceeded"}),  # Salesforce
        (408, b""),
        (425, b""),
    ],
)
async def test_service_that_is_busy_may_be_asked_again(status: int, body: Any) -> None:
    with pytest.raises(RetryableError):
        await renewed((status, body))


# Answers that say less than the ones before


def answer(**fields: Any) -> dict[str, Any]:
    return {"access_token": "new", "expires_in": 3600, **fields}


async def consented_twice(
    shop: Shop, second: dict[str, Any], connection: Connection = SERVICE
) -> None:
    """Connect twice; the second consent is answered so."""
    await shop.connect(connection)
    shop.server.odd = [second]
    await shop.connect(connection)
    assert await token_of(shop.runtime, connection, ANN) == "new"
    shop.clock.advance(timedelta(hours=2))


@pytest.mark.parametrize("asked_before", [1, 2])
async def test_consent_without_a_refresh_token_keeps_the_one_before(asked_before: int) -> None:
    shop = Shop()
    for _ in range(asked_before):
        await consented_twice(shop, answer())
    assert shop.server.who(await token_of(shop.runtime, SERVICE, ANN) or "") == ANN
    assert shop.server.renewals == 1


@pytest.mark.parametrize(
    ("first", "second", "is_kept"),
    [
        ({"sub": "1"}, {"sub": "1"}, True),
        ({"id_token": id_token(sub="1")}, {"id_token": id_token(sub="1")}, True),
        ({"sub": "1"}, {"sub": "2"}, False),
        ({"id_token": id_token(sub="1")}, {"id_token": id_token(sub="2")}, False),
        ({"user_id": 1}, {"user_id": 2}, False),
        ({"account_id": "a"}, {"user_id": "b"}, True),
        ({"id_token": "no.jwt.at all"}, {"id_token": "e30.W10.x"}, True),
        ({}, {"sub": "2"}, True),
    ],
)
async def test_refresh_token_of_another_account_is_not_kept(
    first: dict[str, Any], second: dict[str, Any], is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(odd=[answer(refresh_token="r", **first)])
    await consented_twice(shop, answer(**second))
    shop.server.odd = [answer(access_token="renewed")]
    with caplog.at_level(logging.WARNING, "layover"):
        token = await token_of(shop.runtime, SERVICE, ANN)
    assert token == ("renewed" if is_kept else None)
    assert ("gave no refresh token" in caplog.text) is not is_kept
    assert shop.server.renewals == is_kept


async def test_renewal_that_turns_out_to_be_another_accounts_asks_the_user() -> None:
    """Nothing in the first answer says whose it is: a renewal does."""
    shop = Shop(odd=[answer(refresh_token="r")])
    await consented_twice(shop, answer(sub="2"))
    shop.server.odd = [answer(access_token="theirs", sub="1")]
    assert await token_of(shop.runtime, SERVICE, ANN) is None
    assert (await shop.grant()).ended_at is not None


async def test_refresh_token_that_answers_no_more_asks_the_user() -> None:
    shop = Shop()
    await consented_twice(shop, answer())
    shop.server.end(ANN)
    assert await token_of(shop.runtime, SERVICE, ANN) is None


async def test_refresh_token_of_fewer_scopes_is_not_kept() -> None:
    shop = Shop()
    await shop.connect(service(scopes=["read"]))
    wider = service(scopes=["read", "write"])
    shop.server.odd = [answer()]
    await shop.connect(wider)
    shop.clock.advance(timedelta(hours=2))
    assert await token_of(shop.runtime, wider, ANN) is None
    assert shop.server.renewals == 0


@pytest.mark.parametrize(("lives", "warns"), [(3600, True), (None, False)])
async def test_consent_that_lasts_only_as_long_as_its_token_is_told_to_the_deployer(
    lives: float | None, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(gives_refresh=False, lives=lives)
    with caplog.at_level(logging.WARNING, "layover"):
        await shop.connect()
    assert ("gave no refresh token" in caplog.text) is warns


def test_renewal_that_does_not_say_a_lifetime_has_the_one_before() -> None:
    now = ManualClock().now()
    first = tokens_in(answer(refresh_token="r", sub="1", scope="a b"), now)
    second = tokens_in({"access_token": "x"}, now + timedelta(hours=1), first)
    assert second.expires_at == now + timedelta(hours=2)
    assert (second.refresh, second.account, second.granted) == ("r", "sub:1", ("a", "b"))
    assert tokens_in({"access_token": "x", "expires_in": 0}, now, first).expires_at is None


def token_until(end: Any) -> str:
    """An access token that says itself when it ends."""
    return id_token(exp=end)


@pytest.mark.parametrize(
    ("fields", "lives"),
    [
        ({"access_token": "x", "refresh_token": "r"}, 3600),
        ({"access_token": "x"}, None),
        ({"access_token": "x", "refresh_token": "r", "expires_in": 0}, None),
        ({"access_token": token_until("soon"), "refresh_token": "r"}, 3600),
        ({"access_token": token_until(True)}, None),
        ({"access_token": token_until(0), "refresh_token": "r"}, 3600),
    ],
    ids=["may be renewed", "may not", "without an end", "no time", "no number", "long ago"],
)
def test_life_that_a_service_does_not_say(fields: dict[str, Any], lives: float | None) -> None:
    tokens = tokens_in(fields, ManualClock().now())
    assert tokens.lives == (None if lives is None else timedelta(seconds=lives))


def test_token_that_says_when_it_ends_is_renewed_before() -> None:
    now = ManualClock().now()
    ends = (now + timedelta(minutes=30)).timestamp()
    first = tokens_in({"access_token": token_until(ends), "refresh_token": "r"}, now)
    assert first.expires_at == now + timedelta(minutes=30)
    again = tokens_in({"access_token": token_until(ends + 60)}, now, first)
    assert again.expires_at == now + timedelta(minutes=31)
    assert tokens_in({"access_token": "x"}, now, first).lives == timedelta(minutes=30)
    said = tokens_in({"access_token": token_until(ends), "expires_in": 60}, now)
    assert said.expires_at == now + timedelta(minutes=1)


@pytest.mark.parametrize("kind", ["Bearer", "jwt-bearer", "JWT", "BearerToken", "user", None, 7])
def test_kind_of_token_that_is_sent_as_every_other_is_taken(kind: Any) -> None:
    assert tokens_in(answer(token_type=kind), ManualClock().now()).access == "new"


@pytest.mark.parametrize("kind", ["DPoP", "MAC", "pop", "N_A"])
def test_kind_of_token_that_needs_more_than_a_header_is_refused(kind: str) -> None:
    with pytest.raises(TokenRefused, match="unsupported_token_type"):
        tokens_in(answer(token_type=kind), ManualClock().now())


# Tokens that are not at the top

SLACK = {"ok": True, "authed_user": {"id": "U0", "scope": "search:read", "access_token": "xoxp"}}
BOT = {"access_token": "xoxb", "token_type": "bot", "scope": "chat:write"}
WITHINGS = {"status": 0, "body": {"userid": 7, "access_token": "w", "expires_in": 10}}


@pytest.mark.parametrize(
    ("fields", "path", "token"),
    [
        (SLACK, None, "xoxp"),
        ({**SLACK, **BOT}, None, "xoxp"),
        ({**SLACK, **BOT}, "authed_user", "xoxp"),
        ({**SLACK, **BOT}, "", "xoxb"),
        ({**BOT, "authed_user": {"id": "U0"}}, None, "xoxb"),
        (WITHINGS, "body", "w"),
        (WITHINGS, None, None),
        ({**BOT, "authed_user": {"id": "U0"}}, "authed_user", None),
        (SLACK, "", None),
        (SLACK, "ok.authed_user", None),
        ({"data": {"user": BOT}}, "data.user", "xoxb"),
        ({"body": []}, "body", None),
    ],
)
async def test_token_is_taken_from_its_place_and_no_other(
    fields: dict[str, Any], path: str | None, token: str | None
) -> None:
    connection = service(token_path=path)
    shop = Shop(odd=[fields])
    if token is None:
        with pytest.raises(ConsentRefused, match="invalid_response"):
            await shop.connect(connection)
    else:
        await shop.connect(connection)
        assert await token_of(shop.runtime, connection, ANN) == token


async def test_renewal_of_a_users_token_may_be_answered_at_the_top() -> None:
    user = {"access_token": "xoxe-1", "refresh_token": "xoxr-1", "expires_in": 3600}
    shop = Shop(odd=[{**BOT, "authed_user": user}, answer(token_type="user")])
    await shop.connect()
    shop.clock.advance(timedelta(hours=2))
    assert await token_of(shop.runtime, SERVICE, ANN) == "new"


async def test_account_is_read_where_the_tokens_are_or_at_the_top() -> None:
    now = ManualClock().now()
    assert tokens_in(WITHINGS, now, path="body").account == "userid:7"
    assert tokens_in({**WITHINGS, "sub": "top"}, now, path="body").account == "userid:7"
    top = {"body": {"access_token": "x"}, "id_token": id_token(sub="1")}
    assert tokens_in(top, now, path="body").account == "sub:1"


@pytest.mark.parametrize("path", [".", "a..b", "a.", 5, ["body"]])
def test_place_that_names_nothing_is_refused(path: Any) -> None:
    with pytest.raises(DefinitionError, match="token_path"):
        service(token_path=path)


def test_grant_of_another_place_is_of_another_service() -> None:
    """A bot's tokens are not those of the user who is asked for them now."""
    assert service().service == service(token_path=None).service
    assert service().service != service(token_path="").service
    assert service(token_path="body").identity != service(token_path="data").identity


# Scopes as granted


@pytest.mark.parametrize(
    ("wanted", "granted", "is_less"),
    [
        (["read", "write"], ["read", "write"], False),
        (["read", "write"], ["read"], True),
        (["read"], [], True),
        (["read"], None, False),
        (["read", "openid", "offline_access"], ["read"], False),
        (["email"], ["https://www.googleapis.com/auth/userinfo.email"], False),
        (["User.Read"], ["https://graph.microsoft.com/user.read"], False),
        (["user:email", "repo"], ["user", "repo"], False),
        (["mail"], ["email"], True),
        (["read"], ["read:org"], True),
    ],
)
def test_scope_that_was_not_granted_is_missed_in_whatever_words_services_have(
    wanted: list[str], granted: list[str] | None, is_less: bool
) -> None:
    grant = Grant(
        owner=ANN,
        connection="github",
        scopes=tuple(wanted),
        granted=None if granted is None else tuple(granted),
        sealed="s",
        connected_at=ManualClock().now(),
    )
    assert grant.lacks(wanted) is is_less
