"""Requests that a provider refuses because of their content: what it is, and the same request without it
(docs/behaviour.md#refused-content)."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from layover.context.assembly import estimated_tokens
from layover.context.fit import ASSUMED_WINDOW
from layover.context.left_out import calls_key, file_key, known_keys, text_key, without
from layover.engine.models.fallback import Complete
from layover.errors import (
    INVALID_RESPONSE,
    ContentFiltered,
    ContextLengthExceeded,
    ModelError,
)
from layover.values.message import FilePart, Message, Role, ToolCallPart
from layover.values.prompt import Prompt, Reply
from layover.values.runs.model_settings import ModelSettings

logger = logging.getLogger("layover")

OVERFLOW = 0.6
"""The part of the window above which a refusal without a known reason is one of length."""

_STATUSES = frozenset({400, 413, 415, 422})
_NO_INPUT = re.compile(r"no endpoints found that support (image|file|audio|video|input)", re.I)
"""A router's 404: none of a model's providers takes files of this kind."""
_OF_ACCOUNT = re.compile(
    r"credit|billing|balance|api[ _]key|model[^.]{0,60}(not exist|not found|does ?n.t exist)", re.I
)
"""Refusals with status 400 that no change of the content can mend."""


class RefusedContent:
    """The requests of one step, to whichever model. `ask` sends one; `restart` is called before it is sent
    another time; `input_id`: the message that the run answers; `window_of`: tokens of a model's window."""

    def __init__(
        self,
        ask: Complete,
        restart: Callable[[], None],
        input_id: str,
        window_of: Callable[[str, ModelSettings], int | None],
    ) -> None:
        self._ask = ask
        self._restart = restart
        self._input_id = input_id
        self._window_of = window_of
        self.left_out: dict[str, tuple[str, ...]] = {}
        """By model: what it could not read in this step, as keys of `layover.context.left_out`."""

    async def complete(self, prompt: Prompt) -> Reply:
        """Return the reply to the prompt, without what this model cannot read. Raises ModelError: the first
        refusal, if the content is not the cause; ContextLengthExceeded, if the prompt's length may be."""
        readable = without(prompt, known_keys(prompt.messages, prompt.model))
        try:
            return await self._ask(readable)
        except ModelError as error:
            if not _may_be_of_content(error):
                raise
            refusal = error
        is_filter = isinstance(refusal, ContentFiltered)
        is_long = not is_filter and self._is_long(readable)
        suspects = [*_files(readable.messages, refusal.message)]
        if not is_long:  # a long prompt is shortened first: less is lost
            suspects += self._words(readable.messages, is_filter=is_filter)
        reply = await self._ask_without(readable, suspects)
        if reply is None and not is_long:
            reply = await self._ask_without_history(readable, is_filter=is_filter)
        if reply is not None:
            return reply
        if is_long:
            raise ContextLengthExceeded(refusal.message, status=refusal.status) from refusal
        if is_filter:
            return self._filtered(prompt)
        raise refusal

    async def _ask_without(
        self, prompt: Prompt, suspects: Iterable[frozenset[str]]
    ) -> Reply | None:
        """Return the reply to the first request that is taken; None if the provider refuses each. The
        suspects that were left out last are the cause, whatever was left out before."""
        dropped: frozenset[str] = frozenset()
        for keys in suspects:
            if keys <= dropped:
                continue
            dropped |= keys
            reply = await self._retry(without(prompt, dropped))
            if reply is not None:
                self._note(prompt, keys)
                return reply
        return None

    async def _ask_without_history(self, prompt: Prompt, *, is_filter: bool) -> Reply | None:
        """Return the reply to the input without what came before it, the last resort: another model may have
        read it. No later step leaves so much out for it: the refusal may have been a passing one."""
        before = self._before(prompt.messages)
        if not before or (is_filter and not _was_filtered(before)):
            return None
        keys = {text_key(m) for m in before} | {calls_key(before[-1])}
        return await self._retry(without(prompt, frozenset(keys)))

    async def _retry(self, prompt: Prompt) -> Reply | None:
        self._restart()
        try:
            return await self._ask(prompt)
        except ModelError as error:
            if not _may_be_of_content(error):
                raise
            return None

    def _words(self, messages: Sequence[Message], *, is_filter: bool) -> Iterator[frozenset[str]]:
        """Yield the words that may be the cause: the protocol of another provider's calls, then what no
        model has answered yet. The input itself is not one of them: a run without it has nothing to do."""
        before = self._before(messages)
        if not is_filter:
            yield _calls(before)
        yield frozenset(map(text_key, _unanswered(before)))
        yield frozenset(text_key(m) for m in _unanswered(messages) if m.role is Role.TOOL)

    def _before(self, messages: Sequence[Message]) -> list[Message]:
        return [*takewhile(lambda m: m.id != self._input_id, messages)]

    def _is_long(self, prompt: Prompt) -> bool:
        window = self._window_of(prompt.model, prompt.settings) or ASSUMED_WINDOW
        return estimated_tokens(prompt) > OVERFLOW * window

    def _filtered(self, prompt: Prompt) -> Reply:
        """Return the reply of a provider whose filter takes nothing of the request. The input is left out
        from now on, so that the thread goes on."""
        self._restart()
        self._note(
            prompt, frozenset(text_key(m) for m in prompt.messages if m.id == self._input_id)
        )
        return Reply(finish_reason="content-filter", model=prompt.model)

    def _note(self, prompt: Prompt, keys: frozenset[str]) -> None:
        self.left_out[prompt.model] = tuple(sorted(keys))
        facts = {"run_id": prompt.run_id, "pieces": len(keys)}
        logger.warning("%s cannot read some of the thread: left out", prompt.model, extra=facts)


def _may_be_of_content(error: ModelError) -> bool:
    """Return whether the provider may take the request without some of its content."""
    if isinstance(error, ContentFiltered):
        return True
    is_of_length = isinstance(error, ContextLengthExceeded)
    if is_of_length or error.type == INVALID_RESPONSE or _OF_ACCOUNT.search(error.message):
        return False
    is_routed_away = error.status == 404 and _NO_INPUT.search(error.message) is not None
    return error.status in _STATUSES or is_routed_away


def _files(messages: Sequence[Message], error: str) -> Iterator[frozenset[str]]:
    """Yield the files that the provider names; else those that it has not read with success; then all."""
    of_messages = [(m, p) for m in messages for p in m.content if isinstance(p, FilePart)]
    if not of_messages:
        return
    in_error = {file_key(p) for _, p in of_messages if p.url and p.url in error}
    new_ids = {m.id for m in _unanswered(messages)}
    new = {file_key(p) for m, p in of_messages if m.id in new_ids}
    yield frozenset(in_error or new)
    yield frozenset(file_key(p) for _, p in of_messages)


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
