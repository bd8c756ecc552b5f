"""Requests that a provider refuses because of their content: what may be the cause, the likeliest first
(docs/behaviour.md#refused-content)."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from layover.context.assembly import estimated_tokens
from layover.context.fit import ASSUMED_WINDOW
from layover.context.left_out import calls_key, file_key, text_key
from layover.context.results import shown_files
from layover.errors import (
    INVALID_RESPONSE,
    ContentFiltered,
    ContextLengthExceeded,
    ModelError,
)
from layover.values.message import Message, Role, ToolCallPart
from layover.values.prompt import Prompt

OVERFLOW = 0.6
"""The part of the window above which a refusal without a known reason is one of length."""

_STATUSES = frozenset({400, 413, 415, 422})
_NO_INPUT = re.compile(r"no endpoints found that support (image|file|audio|video|input)", re.I)
"""A router's 404: none of a model's providers takes files of this kind."""
_OF_ACCOUNT = re.compile(
    r"credit|billing|balance|api[ _]key|model[^.]{0,60}(not exist|not found|does ?n.t exist)", re.I
)
"""Refusals with status 400 that no change of the content can mend."""


class Omission(NamedTuple):
    """Content that a request leaves out, as keys of `layover.context.left_out`. `blamed`: what the
    model cannot read, if it takes the request."""

    left_out: frozenset[str]
    blamed: frozenset[str]


def is_long(prompt: Prompt, window: int | None) -> bool:
    """Return whether a refusal of unknown wording may be one of length. `window`: tokens; None: unknown."""
    return estimated_tokens(prompt) > OVERFLOW * (window or ASSUMED_WINDOW)


def omissions(
    prompt: Prompt, refusal: ModelError, input_id: str, *, is_long: bool
) -> list[Omission]:
    """Return what the next requests leave out, one after the other. `input_id`: the message that the run
    answers. What was left out last is the cause, whatever was left out before."""
    is_filter = isinstance(refusal, ContentFiltered)
    before = [*takewhile(lambda m: m.id != input_id, prompt.messages)]
    suspects = [*_files(prompt.messages, refusal.message)]
    if not is_long:  # a long prompt is shortened first: less is lost
        suspects += _words(prompt.messages, before, is_filter=is_filter)
    left_out: frozenset[str] = frozenset()
    steps: list[Omission] = []
    for keys in suspects:
        if not keys <= left_out:
            left_out |= keys
            steps.append(Omission(left_out, keys))
    if before and not is_long and (not is_filter or _was_filtered(before)):
        # The last resort. No later step leaves so much out: the refusal may have been a passing one.
        history = {text_key(m) for m in before} | {calls_key(before[-1])}
        steps.append(Omission(frozenset(history), frozenset()))
    return steps


def input_keys(prompt: Prompt, input_id: str) -> frozenset[str]:
    """Return the keys of the run's input. A filter that takes nothing of a request is left to it, so that the
    thread goes on."""
    return frozenset(text_key(m) for m in prompt.messages if m.id == input_id)


def exchange_keys(prompt: Prompt, input_id: str) -> frozenset[str]:
    """Return the keys of the run's input and of all results behind it: a model that has refused them refuses
    each later request with them (platform.claude.com/docs, "Streaming refusals")."""
    before = [*takewhile(lambda m: m.id != input_id, prompt.messages)]
    messages = prompt.messages[len(before) :] or _unanswered(prompt.messages)
    return frozenset(text_key(m) for m in messages if m.role is not Role.ASSISTANT)


def may_be_of_content(error: ModelError) -> bool:
    """Return whether the provider may take the request without some of its content."""
    if isinstance(error, ContentFiltered):
        return True
    is_of_length = isinstance(error, ContextLengthExceeded)
    if is_of_length or error.type == INVALID_RESPONSE or _OF_ACCOUNT.search(error.message):
        return False
    from layover.values.places import is_of_content

    if not is_of_content(error.place):
        return False
    is_routed_away = error.status == 404 and _NO_INPUT.search(error.message) is not None
    return error.status in _STATUSES or is_routed_away


def _files(messages: Sequence[Message], error: str) -> Iterator[frozenset[str]]:
    """Yield the files that the provider names; else those that it has not read with success; then all."""
    of_messages = [(m, p) for m in messages for p in shown_files(m)]
    if not of_messages:
        return
    in_error = {file_key(p) for _, p in of_messages if p.url and p.url in error}
    new_ids = {m.id for m in _unanswered(messages)}
    new = {file_key(p) for m, p in of_messages if m.id in new_ids}
    yield frozenset(in_error or new)
    yield frozenset(file_key(p) for _, p in of_messages)


def _words(
    messages: Sequence[Message], before: Sequence[Message], *, is_filter: bool
) -> Iterator[frozenset[str]]:
    """Yield the words that may be the cause: the protocol of another provider's calls, then what no model has
    answered yet. The input itself is not one of them: a run without it has nothing to do."""
    if not is_filter:
        yield _calls(before)
    yield frozenset(map(text_key, _unanswered(before)))
    yield frozenset(text_key(m) for m in _unanswered(messages) if m.role is Role.TOOL)


def _was_filtered(before: Sequence[Message]) -> bool:
    """Return whether the run before this one ended at a filter, too: then the input is not the cause."""
    return before[-1].role is Role.ASSISTANT and not before[-1].content


def _calls(before: Sequence[Message]) -> frozenset[str]:
    """Return the key of the history's calls, results and thoughts; nothing if there are none."""
    has_calls = any(
        m.provider_state is not None or any(isinstance(p, ToolCallPart) for p in m.content)
        for m in before
    )
    return frozenset({calls_key(before[-1])} if has_calls else ())


def _unanswered(messages: Sequence[Message]) -> list[Message]:
    """Return the newest messages, which no answer of a model follows."""
    return [*takewhile(lambda m: m.role is not Role.ASSISTANT, reversed(messages))]
