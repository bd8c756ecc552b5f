"""The dependencies of agents: made once in a process for each of its event loops, and closed at its end."""

import asyncio
import atexit
import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from layover.declare.agent import Agent
from layover.declare.agents.options import settings_for
from layover.errors import RetryableError, RunFailed
from layover.values.deployment.settings import Settings


@dataclass
class _Made:
    """A value that a factory made. `owner` is the task that entered its context manager: the same task has to
    leave it."""

    make: Callable[..., Any]
    value: "asyncio.Future[Any]"
    owner: "asyncio.Task[None]"

    @property
    def failed(self) -> bool:
        return self.value.done() and (self.value.cancelled() or self.value.exception() is not None)


_resources: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Made]] = WeakKeyDictionary()


async def with_deps(agent: Agent, settings: Settings) -> Agent:
    """Return the agent with the value that its `deps` made in this process. Raises RunFailed if that fails,
    and RetryableError if the factory raises one: the run is then tried again."""
    if agent.deps is None:
        return agent
    try:
        value = await get_resource(agent.deps, settings)
    except RetryableError:
        raise
    except Exception as error:
        message = f"the deps of agent {agent.name!r} could not be made: {error}"
        raise RunFailed(message, type=type(error).__name__, is_internal=True) from error
    complete = copy(agent)
    complete.made_deps = value
    return complete


async def get_resource(make: Callable[..., Any], settings: Settings) -> Any:
    """Return the value of a factory. A failure is not kept: the next caller tries again."""
    loop = asyncio.get_running_loop()
    if not _resources:
        atexit.register(_close_all)
    mine = _resources.setdefault(loop, {})
    resource = mine.get(id(make))
    if resource is None or resource.failed:
        value = loop.create_future()
        owner = loop.create_task(_own(make, settings, value))
        resource = mine[id(make)] = _Made(make, value, owner)
    return await asyncio.shield(resource.value)


async def _own(make: Callable[..., Any], settings: Settings, value: "asyncio.Future[Any]") -> None:
    """Make the value, and close it when the loop ends: `asyncio.run` cancels the tasks that are left, and
    waits."""
    async with AsyncExitStack() as stack:
        try:
            args, keywords = settings_for(make, settings)
            resource = make(*args, **keywords)
            if inspect.isawaitable(resource):
                resource = await resource
            if hasattr(type(resource), "__aenter__"):
                resource = await stack.enter_async_context(resource)
        except BaseException as error:
            value.set_exception(_as_exception(error))
            value.exception()  # all callers may have stopped waiting
            return
        value.set_result(resource)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return


def _as_exception(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _close_all() -> None:
    """Close the values at the end of a process whose loops are never closed, as in Lambda functions."""
    for loop, values in list(_resources.items()):
        if loop.is_closed() or loop.is_running():
            continue
        owners = [each.owner for each in values.values() if not each.owner.done()]
        for owner in owners:
            owner.cancel()
        if owners:
            loop.run_until_complete(asyncio.wait(owners))
