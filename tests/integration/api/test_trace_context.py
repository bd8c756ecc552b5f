"""`traceparent` of a request that starts a run."""

from dataclasses import replace

import pytest

from integration.api.kit import Api
from support.worlds.runs import ANN
from support.worlds.services import ServiceBench

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


def test_without_traces_a_run_keeps_no_trace_context(api: Api) -> None:
    assert stored(api, CONTEXT) is None


class TestTraced:
    """Where traces are on."""

    @pytest.fixture
    def world(self) -> ServiceBench:
        world = ServiceBench()
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
