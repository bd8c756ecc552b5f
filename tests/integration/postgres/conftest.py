"""Helpers that tests of plans share."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from support.postgres.plans import Planned


@pytest.fixture
async def connection(laid_out: Planned) -> AsyncIterator[AsyncConnection[Any]]:
    """As the functions, to the database that the test's file has laid out."""
    async with laid_out.connected() as opened:
        yield opened
