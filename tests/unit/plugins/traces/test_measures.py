"""Metrics are counted and reported as the SDK of OpenTelemetry does it."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource

from layover.plugins.traces import measures
from layover.plugins.traces.measures import Measures
from layover.values.span import RUN, Attribute, Span

START = datetime(2026, 11, 27, tzinfo=UTC)
PREFERENCE = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
SECONDS = (0.0, 0.01, 0.015, 3.0, 81.92, 90_000.0)


def chat(seconds: float, tokens: int = 10, **more: Any) -> Span:
    end = START + timedelta(seconds=seconds)
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.usage.input_tokens": tokens,
        "layover.run.id": "run_1",
    }
    return Span("run_1", ("step", "1"), RUN, "chat", START, end, attributes, **more)


def report(measured: Measures) -> Any:
    return ExportMetricsServiceRequest.FromString(measured.report(ResourceMessage()))


def points(message: Any) -> dict[str, list[Any]]:
    """The points of each metric, without their times."""
    by_name = {}
    for metric in message.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.histogram.data_points:
            point.start_time_unix_nano = point.time_unix_nano = 0
            point.attributes.sort(key=lambda each: each.key)
        by_name[metric.name] = list(metric.histogram.data_points)
    return by_name


@pytest.fixture
def now() -> Any:
    ticks = count(1)
    return lambda: next(ticks)


def test_a_report_has_the_points_that_the_sdk_has(now: Any) -> None:
    measured, reader = Measures({}, now), InMemoryMetricReader()
    meter = MeterProvider([reader], Resource({})).get_meter("layover")
    bounds = {"s": measures._DURATIONS, "{token}": measures._TOKENS}
    durations, tokens = (
        meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=bounds[unit])
        for name, unit in (
            ("gen_ai.client.operation.duration", "s"),
            ("gen_ai.client.token.usage", "{token}"),
        )
    )
    for number, seconds in enumerate(SECONDS):
        values = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5-mini"}
        error = "timeout" if number % 2 else None
        values |= {"error.type": error} if error else {}
        measured.add(chat(seconds, 4**number, error=error))
        durations.record(seconds, values)
        tokens.record(4**number, {**values, "gen_ai.token.type": "input"})
    data = reader.get_metrics_data()
    assert data is not None
    assert points(report(measured)) == points(encode_metrics(data))


def test_sums_begin_with_the_process_and_go_on_after_a_report(now: Any) -> None:
    measured = Measures({}, now)
    assert not measured.has_news
    measured.add(chat(1.0))
    first = measured.has_news
    report(measured)
    assert [first, measured.has_news] == [True, False]
    measured.add(chat(1.0))
    message = report(measured)
    [point] = message.resource_metrics[0].scope_metrics[0].metrics[0].histogram.data_points
    assert (point.count, point.start_time_unix_nano) == (2, 1)


@pytest.mark.parametrize("preference", ["delta", "DELTA", "lowmemory"])
def test_a_receiver_of_deltas_gets_what_is_new(preference: str, now: Any) -> None:
    measured = Measures({PREFERENCE: preference}, now)
    measured.add(chat(1.0))
    first = report(measured).resource_metrics[0].scope_metrics[0].metrics[0].histogram
    measured.add(chat(2.0))
    second = report(measured).resource_metrics[0].scope_metrics[0].metrics[0].histogram
    assert first.aggregation_temporality == second.aggregation_temporality == 1
    assert [h.data_points[0].sum for h in (first, second)] == [1.0, 2.0]
    assert first.data_points[0].time_unix_nano == second.data_points[0].start_time_unix_nano


def test_errors_of_ever_new_types_fill_no_memory(now: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "MAX_SETS", 3)
    measured = Measures({}, now)
    for number in range(10):
        measured.add(chat(1.0, error=f"E{number}"))
    found = points(report(measured))["gen_ai.client.operation.duration"]
    assert [point.count for point in found] == [1, 1, 1, 7]
    assert [each.key for each in found[-1].attributes] == ["otel.metric.overflow"]
