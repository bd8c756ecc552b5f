"""The document's links: what an answer leads to is there."""

from typing import Any
from urllib.parse import quote, urlencode

from integration.api.kit import USE, Api, TestHost
from integration.api.test_entries import learn
from integration.api.test_files import upload
from integration.api.test_openapi import FILE, operations
from support.worlds.services import ServiceBench

BODIES: dict[str, Any] = {
    "create_thread": {"agent": "support"},
    "edit_thread": {"title": "x"},
    "start_run": {"input": "x", "on_busy": "enqueue"},
    "send_message": {"input": "x"},
    "create_file": FILE,
    "put_profile": {"profile": "x"},
    "resume_call": {"attempt": 1, "data": {"slot": "9:00"}},
    "correct_entry": {"content": "likes rugs now"},
    "give_feedback": {"score": 1},
}
FILTERS = {"agent": "support", "from": "2020-01-01"}
SCOPE = f"{USE} layover/operate layover/audit"
TOO_LATE = ("decision-already-made", "decision-invalid", "conflict")
"""Answers of what was reached, and does not wait for this."""


class Place:
    """A world with two of everything, so that lists have a next page."""

    def __init__(self) -> None:
        world = ServiceBench()
        self.host = TestHost(world)
        self.api = api = Api(world, self.host)
        for _ in range(2):
            decided, _ = api.do(world.suspended())
            api.post(f"/runs/{decided.id}/tool-calls/c1/deny", {"attempt": 1})
        api.do(world.suspended())
        run, _ = api.do(world.suspended())
        api.post(f"/threads/{run.thread_id}/runs", {"input": "x", "on_busy": "enqueue"})
        learn(api, "likes lamps", "hates rugs", agent="plain")
        learn(api, "likes tea", "hates milk")
        for _ in range(2):
            # Its call is decided: it is refused, and that leaves a row as well.
            body = {"ids": [decided.id], "reason": "x"}
            api.post("/operate/runs/deny", body, scope=SCOPE)
        self.names = {
            "thread_id": run.thread_id,
            "run_id": run.id,
            "tool_call_id": "c1",
            "agent": "support",
        }
        self.asked: dict[str, str] = {}
        """The query of the first request."""

    def ask(self, method: str, path: str, body: Any, query: Any) -> Any:
        """The answer's JSON. Fails where nothing is reached."""
        url = path.format(**{name: quote(id, safe="") for name, id in self.names.items()})
        answer = self.api.send(method.upper(), f"{url}?{urlencode(query)}", body, scope=SCOPE)
        reached = answer.status < 400 or any(f":{slug}" in answer.body for slug in TOO_LATE)
        assert reached, (method, url, query, answer.body)
        return answer.json if answer.body else None

    def resolved(self, said: str, answer: Any) -> Any:
        """Return the value of a runtime expression: of the request's path and query, or of the answer's body.
        None if the request did not give it."""
        if said.startswith("$request.query."):
            return self.asked.get(said.rsplit(".", 1)[1])
        if said.startswith("$request."):
            return self.names[said.rsplit(".", 1)[1]]
        value = answer
        for step in said.removeprefix("$response.body#/").split("/"):
            value = value[int(step)] if isinstance(value, list) else value[step]
        return value


def links(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """The links of an operation's good answers."""
    good = [r for code, r in operation["responses"].items() if code < "300"]
    return [link for response in good for link in response.get("links", {}).values()]


def test_every_answer_leads_to_what_is_there(api: Api) -> None:
    spec = api.get("/openapi.json", sub=None).json
    calls = {o["operationId"]: (m, path, o) for (m, path), o in operations(spec).items()}
    followed = set()
    read = Place()
    """For what changes nothing; each other request finds a place of its own."""
    names = read.names
    for source, (method, path, operation) in calls.items():
        for link in links(operation):
            target = calls[link["operationId"]]
            place = read if method == target[0] == "get" else Place()
            place.names = {**names} if place is read else place.names
            known = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"}
            wanted = FILTERS | ({"limit": "1"} if source.startswith("list_") else {})
            place.asked = first = {n: v for n, v in wanted.items() if n in known}
            answer = place.ask(method, path, BODIES.get(source), first)
            named = {n: place.resolved(e, answer) for n, e in link.get("parameters", {}).items()}
            optional = {p["name"] for p in operation.get("parameters", ()) if not p["required"]}
            given = {n: v for n, v in named.items() if v is not None or n not in optional}
            body = BODIES.get(link["operationId"])
            if "requestBody" in link:
                body = {n: place.resolved(e, answer) for n, e in link["requestBody"].items()}
            assert all(given.values()), (source, link, answer)
            if "file_id" in given:
                upload(place.api, given["file_id"])
            place.names |= given
            query = {n: v for n, v in given.items() if f"{{{n}}}" not in target[1]}
            place.ask(target[0], target[1], body, query)
            if place is not read:
                place.host.close()
            followed.add(link["operationId"])
    read.host.close()
    unlinked = {"health", "discovery", "create_file", "create_socket_ticket", "get_tool_result"}
    # Of the caller, whatever was answered before.
    unlinked |= {"export_me", "forget_me", "list_usage", "list_exports"}
    unlinked |= {"list_connections", "connect", "disconnect", "bring_consent"}
    # Only after a request that took too long, whose `Location` leads to it.
    unlinked |= {"get_export"}
    # Of what a list has, in its body: no link fills a list.
    unlinked |= {"decide_calls"}
    # A token is in a message to its person, and in no answer.
    unlinked |= {"look_by_link", "decide_by_link"}
    unlinked |= {"cancel_any_runs", "redrive_any_runs", "deny_any_runs"}
    # Of nobody's.
    unlinked |= {"summarise_runs"}
    # Its body is a time, which no answer has.
    unlinked |= {"extend_call"}
    # Its body is what another system says.
    unlinked |= {"import_entry"}
    # Slack's own.
    unlinked |= {"slack_interaction"}
    # Their ids are a front end's own.
    unlinked |= {"chat", "resume_chat", "list_chat_messages", "ag_ui"}
    # Their answers are another protocol's.
    unlinked |= {"mcp", "protected_resource"}
    assert calls.keys() - followed == unlinked
