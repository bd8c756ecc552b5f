"""Helpers that tests of plans share, and those of connections."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection

from layover.adapters.store.postgres.database import Database
from support.postgres.line import Proxy, proxied
from support.postgres.plans import Planned
from support.postgres.server import TestPostgres
from support.system.folders import folder


@pytest.fixture
async def connection(laid_out: Planned) -> AsyncIterator[AsyncConnection[Any]]:
    """As the functions, to the database that the test's file has laid out."""
    async with laid_out.connected() as opened:
        yield opened


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with folder("pg") as made:
        yield made


@pytest.fixture
async def line(postgres: TestPostgres, sockets: Path) -> AsyncIterator[tuple[Proxy, Database]]:
    async with proxied(postgres, sockets) as pair:
        yield pair
