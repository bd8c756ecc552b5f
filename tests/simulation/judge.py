"""The judge of a story: promises of docs/behaviour.md, each checked by a function whose name is the promise.

Some promises hold at each moment: `at_each_change` sees every change of the journal, `at_each_effect`
whatever a tool does in the world. The others hold once a story is over: `judge_the_end` reads everything that
there is."""

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from layover.approvals.decide import Verdict
from layover.keys import (
    EVENT_PREFIX,
    HEAD,
    INPUT,
    META,
    SAID_PREFIX,
    STEP_PREFIX,
    Keys,
    run_of,
    step_key,
)
from layover.ports.table import Item
from layover.values.base import compact_json
from layover.values.message import Role
from layover.values.runs.event import LoggedEvent
from layover.values.runs.run import (
    CallRecord,
    CallState,
    DecisionKind,
    RunSnapshot,
    Status,
)
from layover.values.thread import ThreadHead
from simulation.agents import ACTS, PAYS
from simulation.clients import ANN, Clients
from simulation.world import Effect, World

_KEYS = Keys(ANN)
_KINDS = {
    Verdict.APPROVE: DecisionKind.APPROVED,
    Verdict.DENY: DecisionKind.DENIED,
    Verdict.RESUME: DecisionKind.RESUMED,
}
_NOT_RUN = ("was not run", "was not finished")
_EXCUSES = ("Interrupted", "Cancelled", "ToolChanged", "not found", "MaxCalls")
"""Results of approved calls that did not run, and said so."""
_LOOKS_S = 60.0
_MOST_LOOKS = 40


def sentence(check: Callable[..., Any]) -> str:
    """Return the promise that a check is named after."""
    return check.__name__.strip("_").replace("_", " ")


# Promises of each moment.


def a_run_that_is_over_stays_over(old: Item, new: Item) -> str | None:
    """docs/behaviour.md#run-status"""
    if "status" not in new:
        return None
    over = {status.value for status in Status if status.over}
    if old["status"] == Status.FAILED.value and new.get("reopened_at") != old.get("reopened_at"):
        return None
    if old["status"] in over and new["status"] != old["status"]:
        return f"{old['id']}: {old['status']} becomes {new['status']}"
    return None


def an_epoch_never_falls(old: Item, new: Item) -> str | None:
    """docs/behaviour.md#fences"""
    if int(new["epoch"]) < int(old["epoch"]):
        return f"{old['id']}: {old['epoch']} becomes {new['epoch']}"
    return None


def a_settled_call_stays_as_it_is(old: Item, new: Item) -> str | None:
    """docs/behaviour.md#decisions"""
    watched = ("state", "attempt", "decision")
    if old["state"] != "settled" or all(old.get(name) == new.get(name) for name in watched):
        return None
    return f"{old['sk']}: {old['state']} {old['attempt']} becomes {new['state']} {new['attempt']}"


def an_attempt_never_falls(old: Item, new: Item) -> str | None:
    """docs/behaviour.md#resuspension"""
    if int(new["attempt"]) < int(old["attempt"]):
        return f"{old['sk']}: {old['attempt']} becomes {new['attempt']}"
    return None


def the_first_decision_of_an_attempt_wins(old: Item, new: Item) -> str | None:
    """docs/behaviour.md#decisions"""
    first, now = old.get("decision"), new.get("decision")
    if first is None or old["attempt"] != new["attempt"] or first == now:
        return None
    return f"{old['sk']}: {_plain(first)} becomes {_plain(now)}"


def an_event_is_written_once(old: Item, new: Item) -> str | None:
    """docs/behaviour.md#event-log: but for the two with which a run failed that goes on."""
    is_reopened = bool(old.get("last")) and not new.get("last") and old["count"] == new.get("count")
    if is_reopened or old.get("b") == new.get("b"):
        return None
    return f"{old['pk'][-30:]} {old['sk']}"


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    return str(zlib.decompress(value).decode() if isinstance(value, bytes) else value)[:200]


OF_RUNS = (a_run_that_is_over_stays_over, an_epoch_never_falls)
OF_CALLS = (
    a_settled_call_stays_as_it_is,
    an_attempt_never_falls,
    the_first_decision_of_an_attempt_wins,
)


class Judge:
    """Watches a world, and keeps each promise that is broken."""

    def __init__(self, clients: Clients) -> None:
        self._clients, self._world = clients, clients.world
        self._newest: dict[str, str] = {}
        """The key of what each run was told or asked for last: a message, or a step."""
        self._unheard = defaultdict[str, set[str]](set)
        """The messages to each run that no step has read yet."""
        self._world.table.watch = self.at_each_change
        self._world.on_effect = self.at_each_effect

    def at_each_change(self, old: Item | None, new: Item | None) -> None:
        """Check a change of the journal."""
        if new is None:
            return
        pk, sk = str(new["pk"]), str(new["sk"])
        run_id = run_of(pk)
        if run_id is None:
            return
        if old is None:
            is_step = sk.startswith(STEP_PREFIX) and "#CALL#" not in sk
            if is_step or sk.startswith(SAID_PREFIX):
                self._newest[pk] = sk
                self._note_what_is_heard(pk, new, is_step=is_step)
            self._each_message_is_read_before_a_call_begins(pk, sk, new)
            if is_step:
                self._only_the_run_that_holds_its_thread_goes_on(pk, sk, run_id)
                self._what_was_taken_back_waits_no_more(pk, sk)
            return
        if sk == META:
            self._check(OF_RUNS, old, new)
        elif sk.startswith(STEP_PREFIX) and "#CALL#" in sk.rpartition("/")[2]:
            self._check(OF_CALLS, old, new)
            self._a_message_withdraws_no_call_that_came_later(old, new)
        elif sk.startswith(EVENT_PREFIX):
            self._check((an_event_is_written_once,), old, new)

    def _note_what_is_heard(self, pk: str, new: Item, *, is_step: bool) -> None:
        body = json.loads(_plain_whole(new["b"])) if "b" in new else None
        if body is None:
            self._unheard[pk].clear()
        elif is_step:
            self._unheard[pk] -= {notice["id"] for notice in body.get("notices", ())}
        else:
            self._unheard[pk].add(body["id"])

    def _each_message_is_read_before_a_call_begins(self, pk: str, sk: str, new: Item) -> None:
        """docs/behaviour.md#unheard: of calls that a person did not decide, and that may have an effect."""
        if "#CALL#" not in sk or "/" in sk or new.get("state") != "open" or not self._unheard[pk]:
            return
        name = json.loads(_plain_whole(new["b"]))["tool_name"] if "b" in new else ""
        if name in ACTS:
            seen = f"{name} {sk}: {sorted(self._unheard[pk])}"
            self._world.complain("each message is read before a call begins", seen)

    def _check(
        self, checks: tuple[Callable[[Item, Item], str | None], ...], old: Item, new: Item
    ) -> None:
        for check in checks:
            seen = check(old, new)
            if seen is not None:
                self._world.complain(sentence(check), seen)

    def _a_message_withdraws_no_call_that_came_later(self, old: Item, new: Item) -> None:
        """docs/behaviour.md#messages-to-runs: each call that waited when the message came."""
        decision = new.get("decision")
        if decision is None or decision == old.get("decision"):
            return
        step = str(new["sk"]).partition("#CALL#")[0]
        is_later = "/" not in str(new["sk"]) and self._newest.get(str(new["pk"])) == step
        made = json.loads(_plain_whole(decision))
        by_message = made["kind"] == DecisionKind.WITHDRAWN.value and made["reason"] is None
        if is_later and by_message:
            seen = f"{new['sk']}: no message has come since the run asked"
            self._world.complain("a message withdraws no call that came later", seen)

    def _what_was_taken_back_waits_no_more(self, pk: str, sk: str) -> None:
        """docs/behaviour.md#edits: a run that begins the thread anew has left what other runs wait for."""
        items = self._world.table.items
        meta = items.get((pk, META), {})
        if sk != step_key("", 1) or not meta.get("parent_given"):
            return
        body = (meta if "b" in meta else items[pk, INPUT]).get("b")
        if body is None or json.loads(_plain_whole(body)).get("parent_id") is not None:
            return
        head = items.get((_KEYS.thread(str(meta["thread_id"])), HEAD), {})
        for left in head.get("waiting_runs", ()):
            for key in items.get((_KEYS.run(left), META), {}).get("waiting", ()):
                # One that was approved before may wait again, for what a deployment changed.
                if items[_KEYS.run(left), key]["attempt"] == 1:
                    self._world.complain("what was taken back waits no more", f"{left} {key}")

    def _only_the_run_that_holds_its_thread_goes_on(self, pk: str, sk: str, run_id: str) -> None:
        """docs/behaviour.md#busy-threads: at most one run of a thread is at work."""
        items = self._world.table.items
        meta = items.get((pk, META), {})
        head = items.get((_KEYS.thread(str(meta.get("thread_id"))), HEAD), {})
        if head and not head.get("deleted") and head.get("active_run") != run_id:
            seen = f"{run_id} writes {sk}, and {head.get('active_run')} has the thread"
            self._world.complain("only the run that holds its thread goes on", seen)

    def at_each_effect(self, effect: Effect) -> None:
        """Check what a tool does in the world, when it does it."""
        item = self._item_of(effect)
        if item is None:
            if not self._clients.known.deleted:
                self._world.complain("whatever runs has a record", str(effect))
            return
        if item["state"] not in ("open", "settled"):
            seen = f"{effect} while its record says {item['state']}"
            self._world.complain("a call is journaled before it runs", seen)
        if effect.tool not in PAYS:
            return
        decision = item.get("decision")
        kind = json.loads(_plain_whole(decision))["kind"] if decision is not None else None
        if kind != DecisionKind.APPROVED.value:
            seen = f"{effect}: {kind}"
            self._world.complain("nothing runs before it is approved", seen)

    def _item_of(self, effect: Effect) -> Item | None:
        pk, end = _KEYS.run(effect.run_id), f"#CALL#{quote(effect.call_id, safe='')}"
        found = (
            item
            for (of, sk), item in self._world.table.items.items()
            if of == pk and sk.endswith(end)
        )
        return next(found, None)


def _plain_whole(value: Any) -> str:
    return zlib.decompress(value).decode() if isinstance(value, bytes) else str(value)


# Promises of the end.


@dataclass
class Evidence:
    """Everything that there is once a story is over."""

    world: World
    clients: Clients
    runs: dict[str, RunSnapshot]
    calls: dict[tuple[str, str], CallRecord]
    """By run and by the model's own id."""
    events: dict[str, list[LoggedEvent]]
    closed: set[str]
    """Runs whose log is closed."""
    heads: dict[str, ThreadHead]
    audit: Counter[tuple[str, str]]
    """Rows of decisions, by run and call."""

    @property
    def known(self) -> Any:
        return self.clients.known

    @property
    def over(self) -> list[RunSnapshot]:
        return [run for run in self.runs.values() if run.meta.status.over]

    @property
    def unsaved(self) -> set[str]:
        return {run_id for head in self.heads.values() for run_id in head.unsaved}

    @property
    def may_lose(self) -> bool:
        """True if processes died, or requests failed: what is only counted may be lost then."""
        counts = self.world.counts
        names = ("dies before", "dies after", "deaths in tools", "fails", "lost", "time-outs")
        return any(counts[name] for name in (*names, "doubled"))

    def decisions_of(self, call: CallRecord) -> list[int]:
        """Return the attempts that were decided."""
        past = [each["attempt"] for each in call.past]
        return [*past, call.attempt] if call.decision else past


async def gather_evidence(clients: Clients) -> Evidence:
    """Read everything that there is."""
    runs = {run.meta.id: run for run in await clients.runs()}
    calls = {(run_id, c.tool_call_id): c for run_id, run in runs.items() for c in run.calls}
    events, closed = {}, set()
    for run_id in runs:
        # A page is of some batches: a long log has several.
        page = await clients.plain.journal.events.page(ANN, run_id, 0, 10_000)
        events[run_id] = list(page.items)
        while page.items and not page.done:
            page = await clients.plain.journal.events.page(ANN, run_id, page.last_seq, 10_000)
            events[run_id] += page.items
        if page.done:
            closed.add(run_id)
    heads = {}
    for thread in clients.threads:
        head = await clients.plain.journal.heads.get(ANN, thread)
        if head is not None:
            heads[thread] = head
    rows = (await clients.plain.journal.audit.page_rows(None, None, 10_000, None)).items
    audit = Counter((row.run_id, str(row.tool_call_id)) for row in rows if row.settled)
    return Evidence(clients.world, clients, runs, calls, events, closed, heads, audit)


Check = Callable[[Evidence], Iterator[str]]


def every_run_comes_to_its_end(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#executions: the death of an execution is never the death of a run. Without a fault,
    nothing waits for the sweeper."""
    for run in seen.runs.values():
        meta = run.meta
        if meta.status.over:
            continue
        calls = [
            (c.tool_call_id, c.state.value, c.decision and c.decision.kind.value, c.attempt)
            for c in run.calls
            if c.state is not CallState.SETTLED
        ]
        yield (
            f"{meta.id} is {meta.shown_status.value}: epoch {meta.epoch}, attempts {meta.attempts}, "
            f"ready {meta.ready}, aside {meta.aside}, cancel {meta.cancel}, "
            f"execution {meta.execution}, calls {calls}"
        )


def a_run_fails_only_if_its_attempts_are_used_up(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#attempts"""
    for run in seen.over:
        error = run.meta.error
        if run.meta.status is not Status.FAILED:
            continue
        if error is None or error.type not in seen.world.features.may_fail:
            yield f"{run.meta.id}: {error}"


def a_call_takes_effect_at_most_once(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#calls-in-doubt"""
    effects: dict[tuple[str, str], list[Effect]] = defaultdict(list)
    for effect in seen.world.effects:
        effects[effect.run_id, effect.call_id].append(effect)
    for same in effects.values():
        if len(same) > 1:
            yield "; ".join(map(str, same))


def no_record_denies_what_took_effect(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#cancel: `was not run` stands only with a call that did not run."""
    for effect in seen.world.effects:
        record = seen.calls.get((effect.run_id, effect.call_id))
        if record is not None and any(words in str(record.result) for words in _NOT_RUN):
            yield f"{effect}: {record.result}"


def whatever_ran_was_approved_as_it_ran(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#exact-approvals"""
    for effect in seen.world.effects:
        record = seen.calls.get((effect.run_id, effect.call_id))
        if record is None:
            continue
        decision = record.decision
        if effect.tool in PAYS:
            if decision is None or decision.kind is not DecisionKind.APPROVED:
                yield f"{effect}: {decision and decision.kind.value}, {record.result}"
                continue
            asked = record.suspension.args if record.suspension else None
            approved = decision.exact_args if decision.args is not None else asked
            if compact_json(approved) != compact_json(effect.given):
                yield f"{effect}: {approved} was approved"
            if decision.at.timestamp() > effect.at + 2 * seen.world.story.faults.skew_s + 0.001:
                yield f"{effect}: approved later, at {decision.at}"
        elif effect.tool == "book":
            if decision is None or decision.kind is not DecisionKind.RESUMED:
                yield f"{effect}: nobody chose"
            elif decision.data != effect.given:
                yield f"{effect}: {decision.data} was chosen"
        elif effect.tool == "mail" and seen.world.features.mail_asks:
            kinds = [each["kind"] for each in record.past]
            kinds += [decision.kind.value] if decision else []
            if DecisionKind.APPROVED.value not in kinds:
                yield f"{effect}: {kinds}"


def nothing_runs_below_its_quorum(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#approvers"""
    for effect in seen.world.effects:
        record = seen.calls.get((effect.run_id, effect.call_id))
        if effect.tool != "big" or record is None or record.decision is None:
            continue
        # A callback decides on its own.
        if record.decision.decided_by.startswith(("boss", "chief")):
            people = {vote.person for vote in record.votes}
            if len(people) < 2:
                yield f"{effect}: {people}"


def nothing_takes_effect_after_the_end_of_its_run(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#cancel"""
    ends = {
        run_id: event.at.timestamp()
        for run_id, events in seen.events.items()
        for event in events
        if event.type == "finish"
    }
    for effect in seen.world.effects:
        record, end = seen.calls.get((effect.run_id, effect.call_id)), ends.get(effect.run_id)
        if record is None or end is None or "may or may not" in str(record.result):
            continue
        if effect.at > end + 2 * seen.world.story.faults.skew_s + 0.5:
            yield f"{effect}: {effect.at - end:.2f} s late: {record.result}"


def an_acknowledged_decision_is_kept(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#decisions"""
    for told in seen.known.decisions:
        record = seen.calls.get((told.call.run_id, told.call.tool_call_id))
        if record is None:
            if not seen.known.deleted:
                yield f"{told.call.tool_call_id} is gone"
            continue
        if told.call.rule and told.request.verdict is Verdict.APPROVE:
            continue  # a vote
        kept = record.decision_on(told.call.attempt)
        if kept is None or (kept.kind, kept.decided_by) != (_KINDS[told.request.verdict], told.by):
            shown = kept and (kept.kind.value, kept.decided_by)
            name = f"{told.call.tool_call_id} attempt {told.call.attempt}"
            yield f"{name}: {told.request.verdict.value} by {told.by} became {shown}"


def an_approved_call_runs_or_says_why_not(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#decisions"""
    ran = {(effect.run_id, effect.call_id) for effect in seen.world.effects}
    for (run_id, call_id), call in seen.calls.items():
        decision = call.decision
        if call.tool_name not in PAYS or decision is None or (run_id, call_id) in ran:
            continue
        is_over = seen.runs[run_id].meta.status is Status.SUCCESS
        is_excused = any(words in str(call.result) for words in _EXCUSES)
        if decision.kind is DecisionKind.APPROVED and is_over and not is_excused:
            yield f"{call_id}: {call.result}"


def a_log_tells_each_thing_once_and_ends(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#event-log, docs/behaviour.md#event-order"""
    for run_id, run in seen.runs.items():
        events = seen.events[run_id]
        numbers, types = [event.seq for event in events], [event.type for event in events]
        if numbers != list(range(1, len(events) + 1)):
            yield f"{run_id}: {numbers}"
        if types.count("agent-start") > 1:
            yield f"{run_id}: agent-start comes {types.count('agent-start')} times"
        for event in _repeated(events):
            yield f"{run_id}: {event} comes again"
        if not run.meta.status.over:
            continue
        if run_id not in seen.closed:
            yield f"{run_id}: the log is not closed"
        if types.count("finish") != 1 or types[-1] not in ("finish", "agent-end"):
            yield f"{run_id}: it ends with {types[-3:]}"


def _repeated(events: list[LoggedEvent]) -> Iterator[str]:
    """Yield the names of what was told more than once."""
    told: Counter[str] = Counter()
    for event in events:
        shown: Any = event
        if event.type == "tool-execution-end":
            told[f"the end of {shown.tool_call_id}"] += 1
        elif event.type == "turn-end":
            told[f"the end of step {shown.step} of {shown.message.id}"] += 1
        elif event.type == "message":
            told[f"the message {shown.message.id}"] += 1
    yield from (name for name, count in told.items() if count > 1)


def a_log_has_every_result_and_every_decision(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#event-log"""
    for run in seen.over:
        ended: set[str] = set()
        decided: Counter[str] = Counter()
        for event in seen.events[run.meta.id]:
            shown: Any = event
            if event.type == "tool-execution-end":
                ended.add(shown.tool_call_id)
            elif event.type == "tool-call-decided":
                decided[shown.tool_call_id] += 1
        for call in run.calls:
            name = f"{run.meta.id} {call.tool_call_id}"
            is_own = call.tool_name.startswith("layover.")
            if call.state is CallState.SETTLED and not is_own and call.tool_call_id not in ended:
                yield f"{name}: its result is not told"
            wanted = len(seen.decisions_of(call))
            if call.suspension and decided[call.tool_call_id] != wanted:
                yield f"{name}: {decided[call.tool_call_id]} of {wanted} decisions are told"


def every_decision_has_its_row_in_the_audit(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#audit"""
    for key, call in seen.calls.items():
        wanted = len(seen.decisions_of(call))
        if call.suspension and seen.audit[key] != wanted:
            yield f"{key}: {seen.audit[key]} rows of {wanted} decisions"


def the_bus_has_every_decision(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#callbacks: at least once."""
    told = {
        (detail["run_id"], detail["tool_call_id"], detail["attempt"])
        for kind, detail in seen.world.events
        if kind == "ApprovalDecided"
    }
    for (run_id, call_id), call in seen.calls.items():
        if not call.suspension:
            continue
        for attempt in seen.decisions_of(call):
            if (run_id, call_id, attempt) not in told:
                yield f"{run_id} {call_id} attempt {attempt}"


def usage_is_the_sum_of_the_steps(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#usage"""
    rows: Counter[str] = Counter()
    for (_, run_id, _), (kind, row) in seen.world.threads.usage_rows.items():
        if kind == "run":
            used: Any = row
            rows[run_id] += getattr(used, "usage", used).total_tokens
    for run in seen.over:
        meta, spent = run.meta, sum(step.counts_as.total_tokens for step in run.steps)
        if meta.id in seen.unsaved or not meta.saved:
            continue
        if run.steps and rows[meta.id] != spent:
            yield f"{meta.id}: the rows say {rows[meta.id]}, the steps {spent}"
        if meta.usage.total_tokens != spent:
            yield f"{meta.id}: the run says {meta.usage.total_tokens}, the steps {spent}"


def a_day_counts_what_was_spent(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#daily-limits"""
    if seen.world.settings.daily_tokens is None or seen.may_lose:
        return
    items = seen.world.table.items.items()
    day = next((item for (pk, _), item in items if "#DAY#" in pk), {})
    holds = [name for name in day if name.startswith("hold_")]
    if holds:
        yield f"{holds} are held"
    spent = sum(step.counts_as.total_tokens for run in seen.runs.values() for step in run.steps)
    most, told = 15 * seen.world.counts["model calls"], int(day.get("tokens", 0))
    if not spent <= told <= most and not seen.known.deleted:
        yield f"the day says {told}, the steps {spent}, the model {most}"


def a_thread_at_rest_has_no_run(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#busy-threads"""
    if len(seen.over) < len(seen.runs):
        return
    for head in seen.heads.values():
        held = (head.active_run, *head.waiting_runs, *head.ready, *head.queue)
        if not head.deleted and (any(held) or head.interrupts):
            yield f"{head.id}: {held}, {head.interrupts} interrupts"


def what_was_said_is_in_its_thread_once(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#messages-to-runs, docs/behaviour.md#chat-ids"""
    shown: Counter[str] = Counter()
    for thread in seen.clients.threads:
        stored = seen.world.threads.find(ANN, thread)
        if stored is not None:
            shown.update(m.text for m in stored.messages.values() if m.role is Role.USER)
    for text, run_id in seen.known.said.items():
        run = seen.runs.get(run_id)
        if run is None:
            if not seen.known.deleted:
                yield f"{text!r}: its run is gone"
            continue
        if run_id not in seen.unsaved and shown[text] != 1:
            yield f"{text!r} is there {shown[text]} times; its run is {run.meta.status.value}"


def a_message_follows_one_that_is_stored(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#message-times"""
    for thread, head in seen.heads.items():
        stored = seen.world.threads.find(ANN, thread)
        if stored is None or head.unsaved:
            continue
        for message in stored.messages.values():
            if message.parent_id is not None and message.parent_id not in stored.messages:
                yield f"{thread}: {message.text[:30]!r} follows {message.parent_id}, which is nowhere"


def the_times_of_a_branch_grow(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#message-times"""
    for thread in seen.heads:
        stored = seen.world.threads.find(ANN, thread)
        if stored is None:
            continue
        parents = set(stored.parents.values())
        for leaf in [
            message.id for message in stored.messages.values() if message.id not in parents
        ]:
            path = [m for m in stored.path(leaf) if m.role is not Role.CUSTOM]
            times = [message.created_at for message in path]
            if times != sorted(set(times)):
                yield f"{thread}: {[(m.text[:12], str(m.created_at)[11:]) for m in path]}"


def a_thread_has_one_branch_unless_a_parent_was_named(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#branches"""
    for thread, head in seen.heads.items():
        stored = seen.world.threads.find(ANN, thread)
        if stored is None or head.unsaved or seen.known.has_branches:
            continue
        parents = set(stored.parents.values())
        leaves = [message for message in stored.messages.values() if message.id not in parents]
        if len(leaves) > 1:
            yield f"{thread}: {[(m.role.value, m.text[:20], m.id == head.leaf_id) for m in leaves]}"


def the_thread_shows_every_result(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#orphan-calls: the result of each call is on the branch of its request."""
    for thread, head in seen.heads.items():
        stored = seen.world.threads.find(ANN, thread)
        if stored is None or seen.known.has_branches or head.leaf_id not in stored.messages:
            continue
        branch = {message.id for message in stored.path(head.leaf_id)}
        for run in seen.over:
            for step in run.steps:
                if step.message.id not in branch or "/" in step.key:
                    continue
                missing = [
                    slot.tool_call_id
                    for slot in step.slots
                    if slot.message_id not in branch
                    and (run.meta.id, slot.tool_call_id) in seen.calls
                ]
                if missing:
                    yield f"{run.meta.id}: {missing}"


def lists_have_only_what_waits(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#approvers"""
    if len(seen.over) < len(seen.runs):
        return
    for item in seen.world.table.items.values():
        if str(item.get("gsi1sk", "")).startswith("A#"):
            yield f"the owner's list: {item['sk']} {item['state']}"
        if str(item.get("gsi2pk", "")).startswith("APPROVERS#"):
            yield f"the approvers' list: {item['sk']}"


def a_stream_comes_to_its_end(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#streams"""
    for run_id, (last, is_done) in seen.known.streams.items():
        run = seen.runs.get(run_id)
        if run is not None and run.meta.status.over and not is_done:
            yield f"{run_id}: after {last}"


def a_deleted_thread_leaves_nothing(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#deletion"""
    if not seen.known.deleted:
        return
    items = seen.world.table.items
    runs = {pk for pk, sk in items if sk == META}
    for (pk, sk), item in items.items():
        for thread in seen.known.deleted:
            is_of = f"#THREAD#{thread}" in pk and sk != HEAD
            if item.get("thread_id") == thread or is_of:
                yield f"{pk[-40:]} {sk}"
        if "#RUN#" in pk and pk not in runs:
            yield f"{pk[-40:]} {sk}, without its run"


def people_are_told_once(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#channels"""
    for kind, sender in seen.clients.services.senders.items():
        if kind != "slack" and (seen.may_lose or seen.world.counts["stalls before"]):
            continue  # mail does not know what it has sent
        told = Counter((m.once, m.address.to) for m in sender.messages.values())
        yield from (f"{key}: {count} times" for key, count in told.items() if count > 1)


def a_message_about_a_decided_call_has_no_buttons(seen: Evidence) -> Iterator[str]:
    """docs/behaviour.md#channels"""
    for message in seen.clients.services.senders["slack"].messages.values():
        about = message.notice.call
        call = seen.calls.get((about.run_id, about.tool_call_id))
        decision = call and call.decision_on(about.attempt)
        if decision is not None and message.notice.kind.value != "decided":
            yield f"{message.address.to}: {message.notice.kind.value} {about.tool_call_id}"


def an_imported_thread_has_every_message_once(seen: Evidence) -> Iterator[str]:
    """docs/guides/memory.md#import"""
    for thread, texts in seen.known.imported.items():
        stored = seen.world.threads.find(ANN, thread)
        found = [m.text for m in stored.messages.values()] if stored else []
        if sorted(found) != sorted(texts):
            yield f"{thread}: {found}"


AT_THE_END: tuple[Check, ...] = (
    every_run_comes_to_its_end,
    a_run_fails_only_if_its_attempts_are_used_up,
    a_call_takes_effect_at_most_once,
    no_record_denies_what_took_effect,
    whatever_ran_was_approved_as_it_ran,
    nothing_runs_below_its_quorum,
    nothing_takes_effect_after_the_end_of_its_run,
    an_acknowledged_decision_is_kept,
    an_approved_call_runs_or_says_why_not,
    a_log_tells_each_thing_once_and_ends,
    a_log_has_every_result_and_every_decision,
    every_decision_has_its_row_in_the_audit,
    the_bus_has_every_decision,
    usage_is_the_sum_of_the_steps,
    a_day_counts_what_was_spent,
    a_thread_at_rest_has_no_run,
    what_was_said_is_in_its_thread_once,
    a_message_follows_one_that_is_stored,
    the_times_of_a_branch_grow,
    a_thread_has_one_branch_unless_a_parent_was_named,
    the_thread_shows_every_result,
    lists_have_only_what_waits,
    a_stream_comes_to_its_end,
    a_deleted_thread_leaves_nothing,
    people_are_told_once,
    a_message_about_a_decided_call_has_no_buttons,
    an_imported_thread_has_every_message_once,
)


async def judge_the_end(clients: Clients) -> None:
    """Check everything that holds once a story is over."""
    seen = await gather_evidence(clients)
    for check in AT_THE_END:
        for complaint in check(seen):
            clients.world.complain(sentence(check), complaint)
