"""Values that are imported, made or compiled on first use."""

import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class _Lazy:
    """Stands for a port whose adapter is made on first use."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        adapter = self._make()
        # The next access finds the attribute itself and does not come here.
        value = getattr(adapter, name)
        setattr(self, name, value)
        return value


def lazy(make: Callable[[], T]) -> T:
    """Return a stand-in for the result of `make`, which is called on first use."""
    return cast(T, _Lazy(make))


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern, compiled on first use: those of memory would cost every cold start 20 ms."""
    return lazy(lambda: re.compile(text, flags))
