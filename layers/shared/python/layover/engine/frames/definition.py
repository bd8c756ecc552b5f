"""The hash of an agent's definition, by which a run knows the definition that it began with
(docs/versions.md)."""

import hashlib
from collections.abc import Iterable
from typing import Any

from layover.declare.agent import Agent
from layover.declare.hooks.base import name_of
from layover.values.base import compact_json
from layover.values.prompt import ProviderTool

LENGTH = 16
"""Hexadecimal digits."""


def definition_of(agent: Agent) -> str:
    """Return the hash of an agent: the same for the same definition, in every process. It covers its model
    and settings, instructions, tools with their schemas and rules, limits, memory and output, and its
    sub-agents likewise. It does not cover the code of tools."""
    return hashlib.sha256(compact_json(_facts(agent)).encode("utf-8", "replace")).hexdigest()[
        :LENGTH
    ]


def _facts(agent: Agent) -> dict[str, Any]:
    output = agent.output_spec
    return {
        "name": agent.name,
        "model": agent.model,
        "settings": agent.model_settings.model_dump(mode="json", exclude_unset=True, fallback=str),
        "instructions": _said(agent.instructions),
        "tools": _said(agent.make_tools)
        if agent.make_tools
        else [_tool(tool) for tool in agent.tools],
        "limits": agent.limits.as_args() if agent.limits else None,
        "memory": sorted(agent.built_in_tools),
        "output": output.json_schema if output else None,
        "max_iterations": agent.max_iterations,
        "tool_concurrency": agent.tool_concurrency,
        # Left out if there are none: runs of earlier releases have the same hash.
        **({"api": agent.api} if agent.api != "chat" else {}),
        **({"provider_tools": _dumped(agent.provider_tools)} if agent.provider_tools else {}),
        **({"hooks": [name_of(hook) for hook in agent.hooks]} if agent.hooks else {}),
    }


def _dumped(tools: Iterable[ProviderTool]) -> list[dict[str, Any]]:
    return [tool.model_dump(mode="json", fallback=str) for tool in tools]


def _tool(tool: Any) -> dict[str, Any]:
    needs, waits = tool.needs_approval, tool.expires_after
    rule = tool.approvers
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "needs_approval": needs if isinstance(needs, bool) else "by a rule",
        "approvers": rule.model_dump(mode="json") if rule else None,
        "resume": tool.resume_schema if tool.suspends else None,
        "expires_after": waits.total_seconds() if waits else None,
        "agent": _facts(tool.delegate.agent) if tool.delegate else None,
        **({"background": True} if tool.delegate and tool.delegate.background else {}),
    }


def _said(instructions: Any) -> str:
    """Return a text as it is, and the name of a function of the context."""
    if isinstance(instructions, str):
        return instructions
    return str(getattr(instructions, "__qualname__", type(instructions).__qualname__))
