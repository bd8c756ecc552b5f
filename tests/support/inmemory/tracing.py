"""Spans that stay in this process."""

from layover.plugins.traces.recorder import Recorder
from layover.ports import Clock
from layover.values.span import Span


class InMemoryTracing(Recorder):
    """`ports.Tracing` that keeps the spans, in the order in which they ended."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.spans: list[Span] = []

    def record(self, span: Span) -> None:
        """Keep the span."""
        self.spans.append(span)

    async def finish(self) -> None:
        """Do nothing: they are here."""
