"""The Lambda functions: memory, time, and the services that each one reaches."""

from collections.abc import Mapping
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field


class FunctionSettings(BaseModel):
    """One Lambda function."""

    model_config = ConfigDict(frozen=True)

    memory_mib: int = Field(ge=128, le=10_240)
    """CPU comes with it: 1,769 MiB are one core."""
    timeout: timedelta
    postgres: bool = True
    """True if it connects to Postgres, from the private subnets."""
    model: bool = False
    """True if it calls chat models."""
    tools: bool = False
    """True if it runs the tools of the agents."""


FUNCTIONS: Mapping[str, FunctionSettings] = {
    # HTTP API gives up at 30 s.
    "api": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=29)),
    "turn": FunctionSettings(
        memory_mib=1024, timeout=timedelta(seconds=900), model=True, tools=True
    ),
    "resume": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=900), tools=True),
    "extract": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=900), model=True),
    "compact": FunctionSettings(memory_mib=1024, timeout=timedelta(seconds=900), model=True),
    "settle": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=60)),
    "sweep": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=60)),
    # A WebSocket API gives up at 29 s; a replay of missed events stops at 20 s.
    "sockets": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=29), postgres=False),
    "streams": FunctionSettings(memory_mib=512, timeout=timedelta(seconds=900)),
    # Five minutes for a waking database, two for the lock, and the migrations themselves.
    "migrate": FunctionSettings(memory_mib=512, timeout=timedelta(minutes=14)),
}
"""By the name of the folder in `functions/`."""
