"""An answer that repeats itself: small models go on so until their limit, which may take half an hour."""

from layover.values.prompt import Delta

TIMES = 4
"""Times that the same piece has to stand at the end of an answer, one behind the other."""
LEAST = 240
"""Characters that they take up together at least: short answers may repeat a word."""
MOST = 8_000
"""Characters of the end that are compared, which holds pieces up to a quarter of it."""
_STEP = 80
"""Characters between two looks."""


class Repetition:
    """Listens to an answer as it comes, thoughts and text alike, as `OnDelta`."""

    def __init__(self) -> None:
        self._end = ""
        self._unread = 0
        self.is_stuck = False
        """True once the answer only repeats what it ended with."""

    def add(self, delta: Delta) -> None:
        """Take a piece of the answer."""
        if delta.kind == "restart":
            self._end, self._unread, self.is_stuck = "", 0, False
            return
        if delta.kind not in ("text", "reasoning"):
            return
        self._end = (self._end + delta.text)[-MOST:]
        self._unread += len(delta.text)
        if self._unread >= _STEP:
            self._unread = 0
            self.is_stuck = self.is_stuck or repeats(self._end)


def repeats(text: str) -> bool:
    """Return whether a text ends with the same piece `TIMES` times."""
    mark = text[-LEAST // TIMES :]
    earlier = text.rfind(mark, 0, -1)
    if earlier < 0:
        return False
    size = len(text) - len(mark) - earlier
    end = text[-max(LEAST, TIMES * size) :]
    return len(end) >= max(LEAST, TIMES * size) and end[size:] == end[:-size]
