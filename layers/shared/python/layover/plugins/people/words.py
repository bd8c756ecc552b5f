"""The words of messages about calls: one headline, the facts, and the outcome, for every service.

Models, users and approvers write parts of them. Their text stays inside its own line, is cut to a length that
people read, and shows the characters that hide or reorder text (`values.text.show`)."""

import re
from datetime import datetime, timedelta
from typing import Any

from layover.values.base import Json, compact_json
from layover.values.channels import Channels, Notice, NoticeKind
from layover.values.decision import ApprovalRule, DecisionKind, Vote, counts_of
from layover.values.notices import OutageNotice
from layover.values.outages import WINDOW, Outage
from layover.values.runs.run import BUDGET_TOOL, SYSTEM, SuspensionKind
from layover.values.text import isolate, show

MAX_HEADLINE = 200
MAX_NAME = 64
"""Characters of a person's, a group's, a tool's or an argument's name."""
MAX_ARGUMENT = 1_000
MAX_ARGUMENTS = 20
MAX_REASON = 500
MAX_DENIALS = 3
"""The most earlier denials that a message has; it says how many more there were."""
MAX_PEOPLE = 10
MISSING = "Not all of it fits here. The console shows it whole."
_MAX_READ = 20_000
"""Characters of a text that are looked at: no message shows more, and texts may be very long."""

_PLAIN_NAME = re.compile(r"[\w.@+|:/-]+")
_VERB = re.compile(r"[A-Z][a-z]+ (?!(?:of|for|from|to|by|with|is|was) )\S")
"""The beginning of a summary that is an order ("Pay 900 euros"), as a sentence continues after `asks to`."""
_VERBS = {
    DecisionKind.APPROVED: "Approved",
    DecisionKind.DENIED: "Denied",
    DecisionKind.RESUMED: "Answered",
    DecisionKind.CONNECTED: "Connected",
    DecisionKind.EXPIRED: "Expired",
    DecisionKind.CANCELLED: "Cancelled",
    DecisionKind.WITHDRAWN: "Withdrawn",
}


def headline(notice: Notice, channels: Channels | None = None) -> str:
    """Return one sentence that says why the message is there.

    Args:
        notice: The call, as it is now.
        channels: The configuration, by which people are shown under their mail addresses instead of their
            tokens' subjects.
    """
    call = notice.call
    match notice.kind:
        case NoticeKind.TEST:
            sentence = f"This is a test by {name_of(notice.owner)}; nothing waits."
        case _ if isinstance(notice, OutageNotice):
            sentence = _outage_line(notice)
        case NoticeKind.DECIDED:
            is_edit = notice.decision is not None and notice.decision.exact_args is not None
            # The summary says what was asked for.
            link = ". Asked for: " if is_edit else ": "
            sentence = f"{_verdict(notice, channels)}{link}{_deed(notice)}"
        case NoticeKind.VOTED:
            sentence = f"{_tally(notice)}: {_request(notice, channels)}"
        case NoticeKind.ESCALATED:
            sentence = f"Now yours to decide, too: {_request(notice, channels)}"
        case NoticeKind.REMINDER:
            sentence = f"Reminder {notice.n}: {_request(notice, channels)}"
        case _ if call.asked_again is not None:
            sentence = f"Asked again: {_request(notice, channels)}"
        case _:
            sentence = _request(notice, channels)
    return cut(sentence, MAX_HEADLINE)


def facts(notice: Notice, channels: Channels | None = None) -> list[tuple[str, str]]:
    """Return what a person decides by, as pairs of a label and its value. Only the value of `Arguments` and
    `Question` has several lines, of which each is `name: value`.

    Args:
        notice: The call, as it is now.
        channels: The configuration, as for `headline`.
    """
    if isinstance(notice, OutageNotice):
        return _outage_facts(notice.outage)
    if notice.kind is NoticeKind.TEST:
        return []
    call, rule = notice.call, notice.rule or notice.call.approval
    pairs = _wish(notice)
    pairs.append(("Requested by", name_of(notice.owner, channels)))
    if rule is not None:
        pairs.append(("Needs", _needs(rule, name_of(notice.owner, channels))))
    if call.approval is not None and call.approval.given:
        pairs.append(("Approved so far", _voters(notice, call.approval.given, channels)))
    if call.expires_at is not None and notice.kind is not NoticeKind.DECIDED:
        pairs.append(("Expires", _moment(call.expires_at, notice.at)))
    pairs += [("Denied before", line) for line in _denials(notice, channels)]
    if call.asked_again is not None:
        pairs.append(
            ("Asked again", "It was decided, and the tool's definition changed since. Nothing ran.")
        )
    if call.taken_back_at is not None:
        pairs.append(("Taken back", "The message that led to it was edited since, or left."))
    return pairs


def is_whole(notice: Notice) -> bool:
    """Return whether the facts have each name and each value that a person decides about, uncut. Where they
    do not, nobody decides by them."""
    return all(
        len(fields) <= MAX_ARGUMENTS
        and all(_fits(show(name[:_MAX_READ]), name, MAX_NAME) for name in fields)
        and all(_fits(_line_of(value), value, MAX_ARGUMENT) for value in fields.values())
        for fields in (_fields(notice.call.args), _question(notice))
    )


def _wish(notice: Notice) -> list[tuple[str, str]]:
    """Return what the call would do, as pairs."""
    call = notice.call
    pairs = [
        ("Agent", cut(" > ".join(map(clean, call.agent_path)), MAX_ARGUMENT)),
        ("Tool", _tool(notice)),
    ]
    if call.risk is not None:
        pairs.append(("Risk", call.risk.value))
    if args := _fields(call.args):
        pairs.append(("Arguments", _lines(args)))
    if question := _question(notice):
        pairs.append(("Question", _lines(question)))
    if (
        call.tool_name == BUDGET_TOOL
        and isinstance(call.payload, dict)
        and call.payload.get("used")
    ):
        pairs.append(("Used so far", value_text(call.payload["used"])))
    return pairs


def rest(
    notice: Notice, channels: Channels | None = None
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the lines and the facts that stand below the headline, in a message that does not change. One
    about a decision repeats no more than what was decided: the message of the request has the rest."""
    lines, pairs = outcome(notice, channels).splitlines(), facts(notice, channels)
    if notice.kind is not NoticeKind.DECIDED:
        return lines, pairs if is_whole(notice) else [*pairs, ("Not shown", MISSING)]
    return lines[1:], [pair for pair in pairs if pair[0] in ("Agent", "Tool", "Requested by")]


def outcome(notice: Notice, channels: Channels | None = None) -> str:
    """Return what was decided, by whom, with which changes and why; the votes, if more are needed. Empty:
    nobody has decided anything. Its first line is the verdict, each change and the reason have a line.

    Args:
        notice: The call, as it is now.
        channels: The configuration, as for `headline`.
    """
    if notice.kind is NoticeKind.VOTED:
        votes = notice.call.approval.given if notice.call.approval else ()
        by = f", the newest by {name_of(votes[-1].person, channels)}" if votes else ""
        reason = votes[-1].reason if votes else None
        return "\n".join([f"{_tally(notice)}{by}", *_reason(reason)])
    if notice.decision is None:
        return ""
    lines = [_verdict(notice, channels)]
    edit = notice.decision.exact_args
    if edit is not None:
        lines += _changes(notice.call.args, edit)
    return "\n".join([*lines, *_reason(notice.decision.reason)])


def denial_word(kind: SuspensionKind) -> str:
    """Return the verb of a denial: a question is declined, everything else is denied."""
    return "Decline" if kind is SuspensionKind.INPUT else "Deny"


def name_of(subject: str, channels: Channels | None = None) -> str:
    """Return a person's name: the mail address that the configuration has for the subject, else the subject.
    One that could be read as a sentence is quoted.

    Args:
        subject: The subject of the person's tokens.
        channels: The configuration, if it is known.
    """
    person = channels.person_with_id(subject) if channels is not None else None
    name = cut(show((subject if person is None else person.mail)[:_MAX_READ].strip()), MAX_NAME)
    return isolate(name if _PLAIN_NAME.fullmatch(name) else quoted(name))


def clean(text: str, limit: int = _MAX_READ) -> str:
    """Return a stranger's text as one line of at most so many characters, which says if it is cut."""
    return isolate(cut(show(text[:_MAX_READ].strip()), limit))


def cut(text: str, limit: int) -> str:
    """Return a text of at most so many characters, which says if it is cut."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def quoted(text: str) -> str:
    """Return a text in quotation marks that it cannot close itself."""
    return f"“{text.replace('“', '‟').replace('”', '‟')}”"


def value_text(value: Json) -> str:
    """Return any JSON value as a person reads it, on one line. A long one is cut, and says by how much."""
    text = _line_of(value)
    if _fits(text, value, MAX_ARGUMENT):
        return isolate(text)
    head = text[:MAX_ARGUMENT].rstrip()
    return f"{isolate(head)}… ({_size(text, value) - len(head):,} more characters, see the console)"


def _line_of(value: Json) -> str:
    match value:
        case None:
            return "(none)"
        case bool():
            return "yes" if value else "no"
        case str():
            return show(value[:_MAX_READ]) or "(empty)"
        case dict() | list() | tuple() if not value:
            return "(empty)"
        case list() | tuple() if all(isinstance(each, (int, float)) for each in value):
            return ", ".join(map(_line_of, value))
        case dict() | list() | tuple():
            return show(compact_json(value)[:_MAX_READ])
        case _:
            return str(value)


def _fits(text: str, value: Json, limit: int) -> bool:
    """Return whether the text has all of the value, and fits."""
    return len(text) <= limit and _size(text, value) <= _MAX_READ


def _size(text: str, value: Json) -> int:
    return max(len(value if isinstance(value, str) else compact_json(value)), len(text))


def _outage_line(notice: OutageNotice) -> str:
    outage = notice.outage
    agent = clean(outage.agent, MAX_NAME)
    provider = f" of {clean(outage.provider, MAX_NAME)}" if outage.provider else ""
    error = f"{clean(outage.error_type, MAX_NAME)}{provider}"
    runs = f"{_count(outage.count, 'run')} of {agent}"
    if notice.kind is NoticeKind.MENDED:
        minutes = round(WINDOW.total_seconds() / 60)
        return f"Over: no run of {agent} failed for {minutes} minutes by {error}"
    if outage.count > 1:
        return f"{runs} failed since {_time(outage.begun_at)}: {error}"
    return f"{runs} failed: {error}"


def _outage_facts(outage: Outage) -> list[tuple[str, str]]:
    first = ", ".join(outage.runs)
    more = outage.count - len(outage.runs)
    return [
        ("Agent", clean(outage.agent, MAX_NAME)),
        ("Error", clean(outage.error_type, MAX_NAME)),
        *([("Provider", clean(outage.provider, MAX_NAME))] if outage.provider else []),
        ("Failed runs", str(outage.count)),
        ("First of them", f"{first} and {more} more" if more else first),
        ("First failure", _time(outage.begun_at)),
        ("Last failure", _time(outage.last_at)),
    ]


def _request(notice: Notice, channels: Channels | None) -> str:
    call, who = notice.call, name_of(notice.owner, channels)
    if call.kind is SuspensionKind.CONNECT:
        payload = call.payload if isinstance(call.payload, dict) else {}
        account = clean(str(payload.get("connection") or "an account"), MAX_NAME)
        return f"{who} is asked to connect {account}"
    deed = clean(call.summary or "", MAX_HEADLINE)
    if call.kind is SuspensionKind.INPUT:
        return f"{_tool(notice)} asks a question in a run of {who}" + (f": {deed}" if deed else "")
    if call.tool_name == BUDGET_TOOL:
        return f"{who} asks to let a run go on beyond its limits"
    if not deed:
        return f"{who} asks to run {_tool(notice)}"
    if _VERB.match(deed):
        return f"{who} asks to {deed[0].lower()}{deed[1:]}"
    return f"{who} asks for approval: {deed}"


def _deed(notice: Notice) -> str:
    call = notice.call
    if call.summary:
        return clean(call.summary)
    if call.tool_name == BUDGET_TOOL:
        return "more of a run's limits"
    return _tool(notice)


def _tool(notice: Notice) -> str:
    return clean(notice.call.tool_name, MAX_NAME)


def _verdict(notice: Notice, channels: Channels | None) -> str:
    decision = notice.decision
    if decision is None:
        return "Decided"
    verb = _VERBS[decision.kind]
    if decision.kind is DecisionKind.DENIED and notice.call.kind is SuspensionKind.INPUT:
        verb = "Declined"
    changes = " with changes" if decision.exact_args is not None else ""
    if decision.kind is DecisionKind.EXPIRED or decision.decided_by == SYSTEM:
        return f"{verb}{changes}"
    by = name_of(decision.on_behalf_of or decision.decided_by, channels)
    through = f" (through {name_of(decision.decided_by)})" if decision.on_behalf_of else ""
    return f"{verb} by {by}{through}{changes}"


def _tally(notice: Notice) -> str:
    """Count the approvals of the arguments that the message shows, and of others."""
    rule = notice.call.approval
    votes = rule.given if rule is not None else ()
    quorum = rule.quorum if rule is not None else 1
    same, others = counts_of(_edit_of(vote, notice) for vote in votes)
    return f"{same} of {quorum} approvals" + (f", {others} of other arguments" if others else "")


def _edit_of(vote: Vote, notice: Notice) -> Json:
    """Return the arguments that a vote approves; None: those that the message shows."""
    edit = vote.exact_args
    is_same = edit is None or compact_json(edit) == compact_json(notice.call.args)
    return None if is_same else edit


def _needs(rule: ApprovalRule, owner: str) -> str:
    groups = cut(" or ".join(clean(group, MAX_NAME) for group in rule.by), MAX_ARGUMENT)
    parts = [f"{rule.quorum} of {groups}"]
    if not rule.requester:
        parts.append(f"not {owner}")
    if rule.reason_required:
        parts.append("with a reason")
    return ", ".join(parts)


def _voters(notice: Notice, votes: tuple[Vote, ...], channels: Channels | None) -> str:
    names = [
        name_of(vote.person, channels)
        + ("" if _edit_of(vote, notice) is None else " (with changes)")
        for vote in votes[:MAX_PEOPLE]
    ]
    more = [f"and {len(votes) - MAX_PEOPLE} more"] if len(votes) > MAX_PEOPLE else []
    return ", ".join([*names, *more])


def _denials(notice: Notice, channels: Channels | None) -> list[str]:
    denials = notice.call.denied_before
    lines = []
    for denial in denials[-MAX_DENIALS:]:
        by = name_of(denial.on_behalf_of or denial.decided_by, channels)
        why = f": {quoted(clean(denial.reason, MAX_REASON))}" if denial.reason else ""
        lines.append(f"by {by}, {_time(denial.at)}{why}, with {value_text(denial.args)}")
    if len(denials) > MAX_DENIALS:
        lines.append(f"and {len(denials) - MAX_DENIALS} times more, see the console")
    return lines


def _fields(value: Json) -> dict[str, Any]:
    """Return what is shown of arguments or of a question: a value that has no names is the text."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {"text": value}


def _question(notice: Notice) -> dict[str, Any]:
    call = notice.call
    return _fields(call.payload) if call.kind is SuspensionKind.INPUT else {}


def _lines(fields: dict[str, Any]) -> str:
    lines = [f"{_label(name)}: {value_text(value)}" for name, value in _first(fields)]
    if len(fields) > MAX_ARGUMENTS:
        lines.append(f"and {len(fields) - MAX_ARGUMENTS} more, see the console")
    return "\n".join(lines)


def _changes(before: Json, after: dict[str, Any]) -> list[str]:
    old: dict[str, Any] = before if isinstance(before, dict) else {}
    names = dict.fromkeys([*old, *after])
    changes = {
        name: (old.get(name), after.get(name))
        for name in names
        if (name in old, compact_json(old.get(name)))
        != (name in after, compact_json(after.get(name)))
    }
    lines = [
        f"{_label(name)}: {value_text(new)} (asked for: {value_text(asked_for)})"
        for name, (asked_for, new) in _first(changes)
    ]
    if len(changes) > MAX_ARGUMENTS:
        lines.append(f"and {len(changes) - MAX_ARGUMENTS} more changes, see the console")
    return lines


def _first(fields: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(fields.items())[:MAX_ARGUMENTS]


def _label(name: str) -> str:
    return isolate(cut(show(name[:_MAX_READ]), MAX_NAME)) or "(no name)"


def _reason(reason: str | None) -> list[str]:
    return [f"Reason: {quoted(clean(reason, MAX_REASON))}"] if reason else []


def _moment(time: datetime, now: datetime) -> str:
    left = time - now
    if left <= timedelta(0):
        return f"{_time(time)} (over)"
    days, hours = left.days, left.seconds // 3600
    if days:
        return f"{_time(time)} (in {_count(days, 'day')})"
    if hours:
        return f"{_time(time)} (in {_count(hours, 'hour')})"
    return f"{_time(time)} (in {_count(max(1, left.seconds // 60), 'minute')})"


def _count(n: int, unit: str) -> str:
    return f"{n} {unit}" if n == 1 else f"{n} {unit}s"


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
