"""Words of the OpenAPI document for what many calls share, and an example of each body."""

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

HEADERS = ("Accept", "Idempotency-Key", "Last-Event-ID", "Prefer")
"""Names as their documents spell them. The framework, and so generated clients, write lower case."""
PATHS = {
    "agent": "Name of an agent.",
    "chat_id": "The client's own id of a chat.",
    "entry_id": "Id of an entry of memory.",
    "export_id": "Id of an export.",
    "file_id": "Id of a file.",
    "name": "Name of a connection.",
    "number": "Number of a step of the run's own, from 1.",
    "run_id": "Id of a run.",
    "thread_id": "Id of a thread.",
    "token": "The link's own: a secret.",
    "tool_call_id": "Id of a call, of the provider's. It may hold any character: percent-encode it.",
}
"""Parts of paths."""
FIELDS = {
    "agent": "Name of the agent.",
    "agent_path": "The names from the run's agent down to the agent that made the call.",
    "args": "Arguments of the call.",
    "at": "Time, in UTC.",
    "attempt": "Number of the attempt, from 1.",
    "decided_by": "Who decided: a `sub`, `callback` or `system`.",
    "created_at": "When it was made, in UTC.",
    "expires_at": "When it ends by itself, in UTC.",
    "finish_reason": "The reason for the end.",
    "next_cursor": "`cursor` of the next page; null on the last one.",
    "on_behalf_of": "The end user, where a backend acted for one.",
    "owner": "The user whose run it is: a `sub`.",
    "reason": "Why, in words.",
    "requested_at": "When it began to wait, in UTC.",
    "resume_schema": "JSON schema of the `data` that `resume` takes.",
    "risk": "What the tool says of the risk.",
    "run_id": "Id of the run.",
    "seq": "Number of the event in its run, from 1.",
    "step": "Number of the step in its run.",
    "thread_id": "Id of the thread.",
    "tool_call_id": "Id of the call.",
    "tool_name": "Name of the tool.",
    "via": "The channel of the decision.",
    "updated_at": "When it last changed, in UTC.",
}
"""Fields that mean the same in every schema."""
_CALL = {"run_id": "run_01JX", "tool_call_id": "call_1"}
EXAMPLES: dict[str, Any] = {
    "create_thread": {"agent": "support", "title": "Order A-1003"},
    "edit_thread": {"title": "A refund"},
    "start_run": {"input": "Refund 60 euros for order A-1003"},
    "send_message": {"input": "It arrived broken."},
    "give_feedback": {"score": -1, "comment": "The order is not mine."},
    "approve_call": {
        "attempt": 1,
        "args": {"order_id": "A-1003", "euros": 50},
        "reason": "it arrived broken",
    },
    "deny_call": {"attempt": 1, "reason": "too late"},
    "resume_call": {"attempt": 1, "data": {"slot": "Monday 9:00"}},
    "extend_call": {"attempt": 1, "expires_at": "2030-01-31T12:00:00Z"},
    "decide_calls": {"items": [{**_CALL, "decision": "approve", "attempt": 1, "reason": "small"}]},
    "decide_by_link": {"decision": "approve", "reason": "small"},
    "cancel_any_runs": {"ids": ["run_01JX"], "reason": "the provider is down"},
    "redrive_any_runs": {"ids": ["run_01JX"]},
    "deny_any_runs": {"ids": ["run_01JX"], "reason": "nobody is left to approve it"},
    "stop_everything": {"reason": "the provider is away"},
    "erase_user": {"user": "ann", "reason": "asked for by mail"},
    "import_entry": {
        "agent": "support",
        "content": "Prefers mail to phone.",
        "evidence": "please write to me, I never answer the phone",
        "said_at": "2025-01-31T12:00:00Z",
    },
    "correct_entry": {"content": "Prefers mail to phone."},
    "put_profile": {"profile": {"name": "Ada"}},
    "create_file": {"name": "invoice.pdf", "mime_type": "application/pdf", "size": 48213},
    "create_socket_ticket": {"run_id": "run_01JX"},
    "connect": {"proof_hash": "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg="},
    "bring_consent": {"code": "4/0AbCdEf", "state": "s7-kJx9", "connection": "github"},
    "chat": {
        "id": "chat-7",
        "messages": [
            {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Where is A-1002?"}]}
        ],
    },
    "mcp": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "support", "arguments": {"message": "Where is A-1002?"}},
    },
    "ag_ui": {
        "threadId": "chat-7",
        "runId": "r1",
        "messages": [{"id": "m1", "role": "user", "content": "Where is A-1002?"}],
    },
}
"""A body of each call that takes one, by `operationId`."""


def add_words(spec: Json) -> None:
    """Describe shared parameters and fields that have no words of their own, and show an example of each
    body. Titles of fields go: they repeat the names."""
    for operation in (each for item in spec["paths"].values() for each in item.values()):
        for parameter in operation.get("parameters", ()):
            _name_parameter(parameter)
        for media in operation.get("requestBody", {}).get("content", {}).values():
            media["example"] = EXAMPLES[operation["operationId"]]
    for name, field in _fields(spec):
        field.pop("title", None)
        if name in FIELDS and not _is_described(field):
            field["description"] = FIELDS[name]


def _name_parameter(parameter: Json) -> None:
    parameter["schema"].pop("title", None)
    if parameter["in"] == "header":
        spelled = {name.lower(): name for name in HEADERS}
        parameter["name"] = spelled.get(parameter["name"].lower(), parameter["name"])
    if parameter["in"] == "path":
        parameter.setdefault("description", PATHS[parameter["name"]])


def _fields(spec: Json) -> Iterator[tuple[str, Json]]:
    for schema in spec["components"]["schemas"].values():
        yield from schema.get("properties", {}).items()


def _is_described(field: Json) -> bool:
    """Return whether a field has words, or one of its forms that is not null."""
    return any("description" in each for each in (field, *field.get("anyOf", ())))
