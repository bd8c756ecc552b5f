"""Tools of servers outside, as a run pins them."""

from operator import not_

from pydantic import Field

from layover.values.base import Json, Value


class ServedTool(Value):
    """A tool as its server described it, once the description was cleaned. `name`: the server's own; `alias`:
    the name by which the model calls it."""

    name: str
    alias: str
    description: str
    parameters: dict[str, Json]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


class ServedTools(Value):
    """The tools of one server that a run began with. `server`: its name in the agent."""

    server: str
    tools: tuple[ServedTool, ...] = ()
    waits: bool = Field(default=False, exclude_if=not_)
    """True if the server was not asked yet: the run's user had not connected the account that it needs."""
    connects: bool = Field(default=False, exclude_if=not_)
    """True if it was not asked when the run began: the run has a tool that connects the account."""
