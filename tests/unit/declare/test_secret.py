"""Secrets of tools: where they come from, how long they are used, and that nothing shows them."""

import asyncio
import logging
import pickle
from collections.abc import Callable
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from layover import Agent, ConfigurationError, DefinitionError, RetryableError, Secret, secret, tool
from layover.declare.secret import MAX_AGE_S
from layover.ports import secrets
from layover.testing import ScriptedModel, call, say, tool_results

PLACE = "/shop/api-key"
VALUE = "sk-of-the-shop"


class Stored:
    """AWS, as a test has it: the value, or the error that a reader gets."""

    def __init__(self) -> None:
        self.value: str | Exception = VALUE
        self.asked: list[str] = []
        self.answers = Event()
        self.answers.set()

    def read(self, place: str) -> str:
        """Return the value once the test lets it."""
        self.asked.append(place)
        assert self.answers.wait(30)
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """A process on AWS, where the variable says where the secret is."""
    aws = Stored()
    monkeypatch.setattr(secrets, "_read", aws.read)
    monkeypatch.setattr(secrets, "_names", lambda: ("OTHER", "SHOP_KEY"))
    monkeypatch.setenv("SHOP_KEY", PLACE)
    return aws


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves the clock of secrets by seconds."""
    now = [1_000.0]
    monkeypatch.setattr("layover.declare.secret.time.time", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


@pytest.mark.parametrize("name", ["", "SHOP-KEY", "7UP", "a b", "SHOP=1", None, 7])
def test_name_that_no_variable_has_is_refused(name: Any) -> None:
    with pytest.raises(DefinitionError, match="the name of a variable"):
        secret(name)


@pytest.mark.parametrize("value", [None, ""])
def test_secret_without_a_value_says_who_has_to_do_what(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SHOP_KEY", value)
    with pytest.raises(ConfigurationError, match=r"set the variable SHOP_KEY.*tool_secrets"):
        secret("SHOP_KEY").get()


def test_end_of_a_line_is_no_part_of_a_value(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blanks are: passwords may have them."""
    monkeypatch.setenv("MINE", " mine \r\n")
    stored.value = f"{VALUE}\n"
    assert (secret("MINE").get(), secret("SHOP_KEY").get()) == (" mine ", VALUE)
    monkeypatch.setenv("MINE", "\n")
    with pytest.raises(ConfigurationError, match="set the variable MINE"):
        secret("MINE").get()


def test_empty_parameter_says_where_it_is(stored: Stored) -> None:
    stored.value = ""
    with pytest.raises(ConfigurationError, match=f"empty at {PLACE}"):
        secret("SHOP_KEY").get()


def test_value_is_in_no_text_of_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", VALUE)
    key = secret("SHOP_KEY")
    assert key.get() == VALUE
    texts = [repr(key), str(key), repr({"k": key}), repr([key])]
    assert not any(VALUE in text for text in texts)


def test_value_that_was_read_is_in_no_text_of_a_secret(stored: Stored) -> None:
    key = secret("SHOP_KEY")
    assert key.get() == VALUE
    assert VALUE not in f"{key!r} {key!s}"
    assert VALUE.encode() not in pickle.dumps(key)
    assert pickle.loads(pickle.dumps(key)).name == "SHOP_KEY"


def test_secret_is_put_into_no_text_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", VALUE)
    with pytest.raises(TypeError, match=r"use its get\(\)"):
        f"Bearer {secret('SHOP_KEY')}"


def test_variable_that_is_not_listed_has_the_value_itself(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", VALUE)
    assert secret("MINE").get() == VALUE
    assert not stored.asked


def test_value_is_read_once_and_again_when_it_is_old(
    stored: Stored, wait: Callable[[float], None]
) -> None:
    key = secret("SHOP_KEY")
    assert [key.get(), key.get()] == [VALUE, VALUE]
    assert stored.asked == [PLACE]
    stored.value = "rotated"
    wait(MAX_AGE_S)
    assert key.get() == VALUE
    wait(1)
    assert key.get() == "rotated"
    assert stored.asked == [PLACE, PLACE]


def test_value_of_another_place_is_not_the_secrets(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = secret("SHOP_KEY")
    key.get()
    monkeypatch.setenv("SHOP_KEY", "/shop/other")
    stored.value = "other"
    assert key.get() == "other"
    stored.value = RetryableError("SSM does not answer")
    monkeypatch.setenv("SHOP_KEY", PLACE)
    with pytest.raises(RetryableError):
        key.get()


def test_refused_value_is_read_anew_if_the_tool_says_so(
    stored: Stored, wait: Callable[[float], None]
) -> None:
    key = secret("SHOP_KEY")
    key.get()
    wait(1)
    stored.value = "rotated"
    assert key.get() == VALUE
    assert key.get(fresh=True) == "rotated"
    assert key.get() == "rotated"


def test_last_value_is_used_while_aws_does_not_answer(
    stored: Stored, wait: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    key = secret("SHOP_KEY")
    key.get()
    wait(MAX_AGE_S + 1)
    stored.value = RetryableError("SSM does not answer")
    with caplog.at_level(logging.WARNING, "layover"):
        assert key.get() == VALUE
    assert "secret('SHOP_KEY') was not read" in caplog.text
    assert VALUE not in caplog.text
    with pytest.raises(RetryableError):
        key.get(fresh=True)
    stored.value = "back"
    assert key.get() == "back"


def test_value_that_was_deleted_is_used_no_more(
    stored: Stored, wait: Callable[[float], None]
) -> None:
    key = secret("SHOP_KEY")
    key.get()
    wait(MAX_AGE_S + 1)
    stored.value = ConfigurationError("there is none")
    with pytest.raises(ConfigurationError):
        key.get()


@pytest.mark.parametrize("fresh", [False, True])
def test_threads_that_read_at_one_time_share_one_request(
    stored: Stored, wait: Callable[[float], None], fresh: bool
) -> None:
    key = secret("SHOP_KEY")
    stored.answers.clear()
    begin = Barrier(21)
    values: list[str] = []

    def run() -> None:
        begin.wait(30)
        values.append(key.get(fresh=fresh))

    threads = [Thread(target=run) for _ in range(20)]
    for thread in threads:
        thread.start()
    begin.wait(30)
    stored.answers.set()
    for thread in threads:
        thread.join(30)
    assert values == [VALUE] * 20
    assert len(stored.asked) == 1


async def test_loop_goes_on_while_aws_is_asked(stored: Stored) -> None:
    key = secret("SHOP_KEY")
    stored.answers.clear()
    reading = asyncio.ensure_future(key.aget())
    while not stored.asked:
        await asyncio.sleep(0)
    assert not reading.done()
    stored.answers.set()
    assert await reading == VALUE


async def test_tool_uses_a_secret_and_no_message_of_the_run_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_KEY", VALUE)
    key = secret("SHOP_KEY")
    used: list[str] = []

    @tool
    async def stock(article: str) -> str:
        """Return the number of an article."""
        used.append(await key.aget())
        return "7"

    clerk = Agent("clerk", tools=[stock])
    with clerk.override(model=ScriptedModel([call("stock", article="a"), say("Seven.")])):
        result = await clerk.generate("How many?")
    assert used == [VALUE]
    assert tool_results(result) == ["7"]
    assert VALUE not in repr(result)


async def test_tool_whose_secret_is_missing_fails_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    key: Secret = secret("SHOP_KEY")

    @tool
    def stock() -> str:
        """Return the number of an article."""
        return key.get()

    clerk = Agent("clerk", tools=[stock])
    with clerk.override(model=ScriptedModel([call("stock"), say("I cannot say.")])):
        result = await clerk.generate("How many?")
    assert "SHOP_KEY" in str(tool_results(result))
