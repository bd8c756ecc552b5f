"""Messages to people that are about no call."""

from datetime import datetime
from typing import Self

from layover.values.channels import OPERATORS_GROUP, Notice, NoticeKind
from layover.values.outages import Outage
from layover.values.runs.run import SuspensionKind
from layover.values.runs.views import OpenApproval


class OutageNotice(Notice):
    """Failures of which operators are told."""

    outage: Outage

    @classmethod
    def of(cls, outage: Outage, now: datetime) -> Self:
        """Return the message about an outage as it is."""
        kind = NoticeKind.MENDED if outage.over else NoticeKind.FAILURES
        call = no_call(outage.runs[0], outage.begun_at, agent=outage.agent, id=outage.id)
        return cls(kind=kind, owner=OPERATORS_GROUP, call=call, outage=outage, at=now)


def no_call(run_id: str, at: datetime, *, agent: str = "test", id: str = "test") -> OpenApproval:
    """Return what stands for the call in such a message.

    Args:
        run_id: The run that the message is about.
        at: The time before which no message about it was sent.
        agent: The run's agent.
        id: What messages about the same thing have in common.
    """
    return OpenApproval(
        tool_call_id=id,
        tool_name="test",
        args={},
        kind=SuspensionKind.APPROVAL,
        payload={},
        resume_schema={},
        attempt=1,
        agent_path=(agent,),
        requested_at=at,
        run_id=run_id,
        thread_id="test",
        agent=agent,
    )
