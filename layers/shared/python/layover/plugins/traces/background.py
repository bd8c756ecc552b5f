"""Traces of a process that is not frozen: a thread sends now and then, as in any other program."""

import atexit
import os
from functools import cache
from threading import Event, Lock, Thread

from layover.plugins.traces.measures import Measures
from layover.plugins.traces.otlp import Recorded
from layover.plugins.traces.receiver import SIGNALS, LibrarySender, Receiver
from layover.values.span import Span

EVERY_S = 5.0
"""Seconds between two requests."""
MANY = 512
"""So many spans are sent at once."""


class BackgroundTracing(Recorded):
    """`ports.Tracing` that sends every `EVERY_S`, and what is left when the process ends."""

    _thread: Thread | None = None

    def start(self) -> "BackgroundTracing":
        """Begin to send, until the process ends."""
        self.renew()
        atexit.register(self.send, is_last=True)
        # A process that a server forks has none of its parent's threads, and no part in its spans.
        os.register_at_fork(after_in_child=self.renew)
        return self

    def renew(self) -> None:
        """Forget everything. Another thread begins with the next span."""
        self._waiting.clear()
        self._measures = Measures(self._variables)
        self._lock, self._is_urgent, self._thread = Lock(), Event(), None
        self._sender = cache(self._make_sender)

    def record(self, span: Span) -> None:
        """See `ports.Tracing`."""
        super().record(span)
        if self._thread is None:
            self._thread = Thread(target=self._work, name="layover-otlp", daemon=True)
            self._thread.start()
        if len(self._waiting) >= MANY:
            self._is_urgent.set()

    async def finish(self) -> None:
        """Do nothing: the thread sends."""

    def _work(self) -> None:
        while True:
            self._is_urgent.wait(EVERY_S)
            self._is_urgent.clear()
            if self._may_send():
                self.send()

    def send(self, *, is_last: bool = False) -> None:
        """Send what was recorded. Waits for the receiver, and raises nothing."""
        signal = "traces"
        try:
            with self._lock:
                self._post_spans()
                signal = "metrics"
                if self._are_metrics_due() or (is_last and self._measures.has_news):
                    self._sender(signal).post_now(self._reported())
        except Exception as error:
            self._failed(signal, error)

    def _post_spans(self) -> None:
        while self._waiting:
            with self._batch() as spans:
                self._sender("traces").post_now(self._encoded(spans))

    async def aclose(self) -> None:
        """Close the connections."""
        for signal in SIGNALS:
            await self._sender(signal).aclose()

    def _make_sender(self, signal: str) -> LibrarySender:
        return LibrarySender(Receiver.of(signal, self._variables, self._headers), self._flush_s)
