"""`traceparent` of a request that starts a run, whichever route it takes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from functions.api.app import answer
from integration.api.kit import Api, http_event
from layover.records.threads import thread_id_of
from support.worlds.runs import ANN
from support.worlds.services import ServiceBench
from support.worlds.sockets import SocketBench

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def stored(api: Api, header: str) -> str | None:
    """The context that the run has which this header's request started."""
    thread = api.post("/threads", {"agent": "support"}).json["id"]
    url, headers = f"/threads/{thread}/runs", {"traceparent": header}
    answer = api.post(url, {"input": "x"}, headers=headers)
    assert answer.status == 202
    run = api.do(api.host.runtime().journal.runs.get(ANN, answer.json["id"]))
    assert run is not None
    return run.traceparent


USER = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
SAID = {"id": "m1", "role": "user", "content": "hello"}
STREAMED = {
    "/chat/support": {"id": "c1", "messages": [USER]},
    "/ag-ui/support": {"threadId": "c1", "runId": "r1", "messages": [SAID]},
}


def streamed(api: Api, path: str, headers: dict[str, str], **more: Any) -> str | None:
    """The context of the newest run that a streamed request started."""
    event = http_event("POST", path, json.dumps({**STREAMED[path], **more}), headers, ANN)
    assert answer(event, None, api.host, streams=True)["statusCode"] == 200
    runs = api.host.runtime().journal.runs
    thread = thread_id_of(ANN, "c1")
    run = api.do(runs.get(ANN, api.do(runs.page_ids(ANN, thread, 1, None)).items[0]))
    assert run is not None
    return run.traceparent


def test_without_traces_a_run_keeps_no_trace_context(api: Api) -> None:
    assert stored(api, CONTEXT) is None


class TestTraced:
    """Where traces are on."""

    @pytest.fixture
    def world(self) -> ServiceBench:
        world = SocketBench()
        settings = world.runtime.settings.model_copy(update={"traces": True})
        world.runtime = replace(world.runtime, settings=settings)
        return world

    def test_a_run_keeps_the_trace_context_of_its_request(self, api: Api) -> None:
        assert stored(api, CONTEXT) == CONTEXT

    @pytest.mark.parametrize(
        "header",
        [
            "",
            "x",
            CONTEXT.upper(),
            f"{CONTEXT}-more",
            CONTEXT.replace("00-0", "ff-0", 1),
            f"00-{'0' * 32}-b7ad6b7169203331-01",
            f"00-{'a' * 32}-{'0' * 16}-01",
        ],
    )
    def test_a_trace_context_that_is_not_well_formed_counts_as_absent(
        self, api: Api, header: str
    ) -> None:
        assert stored(api, header) is None

    @pytest.mark.parametrize("path", STREAMED)
    @pytest.mark.parametrize("name", ["traceparent", "Traceparent", "TRACEPARENT"])
    def test_so_does_a_chats_run(self, api: Api, path: str, name: str) -> None:
        assert streamed(api, path, {name: CONTEXT}) == CONTEXT

    @pytest.mark.parametrize("path", STREAMED)
    def test_a_chat_without_one_has_none(self, api: Api, path: str) -> None:
        assert streamed(api, path, {}) is None

    def test_a_request_whose_key_was_used_keeps_the_context_of_the_first(self, api: Api) -> None:
        thread = api.post("/threads", {"agent": "support"}).json["id"]
        url, other = f"/threads/{thread}/runs", CONTEXT.replace("b7ad", "b7ae")
        ids = {
            api.post(
                url, {"input": "x"}, headers={"idempotency-key": "k1", "traceparent": context}
            ).json["id"]
            for context in (CONTEXT, other)
        }
        [run_id] = ids
        run = api.do(api.host.runtime().journal.runs.get(ANN, run_id))
        assert run is not None
        assert run.traceparent == CONTEXT
