"""Models that replace one that stays down (docs/behaviour.md#fallback)."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from layover.errors import INVALID_RESPONSE, ContextLengthExceeded, ModelError
from layover.values.prompt import Prompt, Reply
from layover.values.runs.event import ModelFallback
from layover.values.runs.run import ErrorInfo, StepRecord

_STATUSES = frozenset({402, 404, 408, 429})
MAX_FALLBACKS_IN_A_ROW = 2
"""Steps that fell back in a row, after which the next one begins with the model that answered the last
one."""

Complete = Callable[[Prompt], Awaitable[Reply]]


class Fallback:
    """One step's models, in order. A fallback holds for the rest of the step."""

    def __init__(self, models: Sequence[str], steps: Sequence[StepRecord], index: int) -> None:
        self._models = models
        self._at = _first(models, steps)
        self._index = index
        self.events: list[ModelFallback] = []
        """Fallbacks that happened, to be journaled with the step."""

    @property
    def fell_back_to(self) -> str | None:
        """The model that is called, if it is not the first one."""
        return self._models[self._at] if self._at else None

    async def reply(self, prompt: Prompt, complete: Complete, now: Callable[[], datetime]) -> Reply:
        """Return the reply of the first model that gives one. Raises the last model's ModelError."""
        while True:
            name = self._models[self._at]
            try:
                return await complete(prompt.model_copy(update={"model": name}))
            except ModelError as error:
                if self._at + 1 == len(self._models) or not _is_left_to_others(error):
                    raise
                self._at += 1
                self.events.append(
                    ModelFallback(
                        at=now(),
                        step=self._index,
                        from_=name,
                        to=self._models[self._at],
                        error=ErrorInfo.of(error),
                    )
                )


def _first(models: Sequence[str], steps: Sequence[StepRecord]) -> int:
    last = [step.fell_back_to for step in steps[-MAX_FALLBACKS_IN_A_ROW:]]
    if len(last) < MAX_FALLBACKS_IN_A_ROW or None in last or last[-1] not in models:
        return 0
    return models.index(last[-1])


def _is_left_to_others(error: ModelError) -> bool:
    """Return whether another provider may succeed. It cannot if the request or the key is at fault."""
    if isinstance(error, ContextLengthExceeded) or error.type == "AuthenticationError":
        return False
    if error.type == INVALID_RESPONSE:
        return True
    return error.status is None or error.status in _STATUSES or error.status >= 500
