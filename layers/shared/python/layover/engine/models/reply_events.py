"""The events of a reply as it arrives: deltas, the partial output, and the ids that its calls will have."""

from collections.abc import Callable
from datetime import datetime

from layover.declare.agent import Agent
from layover.declare.schemas.render import jsonable
from layover.engine.hooks.stream_changes import StreamChanges
from layover.keys import encode_id
from layover.ports import Clock, Ids
from layover.values.base import Json, compact_json
from layover.values.message import ReasoningPart, TextPart, ToolCallPart
from layover.values.prompt import Delta, Reply
from layover.values.runs.event import (
    Event,
    ModelRetry,
    OutputDelta,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    TurnStart,
)
from layover.values.runs.run import StepRecord
from layover.values.text import sanitise

GROWTH = 1.2
"""The factor by which the text grows between two events with the partial output, so that their total size
stays proportional to a long answer's."""
FIRST = 16
"""The characters of text beyond that factor."""


class ReplyEvents:
    """The events of one reply. `streams`: False if its deltas are left out, or held back until it is
    complete. A request or a step that begins again is announced in either case. `emit`: adds events to the
    run's log; `changes`: the hooks' of the reply's deltas."""

    def __init__(
        self,
        emit: Callable[..., None],
        index: int,
        clock: Clock,
        names: "CallNames",
        agent: Agent,
        *,
        streams: bool,
        changes: StreamChanges | None = None,
    ) -> None:
        self._emit = emit
        self._index = index
        self._clock = clock
        self._names = names
        self._streams = streams
        self._changes = changes if streams else None
        self._partial = _PartialOutput(agent)
        self._has_told = False

    def on_delta(self, delta: Delta) -> None:
        """Add a piece of the reply."""
        if delta.kind == "retry":
            self._emit(_event(delta, self._index, self._clock, self._names))
            return
        if delta.kind == "restart":
            self._partial.restart()
        elif not self._streams:
            return
        for piece in [delta] if self._changes is None else self._changes.change(delta):
            self._tell(piece)

    def _tell(self, delta: Delta) -> None:
        self._has_told = delta.kind != "restart"
        self._emit(_event(delta, self._index, self._clock, self._names))
        if delta.kind == "text":
            self._tell_output(self._partial.after(delta.text))

    def reject(self) -> None:
        """Take back what was shown of a reply that hooks have rejected."""
        if self._changes is not None and not self._changes.is_empty:
            # The names of the reply's calls are in its record by now, and stay.
            self._partial.restart()
            self._emit(TurnStart(at=self._clock.now(), step=self._index))

    def tell(self, step: StepRecord) -> None:
        """Emit a reply that no model made, whole. An earlier request of the step may have streamed."""
        if self._has_told:
            self.on_delta(Delta(kind="restart"))
        self._emit(*_deltas(step, self._clock.now()))
        if step.correction is None and not step.is_refused:
            self._tell_output(self._partial.whole(step.message.text))

    def finish(self, reply: Reply, step: StepRecord) -> None:
        """Emit what was held back, and the output of the whole reply. `reply`: the model's."""
        is_told = self._streams
        if self._changes is not None:
            for rest in self._changes.finish():
                self._tell(rest)
            is_told = self._changes.keeps(reply, step)
            if not is_told:
                self.reject()
        if not is_told:
            self._emit(*_deltas(step, self._clock.now()))
        if not step.slots and step.correction is None:
            self._tell_output(self._partial.whole(step.message.text))

    def _tell_output(self, output: Json) -> None:
        if output is not None:
            now = self._clock.now()
            self._emit(OutputDelta(at=now, step=self._index, output=output))


class _PartialOutput:
    """The structured output that a reply's text contains so far."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.restart()

    def restart(self) -> None:
        """Begin the reply again."""
        self._length = self._next = 0
        self._pieces: list[str] = []
        self._last_output: Json = None

    def after(self, text: str) -> Json:
        """Return the output with this piece of text; None if there is nothing new."""
        if self._agent.output is None:
            return None
        self._pieces.append(text)
        self._length += len(text)
        if self._length < self._next:
            return None
        text = "".join(self._pieces)
        self._pieces = [text]
        self._next = int(self._length * GROWTH) + FIRST
        return self._new(text)

    def whole(self, text: str) -> Json:
        """Return the output of the whole reply."""
        return None if self._agent.output is None else self._new(text)

    def _new(self, text: str) -> Json:
        output = self._agent.partial_output(sanitise(text))
        if output in (None, {}, [], self._last_output):
            return None
        self._last_output = jsonable(output)
        return self._last_output


class CallNames:
    """Ids of one reply's calls that are new in the run: the provider's own wherever possible. Deltas
    name a call as its message will."""

    def __init__(self, used: set[str], ids: Ids, longest: int) -> None:
        self._used = used
        self._ids = ids
        self._longest = longest
        self._named: dict[int, str] = {}

    def of(self, at: int, provider_id: str) -> str:
        """Return the id of the reply's call number `at`, which the provider calls `provider_id`."""
        if at not in self._named:
            self._named[at] = self._new(sanitise(provider_id))
            self._used.add(self._named[at])
        return self._named[at]

    def forget(self) -> None:
        """Forget the ids: the reply begins again."""
        self._used.difference_update(self._named.values())
        self._named.clear()

    def _new(self, call_id: str) -> str:
        if not call_id or len(encode_id(call_id)) > self._longest:
            return self._ids.new("call")
        if call_id in self._used:
            return f"{call_id}-{self._ids.new('call')}"
        return call_id


def _event(delta: Delta, step: int, clock: Clock, names: CallNames) -> Event:
    now = clock.now()
    match delta.kind:
        case "text":
            return TextDelta(at=now, step=step, text=sanitise(delta.text))
        case "reasoning":
            return ReasoningDelta(at=now, step=step, text=sanitise(delta.text))
        case "tool-call":
            return ToolCallDelta(
                at=now,
                step=step,
                tool_call_id=names.of(delta.call, delta.tool_call_id),
                tool_name=sanitise(delta.tool_name),
                args_delta=sanitise(delta.text),
            )
        case "restart":
            names.forget()
            return TurnStart(at=now, step=step)
        case "retry":
            return ModelRetry(at=now, step=step, reason=delta.text)


def _deltas(step: StepRecord, now: datetime) -> list[Event]:
    """Return a reply that was held back as one delta of each kind."""
    events: list[Event] = []
    for part in step.message.content:
        match part:
            case ReasoningPart():
                events.append(ReasoningDelta(at=now, step=step.index, text=part.text))
            case TextPart():
                events.append(TextDelta(at=now, step=step.index, text=part.text))
            case ToolCallPart():
                args = part.args if isinstance(part.args, str) else compact_json(part.args)
                events.append(
                    ToolCallDelta(
                        at=now,
                        step=step.index,
                        tool_call_id=part.tool_call_id,
                        tool_name=part.tool_name,
                        args_delta=args,
                    )
                )
    return events
