"""Texts from which memory learns nothing, whoever reads them."""

from time import process_time

import pytest

from layover.plugins.memory.text.courtesies import is_bare_answer, is_courtesy, is_offer_alone


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
        "Dank je wel!",
        "Tack så mycket",
        "Dziękuję bardzo!",
        "Teşekkür ederim, iyi günler",
        "Дякую!",
        "감사합니다!",
        "Terima kasih banyak",
        "Cảm ơn bạn",
    ],
)
def test_greetings_and_thanks_are_courtesies(text: str) -> None:
    assert is_courtesy(text)


@pytest.mark.parametrize(
    "text",
    [
        "Yes, do that",
        "no, the left one",
        "ok, on Friday",
        "not ok",
        "no A-1003",
        "Ja, aber morgen",
        "好的, 周五",
        "it works",
        "5",
    ],
)
def test_what_says_more_than_yes_or_no_is_no_bare_answer(text: str) -> None:
    assert not is_bare_answer(text)


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "Yes!",
        "No, thanks.",
        "Great, thank you so much!",
        "Alles klar, danke",
        "d'accord, merci",
        "Vale, gracias",
        "да, спасибо",
        "好的\uff0c谢谢",
        "はい、ありがとうございます",
        "네, 감사합니다",
        "👍",
        "...",
        "Hello!",
    ],
)
def test_a_yes_or_no_alone_is_a_bare_answer(text: str) -> None:
    assert is_bare_answer(text)


@pytest.mark.parametrize(
    "text",
    [
        "You are welcome. Shall I cancel the order?",
        "Hello! I see that A-1003 is late.",
        "Is there anything else I can refund?",
        "Gern. Soll ich das Ticket schließen?",
        "The same to you, on Friday.",
    ],
)
def test_an_assistant_that_puts_something_to_the_user_offers_more_than_itself(text: str) -> None:
    assert not is_offer_alone(text)


@pytest.mark.parametrize(
    "text",
    [
        "You are welcome. Is there anything else?",
        "You're very welcome! Let me know if you need anything else.",
        "Hello! How can I help you today?",
        "Gern geschehen. Kann ich sonst noch etwas tun?",
        "De rien !",
        "¡Hola! ¿En qué puedo ayudarte?",
        "Пожалуйста! Чем могу помочь?",
        "どういたしまして。",
    ],
)
def test_an_assistant_that_only_greets_has_put_nothing_to_the_user(text: str) -> None:
    assert is_offer_alone(text)


def test_a_long_text_is_looked_at_in_time() -> None:
    start = process_time()
    assert not is_courtesy("hi " * 100_000)
    assert not is_courtesy("hi" + " ," * 90 + "x")
    assert not is_courtesy("hello there hi hey " * 9 + "x")
    for look in (is_bare_answer, is_offer_alone):
        assert not look("ok no yes hi " * 14 + "x")
        assert not look("no" + " ," * 90 + "x")
    assert process_time() - start < 5
