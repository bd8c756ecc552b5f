"""Time and chance of the modules that still read them for themselves."""

import random
import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from layover.local.aws.states import execution, records, service


class _Time:
    def __init__(self, now: Callable[[], float]) -> None:
        self.time = self.monotonic = now


class _Uuid:
    NAMESPACE_OID = uuid.NAMESPACE_OID
    uuid5 = staticmethod(uuid.uuid5)

    def __init__(self, dice: Callable[[], random.Random]) -> None:
        self._dice = dice

    def uuid4(self) -> str:
        return f"token-{self._dice().getrandbits(64):016x}"


class _Random:
    def __init__(self, dice: Callable[[], random.Random]) -> None:
        self._dice = dice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dice(), name)


@contextmanager
def steady(now: Callable[[], float], dice: Callable[[], random.Random]) -> Iterator[None]:
    """Let modules that have no port for time and chance read those of the simulation."""
    saved = [(module, dict(vars(module))) for module in (execution, records, service)]
    token_hex = secrets.token_hex
    modules: list[Any] = [execution, records, service]
    for module in modules:
        for name, stands_in in (
            ("time", _Time(now)),
            ("uuid", _Uuid(dice)),
            ("random", _Random(dice)),
        ):
            if hasattr(module, name):
                setattr(module, name, stands_in)
    loose: Any = secrets
    loose.token_hex = lambda n=16: dice().getrandbits(8 * n).to_bytes(n, "big").hex()
    before = random.getstate()
    random.seed(dice().getrandbits(32))
    try:
        yield
    finally:
        random.setstate(before)
        loose.token_hex = token_hex
        for module, names in saved:
            vars(module).update(names)
