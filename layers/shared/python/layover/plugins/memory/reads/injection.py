"""The part of a prompt that memory's searches found: recalled messages and entries, within one budget
(docs/behaviour.md#recall-budget). Pure."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest

from layover.context.tokens import estimate
from layover.declare.memory import Memory
from layover.plugins.memory.reads.episodic.rendering import entry_lines, memory_block
from layover.plugins.memory.reads.semantic.query import query_words
from layover.plugins.memory.reads.semantic.rendering import recalled_block, recalled_lines
from layover.plugins.memory.text.excerpts import excerpt
from layover.plugins.memory.text.index_words import alternatives
from layover.values.memory.context import Recalled
from layover.values.memory.entry import FoundEntry
from layover.values.message import TextPart

MAX_TOKENS = 3_000
"""Of all that is recalled, unless the agent sets another number (`Memory.recall_tokens`)."""
SHARE = 10
"""Of a window whose size is known, one of this many parts, if that is less."""
_MAX_EXCERPT, _MIN_EXCERPT = 300, 25
"""Tokens of one text that are shown."""
_EXCERPTS = 6
"""Excerpts that a budget has room for, if it is small."""


@dataclass(frozen=True)
class Injection:
    """Lines of a prompt: message id -> line, in the order of the conversation, and entry id -> line, newest
    first."""

    recalled: dict[str, str] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)


def recall_budget(memory: Memory, window: int | None) -> int:
    """Return the tokens that recalled texts have in a prompt, by estimate. `window`: the model's, None if
    nobody knows it."""
    if memory.recall_tokens is not None:
        return memory.recall_tokens
    return MAX_TOKENS if window is None else min(MAX_TOKENS, window // SHARE)


def choose_injection(
    recalled: Sequence[Recalled],
    entries: Sequence[FoundEntry],
    query: str,
    budget: int,
    as_of: datetime,
    speakers: Mapping[str, str] | None = None,
) -> Injection:
    """Return the lines of what was found for a query, within `budget` tokens. The best of both kinds come
    first, by their places: scores of different scopes cannot be compared. Neighbours of matches come last. A
    long text is an excerpt, and a text that finds no room is left out. `entries`: best first."""
    if not recalled and not entries:
        return Injection()
    looked_for = alternatives(query_words(query))
    size = max(min(_MAX_EXCERPT, budget // _EXCERPTS), _MIN_EXCERPT)
    message_lines = recalled_lines(
        [_shortened(r, looked_for, size if r.match else size // 2) for r in recalled], speakers
    )
    shown_entries = [
        e.model_copy(update={"content": _piece(e.content, looked_for, size)}) for e in entries
    ]
    lines_of_entries = entry_lines(shown_entries, as_of)
    chosen_ids: set[str] = set()
    left = budget
    costs = {"message": _frame(recalled_block), "entry": _frame(memory_block)}
    for kind, id in _best_first(recalled, entries):
        line = (message_lines if kind == "message" else lines_of_entries).get(id)
        if line is None or id in chosen_ids:
            continue
        # The first line of a kind pays for what is around all of them; one more for its line break.
        cost = estimate(line) + 1 + costs[kind]
        if cost <= left:
            left -= cost
            costs[kind] = 0
            chosen_ids.add(id)
    return Injection(
        {id: line for id, line in message_lines.items() if id in chosen_ids},
        {id: line for id, line in lines_of_entries.items() if id in chosen_ids},
    )


def _best_first(
    recalled: Sequence[Recalled], entries: Sequence[FoundEntry]
) -> Iterator[tuple[str, str]]:
    """Yield kind and id of everything in the order in which it gets room."""
    matches = [r for r in recalled if r.match]
    matches.sort(key=lambda r: (r.score or 0.0, r.message.created_at), reverse=True)
    for entry, match in zip_longest(entries, matches):
        if entry is not None:
            yield "entry", entry.id
        if match is not None:
            yield "message", match.message.id
    for match in matches:
        thread_id, place = match.message.thread_id, match.place
        near = [r for r in recalled if not r.match and r.message.thread_id == thread_id]
        near.sort(key=lambda r: abs(r.place - place))
        yield from (("message", r.message.id) for r in near)


def _shortened(recalled: Recalled, looked_for: Set[str], tokens: int) -> Recalled:
    message = recalled.message
    text = message.text.strip()
    piece = _piece(text, looked_for, tokens)
    if piece == text:
        return recalled
    copy = message.with_content((TextPart(text=piece),))
    return recalled.model_copy(update={"message": copy})


def _piece(text: str, looked_for: Set[str], tokens: int) -> str:
    """Return a text, or an excerpt of it with about this many tokens."""
    size = estimate(text)
    return text if size <= tokens else excerpt(text, looked_for, len(text) * tokens // size)


def _frame(block: object) -> int:
    """Return the tokens of a block around its lines."""
    assert callable(block)
    return estimate(str(block(["-"])))
