"""Invocations of an execution environment."""

import asyncio
from collections.abc import Iterator

import pytest

from layover.errors import RetryableError
from layover.invocation import InvocationLoop


class Environment:
    """An execution environment, with the loops that its invocations ran on and the count of finished ones."""

    def __init__(self) -> None:
        self.invocations = InvocationLoop(self._finish)
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.finished = 0

    def invoke(self, error: Exception | None = None) -> None:
        self.invocations.run(self._work(error))

    async def _work(self, error: Exception | None) -> None:
        self.loops.add(asyncio.get_running_loop())
        if error:
            raise error

    async def _finish(self) -> None:
        self.finished += 1


@pytest.fixture
def environment() -> Iterator[Environment]:
    environment = Environment()
    yield environment
    for loop in environment.loops:
        loop.close()


def test_passing_fault_has_the_name_that_the_state_machine_retries(
    environment: Environment,
) -> None:
    class Asleep(RetryableError):
        pass

    with pytest.raises(RetryableError, match="Asleep: the database wakes up") as caught:
        environment.invoke(Asleep("the database wakes up"))
    assert type(caught.value) is RetryableError


def test_lasting_fault_keeps_its_name(environment: Environment) -> None:
    with pytest.raises(KeyError):
        environment.invoke(KeyError("no"))


def test_invocation_that_fails_is_finished_as_well(environment: Environment) -> None:
    with pytest.raises(ValueError, match="no"):
        environment.invoke(ValueError("no"))
    assert environment.finished == 1


def test_invocations_run_on_one_loop(environment: Environment) -> None:
    environment.invoke()
    environment.invoke()
    assert (len(environment.loops), environment.finished) == (1, 2)
