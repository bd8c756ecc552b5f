"""Calls as the items of one writer."""

import asyncio
from collections.abc import Sequence
from typing import Any

from layover.adapters.journal.items.codec import PayloadStore
from layover.adapters.journal.items.records import call_body, votes_text
from layover.values.runs.run import CallRecord, CallState


class CallItems:
    """Builds the items of calls. `folder`: the place of large bodies in S3; `opener`: the writer's name."""

    def __init__(self, bodies: PayloadStore, folder: str, opener: str) -> None:
        self._bodies = bodies
        self._folder = folder
        self._opener = opener

    async def of(self, calls: Sequence[CallRecord], state: CallState) -> list[dict[str, Any]]:
        """Return the items of calls that this writer opens or suspends, as one transaction writes them."""
        bodies = await self.bodies(calls)
        return [
            {
                **body,
                "state": state.value,
                "opener": self._opener,
                "attempt": call.attempt,
                "decision": await self._decision(call, len(calls)),
                "votes": await self._votes(call, len(calls)),
                "voted": call.voted or None,
                "ends": call.ends_step or None,
            }
            for call, body in zip(calls, bodies, strict=True)
        ]

    async def bodies(self, calls: Sequence[CallRecord]) -> list[dict[str, Any]]:
        """Return the bodies. Large ones go to S3 side by side: one after another, a window's would take
        seconds."""
        packing = [self._bodies.pack(self._folder, call_body(c), len(calls)) for c in calls]
        if len(packing) < 2:
            return [await each for each in packing]
        return await asyncio.gather(*packing)

    async def _decision(self, call: CallRecord, among: int) -> str | bytes | list[str] | None:
        if call.decision is None:
            return None
        text = call.decision.model_dump_json()
        return await self._bodies.pack_beside(self._folder, text, among)

    async def _votes(self, call: CallRecord, among: int) -> str | bytes | list[str] | None:
        if not call.votes:
            return None
        text = votes_text(call.votes)
        return await self._bodies.pack_beside(self._folder, text, among)
