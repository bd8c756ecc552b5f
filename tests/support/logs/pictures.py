"""What each place shows of a recorded log, in one form, and what the log says itself.

It is read back from the chunks of the AI SDK, the events of AG-UI, the lines of the terminal and the blocks
of the console."""

import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from layover.desk.cli.chat.answer import Answer
from layover.desk.cli.chat.calls import signature
from layover.plugins.fronts.protocols.ag_ui import AgUiRun
from layover.plugins.fronts.protocols.ui_messages import UiMessage, approval_of
from support.logs import FOLDER, LOGS, Json, Log

EVENTS_JS = Path(__file__).parents[3] / "functions/api/console/page/events.js"
LIMIT_S = 60


@dataclass
class ShownCall:
    """A call, as far as the place shows it. `inputs`: its arguments, each time that they were shown."""

    name: str = ""
    inputs: list[Any] = field(default_factory=list)
    has_result: bool = False
    result: Any = None
    is_error: bool | None = None
    """None where the place does not tell."""


@dataclass
class Picture:
    """What a place shows of a run, or what the run's log says: of texts and thoughts only the run's own."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: dict[str, ShownCall] = field(default_factory=lambda: defaultdict(ShownCall))
    waiting: set[str] = field(default_factory=set)
    attempts: dict[str, int] = field(default_factory=dict)
    """The attempt at which each waiting call is shown."""
    status: str | None = None
    """None while the run is not over."""
    error: str | None = None
    unknown: list[Json] = field(default_factory=list)


def _is_own(event: Json) -> bool:
    return not event.get("parent_tool_call_id")


def truth(log: Log) -> Picture:
    """Return what the log says, told by its finished messages and the ends of its calls."""
    picture = Picture()
    for event in log.items:
        kind = event["type"]
        if kind == "message" and _is_own(event) and event["message"]["role"] == "assistant":
            for part in event["message"]["content"]:
                if part["type"] == "text":
                    picture.texts.append(part["text"])
                elif part["type"] == "reasoning":
                    picture.thoughts.append(part["text"])
        elif kind in ("tool-execution-start", "tool-call-suspended"):
            call = picture.calls[event["tool_call_id"]]
            call.name = event["tool_name"]
            if event["args"] not in call.inputs:
                call.inputs.append(event["args"])
            if kind == "tool-call-suspended":
                picture.waiting.add(event["tool_call_id"])
                picture.attempts[event["tool_call_id"]] = event["attempt"]
        elif kind == "tool-call-decided":
            picture.waiting.discard(event["tool_call_id"])
            del picture.attempts[event["tool_call_id"]]
        elif kind == "tool-execution-end":
            call = picture.calls[event["tool_call_id"]]
            call.name, call.has_result = event["tool_name"], True
            call.result, call.is_error = event["result"], event["is_error"]
        elif kind == "error":
            picture.error = event["error"]["message"]
        elif kind == "finish":
            picture.status = event["status"]
        elif kind in UNKNOWN:
            picture.unknown.append(event)
    for id, args in asked_args(log).items():
        if id in picture.calls and not picture.calls[id].inputs:
            picture.calls[id].inputs.append(args)
    return picture


UNKNOWN = ("approval-delegated", "forked")
"""Types of the recorded events that this version does not know."""


def asked_args(log: Log) -> dict[str, Any]:
    """Return the arguments of calls as the model asked for them, by id."""
    messages = [event["message"] for event in log.items if event["type"] == "message"]
    parts = [part for message in messages for part in message["content"]]
    return {p["tool_call_id"]: p["args"] for p in parts if p["type"] == "tool_call"}


def calls_of_answer(log: Log) -> set[str]:
    """Return the calls that an answer to a user shows: the run's own, and those of sub-agents that waited."""
    kinds = ("tool-execution-start", "tool-execution-end")
    return {
        event["tool_call_id"]
        for event in log.items
        if event["type"] == "tool-call-suspended" or (event["type"] in kinds and _is_own(event))
    }


def background_results(log: Log) -> dict[str, Any]:
    """Return the results that notices tell of calls in the background, by the call's id."""
    messages = [event["message"] for event in log.items if event["type"] == "message"]
    parts = [part for message in messages for part in message["content"]]
    notices = [part["data"] for part in parts if part.get("name") == "background-result"]
    return {notice["tool_call_id"]: notice["result"] for notice in notices}


def voided(log: Log) -> list[str]:
    """Return the texts of steps that began again: what came in pieces before, and is in no message."""
    found: list[str] = []
    step, text = None, ""
    for event in filter(_is_own, log.items):
        if event["type"] == "turn-start":
            if event["step"] == step and text:
                found.append(text)
            step, text = event["step"], ""
        elif event["type"] == "text-delta":
            text += event["text"]
    return found


def ui_message(log: Log) -> tuple[Picture, list[Json]]:
    """Return what `useChat` shows, and the chunks that it reads."""
    message = UiMessage(log.run_id, "t1")
    chunks = [chunk for event in log.events for chunk in message.chunks(event)]
    if not any(chunk["type"] == "finish" for chunk in chunks):
        chunks += message.rest()
    return of_chunks(chunks), chunks


def of_chunks(chunks: Iterable[Json]) -> Picture:
    """Return what a message of these chunks shows."""
    picture = Picture()
    texts: dict[str, list[str]] = {}
    for chunk in chunks:
        kind = chunk["type"]
        call = picture.calls[chunk["toolCallId"]] if "toolCallId" in chunk else ShownCall()
        if kind in ("text-start", "reasoning-start"):
            is_text = kind == "text-start"
            texts[chunk["id"]] = picture.texts if is_text else picture.thoughts
            texts[chunk["id"]].append("")
        elif kind in ("text-delta", "reasoning-delta"):
            texts[chunk["id"]][-1] += chunk["delta"]
        elif kind == "tool-input-available":
            call.name = chunk["toolName"]
            call.inputs.append(chunk["input"])
        elif kind == "tool-approval-request":
            picture.waiting.add(chunk["toolCallId"])
            approval = approval_of(chunk["approvalId"])
            picture.attempts[chunk["toolCallId"]] = approval.attempt if approval else 0
        elif kind == "data-layover-pending":
            if "decision" in chunk["data"]:
                picture.waiting.discard(chunk["id"])
            else:
                picture.waiting.add(chunk["id"])
                picture.attempts[chunk["id"]] = chunk["data"]["attempt"]
        elif kind.startswith("tool-output-"):
            picture.waiting.discard(chunk["toolCallId"])
            call.has_result, call.is_error = True, kind != "tool-output-available"
            call.result = chunk.get("output", chunk.get("errorText"))
        elif kind == "error":
            picture.error = chunk["errorText"]
        elif kind == "finish":
            picture.status = chunk.get("messageMetadata", {}).get("status")
        elif kind == "data-layover-event":
            picture.unknown.append(chunk["data"])
    return picture


def ag_ui(log: Log) -> tuple[Picture, list[Json]]:
    """Return what an AG-UI client shows, and the events that it reads."""
    run = AgUiRun("t1", "r1", log.run_id)
    events = [said for event in log.events for said in run.events(event)]
    if not any(event["type"] in ("RUN_FINISHED", "RUN_ERROR") for event in events):
        events += run.rest()
    return of_ag_ui(events), events


def of_ag_ui(events: Iterable[Json]) -> Picture:
    """Return what these events show."""
    picture = Picture()
    for event in events:
        kind = event["type"]
        call = picture.calls[event["toolCallId"]] if "toolCallId" in event else ShownCall()
        if kind in ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START"):
            (picture.texts if kind.startswith("TEXT") else picture.thoughts).append("")
        elif kind in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            (picture.texts if kind.startswith("TEXT") else picture.thoughts)[-1] += event["delta"]
        elif kind == "TOOL_CALL_START":
            call.name = event["toolCallName"]
        elif kind == "TOOL_CALL_ARGS":
            call.inputs.append(json.loads(event["delta"]))
        elif kind == "TOOL_CALL_RESULT":
            call.has_result, call.result = True, event["content"]
        elif kind == "RUN_FINISHED":
            outcome = event["outcome"]
            asked = [approval_of(each["id"]) for each in outcome.get("interrupts", ())]
            picture.attempts = {each.tool_call_id: each.attempt for each in asked if each}
            picture.waiting = set(picture.attempts)
            picture.status = None if outcome["type"] == "interrupt" else outcome["type"]
        elif kind == "RUN_ERROR":
            picture.status, picture.error = "failed", event["message"]
        elif kind == "CUSTOM" and event["name"] == "layover-event":
            picture.unknown.append(event["value"])
    return picture


class Screen:
    """A terminal that keeps what it is told. `lines`: its notes; `texts`: its answers."""

    interactive = True

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.texts: list[str] = [""]

    def read(self, prompt: str, text: str = "") -> str | None:
        """As `Terminal.read`."""
        raise AssertionError("nothing is asked here")

    def write(self, text: str) -> None:
        """As `Terminal.write`."""
        self.texts[-1] += text

    def end(self) -> None:
        """As `Terminal.end`."""
        if self.texts[-1]:
            self.texts.append("")

    def note(self, text: str, style: str = "dim") -> None:
        """As `Terminal.note`."""
        self.end()
        self.lines.append(text)


def terminal(log: Log) -> tuple[Picture, list[list[str]]]:
    """Return what `layover chat` shows, and the lines that each event added."""
    screen = Screen()
    answer, picture, added = Answer(screen), Picture(), []
    for event in log.items:
        before = len(screen.lines)
        answer.show(event)
        lines = screen.lines[before:]
        added.append(lines)
        bare = [line.rpartition(" > ")[2] for line in lines]
        if event["type"] == "tool-execution-start":
            call = picture.calls[event["tool_call_id"]]
            call.name = bare[0].removeprefix("-> ").partition("(")[0]
            call.inputs.append(bare[0].removeprefix("-> "))
        elif event["type"] == "tool-execution-end":
            call = picture.calls[event["tool_call_id"]]
            mark, _, text = bare[0].partition(" ")
            call.has_result, call.is_error, call.result = True, mark == "failed", json.loads(text)
        elif event["type"] == "error":
            picture.error = bare[0].partition(": ")[2]
        elif event["type"] in UNKNOWN:
            picture.unknown.append(
                json.loads(bare[0].partition(" ")[2]) | {"type": bare[0].split()[0]}
            )
    picture.texts = [text for text in screen.texts if text]
    for id, pending in answer.waiting.items():
        picture.waiting.add(id)
        picture.attempts[id] = pending["attempt"]
        picture.calls[id].name = pending["tool_name"]
        picture.calls[id].inputs.append(signature(pending))
    picture.status = answer.status or None
    return picture, added


@cache
def console() -> tuple[dict[str, Picture], Any]:
    """Return what the console shows of each log, by its name, and what its script printed. None of it where
    there is no node."""
    node = shutil.which("node")
    if node is None:
        return {}, None
    with TemporaryDirectory() as folder:
        module = Path(folder) / "events.mjs"
        module.write_text(EVENTS_JS.read_text())
        run = subprocess.run(
            [node, str(FOLDER / "console.mjs"), str(module)],
            input=json.dumps([log.items for log in LOGS]),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert run.returncode == 0, run.stderr
    printed = json.loads(run.stdout)
    return {
        log.name: _of_console(shown) for log, shown in zip(LOGS, printed["pictures"], strict=True)
    }, printed


OVER = ("done", "failed", "denied", "expired", "cancelled")
"""States in which the console shows a call that has ended."""


def _of_console(shown: Json) -> Picture:
    picture = Picture(
        texts=shown["texts"],
        thoughts=shown["thoughts"],
        waiting=set(shown["waiting"]),
        attempts=shown["attempts"],
        status=shown["status"],
        error=shown["error"],
        unknown=shown["unknown"],
    )
    for id, call in shown["calls"].items():
        is_over = call["status"] in OVER
        is_error = call["status"] != "done" if is_over else None
        picture.calls[id] = ShownCall(
            call["name"], [call["args"]], is_over, call["result"], is_error
        )
    return picture


PLACES: dict[str, Callable[[Log], Picture]] = {
    "AI SDK": lambda log: ui_message(log)[0],
    "AG-UI": lambda log: ag_ui(log)[0],
    "terminal": lambda log: terminal(log)[0],
    "console": lambda log: console()[0][log.name],
}
"""What shows events, by name."""
