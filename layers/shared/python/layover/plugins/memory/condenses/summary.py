"""The rolling summary: five sections (docs/behaviour.md#rolling-summary). Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from layover.lazy import lazy_pattern
from layover.plugins.memory.condenses.observation_lines import without_thinking
from layover.plugins.memory.learns.requests import text_prompt
from layover.plugins.memory.learns.text.answers import json_object
from layover.plugins.memory.learns.text.evidence import normalise
from layover.plugins.memory.learns.text.reading import transcript
from layover.plugins.memory.learns.text.redaction import redact
from layover.plugins.memory.reads.blocks import SECTIONS, summary_lines
from layover.plugins.memory.reads.profile.notes import block
from layover.values.message import Message
from layover.values.prompt import Prompt

PROMPT_VERSION = "summary-1"
"""Changes with `prompts/summary.md`; each summary names the version that made it."""
MAX_CHARACTERS = 8_000
"""Characters of a summary, headings included."""
_NAMES = {
    "Goal": r"goals?|objectives?",
    "Facts and decisions": r"(?:key )?facts(?: (?:and|&) decisions)?|(?:key )?decisions",
    "Current state": r"(?:current )?(?:state|status)|progress",
    "Open issues": r"open (?:issues|questions|points)|issues",
    "Next step": r"next(?: steps?| actions?)?",
}
_HEADING = [
    (
        name,
        lazy_pattern(
            r"(?P<open>[#*_<\[\s]{0,12})(?:\d[.)]\s*)?(?P<inner>[*_]{0,6})"
            rf"(?P<name>{names.replace(' ', '[ _]')})"
            r"(?P<close>[*_>\]\s]{0,12})(?P<colon>(?:[:\u2013\u2014]|-(?=\s))?)[*_]{0,6}(?P<text>.*)",
            re.IGNORECASE,
        ),
    )
    for name, names in _NAMES.items()
]
_MIN_PROSE = 200
"""Characters that an answer without headings needs to count as a summary."""
_REFUSAL = lazy_pattern(
    r"(?:(?:i.?m|i am|we are) )?(?:very )?sorry|i can(?:no|.?)t|as an ai\b", re.IGNORECASE
)
_NEEDED = ("Goal", "Current state")
"""A summary has the text of one of these sections at least."""
_NOTHING = lazy_pattern(
    r"\W*(?:(?:none|nothing|empty|unknown|n/?a)\b[^.\n]{0,60}|no(?: [\w-]+){1,3}|not(?: [\w-]+){1,2})\W*",
    re.IGNORECASE,
)
"""A section that says that there is nothing to say."""
_SHORTER = "\n- An answer before this one was cut at its limit: write at most 350 words.\n"
_CLOSING = lazy_pattern(r"</[\w ]+>|```\w*|-{3,}|={3,}")
"""Lines that only end something."""


def request(
    model: str,
    messages: Sequence[Message],
    previous: str | None,
    names: Mapping[str, str] | None = None,
) -> Prompt:
    """Return the request to summarise these messages (at least one, oldest first) with the summary of the
    messages before them. `names`: of the speakers, by role."""
    blocks = [block("previous_summary", summary_lines(previous))] if previous else []
    blocks.append(block("transcript", transcript(messages, names)))
    return text_prompt("summary", model, "\n\n".join(blocks), messages[-1].created_at)


def shorter(request: Prompt) -> Prompt:
    """Return the request for a summary that is not cut at its limit, as one was."""
    return request.model_copy(update={"system": f"{(request.system or '').rstrip()}{_SHORTER}"})


def parse(answer: str) -> str | None:
    """Return the summary as it is stored: the sections with text, each below `## Name`. Prose without
    headings is the current state. None for an answer with neither the goal nor the current state: it is
    useless and replaces nothing."""
    text = without_thinking(answer)
    sections = _of_lines(text)
    # Lines first: a summary may quote JSON that has a `status`.
    if not _useful(sections) and len(of_json := _of_json(json_object(text))) > 1:
        sections = of_json
    if not sections and _is_prose(text):
        return f"## Current state\n{_tidy(text.splitlines(), sum(SECTIONS.values()))}"
    texts = {
        name: body
        for name, limit in SECTIONS.items()
        if (body := _tidy(sections.get(name, ()), limit))
    }
    if not any(texts.get(name) and not _NOTHING.fullmatch(texts[name]) for name in _NEEDED):
        return None
    return "\n\n".join(f"## {name}\n{body}" for name, body in texts.items())


def _useful(sections: Mapping[str, object]) -> bool:
    return any(name in sections for name in _NEEDED)


def _is_prose(text: str) -> bool:
    """Return whether a text without sections is good enough as a summary: it is not an error page, JSON, or a
    refusal."""
    line = normalise(text)
    return len(line) >= _MIN_PROSE and line[0] not in "<{[" and not _REFUSAL.match(line)


def _of_lines(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for raw in text.splitlines():
        line = normalise(raw)
        heading = None if _CLOSING.fullmatch(line) else _heading(line)
        if heading is not None:
            name, line = heading
            current = sections.setdefault(name, [])
        if current is not None and not _CLOSING.fullmatch(line):
            current.append(line)
    return sections


def _heading(line: str) -> tuple[str, str] | None:
    """Return the section that a line begins, and the rest of the line. A word without a heading's markup
    counts if it is the whole line, or a section's own name before a colon."""
    for section, pattern in _HEADING:
        match = pattern.fullmatch(line)
        if match is None:
            continue
        text = match["text"].strip()
        whole = match["name"].casefold().replace("_", " ").removesuffix(
            "s"
        ) == section.casefold().removesuffix("s")
        is_marked = bool(match["open"].strip() or match["inner"])
        if not text or (match["colon"] and (is_marked or whole)):
            return section, text
        if is_marked and match["close"].strip():
            return section, text.lstrip("-\u2013\u2014 ")
    return None


def _of_json(answer: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Return the sections of an answer in JSON, whatever its fields are called exactly."""
    sections: dict[str, list[str]] = {}
    for key, value in (answer or {}).items():
        heading = _heading(key)
        values = value if isinstance(value, list) else [value]
        texts = [v for v in values if isinstance(v, str)]
        if heading and texts:
            lines = [line for v in texts for line in v.splitlines()]
            sections.setdefault(heading[0], []).extend(lines)
    return sections


def _tidy(lines: Sequence[str], limit: int) -> str:
    """Return a section as it is stored; "" if it has no text. No line of it looks like a heading."""
    plain_lines = [normalise(line).lstrip("# ") for line in lines]
    text = "\n".join(line for line in plain_lines if line)
    text = redact(text[: 4 * limit].replace("&lt;", "<").replace("&gt;", ">"))
    return text[:limit].rstrip() if re.search(r"\w", text) else ""
