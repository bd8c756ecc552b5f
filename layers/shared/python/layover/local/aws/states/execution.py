"""One execution: it walks from state to state, and records each state before it does anything there."""

import asyncio
import json
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from layover.local.aws.states.choices import holds
from layover.local.aws.states.errors import StateFailed
from layover.local.aws.states.paths import evaluate, fill_template, place_result, read_path
from layover.local.aws.states.records import Frame, Record, Records

State = Mapping[str, Any]
Program = Mapping[str, Any]
Task = Callable[[str, Any], Awaitable[Any]]
"""A resource and its parameters -> its result. Raises StateFailed."""

MAX_DATA = 262_144
"""Bytes of JSON that a state may take or give."""
_WAITS = ".waitForTaskToken"


class Execution:
    """Runs `record` from its frames, or from its start, until it is over or cancelled."""

    def __init__(self, record: Record, records: Records, task: Task) -> None:
        self.record = record
        self._records = records
        self._task = task
        self._program: Program = json.loads(records.definition(record))
        self._frames = records.frames(record.arn)
        self._answers: dict[str, asyncio.Event] = {}

    async def run(self) -> None:
        """Run until the end, and record it."""
        limit = self._program.get("TimeoutSeconds")
        rest = None if limit is None else self.record.started + limit - time.time()
        try:
            async with asyncio.timeout(rest) as clock:
                output = await self._walk(self._program, "", json.loads(self.record.input), {})
        except StateFailed as error:
            details = error.output()
            event = {"error": details.get("Error"), "cause": details.get("Cause")}
            self._close("FAILED", "ExecutionFailed", event)
        except TimeoutError:
            assert clock.expired()
            self._close("TIMED_OUT", "ExecutionTimedOut", {})
        else:
            self._close("SUCCEEDED", "ExecutionSucceeded", {"output": json.dumps(output)})

    def wake(self, token: str) -> None:
        """Take the answer to this token."""
        if token in self._answers:
            self._answers[token].set()

    def _close(self, status: str, kind: str, outcome: Mapping[str, Any]) -> None:
        fields = {name: value for name, value in outcome.items() if value is not None}
        details = f"{kind[0].lower()}{kind[1:]}EventDetails"
        self._records.close(self.record.arn, status, [{"type": kind, details: fields}], **fields)

    async def _walk(self, program: Program, path: str, data: Any, item: Mapping[str, Any]) -> Any:
        """Return the output of a program or a branch. `item`: the context that a Map gives its branch."""
        frame = self._frames.get(path)
        if frame is None:
            frame = Frame(path, program["StartAt"], data, entered=time.time())
            first_events = [{"type": "ExecutionStarted"}] if path == "" else []
            self._save(frame, [*first_events, _enter_event(program, frame)], is_transition=True)
        while not frame.is_over:
            state = program["States"][frame.state]
            next_state, output = await self._carry_out(frame, state, item)
            events = [_exited(state, frame, output)]
            frame = Frame(path, next_state or frame.state, output, entered=time.time())
            frame.is_over = next_state is None
            self._save(
                frame,
                events if frame.is_over else [*events, _enter_event(program, frame)],
                is_transition=True,
            )
        return frame.data

    def _save(self, frame: Frame, events: list[dict[str, Any]], *, is_transition: bool) -> None:
        self._frames[frame.path] = frame
        if is_transition:
            for path in [each for each in self._frames if each.startswith(f"{frame.path}/")]:
                del self._frames[path]
        self._records.save(self.record.arn, frame, events, is_transition=is_transition)

    async def _carry_out(
        self, frame: Frame, state: State, item: Mapping[str, Any]
    ) -> tuple[str | None, Any]:
        """Return the next state (None: none) and its input."""
        while True:
            try:
                next_state, output = await self._once(frame, state, item)
                if len(json.dumps(output)) > MAX_DATA:
                    raise StateFailed(
                        "States.DataLimitExceeded",
                        f"The state '{frame.state}' returned more than {MAX_DATA} bytes",
                    )
                return next_state, output
            except StateFailed as error:
                if await self._is_retried(frame, state, error):
                    continue
                for catcher in state.get("Catch", ()):
                    if error.is_named(catcher["ErrorEquals"]):
                        path = catcher.get("ResultPath", "$")
                        return catcher["Next"], place_result(path, frame.data, error.output())
                raise

    async def _is_retried(self, frame: Frame, state: State, error: StateFailed) -> bool:
        for index, retrier in enumerate(state.get("Retry", ())):
            if not error.is_named(retrier["ErrorEquals"]):
                continue
            retries = frame.attempts.get(str(index), 0)
            if retries >= retrier.get("MaxAttempts", 3):
                return False
            delay = retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2.0) ** retries
            delay = min(delay, retrier.get("MaxDelaySeconds", delay))
            if retrier.get("JitterStrategy") == "FULL":
                delay = random.uniform(0, delay)
            attempts = {**frame.attempts, str(index): retries + 1}
            again = Frame(frame.path, frame.state, frame.data, attempts, frame.entered)
            vars(frame).update(vars(again))
            self._save(frame, [], is_transition=True)
            await asyncio.sleep(delay)
            return True
        return False

    async def _once(
        self, frame: Frame, state: State, item: Mapping[str, Any]
    ) -> tuple[str | None, Any]:
        kind, next_state = state["Type"], state.get("Next")
        context = self._context(frame, item)
        path = state.get("InputPath", "$")
        data = {} if path is None else read_path(path, frame.data, context)
        match kind:
            case "Fail":
                raise StateFailed(state.get("Error"), state.get("Cause"))
            case "Choice":
                return _choose(state, data, context), data
            case "Succeed":
                return None, data
            case "Wait":
                await self._wait(frame, state, data, context)
                return next_state, data
            case "Pass":
                parameters = fill_template(state.get("Parameters", data), data, context)
                result = state.get("Result", parameters)
            case "Task":
                result = await self._run_task(frame, state, data, context)
            case "Map":
                result = await self._run_map(frame, state, data, context)
            case "Parallel":
                result = await self._run_branches(frame, state, data, context)
            case _:
                raise StateFailed("States.Runtime", f"States of the type {kind} are not run here")
        if "ResultSelector" in state:
            result = fill_template(state["ResultSelector"], result, context)
        output = place_result(state.get("ResultPath", "$"), data, result)
        path = state.get("OutputPath", "$")
        return next_state, {} if path is None else read_path(path, output, context)

    def _context(self, frame: Frame, item: Mapping[str, Any]) -> dict[str, Any]:
        record = self.record
        context: dict[str, Any] = {
            "Execution": {
                "Id": record.arn,
                "Name": record.name,
                "StartTime": _time(record.started),
                "Input": json.loads(record.input),
                "RoleArn": "arn:aws:iam::123456789012:role/layover",
            },
            "StateMachine": {"Id": record.machine, "Name": record.machine.rsplit(":", 1)[-1]},
            "State": {
                "Name": frame.state,
                "EnteredTime": _time(frame.entered),
                "RetryCount": sum(frame.attempts.values()),
            },
        }
        return {**context, **({"Map": {"Item": item}} if item else {})}

    async def _wait(self, frame: Frame, state: State, data: Any, context: Any) -> None:
        if frame.deadline is None:
            if "Timestamp" in state or "TimestampPath" in state:
                at = state.get("Timestamp") or read_path(state["TimestampPath"], data, context)
                frame.deadline = datetime.fromisoformat(at).timestamp()
            else:
                frame.deadline = time.time() + _seconds(state, "Seconds", data, context, 0)
            self._save(frame, [], is_transition=False)
        await asyncio.sleep(max(0.0, frame.deadline - time.time()))

    async def _run_task(self, frame: Frame, state: State, data: Any, context: Any) -> Any:
        resource = str(state["Resource"])
        limit = _seconds(state, "TimeoutSeconds", data, context, None)
        if not resource.endswith(_WAITS):
            parameters = fill_template(state.get("Parameters", data), data, context)
            try:
                async with asyncio.timeout(limit):
                    return await self._task(resource, parameters)
            except TimeoutError:
                raise StateFailed("States.Timeout") from None
        if frame.token is None:
            frame.token = str(uuid.uuid4())
            frame.deadline = None if limit is None else time.time() + limit
            self._save(frame, [], is_transition=False)
        context["Task"] = {"Token": frame.token}
        try:
            async with asyncio.timeout(frame.deadline and frame.deadline - time.time()):
                if not frame.is_delivered:
                    parameters = fill_template(state.get("Parameters", data), data, context)
                    await self._task(resource.removesuffix(_WAITS), parameters)
                    frame.is_delivered = True
                    self._save(frame, [], is_transition=False)
                return await self._answer(frame.token)
        except TimeoutError:
            self._records.retire(frame.token)
            # An answer that came before the token was retired counts.
            if self._records.outcome(frame.token) is not None:
                return await self._answer(frame.token)
            raise StateFailed("States.Timeout") from None

    async def _answer(self, token: str) -> Any:
        """Return the answer to the token. Raises StateFailed."""
        event = self._answers.setdefault(token, asyncio.Event())
        try:
            while (outcome := self._records.outcome(token)) is None:
                event.clear()
                await event.wait()
        finally:
            self._answers.pop(token, None)
        if "output" in outcome:
            return json.loads(outcome["output"])
        raise StateFailed(outcome.get("error"), outcome.get("cause"))

    async def _run_map(self, frame: Frame, state: State, data: Any, context: Any) -> list[Any]:
        items = read_path(state.get("ItemsPath", "$"), data, context)
        if not isinstance(items, list):
            raise StateFailed("States.Runtime", "ItemsPath must lead to an array")
        most = state.get("MaxConcurrency", 0)
        if "MaxConcurrencyPath" in state:
            most = read_path(state["MaxConcurrencyPath"], data, context)
        gate = asyncio.Semaphore(most or max(1, len(items)))
        program = state.get("ItemProcessor") or state["Iterator"]
        selector = state.get("ItemSelector") or state.get("Parameters")

        async def branch(index: int, value: Any) -> Any:
            item = {"Index": index, "Value": value}
            branch_context = {**context, "Map": {"Item": item}}
            branch_input = (
                value if selector is None else fill_template(selector, data, branch_context)
            )
            async with gate:
                return await self._walk(program, f"{frame.path}/{index}", branch_input, item)

        return await _together([branch(index, value) for index, value in enumerate(items)])

    async def _run_branches(self, frame: Frame, state: State, data: Any, context: Any) -> list[Any]:
        branch_input = (
            fill_template(state["Parameters"], data, context) if "Parameters" in state else data
        )
        item = context.get("Map", {}).get("Item", {})
        return await _together(
            [
                self._walk(program, f"{frame.path}/{index}", branch_input, item)
                for index, program in enumerate(state["Branches"])
            ]
        )


async def _together(branches: list[Any]) -> list[Any]:
    """All outputs in order. The first that fails ends the others."""
    tasks = [asyncio.ensure_future(each) for each in branches]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _choose(state: State, data: Any, context: Any) -> str:
    for rule in state["Choices"]:
        if holds(rule, data, context):
            return str(rule["Next"])
    if "Default" in state:
        return str(state["Default"])
    raise StateFailed("States.NoChoiceMatched", "No choice holds, and there is no default")


def _seconds(state: State, name: str, data: Any, context: Any, default: float | None) -> Any:
    if f"{name}Path" in state:
        return evaluate(state[f"{name}Path"], data, context)
    return state.get(name, default)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _enter_event(program: Program, frame: Frame) -> dict[str, Any]:
    kind = program["States"][frame.state]["Type"]
    details = {"name": frame.state, "input": json.dumps(frame.data)}
    return {"type": f"{kind}StateEntered", "stateEnteredEventDetails": details}


def _exited(state: State, frame: Frame, output: Any) -> dict[str, Any]:
    details = {"name": frame.state, "output": json.dumps(output)}
    return {"type": f"{state['Type']}StateExited", "stateExitedEventDetails": details}
