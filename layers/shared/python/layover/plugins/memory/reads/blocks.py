"""Compacted messages in a prompt: observations as lines below their days, and the sections of a summary
(docs/behaviour.md#observation-lines). Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, date
from itertools import accumulate

from layover.plugins.memory.reads.profile.notes import block
from layover.plugins.memory.text.escape import escape
from layover.values.memory.compaction import Compacted, Observation, Stretch
from layover.values.runs.run import MESSAGES_TOOL
from layover.values.tokens import estimate

INDENT = "  "
SECTIONS = {
    "Goal": 1_000,
    "Facts and decisions": 3_400,
    "Current state": 1_500,
    "Open issues": 1_400,
    "Next step": 500,
}
"""The sections, each with its limit in characters."""


def compaction_block(compacted: Compacted | None) -> str:
    """Return the observations or the summary of a path; "" if there are none."""
    if compacted is None:
        return ""
    text = (
        render_observations(compacted.observations, compacted.stretches)
        if compacted.summary is None
        else render_summary(compacted.summary)
    )
    if not text or compacted.generation is None:
        return text
    # Behind the block, which grows at its end: what comes before stays a prefix.
    last = compacted.generation.through_depth + 1
    return f"{text}\n[It stands for messages 1 to {last}: {MESSAGES_TOOL} shows them again.]"


def is_due(compacted: Compacted, max_tokens: int | None) -> bool:
    """Return whether the observations that take effect exceed `max_tokens`, and new ones have arrived since
    they were last condensed."""
    generation = compacted.generation
    if generation is None or generation.kind != "observations" or max_tokens is None:
        return False
    return estimate(render_observations(compacted.observations)) > max_tokens


def render_observations(
    observations: Sequence[Observation], stretches: Sequence[Stretch] = ()
) -> str:
    """Return the `<observations>` block of a prompt; "" if there are none. It only grows at its end when
    observations are added. `stretches`: the messages that they are of, which the block names."""
    return (
        block("observations", observation_lines(observations, stretches=stretches))
        if observations
        else ""
    )


def observation_lines(
    observations: Sequence[Observation],
    numbered: bool = False,
    stretches: Sequence[Stretch] = (),
) -> list[str]:
    """Return the observations as lines, in order, with a `Date:` line when the day changes. A detail stands
    below its parent only if it follows it. `numbered`: each line shows its number, from 1,
    for the reflector. `stretches`: above the first observation of each, a line has the numbers of its
    messages; the path's first is 1. Escaped."""
    result: list[str] = []
    day: date | None = None
    top: str | None = None
    numbers = _numbers(stretches)
    for place, one in enumerate(observations):
        if place in numbers:
            result.append(numbers[place])
        detail = one.parent_id is not None and one.parent_id == top
        at = one.at.astimezone(UTC)
        if not detail:
            top = one.id
            if at.date() != day:
                day = at.date()
                result.append(f"Date: {day.isoformat()}")
        name = f"[{place + 1}] " if numbered else ""
        text = f"{name}{one.marker.value} ({at:%H:%M}) {one.text.strip()}"
        result.append(f"{INDENT if detail else ''}* {escape(text)}")
    return result


def _numbers(stretches: Sequence[Stretch]) -> dict[int, str]:
    """Return place of an observation -> the line above it."""
    places = accumulate((s.observations for s in stretches), initial=0)
    return {
        place: f"Messages {s.after_depth + 2} to {s.through_depth + 1}:"
        for place, s in zip(places, stretches, strict=False)
        if s.observations
    }


def render_summary(summary: str) -> str:
    """Return the `<summary>` block of a prompt, one line for each section; "" for a blank summary."""
    return block("summary", summary_lines(summary)) if summary.strip() else ""


def summary_lines(summary: str) -> list[str]:
    """Return one escaped line for each section of a stored summary; a text without sections is one line."""
    pieces = re.split(rf"^## ({'|'.join(SECTIONS)})$", summary, flags=re.MULTILINE)
    head = [escape(pieces[0].strip())] if pieces[0].strip() else []
    sections = zip(pieces[1::2], pieces[2::2], strict=True)
    return head + [f"{name}: {escape(text.strip())}" for name, text in sections]
