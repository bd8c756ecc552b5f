"""Links behind the real HTTP front of one machine, in a thread: what a browser and an attacker reach."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from functions.api.app import answer
from layover.desk.local.functions.invocation import InvokeResult
from layover.desk.local.http.cors import Cors
from layover.desk.local.http.gateway import Front
from layover.desk.local.http.server import HttpServer
from layover.runtime import Runtime
from layover.values.channels import Person
from layover.values.decision import ApprovalRule
from layover.values.runs.run import SuspensionKind
from layover.values.runs.views import Run
from support.worlds.linked import BEA, FINANCE, LinkedBench

T = TypeVar("T")


class LinkSite:
    """A world that answers over HTTP. `url`: without a slash at its end."""

    def __init__(self, world: LinkedBench | None = None) -> None:
        self.world = world or LinkedBench()
        self.url = ""
        # In a thread of its own: a test with a browser has a loop already.
        self._loop = asyncio.new_event_loop()
        self._one = threading.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def runtime(self) -> Runtime:
        """`functions.api.call.Host`."""
        return self.world.runtime

    def run(self, work: Coroutine[Any, Any, T], /) -> T:
        """`functions.api.call.Host`: on the one loop, from whichever thread answers."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def invoke(self, name: str, payload: bytes) -> InvokeResult:
        """`layover.desk.local.http.gateway.Functions`: the handler of `api`."""
        assert name == "api"
        result = await asyncio.to_thread(self._answer, payload)
        return InvokeResult(json.dumps(result).encode())

    def _answer(self, payload: bytes) -> dict[str, Any]:
        # As on Lambda: an environment answers one request at a time.
        with self._one:
            return answer(json.loads(payload), None, self)

    def asked(
        self,
        rule: ApprovalRule | None = FINANCE,
        *people: Person,
        kind: SuspensionKind = SuspensionKind.APPROVAL,
        **options: Any,
    ) -> tuple[Run, list[str]]:
        """A run whose call waits, and a link of each person: BEA's, if nobody is named."""
        run, call = self.run(self.world.asked(rule, kind, **options))
        return run, [self.run(self.world.path(run, call, each)) for each in people or (BEA,)]

    def call_of(self, run: Run) -> Any:
        """The record of the call."""
        snapshot = self.run(self.world.journal.runs.snapshot("ann", run.id))
        assert snapshot is not None
        return snapshot.calls[0]

    @contextmanager
    def serve(self) -> Iterator["LinkSite"]:
        """Serve on a free port."""
        server = HttpServer(Cors(Front(self)))
        self.run(server.start())
        self.url = server.url
        try:
            yield self
        finally:
            self.run(server.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(30)
            self._loop.close()
