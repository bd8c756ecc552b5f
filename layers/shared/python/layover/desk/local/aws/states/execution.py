"""One execution: it walks from state to state, and records each state before it does anything there.

The record is what a death leaves: the next runner finds the execution in the state that it was in, with its
retries, its deadline and its task token, and carries that state out again."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from layover.desk.local.aws.states.choices import holds
from layover.desk.local.aws.states.errors import StateFailed
from layover.desk.local.aws.states.paths import fill_template, place_result, read_path
from layover.desk.local.aws.states.records import Frame, Record, Records
from layover.ports import Dice

State = Mapping[str, Any]
Program = Mapping[str, Any]
Task = Callable[[str, Any], Awaitable[Any]]
"""A resource and its parameters -> its result. Raises StateFailed."""

MAX_DATA = 262_144
"""Bytes of JSON that a state may take or give (docs/aws-facts.md#step-functions)."""
_WAITS = ".waitForTaskToken"


@dataclass(frozen=True)
class _Visit:
    """An execution in a state: its position, the state's definition, the input that InputPath leaves, and the
    context object (`$$`)."""

    frame: Frame
    state: State
    data: Any
    context: dict[str, Any]

    def read(self, path: str) -> Any:
        """Return the value at a path. Raises StateFailed."""
        return read_path(path, self.data, self.context)

    def parameters(self) -> Any:
        """Return what the state makes of its input. Raises StateFailed."""
        return fill_template(self.state.get("Parameters", self.data), self.data, self.context)

    def seconds(self, name: str, default: float | None = None) -> Any:
        """Return the value of a field `name`, or the value that `namePath` leads to."""
        if f"{name}Path" in self.state:
            return self.read(self.state[f"{name}Path"])
        return self.state.get(name, default)


class Execution:
    """Runs `record` from its frames, or from its start, until it is over or cancelled."""

    def __init__(
        self, record: Record, records: Records, task: Task, *, now: Callable[[], float], dice: Dice
    ) -> None:
        """`now`: the time in seconds since 1970."""
        self.record = record
        self._now = now
        self._dice = dice
        self._records = records
        self._task = task
        self._program: Program = json.loads(records.definition(record))
        self._frames = records.frames(record.arn)
        self._wakers: dict[str, asyncio.Event] = {}
        """Token -> what wakes the task that waits on it."""
        self._timers: set[asyncio.Timeout] = set()
        """Those of waits, and of tasks that wait for their tokens."""

    async def run(self) -> None:
        """Run until the end, and record it."""
        # From the start, whatever the number of runners since: the limit is the execution's, not this
        # process's.
        limit = self._program.get("TimeoutSeconds")
        rest = None if limit is None else self.record.started + limit - self._now()
        try:
            async with asyncio.timeout(rest) as clock:
                output = await self._walk(self._program, "", json.loads(self.record.input), {})
        except StateFailed as error:
            details = error.output()
            event = {"error": details.get("Error"), "cause": details.get("Cause")}
            self._close("FAILED", "ExecutionFailed", event)
        except TimeoutError:
            # A time-out of a state has become a StateFailed, so this one can only be the execution's own.
            assert clock.expired()
            self._close("TIMED_OUT", "ExecutionTimedOut", {})
        else:
            self._close("SUCCEEDED", "ExecutionSucceeded", {"output": json.dumps(output)})

    def wake(self, token: str) -> None:
        """Look for the outcome of this token, if a task waits for it."""
        if token in self._wakers:
            self._wakers[token].set()

    def advance(self, seconds: float) -> None:
        """Let its waits, and the limits of tasks that wait for their tokens, end so much earlier."""
        for frame in self._frames.values():
            if frame.deadline is not None:
                frame.deadline -= seconds
                # In the store as well: a restart would otherwise wait until the time of before.
                self._save(frame, [], is_transition=False)
        for timer in self._timers:
            end = timer.when()
            if end is not None:
                timer.reschedule(end - seconds)

    @asynccontextmanager
    async def _within(self, seconds: float | None) -> AsyncIterator[None]:
        """Raise TimeoutError after so many seconds (None: never), or when `advance` has taken the rest."""
        async with asyncio.timeout(seconds) as timer:
            self._timers.add(timer)
            try:
                yield
            finally:
                self._timers.discard(timer)

    def _close(self, status: str, kind: str, outcome: Mapping[str, Any]) -> None:
        fields = {name: value for name, value in outcome.items() if value is not None}
        details = f"{kind[0].lower()}{kind[1:]}EventDetails"
        self._records.close(self.record.arn, status, [{"type": kind, details: fields}], **fields)

    async def _walk(self, program: Program, path: str, data: Any, item: Mapping[str, Any]) -> Any:
        """Return the output of a program or a branch. `item`: the context that a Map gives its branch."""
        frame = self._frames.get(path)
        if frame is None:
            frame = Frame(path, program["StartAt"], data, entered=self._now())
            first_events = [{"type": "ExecutionStarted"}] if path == "" else []
            self._save(frame, [*first_events, _enter_event(program, frame)], is_transition=True)
        while not frame.is_over:
            state = program["States"][frame.state]
            next_state, output = await self._carry_out(frame, state, item)
            exited = {"name": frame.state, "output": json.dumps(output)}
            events = [{"type": f"{state['Type']}StateExited", "stateExitedEventDetails": exited}]
            frame = Frame(path, next_state or frame.state, output, entered=self._now())
            frame.is_over = next_state is None
            if not frame.is_over:
                events.append(_enter_event(program, frame))
            # The end of one state and the beginning of the next are one write: no death can leave the
            # execution between them.
            self._save(frame, events, is_transition=True)
        return frame.data

    def _save(self, frame: Frame, events: list[dict[str, Any]], *, is_transition: bool) -> None:
        self._frames[frame.path] = frame
        if is_transition:
            # The branches of the state that was left: the same state, entered again, begins new ones.
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
                # Inside the try, as on AWS: Retry and Catch may name the error.
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
                delay = self._dice.up_to(delay)
            attempts = {**frame.attempts, str(index): retries + 1}
            again = Frame(frame.path, frame.state, frame.data, attempts, frame.entered)
            # In place, because the caller goes on with this frame. The retry has no deadline and no token
            # yet: the old token is used up.
            vars(frame).update(vars(again))
            # Before the pause: a death in it gives the retrier no attempt back.
            self._save(frame, [], is_transition=True)
            await asyncio.sleep(delay)
            return True
        return False

    async def _once(
        self, frame: Frame, state: State, item: Mapping[str, Any]
    ) -> tuple[str | None, Any]:
        """Return the next state (None: none) and its input, of one attempt. Raises StateFailed."""
        next_state, context = state.get("Next"), self._context(item)
        path = state.get("InputPath", "$")
        data = {} if path is None else read_path(path, frame.data, context)
        visit = _Visit(frame, state, data, context)
        match kind := state["Type"]:
            case "Fail":
                raise StateFailed(state.get("Error"), state.get("Cause"))
            case "Choice":
                return _choose(visit), data
            case "Succeed":
                return None, data
            case "Wait":
                await self._wait(visit)
                return next_state, data
            case "Pass":
                result = state.get("Result", visit.parameters())
            case "Task":
                result = await self._run_task(visit)
            case "Map":
                result = await self._run_map(visit)
            case _:
                raise StateFailed("States.Runtime", f"States of the type {kind} are not run here")
        if "ResultSelector" in state:
            result = fill_template(state["ResultSelector"], result, context)
        output = place_result(state.get("ResultPath", "$"), data, result)
        path = state.get("OutputPath", "$")
        return next_state, {} if path is None else read_path(path, output, context)

    def _context(self, item: Mapping[str, Any]) -> dict[str, Any]:
        record = self.record
        context: dict[str, Any] = {"Execution": {"Id": record.arn, "Name": record.name}}
        return {**context, **({"Map": {"Item": item}} if item else {})}

    async def _wait(self, visit: _Visit) -> None:
        frame = visit.frame
        if frame.deadline is None:
            frame.deadline = self._now() + visit.seconds("Seconds", 0)
            # The time of its end, not the time left: a restart makes the wait no longer.
            self._save(frame, [], is_transition=False)
        with suppress(TimeoutError):
            async with self._within(max(0.0, frame.deadline - self._now())):
                await asyncio.Future()

    async def _run_task(self, visit: _Visit) -> Any:
        frame, resource = visit.frame, str(visit.state["Resource"])
        limit = visit.seconds("TimeoutSeconds")
        if not resource.endswith(_WAITS):
            try:
                async with asyncio.timeout(limit):
                    return await self._task(resource, visit.parameters())
            except TimeoutError:
                raise StateFailed("States.Timeout") from None
        if frame.token is None:
            frame.token = make_uuid(self._dice)
            frame.deadline = None if limit is None else self._now() + limit
            # Before the function gets it: the token may be answered before the function returns.
            self._save(frame, [], is_transition=False)
        visit.context["Task"] = {"Token": frame.token}
        try:
            async with self._within(frame.deadline and frame.deadline - self._now()):
                if not frame.is_delivered:
                    await self._task(resource.removesuffix(_WAITS), visit.parameters())
                    frame.is_delivered = True
                    # From here on a restart only waits. A death before this line invokes the function again,
                    # with the same token.
                    self._save(frame, [], is_transition=False)
                return await self._outcome_of(frame.token)
        except TimeoutError:
            self._records.retire(frame.token)
            # An answer that came before the token was retired counts: its caller was told that it does.
            if self._records.outcome(frame.token) is not None:
                return await self._outcome_of(frame.token)
            raise StateFailed("States.Timeout") from None

    async def _outcome_of(self, token: str) -> Any:
        """Return the answer to the token once it has come. Raises StateFailed."""
        waker = self._wakers.setdefault(token, asyncio.Event())
        try:
            # The store has the answer, and the event only wakes: so one that came before a restart, or before
            # this task waits, is found as well.
            while (outcome := self._records.outcome(token)) is None:
                waker.clear()
                await waker.wait()
        finally:
            self._wakers.pop(token, None)
        if "output" in outcome:
            return json.loads(outcome["output"])
        raise StateFailed(outcome.get("error"), outcome.get("cause"))

    async def _run_map(self, visit: _Visit) -> list[Any]:
        state = visit.state
        items = visit.read(state.get("ItemsPath", "$"))
        if not isinstance(items, list):
            raise StateFailed("States.Runtime", "ItemsPath must lead to an array")
        # 0 is Step Functions' word for no limit.
        gate = asyncio.Semaphore(state.get("MaxConcurrency", 0) or max(1, len(items)))
        program, selector = state["ItemProcessor"], state.get("ItemSelector")

        async def branch(index: int, value: Any) -> Any:
            item = {"Index": index, "Value": value}
            branch_context = {**visit.context, "Map": {"Item": item}}
            branch_input = (
                value if selector is None else fill_template(selector, visit.data, branch_context)
            )
            async with gate:
                return await self._walk(program, f"{visit.frame.path}/{index}", branch_input, item)

        return await _together([branch(index, value) for index, value in enumerate(items)])


async def _together(branches: list[Any]) -> list[Any]:
    """Return all outputs in order. The first branch that fails ends the others."""
    tasks = [asyncio.ensure_future(each) for each in branches]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        # Only when all have ended may the Map go on: a branch that still wrote would change a
        # state that was left.
        await asyncio.gather(*tasks, return_exceptions=True)


def _choose(visit: _Visit) -> str:
    for rule in visit.state["Choices"]:
        if holds(rule, visit.data, visit.context):
            return str(rule["Next"])
    if "Default" in visit.state:
        return str(visit.state["Default"])
    raise StateFailed("States.NoChoiceMatched", "No choice holds, and there is no default")


def make_uuid(dice: Dice) -> str:
    """Return a random UUID."""
    return str(UUID(int=dice.bits(128), version=4))


def _enter_event(program: Program, frame: Frame) -> dict[str, Any]:
    kind = program["States"][frame.state]["Type"]
    details = {"name": frame.state, "input": json.dumps(frame.data)}
    return {"type": f"{kind}StateEntered", "stateEnteredEventDetails": details}
