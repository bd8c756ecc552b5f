"""A receiver that is slow, away or broken costs a turn a bounded time, and never its result."""

import asyncio
import logging
import threading

import pytest

from layover import Agent
from layover.adapters.inmemory.model import say
from layover.adapters.tracing.otlp import MAX_KEPT, METRICS_S, PAUSE_S
from layover.values.span import RUN, Span
from support.otlp import Receiver
from support.worlds.runs import answers
from support.worlds.traces import TracedBench


def bench() -> TracedBench:
    return TracedBench(Agent("guide", instructions="x", model="m"), answers(say("Hello.")))


class Patient(TracedBench):
    """Its invocations are all in one process."""

    processes = 0

    def process(self) -> None:
        self.processes += 1
        if self.processes == 1:
            super().process()


def patient() -> Patient:
    return Patient(Agent("guide", instructions="x", model="m"), answers(say("Hello.")))


async def test_a_run_succeeds_although_the_receiver_answers_500(receiver: Receiver) -> None:
    receiver.status = 500
    world = patient()
    assert (await world.go()).status == "success"
    assert receiver.requests
    assert receiver.spans == []


async def test_a_run_succeeds_although_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    # Port 9 discards; on this machine nothing is there.
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert (await patient().go()).status == "success"


async def test_a_run_ends_while_the_receiver_still_thinks(receiver: Receiver) -> None:
    receiver.waits = threading.Event()
    world = patient()
    world.processes, world.flush_s = 0, 0.2
    world.process()
    # Forever, if anybody waited for the receiver: it answers only after the run.
    assert (await asyncio.wait_for(world.go(), 60)).status == "success"
    assert receiver.spans == []
    assert receiver.requests[:1] == ["/v1/traces"]


async def test_after_a_failure_nobody_asks_the_receiver_for_a_while(receiver: Receiver) -> None:
    receiver.status = 400
    world = patient()
    await world.go()
    asked = len(receiver.requests)
    await world.go("again", thread="t2")
    assert len(receiver.requests) == asked
    receiver.status = 200
    world.now_s += PAUSE_S
    await world.go("and again", thread="t3")
    # What could not be sent meanwhile comes now.
    assert len({span.trace for span in receiver.spans}) == 3


async def test_what_cannot_be_sent_fills_no_memory(receiver: Receiver) -> None:
    receiver.status = 400
    world = patient()
    now = world.clock.now()
    for number in range(MAX_KEPT + 10):
        world.tracing.record(Span(f"run_{number}", RUN, None, "x", now, now))
    await world.tracing.finish()
    receiver.status = 200
    world.now_s += PAUSE_S
    await world.tracing.finish()
    assert len(receiver.spans) == MAX_KEPT


async def test_spans_that_cannot_be_made_cost_a_run_nothing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = patient()

    def fail(span: Span) -> None:
        raise RuntimeError("broken")

    world.tracing.record = fail  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "layover"):
        assert (await world.go()).status == "success"
    assert "a part of a trace is missing" in caplog.text


async def test_headers_go_with_every_request(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YQ==")
    await bench().go()
    assert {each["authorization"] for each in receiver.headers} == {"Basic YQ=="}


async def test_metrics_are_sent_now_and_then_and_lose_nothing_meanwhile(
    receiver: Receiver,
) -> None:
    world = patient()
    for number in range(3):
        await world.go(thread=f"t{number}")
    assert receiver.requests.count("/v1/metrics") == 1
    world.now_s += METRICS_S
    await world.go(thread="t9")
    assert receiver.requests.count("/v1/metrics") == 2
    assert sum(d[1] for d in receiver.points["gen_ai.client.operation.duration"]) == 4


async def test_a_proxy_of_the_deployers_gets_the_requests(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", receiver.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otlp.example:4318")
    await bench().go()
    assert receiver.requests[0] == "http://otlp.example:4318/v1/traces"


async def test_a_sampler_drops_whole_runs(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    worlds = [bench() for _ in range(12)]
    for world in worlds:
        await world.go()
    traces = {span.trace for span in receiver.spans}
    assert 0 < len(traces) < len(worlds)
    for trace in traces:
        assert len([span for span in receiver.spans if span.trace == trace]) == 2
