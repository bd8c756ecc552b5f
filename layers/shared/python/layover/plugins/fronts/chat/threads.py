"""The thread of a chat. A client names it by the thread's id or by its own id, which is permanently bound to
one thread of the caller and the agent. The agent may have handed the conversation over since."""

from layover.declare.tools.delegate import with_handoffs
from layover.errors import Conflict, NotFound, UnknownAgent
from layover.keys import can_be_id
from layover.records.lifetimes import watch_thread
from layover.records.threads import head_of, thread_id_of
from layover.runtime import Runtime
from layover.values.text import sanitise
from layover.values.thread import ThreadHead


async def chat_thread(runtime: Runtime, owner: str, agent: str, chat_id: str) -> ThreadHead:
    """Return the chat's thread. A new id creates one. Raises UnknownAgent, Conflict (the chat is with an
    agent to which this one hands no conversation), NotFound (a thread id that is not the caller's, or a
    deleted chat)."""
    if agent not in runtime.agents():
        raise UnknownAgent(agent, runtime.agents())
    thread_id = thread_id_of(owner, chat_id)
    if not can_be_id(thread_id):
        raise NotFound("there is no such chat", thread_id=thread_id)
    head = await runtime.journal.heads.get(owner, thread_id)
    if head is None and thread_id != chat_id:
        head = await _make(runtime, owner, agent, thread_id, chat_id)
    return _with_agent(runtime, head or await head_of(runtime, owner, thread_id), agent)


async def find_thread(runtime: Runtime, owner: str, agent: str, chat_id: str) -> ThreadHead | None:
    """Return the chat's thread; None for an id without messages. Raises UnknownAgent, Conflict."""
    if agent not in runtime.agents():
        raise UnknownAgent(agent, runtime.agents())
    try:
        head = await head_of(runtime, owner, thread_id_of(owner, chat_id))
    except NotFound:
        return None
    return _with_agent(runtime, head, agent)


async def _make(
    runtime: Runtime, owner: str, agent: str, thread_id: str, chat_id: str
) -> ThreadHead:
    now = runtime.clock.now()
    head = ThreadHead(
        id=thread_id,
        owner=owner,
        agent=agent,
        metadata={"chat_id": sanitise(chat_id)},
        created_at=now,
        updated_at=now,
    )
    # If two requests create it at once, one succeeds: the put is conditional.
    await runtime.journal.heads.put(head)
    await watch_thread(runtime, owner, thread_id)
    return await head_of(runtime, owner, thread_id)


def _with_agent(runtime: Runtime, head: ThreadHead, agent: str) -> ThreadHead:
    if head.deleted:
        raise NotFound("there is no such chat", thread_id=head.id)
    if head.agent not in with_handoffs([runtime.agents()[agent]]):
        raise Conflict("this chat is with another agent", thread_id=head.id)
    return head
