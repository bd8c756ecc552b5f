"""The spans of one run, from what its writer journals. Every id follows from the run, the step and the call:
a process that does something again, or goes on elsewhere, says the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from layover.keys import child_path, path_of, step_key
from layover.plugins.traces import attributes as names
from layover.plugins.traces.content import as_output, dump
from layover.plugins.traces.requests import OpenRequest, open_request
from layover.ports import Clock, Tracing
from layover.values.runs.event import (
    Event,
    Handoff,
    LoggedEvent,
    MessageEvent,
    ToolExecutionStart,
    TurnStart,
)
from layover.values.runs.run import (
    BUDGET_TOOL,
    HOOKS_TOOL,
    REPLIES_TOOL,
    CallRecord,
    CallState,
    Outcome,
    RunMeta,
    RunSnapshot,
    Status,
    StepRecord,
)
from layover.values.span import RUN, Place, Span, frame_place

_NOT_OF_MODELS = frozenset({HOOKS_TOOL, REPLIES_TOOL})
"""Records of calls that no model made, and that nobody waits for."""
TOOL_ERROR = "tool_error"


@dataclass(frozen=True)
class _Opening:
    """The beginning of a request to a model."""

    path: str
    step: int
    at: datetime
    agent_path: tuple[str, ...]
    request: OpenRequest


class RunSpans:
    """Records the spans of one run for one writer. `content`: also what its messages say."""

    def __init__(
        self, tracing: Tracing, clock: Clock, snapshot: RunSnapshot, *, content: bool
    ) -> None:
        self._tracing = tracing
        self._clock = clock
        self._run = snapshot.meta
        self._content = content
        self._calls = {call.key: call for call in snapshot.calls}
        self._paths = {call.tool_call_id: child_path(call.key) for call in snapshot.calls}
        first = next((s.agent for s in snapshot.steps if s.agent and not path_of(s.key)), "")
        self._first_agent = first or snapshot.meta.agent
        own = [step.key for step in snapshot.steps if not path_of(step.key)]
        self._newest = own[-1] if own else ""
        self._openings: dict[str, _Opening] = {}
        """By the path of the frame: no frame asks twice at once."""
        self._starts: dict[str, datetime] = {}
        """Of calls that run, by their keys."""
        self._args: dict[str, object] = {}
        self._recorded: set[Place] = set()
        self._is_repeating = False

    # What a writer journals

    def emitted(self, events: Iterable[Event | LoggedEvent]) -> None:
        """Note events that are on their way to the log."""
        for event in events:
            if isinstance(event, TurnStart):
                self._ask(event)

    def started(self, calls: Sequence[CallRecord], events: Iterable[Event]) -> None:
        """Calls begin to run. Their waits are over."""
        at = {e.tool_call_id: e for e in events if isinstance(e, ToolExecutionStart)}
        for call in calls:
            self._note(call)
            self._record_wait(call)
            event = at.get(call.tool_call_id)
            self._starts[call.key] = event.at if event else self._clock.now()
            if event and self._content:
                self._args[call.key] = event.args

    def answered(self, step: StepRecord) -> None:
        """A model has answered."""
        path = path_of(step.key)
        if not path:
            self._newest = step.key
        opening = self._openings.pop(path, None)
        if step.replied is not None:  # a hook did, and no model was asked
            return
        asked_for = opening is not None and opening.step == step.index
        start = opening.at if opening and asked_for else step.message.created_at
        request = dict(opening.request.attributes) if opening else {}
        values = {**names.of_model(step.model), **request, **names.of_reply(step)}
        if step.agent:
            values[names.AGENT] = step.agent
        if self._content:
            values["gen_ai.output.messages"] = as_output(step.message, step.finish_reason)
        self._record_chat(step.key, start, self._now_or(step.message.created_at), values)

    def suspended(self, calls: Sequence[CallRecord]) -> None:
        """Calls wait, as given: with the suspension, and the attempt before it."""
        for call in calls:
            before = self._calls.get(call.key)
            if before is not None and before.decision is not None:
                self._record_wait(before)
            asked_at = call.suspension.requested_at if call.suspension else self._clock.now()
            if call.key in self._starts:
                self._record_execution(call, asked_at, suspends=True)
            waiting = {"state": CallState.WAITING, "attempt": call.attempt + 1, "decision": None}
            self._note(call.model_copy(update=waiting))

    def settled(self, call: CallRecord) -> None:
        """A call is over, or the sub-agent that works in its background."""
        if call.tool_name in _NOT_OF_MODELS:
            return
        at = call.settled_at or self._clock.now()
        self._record_wait(call)
        self._note(call)
        child = call.child
        if child is not None and (not child.background or child.answer is not None):
            self._record_child(call, child.ended_at or self._now_or(at))
        if call.state is not CallState.SETTLED or self._is_repeating:
            declined = call.decision is not None and call.key not in self._starts
            if call.tool_name != BUDGET_TOOL and not declined:
                self._record_execution(call, at)

    def cancelled(self, calls: Sequence[CallRecord]) -> None:
        """Calls are settled because the run is about to end."""
        for call in calls:
            at = call.settled_at or self._clock.now()
            self._record_wait(call)
            if call.child is not None:
                self._record_child(call, at)
            if call.key in self._starts or call.child is not None:
                self._record_execution(call, at, error=None)

    def handed_over(self, events: Iterable[Event]) -> None:
        """Another agent goes on."""
        for event in events:
            if isinstance(event, Handoff):
                values: names.Attributes = {
                    names.OPERATION: "handoff",
                    "layover.handoff.from": event.giver,
                    "layover.handoff.to": event.to,
                }
                name = f"handoff {event.giver} to {event.to}"
                place = ("handoff", self._newest)
                self._record(place, RUN, name, start=event.at, end=event.at, values=values)

    def ended(self, outcome: Outcome | RunMeta, at: datetime) -> None:
        """The run is over."""
        failure = outcome.error.type if outcome.error else None
        if outcome.status is not Status.FAILED:
            failure = None
        for opening in self._openings.values():
            key = step_key(opening.path, opening.step)
            values = dict(opening.request.attributes)
            self._record_chat(
                key, opening.at, at, values=values, error=failure, agent_path=opening.agent_path
            )
        self._openings.clear()
        for key in list(self._starts):
            if (call := self._calls.get(key)) is not None:
                self._record_execution(call, at, error=None)
        values = {
            names.OPERATION: "invoke_agent",
            names.AGENT: self._first_agent,
            "layover.status": outcome.status.value,
            "layover.finish_reason": str(outcome.finish_reason),
            **names.of_total(outcome.usage),
        }
        name = f"invoke_agent {self._first_agent}"
        self._record(
            RUN, None, name, start=self._run.created_at, end=at, values=values, error=failure
        )

    # After the death of another process

    def repeat(self, snapshot: RunSnapshot, events: Sequence[LoggedEvent]) -> None:
        """Record again what the journal has, since the process that did it has died: it may have sent nothing
        of it. `events`: the log so far."""
        self._is_repeating = True
        first_starts = self._read_log(snapshot, events)
        for step in snapshot.steps:
            first = first_starts.get((path_of(step.key), step.index))
            if first is not None:
                self._ask(first)
            self.answered(step)
        for call in snapshot.calls:
            if call.state is CallState.SETTLED:
                self.settled(call)
        if snapshot.meta.status.over:
            self.ended(snapshot.meta, snapshot.meta.updated_at)
        self._is_repeating = False
        unsettled = {c.key for c in snapshot.calls if c.state is CallState.OPEN}
        self._starts = {key: at for key, at in self._starts.items() if key in unsettled}
        open_request.set(None)
        now, place = self._clock.now(), ("recover", str(self._run.takes))
        values: names.Attributes = {"layover.writer": self._run.takes}
        self._record(place, RUN, "recover", start=now, end=now, values=values)

    def _read_log(
        self, snapshot: RunSnapshot, events: Sequence[LoggedEvent]
    ) -> dict[tuple[str, int], TurnStart]:
        """Take what only the log has: when calls began, and who handed over. Return the first start of each
        step, by its agent's path and its number."""
        first_starts: dict[tuple[str, int], TurnStart] = {}
        for event in events:
            if isinstance(event, TurnStart):
                first_starts.setdefault((self._path_of(event), event.step), event)
            elif isinstance(event, ToolExecutionStart):
                key = self._paths.get(event.tool_call_id, "").removesuffix("/")
                self._starts[key] = event.at
                if self._content:
                    self._args[key] = event.args
            elif isinstance(event, Handoff):
                self.handed_over([event])
            elif isinstance(event, MessageEvent) and event.model and not event.agent_path:
                steps = (s.key for s in snapshot.steps if s.message.id == event.message.id)
                self._newest = next(steps, self._newest)
        return first_starts

    # Spans

    def _ask(self, event: TurnStart) -> None:
        path = self._path_of(event)
        opening = self._openings.get(path)
        if opening is not None and opening.step == event.step:
            # A stream that broke is asked for again: it is one request, with its retries.
            opening = replace(opening, request=OpenRequest(self._run.id))
        else:
            request = OpenRequest(self._run.id)
            opening = _Opening(path, event.step, event.at, event.agent_path, request)
        self._openings[path] = opening
        open_request.set(opening.request)

    def _path_of(self, event: TurnStart) -> str:
        parent = event.parent_tool_call_id
        return self._paths.get(parent, "") if parent else ""

    def _note(self, call: CallRecord) -> None:
        self._calls[call.key] = call
        self._paths[call.tool_call_id] = child_path(call.key)

    def _record_chat(
        self,
        key: str,
        start: datetime,
        end: datetime,
        values: names.Attributes,
        error: str | None = None,
        agent_path: tuple[str, ...] = (),
    ) -> None:
        path = path_of(key)
        agent = agent_path[-1] if agent_path else self._agent_of(path)
        values = {names.OPERATION: "chat", names.AGENT: agent, **values}
        model = values.get(names.REQUEST_MODEL, "")
        name, around = f"chat {model}".rstrip(), frame_place(path)
        self._record(
            ("step", key),
            around,
            name,
            start=start,
            end=end,
            values=values,
            error=error,
            asks_model=True,
        )

    def _record_execution(
        self,
        call: CallRecord,
        end: datetime,
        *,
        suspends: bool = False,
        error: str | None = TOOL_ERROR,
    ) -> None:
        """`error`: the type of the error, if the call ended with one."""
        start = self._starts.pop(call.key, None)
        if start is None:
            start = call.child.started_at if call.child else end
        values: names.Attributes = {
            names.OPERATION: "execute_tool",
            **names.of_call(call),
            "gen_ai.tool.type": "function",
            names.AGENT: self._agent_of(path_of(call.key)),
        }
        args = self._args.pop(call.key, None)
        if suspends:
            values["layover.suspended"] = True
        if self._content:
            values["gen_ai.tool.call.arguments"] = dump(call.exact_args if args is None else args)
            if not suspends:
                values["gen_ai.tool.call.result"] = dump(call.result)
        failure = error if call.is_error and not suspends else None
        place = ("call", call.key) if call.child else ("call", call.key, str(call.attempt))
        name, around = f"execute_tool {call.tool_name}", frame_place(path_of(call.key))
        self._record(place, around, name, start=start, end=end, values=values, error=failure)

    def _record_child(self, call: CallRecord, end: datetime) -> None:
        child = call.child
        assert child is not None
        values: names.Attributes = {names.OPERATION: "invoke_agent", names.AGENT: child.agent}
        place = frame_place(child_path(call.key))
        name, start = f"invoke_agent {child.agent}", child.started_at
        failure = child.error.type if child.error else None
        self._record(
            place, ("call", call.key), name, start=start, end=end, values=values, error=failure
        )

    def _record_wait(self, call: CallRecord) -> None:
        """Record the wait of a call for a person, if it had one that is over."""
        suspension, decision = call.suspension, call.decision
        if suspension is None or decision is None or not call.attempt:
            return
        values: names.Attributes = {
            names.OPERATION: "wait",
            **names.of_call(call),
            "layover.wait.kind": suspension.kind.value,
            "layover.wait.decision": decision.kind.value,
            "layover.wait.via": decision.via.value,
        }
        place, around = ("wait", call.key, str(call.attempt)), frame_place(path_of(call.key))
        name = f"wait {call.tool_name}"
        self._record(
            place, around, name, start=suspension.requested_at, end=decision.at, values=values
        )

    def _agent_of(self, path: str) -> str:
        call = self._calls.get(path.removesuffix("/")) if path else None
        return call.child.agent if call is not None and call.child else self._run.agent

    def _now_or(self, recorded: datetime) -> datetime:
        return recorded if self._is_repeating else self._clock.now()

    def _record(
        self,
        place: Place,
        parent: Place | None,
        name: str,
        start: datetime,
        end: datetime,
        values: names.Attributes,
        error: str | None = None,
        *,
        asks_model: bool = False,
    ) -> None:
        if place in self._recorded and place[0] == "wait":
            return
        self._recorded.add(place)
        span = Span(
            run_id=self._run.id,
            place=place,
            parent=parent,
            name=name,
            start=min(start, end),
            end=end,
            attributes={**names.of_run(self._run), **values},
            error=error,
            link=self._run.traceparent if parent is None else None,
            asks_model=asks_model,
            is_repeated=self._is_repeating,
        )
        self._tracing.record(span)
