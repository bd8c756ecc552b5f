"""A prompt as the body of a request of the Messages API.

The same prompt gives the same bytes every time: caches go by prefix."""

import re
from typing import Any

from layover.plugins.models import opaque, wire
from layover.plugins.models.anthropic.content import CACHE, CONTENT, THOUGHTS, caches, turns
from layover.plugins.models.anthropic.families import family_of, max_output
from layover.plugins.models.thinking import MIN_TOP_P, may_think, thinking_fields, thinks
from layover.plugins.models.turns import past_tools
from layover.values.deployment.providers import ANTHROPIC
from layover.values.message import ProviderState
from layover.values.prompt import Prompt, ProviderTool

Body = dict[str, Any]

BETA = "anthropic_beta"
"""The field of `ModelSettings(extra=...)` with the names of features in their trial: they are a header."""
OUTPUT_CONFIG = "output_config"
_REMOVABLE = frozenset(
    {"temperature", "top_p", "stop_sequences", "thinking", OUTPUT_CONFIG, "effort", "tool_choice"}
)
_KINDS = {
    "web_search": "web_search_20250305",
    "web_fetch": "web_fetch_20250910",
    "code_execution": "code_execution_20250825",
}
"""Types of Anthropic's own tools, by the names that they have elsewhere."""
_DATED = re.compile(r"_\d{8}$")


def name_of(prompt: Prompt) -> str:
    """Return the model, as Anthropic calls it."""
    return prompt.model.removeprefix(f"{ANTHROPIC}/").removeprefix("openai/")


def body(prompt: Prompt, left_out: frozenset[str], provider: str) -> Body:
    """Return the request, without the fields that this model has refused. `provider`: the host that is
    called, which gets its own blocks back."""
    model, settings = name_of(prompt), prompt.settings
    thinking = _thinking(prompt, provider, left_out)
    is_thinking = thinks(thinking)
    request: Body = {
        "model": model,
        "max_tokens": settings.max_tokens or max_output(model),
        "messages": turns(prompt, model, provider, left_out),
        **thinking,
    }
    if system := _system(prompt, left_out):
        request["system"] = system
    if tools := _tools(prompt, left_out):
        request["tools"] = tools
        if choice := _choice(prompt, is_thinking=is_thinking):
            request["tool_choice"] = choice
    if prompt.stream and wire.STREAM not in left_out:
        request[wire.STREAM] = True
    if has_format(prompt, left_out):
        assert prompt.output is not None
        form = {"type": "json_schema", "schema": prompt.output.json_schema}
        request[OUTPUT_CONFIG] = {**request.get(OUTPUT_CONFIG, {}), "format": form}
    request |= _words(prompt, is_thinking=is_thinking)
    request = {name: value for name, value in request.items() if name not in left_out}
    extra = {name: value for name, value in settings.extra.items() if name != BETA}
    return opaque.merge(request, extra) if extra else request


def removable(prompt: Prompt, request: Body) -> frozenset[str]:
    """Return the fields of this request that a run can do without if the model refuses them."""
    names = {name for name in request if name in _REMOVABLE}
    if "effort" in request.get(OUTPUT_CONFIG, {}):
        names.add("effort")
    return frozenset(names | (prompt.settings.extra.keys() - {BETA}))


def unsupported_settings(prompt: Prompt) -> frozenset[str]:
    """Return the settings for which the API has no field, for this model, or none while it thinks."""
    settings, family = prompt.settings, family_of(name_of(prompt))
    is_thinking = settings.reasoning not in (None, "none") and family.thinks is not None
    lost = {
        "reasoning": settings.reasoning not in (None, "none") and family.thinks is None,
        "temperature": is_thinking and settings.temperature not in (None, 1),
        "top_p": is_thinking and settings.top_p is not None and settings.top_p < MIN_TOP_P,
        "verbosity": settings.verbosity is not None,
        "seed": settings.seed is not None,
    }
    return frozenset(name for name, is_lost in lost.items() if is_lost)


def betas(prompt: Prompt) -> list[str]:
    """Return the features in their trial that the author wants."""
    value = prompt.settings.extra.get(BETA, ())
    return [value] if isinstance(value, str) else [str(each) for each in value]


def has_format(prompt: Prompt, left_out: frozenset[str]) -> bool:
    """Return whether the schema of the answer is sent as a format. The API takes schemas that forbid further
    properties, as strict ones do; any other is told in words."""
    return (
        prompt.output is not None
        and prompt.output.strict
        and left_out.isdisjoint((OUTPUT_CONFIG, wire.RESPONSE_FORMAT, wire.JSON_SCHEMA))
    )


def _system(prompt: Prompt, left_out: frozenset[str]) -> list[Body]:
    in_words = left_out if has_format(prompt, left_out) else left_out | {wire.JSON_SCHEMA}
    text = wire.system_text(prompt, in_words)
    if not text or not text.strip():
        return []
    return [{"type": "text", "text": text, **(CACHE if caches(prompt, left_out) else {})}]


def _words(prompt: Prompt, *, is_thinking: bool) -> Body:
    """Return the settings of how the model chooses its words: one that thinks takes a `temperature` of 1, and
    a `top_p` from 0.95 on."""
    settings = prompt.settings
    temperature, top_p = settings.temperature, settings.top_p
    if is_thinking:
        temperature = temperature if temperature == 1 else None
        top_p = top_p if top_p is not None and top_p >= MIN_TOP_P else None
    stop = [settings.stop] if isinstance(settings.stop, str) else settings.stop
    fields: Body = {
        "temperature": temperature,
        "top_p": top_p,
        "stop_sequences": list(stop) if stop else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _thinking(prompt: Prompt, provider: str, left_out: frozenset[str]) -> Body:
    """Return the fields that set how much the model thinks, as its family expects them."""
    settings, family = prompt.settings, family_of(name_of(prompt))
    level = settings.reasoning
    if level is None or family.thinks is None or "thinking" in left_out:
        return {}
    model = name_of(prompt)
    is_free = may_think(
        prompt.messages, lambda m: _has_thoughts(opaque.state_of(m, provider, model))
    )
    most = settings.max_tokens or max_output(model)
    fields = thinking_fields(level, family, may_think=is_free, most=most)
    if not left_out.isdisjoint((OUTPUT_CONFIG, "effort")):
        fields.pop(OUTPUT_CONFIG, None)
    return fields


def _has_thoughts(state: ProviderState | None) -> bool:
    layout = [] if state is None else state.fields.get(CONTENT, [])
    return any(entry["type"] in THOUGHTS for entry in layout)


def _tools(prompt: Prompt, left_out: frozenset[str]) -> list[Body]:
    """Return the tools, including those that only the history calls: the API refuses calls without any."""
    tools = [_tool(wire.safe_name(t.name), t.description, t.parameters) for t in prompt.tools]
    past = past_tools(prompt, [tool["name"] for tool in tools])
    tools += [_tool(t.name, t.description, t.parameters) for t in past]
    tools += [_provider_tool(tool) for tool in prompt.provider_tools]
    if tools and caches(prompt, left_out):
        tools[-1] = {**tools[-1], **CACHE}
    return tools


def _tool(name: str, description: str, schema: Body) -> Body:
    described = {"description": description} if description.strip() else {}
    return {"name": name, **described, "input_schema": schema}


def _provider_tool(tool: ProviderTool) -> Body:
    kind = _KINDS.get(tool.type, tool.type)
    return {"type": kind, "name": _DATED.sub("", kind), **tool.options}


def _choice(prompt: Prompt, *, is_thinking: bool) -> Body | None:
    """Return which calls the answer has to have. A model that thinks is not to be forced."""
    choice, one_by_one = (
        prompt.settings.tool_choice,
        prompt.settings.parallel_tool_calls is False and bool(prompt.tools),
    )
    if choice == "none" or not (prompt.tools or prompt.provider_tools):
        # Tools are there because the history calls them.
        return {"type": "none"}
    wish: Body = {"type": "auto"}
    if choice not in (None, "auto") and not is_thinking:
        forced: Body = {"type": "tool", "name": wire.safe_name(choice or "")}
        wish = {"type": "any"} if choice == "required" else forced
    if one_by_one:
        wish["disable_parallel_tool_use"] = True
    is_default = wish == {"type": "auto"} and choice != "auto"
    return None if is_default else wish
