"""Text that a provider sends in pieces."""

from layover.values.text import sanitise


class Text:
    """Text in the making. Some providers cut an escaped emoji in two: the halves wait for each other."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """Take a piece; return the part of the text that can be shown."""
        if not piece:
            return ""
        if piece.isascii() and not self._half and "\0" not in piece:
            self._pieces.append(piece)
            return piece
        piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        self._pieces.append(sanitise(piece))
        return self._pieces[-1]

    def whole(self) -> str:
        """All of it."""
        text = "".join(self._pieces)
        return text + sanitise(self._half) if self._half else text
