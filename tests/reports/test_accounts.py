"""Users' accounts at services that answer in ways of their own."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from integration.api.kit import Api
from integration.api.test_user_connections import Connected
from layover import Agent, Connection
from layover.adapters.http.direct import DirectClient
from layover.errors import RetryableError
from layover.plugins.reach.adapters.endpoints import HttpTokenEndpoints
from reports import Found, report
from support.oauth import TOKEN_URL, OAuthServer, served
from support.worlds.services import ANN

FIRST = {"access_token": "first", "refresh_token": "r1", "expires_in": 3600}
SECOND = {"access_token": "second", "refresh_token": "r2", "expires_in": 3600}
HOUR = timedelta(hours=1)


class Account:
    """Ann's account at a service that answers the nth request of its token endpoint with the nth answer."""

    def __init__(
        self, api: Api, world: Connected, *answers: Any, scopes: Sequence[str] = ()
    ) -> None:
        self.api, self.world = api, world
        self.service = Connection(
            "github",
            authorize_url="https://accounts.example.com/authorize",
            token_url=TOKEN_URL,
            client_id="layover",
            scopes=list(scopes),
        )
        world.agents.clear()
        world.agents["clerk"] = Agent("clerk", connections=[self.service])
        world.server.odd.extend(answers)

    def ask(self) -> Any:
        """What Ann's browser comes back with, once she has consented."""
        page = self.api.post("/me/connections/github").json
        return self.world.server.consent(page["authorize_url"])

    def connect(self) -> Any:
        """The connection as Ann sees it, once she has consented."""
        answer = self.api.post("/me/consents", self.ask())
        assert answer.status == 200, answer.body
        return answer.json

    def token(self) -> str | None:
        """What a tool gets; None: Ann has to consent."""
        accounts = self.world.runtime.accounts
        token: str | None = self.api.do(accounts.token(self.service, ANN, None))
        return token

    def status(self) -> str:
        """The status of the connection, as Ann sees it."""
        (item,) = self.api.get("/me/connections").json["items"]
        status: str = item["status"]
        return status


@pytest.fixture
def world() -> Connected:
    """Agents with a connection."""
    return Connected()


@report("getprobo/probo#1638, Cloudgeni-ai/opengeni#2459, O365/python-o365#611", Found.RIGHT)
def test_scope_that_microsoft_grants_and_does_not_list_is_not_missing(
    api: Api, world: Connected
) -> None:
    """A consent to `offline_access`, which no answer lists, leaves nothing to ask for."""
    answer = {**FIRST, "scope": "Mail.Read"}
    account = Account(api, world, answer, scopes=["offline_access", "Mail.Read"])
    assert account.connect()["status"] == "connected"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["email"], "openid https://www.googleapis.com/auth/userinfo.email"),
        (["User.Read"], "profile openid https://graph.microsoft.com/User.Read"),
    ],
)
@report(
    "singingwolfboy/flask-dance#148, requests/requests-oauthlib#387, oauthlib/oauthlib#732",
    Found.RIGHT,
)
def test_scope_that_a_service_calls_by_another_name_is_not_missing(
    api: Api, world: Connected, asked: list[str], told: str
) -> None:
    """Scopes that come back under other names, and more of them, leave nothing to ask for."""
    account = Account(api, world, {**FIRST, "scope": told}, scopes=asked)
    assert account.connect()["status"] == "connected"


@report("NangoHQ/nango#6775, oomol-lab/open-connector#266, dust-tt/dust#22773", Found.MENDED)
def test_token_whose_service_does_not_say_how_long_it_lives_is_renewed(
    api: Api, world: Connected
) -> None:
    """A token that can be renewed, and whose answer has no `expires_in`, is renewed before tools get a dead
    one: by the end that it names itself, else each hour."""
    end = (world.clock.now() + HOUR / 2).timestamp()
    claims = urlsafe_b64encode(json.dumps({"exp": end}).encode()).decode().rstrip("=")
    first = {"access_token": f"e30.{claims}.sig", "refresh_token": "r1"}
    third = {"access_token": "third"}
    account = Account(api, world, first, {"access_token": "second"}, third)
    account.connect()
    assert account.token() == first["access_token"]
    world.clock.advance(HOUR / 2)
    assert account.token() == "second"
    world.clock.advance(HOUR)
    assert account.token() == "third"


@report("twitchdev/issues#164, logto-io/logto#6980, ramosbugs/oauth2-rs#269", Found.MENDED)
def test_scopes_in_a_list_are_those_that_the_user_granted(api: Api, world: Connected) -> None:
    """Scopes that come as a list are read: one that the user left out is missing."""
    scopes = ["chat:read", "chat:edit"]
    account = Account(
        api, world, {**FIRST, "scope": scopes}, {**FIRST, "scope": scopes[:1]}, scopes=scopes
    )
    assert account.connect()["granted"] == scopes
    less = account.connect()
    assert (less["status"], less["granted"]) == ("more", ["chat:read"])


@report(
    "simstudioai/sim#2517, jebrosen/rocket_oauth2#46, r-lib/httr#363",
    Found.MENDED,
)
async def test_token_endpoint_is_told_who_asks() -> None:
    """A request to a token endpoint has a User-Agent of its sender, and not of a library."""
    server = OAuthServer(odd=[FIRST])
    http = HttpTokenEndpoints(DirectClient)
    with served(server) as url:
        await http.ask(url, {"grant_type": "refresh_token"})
        await http.aclose()
    assert server.headers[0]["user-agent"] == "layover"


@pytest.mark.parametrize(
    ("kind", "lives"), [({}, 3600), ({"token_type": "jwt-bearer"}, "3599")], ids=["none", "jwt"]
)
@report(
    "UsefulSoftwareCo/executor#2090, cmd-johnson/deno-oauth2-client#37, MicrosoftDocs/azure-devops-docs#810",
    Found.MENDED,
)
def test_token_of_no_kind_or_of_a_services_own_word_is_taken(
    api: Api, world: Connected, kind: dict[str, str], lives: Any
) -> None:
    """A token without a `token_type`, or with a word of the service's own for a bearer token, is taken."""
    account = Account(api, world, {**FIRST, **kind, "expires_in": lives}, SECOND)
    account.connect()
    assert account.token() == "first"
    world.clock.advance(HOUR)
    assert account.token() == "second"


@report("slackapi/java-slack-sdk#1075, akash-network/console#2933", Found.RIGHT, held_back=True)
def test_user_who_declines_may_consent_later(api: Api, world: Connected) -> None:
    """A user who declines at the service, and comes back without a code, is asked again, and may consent."""
    account = Account(api, world, FIRST)
    declined = account.ask()
    assert api.post("/me/consents", {**declined, "code": ""}).status == 422
    assert account.status() == "missing"
    assert account.connect()["status"] == "connected"


@pytest.mark.parametrize(
    "answer", [(503, {}), (429, {}), (400, {"error": "temporarily_unavailable"}), None]
)
@report(
    "super-productivity/super-productivity#9939, xorbitsai/xagent#1544, Automattic/wordpress-atmosphere#21",
    Found.RIGHT,
    held_back=True,
)
def test_service_that_is_away_when_a_token_is_renewed_ends_no_grant(
    api: Api, world: Connected, answer: Any
) -> None:
    """A renewal that finds no network, or a service that is busy, leaves the account connected."""
    account = Account(api, world, FIRST, *([] if answer is None else [answer]), SECOND)
    account.connect()
    world.clock.advance(2 * HOUR)
    world.endpoints.down = answer is None
    with pytest.raises(RetryableError):
        account.token()
    world.endpoints.down = False
    assert account.status() == "connected"
    world.clock.advance(timedelta(minutes=1))
    assert account.token() == "second"
