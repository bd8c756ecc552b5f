"""A prompt as the body of Converse and ConverseStream.

The same prompt gives the same bytes every time: caches go by prefix."""

from collections.abc import Iterator
from typing import Any

from layover.plugins.models import opaque, wire
from layover.plugins.models.bedrock.content import CACHE_POINT, REASONING, turns
from layover.plugins.models.bedrock.families import family_of
from layover.plugins.models.family import Family
from layover.plugins.models.thinking import MIN_TOP_P, may_think, thinking_fields, thinks
from layover.plugins.models.turns import past_tools
from layover.values.message import ProviderState
from layover.values.prompt import OutputSpec, Prompt
from layover.values.runs.model_settings import ModelSettings

Body = dict[str, Any]

_ALIASES = {
    "maxTokens": ("maxTokens", "max_tokens"),
    "temperature": ("temperature",),
    "topP": ("topP", "top_p"),
    "stopSequences": ("stopSequences", "stop_sequences"),
    "toolChoice": ("toolChoice", "tool_choice"),
    "thinking": ("thinking",),
    "output_config": ("output_config", "effort"),
    "reasoningConfig": ("reasoningConfig",),
    "cachePoint": ("cachePoint", "caching"),
    REASONING: (REASONING,),
    "status": ("status",),
    "stream": ("streaming",),
}
"""Fields that a run can do without if the model refuses them, with the names that refusals use for them."""

_ADDITIONAL = "additionalModelRequestFields"
_ANSWER = "Give your answer, once you have it, as a call of this tool."
_TO_ANSWER = "When you have your answer, call the tool {name} with it instead of writing it."


def body(prompt: Prompt, left_out: frozenset[str], provider: str) -> Body:
    """Return the request, without the fields that this model has refused."""
    supported = _without(left_out)
    family = family_of(prompt.model)
    wants_cache = prompt.cache_key is not None and prompt.settings.cache == "auto"
    caches = wants_cache and "cachePoint" in supported
    settings = prompt.settings
    config: Body = {
        "maxTokens": settings.max_tokens,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "stopSequences": [settings.stop] if isinstance(settings.stop, str) else settings.stop,
    }
    thinking = _thinking(prompt, family, provider, supported)
    ignored = _beside(thinking, settings)
    config = {
        name: value
        for name, value in config.items()
        if value is not None and name in supported and name not in ignored
    }
    # Claude that thinks is not to be forced.
    is_thinking = thinks(thinking)
    forces = "toolChoice" in supported and not is_thinking
    request: Body = {
        "messages": turns(prompt, provider, family, left_out, caches=caches),
        "system": list(_system(prompt, family, caches, forces=forces)),
        "inferenceConfig": config,
        "toolConfig": _tool_config(prompt, family, caches, supported, forces=forces),
        _ADDITIONAL: thinking,
    }
    request = {name: value for name, value in request.items() if value}
    return opaque.merge(request, settings.extra) if settings.extra else request


def _beside(thinking: Body, settings: ModelSettings) -> frozenset[str]:
    """Return the settings that a model refuses while it thinks so: Claude takes a `temperature` of 1 and a
    `topP` from 0.95 on, Nova neither at its highest level."""
    is_highest = thinking.get("reasoningConfig", {}).get("maxReasoningEffort") == "high"
    is_thinking = thinks(thinking)
    if not is_thinking and not is_highest:
        return frozenset()
    refused = set()
    if settings.temperature is not None and (is_highest or settings.temperature != 1):
        refused.add("temperature")
    if settings.top_p is not None and (is_highest or settings.top_p < MIN_TOP_P):
        refused.add("topP")
    return frozenset(refused)


def removable(prompt: Prompt, request: Body) -> frozenset[str]:
    """Return the fields of this request that a run can do without if the model refuses them."""
    field_names = request.get("inferenceConfig", {}).keys() | request.get(_ADDITIONAL, {}).keys()
    field_names |= request.get("toolConfig", {}).keys()
    text = str(request)
    field_names |= {name for name in ("cachePoint", REASONING, "'status'") if name in text}
    field_names |= {"stream"} if prompt.stream else set()
    removable = {name.strip("'") for name in field_names} & _ALIASES.keys()
    return frozenset(alias for name in removable for alias in _ALIASES[name])


def streams(prompt: Prompt, left_out: frozenset[str]) -> bool:
    """Return whether to stream: not if the model has refused to stream with tools."""
    return prompt.stream and not ("streaming" in left_out and bool(prompt.tools or prompt.output))


def unsupported_settings(prompt: Prompt) -> frozenset[str]:
    """Return the settings for which Converse has no field, for this model, or none while it thinks."""
    model_settings, family = prompt.settings, family_of(prompt.model)
    has_reasoning = model_settings.reasoning in (None, "none") or family.thinks
    ignored = _beside(_thinking(prompt, family, "", _without(frozenset())), model_settings)
    settings = {
        "reasoning": not has_reasoning,
        "temperature": "temperature" in ignored,
        "top_p": "topP" in ignored,
        "verbosity": model_settings.verbosity is not None,
        "seed": model_settings.seed is not None,
        "parallel_tool_calls": model_settings.parallel_tool_calls is False,
    }
    return frozenset(name for name, is_lost in settings.items() if is_lost)


def output_tool(prompt: Prompt) -> str | None:
    """Return the name of the tool that a structured answer comes as."""
    return None if prompt.output is None else _output_name(prompt.output, prompt)


def _without(left_out: frozenset[str]) -> frozenset[str]:
    return frozenset(n for n, aliases in _ALIASES.items() if left_out.isdisjoint(aliases))


def _thinking(prompt: Prompt, family: Family, provider: str, supported: frozenset[str]) -> Body:
    """Return the fields that set how much the model thinks, as its family expects them."""
    level, most = prompt.settings.reasoning, prompt.settings.max_tokens
    if level is None or family.thinks is None:
        return {}
    if family.thinks == "effort":
        effort = {"type": "enabled", "maxReasoningEffort": family.effort(level)}
        fields: Body = {"reasoningConfig": {"type": "disabled"} if level == "none" else effort}
    else:
        is_free = may_think(
            prompt.messages, lambda m: _has_thoughts(opaque.state_of(m, provider, prompt.model))
        )
        fields = thinking_fields(level, family, may_think=is_free, most=most)
    return {name: value for name, value in fields.items() if name in supported}


def _has_thoughts(state: ProviderState | None) -> bool:
    return state is not None and REASONING in state.fields


def _system(prompt: Prompt, family: Family, caches: bool, *, forces: bool) -> Iterator[Body]:
    texts = [prompt.system] if prompt.system and prompt.system.strip() else []
    if prompt.output is not None and not forces:
        texts.append(_TO_ANSWER.format(name=_output_name(prompt.output, prompt)))
    for text in texts:
        yield {"text": text}
    if texts and caches and "system" in family.caches:
        yield CACHE_POINT


def _tool_config(
    prompt: Prompt, family: Family, caches: bool, supported: frozenset[str], *, forces: bool
) -> Body:
    """Return the tools, including those that only the history calls: the API refuses calls of others."""
    choice = prompt.settings.tool_choice
    offered = [] if choice == "none" else list(prompt.tools)
    tools = [_tool(wire.safe_name(t.name), t.description, t.parameters) for t in offered]
    if prompt.output is not None:
        name = _output_name(prompt.output, prompt)
        tools.append(_tool(name, _ANSWER, prompt.output.json_schema))
    past = past_tools(prompt, [tool["toolSpec"]["name"] for tool in tools])
    tools += [_tool(t.name, t.description, t.parameters) for t in past]
    if not tools:
        return {}
    config: Body = {"tools": tools}
    if caches and "tools" in family.caches:
        tools.append(CACHE_POINT)
    if (wish := _choice(prompt, forces=forces)) and "toolChoice" in supported:
        config["toolChoice"] = wish
    return config


def _choice(prompt: Prompt, *, forces: bool) -> Body | None:
    choice = prompt.settings.tool_choice
    if prompt.output is not None and choice in (None, "none", "auto"):
        if not forces:
            return None
        only_output = not prompt.tools or choice == "none"
        return (
            {"tool": {"name": _output_name(prompt.output, prompt)}} if only_output else {"any": {}}
        )
    if choice is None or choice == "none" or not prompt.tools:
        return None
    if choice in ("auto", "required"):
        return {"auto" if choice == "auto" else "any": {}}
    return {"tool": {"name": wire.safe_name(choice)}}


def _output_name(output: OutputSpec, prompt: Prompt) -> str:
    """Return a name that no tool of the agent's has."""
    name, names = wire.safe_name(output.name), {wire.safe_name(tool.name) for tool in prompt.tools}
    while name in names:
        name = f"{name[:56]}_answer"
    return name


def _tool(name: str, description: str, schema: Body) -> Body:
    fields = {"description": description} if description.strip() else {}
    return {"toolSpec": {"name": name, **fields, "inputSchema": {"json": schema}}}
