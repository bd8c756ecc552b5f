"""What a bench's journal writes, one request at a time."""

from collections.abc import Awaitable, Callable, Sequence

from layover.ports.table import Action, Item, Write
from support.worlds.runs import Bench

Proceed = Callable[[], Awaitable[None]]
Around = Callable[[Sequence[Action], Proceed], Awaitable[None]]


def around_writes(bench: Bench, around: Around) -> None:
    """Have `around` make each write from now on, a transaction or a single write: with its actions, and what
    makes it."""
    table = bench._table
    transact, write = table.transact, table.write

    async def transacted(actions: Sequence[Action], token: str) -> None:
        await around(actions, lambda: transact(actions, token))

    async def wrote(action: Write) -> Item | None:
        answers: list[Item | None] = []

        async def proceed() -> None:
            answers.append(await write(action))

        await around([action], proceed)
        return answers[0]

    table.transact = transacted  # type: ignore[method-assign]
    table.write = wrote  # type: ignore[method-assign]
