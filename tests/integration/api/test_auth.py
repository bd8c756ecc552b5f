"""Whose data a request is about: scopes of tokens, and backends that name their end users."""

from typing import Any

import pytest

from integration.api.kit import USE, Api
from support.worlds.services import ANN, BOB

ACT_AS = f"{USE} layover/act-as"
SHOP = "3k9machineclient"


def named(user: str) -> dict[str, str]:
    """The header with which a backend names the end user."""
    return {"X-Layover-Resource": user}


@pytest.mark.parametrize("scope", ["", "openid email", "layover/used", "layover", "layover/act-as"])
def test_token_without_the_scope_is_forbidden(api: Api, scope: str) -> None:
    answer = api.get("/threads", scope=scope)
    answer.problem(403, "forbidden")
    challenge = 'Bearer error="insufficient_scope", scope="layover/use"'
    assert answer.headers["www-authenticate"] == challenge


@pytest.mark.parametrize("user", [ANN, BOB, ""])
def test_user_may_not_name_anybody(api: Api, user: str) -> None:
    answer = api.get("/threads", headers=named(user))
    answer.problem(403, "forbidden")
    assert "layover/act-as" in answer.headers["www-authenticate"]


@pytest.mark.parametrize("user", ["", " ", "ann,bob", "ann bob", "a\x00b", "é", "x" * 257])
def test_backend_has_to_name_one_user(api: Api, user: str) -> None:
    errors = api.get("/threads", headers=named(user), scope=ACT_AS).problem(422, "invalid-request")
    assert errors["errors"][0]["loc"] == ["header", "X-Layover-Resource"]


def test_act_as_alone_opens_nothing(api: Api) -> None:
    api.get("/threads", headers=named(ANN), scope="layover/act-as").problem(403, "forbidden")


def test_backend_sees_only_what_the_named_user_owns(api: Api) -> None:
    thread = new_thread(api, sub=BOB)
    as_ann: dict[str, Any] = {"sub": SHOP, "scope": ACT_AS, "headers": named(ANN)}
    api.get(f"/threads/{thread}", **as_ann).problem(404, "not-found")
    as_nobody: dict[str, Any] = {"sub": SHOP, "scope": ACT_AS}
    api.get(f"/threads/{thread}", **as_nobody).problem(404, "not-found")


def test_what_a_backend_makes_belongs_to_the_named_user(api: Api) -> None:
    thread = new_thread(api, sub=SHOP, scope=ACT_AS, headers=named(ANN))
    assert api.get(f"/threads/{thread}", sub=ANN).status == 200
    api.get(f"/threads/{thread}", sub=SHOP).problem(404, "not-found")


def test_backend_without_a_user_is_a_user_itself(api: Api) -> None:
    thread = new_thread(api, sub=SHOP, scope=ACT_AS)
    assert api.get(f"/threads/{thread}", sub=SHOP).status == 200


@pytest.mark.parametrize("scope", ["[openid layover/use]", "layover/use", "a layover/use b"])
def test_scopes_are_read_as_gateways_pass_them_on(api: Api, scope: str) -> None:
    assert api.get("/threads", scope=scope).status == 200


def test_open_paths_tell_how_to_sign_in(api: Api) -> None:
    answer = api.get("/.well-known/layover", sub=None)
    assert answer.json == {
        "scope": "layover/use",
        "act_as_scope": "layover/act-as",
        "operate_scope": "layover/operate",
        "audit_scope": "layover/audit",
        "read_content_scope": "layover/read-content",
        "groups_claim": "cognito:groups",
        "operate_group": None,
        "audit_group": None,
        "read_content_group": None,
        "issuer": None,
        "client_id": None,
        "stream_url": None,
        "login_scope": None,
    }


@pytest.mark.parametrize("scope", [USE, f"{USE} layover/act-as", f"{USE} layover/operates"])
def test_a_run_is_driven_on_by_operators_alone(api: Api, scope: str) -> None:
    run, _ = api.do(api.world.suspended())
    answer = api.post(f"/runs/{run.id}/redrive", scope=scope)
    answer.problem(403, "forbidden")
    challenge = 'Bearer error="insufficient_scope", scope="layover/operate"'
    assert answer.headers["www-authenticate"] == challenge
    assert api.world.callbacks.started == [f"{run.id}-1"]


def test_an_operator_drives_a_users_run_on_once_a_minute(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    operator: dict[str, Any] = {"sub": SHOP, "scope": f"{ACT_AS} layover/operate"}
    operator["headers"] = named(ANN)
    assert api.post(f"/runs/{run.id}/redrive", **operator).status == 202
    again = api.post(f"/runs/{run.id}/redrive", **operator)
    again.problem(429, "limit-reached")
    assert again.headers["retry-after"] == "60"


def new_thread(api: Api, **options: Any) -> str:
    """The id of a thread made by a request with these options."""
    answer = api.post("/threads", {"agent": "support"}, **options)
    assert answer.status == 201, answer.body
    return str(answer.json["id"])
