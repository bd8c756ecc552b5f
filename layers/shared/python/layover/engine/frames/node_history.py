"""The history of an agent that has its own node instead of the thread's history (`Memory(history=...)`)."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from layover.clock import from_rfc3339
from layover.context.window import fit_buffer, from_user
from layover.declare.agent import Agent
from layover.declare.memory import NodeMemory
from layover.engine.progress import Over
from layover.engine.state import RunState
from layover.errors import NotFound
from layover.files.node_log import NodeLog
from layover.runtime import Runtime
from layover.values.message import FilePart, Message, Part, Role, TextPart
from layover.values.runs.run import RunMeta, Status

SUB_AGENT = "sub-agent"
"""The node of a sub-agent with memory."""


async def node_history(
    runtime: Runtime, agent: Agent, run: RunMeta, thread: Sequence[Message]
) -> list[Message] | None:
    """Return the node's messages on the run's branch, as many as the agent's window shows; None if the agent
    has the thread's history. `thread`: the branch before the input, as far as it was read."""
    node = _node(runtime, agent, run)
    if node is None:
        return None
    return _in_window(runtime, agent, run, await _branch(node, run, thread))


async def own_history(runtime: Runtime, agent: Agent, run: RunMeta) -> list[Message]:
    """Return a sub-agent's earlier calls in the thread, which precede its briefing; as many as its window
    shows."""
    parent_id = run.input.parent_id
    if parent_id is None:
        return []
    entries = await _own_node(runtime, agent, run).branch([parent_id])
    return _in_window(runtime, agent, run, entries)


async def newest_of(runtime: Runtime, agent: Agent, run: RunMeta) -> str | None:
    """Return the id of the newest message that a sub-agent with memory has in the thread."""
    entries = await _own_node(runtime, agent, run).history()
    return str(entries[-1]["message_id"]) if entries else None


def _in_window(
    runtime: Runtime, agent: Agent, run: RunMeta, entries: Sequence[dict[str, Any]]
) -> list[Message]:
    history = [_message(e, run.thread_id) for e in entries if e["role"] in ("user", "assistant")]
    if agent.memory.token_buffer is not None:
        return fit_buffer(history, agent.memory.token_buffer)
    return from_user(history[_start(len(history), agent.memory.window(runtime.settings)) :])


async def remember_turn(
    runtime: Runtime, agent: Agent, state: RunState, over: Over, history: Sequence[Message]
) -> None:
    """Add both sides of a turn to the agent's node, behind the `history` that the turn saw. A turn that
    failed or was cancelled is added only if the model said something. Repeatable."""
    node = _node(runtime, agent, state.meta)
    parent_id = history[-1].id if history else None
    if node is not None:
        await _remember(node, state, over, parent_id)


async def remember_call(runtime: Runtime, agent: Agent, state: RunState, over: Over) -> None:
    """Add the briefing and the answer of a sub-agent with memory. Repeatable."""
    node = _own_node(runtime, agent, state.meta)
    await _remember(node, state, over, state.meta.input.parent_id)


async def _remember(node: NodeLog, state: RunState, over: Over, parent_id: str | None) -> None:
    response = state.response()
    text = "\n\n".join(m.text for m in response if m.role is Role.ASSISTANT and m.text)
    if not response or not (text or over.status is Status.SUCCESS):
        return
    if state.input().refused:
        return
    input_message = state.meta.input.model_copy(update={"parent_id": parent_id})
    newest = response[-1]
    answer = {
        # The next run's input names the newest message as its parent, whatever it is.
        "message_id": newest.id,
        "parent_message_id": input_message.id,
        "role": Role.ASSISTANT,
        "content": text,
        "created_at": newest.created_at,
    }
    await node.add([input_message, answer])
    with suppress(NotFound):  # the thread is gone, and with it its nodes
        await node.flush()


def _node(runtime: Runtime, agent: Agent, run: RunMeta) -> NodeLog | None:
    history = agent.memory.history
    if not isinstance(history, NodeMemory):
        return None
    return NodeLog(runtime, run.owner, agent.name, run.thread_id, history.node_id)


def _own_node(runtime: Runtime, agent: Agent, run: RunMeta) -> NodeLog:
    """Return the memory of a sub-agent's calls, which is kept under its own name in the thread of its run."""
    return NodeLog(runtime, run.owner, agent.name, run.thread_id, SUB_AGENT)


async def _branch(node: NodeLog, run: RunMeta, thread: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the node's path to the newest message before the input that it knows. Runs without an answer,
    and those that another function ended (`settle`, `cancel`), are in the thread and not in the node."""
    if run.input.parent_id is None:
        return []
    return await node.branch([run.input.parent_id, *(m.id for m in reversed(thread))])


def _start(messages: int, window: int) -> int:
    """Return the start of a window of at least `window` messages and half as many more at most. It moves in
    steps, so that the prompt's beginning stays the same in between."""
    step = max(1, window // 2)
    excess = messages - window - step
    return -(-excess // step) * step if excess > 0 else 0


def _message(entry: dict[str, Any], thread_id: str) -> Message:
    files: list[Part] = [FilePart.model_validate(f) for f in entry["files"]]
    content = entry["content"]
    text = content if isinstance(content, str) else str(content)
    return Message(
        id=entry["message_id"],
        thread_id=thread_id,
        parent_id=entry["parent_message_id"],
        role=Role(entry["role"]),
        content=(*files, *([TextPart(text=text)] if text else [])),
        created_at=from_rfc3339(entry["created_at"]),
        token_count=entry["token_count"],
    )
