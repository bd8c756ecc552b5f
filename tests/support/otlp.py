"""A receiver of OTLP over HTTP on this machine, which reads what it gets as any other would."""

import gzip
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status


@dataclass(frozen=True)
class Seen:
    """A span as it was received; times in seconds since the epoch."""

    id: str
    trace: str
    parent: str
    name: str
    start: float
    end: float
    is_error: bool
    attributes: Mapping[str, Any]
    links: tuple[tuple[str, str], ...]
    service: str

    @classmethod
    def of(cls, span: Span, service: str) -> "Seen":
        return cls(
            id=span.span_id.hex(),
            trace=span.trace_id.hex(),
            parent=span.parent_span_id.hex(),
            name=span.name,
            start=span.start_time_unix_nano / 1e9,
            end=span.end_time_unix_nano / 1e9,
            is_error=span.status.code == Status.STATUS_CODE_ERROR,
            attributes={each.key: _value(each.value) for each in span.attributes},
            links=tuple((each.trace_id.hex(), each.span_id.hex()) for each in span.links),
            service=service,
        )


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, str(kind))


@dataclass
class Receiver:
    """`spans`, in the order of their arrival; `points`: of metrics, by their names, with sums and counts.
    `status`: what it answers; `waits`: it answers only once this is set. `connections`: that were opened;
    `closes`: it hangs up after an answer without saying so, as one that was idle for long. `max_body`: a
    larger one is answered with 413."""

    url: str = ""
    status: int = 200
    waits: threading.Event | None = None
    connections: int = 0
    closes: bool = False
    max_body: int | None = None
    requests: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    spans: list[Seen] = field(default_factory=list)
    points: dict[str, list[tuple[float, int, Mapping[str, Any]]]] = field(default_factory=dict)

    def tree(self) -> list[str]:
        """Return the names of the spans, each once, indented below their parents, by their times."""
        by_id = {span.id: span for span in self.spans}
        lines: list[str] = []

        def add(parent: str, depth: int) -> None:
            children = [s for s in by_id.values() if s.parent == parent]
            for span in sorted(children, key=lambda s: (s.start, s.end)):
                lines.append("  " * depth + span.name)
                add(span.id, depth + 1)

        roots = {s.parent for s in by_id.values() if s.parent not in by_id}
        for parent in sorted(roots):
            add(parent, 0)
        return lines

    def named(self, name: str) -> Seen:
        """Return the span of this name, of which there is one, however often it was received."""
        [span] = {s.id: s for s in self.spans if s.name == name}.values()
        return span

    def take(self, path: str, body: bytes) -> None:
        if "metrics" not in path:
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                names = {a.key: _value(a.value) for a in of_resource.resource.attributes}
                for scope in of_resource.scope_spans:
                    self.spans += [Seen.of(s, str(names.get("service.name"))) for s in scope.spans]
        else:
            for each in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (m for scope in each.scope_metrics for m in scope.metrics):
                    self.points[metric.name] = [
                        (p.sum, p.count, {a.key: _value(a.value) for a in p.attributes})
                        for p in metric.histogram.data_points
                    ]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        """With connections that are kept, as receivers do."""
        disable_nagle_algorithm = True

        def setup(self) -> None:
            receiver.connections += 1
            super().setup()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            elif self.headers.get("content-encoding") == "deflate":
                body = zlib.decompress(body)
            receiver.requests.append(self.path)
            receiver.headers.append({k.lower(): v for k, v in self.headers.items()})
            receiver.bodies.append(body)
            if receiver.waits is not None:
                receiver.waits.wait(120)
            too_large = receiver.max_body is not None and len(body) > receiver.max_body
            status = 413 if too_large else receiver.status
            if status == 200:
                receiver.take(self.path, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()
            self.close_connection = self.close_connection or receiver.closes

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        if receiver.waits is not None:
            receiver.waits.set()
        server.shutdown()
        server.server_close()
        thread.join()
