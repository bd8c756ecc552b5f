"""Chance. All code draws random numbers here, so that a test can repeat a story from its seed."""

import random
import secrets
from base64 import urlsafe_b64encode


class SystemDice:
    """The operating system's random numbers, which nobody can guess: tokens and secrets are made of them."""

    # The functions themselves: each turn draws a dozen texts, and pays for no call of ours on top.
    bits = staticmethod(secrets.randbits)
    hex = staticmethod(secrets.token_hex)
    text = staticmethod(secrets.token_urlsafe)

    def up_to(self, longest: float) -> float:
        """See `ports.Dice`."""
        # As many bits as a float holds.
        return longest * (secrets.randbits(53) / 2**53)


class SeededDice:
    """Random numbers that the seed determines. They are for tests: who knows the seed knows them all."""

    def __init__(self, seed: int) -> None:
        self._numbers = random.Random(seed)

    def bits(self, count: int) -> int:
        """See `ports.Dice`."""
        return self._numbers.getrandbits(count)

    def hex(self, size: int) -> str:
        """See `ports.Dice`."""
        return self._numbers.randbytes(size).hex()

    def text(self, size: int) -> str:
        """See `ports.Dice`."""
        return urlsafe_b64encode(self._numbers.randbytes(size)).rstrip(b"=").decode("ascii")

    def up_to(self, longest: float) -> float:
        """See `ports.Dice`."""
        return longest * self._numbers.random()


SYSTEM_DICE = SystemDice()
"""The default wherever chance is needed. It has no state."""
