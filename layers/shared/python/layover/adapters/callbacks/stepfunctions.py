"""Executions and task tokens on Step Functions, and events about waiting calls on EventBridge."""

import json
from collections.abc import Awaitable, Mapping
from typing import Any

from layover.adapters.aws.client import AwsClient
from layover.adapters.aws.retries import NoAnswer, ServiceError
from layover.errors import RetryableError
from layover.values.decision import WakeUp

SOURCE = "layover"
MAX_ENTRY = 250_000
"""Bytes; EventBridge takes 256 KB an entry, envelope included."""
_LEFT_OUT = {"args": None, "payload": None, "resume_schema": None, "denied_before": None}
_NOT_WAITING = {"TaskTimedOut", "InvalidToken", "TaskDoesNotExist"}
"""Errors of a token on which no branch waits, or none does any more. The call's record decides, not the
token."""


class StepFunctions:
    """`ports.Callbacks` on AWS."""

    def __init__(
        self,
        states: AwsClient,
        events: AwsClient,
        state_machine_arn: str,
        bus: str,
    ) -> None:
        self._states = states
        self._events = events
        self._arn = state_machine_arn
        self._bus = bus

    async def start(self, owner: str, run_id: str, n: int) -> None:
        """Start the execution `{run_id}-{n}`. An existing one of that name is the same."""
        document = json.dumps({"v": 1, "owner": owner, "run_id": run_id, "n": n})
        await self._ask(
            "StartExecution",
            {"stateMachineArn": self._arn, "name": f"{run_id}-{n}", "input": document},
            ignore={"ExecutionAlreadyExists"},
        )

    async def alive(self, execution: str) -> bool:
        """Return whether it runs. DescribeExecution is eventually consistent, so callers look twice."""
        description = await self._ask(
            "DescribeExecution",
            {"executionArn": self._execution_arn(execution)},
            ignore={"ExecutionDoesNotExist"},
        )
        return bool(description and description["status"] in ("RUNNING", "PENDING_REDRIVE"))

    async def wake(self, token: str, news: WakeUp = WakeUp.DECIDED) -> bool:
        """Tell a waiting branch to look at its call's record. Return False if none waits."""
        output = json.dumps({"layover": news.value})
        answer = await self._ask(
            "SendTaskSuccess", {"taskToken": token, "output": output}, ignore=_NOT_WAITING
        )
        return answer is not None

    async def stop(self, execution: str, reason: str) -> None:
        """Stop an execution; one that is already over is fine."""
        await self._ask(
            "StopExecution",
            {"executionArn": self._execution_arn(execution), "cause": reason},
            ignore={"ExecutionDoesNotExist"},
        )

    async def publish(self, detail_type: str, detail: Mapping[str, Any]) -> None:
        """Publish an event about a waiting call. Arguments, payload, schema and earlier denials are left out
        if they are too large for an event. The ids stay, and `GET /approvals` has the rest."""
        text = json.dumps(detail, ensure_ascii=False)
        if len(text.encode()) > MAX_ENTRY:
            text = json.dumps({**detail, **_LEFT_OUT, "truncated": True})
        entry: Any = {
            "Source": SOURCE,
            "DetailType": detail_type,
            "Detail": text,
            "EventBusName": self._bus,
        }
        put = self._events.call("AWSEvents.PutEvents", {"Entries": [entry]}, version="1.1")
        answer = await _await_answer(put, set())
        if answer and answer.get("FailedEntryCount"):
            raise RetryableError("EventBridge did not accept the event")

    def _execution_arn(self, execution: str) -> str:
        return f"{self._arn.replace(':stateMachine:', ':execution:')}:{execution}"

    async def _ask(
        self, operation: str, document: Mapping[str, Any], ignore: set[str]
    ) -> dict[str, Any] | None:
        return await _await_answer(
            self._states.call(f"AWSStepFunctions.{operation}", document), ignore
        )


async def _await_answer(
    request: Awaitable[dict[str, Any]], ignore: set[str]
) -> dict[str, Any] | None:
    """The answer; None for the errors to ignore."""
    try:
        return await request
    except ServiceError as error:
        if error.code in ignore:
            return None
        raise RetryableError(f"the orchestrator answered {error.code}") from error
    except NoAnswer as error:
        raise RetryableError(f"the orchestrator did not answer: {error}") from error
