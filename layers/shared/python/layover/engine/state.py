"""A run as this invocation knows it: what earlier invocations journaled, and what this one has. A first run
and a replay take the same path: both are built from records of the journal."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any

from layover.clock import MICROSECOND
from layover.context.frames import steps_at, unused_replies, usage_at
from layover.context.rendering import (
    Rendering,
    heard_messages,
    render_notices,
    with_heard_note,
)
from layover.context.transcript import newest_of, unheard
from layover.context.withheld import refused_ids, with_marks
from layover.keys import call_key, child_path, path_of, step_key
from layover.values.message import Message
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.run import (
    BUDGET_TOOL,
    CallRecord,
    CallState,
    PromptSnapshot,
    RunMeta,
    RunSnapshot,
    StepRecord,
    UnusedReply,
)
from layover.values.runs.usage import Usage
from layover.values.thread import after


def pinned_of(steps: Sequence[StepRecord], agent: str) -> PromptSnapshot | None:
    """Return the snapshot that this agent pinned. An agent that had the conversation earlier pinned its
    own."""
    mine = (s.base for s in reversed(steps) if s.agent in ("", agent))
    return next((base for base in mine if base is not None), None)


class _Journaled:
    """The state that all frames of a run share: steps and calls by their keys, and the ids that are taken."""

    def __init__(self, snapshot: RunSnapshot) -> None:
        self.steps: list[StepRecord] = list(snapshot.steps)
        self.calls: dict[str, CallRecord] = {c.key: c for c in snapshot.calls}
        slot_ids = {s.tool_call_id for step in self.steps for s in step.slots}
        self.call_ids = slot_ids | {c.tool_call_id for c in self.calls.values()}
        self.said: tuple[Message, ...] = snapshot.said
        self.windows: dict[str, int] = {}


class RunState:
    """Steps and calls of a run, or of one sub-agent inside it, kept up to date as they are journaled. A
    sub-agent's keys begin with its `path`."""

    def __init__(self, snapshot: RunSnapshot) -> None:
        self._begin(snapshot.meta, _Journaled(snapshot))

    def _begin(
        self,
        meta: RunMeta,
        records: _Journaled,
        path: str = "",
        agent_path: tuple[str, ...] = (),
        run_id: str | None = None,
    ) -> None:
        self.meta = meta
        """The run's record. A sub-agent's has its own agent and input."""
        self.path = path
        self.agent_path = agent_path
        """Names from the run's agent down to this one; empty: the run's own."""
        self.run_id = run_id or meta.id
        """The run that the messages belong to: a child has its own id."""
        self._records = records
        self.windows = records.windows
        """As `ThreadHead.windows`: those that the turn read, and what any frame of the run learns."""
        self.calls = records.calls
        """The calls of the whole run: a process that settles one call may need the others."""
        self.steps: list[StepRecord] = list(steps_at(records.steps, path))
        # A step of the run's own: its `turn-end` came with its last call, or META says it.
        ended_keys = {c.key.rpartition("#CALL#")[0] for c in self.calls.values() if c.ends_step}
        ended = (s.index for s in self.steps if s.ended or s.key in ended_keys)
        self.step_ended = max(0 if path else meta.step_ended, max(ended, default=0))
        self.asked_through = self.steps[-1].asked_through if self.steps else None
        """Id of the last message that is, or was to be, observed ahead: no observation up to it is requested
        again."""
        self.notices: tuple[Message, ...] = ()
        """Messages of the run that end the next step's prompt, behind all earlier messages."""
        self.heard: tuple[Message, ...] = ()
        """Messages of other runs that the next step's prompt has before them."""
        self.heard_at: datetime | None = None
        """The time of the newest of what was said meanwhile, whether the prompt has it or not."""
        self._rendering = Rendering(self.calls)
        self._pinning = [s for s in self.steps if s.base is not None]

    def child(self, call: CallRecord) -> "RunState":
        """Return the state of the sub-agent that runs in this call. Parent and child share what either
        journals."""
        child = call.child
        if child is None:
            raise ValueError(f"call {call.tool_call_id} does not belong to a sub-agent")
        changes = {"agent": child.agent, "input": child.input, "max_iterations": None}
        names = (*(self.agent_path or (self.meta.agent,)), child.agent)
        state = RunState.__new__(RunState)
        state._begin(
            self.meta.model_copy(update=changes),
            self._records,
            child_path(call.key),
            names,
            child.id,
        )
        return state

    def choose(self, choice: RunChoice) -> None:
        """Apply the run's own choices, as far as they hold for this agent."""
        self.meta = self.meta.model_copy(update={"choice": choice})

    def frame_of(self, key: str) -> "RunState":
        """Return the state that a step or a call belongs to, from the run's own down."""
        path, state = path_of(key), self
        while state.path != path:
            within, _, _ = path.removeprefix(state.path).partition("/")
            state = state.child(self.calls[state.path + within])
        return state

    @property
    def base(self) -> PromptSnapshot | None:
        """The snapshot that the run pinned: at its first step, or when a compaction switched in since."""
        return pinned_of(self._pinning, self.meta.agent)

    @property
    def step(self) -> StepRecord | None:
        """The newest step."""
        return self.steps[-1] if self.steps else None

    def add(self, step: StepRecord) -> None:
        """Add a step that was journaled."""
        self.notices = self.heard = ()
        self.steps.append(step)
        if step.base is not None:
            self._pinning.append(step)
        self._records.steps.append(step)
        self._records.call_ids.update(s.tool_call_id for s in step.slots)

    def update(self, call: CallRecord) -> None:
        """Add or replace a call that was journaled."""
        self.calls[call.key] = call
        self._records.call_ids.add(call.tool_call_id)

    def next_key(self) -> tuple[int, str]:
        """Return number and key of the next step."""
        index = len(self.steps) + 1
        return index, step_key(self.path, index)

    def new_call(self, step_key: str, name: str, tool_name: str, **facts: Any) -> CallRecord:
        """Return the record of a call that no model made, stored with a step. `name`: its id begins with
        it."""
        # A provider may have given this id to one of its own calls.
        ids = (f"{name}_{number}" for number in count(1))
        call_id = next(id for id in ids if id not in self.call_ids)
        self.call_ids.add(call_id)
        return CallRecord(
            key=call_key(step_key, call_id),
            run_id=self.meta.id,
            tool_call_id=call_id,
            tool_name=tool_name,
            agent_path=self.agent_path,
            **facts,
        )

    def was_reopened_after(self, call: CallRecord) -> bool:
        """Return whether the run had failed behind this record, and went on again."""
        reopened_at = self.meta.reopened_at
        return bool(reopened_at and call.settled_at and call.settled_at <= reopened_at)

    def calls_of(self, step: StepRecord) -> list[CallRecord]:
        """Return the step's calls in order; those without a record are planned."""
        parts = {p.tool_call_id: p for p in step.message.tool_calls}
        calls: list[CallRecord] = []
        for slot in step.slots:
            key = call_key(step.key, slot.tool_call_id)
            part = parts[slot.tool_call_id]
            calls.append(
                self.calls.get(key)
                or CallRecord(
                    key=key,
                    run_id=self.meta.id,
                    tool_call_id=slot.tool_call_id,
                    tool_name=part.tool_name,
                    args=part.args,
                    agent_path=self.agent_path,
                    offered=slot.offered,
                )
            )
        return calls

    def waiting(self) -> tuple[CallRecord, ...]:
        """Return the undecided calls, sub-agents' among them: of the newest step, or for a larger budget."""
        return tuple(c for c in self.below() if c.undecided)

    def in_background(self) -> list[CallRecord]:
        """Return the calls of this frame whose sub-agents work, or worked, in the background."""
        background = (c for c in self.calls.values() if c.child is not None and c.child.background)
        return [call for call in background if path_of(call.key) == self.path]

    def blocking(self) -> tuple[CallRecord, ...]:
        """Return the undecided calls that keep this frame itself from going on."""
        background = tuple(child_path(c.key) for c in self.in_background())
        return tuple(c for c in self.waiting() if not c.key.startswith(background))

    def below(self) -> Iterator[CallRecord]:
        """Yield the calls that have a record, at every depth."""
        return (c for c in self.calls.values() if c.key.startswith(self.path))

    @property
    def step_count(self) -> int:
        """Count of the run's steps at every depth, whichever frame this is."""
        return len(self._records.steps)

    def all_steps(self) -> list[StepRecord]:
        """Return the steps at every depth."""
        return [s for s in self._records.steps if s.key.startswith(self.path)]

    def snapshot(self) -> RunSnapshot:
        """Return the run as it stands."""
        return RunSnapshot(
            meta=self.meta,
            steps=tuple(self._records.steps),
            calls=tuple(self.calls.values()),
            said=self._records.said,
        )

    @property
    def hears(self) -> str | None:
        """The newest message of its thread up to which the next step is to hear; None: nothing was said that
        it has not heard."""
        return None if self.path else unheard(self.steps, self.meta.hears)

    def newest_id(self) -> str:
        """Return the id of the message that the next one follows: what was heard comes behind the results of
        the step that waited, and before its `to_message` messages."""
        if self.notices:
            return self.notices[-1].id
        heard = self.hears if self.heard else None
        if self.step is None:
            return heard or self.meta.input.id
        return newest_of(self.step, self.calls, heard)

    def response(self) -> list[Message]:
        """Return the messages that the run has produced so far."""
        messages = self._rendering.messages(self.steps, self.hears)
        return with_marks(messages, ids) if (ids := self.refused_ids()) else messages

    def fixed_response(self) -> list[Message]:
        """Return the same without the `to_message` messages of the newest step, whose places are not fixed
        before the run goes on: nothing may be stored behind them."""
        loose_ids = {custom.id for custom in self._newest_customs()}
        return [message for message in self.response() if message.id not in loose_ids]

    def _newest_customs(self) -> list[Message]:
        calls = self.calls_of(self.step) if self.step else []
        return [call.custom for call in calls if call.custom is not None]

    def input(self) -> Message:
        """Return the run's input, marked if it was refused."""
        return with_marks([self.meta.input], self.refused_ids())[0]

    def refused_ids(self) -> frozenset[str]:
        """Return the ids of the messages that hooks have refused here. It is the newest step that did: an
        agent ends with it."""
        return refused_ids(self.steps[-1:])

    def sendable(self) -> list[Message]:
        """Return the messages that the next step may send to a model, with corrections and notices."""
        return [
            *self._rendering.sendable(self.steps),
            *with_heard_note(self.heard),
            *render_notices(self.notices),
        ]

    @property
    def sent_messages(self) -> tuple[Message, ...]:
        """Messages that the run was sent after its input. A sub-agent is sent none."""
        return () if self.path else self._records.said

    def add_said(self, messages: Sequence[Message]) -> None:
        """Add messages that the run was sent meanwhile."""
        known_ids = {message.id for message in self._records.said}
        new = (message for message in messages if message.id not in known_ids)
        self._records.said = (*self._records.said, *new)

    def response_with_heard(self) -> list[Message]:
        """Return the same as `response`, and where each step heard other runs, what it heard."""
        first_ids = {(*step.notices, step.message)[0].id: step for step in self.steps if step.heard}
        messages: list[Message] = []
        for message in self.response():
            if message.id in first_ids:
                messages += heard_messages(first_ids[message.id])
            messages.append(message)
        return [*messages, *with_heard_note(self.heard)]

    def heard_ids(self) -> frozenset[str]:
        """Return the ids of the messages of other runs in the next step's prompt."""
        heard = [*(m for s in self.steps for m in heard_messages(s)), *with_heard_note(self.heard)]
        return frozenset(message.id for message in heard)

    def is_cut_short(self) -> bool:
        """Return whether the run has something to add to its thread that comes behind what others say
        meanwhile: messages that it was sent, or those of its newest step's tools."""
        return bool(self.unread() or self._newest_customs())

    def unread(self) -> tuple[Message, ...]:
        """Return what the run was sent after its input, and no step has read yet."""
        read = {notice.id for step in self.steps for notice in step.notices}
        return tuple(message for message in self.sent_messages if message.id not in read)

    @property
    def call_ids(self) -> set[str]:
        """The ids of all calls of the run, at every depth and those for a larger budget among them. Code that
        names a call adds to it: sub-agents that run side by side share the set."""
        return self._records.call_ids

    def budget_calls(self) -> list[CallRecord]:
        """Return the calls for a larger budget. A model's call of the same name does not count."""
        budget_calls = [
            c
            for c in self.calls.values()
            if c.tool_name == BUDGET_TOOL and path_of(c.key) == self.path
        ]
        if not budget_calls:
            return []
        model_call_keys = {
            call_key(step.key, s.tool_call_id) for step in self.steps for s in step.slots
        }
        return [c for c in budget_calls if c.key not in model_call_keys]

    def next_time(self, hint: datetime) -> datetime:
        """Return a time after every message of the run; a step leaves room for its tool and custom
        messages."""
        last = self.meta.input.created_at
        if self.steps:
            step = self.steps[-1]
            last = step.message.created_at + 2 * len(step.slots) * MICROSECOND
        if self.hears and self.heard_at is not None:
            last = max(last, self.heard_at)
        if self.notices:
            last = self.notices[-1].created_at
        return after(last, hint)

    def usage(self) -> Usage:
        """Return the usage so far, sub-agents' included."""
        return usage_at(self._records.steps, self.calls, self.path)

    def unused_replies(self) -> list[UnusedReply]:
        """Return the replies at every depth that were asked for again."""
        return [
            reply
            for path, reply in unused_replies(self._records.steps, self.calls.values())
            if path.startswith(self.path)
        ]

    def settled(self, step: StepRecord) -> bool:
        """Return whether every call of the step is settled."""
        return all(c.state is CallState.SETTLED for c in self.calls_of(step))
