"""The observer: older messages become dense observations (docs/behaviour.md#observation-lines). Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache

from layover.plugins.memory.condenses.line_limit import within_limit
from layover.plugins.memory.condenses.meaning import with_true_dates
from layover.plugins.memory.condenses.observation_lines import read
from layover.plugins.memory.condenses.planted import without_planted
from layover.plugins.memory.learns.requests import text_prompt
from layover.plugins.memory.learns.text.evidence import normalise
from layover.plugins.memory.learns.text.reading import transcript
from layover.plugins.memory.prompts import prompt_file
from layover.plugins.memory.reads.blocks import observation_lines
from layover.plugins.memory.reads.profile.notes import block
from layover.values.memory.compaction import Observation
from layover.values.message import Message
from layover.values.prompt import Prompt

PROMPT_VERSION = "observer-2"
"""Changes with `prompts/observer.md`; each generation names the version that made it."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MAX_KNOWN_CHARACTERS = 20_000
"""Characters of earlier observations that the observer reads, the newest ones."""


def request(
    model: str,
    messages: Sequence[Message],
    earlier: Sequence[Observation],
    names: Mapping[str, str] | None = None,
) -> Prompt:
    """Return the request for observations of these messages (at least one, oldest first); `earlier`: those of
    the branch so far, as context; `names`: of the speakers, by role."""
    blocks = [block("known_observations", observation_lines(_newest(earlier)))] if earlier else []
    blocks.append(block("transcript", [*_transcript(messages, names)]))
    return text_prompt("observer", model, "\n\n".join(blocks), messages[-1].created_at)


def parse(
    answer: str, messages: Sequence[Message], new_id: Callable[[], str]
) -> tuple[Observation, ...]:
    """Return the observations of an answer, in its order; () for a useless answer. Their times lie between
    the first and the last of the messages that the answer was made from. What others put into the user's
    mouth is left out, as are the prompt's own examples and lines above the limit. Dates that relative words
    mean are counted again."""
    observations = read(answer, [m.created_at for m in messages], new_id)
    observations = without_planted(_without_examples(observations), messages)
    return tuple(with_true_dates(one) for one in within_limit(observations, messages))


def _newest(observations: Sequence[Observation]) -> Sequence[Observation]:
    room = MAX_KNOWN_CHARACTERS
    for index in range(len(observations) - 1, -1, -1):
        room -= len(observations[index].text) + len("* IMPORTANT (00:00) ")
        if room < 0:
            return observations[index + 1 :]
    return observations


def _transcript(messages: Sequence[Message], names: Mapping[str, str] | None) -> Iterator[str]:
    """Yield the lines of the messages below their days: nobody counts to "next Monday" without
    today's name."""
    day: date | None = None
    for message in messages:
        lines_of_message = transcript([message], names)
        at = message.created_at.astimezone(UTC)
        if lines_of_message and at.date() != day:
            day = at.date()
            yield f"Date: {day.isoformat()} ({_WEEKDAYS[day.weekday()]})"
        yield from lines_of_message


def _without_examples(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return the observations without lines that small models copy from the prompt, and without details of
    those."""
    copied = {one.id for one in observations if normalise(one.text) in _examples()}
    return tuple(o for o in observations if o.id not in copied and o.parent_id not in copied)


@cache
def _examples() -> frozenset[str]:
    lines_of_prompt = read(prompt_file("observer"), [datetime(2026, 3, 14, tzinfo=UTC)], lambda: "")
    return frozenset(normalise(one.text) for one in lines_of_prompt)
