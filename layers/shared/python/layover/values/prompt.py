"""A model's request and its reply, independent of the provider."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import Field

from layover.values.base import Value
from layover.values.message import DataPart, Message
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.usage import Usage

Api = Literal["chat", "responses"]

PROVIDER_TOOL, CITATIONS = "provider-tool", "citations"
"""Names of data parts: a call of a tool that the provider ran itself, and the sources of a text."""


class ToolSpec(Value):
    """A tool as the model sees it. `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = False


class ProviderTool(Value):
    """A tool that the provider runs itself. `options`: further fields of it on the wire."""

    type: str
    options: dict[str, Any] = Field(default_factory=dict)


class OutputSpec(Value):
    """Structured output: a JSON schema with a name."""

    name: str
    json_schema: dict[str, Any]
    strict: bool = False


class Prompt(Value):
    """One request. `messages` are thread messages as the model is to see them: without orphans and custom
    ones; tool messages show `model_output`."""

    model: str
    system: str | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    stream: bool = False
    stops_repeating: bool = False
    """A streamed answer that goes on repeating itself is not read to its end."""
    task: str = "turn"
    """Sent as `X-Layover-Task`."""
    run_id: str | None = None
    settings: ModelSettings = ModelSettings()
    api: Api = "chat"
    """The API, for a provider that has both: Chat Completions, or the Responses API."""
    provider_tools: tuple[ProviderTool, ...] = ()
    """Tools of the provider, sent if the API has any."""
    cache_key: str | None = None
    """`prompt_cache_key`, if the provider knows it."""


class RequestedCall(Value):
    """A call as the provider named it. `args`: the raw JSON text."""

    id: str
    name: str
    args: str
    state: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Data that the provider wants back with this call, unchanged."""


class Reply(Value):
    """A model's reply."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[RequestedCall, ...] = ()
    finish_reason: Literal["stop", "length", "tool-calls", "content-filter"] = "stop"
    usage: Usage = Usage()
    model: str = ""
    provider: str = ""
    """The host that `state`, and that of the calls, may go back to."""
    asked_model: str = ""
    """The model that it may go back to."""
    state: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Data that the provider wants back with this message, unchanged."""
    data: tuple[DataPart, ...] = ()
    """Results of the provider's own work: calls of its tools, sources."""
    chooses_freely: bool = False
    """True if `tool_choice` was not sent, because the model does not take it."""

    @property
    def has_provider_work(self) -> bool:
        """True if the provider ran a tool of its own."""
        return any(part.name == PROVIDER_TOOL for part in self.data)


@dataclass(frozen=True)
class Embedded:
    '''An embedder's answer to a list of texts. An embedder has a `model` (its name) and a method
    `embed(texts)`: pass one to `EpisodicMemory(embedder=...)` or `Agent.override(embedder=...)`.

    Args:
        vectors: One vector for each text, in order, all of the same length.
        model: The name of the model that made them: only vectors of one model are compared.
        usage: The tokens and their cost; None: it costs nothing.

    Example:
        ```python
        import asyncio
        from collections.abc import Sequence

        from layover import Agent, Embedded, EpisodicMemory, Memory


        class Letters:
            """An embedder that counts letters."""

            model = "letters/26"

            async def embed(self, texts: Sequence[str]) -> Embedded:
                letters = "abcdefghijklmnopqrstuvwxyz"
                vectors = [[float(text.lower().count(each)) for each in letters] for text in texts]
                return Embedded(vectors, self.model)


        answer = asyncio.run(Letters().embed(["abba", "cab"]))
        assert [vector[:3] for vector in answer.vectors] == [[2, 2, 0], [1, 1, 1]]
        Agent("shop", memory=Memory(episodic=EpisodicMemory(embedder=Letters())))
        ```
    '''

    vectors: list[list[float]]
    model: str
    usage: Usage | None = None


class Delta(NamedTuple):
    """A piece of a streamed reply. `restart` says that the stream broke and begins again, `retry` that the
    model did not answer and is asked again after a pause; its text is the type of the error."""

    kind: Literal["text", "reasoning", "tool-call", "restart", "retry"]
    text: str = ""
    call: int = 0
    """Index of the call in the reply, from 0: ids may be missing, or the same twice."""
    tool_call_id: str = ""
    tool_name: str = ""
