"""Calls, and votes about those that take several approvals, as words of the terminal."""

import json
from collections.abc import Mapping
from typing import Any

from layover.values.base import compact_json
from layover.values.decision import counts_of
from layover.values.text import isolate, show

Json = Mapping[str, Any]
MAX_SHOWN = 300
"""Characters of a tool's result."""


def signature(call: Json, limit: int | None = None) -> str:
    """A call as it would read in code: `refund(order_id="A-1003", amount=60)`. `limit`: the most characters
    of an argument, where nobody decides by it."""
    name, args = show(str(call["tool_name"])), call.get("args")
    if not isinstance(args, dict):
        return f"{name}({preview(args, limit)})"
    inner = ", ".join(f"{show(key)}={preview(value, limit)}" for key, value in args.items())
    return f"{name}({inner})"


def preview(value: object, limit: int | None = MAX_SHOWN) -> str:
    """Return the JSON of a value as one line, or its beginning."""
    text = json.dumps(value, ensure_ascii=False)
    is_long = limit is not None and len(text) > limit
    return isolate(show(f"{text[:limit]} ..." if is_long else text))


def votes_of(pending: Json) -> list[Json]:
    """Return the votes so far, the newest of each person."""
    return list(_rule(pending).get("given") or ())


def vote_line(pending: Json, vote: Json) -> str:
    """Return who approved what, and why: `bea approved pay_out(amount=800): it is enough`."""
    who = vote.get("on_behalf_of") or vote.get("by")
    edit = _edit_of(pending, vote)
    what = show(str(pending["tool_name"])) if edit is None else signature({**pending, "args": edit})
    reason = f": {vote['reason']}" if vote.get("reason") else ""
    return f"{who} approved {what}{reason}"


def count_line(pending: Json) -> str:
    """Return how far the call is from its quorum."""
    quorum = _rule(pending).get("quorum")
    same, others = counts_of(_edit_of(pending, vote) for vote in votes_of(pending))
    more = f", {others} of {quorum} of others" if others else ""
    return f"{same} of {quorum} approvals of these arguments given{more}"


def _edit_of(pending: Json, vote: Json) -> Any:
    """Return the arguments that a vote approves; None: those of the request."""
    exact = vote.get("exact_args")
    args = vote.get("args") if exact is None else exact
    is_same = args is None or compact_json(args) == compact_json(pending.get("args"))
    return None if is_same else args


def _rule(pending: Json) -> Json:
    rule = pending.get("approval")
    return rule if isinstance(rule, Mapping) else {}
