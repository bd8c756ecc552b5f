"""The changes that a run's events make to what is shown of it: a closed set of facts (`run_view` makes them).

An encoder names each of them, either with the words that tell it or with the reason why it tells nothing."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from layover.values.runs.event import (
    ApprovalEscalated,
    ApprovalExtended,
    ApprovalReminder,
    Finish,
    Handoff,
    HookDecided,
    HookReplied,
    LoopEvent,
    ModelFallback,
    ModelRetry,
    ModelWaiting,
    Redriven,
    ToolCallApproval,
    ToolCallDecided,
    ToolsLeftOut,
)

Kind = Literal["text", "reasoning"]


class TextBlock(NamedTuple):
    """A text of a frame: it ends where another block begins."""

    kind: Kind
    id: str
    """Unique in the run."""


@dataclass(slots=True, eq=False)
class FrameView:
    """One agent's part of a run: the run's own, or a sub-agent's in a call."""

    id: str
    """The run's id, and for a sub-agent also the id of the call in which it works."""
    path: tuple[str, ...] = ()
    """Names from the run's agent down; empty for the run's own."""
    is_own: bool = True
    """True for the part of the run's own agent."""
    step: int | None = None
    """The step under way."""
    text: TextBlock | None = None
    """The text that is being written."""
    running: set[str] = field(default_factory=set)
    """Ids of the calls that run or are decided."""
    waiting: set[str] = field(default_factory=set)
    """Ids of the calls that wait for a person."""
    texts: int = 0
    """The number of texts that have begun."""
    told: set[Kind] = field(default_factory=set)
    """Kinds of text that the step has told so far."""
    has_message: bool = False
    """True once the step's message was told."""
    drafts: "list[CallView]" = field(default_factory=list)
    """The step's calls of which pieces have arrived, until its message arrives."""


@dataclass(slots=True, eq=False)
class CallView:
    """A call, as far as its events have told."""

    id: str
    name: str = ""
    args: Any = None
    draft: str = ""
    """Its arguments as they arrived in pieces; empty for a sub-agent's."""
    is_announced: bool = False
    """True once it was told that its arguments arrive."""
    is_shown: bool = False
    """True once the call is part of the answer. A call of the run's own agent becomes part of it when the
    call is asked for, runs or ends, not while it waits for its turn; a sub-agent's call does once it waits
    for a person."""
    pending: Any = None
    """The event with which it began to wait; None if it does not wait."""
    decision: str | None = None
    """The decision about its newest attempt; None: nobody has decided about that."""
    result: Any = None
    is_error: bool = False


class RunBegan(NamedTuple):
    """The run begins."""

    frame: FrameView


class StepBegan(NamedTuple):
    """A step begins."""

    frame: FrameView
    step: int


class StepVoided(NamedTuple):
    """A step ends without a result, because it begins again: what its drafts said is void."""

    frame: FrameView
    step: int
    has_text: bool


class StepEnded(NamedTuple):
    """A step ends. `text`: of its message, if it is complete."""

    frame: FrameView
    step: int
    text: str


class TextBegan(NamedTuple):
    """A text or reasoning begins. `is_whole`: it comes with its message, not in pieces."""

    frame: FrameView
    block: TextBlock
    is_whole: bool


class TextGrew(NamedTuple):
    """More of the open text."""

    frame: FrameView
    block: TextBlock
    piece: str


class TextEnded(NamedTuple):
    """The open text is complete, or void."""

    frame: FrameView
    block: TextBlock


class OutputGrew(NamedTuple):
    """The structured output so far. It replaces the previous one."""

    frame: FrameView
    output: Any


class FileShown(NamedTuple):
    """A message has a file. `part` is a FilePart."""

    frame: FrameView
    part: Any


class DataShown(NamedTuple):
    """A message has named data. `part` is a DataPart."""

    frame: FrameView
    part: Any


class CallAnnounced(NamedTuple):
    """The arguments of the step's first call arrive. The other calls may have to wait for their turn and are
    not announced, and neither are calls of sub-agents."""

    frame: FrameView
    call: CallView


class CallArgsGrew(NamedTuple):
    """More of a call's arguments, which is a piece of JSON text."""

    frame: FrameView
    call: CallView
    piece: str


class CallShown(NamedTuple):
    """A call is shown, with its whole arguments."""

    frame: FrameView
    call: CallView


class CallChanged(NamedTuple):
    """A call that was shown has other arguments now: a person or a hook has changed them."""

    frame: FrameView
    call: CallView


class HookAnswered(NamedTuple):
    """A hook decided about a call before it ran."""

    frame: FrameView
    call: CallView
    event: HookDecided


class ModelSpared(NamedTuple):
    """A hook replied in the model's place, or refused the request: no model was asked. The reply is told like
    any other."""

    frame: FrameView
    event: HookReplied


class CallRan(NamedTuple):
    """A call begins to run."""

    frame: FrameView
    call: CallView


class DataEmitted(NamedTuple):
    """A running tool emitted data."""

    frame: FrameView
    tool_call_id: str
    data: Any


class CallSuspended(NamedTuple):
    """A call waits for a person. `call.pending` is the event that says for what."""

    frame: FrameView
    call: CallView


class VoteCast(NamedTuple):
    """One person approved a call that takes more approvals. `call.pending` has the votes so far."""

    frame: FrameView
    call: CallView
    event: ToolCallApproval


class WaitChanged(NamedTuple):
    """Something became of the wait of a call that nobody has decided. Its event says what."""

    frame: FrameView
    call: CallView
    event: ApprovalReminder | ApprovalEscalated | ApprovalExtended


class CallDecided(NamedTuple):
    """A waiting call has been decided."""

    frame: FrameView
    call: CallView
    event: ToolCallDecided


class CallSettled(NamedTuple):
    """A call has its outcome."""

    frame: FrameView
    call: CallView


class ModelChanged(NamedTuple):
    """A model did not answer, and the step went to another model."""

    frame: FrameView
    event: ModelFallback


class ModelAskedAgain(NamedTuple):
    """A model's provider did not answer, and is asked again after a pause."""

    frame: FrameView
    event: ModelRetry


class ModelAwaited(NamedTuple):
    """A model's provider is away: the run pauses, and goes on by itself."""

    frame: FrameView
    event: ModelWaiting


class RunGoesOn(NamedTuple):
    """A run that had failed goes on."""

    frame: FrameView
    event: Redriven


class ToolsRefused(NamedTuple):
    """A model's provider refuses tools by name, and the run goes on without them."""

    frame: FrameView
    event: ToolsLeftOut


class LoopEnded(NamedTuple):
    """An agent made the same calls with the same results again and again, and ends."""

    frame: FrameView
    event: LoopEvent


class AgentChanged(NamedTuple):
    """The conversation belongs to another agent from here on."""

    frame: FrameView
    event: Handoff


class AgentRedefined(NamedTuple):
    """The run goes on under another definition of its agent."""

    frame: FrameView


class ErrorTold(NamedTuple):
    """The error that a run fails with, just before its end."""

    frame: FrameView
    error: Any


class RunEnded(NamedTuple):
    """The run is over."""

    frame: FrameView
    event: Finish


class ResponseTold(NamedTuple):
    """All messages of a run that succeeded, once more."""

    frame: FrameView


class Unknown(NamedTuple):
    """An event, or a part of a message, that this version cannot read. It is shown as data."""

    frame: FrameView
    event: Any


Change = (
    RunBegan
    | StepBegan
    | StepVoided
    | StepEnded
    | TextBegan
    | TextGrew
    | TextEnded
    | OutputGrew
    | FileShown
    | DataShown
    | CallAnnounced
    | CallArgsGrew
    | CallShown
    | CallChanged
    | HookAnswered
    | ModelSpared
    | CallRan
    | DataEmitted
    | CallSuspended
    | VoteCast
    | WaitChanged
    | CallDecided
    | CallSettled
    | ModelChanged
    | ModelAskedAgain
    | ModelAwaited
    | RunGoesOn
    | ToolsRefused
    | LoopEnded
    | AgentChanged
    | AgentRedefined
    | ErrorTold
    | RunEnded
    | ResponseTold
    | Unknown
)
"""Any change."""


def is_in_answer(change: Change) -> bool:
    """Return whether an answer to a user shows the change: what the run's own agent does, calls of sub-agents
    that were shown, and what is unknown."""
    if change.frame.is_own or isinstance(change, Unknown):
        return True
    call: CallView | None = getattr(change, "call", None)
    return call is not None and call.is_shown
