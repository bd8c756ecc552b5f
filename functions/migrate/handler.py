"""The schema: a custom resource on deploy, a plain invocation elsewhere."""

import asyncio
from typing import Any

from layover import wiring
from layover.services.migrate import migrate


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """CloudFormation's Create, Update or Delete (through the provider framework), or `{}`."""
    return asyncio.run(migrate(event, wiring.migrator()))
