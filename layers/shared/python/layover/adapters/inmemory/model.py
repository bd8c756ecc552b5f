"""A model that follows a script: `ScriptedModel([call("refund", amount=40), say("done")])`."""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal

from layover.adapters.models.faults import type_of
from layover.errors import ContextLengthExceeded, ModelError
from layover.ids import SequentialIds
from layover.ports import ChatModel, OnDelta, send_deltas
from layover.values.message import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import Delta, Prompt, Reply, RequestedCall
from layover.values.runs.usage import Usage

USAGE = Usage(input_tokens=10, output_tokens=5)
"""Usage of a scripted step that sets none."""

_LINE = 160
"""Characters of a message in the message of ScriptExhausted."""

FinishReason = Literal["stop", "length", "tool-calls", "content-filter"]


class Broken(Exception):
    """A stream that shows `text` and breaks; the script's next step is its repetition."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


Step = Reply | ModelError | Broken
"""A script's step: an answer, or an error."""

Reaction = Callable[[Prompt], Step | Awaitable[Step]]
"""A step that looks at the prompt first (plain or async), for assertions or answers that depend on it."""

BACKGROUND: Mapping[str, str] = {
    "extractor": '{"entries": []}',
    "profile": "{}",
    "session": "{}",
    "reflector": '{"drop": [], "merge": []}',
}
"""Empty but valid answers to background tasks; any other task gets no text."""


class ScriptExhausted(AssertionError):
    """The model was called more often than its script has steps. The message shows the prompt."""


def say(
    text: str,
    *,
    reasoning: str = "",
    finish_reason: FinishReason = "stop",
    usage: Usage = USAGE,
) -> Reply:
    """Return an answer in words."""
    return Reply(text=text, reasoning=reasoning, finish_reason=finish_reason, usage=usage)


def call(tool: str, /, *, tool_call_id: str = "", **args: Any) -> Reply:
    """Return a step that calls one tool with these arguments. Without an id it gets `call_1`, `call_2`,
    ..."""
    requested = RequestedCall(id=tool_call_id, name=tool, args=json.dumps(args))
    return Reply(calls=(requested,), finish_reason="tool-calls", usage=USAGE)


def calls(*steps: Reply, text: str = "") -> Reply:
    """Return several calls in one step: `calls(call("a"), call("b", x=1))`, with words before them if
    given."""
    requested = tuple(c for step in steps for c in step.calls)
    return Reply(text=text, calls=requested, finish_reason="tool-calls", usage=USAGE)


def fail(message: str = "The provider said no", *, status: int = 500) -> ModelError:
    """Return the error of a provider that refuses, or whose passing fault did not pass."""
    return ModelError(message, status=status, type=type_of(status))


def too_long(message: str = "maximum context length exceeded") -> ModelError:
    """Return the error of a provider that finds the prompt too long for the model's window."""
    return ContextLengthExceeded(message, status=400)


def broken(text: str) -> Broken:
    """Return a stream that breaks after this text; the script's next step is its repetition."""
    return Broken(text)


class ScriptedModel(ChatModel):
    """Plays a script, one step for each model call, and keeps its prompts in `prompts`. A missing step is
    ScriptExhausted: the run fails, and so does the test of `Agent.override`. Steps that no call reached are
    in `unused`.

    `script`: steps and reactions in order, or one reaction for every call. Calls for background
    tasks (titles, extraction, ...) take their steps from `background[task]`; without any they
    get an empty answer, are kept in `prompts` too, and leave the script alone."""

    def __init__(
        self,
        script: Iterable[Step | Reaction] | Reaction,
        *,
        background: Mapping[str, Iterable[Step | Reaction] | Reaction] | None = None,
    ) -> None:
        self.prompts: list[Prompt] = []
        self._ids = SequentialIds()
        scripts = {"turn": script, **(background or {})}
        self._scripts = {task: _steps(steps) for task, steps in scripts.items()}
        self._problem: str | None = None

    @property
    def turns(self) -> list[Prompt]:
        """The prompts of runs, without those of background tasks."""
        return [p for p in self.prompts if p.task == "turn"]

    @property
    def unused(self) -> list[Step | Reaction]:
        """Steps that no call reached: `assert not model.unused`. A script that is no list has none."""
        lists = (s for s in self._scripts.values() if isinstance(s, _StepList))
        return [step for script in lists for step in script.steps_left]

    def verify(self) -> None:
        """Raise ScriptExhausted if the script had a step too few."""
        if self._problem is not None:
            raise ScriptExhausted(self._problem)

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """The script's next step. Raises its ModelError, or ScriptExhausted."""
        self.prompts.append(prompt)
        listener = on_delta if prompt.stream else None
        step = await self._next(prompt)
        while isinstance(step, Broken):
            await send_deltas(listener, Delta(kind="text", text=step.text), Delta(kind="restart"))
            step = await self._next(prompt)
        if isinstance(step, ModelError):
            raise step
        reply = self._complete(step, prompt)
        await send_deltas(listener, *_deltas(reply))
        return reply

    async def _next(self, prompt: Prompt) -> Step:
        if prompt.task != "turn" and prompt.task not in self._scripts:
            return say(BACKGROUND.get(prompt.task, ""))
        step = next(self._scripts[prompt.task], None)
        if step is None:
            number = sum(p.task == prompt.task for p in self.prompts)
            problem = f"the script for {prompt.task!r} has no step {number}. {shape(prompt)}"
            self._problem = self._problem or problem
            raise ScriptExhausted(problem)
        if isinstance(step, Reply | ModelError | Broken):
            return step
        reaction = step(prompt)
        if isinstance(reaction, Reply | ModelError | Broken):
            return reaction
        return await reaction

    def _complete(self, reply: Reply, prompt: Prompt) -> Reply:
        calls = tuple(
            c if c.id else c.model_copy(update={"id": self._ids.new("call")}) for c in reply.calls
        )
        model = reply.model or prompt.model.removeprefix("openai/")
        return reply.model_copy(update={"calls": calls, "model": model})


class _StepList:
    """The steps of a list, with those that are left."""

    def __init__(self, steps: Sequence[Step | Reaction]) -> None:
        self.steps_left = list(steps)

    def __iter__(self) -> Iterator[Step | Reaction]:
        return self

    def __next__(self) -> Step | Reaction:
        if not self.steps_left:
            raise StopIteration
        return self.steps_left.pop(0)


def _steps(script: Iterable[Step | Reaction] | Reaction) -> Iterator[Step | Reaction]:
    if isinstance(script, Sequence):
        return _StepList(script)
    return repeat(script) if callable(script) else iter(script)


def shape(prompt: Prompt) -> str:
    """Return a model's request for people: a line for each message, long contents cut."""
    tools = ", ".join(tool.name for tool in prompt.tools) or "none"
    lines = [f"Asked of {prompt.model} with tools {tools}:"]
    if prompt.system:
        lines.append(f"  system: {_short(prompt.system)}")
    for message in prompt.messages:
        lines += [
            f"  {message.role}: {_short(_content(part, message))}" for part in message.content
        ]
    return "\n".join(lines)


def _content(part: Part, message: Message) -> str:
    if isinstance(part, ToolCallPart):
        return f"{part.tool_name}({json.dumps(part.args, ensure_ascii=False)})"
    if isinstance(part, ToolResultPart):
        output = message.model_output or json.dumps(part.result, ensure_ascii=False)
        return f"{part.tool_name} -> {output}"
    return part.text if isinstance(part, TextPart | ReasoningPart) else f"a {part.type} part"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[:_LINE]}..."


def _deltas(reply: Reply) -> Iterator[Delta]:
    for piece in _pieces(reply.reasoning):
        yield Delta(kind="reasoning", text=piece)
    for piece in _pieces(reply.text):
        yield Delta(kind="text", text=piece)
    for at, c in enumerate(reply.calls):
        yield Delta(kind="tool-call", text=c.args, call=at, tool_call_id=c.id, tool_name=c.name)


def _pieces(text: str) -> list[str]:
    """Words with the blanks that follow them: always more than one piece where there are two words."""
    words = text.split(" ")
    return [w + " " for w in words[:-1]] + words[-1:] if text else []
