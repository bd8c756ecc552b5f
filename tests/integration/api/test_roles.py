"""Operators and auditors by group: Cognito cannot give scopes to single persons."""

from dataclasses import replace
from typing import Any

import pytest

from integration.api.kit import USE, Api
from integration.api.test_auth import named
from layover.values.deployment.access import AUDITORS, OPERATORS
from support.worlds.services import ANN, BOB

CLAIM = "cognito:groups"
NO_SCOPE = "openid"


@pytest.fixture
def roles(api: Api) -> Api:
    """The API of a stack with users of its own."""
    settings = api.world.runtime.settings
    access = settings.access.model_copy(
        update={"operate_group": OPERATORS, "audit_group": AUDITORS}
    )
    settings = settings.model_copy(update={"access": access})
    api.world.runtime = replace(api.world.runtime, settings=settings)
    return api


def member(*groups: str, sub: str = ANN, scope: str = USE) -> dict[str, Any]:
    """A person's token, with these groups as the authorizer passes them on."""
    claims = {CLAIM: f"[{' '.join(groups)}]"} if groups else {}
    return {"sub": sub, "scope": scope, "claims": claims}


NEARLY: dict[str, dict[str, Any]] = {
    "no group": member(),
    "a group of approvers": member("finance"),
    "a longer name": member(f"{OPERATORS}-interns", f"{AUDITORS}2"),
    "capitals": member(OPERATORS.upper(), AUDITORS.title()),
    "the scope as a group": member("layover/operate", "layover/audit"),
    "the groups in another claim": {
        "sub": ANN,
        "claims": {"groups": f"[{OPERATORS} {AUDITORS}]", "custom:groups": OPERATORS},
    },
    "the groups as scopes": member(scope=f"{USE} {OPERATORS} {AUDITORS}"),
}


@pytest.mark.parametrize("person", NEARLY.values(), ids=list(NEARLY))
def test_a_person_who_is_in_neither_group_operates_nothing_and_reads_no_audit(
    roles: Api, person: dict[str, Any]
) -> None:
    run, _ = roles.do(roles.world.suspended())
    answer = roles.post(f"/runs/{run.id}/redrive", **person)
    answer.problem(403, "forbidden")
    assert 'scope="layover/operate"' in answer.headers["www-authenticate"]
    roles.get("/audit/decisions", **person).problem(403, "forbidden")


def test_members_get_what_their_group_is_for_and_not_the_other(roles: Api) -> None:
    run, _ = roles.do(roles.world.suspended())
    assert roles.get("/audit/decisions", **member(AUDITORS)).status == 200
    roles.post(f"/runs/{run.id}/redrive", **member(AUDITORS)).problem(403, "forbidden")
    assert roles.post(f"/runs/{run.id}/redrive", **member(OPERATORS)).status == 202
    roles.get("/audit/decisions", **member(OPERATORS)).problem(403, "forbidden")


def test_a_member_of_both_groups_and_others_has_both(roles: Api) -> None:
    both = member("finance", AUDITORS, OPERATORS)
    run, _ = roles.do(roles.world.suspended())
    assert roles.post(f"/runs/{run.id}/redrive", **both).status == 202
    assert roles.get("/audit/decisions", **both).status == 200


def test_a_group_gives_neither_entry_nor_another_users_data(roles: Api) -> None:
    everything = (OPERATORS, AUDITORS)
    roles.get("/threads", **member(*everything, scope=NO_SCOPE)).problem(403, "forbidden")
    bob = member(*everything, sub=BOB)
    roles.get("/threads", **bob, headers=named(ANN)).problem(403, "forbidden")
    run, _ = roles.do(roles.world.suspended())
    roles.get(f"/runs/{run.id}", **bob).problem(404, "not-found")
    roles.post(f"/runs/{run.id}/redrive", **bob).problem(404, "not-found")


def test_groups_of_these_names_give_nothing_unless_the_deployment_says_so(api: Api) -> None:
    """At an issuer of one's own, whoever makes groups there might not be who deploys."""
    run, _ = api.do(api.world.suspended())
    api.post(f"/runs/{run.id}/redrive", **member(OPERATORS)).problem(403, "forbidden")
    api.get("/audit/decisions", **member(AUDITORS)).problem(403, "forbidden")


def test_a_group_without_a_name_is_nobodys(api: Api) -> None:
    access = api.world.runtime.settings.access.model_copy(update={"operate_group": ""})
    settings = api.world.runtime.settings.model_copy(update={"access": access})
    api.world.runtime = replace(api.world.runtime, settings=settings)
    run, _ = api.do(api.world.suspended())
    nameless = {"sub": ANN, "scope": USE, "claims": {CLAIM: '["", "finance"]'}}
    api.post(f"/runs/{run.id}/redrive", **nameless).problem(403, "forbidden")


def test_a_run_knows_its_caller_as_an_operator(roles: Api) -> None:
    thread = roles.post("/threads", {"agent": "support"}, **member(OPERATORS)).json["id"]
    started = roles.post(f"/threads/{thread}/runs", {"input": "hi"}, **member(OPERATORS))
    meta = roles.do(roles.world.runtime.journal.runs.get(ANN, started.json["id"]))
    assert meta is not None
    assert "layover/operate" in meta.scopes
    assert "layover/audit" not in meta.scopes
