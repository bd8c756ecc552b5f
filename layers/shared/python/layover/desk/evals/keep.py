"""A run as a case: what the user said, what was said before, which calls it made and what they answered."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from layover.values.decision import DECLINES, DecisionKind

Json = Mapping[str, Any]

MAX_NAME = 60
"""Characters of a name that is made of an input."""
_NOT_RUN = DECLINES | {DecisionKind.CANCELLED}
"""Decisions after which a call's tool did not run."""
_DECIDE = {"approved": "approve", "denied": "deny"}
_STUBBED = frozenset({DecisionKind.RESUMED, DecisionKind.CONNECTED})
"""Decisions after which the tool answered: so does its stub, which asks nobody."""
_PLAIN_PARTS = ("text", "data", "tool_call", "tool_result", "file")
_OF_RESULTS = ("type", "tool_call_id", "tool_name", "result", "is_error")


@dataclass
class CaseDraft:
    """A case as it is written. `remarks`: what is not in it, or has to be changed, for whoever keeps it."""

    case: dict[str, Any]
    remarks: list[str] = field(default_factory=list)


def draft_case(
    run: Json,
    *,
    metadata: Json,
    before: Sequence[Json],
    events: Iterable[Json],
    tool_names: Collection[str] | None,
    name: str | None = None,
) -> CaseDraft:
    """Return the case of a run that is over. `run`, `before` (the messages before its input, oldest first)
    and `events` are as the API answers them. `tool_names`: the tools that a stub may answer; None: any."""
    draft = CaseDraft({"name": name or _name_of(run["input"])})
    case = draft.case
    case["input"] = _content(run["input"]["content"], draft)
    history = [
        {"role": message["role"], "content": _content(_of_case(message), draft)}
        for message in before
        if message["role"] in ("user", "assistant", "tool")
    ]
    if history := [message for message in history if message["content"]]:
        case["history"] = history
    if metadata:
        case["metadata"] = dict(metadata)
    parts = [part for message in run["messages"] for part in message["content"]]
    calls = [part for part in parts if part["type"] == "tool_call"]
    results = {part["tool_call_id"]: part for part in parts if part["type"] == "tool_result"}
    if stubs := _stubs(calls, results, tool_names, draft):
        case["stubs"] = stubs
    expect: dict[str, Any] = {"tools": [_expected(call) for call in calls]}
    if approvals := _approvals(events, draft):
        expect["approvals"] = approvals
    case["expect"] = expect
    if run.get("truncated"):
        draft.remarks.append("the run is too long for one answer of the API: long values are cut")
    draft.remarks = list(dict.fromkeys(draft.remarks))
    return draft


def _of_case(message: Json) -> list[Json]:
    """Return the parts of a message that a case has: of a tool's, its result, which names its files."""
    return [
        p for p in message["content"] if message["role"] != "tool" or p["type"] == "tool_result"
    ]


def _name_of(message: Json) -> str:
    texts = (part["text"] for part in message["content"] if part["type"] == "text")
    return beginning(" ".join(texts), MAX_NAME) or "a run without words"


def beginning(text: str, most: int) -> str:
    """Return the text in one line, cut to so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _content(parts: Sequence[Json], draft: CaseDraft) -> Any:
    """Return a message's parts as a case has them: thoughts are left out, and one text is a text."""
    written = [_part(part, draft) for part in parts if part["type"] in _PLAIN_PARTS]
    if len(written) == 1 and written[0]["type"] == "text" and written[0]["text"].strip():
        return written[0]["text"]
    return [part for part in written if part.get("text", "-").strip()]


def _part(part: Json, draft: CaseDraft) -> dict[str, Any]:
    if part["type"] == "tool_result":
        return {name: part[name] for name in _OF_RESULTS if name in part}
    if part["type"] == "file" and part.get("file_id"):
        # It is the user's, in a store that a case does not have.
        name = part.get("name") or "file"
        draft.remarks.append(f"the file {name} is not in the case: a text names it")
        return {"type": "text", "text": f"[file: {name}]"}
    return {name: value for name, value in part.items() if value is not None}


def _stubs(
    calls: Sequence[Json],
    results: Mapping[str, Json],
    tool_names: Collection[str] | None,
    draft: CaseDraft,
) -> list[dict[str, Any]]:
    """Return a stub for each call that ran. Only a tool that was called with several arguments needs them: a
    stub without them answers a call in other words, too."""
    stubs: list[dict[str, Any]] = []
    for call in calls:
        tool, result = call["tool_name"], results.get(call["tool_call_id"])
        decision = ((result or {}).get("decision") or {}).get("decision")
        if result is None or decision in _NOT_RUN:
            continue
        if tool_names is not None and tool not in tool_names:
            continue
        stub: dict[str, Any] = {"tool": tool}
        others = [each["args"] for each in calls if each["tool_name"] == tool]
        if any(args != call["args"] for args in others) and isinstance(call["args"], dict):
            stub["args"] = call["args"]
        answer = result["result"]
        if isinstance(answer, dict) and answer.get("_truncated"):
            draft.remarks.append(f"a result of {tool} is cut: write the whole one into its stub")
        stub |= {"error": str(answer)} if result.get("is_error") else {"result": answer}
        stubs.append(stub)
    return stubs


def _expected(call: Json) -> dict[str, Any]:
    args = call["args"]
    expected = {"name": call["tool_name"]}
    return {**expected, "args": args} if args and isinstance(args, dict) else expected


def _approvals(events: Iterable[Json], draft: CaseDraft) -> list[dict[str, Any]]:
    """Return the run's own calls that a person approved or denied, in that order. Those of a sub-agent are
    not made: a stub answers the sub-agent."""
    waiting: dict[str, Json] = {}
    decided: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        # A request always has the path, the other events only below the run's agent.
        if len(event.get("agent_path") or ()) > 1:
            continue
        if event["type"] == "tool-call-suspended":
            waiting[event["tool_call_id"]] = event
        call = waiting.get(event.get("tool_call_id", ""))
        if event["type"] != "tool-call-decided" or call is None:
            continue
        if event["decision"] in _STUBBED:
            continue
        tool, args = call["tool_name"], call.get("args")
        if event["decision"] not in _DECIDE:
            draft.remarks.append(f"a call of {tool} was {event['decision']}: no case can do that")
            continue
        if event.get("args"):
            draft.remarks.append(
                f"{tool} was approved with other arguments: a case approves those that were asked for"
            )
        expected = {"tool": tool, "decide": _DECIDE[event["decision"]]}
        # A call that was approved may ask for something else.
        question = event["tool_call_id"], call.get("kind", "")
        decided[question] = {**expected, "args": args} if args else expected
    return list(decided.values())
