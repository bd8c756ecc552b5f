"""The tokens of BERT models (uncased): words, then the longest known pieces of each."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

UNKNOWN = "[UNK]"
_MAX_WORD = 100
"""Characters; a longer word is one unknown token, as in the model's training."""
_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2FA1F),
)
_PIECE = re.compile(r"\S+")


class WordPiece:
    """`vocabulary`: the tokens in the order of their numbers."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._numbers = {token: number for number, token in enumerate(vocabulary)}
        self._cache: dict[str, list[int]] = {}

    def encode(self, text: str, most: int) -> list[int]:
        """The numbers of a text's tokens between [CLS] and [SEP], `most` at most with these."""
        numbers = [self._numbers["[CLS]"]]
        for word in _words(text):
            if len(numbers) >= most - 1:
                break
            numbers += self._pieces(word)
        return [*numbers[: most - 1], self._numbers["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        pieces = self._cache.get(word)
        if pieces is None:
            pieces = self._split(word)
            if len(self._cache) < 50_000:
                self._cache[word] = pieces
        return pieces

    def _split(self, word: str) -> list[int]:
        """The longest piece that is known, then the longest of the rest, and so on."""
        pieces: list[int] = []
        start = 0
        while start < len(word) <= _MAX_WORD:
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                break
        return pieces if pieces and start == len(word) else [self._numbers[UNKNOWN]]


def _words(text: str) -> Iterator[str]:
    """Lower case without accents; punctuation marks and Chinese characters are separate words."""
    plain = unicodedata.normalize("NFD", "".join(map(_spaced, text)).lower())
    for match in _PIECE.finditer(plain):
        word = ""
        for character in match[0]:
            if unicodedata.category(character) == "Mn":
                continue
            if not _is_punctuation(character):
                word += character
                continue
            if word:
                yield word
            yield character
            word = ""
        if word:
            yield word


def _spaced(character: str) -> str:
    code = ord(character)
    if any(low <= code <= high for low, high in _CJK):
        return f" {character} "
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    return "" if code in (0, 0xFFFD) or category.startswith("C") else character


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")
