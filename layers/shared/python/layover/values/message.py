"""Messages and their parts (docs/reference/http-api.md#objects)."""

from enum import StrEnum
from operator import not_
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import ConfigDict, Field

from layover.values.base import Described, Json, Time, Value, is_none
from layover.values.decision import DecisionNote


class Role(Described, StrEnum):
    '''The speaker of a message. `custom` messages are stored and shown, never sent to a model.

    Attributes:
        USER: `user`: the person, or the caller in their name.
        ASSISTANT: `assistant`: the model. Its tool calls are parts of its message.
        TOOL: `tool`: the result of one call.
        CUSTOM: `custom`: made by a tool (`to_message`) for the application, or the notice that a sub-agent in
            the background has ended.

    Example:
        ```python
        import asyncio

        from layover import Agent, Role, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return 42.0


        shop = Agent("shop", tools=[price])
        with shop.override(model=ScriptedModel([call("price", item="lamp"), say("42 euros.")])):
            result = asyncio.run(shop.generate("What is the lamp?"))
        assert [m.role for m in result.messages] == [Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
        assert Role.TOOL == "tool"
        ```
    '''

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    CUSTOM = "custom"


MAX_URL = 8192
"""Characters."""
_HTTPS = r"^https://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?#]\S*)?$"
_ONE_SOURCE: dict[str, Any] = {
    "oneOf": [
        {
            "properties": {"file_id": {"type": "string"}, "url": {"type": "null"}},
            "required": ["file_id"],
        },
        {
            "properties": {
                "file_id": {"type": "null"},
                "url": {"type": "string", "maxLength": MAX_URL, "pattern": _HTTPS},
            },
            "required": ["url"],
        },
    ]
}


class TextPart(Value):
    """Plain text, as a part of a message.

    Attributes:
        type: Always `text`.
        text: The text.

    Example:
        ```python
        import asyncio

        from layover import Agent, TextPart
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")
        with shop.override(model=ScriptedModel([say("Hello.")])):
            result = asyncio.run(shop.generate([TextPart(text="Hi")]))
        assert result.messages[0].content == (TextPart(text="Hello."),)
        ```
    """

    type: Literal["text"] = "text"
    text: str


class ReasoningPart(Value):
    """The model's thoughts, as far as it shows them. They come before the text of the same message.

    Attributes:
        type: Always `reasoning`.
        text: The thoughts.

    Example:
        ```python
        import asyncio

        from layover import Agent, ReasoningPart
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")
        script = [say("42 euros.", reasoning="A lamp costs 42 euros.")]
        with shop.override(model=ScriptedModel(script)):
            result = asyncio.run(shop.generate("What is the lamp?"))
        thoughts = [p.text for p in result.messages[0].content if isinstance(p, ReasoningPart)]
        assert thoughts == ["A lamp costs 42 euros."]
        assert result.text == "42 euros."
        ```
    """

    type: Literal["reasoning"] = "reasoning"
    text: str


class ToolCallPart(Value):
    '''A call that the model asked for, as a part of its message.

    Attributes:
        type: Always `tool_call`.
        tool_call_id: The call's id, unique in the run.
        tool_name: The tool's name.
        args: The decoded object, or the raw string if it is not JSON.

    Example:
        ```python
        import asyncio

        from layover import Agent, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            return 42.0


        shop = Agent("shop", tools=[price])
        with shop.override(model=ScriptedModel([call("price", item="lamp"), say("42 euros.")])):
            result = asyncio.run(shop.generate("What is the lamp?"))
        (part,) = result.messages[0].tool_calls
        assert (part.tool_call_id, part.tool_name) == ("call_1", "price")
        assert part.args == {"item": "lamp"}
        ```
    '''

    type: Literal["tool_call"] = "tool_call"
    tool_call_id: str
    tool_name: str
    args: Json


class ToolResultPart(Value):
    '''The raw result of a call. The model's view of it is the message's `model_output`.

    Attributes:
        type: Always `tool_result`.
        tool_call_id: The id of the call that it answers.
        tool_name: The tool's name.
        result: The result, as JSON; of a call that failed, the error's text.
        is_error: True if the call failed.
        decision: Of a call that waited: the decision, its author and the reason; None: it did not wait.

    Example:
        ```python
        import asyncio

        from layover import Agent, ToolResultPart, tool
        from layover.testing import ScriptedModel, call, say


        @tool
        def price(item: str) -> float:
            """The price of an item in euros."""
            raise LookupError(f"no {item}")


        shop = Agent("shop", tools=[price])
        with shop.override(model=ScriptedModel([call("price", item="sofa"), say("We have none.")])):
            result = asyncio.run(shop.generate("What is the sofa?"))
        (part,) = result.messages[1].content
        assert isinstance(part, ToolResultPart)
        assert part.is_error and part.result == "LookupError: no sofa"
        ```
    '''

    type: Literal["tool_result"] = "tool_result"
    tool_call_id: str
    tool_name: str
    result: Json
    is_error: bool = False
    decision: DecisionNote | None = Field(
        default=None,
        exclude_if=is_none,
        description="Of a call that waited: who decided, and why.",
    )


class FilePart(Value):
    """A file of the user's (`file_id`) or elsewhere (`url`, https, never fetched by Layover). It has one of
    the two.

    Attributes:
        type: Always `file`.
        file_id: The id of an uploaded file, or of one that a tool saved; None: the file is at `url`.
        url: An https address, which goes to the model's provider as it is; None: the file is `file_id`.
        name: The file's name; None: it has none.
        mime_type: The type of its content, `image/png`; None: unknown.

    Example:
        ```python
        import asyncio

        from layover import Agent, FilePart, TextPart
        from layover.testing import ScriptedModel, say

        photo = FilePart(url="https://example.com/lamp.png", name="lamp.png", mime_type="image/png")
        shop = Agent("shop")
        with shop.override(model=ScriptedModel([say("It is a desk lamp.")])) as model:
            asyncio.run(shop.generate([photo, TextPart(text="What is this?")]))
        assert photo in model.turns[0].messages[-1].content
        ```
    """

    model_config = ConfigDict(json_schema_extra=_ONE_SOURCE)

    type: Literal["file"] = "file"
    file_id: str | None = None
    url: str | None = None
    name: str | None = None
    mime_type: str | None = None


class DataPart(Value):
    """Named data for the application, never sent to a model.

    Attributes:
        type: Always `data`.
        name: A name by which the application knows the data.
        data: The data: any JSON value.

    Example:
        ```python
        import asyncio

        from layover import Agent, DataPart, TextPart
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")
        cart = DataPart(name="cart", data={"items": 3})
        with shop.override(model=ScriptedModel([say("Three things.")])) as model:
            asyncio.run(shop.generate([TextPart(text="What is in it?"), cart]))
        assert model.turns[0].messages[-1].text == "What is in it?"
        assert cart.model_dump() == {"type": "data", "name": "cart", "data": {"items": 3}}
        ```
    """

    type: Literal["data"] = "data"
    name: str
    data: Json


def name_file(part: FilePart, *more: str | None) -> str:
    """Return the text that names a file for a model. `more`: what else it says."""
    return f"[file: {', '.join(filter(None, (part.name or 'unnamed', *more)))}]"


def reference(part: FilePart) -> str:
    """Return the file's id, or its address."""
    return part.file_id or part.url or ""


Part = Annotated[
    TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | DataPart,
    Field(discriminator="type"),
]

InputPart = Annotated[TextPart | FilePart | DataPart, Field(discriminator="type")]
"""Parts that a caller may send."""


class ProviderState(Value):
    """Data that a provider wants back with one of its messages, unchanged. No other party reads it."""

    provider: str
    """The host that it came from."""
    model: str
    """The model, by the name that it was called under."""
    fields: dict[str, Any] = Field(default_factory=dict)
    """State of the message, by the wire's field names."""
    calls: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """State of its calls, by `tool_call_id`."""
    left_out: dict[str, tuple[str, ...]] = Field(default_factory=dict, exclude_if=not_)
    """By the names of the models that were asked for it: keys of what they could not read of the messages
    before it (`layover.context.left_out`). Unlike the rest, it goes to no provider."""


NOTICE = "background-result"
"""Name of a notice's data part: a sub-agent in the background has ended (docs/sub-agents.md#background)."""


CONTEXT = "layover-context"
"""Name of an input's data part with a client's context: the one kind of data that a model reads
(docs/behaviour.md#client-context)."""


def is_context(part: object) -> TypeGuard[DataPart]:
    """Return whether a part is a client's context."""
    return isinstance(part, DataPart) and part.name == CONTEXT


class Message(Value):
    """One message of a thread. Stored order is (created_at, id).

    Attributes:
        id: The message's id.
        thread_id: The thread that it belongs to.
        run_id: The run that it came with, as input or response; None: it belongs to no run.
        parent_id: The message before it on its branch; None: it is the first.
        role: The speaker.
        content: The parts, in order: text, reasoning, tool calls, a tool's result, files, data.
        created_at: UTC; strictly later than all earlier messages of the thread.
        refused: True if a hook refused it: no model is shown what it says (docs/hooks.md#refused).

    Example:
        ```python
        import asyncio

        from layover import Agent, Message
        from layover.testing import ScriptedModel, say

        shop = Agent("shop")
        with shop.override(model=ScriptedModel([say("Hello.")])):
            result = asyncio.run(shop.generate("Hi", thread_id="t1"))
        (message,) = result.messages
        assert (message.thread_id, message.role, message.text) == ("t1", "assistant", "Hello.")
        assert message.run_id == result.run_id
        assert Message.model_validate_json(message.model_dump_json()).content == message.content
        ```
    """

    id: str
    thread_id: str
    run_id: str | None = None
    parent_id: str | None = None
    role: Role
    content: tuple[Part, ...] = ()
    created_at: Time
    refused: bool = Field(
        default=False,
        exclude_if=not_,
        description="There, and true, only where a hook has refused it: no model is shown what it says.",
    )
    model_output: str | None = Field(default=None, exclude=True, repr=False)
    """The tool's result as the model sees it, computed once when the call was settled; None if it is not a
    tool's. JSON leaves it out (docs/behaviour.md#model-output)."""
    provider_state: ProviderState | None = Field(default=None, exclude=True, repr=False)
    """Data kept for the provider only. JSON leaves it out (docs/behaviour.md#provider-state)."""
    token_count: int | None = Field(default=None, exclude=True, repr=False)
    """Estimated tokens; None: not counted. JSON leaves it out."""

    def with_content(self, content: tuple[Part, ...], **more: Any) -> "Message":
        """Return a copy with this content, to be counted anew.

        Args:
            content: The parts of the copy.
            **more: Other fields that change, by name.
        """
        return self.model_copy(update={"content": content, "token_count": None, **more})

    @property
    def text(self) -> str:
        """All text parts, as a model reads them: a paragraph each."""
        return "\n\n".join([p.text for p in self.content if isinstance(p, TextPart) and p.text])

    @property
    def is_place(self) -> bool:
        """True if this only keeps the place of a result that is still to come. Nobody is shown it."""
        return self.role is Role.TOOL and not self.content

    @property
    def is_notice(self) -> bool:
        """True if it tells a model of the end of a sub-agent in the background: its text is sent, unlike any
        other custom message's."""
        if self.role is not Role.CUSTOM:
            return False
        is_notice = any(isinstance(p, DataPart) and p.name == NOTICE for p in self.content)
        return is_notice and bool(self.text)

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that this message asks for, in order."""
        return tuple([p for p in self.content if isinstance(p, ToolCallPart)])
