"""The observer: older messages become dense observations (docs/behaviour.md#observation-lines). Pure."""

from collections.abc import Callable, Mapping, Sequence

from layover.memory.compaction.observation_lines import lines, read
from layover.memory.compaction.planted import without_planted
from layover.memory.profile.notes import block
from layover.memory.requests import text_prompt
from layover.memory.text.reading import transcript
from layover.values.memory.compaction import Observation, Stretch
from layover.values.message import Message
from layover.values.prompt import Prompt

PROMPT_VERSION = "observer-1"
"""Changes with `prompts/observer.md`; each generation names the version that made it."""
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
    blocks = [block("known_observations", lines(_newest(earlier)))] if earlier else []
    blocks.append(block("transcript", transcript(messages, names)))
    return text_prompt("observer", model, "\n\n".join(blocks), messages[-1].created_at)


def parse(
    answer: str, messages: Sequence[Message], new_id: Callable[[], str]
) -> tuple[Observation, ...]:
    """Return the observations of an answer, in its order, without what others put into the user's mouth; ()
    for a useless answer. Their times lie between
    the first and the last of the messages that the answer was made from."""
    return without_planted(read(answer, [m.created_at for m in messages], new_id), messages)


def render(observations: Sequence[Observation], stretches: Sequence[Stretch] = ()) -> str:
    """Return the `<observations>` block of a prompt; "" if there are none. It only grows at its end when
    observations are added. `stretches`: the messages that they are of, which the block names."""
    return block("observations", lines(observations, stretches=stretches)) if observations else ""


def _newest(observations: Sequence[Observation]) -> Sequence[Observation]:
    room = MAX_KNOWN_CHARACTERS
    for index in range(len(observations) - 1, -1, -1):
        room -= len(observations[index].text) + len("* IMPORTANT (00:00) ")
        if room < 0:
            return observations[index + 1 :]
    return observations
