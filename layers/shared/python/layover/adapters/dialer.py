"""Connections that a turn needs, opened while it takes its run (docs/performance.md#connections-ahead)."""

from collections.abc import Callable
from typing import Protocol

from layover.ports import Dialer


class _Database(Protocol):
    def dial(self) -> None: ...


class _Models(Protocol):
    def dial(self, model: str) -> None: ...


class ClientDialer(Dialer):
    """Dials with the clients that are used later. Each is made when it is first needed."""

    def __init__(self, database: Callable[[], _Database], models: Callable[[], _Models]) -> None:
        self._database = database
        self._models = models

    def dial_database(self) -> None:
        """See the port."""
        self._database().dial()

    def dial_model(self, model: str) -> None:
        """See the port."""
        self._models().dial(model)
