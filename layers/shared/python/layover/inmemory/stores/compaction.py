"""Compaction in memory: the rules of `sql/compaction.sql`, on whole paths."""

from collections.abc import Sequence

from layover.adapters.store.slices import in_a_row
from layover.inmemory.stores.tables import GenerationRow, StoredThread, Tables
from layover.values.memory.compaction import (
    Compacted,
    CompactionKind,
    CompactionQuery,
    Generation,
    NewGeneration,
    Span,
)
from layover.values.memory.context import StepUsage, TurnQuery
from layover.values.message import Message


def compacted_for(thread: StoredThread, query: TurnQuery, compaction: CompactionQuery) -> Compacted:
    """Return the prompt's view of a turn and the slices behind it: those of the input's path, and those
    that end with a later message of the run."""
    path = thread.path(query.input.id)
    pinned = compaction.pinned
    active = (
        _deepest(thread, path, compaction.kind) if pinned is None else thread.stages.get(pinned)
    )
    return _view(thread, active, [*_slices(thread, path), *_own_slices(thread, query)])


class InMemoryCompaction:
    """`ports.CompactionStore`, over the threads that it writes to."""

    def __init__(self, threads: Tables) -> None:
        self._tables = threads

    async def compacted(
        self, owner: str, thread_id: str, leaf_id: str, kind: CompactionKind
    ) -> Compacted:
        """Return the prompt's view of the path that ends in `leaf_id`, with the slices behind it."""
        thread = self._tables.find(owner, thread_id)
        if thread is None or leaf_id not in thread.messages:
            return Compacted()
        path = thread.path(leaf_id)
        return _view(thread, _deepest(thread, path, kind), _slices(thread, path))

    async def span(
        self, owner: str, thread_id: str, after_id: str | None, through_id: str
    ) -> Span | None:
        """Return the messages of the path to `through_id` that come after `after_id`."""
        thread = self._tables.find(owner, thread_id)
        return None if thread is None else _span(thread, after_id, through_id)

    async def add_slice(
        self,
        owner: str,
        thread_id: str,
        slice: NewGeneration,
        run_id: str,
        usage: Sequence[StepUsage] = (),
    ) -> Generation | None:
        """Store observations that were made ahead, not active."""
        thread = self._tables.find(owner, thread_id)
        span = _span(thread, slice.after_message_id, slice.through_message_id) if thread else None
        if thread is None or span is None or not span.messages:
            return None
        path = thread.path(slice.through_message_id)
        if _depth(_deepest(thread, path, "observations")) > span.after_depth:
            return None
        if any(_same_start(s, span, path) for s in thread.stages.values()):
            return None
        self._tables.spend(owner, run_id, usage, "background")
        return _store(thread, slice, span, active=False).generation

    async def activate(
        self, owner: str, thread_id: str, numbers: Sequence[int], expected: int | None
    ) -> bool:
        """Let these slices take effect behind `expected`, all or none."""
        thread = self._tables.find(owner, thread_id)
        stages = [s for n in numbers if thread and (s := thread.stages.get(n)) and _is_slice(s)]
        if thread is None or not stages or len(stages) < len(numbers):
            return False
        path = thread.path(stages[-1].generation.through_message_id)
        active = _deepest(thread, path, "observations")
        if _number(active) != expected or not _are_linked(stages, _depth(active), path):
            return False
        chain = active.chain if active else ()
        for stage in stages:
            chain = stage.chain = (*chain, stage.generation.number)
            stage.generation = stage.generation.model_copy(update={"active": True})
        return True

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
        thread = self._tables.find(owner, thread_id)
        through = generation.through_message_id
        span = _span(thread, generation.after_message_id, through) if thread else None
        if thread is None or span is None or not span.messages:
            return None
        active = _deepest(thread, thread.path(through), _mode(generation.kind))
        if _number(active) != expected:
            return None
        if generation.kind == "reflection":
            fits = active is not None and active.generation.through_message_id == through
        else:
            fits = _depth(active) < span.through_depth
        if not fits:
            return None
        self._tables.spend(owner, run_id, usage, "background")
        return _store(thread, generation, span, active=True).generation

    async def spend(
        self, owner: str, thread_id: str, run_id: str, usage: Sequence[StepUsage]
    ) -> None:
        """Store the usage of background work that stored nothing else."""
        if self._tables.find(owner, thread_id) is not None:
            self._tables.spend(owner, run_id, usage, "background")

    async def observations(
        self, owner: str, thread_id: str, leaf_id: str
    ) -> tuple[tuple[Generation, bool], ...]:
        """Return all generations of the path, oldest first, each with whether a prompt shows it."""
        thread = self._tables.find(owner, thread_id)
        if thread is None or leaf_id not in thread.messages:
            return ()
        path = thread.path(leaf_id)
        modes: tuple[CompactionKind, ...] = ("observations", "summary")
        deepest = [_deepest(thread, path, mode) for mode in modes]
        active_numbers = {number for stage in deepest if stage for number in stage.chain}
        generations = [s.generation for s in thread.stages.values() if s.ends_on(path)]
        return tuple((g, g.number in active_numbers) for g in generations)


def _store(thread: StoredThread, new: NewGeneration, span: Span, *, active: bool) -> GenerationRow:
    number = max(thread.stages, default=0) + 1
    generation = Generation(
        number=number,
        kind=new.kind,
        after_depth=span.after_depth,
        through_depth=span.through_depth,
        through_message_id=new.through_message_id,
        active=active,
        observations=new.observations,
        summary=new.summary,
        left_out=new.left_out,
        taken=new.taken,
        token_count=new.token_count,
        prompt_version=new.prompt_version,
        model=new.model,
        created_at=new.at,
    )
    stage = thread.stages[number] = GenerationRow(generation, (number,) if active else ())
    return stage


def _view(
    thread: StoredThread, active: GenerationRow | None, slices: Sequence[Generation]
) -> Compacted:
    chain = [thread.stages[n].generation for n in active.chain] if active else []
    left_out = {id for g in chain for id in g.left_out}.difference(*(g.taken for g in chain))
    path = thread.path(chain[-1].through_message_id) if left_out else []
    return Compacted(
        generation=active.generation if active else None,
        observations=tuple(o for g in chain for o in g.observations),
        stretches=tuple(g.stretch for g in chain),
        left_out=tuple(message for message in path if message.id in left_out),
        slices=in_a_row(slices, _depth(active)),
    )


def _span(thread: StoredThread, after_id: str | None, through_id: str) -> Span | None:
    if through_id not in thread.messages:
        return None
    path = thread.path(through_id)
    places = {m.id: depth for depth, m in enumerate(path)}
    after = -1 if after_id is None else places.get(after_id)
    if after is None:
        return None
    return Span(messages=tuple(path[after + 1 :]), after_depth=after, through_depth=len(path) - 1)


def _deepest(
    thread: StoredThread, path: Sequence[Message], mode: CompactionKind
) -> GenerationRow | None:
    return max(
        (
            s
            for s in thread.stages.values()
            if s.generation.active and _mode(s.generation.kind) == mode and s.ends_on(path)
        ),
        key=lambda s: (s.generation.through_depth, s.generation.number),
        default=None,
    )


def _mode(kind: str) -> CompactionKind:
    return "summary" if kind == "summary" else "observations"


def _number(stage: GenerationRow | None) -> int | None:
    return stage.generation.number if stage else None


def _depth(stage: GenerationRow | None) -> int:
    return stage.generation.through_depth if stage else -1


def _is_slice(stage: GenerationRow) -> bool:
    return stage.generation.kind == "observations" and not stage.generation.active


def _slices(thread: StoredThread, path: Sequence[Message]) -> list[Generation]:
    return [s.generation for s in thread.stages.values() if _is_slice(s) and s.ends_on(path)]


def _own_slices(thread: StoredThread, query: TurnQuery) -> list[Generation]:
    slices = [s.generation for s in thread.stages.values() if _is_slice(s)]
    own = [g for g in slices if thread.messages[g.through_message_id].run_id == query.run_id]
    input_id = query.input.id
    return [g for g in own if any(m.id == input_id for m in thread.path(g.through_message_id))]


def _same_start(stage: GenerationRow, span: Span, path: Sequence[Message]) -> bool:
    """True if the path has a slice with this start already."""
    generation = stage.generation
    starts_here = generation.kind == "observations" and generation.after_depth == span.after_depth
    return starts_here and stage.ends_on(path)


def _are_linked(stages: Sequence[GenerationRow], depth: int, path: Sequence[Message]) -> bool:
    """True if these follow each other from this depth on, all on this path."""
    for stage in stages:
        if stage.generation.after_depth != depth or not stage.ends_on(path):
            return False
        depth = stage.generation.through_depth
    return True
