"""A receiver of traces for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from support.otlp import Receiver, receiving
from support.worlds.traces import hang_up


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        yield receiver


@pytest.fixture(autouse=True)
async def _connections() -> AsyncIterator[None]:
    yield
    await hang_up()
