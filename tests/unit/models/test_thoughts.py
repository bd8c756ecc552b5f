"""Text that a model writes between `<think>` and `</think>`."""

import pytest

from layover.adapters.models.replies import Assembly
from layover.adapters.models.thoughts import Thoughts
from layover.ids import SequentialIds
from layover.values.prompt import Delta


def split(text: str, size: int) -> tuple[str, str]:
    """Return the thoughts and the text, read in pieces of this size."""
    thoughts = Thoughts()
    pieces = [thoughts.add(text[at : at + size]) for at in range(0, len(text), size)]
    pieces.append(thoughts.end())
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
