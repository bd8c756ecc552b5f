"""Connections that a turn needs, opened while it takes its run (docs/performance.md#connections-ahead)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from layover.ports import Dialer

if TYPE_CHECKING:
    from layover.adapters.models.bedrock.chat import BedrockChat
    from layover.adapters.models.providers import Providers
    from layover.adapters.store.postgres.database import Database


class ClientDialer(Dialer):
    """Dials with the clients that are used later. Each is made when it is first needed."""

    def __init__(
        self,
        database: "Callable[[], Database]",
        model: "Callable[[], Providers | BedrockChat]",
    ) -> None:
        self._database = database
        self._model = model

    def dial_database(self) -> None:
        """See the port."""
        self._database().dial()

    def dial_model(self, model: str) -> None:
        """See the port."""
        self._model().dial(model)
