"""The faults that stories and histories found, put back one by one: each has to be noticed again.

Each is a context in which the product does once more what it did before the fault was mended, at the place
that was changed. `test_put_back.py` holds that the short test of the fault (`test_found.py`) fails in it;
`make simulate-mutations` shows how many stories pass before one of them notices."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from layover.adapters import once
from layover.adapters.journal import allowance, heads, sweep
from layover.adapters.journal.allowance import TableAllowance
from layover.adapters.journal.decisions import TableDecisions
from layover.adapters.journal.erasure import TableErasure
from layover.adapters.journal.items import calls
from layover.adapters.journal.log import events
from layover.adapters.journal.log.writer import LogWriter
from layover.adapters.journal.runlog import TableRunLog
from layover.adapters.journal.writers import TableWriters
from layover.approvals import checks, consent, outbox
from layover.clock import rfc3339
from layover.context import transcript
from layover.engine import exact_calls
from layover.errors import DecisionInvalid, Fenced
from layover.inmemory.stores.tables import StoredThread
from layover.plugins.people import notify
from layover.ports.table import AllOf, Condition, ConditionFailed, Differs, Equals, Exists, Item
from layover.recovery import sweep as sweeper
from layover.runs import accept, aside, messages, turn
from layover.runs import seizure as seizures
from layover.values.channels import NoticeKind
from layover.values.message import Message
from layover.values.runs.run import (
    WAITS_BY,
    CallRecord,
    CallState,
    Phase,
    RunMeta,
    Status,
    StepRecord,
)

PutBack = Callable[[], AbstractContextManager[None]]
PUT_BACK: dict[str, PutBack] = {}
"""The faults, by what they do."""


def fault(name: str) -> Callable[[Callable[[], Iterator[None]]], PutBack]:
    """Register a context as the fault with this name."""

    def register(context: Callable[[], Iterator[None]]) -> PutBack:
        PUT_BACK[name] = contextmanager(context)
        return PUT_BACK[name]

    return register


@contextmanager
def replaced(function: Any, by: Any) -> Iterator[None]:
    """Replace a function of the product wherever a module has it."""
    places = [
        (module, name)
        for key, module in list(sys.modules.items())
        if key.partition(".")[0] in ("layover", "functions", "support", "simulation")
        for name, value in list(vars(module).items())
        if value is function and module is not sys.modules[__name__]
    ]
    assert places, f"nothing has {function.__name__}"
    for module, name in places:
        setattr(module, name, by)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, function)


@contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Change an attribute of a class or a module."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def answering(value: Any) -> Callable[..., Awaitable[Any]]:
    """Return a function that does nothing, and returns this."""

    async def answer(*_: Any) -> Any:
        return value

    return answer


@fault("a cancelled run denies a payment that was made")
def denied_payment() -> Iterator[None]:
    """Whoever ends a run settles each call that is not settled, and a branch opens calls beside it."""
    as_read = calls._as_read

    def any_phase(log: TableRunLog) -> Condition:
        return AllOf((Equals("epoch", log.snapshot.meta.epoch), Equals("status", "running")))

    def not_settled(call: CallRecord) -> Condition:
        return as_read(call) if call.rev is None else Differs("state", CallState.SETTLED.value)

    with changed(TableRunLog, "_fence", any_phase), replaced(as_read, not_settled):
        yield


@fault("a thread loses its history behind a cancelled run")
def lost_history() -> Iterator[None]:
    """The end of a run that was set aside stores no places, though others follow them; and the store begins a
    new root where it knows no parent."""
    whole, add = transcript.branch, StoredThread.add

    def without_places(snapshot: Any, *, ended: bool, **options: Any) -> Any:
        own = whole(snapshot, ended=ended, **options)
        if not ended:
            return own
        return own._replace(messages=tuple(m for m in own.messages if not m.is_place))

    def root(thread: StoredThread, messages: Sequence[Message]) -> None:
        known = {*thread.messages, *(message.id for message in messages)}
        roots = [
            m if m.parent_id in known else m.model_copy(update={"parent_id": None})
            for m in messages
        ]
        add(thread, roots)

    with replaced(whole, without_places), changed(StoredThread, "add", root):
        yield


@fault("an approved result is beside the branch")
def result_beside() -> Iterator[None]:
    """A result follows what is settled by then, and not the place before it."""
    fixed = transcript._fixed_messages

    def of_settled(
        step: StepRecord, calls: Mapping[str, CallRecord], *, places: bool
    ) -> list[Message]:
        parent_id, said = step.message.id, list[Message]()
        for message in fixed(step, calls, places=places):
            if message.id not in {slot.message_id for slot in step.slots}:
                said.append(message)
                continue
            said.append(message.model_copy(update={"parent_id": parent_id}))
            if not message.is_place:
                parent_id = message.id
        return said

    with replaced(fixed, of_settled):
        yield


@fault("a run at work is set aside")
def set_aside_at_work() -> Iterator[None]:
    """Whether a run only waits is derived from its calls, not from who may act on it."""

    def seems_to_wait(run: RunMeta) -> bool:
        waits = bool(run.waiting) and not run.decided and not run.cancel
        return run.status is Status.RUNNING and waits

    facts = tuple(f for f in WAITS_BY if f not in ("phase", "branches"))
    with (
        changed(RunMeta, "only_waits", property(seems_to_wait)),
        changed(heads, "WAITS_BY", facts),
    ):
        yield


@fault("an edit runs with arguments that nobody was shown")
def unseen_arguments() -> Iterator[None]:
    """An edit of a tool that no deployed code knows is taken, without what the tool would get, and nothing is
    compared when the tool is back."""
    check, same = checks.check_args, exact_calls._is_same

    def take(*args: Any) -> Any:
        try:
            return check(*args)
        except DecisionInvalid as error:
            if "no deployed code knows" not in error.message:
                raise
            return None

    with replaced(check, take), replaced(same, lambda *_: True):
        yield


@fault("the sweeper looks at the same hundred items")
def starved_sweeper() -> Iterator[None]:
    """A connection that does not close is not put off, and one page is all that a sweep reads."""
    put_off = sweep.TableWatch.put_off

    async def not_connections(watch: Any, due: Any, at: Any) -> None:
        if due.connection_id is None:
            await put_off(watch, due, at)

    async def first(watch: Any, partitions: Any, until: Any, limit: int, past: Any) -> Any:
        if past:
            return []
        keys = [
            key
            for partition in partitions
            for key in await watch._table.due(partition, rfc3339(until), limit)
        ]
        items = [(key, await watch._table.get(*key)) for key in keys]
        return [sweep._check(key, item) for key, item in items if item and "gsi2pk" in item]

    with (
        changed(sweep.TableWatch, "put_off", not_connections),
        changed(sweep.TableWatch, "_due", first),
    ):
        yield


@fault("a vote covers the outcome")
def vote_over_outcome() -> Iterator[None]:
    """Whoever shows a vote does not look again, and an outcome is shown once."""
    tell = notify._Wait.tell_outcome

    async def update_all(wait: Any) -> None:
        notice = wait.notice(NoticeKind.VOTED)
        for message in await wait._requests():
            await wait._update(message, notice)

    async def tell_once(wait: Any, **_: Any) -> None:
        await tell(wait, mends=False)

    with (
        changed(notify._Wait, "update_all", update_all),
        changed(notify._Wait, "tell_outcome", tell_once),
    ):
        yield


@fault("a call waits for an account that is connected")
def missed_consent() -> Iterator[None]:
    """Only the first of a call's process looks whether its user has consented: the sweeper does not."""
    assert vars(sweeper)["go_on_if_connected"] is consent.go_on_if_connected
    with changed(sweeper, "go_on_if_connected", answering(None)):
        yield


@fault("the bus is never told of a decision")
def untold_decision() -> Iterator[None]:
    """What the bus has refused is taken for told."""
    tell = outbox.tell

    async def forget(*given: Any, **_: Any) -> frozenset[str]:
        return frozenset(given[3])

    with replaced(tell, forget):
        yield


@fault("a plain write takes its own repetition for another's")
def unknown_repetition() -> Iterator[None]:
    async def write(table: Any, action: Any, by: Any) -> Item | None:
        result: Item | None = await table.write(action)
        return result

    with replaced(once.write_once, write):
        yield


@fault("a message withdraws the call that answers it")
def withdrawn_answer() -> Iterator[None]:
    """What waits when the message has arrived is withdrawn, and not what waited when it was sent."""
    withdraw = messages.withdraw

    async def whatever_waits(runtime: Any, actor: Any, snapshot: Any) -> None:
        run = snapshot.meta
        now = await runtime.journal.runs.snapshot(run.owner, run.id)
        if now is not None:
            await withdraw(runtime, actor, now)

    with replaced(withdraw, whatever_waits):
        yield


@fault("a message to a cancelled run is lost")
def lost_message() -> Iterator[None]:
    """What a run was sent and did not read comes behind its own last message, whoever has its thread."""
    whole = transcript.branch

    def at_its_place(snapshot: Any, **options: Any) -> Any:
        return whole(snapshot, **options)._replace(loose=())

    with replaced(whole, at_its_place):
        yield


@fault("retention deletes a thread that was just written in")
def deleted_too_early() -> Iterator[None]:
    async def mark(erasure: Any, head: Any) -> bool:
        await erasure.mark_deleted(head.owner, head.id)
        return True

    with changed(TableErasure, "mark_unused_deleted", mark):
        yield


@fault("the sweeper puts off a call that was just decided")
def late_wake() -> Iterator[None]:
    """A look that has ended sets the next one, whatever has been asked for since."""
    with changed(sweep, "_as_read", lambda _: Exists("gsi2sk")):
        yield


@fault("two cancels fence each other off")
def duel() -> Iterator[None]:
    """Whoever ends a run takes it from another who does, at once, five times."""

    async def seize(writers: Any, owner: str, run_id: str, ended_by: Any = None) -> Any:
        try:
            return await writers._take(owner, run_id, Phase.ENDING, AllOf(()))
        except (ConditionFailed, Fenced):
            return None

    with (
        changed(TableWriters, "seize", seize),
        changed(seizures, "_TRIES", 5),
        changed(RunMeta, "at_rest", property(lambda run: bool(run.waiting))),
    ):
        yield


@fault("a decision beside a deletion is an error of the server")
def asserted_call() -> Iterator[None]:
    async def found(decisions: Any, run: Any, call: Any) -> Any:
        now = await decisions._runs.call(run.owner, run.id, call.key)
        assert now is not None
        return now

    with changed(TableDecisions, "_call", found):
        yield


@fault("a reader sees what is left of a log behind a gap")
def behind_gap() -> Iterator[None]:
    with changed(events, "_before_gap", lambda batches, _: batches):
        yield


@fault("room in a day stays held after the end")
def held_room() -> Iterator[None]:
    with changed(turn, "_release_room", answering(None)):
        yield


@fault("room in a day stays held by a run that is being ended")
def room_of_ending() -> Iterator[None]:
    """A step that is cut off releases its room only if the run is over by then."""
    with changed(turn, "Phase", SimpleNamespace(ENDING=None)):
        yield


@fault("room in a day is held by a reservation that comes late")
def late_room() -> Iterator[None]:
    """Whoever releases room changes nothing that the reservation has read."""
    release = TableAllowance.release_all

    async def unnumbered(day: Any, *given: Any) -> None:
        table = day._table

        async def write(action: Any) -> Item | None:
            result: Item | None = await table.write(replace(action, add={}))
            return result

        day._table = SimpleNamespace(get=table.get, write=write)
        try:
            await release(day, *given)
        finally:
            day._table = table

    with changed(TableAllowance, "release_all", unnumbered):
        yield


@fault("room in a day is held by a reservation that came between")
def room_between() -> Iterator[None]:
    """Whoever releases room removes what it has read, whatever is true by then."""
    with changed(allowance, "same", lambda *_: AllOf(())):
        yield


@fault("a run that is redriven at its beginning begins twice")
def begun_twice() -> Iterator[None]:
    def renumber(writer: Any, failure: Exception) -> None:
        writer._next_seq = None

    with changed(LogWriter, "_renumber", renumber):
        yield


@fault("a message that is cancelled in the queue stops its thread")
def stopped_thread() -> Iterator[None]:
    """It is stored before what it follows: the run that has the thread is not in the database yet."""
    with replaced(aside.branch_up_to, answering([])):
        yield


@fault("a branch goes back in time")
def earlier_than_parent() -> Iterator[None]:
    """A message is not later than the parent that it names."""
    find = accept._with_parent

    async def without_time(*given: Any) -> Any:
        return (await find(*given))[0], None

    with changed(accept, "_with_parent", without_time):
        yield


@fault("a run that was cancelled without the database stops its thread")
def unsaved_ahead() -> Iterator[None]:
    """Only what waits is stored before what follows it."""
    save = aside.save_waiting

    async def waiting_only(runtime: Any, head: Any, *more: Any) -> None:
        await save(runtime, head.model_copy(update={"unplaced": ()}), *more)

    with replaced(save, waiting_only):
        yield
