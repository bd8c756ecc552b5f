"""The part that implementations of `ports.Tracing` share: the work of memory, which no journal has."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from layover.adapters.tracing import attributes as names
from layover.adapters.tracing.requests import OpenRequest, open_request
from layover.ports import Clock
from layover.values.runs.run import RunMeta
from layover.values.span import RUN, MemoryRead, Span


class Recorder(ABC):
    """`ports.Tracing` over `record`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @abstractmethod
    def record(self, span: Span) -> None:
        """See `ports.Tracing`."""

    @contextmanager
    def memory(self, run: RunMeta, task: str) -> Iterator[None]:
        """See `ports.Tracing`."""
        start, request = self._clock.now(), OpenRequest(run.id)
        token, error = open_request.set(request), None
        try:
            yield
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            open_request.reset(token)
            self._record_memory(
                run,
                task,
                request,
                Span(
                    run_id=run.id,
                    # With its time: memory that is asked again asks another question, and pays again.
                    place=("memory", task, start.isoformat()),
                    parent=RUN,
                    name=f"update_memory {task}",
                    start=start,
                    end=self._clock.now(),
                    attributes={
                        **names.of_run(run),
                        names.OPERATION: "update_memory",
                        names.AGENT: run.agent,
                        "layover.memory.task": task,
                    },
                    error=error,
                ),
            )

    @contextmanager
    def search(self, run: RunMeta) -> Iterator[MemoryRead]:
        """See `ports.Tracing`."""
        start, read, error = self._clock.now(), MemoryRead(), None
        try:
            yield read
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            self.record(
                Span(
                    run_id=run.id,
                    # With its time: an attempt that follows a dead one reads again.
                    place=("search", start.isoformat()),
                    parent=RUN,
                    name="search_memory",
                    start=start,
                    end=self._clock.now(),
                    attributes={
                        **names.of_run(run),
                        names.OPERATION: "search_memory",
                        names.AGENT: run.agent,
                        **names.of_read(read),
                    },
                    error=error,
                )
            )

    def _record_memory(self, run: RunMeta, task: str, request: OpenRequest, memory: Span) -> None:
        values: names.Attributes = {
            **names.of_run(run),
            names.OPERATION: "chat",
            names.AGENT: run.agent,
            "layover.memory.task": task,
            **request.attributes,
        }
        if request.reply is not None:
            values[names.RESPONSE_MODEL] = (
                request.reply.model.partition("/")[2] or request.reply.model
            )
            values.update(names.of_usage(request.reply.usage))
        if request.attributes:
            self.record(
                Span(
                    run_id=run.id,
                    place=("chat", *memory.place),
                    parent=memory.place,
                    name=f"chat {values.get(names.REQUEST_MODEL, '')}".rstrip(),
                    start=memory.start,
                    end=memory.end,
                    attributes=values,
                    error=memory.error,
                    asks_model=True,
                )
            )
        self.record(memory)
