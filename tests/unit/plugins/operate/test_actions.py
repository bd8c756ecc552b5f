"""A process that acts for an operator dies at any write: nothing was done without its row."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from layover.adapters.journal.journal import table_journal
from layover.inmemory.blobs import InMemoryBlobs
from layover.inmemory.table import InMemoryTable
from layover.plugins.operate.actions import act_on, read_run
from layover.ports.table import Action, Item, Write
from layover.recovery.redrive import PAUSE
from layover.values.deployment.access import Actor
from layover.values.runs.operations import OperationKind
from support.worlds.services import ANN, ServiceBench

OLGA = Actor(sub="olga")
ACTIONS = (OperationKind.CANCEL, OperationKind.REDRIVE, OperationKind.DENY)


class Died(BaseException):
    """The process is gone."""


class Mortal(InMemoryTable):
    """A table whose process dies at its n-th write, before or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.dies_after = False
        self.is_dead = False

    async def write(self, action: Write) -> Item | None:
        self._die(after=False)
        item = await super().write(action)
        self._die(after=True)
        return item

    async def transact(self, actions: Sequence[Action], token: str) -> None:
        self._die(after=False)
        await super().transact(actions, token)
        self._die(after=True)

    def _die(self, *, after: bool) -> None:
        if self.left is None:
            return
        if not after:
            self.left -= 1
        if self.is_dead or (self.left < 0 and after == self.dies_after):
            self.is_dead = True
            raise Died


class MortalBench(ServiceBench):
    """A world over such a table, with two runs that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Mortal()
        self.journal = table_journal(self.table, InMemoryBlobs(), self.clock)
        self.runtime = self._runtime()

    async def state(self, run_id: str) -> tuple[Any, ...]:
        """All that an action may change of a run."""
        snapshot = await self.journal.runs.snapshot(ANN, run_id)
        assert snapshot is not None
        meta = snapshot.meta
        decisions = [call.decision.kind if call.decision else None for call in snapshot.calls]
        return meta.status, meta.cancel, meta.n, decisions

    async def rows(self) -> dict[str, str]:
        page = await self.journal.operations.page_actions(None, None, 50, None)
        return {str(row.run_id): row.outcome.value for row in page.items}


async def killed(kind: OperationKind, n: int, *, after: bool) -> bool:
    """Act on two runs and die at the n-th write. Return whether anything died."""
    world = MortalBench()
    runs = [(await world.suspended())[0].id for _ in range(2)]
    before = {run_id: await world.state(run_id) for run_id in runs}
    world.table.left, world.table.dies_after = n, after
    with suppress(Died):
        await act_on(world.runtime, OLGA, kind, runs, "outage")
    died, world.table.left, world.table.is_dead = world.table.is_dead, None, False
    rows = await world.rows()
    for run_id in runs:
        if await world.state(run_id) != before[run_id]:
            assert run_id in rows, (kind, n, after)
    if died:
        # The same request again ends what it began, and says in another row what came of it.
        world.clock.advance(PAUSE)
        await act_on(world.runtime, OLGA, kind, runs, "outage")
    for run_id in runs:
        assert await world.state(run_id) != before[run_id]
        assert run_id in await world.rows()
    return died


@pytest.mark.usefixtures("hurried_ends")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", ACTIONS)
async def test_whatever_was_done_has_its_row_wherever_the_process_died(
    kind: OperationKind, after: bool
) -> None:
    n = 0
    while await killed(kind, n, after=after):
        n += 1
    # Two rows, two effects and two outcomes at the least.
    assert n >= 6


async def test_action_on_a_hundred_runs_names_each_once() -> None:
    world = ServiceBench()
    runs = [(await world.suspended())[0].id for _ in range(3)]
    ids = [runs[0], "run_none", runs[1], runs[0], runs[2]]
    results = await act_on(world.runtime, OLGA, OperationKind.DENY, ids, "outage")
    assert [type(each).__name__ for each in results] == [
        "NoneType",
        "NotFound",
        "NoneType",
        "NoneType",
        "NoneType",
    ]
    page = await world.journal.operations.page_actions(None, None, 50, None)
    assert sorted(str(row.run_id) for row in page.items) == sorted(runs)


async def test_content_is_read_behind_its_row() -> None:
    world = MortalBench()
    run, _ = await world.suspended()
    world.table.left = 0
    with pytest.raises(Died):
        await read_run(world.runtime, OLGA, run.id, with_content=True)
    world.table.left, world.table.is_dead = None, False
    assert await world.rows() == {}
    _, content = await read_run(world.runtime, OLGA, run.id, with_content=True)
    assert content is not None
    assert await world.rows() == {run.id: "done"}
