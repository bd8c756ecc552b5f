"""A run and the compaction of its branch (docs/behaviour.md#compaction-waits): which steps are observed ahead
while the run goes on, which results take effect, and when the run has to wait."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from layover.context import compaction
from layover.context.assembly import drop_compacted, goes_beyond_input, is_left_out
from layover.context.compaction import Limits, Path, with_slices
from layover.context.tokens import counted_tokens, estimate, total_tokens, with_token_count
from layover.engine.prompter import Prompter
from layover.engine.work import RunWork
from layover.values.memory.compaction import Compacted
from layover.values.memory.context import TurnRecord
from layover.values.message import Message
from layover.values.metrics import Metric
from layover.values.thread import ThreadHead


@dataclass(frozen=True)
class CompactionState:
    """The compaction of a turn's branch as the turn read it, and the thresholds that the agent sets for
    it."""

    limits: Limits
    head: ThreadHead
    compacted: Compacted


@dataclass(frozen=True)
class _Sizes:
    """Tokens of a prompt. `stored`: messages that are not compacted, as the thread has them. `messages`: the
    same as the prompt shows them. `stays`: the run's input, if it stays in the prompt. `outside`: messages
    that no compaction takes, as runs wait or did; none of the others has them. `block`: the text that stands
    for the compacted messages."""

    stored: int
    messages: int
    stays: int
    outside: int
    block: int

    @property
    def prompt(self) -> int:
        """The tokens of the whole prompt, without those outside."""
        return self.messages + self.stays + self.block


class Compaction:
    """Keeps the prompts of one run within its agent's thresholds."""

    def __init__(
        self, work: RunWork, prompter: Prompter, compaction_state: CompactionState
    ) -> None:
        state = work.state
        self._work = work
        self._runtime = work.runtime
        self._state = state
        self._prompter = prompter
        self._memory = prompter.memory
        self._limits = compaction_state.limits
        self._head = compaction_state.head
        slices = compaction_state.compacted.slices
        if slices and state.asked_through is None:
            state.asked_through = slices[-1].through_message_id
        self._compacted = compaction_state.compacted
        self._saved = 0

    async def allows(self) -> bool:
        """Return whether the model may be called now. On False, the run yields and waits for its compaction.
        It waits once for each step: whatever comes of the wait, the run goes on afterwards."""
        await self._observe_ahead()
        if not self._is_over_threshold():
            return True
        await self._switch()
        index, _ = self._state.next_key()
        waited = self._state.meta.compacted_for == index or self._was_wait_useless()
        if waited or not self._late(self._sizes()) or not self._can_help():
            return True
        await self._save()
        await self._work.wait_for_compaction(index)
        self._runtime.metrics.count(Metric.COMPACTION_WAITS, agent=self._state.meta.agent)
        return False

    def _visible(self, through: str | None, left_out: Collection[str]) -> list[Message]:
        """Return the branch as prompts show it with this compaction: history, the run's input, its own
        steps."""
        input_message, response = self._state.meta.input, self._state.fixed_response()
        about = (input_message, response, through, left_out)
        history, own = drop_compacted(self._prompter.history, *about)
        if goes_beyond_input(*about) and input_message.id not in left_out:
            return [*history, *own]
        return [*history, input_message, *own]

    def _path(self, through: str | None, left_out: Collection[str]) -> Path:
        """Return the branch behind `through`."""
        visible = self._visible(through, left_out)
        behind = visible
        if left_out:
            behind = [m for m in visible if not is_left_out(m, left_out)]
        return Path(behind, self._head.waiting_runs)

    def _now(self) -> Path:
        """Return the branch behind what the prompt shows as compacted."""
        rendered = self._memory.rendered
        return self._path(rendered.through, rendered.left_out)

    def _sizes(self) -> _Sizes:
        rendered, input_message = self._memory.rendered, self._state.meta.input
        path = self._visible(rendered.through, rendered.left_out)
        stays = 0 if any(m.id == input_message.id for m in path) else counted_tokens(input_message)
        stored = total_tokens(path)
        messages = self._prompter.with_previews(path)
        tokens = stored if messages is path else total_tokens(messages)
        outside = total_tokens(self._outside(path))
        shown_outside = outside if messages is path else total_tokens(self._outside(messages))
        return _Sizes(
            stored - outside, tokens - shown_outside, stays, shown_outside, estimate(rendered.block)
        )

    def _outside(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return those of the messages that no compaction takes now."""
        left_out, waiting = self._memory.rendered.left_out, self._head.waiting_runs
        if not left_out and not waiting:
            return ()
        return [m for m in messages if is_left_out(m, left_out) or m.run_id in waiting]

    def _is_over_threshold(self) -> bool:
        """Return whether compactions that are ready are to take effect. A summary is only made while its run
        waits for it, so it is never ready earlier."""
        sizes = self._sizes()
        tokens = sizes.messages if self._limits.ahead is None else sizes.stored
        return tokens >= self._limits.start or self._too_large(sizes)

    def _late(self, sizes: _Sizes) -> bool:
        return sizes.messages >= self._limits.late or self._too_large(sizes)

    def _too_large(self, sizes: _Sizes) -> bool:
        whole = self._limits.whole
        if whole is not None and sizes.prompt > whole:
            return True
        size = sizes.messages + sizes.stays + sizes.outside
        return size > self._prompter.room(self._state)

    def _can_help(self) -> bool:
        """Return whether a compaction could make the prompt smaller. The run's input stays in it in any
        case."""
        limits, path = self._limits, self._now().free
        compactable = path[: compaction.count_leaving(path, limits.tail, limits.start)]
        freed_tokens = total_tokens([m for m in compactable if m.id != self._state.meta.input.id])
        least = compaction.MIN_NEW if limits.kind == "summary" else 1
        return freed_tokens >= least or self._runtime.agent_memory.is_to_condense(
            self._compacted, limits.block
        )

    def _was_wait_useless(self) -> bool:
        """Return whether the last wait brought nothing: its compaction did not arrive, and little was added
        since. A memory model that never answers therefore delays the run only occasionally."""
        index, steps = self._state.meta.compacted_for, self._state.steps
        if not 0 < index <= len(steps):
            return False
        path = self._now().free
        first = steps[index - 1].message.id
        before = next((i for i, m in enumerate(path) if m.id == first), 0)
        sizes = self._sizes()
        was = replace(sizes, messages=total_tokens(self._prompter.with_previews(path[:before])))
        return self._late(was) and sizes.messages - was.messages < self._limits.start

    async def _observe_ahead(self) -> None:
        """Request observations of the settled steps in the background, a slice at a time."""
        ahead, background = self._limits.ahead, self._runtime.background
        if ahead is None or background is None or not self._state.steps:
            return  # the run before this one observed its own messages
        path, requested_through = self._now(), self._state.asked_through
        start = path.counts().get(requested_through or "")
        after = self._memory.rendered.through if start is None else requested_through
        pending = path.free[start or 0 :]
        pieces = list(compaction.slices(pending, ahead))
        if not pieces:
            return
        await self._save()
        meta = self._state.meta
        for _, end in pieces:
            through = pending[end - 1].id
            await background.observe(meta.owner, meta.id, after, through)
            self._state.asked_through = after = through

    async def _switch(self) -> None:
        """Let compactions that are ready take effect: those that other runs have made, and slices made
        ahead."""
        await self._save()
        meta, memory = self._state.meta, self._runtime.memory
        leaf = ([meta.input, *self._state.fixed_response()])[-1].id
        compacted = await memory.compacted(meta.owner, meta.thread_id, leaf, self._limits.kind)
        self._show(compacted)  # a compaction that another run let take effect was counted there
        path = self._path(compacted.through, compacted.left_out_ids)
        chosen = compaction.ready_slices(
            path, compacted.slices, self._limits.tail, self._limits.start
        )
        if not chosen:
            return
        before = self._sizes().prompt
        numbers = [g.number for g in chosen]
        expected = compacted.generation.number if compacted.generation else None
        if await memory.activate(meta.owner, meta.thread_id, numbers, expected):
            self._show(with_slices(compacted, len(chosen), path.messages))
            saved = before - self._sizes().prompt
            if saved > 0:
                self._runtime.metrics.count(Metric.TOKENS_COMPACTED, saved, agent=meta.agent)

    def _show(self, compacted: Compacted) -> None:
        self._compacted = compacted
        number = compacted.generation.number if compacted.generation else None
        base, rendered = self._memory.base, self._memory.rendered
        if number is None or number == base.generation:
            return
        block = self._runtime.agent_memory.compacted_text(compacted)
        through = compacted.through
        self._memory.base = base.model_copy(update={"generation": number, "through": through})
        self._memory.rendered = replace(
            rendered, block=block, through=through, left_out=compacted.left_out_ids
        )

    async def _save(self) -> None:
        """Save each settled step to the database, once: slices are made from there."""
        own = [self._state.meta.input, *self._state.fixed_response()]
        if len(own) - 1 == self._saved:
            return
        first, *rest = (with_token_count(m) for m in own[self._saved :])
        await self._runtime.threads.save_turn(
            TurnRecord(head=self._head, run=self._state.meta, input=first, response=tuple(rest))
        )
        self._saved = len(own) - 1
