"""Whatever a sample tool does to the world is a line in one ledger on disk."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from layover import ToolContext

FOLDER = "LAYOVER_TEST_FOLDER"
"""Variable: where the ledger and the gates of a system are."""
MAX_GATE_S = 30.0


def note(what: str, ctx: ToolContext | None = None, **facts: Any) -> None:
    """Append one line, in one write: what was done, by which process, for whom."""
    if ctx is not None:
        who = {"owner": ctx.resource_id, "run": ctx.run_id, "call": ctx.tool_call_id}
        facts = {**who, "idempotency_key": ctx.idempotency_key, **facts}
    append(_folder(), what, **facts)


def append(folder: Path, what: str, **facts: Any) -> None:
    """Append one line to the ledger of a folder, in one write."""
    line = json.dumps({"what": what, "pid": os.getpid(), **facts}) + "\n"
    ledger = os.open(folder / "ledger.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


def entries(folder: Path) -> Iterator[dict[str, Any]]:
    """Every line so far, in order."""
    path = folder / "ledger.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return map(json.loads, lines)


async def gate(key: str) -> None:
    """Stay until the test opens the gate of this name."""
    until = time.monotonic() + MAX_GATE_S
    while not gate_of(_folder(), key).exists() and time.monotonic() < until:
        await asyncio.sleep(0.02)


def address_of_tools(folder: Path) -> Path:
    """The file with the address of the server of tools, which no test kills."""
    return folder / "tools-address"


def tools_address() -> str:
    """Return the address of this system's server of tools."""
    return address_of_tools(_folder()).read_text()


def address_of_accounts(folder: Path) -> Path:
    """The file with the address of the service at which users have accounts, which no test kills."""
    return folder / "accounts-address"


def accounts_address() -> str:
    """Return the address of this system's service with accounts; one where nobody is, without it."""
    path = address_of_accounts(Path(os.environ.get(FOLDER, "/nowhere")))
    return path.read_text() if path.exists() else "http://127.0.0.1:1"


def gate_of(folder: Path, key: str) -> Path:
    """The file that opens a gate by being there."""
    return folder / f"gate-{key}"


def _folder() -> Path:
    return Path(os.environ[FOLDER])
