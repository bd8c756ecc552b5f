"""A run's own messages, as its thread and its prompts have them. Each settled step is rendered once, and its
tokens are counted once, so that a step of a long run costs no more than the first."""

from collections.abc import Mapping, Sequence

from layover.context.repair import without_orphans
from layover.context.tokens import with_token_count
from layover.context.transcript import heard_by, step_messages
from layover.values.message import FilePart, Message, Role, TextPart
from layover.values.runs.run import CallRecord, StepRecord

HEARD = (
    "While your calls above waited for a decision, the conversation went on as you have just read. Their "
    "results are above. Go on with what you were asked then, and mind what was said since. No user "
    "wrote this."
)
"""The text behind what a run that was set aside has missed."""


class Rendering:
    """The messages of steps that are only ever added. `calls`: the run's calls by key, kept up to date."""

    def __init__(self, calls: Mapping[str, CallRecord]) -> None:
        self._calls = calls
        self._rendered = 0
        self._messages: list[Message] = []
        self._sendable: list[Message] = []

    def messages(self, steps: Sequence[StepRecord], hears: str | None = None) -> list[Message]:
        """Return all messages. `hears`: what the next step is to hear."""
        self._render(steps)
        return [*self._messages, *self._newest(steps, hears)]

    def sendable(self, steps: Sequence[StepRecord]) -> list[Message]:
        """Return the messages that may be sent to a model, with its corrections, and with what it has heard
        of other runs."""
        self._render(steps)
        newest = [*heard_messages(steps[-1]), *self._newest(steps)] if steps else []
        return [*self._sendable, *sendable(newest, steps[-1:])]

    def _render(self, steps: Sequence[StepRecord]) -> None:
        # The step after it says what has been said since.
        after = steps[self._rendered + 1 :]
        for step, following in zip(steps[self._rendered : -1], after, strict=True):
            own = step_messages(step, self._calls, heard_by(following))
            messages = [with_token_count(m) for m in own]
            self._messages += messages
            self._sendable += sendable([*heard_messages(step), *messages], [step])
            self._rendered += 1

    def _newest(self, steps: Sequence[StepRecord], hears: str | None = None) -> list[Message]:
        return step_messages(steps[-1], self._calls, hears) if steps else []


def heard_messages(step: StepRecord) -> list[Message]:
    """Return what a step's prompt had of other runs, with a last message about it. It ends with a user's, as
    the model speaks next."""
    return with_heard_note(step.heard)


def with_heard_note(heard: Sequence[Message]) -> list[Message]:
    """Return messages of other runs, with the text that the model reads behind them."""
    if not heard:
        return []
    last = heard[-1]
    note = last.with_content((TextPart(text=HEARD),), role=Role.USER, id=f"{last.id}.h")
    return [*heard, note.model_copy(update={"model_output": None})]


def sendable(messages: Sequence[Message], steps: Sequence[StepRecord]) -> list[Message]:
    """Return the messages of these steps that may be sent to a model, with corrections."""
    return without_orphans(render_notices(_with_corrections(messages, steps)))


def render_notices(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with each notice as a user's text. The text itself says that no user wrote it."""
    return [_shown_notice(m) if m.is_notice else m for m in messages]


def _shown_notice(message: Message) -> Message:
    content = tuple(part for part in message.content if isinstance(part, TextPart | FilePart))
    return message.with_content(content, role=Role.USER)


def _with_corrections(
    messages: Sequence[Message], steps: Sequence[StepRecord]
) -> Sequence[Message]:
    """Return the messages with corrections: a step whose answer fitted no schema is followed by the message
    about it, which only the model sees and which is not part of the thread."""
    corrections = {s.message.id: s.correction for s in steps if s.correction}
    if not corrections:
        return messages
    result: list[Message] = []
    for message in messages:
        result.append(message)
        text = corrections.get(message.id)
        if text is not None:
            content = (TextPart(text=text),)
            result.append(message.with_content(content, role=Role.USER, id=f"{message.id}.c"))
    return result
