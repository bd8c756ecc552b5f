"""The audit: an auditor's alone, over all users."""

from typing import Any

import pytest

from integration.api.kit import USE, Api
from integration.api.test_auth import SHOP, named
from support.worlds.services import ANN, BOB

AUDIT = f"{USE} layover/audit"


@pytest.mark.parametrize("scope", [USE, f"{USE} layover/act-as layover/operate"])
def test_who_is_no_auditor_reads_no_decisions(api: Api, scope: str) -> None:
    answer = api.get("/audit/decisions", scope=scope)
    answer.problem(403, "forbidden")
    assert 'scope="layover/audit"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize(
    "query",
    ["from=yesterday", "to=2026-13-01", "from=1700006400", "from=20260131", "cursor=x", "limit=0"],
)
def test_what_is_no_day_is_refused(api: Api, query: str) -> None:
    api.get(f"/audit/decisions?{query}", sub=BOB, scope=AUDIT).problem(422, "invalid-request")


def test_an_auditor_reads_who_decided_and_for_whom(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    shop: dict[str, Any] = {"sub": SHOP, "scope": f"{USE} layover/act-as", "headers": named(ANN)}
    url = f"/runs/{run.id}/tool-calls/c1/deny"
    assert api.post(url, {"attempt": 1, "reason": "too much"}, **shop).status == 202
    [row] = api.get("/audit/decisions", sub=BOB, scope=AUDIT).json["items"]
    assert (row["owner"], row["decided_by"], row["on_behalf_of"]) == (ANN, SHOP, ANN)
    assert (row["decision"], row["reason"], row["via"]) == ("denied", "too much", "api")
    day = row["decided_at"][:10]
    found = api.get(f"/audit/decisions?from={day}&to={day}", sub=BOB, scope=AUDIT)
    assert found.json == {"items": [row], "next_cursor": None}
    before = api.get("/audit/decisions?to=2001-01-01", sub=BOB, scope=AUDIT)
    assert before.json["items"] == []


def test_pages_lead_to_all_decisions(api: Api) -> None:
    ids = []
    for _ in range(3):
        run, _ = api.do(api.world.suspended())
        api.post(f"/runs/{run.id}/tool-calls/c1/approve", {"attempt": 1})
        ids.append(run.id)
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.get(f"/audit/decisions?limit=1{cursor}", sub=BOB, scope=AUDIT).json
        found += [row["run_id"] for row in page["items"]]
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else None
    assert found == ids
