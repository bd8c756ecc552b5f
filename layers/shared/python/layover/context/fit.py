"""Fixed rules for making a prompt fit the model's window (docs/behaviour.md#prompt-fit)."""

from collections.abc import Collection, Iterable, Sequence

from layover.context.tokens import counted_tokens, total_tokens
from layover.values.message import Message, Role, TextPart
from layover.values.runs.run import StepRecord
from layover.values.thread import ThreadHead

ASSUMED_WINDOW = 128_000
"""Tokens, for a model whose window nobody knows, where something has to have a size: what a memory model
reads at once, a summary's threshold, and the next try after a prompt that was too long. No prompt is
shortened for it before."""
NO_LIMIT = 2**53
"""Tokens that no prompt has."""
RESERVED = 8_000
"""Tokens for the answer and for the parts that the estimate does not count (tools, framing)."""
_HEAD, _TAIL = 600, 200
"""Characters of a tool result that stay."""
LONG_INPUT = 20_000
"""Characters of an earlier input above which it may be shortened."""
_NO_ROOM = "left out, as the prompt is too long"
_SHORTENED = "\n… shortened …\n"


def room(window: int | None) -> int:
    """Return the tokens that a prompt may have in a context window of this size (None: unknown, the provider
    has to say that it is too long). Of a small window a quarter is for the answer."""
    return NO_LIMIT if window is None else window - min(RESERVED, window // 4)


def learned_windows(head: ThreadHead | None, steps: Iterable[StepRecord]) -> dict[str, int]:
    """Return the windows that a thread, and then the steps of its run, learned of refusals, by model."""
    windows = {**head.windows} if head is not None else {}
    for step in steps:
        windows |= step.windows
    return windows


class TooLong(Exception):
    """The run's input and its last step exceed the window by themselves, however short its results are."""


def shorten(message: Message) -> Message:
    """Return a tool's output without its files, or a very long earlier input, as its head and tail. The
    result depends only on the message."""
    if message.role is Role.TOOL and message.model_output is not None:
        if len(message.content) > 1:
            from layover.context.result_files import without_files  # Few results have files.

            message = without_files(message, _NO_ROOM)
        text = _ends(message.model_output or "", _HEAD + _TAIL)
        return message.model_copy(update={"model_output": text, "token_count": None})
    if message.role is Role.USER and len(message.text) > LONG_INPUT:
        files = [p for p in message.content if not isinstance(p, TextPart)]
        content = (*files, TextPart(text=_ends(message.text, LONG_INPUT)))
        return message.with_content(content)
    return message


def _ends(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[:_HEAD]}{_SHORTENED}{text[-_TAIL:]}"


def fit(
    history: Sequence[Message],
    input_message: Message,
    own: Sequence[Message],
    budget: int,
    heard: Collection[str] = (),
) -> list[Message]:
    """Return history, input and the run's own messages within `budget` tokens. `heard`: ids of those among
    `own` that are other runs'. The oldest tool results and very long inputs are shortened first; then the
    oldest turns of the history are dropped, then those that were heard, then the oldest steps of the run, but
    never its input and its last step. If these are still too long, the last step's oldest results are
    shortened. Raises TooLong."""
    messages = [*history, input_message, *own]
    excess = total_tokens(messages) - budget
    if excess <= 0:
        return messages
    mine = [m for m in own if m.id not in heard]
    older_steps, last_step = _without_last_step(mine)
    kept_ids = {m.id for m in last_step}
    # The run's own input stays whole.
    older = [i for i, m in enumerate(messages) if m.id not in kept_ids and i != len(history)]
    excess = _shorten(messages, older, excess)
    turns = [
        *_split(history, Role.USER),
        *_split([m for m in own if m.id in heard], Role.USER),
        *_split(older_steps, Role.ASSISTANT),
    ]
    by_id = {m.id: m for m in messages}
    for group in turns:
        if excess <= 0:
            break
        group_ids = {m.id for m in group}
        messages = [m for m in messages if m.id not in group_ids]
        excess -= total_tokens([by_id[id] for id in group_ids])
    newest = [i for i, m in enumerate(messages) if m.id in kept_ids]
    if _shorten(messages, newest, excess) > 0:
        raise TooLong
    return messages


def _shorten(messages: list[Message], places: Iterable[int], excess: int) -> int:
    """Shorten the messages at these places, in order, until nothing is in excess. Return the excess left."""
    for place in places:
        if excess <= 0:
            break
        short = shorten(messages[place])
        excess -= counted_tokens(messages[place]) - counted_tokens(short)
        messages[place] = short
    return excess


def _without_last_step(own: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the messages before the newest step, and those of it; none are of a step if there is none."""
    for place in range(len(own) - 1, -1, -1):
        if own[place].role is Role.ASSISTANT:
            return own[:place], own[place:]
    return own, ()


def _split(messages: Sequence[Message], first_role: Role) -> list[list[Message]]:
    """Return groups that begin with this role, oldest first; the messages before the first are one of
    them."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role is first_role or not groups:
            groups.append([])
        groups[-1].append(message)
    return groups
