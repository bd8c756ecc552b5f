"""The plan of a thread (docs/behaviour.md#plans): kept with it, shown to the model and in the API."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, Field

from layover.plugins.memory.text.escape import escape, escape_value

Status = Literal["pending", "in_progress", "done", "failed", "skipped"]

MAX_STEPS = 100


class PlanStep(BaseModel):
    """One step of a plan."""

    # Models name it as they like; the schema that they read has `description`.
    description: str = Field(
        validation_alias=AliasChoices("description", "title", "step", "name", "text"),
        max_length=2_000,
    )
    status: Status = "pending"


class Plan(BaseModel):
    """The agent's plan in this thread."""

    goal: str = Field(max_length=2_000)
    phase: str = Field("", max_length=500)
    iterations: int = Field(0, ge=0)
    steps: list[PlanStep] = Field(default_factory=list, max_length=MAX_STEPS)


def plan_lines(plan: Any) -> list[str]:
    """Return goal, phase, iterations, then `N. [status] description`, each escaped."""
    if not isinstance(plan, Mapping):
        return [escape_value(plan)]
    heads = [
        f"{n}: {escape_value(plan[n])}" for n in ("goal", "phase", "iterations") if plan.get(n)
    ]
    entries = plan.get("steps")
    steps = [s for s in entries if isinstance(s, Mapping)] if isinstance(entries, list) else []
    return heads + [
        f"{n}. [{escape(str(s.get('status', 'pending')))}] {escape_value(s.get('description', ''))}"
        for n, s in enumerate(steps, start=1)
    ]
