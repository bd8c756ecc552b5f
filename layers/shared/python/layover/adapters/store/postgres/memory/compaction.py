"""Compaction on Postgres: generations of observations and of summaries."""

import json
from collections.abc import Sequence
from uuid import uuid4

from pydantic import TypeAdapter

from layover.adapters.store.postgres.codec import dump_json, dump_usage, load_messages
from layover.adapters.store.postgres.database import Database, Row
from layover.adapters.store.postgres.memory.notes import lock_thread
from layover.adapters.store.postgres.queries import Query, Statement, Value, load
from layover.adapters.store.postgres.usage import insert_usage
from layover.adapters.store.slices import MOST, in_a_row
from layover.values.memory.compaction import (
    Compacted,
    CompactionKind,
    Generation,
    NewGeneration,
    Observation,
    Span,
)
from layover.values.memory.context import StepUsage, TurnQuery

_GENERATIONS: TypeAdapter[tuple[Generation, ...]] = TypeAdapter(
    tuple[Generation, ...], config={"defer_build": True}
)
_OBSERVATIONS: TypeAdapter[tuple[Observation, ...]] = TypeAdapter(
    tuple[Observation, ...], config={"defer_build": True}
)


def place_window(query: TurnQuery) -> Statement:
    """Let the turn's window begin behind what its prompt shows as compacted."""
    return _query("place_window")(**_asked(query))


def compacted(query: TurnQuery) -> Statement:
    """The statement whose answer `compacted_of` reads."""
    return _query("compacted")(**_asked(query), run_id=query.run_id, most=MOST)


def compacted_of(rows: list[Row]) -> Compacted | None:
    """The answer of `compacted`; None where the message is gone."""
    if not rows:
        return None
    generation, observations, slices = rows[0]
    shown = Generation.model_validate_json(generation) if generation else None
    return Compacted(
        generation=shown,
        observations=_OBSERVATIONS.validate_json(observations or b"[]"),
        slices=in_a_row(
            _GENERATIONS.validate_json(slices or b"[]"), shown.through_depth if shown else -1
        ),
    )


def gone(ids: Sequence[str]) -> Statement:
    """The statement whose answer `gone_of` reads."""
    return _query("gone")(ids=dump_json(list(ids)))


def gone_of(rows: list[Row]) -> tuple[str, ...]:
    """The answer of `gone`."""
    return tuple(json.loads(rows[0][0] or b"[]"))


class PostgresCompaction:
    """`ports.CompactionStore`; every pipeline may run twice."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def compacted(
        self, owner: str, thread_id: str, leaf_id: str, kind: CompactionKind
    ) -> Compacted:
        """Returns the prompt's view of the path that ends in `leaf_id`, with the slices behind it."""
        query = _query("compacted")(
            thread_id=thread_id, leaf_id=leaf_id, mode=kind, pinned=None, run_id=None, most=MOST
        )
        (rows,) = await self._database.run(owner, query)
        return compacted_of(rows) or Compacted()

    async def span(
        self, owner: str, thread_id: str, after_id: str | None, through_id: str
    ) -> Span | None:
        """The messages of the path to `through_id` that come after `after_id`."""
        query = _query("span")(thread_id=thread_id, after_id=after_id, through_id=through_id)
        (rows,) = await self._database.run(owner, query)
        if not rows:
            return None
        after, through, messages = rows[0]
        return Span(
            messages=load_messages(messages),
            after_depth=int(after or 0),
            through_depth=int(through or 0),
        )

    async def add_slice(
        self,
        owner: str,
        thread_id: str,
        slice: NewGeneration,
        run_id: str,
        usage: Sequence[StepUsage] = (),
    ) -> Generation | None:
        """Keep observations that were made ahead, not active."""
        given = _given(thread_id, slice, run_id, usage)
        return await self._store(owner, _query("add_slice")(**given, mode="observations"), given)

    async def activate(
        self, owner: str, thread_id: str, numbers: Sequence[int], expected: int | None
    ) -> bool:
        """Let these slices take effect behind `expected`, all or none."""
        if not numbers:
            return False
        call = {"thread_id": thread_id, "id": uuid4().hex}
        activate = _query("activate")(
            **call, numbers=dump_json(list(numbers)), expected=expected, mode="observations"
        )
        done = _query("activated")(**call, generation=numbers[-1])
        *_, rows = await self._database.run(owner, lock_thread(thread_id), activate, done)
        return bool(rows)

    async def replace(
        self,
        owner: str,
        thread_id: str,
        generation: NewGeneration,
        expected: int | None,
        run_id: str,
        usage: Sequence[StepUsage] = (),
    ) -> Generation | None:
        """Store a reflection or a summary in the place of `expected`."""
        given = _given(thread_id, generation, run_id, usage)
        mode: CompactionKind = "summary" if generation.kind == "summary" else "observations"
        replace = _query("replace_generation")(**given, mode=mode, expected=expected)
        return await self._store(owner, replace, given)

    async def spend(
        self, owner: str, thread_id: str, run_id: str, usage: Sequence[StepUsage]
    ) -> None:
        """Keep what background work cost that stored nothing."""
        if statements := insert_usage(thread_id, run_id, usage, "background"):
            await self._database.run(owner, *statements)

    async def observations(
        self, owner: str, thread_id: str, leaf_id: str
    ) -> tuple[tuple[Generation, bool], ...]:
        """All generations of the path, oldest first, each with whether a prompt shows it."""
        query = _query("generations")(thread_id=thread_id, leaf_id=leaf_id)
        (rows,) = await self._database.run(owner, query)
        return tuple((Generation.model_validate_json(told or b"{}"), s == b"t") for told, s in rows)

    async def _store(
        self, owner: str, write: Statement, given: dict[str, Value]
    ) -> Generation | None:
        """Write, and read what this call has written, in one transaction."""
        thread_id = str(given["thread_id"])
        made = _query("stored_generation")(thread_id=thread_id, id=given["id"])
        *_, rows = await self._database.run(owner, lock_thread(thread_id), write, made)
        return Generation.model_validate_json(rows[0][0] or b"{}") if rows else None


def _asked(query: TurnQuery) -> dict[str, Value]:
    asked = query.compaction
    return {
        "thread_id": query.head.id,
        "leaf_id": query.input.id,
        "mode": asked.kind if asked else None,
        "pinned": asked.pinned if asked else None,
    }


def _given(
    thread_id: str, made: NewGeneration, run_id: str, usage: Sequence[StepUsage]
) -> dict[str, Value]:
    return {
        "thread_id": thread_id,
        "id": uuid4().hex,
        "kind": made.kind,
        "after_id": made.after_message_id,
        "through_id": made.through_message_id,
        "observations": dump_json([o.model_dump() for o in made.observations]),
        "summary": made.summary,
        "token_count": made.token_count,
        "prompt_version": made.prompt_version,
        "model": made.model,
        "at": made.at.isoformat(),
        "usage": dump_usage(run_id, usage, "background"),
    }


def _query(name: str) -> Query:
    return load("compaction.sql")[name]
