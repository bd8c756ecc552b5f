"""A prompt as the body of a Chat Completions request.

The same prompt gives the same bytes every time: providers cache by prefix."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from pydantic_core import PydanticSerializationError, to_json

from layover.context.results import result_text, shown_files
from layover.plugins.models import makers, opaque
from layover.plugins.models.call_ids import CallIds
from layover.values.base import Json
from layover.values.message import (
    FilePart,
    Message,
    Part,
    ProviderState,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    name_file,
)
from layover.values.prompt import OutputSpec, Prompt, ToolSpec

Body = dict[str, Any]


class CallResult(NamedTuple):
    """A tool's result, as the model sees it."""

    text: str
    is_error: bool
    parts: Sequence[TextPart | FilePart] = ()
    """The text in pieces, with its files between them; empty if it has none."""
    tool_name: str = ""

    @property
    def files_behind(self) -> list[Part]:
        """The files, with a text that says whose they are, for a place behind the results."""
        files = [part for part in self.parts if isinstance(part, FilePart)]
        if not files:
            return []
        from layover.context.result_files import BEHIND

        return [TextPart(text=BEHIND.format(tool=self.tool_name)), *files]


CallResults = Mapping[str, CallResult]
"""By the id of the call."""

_UNSAFE_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
MEDIA = re.compile(r"data:((?:audio|video)/[\w.+-]+)[^,]*;base64,", re.ASCII)
"""Data URLs of sound and films."""
_IMAGE_URL = re.compile(r"\.(png|jpe?g|gif|webp)([?#]|$)", re.I)

_NO_THOUGHTS = " "
"""DeepSeek takes an empty text as well; Kimi does not."""
NO_OUTPUT = "(no output)"
"""The result of a call that has no text: xAI refuses a message without any
(https://github.com/AstrBotDevs/AstrBot/issues/6447)."""
_NO_ANSWER = {"role": "assistant", "content": "(No answer.)"}
_NO_SIGNATURE = "skip_thought_signature_validator"
"""https://ai.google.dev/gemini-api/docs/thought-signatures, for calls of other models."""

CACHE = "cache_control"
"""The field of a part of a message up to which a cache keeps the request."""
MAX_DESCRIPTION = 1024
"""Characters that OpenAI takes as the description of a tool: longer ones fail each request with 400."""
_GOES_ON = " ..."

STREAM = "stream"
"""The field that asks for a stream. Left out: the model answers with a document only."""
OPTIONAL = frozenset({"prompt_cache_key", "stream_options"})
"""Fields that not every provider takes, and that a run can do without."""
MAX_TOKENS = ("max_completion_tokens", "max_tokens")
"""OpenAI's newer models refuse the old name, and refuse both at once. Many servers know no other name, and
ignore the newer one: without the older one there would be no limit."""
_OPENAIS = re.compile(r"(^|\.)(openai\.com|azure\.(com|us|cn))$", re.I)
"""Hosts of OpenAI and Azure."""


RESPONSE_FORMAT = "response_format"
JSON_SCHEMA = "json_schema"
"""Left out: the schema of a structured answer is not sent as a format. The answer is asked for as JSON."""
UNREAD_SCHEMA = "unread_schema"
"""Left out: nothing, but the model has not kept to the schema that was sent as a format."""
_SCHEMA_IN_WORDS = (
    "When you give your answer, write JSON that fits this JSON schema, and nothing else:\n{schema}"
)


def system_text(prompt: Prompt, left_out: frozenset[str]) -> str | None:
    """Return the system's text, with the schema of the answer in words for a model that does not read it
    elsewhere."""
    if prompt.output is None or left_out.isdisjoint((RESPONSE_FORMAT, JSON_SCHEMA, UNREAD_SCHEMA)):
        return prompt.system
    schema = json.dumps(prompt.output.json_schema, ensure_ascii=False)
    words = _SCHEMA_IN_WORDS.format(schema=schema)
    return f"{prompt.system}\n\n{words}" if prompt.system else words


def body(
    prompt: Prompt,
    left_out: frozenset[str] = frozenset(),
    provider: str = "",
    *,
    thoughts: bool = False,
) -> Body:
    """Return the request, without the `OPTIONAL` fields and the settings that the model refuses. `provider`:
    the host that is called, which gets its own state back; `thoughts`: see `messages`."""
    model_name = model(prompt)
    thread = messages(prompt.messages, (provider, model_name), left_out, thoughts=thoughts)
    request: Body = {
        "model": model_name,
        "messages": [*_system(system_text(prompt, left_out)), *thread],
    }
    if _caches_by_points(prompt, left_out):
        _add_cache_points(request["messages"], prompt)
    if prompt.tools:
        request["tools"] = [_tool(spec, provider) for spec in prompt.tools]
    if prompt.output is not None:
        request[RESPONSE_FORMAT] = _response_format(prompt.output, left_out, provider)
    if prompt.stream and STREAM not in left_out:
        request[STREAM] = True
        request["stream_options"] = {"include_usage": True}
    if _caches(prompt):
        request["prompt_cache_key"] = prompt.cache_key
    request |= _settings(prompt, left_out, provider)
    return {name: value for name, value in request.items() if name not in left_out}


def _caches(prompt: Prompt) -> bool:
    return prompt.cache_key is not None and prompt.settings.cache == "auto"


def _caches_by_points(prompt: Prompt, left_out: frozenset[str]) -> bool:
    return _caches(prompt) and CACHE not in left_out and makers.caches_by_points(model(prompt))


def _add_cache_points(sent: list[Body], prompt: Prompt) -> None:
    """Mark what the next request begins with as well: the system message (and with it the tools), the
    history, which the next run has, and the newest message, which the next step has."""
    system = len(_system(prompt.system))
    history = [*takewhile(lambda m: m.run_id != prompt.run_id, prompt.messages)]
    end_of_history = system + len(messages(history))
    for place in {system - 1, end_of_history - 1, len(sent) - 1}:
        if place >= 0:
            _add_cache_point(sent[place])


def _add_cache_point(message: Body) -> None:
    content = message["content"]
    if not content:
        return
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    message["content"] = [*parts[:-1], parts[-1] | {CACHE: {"type": "ephemeral"}}]


def removable(prompt: Prompt, request: Body) -> frozenset[str]:
    """Return the fields of this request that a run can do without if the model refuses them: settings, and
    provider state that goes back; by the wire's names."""
    settings = frozenset(_settings(prompt, frozenset(), "")) | frozenset(MAX_TOKENS)
    answers = [m for m in request["messages"] if m["role"] == "assistant"]
    holders = [holder for m in answers for holder in (m, *m.get("tool_calls", ()))]
    points = {CACHE} if _caches_by_points(prompt, frozenset()) else set()
    contents = [m["content"] for m in answers if isinstance(m["content"], list)]
    thoughts = {opaque.THINKING} & {part["type"] for parts in contents for part in parts}
    state = {n for n in opaque.FIELDS for h in holders if n in h} | thoughts
    return (settings & request.keys()) | state | points


def _settings(prompt: Prompt, left_out: frozenset[str], provider: str) -> Body:
    settings = prompt.settings
    limits = [name for name in MAX_TOKENS if name not in left_out]
    if _OPENAIS.search(provider):
        limits = limits[:1]
    fields: Body = {
        **dict.fromkeys(limits, settings.max_tokens),
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "reasoning_effort": settings.reasoning,
        "verbosity": settings.verbosity,
        "seed": settings.seed,
        "stop": list(settings.stop) if isinstance(settings.stop, tuple) else settings.stop,
    }
    if prompt.tools:
        fields["tool_choice"] = _tool_choice(settings.tool_choice)
        fields["parallel_tool_calls"] = settings.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None} | settings.extra


def _tool_choice(choice: str | None) -> str | Body | None:
    if choice is None or choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": safe_name(choice)}}


def model(prompt: Prompt) -> str:
    """The model's name on the wire: a leading `openai/` is cut, once
    (docs/behaviour.md#model-names)."""
    return prompt.model.removeprefix("openai/")


def encode(value: Json) -> bytes:
    """UTF-8 JSON. A lone surrogate, which UTF-8 has no bytes for, becomes a question mark."""
    try:
        # A step of a long run encodes all of it again: json takes ten times as long.
        return to_json(value)
    except PydanticSerializationError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", errors="replace")


def headers(prompt: Prompt) -> dict[str, str]:
    """Return the headers that tell a gateway what a request is for: the task, and the run if there is one."""
    run = {} if prompt.run_id is None else {"X-Layover-Run": prompt.run_id}
    return {"X-Layover-Task": prompt.task, **run}


def safe_name(name: str) -> str:
    """Return a function name that no provider refuses, even for one that a model has made up."""
    return _UNSAFE_IN_NAME.sub("_", name)[:64] or "unnamed"


def messages(
    thread: Sequence[Message],
    provider_model: tuple[str, str] = ("", ""),
    left_out: frozenset[str] = frozenset(),
    *,
    thoughts: bool = False,
) -> list[Body]:
    """Return messages in the provider's form: custom ones, empty ones, and calls without a result left out.
    `provider_model`: the provider and the model, which get their own state back, except `left_out`;
    `thoughts`: whether the provider wants thoughts with every answer, even of models that gave none."""
    sendable = [m for m in thread if m.role is not Role.CUSTOM]
    ids = CallIds(*provider_model)
    messages: list[Body] = []
    for at, m in enumerate(sendable):
        if m.role is Role.ASSISTANT:
            state = opaque.state_of(m, *provider_model) if m.provider_state else None
            messages += _assistant(m, answers(sendable, at), state, ids)
        elif m.role is Role.USER and (content := _user_content(m.content)):
            messages.append({"role": "user", "content": content})
    if makers.is_mistral(*provider_model):
        messages = [*_answered(messages)]
    if makers.wants_one_answer(provider_model[1]):
        messages = _joined(messages)
    _fill_all(messages, provider_model[1], thoughts=thoughts)
    for name in left_out & opaque.FIELDS:
        for message in messages:
            for holder in (message, *message.get("tool_calls", ())):
                holder.pop(name, None)
    if opaque.THINKING in left_out:
        for message in messages:
            if message["role"] == "assistant":
                message["content"] = _text_in(message["content"])
    return messages


def _text_in(content: str | list[Body] | None) -> str | None:
    """Return the text of an answer, without the thoughts before it."""
    if not isinstance(content, list):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text") or None


def _answered(messages: Sequence[Body]) -> Iterator[Body]:
    """Yield the messages, with one of the assistant's where a user speaks right after a result, as after a
    run that was cancelled. Mistral refuses that order (mistral-common's `validate_message_order`)."""
    before: Body = {}
    for message in messages:
        if message["role"] == "user" and before.get("role") == "tool":
            yield dict(_NO_ANSWER)
        yield message
        before = message


def _joined(messages: Sequence[Body]) -> list[Body]:
    """Return the messages, with texts of the assistant's in the answer that follows right behind, as after
    an answer that did not fit and was asked for again. Thoughts of the text are left out: signatures are for
    one answer, and those of calls are the ones that the maker wants back."""
    answers: list[Body] = []
    for message in messages:
        last = answers[-1] if answers else {}
        if last.get("role") == message["role"] == "assistant" and "tool_calls" not in last:
            texts = filter(None, (_text_in(m["content"]) for m in (last, message)))
            answers[-1] = {**message, "content": "\n\n".join(texts)}
        else:
            answers.append(message)
    return answers


def _fill_all(messages: Sequence[Body], model: str, *, thoughts: bool) -> None:
    if thoughts or makers.wants_thoughts(model) or makers.wants_signatures(model):
        for message in messages:
            if message["role"] == "assistant":
                _fill(message, model, thoughts=thoughts)


def _fill(message: Body, model: str, *, thoughts: bool) -> None:
    """Put what the model's maker documents, or takes, in the place of thoughts and signatures that another
    model has not given, or that went only to it."""
    has_thoughts = not message.keys().isdisjoint((opaque.TEXT, opaque.PLAIN, *opaque.OF_BLOCKS))
    if not has_thoughts and (thoughts or makers.wants_thoughts(model)):
        message[opaque.TEXT] = _NO_THOUGHTS
    if "tool_calls" in message and makers.wants_signatures(model):
        first = message["tool_calls"][0]
        first.setdefault(opaque.EXTRA, {"google": {"thought_signature": _NO_SIGNATURE}})


def _system(text: str | None) -> list[Body]:
    return [{"role": "system", "content": text}] if text else []


def _assistant(
    message: Message, answered: CallResults, state: ProviderState | None, ids: CallIds
) -> list[Body]:
    """Return an assistant message with the calls that were answered, and right after it their answers."""
    # Claude refuses a text of blanks, in every later request of the thread.
    text = message.text
    if not text.strip():
        text = ""
    answer: Body = {"role": "assistant", "content": text or None}
    fields: Body = {}
    if state is not None:
        answer["content"] = opaque.with_thoughts(text or None, state)
        fields = opaque.message_fields(state)
    calls = [c for c in message.tool_calls if c.tool_call_id in answered] if answered else []
    if not calls:
        return [answer | fields] if text else []
    ids_by_call = ids.of(calls, state)
    answer["tool_calls"] = [_call(c, ids_by_call[c.tool_call_id], state) for c in calls]
    sent = [answer | fields]
    for tool_call_id, call_id in ids_by_call.items():
        result = answered[tool_call_id].text
        seen_text = result if result.strip() else NO_OUTPUT
        sent.append({"role": "tool", "tool_call_id": call_id, "content": seen_text})
    # Results are texts on this wire.
    with_files = [answered[id] for id in ids_by_call if answered[id].parts]
    return [*sent, _behind(with_files)] if with_files else sent


def _behind(results: Sequence[CallResult]) -> Body:
    """Return the message with the files of these results, each of which has some."""
    files = [part for result in results for part in result.files_behind]
    return {"role": "user", "content": _user_content(files)}


def answers(messages: Sequence[Message], at: int) -> CallResults:
    """Return the answers in the tool messages right behind the message at this place, by call."""
    result: dict[str, CallResult] = {}
    for place in range(at + 1, len(messages)):
        message = messages[place]
        if message.role is not Role.TOOL:
            break
        for part in message.content:
            if isinstance(part, ToolResultPart):
                text = result_text(message, part)
                parts = _parts(message) if len(message.content) > 1 else ()
                result[part.tool_call_id] = CallResult(text, part.is_error, parts, part.tool_name)
    return result


def _parts(message: Message) -> Sequence[TextPart | FilePart]:
    """Return the parts of a result that has loaded files; none of any other."""
    if not any(file.url for file in shown_files(message)):
        return ()
    from layover.context.result_files import result_parts

    return result_parts(message)


def _call(call: ToolCallPart, call_id: str, state: ProviderState | None) -> Body:
    function = {"name": safe_name(call.tool_name), "arguments": arguments_text(call.args)}
    body: Body = {"id": call_id, "type": "function", "function": function}
    return body if state is None else body | opaque.call_fields(state, call.tool_call_id)


def arguments_text(args: Json) -> str:
    """Return the arguments as the JSON of an object."""
    return encode(arguments(args)).decode()


def arguments(args: Json) -> Body:
    """Return the arguments as a JSON object, as some providers insist; sorted, as a store may reorder the
    keys."""
    if args is None:
        return {}
    return _sorted(args) if isinstance(args, dict) else {"invalid_arguments": _sorted(args)}


def _sorted(value: Json) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def _user_content(content: Sequence[Part]) -> str | list[Body]:
    """Return one string if a message has only text: not every server takes a list."""
    parts = [p for p in map(_user_part, content) if p is not None]
    if [p for p in parts if p["type"] != "text"]:
        return parts
    return "\n\n".join([p["text"] for p in parts])


def _user_part(part: object) -> Body | None:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text} if part.text else None
    return _file(part) if isinstance(part, FilePart) else None


def _file(part: FilePart) -> Body:
    url, mime_type = part.url or "", part.mime_type or ""
    if is_image(url, mime_type):
        return {"type": "image_url", "image_url": {"url": url}}
    if data := MEDIA.match(url):
        return _media(data[1], url, url[data.end() :])
    if url.startswith("data:"):
        return {"type": "file", "file": {"filename": part.name or "file", "file_data": url}}
    # Chat Completions has no file part that names a URL (only Responses does).
    return {"type": "text", "text": named_only(part)}


def _media(kind: str, url: str, base64: str) -> Body:
    """Return the part for sound or film. Chat Completions has a part for sound. For a film it has none:
    servers of open models, and routers, take this one."""
    if kind.startswith("audio/"):
        return {
            "type": "input_audio",
            "input_audio": {"data": base64, "format": _audio_format(kind)},
        }
    return {"type": "video_url", "video_url": {"url": url}}


def _audio_format(kind: str) -> str:
    name = kind.partition("/")[2].removeprefix("x-")
    return {"mpeg": "mp3", "wave": "wav", "mp4": "m4a"}.get(name, name)


def named_only(part: FilePart) -> str:
    """Return the text in the place of a file for which the wire has no part."""
    url = "" if (part.url or "").startswith("data:") else part.url
    return name_file(part, part.mime_type, url)


def is_image(url: str, mime_type: str) -> bool:
    """Return whether a provider takes the file by this address as an image."""
    if url.startswith("data:"):
        return url.startswith("data:image/")
    if not url.startswith("https://"):
        return False
    return mime_type.startswith("image/") or (not mime_type and bool(_IMAGE_URL.search(url)))


def described(spec: ToolSpec) -> Body:
    """Return the description and the parameters of a tool. What is beyond the length that OpenAI takes goes
    on in the description of the parameters, which has no bound."""
    text, parameters = spec.description, spec.parameters
    if len(text) <= MAX_DESCRIPTION:
        return {"description": text, "parameters": parameters}
    most = MAX_DESCRIPTION - len(_GOES_ON)
    end = max(text.rfind(" ", 0, most + 1), text.rfind("\n", 0, most + 1))
    end = end if end > most // 2 else most
    rest = [_GOES_ON.strip() + text[end:], parameters.get("description", "")]
    longer = {**parameters, "description": "\n\n".join(filter(None, rest))}
    return {"description": text[:end] + _GOES_ON, "parameters": longer}


def _tool(spec: ToolSpec, provider: str) -> Body:
    function: Body = {"name": spec.name, **described(spec)}
    if makers.takes_few_keywords(provider):
        from layover.plugins.models.google_schema import google_parameters

        # Strictness is about the schema as it was.
        parameters = google_parameters(function.pop("parameters"))
        function |= {"parameters": parameters} if parameters else {}
    elif spec.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _response_format(output: OutputSpec, left_out: frozenset[str], provider: str) -> Body:
    if JSON_SCHEMA in left_out:
        return {"type": "json_object"}
    schema: Body = {"name": safe_name(output.name), "schema": output.json_schema}
    if makers.takes_few_keywords(provider):
        from layover.plugins.models.google_schema import google_schema

        schema["schema"] = google_schema(output.json_schema)
    else:
        schema["strict"] = output.strict
    return {"type": "json_schema", "json_schema": schema}
