"""Titles of threads."""

import time
from datetime import UTC, datetime

import pytest

from layover.plugins.memory.learns import titles
from layover.values.message import FilePart, Message, Role, TextPart


def message(text: str, role: Role = Role.USER) -> Message:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    parts = (TextPart(text=text),) if text else (FilePart(url="https://x.test/a"),)
    return Message(id=f"m {text}", thread_id="t", role=role, content=parts, created_at=at)


@pytest.mark.parametrize(
    "text", ["", "hi", "a b c d", "a-message-of-one-long-word", "one two three"]
)
def test_a_message_that_says_too_little_names_no_thread(text: str) -> None:
    assert titles.source([message(text)]) is None


def test_an_answer_of_the_model_names_no_thread() -> None:
    assert titles.source([message("what an interesting question", Role.ASSISTANT)]) is None


def test_the_first_message_that_says_enough_names_the_thread() -> None:
    found = titles.source(
        [message("hi"), message("my order is late again"), message("x y z a b c")]
    )
    assert found is not None
    assert found.text == "my order is late again"


@pytest.mark.parametrize(
    "text",
    [
        "我的订单已经迟到三天了请问怎么办",
        "注文した商品がまだ届いていません",
        "คำสั่งซื้อของฉันมาช้าสามวันแล้ว",
    ],
)
def test_a_script_without_blanks_needs_the_characters_alone(text: str) -> None:
    assert titles.source([message(text)]) is not None
    assert titles.source([message(text[:15])]) is None


def test_four_words_of_sixteen_characters_are_enough() -> None:
    assert titles.source([message("some four words .")]) is not None


@pytest.mark.parametrize(
    "text",
    ["", "   \n", "<think>just thoughts</think>", "```\n```", '""', "**", "<think>never closed"],
)
def test_nothing_that_is_left_is_no_title(text: str) -> None:
    assert titles.parse_title(text) is None


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Late order", "Late order"),
        ("<think>hm\nhm</think>Late order", "Late order"),
        ("<thinking>hm</thinking>\n\nLate order", "Late order"),
        ("# Late order", "Late order"),
        ("- Late order", "Late order"),
        ('"Late order"', "Late order"),
        ("“Late order”", "Late order"),
        ("'Late order'", "Late order"),
        ("**Late order**", "Late order"),
        ('**"Late order"**', "Late order"),
        ("Title: Late order", "Late order"),
        ("**Title:** Late order", "Late order"),
        ('Title: "Late order"', "Late order"),
        ("```\nLate order\n```", "Late order"),
        ("```text\nLate order\n```", "Late order"),
        ("Late `order`", "Late order"),
        ("Late order\nand an explanation", "Late order"),
        ("  Late order  ", "Late order"),
        ("Fix user_id and order_id", "Fix user_id and order_id"),
        ("2 * 3 * 4 explained", "2 * 3 * 4 explained"),
        ("Ann's order isn't here", "Ann's order isn't here"),
        ("Late\0 order\ud800", "Late� order�"),
        ("#1 problem of ours", "#1 problem of ours"),
        ("The user asks for\nhis money</think>\nLate order", "Late order"),
        ("<think>hm</think> so</think>Late order", "Late order"),
        ("[Late order](https://a.test/x_(y))", "Late order"),
        ("![Late](a.png) order [1]", "Late order [1]"),
        ("~~Late~~ order", "Late order"),
        ("**_Late order_**", "Late order"),
        ('Title: "Late order".', "Late order"),
        ("“Late order”。", "Late order"),
        ("Here is the title:\n\nLate order", "Late order"),
        ("**Title:**\nLate order", "Late order"),
        ("标题\uff1a\nLate order", "Late order"),
        ("Here's a title: Late order", "Late order"),
        ("[](https://a.test)\nLate order", "Late order"),
        ("Late order of Acme Inc.", "Late order of Acme Inc."),
        ("Order 5: late", "Order 5: late"),
    ],
)
def test_a_title_is_one_plain_line(text: str, title: str) -> None:
    assert titles.parse_title(text) == title


def test_a_title_has_at_most_eighty_characters() -> None:
    title = titles.parse_title("word " * 40)
    assert title is not None
    assert len(title) <= 80
    assert title == title.strip()


@pytest.mark.parametrize("mark", ["*", "_", "_a ", "**a", "~~a", "[a]("])
def test_an_answer_of_marks_alone_takes_no_time(mark: str) -> None:
    began = time.process_time()
    titles.parse_title(mark * 200_000)
    assert time.process_time() - began < 30


def test_a_title_stands_behind_thoughts_of_any_length() -> None:
    assert titles.parse_title(f"<think>{'so ' * 2_000}</think>\n\nLate order") == "Late order"


def test_the_request_carries_the_message_alone_and_names_its_task() -> None:
    prompt = titles.title_prompt("m", message("x" * 5000))
    assert (prompt.task, prompt.model, prompt.stream) == ("title", "m", False)
    assert [len(m.text) for m in prompt.messages] == [2000]
    assert prompt.system
