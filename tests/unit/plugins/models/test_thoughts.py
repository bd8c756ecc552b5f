"""Text that a model writes between `<think>` and `</think>`."""

from typing import Any

import pytest

from layover.ids import SequentialIds
from layover.plugins.models.replies import Assembly
from layover.plugins.models.thoughts import Thoughts
from layover.values.prompt import Delta


def split(text: str, size: int) -> tuple[str, str]:
    """Return the thoughts and the text, read in pieces of this size."""
    thoughts = Thoughts()
    pieces: list[tuple[str, str]] = []
    for piece in [*(text[at : at + size] for at in range(0, len(text), size)), None]:
        taken = thoughts.end() if piece is None else thoughts.add(piece)
        pieces = [taken] if thoughts.takes_back else [*pieces, taken]
    return "".join(thought for thought, _ in pieces), "".join(said for _, said in pieces)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>a < b</thin k></think>\n\nFine.", "a < b</thin k>", "Fine."),
        ("\n <think>\nhm</think>Fine.", "hm", "Fine."),
        ("<think></think>Fine.", "", "Fine."),
        ("<think>cut off</thi", "cut off</thi", ""),
        ("<think>only</think>\n", "only", ""),
        ("<thinking> is fun", "", "<thinking> is fun"),
        ("Use <think>x</think>.", "", "Use <think>x</think>."),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<thi", "", "<thi"),
        (" ", "", " "),
        ("", "", ""),
    ],
)
def test_only_what_a_text_begins_with_is_a_thought(
    text: str, thought: str, said: str, size: int
) -> None:
    assert split(text, size) == (thought, said)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("Hm, a < b.\n</think>\n\nFine.", "Hm, a < b.", "Fine."),
        ("Hm.</think>\n\nFine.", "Hm.", "Fine."),
        ("Hm.\n</think>Fine.", "Hm.", "Fine."),
        ("Hm.\n  </think> \r\nFine.", "Hm.", "Fine."),
        ("\n\nHm.\n\nSo.\n</think>\nFine.\n</think>\nNo.", "Hm.\n\nSo.", "Fine.\n</think>\nNo."),
        ("</think>Fine.", "", "Fine."),
        (" \n</think>\n\nFine.", "", "Fine."),
        ("only\n</think>\n", "only", ""),
        ("</think>", "", ""),
        ("A `</think>`\nends it.", "", "A `</think>`\nends it."),
        ("Write </think> behind it.", "", "Write </think> behind it."),
        ('It is "</think>"\nThat is all.', "", 'It is "</think>"\nThat is all.'),
        ("```\nhm\n</think>\nx\n```", "", "```\nhm\n</think>\nx\n```"),
        ("Use <think>\nx\n</think>\nthen.", "", "Use <think>\nx\n</think>\nthen."),
        ("An end </think>", "", "An end </think>"),
        ("a </thin", "", "a </thin"),
    ],
)
def test_thought_whose_opening_tag_is_in_the_prompt_ends_at_its_closing_tag(
    text: str, thought: str, said: str, size: int
) -> None:
    assert split(text, size) == (thought, said)


def chunk(content: str, finish: str | None = None) -> object:
    return {"choices": [{"delta": {"content": content}, "finish_reason": finish}]}


def test_a_stream_tells_thoughts_as_reasoning_and_nothing_of_their_tags() -> None:
    assembly = Assembly(SequentialIds(), "m")
    pieces = ["<th", "ink>", "two and ", "two</", "think>", "\n\n", "Fo", "ur"]
    deltas = [d for p in pieces for d in assembly.add(chunk(p))] + assembly.add(chunk("", "stop"))
    assert deltas == [
        Delta(kind="reasoning", text="two and "),
        Delta(kind="reasoning", text="two"),
        Delta(kind="text", text="Fo"),
        Delta(kind="text", text="ur"),
    ]
    reply = assembly.reply()
    assert (reply.reasoning, reply.text) == ("two and two", "Four")


def test_text_that_was_held_back_is_told_at_the_end() -> None:
    assembly = Assembly(SequentialIds(), "m")
    assert assembly.add(chunk("<")) == []
    assert assembly.add(chunk("", "stop")) == [Delta(kind="text", text="<")]
    assert assembly.reply().text == "<"


def test_a_whole_answer_keeps_thoughts_and_text_apart() -> None:
    assembly = Assembly(SequentialIds(), "m")
    message = {"content": "<think>a</think>b", "reasoning_content": "more "}
    assembly.add({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (assembly.reply().reasoning, assembly.reply().text) == ("more a", "b")


@pytest.mark.parametrize(
    "pieces",
    [
        [("<think>The user", "The user"), (" greets</think>", " greets"), ("Hello!", None)],
        [("", "\nThe user greets"), ("<think>\nThe user", None), (" greets</think>Hello!", None)],
        [("<thi", "The user"), ("nk>The user greets</think>Hello!", " greets")],
        [("<think>The user greets</think>Hello!", "The user greets")],
    ],
)
def test_thoughts_in_tags_that_a_field_told_are_told_once(pieces: list[Any]) -> None:
    assembly = Assembly(SequentialIds(), "m")
    for text, field in pieces:
        piece = {"content": text, "reasoning_content": field}
        assembly.add({"choices": [{"delta": piece}]})
    reply = assembly.reply()
    assert (reply.reasoning.strip(), reply.text) == ("The user greets", "Hello!")


def test_other_thoughts_in_tags_are_told_next_to_those_of_a_field() -> None:
    assembly = Assembly(SequentialIds(), "m")
    for text, field in [("<think>The", "The"), (" other", " user"), ("</think>Hi", None)]:
        piece = {"content": text, "reasoning_content": field}
        assembly.add({"choices": [{"delta": piece}]})
    assert (assembly.reply().reasoning, assembly.reply().text) == ("The user other", "Hi")


def test_text_that_turns_out_to_be_a_thought_is_told_again_as_one() -> None:
    assembly = Assembly(SequentialIds(), "m")
    before: object = {"choices": [{"delta": {"reasoning_content": "More. "}}]}
    pieces = ["Hm, ", "so.\n</th", "ink>\n", "\nFi", "ne."]
    deltas = [d for c in (before, *map(chunk, pieces)) for d in assembly.add(c)]
    deltas += assembly.add(chunk("", "stop"))
    at = deltas.index(Delta(kind="restart"))
    assert [d.text for d in deltas[:at]] == ["More. ", "Hm, ", "so.\n"]
    assert deltas[at + 1 :] == [
        Delta(kind="reasoning", text="More. "),
        Delta(kind="reasoning", text="Hm, so."),
        Delta(kind="text", text="Fi"),
        Delta(kind="text", text="ne."),
    ]
    reply = assembly.reply()
    assert (reply.reasoning, reply.text) == ("More. Hm, so.", "Fine.")


def test_a_tag_after_a_call_is_text() -> None:
    assembly = Assembly(SequentialIds(), "m")
    call = {"function": {"name": "look", "arguments": '{"a": 1}'}}
    assembly.add(chunk("Let me look."))
    assembly.add({"choices": [{"delta": {"tool_calls": [call]}}]})
    assert all(d.kind == "text" for d in assembly.add(chunk("\n</think>\nDone.", "stop")))
    assert assembly.reply().text == "Let me look.\n</think>\nDone."
