"""Agents are reloaded as they are saved: the file's new content serves the next event."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta

from layover.local.agents_module import LoadReport
from layover.local.functions.lambda_service import LambdaService
from layover.local.terminal.sources import Sources

logger = logging.getLogger(__name__)

POLL_INTERVAL = timedelta(milliseconds=250)
_PREWARMED = ("api", "turn")


class Reloader:
    """Follows the agents' files. `path`: PYTHONPATH of the functions."""

    def __init__(
        self,
        sources: Sources,
        load: Callable[[], Awaitable[LoadReport]],
        functions: LambdaService,
        path: str,
        say: Callable[[str, str], object],
    ) -> None:
        self._sources = sources
        self._load = load
        self._functions = functions
        self._path = path
        self._say = say

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(POLL_INTERVAL.total_seconds())
            try:
                if await asyncio.to_thread(self._sources.has_changed):
                    await self.reload()
            except Exception:
                logger.exception("the agents' files could not be looked at; the next look comes")

    async def reload(self) -> None:
        """Take the saved files if they can be loaded; else keep the last ones that could."""
        report = await self._load()
        if report.problem is not None:
            # Environments that start meanwhile import the copy: it comes first on their path.
            path = f"{self._sources.copy_path}:{self._path}"
            self._functions.change({"PYTHONPATH": path}, renew=False)
            text = f"the agents were not reloaded, the last ones go on answering:\n    {report.problem}"
            self._say(text, "red")
            return
        await asyncio.to_thread(self._sources.keep)
        self._functions.change({"PYTHONPATH": self._path}, renew=True)
        self._functions.prewarm(*_PREWARMED)
        names = "; ".join(each.removeprefix("agent ") for each in report.agents)
        self._say(f"reloaded {names}", "green")
        for warning in report.warnings:
            self._say(f"warning: {warning}", "yellow")
