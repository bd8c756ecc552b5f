"""The context of a call."""

from datetime import date
from typing import Any

import pytest

from layover import ConfigurationError, FilePart, RecordedHooks, ToolContext
from layover.declare.context import Attempt, SuspendRequest


def without_hooks(**overrides: Any) -> ToolContext:
    return ToolContext.for_test(hooks=None, **overrides)


async def test_what_the_engine_does_not_offer_is_a_configuration_error() -> None:
    ctx = without_hooks()
    with pytest.raises(ConfigurationError, match=r"ctx\.emit"):
        ctx.emit({})
    with pytest.raises(ConfigurationError, match=r"ctx\.save_file"):
        await ctx.save_file("a.txt", "text/plain", b"")
    with pytest.raises(ConfigurationError, match=r"ctx\.log_attempt"):
        await ctx.log_attempt("task", "action")
    with pytest.raises(ConfigurationError, match=r"ctx\.node_memory"):
        ctx.node_memory("node")


def test_node_memory_outside_a_thread_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="belongs to a thread"):
        ToolContext.for_test(thread_id=None).node_memory("node")


def test_nothing_is_cancelled_without_hooks() -> None:
    assert without_hooks().cancelled is False


def test_cancelled_is_looked_up_each_time() -> None:
    hooks = RecordedHooks()
    ctx = ToolContext.for_test(hooks=hooks)
    assert ctx.cancelled is False
    hooks.is_cancelled = True
    assert ctx.cancelled is True


def test_suspending_raises_nothing() -> None:
    result: Any = ToolContext.for_test().suspend({"slots": []})
    assert result == SuspendRequest({"slots": []})


def test_what_is_emitted_is_json() -> None:
    hooks = RecordedHooks()
    ToolContext.for_test(hooks=hooks).emit({"day": date(2026, 1, 1), "odd": float("nan")})
    assert hooks.emitted == [{"day": "2026-01-01", "odd": None}]


async def test_a_test_can_look_at_what_a_tool_did() -> None:
    hooks = RecordedHooks()
    ctx = ToolContext.for_test(hooks=hooks, resource_id="ann")
    part = await ctx.save_file("a.txt", "text/plain", b"hi")
    await ctx.log_attempt("deploy", "push", error="refused")
    assert part == FilePart(file_id="file_1", name="a.txt", mime_type="text/plain")
    assert hooks.files == {"a.txt": b"hi"}
    assert hooks.attempts == [Attempt("deploy", "push", error="refused")]
    assert ctx.resource_id == "ann"
