"""Texts from which memory learns nothing, whoever reads them."""

from time import process_time

import pytest

from layover.memory.text.courtesies import is_courtesy


@pytest.mark.parametrize(
    "text",
    [
        "Yes, please do that.",
        "ok",
        "Great!",
        "Thanks, that fixed it.",
        "Thanks for nothing, it still fails",
        "Thanks for the refund of A-1003",
        "Hello, I am Ada",
        "Hi 5",
        "Hello?",
        "Danke, aber die Lampe ist kaputt",
        "Gracias a Ana",
        "Merci de ne plus m'appeler",
        "thankful",
        "hithanks",
        "谢谢, 已经好了",
        "",
        "...",
    ],
)
def test_what_may_teach_something_is_no_courtesy(text: str) -> None:
    assert not is_courtesy(text)


@pytest.mark.parametrize(
    "text",
    [
        "Thanks!",
        "Thank you so much. Have a nice day!",
        "thank you for your help 🙏",
        "Hello there",
        "Hi, good morning!",
        "Vielen Dank und schönen Tag noch!",
        "Merci beaucoup, bonne journée.",
        "Muchas gracias!",
        "Grazie mille, ciao",
        "Большое спасибо!",
        "धन्यवाद!",
        "谢谢您。再见。",
        "ありがとうございました。",
    ],
)
def test_greetings_and_thanks_are_courtesies(text: str) -> None:
    assert is_courtesy(text)


def test_a_long_text_is_looked_at_in_time() -> None:
    start = process_time()
    assert not is_courtesy("hi " * 100_000)
    assert not is_courtesy("hi" + " ," * 90 + "x")
    assert not is_courtesy("hello there hi hey " * 9 + "x")
    assert process_time() - start < 5
