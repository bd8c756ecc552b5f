"""The stand-in as an observer: its answers are of use to the product's own parsers."""

from datetime import UTC, datetime

from layover.desk.local.model.background import observations
from layover.desk.local.model.background import summary as summarise
from layover.plugins.memory.condenses import observer, summary
from layover.values.message import Message, Role, TextPart

AT = datetime(2026, 1, 1, 12, 3, tzinfo=UTC)


def said(*texts: str) -> list[Message]:
    return [
        Message(
            id=f"m{n}", thread_id="t", role=Role.USER, content=(TextPart(text=text),), created_at=AT
        )
        for n, text in enumerate(texts)
    ]


def wire(prompt: object) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt.messages[-1].text}]  # type: ignore[attr-defined]


def test_a_request_without_a_transcript_is_answered_by_nothing() -> None:
    assert observations([]) == ""
    assert summarise([{"role": "user", "content": "hello"}]) == ""


def test_its_observations_hold_what_the_user_said() -> None:
    messages = said("I want lamp A-1", "in red")
    found = observer.parse(
        observations(wire(observer.request("m", messages, ()))), messages, iter("ab").__next__
    )
    assert [o.text for o in found] == ["user: I want lamp A-1", "user: in red"]


def test_its_summary_has_a_goal() -> None:
    messages = said("I want lamp A-1", "in red")
    text = summary.parse(summarise(wire(summary.request("m", messages, None))))
    assert text is not None
    assert "I want lamp A-1" in text
