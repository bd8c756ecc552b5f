"""`layover demo`: one conversation with a fresh, complete system, which checks every step.

A worker thread holds the conversation. Like any other client, it knows only the system's URL."""

import asyncio
import json
import logging
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from rich.console import Console
from rich.text import Text

from layover.desk import shipped
from layover.desk.cli.client import Api, ApiError
from layover.desk.local.aws.access_key import AccessKey
from layover.desk.local.aws.clients import make_client
from layover.desk.local.http.server import PortInUse
from layover.desk.local.postgres_data import PostgresFailed
from layover.desk.local.runner import Runner, RunnerFailed
from layover.desk.local.settings import Settings
from layover.values.text import reveal

T = TypeVar("T")
Json = dict[str, Any]

# A real model may think for a while; the stand-in answers at once.
_TIMEOUT_S = 60.0
_LONG_POLL_S = 5
_GLANCE_S = 0.05
_FAULT = "My walnut lamp flickers whenever I dim it below 30 percent. It is order A-1001."
_SYMPTOM = "flicker"
_APPROVED_RUN = ("Turn", "AwaitDecision", "TurnWithAnswer", "Extract")


class StepFailed(Exception):
    """A step did not show what it should; the text says which, and how."""


def main() -> int:
    """Start, talk, stop. Return 0 if every step held, else print the step that failed and return 1."""
    # The interpreter of state machines logs pages about every state that is stopped.
    logging.getLogger("moto").setLevel(logging.CRITICAL)
    return asyncio.run(_demo(Console(highlight=False)))


async def _demo(console: Console) -> int:
    task = asyncio.current_task()
    assert task is not None
    is_over = threading.Event()

    def interrupt() -> None:
        """Interrupt once, and not the work after the talk: a clean-up that is cut short leaves processes
        behind."""
        if not (is_over.is_set() or task.cancelling()):
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt)
    data = Path(tempfile.mkdtemp(prefix="layover-demo-"))
    try:
        await _conversation(console, data, is_over)
    except asyncio.CancelledError:
        console.print("interrupted")
        code = 1
    except (StepFailed, RunnerFailed, PostgresFailed, PortInUse) as error:
        console.print(Text(f"\nFAILED: {error}\nlogs: {data / 'logs'}"), soft_wrap=True)
        return 1
    else:
        console.print("\nEvery step held.", style="bold green")
        code = 0
    shutil.rmtree(data, ignore_errors=True)
    return code


async def _conversation(console: Console, data: Path, is_over: threading.Event) -> None:
    console.print("Starting a fresh system ...", style="dim")
    # The examples, whatever the environment serves, because the conversation is about them.
    settings = Settings(
        port=0, agents="user_agents", data=data, agents_folder=shipped.SHIPPED.examples
    )
    async with Runner(settings) as runner:
        for notice in runner.notices:
            console.print(notice, style="dim", markup=False, soft_wrap=True)
        console.print(f"ready {runner.url}", style="dim", markup=False, soft_wrap=True)
        try:
            failed = await asyncio.to_thread(_talk, runner.url, console, is_over)
        finally:
            is_over.set()
    if failed:
        raise StepFailed(failed)


def _talk(url: str, console: Console, is_over: threading.Event) -> str:
    """Return the problem, or "". It is not raised, because after an interrupt no caller listens."""
    try:
        Conversation(url, console, is_over).hold()
    except (StepFailed, ApiError) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


class Conversation:
    """The steps of the demo, in order. `is_over` is set when the demo stops waiting for them."""

    def __init__(self, url: str, console: Console, is_over: threading.Event) -> None:
        self._api = Api(url, "dev:ada", _TIMEOUT_S)
        self._console = console
        self._is_over = is_over
        self._services: Json = self._api.get("/_local/services")
        self._last_seqs: dict[str, int] = {}

    def hold(self) -> None:
        """Raise StepFailed at the first step that does not hold."""
        first = self._new_thread("A tool call")
        self._tool_call(first)
        self._heading("A refund above 50 euros: the run suspends until a person approves it")
        self._approval(first)
        self._heading("A booking, decided at Step Functions with the task token of an event")
        self._token(first)
        self._heading("A fault that is told in passing, and what is learned of it")
        self._check_learning(first)
        second = self._new_thread("A second thread, which recalls the first")
        self._second_thread(first, second)
        self._heading("Threads")
        self._titles(first, second)

    def _tool_call(self, thread: str) -> None:
        run = self._ask(thread, "Where is my order A-1002?")
        over = self._follow(run)
        _check(over["status"] == "success", f"the run ended as {over['status']}")
        tools = [part["tool_name"] for part in _parts(over, "tool_call")]
        _check("lookup_order" in tools, f"the model called {tools or 'no tool'}")
        _check(bool(over["text"]), "the run has no answer")

    def _approval(self, thread: str) -> None:
        run = self._ask(thread, "Please refund 60 euros for order A-1003.")
        waiting = self._suspended(run, "refund")
        approvals = self._api.get("/approvals", thread_id=thread)["items"]
        _check([p["run_id"] for p in approvals] == [run], "the request is not in GET /approvals")
        approve = f"/runs/{run}/tool-calls/{waiting['tool_call_id']}/approve"
        self._note(f"POST {approve}")
        self._api.post(approve, attempt=waiting["attempt"], reason="the customer is right")
        over = self._follow(run)
        _check(over["status"] == "success", f"the resumed run ended as {over['status']}")
        results = _parts(over, "tool_result")
        refunded = [r for r in results if r["tool_name"] == "refund" and not r["is_error"]]
        _check(len(refunded) == 1, f"the refund did not happen once: {results}")
        self._history(run)

    def _token(self, thread: str) -> None:
        day = (datetime.now(UTC) + timedelta(days=7)).date()
        run = self._ask(thread, f"Book a table for 4 people on {day}.")
        waiting = self._suspended(run, "book_table")
        slot = waiting["payload"]["slots"][0]
        token = self._eventually(lambda: self._published_token(run), "ApprovalRequested of the run")
        output = json.dumps({"data": {"slot": slot}})
        self._note(f"states:SendTaskSuccess, token {token[:8]}..., output {output}")
        self._step_functions().send_task_success(taskToken=token, output=output)
        over = self._follow(run)
        _check(over["status"] == "success", f"the resumed run ended as {over['status']}")
        booked = [r["result"] for r in _parts(over, "tool_result") if not r["is_error"]]
        _check([b["slot"] for b in booked] == [slot], f"booked was {booked}")

    def _check_learning(self, thread: str) -> None:
        over = self._follow(self._ask(thread, _FAULT))
        _check(over["status"] == "success", f"the run ended as {over['status']}")
        entries = self._eventually(self._entries, "an entry of episodic memory")
        for entry in entries:
            self._note(f"learned: {entry['content']}")
            _check(entry["thread_id"] == thread, "an entry is of another thread")

    def _entries(self) -> list[Json]:
        entries: list[Json] = self._api.get("/memory/entries", agent="support")["items"]
        return [entry for entry in entries if _SYMPTOM in entry["content"].lower()]

    def _second_thread(self, first: str, thread: str) -> None:
        over = self._follow(self._ask(thread, "What did I tell you about my lamp?"))
        _check(over["status"] == "success", f"the run ended as {over['status']}")
        _check(_SYMPTOM in over["text"].lower(), f"it recalls nothing of {first}")
        messages = self._api.get(f"/threads/{thread}/messages", limit=100)["items"]
        runs = {message["run_id"] for message in messages}
        _check(runs == {over["id"]}, "the second thread shows messages of another")

    def _titles(self, *threads: str) -> None:
        def threads_once_titled() -> list[Json]:
            threads_with_titles: list[Json] = self._api.get("/threads")["items"]
            return (
                threads_with_titles
                if all(thread["title"] for thread in threads_with_titles)
                else []
            )

        threads_with_titles = self._eventually(threads_once_titled, "titles of all threads")
        _check(
            {t["id"] for t in threads_with_titles} == set(threads),
            "GET /threads lists other threads",
        )
        for thread in threads_with_titles:
            self._say("", f"{thread['id']}  {thread['title']}")

    def _new_thread(self, heading: str) -> str:
        self._heading(heading)
        return str(self._api.post("/threads", agent="support")["id"])

    def _ask(self, thread: str, text: str) -> str:
        self._say("ada", text)
        return str(self._api.post(f"/threads/{thread}/runs", input=text)["id"])

    def _suspended(self, run: str, tool: str) -> Json:
        """Return the run's one waiting call, after the events until it waited."""
        state = self._follow(run)
        _check(state["status"] == "suspended", f"the run is {state['status']}, not suspended")
        (waiting,) = state["pending"]
        _check(waiting["tool_name"] == tool, f"{waiting['tool_name']} waits, not {tool}")
        return dict(waiting)

    def _follow(self, run: str) -> Json:
        """Print the run's events until it is over or waits; return the run."""
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            after = self._last_seqs.get(run, 0)
            page = self._api.get(f"/runs/{run}/events", after=after, wait=_LONG_POLL_S)
            self._last_seqs[run] = page["last_seq"]
            for event in page["items"]:
                for line in _lines(event):
                    self._note(line)
            waits = page["items"] and page["items"][-1]["type"] == "tool-call-suspended"
            if page["done"] or waits:
                return self._end_of(run)
        raise StepFailed(f"run {run} neither ended nor suspended in {_TIMEOUT_S:.0f} s")

    def _end_of(self, run: str) -> Json:
        state: Json = self._api.get(f"/runs/{run}")
        if state["status"] == "success":
            self._say("support", state["text"])
        elif state["error"]:
            raise StepFailed(f"run {run} failed: {state['error']}")
        return state

    def _published_token(self, run: str) -> str:
        events = [
            event["detail"]
            for event in self._api.get(urlsplit(self._services["events"]).path)
            if event["source"] == "layover" and event["detail_type"] == "ApprovalRequested"
        ]
        return next((str(e["task_token"]) for e in events if e["run_id"] == run), "")

    def _history(self, run: str) -> None:
        """The states that the run's execution went through, once it is through."""
        client = self._step_functions()
        machine = self._services["state_machine_arn"]

        def execution_arn() -> str:
            executions = client.list_executions(stateMachineArn=machine)["executions"]
            done = (
                e for e in executions if e["status"] == "SUCCEEDED" and e["name"].startswith(run)
            )
            return next((e["executionArn"] for e in done), "")

        arn = self._eventually(execution_arn, "the end of the run's execution")
        events = client.get_execution_history(executionArn=arn, maxResults=1000)["events"]
        entries = (event.get("stateEnteredEventDetails") for event in events)
        names = [details["name"] for details in entries if details]
        self._note("execution: " + " > ".join(names))
        _check(_in_order(_APPROVED_RUN, names), f"the execution's states were {names}")

    def _step_functions(self) -> Any:
        services = self._services
        key = AccessKey(services["access_key_id"], services["secret_access_key"])
        return make_client("stepfunctions", services["endpoint_url"], key)

    def _eventually(self, look: Callable[[], T], what: str) -> T:
        """Return the result of `look` as soon as it has one. Raises StepFailed."""
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            if result := look():
                return result
            if self._is_over.wait(_GLANCE_S):
                raise StepFailed(f"interrupted before {what} came")
        raise StepFailed(f"{what} did not come in {_TIMEOUT_S:.0f} s")

    def _heading(self, text: str) -> None:
        self._print(Text(f"\n{text}", "bold"))

    def _say(self, who: str, text: str) -> None:
        indented = reveal(text).replace("\n\n", "\n").replace("\n", "\n    ")
        self._print(Text.assemble("  ", (f"{who}: " if who else "", "bold cyan"), indented))

    def _note(self, text: str) -> None:
        self._print(Text(f"    {reveal(text)}", "dim"))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _lines(event: Json) -> Iterator[str]:
    """Return the lines about an event."""
    kind = event["type"]
    if kind == "tool-execution-start":
        yield f"tool call: {event['tool_name']}({_show_value(event['args'])})"
    elif kind == "tool-execution-end":
        yield f"result: {_show_value(event['result'])}"
    elif kind == "tool-call-suspended":
        summary = f": {event['summary']}" if event.get("summary") else ""
        yield f"suspended: {event['tool_name']} waits for {event['kind']}{summary}"
        yield f"request: {_show_value(event['payload'])}"
    elif kind == "tool-call-decided":
        yield f"{event['decision']} by {event['decided_by']}: the run resumes"


def _show_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = ((name, _show_value(v), isinstance(v, dict)) for name, v in value.items())
    return ", ".join(f"{name}=({v})" if nested else f"{name}={v}" for name, v, nested in inner)


def _parts(run: Json, kind: str) -> list[Json]:
    parts = (part for message in run["messages"] for part in message["content"])
    return [part for part in parts if part["type"] == kind]


def _in_order(expected_names: tuple[str, ...], names: list[str]) -> bool:
    rest = iter(names)
    return all(name in rest for name in expected_names)


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise StepFailed(otherwise)
