"""Threads' heads: creating, listing and editing them, and handing a thread from one run to the next."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Unpack

from layover.adapters.journal.backing import Backing
from layover.adapters.journal.items.index import page_index
from layover.adapters.journal.items.records import (
    head_attributes,
    head_from,
    head_item,
    thread_index,
)
from layover.adapters.once import change_once
from layover.clock import from_rfc3339, rfc3339
from layover.keys import HEAD, META, Keys
from layover.ports import SetAside
from layover.ports.table import (
    Action,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    Exists,
    Item,
    Missing,
    Put,
    Update,
    all_of,
    same,
)
from layover.values.page import Page
from layover.values.runs.run import WAITS_BY, FinishReason, Outcome, Phase, RunMeta, Status
from layover.values.thread import ThreadEdit, ThreadHead, after

_THREADS = "T#"
"""The prefix in the owner's index of threads by their last change."""
_MAX_PLACED = 40
"""Runs whose last messages get their place by one write."""
_ROOM = timedelta(milliseconds=1)
"""The time that a run's loose messages take, a microsecond each: what a step's tools say, and `MAX_SAID`."""
_KNOWN = "THREADS"
"""The sort key of the mark that all of the owner's heads are in the journal."""


class TableHeads:
    """`Heads`: `THREAD#id / HEAD` items."""

    def __init__(self, backing: Backing) -> None:
        self._table = backing.table
        self._clock = backing.clock
        self._dice = backing.dice

    async def put(self, head: ThreadHead) -> None:
        """See `ports.Heads`."""
        keys = Keys(head.owner)
        put = Put(keys.thread(head.id), HEAD, head_item(keys, head), when=Missing("pk"))
        with suppress(ConditionFailed):
            await self._table.write(put)

    async def get(self, owner: str, thread_id: str) -> ThreadHead | None:
        """See `ports.Heads`."""
        item = await self._table.get(Keys(owner).thread(thread_id), HEAD)
        return head_from(owner, item) if item else None

    async def page(self, owner: str, limit: int, cursor: str | None) -> Page[ThreadHead]:
        """See `ports.Heads`."""
        page = await page_index(
            self._table,
            Keys(owner).partition,
            _THREADS,
            limit=limit,
            cursor=cursor,
            forward=False,
        )
        heads = tuple(_listed(owner, item) for item in page.items)
        return Page(items=heads, next_cursor=page.next_cursor)

    async def has_all(self, owner: str) -> bool:
        """See `ports.Heads`."""
        return await self._table.get(Keys(owner).partition, _KNOWN) is not None

    async def add_missing(self, owner: str, heads: Sequence[ThreadHead]) -> None:
        """See `ports.Heads`."""
        for head in heads:
            await self.put(head)
        # Last, so that a death before it repeats the work.
        await self._table.write(Put(Keys(owner).partition, _KNOWN, {"id": _KNOWN}))

    async def unmark(self, owner: str) -> None:
        """See `ports.Heads`."""
        await self._table.write(Delete(Keys(owner).partition, _KNOWN))

    async def advance(
        self, head: ThreadHead, leaf_id: str, last_created_at: datetime
    ) -> ThreadHead | None:
        """See `ports.Heads`."""
        keys, now = Keys(head.owner), rfc3339(self._clock.now())
        changes = {
            "leaf_id": leaf_id,
            "last_created_at": rfc3339(last_created_at),
            "updated_at": now,
            **thread_index(keys, head.id, now),
        }
        advance = Update(keys.thread(head.id), HEAD, set=changes, when=as_read(head))
        item = await change_once(self._table, advance, self._dice)
        return head_from(head.owner, item) if item else None

    async def edit(
        self,
        owner: str,
        thread_id: str,
        *,
        untitled_only: bool = False,
        **edit: Unpack[ThreadEdit],
    ) -> ThreadHead | None:
        """See `ports.Heads`."""
        now = rfc3339(self._clock.now())
        attributes = head_attributes({k: v for k, v in edit.items() if v is not None})
        changes = {**attributes, "updated_at": now, **thread_index(Keys(owner), thread_id, now)}
        alive: Condition = all_of(Exists("pk"), Missing("deleted"))
        if untitled_only:
            alive = all_of(alive, Missing("title"))
        change = Update(Keys(owner).thread(thread_id), HEAD, set=changes, when=alive)
        item = await change_once(self._table, change, self._dice)
        return head_from(owner, item) if item else None


def _listed(owner: str, item: Item) -> ThreadHead:
    """Return a head from the index, where `updated_at` is part of the key."""
    return head_from(owner, {**item, "updated_at": item["gsi1sk"].split("#")[1]})


@dataclass(frozen=True)
class NextRun:
    """The run that holds a thread next, and the number of the execution to start."""

    id: str
    n: int = 1


@dataclass(frozen=True)
class Handover:
    """The effect of a run's end on its thread. `facts`: changes of its META."""

    actions: list[Action]
    next_run: NextRun | None = None
    facts: dict[str, Any] = field(default_factory=dict)


def next_execution(run_id: str, n: int, phase: Phase) -> dict[str, Any]:
    """Return the changes of a run's META by which another execution drives it. The write raises the epoch as
    well, and has the look by which a death before the start of the execution is found."""
    return {
        "n": n,
        "execution": f"{run_id}-{n}",
        "history": 0,
        "lost_at": None,
        "phase": phase.value,
    }


def as_read(head: ThreadHead) -> Condition:
    """Return the condition that no run has come, gone or changed its place since the thread was read."""
    lists = ("queue", "waiting_runs", "ready")
    return all_of(
        Exists("pk"),
        Missing("deleted"),
        same("active_run", head.active_run),
        *(same(name, list(getattr(head, name)) or None) for name in lists),
        same("leaf_id", head.leaf_id),
    )


def set_aside(aside: SetAside) -> Update:
    """Return the write of a run's META by which another run takes its thread: it still only waits, as it did
    when it was read."""
    run = aside.run
    return Update(Keys(run.owner).run(run.id), META, set={"aside": True}, when=as_it_waits(run))


def as_it_waits(run: RunMeta) -> Condition:
    """Return the condition that the run still waits, or works, as it did when it was read."""
    facts = {name: getattr(run, name) for name in WAITS_BY}
    # Neither False nor an empty set is stored.
    stored = {
        name: None if value is False or value == frozenset() else value
        for name, value in facts.items()
    }
    return all_of(*(same(name, value) for name, value in stored.items()))


def set_aside_changes(head: ThreadHead, aside: SetAside) -> dict[str, Any]:
    """Return the changes of a head whose active run is set aside."""
    return {
        "waiting_runs": [*head.waiting_runs, aside.run.id],
        "leaf_id": aside.leaf_id,
        "last_created_at": rfc3339(aside.last_created_at),
    }


def _without(run_ids: Sequence[str], left: Collection[str]) -> list[str] | None:
    return [run_id for run_id in run_ids if run_id not in left] or None


def _successors(item: Item) -> list[str]:
    """Return the runs that may take the thread, in order: those that interrupted, those that were set aside
    and can go on, the queue."""
    queue, interrupts = item.get("queue", []), item.get("interrupts", 0)
    return [*queue[:interrupts], *item.get("ready", ()), *queue[interrupts:]]


class QueueHandover:
    """The effect of a run's end on its thread: the newest message, and the next run."""

    def __init__(self, backing: Backing) -> None:
        self._table = backing.table
        self._clock = backing.clock

    async def plan(
        self, run: RunMeta, outcome: Outcome, head: ThreadHead | None = None
    ) -> Handover:
        """Return the actions for the end's transaction, and the run that holds the thread afterwards. `head`:
        as read before; the transaction fails if it has changed since."""
        keys = Keys(run.owner)
        item = await self._item_of(keys, run, head)
        if item is None:
            return Handover([])
        if item.get("active_run") != run.id:
            return self._leave(keys, item, run, outcome)
        placing, placed_ids, outcome = await self._place(keys, item.get("unplaced", ()), outcome)
        queue: list[str] = item.get("queue", [])
        next_run, starting, passed_over = await self._choose_next(keys, item, outcome)
        now = rfc3339(self._clock.now())
        interrupts: list[str] = queue[: item.get("interrupts", 0)]
        changes: dict[str, Any] = {
            "leaf_id": outcome.leaf_id,
            "last_created_at": rfc3339(outcome.last_created_at),
            "updated_at": now,
            "active_run": next_run.id if next_run else None,
            "queue": _without(queue, passed_over),
            "interrupts": len([run_id for run_id in interrupts if run_id not in passed_over]),
        }
        holds = [
            Equals("active_run", run.id),
            same("queue", queue or None),
            same("ready", item.get("ready")),
            same("deleted", item.get("deleted")),
            same("unsaved", item.get("unsaved")),
            same("unplaced", item.get("unplaced")),
            Equals("agent", item["agent"]),
        ]
        if passed_over & set(item.get("ready", ())):
            changes["ready"] = _without(item["ready"], passed_over)
            # One that was cancelled leaves with its own end, which says whether it is saved.
            goes_on = {next_run.id} if next_run else set[str]()
            changes["waiting_runs"] = _without(item.get("waiting_runs", ()), goes_on)
            holds.append(same("waiting_runs", item.get("waiting_runs")))
        # The thread's next turn saves these before anything reads the history.
        unsaved = [*([] if outcome.saved else [run.id]), *placed_ids]
        if unsaved:
            changes["unsaved"] = [*item.get("unsaved", ()), *unsaved]
        if placed_ids:
            changes["unplaced"] = _without(item["unplaced"], placed_ids)
        if outcome.windows:
            changes.update(head_attributes({"windows": outcome.windows}))
        if not item.get("deleted"):
            # A tombstone has left the list of threads, and does not come back.
            changes.update(thread_index(keys, run.thread_id, now))
        # `holds` is everything that the plan depends on, and nothing else: an edited title does not matter.
        update = Update(keys.thread(run.thread_id), HEAD, set=changes, when=all_of(*holds))
        # Together with the end, so that no death leaves a free thread with runs in its queue. The next
        # execution is started after it, and the run is due in the watch from now on.
        return Handover([update, *placing, *([starting] if starting else [])], next_run)

    async def _item_of(self, keys: Keys, run: RunMeta, head: ThreadHead | None) -> Item | None:
        """Return the thread's item: the one that was read before, if the run had the thread then."""
        if head is None or head.active_run != run.id:
            return await self._table.get(keys.thread(run.thread_id), HEAD)
        return {k: v for k, v in head_item(keys, head).items() if v is not None}

    async def _choose_next(
        self, keys: Keys, item: Item, outcome: Outcome
    ) -> tuple[NextRun | None, Action | None, set[str]]:
        """Return the run that gets the thread, the write that starts it, and the runs that leave the queue:
        this one, and those before it, which have been cancelled."""
        next_run: NextRun | None = None
        starting: Action | None = None
        passed_over = set[str]()
        # A deleted thread starts no run, since its eraser cancels them.
        for candidate in [] if item.get("deleted") else _successors(item):
            if candidate in item.get("queue", ()):
                starting = await self._start(keys, candidate, item["agent"], outcome)
            else:
                next_run, starting = await self._carry_on(keys, candidate, outcome)
            passed_over.add(candidate)
            if starting:
                return next_run or NextRun(candidate), starting, passed_over
        return next_run, starting, passed_over

    def _leave(self, keys: Keys, item: Item, run: RunMeta, outcome: Outcome) -> Handover:
        """Return the write by which a run that was set aside leaves its thread. The thread's newest message
        stays, as a later one follows the run's results already, unless the run leaves loose messages: they
        become the newest, or come behind the run at work."""
        if run.id not in item.get("waiting_runs", ()):
            return Handover([])
        changes: dict[str, Any] = {
            name: _without(item.get(name, ()), {run.id}) for name in ("waiting_runs", "ready")
        }
        facts: dict[str, Any] = {}
        if outcome.unplaced and item.get("active_run") and not item.get("deleted"):
            changes["unplaced"] = [*item.get("unplaced", ()), run.id]
        elif not outcome.saved:
            changes["unsaved"] = [*item.get("unsaved", ()), run.id]
        if outcome.unplaced and "unplaced" not in changes:
            last = from_rfc3339(item["last_created_at"])
            facts, newest_at = self._behind(item["leaf_id"], last, outcome.loose_at)
            changes |= {"leaf_id": outcome.unplaced, "last_created_at": rfc3339(newest_at)}
        names = ("active_run", "waiting_runs", "ready", "unsaved", "unplaced", "leaf_id")
        holds = all_of(Exists("pk"), *(same(name, item.get(name)) for name in names))
        update = Update(keys.thread(run.thread_id), HEAD, set=changes, when=holds)
        return Handover([update], facts=facts)

    async def _place(
        self, keys: Keys, run_ids: Sequence[str], outcome: Outcome
    ) -> tuple[list[Action], list[str], Outcome]:
        """Return the writes that give messages of runs that are over their place, behind the end of the run
        at work; these runs; and the outcome with the newest message. A transaction takes so many: the rest
        comes behind the next run."""
        actions: list[Action] = []
        some_ids = list(run_ids[:_MAX_PLACED])
        for run_id in some_ids:
            item = await self._table.get(keys.run(run_id), META)
            if item is None or not item.get("unplaced"):
                continue
            loose_at = from_rfc3339(item["loose_at"]) if item.get("loose_at") else None
            last = outcome.last_created_at
            facts, newest_at = self._behind(outcome.leaf_id, last, loose_at)
            if item.get("execution") is None:
                # It never began: its input is what comes there.
                facts = {
                    "unplaced": None,
                    "input_at": facts["loose_at"],
                    "input_parent": outcome.leaf_id,
                    "loose_at": None,
                }
            when = Equals("unplaced", item["unplaced"])
            actions.append(Update(keys.run(run_id), META, set=facts, when=when))
            changes = {"leaf_id": item["unplaced"], "last_created_at": newest_at}
            outcome = outcome.model_copy(update=changes)
        return actions, some_ids, outcome

    def _behind(
        self, leaf_id: str, last: datetime, loose_at: datetime | None
    ) -> tuple[dict[str, Any], datetime]:
        """Return the facts of a run whose loose messages come behind this one, and a time that is not before
        the last of them."""
        hint = max(self._clock.now(), loose_at or last)
        at = after(last, hint)
        facts = {"unplaced": None, "hears": leaf_id, "loose_at": rfc3339(at)}
        return facts, at + _ROOM

    async def plan_queued(
        self, head: ThreadHead, aside: SetAside
    ) -> tuple[list[Action], NextRun | None]:
        """Return the actions by which a run that only waits gives the thread to the first queued run that
        was not cancelled, and that run; None: there is none."""
        keys = Keys(head.owner)
        at = Outcome(
            status=Status.SUCCESS,
            finish_reason=FinishReason.STOP,
            leaf_id=aside.leaf_id,
            last_created_at=aside.last_created_at,
        )
        passed_over = set[str]()
        for candidate in head.queue:
            starting = await self._start(keys, candidate, head.agent, at)
            passed_over.add(candidate)
            if starting is None:
                continue
            left = head.queue[: head.interrupts]
            changes: dict[str, Any] = {
                **set_aside_changes(head, aside),
                "active_run": candidate,
                "queue": _without(head.queue, passed_over),
                "interrupts": len([run_id for run_id in left if run_id not in passed_over]),
                "updated_at": rfc3339(self._clock.now()),
            }
            update = Update(keys.thread(head.id), HEAD, set=changes, when=as_read(head))
            return [set_aside(aside), update, starting], NextRun(candidate)
        return [], None

    async def _carry_on(
        self, keys: Keys, run_id: str, outcome: Outcome
    ) -> tuple[NextRun | None, Update | None]:
        """Return the move of a run that was set aside, and whose decisions have come, to its next
        execution."""
        item = await self._table.get(keys.run(run_id), META)
        if item is None or not item.get("ready") or item.get("cancel"):
            return None, None
        if item["status"] != Status.RUNNING.value:
            return None, None
        n = int(item["n"]) + 1
        now = rfc3339(self._clock.now())
        changes = {
            **next_execution(run_id, n, Phase.TURN),
            "ready": None,
            "hears": outcome.leaf_id,
            "updated_at": now,
            "gsi2sk": now,
        }
        waits = all_of(Equals("status", Status.RUNNING.value), Equals("n", n - 1), Exists("ready"))
        # As for any successor, the new epoch keeps a writer of the previous execution from opening calls.
        update = Update(keys.run(run_id), META, set=changes, add={"epoch": 1}, when=waits)
        return NextRun(run_id, n), update

    async def _start(self, keys: Keys, run_id: str, agent: str, outcome: Outcome) -> Update | None:
        """Return the move of a queued run to running. It is the run of the agent that has the thread now, and
        its input follows the leaf that the thread now has."""
        item = await self._table.get(keys.run(run_id), META)
        if item is None or item["status"] != Status.QUEUED.value:
            return None
        return Update(
            keys.run(run_id),
            META,
            set={
                "agent": agent,
                "input_at": rfc3339(after(outcome.last_created_at, self._clock.now())),
                "input_parent": outcome.leaf_id,
                "status": Status.RUNNING.value,
                "execution": f"{run_id}-1",
                "updated_at": rfc3339(self._clock.now()),
                "gsi2sk": rfc3339(self._clock.now()),
            },
            when=Equals("status", Status.QUEUED.value),
        )
