"""A model's request and its reply, independent of the provider."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field

from layover.values.base import Value
from layover.values.json_answer import escape_raw
from layover.values.message import DataPart, Message
from layover.values.runs.model_settings import ModelSettings
from layover.values.runs.usage import Usage

Api = Literal["chat", "responses"]
StopReason = Literal["stop", "length", "tool-calls", "content-filter"]

PROVIDER_TOOL, CITATIONS = "provider-tool", "citations"
"""Names of data parts: a call of a tool that the provider ran itself, and the sources of a text."""


class ToolSpec(Value):
    """A tool as the model sees it.

    Attributes:
        name: The name by which the model calls it.
        description: Its purpose, in words.
        parameters: The JSON schema of its arguments, an object; `$ref`s lead to `#` or `#/$defs/NAME`.
        strict: Whether the provider is to hold the model to the schema.

    Example:
        ```python
        from layover.models import Prompt, ToolSpec, chat_request

        look = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
        request = chat_request(Prompt(model="acme/large", tools=(look,)))
        assert request["tools"][0]["function"]["name"] == "look"
        ```
    """

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = False


class ProviderTool(Value):
    """A tool that the provider runs itself. `options`: further fields of it on the wire."""

    type: str
    options: dict[str, Any] = Field(default_factory=dict)


class OutputSpec(Value):
    """A structured output that a model is to give.

    Attributes:
        name: The name of the type.
        json_schema: The JSON schema of the answer's text; `$ref`s as in a tool's parameters.
        strict: Whether the provider is to hold the model to the schema.

    Example:
        ```python
        from layover.models import OutputSpec, Prompt, chat_request

        answer = OutputSpec(name="Answer", json_schema={"type": "object"})
        request = chat_request(Prompt(model="acme/large", output=answer))
        assert request["response_format"]["json_schema"]["name"] == "Answer"
        ```
    """

    name: str
    json_schema: dict[str, Any]
    strict: bool = False


class Prompt(Value):
    """One request to a model.

    Attributes:
        model: The model's name; for a model of one's own, its `name`.
        system: The system message; None: none.
        messages: The thread as the model is to see it, oldest first: without calls that have no result. Of a
            tool's message, `model_output` wins over the result, and names the files that stand behind the
            result in the message's content.
        tools: Tools that the model may call.
        output: The structured output that the answer's text is to be; None: any text.
        stream: Whether somebody follows the answer.
        stops_repeating: Whether the rest of a streamed answer that repeats itself may be dropped.
        task: What it is for: `turn` for a run's step, else a task of memory, or `hook` or `judge`.
        run_id: The run that asks; None: no run does.
        settings: Settings of the request, `timeout` among them, which Layover keeps itself.
        api: OpenAI's API, for a provider that has both.
        provider_tools: Tools that the provider runs itself, if the API has any.
        cache_key: A text that requests of one thread share, for a provider's cache; None: there is none.
        max_requests: The requests that this one may become, repeats included; None: the port's own limit.
        asks_again: Whether a fault that may pass is repeated. Otherwise the run pauses, as it just did.

    Example:
        ```python
        from layover.models import Prompt

        prompt = Prompt(model="acme/large", system="Be brief.")
        assert (prompt.task, prompt.stream, prompt.messages) == ("turn", False, ())
        ```
    """

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
    max_requests: int | None = None
    """The rest of a step's requests (docs/behaviour.md#requests-of-a-step)."""
    asks_again: bool = True
    """False where the run comes from a pause: it pauses again (docs/outages.md#pause)."""


class RequestedCall(Value):
    """A call of a tool, as the model asks for it.

    Attributes:
        id: The provider's id; empty: Layover makes one.
        name: The tool's name.
        args: The arguments, as the text of a JSON object.
        state: JSON that the provider wants back with this call, unchanged: it is in the message's
            `provider_state.calls`, by the call's id.

    Example:
        ```python
        from layover.models import Reply, RequestedCall

        look = RequestedCall(id="", name="look", args='{"at": "orders"}')
        reply = Reply(calls=(look,), finish_reason="tool-calls")
        assert reply.calls[0].name == "look"
        ```
    """

    id: str
    name: str
    args: Annotated[str, AfterValidator(escape_raw)]
    state: dict[str, Any] = Field(default_factory=dict, repr=False)
    """Data that the provider wants back with this call, unchanged."""


class Reply(Value):
    """A model's reply.

    Attributes:
        text: The words of the answer; the JSON of a structured output.
        reasoning: The thoughts that it shows; empty: none.
        calls: Calls of tools, in order.
        finish_reason: `stop`, `length` (the limit cut it), `tool-calls` or `content-filter`.
        usage: The tokens, and the cost if the provider says it; without tokens, Layover estimates them.
        model: The name by which a price is looked up; empty: the one that was asked.
        provider: The host that `state` may go back to. Another model never gets it.
        asked_model: The model that `state` may go back to; empty: the one that was asked.
        state: JSON that the provider wants back with this message, unchanged: it is in the message's
            `provider_state.fields`.
        data: Results of the provider's own work: calls of its tools, sources.
        chooses_freely: Whether a `tool_choice` was not sent, because the model does not take it.
        requests: The requests that it took, repeats included.
        is_refusal: Whether the model itself declined, in words, and goes on with the thread. After any other
            `content-filter` the exchange is left out of later prompts.

    Example:
        ```python
        from layover import Usage
        from layover.models import Reply

        reply = Reply(text="42 euros.", usage=Usage(input_tokens=12, output_tokens=4))
        assert (reply.finish_reason, reply.usage.total_tokens) == ("stop", 16)
        ```
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[RequestedCall, ...] = ()
    finish_reason: StopReason = "stop"
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
    requests: int = 1
    """The requests that it took, repeats included."""
    is_refusal: bool = False
    """True if the model itself declined, in words: no filter ended its answer."""

    @property
    def has_provider_work(self) -> bool:
        """True if the provider ran its own tool."""
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
    """A piece of a streamed reply.

    Attributes:
        kind: `text`, `reasoning`, `tool-call`; `restart`: the answer begins again, all before is void;
            `retry`: the model did not answer, and is asked again after a pause.
        text: The piece; of a call, a piece of its arguments' JSON; of a `retry`, the type of the error.
        call: The number of the call in the reply, from 0.
        tool_call_id: The provider's id of the call; empty: it has none.
        tool_name: The name of the tool that is called.

    Example:
        ```python
        from layover.models import Delta

        first = Delta("tool-call", '{"at": ', call=0, tool_name="look")
        assert (first.kind, first.text) == ("tool-call", '{"at": ')
        ```
    """

    kind: Literal["text", "reasoning", "tool-call", "restart", "retry"]
    text: str = ""
    call: int = 0
    """Index of the call in the reply, from 0: ids may be missing, or the same twice."""
    tool_call_id: str = ""
    tool_name: str = ""


def deltas_of(reply: Reply) -> Iterator[Delta]:
    """Yield a reply as one delta of each kind, and of each call."""
    if reply.reasoning:
        yield Delta("reasoning", reply.reasoning)
    if reply.text:
        yield Delta("text", reply.text)
    for at, call in enumerate(reply.calls):
        yield Delta("tool-call", call.args, call=at, tool_call_id=call.id, tool_name=call.name)
