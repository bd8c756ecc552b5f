"""Memory around a turn, as the runtime asks for it: what its prompt has, and the work that follows it."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from layover.context.assembly import model_of
from layover.context.compaction import limits_of
from layover.declare.agent import Agent
from layover.declare.tools.tool import AnyTool
from layover.plugin import Turn
from layover.plugins.memory.reads.blocks import compaction_block, is_due
from layover.plugins.memory.reads.episodic.around_turns import (
    count_cut_entries,
    episodic_embedder,
    turn_entries,
)
from layover.plugins.memory.reads.episodic.rendering import memory_block
from layover.plugins.memory.reads.hidden_messages import messages_tool
from layover.plugins.memory.reads.injection import Injection, choose_injection, recall_budget
from layover.plugins.memory.reads.profile.iteration_log import previous_attempts
from layover.plugins.memory.reads.profile.notes import (
    client_context_block,
    note_keys,
    system_blocks,
    volatile_blocks,
    without_deleted,
    working_key,
)
from layover.plugins.memory.reads.semantic.recall import (
    count_cut_scope,
    recall_query,
    select_recalled,
    texts_of_import,
)
from layover.plugins.memory.reads.semantic.rendering import recalled_block
from layover.plugins.memory.reads.tools import built_in_tools
from layover.plugins.memory.usage import meter
from layover.runtime import Runtime
from layover.values.memory.compaction import Compacted
from layover.values.memory.context import IndexedText, LoggedAttempt, TurnContext, TurnQuery
from layover.values.memory.rendered import RenderedMemory
from layover.values.message import Message
from layover.values.note import Note
from layover.values.runs.payload import MemoryWork
from layover.values.runs.run import PinnedText, PromptSnapshot, RunMeta, Status
from layover.values.span import MemoryRead
from layover.values.thread import ThreadHead


@dataclass(frozen=True)
class RememberedTurns:
    """`plugin.AgentMemory` over `Runtime.memory`."""

    runtime: Runtime

    async def read(self, turn: Turn, query: TurnQuery) -> TurnContext:
        """See `plugin.AgentMemory`."""
        agent, memory, pinned = turn.agent, turn.agent.memory, turn.pinned
        query = query.model_copy(
            update={
                "notes": note_keys(agent, query.head.id),
                "thread_state": pinned is None and bool(memory.session or memory.plan),
                "pinned": tuple(p.id for p in (*pinned.recalled, *pinned.entries))
                if pinned
                else (),
            }
        )
        if pinned is None:
            return await self._search(turn, query)
        return await self.runtime.threads.open_turn(query)

    async def _search(self, turn: Turn, query: TurnQuery) -> TurnContext:
        """Return the history, and what memory has for the run's input. The embedder is asked only for what
        gets pinned, and before the database, which then searches by the vector in the round trip that reads
        the history."""
        runtime, agent, run, as_of = self.runtime, turn.agent, turn.run, turn.as_of
        memory = agent.memory
        searches = memory.semantic_recall or (memory.episodic and memory.episodic.inject)
        has_memory = searches or query.notes or query.thread_state or query.compaction
        with (
            runtime.tracing.search(run, agent.name)
            if has_memory
            else nullcontext(MemoryRead()) as read
        ):
            if searches:
                recall, usage = await recall_query(runtime, agent, run, as_of)
                entries, spent = await turn_entries(runtime, agent, run, as_of, recall)
                found_by = {"recall": recall, "entries": entries, "usage": usage + spent}
                query = query.model_copy(update=found_by)
            context = await runtime.threads.open_turn(query)
            _count(read, context)
        if searches:
            count_cut_entries(runtime, agent, context)
            count_cut_scope(runtime, agent, context)
        return context

    async def read_notes(self, agent: Agent, run: RunMeta) -> Sequence[Note]:
        """See `plugin.AgentMemory`."""
        keys = note_keys(agent, run.thread_id)
        return await self.runtime.memory.read_notes(run.owner, keys) if keys else ()

    def pin(self, turn: Turn, context: TurnContext, history: Sequence[Message]) -> PromptSnapshot:
        """See `plugin.AgentMemory`."""
        injection = self._injection(turn, context, history)
        generation = context.compacted.generation if context.compacted else None
        return PromptSnapshot(
            as_of=turn.as_of,
            window_depth=context.window_depth,
            generation=generation.number if generation else None,
            through=generation.through_message_id if generation else None,
            notes=context.notes,
            volatile=volatile_blocks(context.state) or None,
            recalled=_pinned(injection.recalled),
            entries=_pinned(injection.entries),
        )

    def _injection(self, turn: Turn, context: TurnContext, history: Sequence[Message]) -> Injection:
        """Return the part of what memory's searches found that the run's prompts show."""
        runtime, agent, run = self.runtime, turn.agent, turn.run
        query = run.input.text
        model = model_of(agent, runtime.settings, run)
        window = runtime.window_of(model, run.choice.apply(agent.model_settings), turn.windows)
        return choose_injection(
            select_recalled(
                agent,
                runtime.settings,
                runtime.embedder.model if runtime.embedder else None,
                query,
                context.recalled,
                history,
            ),
            context.entries.items,
            query,
            recall_budget(agent.memory, window),
            turn.as_of,
            agent.memory.role_prefix,
        )

    def render(
        self, base: PromptSnapshot, context: TurnContext, input_message: Message
    ) -> RenderedMemory:
        """See `plugin.AgentMemory`."""
        deleted_ids = set(context.gone)
        recalled = (
            recalled_block([p.text for p in base.recalled if p.id not in deleted_ids]),
            memory_block([p.text for p in base.entries if p.id not in deleted_ids]),
        )
        client_context = client_context_block(input_message)
        return RenderedMemory(
            system=system_blocks(without_deleted(n, context.notes) for n in base.notes),
            block=compaction_block(context.compacted),
            through=base.through,
            left_out=context.compacted.left_out_ids if context.compacted else frozenset(),
            volatile=_joined(base.volatile, *recalled, client_context),
            instructions=base.instructions,
            volatile_without_recall=_joined(base.volatile, client_context)
            if any(recalled)
            else None,
        )

    def tools(
        self, agent: Agent, run: RunMeta, base: PromptSnapshot, *, embeds: bool = True
    ) -> Sequence[AnyTool]:
        """See `plugin.AgentMemory`."""
        runtime, key = self.runtime, working_key(agent, run.thread_id)
        embedder = None
        if embeds and agent.memory.episodic is not None:
            embedder = meter(runtime, run.owner, episodic_embedder(runtime, agent, run))
        return built_in_tools(
            agent,
            runtime.memory,
            run,
            runtime.clock,
            prompt_note=next((n for n in base.notes if n.key == key), None),
            embedder=embedder,
        )

    def messages_tool(self, run: RunMeta, through: Callable[[], str | None]) -> AnyTool:
        """See `plugin.AgentMemory`."""
        return messages_tool(run, self.runtime.memory, through)

    def compacted_text(self, compacted: Compacted | None) -> str:
        """See `plugin.AgentMemory`."""
        return compaction_block(compacted)

    def is_to_condense(self, compacted: Compacted, max_tokens: int | None) -> bool:
        """See `plugin.AgentMemory`."""
        return is_due(compacted, max_tokens)

    def attempts_text(self, attempts: Sequence[LoggedAttempt]) -> str:
        """See `plugin.AgentMemory`."""
        return previous_attempts(attempts)

    def work_after(self, agent: Agent, status: Status, head: ThreadHead | None) -> MemoryWork:
        """See `plugin.AgentMemory`."""
        if limits_of(self.runtime, agent) is not None:
            return MemoryWork.CONDENSE
        memory = agent.memory
        titled = head is None or head.title is not None
        teaches = memory.profile or memory.session or (memory.titles and not titled)
        teaches = teaches or (memory.episodic is not None and memory.episodic.per_turn > 0)
        # A run's texts are kept for recall however it ended, but memory learns only from a run that
        # succeeded.
        learns = memory.semantic_recall is not None or (status is Status.SUCCESS and teaches)
        return MemoryWork.LEARN if learns else MemoryWork.NOTHING

    async def texts_of_import(
        self, owner: str, agent: Agent, messages: Sequence[Message], *, embeds: bool
    ) -> Sequence[IndexedText]:
        """See `plugin.AgentMemory`."""
        return await texts_of_import(self.runtime, owner, agent, messages, embeds=embeds)


def _count(read: MemoryRead, context: TurnContext) -> None:
    """Note what memory has given."""
    notes = [note for note in context.notes if note.version]
    compacted = context.compacted or Compacted()
    messages = [each.message.text for each in context.recalled]
    observations = [each.text for each in compacted.observations]
    observations += [compacted.summary] if compacted.summary else []
    read.notes, read.messages = len(notes), len(messages)
    read.entries, read.observations = len(context.entries.items), len(observations)
    entries = [each.content for each in context.entries.items]
    state = [each for each in (context.state.session, context.state.plan) if each]
    read.texts = (*(note.value for note in notes), *state, *messages, *entries, *observations)


def _joined(*blocks: str | None) -> str:
    return "\n\n".join(filter(None, blocks))


def _pinned(texts: dict[str, str]) -> tuple[PinnedText, ...]:
    return tuple(PinnedText(id=id, text=text) for id, text in texts.items())
