"""Whatever becomes of a run, its thread is one branch: for every prefix of a journal and every way to end it,
each message that anything was told to follow is stored, and ids, times and parents never change
(docs/behaviour.md#message-times)."""

from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layover import keys
from layover.clock import MICROSECOND
from layover.context.transcript import branch, custom_message, parents_first, unheard_leaf
from layover.engine.state import RunState
from layover.inmemory.stores.threads import InMemoryThreads
from layover.values.memory.context import TurnRecord
from layover.values.message import Message, Role, TextPart, ToolCallPart
from layover.values.runs.run import (
    CallRecord,
    CallState,
    RunMeta,
    RunSnapshot,
    Status,
    StepRecord,
    ToolMessageSlot,
)
from layover.values.runs.usage import Usage
from layover.values.thread import ThreadHead
from support.examples import examples

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

_MOVES = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 3)),
    st.tuples(st.just("settle"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("settle"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("aside"), st.booleans()),
    st.tuples(st.just("aside"), st.booleans()),
    st.tuples(st.just("say"), st.booleans()),
    st.tuples(st.just("fork"), st.integers(0, 5)),
    st.tuples(st.just("back")),
    st.tuples(st.just("back")),
    st.tuples(st.just("told")),
)


@dataclass
class Thread:
    """A thread of one run that is played move by move, and of others who speak while it waits."""

    snapshot: RunSnapshot
    store: InMemoryThreads = field(default_factory=InMemoryThreads)
    leaf: str = "in"
    newest_at: datetime = START
    is_aside: bool = False
    is_in_other_branch: bool = False
    others: list[Message] = field(default_factory=list)
    """What others said, in order."""
    left: list[Message] = field(default_factory=list)
    """What of that no turn has stored yet."""
    given: dict[str, list[str]] = field(default_factory=dict)
    """Id of a message of others -> the run's calls whose results come before it."""
    fixed: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """Id of a message whose place was fixed -> parent and time."""
    made: int = 0

    def head(self) -> ThreadHead:
        times = {"created_at": START, "updated_at": START, "last_created_at": self.newest_at}
        return ThreadHead(id="t", owner="ann", agent="shop", leaf_id=self.leaf, **times)

    def next_id(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def change(self, **changes: Any) -> None:
        self.snapshot = self.snapshot.model_copy(update=changes)

    def meta(self, **changes: Any) -> None:
        self.change(meta=self.snapshot.meta.model_copy(update=changes))

    def unsettled(self) -> list[ToolMessageSlot]:
        settled = {call.tool_call_id for call in self.snapshot.calls}
        steps = self.snapshot.steps[-1:]
        return [s for step in steps for s in step.slots if s.tool_call_id not in settled]

    async def play(self, move: tuple[Any, ...]) -> None:
        kind, *rest = move
        await getattr(self, f"_{kind}")(*rest)
        own = branch(self.snapshot, ended=False)
        if not self.is_aside:
            self.leaf = own.leaf_id
        self.newest_at = max(self.newest_at, *(m.created_at for m in own.messages))

    async def _step(self, count: int) -> None:
        """The model answers, with so many calls."""
        if self.is_aside or self.unsettled():
            return
        await self._told()
        state = RunState(self.snapshot)
        if state.hears and not self.is_in_other_branch:
            state.heard = tuple(self.others[-1:])
        state.heard_at = self.newest_at
        for said in state.unread():
            at = state.next_time(said.created_at)
            place = {"parent_id": state.newest_id(), "created_at": at}
            state.notices = (*state.notices, said.model_copy(update=place))
        index, key = state.next_key()
        at = state.next_time(self.newest_at)
        ids = [self.next_id("c") for _ in range(count)]
        message = Message(
            id=self.next_id("a"),
            thread_id="t",
            run_id="run",
            parent_id=state.newest_id(),
            role=Role.ASSISTANT,
            content=tuple(ToolCallPart(tool_call_id=id, tool_name="pay", args={}) for id in ids),
            created_at=at,
        )
        slots = tuple(
            ToolMessageSlot(
                tool_call_id=id, message_id=f"r{id}", created_at=at + (n + 1) * MICROSECOND
            )
            for n, id in enumerate(ids)
        )
        step = StepRecord(
            key=key,
            index=index,
            message=message,
            usage=Usage(),
            model="m",
            finish_reason="stop",
            slots=slots,
            notices=state.notices,
            heard=state.heard,
            heard_through=state.hears,
        )
        self.is_in_other_branch = False
        self.change(steps=(*self.snapshot.steps, step))

    async def _settle(self, at: int, has_message: bool) -> None:
        """A call ends, whichever it is."""
        left = self.unsettled()
        if not left:
            return
        slot, step = left[at % len(left)], self.snapshot.steps[-1]
        call = CallRecord(
            key=keys.call_key(step.key, slot.tool_call_id),
            run_id="run",
            tool_call_id=slot.tool_call_id,
            tool_name="pay",
            args={},
            state=CallState.SETTLED,
            result="paid",
            custom=custom_message(step, slot, "receipt", 1) if has_message else None,
        )
        self.change(calls=(*self.snapshot.calls, call))

    async def _aside(self, is_told: bool) -> None:
        """Others speak while the run waits."""
        if not self.snapshot.steps or not (self.is_aside or self.unsettled()):
            return
        if not self.is_aside:
            self.leaf, self.is_aside = branch(self.snapshot, ended=False).leaf_id, True
            self.meta(aside=True)
        self._others_say(self.leaf)
        if is_told:
            await self._told()

    async def _fork(self, at: int) -> None:
        """Others go on behind an earlier message that they were shown."""
        shown = [m for m in branch(self.snapshot, ended=False).messages if not m.is_place]
        if self.is_aside:
            self.is_in_other_branch = True
            self._others_say(shown[at % len(shown)].id, is_fork=True)

    def _others_say(self, parent_id: str, *, is_fork: bool = False) -> None:
        self.newest_at += SECOND
        message = Message(
            id=self.next_id("o"),
            thread_id="t",
            run_id="other",
            parent_id=parent_id,
            role=Role.USER,
            content=(TextPart(text="hello"),),
            created_at=self.newest_at,
        )
        before = self.others[-1].id if self.others else ""
        calls = [s.tool_call_id for step in self.snapshot.steps for s in step.slots]
        self.given[message.id] = (
            [] if is_fork else self.given[before] if parent_id == before else calls
        )
        self.others.append(message)
        self.left.append(message)
        self.leaf = message.id

    async def _say(self, _: bool) -> None:
        """The run is sent a message."""
        self.newest_at += SECOND
        said = Message(
            id=self.next_id("s"),
            thread_id="t",
            run_id="run",
            role=Role.USER,
            content=(TextPart(text="psst"),),
            created_at=self.newest_at,
        )
        self.change(said=(*self.snapshot.said, said))

    async def _back(self) -> None:
        """The run takes its thread back."""
        if self.is_aside:
            self.is_aside = False
            self.meta(hears=self.leaf)

    async def _told(self) -> None:
        """A turn of another run begins: it stores what its own message follows."""
        await self.store_all(self.store, ended=False)
        self.left = []

    async def store_all(self, store: InMemoryThreads, *, ended: bool) -> None:
        own = branch(self.snapshot, ended=ended, newest_at=self.newest_at)
        await store.save_messages(self.head(), parents_first([*own.messages, *self.left]))

    async def check(self) -> None:
        """End the run here, in a copy of the database."""
        for message in branch(self.snapshot, ended=False).messages:
            place = (message.parent_id, message.created_at)
            assert self.fixed.setdefault(message.id, place) == place, "a place has changed"
        store = deepcopy(self.store)
        own = branch(self.snapshot, ended=True, newest_at=self.newest_at)
        meta = self.snapshot.meta.model_copy(update={"status": Status.CANCELLED})
        if unheard_leaf(self.snapshot):
            await self.store_all(store, ended=False)
        if self.is_aside:
            # What is loose then is for another turn to store.
            own = branch(self.snapshot.model_copy(update={"said": ()}), ended=True)
        first, *rest = own.messages
        record = TurnRecord(head=self.head(), run=meta, input=first, response=tuple(rest))
        await store.save_turn(record)
        await store.save_messages(self.head(), self.left)
        thread = store.find("ann", "t")
        assert thread is not None
        path = [message.id for message in thread.path(own.leaf_id)]
        heard = {str(step.heard_through) for step in self.snapshot.steps if step.heard}
        assert heard <= set(path)
        if not self.is_aside:
            # The end is what it was, whoever saves it later.
            loose_at = own.loose[0].created_at if own.loose else None
            over = meta.model_copy(update={"loose_at": loose_at})
            again = branch(self.snapshot.model_copy(update={"meta": over}), ended=True)
            assert again == own
        for id, place in self.fixed.items():
            if id in thread.messages:
                assert (thread.parents[id], thread.messages[id].created_at) == place
        results = {s.tool_call_id: s.message_id for step in self.snapshot.steps for s in step.slots}
        settled = {call.tool_call_id for call in self.snapshot.calls}
        for id, calls in self.given.items():
            path = [m.id for m in thread.path(id)]
            assert path[0] == "in", "the history is whole"
            shown = [m.id for m in thread.path(id) if not m.is_place]
            assert {results[c] for c in calls if c in settled} <= set(shown)


def _thread() -> Thread:
    input = Message(
        id="in",
        thread_id="t",
        run_id="run",
        role=Role.USER,
        content=(TextPart(text="pay"),),
        created_at=START,
    )
    meta = RunMeta(
        id="run",
        owner="ann",
        thread_id="t",
        agent="shop",
        status=Status.RUNNING,
        input=input,
        created_at=START,
        updated_at=START,
    )
    return Thread(RunSnapshot(meta=meta))


@examples(400)
@given(st.lists(_MOVES, min_size=1, max_size=14))
async def test_each_message_that_was_given_out_as_a_leaf_is_in_the_branch_of_every_end(
    moves: list[tuple[Any, ...]],
) -> None:
    thread = _thread()
    await thread.check()
    for move in [("step", 3), *moves]:
        await thread.play(move)
        await thread.check()
