"""Thoughts that a model writes into its text, between `<think>` and `</think>`."""

from collections.abc import Callable

_BEGIN, _END = "<think>", "</think>"


class Thoughts:
    """Splits a reply's text, piece by piece, into thoughts and text. Only the beginning of a text can be a
    thought: later tags are the model's words."""

    def __init__(self) -> None:
        self._take = self._at_start
        self._buffer = ""

    def add(self, piece: str) -> tuple[str, str]:
        """Take a piece; return the thoughts and the text in it and in what was held back."""
        self._buffer += piece
        return self._take()

    def end(self) -> tuple[str, str]:
        """Return what was held back: no piece follows."""
        buffer, self._buffer = self._buffer, ""
        is_thought = self._take in (self._opening, self._thinking)
        self._take = self._text
        return (buffer, "") if is_thought else ("", buffer)

    def _at_start(self) -> tuple[str, str]:
        text = self._buffer.lstrip()
        if text.startswith(_BEGIN):
            self._buffer = text[len(_BEGIN) :]
            self._take = self._opening
        elif _BEGIN.startswith(text):
            return "", ""
        else:
            self._take = self._text
        return self._take()

    def _opening(self) -> tuple[str, str]:
        return self._skip_blanks(self._thinking)

    def _thinking(self) -> tuple[str, str]:
        thought, end, rest = self._buffer.partition(_END)
        if end:
            self._buffer, self._take = rest, self._between
            return thought, self._take()[1]
        keep = next(n for n in range(len(_END), -1, -1) if thought.endswith(_END[:n]))
        self._buffer = thought[len(thought) - keep :]
        return thought[: len(thought) - keep], ""

    def _between(self) -> tuple[str, str]:
        return self._skip_blanks(self._text)

    def _skip_blanks(self, then: Callable[[], tuple[str, str]]) -> tuple[str, str]:
        """Blank lines next to a tag belong to neither."""
        self._buffer = self._buffer.lstrip()
        if not self._buffer:
            return "", ""
        self._take = then
        return self._take()

    def _text(self) -> tuple[str, str]:
        text, self._buffer = self._buffer, ""
        return "", text
