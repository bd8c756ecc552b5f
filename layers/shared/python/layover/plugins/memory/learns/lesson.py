"""The words of a run from which memory learns, read once for every part of memory
(docs/behaviour.md#memory-requests)."""

from collections.abc import Sequence
from dataclasses import dataclass

from layover.context.transcript import response_messages
from layover.context.withheld import for_models
from layover.declare.agent import Agent
from layover.plugins.memory.text.courtesies import is_bare_answer, is_courtesy, is_offer_alone
from layover.runtime import Runtime
from layover.values.message import Message, Role
from layover.values.runs.run import RunSnapshot

_MAX_BEFORE = 12
"""Messages before the turn among which the last texts are looked for: those of tools are no texts."""


@dataclass(frozen=True)
class Lesson:
    """A finished run with its `dialogue`, the words of its user and its assistant, and the words `before`,
    oldest first. `is_first`: nothing was said before, in words or otherwise."""

    snapshot: RunSnapshot
    dialogue: Sequence[Message]
    before: Sequence[Message] = ()
    is_first: bool = True

    @property
    def teaches_nothing(self) -> bool:
        """Return whether no word of the user's can be evidence: they greet, thank, or say yes or no although
        nothing was put to them. In doubt a word is read."""
        newest = self.before[-1] if self.before else None
        for message in self.dialogue:
            if message.role is Role.USER and not self._says_nothing(message, newest):
                return False
            newest = message
        return True

    def _says_nothing(self, message: Message, answered: Message | None) -> bool:
        if is_courtesy(message.text):
            return True
        if not is_bare_answer(message.text):
            return False
        if answered is None:
            return self.is_first
        return answered.role is Role.ASSISTANT and is_offer_alone(answered.text)


async def read_lesson(runtime: Runtime, agent: Agent, snapshot: RunSnapshot) -> Lesson:
    """Return the run's words, with those before it as far as the agent's memory needs them. Raises
    RetryableError (the database)."""
    meta = snapshot.meta
    dialogue = dialogue_of([meta.input, *response_messages(snapshot)])
    texts = [m.text for m in dialogue if m.role is Role.USER]
    is_answer = all(is_bare_answer(t) for t in texts) and not all(is_courtesy(t) for t in texts)
    before: Sequence[Message] = ()
    if meta.input.parent_id is not None and (agent.memory.episodic is not None or is_answer):
        newest = await runtime.threads.newest_messages(
            meta.owner, meta.thread_id, meta.input.parent_id, _MAX_BEFORE
        )
        # What a hook refused earlier is in no later request.
        before = dialogue_of(for_models(newest))
    return Lesson(snapshot, dialogue, before, is_first=meta.input.parent_id is None)


def dialogue_of(messages: Sequence[Message]) -> list[Message]:
    """Return the words of users and assistants in these messages, without tool outputs."""
    dialogue = (m for m in messages if m.role in (Role.USER, Role.ASSISTANT))
    return [m for m in dialogue if m.text.strip()]
