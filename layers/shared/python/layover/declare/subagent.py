"""An agent as a tool of another agent."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from layover.declare import checks
from layover.declare.tool import Tool, ToolArgs, tool
from layover.errors import DefinitionError
from layover.values.prompt import ToolSpec

if TYPE_CHECKING:
    from layover.declare.agent import Agent


class SubAgentTool:
    """An agent as a tool of another one. No engine runs it yet, so `Agent.as_tool` makes none."""

    needs_approval = False
    idempotent = True
    """Never in doubt: it goes on from its own journal (docs/behaviour.md#sub-agents)."""
    trusted = False
    expires_after: timedelta | None = None
    timeout: timedelta | None = None

    def __init__(self, agent: "Agent", description: str) -> None:
        if not isinstance(description, str) or not description.strip():
            raise DefinitionError(
                f"agent {agent.name!r}: as_tool needs a description for the model"
            )
        self.agent = agent
        self.name = checks.tool_name("the name of an agent that is a tool", agent.name)
        self.description = description
        self._briefing: Tool = tool(name=self.name, description=description)(_briefing)

    def __repr__(self) -> str:
        return f"<SubAgentTool {self.name}>"

    @property
    def spec(self) -> ToolSpec:
        """The tool as the parent's model sees it."""
        return self._briefing.spec

    def validate(self, args: Any) -> ToolArgs:
        """`input` (a text) and `context` (a text or None). Raises `pydantic.ValidationError`."""
        return self._briefing.validate(args)

    def jsonable(self, result: Any) -> Any:
        """As a tool's."""
        return self._briefing.jsonable(result)

    def model_output(self, result: Any) -> str:
        """As a tool's: `{"result": ...}` as JSON."""
        return self._briefing.model_output(result)


def _briefing(input: str, context: str | None = None) -> None:
    """What the engine starts the sub-agent with; never called."""
