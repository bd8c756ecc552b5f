"""A prompt as the body of a request of the Responses API.

The same prompt gives the same bytes every time: providers cache by prefix."""

from collections.abc import Iterator, Sequence

from layover.errors import ModelError
from layover.plugins.models import opaque, wire
from layover.plugins.models.call_ids import CallIds
from layover.values.message import (
    FilePart,
    Message,
    Part,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
)
from layover.values.prompt import OutputSpec, Prompt, ToolSpec

Body = wire.Body

OUTPUT = "output"
"""The field of a message's state that holds the items of an answer, in their order. What is stored under
`items` is older and lacks the ids of messages and calls: OpenAI refuses a thought under its id before an
item without one, so it does not go back."""
LENGTH = "length"
"""Of a message among them: the characters of its text."""
CALL, SAID, THOUGHT = "function_call", "message", "reasoning"
ENCRYPTED = "reasoning.encrypted_content"

_NO_MEDIA = (
    "the Responses API has no input for sound and films: leave audio and video out of "
    'ModelSettings(inputs=...), or ask this model by Chat Completions (api="chat")'
)

_REMOVABLE = frozenset(
    {
        "max_output_tokens",
        "temperature",
        "top_p",
        "reasoning",
        "verbosity",
        "tool_choice",
        "parallel_tool_calls",
        "include",
        "prompt_cache_key",
    }
)


def body(prompt: Prompt, left_out: frozenset[str], provider: str) -> Body:
    """Return the request, without the fields that this model has refused. `provider`: the host that is
    called, which gets its own items back. Raises ModelError for sound and films."""
    model_name = wire.model(prompt)
    request: Body = {
        "model": model_name,
        "input": list(_items(prompt.messages, provider, model_name)),
        "store": False,
        # Thoughts come encrypted, since the provider stores none.
        "include": [ENCRYPTED],
    }
    if system := wire.system_text(prompt, left_out):
        request["instructions"] = system
    if tools := [
        *map(_tool, prompt.tools),
        *({"type": t.type} | t.options for t in prompt.provider_tools),
    ]:
        request["tools"] = tools
    if prompt.stream:
        request[wire.STREAM] = True
    if prompt.cache_key is not None and prompt.settings.cache == "auto":
        request["prompt_cache_key"] = prompt.cache_key
    request = opaque.merge(request | _settings(prompt, left_out), prompt.settings.extra)
    return {name: value for name, value in request.items() if name not in left_out}


def removable(prompt: Prompt) -> frozenset[str]:
    """Return the fields of a request that a run can do without if the model refuses them."""
    return _REMOVABLE | prompt.settings.extra.keys()


def without_items(prompt: Prompt) -> Prompt:
    """Return the prompt with messages that have only their texts and calls."""
    messages = tuple(m.model_copy(update={"provider_state": None}) for m in prompt.messages)
    return prompt.model_copy(update={"messages": messages})


def unsupported_settings(prompt: Prompt) -> frozenset[str]:
    """Return the settings for which the API has no field."""
    return frozenset(n for n in ("seed", "stop") if getattr(prompt.settings, n) is not None)


def _settings(prompt: Prompt, left_out: frozenset[str]) -> Body:
    settings = prompt.settings
    text: Body = {}
    if prompt.output is not None and wire.RESPONSE_FORMAT not in left_out:
        text["format"] = _format(prompt.output, left_out)
    if settings.verbosity is not None and "verbosity" not in left_out:
        text["verbosity"] = settings.verbosity
    fields: Body = {
        "max_output_tokens": settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "reasoning": None if settings.reasoning is None else {"effort": settings.reasoning},
        "text": text or None,
    }
    if prompt.tools or prompt.provider_tools:
        fields["tool_choice"] = _tool_choice(settings.tool_choice)
    if prompt.tools:
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _tool_choice(choice: str | None) -> str | Body | None:
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "name": wire.safe_name(choice)}


def _items(messages: Sequence[Message], provider: str, provider_model: str) -> Iterator[Body]:
    sendable = [m for m in messages if m.role is not Role.CUSTOM]
    ids = CallIds(provider, provider_model)
    for at, message in enumerate(sendable):
        if message.role is Role.USER:
            if content := _content(message.content):
                yield {"role": "user", "content": content}
        elif message.role is Role.ASSISTANT:
            state = opaque.state_of(message, provider, provider_model)
            yield from _assistant(message, wire.answers(sendable, at), state, ids)


def _assistant(
    message: Message, answered: wire.CallResults, state: ProviderState | None, ids: CallIds
) -> Iterator[Body]:
    """The items of an assistant message with the calls that were answered, and after them their answers."""
    parts = [c for c in message.tool_calls if c.tool_call_id in answered]
    ids_by_call = ids.of(parts, state)
    calls = [_call(part, ids_by_call[part.tool_call_id]) for part in parts]
    items = None
    if state is not None and len(calls) == len(message.tool_calls):
        items = _as_it_came(message.text, calls, state.fields.get(OUTPUT) or ())
    yield from _anew(message.text, calls) if items is None else items
    for tool_call_id, call_id in ids_by_call.items():
        answer = answered[tool_call_id]
        output = _content(answer.parts) if answer.parts else answer.text
        yield {"type": "function_call_output", "call_id": call_id, "output": output}


def _anew(text: str, calls: Sequence[Body]) -> Iterator[Body]:
    """Yield the items of an answer that another model gave, or of which a part is lost."""
    if text.strip():
        yield {"role": "assistant", "content": text}
    yield from calls


def _as_it_came(text: str, calls: Sequence[Body], entries: Sequence[Body]) -> list[Body] | None:
    """Return the items of an answer under their ids; None if these are not the answer's text and calls any
    more. The API checks by their ids that a thought comes with the item that it led to."""
    lengths = [e[LENGTH] for e in entries if e["type"] == SAID]
    # One text is known, whatever a hook has made of it.
    texts = [text] if len(lengths) == 1 and text else opaque.split_text(text, lengths)
    if texts is None or sum(e["type"] == CALL for e in entries) != len(calls):
        return None
    rest_of_texts, rest_of_calls = iter(texts), iter(calls)
    items: list[Body] = []
    for entry in entries if text or calls else ():
        if entry["type"] == SAID:
            items.append(_message(next(rest_of_texts), entry))
        elif entry["type"] == CALL:
            items.append(next(rest_of_calls) | ({"id": entry["id"]} if "id" in entry else {}))
        else:
            items.append(entry)
    # A thought that the answer's end cut off led to nothing.
    while items and items[-1]["type"] == THOUGHT:
        items.pop()
    return items


def _message(text: str, entry: Body) -> Body:
    if "id" not in entry:
        phase = {"phase": entry["phase"]} if "phase" in entry else {}
        return {"type": SAID, "role": "assistant", "content": text, **phase}
    labels: Body = {name: entry[name] for name in ("id", "phase") if name in entry}
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": SAID, **labels, "role": "assistant", "status": "completed", "content": [part]}


def _call(call: ToolCallPart, call_id: str) -> Body:
    return {
        "type": CALL,
        "call_id": call_id,
        "name": wire.safe_name(call.tool_name),
        "arguments": wire.arguments_text(call.args),
    }


def _content(content: Sequence[Part]) -> str | list[Body]:
    parts = [p for p in map(_input_part, content) if p is not None]
    if all(p["type"] == "input_text" for p in parts):
        return "\n\n".join(p["text"] for p in parts)
    return parts


def _input_part(part: object) -> Body | None:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text} if part.text else None
    return _file(part) if isinstance(part, FilePart) else None


def _file(part: FilePart) -> Body:
    url, kind = part.url or "", part.mime_type or ""
    if wire.is_image(url, kind):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    if wire.MEDIA.match(url):
        raise ModelError(_NO_MEDIA, type="UnsupportedInput")
    if url.startswith("data:"):
        return {"type": "input_file", "filename": part.name or "file", "file_data": url}
    if url.startswith("https://") and kind == "application/pdf":
        return {"type": "input_file", "file_url": url}
    return {"type": "input_text", "text": wire.named_only(part)}


def _tool(spec: ToolSpec) -> Body:
    return {
        "type": "function",
        "name": spec.name,
        **wire.described(spec),
        "strict": spec.strict,  # said, as the API's default is another one
    }


def _format(output: OutputSpec, left_out: frozenset[str]) -> Body:
    if wire.JSON_SCHEMA in left_out:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "name": wire.safe_name(output.name),
        "schema": output.json_schema,
        "strict": output.strict,
    }
