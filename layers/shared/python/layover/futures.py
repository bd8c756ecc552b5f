"""Futures that nothing may wait for any more."""

import asyncio
from typing import Any


def retrieve_exception(future: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of a future that is done, if it has one: asyncio reports one that nobody has
    asked for. It is a callback for `add_done_callback`."""
    if not future.cancelled():
        future.exception()
