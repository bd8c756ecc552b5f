"""Everything that has to hold for a run when it is over, whatever happened to it."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from support.kills.story import Story, in_doubt
from support.system.system import Json

IDEMPOTENT = frozenset({"look_up", "offer", "shop_look_up", "star"})
DELEGATES = frozenset({"deputy", "aide"})
"""Sub-agents: they go on from the journal, so their calls are never in doubt, and do nothing themselves."""
HANDOFFS = frozenset({"transfer_to_cashier"})
"""Hand-offs: they may be repeated, and do nothing themselves."""
_RUN_ID = re.compile(r"\brun_\w+")
"""Of a sub-agent in the background: results and notices have it."""
VOTE = "tool-call-approval"
LIST = "McpServers.list_tools"
GONE = ("erased", "forgotten")
"""Ends of runs whose records are deleted."""
LAST = {
    "success": ["finish", "agent-end"],
    "failed": ["error", "finish"],
    "cancelled": ["finish"],
}
"""The last events of a run that ends so."""


def judge(story: Story, baseline: Story) -> None:
    """Fails unless the run ended as the one that nothing happened to."""
    if story.scenario.ends in GONE:
        return judge_erased(story)
    again = IDEMPOTENT | DELEGATES | HANDOFFS
    doubt = {c: sure for c, sure in in_doubt(story).items() if story.tools.get(c) not in again}
    interrupted = interrupted_in(story)
    assert interrupted <= doubt.keys(), f"interrupted {interrupted}, in doubt {doubt}"
    sure = {call for call, sure in doubt.items() if sure}
    assert sure <= interrupted, f"in doubt {sure}, but interrupted are {interrupted}"
    return judge_interrupted(story, baseline, interrupted)


def interrupted_in(story: Story) -> set[str]:
    """Return the calls that the model was told may or may not have taken effect."""
    told = "Interrupted: {} may or may not have taken effect"
    found = story.results.items()
    return {c for c, (r, is_error) in found if is_error and r == told.format(story.tools[c])}


def judge_interrupted(story: Story, baseline: Story, interrupted: set[str]) -> None:
    """As the baseline, but for what came of these calls. So did the run that followed it."""
    judge_run(story, baseline, interrupted)
    judge_messages(story)
    judge_events(story, interrupted)
    judge_ledger(story, interrupted)
    judge_lists(story)
    assert (story.then is None) == (baseline.then is None)
    if story.then is not None and baseline.then is not None:
        # Its messages are the thread's: those of the run before it are among them.
        judge_interrupted(story.then, baseline.then, interrupted)


def judge_run(story: Story, baseline: Story, interrupted: set[str]) -> None:
    """The run's own facts."""
    run, wanted = story.run, baseline.run
    assert run["status"] == story.scenario.ends, run
    for name in ("status", "finish_reason", "text", "error", "pending", "unexecuted", "output"):
        assert run[name] == wanted[name], f"{name}: {run[name]!r} instead of {wanted[name]!r}"
    given_to, wanted_by = _given_to(story), _given_to(baseline)
    assert given_to == wanted_by, "the conversation changed hands differently"
    assert run["agent"] == story.thread["agent"] == (given_to or [wanted["agent"]])[-1]
    assert story.thread["active_run"] is None
    assert story.thread["title"] == baseline.thread["title"]
    assert story.approvals == []
    assert story.at_work == []
    shown = [_shown(m, interrupted) for m in story.messages]
    assert shown == [_shown(m, interrupted) for m in baseline.messages]
    assert _tree(story, interrupted) == _tree(baseline, interrupted)
    if not interrupted:
        assert _used(run["usage"]) == _used(wanted["usage"])
        assert story.usage == baseline.usage


def _given_to(story: Story) -> list[str]:
    """Return the agents that the run handed the conversation to."""
    return [e["to"] for e in story.events if e["type"] == "handoff"]


def _tree(story: Story, interrupted: set[str]) -> list[Json]:
    """Return the end of each sub-agent."""
    facts = ("agent", "status", "finish_reason", "text", "error", "pending", "unexecuted", "output")
    return [
        {**{name: child[name] for name in facts}, "messages": _shown_all(child, interrupted)}
        for child in story.children
    ]


def _shown_all(child: Json, interrupted: set[str]) -> list[Any]:
    return [_shown(m, interrupted) for m in child["messages"]]


def _used(usage: Json) -> Json:
    """Without ids: each run is another one."""
    below = [_used(item) for item in usage["sub_agents"]]
    return {**usage, "sub_agents": below, "run_id": None}


def _shown(message: Json, interrupted: set[str]) -> tuple[str, bool, list[Json]]:
    parts = [_part(part, interrupted) for part in message["content"]]
    return message["role"], message.get("refused", False), parts


def _part(part: Json, interrupted: set[str]) -> Json:
    """Return the part without the decider and the time: each run is another user's. A call in doubt was not
    decided."""
    part = json.loads(_RUN_ID.sub("run", json.dumps(part)))
    if part["type"] == "tool_result" and part["tool_call_id"] in interrupted:
        return {**part, "result": None, "is_error": None, "decision": None}
    if "decision" in part:
        part = {**part, "decision": part["decision"]["decision"]}
    return part


def judge_messages(story: Story) -> None:
    """Order, parents, and the same everywhere."""
    ids = [m["id"] for m in story.messages]
    assert len(set(ids)) == len(ids)
    assert story.rows == ids, "Postgres holds something else than the API lists"
    times = [m["created_at"] for m in story.messages]
    assert times == sorted(set(times)), times
    assert [m["parent_id"] for m in story.messages] == [None, *ids[:-1]]
    assert [m["id"] for m in story.run["messages"]] == [m["id"] for m in story.own][1:]


def judge_events(story: Story, interrupted: set[str]) -> None:
    """The log of events (numbers without gaps were checked when it was read)."""
    events, last = story.events, LAST[story.scenario.ends]
    types = Counter(e["type"] for e in events)
    assert events[0]["type"] == "agent-start"
    assert [e["type"] for e in events[-len(last) :]] == last
    assert {t: types[t] for t in ("agent-start", "finish", "agent-end", "error")} == {
        "agent-start": 1,
        "finish": 1,
        "agent-end": 0,
        "error": 0,
        **dict.fromkeys(last, 1),
    }
    ended = Counter(e["tool_call_id"] for e in events if e["type"] == "tool-execution-end")
    assert ended == Counter(story.tools.keys()), ended
    told = [e["message"]["id"] for e in events if e["type"] == "message"]
    assert sorted(told) == sorted(m["id"] for m in story.told[1:])
    steps = [m for m in story.own if m["role"] == "assistant"]
    turns = Counter((e["message"]["run_id"], e["step"]) for e in events if e["type"] == "turn-end")
    whole = [key for key, m in _steps(story) if not _asked(m) & story.cut_off]
    assert turns == Counter(whole), turns
    _judge_paths(story)
    _judge_decisions(events)
    if story.scenario.stream:
        _judge_deltas(events, steps)


def _steps(story: Story) -> list[tuple[tuple[str, int], Json]]:
    """Each step by its run and its number, at every depth."""
    runs: dict[str, list[Json]] = {}
    for message in story.told:
        if message["role"] == "assistant":
            runs.setdefault(message["run_id"], []).append(message)
    return [((id, i), m) for id, found in runs.items() for i, m in enumerate(found, 1)]


def _judge_paths(story: Story) -> None:
    """Events say whose they are: a sub-agent's have its path, and the call in which it works."""
    agents = {child["id"]: child["agent"] for child in story.children}
    for event in story.events:
        path = event.get("agent_path", [])
        tool = story.tools.get(event.get("parent_tool_call_id", ""))
        assert tool == (path[-1] if len(path) > 1 else None), event
        if "message" in event:
            name = agents.get(event["message"]["run_id"])
            assert event.get("agent_path", [None])[-1] == name, event


def _asked(message: Json) -> set[str]:
    return {p["tool_call_id"] for p in message["content"] if p["type"] == "tool_call"}


def _judge_decisions(events: Sequence[Json]) -> None:
    votes = Counter((e["tool_call_id"], e["by"]) for e in events if e["type"] == VOTE)
    assert all(n == 1 for n in votes.values()), votes
    asked = Counter(
        (e["tool_call_id"], e["attempt"]) for e in events if e["type"] == "tool-call-suspended"
    )
    assert all(n == 1 for n in asked.values()), asked
    decided = Counter(e["tool_call_id"] for e in events if e["type"] == "tool-call-decided")
    assert decided == Counter(call for call, _ in asked), (decided, asked)


def _judge_deltas(events: Sequence[Json], steps: Sequence[Json]) -> None:
    """Check that the deltas after a step's last `turn-start` add up to its message's text."""
    said: dict[int, str] = {}
    for event in events:
        if event["type"] == "turn-start":
            said[event["step"]] = ""
        elif event["type"] == "text-delta":
            said[event["step"]] += event["text"]
    texts = ["".join(p["text"] for p in m["content"] if p["type"] == "text") for m in steps]
    assert list(said.values()) == texts


def judge_ledger(story: Story, interrupted: set[str]) -> None:
    """Check the effects that tools had on the world."""
    done = Counter(e["call"] for e in story.ledger if e["what"] != "held")
    for call, tool in story.tools.items():
        keys = {e["idempotency_key"] for e in story.ledger if e["call"] == call}
        if tool in DELEGATES | HANDOFFS:
            assert not keys
        elif call in story.scenario.denied:
            assert done[call] == 0, f"{call} ran although it was denied"
        elif tool in IDEMPOTENT:
            assert len(keys) == 1, f"{call}: {keys}"
            assert done[call] <= 2
        elif call in interrupted or call in story.cut_off:
            assert done[call] <= 1, f"{call} ran {done[call]} times"
        else:
            assert done[call] == 1, f"{call} ran {done[call]} times"


def judge_lists(story: Story) -> None:
    """Check that servers are asked for their tools before the run's first step is journaled, and never
    again."""
    steps = [
        at
        for at, line in enumerate(story.trace)
        if line.mark in "<X" and line.point.startswith("DynamoTable.transact STEP#0001 ")
    ]
    lists = [at for at, line in enumerate(story.trace) if LIST in line.point]
    assert not steps or not lists or lists[-1] < steps[0], "a list was asked for again"


def judge_erased(story: Story) -> None:
    """Nothing is left of a deleted thread and its runs (of a whole user); nothing was done twice, nothing
    goes on."""
    assert (story.thread, story.run, story.approvals) == ({}, {}, [])
    assert story.rows == []
    assert story.left == [], "records that erasing forgot"
    assert story.at_work == []
    done = Counter(e["call"] for e in story.ledger if e["what"] not in IDEMPOTENT)
    assert all(n == 1 for n in done.values()), done
