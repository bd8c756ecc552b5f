"""One request at a time asks a model that is away; the others wait as long, and do not ask."""

import asyncio
from typing import Any

import pytest

from layover.errors import ModelError
from layover.plugins.models import circuit as module
from layover.plugins.models.circuit import REST_S, Circuit
from layover.plugins.models.faults import ProviderFault
from layover.plugins.models.retrying import ATTEMPTS, Requests, retrying


def fault(*, passes: bool = True, **more: Any) -> ProviderFault:
    error = ModelError("overloaded", status=503 if passes else 401, type="InternalServerError")
    return ProviderFault(error, is_transient=passes, **more)


class Provider:
    """A provider that is away while `is_away`. `asked`: requests that reached it."""

    def __init__(self) -> None:
        self.is_away = True
        self.asked = 0

    async def answer(self) -> str:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise fault()
        return "Hello."


async def no_time(_: float) -> None:
    await asyncio.sleep(0)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loop's time, as a list of one number."""
    time = [100.0]
    monkeypatch.setattr(module, "loop_time", lambda: time[0])
    return time


async def ask(provider: Provider, circuit: Circuit) -> Any:
    return await retrying(provider.answer, no_time, Requests(), circuit)


async def test_a_thousand_requests_at_once_ask_no_more_than_each_once_and_one_again(
    now: list[float],
) -> None:
    provider, circuit = Provider(), Circuit()
    answers = await asyncio.gather(
        *(ask(provider, circuit) for _ in range(1_000)), return_exceptions=True
    )
    assert all(isinstance(a, ProviderFault) and a.error.passes for a in answers)
    assert provider.asked == 1_000 + ATTEMPTS - 1
    again = [ask(provider, circuit) for _ in range(1_000)]
    await asyncio.gather(*again, return_exceptions=True)
    assert provider.asked == 1_000 + ATTEMPTS - 1, "nobody asks so soon after one has given up"


async def test_after_a_rest_one_asks_and_its_answer_lets_all_others_ask(now: list[float]) -> None:
    provider, circuit = Provider(), Circuit()
    with pytest.raises(ProviderFault):
        await ask(provider, circuit)
    now[0] += REST_S
    provider.is_away, before = False, provider.asked
    answers = await asyncio.gather(*(ask(provider, circuit) for _ in range(10)))
    assert answers == ["Hello."] * 10
    assert provider.asked == before + 10
    assert not circuit.is_open


async def test_a_request_that_is_not_to_ask_again_fails_at_once(now: list[float]) -> None:
    provider, circuit = Provider(), Circuit()
    for _ in range(2):
        with pytest.raises(ProviderFault) as failure:
            await retrying(provider.answer, no_time, Requests(asks_again=False), circuit)
        assert failure.value.error.passes
        now[0] += REST_S / 2
    assert provider.asked == 1, "the second came while the first one's rest went on"


async def test_an_answer_that_nobody_can_read_is_asked_for_again_all_the_same(
    now: list[float],
) -> None:
    asked: list[int] = []

    async def unreadable() -> str:
        asked.append(1)
        problem = fault()
        problem.most_attempts = 3
        raise problem

    with pytest.raises(ProviderFault) as failure:
        await retrying(unreadable, no_time, Requests(asks_again=False), Circuit())
    assert len(asked) == 3
    assert not failure.value.error.passes


async def test_a_request_that_is_cancelled_lets_another_ask_after_a_rest(now: list[float]) -> None:
    circuit, begun = Circuit(), asyncio.Event()

    async def hang() -> str:
        begun.set()
        await asyncio.sleep(3_600)
        return ""

    circuit.fail(first := Requests(), fault().error)
    circuit.enter(first)
    circuit.leave(first)
    now[0] += REST_S
    task = asyncio.create_task(retrying(hang, no_time, Requests(), circuit))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    now[0] += REST_S
    provider = Provider()
    provider.is_away = False
    assert await ask(provider, circuit) == "Hello."


async def test_a_request_may_ask_in_another_form_at_once(now: list[float]) -> None:
    """A server that takes no streams answers 501 to one, and the same request without it."""
    provider, circuit, requests = Provider(), Circuit(), Requests()
    with pytest.raises(ProviderFault):
        await retrying(provider.answer, no_time, requests, circuit)
    provider.is_away = False
    assert await retrying(provider.answer, no_time, requests, circuit) == "Hello."


@pytest.mark.parametrize("most", [None, 3])
async def test_a_fault_that_does_not_pass_and_a_reply_nobody_can_read_open_nothing(
    most: int | None,
) -> None:
    circuit, problem = Circuit(), fault(passes=most is not None)
    problem.most_attempts = most

    async def refuse() -> str:
        raise problem

    with pytest.raises(ProviderFault) as raised:
        await retrying(refuse, no_time, Requests(), circuit)
    assert not circuit.is_open
    assert not raised.value.error.passes


async def test_the_error_says_how_long_the_provider_asked_to_wait() -> None:
    problem = fault(retry_after=90.0)

    async def refuse() -> str:
        raise problem

    with pytest.raises(ProviderFault) as raised:
        await retrying(refuse, no_time, Requests(), Circuit())
    assert (raised.value.error.passes, raised.value.error.retry_after) == (True, 90.0)
