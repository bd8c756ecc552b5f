"""Shell commands that decide a waiting call, of the detail of its event (docs/behaviour.md#callbacks)."""

import json
import shlex
from collections.abc import Iterator, Mapping
from itertools import chain, count
from typing import Any

from layover.local.terminal.skeletons import BLANK, skeleton
from layover.values.runs.run import SuspensionKind

INPUT = SuspensionKind.INPUT.value


def how(owner: str, detail: Mapping[str, Any]) -> str:
    """Return who decides the call, and what a person may do instead of sending the commands as they are."""
    if detail.get("kind") == INPUT:
        return "fill it in and send it, or answer in the console"
    rule = detail.get("approval")
    if not rule:
        return "approve it (/deny instead of /approve denies it), or decide in the console"
    but = "" if rule["requester"] else f", who must not be {owner}"
    verb = "approves" if rule["quorum"] == 1 else "approve"
    return f"{rule['quorum']} of {' or '.join(rule['by'])} {verb} it{but}"


def commands(url: str, owner: str, detail: Mapping[str, Any]) -> list[str]:
    """Return the commands that approve the call, or fill in its form, one for each person that it takes."""
    rule = detail.get("approval") or {}
    verb, body = _answer(detail, rule)
    call = f"{url}/runs/{detail['run_id']}/tool-calls/{detail['tool_call_id']}/{verb}"
    text = shlex.quote(json.dumps(body, ensure_ascii=False))
    return [
        f"curl -s {call} -H {shlex.quote(f'Authorization: Bearer dev:{who}')} -d {text}"
        for who in _deciders(owner, rule)
    ]


def _answer(detail: Mapping[str, Any], rule: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if detail.get("kind") == INPUT:
        # An event that is too large for its bus has no schema.
        schema = detail.get("resume_schema")
        return "resume", {"data": {} if schema is None else skeleton(schema)}
    return "approve", {"reason": BLANK} if rule.get("reason_required") else {}


def _deciders(owner: str, rule: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of as many users as have to decide, as `dev:` tokens have them."""
    if not rule:
        yield owner
        return
    names = (n for n in _names() if n != owner)
    for number in range(rule["quorum"]):
        name = owner if rule["requester"] and number == 0 else next(names)
        yield f"{name};groups={rule['by'][0]}"


def _names() -> Iterator[str]:
    return chain(["approver"], (f"approver-{number}" for number in count(2)))
