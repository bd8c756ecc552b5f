"""Identifiers: opaque, sortable by their time, safe in URLs and in keys."""

import hashlib
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


def _base32(value: int, length: int) -> str:
    """Return the last digits of a number. `length`: even."""
    return "".join([_PAIRS[value >> place & 1023] for place in range(5 * length - 10, -1, -10)])


_RANDOM = {"msg": 6}
"""Random characters of an id by kind. A message's is unique within its thread, and each turn stores many."""


class RandomIds:
    """Ids of 10 characters of time (ms) and 16 random ones (a message's: 6), with a prefix for their kind."""

    def __init__(
        self,
        now_ns: Callable[[], int] = time.time_ns,
        bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        """`now_ns`: the time in nanoseconds; `bits`: returns a number of so many random bits."""
        self._now_ns = now_ns
        self._bits = bits

    def new(self, kind: str) -> str:
        """Return a new id, for example `run_01k...`."""
        length = _RANDOM.get(kind, 16)
        moment = _base32(self._now_ns() // 1_000_000, 10)
        return f"{kind}_{moment}{_base32(self._bits(5 * length), length)}"


def made_at(id: str) -> datetime | None:
    """Return the time at which `RandomIds` made an id; None for any other text."""
    text = id.rpartition("_")[2]
    if len(text) != 26 or not set(text) <= set(_ALPHABET):
        return None
    milliseconds = 0
    for digit in text[:10]:
        milliseconds = milliseconds * 32 + _ALPHABET.index(digit)
    try:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


_COUNT_DOWN = str.maketrans(_ALPHABET, _ALPHABET[::-1])


def reverse_order(id: str) -> str:
    """Return a text that sorts among others of its kind as the id does not: what is newest comes first. Of
    such a text, return the id."""
    kind, _, rest = id.rpartition("_")
    return f"{kind}_{rest.translate(_COUNT_DOWN)}"


class SequentialIds:
    """Ids that count, for tests whose output is read by people."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def new(self, kind: str) -> str:
        """Return the next id of this kind: `run_1`, `run_2`, ..."""
        self._next[kind] = self._next.get(kind, 0) + 1
        return f"{kind}_{self._next[kind]}"


def derive_id(kind: str, *parts: object) -> str:
    """Return an id that depends only on its parts: equal parts give the same id."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return f"{kind}_{_base32(int.from_bytes(digest[:16], 'big'), 26)}"
