"""Executions and task tokens on Step Functions, and the request for a decision on EventBridge."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from layover.errors import RetryableError

if TYPE_CHECKING:
    from types_boto3_events import EventBridgeClient
    from types_boto3_stepfunctions import SFNClient

SOURCE = "layover"
DETAIL_TYPE = "ApprovalRequested"
MAX_ENTRY = 250_000
"""Bytes; EventBridge takes 256 KB an entry, envelope included."""
_CLOSED = {"TaskTimedOut", "InvalidToken", "TaskDoesNotExist"}
"""The branch is not waiting (any more): the call's record decides, not the token."""


class StepFunctions:
    """`ports.Callbacks` on AWS."""

    def __init__(
        self,
        states: "Callable[[], SFNClient]",
        events: "Callable[[], EventBridgeClient]",
        state_machine_arn: str,
        bus: str,
    ) -> None:
        self._states = states
        self._events = events
        self._arn = state_machine_arn
        self._bus = bus

    async def start(self, owner: str, run_id: str, n: int) -> None:
        """Start the execution `{run_id}-{n}`; one of that name is the same one."""
        document = json.dumps({"v": 1, "owner": owner, "run_id": run_id, "n": n})
        await self._call(
            lambda: self._states().start_execution(
                stateMachineArn=self._arn, name=f"{run_id}-{n}", input=document
            ),
            ignore={"ExecutionAlreadyExists"},
        )

    async def alive(self, execution: str) -> bool:
        """Whether it runs; DescribeExecution is eventually consistent, so look twice."""
        arn = self._execution_arn(execution)
        found = await self._call(
            lambda: self._states().describe_execution(executionArn=arn),
            ignore={"ExecutionDoesNotExist"},
        )
        return bool(found and found["status"] in ("RUNNING", "PENDING_REDRIVE"))

    async def wake(self, token: str) -> bool:
        """Tell a waiting branch to look at its call's record. False: none waits."""
        output = json.dumps({"layover": "decided"})
        answer = await self._call(
            lambda: self._states().send_task_success(taskToken=token, output=output), ignore=_CLOSED
        )
        return answer is not None

    async def stop(self, execution: str, reason: str) -> None:
        """Stop an execution; one that is over already is fine."""
        arn = self._execution_arn(execution)
        await self._call(
            lambda: self._states().stop_execution(executionArn=arn, cause=reason),
            ignore={"ExecutionDoesNotExist"},
        )

    async def publish_approval(self, detail: Mapping[str, Any]) -> None:
        """Publish `ApprovalRequested`. Arguments and payload that are too large for an event are left
        out, the ids stay: `GET /approvals` has them."""
        text = json.dumps(detail, ensure_ascii=False)
        if len(text.encode()) > MAX_ENTRY:
            text = json.dumps({**detail, "args": None, "payload": None, "truncated": True})
        entry: Any = {
            "Source": SOURCE,
            "DetailType": DETAIL_TYPE,
            "Detail": text,
            "EventBusName": self._bus,
        }
        answer = await self._call(lambda: self._events().put_events(Entries=[entry]))
        if answer and answer.get("FailedEntryCount"):
            raise RetryableError("EventBridge did not take the event")

    def _execution_arn(self, execution: str) -> str:
        return f"{self._arn.replace(':stateMachine:', ':execution:')}:{execution}"

    async def _call(self, request: Callable[[], Any], ignore: set[str] | None = None) -> Any:
        return await asyncio.to_thread(_answered, request, ignore or set())


def _answered(request: Callable[[], Any], ignore: set[str]) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return request()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in ignore:
            return None
        raise RetryableError(f"the orchestrator answered {code}") from error
    except BotoCoreError as error:
        raise RetryableError(f"the orchestrator did not answer: {type(error).__name__}") from error
