"""A user's accounts at other services, over HTTP."""

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from integration.api.kit import Api
from layover import Agent, Connection
from layover.inmemory.table import InMemoryTable
from layover.keys import Keys
from layover.plugins.reach.adapters.grants import TableGrants
from layover.ports.grants import GrantPorts
from support.oauth import REDIRECT_URL, REVOKE_URL, TOKEN_URL, Endpoints, OAuthServer, Sealed
from support.worlds.services import ANN, BOB, ServiceBench

GITHUB = Connection(
    "github",
    authorize_url="https://accounts.example.com/authorize",
    token_url=TOKEN_URL,
    revoke_url=REVOKE_URL,
    client_id="layover",
    scopes=["repo"],
)
WIDER = Connection(
    "github",
    authorize_url="https://accounts.example.com/authorize",
    token_url=TOKEN_URL,
    revoke_url=REVOKE_URL,
    client_id="layover",
    scopes=["user"],
)


class Connected(ServiceBench):
    """A world whose agents have a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.agents["clerk"] = Agent("clerk", connections=[GITHUB])
        self.agents["writer"] = Agent("writer", connections=[WIDER])
        self.server = OAuthServer(self.clock)
        self.table = InMemoryTable()
        self.endpoints = Endpoints(self.server)
        self.runtime = replace(
            self.runtime,
            connections=GrantPorts(TableGrants(self.table), Sealed(), self.endpoints, REDIRECT_URL),
        )


@pytest.fixture
def world() -> Connected:
    return Connected()


def connect(api: Api, sub: str = ANN) -> Any:
    page = api.post("/me/connections/github", sub=sub)
    assert page.status == 200
    back = api.world.server.consent(page.json["authorize_url"])  # type: ignore[attr-defined]
    return api.post("/me/consents", back, sub=sub)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/me/connections", None),
        ("POST", "/me/connections/github", None),
        ("DELETE", "/me/connections/github", None),
        ("POST", "/me/consents", {"code": "c", "state": "s"}),
    ],
)
def test_nobody_without_a_token_has_connections(
    api: Api, method: str, path: str, body: Any
) -> None:
    assert api.send(method, path, body, sub=None).status == 401


def test_unknown_connection_is_not_found(api: Api) -> None:
    api.post("/me/connections/gitlab").problem(404, "not-found")
    api.send("DELETE", "/me/connections/gitlab").problem(404, "not-found")
    api.send("DELETE", "/me/connections/github").problem(404, "not-found")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"code": "c"},
        {"code": "", "state": "s"},
        {"code": "c", "state": "s" * 5_000},
        {"code": ["c"], "state": "s"},
        {"code": "c", "state": "s", "issuer": "x"},
        {"code": "c", "state": "s", "proof": 5},
        [],
    ],
)
def test_consent_of_a_wrong_shape_is_refused(api: Api, body: Any) -> None:
    assert api.post("/me/consents", body).status == 422


def test_consent_of_another_user_is_answered_like_one_that_never_was(api: Api) -> None:
    page = api.post("/me/connections/github").json
    back = api.world.server.consent(page["authorize_url"])  # type: ignore[attr-defined]
    theirs = api.post("/me/consents", back, sub=BOB).problem(404, "not-found")
    never = api.post("/me/consents", {"code": "c", "state": "s"}, sub=BOB)
    assert theirs == never.problem(404, "not-found")
    assert api.post("/me/consents", back).status == 200


def test_code_that_the_service_refuses_is_a_conflict(api: Api) -> None:
    page = api.post("/me/connections/github").json
    state = api.world.server.consent(page["authorize_url"])["state"]  # type: ignore[attr-defined]
    problem = api.post("/me/consents", {"code": "guess", "state": state})
    assert "invalid_grant" in problem.problem(409, "consent-refused")["detail"]


def test_account_is_connected_listed_exported_and_disconnected(api: Api) -> None:
    [missing] = api.get("/me/connections").json["items"]
    assert (missing["status"], missing["agents"]) == ("missing", ["clerk", "writer"])
    assert missing["scopes"] == ["repo", "user"]
    answer = connect(api)
    assert (answer.status, answer.json["status"]) == (200, "connected")
    [listed] = api.get("/me/connections").json["items"]
    assert listed == answer.json
    assert listed["granted"] == ["repo", "user"]
    [exported] = api.get("/me/export").json["connections"]
    assert (exported["connection"], exported["granted"]) == ("github", ["repo", "user"])
    assert "sealed" not in exported
    assert api.get("/me/connections", sub=BOB).json["items"] == [missing]
    gone = api.send("DELETE", "/me/connections/github")
    assert (gone.status, gone.json["status"]) == (200, "missing")
    assert api.world.server.revoked == ["refresh-3"]  # type: ignore[attr-defined]


def test_user_who_is_erased_has_no_grant_and_the_service_is_told(api: Api) -> None:
    connect(api)
    connect(api, sub=BOB)
    assert api.send("DELETE", "/me").status == 202
    assert api.world.server.revoked == ["refresh-3"]  # type: ignore[attr-defined]
    left = api.do(api.world.table.query(Keys(ANN).grants, " ", "~"))  # type: ignore[attr-defined]
    assert left == []
    [listed] = api.get("/me/connections", sub=BOB).json["items"]
    assert listed["status"] == "connected"


def test_user_is_erased_although_the_agents_contradict_each_other(
    api: Api, world: Connected
) -> None:
    connect(api)
    other = Connection(
        "github",
        authorize_url="https://evil.example.com/authorize",
        token_url="https://evil.example.com/token",
        client_id="layover",
    )
    world.agents["third"] = Agent("third", connections=[other])
    assert api.send("DELETE", "/me").status == 202
    left: Any = api.do(world.table.query(Keys(ANN).grants, " ", "~"))
    assert left == []


def test_grant_of_agents_that_are_gone_is_listed_and_can_be_taken_back(
    api: Api, world: Connected
) -> None:
    connect(api)
    del world.agents["clerk"], world.agents["writer"]
    [listed] = api.get("/me/connections").json["items"]
    assert (listed["name"], listed["agents"], listed["status"]) == ("github", [], "connected")
    assert api.send("DELETE", "/me/connections/github").status == 200
    assert api.get("/me/connections").json["items"] == []


def test_two_services_of_one_name_are_refused(api: Api, world: Connected) -> None:
    """A grant at one of them would be sent to the other."""
    other = Connection(
        "github",
        authorize_url="https://evil.example.com/authorize",
        token_url="https://evil.example.com/token",
        client_id="layover",
    )
    world.agents["third"] = Agent("third", connections=[other])
    assert api.get("/me/connections").status == 500


def test_scope_that_the_user_leaves_out_is_shown_and_may_be_asked_for_again(api: Api) -> None:
    connect(api)
    state = api.post("/me/connections/github").json["authorize_url"]
    api.world.server.odd = [{"access_token": "x", "scope": "repo"}]  # type: ignore[attr-defined]
    back = api.world.server.consent(state)  # type: ignore[attr-defined]
    answer = api.post("/me/consents", back)
    assert (answer.json["status"], answer.json["granted"]) == ("more", ["repo"])
    assert api.get("/me/connections").json["items"] == [answer.json]
    assert connect(api).json["status"] == "connected"


def test_user_who_asks_for_more_and_more_consents_is_told_to_wait(api: Api) -> None:
    for _ in range(20):
        assert api.post("/me/connections/github").status == 200
    refused = api.post("/me/connections/github")
    refused.problem(429, "limit-reached")
    assert 0 < int(refused.headers["retry-after"]) <= 3600
    assert api.post("/me/connections/github", sub=BOB).status == 200


PROOF = "a secret of the browser"
HASH = b64encode(sha256(PROOF.encode()).digest()).decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"connection": "slack"},
        {"iss": "https://evil.example"},
        {"proof": "another"},
        {"proof": None},
    ],
)
def test_consent_of_another_page_issuer_or_browser_is_refused_and_stays_open(
    api: Api, wrong: dict[str, Any]
) -> None:
    page = api.post("/me/connections/github", {"proof_hash": HASH})
    right = {"connection": "github", "iss": "https://accounts.example.com", "proof": PROOF}
    back = api.world.server.consent(page.json["authorize_url"])  # type: ignore[attr-defined]
    api.post("/me/consents", {**back, **right, **wrong}).problem(409, "consent-refused")
    assert api.world.server.forms == []  # type: ignore[attr-defined]
    assert api.post("/me/consents", {**back, **right}).status == 200


@pytest.mark.parametrize("body", [{"proof_hash": "short"}, {"proof_hash": 5}, {"proof": PROOF}, []])
def test_request_for_a_consent_of_a_wrong_shape_is_refused(api: Api, body: Any) -> None:
    assert api.post("/me/connections/github", body).status == 422
