"""Threads on Postgres."""

import json
from collections.abc import Sequence
from typing import Any

from layover.adapters.store.chains import chains
from layover.adapters.store.cursor import decode_cursor, encode_cursor
from layover.adapters.store.postgres.additions import Additions
from layover.adapters.store.postgres.codec import (
    as_parameter,
    dump_json,
    dump_messages,
    load_message,
    load_messages,
)
from layover.adapters.store.postgres.database import Database
from layover.adapters.store.postgres.queries import Query, Statement, load
from layover.adapters.store.postgres.trees import restore_tree, strip_tree
from layover.adapters.store.postgres.usage import insert_usage, save_usage
from layover.values.memory.context import IndexedText, PastRun, TurnContext, TurnQuery, TurnRecord
from layover.values.message import Message, Role
from layover.values.page import Page
from layover.values.thread import ThreadFacts, ThreadHead

_FACTS = tuple(ThreadFacts.model_fields)
_BURIAL = "bury_thread"


class PostgresThreads:
    """`ports.ThreadStore`; each method is one round trip, and may be repeated. `additions`: what memory adds
    to them."""

    def __init__(self, database: Database, additions: Additions) -> None:
        self._database = database
        self._additions = additions

    async def open_turn(self, query: TurnQuery) -> TurnContext:
        """Write the thread and the input, read the history before it. Empty if the thread is gone."""
        if query.head.deleted:
            return TurnContext()
        statements = self._open_turn(query)
        reads = self._additions.reads(query)
        results = await self._database.run(
            query.head.owner, *statements, *(read.statement for read in reads)
        )
        low, messages = results[len(statements) - 1][0]
        more: dict[str, Any] = {}
        for read, rows in zip(reads, results[len(statements) :], strict=True):
            more |= read.fields(rows)
        return TurnContext(window_depth=int(low or 0)).model_copy(
            update={"history": load_messages(messages), **more}
        )

    def _open_turn(self, query: TurnQuery) -> list[Statement]:
        ids = {"thread_id": query.head.id, "input_id": query.input.id}
        statements = [
            _upsert_thread(query.head),
            _insert_messages(query.head.id, (query.input,)),
            *insert_usage(query.head.id, query.run_id, query.usage),
        ]
        if query.compaction is not None:
            history = _query("open_turn_history")(**ids, pinned=None, most=None)
            return [*statements, self._additions.place_window(query), history]
        if query.pinned_depth is None and query.max_messages is None:
            span = query.window + query.window // 2
            statements.append(_query("move_window")(**ids, least=query.window, span=span))
        pinned = (
            0
            if query.max_messages is not None and query.pinned_depth is None
            else query.pinned_depth
        )
        statements.append(
            _query("open_turn_history")(**ids, pinned=pinned, most=query.max_messages)
        )
        return statements

    async def save_turn(self, record: TurnRecord) -> None:
        """Write input, response, usage and tree of a run. Nothing happens if the thread is gone."""
        if record.head.deleted:
            return
        thread_id = record.head.id
        messages = (record.input, *record.response)
        statements = [
            _upsert_thread(record.head),
            *(_insert_messages(thread_id, chain) for chain in chains(messages)),
            *([_fill_places(thread_id, messages)] if record.run.aside else []),
            *([_refuse(thread_id, record.refused)] if record.refused else []),
            *save_usage(thread_id, record.run.id, record.usage, tree := strip_tree(record)),
        ]
        if record.snapshot is not None and tree is None:
            statements.append(_upsert_snapshot(record))
        await self._database.run(record.head.owner, *statements)

    async def save_messages(self, head: ThreadHead, messages: Sequence[Message]) -> None:
        """Write messages of a run that waits. Nothing happens if the thread is gone."""
        if head.deleted or not messages:
            return
        refused = [message.id for message in messages if message.refused]
        await self._database.run(
            head.owner,
            _upsert_thread(head),
            *(_insert_messages(head.id, chain) for chain in chains(messages)),
            _fill_places(head.id, messages),
            *([_refuse(head.id, refused)] if refused else []),
        )

    async def import_messages(
        self,
        head: ThreadHead,
        messages: Sequence[Message],
        offset: int,
        texts: Sequence[IndexedText] = (),
        *,
        adds: bool = True,
    ) -> bool:
        """Write a chain of messages with their texts for recall. Return whether all of them are stored."""
        if head.deleted or not messages:
            return not head.deleted
        ids = [message.id for message in messages]
        writes = [
            _upsert_thread(head),
            _query("import_messages")(
                thread_id=head.id,
                messages=dump_messages(messages),
                offset=offset,
                parent_id=messages[0].parent_id,
            ),
            *([self._additions.index(texts)] if texts else []),
        ]
        count = _query("count_messages")(thread_id=head.id, ids=dump_json(ids))
        *_, rows = await self._database.run(head.owner, *(writes if adds else []), count)
        return int(rows[0][0] or 0) == len(ids)

    async def messages(
        self, owner: str, thread_id: str, leaf_id: str, limit: int, cursor: str | None
    ) -> Page[Message] | None:
        """A page of the branch that ends in `leaf_id`, oldest first; None: there is no such message."""
        after = decode_cursor(cursor)
        (rows,) = await self._database.run(
            owner,
            _query("page_of_messages")(
                thread_id=thread_id, leaf_id=leaf_id, after=after, limit=limit
            ),
        )
        if not rows:
            return None
        depth, page = rows[0]
        last = after + limit
        more = last < int(depth or 0)
        return Page[Message](
            items=load_messages(page), next_cursor=encode_cursor(last) if more else None
        )

    async def newest_messages(
        self, owner: str, thread_id: str, leaf_id: str, limit: int
    ) -> Sequence[Message]:
        """The last messages of the branch that ends in `leaf_id`, oldest first."""
        (rows,) = await self._database.run(
            owner,
            _query("newest_messages")(thread_id=thread_id, leaf_id=leaf_id, limit=limit),
        )
        return load_messages(rows[0][0])

    async def message(self, owner: str, thread_id: str, message_id: str) -> Message | None:
        """Return one message of this thread."""
        (rows,) = await self._database.run(
            owner, _query("one_message")(thread_id=thread_id, message_id=message_id)
        )
        message = load_message(rows[0][0]) if rows else None
        return None if message is None or message.is_place else message

    async def past_run(self, owner: str, run_id: str) -> PastRun | None:
        """Return the tree of a run that is over, with its messages."""
        (rows,) = await self._database.run(owner, _query("run_tree")(run_id=run_id))
        if not rows:
            return None
        thread_id, stored, spent, array = rows[0]
        tree, messages = json.loads(stored or b"{}"), load_messages(array)
        if spent is not None and messages:
            tree = restore_tree(tree, json.loads(spent), messages[0])
        return PastRun(thread_id=(thread_id or b"").decode(), tree=tree, messages=messages)

    async def head(self, owner: str, thread_id: str) -> ThreadHead | None:
        """Return the thread's head; `deleted` is set if it was erased."""
        (rows,) = await self._database.run(owner, _query("thread_head")(thread_id=thread_id))
        return ThreadHead.model_validate_json(rows[0][0] or b"{}") if rows else None

    async def heads(self, owner: str) -> tuple[ThreadHead, ...]:
        """Return all heads of an owner, newest first. They restore the journal's heads if it is lost."""
        (ids,) = await self._database.run(owner, _query("thread_ids")())
        head = _query("thread_head")
        results = await self._database.run(owner, *(head(thread_id=id) for (id,) in ids))
        heads = [ThreadHead.model_validate_json(rows[0][0] or b"{}") for rows in results if rows]
        return tuple(sorted(heads, key=lambda h: h.updated_at, reverse=True))

    async def erase(self, owner: str, thread_id: str) -> None:
        """Leave a tombstone and nothing else."""
        erase = load("erase.sql")
        order = [_BURIAL, *(name for name in erase if name != _BURIAL)]
        await self._database.run(owner, *(erase[name](thread_id=thread_id) for name in order))


def _query(name: str) -> Query:
    return load("threads.sql")[name]


def _upsert_thread(head: ThreadHead) -> Statement:
    return _query("upsert_thread")(**{name: as_parameter(getattr(head, name)) for name in _FACTS})


def _insert_messages(thread_id: str, messages: tuple[Message, ...]) -> Statement:
    return _query("insert_messages")(thread_id=thread_id, messages=dump_messages(messages))


def _fill_places(thread_id: str, messages: Sequence[Message]) -> Statement:
    results = tuple(m for m in messages if m.role is Role.TOOL and not m.is_place)
    return _query("fill_places")(thread_id=thread_id, messages=dump_messages(results))


def _refuse(thread_id: str, ids: Sequence[str]) -> Statement:
    return _query("refuse_messages")(thread_id=thread_id, ids=dump_json(list(ids)))


def _upsert_snapshot(record: TurnRecord) -> Statement:
    return _query("upsert_snapshot")(
        thread_id=record.head.id,
        run_id=record.run.id,
        tree=dump_json(record.snapshot),
    )
