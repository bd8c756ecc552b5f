"""An answer that repeats itself, or has only blanks left: small models go on so until their limit, which may
take half an hour."""

from collections import Counter
from collections.abc import Awaitable

from layover.ports.platform import OnDelta
from layover.values.prompt import Delta

TIMES = 4
"""Times that the same piece has to stand at the end of an answer, one behind the other, or the same line
anywhere in it."""
LEAST = 240
"""Characters that they take up together at least: short answers may repeat a word."""
MOST = 8_000
"""Characters of the end that are compared, which holds pieces up to a quarter of it."""
MIN_LINE = 20
"""Characters of a line that counts as said again: shorter ones are headings and brackets."""
MAX_BLANKS = 2_000
"""Blanks one behind the other in an answer that is JSON: a grammar that lets blanks pass anywhere holds a
model that has lost its thread there for ever."""
_STEP = 80
"""Characters between two looks."""


class Repetition:
    """Listens to an answer as it comes, thoughts and text alike, as `OnDelta`. `in_lines`: each line of its
    text says something else, so the same one for the fourth time is a repetition wherever it stands."""

    def __init__(self, *, in_lines: bool = False) -> None:
        self._in_lines = in_lines
        self._begin()

    def _begin(self) -> None:
        self._end = self._line = ""
        self._unread = 0
        self._lines: Counter[str] = Counter()
        self.is_stuck = False
        """True once the answer only repeats what it said."""

    def add(self, delta: Delta) -> None:
        """Take a piece of the answer."""
        if delta.kind == "restart":
            self._begin()
            return
        if delta.kind not in ("text", "reasoning"):
            return
        self._end = (self._end + delta.text)[-MOST:]
        self._unread += len(delta.text)
        if self._unread >= _STEP:
            self._unread = 0
            self.is_stuck = self.is_stuck or repeats(self._end)
        if self._in_lines and delta.kind == "text":
            self._count(delta.text)

    def _count(self, text: str) -> None:
        *ended, self._line = (self._line + text).split("\n")
        for line in map(str.strip, ended):
            if len(line) >= MIN_LINE:
                self._lines[line] += 1
                self.is_stuck = self.is_stuck or self._lines[line] >= TIMES


class Blanks:
    """Listens to an answer that is JSON, and passes it on to the listener that it was made with."""

    def __init__(self, listener: OnDelta | None) -> None:
        self._listener = listener
        self._count = 0
        self.is_stuck = False
        """True once blanks are all that comes."""

    def add(self, delta: Delta) -> Awaitable[None] | None:
        """Take a piece of the answer."""
        if delta.kind == "text":
            bare = delta.text.rstrip()
            self._count = len(delta.text) - len(bare) + (0 if bare else self._count)
            self.is_stuck = self.is_stuck or self._count >= MAX_BLANKS
        return None if self._listener is None else self._listener(delta)


def repeats(text: str) -> bool:
    """Return whether a text ends with the same piece `TIMES` times."""
    mark = text[-LEAST // TIMES :]
    earlier = text.rfind(mark, 0, -1)
    if earlier < 0:
        return False
    size = len(text) - len(mark) - earlier
    length = max(LEAST, TIMES * size)
    end = text[-length:]
    return len(end) == length and end[size:] == end[:-size]
