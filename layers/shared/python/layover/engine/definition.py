"""The hash of an agent's definition, by which a run knows the definition that it began with
(docs/versions.md)."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from layover.declare.agent import Agent
from layover.declare.hooks.base import name_of
from layover.declare.memory import Memory, ObservationalMemory, RollingSummary
from layover.declare.tools.tool import AnyTool
from layover.values.base import compact_json
from layover.values.runs.run import MESSAGES_TOOL, OnWaiting

LENGTH = 16
"""Hexadecimal digits."""


def definition_of(agent: Agent) -> str:
    """Return the hash of an agent: the same for the same definition, in every process. It covers its models
    and settings, instructions, tools with their schemas and rules, limits, memory and output, and its
    sub-agents likewise. It does not cover the code of tools. Facts that earlier releases did not hash are
    left out where they are the default: definitions without them keep their hash."""
    return _hash(_facts(agent))


def tool_definition_of(tool: AnyTool) -> str:
    """Return the hash of a tool, likewise: its name, description, schema, rules and hints, not its code."""
    digest = _TOOLS.get(tool)
    if digest is None:
        digest = _TOOLS[tool] = _hash(_tool(tool))
    return digest


_TOOLS: WeakKeyDictionary[AnyTool, str] = WeakKeyDictionary()
"""The hashes of tools that were asked for: each call of a warm process would make them anew."""


def _hash(facts: dict[str, Any]) -> str:
    text = compact_json(facts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:LENGTH]


def _facts(agent: Agent) -> dict[str, Any]:
    output = agent.output_spec
    return {
        "name": agent.name,
        "model": agent.model,
        "settings": agent.model_settings.model_dump(mode="json", exclude_unset=True, fallback=str),
        "instructions": _definition_text(agent.instructions),
        "tools": _definition_text(agent.make_tools)
        if agent.make_tools
        else [_tool(tool) for tool in agent.tools],
        "limits": agent.limits.as_args() if agent.limits else None,
        # Compaction is among the settings of memory, and was before it had a tool.
        "memory": sorted(agent.built_in_tools - {MESSAGES_TOOL}),
        "output": output.json_schema if output else None,
        "max_iterations": agent.max_iterations,
        "tool_concurrency": agent.tool_concurrency,
        **_extras(agent),
    }


def _extras(agent: Agent) -> dict[str, Any]:
    """Return the facts that are not the default."""
    limits, validator = agent.limits, agent.output_validator
    facts: dict[str, Any] = {
        "fallbacks": list(agent.fallbacks),
        "own_models": _own_models(agent),
        "on_reached": limits.on_reached if limits and limits.on_reached != "suspend" else None,
        "overridable": sorted(agent.overridable),
        "output_validator": _definition_text(validator) if validator else None,
        "memory_settings": _memory(agent.memory),
        "on_waiting": agent.on_waiting if agent.on_waiting is not OnWaiting.ANSWER else None,
        "api": agent.api if agent.api != "chat" else None,
        "provider_tools": [
            tool.model_dump(mode="json", fallback=str) for tool in agent.provider_tools
        ],
        "hooks": [name_of(hook) for hook in agent.hooks],
        "servers": [each.as_facts() for each in agent.servers],
        "connections": [each.as_facts() for each in agent.connections],
    }
    return {name: fact for name, fact in facts.items() if fact}


def _own_models(agent: Agent) -> dict[str, str]:
    """Return the classes of the models that an author has brought, by the models' names. Their settings are
    code."""
    return {name: type(model).__qualname__ for name, model in sorted(agent.own_models.items())}


_NAMED = ("episodic", "working_memory", "plan")
"""Parts of memory that add a tool. The tool is covered by `memory`, so only their settings are listed
here."""


def _memory(memory: Memory) -> dict[str, Any]:
    settings = _changed(memory)
    return {
        name: value
        for name, value in settings.items()
        if name not in _NAMED or value not in ({}, True)
    }


def _changed(settings: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are not the default."""
    values = {f.name: (getattr(settings, f.name), f.default) for f in fields(settings)}
    return {name: _plain(value) for name, (value, default) in values.items() if value != default}


def _plain(value: Any) -> Any:
    """Return a setting as JSON: the settings of a part, the model of an embedder, the schema of a class."""
    if hasattr(value, "model_json_schema"):
        return value.model_json_schema()
    if isinstance(value, ObservationalMemory | RollingSummary):
        return {type(value).__name__: _changed(value)}
    if is_dataclass(value) and type(value).__module__ == Memory.__module__:
        return _changed(value)
    if isinstance(value, Mapping):
        return dict(value)
    if value is None or isinstance(value, str | int):
        return value
    return str(getattr(value, "model", value))


_HASHED_ELSEWHERE = {"needs_approval", "suspend", "resume", "expires_after", "delegate", "handoff"}


def _rules(tool: Any) -> dict[str, Any]:
    """Return the options of an author's tool that are not the default. Sub-agents and hand-offs have no such
    options."""
    if tool.delegate or tool.handoff:
        return {}
    changed = {
        f.name: getattr(tool.options, f.name)
        for f in fields(tool.options)
        if f.name not in _HASHED_ELSEWHERE and getattr(tool.options, f.name) != f.default
    }
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in changed.items()
        if not callable(value)  # code of the tool
    }


def _tool(tool: Any) -> dict[str, Any]:
    needs, waits = tool.needs_approval, tool.expires_after
    rule = tool.approvers
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "needs_approval": needs if isinstance(needs, bool) else "by a rule",
        "approvers": rule.model_dump(mode="json") if rule else None,
        **({"after_denial": tool.after_denial} if tool.after_denial != "ask" else {}),
        "resume": tool.resume_schema if tool.suspends else None,
        "expires_after": waits.total_seconds() if waits else None,
        "agent": _facts(tool.delegate.agent) if tool.delegate else None,
        **({"background": True} if tool.delegate and tool.delegate.background else {}),
        **({"memory": True} if tool.delegate and tool.delegate.memory else {}),
        **_rules(tool),
    }


def _definition_text(instructions: Any) -> str:
    """Return a text as it is, and the name of a function of the context."""
    if isinstance(instructions, str):
        return instructions
    return str(getattr(instructions, "__qualname__", type(instructions).__qualname__))
