"""Lines of the terminal: one for each run that is over, and one for each waiting call, with the commands that
decide it. They come from the services' data, so the functions need not know of the terminal."""

import json
import shlex
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import chain, count
from typing import Any

from layover.desk.local.terminal.skeletons import BLANK, skeleton
from layover.keys import META
from layover.values.runs.run import SuspensionKind
from layover.values.text import isolate, show

INPUT = SuspensionKind.INPUT.value
Item = Mapping[str, Any]
_COLOURS = {"success": "green", "failed": "red", "cancelled": "yellow", "suspended": "cyan"}
_MAX_ARGS = 1_000
"""Characters of a call's arguments, and of what it shows. A call with more is decided in the console."""
Say = Callable[[str, str], object]
"""A line, and its colour."""


class RunLines:
    """Prints the progress of runs. `url` returns the HTTP API's address, once there is something to print."""

    def __init__(self, url: Callable[[], str], say: Say) -> None:
        self._url = url
        self._say = say

    def on_item(self, old: Item | None, new: Item | None) -> None:
        """Print a run that has ended. Called for each item of the journal that is written."""
        if new is None or new.get("sk") != {"S": META} or "status" not in new:
            return
        status = _text(new, "status")
        if status in ("success", "failed", "cancelled") and _text(old or {}, "status") != status:
            self._say(over(new), _COLOURS[status])

    def on_event(self, event: Mapping[str, Any], owner: str | None) -> None:
        """Print a call that waits. Called for each event that EventBridge takes; `owner`: of the run."""
        prefix = _prefix(event)
        if prefix is not None and owner is not None:
            text = waiting(self._url(), owner, event["detail"])
            self._say(f"{prefix}{text}", _COLOURS["suspended"])

    def count_others(self, others: int) -> None:
        """Print how many calls wait that are not shown one by one, if there are any."""
        if others:
            calls = "1 other call waits" if others == 1 else f"{others} other calls wait"
            text = f"{calls} since before the start: decide them at {self._url()}"
            self._say(text, _COLOURS["suspended"])


def _prefix(event: Mapping[str, Any]) -> str | None:
    """Return the beginning of the line of an event about a waiting call; None for any other event."""
    match event.get("detail_type"):
        case "ApprovalRequested":
            return ""
        case "ApprovalReminder":
            return f"reminder {event['detail']['n']}: "
        case "ApprovalEscalated":
            return f"escalated to {' and '.join(event['detail']['to'])}: "
    return None


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
    # Whoever reads the terminal runs the service: what the provider said helps.
    words = outcome.get("error_detail") or error or {}
    why = f"\n    {error['type']}: {words['message']}" if error else ""
    names = f"{_text(item, 'thread_id')} {_text(item, 'id')}"
    return f"{_text(item, 'agent')} {_text(item, 'status')}  {names}  {', '.join(figures)}{why}"


def waiting(url: str, owner: str, detail: Mapping[str, Any]) -> str:
    """Return the waiting call, and the shell commands that decide it."""
    is_form = detail.get("kind") == INPUT
    if detail.get("kind") == SuspensionKind.CONNECT:
        return _consent(url, owner, detail)
    call = f"{show(detail['tool_name'])} {_shorten(detail.get('args'))}"
    lines = [f"{detail['agent']} waits for {'input' if is_form else 'approval'}: {call}"]
    if detail.get("summary") or detail.get("risk"):
        risk = f"({detail['risk']} risk)" if detail.get("risk") else None
        summary = detail.get("summary")
        lines.append(" ".join(filter(None, (summary and isolate(show(summary)), risk))))
    if detail.get("asked_again"):
        lines.append("it was approved before, and new code changed its arguments")
    if detail.get("taken_back_at"):
        lines.append("the message that led to it was edited since, or left")
    if is_form:
        lines.append(f"it shows {_shorten(detail.get('payload'))}")
    # An event that is too large for its bus has none.
    lines += map(_denial_line, detail.get("denied_before") or ())
    if not _is_whole(detail):
        return "\n    ".join([*lines, f"not all of it fits here: decide it at {url}"])
    lines.append(f"{_say_how(owner, detail)}:")
    return "\n    ".join([*lines, *_commands(url, owner, detail)])


def _consent(url: str, owner: str, detail: Mapping[str, Any]) -> str:
    """Return the call that waits for an account of its user, and how to connect it or to do without."""
    payload = detail.get("payload") or {}
    call = f"{url}/runs/{detail['run_id']}/tool-calls/{detail['tool_call_id']}/deny"
    return "\n    ".join(
        [
            f"{detail['agent']} waits for the {payload.get('connection')} account of {owner}: "
            f"{show(detail['tool_name'])} {_shorten(detail.get('args'))}",
            "connect it in the console, or go on without it:",
            f"curl -s {call} -H {shlex.quote(f'Authorization: Bearer dev:{owner}')} "
            f"-d {shlex.quote(json.dumps(_attempt(detail)))}",
        ]
    )


def _denial_line(denial: Mapping[str, Any]) -> str:
    """Return what was denied before, by whom, and why."""
    who = denial.get("on_behalf_of") or denial["decided_by"]
    because = f": {_shorten(denial['reason'])}" if denial.get("reason") else ""
    return f"{who} denied {_shorten(denial['args'])} before{because}"


def _say_how(owner: str, detail: Mapping[str, Any]) -> str:
    """Return who decides the call, and what a person may do instead of sending the commands as they are."""
    if detail.get("kind") == INPUT:
        return "fill it in and send it (to /deny without `data` declines to answer), or answer in the console"
    rule = detail.get("approval")
    if not rule:
        return "approve it (/deny instead of /approve denies it), or decide in the console"
    but = "" if rule["requester"] else f", who must not be {owner}"
    verb = "approves" if rule["quorum"] == 1 else "approve"
    return f"{rule['quorum']} of {' or '.join(rule['by'])} {verb} it{but}"


def _commands(url: str, owner: str, detail: Mapping[str, Any]) -> list[str]:
    """Return the commands that approve the call, or fill in its form, one for each person whose decision it
    takes (docs/behaviour.md#callbacks)."""
    rule = detail.get("approval") or {}
    if detail.get("kind") == INPUT:
        # An event that is too large for its bus has no schema.
        schema = detail.get("resume_schema")
        verb, body = "resume", {"data": {} if schema is None else skeleton(schema)}
    else:
        verb, body = "approve", {"reason": BLANK} if rule.get("reason_required") else {}
    call = f"{url}/runs/{detail['run_id']}/tool-calls/{detail['tool_call_id']}/{verb}"
    text = shlex.quote(json.dumps({**_attempt(detail), **body}, ensure_ascii=False))
    return [
        f"curl -s {call} -H {shlex.quote(f'Authorization: Bearer dev:{who}')} -d {text}"
        for who in _deciders(owner, rule)
    ]


def _attempt(detail: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every decision says: which attempt it is about. An event that an older package stored has
    none: it is about the first."""
    return {"attempt": detail.get("attempt", 1)}


def _deciders(owner: str, rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of as many users as have to decide, as `dev:` tokens have them."""
    if not rule:
        yield owner
        return
    approvers = chain(["approver"], (f"approver-{number}" for number in count(2)))
    names = (name for name in approvers if name != owner)
    for number in range(rule["quorum"]):
        name = owner if rule["requester"] and number == 0 else next(names)
        yield f"{name};groups={rule['by'][0]}"


def _is_whole(detail: Mapping[str, Any]) -> bool:
    """Return whether the line has all that a person decides by. An event that is too large for its bus has
    no arguments."""
    texts = (json.dumps(detail.get(name), ensure_ascii=False) for name in ("args", "payload"))
    return detail.get("args") is not None and all(len(text) <= _MAX_ARGS for text in texts)


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return isolate(show(text if len(text) <= _MAX_ARGS else text[: _MAX_ARGS - 1] + "…"))


def _text(item: Item, name: str) -> str:
    return str(item.get(name, {}).get("S", ""))


def _time(item: Item, name: str) -> datetime:
    return datetime.fromisoformat(_text(item, name))


def _outcome(item: Item) -> dict[str, Any]:
    """Return a run's outcome, which the journal keeps as text, as compressed text, or in S3. The last is not
    read: the line does without its figures."""
    match item.get("outcome"):
        case {"S": text}:
            outcome = json.loads(text)
        case {"B": data}:
            outcome = json.loads(zlib.decompress(b64decode(data)))
        case _:
            outcome = {}
    return dict(outcome)
