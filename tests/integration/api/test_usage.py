"""The usage of a user, by day."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from integration.api.kit import Api
from layover.values.cursor import encode_cursor
from layover.values.memory.context import StepUsage
from layover.values.runs.usage import Usage
from support.worlds.services import ANN, BOB

DAY = timedelta(days=1)


def spend(api: Api, step: str, at_day: int = 0, owner: str = ANN, **fields: Any) -> None:
    """A row of usage `at_day` days from the world's present one."""
    kind = fields.pop("kind", "run")
    usage = Usage(input_tokens=10, output_tokens=1, cost_usd=Decimal("0.25"))
    row = StepUsage(
        step=step,
        agent=fields.pop("agent", "support"),
        model=fields.pop("model", "m"),
        usage=usage.model_copy(update=fields),
        at=api.world.clock.now() + DAY * at_day,
    )
    api.world.threads.spend(owner, "run", (row,), kind)


@pytest.mark.parametrize(
    "query",
    [
        *("from=yesterday", "to=2026-13-01", "from=1700006400", "cursor=x", "limit=101"),
        f"cursor={encode_cursor('usage', 'no day', 'a', 'b', 'run')}",
        f"cursor={encode_cursor('usage', '2026-01-01', None, None, None)}",
    ],
)
def test_what_is_no_day_is_refused(api: Api, query: str) -> None:
    api.get(f"/usage?{query}").problem(422, "invalid-request")


def test_who_spent_nothing_has_no_rows_and_sees_none_of_others(api: Api) -> None:
    spend(api, "s", owner=BOB)
    assert api.get("/usage").json == {"items": [], "next_cursor": None}
    assert api.get("/usage", sub=None).status == 401


def test_a_row_sums_what_an_agent_spent_on_a_model_in_a_day(api: Api) -> None:
    spend(api, "a", cached_input_tokens=4, cache_write_input_tokens=3, reasoning_tokens=2)
    spend(api, "b")
    day = api.world.clock.now().date().isoformat()
    assert api.get("/usage").json["items"] == [
        {
            "day": day,
            "agent": "support",
            "model": "m",
            "kind": "run",
            "input_tokens": 20,
            "output_tokens": 2,
            "cached_input_tokens": 4,
            "cache_write_input_tokens": 3,
            "reasoning_tokens": 2,
            "cost_usd": 0.5,
        }
    ]


def test_a_sum_with_a_price_that_nobody_knows_has_no_cost(api: Api) -> None:
    spend(api, "a")
    spend(api, "b", cost_usd=None)
    [row] = api.get("/usage").json["items"]
    assert (row["input_tokens"], row["cost_usd"]) == (20, None)


def test_days_are_bounded_and_pages_lead_to_all_rows(api: Api) -> None:
    spend(api, "a", -1)
    spend(api, "b", agent="researcher")
    spend(api, "c", kind="background")
    spend(api, "d")
    spend(api, "e", 1)
    today = api.world.clock.now().date().isoformat()
    found: list[tuple[str, str, str]] = []
    cursor = ""
    while True:
        page = api.get(f"/usage?limit=1{cursor}").json
        found += [(row["day"], row["agent"], row["kind"]) for row in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    names = [(agent, kind) for _, agent, kind in found]
    assert names == [
        ("support", "run"),
        ("researcher", "run"),
        ("support", "background"),
        ("support", "run"),
        ("support", "run"),
    ]
    days = [day for day, _, _ in found]
    assert days == sorted(days, reverse=True)
    of_today = api.get(f"/usage?from={today}&to={today}").json["items"]
    assert {row["day"] for row in of_today} == {today}
    assert len(of_today) == 3
    assert len(api.get(f"/usage?from={today}").json["items"]) == 4
    assert len(api.get(f"/usage?to={today}").json["items"]) == 4
