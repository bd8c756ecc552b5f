"""The window of a model that nobody has set, as refusals teach it (docs/behaviour.md#learned-windows)."""

import logging
import re

from layover.context.fit import RESERVED
from layover.engine.prompter import MAX_CORRECTION
from layover.engine.work import RunWork
from layover.errors import ContextLengthExceeded, ModelError
from layover.values.runs.model_settings import ModelSettings

logger = logging.getLogger("layover")

_WINDOWS = (
    r"> ?(\d+)",
    r"(\d+) (?:tokens? )?(?:max\b|maximum\b|context\b)",
    r"\[\d+, ?(\d+)\]",
    r"(?:\bmax(?:imum)?\b|\blimit\b|\bcontext\b|\bwindow\b|cannot exceed|<=|less than)\D{0,40}?(\d+)",
)
"""Places where refusals name the window: behind what it is compared with, before or behind its name. The
first that is found counts."""
_THOUSANDS = re.compile(r"(?<=\d)[,_](?=\d{3}\b)")
MAX_TIMES = 16
"""A number of which the refused prompt has more than so many times, by our estimate, is not the window."""


def named_window(message: str, size: int) -> int | None:
    """Return the tokens of the window that a refusal of a prompt names, by our estimate (`size`: that of the
    prompt); None if it names none. If it also says how many tokens the prompt has, and these are more than we
    counted, the window is as much smaller."""
    text = _THOUSANDS.sub("", message)
    matches = (re.search(words, text, re.IGNORECASE) for words in _WINDOWS)
    window = next((int(match[1]) for match in matches if match), 0)
    if not size / MAX_TIMES <= window <= size * MAX_CORRECTION:
        return None
    others = (int(number) for number in re.findall(r"\d+", text))
    counted = max((number for number in others if number != window), default=0)
    is_larger = size < counted <= size * MAX_CORRECTION
    return int(window * size / counted) if is_larger else window


def window_for(tokens: int) -> int:
    """Return the smallest context window with this room for a prompt."""
    return max(-(-tokens * 4 // 3), 1) if tokens < 3 * RESERVED else tokens + RESERVED


class Lesson:
    """A model found a prompt too long. If nobody has set its window, the run notes in `windows` what it
    learns."""

    def __init__(
        self, work: RunWork, windows: dict[str, int], model: str, settings: ModelSettings
    ) -> None:
        self._work = work
        self._windows = windows
        self._model = model
        self._is_set = work.runtime.window_of(model, settings) is not None

    def begin(self, refusal: ModelError, size: int) -> int | None:
        """Note the window that the refusal of a prompt of this size names, and return it. A number in words
        that are only taken for such a refusal may be of anything."""
        is_of_length = isinstance(refusal, ContextLengthExceeded)
        window = named_window(refusal.message, size) if is_of_length else None
        if window is not None:
            self._note(window)
        return window

    def end(self, model: str, budget: int) -> None:
        """Note the window that has room for the shortened prompt, if the same model took it."""
        if model == self._model:
            self._note(window_for(budget))

    def _note(self, window: int) -> None:
        if self._is_set:
            return
        if self._model not in self._windows:
            logger.warning(
                'a request was too long for %s, whose window nobody has set: LAYOVER_CONTEXT_WINDOWS={"%s": '
                "TOKENS} sets it; until then %d tokens are assumed in this thread",
                self._model,
                self._model,
                window,
                extra={"run_id": self._work.state.meta.id},
            )
        self._windows[self._model] = self._work.state.windows[self._model] = window
