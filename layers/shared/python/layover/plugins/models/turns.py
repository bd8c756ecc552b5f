"""Messages as the turns of Claude's APIs, the Messages API and Converse: users and the assistant in
alternation, each turn a list of blocks."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from layover.plugins.models import wire
from layover.plugins.models.call_ids import CallIds
from layover.values.message import Message, Part, ProviderState, Role
from layover.values.prompt import Prompt, ToolSpec

Body = dict[str, Any]

DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)[^,]*;base64,(.*)", re.S)
"""The kind of a file, and its bytes in base64."""
IS_A_FILE = "[file]"
"""The text next to a document for which its user had no words: a document by itself is refused."""

_BEGIN = "(What was said before is left out.)"
_GO_ON = "(Go on.)"
_SAYS_NOTHING = "(no output)"
_UNAVAILABLE = "Not available any more: do not call it."


class Turns(ABC):
    """Turns in the making. Users speak first and last: the APIs refuse anything else."""

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._turns: list[Body] = []

    def add(self, messages: Sequence[Message], at: int, state: ProviderState | None) -> None:
        """Add the message at this place, and right after it the results of its calls. `state`: what the model
        wants back with it."""
        message = messages[at]
        if message.role is Role.USER:
            self._say("user", list(self._user(message.content)))
        elif message.role is Role.ASSISTANT:
            answers = wire.answers(messages, at)
            ids = self._ids.of((c for c in message.tool_calls if c.tool_call_id in answers), state)
            self._say("assistant", self._assistant(message, ids, state))
            results = [_with_text(answers[call]) for call in ids]
            self._say("user", [*map(self._result, ids.values(), results)])
            for result in results:
                if result.parts and not self._takes_files(result):
                    self._say("user", list(self._user(result.files_behind)))

    def whole(self) -> list[Body]:
        """Return the turns."""
        if not self._turns or self._turns[0]["role"] != "user":
            self._turns.insert(0, {"role": "user", "content": [self._text(_BEGIN)]})
        if self._turns[-1]["role"] != "user":
            # Models that take no beginning of their answer refuse one.
            self._say("user", [self._text(_GO_ON)])
        return self._turns

    def _say(self, role: Literal["user", "assistant"], blocks: list[Body]) -> None:
        if not blocks:
            return
        if self._turns and self._turns[-1]["role"] == role:
            self._turns[-1]["content"] += blocks
        else:
            self._turns.append({"role": role, "content": blocks})

    @abstractmethod
    def _text(self, text: str) -> Body:
        """Return a block of text."""

    @abstractmethod
    def _user(self, content: Sequence[Part]) -> Iterable[Body]:
        """Return the blocks of a user's message."""

    @abstractmethod
    def _assistant(
        self, message: Message, ids: Mapping[str, str], state: ProviderState | None
    ) -> list[Body]:
        """Return the blocks of an answer. `ids`: those of its calls that were answered, on the wire."""

    @abstractmethod
    def _takes_files(self, answer: wire.CallResult) -> bool:
        """Return whether the block of a result may have files. If not, they stand behind all results."""

    @abstractmethod
    def _result(self, wire_id: str, answer: wire.CallResult) -> Body:
        """Return the block of a call's result, whose text is not blank."""


def _with_text(answer: wire.CallResult) -> wire.CallResult:
    """Return the result with words for one that has none, which the APIs refuse."""
    return answer if answer.text.strip() else answer._replace(text=_SAYS_NOTHING)


def past_tools(prompt: Prompt, offered: Iterable[str]) -> list[ToolSpec]:
    """Return the tools that only the history calls: the APIs refuse calls of tools that a request does not
    have. `offered`: names on the wire of those that it has."""
    called = (wire.safe_name(call.tool_name) for m in prompt.messages for call in m.tool_calls)
    present = frozenset(offered)
    return [
        ToolSpec(name=name, description=_UNAVAILABLE, parameters={"type": "object"})
        for name in dict.fromkeys(called)
        if name not in present
    ]
