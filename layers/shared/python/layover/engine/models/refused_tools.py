"""Requests that a provider refuses because of their tools: which ones it names, and how many it takes
(docs/behaviour.md#refused-tools)."""

import re
from collections.abc import Iterable, Sequence

from layover.errors import INVALID_RESPONSE, ModelError
from layover.values.message import Message
from layover.values.prompt import FIELDS_OF_TOOLS, Prompt, field_of

_STATUSES = frozenset({400, 422})
_AT = re.compile(r"(?:function_?declarations|tools|functions)(?:\[(\d+)\]|\.(\d+)\b)", re.I)
_IN_A_LIST = re.compile(r"(?:tools|functions)(?:\[\d+\]|\.\d+)\.function_?declarations", re.I)
"""Gemini has one tool with all functions in it."""
_OF_A_SCHEMA = re.compile(r"schema|parameter|declaration|definition", re.I)
_TOO_MANY = re.compile(
    r"too many|too long|too large|exceed|at most|no more than|not (include )?more than|max|limit|up to",
    re.I,
)
_SOME_TOOLS = re.compile(r"\b(tools|functions|function_?declarations)\b", re.I)
_NUMBER = re.compile(r"\d+")
_TOOL, _SEARCH = "tool:", "tools:search"


class ToolsRefused(ModelError):
    """A refusal of tools by name."""

    def __init__(self, refusal: ModelError, names: Iterable[str]) -> None:
        super().__init__(refusal.message, status=refusal.status, type=refusal.type)
        self.requests, self.place, self.code = refusal.requests, refusal.place, refusal.code
        self.names = frozenset(names)


class TooManyTools(ModelError):
    """A refusal of the number of tools. `most`: the number that the provider takes, or may take."""

    def __init__(self, refusal: ModelError, most: int) -> None:
        super().__init__(refusal.message, status=refusal.status, type=refusal.type)
        self.requests, self.place, self.code = refusal.requests, refusal.place, refusal.code
        self.most = most


def as_refusal_of_tools(prompt: Prompt, error: ModelError) -> ModelError:
    """Return what a provider's error says of the tools of its request: ToolsRefused or TooManyTools. Return
    any other error as it is."""
    if error.status not in _STATUSES or error.type == INVALID_RESPONSE or not prompt.tools:
        return error
    if error.place and field_of(error.place) not in FIELDS_OF_TOOLS:
        return error
    if names := _named(prompt, error):
        return error if _is_forced(prompt, names) else ToolsRefused(error, names)
    most = _most(error, len(prompt.tools))
    return error if most is None else TooManyTools(error, most)


def tool_keys(names: Iterable[str], *, searches: bool) -> frozenset[str]:
    """Return the keys by which a run remembers what a model's provider takes no request with."""
    return frozenset({*(f"{_TOOL}{name}" for name in names), *([_SEARCH] if searches else ())})


def remembered(messages: Iterable[Message], model: str) -> tuple[frozenset[str], bool]:
    """Return the names of tools that this model was found not to take, and whether all of them are too many
    for it, as these messages tell."""
    states = [m.provider_state for m in messages if m.provider_state is not None]
    keys = {key for state in states for key in state.left_out.get(model, ())}
    return frozenset(k.removeprefix(_TOOL) for k in keys if k.startswith(_TOOL)), _SEARCH in keys


def _named(prompt: Prompt, error: ModelError) -> frozenset[str]:
    """Return the tools that a refusal is about: by their places in the request, else by their names."""
    place = _IN_A_LIST.sub("functionDeclarations", error.place)
    if at := _AT.search(place):
        # Amazon's own checks count from 1, and call each `member`.
        number = int(at[1] or at[2]) - (".member" in place)
        return frozenset(tool.name for tool in prompt.tools[number : number + 1] if number >= 0)
    if not error.place and not _OF_A_SCHEMA.search(error.message):
        return frozenset()
    return frozenset(t.name for t in prompt.tools if _is_named(t.name, error.message))


def _is_named(name: str, message: str) -> bool:
    word = re.escape(name)
    return re.search(rf"['\"`]{word}['\"`]|\b(function|tool):? {word}\b", message) is not None


def _is_forced(prompt: Prompt, names: frozenset[str]) -> bool:
    """Return whether a request without these tools could not have the call that it forces."""
    choice = prompt.settings.tool_choice
    is_left = any(tool.name not in names for tool in prompt.tools)
    return choice in names or (choice == "required" and not is_left)


def _most(error: ModelError, number: int) -> int | None:
    """Return how many tools a provider takes; None if its error is not about their number. It names the
    largest number, and often the one that was sent."""
    if not (error.place or _SOME_TOOLS.search(error.message)):
        return None
    if "array_above_max" not in error.code and not _TOO_MANY.search(error.message):
        return None
    numbers = [n for n in map(int, _NUMBER.findall(error.message)) if 0 < n < number]
    if not numbers and not re.search(r"too many", error.message, re.I):
        return None
    return max(numbers, default=number - 1)


def without_tools(prompt: Prompt, names: Sequence[str] | frozenset[str]) -> Prompt:
    """Return the prompt without the tools of these names."""
    if not names:
        return prompt
    tools = tuple(tool for tool in prompt.tools if tool.name not in names)
    return prompt.model_copy(update={"tools": tools})
