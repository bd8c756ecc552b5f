"""The view of a run, made from its events in order.

`RunView` is the one place that knows which text is open, which calls are known, run and wait, and what a step
that begins again makes void. It turns each event into changes. An encoder says them in the words of a
protocol (`ui_messages`, `ag_ui`) or on a terminal (`cli/chat/answer.py`), and keeps nothing but what its
protocol needs.

    view = RunView("run_1")
    for event in events:
        for change in view.apply(event):
            ...

The console has the same in JavaScript (`functions/api/console/page/events.js`). The same logs test both."""

from collections.abc import Callable, Sequence
from typing import Any

from layover.plugins.fronts.protocols.changes import (
    AgentChanged,
    AgentRedefined,
    CallAnnounced,
    CallArgsGrew,
    CallChanged,
    CallDecided,
    CallRan,
    CallSettled,
    CallShown,
    CallSuspended,
    CallView,
    Change,
    DataEmitted,
    DataShown,
    ErrorTold,
    FileShown,
    FrameView,
    HookAnswered,
    Kind,
    LoopEnded,
    ModelAskedAgain,
    ModelAwaited,
    ModelChanged,
    ModelSpared,
    OutputGrew,
    ResponseTold,
    RunBegan,
    RunEnded,
    RunGoesOn,
    StepBegan,
    StepEnded,
    StepVoided,
    TextBegan,
    TextBlock,
    TextEnded,
    TextGrew,
    ToolsRefused,
    Unknown,
    VoteCast,
    WaitChanged,
)
from layover.plugins.fronts.protocols.event_json import EventJson
from layover.values.message import Message
from layover.values.runs.event import (
    ApprovalEscalated,
    ApprovalExtended,
    ApprovalReminder,
    Finish,
    HookDecided,
    LoggedEvent,
    MessageEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallApproval,
    ToolCallDecided,
    ToolCallDelta,
    ToolCallSuspended,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
    UnknownEvent,
)


class RunView:
    """The view of a run. `apply` takes its events from the first on, each once."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.own = FrameView(run_id)
        """The part of the run's own agent."""
        self.calls: dict[str, CallView] = {}
        """All calls, by id."""
        self.waiting: dict[str, CallView] = {}
        """Calls that wait undecided, by id, in the order in which they began to wait."""
        self.running: set[str] = set()
        """Ids of the calls that run or are decided, of sub-agents those that are shown."""
        self._frames: dict[str, FrameView] = {}
        """Sub-agents' parts, by the call that they work in."""

    @property
    def waits(self) -> bool:
        """True if the run waits for a person and no part of it is working."""
        return bool(self.waiting) and all(map(self._rests, self.running))

    def apply(self, event: LoggedEvent | EventJson) -> Sequence[Change]:
        """Return what the event changes, in order."""
        frame = self._frame(event) if event.agent_path else self.own
        if event.__class__ is UnknownEvent:
            return (Unknown(frame, event),)
        react = _REACTIONS.get(event.type)
        if react is not None:
            return react(self, frame, event)
        return (_PASSED_ON.get(event.type, Unknown)(frame, event),)

    def end_text(self) -> Sequence[Change]:
        """End the open text of the run's own agent, because a protocol shows something else next."""
        return self._end_text(self.own)

    def end_step(self) -> Sequence[Change]:
        """End the step of the run's own agent and its text, because an answer ends before the step does."""
        return self._end_step(self.own)

    def _frame(self, event: LoggedEvent | EventJson) -> FrameView:
        path = event.agent_path
        key = event.parent_tool_call_id
        if key is None:
            # A waiting call names its agent, even if that is the run's own.
            if len(path) == 1:
                return self.own
            key = " > ".join(path)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = FrameView(f"{self.run_id}-{key}", tuple(path), is_own=False)
        return frame

    def _call(self, call_id: str, name: str | None) -> CallView:
        call = self.calls.get(call_id)
        if call is None:
            call = self.calls[call_id] = CallView(call_id)
        call.name = name or call.name
        return call

    def _rests(self, call_id: str) -> bool:
        """Return whether a running call only waits: a sub-agent works in it, and all its open calls wait. A
        sub-agent without open calls is asking its model."""
        frame = self._frames.get(call_id)
        if frame is None or not (frame.waiting or frame.running):
            return False
        return all(map(self._rests, frame.running))

    # Steps and texts

    def _begin_step(self, frame: FrameView, event: TurnStart) -> Sequence[Change]:
        step = event.step
        if frame.step is not None and frame.step == step:
            has_text = "text" in frame.told
            changes = [
                *self._end_text(frame),
                StepVoided(frame, step, has_text),
                StepBegan(frame, step),
            ]
        else:
            changes = [*self._end_step(frame), StepBegan(frame, step)]
        for call in frame.drafts:
            call.draft, call.is_announced = "", False
        frame.drafts.clear()
        frame.told.clear()
        frame.step, frame.has_message = step, False
        return changes

    def _end_step(self, frame: FrameView, text: str = "") -> Sequence[Change]:
        changes = self._end_text(frame)
        if frame.step is None:
            return changes
        step, frame.step = frame.step, None
        return (*changes, StepEnded(frame, step, text))

    def _complete_step(self, frame: FrameView, event: TurnEnd) -> Sequence[Change]:
        message: Message | None = event.message
        texts = [part.text for part in message.content if part.type == "text"] if message else []
        changes: list[Change] = []
        if not frame.has_message and "text" not in frame.told:
            for text in texts:
                changes += self._write(frame, "text", text, is_whole=True)
        if frame.step is None:
            frame.step = event.step
        return (*changes, *self._end_step(frame, "".join(texts)))

    def _write_text(self, frame: FrameView, event: TextDelta) -> Sequence[Change]:
        # A long answer is nothing but these: the common case takes no further call.
        block = frame.text
        if block is not None and block.kind == "text":
            return (TextGrew(frame, block, event.text),)
        return self._write(frame, "text", event.text)

    def _write_reasoning(self, frame: FrameView, event: ReasoningDelta) -> Sequence[Change]:
        return self._write(frame, "reasoning", event.text)

    def _write(
        self, frame: FrameView, kind: Kind, piece: str, *, is_whole: bool = False
    ) -> Sequence[Change]:
        block = frame.text
        if block is not None and block.kind == kind:
            return (TextGrew(frame, block, piece),)
        ended = self._end_text(frame)
        frame.told.add(kind)
        frame.texts += 1
        frame.text = block = TextBlock(kind, f"{frame.id}-{frame.texts}")
        return (*ended, TextBegan(frame, block, is_whole), TextGrew(frame, block, piece))

    def _end_text(self, frame: FrameView) -> Sequence[Change]:
        block = frame.text
        if block is None:
            return ()
        frame.text = None
        return (TextEnded(frame, block),)

    def _tell_message(self, frame: FrameView, event: MessageEvent) -> Sequence[Change]:
        """Tell the parts of a message that did not come in pieces before. Its calls are shown when it is
        their turn, and their results with their ends."""
        message: Message | None = event.message
        if message is None:
            return (Unknown(frame, event),)
        if message.role == "user":
            # The run was sent it meanwhile: it is nothing that the agent said.
            return ()
        is_reply = message.role == "assistant"
        # The message repeats what has already come in pieces.
        in_pieces = frozenset(frame.told)
        changes: list[Change] = []
        # A client reads parts that no class describes.
        parts: Sequence[Any] = message.content
        for part in parts:
            is_told = part.type in in_pieces or (part.type == "text" and not is_reply)
            changes += self._tell_part(frame, part, is_told=is_told)
        changes += self._end_text(frame)
        if is_reply:
            frame.has_message = True
            frame.drafts.clear()
        return changes

    def _tell_part(self, frame: FrameView, part: Any, *, is_told: bool) -> Sequence[Change]:
        """Tell a part of a message. `is_told`: its text is not to be shown (again)."""
        match part.type:
            case "reasoning" | "text":
                if is_told or not (part.text or part.type == "text"):
                    return ()
                return self._write(frame, part.type, part.text, is_whole=True)
            case "tool_call":
                self._call(part.tool_call_id, part.tool_name).args = part.args
                return ()
            case "file":
                return (*self._end_text(frame), FileShown(frame, part))
            case "data":
                return (DataShown(frame, part),)
            case "tool_result":
                return ()
            case _:
                return (Unknown(frame, part),)

    # Calls

    def _grow_args(self, frame: FrameView, event: ToolCallDelta) -> Sequence[Change]:
        call = self._call(event.tool_call_id, event.tool_name)
        grew = CallArgsGrew(frame, call, event.args_delta)
        if not frame.is_own:
            return (grew,)
        call.draft += event.args_delta
        if call not in frame.drafts:
            frame.drafts.append(call)
        if call.is_announced or call is not frame.drafts[0]:
            return (grew,)
        call.is_announced = True
        return (CallAnnounced(frame, call), grew)

    def _show(self, frame: FrameView, call: CallView, args: Any) -> Sequence[Change]:
        """Show the call once, and again if its arguments have changed."""
        is_changed = args is not None and args != call.args
        if args is not None:
            call.args = args
        if call.is_shown:
            return (*self.end_text(), CallChanged(frame, call)) if is_changed else ()
        if not frame.is_own and call.pending is None:
            return ()
        call.is_shown = True
        return (*self.end_text(), CallShown(frame, call))

    def _answer_of_hook(self, frame: FrameView, event: HookDecided) -> Sequence[Change]:
        return (HookAnswered(frame, self._call(event.tool_call_id, event.tool_name), event),)

    def _run_call(self, frame: FrameView, event: ToolExecutionStart) -> Sequence[Change]:
        call = self._call(event.tool_call_id, event.tool_name)
        changes = self._show(frame, call, event.args)
        frame.running.add(call.id)
        if call.is_shown:
            self.running.add(call.id)
        return (*changes, CallRan(frame, call))

    def _suspend(self, frame: FrameView, event: ToolCallSuspended) -> Sequence[Change]:
        call = self._call(event.tool_call_id, event.tool_name)
        self._stop(frame, call)
        # What was decided before was about an earlier attempt.
        call.pending, call.decision = event, None
        frame.waiting.add(call.id)
        self.waiting[call.id] = call
        return (*self._show(frame, call, event.args), CallSuspended(frame, call))

    def _vote(self, frame: FrameView, event: ToolCallApproval) -> Sequence[Change]:
        call = self._call(event.tool_call_id, None)
        if call.pending is not None:
            call.pending = _with_vote(call.pending, event)
        return (VoteCast(frame, call, event),)

    def _remind(self, frame: FrameView, event: ApprovalReminder) -> Sequence[Change]:
        return (WaitChanged(frame, self._call(event.tool_call_id, None), event),)

    def _escalate(self, frame: FrameView, event: ApprovalEscalated) -> Sequence[Change]:
        call = self._call(event.tool_call_id, None)
        if call.pending is not None:
            call.pending = _with_approvers(call.pending, event.to)
        return (WaitChanged(frame, call, event),)

    def _extend(self, frame: FrameView, event: ApprovalExtended) -> Sequence[Change]:
        call = self._call(event.tool_call_id, None)
        if call.pending is not None:
            call.pending = _with_expiry(call.pending, event.expires_at)
        return (WaitChanged(frame, call, event),)

    def _decide(self, frame: FrameView, event: ToolCallDecided) -> Sequence[Change]:
        call = self._call(event.tool_call_id, None)
        call.decision, call.pending = event.decision, None
        frame.waiting.discard(call.id)
        self.waiting.pop(call.id, None)
        # It goes on from here, though it may never be said to run: a denial is its result at once.
        frame.running.add(call.id)
        self.running.add(call.id)
        return (CallDecided(frame, call, event),)

    def _settle(self, frame: FrameView, event: ToolExecutionEnd) -> Sequence[Change]:
        call = self._call(event.tool_call_id, event.tool_name)
        self._stop(frame, call)
        changes = self._show(frame, call, None)
        call.result, call.is_error = event.result, bool(event.is_error)
        return (*changes, CallSettled(frame, call))

    def _stop(self, frame: FrameView, call: CallView) -> None:
        call.pending = None
        for calls in (frame.running, frame.waiting, self.running):
            calls.discard(call.id)
        self.waiting.pop(call.id, None)

    # The run

    def _end_run(self, frame: FrameView, event: Finish) -> Sequence[Change]:
        ended = self._end_step(frame)
        if frame.is_own:
            self.waiting.clear()
            self.running.clear()
        return (*ended, RunEnded(frame, event))


def _with_expiry(pending: Any, expires_at: Any) -> Any:
    """Return the event with which a call began to wait, as if it had said this expiry."""
    if isinstance(pending, EventJson):
        return EventJson({**pending.json, "expires_at": expires_at})
    return pending.model_copy(update={"expires_at": expires_at})


def _with_vote(pending: Any, event: Any) -> Any:
    """Return the event with which a call began to wait, as if it had told of this vote. Each person counts
    once."""
    approval, person = pending.approval, event.on_behalf_of or event.by
    if isinstance(pending, EventJson):
        rule = approval if isinstance(approval, dict) else {}
        names = ("by", "on_behalf_of", "at", "args", "reason")
        vote = {name: event.json[name] for name in names if event.json.get(name) is not None}
        votes = rule.get("given") or ()
        others = [v for v in votes if (v.get("on_behalf_of") or v.get("by")) != person]
        return EventJson({**pending.json, "approval": {**rule, "given": [*others, vote]}})
    if approval is None:
        return pending
    votes = (*(v for v in approval.given if v.person != person), event.vote)
    return pending.model_copy(update={"approval": approval.model_copy(update={"given": votes})})


def _with_approvers(pending: Any, groups: Any) -> Any:
    """Return the event with which a call began to wait, as if it had named these groups, too."""
    approval = pending.approval
    if isinstance(pending, EventJson):
        rule = approval if isinstance(approval, dict) else {}
        by = [*dict.fromkeys((*(rule.get("by") or ()), *(groups or ())))]
        return EventJson({**pending.json, "approval": {**rule, "by": by}})
    return pending.model_copy(update={"approval": approval and approval.escalated()})


_REACTIONS: dict[str, Callable[[RunView, FrameView, Any], Sequence[Change]]] = {
    "turn-start": RunView._begin_step,
    "text-delta": RunView._write_text,
    "reasoning-delta": RunView._write_reasoning,
    "tool-call-delta": RunView._grow_args,
    "message": RunView._tell_message,
    "hook-decision": RunView._answer_of_hook,
    "tool-execution-start": RunView._run_call,
    "tool-call-suspended": RunView._suspend,
    "tool-call-approval": RunView._vote,
    "approval-reminder": RunView._remind,
    "approval-escalated": RunView._escalate,
    "approval-extended": RunView._extend,
    "tool-call-decided": RunView._decide,
    "tool-execution-end": RunView._settle,
    "turn-end": RunView._complete_step,
    "finish": RunView._end_run,
}
"""By the type of the event."""

_PASSED_ON: dict[str, Callable[[FrameView, Any], Change]] = {
    "agent-start": lambda frame, _: RunBegan(frame),
    "output-delta": lambda frame, event: OutputGrew(frame, event.output),
    "hook-reply": ModelSpared,
    "data": lambda frame, event: DataEmitted(frame, event.tool_call_id, event.data),
    "model-fallback": ModelChanged,
    "model-retry": ModelAskedAgain,
    "model-waiting": ModelAwaited,
    "redriven": RunGoesOn,
    "tools-left-out": ToolsRefused,
    "loop": LoopEnded,
    "handoff": AgentChanged,
    "definition-changed": lambda frame, _: AgentRedefined(frame),
    "error": lambda frame, event: ErrorTold(frame, event.error),
    "agent-end": lambda frame, _: ResponseTold(frame),
}
"""By the type of an event that is one change, and that the view need not know of."""
