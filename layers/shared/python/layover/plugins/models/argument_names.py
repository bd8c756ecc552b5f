"""Names of arguments that Claude does not take, such as `filter[name]` and `$top`: they are others on the
wire, and their own again in its calls. Only names at the root of a tool's schema are checked
(https://github.com/decocms/studio/pull/6874)."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from layover.plugins.models.wire import safe_name
from layover.ports import OnDelta, send_deltas
from layover.values.json_answer import read_json
from layover.values.message import Message, ToolCallPart
from layover.values.prompt import Delta, Prompt, Reply, RequestedCall, ToolSpec

Names = Mapping[str, Mapping[str, str]]
"""By tool: the names on the wire, by the argument's own. Only tools that have some."""

_TAKEN = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]+")
_MAX_BASE = 60
_UNNAMED = "argument"


Ask = Callable[[Prompt, OnDelta | None], Awaitable[Reply]]


async def ask_by_plain_names(prompt: Prompt, on_delta: OnDelta | None, ask: Ask) -> Reply:
    """Return the reply to a prompt whose tools have plain names of arguments on the wire."""
    names = names_of(prompt)
    if not names:
        return await ask(prompt, on_delta)
    listener = HeldArguments(on_delta, names)
    reply = await ask(with_names(prompt, names), listener.take if on_delta else None)
    reply = with_own_names(reply, names)
    await listener.tell(reply)
    return reply


def names_of(prompt: Prompt) -> Names:
    """Return the names that the arguments of a prompt's tools have on the wire, where these are others."""
    return {tool.name: names for tool in prompt.tools if (names := _renamed(tool.parameters))}


def with_names(prompt: Prompt, names: Names) -> Prompt:
    """Return the prompt with tools and calls by the names of the wire."""
    tools = tuple(
        _tool(tool, names[tool.name]) if tool.name in names else tool for tool in prompt.tools
    )
    messages = tuple(_message(message, names) for message in prompt.messages)
    return prompt.model_copy(update={"tools": tools, "messages": messages})


def with_own_names(reply: Reply, names: Names) -> Reply:
    """Return a reply with the arguments of its calls by their own names."""
    own = {safe_name(tool): {v: k for k, v in of_tool.items()} for tool, of_tool in names.items()}
    return reply.model_copy(update={"calls": tuple(_call(c, own.get(c.name)) for c in reply.calls)})


class HeldArguments:
    """Passes on the pieces of a reply, and the arguments of calls with other names once they are whole."""

    def __init__(self, on_delta: OnDelta | None, names: Names) -> None:
        self._on_delta = on_delta
        self._tools = frozenset(map(safe_name, names))

    async def take(self, delta: Delta) -> None:
        """Take a piece."""
        is_held = delta.kind == "tool-call" and delta.tool_name in self._tools
        await send_deltas(self._on_delta, delta._replace(text="") if is_held else delta)

    async def tell(self, reply: Reply) -> None:
        """Take the whole reply, whose arguments have their own names."""
        for at, call in enumerate(reply.calls):
            if call.name in self._tools:
                whole = Delta(
                    "tool-call", call.args, call=at, tool_call_id=call.id, tool_name=call.name
                )
                await send_deltas(self._on_delta, whole)


def _renamed(schema: Mapping[str, Any]) -> dict[str, str]:
    own = list(schema.get("properties", {}))
    plain_names = {name for name in own if _TAKEN.fullmatch(name)}
    renamed: dict[str, str] = {}
    for name in own:
        if name not in plain_names and name not in renamed:
            renamed[name] = _free(
                _UNSAFE.sub("_", name).strip("_")[:_MAX_BASE] or _UNNAMED, plain_names
            )
            plain_names.add(renamed[name])
    return renamed


def _free(base: str, plain_names: set[str]) -> str:
    name, number = base, 2
    while name in plain_names:
        name, number = f"{base}_{number}", number + 1
    return name


def _tool(tool: ToolSpec, names: Mapping[str, str]) -> ToolSpec:
    """Return the tool by the names of the wire. The own name of an argument is its title."""
    schema = tool.parameters
    properties = {
        names.get(name, name): {"title": name, **each}
        if name in names and isinstance(each, dict)
        else each
        for name, each in schema["properties"].items()
    }
    changed = {**schema, "properties": properties}
    if "required" in schema:
        changed["required"] = [names.get(name, name) for name in schema["required"]]
    return tool.model_copy(update={"parameters": changed, "strict": False})


def _message(message: Message, names: Names) -> Message:
    if not any(call.tool_name in names for call in message.tool_calls):
        return message
    parts = tuple(
        _as_on_the_wire(part, names[part.tool_name])
        if isinstance(part, ToolCallPart) and part.tool_name in names
        else part
        for part in message.content
    )
    return message.model_copy(update={"content": parts})


def _as_on_the_wire(part: ToolCallPart, names: Mapping[str, str]) -> ToolCallPart:
    if not isinstance(part.args, dict):
        return part
    return part.model_copy(update={"args": {names.get(n, n): v for n, v in part.args.items()}})


def _call(call: RequestedCall, names: Mapping[str, str] | None) -> RequestedCall:
    if names is None:
        return call
    try:
        args = read_json(call.args)
    except ValueError:
        return call
    if not isinstance(args, dict):
        return call
    own = json.dumps({names.get(n, n): v for n, v in args.items()}, ensure_ascii=False)
    return call.model_copy(update={"args": own})
