"""A conversation in this process of which the assistant's part is scripted, too."""

from collections.abc import Iterator

from eval.cases import Step, Turn
from layover import Agent
from layover.testing import call, calls, say
from layover.values.prompt import Prompt, Reply

USER = "ann"
AGENT = "assistant"
THREAD = "this-thread"


class Assistant:
    """The agent's own model: the assistant's part, step by step."""

    def __init__(self) -> None:
        self._steps: Iterator[Step] = iter(())

    def begin(self, turn: Turn) -> None:
        """The turn that is asked for next."""
        self._steps = iter(turn.steps)

    def __call__(self, _: Prompt) -> Reply:
        step = next(self._steps)
        if not step.tools:
            return say(step.text)
        return calls(*(call(t.name, given=t.args) for t in step.tools), text=step.text)


async def hold(agent: Agent, turn: Turn, thread: str) -> str:
    """Let the agent answer a turn and learn from it, and return the run's id. Raises AssertionError if the
    turn does not succeed."""
    result = await agent.generate(turn.user, thread_id=thread, resource_id=USER)
    if (result.status, result.text) != ("success", turn.steps[-1].text):
        raise AssertionError(f"the turn went another way: {result.status}, {result.text!r}")
    await agent.wait_for_memory()
    return result.run_id
