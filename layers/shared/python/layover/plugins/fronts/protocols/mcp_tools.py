"""Agents as tools, in the words of the Model Context Protocol: the list, and what a call answers
(docs/guides/mcp.md#served)."""

from typing import Any

from layover.values.base import compact_json
from layover.values.decision import Risk
from layover.values.runs.status import Status
from layover.values.runs.views import Pending, Run
from layover.values.text import isolate, json_size, show

Json = dict[str, Any]

HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
"""Versions that a client agrees on by `initialize`, the newest last."""
STATELESS_VERSION = "2026-07-28"
"""The version in which each request says all of it."""
VERSIONS = (*HANDSHAKE_VERSIONS, STATELESS_VERSION)
KEY = "layover/idempotency-key"
"""The name in `_meta` of a call under which its client repeats it."""
DECISION = "decision"
"""The name of the one thing that a call asks its client's user for."""
MAX_TEXT = 1_000_000
"""Characters of a reply, and bytes of an output, that an answer has."""
INSTRUCTIONS = (
    "Each tool is an agent that answers a message. An answer has a `thread_id`: with it, the next message "
    "goes on with the same conversation. An agent that is not done yet, or waits for a person, says so with "
    "its `run_id`."
)
_RUN = {
    "status": {"type": "string", "enum": [status.value for status in Status]},
    "run_id": {"type": "string"},
    "thread_id": {"type": "string"},
    "text": {"type": "string"},
    "output": {"description": "The structured output of an agent that has one."},
    "waits_for": {"type": "array", "items": {"type": "object"}},
    "url": {"type": "string", "description": "Where a person decides."},
}
_OUTPUT_SCHEMA = {
    "type": "object",
    "properties": _RUN,
    "required": ["status", "run_id", "thread_id", "text"],
}


def agent_tool(name: str, description: str | None) -> Json:
    """Return the tool that stands for an agent."""
    thread = "The thread_id of an earlier answer, to go on with its conversation. Without it, one begins."
    return {
        "name": name,
        "description": description
        or f"Sends a message to the agent {name}, and returns its answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "message": {
                    "type": "string",
                    "minLength": 1,
                    "description": "What the agent is asked.",
                },
                "thread_id": {"type": "string", "description": thread},
            },
            "required": ["message"],
            "additionalProperties": False,
        },
        "outputSchema": _OUTPUT_SCHEMA,
    }


def run_tool(name: str) -> Json:
    """Return the tool that waits for a run."""
    return {
        "name": name,
        "description": "Waits for an agent that was not done yet, or that waits for a person, and returns "
        "its answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "run_id": {
                    "type": "string",
                    "description": "The run_id of the agent's answer so far.",
                }
            },
            "required": ["run_id"],
            "additionalProperties": False,
        },
        "outputSchema": _OUTPUT_SCHEMA,
        "annotations": {"readOnlyHint": True, "idempotentHint": True},
    }


def run_result(run: Run, again: str, url: str | None) -> Json:
    """Return the result of a call that has this run. `again`: the name of the tool that waits for it. `url`:
    the page on which a person decides."""
    reply = _reply(run)
    texts = [reply] if reply else []
    is_error = run.status in (Status.FAILED, Status.CANCELLED)
    if run.status is Status.SUSPENDED:
        texts.append(waits_text(run, again, url))
    elif is_error:
        reason = f": {run.error.message}" if run.error else ""
        texts.append(
            f"The run {'failed' if run.status is Status.FAILED else 'was cancelled'}{reason}"
        )
    elif not run.status.over:
        texts.append(
            f"The agent is still at work. Call {again} with run_id {run.id} for its answer. Do not send the "
            "message again."
        )
    texts.append(f"(run_id {run.id}; thread_id {run.thread_id} goes on with this conversation)")
    return {
        "content": [{"type": "text", "text": text} for text in texts],
        "structuredContent": _structured(run, reply, url),
        "isError": is_error,
    }


def refusal(message: str) -> Json:
    """Return the result of a call that was refused: an error that the client's model reads."""
    return {"content": [{"type": "text", "text": message}], "isError": True}


def waits_text(run: Run, again: str, url: str | None) -> str:
    """Return for the client's model what a run waits for, and that nothing of it is for a model to decide."""
    lines = ["This waits for a person. No tool here can decide it:"]
    lines += [f"- {_waits_for(pending)}" for pending in run.pending]
    if owner_decides(run):
        lines.append(f"The user decides at {url}" if url else "The user decides in the console.")
    elif url:
        lines.append(f"The user can see it at {url}")
    lines.append(
        f"Tell the user. Once it is decided, call {again} with run_id {run.id} for the answer."
    )
    return "\n".join(lines)


def owner_decides(run: Run) -> bool:
    """Return whether a call of the run waits for the run's own user."""
    return any(pending.approval is None for pending in run.pending)


def decision_request(run: Run, url: str) -> Json:
    """Return the result that has the client's user open the page on which they decide: the protocol's own
    request, which no model answers. It goes on with the run, which it names."""
    waiting = "; ".join(_waits_for(pending) for pending in run.pending if pending.approval is None)
    where = "You decide on this page, which shows all of it."
    message = f"The agent {run.agent} waits for you: {waiting}. {where}"
    params = {"mode": "url", "message": message, "url": url}
    return {
        "resultType": "input_required",
        "inputRequests": {DECISION: {"method": "elicitation/create", "params": params}},
        "requestState": run.id,
    }


def _reply(run: Run) -> str:
    text = run.text or (compact_json(run.output) if run.output is not None else "")
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def _structured(run: Run, reply: str, url: str | None) -> Json:
    facts: Json = {
        "status": run.status.value,
        "run_id": run.id,
        "thread_id": run.thread_id,
        "text": reply,
    }
    if run.output is not None and json_size(run.output) <= MAX_TEXT:
        facts["output"] = run.output
    if run.pending:
        facts["waits_for"] = [_facts(pending) for pending in run.pending]
        if url:
            facts["url"] = url
    return facts


def _facts(pending: Pending) -> Json:
    facts: Json = {"tool": show(pending.tool_name), "kind": pending.kind.value}
    if pending.summary:
        facts["summary"] = show(pending.summary)
    if pending.approval is not None:
        facts["decided_by"] = list(pending.approval.by)
    return facts


def _waits_for(pending: Pending) -> str:
    what = isolate(show(pending.tool_name))
    if pending.summary:
        what += f": {isolate(show(pending.summary))}"
    if pending.risk is Risk.HIGH:
        what += " (risk: high)"
    if pending.approval is not None:
        what += f" (for members of {', '.join(pending.approval.by)} to decide)"
    return what
