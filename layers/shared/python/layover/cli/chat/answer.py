"""A run's events on a terminal."""

import json
from collections.abc import Mapping
from typing import Any

from layover.cli.chat.terminal import Terminal

Json = dict[str, Any]
MAX_SHOWN = 300
"""Characters of a tool's result."""

_OF_AN_ANSWER = frozenset({"turn_start", "text_delta", "reasoning_delta", "turn_end"})


class Answer:
    """Shows the events of one run. `waiting` has the undecided calls, by id."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._streamed: set[tuple[str, int]] = set()
        """Agent and step of which text has come piece by piece."""
        self._thinking = False
        self.waiting: dict[str, Json] = {}
        self.usage: Json | None = None
        self.status = ""

    def show(self, event: Json) -> None:
        """The next event of the log; one of an unknown type shows nothing."""
        kind = str(event.get("type", "")).replace("-", "_")
        if event.get("agent_path") and kind in _OF_AN_ANSWER:
            return self._sub_agent(kind, event)
        show = getattr(self, f"_{kind}", None)
        if show is not None:
            show(event)
        return None

    def _sub_agent(self, kind: str, event: Json) -> None:
        """Show a sub-agent's text as a note, once it is complete: it is meant for the top agent."""
        parts = (event.get("message") or {}).get("content", []) if kind == "turn_end" else []
        text = "".join(p["text"] for p in parts if p["type"] == "text")
        if text:
            self._terminal.note(f"{_path(event)}{text[:MAX_SHOWN]}")

    def _turn_start(self, event: Json) -> None:
        """The same step again: its model call broke, and its output is void."""
        step = _step(event)
        if step in self._streamed:
            self._streamed.discard(step)
            self._terminal.note("the model starts this answer again")

    def _text_delta(self, event: Json) -> None:
        if self._thinking:
            self._terminal.note("")
            self._thinking = False
        self._streamed.add(_step(event))
        self._terminal.write(str(event["text"]))

    def _reasoning_delta(self, event: Json) -> None:
        if not self._thinking:
            self._terminal.note("thinking ...")
            self._thinking = True

    def _turn_end(self, event: Json) -> None:
        self._thinking = False
        if _step(event) not in self._streamed:
            parts = (event.get("message") or {}).get("content", [])
            self._terminal.write("".join(p["text"] for p in parts if p["type"] == "text"))
        self._terminal.end()

    def _tool_execution_start(self, event: Json) -> None:
        self._terminal.note(f"{_path(event)}-> {signature(event)}")

    def _tool_execution_end(self, event: Json) -> None:
        failed = bool(event.get("is_error"))
        mark, style = ("failed", "red") if failed else ("<-", "dim")
        self._terminal.note(f"{_path(event)}{mark} {_preview(event.get('result'))}", style)

    def _data(self, event: Json) -> None:
        self._terminal.note(f"{_path(event)}.. {_preview(event.get('data'))}")

    def _handoff(self, event: Json) -> None:
        self._terminal.note(f"{event['from']} hands over to {event['to']}")

    def _model_fallback(self, event: Json) -> None:
        self._terminal.note(f"{event['from']} does not answer: {event['to']} is asked")

    def _tool_call_suspended(self, event: Json) -> None:
        self.waiting[event["tool_call_id"]] = event

    def _tool_call_approval(self, event: Json) -> None:
        self._terminal.note(f"{event['by']} approved; more approvals are needed")

    def _tool_call_decided(self, event: Json) -> None:
        call = self.waiting.pop(event["tool_call_id"], None)
        name = call["tool_name"] if call else event["tool_call_id"]
        why = f": {event['reason']}" if event.get("reason") else ""
        self._terminal.note(f"{name} {event['decision']} by {event['decided_by']}{why}")

    def _error(self, event: Json) -> None:
        error = event.get("error") or {}
        self._terminal.note(f"{error.get('type')}: {error.get('message')}", "red")

    def _finish(self, event: Json) -> None:
        self.waiting.clear()
        self.status = str(event["status"])
        self.usage = event.get("usage")
        if event.get("output") is not None:
            self._terminal.note(json.dumps(event["output"], ensure_ascii=False, indent=2), "")
        if self.status != "success" or event.get("finish_reason") not in ("stop", None):
            self._terminal.note(f"{self.status}: {event.get('finish_reason')}", "yellow")
        if self.usage is not None:
            self._terminal.note(usage_line(self.usage))


def signature(call: Mapping[str, Any]) -> str:
    """A call as it reads in code: `refund(order_id="A-1003", amount=60)`."""
    args = call.get("args")
    if not isinstance(args, dict):
        return f"{call['tool_name']}({_preview(args)})"
    inner = ", ".join(f"{name}={_preview(value)}" for name, value in args.items())
    return f"{call['tool_name']}({inner})"


def usage_line(usage: Mapping[str, Any]) -> str:
    """Return the tokens, and their cost if the price is known."""
    cost = usage.get("cost_usd")
    price = "price unknown" if cost is None else f"${float(cost):.6f}"
    return f"{usage['total_tokens']:,} tokens, {price}"


def _step(event: Json) -> tuple[str, int]:
    return _path(event), int(event.get("step", 0))


def _path(event: Json) -> str:
    """The sub-agents that the event comes from; the top agent's own have none."""
    return "".join(f"{name} > " for name in (event.get("agent_path") or ())[1:])


def _preview(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]} ..."
