"""The API's answers while nothing may begin."""

from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from integration.api.kit import Api, TestHost
from layover.errors import DatabaseWaking, RetryableError
from layover.ports import DayUse, NoAllowance
from layover.runtime import Runtime
from layover.values.deployment.settings import Settings
from support.worlds.services import ServiceBench

T = TypeVar("T")


class UsedUp(NoAllowance):
    """An allowance in which every user has spent 10 tokens."""

    async def used(self, owner: str) -> DayUse:
        return DayUse(10)


class Stopped(NoAllowance):
    """The operator has stopped the system."""

    async def stopped(self) -> bool:
        return True


class LimitedHost(TestHost):
    """A host with an allowance of its own, that calls passing faults by one name, as Lambda's does."""

    allowance = NoAllowance()

    def runtime(self) -> Runtime:
        settings = Settings(daily_tokens=10)
        return replace(super().runtime(), allowance=self.allowance, settings=settings)

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        try:
            return super().run(work)
        except RetryableError as error:
            raise RetryableError(f"{type(error).__name__}: {error}") from error


@pytest.fixture
def limited() -> Iterator[Api]:
    host = LimitedHost(ServiceBench())
    yield Api(host._world, host)
    host.close()


def thread_of(api: Api) -> str:
    return str(api.post("/threads", {"agent": "support"}).json["id"])


def test_user_whose_day_is_used_up_is_told_when_the_next_begins(limited: Api) -> None:
    thread = thread_of(limited)
    limited.host.allowance = UsedUp()  # type: ignore[attr-defined]
    answer = limited.post(f"/threads/{thread}/runs", {"input": "hello"})
    answer.problem(429, "limit-reached")
    assert 0 < int(answer.headers["retry-after"]) <= 86_400


def test_stopped_system_says_so_and_still_shows_what_there_is(limited: Api) -> None:
    thread = thread_of(limited)
    limited.host.allowance = Stopped()  # type: ignore[attr-defined]
    answer = limited.post(f"/threads/{thread}/runs", {"input": "hello"})
    answer.problem(503, "stopped")
    assert answer.headers["retry-after"] == "60"
    assert limited.get(f"/threads/{thread}").status == 200


def test_database_that_wakes_up_is_named_whatever_the_environment_calls_it(limited: Api) -> None:
    thread = thread_of(limited)
    limited.world.threads.asleep = True
    with pytest.raises(RetryableError, match="DatabaseWaking"):
        limited.do(limited.host.runtime().threads.message("ann", thread, "m1"))
    answer = limited.get(f"/threads/{thread}/messages?branch=m1")
    answer.problem(503, "database-waking")
    assert answer.headers["retry-after"] == "5"
    assert DatabaseWaking.__name__ not in answer.body


def ask_by_mcp(api: Api) -> Any:
    """The answer to a call of an MCP client that begins a conversation."""
    params = {"name": "support", "arguments": {"message": "hello"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return api.post("/mcp", message)


def test_refused_calls_of_mcp_clients_leave_no_threads_behind(limited: Api) -> None:
    assert isinstance(limited.host, LimitedHost)
    limited.host.allowance = UsedUp()
    result = ask_by_mcp(limited).json["result"]
    assert result["isError"] is True
    assert "10 tokens are used up" in result["content"][0]["text"]
    limited.host.allowance = Stopped()
    ask_by_mcp(limited).problem(503, "stopped")
    assert limited.get("/threads").json["items"] == []
