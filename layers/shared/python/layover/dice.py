"""Chance. All code draws random numbers here, so that a test can repeat a story from its seed."""

import random
import secrets
from base64 import urlsafe_b64encode


class _Rolls:
    """The forms in which random bits are used."""

    def bits(self, count: int) -> int:
        """Return a number of `count` random bits."""
        raise NotImplementedError

    def hex(self, size: int) -> str:
        """Return `size` random bytes as hexadecimal text."""
        return f"{self.bits(8 * size):0{2 * size}x}"

    def text(self, size: int) -> str:
        """Return `size` random bytes as text that is safe in URLs."""
        whole = self.bits(8 * size).to_bytes(size, "big")
        return urlsafe_b64encode(whole).rstrip(b"=").decode("ascii")

    def up_to(self, longest: float) -> float:
        """Return a number from 0 up to `longest`."""
        # As many bits as a float holds.
        return longest * (self.bits(53) / 2**53)


class SystemDice(_Rolls):
    """The operating system's random numbers, which nobody can guess: tokens and secrets are made of them."""

    def bits(self, count: int) -> int:
        """See `ports.Dice`."""
        return secrets.randbits(count)


class SeededDice(_Rolls):
    """Random numbers that the seed determines. They are for tests: who knows the seed knows them all."""

    def __init__(self, seed: int) -> None:
        self._numbers = random.Random(seed)

    def bits(self, count: int) -> int:
        """See `ports.Dice`."""
        return self._numbers.getrandbits(count)


SYSTEM_DICE = SystemDice()
"""The default wherever chance is needed. It has no state."""
