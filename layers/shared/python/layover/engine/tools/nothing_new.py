"""Steps that bring nothing new: the model is told, and then its run ends (docs/behaviour.md#nothing-new)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from layover.declare.agent import Agent
from layover.declare.limits import STALE_STEPS
from layover.declare.tools.tool import AnyTool
from layover.engine.state import RunState
from layover.values.base import compact_json
from layover.values.message import Message, Role
from layover.values.runs.run import CallRecord, CallState, StepRecord

MORE_STEPS = 3
"""Steps after the text, with nothing new either, after which the run ends."""
EQUAL_ERRORS = 3
"""Steps in a row with the same call and the same error, after which it ends at once."""
_TEXT = (
    "[Nothing new: each call of the last {steps} steps, and its result, has been in this run before. Do not "
    "repeat them. Answer with what you know, say what is missing, or call something else. After {more} more "
    "steps without anything new the run ends.]"
)
_Identity = tuple[str, str, bool, bytes]


@dataclass(frozen=True)
class Loop:
    """A run that comes no further. `steps`: in a row, without anything new; `tools`: those that they
    called."""

    steps: int
    tools: tuple[str, ...]


class NothingNew:
    """The steps of one frame, as far as they are settled. Counted from the journal, so every process that
    goes on with the run counts the same."""

    def __init__(self, agent: Agent, state: RunState, built_in: Sequence[AnyTool] = ()) -> None:
        self._state = state
        self._most = STALE_STEPS if agent.limits is None else agent.limits.stale_steps
        tools = (*agent.tools, *built_in)
        self._polling = {tool.name for tool in tools if tool.options.polling}
        self._known: set[_Identity] = set()
        self._rows: list[int] = []
        """For each settled step: how many in a row, up to it, brought nothing new."""
        self._errors: list[frozenset[_Identity]] = []
        """For each settled step: its calls that failed."""

    def find_loop(self) -> Loop | None:
        """Return the loop that the newest settled step ends, if it is one."""
        self._count()
        if self._most is None or not self._rows:
            return None
        steps = self._rows[-1]
        if steps >= self._most + MORE_STEPS:
            return Loop(steps, self._tools(steps))
        last = self._errors[-EQUAL_ERRORS:]
        if len(last) == EQUAL_ERRORS and frozenset.intersection(*last):
            return Loop(EQUAL_ERRORS, self._tools(EQUAL_ERRORS))
        return None

    def add_texts(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages of a prompt with the text behind the last result of each step that was one too
        many in its row."""
        self._count()
        texts = self._texts()
        if not texts:
            return messages
        return [_with_text(m, texts[m.id]) if m.id in texts else m for m in messages]

    def _texts(self) -> Mapping[str, str]:
        """Return the texts, by the ids of the tool messages that they end."""
        if self._most is None:
            return {}
        text = _TEXT.format(steps=self._most, more=MORE_STEPS)
        places = [at for at, row in enumerate(self._rows) if row == self._most]
        return {self._state.steps[at].slots[-1].message_id: text for at in places}

    def _count(self) -> None:
        """Take the steps that were settled since the last look."""
        for step in self._state.steps[len(self._rows) :]:
            calls = self._state.calls_of(step)
            if any(call.state is not CallState.SETTLED for call in calls):
                return
            before = self._rows[-1] if self._rows else 0
            identities = [_identity(call) for call in calls]
            # A user who wrote meanwhile may want the same again.
            is_asked = any(notice.role is Role.USER for notice in step.notices)
            is_stale = (
                bool(calls)
                and not is_asked
                and not any(
                    self._is_news(call, identity)
                    for call, identity in zip(calls, identities, strict=True)
                )
            )
            self._known.update(identities)
            self._rows.append(before + 1 if is_stale else 0)
            failures = zip(calls, identities, strict=True)
            self._errors.append(frozenset(i for c, i in failures if self._is_failure(c)))

    def _is_news(self, call: CallRecord, identity: _Identity) -> bool:
        # A tool that asks for another attempt asks for the same call, and has limits of its own.
        return identity not in self._known or call.tool_name in self._polling or call.retry

    def _is_failure(self, call: CallRecord) -> bool:
        return call.is_error and not call.retry and call.tool_name not in self._polling

    def _tools(self, steps: int) -> tuple[str, ...]:
        counted: Sequence[StepRecord] = self._state.steps[: len(self._rows)][-steps:]
        names = (call.tool_name for step in counted for call in self._state.calls_of(step))
        return tuple(sorted(set(names)))


def _identity(call: CallRecord) -> _Identity:
    """Return what makes two calls equal. A result may be long, and is kept as a hash."""
    result = hashlib.sha256(compact_json(call.result).encode("utf-8", "replace")).digest()
    return call.tool_name, compact_json(call.args), call.is_error, result


def _with_text(message: Message, text: str) -> Message:
    output = f"{message.model_output or ''}\n\n{text}"
    return message.model_copy(update={"model_output": output, "token_count": None})
