"""Messages that a hook has refused: which ones, and what models read in their place
(docs/hooks.md#refused). The thread keeps what they say, for its owner."""

from collections.abc import Collection, Iterable, Sequence

from layover.context.tokens import with_token_count
from layover.values.message import Message, Part, Role, TextPart, ToolResultPart
from layover.values.runs.run import RunSnapshot, StepRecord

REFUSED = "[refused: you are not shown this message]"
WITHHELD = "[refused: the call ran, and you are not shown its result]"


def refused_ids(steps: Iterable[StepRecord]) -> frozenset[str]:
    """Return the ids of the messages that were refused at these steps, whichever runs they are of."""
    return frozenset(id for step in steps if step.replied for id in step.replied.message_ids)


def with_marks(messages: Sequence[Message], ids: Collection[str]) -> list[Message]:
    """Return the messages, those among the ids marked as refused."""
    return [m.model_copy(update={"refused": True}) if m.id in ids else m for m in messages]


def input_of(snapshot: RunSnapshot) -> Message:
    """Return a run's input, marked if it was refused."""
    return with_marks([snapshot.meta.input], refused_ids(snapshot.steps))[0]


def for_models(messages: Sequence[Message]) -> list[Message]:
    """Return the messages as models may read them: a note is in the place of each refused one. Calls keep
    their results, and turns their speakers."""
    return [_withheld(message) if message.refused else message for message in messages]


def _withheld(message: Message) -> Message:
    if message.role is not Role.TOOL:
        note: tuple[Part, ...] = (TextPart(text=REFUSED),)
        return with_token_count(message.with_content(note))
    content = tuple(
        part.model_copy(update={"result": WITHHELD})
        for part in message.content
        if isinstance(part, ToolResultPart)
    )
    return with_token_count(message.with_content(content, model_output=WITHHELD))
