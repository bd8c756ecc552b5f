"""Compaction on Postgres: generations of observations and of summaries."""

import json
from collections.abc import Sequence

from layover.adapters.store.postgres.codec import dump_json, dump_usage, load_rows, rows_of
from layover.adapters.store.postgres.database import Database, Row
from layover.adapters.store.postgres.queries import Query, Statement, Value, load
from layover.adapters.store.postgres.usage import insert_usage
from layover.adapters.store.slices import MAX_SLICES, in_a_row
from layover.dice import SYSTEM_DICE
from layover.plugins.memory.postgres.notes import lock_thread
from layover.values.memory.compaction import (
    Compacted,
    CompactionKind,
    Generation,
    NewGeneration,
    Observation,
    Span,
    Stretch,
)
from layover.values.memory.context import StepUsage, TurnQuery

_GENERATIONS = rows_of(Generation)
_STRETCHES = rows_of(Stretch)
_OBSERVATIONS = rows_of(Observation)


def place_window(query: TurnQuery) -> Statement:
    """Let the turn's window begin behind the messages that its prompt shows as compacted."""
    return _query("place_window")(**_place_values(query))


def compacted(query: TurnQuery) -> Statement:
    """The statement whose answer `compacted_of` reads."""
    return _query("compacted")(**_place_values(query), run_id=query.run_id, most=MAX_SLICES)


def compacted_of(rows: list[Row]) -> Compacted | None:
    """The answer of `compacted`; None if the message is gone."""
    if not rows:
        return None
    generation, observations, stretches, slices, left_out = rows[0]
    active = Generation.model_validate_json(generation) if generation else None
    return Compacted(
        generation=active,
        observations=_OBSERVATIONS.validate_json(observations or b"[]"),
        stretches=_STRETCHES.validate_json(stretches or b"[]"),
        left_out=load_rows(left_out),
        slices=in_a_row(
            _GENERATIONS.validate_json(slices or b"[]"), active.through_depth if active else -1
        ),
    )


def find_deleted(ids: Sequence[str]) -> Statement:
    """The statement whose answer `gone_of` reads."""
    return _query("gone")(ids=dump_json(list(ids)))


def gone_of(rows: list[Row]) -> tuple[str, ...]:
    """The answer of `find_deleted`."""
    return tuple(json.loads(rows[0][0] or b"[]"))


class PostgresCompaction:
    """`ports.CompactionStore`; every pipeline may run twice."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def compacted(
        self, owner: str, thread_id: str, leaf_id: str, kind: CompactionKind
    ) -> Compacted:
        """Return the prompt's view of the path that ends in `leaf_id`, with the slices behind it."""
        query = _query("compacted")(
            thread_id=thread_id,
            leaf_id=leaf_id,
            mode=kind,
            pinned=None,
            run_id=None,
            most=MAX_SLICES,
        )
        (rows,) = await self._database.run(owner, query)
        return compacted_of(rows) or Compacted()

    async def span(
        self, owner: str, thread_id: str, after_id: str | None, through_id: str
    ) -> Span | None:
        """Return the messages of the path to `through_id` that come after `after_id`."""
        query = _query("span")(thread_id=thread_id, after_id=after_id, through_id=through_id)
        (rows,) = await self._database.run(owner, query)
        if not rows:
            return None
        after, through, messages = rows[0]
        return Span(
            messages=load_rows(messages),
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
        """Store observations that were made ahead, not active."""
        values = _generation_values(thread_id, slice, run_id, usage)
        return await self._store(owner, _query("add_slice")(**values, mode="observations"), values)

    async def activate(
        self, owner: str, thread_id: str, numbers: Sequence[int], expected: int | None
    ) -> bool:
        """Let these slices take effect behind `expected`, all or none."""
        if not numbers:
            return False
        call = {"thread_id": thread_id, "id": SYSTEM_DICE.hex(16)}
        activate = _query("activate")(
            **call, numbers=dump_json(list(numbers)), expected=expected, mode="observations"
        )
        query = _query("activated")(**call, generation=numbers[-1])
        *_, rows = await self._database.run(owner, lock_thread(thread_id), activate, query)
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
        values = _generation_values(thread_id, generation, run_id, usage)
        mode: CompactionKind = "summary" if generation.kind == "summary" else "observations"
        replace = _query("replace_generation")(**values, mode=mode, expected=expected)
        return await self._store(owner, replace, values)

    async def spend(
        self, owner: str, thread_id: str, run_id: str, usage: Sequence[StepUsage]
    ) -> None:
        """Store the usage of background work that stored nothing else."""
        if statements := insert_usage(thread_id, run_id, usage):
            await self._database.run(owner, *statements)

    async def observations(
        self, owner: str, thread_id: str, leaf_id: str
    ) -> tuple[tuple[Generation, bool], ...]:
        """Return all generations of the path, oldest first, each with whether a prompt shows it."""
        query = _query("generations")(thread_id=thread_id, leaf_id=leaf_id)
        (rows,) = await self._database.run(owner, query)
        return tuple(
            (Generation.model_validate_json(document or b"{}"), is_shown == b"t")
            for document, is_shown in rows
        )

    async def _store(
        self, owner: str, write: Statement, values: dict[str, Value]
    ) -> Generation | None:
        """Write, and read what this call has written, in one transaction."""
        thread_id = str(values["thread_id"])
        read_back = _query("stored_generation")(thread_id=thread_id, id=values["id"])
        *_, rows = await self._database.run(owner, lock_thread(thread_id), write, read_back)
        return Generation.model_validate_json(rows[0][0] or b"{}") if rows else None


def _place_values(query: TurnQuery) -> dict[str, Value]:
    compaction = query.compaction
    return {
        "thread_id": query.head.id,
        "leaf_id": query.input.id,
        "mode": compaction.kind if compaction else None,
        "pinned": compaction.pinned if compaction else None,
    }


def _generation_values(
    thread_id: str, generation: NewGeneration, run_id: str, usage: Sequence[StepUsage]
) -> dict[str, Value]:
    return {
        "thread_id": thread_id,
        "id": SYSTEM_DICE.hex(16),
        "kind": generation.kind,
        "after_id": generation.after_message_id,
        "through_id": generation.through_message_id,
        "observations": dump_json([o.model_dump() for o in generation.observations]),
        "summary": generation.summary,
        "left_out": dump_json(list(generation.left_out)),
        "taken": dump_json(list(generation.taken)),
        "token_count": generation.token_count,
        "prompt_version": generation.prompt_version,
        "model": generation.model,
        "at": generation.at.isoformat(),
        "usage": dump_usage(run_id, usage, "background"),
    }


def _query(name: str) -> Query:
    return load("compaction.sql")[name]
