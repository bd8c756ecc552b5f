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

Reasoning = Literal["none", "low", "medium", "high"]
Verbosity = Literal["low", "medium", "high"]
Overridable = Literal["model", "reasoning", "max_tokens"]
Input = Literal["audio", "video", "document", "text"]
OVERRIDABLE: tuple[Overridable, ...] = get_args(Overridable)
"""Settings that a run may choose, where its agent allows it."""
Whole = Annotated[int, Strict(), Field(ge=1)]

NOT_EXTRA = frozenset({"model", "messages", "tools", "response_format", "stream", "stream_options"})
"""Fields of a request that come from the run itself."""


class ModelSettings(Value):
    """Settings of an agent's model requests. An unset field is not sent: the provider's default holds.

    `max_tokens`: of one reply, thoughts included. `tool_choice`: `auto`, `none`, `required` or a tool's
    name; after the first call of a run, whatever forces a call becomes `auto`. `timeout`: seconds of one
    attempt of one call. `cache="off"` sends no cache key. `extra`: further fields of the request, as the
    provider calls them; they win over the others. `inputs`: files that the model takes besides images, PDF
    files and short texts; of every other one it reads the name and the type.

    A field that the provider refuses by name is left out from then on, for that model.

    Raises DefinitionError."""

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
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _check(
        cls, value: Any, handler: ModelWrapValidatorHandler["ModelSettings"]
    ) -> "ModelSettings":
        try:
            return handler(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"][:1])) or "ModelSettings"
            raise DefinitionError(f"ModelSettings: {where}: {first['msg']}") from None

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
        """Return these settings, with the base's for those that are not set."""
        if base is None:
            return self
        own = {name: getattr(self, name) for name in self.model_fields_set}
        return base.model_copy(update=own)

    def for_sub_agent(self) -> "ModelSettings":
        """Return those that a sub-agent inherits: all but the tool to call, which it need not have."""
        return self.model_copy(update={"tool_choice": None})


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
        return settings.model_copy(update=options) if options else settings
