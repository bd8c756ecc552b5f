"""Short words for threads and messages in tests of their stores."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from layover.ports import MemoryStore, ThreadStore
from layover.values.memory.context import StepUsage, TurnQuery, TurnRecord
from layover.values.message import Message, Part, Role, TextPart
from layover.values.runs.run import RunMeta, Status
from layover.values.thread import ThreadHead

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Stores:
    """The stores of one implementation, on the same data."""

    threads: ThreadStore
    memory: MemoryStore


@dataclass
class Conversation:
    """One owner's thread, driven against a store. Each message is a second later than the one before."""

    store: ThreadStore
    owner: str
    id: str = "thread"
    head_fields: dict[str, Any] = field(default_factory=dict)
    made: int = 0

    def head(self, **fields: Any) -> ThreadHead:
        common = {"id": self.id, "owner": self.owner, "agent": "support"}
        times = {"created_at": START, "updated_at": START}
        return ThreadHead(**{**common, **times, **self.head_fields, **fields})

    def message(
        self, id: str, parent: str | None, role: Role = Role.USER, *parts: Part, **fields: Any
    ) -> Message:
        self.made += 1
        return Message(
            id=id,
            thread_id=self.id,
            run_id="run",
            parent_id=parent,
            role=role,
            content=parts or (TextPart(text=f"text of {id}"),),
            created_at=START + timedelta(seconds=self.made),
            **fields,
        )

    def chain(self, parent: str | None, *ids: str) -> tuple[Message, ...]:
        """A user message with its answers, each the parent of the next."""
        parents = (parent, *ids)
        return tuple(
            self.message(id, before, Role.USER if n == 0 else Role.ASSISTANT)
            for n, (id, before) in enumerate(zip(ids, parents[:-1], strict=True))
        )

    async def open(self, input: Message, window: int = 20, **head: Any) -> list[str]:
        """Open a turn; the ids of its history."""
        query = self.query(input, window, **head)
        return [m.id for m in (await self.store.open_turn(query)).history]

    def query(self, input: Message, window: int = 20, **head: Any) -> TurnQuery:
        return TurnQuery(head=self.head(**head), run_id="run", input=input, window=window)

    async def save(
        self,
        input: Message,
        *response: Message,
        usage: tuple[StepUsage, ...] = (),
        snapshot: dict[str, Any] | None = None,
        refused: tuple[str, ...] = (),
        **head: Any,
    ) -> None:
        run = RunMeta(
            id="run",
            owner=self.owner,
            thread_id=self.id,
            agent="support",
            status=Status.SUCCESS,
            input=input,
            created_at=START,
            updated_at=START,
        )
        await self.store.save_turn(
            TurnRecord(
                head=self.head(**head),
                run=run,
                input=input,
                response=response,
                usage=usage,
                snapshot=snapshot,
                refused=refused,
            )
        )

    async def say(self, parent: str | None, *ids: str) -> tuple[Message, ...]:
        """Save a turn: the first id is the user's message, the others answer it."""
        messages = self.chain(parent, *ids)
        await self.save(*messages)
        return messages

    async def path(self, leaf: str, limit: int = 100) -> list[str] | None:
        """The ids of the branch that ends in this message, read page by page; None: no such message."""
        ids: list[str] = []
        cursor: str | None = None
        while True:
            page = await self.store.messages(self.owner, self.id, leaf, limit, cursor)
            if page is None:
                return None
            assert len(page.items) <= limit
            ids += [m.id for m in page.items]
            cursor = page.next_cursor
            if cursor is None:
                return ids
