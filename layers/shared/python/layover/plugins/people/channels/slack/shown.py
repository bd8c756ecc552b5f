"""The facts that a person decides by, as blocks of a message or of a form."""

from collections.abc import Sequence
from dataclasses import dataclass

from layover.plugins.people.channels.slack.block_kit import (
    MAX_FIELD,
    MAX_FIELDS,
    Json,
    fits,
    label,
    plain,
    sections,
    units,
)
from layover.plugins.people.words import MISSING, facts, is_whole
from layover.values.channels import Channels, Notice

MAX_BLOCKS = 44
"""Blocks of facts: a message takes 50 in all."""
MAX_SHOWN = 10_000
"""Characters of a message or of a form, as Slack counts them. It refuses messages of about 13,000, some of
11,300, and does not document how many it takes."""
_SHORT = 200
"""Characters of a fact that fits into a column."""


@dataclass(frozen=True)
class ShownFacts:
    """The blocks. `is_whole`: they leave out nothing that a person decides by; otherwise they say so, and
    nobody may decide next to them."""

    blocks: list[Json]
    is_whole: bool


def show_facts(
    notice: Notice, channels: Channels | None = None, others: Sequence[Json] = ()
) -> ShownFacts:
    """Return the facts of a call: short ones in two columns, below them each other one with its lines.
    `others`: blocks that stand in the same message, for which it has room as well."""
    columns: list[Json] = []
    texts: list[Json] = []
    lines: list[str] = []
    for name, value in facts(notice, channels):
        lines += value.splitlines()
        if len(value) <= _SHORT and "\n" not in value:
            columns += [label(name, MAX_FIELD), plain(value, MAX_FIELD)]
        else:
            texts += [{"type": "section", "text": label(name)}, *sections(value)]
    starts = range(0, len(columns), MAX_FIELDS)
    blocks = [{"type": "section", "fields": columns[n : n + MAX_FIELDS]} for n in starts]
    blocks += texts
    inside = _fitting(blocks, MAX_SHOWN - sum(map(_size, others)))
    whole = is_whole(notice) and len(inside) == len(blocks) and all(map(fits, lines))
    missing = [] if whole else sections(MISSING)
    return ShownFacts([*inside, *missing], whole)


def _fitting(blocks: list[Json], left: int) -> list[Json]:
    for n, block in enumerate(blocks[:MAX_BLOCKS]):
        left -= _size(block)
        if left < 0:
            return blocks[:n]
    return blocks[:MAX_BLOCKS]


def _size(block: Json) -> int:
    objects = block.get("fields") or ([block["text"]] if "text" in block else [])
    return sum(units(each["text"]) for each in objects)
