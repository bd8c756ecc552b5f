"""The movable clock: one float in a small file that every process of the system maps into its memory."""

import math
import mmap
import struct
from datetime import timedelta
from pathlib import Path

_FORMAT = struct.Struct("<d")
_LIMIT = timedelta(days=365 * 100).total_seconds()


class ClockFile:
    """Seconds that the system's clock is ahead of the machine's, shared through memory.

    The 8 bytes are aligned and written in one store, so a reader never sees half of a value.
    """

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FORMAT.size)

    @classmethod
    def create(cls, path: Path) -> "ClockFile":
        """Return a clock that agrees with the machine's, whatever an earlier runner left in the file."""
        path.write_bytes(_FORMAT.pack(0.0))
        return cls(path)

    def offset(self) -> timedelta:
        """Return the offset, as `layover.clock.install_offset` takes it."""
        seconds: float = _FORMAT.unpack_from(self._map)[0]
        return timedelta(seconds=seconds)

    def advance(self, seconds: float) -> timedelta:
        """Move the clock (back, if negative) and return the new offset. Raises ValueError if the offset would
        not be a number within a hundred years."""
        ahead = self.offset().total_seconds() + seconds
        if not math.isfinite(ahead) or abs(ahead) > _LIMIT:
            raise ValueError("the clock moves within a hundred years of now")
        _FORMAT.pack_into(self._map, 0, ahead)
        return self.offset()
