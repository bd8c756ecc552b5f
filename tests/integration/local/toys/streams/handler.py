"""Streams what the query asks for."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any


def handler(event: dict[str, Any], context: Any) -> Any:
    """`do`: what happens after the first piece."""
    if "raise" in event["rawQueryString"]:
        raise RuntimeError("boom")
    headers = {"Content-Type": "text/event-stream", "X-Toy": "1"}
    return {"statusCode": 201, "headers": headers, "body": _pieces(event["rawQueryString"])}


async def _pieces(do: str) -> AsyncIterator[bytes]:
    note = Path(os.environ["LAYOVER_TOYS"]) / f"stream-{do}"
    try:
        yield f"{os.getpid()}\n".encode()
        if "fail" in do:
            raise RuntimeError("boom")
        if "exit" in do:
            os._exit(3)
        while "wait" in do and not note.exists():
            await asyncio.sleep(0.02)
            yield b""
        yield b"second\n"
    finally:
        note.touch()
