"""The types that an agent may be given: `Agent[Deps, Output]`, `ToolContext[Deps, Resumed]`."""

from typing import Any

from typing_extensions import TypeVar

Deps = TypeVar("Deps", default=Any)
"""The value that an agent's `deps` makes."""
Output = TypeVar("Output", default=Any)
"""The value of a run's structured output."""
Resumed = TypeVar("Resumed", default=Any)
"""The data that a suspended call is resumed with."""
