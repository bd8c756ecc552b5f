"""A run and the compaction of its branch (docs/behaviour.md#compaction-waits): which steps are observed ahead
while the run goes on, which results take effect, and when the run has to wait."""

from dataclasses import dataclass, replace

from layover.context import compaction
from layover.context.assembly import drop_compacted, stands_for_input
from layover.context.compaction import Limits, with_slices
from layover.context.tokens import counted_tokens, estimate, total_tokens, with_token_count
from layover.engine.prompter import Prompter
from layover.engine.state import RunState
from layover.memory.compaction import reflector
from layover.memory.compaction.blocks import compaction_block
from layover.ports import RunLog, Runtime
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
    """Tokens of a prompt. `messages`: those that are not compacted. `stays`: the run's input, if it stays in
    the prompt. `block`: the text that stands for the compacted messages."""

    messages: int
    stays: int
    block: int

    @property
    def prompt(self) -> int:
        """The tokens of the whole prompt."""
        return self.messages + self.stays + self.block


class Compaction:
    """Keeps the prompts of one run within its agent's thresholds."""

    def __init__(
        self,
        runtime: Runtime,
        log: RunLog,
        state: RunState,
        prompter: Prompter,
        known: CompactionState,
    ) -> None:
        self._runtime = runtime
        self._log = log
        self._state = state
        self._prompter = prompter
        self._limits = known.limits
        self._head = known.head
        slices = known.compacted.slices
        if slices and state.asked_through is None:
            state.asked_through = slices[-1].through_message_id
        self._known = known.compacted
        self._saved = 0

    async def allows(self) -> bool:
        """Return whether the model may be called now. On False, the run yields and waits for its compaction.
        It waits once for each step: whatever comes of the wait, the run goes on afterwards."""
        await self._observe_ahead()
        if not self._reached():
            return True
        await self._switch()
        index, _ = self._state.next_key()
        waited = self._state.meta.compacted_for == index or self._was_wait_useless()
        if waited or not self._late(self._sizes()) or not self._can_help():
            return True
        await self._save()
        await self._log.wait_for_compaction(index)
        self._runtime.metrics.count(Metric.COMPACTION_WAITS, agent=self._state.meta.agent)
        return False

    def _path(self, through: str | None) -> list[Message]:
        """Return the branch behind `through`: history, the run's input, its own steps."""
        given, response = self._state.meta.input, self._state.response()
        history, own = drop_compacted(self._prompter.history, given, response, through)
        if stands_for_input(given, response, through):
            return list(own)
        return [*history, given, *own]

    def _sizes(self) -> _Sizes:
        shown, given = self._prompter.shown, self._state.meta.input
        path = self._path(shown.through)
        stays = 0 if any(m.id == given.id for m in path) else counted_tokens(given)
        return _Sizes(total_tokens(path), stays, estimate(shown.block))

    def _reached(self) -> bool:
        sizes = self._sizes()
        return sizes.messages >= self._limits.start or self._too_large(sizes)

    def _late(self, sizes: _Sizes) -> bool:
        return sizes.messages >= self._limits.late or self._too_large(sizes)

    def _too_large(self, sizes: _Sizes) -> bool:
        whole = self._limits.whole
        if whole is not None and sizes.prompt > whole:
            return True
        return sizes.messages + sizes.stays > self._prompter.room(self._state)

    def _can_help(self) -> bool:
        """Return whether a compaction could make the prompt smaller. The run's input stays in it in any
        case."""
        limits, path = self._limits, self._path(self._prompter.shown.through)
        leaving = path[: compaction.count_leaving(path, limits.tail, limits.start)]
        gone = total_tokens([m for m in leaving if m.id != self._state.meta.input.id])
        least = compaction.MIN_NEW if limits.kind == "summary" else 1
        return gone >= least or reflector.is_due(self._known, limits.block)

    def _was_wait_useless(self) -> bool:
        """Return whether the last wait brought nothing: its compaction did not come, and little was added
        since. A useless memory model thus delays the run only once in a while."""
        index, steps = self._state.meta.compacted_for, self._state.steps
        if not 0 < index <= len(steps):
            return False
        path = self._path(self._prompter.shown.through)
        first = steps[index - 1].message.id
        before = next((i for i, m in enumerate(path) if m.id == first), 0)
        since = total_tokens(path[before:])
        sizes = self._sizes()
        was = replace(sizes, messages=sizes.messages - since)
        return self._late(was) and since < self._limits.start

    async def _observe_ahead(self) -> None:
        """Request observations of the settled steps in the background, a slice at a time."""
        ahead, background = self._limits.ahead, self._runtime.background
        if ahead is None or background is None or not self._state.steps:
            return  # messages before this run were the business of the run before
        path = self._path(self._prompter.shown.through)
        asked = self._state.asked_through
        begun = next((i + 1 for i, m in enumerate(path) if m.id == asked), 0)
        pieces = list(compaction.slices(path[begun:], ahead))
        if not pieces:
            return
        await self._save()
        meta = self._state.meta
        after = path[begun - 1].id if begun else self._prompter.shown.through
        for _, end in pieces:
            through = path[begun + end - 1].id
            await background.observe(meta.owner, meta.id, after, through)
            self._state.asked_through = after = through

    async def _switch(self) -> None:
        """Let compactions that are ready take effect: those that other runs made meanwhile, and slices made
        ahead."""
        await self._save()
        meta, memory = self._state.meta, self._runtime.memory
        leaf = ([meta.input, *self._state.response()])[-1].id
        found = await memory.compacted(meta.owner, meta.thread_id, leaf, self._limits.kind)
        self._show(found)  # a compaction that another run let take effect was counted there
        chosen = compaction.ready_slices(
            self._path(found.through), found.slices, self._limits.tail, self._limits.start
        )
        if not chosen:
            return
        before = self._sizes().prompt
        numbers = [g.number for g in chosen]
        expected = found.generation.number if found.generation else None
        if await memory.activate(meta.owner, meta.thread_id, numbers, expected):
            self._show(with_slices(found, len(chosen)))
            saved = before - self._sizes().prompt
            if saved > 0:
                self._runtime.metrics.count(Metric.TOKENS_COMPACTED, saved, agent=meta.agent)

    def _show(self, found: Compacted) -> None:
        self._known = found
        number = found.generation.number if found.generation else None
        base, shown = self._prompter.base, self._prompter.shown
        if number is None or number == base.generation:
            return
        block = compaction_block(found)
        self._prompter.switch(
            base.model_copy(update={"generation": number, "through": found.through}),
            replace(shown, block=block, through=found.through),
        )

    async def _save(self) -> None:
        """Save each settled step to the database, once: slices are made from there."""
        own = [self._state.meta.input, *self._state.response()]
        if len(own) - 1 == self._saved:
            return
        first, *rest = (with_token_count(m) for m in own[self._saved :])
        await self._runtime.threads.save_turn(
            TurnRecord(head=self._head, run=self._state.meta, input=first, response=tuple(rest))
        )
        self._saved = len(own) - 1
