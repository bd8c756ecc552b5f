"""Calls as models write them: under a name that is only nearly a tool's (docs/behaviour.md#tolerances), and
as text, for agents that ask for it (docs/behaviour.md#text-calls)."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from layover.declare.tools.tool import AnyTool
from layover.engine.outcomes import Ready
from layover.engine.tools.execute import prepare
from layover.values.base import compact_json, strict_json
from layover.values.json_answer import escape_raw
from layover.values.prompt import Prompt, Reply, RequestedCall

_FENCE = re.compile(r"```[\w+-]*[ \t]*\r?\n(?P<inner>.*?)\r?\n?[ \t]*```", re.DOTALL)
_TAG = re.compile(r"<(?P<tag>\w*(?:tool|function)\w*)>(?P<inner>.*)</(?P=tag)>", re.DOTALL | re.I)
_WRAPPERS = (_FENCE, _TAG)
_NAMES = frozenset({"name", "tool", "function"})
_ARGUMENTS = frozenset({"arguments", "parameters", "args"})
_IGNORED = frozenset({"type", "id"})
"""Fields that some templates add to a call and that say nothing about it."""
_MARKER = "<|"
"""Begins what a model writes for its server, as in `forecast<|channel|>commentary`."""
_NAMESPACE = re.compile(r"^(?:functions?|tools?|default_api)[.:/]")
"""In front of a name: where a model was taught that tools are."""


def with_meant_names(reply: Reply, tools: Collection[str]) -> Reply:
    """Return the reply with the tools' names that its calls mean; the same reply if they all have them."""
    names = [meant_name(call.name, tools) for call in reply.calls]
    if names == [call.name for call in reply.calls]:
        return reply
    pairs = zip(reply.calls, names, strict=True)
    calls = tuple(call.model_copy(update={"name": name}) for call, name in pairs)
    return reply.model_copy(update={"calls": calls})


def meant_name(name: str, tools: Collection[str]) -> str:
    """Return the only one of the tools that a name can mean: without markers and a namespace, and whatever
    its capitals and hyphens are; the name itself if none fits, or several do."""
    if name in tools:
        return name
    bare = _NAMESPACE.sub("", name.partition(_MARKER)[0].strip())
    if bare in tools:
        return bare
    fits = [tool for tool in tools if _folded(tool) == _folded(bare)]
    return fits[0] if len(fits) == 1 else name


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


def with_text_call(
    prompt: Prompt, reply: Reply, tools: Sequence[AnyTool], *, is_output: bool
) -> Reply:
    """Return the reply with its text as the call that it is; the reply as it is if its text is anything else.
    `is_output`: the text is the structured output that the agent wants."""
    if is_output or not _may_be_call(prompt, reply):
        return reply
    offered = {tool.name for tool in prompt.tools}
    call = _call_in(reply.text, {each.name: each for each in tools if each.name in offered})
    if call is None:
        return reply
    # What the provider wants back, and the sources, belong to a text that is not stored.
    changes = {"text": "", "calls": (call,), "finish_reason": "tool-calls", "state": {}, "data": ()}
    return reply.model_copy(update=changes)


def _may_be_call(prompt: Prompt, reply: Reply) -> bool:
    if not prompt.settings.text_calls or prompt.settings.tool_choice == "none":
        return False
    is_whole = reply.finish_reason in ("stop", "tool-calls")
    return is_whole and bool(reply.text) and not (reply.calls or reply.has_provider_work)


def _call_in(text: str, tools: Mapping[str, AnyTool]) -> RequestedCall | None:
    """Return the call that a text is; None if it is no call of these tools, or says anything else."""
    value = _object_in(text)
    if value is None:
        return None
    names, arguments = value.keys() & _NAMES, value.keys() & _ARGUMENTS
    if len(names) != 1 or len(arguments) != 1 or value.keys() - names - arguments - _IGNORED:
        return None
    name, args = value[names.pop()], value[arguments.pop()]
    if isinstance(args, str):
        args = _object_in(args)
    if not isinstance(name, str) or not isinstance(args, dict):
        return None
    name = meant_name(name, tools)
    tool = tools.get(name)
    # Arguments that the tool does not know would be ignored in a call; here they say that it is none.
    if tool is None or args.keys() - tool.parameters.get("properties", args).keys():
        return None
    if not isinstance(prepare(tools, name, args), Ready):
        return None
    return RequestedCall(id="", name=name, args=compact_json(args))


def _object_in(text: str) -> dict[str, Any] | None:
    bare = text.strip()
    for _ in _WRAPPERS:  # a fence in a tag, or a tag in a fence
        for wrapper in _WRAPPERS:
            if match := wrapper.fullmatch(bare):
                bare = match["inner"].strip()
    try:
        value = strict_json(escape_raw(bare))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
