"""The examples: the first code that a newcomer edits."""

from datetime import date
from typing import Any

import pytest

from layover import ToolContext
from layover.declare.context import SuspendRequest
from layover.declare.registry import load_agents

user_agents: Any = pytest.importorskip("user_agents")
CTX = ToolContext.for_test(idempotency_key="key_123456")


def test_an_unknown_order_is_an_error_that_says_so() -> None:
    with pytest.raises(LookupError, match="no order A-9999"):
        user_agents.lookup_order("A-9999")


def test_nobody_gets_more_back_than_was_paid() -> None:
    with pytest.raises(ValueError, match=r"cost 42\.00"):
        user_agents.refund("A-1001", 50, CTX)


@pytest.mark.parametrize(("amount", "asks"), [(50, False), (50.01, True)])
async def test_a_refund_above_fifty_needs_a_person(amount: float, asks: bool) -> None:
    refund = user_agents.refund
    args = refund.validate({"order_id": "A-1002", "amount": amount})
    assert await refund.requires_approval(args, CTX) is asks


def test_a_refund_names_the_item() -> None:
    said = user_agents.refund("A-1001", 42, CTX)
    assert said == "Refunded 42.00 euros for the walnut desk lamp (receipt R-123456)."


async def test_a_table_is_offered_then_booked() -> None:
    book, day = user_agents.book_table, date(2026, 1, 5)
    offer: Any = await book(CTX, day=day, people=2)
    assert isinstance(offer, SuspendRequest)
    assert book.suspension_payload(offer.payload)["slots"] == ["18:00", "19:00", "20:00"]
    choice = book.parse_resume({"slot": "19:00"})
    ctx = ToolContext.for_test(resume=choice, idempotency_key="key_123456")
    assert (await book(ctx, day=day, people=2)).code == "T-123456"


async def test_a_time_that_was_not_offered_is_offered_again() -> None:
    ctx = ToolContext.for_test(resume=user_agents.SlotChoice(slot="03:00"))
    again = await user_agents.book_table(ctx, day=date(2026, 1, 5), people=2)
    assert isinstance(again, SuspendRequest)


def test_both_agents_are_served_with_strict_tools() -> None:
    agents = load_agents("user_agents")
    assert list(agents) == ["support", "concierge"]
    assert all(t.spec.strict for a in agents.values() for t in a.tools)
