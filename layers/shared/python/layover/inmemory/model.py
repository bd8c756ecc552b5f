"""A model that follows a script: `ScriptedModel([call("refund", amount=40), say("done")])`."""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from layover.errors import ContextLengthExceeded, ModelError
from layover.ids import SequentialIds
from layover.plugins.models.faults import type_of
from layover.ports import ChatModel, OnDelta, send_deltas
from layover.values.message import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from layover.values.prompt import Delta, Prompt, Reply, RequestedCall, StopReason
from layover.values.runs.usage import Usage

USAGE = Usage(input_tokens=10, output_tokens=5)
"""Usage of a scripted step that sets none."""

_LINE = 160
"""Characters of a message in the message of ScriptExhausted."""


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
    "hook": '{"injection": false}',
}
"""Empty but valid answers to background tasks; any other task gets no text."""


class ScriptExhausted(AssertionError):
    """The model was called more often than its script has steps: the author of the test must add a step, or
    find out why the agent asks again. The message shows the request that had no step.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, ScriptExhausted, say

        shop = Agent("shop")


        async def main() -> None:
            with shop.override(model=ScriptedModel([say("Hello.")])):
                await shop.generate("Hi")
                await shop.generate("Are you there?")


        try:
            asyncio.run(main())
        except ScriptExhausted as error:
            problem = str(error)
        assert "has no step 2" in problem and "user: Are you there?" in problem
        ```
    """


def say(
    text: str,
    *,
    reasoning: str = "",
    finish_reason: StopReason = "stop",
    usage: Usage = USAGE,
) -> Reply:
    """Return a step of a script: an answer in words.

    Args:
        text: The answer; words become pieces of a stream.
        reasoning: The thoughts that the model shows before it; empty: none.
        finish_reason: `stop`, `length` (cut off at the limit of tokens), `tool-calls` or `content-filter`.
        usage: The tokens of the request. Default: 10 of input and 5 of output.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")
        script = [say("The lamp costs", reasoning="I look it up.", finish_reason="length")]
        with shop.override(model=ScriptedModel(script)):
            result = asyncio.run(shop.generate("What is the lamp?"))
        assert (result.text, result.finish_reason) == ("The lamp costs", "length")
        ```
    """
    return Reply(text=text, reasoning=reasoning, finish_reason=finish_reason, usage=usage)


def call(tool: str, /, *, tool_call_id: str = "", **args: Any) -> Reply:
    '''Return a step of a script: one call of a tool.

    Args:
        tool: The tool's name.
        tool_call_id: The call's id; empty: `call_1`, `call_2`, ... in the order of the script's calls.
        **args: The arguments of the call, by name; they become JSON.

    Example:
        ```python
        import asyncio

        from layover import Agent, tool
        from layover.testing import ScriptedModel, call, say, tool_results


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return {"lamp": 42.0}[item]


        shop = Agent("shop", tools=[price])
        with shop.override(model=ScriptedModel([call("price", item="lamp"), say("42 euros.")])):
            result = asyncio.run(shop.generate("What is the lamp?"))
        assert tool_results(result, "price") == [42.0]
        ```
    '''
    requested = RequestedCall(id=tool_call_id, name=tool, args=json.dumps(args))
    return Reply(calls=(requested,), finish_reason="tool-calls", usage=USAGE)


def calls(*steps: Reply, text: str = "") -> Reply:
    '''Return a step of a script: several calls in one step.

    Args:
        *steps: The calls, in order: each made by `call`.
        text: The words before them; empty: none.

    Example:
        ```python
        import asyncio

        from layover import Agent, tool
        from layover.testing import ScriptedModel, call, calls, say, tool_results


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return {"lamp": 42.0, "shelf": 249.5}[item]


        shop = Agent("shop", tools=[price])
        both = calls(call("price", item="lamp"), call("price", item="shelf"), text="Let me see.")
        with shop.override(model=ScriptedModel([both, say("291.50 euros.")])):
            result = asyncio.run(shop.generate("A lamp and a shelf?"))
        assert tool_results(result) == [42.0, 249.5]
        assert result.messages[0].text == "Let me see."
        ```
    '''
    requested = tuple(c for step in steps for c in step.calls)
    return Reply(text=text, calls=requested, finish_reason="tool-calls", usage=USAGE)


def fail(
    message: str = "The provider said no", *, status: int = 500, passes: bool = False
) -> ModelError:
    """Return a step of a script: the error of a provider that refuses, or whose passing fault did not pass.
    The run fails, or asks its next model.

    Args:
        message: The provider's own message.
        status: The HTTP status of its answer, which gives the error its type: 401 is an
            `AuthenticationError`.
        passes: True if the provider is away: a run whose agent declares `Limits(provider_patience=)` pauses.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, fail, say

        shop = Agent("shop", model=["openai/a", "openai/b"])
        with shop.override(model=ScriptedModel([fail("overloaded", status=503), say("Hello.")])) as model:
            result = asyncio.run(shop.generate("Hi"))
        assert result.text == "Hello."
        assert [prompt.model for prompt in model.turns] == ["openai/a", "openai/b"]
        ```
    """
    error = ModelError(message, status=status, type=type_of(status))
    error.passes = passes
    return error


def too_long(message: str = "maximum context length exceeded") -> ModelError:
    """Return a step of a script: the error of a provider that finds the prompt too long for the model's
    window. The run shortens the prompt and asks again, at most 4 times.

    Args:
        message: The provider's own message.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, say, too_long

        shop = Agent("shop")


        async def main() -> None:
            script = [say("I see. " * 500), too_long(), say("Yes.")]
            with shop.override(model=ScriptedModel(script)) as model:
                await shop.generate("I like lamps.", thread_id="t1")
                result = await shop.generate("Do you?", thread_id="t1")
            assert result.text == "Yes."
            assert len(str(model.turns[2].messages)) < len(str(model.turns[1].messages))


        asyncio.run(main())
        ```
    """
    return ContextLengthExceeded(message, status=400)


def broken(text: str) -> Broken:
    """Return a step of a script: a stream that breaks after this text. The script's next step is its
    repetition, and who follows the run drops the text.

    Args:
        text: The text that arrives before the stream breaks.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, broken, say

        shop = Agent("shop")


        async def main() -> None:
            script = [broken("The lamp co"), say("The lamp costs 42 euros.")]
            with shop.override(model=ScriptedModel(script)):
                stream = shop.stream("What is the lamp?")
                types = [event.type async for event in stream]
                result = await stream.result()
            assert types.count("turn-start") == 2
            assert result.text == "The lamp costs 42 euros."


        asyncio.run(main())
        ```
    """
    return Broken(text)


class ScriptedModel(ChatModel):
    """A model that plays a script, one step for each model call, and keeps its prompts. A missing step is
    `ScriptExhausted`: the run fails, and so does the test of `Agent.override`.

    Args:
        script: The steps of runs, in order, or one function for every call. A step is made by `say`, `call`,
            `calls`, `fail`, `broken` or `too_long`, or is a function of the prompt, plain or async, that
            returns one.
        background: Scripts by the name of a background task (`title`, `lesson`, `extractor`, `profile`,
            `session`, `observer`, `reflector`, `summary`), or `hook` for what hooks ask (`ctx.ask_model`). A
            task without one gets an empty answer, takes no step of `script`, and finds no injection; parts of
            a `lesson` without one are asked for separately. None: all do.

    Example:
        ```python
        import asyncio

        from layover import Agent
        from layover.testing import ScriptedModel, say

        shop = Agent("shop", instructions="You sell furniture.")
        script = [lambda prompt: say(f"You said {prompt.messages[-1].text!r}."), say("Bye.")]
        with shop.override(model=ScriptedModel(script)) as model:
            result = asyncio.run(shop.generate("Hi"))
        assert result.text == "You said 'Hi'."
        assert model.turns[0].system == "You sell furniture."
        assert model.unused == [say("Bye.")]
        ```
    """

    def __init__(
        self,
        script: Iterable[Step | Reaction] | Reaction,
        *,
        background: Mapping[str, Iterable[Step | Reaction] | Reaction] | None = None,
    ) -> None:
        self.prompts: list[Prompt] = []
        """The prompts of all calls so far, in order, those of background tasks included."""
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
        """Steps that no call reached: `assert not model.unused`. A script that is not a list has none."""
        lists = (s for s in self._scripts.values() if isinstance(s, _StepList))
        return [step for script in lists for step in script.steps_left]

    def verify(self) -> None:
        """Raise ScriptExhausted if the script had a step too few."""
        if self._problem is not None:
            raise ScriptExhausted(self._problem)

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return the script's next step as a reply.

        Args:
            prompt: The request, which is kept in `prompts`.
            on_delta: Called with each piece of the reply, if the prompt asks for a stream; None: nobody
                listens.

        Raises:
            ModelError: If the step is `fail` or `too_long`.
            ScriptExhausted: If there is no step.
        """
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
