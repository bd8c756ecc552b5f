"""What is stored of a run's usage: a row for a day, an agent and a model, however many steps there are."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from layover.metering.usage import usage_of_steps
from layover.values.message import Message, Role
from layover.values.runs.run import StepRecord
from layover.values.runs.usage import Usage

EVENING = datetime(2026, 3, 31, 23, 59, 59, tzinfo=UTC)


def step(index: int, tokens: int, cost: str | None = "0.5", at: datetime = EVENING) -> StepRecord:
    cost_usd = None if cost is None else Decimal(cost)
    message = Message(id=f"m{index}", thread_id="t", role=Role.ASSISTANT, content=(), created_at=at)
    return StepRecord(
        key=f"STEP#{index:04d}",
        index=index,
        message=message,
        model="small" if index < 9 else "large",
        usage=Usage(input_tokens=tokens, cost_usd=cost_usd),
        finish_reason="stop",
    )


def test_an_unknown_price_is_never_a_price_of_nothing() -> None:
    (row,) = usage_of_steps([("shop", step(1, 3)), ("shop", step(2, 4, None))])
    assert (row.usage.input_tokens, row.usage.cost_usd) == (7, None)


def test_a_run_over_midnight_is_paid_for_on_both_days() -> None:
    morning = EVENING + timedelta(seconds=2)
    rows = usage_of_steps([("shop", step(1, 3)), ("shop", step(2, 4, at=morning))])
    assert [(r.at, r.usage.input_tokens) for r in rows] == [(EVENING, 3), (morning, 4)]
    assert len({r.step for r in rows}) == 2


def test_agents_and_models_are_told_apart() -> None:
    steps = [("shop", step(1, 1)), ("bank", step(2, 2)), ("shop", step(9, 3)), ("shop", step(3, 4))]
    rows = usage_of_steps(steps)
    assert [(r.agent, r.model, r.usage.input_tokens) for r in rows] == [
        ("shop", "small", 5),
        ("bank", "small", 2),
        ("shop", "large", 3),
    ]


def test_a_run_that_went_on_has_the_same_rows_with_what_came_since() -> None:
    before = [("shop", step(2, 2))]
    later = EVENING + timedelta(microseconds=1)
    (first,) = usage_of_steps(before)
    (second,) = usage_of_steps([("shop", step(1, 5, at=later)), *before])
    assert (first.step, first.at, first.usage.input_tokens) == (second.step, EVENING, 2)
    assert (second.at, second.usage.input_tokens) == (later, 7)
