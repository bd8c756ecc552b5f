"""The part that implementations of `ports.Tracing` share: the work of memory, questions of hooks, and
requests to embedders, which no journal has."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from layover.plugins.traces import attributes as names
from layover.plugins.traces.requests import OpenRequest, open_request
from layover.ports import Clock
from layover.values.runs.run import RunMeta
from layover.values.span import RUN, EmbeddingRequest, MemoryRead, Place, Span, frame_place

_around: ContextVar[Place] = ContextVar("layover_around", default=RUN)
"""The place of the part of a run that this task records."""


@dataclass
class _Part:
    """A part of a run that goes on."""

    place: Place
    attributes: names.Attributes


class Recorder(ABC):
    """`ports.Tracing` over `record`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @abstractmethod
    def record(self, span: Span) -> None:
        """See `ports.Tracing`."""

    @contextmanager
    def memory(self, run: RunMeta, task: str, agent: str) -> Iterator[None]:
        """See `ports.Tracing`."""
        values: names.Attributes = {names.AGENT: agent, "layover.memory.task": task}
        work = {names.OPERATION: "update_memory", **values}
        with (
            self._part(run, ("memory", task), RUN, f"update_memory {task}", work) as part,
            self._request(run, part.place, part.place, values),
        ):
            yield

    @contextmanager
    def search(self, run: RunMeta, agent: str, path: str = "") -> Iterator[MemoryRead]:
        """See `ports.Tracing`."""
        values: names.Attributes = {names.OPERATION: "search_memory", names.AGENT: agent}
        place = ("search", path) if path else ("search",)
        read = MemoryRead()
        with self._part(run, place, frame_place(path), "search_memory", values) as part:
            try:
                yield read
            finally:
                part.attributes.update(names.of_read(read))

    @contextmanager
    def question(self, run: RunMeta, agent: str, path: str) -> Iterator[None]:
        """See `ports.Tracing`."""
        values: names.Attributes = {names.AGENT: agent, "layover.asked_by": "hook"}
        with self._request(run, ("question", path), frame_place(path), values):
            yield

    @contextmanager
    def embedding(self, run: RunMeta, agent: str, model: str) -> Iterator[EmbeddingRequest]:
        """See `ports.Tracing`."""
        around, answer = _around.get(), EmbeddingRequest()
        values: names.Attributes = {
            names.OPERATION: "embeddings",
            names.AGENT: agent,
            **names.of_model(model),
        }
        name = f"embeddings {values[names.REQUEST_MODEL]}"
        place = ("embeddings", *around)
        with self._part(run, place, around, name, values, asks_model=True) as part:
            try:
                yield answer
            finally:
                part.attributes.update(names.of_embedding(answer))

    @contextmanager
    def _part(
        self,
        run: RunMeta,
        place: Place,
        parent: Place,
        name: str,
        values: names.Attributes,
        *,
        asks_model: bool = False,
    ) -> Iterator[_Part]:
        """Record what is done inside as one span. Its place has its time: what is done again is another one,
        after a death as well."""
        start, error = self._clock.now(), None
        part = _Part((*place, start.isoformat()), dict(values))
        token = _around.set(part.place)
        try:
            yield part
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            _around.reset(token)
            self.record(
                Span(
                    run_id=run.id,
                    place=part.place,
                    parent=parent,
                    name=name,
                    start=start,
                    end=self._clock.now(),
                    attributes={**names.of_run(run), **part.attributes},
                    error=error,
                    asks_model=asks_model,
                )
            )

    @contextmanager
    def _request(
        self, run: RunMeta, place: Place, parent: Place, values: names.Attributes
    ) -> Iterator[None]:
        """Record the request to a model that is made inside, if one is made."""
        start, request, error = self._clock.now(), OpenRequest(run.id), None
        token = open_request.set(request)
        try:
            yield
        except BaseException as failure:
            error = type(failure).__name__
            raise
        finally:
            open_request.reset(token)
            if request.attributes:
                self.record(
                    Span(
                        run_id=run.id,
                        place=("chat", *place, start.isoformat()),
                        parent=parent,
                        name=f"chat {request.attributes.get(names.REQUEST_MODEL, '')}".rstrip(),
                        start=start,
                        end=self._clock.now(),
                        attributes={
                            **names.of_run(run),
                            names.OPERATION: "chat",
                            **values,
                            **request.attributes,
                            **(names.of_answer(request.reply) if request.reply else {}),
                        },
                        error=error,
                        asks_model=True,
                    )
                )
