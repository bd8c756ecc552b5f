"""A run's events on a terminal."""

import json
from collections.abc import Mapping
from functools import singledispatchmethod
from typing import Any

from layover.desk.cli.chat.calls import MAX_SHOWN, count_line, preview, signature, vote_line
from layover.desk.cli.chat.terminal import Terminal
from layover.plugins.fronts.protocols import changes
from layover.plugins.fronts.protocols.changes import Change, FrameView
from layover.plugins.fronts.protocols.event_json import EventJson
from layover.plugins.fronts.protocols.run_view import RunView

Json = dict[str, Any]
FRAME = frozenset({"seq", "run_id", "at", "type", "agent_path", "parent_tool_call_id"})
"""Fields of every event, which a line about an unknown event leaves out."""

PASSED_OVER: dict[type[Change], str] = {
    changes.RunBegan: "the prompt is gone: a run has begun",
    changes.StepBegan: "steps follow each other without a line between them",
    changes.TextEnded: "the line ends where another one begins",
    changes.FileShown: "the result of the call that made the file names it",
    changes.DataShown: "named data is for applications",
    changes.CallAnnounced: "a call is shown once it runs, or waits for a person",
    changes.CallArgsGrew: "a call is shown once it runs, or waits for a person",
    changes.CallShown: "a call is shown once it runs, or waits for a person",
    changes.CallChanged: "a call that runs is shown with its arguments",
    changes.CallSuspended: "`waiting` has it, and the conversation asks about it",
    changes.HookAnswered: "the call is shown as the hook has left it",
    changes.OutputGrew: "the end shows the output",
    changes.AgentRedefined: "a matter of operators",
    changes.ResponseTold: "all of it was shown",
}
"""Changes that the terminal does not show, and why."""


class Answer:
    """Shows the events of one run."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._view = RunView("")
        self._thinking = False
        self.usage: Json | None = None
        self.status = ""

    @property
    def waiting(self) -> dict[str, Json]:
        """The events of the undecided calls, by the call's id."""
        return {id: dict(call.pending.json) for id, call in self._view.waiting.items()}

    def speak_on(self, terminal: Terminal) -> None:
        """Show what follows on this terminal."""
        self._terminal = terminal

    def show(self, event: Json) -> None:
        """Show the next event of the log."""
        for change in self._view.apply(EventJson(event)):
            self.show_change(change)

    @singledispatchmethod
    def show_change(self, change: Change) -> None:
        """Show a change. One in `PASSED_OVER` shows nothing."""

    @show_change.register
    def _begin_again(self, change: changes.StepVoided) -> None:
        if change.frame.is_own and change.has_text:
            self._terminal.note("the model starts this answer again")

    @show_change.register
    def _begin_text(self, change: changes.TextBegan) -> None:
        is_thought = change.block.kind == "reasoning"
        if not change.frame.is_own or (is_thought and (change.is_whole or self._thinking)):
            return
        if is_thought or self._thinking:
            self._terminal.note("thinking ..." if is_thought else "")
        self._thinking = is_thought

    @show_change.register
    def _grow_text(self, change: changes.TextGrew) -> None:
        if change.frame.is_own and change.block.kind == "text":
            self._terminal.write(change.piece)

    @show_change.register
    def _end_step(self, change: changes.StepEnded) -> None:
        """End the answer. A sub-agent's text is a note once it is complete: it is meant for the top agent."""
        if change.frame.is_own:
            self._thinking = False
            self._terminal.end()
        elif change.text:
            self._terminal.note(f"{_path(change.frame)}{change.text[:MAX_SHOWN]}")

    @show_change.register
    def _run_call(self, change: changes.CallRan) -> None:
        call = {"tool_name": change.call.name, "args": change.call.args}
        self._terminal.note(f"{_path(change.frame)}-> {signature(call, MAX_SHOWN)}")

    @show_change.register
    def _settle_call(self, change: changes.CallSettled) -> None:
        mark, style = ("failed", "red") if change.call.is_error else ("<-", "dim")
        self._terminal.note(f"{_path(change.frame)}{mark} {preview(change.call.result)}", style)

    @show_change.register
    def _emitted(self, change: changes.DataEmitted) -> None:
        self._terminal.note(f"{_path(change.frame)}.. {preview(change.data)}")

    @show_change.register
    def _change_agent(self, change: changes.AgentChanged) -> None:
        event: Any = change.event
        self._terminal.note(f"{event.json.get('from')} hands over to {event.to}")

    @show_change.register
    def _change_model(self, change: changes.ModelChanged) -> None:
        event: Any = change.event
        self._terminal.note(f"{event.json.get('from')} does not answer: {event.to} is asked")

    @show_change.register
    def _leave_out(self, change: changes.ToolsRefused) -> None:
        event = change.event
        self._terminal.note(
            f"{event.model} takes no request with {_list_names(event.tools)}: left out"
        )

    @show_change.register
    def _ask_again(self, change: changes.ModelAskedAgain) -> None:
        event: Any = change.event
        what = f"the model does not answer ({event.reason}): it is asked again"
        self._terminal.note(f"{_path(change.frame)}{what}")

    @show_change.register
    def _await_model(self, change: changes.ModelAwaited) -> None:
        event: Any = change.event
        at = f" at {event.until[:19]}Z" if isinstance(event.until, str) else ""
        what = f"{event.provider} is away ({event.error}): it is asked again{at}"
        self._terminal.note(what, "yellow")

    @show_change.register
    def _go_on(self, change: changes.RunGoesOn) -> None:
        self._terminal.note("the run had failed, and goes on")

    @show_change.register
    def _spare_model(self, change: changes.ModelSpared) -> None:
        event: Any = change.event
        what = (
            "refused the request" if event.decision == "refuse" else "answered in the model's place"
        )
        why = f": {event.reason}" if event.reason else ""
        self._terminal.note(f"{_path(change.frame)}{event.hook} {what}{why}", "yellow")

    @show_change.register
    def _end_loop(self, change: changes.LoopEnded) -> None:
        event: Any = change.event
        tools = _list_names(event.tools)
        self._terminal.note(
            f"{_path(change.frame)}{event.steps} steps brought nothing new ({tools}): stopped",
            "yellow",
        )

    @show_change.register
    def _vote(self, change: changes.VoteCast) -> None:
        event: Any = change.event
        # The call waits, so its request came before the vote. A vote of an earlier attempt has none.
        pending = change.call.pending
        if pending is not None:
            line = vote_line(pending.json, event.json)
            self._terminal.note(f"{line}; {count_line(pending.json)}")

    @show_change.register
    def _change_wait(self, change: changes.WaitChanged) -> None:
        event: Any = change.event
        name = change.call.name or change.call.id
        if event.type == "approval-reminder":
            self._terminal.note(f"reminder {event.n}: {name} still waits")
        elif event.type == "approval-escalated":
            groups = " or ".join(map(str, event.to or ()))
            self._terminal.note(f"nobody decided {name}: a member of {groups} may, too")
        else:
            self._terminal.note(f"{event.by} lets {name} wait until {event.expires_at}")

    @show_change.register
    def _decide(self, change: changes.CallDecided) -> None:
        event, call = change.event, change.call
        why = f": {event.reason}" if event.reason else ""
        self._terminal.note(f"{call.name or call.id} {event.decision} by {event.decided_by}{why}")

    @show_change.register
    def _fail(self, change: changes.ErrorTold) -> None:
        error = change.error if isinstance(change.error, dict) else {}
        self._terminal.note(f"{error.get('type')}: {error.get('message')}", "red")

    @show_change.register
    def _end(self, change: changes.RunEnded) -> None:
        event: Any = change.event
        if not change.frame.is_own:
            return
        self.status = str(event.status)
        self.usage = event.usage
        if event.output is not None:
            self._terminal.note(json.dumps(event.output, ensure_ascii=False, indent=2), "")
        if self.status != "success" or event.finish_reason not in ("stop", None):
            self._terminal.note(f"{self.status}: {event.finish_reason}", "yellow")
        if self.usage is not None:
            self._terminal.note(usage_line(self.usage))

    @show_change.register
    def _unknown(self, change: changes.Unknown) -> None:
        event = change.event
        fields = {name: value for name, value in event.json.items() if name not in FRAME}
        self._terminal.note(f"{_path(change.frame)}{event.type} {preview(fields)}")


def usage_line(usage: Mapping[str, Any]) -> str:
    """Return the tokens, and their cost if the price is known."""
    cost = usage.get("cost_usd")
    price = "price unknown" if cost is None else f"${float(cost):.6f}"
    return f"{usage['total_tokens']:,} tokens, {price}"


def _list_names(names: Any) -> str:
    """Return the names of tools; "…" where the event of another release has no list of them."""
    return ", ".join(map(str, names)) if isinstance(names, list | tuple) else "…"


def _path(frame: FrameView) -> str:
    """Return the names of the sub-agents from the top agent down; empty for the top agent itself."""
    return "".join(f"{name} > " for name in frame.path[1:])
