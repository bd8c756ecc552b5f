"""Settings of model requests: an agent's own, and those that one run chooses."""

from collections.abc import Collection
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    Strict,
    ValidationError,
    field_validator,
    model_validator,
)

from layover.errors import DefinitionError
from layover.values.base import Value, all_finite
from layover.values.refusals import refusal

Reasoning = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
Verbosity = Literal["low", "medium", "high"]
Overridable = Literal["model", "reasoning", "max_tokens"]
Input = Literal["audio", "video", "document", "text"]
OVERRIDABLE: tuple[Overridable, ...] = get_args(Overridable)
"""Settings that a run may choose, where its agent allows it."""
Whole = Annotated[int, Strict(), Field(ge=1)]

NOT_EXTRA = frozenset({"model", "messages", "tools", "response_format", "stream", "stream_options"})
"""Fields of a request that come from the run itself."""


class ModelSettings(Value):
    '''Settings of an agent's model requests: `Agent(model_settings=ModelSettings(max_tokens=500))`.

    A field that is None is not sent: the provider's default holds. A field that the provider refuses by name
    is left out from then on, for that model.

    Attributes:
        max_tokens: Tokens of one reply, thoughts included, at least 1.
        temperature: How freely the model chooses its words, at least 0; providers differ in the maximum.
        top_p: The share of likely words that the model chooses from, above 0 and at most 1.
        reasoning: How long the model thinks: `none`, `minimal`, `low`, `medium`, `high` or `xhigh`. A model
            that refuses the level is asked without one.
        verbosity: How much the model says: `low`, `medium` or `high`.
        tool_choice: `auto`, `none`, `required` or a tool's name; after the first call of a run, whatever
            forces a call becomes `auto`.
        parallel_tool_calls: Whether one reply may call several tools; only sent if there are tools.
        seed: A whole number by which some providers repeat a reply.
        stop: A text, or several, at which the reply ends.
        timeout: Seconds of one attempt of one call, above 0; never sent. None: the time that
            docs/behaviour.md#provider-retries names.
        cache: `auto` (default): requests carry a cache key. `off`: they do not.
        inputs: Files that the model takes in addition to images, PDF files and short texts: `audio`,
            `video`, `document`, `text`; of every other file it reads the name and the type.
        context_window: Tokens of the model's context window, where the catalogue does not know it, or
            another number is to hold; never sent. It is the agent's own model's, so sub-agents and runs
            that choose another model do not inherit it.
        text_calls: Whether an answer that is nothing but the JSON of a call, bare, fenced or in a tag such as
            `<tool_call>`, is that call; for models whose server does not read them; never sent.
        extra: Further fields of the request, as the provider calls them; they win over the others.

    Raises:
        DefinitionError: If a field has a value that no request could have.

    Example:
        ```python
        import asyncio

        from layover import Agent, ModelSettings, tool
        from layover.testing import ScriptedModel, say


        @tool
        def weather(city: str) -> str:
            """The weather of a city."""
            return f"rain in {city}"


        terse = Agent("terse", model_settings=ModelSettings(max_tokens=500, reasoning="low"))


        async def main() -> None:
            with terse.override(model=ScriptedModel([say("Yes.")])) as model:
                await terse.generate("Is it raining?")
            assert model.turns[0].settings.max_tokens == 500
            assert model.turns[0].settings.temperature is None  # not sent
            # A small model writes its call as text, and it is made all the same.
            settings = ModelSettings(text_calls=True)
            small = Agent("small", tools=[weather], model_settings=settings)
            text = '{"name": "weather", "arguments": {"city": "Bonn"}}'
            with small.override(model=ScriptedModel([say(text), say("It rains.")])) as model:
                await small.generate("Is it raining in Bonn?")
            assert "rain in Bonn" in str(model.turns[1].messages)


        asyncio.run(main())
        ```
    '''

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: Whole | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    reasoning: Reasoning | None = None
    verbosity: Verbosity | None = None
    tool_choice: Annotated[str, Field(min_length=1)] | None = None
    parallel_tool_calls: bool | None = None
    seed: Annotated[int, Strict()] | None = None
    stop: str | tuple[str, ...] | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    cache: Literal["auto", "off"] = "auto"
    inputs: tuple[Input, ...] = ()
    context_window: Whole | None = None
    text_calls: bool = False
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _check(
        cls, value: Any, handler: ModelWrapValidatorHandler["ModelSettings"]
    ) -> "ModelSettings":
        try:
            return handler(value)
        except ValidationError as error:
            raise DefinitionError(_problem(error, cls.model_fields)) from None

    @field_validator("inputs")
    @classmethod
    def _inputs_have_an_order(cls, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
        # The definition's hash is the same in every process, even if an author gave a set.
        return tuple(sorted(set(inputs)))

    @field_validator("extra")
    @classmethod
    def _extra_is_sendable(cls, extra: dict[str, Any]) -> dict[str, Any]:
        if reserved := sorted(extra.keys() & NOT_EXTRA):
            raise ValueError(f"{', '.join(reserved)} cannot be set here")
        if not all_finite(extra):
            raise ValueError("it has a number that JSON does not have")
        return extra

    def over(self, base: "ModelSettings | None") -> "ModelSettings":
        """Return these settings, with the base's for those that are not set.

        Args:
            base: The settings below these; None: these as they are.
        """
        if base is None:
            return self
        own = {name: getattr(self, name) for name in self.model_fields_set}
        return base.model_copy(update=own)

    def for_sub_agent(self) -> "ModelSettings":
        """Return those that a sub-agent inherits: all but the tool to call, which it need not have, and the
        window of a model that need not be its own."""
        return self.model_copy(update={"tool_choice": None, "context_window": None})


def _problem(error: ValidationError, choices: Collection[str]) -> str:
    """Return what is wrong with an author's settings, in the words of the other declarations."""
    errors = error.errors(include_url=False)
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    return refusal(".".join(["ModelSettings", *map(str, first["loc"][:1])]), first, choices)


class RunChoice(Value):
    """One run's choice, before its agent's settings; None: the agent's."""

    model: str | None = None
    reasoning: Reasoning | None = None
    max_tokens: int | None = None

    @property
    def names(self) -> tuple[Overridable, ...]:
        """Return the names of the chosen settings."""
        return tuple(name for name in OVERRIDABLE if getattr(self, name) is not None)

    def within(self, overridable: Collection[Overridable]) -> "RunChoice":
        """Return the part that an agent leaves to its runs. A run is accepted with no other choice, but the
        agent that it is handed to, or a newer definition of it, may leave less to it."""
        return self.model_copy(update={n: None for n in self.names if n not in overridable})

    def below(self, model: str | None, settings: ModelSettings) -> "RunChoice":
        """Return the part that holds for a sub-agent: settings that it does not name itself."""
        own = {"model": model is not None, "reasoning": settings.reasoning is not None}
        own["max_tokens"] = settings.max_tokens is not None
        return self.model_copy(update={name: None for name, is_own in own.items() if is_own})

    def apply(self, settings: ModelSettings) -> ModelSettings:
        """Return the agent's settings with the run's choices."""
        options = self.model_dump(include={"reasoning", "max_tokens"}, exclude_none=True)
        if self.model is not None and settings.context_window is not None:
            options["context_window"] = None  # that of another model
        return settings.model_copy(update=options) if options else settings
