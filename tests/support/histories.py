"""Random histories of one thread whose runs wait for decisions: messages of all kinds in between, sub-agents
that wait, branches, decisions, expiries, cancels, deployments, sweeps, and a process that dies at random port
calls.

`tests/property/test_waiting_histories.py` plays a few. This plays more, and goes on behind one that fails:

PYTHONPATH=tests:. .venv/bin/python -m support.histories 1000 11000
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from layover import Memory, ObservationalMemory
from layover.errors import Conflict, LimitReached, NotFound, ThreadBusy
from layover.recovery.sweep import sweep
from layover.runs.accept import ABSENT, make_message_key, send_message
from layover.runs.cancel import cancel
from layover.threads.messages import list_messages
from layover.values.message import Message, Role
from layover.values.runs.run import CallRecord, OnBusy, OnWaiting, RunMeta, Status
from support.worlds.loops import played
from support.worlds.runs import ANN, Crash
from support.worlds.talk import ACTOR, EXPIRES_AFTER, Talk

Act = tuple[Any, ...]
Acts = Sequence[tuple[Act, int | None]]

_KINDS = (
    "say",
    "say",
    "say",
    "tell",
    "approve",
    "approve",
    "deny",
    "edit",
    "step",
    "step",
    "cancel",
)
_ELSE = ("rest", "rest", "deploy", "sweep", "later")
_CALLS = ("pay", "pay", "soon", "desk", "desk both")
_PARENTS = (None, None, None, "root", *range(4))


def acts_of(seed: int) -> Acts:
    """Return what happens, each with the number of port calls after which the process dies; None: it does
    not."""
    chance = random.Random(seed)
    acts: list[tuple[Act, int | None]] = []
    for _ in range(chance.randint(4, 14)):
        kind = chance.choice(_KINDS + _ELSE)
        act: Act = (kind,)
        if kind == "say":
            calls = tuple(chance.choices(_CALLS, k=chance.randint(0, 2)))
            on_waiting = chance.choice([None, None, *OnWaiting])
            on_busy, parent = chance.choice(list(OnBusy)), chance.choice(_PARENTS)
            act = ("say", calls, on_waiting, on_busy, parent)
        elif kind not in _ELSE:
            act = (kind, chance.randint(0, 4), chance.randint(0, 2))
        acts.append((act, chance.choice([None, None, chance.randint(1, 30)])))
    return [(("say", (chance.choice(_CALLS),), None, OnBusy.REJECT, None), None), *acts]


@dataclass
class History:
    """One history as it is played. An amount is paid by one call only, and a text is said once."""

    talk: Talk
    said: dict[str, str] = field(default_factory=dict)
    """Text of an accepted message -> its run."""
    approved: set[tuple[int, str]] = field(default_factory=set)
    """Amounts and accounts, as whoever approved them was shown them, or wrote them."""
    cancelled: set[str] = field(default_factory=set)
    number: int = 0
    played: Counter[str] = field(default_factory=Counter)

    async def play(self, act: Act) -> None:
        """Let it happen."""
        kind, *rest = act
        await getattr(self, f"_{kind}")(*rest)

    def _next(self) -> int:
        self.number += 1
        return self.number

    async def _say(
        self, calls: Sequence[str], on_waiting: OnWaiting | None, on_busy: OnBusy, parent: Any
    ) -> None:
        words = [self._call(kind) for kind in calls] or [f"hi {self._next()}"]
        text = " ".join(words)
        before = {meta.id for meta in await self.talk.runs()}
        options = {"on_waiting": on_waiting, "on_busy": on_busy}
        try:
            run_id = await self.talk.say(text, parent_id=await self._parent(parent), **options)
        except (ThreadBusy, LimitReached, Conflict):
            return
        self.said[text] = run_id
        self.played["branches"] += parent is not None
        flagged = {m.id for m in await self.talk.runs() if m.cancel}
        gone = before - {m.id for m in await self.talk.runs()}
        self.cancelled |= flagged | gone

    def _call(self, kind: str) -> str:
        if kind == "desk both":
            return f"desk {self._next()}+{self._next()}"
        return f"{kind} {self._next()}"

    async def _parent(self, at: Any) -> Any:
        """Return what a message names as its parent: one of those that a reader is shown."""
        if at is None or at == "root":
            return ABSENT if at is None else None
        page = await list_messages(self.talk.plain, ANN, "t1", None, 200, None)
        return page.items[at % len(page.items)].id if page.items else ABSENT

    async def _tell(self, at: int, _: int) -> None:
        """Send a message to a run that is not over."""
        meta = await self._chosen(at)
        if meta is None:
            return
        text = f"psst {self._next()}"
        key = make_message_key(text, meta.id, text, self.talk.clock.now())
        for _ in range(5):
            try:
                await send_message(self.talk.runtime, ACTOR, meta.id, text, key)
            except Crash:
                self.talk.power.restore()
            except (Conflict, LimitReached):
                return
            else:
                self.said[text] = meta.id
                return
        raise AssertionError("the message is never answered")

    async def _chosen(self, at: int) -> RunMeta | None:
        runs = await self.talk.runs()
        return runs[at % len(runs)] if runs else None

    async def _decide(self, at: int, which: int, verdict: str, **given: Any) -> None:
        runs = [m for m in await self.talk.runs() if m.waiting]
        if not runs:
            return
        snapshot = await self.talk.plain.journal.runs.snapshot(ANN, runs[at % len(runs)].id)
        assert snapshot is not None
        calls = [call for call in snapshot.calls if call.undecided]
        if not calls:
            return
        call: CallRecord = calls[which % len(calls)]
        asked = {"amount": 0, "account": "x", **call.exact_args, **given}
        changes = {"args": asked} if given else {}
        done = await self.talk.decide_as(
            call.run_id, call.tool_call_id, verdict, attempt=call.attempt, **changes
        )
        if done and verdict == "approve":
            self.approved.add((asked["amount"], asked["account"]))
            self.played["below"] += bool(call.agent_path[1:])

    async def _approve(self, at: int, which: int) -> None:
        await self._decide(at, which, "approve")

    async def _deny(self, at: int, which: int) -> None:
        await self._decide(at, which, "deny")

    async def _edit(self, at: int, which: int) -> None:
        await self._decide(at, which, "approve", amount=1000 + self._next())

    async def _step(self, at: int, _: int) -> None:
        meta = await self._chosen(at)
        if meta is not None and meta.status is not Status.QUEUED:
            await self.talk.step(meta.id)

    async def _cancel(self, at: int, _: int) -> None:
        meta = await self._chosen(at)
        if meta is None:
            return
        self.cancelled.add(meta.id)
        try:
            await cancel(self.talk.runtime, ANN, meta.id)
        except Crash:
            self.talk.power.restore()

    async def _rest(self) -> None:
        await self.talk.rest()

    async def _deploy(self) -> None:
        self.talk.redeploy()

    async def _sweep(self) -> None:
        self.talk.clock.advance(self.talk.plain.settings.sweep_patience)
        try:
            await sweep(self.talk.runtime)
        except Crash:
            self.talk.power.restore()

    async def _later(self) -> None:
        self.talk.clock.advance(EXPIRES_AFTER + timedelta(seconds=1))
        self.played["expired"] += await self.talk.time_out()

    async def finish(self) -> None:
        """Decide everything that waits, until nothing does."""
        for _ in range(200):
            await self.talk.rest()
            if not await self.talk.runs():
                return
            if not await self.talk.time_out():
                await self._decide(0, 0, "approve")
        raise AssertionError(f"no end: {await self.talk.runs()}")

    async def check(self) -> None:
        """Check what a reader is shown at any moment."""
        words = Counter(await self.talk.words())
        twice = [text for text in self.said if words[text] > 1]
        assert not twice, f"{twice} are shown twice"


async def play(acts: Acts, **agent: Any) -> Counter[str]:
    """Play a history with an agent of these options; count what happened in it."""
    return await play_in(Talk(**agent), acts)


async def play_in(talk: Talk, acts: Acts) -> Counter[str]:
    """Play a history in this thread; count what happened in it."""
    history, power = History(talk), talk.power
    for act, cut in acts:
        power.cut_at = power.calls + cut if cut else 0
        power.after = bool(cut and cut % 2)
        try:
            await history.play(act)
        except NotFound:
            assert act[0] in ("cancel", "tell")
        power.cut_at = 0
        if history.said:
            await history.check()
    await history.finish()
    if not history.said:
        return Counter()
    head = await talk.head()
    assert (head.active_run, head.waiting_runs, head.ready, head.queue) == (None, (), (), ())
    paid = Counter(amount for amount, _ in talk.paid)
    assert set(paid.values()) <= {1}, f"paid twice: {talk.paid}"
    assert set(talk.paid) <= history.approved, "nothing is paid that was not approved as it is"
    if head.unsaved:
        await talk.go("hi at last")
    await history.check()
    _check_tree(talk, history)
    page = await talk.plain.journal.runs.page_ids(ANN, "t1", 100, None)
    aside = sum([(await talk.meta(run_id)).aside for run_id in page.items])
    happened = {"paid": len(talk.paid), "deaths": power.cuts, "aside": aside}
    return history.played + Counter(**happened, said=len(history.said))


def _check_tree(talk: Talk, history: History) -> None:
    """Check what the database has in the end, over all branches."""
    thread = talk.threads.find(ANN, "t1")
    assert thread is not None
    messages: dict[str, Message] = dict(thread.messages)
    texts = Counter(m.text for m in messages.values() if m.role is Role.USER)
    for text, run_id in history.said.items():
        # What was said to a run that was cancelled may never have begun.
        expected = {0, 1} if run_id in history.cancelled else {1}
        assert texts[text] in expected, f"{text!r} is lost or there twice"
    lost = [m.parent_id for m in messages.values() if m.parent_id not in (None, *messages)]
    assert not lost, "each message's parent is there"
    children = Counter(m.parent_id for m in messages.values())
    for leaf in (m for m in messages.values() if not children[m.id]):
        path = [m for m in thread.path(leaf.id) if m.role is not Role.CUSTOM]
        times = [m.created_at for m in path]
        assert times == sorted(set(times)), "in each branch, times only grow"


def play_all(
    seeds: range, report: Callable[[int, BaseException], None] | None = None
) -> Counter[str]:
    """Play a history for each seed, every other one with an agent that compacts. `report`: called with one
    that fails; None: it is raised."""
    total: Counter[str] = Counter()

    async def scene(seed: int) -> None:
        memory = Memory(compaction=ObservationalMemory(message_tokens=200), last_messages=2)
        total.update(await play(acts_of(seed), **({"memory": memory} if seed % 2 else {})))

    for seed in seeds:
        try:
            played(scene(seed))
        except BaseException as error:
            error.add_note(f"history {seed}: {acts_of(seed)}")
            if report is None or isinstance(error, KeyboardInterrupt):
                raise
            report(seed, error)
    return total


def main(first: int, end: int) -> int:
    """Play the histories from `first` to before `end`, and print what happened and which failed."""
    failures: list[int] = []

    def report(seed: int, error: BaseException) -> None:
        failures.append(seed)
        print(f"history {seed} failed: {type(error).__name__}: {error}", flush=True)

    total: Counter[str] = Counter()
    for start in range(first, end, 100):
        chunk = range(start, min(start + 100, end))
        total.update(play_all(chunk, report))
        print(f"{chunk.stop - first} histories, {len(failures)} failed: {dict(total)}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
