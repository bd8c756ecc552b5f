"""The part of the history that a prompt shows."""

from datetime import UTC, datetime, timedelta

import pytest

from layover import TokenBuffer
from layover.context.window import fit_buffer, from_user
from layover.values.message import Message, Role, TextPart

START = datetime(2026, 1, 1, tzinfo=UTC)
ROLES = {"u": Role.USER, "a": Role.ASSISTANT, "t": Role.TOOL, "c": Role.CUSTOM}
LETTERS = {role: letter for letter, role in ROLES.items()}


def history(shape: str, tokens: int = 10) -> list[Message]:
    """One message a letter: user, assistant, tool, custom."""
    return [
        Message(
            id=f"m{i}",
            thread_id="t",
            role=ROLES[letter],
            content=(TextPart(text=letter),),
            created_at=START + timedelta(seconds=i),
            token_count=tokens,
        )
        for i, letter in enumerate(shape)
    ]


def letters(messages: list[Message]) -> str:
    return "".join(LETTERS[m.role] for m in messages)


def shown(shape: str, tokens: int, messages: int = 500) -> str:
    """Return the messages of the history that fit into this many tokens, at ten a message."""
    buffer = TokenBuffer(max_tokens=tokens, max_messages=messages)
    return letters(fit_buffer(history(shape), buffer))


@pytest.mark.parametrize(
    ("shape", "left"),
    [("", ""), ("atat", ""), ("tauaua", "uaua"), ("uaua", "uaua"), ("cuc", "uc")],
)
def test_a_window_starts_at_a_user_message(shape: str, left: str) -> None:
    assert letters(from_user(history(shape))) == left


def test_no_history_fills_no_buffer() -> None:
    assert shown("", 100) == ""


def test_what_comes_before_the_first_user_message_is_never_buffered() -> None:
    assert shown("atua", 100) == "ua"


def test_equality_fits() -> None:
    assert shown("uaua", 40) == "uaua"
    assert shown("uaua", 39) == "ua"


def test_the_number_of_messages_is_a_limit_of_its_own() -> None:
    assert shown("uauaua", 1_000, messages=5) == "uaua"


def test_turns_are_kept_whole() -> None:
    assert shown("ua" + "uatata", 70) == "uatata"


def test_a_turn_that_does_not_fit_ends_the_buffer_though_older_ones_would_fit() -> None:
    assert shown("ua" + "u" + "at" * 10 + "ua", 50) == "ua"


def test_a_newest_turn_that_is_too_large_is_kept_all_the_same() -> None:
    assert shown("ua" + "u" + "at" * 10, 50) == "u" + "at" * 10
