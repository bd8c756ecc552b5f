"""A model that is asked for the evaluation: what it used, how long it took and how it failed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from time import monotonic
from typing import Any

from layover.errors import ContextLengthExceeded, LayoverError, ModelError
from layover.ports import ChatModel, OnDelta
from layover.runtime import Runtime
from layover.values.deployment.settings import Settings
from layover.values.prompt import Prompt, Reply
from layover.values.runs.usage import Usage

Price = Callable[[str, Usage], "Decimal | None"]
_OF_ONE_REQUEST = frozenset({400, 413, 422})
"""Statuses that refuse one request, and say nothing about the next."""


@dataclass(frozen=True)
class Provider:
    """What the environment names: models (by the settings' names), an embedder, prices."""

    model: ChatModel
    settings: Settings
    embedder: Any = None
    price: Price | None = None

    @classmethod
    def of(cls, runtime: Runtime) -> "Provider":
        """Return the provider that a runtime uses."""
        return cls(runtime.model, runtime.settings, runtime.embedder, runtime.price)

    def watched(self) -> "Watched":
        """Return its model, for one case."""
        return Watched(self.model, self.price)


@dataclass
class Watched(ChatModel):
    """A model, with what was asked of it."""

    model: ChatModel
    price: Price | None = None
    prompts: list[Prompt] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    seconds: float = 0.0
    _unanswered: list[tuple[Prompt, LayoverError]] = field(default_factory=list)

    async def complete(self, prompt: Prompt, on_delta: OnDelta | None = None) -> Reply:
        """Return the model's reply. Raises its errors."""
        self.prompts.append(prompt)
        start = monotonic()
        try:
            reply = await self.model.complete(prompt, on_delta)
        except LayoverError as error:
            self._unanswered.append((prompt, error))
            raise
        finally:
            self.seconds += monotonic() - start
        cost = self.price(reply.model, reply.usage) if self.price else None
        self.usage.append(reply.usage.model_copy(update={"cost_usd": cost}))
        # The same request with a smaller limit, or a shorter one: the product goes on, and so does this.
        self._unanswered = [
            (p, e)
            for p, e in self._unanswered
            if p.messages != prompt.messages and not isinstance(e, ContextLengthExceeded)
        ]
        return reply

    @property
    def errors(self) -> list[LayoverError]:
        """Errors that no later answer to the same messages made good. Whoever asked may have swallowed
        them."""
        return [error for _, error in self._unanswered]

    @property
    def failure(self) -> str:
        """The first error in words; "" if there was none."""
        return "; ".join(f"{type(e).__name__}: {e}" for e in self.errors[:1])

    @property
    def is_away(self) -> bool:
        """Whether an error says that no other request would be answered, either."""
        return any(not _is_of_one_request(e) for e in self.errors)


def _is_of_one_request(error: LayoverError) -> bool:
    return isinstance(error, ModelError) and error.status in _OF_ONE_REQUEST
