"""A receiver that is slow, away or broken costs a turn a bounded time, and never its result."""

import asyncio
import logging
import os
import threading
from typing import Any

import pytest

from layover import Agent
from layover.clock import SystemClock
from layover.ids import SequentialIds
from layover.inmemory.model import say
from layover.plugins.traces.background import BackgroundTracing
from layover.plugins.traces.otlp import MAX_KEPT, METRICS_S, PAUSE_S, Recorded
from layover.plugins.traces.receiver import Receiver as Receiving
from layover.values.span import RUN, Span
from support.otlp import Receiver
from support.worlds.runs import answers
from support.worlds.traces import TracedBench


def bench(**ports: Any) -> TracedBench:
    agent = Agent("guide", instructions="x", model="m")
    return TracedBench(agent, answers(say("Hello.")), **ports)


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


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_after_a_failure_nobody_asks_the_receiver_for_a_while(
    status: int, receiver: Receiver
) -> None:
    receiver.status = status
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
    receiver.status = 503
    world = patient()
    now = world.clock.now()
    for number in range(MAX_KEPT + 10):
        world.tracing.record(Span(f"run_{number}", RUN, None, "x", now, now))
    await world.tracing.finish()
    receiver.status = 200
    world.now_s += PAUSE_S
    await world.tracing.finish()
    assert len(receiver.spans) == MAX_KEPT


@pytest.mark.parametrize("status", [307, 400, 401, 404, 415, 500])
async def test_what_a_receiver_refuses_for_good_is_sent_once_and_counted(
    status: int, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The specification has four statuses after which the same request may be sent again."""
    world = patient()
    receiver.status = status
    await world.go()
    [line] = [each for each in caplog.records if "traces were not sent" in each.getMessage()]
    assert vars(line)["dropped_spans"] == 2
    receiver.status = 200
    world.now_s += PAUSE_S
    await world.go("again", thread="t2")
    assert len({span.trace for span in receiver.spans}) == 1


async def test_span_that_cannot_be_encoded_is_tried_once(receiver: Receiver) -> None:
    world = patient()
    now = world.clock.now()
    world.tracing.record(Span("run_1", RUN, None, "no text: \ud800", now, now))
    await world.tracing.finish()
    world.now_s += PAUSE_S
    world.tracing.record(Span("run_2", RUN, None, "good", now, now))
    await world.tracing.finish()
    assert [span.name for span in receiver.spans] == ["good"]


@pytest.mark.parametrize("is_frozen", [True, False])
async def test_batch_that_is_too_large_is_sent_in_smaller_ones(
    is_frozen: bool, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.max_body = 1_000
    world = patient()
    now = world.clock.now()
    kind = type(world.tracing) if is_frozen else BackgroundTracing
    tracing = kind(world.clock, "shop", os.environ, flush_s=30.0)
    if isinstance(tracing, BackgroundTracing):
        tracing.renew()
    for number in range(33):
        Recorded.record(tracing, Span(f"run_{number}", RUN, None, "small", now, now))
    large = Span("run_large", RUN, None, "large", now, now, {"text": "x" * 2_000})
    Recorded.record(tracing, large)
    await tracing.finish()
    if isinstance(tracing, BackgroundTracing):
        tracing.send()
    assert [span.name for span in receiver.spans] == ["small"] * 33
    [line] = [each for each in caplog.records if "traces were not sent" in each.getMessage()]
    assert vars(line)["dropped_spans"] == 1
    await tracing.aclose()


@pytest.mark.parametrize(
    ("variable", "value", "sent"),
    [
        ("OTEL_TRACES_EXPORTER", "none", {"/v1/metrics"}),
        ("OTEL_METRICS_EXPORTER", "None", {"/v1/traces"}),
        ("OTEL_METRICS_EXPORTER", " console , otlp", {"/v1/traces", "/v1/metrics"}),
        ("OTEL_METRICS_EXPORTER", "otlp_proto_http", {"/v1/traces", "/v1/metrics"}),
        ("OTEL_METRICS_EXPORTER", "prometheus", {"/v1/traces"}),
        ("OTEL_TRACES_EXPORTER", "", {"/v1/traces", "/v1/metrics"}),
        ("OTEL_LOGS_EXPORTER", "none", {"/v1/traces", "/v1/metrics"}),
    ],
)
async def test_signal_that_is_switched_off_is_not_sent(
    variable: str,
    value: str,
    sent: set[str],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(variable, value)
    await bench().go()
    assert set(receiver.requests) == sent


@pytest.mark.parametrize(
    ("variable", "value", "lines"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", ["PROTOCOL=grpc", "PROTOCOL=grpc"]),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", ["PROTOCOL=http/json"]),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", []),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "", []),
        ("OTEL_METRICS_EXPORTER", "prometheus", ["OTEL_METRICS_EXPORTER=prometheus"]),
        ("OTEL_METRICS_EXPORTER", "none", []),
    ],
)
async def test_what_is_not_spoken_is_said_once_and_the_rest_is_sent(
    variable: str,
    value: str,
    lines: list[str],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(variable, value)
    await patient().go()
    said = [each.getMessage() for each in caplog.records if "here:" in each.getMessage()]
    assert len(said) == len(lines)
    assert all(line in each for line, each in zip(lines, said, strict=True))
    assert receiver.tree() == ["invoke_agent guide", "  chat m"]


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


@pytest.mark.parametrize("is_frozen", [True, False])
async def test_a_receiver_on_this_machine_is_asked_directly_whatever_the_proxy(
    is_frozen: bool, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Desktops and programs for a VPN name one for every program."""
    for name in ("http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "socks5h://127.0.0.1:9")
    if is_frozen:
        await bench().go()
    else:
        tracing = BackgroundTracing(SystemClock(), "shop", os.environ)
        tracing.renew()
        now = SystemClock().now()
        Recorded.record(tracing, Span("run_1", RUN, None, "first", now, now))
        tracing.send()
        await tracing.aclose()
    assert receiver.spans != []


async def test_a_sampler_drops_whole_runs(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    # The id of a run decides: five of `run_1` to `run_12` are in. Of twelve random ones, sometimes none is.
    ids = SequentialIds()
    for _ in range(12):
        await bench(ids=ids).go()
    traces = {span.trace for span in receiver.spans}
    assert len(traces) == 5
    for trace in traces:
        assert len([span for span in receiver.spans if span.trace == trace]) == 2


async def test_turns_of_one_process_share_a_connection(receiver: Receiver) -> None:
    world = patient()
    for number in range(3):
        await world.go(thread=f"t{number}")
    assert receiver.requests.count("/v1/traces") == 3
    # One for traces, and one for metrics.
    assert receiver.connections == 2


async def test_a_connection_that_the_receiver_has_closed_costs_no_span(receiver: Receiver) -> None:
    receiver.closes = True
    world = patient()
    for number in range(3):
        await world.go(thread=f"t{number}")
    assert len({span.trace for span in receiver.spans}) == 3


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
async def test_requests_are_compressed_if_the_deployer_wants_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
    await bench().go()
    assert {each["content-encoding"] for each in receiver.headers} == {compression}
    assert receiver.tree() == ["invoke_agent guide", "  chat m"]


async def test_each_signal_may_have_its_own_receiver_and_headers(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=all")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/mine?a=1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-tenant=traces")
    await bench().go()
    assert receiver.requests == ["/mine?a=1"]
    assert receiver.headers[0]["x-tenant"] == "traces"


async def test_an_endpoint_with_a_name_and_a_password_signs_in(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed = receiver.url.replace("://", "://ann:secret@")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", signed)
    await bench().go()
    assert receiver.headers[0]["authorization"] == "Basic YW5uOnNlY3JldA=="


@pytest.mark.parametrize("endpoint", ["nowhere", "http://", "http://a:b", "http://[::1"])
async def test_a_run_succeeds_although_the_endpoint_is_no_address(
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    endpoint: str,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    with caplog.at_level(logging.WARNING, "layover"):
        assert (await patient().go()).status == "success"
    assert "traces were not sent" in caplog.text


async def test_a_receiver_that_wants_no_metrics_gets_every_span(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:9/v1/metrics")
    world = patient()
    for number in range(3):
        await world.go(thread=f"t{number}")
    assert len({span.trace for span in receiver.spans}) == 3


async def test_a_redirection_is_a_failure_and_is_not_followed(receiver: Receiver) -> None:
    receiver.status = 307
    await patient().go()
    assert receiver.requests == ["/v1/traces"]


async def test_a_receiver_with_a_certificate_of_the_deployers_is_asked_by_the_library(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "roots.pem")
    await bench().go()
    # It is asked without TLS here, which needs no roots.
    assert receiver.tree() == ["invoke_agent guide", "  chat m"]
    assert Receiving.of("traces", os.environ, {}).needs_library


async def test_a_process_that_is_not_frozen_sends_now_and_then_and_at_its_end(
    receiver: Receiver,
) -> None:
    tracing = BackgroundTracing(SystemClock(), "shop", os.environ)
    tracing.renew()
    now = SystemClock().now()
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    tracing.record(Span("run_1", RUN, None, "first", now, now, attributes))
    await tracing.finish()
    assert receiver.spans == []
    tracing.send()
    tracing.record(Span("run_2", RUN, None, "second", now, now, attributes))
    tracing.send(is_last=True)
    assert [span.name for span in receiver.spans] == ["first", "second"]
    [(_, count, _)] = receiver.points["gen_ai.invoke_agent.duration"]
    assert count == 2
    await tracing.aclose()
