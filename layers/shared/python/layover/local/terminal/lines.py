"""Lines of the terminal: one for each run that is over, and for each waiting call with the command that
decides it. They are read from the services' data, so the functions need not know of the terminal."""

import json
import zlib
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from layover.keys import META
from layover.local.terminal import decisions
from layover.local.terminal.decisions import INPUT

Item = Mapping[str, Any]
_COLOURS = {"success": "green", "failed": "red", "cancelled": "yellow", "suspended": "cyan"}
_MAX_ARGS = 120
"""Characters of a call's arguments, and of what it shows."""
Say = Callable[[str, str], object]
"""A line, and its colour."""


class RunLines:
    """Prints the progress of runs. `url`: the HTTP API's, as soon as there is something to print."""

    def __init__(self, url: Callable[[], str], say: Say) -> None:
        self._url = url
        self._say = say

    def on_item(self, old: Item | None, new: Item | None) -> None:
        """An item of the journal was written."""
        if new is None or new.get("sk") != {"S": META} or "status" not in new:
            return
        status = _text(new, "status")
        if status in ("success", "failed", "cancelled") and _text(old or {}, "status") != status:
            self._say(over(new), _COLOURS[status])

    def on_event(self, event: Mapping[str, Any], owner: str | None) -> None:
        """EventBridge took an event; `owner`: of its run."""
        if event.get("detail_type") == "ApprovalRequested" and owner is not None:
            self._say(waiting(self._url(), owner, event["detail"]), _COLOURS["suspended"])


def over(item: Item) -> str:
    """`shop success  thread_… run_…  2 steps, 340 tokens, $0.0004, 3.2 s`, of a META item."""
    outcome = _outcome(item)
    usage = outcome.get("usage") or {}
    seconds = (_time(item, "updated_at") - _time(item, "created_at")).total_seconds()
    steps = int(item.get("step_ended", {}).get("N", "0"))
    figures = [f"{steps} step{'' if steps == 1 else 's'}"]
    if usage:
        figures.append(f"{usage['total_tokens']} tokens")
        cost = usage.get("cost_usd")
        figures.append("cost unknown" if cost is None else f"${float(cost):.4f}")
    figures.append(f"{seconds:.1f} s")
    error = outcome.get("error")
    why = f"\n    {error['type']}: {error['message']}" if error else ""
    names = f"{_text(item, 'thread_id')} {_text(item, 'id')}"
    return f"{_text(item, 'agent')} {_text(item, 'status')}  {names}  {', '.join(figures)}{why}"


def waiting(url: str, owner: str, detail: Mapping[str, Any]) -> str:
    """Return the waiting call, and the shell commands that decide it: one for each person that it takes."""
    is_form = detail.get("kind") == INPUT
    call = f"{detail['tool_name']} {_shorten(detail.get('args'))}"
    lines = [f"{detail['agent']} waits for {'input' if is_form else 'approval'}: {call}"]
    if is_form:
        lines.append(f"it shows {_shorten(detail.get('payload'))}")
    lines.append(f"{decisions.how(owner, detail)}:")
    return "\n    ".join([*lines, *decisions.commands(url, owner, detail)])


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_ARGS else text[: _MAX_ARGS - 1] + "…"


def _text(item: Item, name: str) -> str:
    return str(item.get(name, {}).get("S", ""))


def _time(item: Item, name: str) -> datetime:
    return datetime.fromisoformat(_text(item, name))


def _outcome(item: Item) -> dict[str, Any]:
    """As the journal keeps it: text, compressed text, or (then it is not read) an object of S3."""
    match item.get("outcome"):
        case {"S": text}:
            outcome = json.loads(text)
        case {"B": data}:
            outcome = json.loads(zlib.decompress(b64decode(data)))
        case _:
            outcome = {}
    return dict(outcome)
