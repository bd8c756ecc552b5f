"""An agent called as a tool by a client that keeps no conversation: the thread, and the run that
answers."""

from layover.errors import InvalidRequest, NotFound, TooLarge
from layover.metering.allowance import check_open
from layover.plugins.fronts.chat.threads import chat_thread
from layover.records.threads import is_thread_id
from layover.runs.accept import MAX_INPUT, StartRun, make_request_key, start_run
from layover.runtime import Runtime
from layover.threads.threads import create
from layover.values.deployment.access import Actor
from layover.values.runs.views import Run
from layover.values.text import json_size


async def begin_call(
    runtime: Runtime, actor: Actor, agent: str, message: str, thread_id: str | None, key: str | None
) -> Run:
    """Return the run that answers the message, in the thread or in a new one. With the same `key` and message
    it is the same run for 24 hours.

    Raises NotFound (the thread), and what `start_run` raises."""
    if not message.strip():
        raise InvalidRequest("the message is empty", [])
    if json_size(message) > MAX_INPUT:
        # Before a thread is made for it.
        raise TooLarge(f"the message is larger than {MAX_INPUT} bytes")
    thread = await _thread(runtime, actor.owner, agent, thread_id, key)
    request = StartRun(message)
    now = runtime.clock.now()
    request_key = make_request_key(key, thread, request, now) if key else None
    return await start_run(runtime, actor, thread, request, request_key)


async def _thread(
    runtime: Runtime, owner: str, agent: str, thread_id: str | None, key: str | None
) -> str:
    if thread_id is not None:
        if not is_thread_id(thread_id):
            # Models make ids up: another client's own id would lead to a conversation that nobody meant.
            raise NotFound("there is no such thread", thread_id=thread_id)
        return (await chat_thread(runtime, owner, agent, thread_id)).id
    if key is not None:
        return (await chat_thread(runtime, owner, agent, f"mcp/{agent}/{key}")).id
    # A client that repeats a refused call would leave a thread each time.
    await check_open(runtime, owner)
    return (await create(runtime, owner, agent, None, {})).id
