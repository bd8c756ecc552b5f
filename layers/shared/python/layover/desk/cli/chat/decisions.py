"""Questions about calls that wait: approve, deny, change the arguments, or fill in a form."""

import json
from typing import Any
from urllib.parse import quote

from layover.desk.cli.chat.calls import count_line, signature, vote_line, votes_of
from layover.desk.cli.chat.terminal import Terminal
from layover.desk.cli.client import Api, ApiError
from layover.values.choices import names_in
from layover.values.text import isolate, reveal, show

Json = dict[str, Any]
LATER = "/later"
"""Leaves a question open."""
DENY = "/deny"
"""Declines to answer, in a field of a form."""
_YES = ("y", "yes")
_NO = ("", "n", "no")
_LOOK_AGAIN: tuple[str, Json] = ("look", {})
"""The person says that they have consented: the run tells."""


class SaidInstead(Exception):
    """The person leaves the question open, and says something else: `line`, which may be a command."""

    def __init__(self, line: str) -> None:
        super().__init__(line)
        self.line = line


class _Declined(Exception):
    """The person declines to answer. `reason`: why, if they say so."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decide(api: Api, terminal: Terminal, pending: Json, answer: str | None = None) -> bool:
    """Ask about one call until an answer counts. Return False if the call goes on waiting, because the input
    ended or others decide. `answer`: the first answer, if the person has given it already: `y` or `n`, with a
    reason. Only an approval takes a yes. Raises SaidInstead, ApiError and KeyboardInterrupt."""
    for denial in pending.get("denied_before") or ():
        terminal.note(_denial_line(pending["tool_name"], denial), "yellow")
    if is_for_others(pending):
        _describe(terminal, pending)
        _say_who(terminal, pending)
        return False
    decision: tuple[str, Json] | None
    while True:
        if pending["kind"] != "approval" and _is_no(answer):
            reason = str(answer).partition(" ")[2]
            decision, answer = ("deny", _reason(terminal, reason, _needs_reason(pending))), None
        elif pending["kind"] == "input":
            decision = _ask_form(terminal, pending)
        elif pending["kind"] == "connect":
            if _is_connected(api, terminal, pending):
                return True
            decision = _ask_consent(api, terminal, pending)
            if decision == _LOOK_AGAIN:
                continue
        else:
            decision, answer = _ask_approval(terminal, pending, answer), None
        if decision is None:
            return False
        verdict, body = decision
        try:
            api.post(f"{_call_path(pending)}/{verdict}", **body, attempt=pending["attempt"])
        except ApiError as error:
            if error.status == 422:
                terminal.note(str(error), "yellow")
                continue
            if error.status not in (403, 404, 409):
                raise
            terminal.note(str(error), "yellow")
            return error.status != 403
        return True


def _is_no(answer: str | None) -> bool:
    return answer is not None and answer.partition(" ")[0].lower() in _NO


def _needs_reason(pending: Json) -> bool:
    return bool((pending.get("approval") or {}).get("reason_required"))


def _is_connected(api: Api, terminal: Terminal, pending: Json) -> bool:
    """Return whether the call waits for the account no more: the person consents in a browser."""
    run = api.get(f"/runs/{quote(pending['run_id'], safe='')}")
    return not any(
        each["tool_call_id"] == pending["tool_call_id"] and each["attempt"] == pending["attempt"]
        for each in run.get("pending", ())
    )


def _ask_consent(api: Api, terminal: Terminal, pending: Json) -> tuple[str, Json] | None:
    name = str((pending.get("payload") or {}).get("connection"))
    # Made now, and for this person only: the payload is seen by others.
    page = api.post(f"/me/connections/{quote(name, safe='')}")
    terminal.note(f"{signature(pending)} works with your {name} account:", "bold")
    terminal.note(f"  connect it at {page['authorize_url']}", "")
    line = terminal.read("connected? [Enter once it is, n to do without] ")
    if line is None:
        return None
    word, _, reason = line.strip().partition(" ")
    if word.lower() in ("", *_YES):
        return _LOOK_AGAIN
    if word.lower() in _NO:
        return "deny", _reason(terminal, reason, is_required=False)
    raise SaidInstead(line.strip())


def is_for_others(pending: Json) -> bool:
    """Return whether the rule of the call leaves it to others than the owner of the run, who talks here."""
    rule = pending.get("approval") or {}
    return not rule.get("requester", True)


def _call_path(pending: Json) -> str:
    run, call = quote(pending["run_id"], safe=""), quote(pending["tool_call_id"], safe="")
    return f"/runs/{run}/tool-calls/{call}"


def _denial_line(tool: str, denial: Json) -> str:
    """`denied before: refund(amount=60): the reason (ann)`."""
    who = denial.get("on_behalf_of") or denial["decided_by"]
    reason = f": {denial['reason']}" if denial.get("reason") else ""
    return (
        f"denied before: {signature({'tool_name': tool, 'args': denial['args']})}{reason} ({who})"
    )


def _ask_approval(
    terminal: Terminal, pending: Json, answer: str | None = None
) -> tuple[str, Json] | None:
    _describe(terminal, pending)
    _say_who(terminal, pending)
    needs_reason = _needs_reason(pending)
    while True:
        line, answer = answer, None
        if line is None:
            line = terminal.read(f"approve {signature(pending)}? [y/N/edit] ")
        if line is None:
            return None
        word, _, reason = line.strip().partition(" ")
        if word.lower() == "edit":
            args = _ask_args(terminal, pending)
            if args is None:
                return None
            return "approve", {"args": args, **_reason(terminal, "", needs_reason)}
        if word.lower() in _YES:
            return "approve", _reason(terminal, reason, needs_reason)
        if word.lower() in _NO:
            return "deny", _reason(terminal, reason, needs_reason)
        raise SaidInstead(line.strip())


def _say_who(terminal: Terminal, pending: Json) -> None:
    """Say who decides an approval, and what they have said so far."""
    if rule := pending.get("approval"):
        terminal.note(f"decided by: {', '.join(rule['by'])}; {rule['quorum']} of them")
    votes = votes_of(pending)
    for vote in votes:
        terminal.note(vote_line(pending, vote))
    if votes:
        terminal.note(count_line(pending))


def _describe(terminal: Terminal, pending: Json) -> None:
    """Show what the tool says about the call, and why it waits again."""
    risk, summary = pending.get("risk"), pending.get("summary")
    if summary or risk:
        words = " ".join(
            filter(None, (summary and isolate(show(summary)), f"({risk} risk)" if risk else ""))
        )
        terminal.note(words, "red" if risk == "high" else "bold")
    if pending.get("asked_again"):
        terminal.note("approved before; a new version of the tool changed its arguments", "yellow")
    if pending.get("taken_back_at"):
        terminal.note("the message that led to it was edited since, or left", "yellow")


def _ask_args(terminal: Terminal, pending: Json) -> Json | None:
    """The arguments as a person wants them; an empty line keeps them."""
    while True:
        text = json.dumps(pending["args"], ensure_ascii=False)
        # What cannot be seen is written as JSON escapes, which mean the same when they come back.
        line = terminal.read(
            "args> ", text if reveal(text) == text else json.dumps(pending["args"])
        )
        if line is None:
            return None
        if not line.strip():
            return dict(pending["args"])
        try:
            args = json.loads(line)
        except ValueError as error:
            terminal.note(f"no JSON: {error}", "yellow")
            continue
        if isinstance(args, dict):
            return args
        terminal.note("write a JSON object", "yellow")


def _reason(terminal: Terminal, reason: str, is_required: bool) -> Json:
    if is_required and not reason.strip():
        reason = terminal.read("reason> ") or ""
    return {"reason": reason.strip()} if reason.strip() else {}


def _ask_form(terminal: Terminal, pending: Json) -> tuple[str, Json] | None:
    _describe(terminal, pending)
    terminal.note(f"{signature(pending)} asks ({DENY} declines to answer):", "bold")
    payload = pending.get("payload")
    for line in _lines(payload):
        terminal.note(f"  {line}", "")
    schema = pending.get("resume_schema") or {}
    data: Any
    try:
        if schema.get("type") == "object" and schema.get("properties"):
            data = _ask_fields(terminal, schema)
        else:
            data = _ask_value(terminal, "answer", schema, is_required=True)
    except _Declined as declined:
        return "deny", _reason(terminal, declined.reason, _needs_reason(pending))
    return None if data is _END_OF_INPUT else ("resume", {"data": data})


def ask_object(terminal: Terminal, schema: Json) -> Json | None:
    """Return an object of this schema, asked field by field; None: the person gave up."""
    try:
        data = _ask_fields(terminal, schema)
    except (_Declined, SaidInstead):
        return None
    return None if data is _END_OF_INPUT else dict(data)


_END_OF_INPUT = object()
"""The input is over."""
_LEFT_OUT = object()
"""A field that has a default."""


def _ask_fields(terminal: Terminal, schema: Json) -> Any:
    data: Json = {}
    for name, field in schema["properties"].items():
        field_schema = _resolve(field, schema)
        value = _ask_value(
            terminal, name, field_schema, is_required=name in schema.get("required", ())
        )
        if value is _END_OF_INPUT:
            return _END_OF_INPUT
        if value is not _LEFT_OUT:
            data[name] = value
    return data


def _ask_value(terminal: Terminal, name: str, schema: Json, *, is_required: bool) -> Any:
    several = _choices(schema.get("items"))
    kind = f"JSON list of {several}" if several else schema.get("type", "JSON")
    about = _choices(schema) or kind
    hint = f" ({about}{'' if is_required else ', optional'})"
    if schema.get("description"):
        terminal.note(f"  {name}: {schema['description']}")
    while True:
        line = terminal.read(f"{name}{hint}: ")
        if line is None:
            return _END_OF_INPUT
        command, _, rest = line.strip().partition(" ")
        if command == DENY:
            raise _Declined(rest)
        if line.startswith("/"):
            raise SaidInstead(line.strip())
        if not line.strip() and not is_required:
            return _LEFT_OUT
        try:
            return _parse(line.strip(), schema)
        except ValueError:
            terminal.note(f"write {about}", "yellow")


def _choices(schema: Any) -> str:
    """Return the values of which a field is one, with the words for those that have others; empty: any."""
    if not isinstance(schema, dict) or not isinstance(values := schema.get("enum"), list):
        return ""
    names = names_in(schema, len(values)) or values
    pairs = zip(map(str, values), map(str, names), strict=True)
    return " | ".join(value if name == value else f"{value} ({name})" for value, name in pairs)


def _parse(text: str, schema: Json) -> Any:
    """A field's value: text as it is, anything else as JSON. Raises ValueError."""
    kind = schema.get("type")
    if kind == "string":
        return text
    if kind == "boolean" and text.lower() in ("y", "yes", "n", "no"):
        return text.lower().startswith("y")
    if kind is None and "enum" in schema:
        return next((value for value in schema["enum"] if str(value) == text), text)
    return json.loads(text)


def _resolve(field: Json, schema: Json) -> Json:
    """A field's schema with its `$ref` resolved; for `X | None`, that of X."""
    ref = str(field.get("$ref", ""))
    if ref.startswith("#/$defs/"):
        return {**schema.get("$defs", {}).get(ref.removeprefix("#/$defs/"), {}), **field}
    choices = [c for c in field.get("anyOf", ()) if c.get("type") != "null"]
    return {**field, **_resolve(choices[0], schema)} if len(choices) == 1 else field


def _lines(payload: object) -> list[str]:
    if isinstance(payload, dict):
        return [f"{name}: {_plain(value)}" for name, value in payload.items()]
    return [] if payload is None else [_plain(payload)]


def _plain(value: object) -> str:
    if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
