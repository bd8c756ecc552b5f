"""The caller's groups and scopes, on each route that starts a run."""

import json
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import USE, Api, http_event
from layover.values.runs.run import RunMeta
from support.worlds.services import ANN
from support.worlds.sockets import SocketBench

CLAIMS = {"cognito:groups": "[finance berlin]"}
FINANCE, SCOPES = frozenset({"finance", "berlin"}), frozenset({"openid", "layover/use"})
NONE: frozenset[str] = frozenset()
HELLO: dict[str, Any] = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
CHAT: dict[str, Any] = {"id": "c1", "messages": [HELLO], "trigger": "submit-message"}
AG_UI: dict[str, Any] = {
    "threadId": "t1",
    "runId": "r1",
    "messages": [{"id": "m1", "role": "user", "content": "hello"}],
}


@pytest.fixture
def world() -> SocketBench:
    return SocketBench()


def ask(api: Api, path: str, body: Any, *, claims: Any = CLAIMS, **headers: str) -> dict[str, Any]:
    """The answer of the function that streams."""
    event = http_event("POST", path, json.dumps(body), headers, ANN, False, USE, claims)
    answered = answer(event, None, api.host, streams=True)
    assert answered["statusCode"] in (200, 202), answered["body"]
    return answered


def newest(api: Api, world: SocketBench) -> RunMeta:
    """The run that was started last, in the thread that changed last."""
    [head] = api.do(world.journal.heads.page(ANN, 1, None)).items
    page = api.do(world.journal.runs.page_ids(ANN, head.id, 1, None))
    run = api.do(world.journal.runs.get(ANN, page.items[0]))
    assert run is not None
    return run


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/threads/{id}/runs", {"input": "hello"}, {}),
        ("/threads/{id}/runs", {"input": "hello"}, {"Accept": "text/event-stream"}),
        ("/chat/support", CHAT, {}),
        ("/ag-ui/support", AG_UI, {}),
    ],
    ids=["run", "streamed run", "chat", "AG-UI"],
)
def test_a_run_has_the_rights_of_the_token_that_started_it(
    api: Api, world: SocketBench, path: str, body: Any, headers: dict[str, str]
) -> None:
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    ask(api, path.replace("{id}", thread), body, **headers)
    run = newest(api, world)
    assert (run.groups, run.scopes) == (FINANCE, SCOPES)


def test_another_answer_has_the_rights_of_the_token_that_asked_for_it(
    api: Api, world: SocketBench
) -> None:
    ask(api, "/chat/support", CHAT)
    first = newest(api, world)
    api.do(world.finish(first.id, "hi"))
    again = {"trigger": "regenerate-message", "messageId": first.id}
    ask(api, "/chat/support", CHAT | again, claims=None)
    run = newest(api, world)
    assert run.id != first.id
    assert (run.groups, run.scopes) == (NONE, SCOPES)


def test_what_a_caller_writes_gives_no_rights(api: Api, world: SocketBench) -> None:
    lies = {"groups": ["finance"], "scopes": ["layover/operate"]}
    thread = api.post("/threads", {"agent": "support", "metadata": lies}).json["id"]
    api.post(f"/threads/{thread}/runs", {"input": "x", **lies}).problem(422, "invalid-request")
    ask(api, f"/threads/{thread}/runs", {"input": "x"}, claims=None)
    run = newest(api, world)
    assert (run.groups, run.scopes) == (NONE, SCOPES)


def test_a_backend_has_its_own_rights_and_not_those_of_the_user(
    api: Api, world: SocketBench
) -> None:
    scope = f"{USE} layover/act-as"
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    for_ann = {"X-Layover-Resource": ANN}
    url = f"/threads/{thread}/runs"
    api.post(url, {"input": "x"}, sub="shop", scope=scope, headers=for_ann)
    run = newest(api, world)
    assert (run.groups, run.scopes) == (NONE, SCOPES | {"layover/act-as"})


def test_nobody_reads_the_rights_of_a_run(api: Api, world: SocketBench) -> None:
    """An approver's or an exporter's view has the run, and not the token behind it."""
    ask(api, "/chat/support", CHAT)
    run = newest(api, world)
    assert not {"groups", "scopes"} & api.get(f"/runs/{run.id}").json.keys()
