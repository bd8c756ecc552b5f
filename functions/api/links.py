"""OpenAPI links, which lead a reader of the document from one call to the next."""

from typing import Any

Json = dict[str, Any]

_BODY = "$response.body#"
_THREAD_CALLS = (
    "get_thread",
    "edit_thread",
    "delete_thread",
    "list_messages",
    "list_runs",
    "start_run",
    "get_thread_memory",
    "list_approvals",
)
_RUN_CALLS = (
    "get_run",
    "get_events",
    "send_message",
    "cancel_run",
    "give_feedback",
    "delete_feedback",
    "redrive_run",
)
_CALL_CALLS = ("get_call", "approve_call", "deny_call", "resume_call")
_AGENT_CALLS = ("get_profile", "put_profile", "delete_profile", "list_entries")
_LISTS = (
    "list_all_runs",
    "list_operations",
    "list_agents",
    "list_threads",
    "list_messages",
    "list_runs",
    "list_approvals",
    "list_decisions",
    "list_entries",
    "list_feedback",
)


def add_links(spec: Json) -> None:
    """Add to each good answer links to the calls that take its ids."""
    operations = {
        operation["operationId"]: operation
        for item in spec["paths"].values()
        for operation in item.values()
    }
    for source, target, parameters in _links(operations):
        for code, response in operations[source]["responses"].items():
            if code < "300":
                name = "next_page" if source == target else target
                response.setdefault("links", {})[name] = {"operationId": target, **parameters}


def _links(operations: Json) -> list[tuple[str, str, Json]]:
    thread_at = {
        "create_thread": "/id",
        "get_thread": "/id",
        "edit_thread": "/id",
        "list_threads": "/items/0/id",
        "list_runs": "/items/0/thread_id",
    }
    run_at = {
        "start_run": "/id",
        "get_run": "/id",
        "send_message": "/id",
        "cancel_run": "/id",
        "list_runs": "/items/0/id",
        "list_approvals": "/items/0/run_id",
    }
    call_at = {
        "get_run": ("/id", "/pending/0"),
        "list_approvals": ("/items/0/run_id", "/items/0"),
    }
    agent = _BODY + "/items/0/name"
    return [
        *((s, t, _by(thread_id=_BODY + at)) for s, at in thread_at.items() for t in _THREAD_CALLS),
        *((s, t, _by(run_id=_BODY + at)) for s, at in run_at.items() for t in _RUN_CALLS),
        *(
            (s, t, _of_call(t, _BODY + run, _BODY + call))
            for s, (run, call) in call_at.items()
            for t in _CALL_CALLS
        ),
        *(("list_agents", target, _by(agent=agent)) for target in _AGENT_CALLS),
        ("list_agents", "create_thread", {"requestBody": {"agent": agent}}),
        ("list_all_runs", "get_any_run", _by(run_id=_BODY + "/items/0/id")),
        ("create_file", "get_file", _by(file_id=_BODY + "/id")),
        *(
            ("list_entries", target, _by(entry_id=_BODY + "/items/0/id"))
            for target in ("correct_entry", "delete_entry")
        ),
        *((source, source, _next_page(operations[source])) for source in _LISTS),
    ]


def _by(**parameters: str) -> Json:
    return {"parameters": parameters}


def _of_call(target: str, run: str, call: str) -> Json:
    """Return a link to a call that is shown there. A verdict is about the attempt that is shown; `resume`
    takes data as well, which no answer has."""
    link = _by(run_id=run, tool_call_id=f"{call}/tool_call_id")
    is_verdict = target in ("approve_call", "deny_call")
    return {**link, "requestBody": {"attempt": f"{call}/attempt"}} if is_verdict else link


def _next_page(operation: Json) -> Json:
    """Return a link to the same call with the cursor of its answer. It repeats the filters: without them, the
    cursor would belong to another list."""
    same = {
        parameter["name"]: f"$request.{parameter['in']}.{parameter['name']}"
        for parameter in operation["parameters"]
        if parameter["name"] not in ("cursor", "limit")
    }
    return _by(**same, cursor=_BODY + "/next_cursor")
