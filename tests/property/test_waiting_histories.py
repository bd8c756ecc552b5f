"""Random histories of one thread whose runs wait for decisions: messages of all kinds in between, decisions,
cancels, deployments, sweeps, and a process that dies at random port calls."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from layover import Memory, ObservationalMemory
from layover.errors import Conflict, LimitReached, NotFound, ThreadBusy
from layover.recovery.sweep import sweep
from layover.runs.cancel import cancel
from layover.values.runs.run import OnBusy, OnWaiting, RunMeta, Status
from support.worlds.loops import played
from support.worlds.runs import ANN, Crash, Power
from support.worlds.talk import Talk

_KINDS = ("say", "say", "approve", "approve", "deny", "edit", "step", "step", "cancel")
_ELSE = ("rest", "rest", "deploy", "sweep")


def acts_of(seed: int) -> list[tuple[tuple[Any, ...], int | None]]:
    """Return what happens, each with the number of port calls after which the process dies; None: it does
    not."""
    chance = random.Random(seed)
    acts: list[tuple[tuple[Any, ...], int | None]] = []
    for _ in range(chance.randint(4, 14)):
        kind = chance.choice(_KINDS + _ELSE)
        act: tuple[Any, ...] = (kind,)
        if kind == "say":
            on_waiting = chance.choice([None, None, *OnWaiting])
            act = ("say", chance.randint(0, 2), on_waiting, chance.choice(list(OnBusy)))
        elif kind not in _ELSE:
            act = (kind, chance.randint(0, 4))
        acts.append((act, chance.choice([None, None, chance.randint(1, 30)])))
    return [(("say", 1, None, OnBusy.REJECT), None), *acts]


@dataclass
class History:
    """One history as it is played. An amount is paid by one call only, and a text is said once."""

    talk: Talk
    said: dict[str, str] = field(default_factory=dict)
    """Text of an accepted message -> its run."""
    approved: set[tuple[int, str]] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    number: int = 0

    async def play(self, act: Any) -> None:
        kind, *rest = act
        await getattr(self, f"_{kind}")(*rest)

    async def _say(self, calls: int, on_waiting: OnWaiting | None, on_busy: OnBusy) -> None:
        numbers = range(self.number + 1, self.number + 1 + max(calls, 1))
        self.number += len(numbers)
        word = "pay" if calls else "hi"
        text = f"{word} {' '.join(map(str, numbers))}"
        before = {meta.id for meta in await self.talk.runs()}
        try:
            run_id = await self.talk.say(text, on_waiting=on_waiting, on_busy=on_busy)
        except (ThreadBusy, LimitReached, Conflict):
            return
        self.said[text] = run_id
        flagged = {m.id for m in await self.talk.runs() if m.cancel}
        gone = before - {m.id for m in await self.talk.runs()}
        self.cancelled |= flagged | gone

    async def _chosen(self, at: int) -> RunMeta | None:
        runs = await self.talk.runs()
        return runs[at % len(runs)] if runs else None

    async def _decide(self, at: int, verdict: str, **given: Any) -> None:
        runs = [m for m in await self.talk.runs() if m.waiting]
        if not runs:
            return
        snapshot = await self.talk.plain.journal.runs.snapshot(ANN, runs[at % len(runs)].id)
        assert snapshot is not None
        for call in snapshot.calls:
            if not call.undecided or call.suspension is None:
                continue
            asked = {"amount": 0, "account": "x", **(call.suspension.args or {}), **given}
            changes = {"args": asked} if given else {}
            if verdict == "approve":
                self.approved.add((asked["amount"], asked["account"]))
            await self.talk.decide_as(
                call.run_id, call.tool_call_id, verdict, attempt=call.attempt, **changes
            )
            return

    async def _approve(self, at: int) -> None:
        await self._decide(at, "approve")

    async def _deny(self, at: int) -> None:
        await self._decide(at, "deny")

    async def _edit(self, at: int) -> None:
        self.number += 1
        await self._decide(at, "approve", amount=1000 + self.number)

    async def _step(self, at: int) -> None:
        meta = await self._chosen(at)
        if meta is not None and meta.status is not Status.QUEUED:
            await self.talk.step(meta.id)

    async def _cancel(self, at: int) -> None:
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

    async def finish(self) -> None:
        """Decide everything that waits, until nothing does."""
        for _ in range(200):
            await self.talk.rest()
            if not await self.talk.runs():
                return
            await self._decide(0, "approve")
        raise AssertionError(f"no end: {await self.talk.runs()}")


async def _play(acts: list[tuple[tuple[Any, ...], int | None]], **agent: Any) -> Counter[str]:
    """Play a history; count what happened in it."""
    history = History(Talk(**agent))
    talk, power = history.talk, history.talk.power
    for act, cut in acts:
        power.cut_at = power.calls + cut if cut else 0
        power.after = bool(cut and cut % 2)
        try:
            await history.play(act)
        except NotFound:
            assert act[0] == "cancel"
        power.cut_at = 0
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
    words = Counter(await talk.words())
    for text, run_id in history.said.items():
        # What was said to a run that was cancelled may stand in a branch, or never have begun.
        expected = {0, 1} if run_id in history.cancelled else {1}
        assert words[text] in expected, f"{text!r} is lost or there twice"
    page = await talk.plain.journal.runs.page_ids(ANN, "t1", 100, None)
    aside = sum([(await talk.meta(run_id)).aside for run_id in page.items])
    return Counter(paid=len(talk.paid), deaths=power.cuts, aside=aside, said=len(history.said))


def play_all(seeds: range) -> Counter[str]:
    """Play a history for each seed, every other one with an agent that compacts."""
    total: Counter[str] = Counter()

    async def scene(seed: int) -> None:
        memory = Memory(compaction=ObservationalMemory(message_tokens=200), last_messages=2)
        total.update(await _play(acts_of(seed), **({"memory": memory} if seed % 2 else {})))

    for seed in seeds:
        try:
            played(scene(seed))
        except BaseException as error:
            error.add_note(f"history {seed}: {acts_of(seed)}")
            raise
    return total


def test_nothing_is_lost_or_done_twice_while_runs_of_a_thread_wait() -> None:
    total = play_all(range(40))
    # Runs are set aside, processes die, and calls are made.
    assert min(total["aside"], total["deaths"], total["paid"]) > 5, total


@pytest.mark.torture
def test_nothing_is_lost_or_done_twice_in_ten_thousand_histories() -> None:
    total = play_all(range(1_000, 11_000))
    assert total["aside"] > 1_000


def test_the_power_of_a_history_really_goes() -> None:
    talk = Talk(Power())

    async def scene() -> None:
        talk.power.cut_at = 5
        run_id = await talk.say("pay 1")
        await talk.rest()
        assert (await talk.meta(run_id)).waiting

    played(scene())
    assert talk.power.cuts == 1
