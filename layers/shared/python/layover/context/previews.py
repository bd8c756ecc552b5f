"""Older results of tools as previews, which the model can open again (docs/result-previews.md). Pure: which
results are whole depends only on the messages up to the newest, so every process shows the same."""

import math
from collections.abc import Sequence

from layover.context.tokens import counted_tokens, with_token_count
from layover.values.message import Message, Role
from layover.values.runs.run import RESULT_TOOL

MIN_LENGTH = 1_200
"""Characters of a result below which it is always whole."""
HEAD, TAIL = 300, 100
"""Characters of a preview."""
KEPT_SHARE = 0.5
"""The share of the limit that stays whole when results become previews. The prompt's beginning changes only
at these times, so a provider's cache holds in between."""


class Previews:
    """The view of a run's results. `max_tokens`: of whole results, not counting the newest step's. Each
    preview is made once, so that a step of a long run costs no more than the first."""

    def __init__(self, max_tokens: float) -> None:
        self._max_tokens = max_tokens
        self._previews: dict[str, Message] = {}

    def apply(
        self, history: Sequence[Message], own: Sequence[Message]
    ) -> tuple[Sequence[Message], Sequence[Message]]:
        """Return history and the run's own messages with previews in place of older long results."""
        if self._max_tokens == math.inf:
            return history, own
        older = older_results([*history, *own], self._max_tokens)
        if not older:
            return history, own
        return [self._view(m, older) for m in history], [self._view(m, older) for m in own]

    def _view(self, message: Message, older: set[str]) -> Message:
        if message.id not in older:
            return message
        if message.id not in self._previews:
            self._previews[message.id] = preview(message)
        return self._previews[message.id]


def older_results(messages: Sequence[Message], max_tokens: float) -> set[str]:
    """Return the ids of the results that a prompt of these messages shows as previews: once the long ones
    have more than `max_tokens`, the oldest, until `KEPT_SHARE` of that is left. The newest step's results are
    never among them, because the model has not read them yet."""
    older: set[str] = set()
    whole: list[tuple[str, int]] = []
    earlier = total = 0
    for message in messages:
        if message.role is Role.ASSISTANT:
            earlier = len(whole)
        elif message.role is Role.TOOL and is_long(
            message.model_output, has_files=len(message.content) > 1
        ):
            whole.append((message.id, counted_tokens(message)))
            total += whole[-1][1]
        if total <= max_tokens:
            continue
        leaving = 0
        while leaving < earlier and total > max_tokens * KEPT_SHARE:
            total -= whole[leaving][1]
            leaving += 1
        older.update(id for id, _ in whole[:leaving])
        del whole[:leaving]
        earlier -= leaving
    return older


def is_long(output: str | None, *, has_files: bool) -> bool:
    """Return whether a result becomes a preview: it has many characters, or files."""
    return has_files or len(output or "") >= MIN_LENGTH


def preview(message: Message) -> Message:
    """Return a long result as its head and its tail, and without its files. The preview depends only on the
    message."""
    opens = f"{RESULT_TOOL} shows"
    if len(message.content) > 1:
        from layover.context.result_files import without_files

        message = without_files(message, f"left out: {opens} it, id {message.id}")
    output = message.model_output or ""
    if len(output) < MIN_LENGTH:
        return with_token_count(message)
    count = len(output) - HEAD - TAIL
    gap = f"… {count} characters left out: {opens} them, id {message.id} …"
    text = f"{output[:HEAD]}\n{gap}\n{output[-TAIL:]}"
    return with_token_count(message.model_copy(update={"model_output": text}))
