"""The metrics of the conventions: histograms of tokens and durations, each a sum since the process began.

The SDK takes 20 µs for each value and a millisecond for each report, which is as much as everything else that
a turn's trace costs. A value is two additions here."""

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, HistogramDataPoint
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from layover.plugins.traces import attributes as names
from layover.plugins.traces.encoding import SCOPE, encode_attributes
from layover.values.span import Attribute, Span

MAX_SETS = 2_000
"""Sets of attributes of one metric. What has others counts together, as the SDK does it."""
_DURATIONS = tuple(0.01 * 2**n for n in range(14))
"""Seconds, 0.01 to 81.92."""
_TOKENS = tuple(4**n for n in range(14))
"""1 to 67,108,864."""
_IN_METRICS = (names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.AGENT, names.TOOL)
"""Attributes of metrics: few values, and never an id."""
_NAMES = (names.OPERATION, names.ERROR, "gen_ai.token.type", *_IN_METRICS)
_TOKEN_TYPES = (("input", names.INPUT_TOKENS), ("output", names.OUTPUT_TOKENS))
_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"


class _Metric(NamedTuple):
    name: str
    unit: str
    description: str
    bounds: Sequence[float]


_OF_TOKENS = _Metric(
    "gen_ai.client.token.usage", "{token}", "Tokens of requests to models", _TOKENS
)
_OF_OPERATIONS = {
    operation: _Metric(name, "s", f"Duration of {operation}", _DURATIONS)
    for operation, name in (
        ("chat", "gen_ai.client.operation.duration"),
        ("execute_tool", "gen_ai.execute_tool.duration"),
        ("invoke_agent", "gen_ai.invoke_agent.duration"),
    )
}
# The conventions have one metric for all requests to models.
_OF_OPERATIONS["embeddings"] = _OF_OPERATIONS["chat"]
_Key = tuple[Attribute | None, ...]
"""Values of `_NAMES`; None: it has no such attribute."""
_OTHERS: _Key = ()
"""The key of what has no place."""


class _Point:
    """The values of one metric with the same attributes."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.count, self.sum = 0, 0.0
        self.min, self.max = float("inf"), float("-inf")
        self.buckets = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self.count += 1
        self.sum += value
        self.min, self.max = min(self.min, value), max(self.max, value)
        self.buckets[bisect_left(self.bounds, value)] += 1


class Measures:
    """Counts spans until they are reported. `now_ns`: the time since the epoch, in ns."""

    def __init__(
        self, variables: Mapping[str, str], now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._now_ns = now_ns
        self._lock = Lock()
        # Some receivers only take what was counted since the last report.
        preference = variables.get(_TEMPORALITY, "").strip().lower()
        self._is_delta = preference in ("delta", "lowmemory")
        self._points: dict[_Metric, dict[_Key, _Point]] = {}
        self._since, self._is_new = now_ns(), False

    @property
    def has_news(self) -> bool:
        """True if anything was counted since the last report."""
        return self._is_new

    def add(self, span: Span) -> None:
        """Count a span, if its kind of operation has a metric."""
        operation = span.operation
        metric = _OF_OPERATIONS.get(operation)
        if metric is None:
            return
        own = span.attributes
        key = (operation, span.error, None, *map(own.get, _IN_METRICS))
        with self._lock:
            self._is_new = True
            self._point(metric, key).add((span.end - span.start).total_seconds())
            for kind, name in _TOKEN_TYPES:
                count = own.get(name)
                if isinstance(count, int):
                    self._point(_OF_TOKENS, (*key[:2], kind, *key[3:])).add(count)

    def _point(self, metric: _Metric, key: _Key) -> _Point:
        points = self._points.setdefault(metric, {})
        point = points.get(key)
        if point is None:
            key = key if len(points) < MAX_SETS else _OTHERS
            point = points.setdefault(key, _Point(metric.bounds))
        return point

    def report(self, resource: Resource) -> bytes:
        """Return a request with all sums. What is counted from now on is news."""
        request = ExportMetricsServiceRequest()
        of_scope = request.resource_metrics.add(resource=resource).scope_metrics.add(scope=SCOPE)
        cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        delta = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        with self._lock:
            now, since = self._now_ns(), self._since
            for metric, points in self._points.items():
                message = of_scope.metrics.add(
                    name=metric.name, unit=metric.unit, description=metric.description
                )
                message.histogram.aggregation_temporality = delta if self._is_delta else cumulative
                message.histogram.data_points.extend(
                    _message(key, point, since, now) for key, point in points.items()
                )
            self._is_new = False
            if self._is_delta:
                self._points, self._since = {}, now
        encoded: bytes = request.SerializeToString()
        return encoded


def _message(key: _Key, point: _Point, since: int, now: int) -> HistogramDataPoint:
    values = {name: value for name, value in zip(_NAMES, key, strict=False) if value is not None}
    return HistogramDataPoint(
        attributes=encode_attributes(values or {"otel.metric.overflow": True}),
        start_time_unix_nano=since,
        time_unix_nano=now,
        count=point.count,
        sum=point.sum,
        bucket_counts=point.buckets,
        explicit_bounds=point.bounds,
        min=point.min,
        max=point.max,
    )
