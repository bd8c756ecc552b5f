"""One runner a module, serving toy functions: everything else in it is the real thing."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config

from layover.desk.local.aws.clients import make_client, session
from layover.desk.local.runner import Runner
from layover.desk.local.settings import Settings
from support.system import folders as folders

TOYS = Path(__file__).parent / "toys"


@dataclass(frozen=True)
class Served:
    """A running system, and where its toys write down what happened to them."""

    runner: Runner
    notes: Path
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """A boto3 client of the local services: one for each, since making it takes half a second."""
        if service not in self._clients:
            aws = self.runner.aws
            self._clients[service] = make_client(service, aws.endpoint_url, aws.access_key)
        return self._clients[service]

    def signing(self) -> Any:
        """A client of S3 that signs URLs as the functions do."""
        if "signing" not in self._clients:
            aws = self.runner.aws
            config = Config(signature_version="s3v4", s3={"addressing_style": "virtual"})
            client = session(aws.access_key).client
            self._clients["signing"] = client("s3", endpoint_url=aws.endpoint_url, config=config)
        return self._clients["signing"]

    def lines(self, run_id: str) -> list[str]:
        """Return the toys' notes for `run_id`, in order."""
        path = self.notes / run_id
        return path.read_text().splitlines() if path.exists() else []


def settings_for(folder: Path, **changes: Any) -> Settings:
    """Settings of a runner over the toys, on a free port."""
    limits = {"turn": timedelta(seconds=5), "api": timedelta(seconds=5)}
    quick = timedelta(milliseconds=200)
    standard = {"port": 0, "data": folder / "data", "functions": TOYS, "timeouts": limits}
    return Settings(**{**standard, "sweep_every": quick, "concurrency": 3, **changes})


def variables_for(folder: Path) -> dict[str, str]:
    """The runner's environment; a key, so that no stand-in is started."""
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    return {**os.environ, "LAYOVER_TOYS": str(notes), "OPENAI_API_KEY": "none"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a runner's data. Postgres of one that was killed may write into it for a moment."""
    with folders.folder("layover") as made:
        yield made


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    """The module's runner."""
    with folders.folder("layover") as made:
        async with Runner(settings_for(made), variables_for(made)) as runner:
            yield Served(runner, made / "notes")


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads are switched a thousand times as often: what can race does."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


async def eventually(check: Callable[[], Any], within: float = 20.0) -> Any:
    """The first true answer of `check`; fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not (answer := await asyncio.to_thread(check)):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)
    return answer
