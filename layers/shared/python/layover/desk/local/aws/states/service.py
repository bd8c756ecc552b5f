"""Step Functions' operations: a document in, a document out."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from layover.desk.local.aws.states.errors import StatesError
from layover.desk.local.aws.states.execution import MAX_DATA, Execution, Task, make_uuid
from layover.desk.local.aws.states.records import RUNNING, Record, Records
from layover.desk.local.aws.storage import Storage
from layover.desk.local.functions.invocation import ACCOUNT, REGION
from layover.dice import SYSTEM_DICE
from layover.ports import Dice

logger = logging.getLogger(__name__)

Document = dict[str, Any]
TARGET = "AWSStepFunctions."
"""Prefix of every operation's `X-Amz-Target`."""
_MACHINES = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:"
_PAGE = 1000


class StepFunctions:
    """State machines and executions. Every call comes from the event loop in which the executions run, so no
    two of them act at the same time."""

    def __init__(
        self,
        storage: Storage,
        task: Task,
        now: Callable[[], float] = time.time,
        dice: Dice = SYSTEM_DICE,
    ) -> None:
        """`now`: the time in seconds since 1970, which need not be the loop's. Waits take the loop's time."""
        self._records = Records(storage, now)
        self._task = task
        self._now = now
        self._dice = dice
        self._running: dict[str, tuple[Execution, asyncio.Task[None]]] = {}
        self._is_stopping = False
        self._operations: dict[str, Callable[[Document], Document]] = {
            "CreateStateMachine": self._create_state_machine,
            "StartExecution": self._start_execution,
            "StopExecution": self._stop_execution,
            "DescribeExecution": lambda request: _describe(
                self._records.get(request["executionArn"])
            ),
            "ListExecutions": self._list_executions,
            "GetExecutionHistory": self._get_execution_history,
            "SendTaskSuccess": self._send_task_success,
            "SendTaskFailure": self._send_task_failure,
        }

    def call(self, operation: str, request: Document) -> Document:
        """Return the result of an operation. Raises StatesError."""
        if operation not in self._operations:
            raise StatesError("UnknownOperationException", f"{operation} is not served here")
        try:
            return self._operations[operation](request)
        except KeyError as error:
            raise StatesError("ValidationException", f"The parameter {error} is missing") from error

    def resume(self) -> None:
        """Let every open execution of an earlier process go on in its state."""
        for record in self._records.list_executions(None, RUNNING):
            self._run(record)

    def advance(self, seconds: float) -> None:
        """Let the timers of every open execution end so much earlier: waits, and the limits of tokens."""
        for execution, _ in self._running.values():
            execution.advance(seconds)

    async def suspend(self) -> list[str]:
        """Stop every execution in its state, for `resume` of a later process. No execution starts after this.
        Return the inputs of the open ones."""
        self._is_stopping = True
        running = [task for _, task in self._running.values()]
        for task in running:
            # A cancel, unlike an error, records no end: the execution stays RUNNING in the store.
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return [record.input for record in self._records.list_executions(None, RUNNING)]

    def _run(self, record: Record) -> None:
        execution = Execution(record, self._records, self._task, now=self._now, dice=self._dice)
        task = asyncio.ensure_future(self._execute(execution))
        self._running[record.arn] = execution, task

    async def _execute(self, execution: Execution) -> None:
        arn = execution.record.arn
        try:
            await execution.run()
        except Exception as error:  # No caller awaits it: its error has to be reported here.
            logger.exception("the execution %s cannot go on", execution.record.name)
            event = {
                "type": "ExecutionFailed",
                "executionFailedEventDetails": {"cause": str(error)},
            }
            self._records.close(arn, "FAILED", [event], error="States.Runtime", cause=str(error))
        finally:
            self._running.pop(arn, None)

    def _create_state_machine(self, request: Document) -> Document:
        name = request["name"]
        _check_definition(request["definition"])
        arn = _MACHINES + name
        created_at = self._records.save_machine(
            arn, name, request["definition"], request["roleArn"]
        )
        return {"stateMachineArn": arn, "creationDate": created_at}

    def _machine(self, arn: str) -> Document:
        for each in self._records.machines():
            if each["arn"] == arn:
                return each
        raise StatesError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{arn}'")

    def _start_execution(self, request: Document) -> Document:
        if self._is_stopping:
            raise StatesError("ServiceUnavailable", "the runner is stopping", 503)
        machine = self._machine(request["stateMachineArn"])
        name, text = request.get("name") or make_uuid(self._dice), request.get("input") or "{}"
        try:
            json.loads(text)
        except ValueError as error:
            raise StatesError("InvalidExecutionInput", f"Invalid input: {error}") from error
        if len(text) > MAX_DATA:
            raise StatesError("InvalidExecutionInput", "The input has more than 262,144 bytes")
        arn = f"{machine['arn'].replace(':stateMachine:', ':execution:')}:{name}"
        record, is_new = self._records.start(machine, arn, name, text)
        if is_new:
            self._run(record)
        return {"executionArn": arn, "startDate": record.started}

    def _stop_execution(self, request: Document) -> Document:
        record = self._records.get(request["executionArn"])
        outcome = {name: request[name] for name in ("error", "cause") if request.get(name)}
        event = {"type": "ExecutionAborted", "executionAbortedEventDetails": outcome}
        # Closed before the cancel: the first end of an execution counts, whatever its task still does.
        self._records.close(record.arn, "ABORTED", [event], **outcome)
        if record.arn in self._running:
            self._running[record.arn][1].cancel()
        return {"stopDate": self._records.get(record.arn).stopped}

    def _list_executions(self, request: Document) -> Document:
        machine = self._machine(request["stateMachineArn"])
        records = self._records.list_executions(machine["arn"], request.get("statusFilter"))
        summaries = [
            {name: value for name, value in _describe(each).items() if name in _SUMMARY_FIELDS}
            for each in records
        ]
        return _page("executions", summaries, request)

    def _get_execution_history(self, request: Document) -> Document:
        events = self._records.history(self._records.get(request["executionArn"]).arn)
        return _page("events", events[::-1] if request.get("reverseOrder") else events, request)

    def _send_task_success(self, request: Document) -> Document:
        output = request["output"]
        try:
            json.loads(output)
        except (TypeError, ValueError) as error:
            raise StatesError("InvalidOutput", f"Invalid Output: {error}") from error
        if len(output) > MAX_DATA:
            raise StatesError("InvalidOutput", "The output has more than 262,144 bytes")
        return self._settle(request["taskToken"], {"output": output})

    def _send_task_failure(self, request: Document) -> Document:
        names = [name for name in ("error", "cause") if request.get(name) is not None]
        return self._settle(request["taskToken"], {name: request[name] for name in names})

    def _settle(self, token: str, outcome: Mapping[str, Any]) -> Document:
        # The store first: an answer that was acknowledged survives a death, and the execution finds it there.
        self._records.settle(token, dict(outcome))
        for execution, _ in list(self._running.values()):
            execution.wake(token)
        return {}


_SUMMARY_FIELDS = ("executionArn", "stateMachineArn", "name", "status", "startDate", "stopDate")


def _describe(record: Record) -> Document:
    document = {
        "executionArn": record.arn,
        "stateMachineArn": record.machine,
        "name": record.name,
        "status": record.status,
        "startDate": record.started,
        "stopDate": record.stopped,
        "input": record.input,
        "inputDetails": {"included": True},
        "output": record.output,
        "error": record.error,
        "cause": record.cause,
    }
    return {name: value for name, value in document.items() if value is not None}


def _check_definition(definition: str) -> None:
    try:
        program = json.loads(definition)
        names: Iterable[str] = program["States"]
        if program["StartAt"] not in names:
            raise ValueError("StartAt names no state")
    except (ValueError, KeyError, TypeError) as error:
        raise StatesError(
            "InvalidDefinition", f"Invalid State Machine Definition: {error}"
        ) from error


def _page(name: str, items: list[Any], request: Document) -> Document:
    start, most = int(request.get("nextToken") or 0), int(request.get("maxResults") or _PAGE)
    answer: Document = {name: items[start : start + most]}
    if start + most < len(items):
        answer["nextToken"] = str(start + most)
    return answer
