"""Thoughts that a model writes into its text, between `<think>` and `</think>`."""

from collections.abc import Callable

_BEGIN, _END = "<think>", "</think>"


class Thoughts:
    """Splits a reply's text, piece by piece, into thoughts and text. Only the beginning of a text can be a
    thought: later tags are the model's words. The opening tag of some models stands in their prompt, so their
    text begins with the thought, and only its closing tag tells."""

    def __init__(self) -> None:
        self._take = self._at_start
        self._buffer = ""
        self._visible: list[str] = []
        """Text that was returned as such, and may turn out to be a thought."""
        self.takes_back = False
        """True if text that was returned has turned out to be a thought: it is in the thoughts that were
        returned last."""

    def add(self, piece: str) -> tuple[str, str]:
        """Take a piece; return the thoughts and the text in it and in what was held back."""
        self.takes_back = False
        if not self._buffer and self._take == self._unopened and "<" not in piece:
            # Most pieces: there is no tag in them, nor the beginning of one.
            self._visible.append(piece)
            return "", piece
        self._buffer += piece
        return self._take()

    def end(self) -> tuple[str, str]:
        """Return what was held back: no piece follows."""
        self.takes_back = False
        if self._take == self._unopened and _END in self._buffer:
            text, _, rest = self._buffer.partition(_END)
            before = "".join(self._visible) + text
            if not rest.strip() and _is_alone(before) and _may_close(before):
                return self._close(before, "")
        buffer, self._buffer = self._buffer, ""
        is_thought = self._take in (self._opening, self._thinking)
        self._take = self._text
        return (buffer, "") if is_thought else ("", buffer)

    def expect_no_more(self) -> None:
        """Take all that follows as text: the model has gone on to its calls."""
        if self._take == self._unopened:
            self._take = self._text

    def _at_start(self) -> tuple[str, str]:
        text = self._buffer.lstrip()
        if text.startswith(_BEGIN):
            self._buffer = text[len(_BEGIN) :]
            self._take = self._opening
        elif _BEGIN.startswith(text):
            return "", ""
        else:
            self._take = self._unopened
        return self._take()

    def _unopened(self) -> tuple[str, str]:
        text, tag, rest = self._buffer.partition(_END)
        before = "".join(self._visible) + text if tag else ""
        if tag and not _may_close(before):
            self._take = self._text
            return self._take()
        if tag and rest.strip():
            # Within a line, only a tag that ends the line is one.
            if _is_alone(before) or rest.lstrip(" \t\r").startswith("\n"):
                return self._close(before, rest)
            self._take = self._text
            return self._take()
        keep = 0 if tag else _tag_length(text)
        visible = text[: len(text) - keep]
        self._visible.append(visible)
        self._buffer = tag + rest if tag else text[len(visible) :]
        return "", visible

    def _close(self, before: str, rest: str) -> tuple[str, str]:
        self.takes_back, self._visible = any(self._visible), []
        self._buffer, self._take = rest, self._between
        return before.strip(), self._take()[1]

    def _opening(self) -> tuple[str, str]:
        return self._skip_blanks(self._thinking)

    def _thinking(self) -> tuple[str, str]:
        thought, end, rest = self._buffer.partition(_END)
        if end:
            self._buffer, self._take = rest, self._between
            return thought, self._take()[1]
        keep = _tag_length(thought)
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


def _tag_length(text: str) -> int:
    """Return how many characters at a text's end may be the beginning of the closing tag."""
    if "<" not in text[-len(_END) :]:
        return 0
    return next(n for n in range(len(_END), -1, -1) if text.endswith(_END[:n]))


def _may_close(before: str) -> bool:
    """Return whether a closing tag behind this text can be one. In quotes, in a block of code and behind an
    opening tag in the text it is what the model writes about."""
    is_quoted = before[-1:] in ("`", '"', "'") or before.count("```") % 2 == 1
    return not is_quoted and _BEGIN not in before


def _is_alone(before: str) -> bool:
    """Return whether a tag behind this text begins a line."""
    return not before.strip() or before.rstrip(" \t").endswith("\n")
