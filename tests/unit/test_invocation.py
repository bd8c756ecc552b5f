"""Invocations of an execution environment."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from layover.errors import RetryableError
from layover.invocation import UNCLEAN_EXIT, InvocationLoop


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


UNCLEAN = """
import asyncio, sys, time
from layover.declare.blocking import in_thread
from layover.invocation import InvocationLoop

ended = float(sys.argv[1])

async def give_up():
    try:
        await asyncio.wait_for(in_thread(time.sleep, ended), 0.01)
    except TimeoutError:
        print("answered", flush=True)

async def another():
    print("another", flush=True)

async def finish():
    print("finished", flush=True)

loop = InvocationLoop(finish)
loop.run(give_up())
# Lambda freezes the process here, for as long as no event comes.
time.sleep(0.5)
print("thawed", flush=True)
loop.run(another())
"""


@pytest.mark.parametrize(
    ("tool_takes_s", "status", "said"),
    [
        ("600", UNCLEAN_EXIT, ["answered", "finished", "thawed"]),
        ("0.1", 0, ["answered", "finished", "thawed", "another", "finished"]),
    ],
)
def test_process_with_an_abandoned_tool_answers_and_leaves_before_another_event(
    tool_takes_s: str, status: int, said: list[str]
) -> None:
    command = [sys.executable, "-c", UNCLEAN, tool_takes_s]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (process.returncode, process.stdout.split()) == (status, said), process.stderr
