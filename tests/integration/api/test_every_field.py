"""What callers may see of a record is all shown: by the routes, and by the export.

Each value has something in every field (`support.filled`). A test says which fields are not shown."""

from typing import Any

from functions.api.bodies import NewThread, ThreadPatch
from integration.api.kit import Api
from layover import Agent, Memory, ObservationalMemory, WorkingMemory
from layover.files.store import Files
from layover.keys import call_key, child_path, step_key
from layover.plugins.memory.learns.entries import Entry
from layover.plugins.memory.learns.profiles import Profile
from layover.plugins.memory.reads.profile.notes import working_key
from layover.plugins.memory.reads.thread_memory import ShownObservation, ThreadMemory
from layover.ports.memory.personal import StoredKind
from layover.records.views import run_view
from layover.values.base import Value
from layover.values.decision import ApprovalRule, Decision, Vote
from layover.values.file import FileFacts
from layover.values.memory.compaction import NewGeneration, Observation
from layover.values.memory.context import (
    Extraction,
    LoggedAttempt,
    StepUsage,
    ThreadState,
    TurnQuery,
)
from layover.values.memory.entry import FoundEntry, MemoryEntry, NewEntry
from layover.values.message import FilePart, Message, Role, ToolCallPart
from layover.values.note import Note, profile_key
from layover.values.runs.child import ChildRun
from layover.values.runs.run import (
    CallRecord,
    CallState,
    OnBusy,
    RunMeta,
    RunSnapshot,
    Status,
    StepRecord,
    Suspension,
    ToolMessageSlot,
)
from layover.values.runs.views import Pending, Run, UnexecutedCall
from layover.values.thread import Thread, ThreadHead
from support.filled import filled, lost, not_shown
from support.worlds.services import ANN

URL = "https://example.com/a.png"

# Threads


NOT_SHOWN_OF_THREADS = {
    "owner": "it is the caller",
    "leaf_id": "`GET /threads/{id}/messages` ends with it",
    "last_created_at": "likewise",
    "queue": "`GET /threads/{id}/runs` lists queued runs",
    "interrupts": "likewise",
    "ready": "`waiting_runs` has them",
    "unsaved": "where a run's messages are is nobody's concern",
    "unplaced": "likewise",
    "windows": "what a provider said of its models",
    "deleted": "a deleted thread is not found",
    "forget_profile": "likewise",
    "empty_again_at": "likewise",
}


def put_head(api: Api, **given: Any) -> ThreadHead:
    """A thread with something in every field; its active run is gone."""
    own = {"owner": ANN, "agent": "support", "deleted": False, "unsaved": (), "leaf_id": None}
    head = filled(ThreadHead, **{**own, **given})
    api.do(api.world.journal.heads.put(head))
    return head


def test_every_field_of_a_thread_is_shown(api: Api) -> None:
    head = put_head(api)
    shown = api.get(f"/threads/{head.id}").json
    assert [shown] == api.get("/threads").json["items"]
    assert lost(Thread.model_validate(shown), head) == {"active_run", "waiting_runs"}
    assert ThreadHead.model_fields.keys() - Thread.model_fields.keys() == set(NOT_SHOWN_OF_THREADS)


def test_every_field_of_a_new_thread_is_shown(api: Api) -> None:
    # What an import brings is among its messages, and in its id.
    imported: dict[str, object] = {"messages": [], "external_id": None, "offset": 0}
    new = filled(NewThread, agent="support", **imported)
    made = api.post("/threads", new.model_dump(mode="json"))
    assert made.status == 201
    assert not_shown(new, made.json) == imported.keys()
    assert api.get(f"/threads/{made.json['id']}").json == made.json


def test_every_field_of_a_change_is_shown(api: Api) -> None:
    head, patch = put_head(api), filled(ThreadPatch, 1_000)
    changed = api.send("PATCH", f"/threads/{head.id}", patch.model_dump(mode="json"))
    assert not_shown(patch, changed.json) == set()
    assert api.get(f"/threads/{head.id}").json == changed.json
    before = head.model_dump(mode="json")
    runs = {"updated_at", "active_run", "waiting_runs"}
    others = changed.json.keys() - ThreadPatch.model_fields.keys() - runs
    assert {name: changed.json[name] for name in others} == {name: before[name] for name in others}


# Runs


NOT_SHOWN_OF_RUNS = {
    "owner": "it is the caller",
    **dict.fromkeys(("parent_given", "thread_given", "stream"), "the caller asked for it"),
    **dict.fromkeys(("max_iterations", "choice"), "the caller asked for it"),
    **dict.fromkeys(
        ("groups", "scopes"), "they are the caller's own token, and nobody else is told of it"
    ),
    **dict.fromkeys(("waiting", "decided", "cancel"), "the status and `pending` tell of it"),
    **dict.fromkeys(
        ("aside", "ready", "hears", "loose_at", "unplaced"), "how it shares its thread"
    ),
    "said": "its messages are the thread's",
    **dict.fromkeys(
        ("epoch", "phase", "branches", "attempts", "n", "execution", "history"),
        "who drives the run",
    ),
    **dict.fromkeys(("lost_at", "redriven_at", "reopened_at"), "who drives the run"),
    "away": "`waiting_for` tells of it while it lasts",
    **dict.fromkeys(("compacted_for", "compacted_before"), "when it waited for its compaction"),
    **dict.fromkeys(("step_ended", "saved", "sockets", "subscribed", "owed"), "delivery"),
    "untold": "delivery",
    "error_detail": "operators are told of it (test_operate.py)",
    "pointed": "how approvers find it",
    "definition": "the event `definition-changed` tells of it",
    **dict.fromkeys(("records_expire_at", "records_kept"), "when its records go"),
    **dict.fromkeys(("traceparent", "takes", "left"), "for its trace"),
}
MADE_OF_STEPS = {"status", "text", "messages", "pending", "unexecuted", "usage", "children"}
"""Fields of a run's view that no single field of its record says."""


def snapshot() -> RunSnapshot:
    """A run that has called a sub-agent, waits for one call, and has not begun another."""
    step = step_key("", 1)
    names = ("agent", "waits", "planned")
    parts = tuple(filled(ToolCallPart, n, tool_call_id=id) for n, id in enumerate(names, 1))
    slots = tuple(filled(ToolMessageSlot, n, tool_call_id=id) for n, id in enumerate(names, 1))
    message = filled(Message, role=Role.ASSISTANT)
    asks = message.model_copy(update={"content": (*message.content, *parts)})
    own = filled(StepRecord, key=step, message=asks, slots=slots)
    called = call_key(step, "agent")
    answer = filled(Message, 2_000, role=Role.ASSISTANT)
    nested = filled(StepRecord, key=step_key(child_path(called), 1), message=answer, slots=())
    places = {"run_id": "run", "tool_call_id": "agent"}
    settled = filled(CallRecord, key=called, state=CallState.SETTLED, **places)
    waits = {"state": CallState.WAITING, "decision": None, "child": None}
    places |= {"tool_call_id": "waits"}
    waiting = filled(CallRecord, 1_000, key=call_key(step, "waits"), **places, **waits)
    meta = filled(RunMeta, id="run", status=Status.RUNNING)
    return RunSnapshot(meta=meta, steps=(own, nested), calls=(settled, waiting))


def at_default(view: Value) -> set[str]:
    fields = type(view).model_fields.items()
    return {n for n, f in fields if getattr(view, n) == f.get_default(call_default_factory=True)}


def names(paths: set[str]) -> set[str]:
    """Return the outermost fields of paths."""
    return {path.partition(".")[0] for path in paths}


def test_every_field_of_a_run_is_shown() -> None:
    run = snapshot()
    view = run_view(run)
    # A run that is not cut and does not pause, and whose feedback is another record (test_feedback.py).
    elsewhere = {"truncated", "feedback", "waiting_for"}
    assert names(lost(view, run.meta)) == MADE_OF_STEPS | elsewhere
    assert at_default(view) == elsewhere
    assert RunMeta.model_fields.keys() - Run.model_fields.keys() == set(NOT_SHOWN_OF_RUNS)


def test_every_field_of_a_sub_agents_run_is_shown() -> None:
    run = snapshot()
    [view] = run_view(run).children
    child = run.calls[0].child
    assert child is not None
    of_the_run = {"thread_id", "model"}
    times = {"created_at": view.created_at, "updated_at": view.updated_at}
    assert times == {"created_at": child.started_at, "updated_at": child.ended_at}
    assert lost(view, child) - MADE_OF_STEPS == of_the_run | times.keys() | {
        "truncated",
        "feedback",
        "waiting_for",
    }
    rest = {"truncated", "feedback", "waiting_for"}
    assert at_default(view) == {"pending", "unexecuted", "children"} | rest
    elsewhere = {"started_at", "ended_at", "background", "answer", "loop", "error_detail"}
    assert ChildRun.model_fields.keys() - Run.model_fields.keys() == elsewhere


NOT_SHOWN_OF_CALLS = {
    **dict.fromkeys(("key", "run_id", "child", "custom", "ends_step", "log_seq"), "its place"),
    **dict.fromkeys(("state", "rev", "opener", "token"), "who makes it"),
    "suspension": "its fields are shown",
    **dict.fromkeys(("decision", "past", "settled_at"), "none is made yet"),
    **dict.fromkeys(("result", "model_output", "files", "is_error", "retry"), "there is none yet"),
    **dict.fromkeys(("votes", "voted"), "`approval.given`"),
    "extended_to": "`expires_at`",
    "escalated": "`approval.by`",
    "reminders": "the events of the run have them",
    "hooked": "`args` are those that hooks gave",
    "denial": "nobody is asked for a call that an earlier denial settles",
    "offered": "a call of a tool that was not offered never waits",
}


def test_every_field_of_a_waiting_call_is_shown() -> None:
    run = snapshot()
    [pending], [planned] = run_view(run).pending, run_view(run).unexecuted
    waiting, part = run.calls[1], run.steps[0].message.tool_calls[-1]
    assert waiting.suspension is not None
    said = {"args": waiting.exact_args, "approval": waiting.approval}
    said |= {"expires_at": waiting.extended_to}
    fields = {**dict(waiting), **dict(waiting.suspension), **said}
    assert pending == Pending.model_validate(fields)
    # The tool as it is deployed says it, and no record: tests/integration/api/test_args_schemas.py.
    assert at_default(pending) == {"args_schema"}
    assert pending.approval is not None
    assert lost(waiting.rule, pending.approval) == set()
    assert pending.approval.given == waiting.votes
    shown = Pending.model_fields.keys()
    assert CallRecord.model_fields.keys() - shown == set(NOT_SHOWN_OF_CALLS)
    # The rule comes back with the request for approval, if there has to be another. The note of a tool to
    # itself may have what is a server's own. The hash of the tool is for hooks.
    assert Suspension.model_fields.keys() - shown == {"approved_under", "definition", "memo"}
    recorded = CallRecord.model_fields.keys() | Suspension.model_fields.keys()
    assert shown - recorded == {"args_schema"}
    assert lost(planned, part) == set()
    assert UnexecutedCall.model_fields.keys() == ToolCallPart.model_fields.keys() - {"type"}


# Memory


def stored_thread(api: Api, *messages: Message) -> ThreadHead:
    """A thread that the database knows, with these messages behind each other."""
    head = put_head(
        api, active_run=None, queue=(), interrupts=0, waiting_runs=(), ready=(), leaf_id="m"
    )
    own = {"thread_id": head.id, "parent_id": None}
    first = messages[0] if messages else filled(Message, id="m", **own)
    api.do(api.world.threads.open_turn(TurnQuery(head=head, run_id="run", input=first, window=20)))
    return head


def said_in(thread_id: str) -> Message:
    """A message with something in every field. Its files are the user's own and one of elsewhere."""
    message = filled(Message, id="m", parent_id=None, thread_id=thread_id)
    own, elsewhere = filled(FilePart, url=None), filled(FilePart, 1_000, file_id=None, url=URL)
    others = [part for part in message.content if not isinstance(part, FilePart)]
    return message.model_copy(update={"content": (*others, own, elsewhere)})


def learn(api: Api, head: ThreadHead, *usage: StepUsage) -> tuple[NewEntry, ThreadState]:
    """An entry, a session, a plan and an attempt of the thread, with something in every field."""
    entry = filled(NewEntry, agent="support", thread_id=head.id, supersedes=())
    attempt = filled(LoggedAttempt, attempt=1)
    state = filled(ThreadState, attempts=(attempt,))
    extraction = Extraction(
        run_id="run",
        thread_id=head.id,
        agent="support",
        entries=(entry,),
        at=entry.created_at,
        session=state.session,
        session_said=state.session_said,
        state_version=0,
        usage=usage,
    )
    memory = api.world.runtime.memory
    assert api.do(memory.record_extraction(ANN, extraction))
    assert api.do(memory.write_plan(ANN, head.id, state.plan, entry.created_at))
    assert api.do(memory.log_attempt(ANN, head.id, attempt, "id"))
    return entry, state


def observed(api: Api, head: ThreadHead, kind: str) -> NewGeneration:
    """A generation of the thread's first message, with something in every field."""
    new = filled(NewGeneration, kind=kind, after_message_id=None, through_message_id="m")
    memory = api.world.runtime.memory
    if kind == "summary":
        assert api.do(memory.replace(ANN, head.id, new, None, "run"))
    else:
        made = api.do(memory.add_slice(ANN, head.id, new, "run"))
        assert made is not None
        assert api.do(memory.activate(ANN, head.id, [made.number], None))
    return new


def test_every_field_of_an_entry_is_shown(api: Api) -> None:
    entry, _ = learn(api, stored_thread(api))
    [listed] = api.get("/memory/entries?agent=support").json["items"]
    found = MemoryEntry.model_validate(entry.model_dump())
    assert not_shown(found, listed) == set()
    [ranked] = api.get("/memory/entries?agent=support&query=content").json["items"]
    assert not_shown(found, ranked) == set()
    assert None not in (ranked["score"], ranked["text_score"])
    assert Entry.model_fields.keys() - {"said_at"} == FoundEntry.model_fields.keys()
    assert listed["said_at"] == listed["created_at"]


def test_every_field_of_a_profile_is_shown(api: Api) -> None:
    note = filled(Note, key=profile_key("support"))
    assert note.updated_at is not None
    memory = api.world.runtime.memory
    api.do(memory.replace_note(ANN, note.key, note.value, note.updated_at, note.run_id))
    profile = Profile(agent="support", profile=note.value, updated_at=note.updated_at)
    assert api.get("/memory/profile?agent=support").json == profile.model_dump(mode="json")
    internal = {"version", "created_at", "run_id", "key", "value"}
    assert Note.model_fields.keys() - Profile.model_fields.keys() == internal


def test_every_field_of_a_threads_memory_is_shown(api: Api) -> None:
    memory = Memory(working_memory=WorkingMemory(), compaction=ObservationalMemory())
    agent = api.world.agents["support"] = Agent("support", memory=memory)
    head = stored_thread(api)
    _, state = learn(api, head)
    new = observed(api, head, "observations")
    key = working_key(agent, head.id)
    assert key is not None
    api.do(api.world.runtime.memory.replace_note(ANN, key, {"a": 1}, head.created_at))
    shown = api.get(f"/threads/{head.id}/memory").json
    assert not_shown(state, {**shown, "attempts": shown["iteration_log"]}) == {
        "session_said",
        "version",
    }
    observations = [o.model_dump(mode="json") for o in new.observations]
    assert shown["observations"] == [{**o, "active": True} for o in observations]
    assert ShownObservation.model_fields.keys() == {*Observation.model_fields, "active"}
    assert shown["working_memory"] == {"a": 1}
    assert all(shown[name] for name in ThreadMemory.model_fields)


# Messages


def test_every_field_of_a_message_is_shown(api: Api) -> None:
    message = said_in("id 1")
    head = stored_thread(api, message)
    [shown] = api.get(f"/threads/{head.id}/messages").json["items"]
    assert not_shown(message, shown) == set()


# The export


OF_THE_STORE = {"version", "run_id", "key"}
"""Fields of a note that are not shown, but for parts of its key."""


def document(api: Api) -> Any:
    return api.get("/me/export").json


def test_every_field_of_a_thread_is_exported(api: Api) -> None:
    message = said_in("id 1")
    head = stored_thread(api, message)
    _, state = learn(api, head)
    observed(api, head, "observations")
    [thread] = document(api)["threads"]
    assert lost(Thread.model_validate(thread), head) == set()
    assert Thread.model_fields.keys() - thread.keys() == {"active_run", "waiting_runs"}
    assert not_shown(state, {**thread, "attempts": thread["iteration_log"]}) == {
        "session_said",
        "version",
    }
    [exported] = thread["messages"]
    assert not_shown(message, exported) == set()
    memory = api.world.runtime.memory
    kinds: tuple[tuple[StoredKind, str], ...]
    kinds = (("generations", "observations"), ("attempts", "iteration_log"))
    for kind, name in kinds:
        stored = api.do(memory.list_stored(ANN, kind, None, 10, head.id)).items
        assert list(stored) == thread[name]
        assert stored


def test_every_field_of_a_run_and_of_its_decisions_is_exported(api: Api) -> None:
    journal = api.world.journal
    head = put_head(api, active_run=None, queue=(), interrupts=0, waiting_runs=(), ready=())
    run = filled(RunMeta, owner=ANN, thread_id=head.id, attempts=0, input=said_in(head.id))
    api.do(journal.commands.accept(run, head, OnBusy.REJECT, None))
    log = api.do(journal.writers.acquire(ANN, run.id, f"{run.id}-{run.n}"))
    assert log is not None
    step = filled(StepRecord, key=step_key("", 1), slots=(filled(ToolMessageSlot),))
    api.do(log.put_step(step))
    call = filled(
        CallRecord,
        key=call_key(step.key, step.slots[0].tool_call_id),
        run_id=run.id,
        tool_call_id=step.slots[0].tool_call_id,
        state=CallState.PLANNED,
        rev=None,
        suspension=filled(Suspension, approval=filled(ApprovalRule)),
        voted=0,
    )
    api.do(log.suspend_calls([call]))
    waiting = api.do(journal.runs.call(ANN, run.id, call.key))
    assert waiting is not None
    decision, votes = filled(Decision), (filled(Vote), filled(Vote, 1_000))
    api.do(journal.decisions.decide(run, waiting, decision, votes=votes))
    exported = document(api)
    [thread] = exported["threads"]
    now = api.do(journal.runs.snapshot(ANN, run.id))
    assert now is not None
    among_messages = {"messages", "input", "text"}
    assert not_shown(run_view(now), thread["runs"][0]) == among_messages
    said = {m["id"]: m for m in thread["messages"]}
    assert not_shown(run.input, said[run.input.id]) == set()
    assert not_shown(step.message, said[step.message.id]) == set()
    *past, decided = exported["decisions"]
    about = {"run_id": run.id, "thread_id": head.id, "tool_call_id": call.tool_call_id}
    about |= {"tool_name": call.tool_name}
    assert past == [{**about, **each} for each in call.past]
    assert not_shown(decision, decided) == set()
    assert [not_shown(vote, v) for vote, v in zip(votes, decided["votes"], strict=True)] == [
        set(),
        set(),
    ]
    assert decided == {**decided, **about, "attempt": waiting.attempt}


def test_every_field_of_what_belongs_to_no_thread_is_exported(api: Api) -> None:
    usage = filled(StepUsage)
    head = stored_thread(api)
    entry, _ = learn(api, head, usage)
    notes = [filled(Note, key=profile_key("support")), filled(Note, 1_000)]
    memory, blobs = api.world.runtime.memory, api.world.runtime.blobs
    for note in notes:
        assert note.updated_at is not None
        api.do(memory.replace_note(ANN, note.key, note.value, note.updated_at, note.run_id))
    facts = filled(FileFacts, id="file", thread_ids=(head.id,), going=False)
    api.do(Files(blobs, ANN).keep(facts, b"..."))
    exported = document(api)
    [listed] = exported["entries"]
    assert not_shown(MemoryEntry.model_validate(entry.model_dump()), listed) == set()
    assert listed.keys() - MemoryEntry.model_fields.keys() == {"superseded_by"}
    [row] = exported["usage"]
    assert not_shown(usage.usage, row) == {"sub_agents", "total_tokens"}
    assert not_shown(usage, {**row, "usage": usage.usage.model_dump(mode="json")}) == set()
    [profile], [working] = exported["profiles"], exported["working_memory"]
    about_user, noted = api.do(memory.read_notes(ANN, [note.key for note in notes]))
    assert not_shown(about_user, {**profile, "value": profile["profile"]}) == OF_THE_STORE
    assert profile["agent"] == about_user.key.key
    assert not_shown(noted, working) == OF_THE_STORE
    assert not_shown(noted.key, working) == {"kind"}
    [file] = exported["files"]
    assert not_shown(facts, file) == {"going"}
