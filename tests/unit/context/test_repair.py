"""Messages that may not stand on the model's wire are left out."""

from datetime import UTC, datetime, timedelta

from layover.context.repair import without_orphans
from layover.values.message import (
    DataPart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


class Talk:
    """Messages, each a second after the one before."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def add(self, role: Role, *parts: Part) -> "Talk":
        index = len(self.messages)
        self.messages.append(
            Message(
                id=f"m{index}",
                thread_id="t",
                role=role,
                content=parts,
                created_at=START + timedelta(seconds=index),
            )
        )
        return self

    def user(self, text: str = "hi") -> "Talk":
        return self.add(Role.USER, TextPart(text=text))

    def says(self, text: str = "", *calls: str) -> "Talk":
        words: list[Part] = [TextPart(text=text)] if text else []
        asked = [ToolCallPart(tool_call_id=c, tool_name="look", args={}) for c in calls]
        return self.add(Role.ASSISTANT, *words, *asked)

    def result(self, call: str) -> "Talk":
        return self.add(Role.TOOL, ToolResultPart(tool_call_id=call, tool_name="look", result=1))

    def custom(self) -> "Talk":
        return self.add(Role.CUSTOM, DataPart(name="card", data=1))

    def sent(self) -> list[tuple[str, list[str]]]:
        """Ids of what is left, with the calls that it still asks for."""
        left = without_orphans(self.messages)
        return [(m.id, [c.tool_call_id for c in m.tool_calls]) for m in left]


def test_a_call_without_a_result_is_stripped_and_its_text_stays() -> None:
    assert Talk().user().says("one moment", "a").user().sent() == [
        ("m0", []),
        ("m1", []),
        ("m2", []),
    ]


def test_a_message_that_is_left_empty_is_dropped() -> None:
    assert Talk().user().says("", "a").user().sent() == [("m0", []), ("m2", [])]


def test_settled_calls_of_the_same_message_stay() -> None:
    assert Talk().user().says("", "a", "b", "c").result("c").result("a").user().sent() == [
        ("m0", []),
        ("m1", ["a", "c"]),
        ("m2", []),
        ("m3", []),
        ("m4", []),
    ]


def test_a_result_without_its_call_is_dropped() -> None:
    assert Talk().result("a").user().result("b").says("x").sent() == [("m1", []), ("m3", [])]


def test_a_second_result_of_one_call_is_dropped() -> None:
    assert Talk().user().says("", "a").result("a").result("a").sent() == [
        ("m0", []),
        ("m1", ["a"]),
        ("m2", []),
    ]


def test_a_result_that_comes_after_another_speaker_is_no_answer() -> None:
    assert Talk().user().says("hm", "a").user().result("a").sent() == [
        ("m0", []),
        ("m1", []),
        ("m2", []),
    ]


def test_an_id_that_comes_again_later_belongs_to_the_later_call() -> None:
    talk = Talk().user().says("first", "a").user().says("", "a").result("a")
    assert talk.sent() == [("m0", []), ("m1", []), ("m2", []), ("m3", ["a"]), ("m4", [])]


def test_custom_messages_are_never_sent_and_split_no_pair() -> None:
    talk = Talk().user().says("", "a", "b").result("a").custom().result("b").custom()
    assert [i for i, _ in talk.sent()] == ["m0", "m1", "m2", "m4"]


def test_reasoning_beside_a_stripped_call_stays_with_its_message() -> None:
    talk = Talk().user()
    asked = ToolCallPart(tool_call_id="a", tool_name="look", args={})
    talk.add(Role.ASSISTANT, ReasoningPart(text="hm"), TextPart(text="so"), asked)
    (_, message) = without_orphans(talk.messages)
    assert [p.type for p in message.content] == ["reasoning", "text"]


def test_what_needs_no_repair_is_left_as_it_is() -> None:
    talk = Talk().user().says("", "a").result("a").says("done")
    assert without_orphans(talk.messages) == talk.messages


def test_the_stored_messages_are_not_changed() -> None:
    talk = Talk().user().says("one moment", "a")
    before = [m.model_copy() for m in talk.messages]
    without_orphans(talk.messages)
    assert talk.messages == before
