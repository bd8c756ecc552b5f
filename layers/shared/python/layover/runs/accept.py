"""Accept a run: journal the request, and start an execution. Needs no Postgres."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from itertools import count
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from layover.context.transcript import loose_ids
from layover.errors import (
    Conflict,
    InvalidRequest,
    LimitReached,
    RetryableError,
    ThreadBusy,
    TooLarge,
)
from layover.files.uploads import take_files
from layover.metering.allowance import may_begin
from layover.ports import Accepted, RequestKey, SetAside, StaleHead
from layover.records.runs import snapshot_of
from layover.records.threads import head_of, live_messages
from layover.records.views import run_view
from layover.runs.aside import find_waiting, hand_on, policy_of, set_aside
from layover.runs.cancel import END_DURATION_S, cancel
from layover.runs.executions import start_execution
from layover.runs.long_polls import Pace
from layover.runs.messages import asks_for_budget, send, withdraw, withdraw_again
from layover.runtime import Runtime
from layover.values.base import compact_json
from layover.values.client_ids import with_client_id
from layover.values.deployment.access import Actor
from layover.values.message import MAX_URL, FilePart, InputPart, Message, Part, Role, TextPart
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.run import (
    INTERRUPT_GRACE,
    RECORDS_SLACK,
    OnBusy,
    OnWaiting,
    RunMeta,
    RunSnapshot,
    Status,
)
from layover.values.runs.views import Run
from layover.values.text import json_size, sanitise
from layover.values.thread import ThreadHead, after

MAX_INPUT = 1024 * 1024
"""The most bytes of the input as JSON (docs/behaviour.md#run-input)."""
KEY_LIFETIME = timedelta(hours=24)
"""Lifetime of an `Idempotency-Key`."""
ACCEPT_TIMEOUT_S = 8.0
"""Time limit for retries while other writers change the thread's head."""
_FIRST_PAUSE_S = 0.02
_MAX_PAUSE_S = 0.5
_log = logging.getLogger("layover")


class Absent(Enum):
    """The caller named no `parent_id`, which is different from null (a new root)."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True)
class StartRun:
    """A caller's request for a run. `parent_id`: absent continues the newest leaf, None begins a new root.
    `on_waiting`: None is the agent's. `thread_given`: False if the caller named no thread, and one was made
    for this run."""

    input: str | Sequence[InputPart]
    parent_id: str | Literal[Absent.ABSENT] | None = ABSENT
    stream: bool = False
    on_busy: OnBusy = OnBusy.REJECT
    on_waiting: OnWaiting | None = None
    max_iterations: int | None = None
    choice: RunChoice = field(default_factory=RunChoice)
    thread_given: bool = True
    run_id: str | None = None
    """The run's id, if a caller in this process has to know it first."""
    sent: RequestKey | None = None
    """The client's own id of the input. Whoever sets it has looked for the run that it stands for."""


def make_request_key(key: str, thread_id: str, request: StartRun, now: datetime) -> RequestKey:
    """Return an `Idempotency-Key` bound to its request, which is the thread and the whole body."""
    has_parent = request.parent_id is not ABSENT
    facts = [
        thread_id,
        _plain(request.input),
        has_parent,
        request.parent_id if has_parent else None,
        request.stream,
        request.on_busy.value,
        request.max_iterations,
    ]
    if request.on_waiting is not None:
        facts.append(request.on_waiting.value)
    if request.choice.names:  # without a choice, the hash is the same as in earlier releases
        facts.append(request.choice.model_dump(exclude_none=True))
    digest = hashlib.sha256(compact_json(facts).encode("utf-8", "surrogatepass")).hexdigest()
    return RequestKey(key, digest, now + KEY_LIFETIME)


def make_message_key(
    key: str, run_id: str, content: str | Sequence[InputPart], now: datetime
) -> RequestKey:
    """Return an `Idempotency-Key` bound to a message to a run."""
    text = compact_json(["message", run_id, _plain(content)])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return RequestKey(key, digest, now + KEY_LIFETIME)


async def send_message(
    runtime: Runtime,
    actor: Actor,
    run_id: str,
    content: str | Sequence[InputPart],
    request_key: RequestKey | None = None,
) -> Run:
    """Send a message to the actor's run, once for each request key; its next step reads it. Return the run.

    Raises InvalidRequest, TooLarge, NotFound (the run), Conflict (it is over; or the key came with another
    request), LimitReached (it was sent as many as it may be)."""
    parts = _content(content)
    if await _replay(runtime, actor.owner, request_key) is None:
        await send(runtime, actor, run_id, parts, request_key)
    return run_view(await snapshot_of(runtime, actor.owner, run_id), runtime.agents)


async def start_run(
    runtime: Runtime,
    actor: Actor,
    thread_id: str,
    request: StartRun,
    request_key: RequestKey | None = None,
    pace: Pace | None = None,
) -> Run:
    """Accept the actor's run, once for each request key. Its functions see the actor's groups and scopes.

    Raises InvalidRequest (also for a choice that the agent does not leave to its runs), TooLarge,
    NotFound (the thread), ThreadBusy, LimitReached (the queue is full, or the user's day is used up),
    Conflict (a key came with another request), StoppedByOperator."""
    content, owner = _content(request.input), actor.owner
    # Before the limits, because a repetition begins no run and must be neither refused nor counted as one.
    again = await _replay(runtime, owner, request_key)
    if again is not None:
        await withdraw_again(
            runtime, actor, again, lambda message: _is_of(message, content), request.on_waiting
        )
        return run_view(await snapshot_of(runtime, owner, again), runtime.agents)
    await may_begin(runtime, owner)
    accepted, meta = await _accept(
        runtime,
        actor,
        thread_id,
        content=content,
        request=request,
        request_key=request_key,
        pace=pace or Pace(),
    )
    if accepted.replayed or meta is None:
        return run_view(await snapshot_of(runtime, owner, accepted.run_id), runtime.agents)
    # One transaction has accepted the run and flagged the run that it interrupts. A death from here on leaves
    # both to the sweeper, which starts runs without an execution and ends flagged ones.
    if accepted.started:
        await start_execution(runtime, owner, meta.id, meta.n)
    if meta.parent_given:
        await _withdraw_left(runtime, meta, actor)
    if accepted.interrupts is not None:
        await _interrupt(runtime, actor, accepted.interrupts)
        return run_view(await snapshot_of(runtime, owner, accepted.run_id), runtime.agents)
    status = Status.RUNNING if accepted.started else Status.QUEUED
    return run_view(RunSnapshot(meta=meta.model_copy(update={"status": status})))


async def _steer(
    runtime: Runtime,
    actor: Actor,
    head: ThreadHead,
    content: tuple[InputPart, ...],
    request: StartRun,
    request_key: RequestKey | None,
) -> str | None:
    """Send the message to the run that waits, if it is to have it (`steer`, `withdraw`). Return that run."""
    at = _last_at_rest(head)
    # A message with a parent begins a branch of its own: what waits is not spoken of.
    if at is None or request.parent_id is not ABSENT or _interrupts(request):
        return None
    waiting = await find_waiting(runtime, actor.owner, at)
    if waiting is None:
        return None
    policy = request.on_waiting or policy_of(runtime, waiting.meta)
    if policy not in (OnWaiting.STEER, OnWaiting.WITHDRAW) or asks_for_budget(waiting):
        return None
    await send(
        runtime, actor, waiting.meta.id, content=content, request=request_key, sent=request.sent
    )
    if policy is OnWaiting.WITHDRAW:
        # As it waited before it had the message: it may have gone on since, and asked for another call.
        await withdraw(runtime, actor, waiting)
    return waiting.meta.id


def _interrupts(request: StartRun) -> bool:
    """Return whether the request ends the thread's run, whatever it does. One that says what becomes of a run
    that waits means that only for one at work."""
    return request.on_busy is OnBusy.INTERRUPT and request.on_waiting is None


def _is_of(message: Message, content: Sequence[InputPart]) -> bool:
    """Return whether the message was made of this content. Its files have got their names and types since."""
    return _without_facts(message.content) == _without_facts(content)


def _without_facts(content: Sequence[Part]) -> list[Any]:
    return [p.file_id if isinstance(p, FilePart) and p.file_id else p for p in content]


async def _accept(
    runtime: Runtime,
    actor: Actor,
    thread_id: str,
    *,
    content: tuple[InputPart, ...],
    request: StartRun,
    request_key: RequestKey | None,
    pace: Pace,
) -> tuple[Accepted, RunMeta | None]:
    """Journal the run, or send its message to one that waits. Nothing is locked between the read of the head
    and the write, which fails if the head has changed: then both are done again, for `ACCEPT_TIMEOUT_S`."""
    owner, sent = actor.owner, request.sent
    run_id = request.run_id or runtime.ids.new("run")
    message_id = with_client_id(runtime.ids.new("msg"), sent.key if sent else None)
    known_parent, as_sent, parent_at = False, request, None
    give_up = pace.now() + ACCEPT_TIMEOUT_S
    for attempt in count():
        head = await head_of(runtime, owner, thread_id)
        steered = await _steer(
            runtime, actor, head, content=content, request=as_sent, request_key=request_key
        )
        if steered is not None:
            return Accepted(steered, started=False, replayed=True), None
        if not known_parent:
            # Once, not for each try: this may query the database.
            _check_choice(runtime, head.agent, request.choice)
            request, parent_at = await _with_parent(runtime, head, request)
            content = await take_files(runtime, owner, thread_id, content)
            known_parent = True
        waiting = await _waiting_in(runtime, head, request)
        if waiting and head.queue and not head.ready and await hand_on(runtime, owner, thread_id):
            # The process that was to do that has died, or is slower. Nobody overtakes the queue.
            continue
        aside = set_aside(head, waiting) if waiting is not None else None
        meta = _meta(
            runtime,
            actor,
            _without_its_run(head, aside),
            run_id=run_id,
            message_id=message_id,
            content=content,
            request=request,
            parent_at=parent_at,
        )
        try:
            return await runtime.journal.commands.accept(
                meta, head, request.on_busy, request_key, sent, by=actor, aside=aside
            ), meta
        except StaleHead:
            if pace.now() >= give_up:
                break
            await _rest(runtime, pace, attempt)
        except (ThreadBusy, LimitReached):
            # The run that holds the thread may come from this very request, sent twice at once.
            again = await _first_replay(runtime, owner, request_key, sent)
            if again is None:
                raise
            return Accepted(again, started=False, replayed=True), meta
    raise Conflict("other requests keep changing the thread; try again", thread_id=thread_id)


async def _first_replay(
    runtime: Runtime, owner: str, *request_keys: RequestKey | None
) -> str | None:
    """Return the run that one of these keys has begun already; None if none has."""
    for request_key in request_keys:
        if (run_id := await _replay(runtime, owner, request_key)) is not None:
            return run_id
    return None


async def _rest(runtime: Runtime, pace: Pace, attempt: int) -> None:
    """Wait before the next try. The time is random, so that requests that collided here do not collide
    again."""
    longest = min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(attempt, 8))
    await pace.sleep(runtime.dice.up_to(longest))


async def _waiting_in(runtime: Runtime, head: ThreadHead, request: StartRun) -> RunSnapshot | None:
    """Return the active run if it only waits, so that the new run takes the thread from it. Raises ThreadBusy
    for a message that what waits refuses, set aside or not."""
    at = _last_at_rest(head)
    if at is None or _interrupts(request):
        return None
    waiting = await find_waiting(runtime, head.owner, at)
    if waiting is None:
        return None
    if (request.on_waiting or policy_of(runtime, waiting.meta)) is OnWaiting.REFUSE:
        raise ThreadBusy("a run of the thread waits for a decision", run_id=waiting.meta.id)
    return waiting if head.active_run else None


def _last_at_rest(head: ThreadHead) -> str | None:
    """Return the run that a message meets: the one that holds the thread, or else the last that was set
    aside."""
    return head.active_run or next(reversed(head.waiting_runs), None)


def _without_its_run(head: ThreadHead, aside: SetAside | None) -> ThreadHead:
    """Return the thread as the next run finds it: its first message follows what the waiting run said, if one
    is set aside."""
    if aside is None:
        return head
    changes = {
        "active_run": None,
        "leaf_id": aside.leaf_id,
        "last_created_at": aside.last_created_at,
    }
    return head.model_copy(update=changes)


async def _with_parent(
    runtime: Runtime, head: ThreadHead, request: StartRun
) -> tuple[StartRun, datetime | None]:
    """Return the request with a parent that is a message of this thread, in the journal or the database, and
    the parent's time; None: the head knows it."""
    if request.parent_id is ABSENT or request.parent_id is None:
        return request, None
    parent = sanitise(request.parent_id)
    # What follows a call that waits follows the place of its result: another answer to it, too.
    live = {message.id: message for message in await live_messages(runtime, head)}
    if parent in live and await _is_loose(runtime, head.owner, live[parent]):
        # It has no place yet, and is the newest message until then: the next one follows what there is.
        return replace(request, parent_id=ABSENT), None
    if parent == head.leaf_id:
        return replace(request, parent_id=parent), None
    message = live.get(parent) or await runtime.threads.message(head.owner, head.id, parent)
    if message is None:
        error = {"loc": ["body", "parent_id"], "msg": "no such message in this thread"}
        raise InvalidRequest("the parent is unknown", [{**error, "type": "unknown_message"}])
    return replace(request, parent_id=parent), message.created_at


async def _is_loose(runtime: Runtime, owner: str, message: Message) -> bool:
    """Return whether the message has no place in its thread yet."""
    if message.role not in (Role.USER, Role.CUSTOM) or message.run_id is None:
        return False
    snapshot = await runtime.journal.runs.snapshot(owner, message.run_id)
    return snapshot is not None and message.id in loose_ids(snapshot)


def _check_choice(runtime: Runtime, agent_name: str, choice: RunChoice) -> None:
    """Raise InvalidRequest for a choice that the agent does not leave to its runs."""
    if not choice.names:
        return
    agent = runtime.agents().get(agent_name)
    overridable = agent.overridable if agent else frozenset()
    names = [name for name in choice.names if name not in overridable]
    if names:
        why = "this agent does not let a run choose it"
        raise InvalidRequest(
            f"{', '.join(names)}: {why}",
            [{"loc": ["body", name], "msg": why, "type": "not_overridable"} for name in names],
        )


def _meta(
    runtime: Runtime,
    actor: Actor,
    head: ThreadHead,
    *,
    run_id: str,
    message_id: str,
    content: tuple[InputPart, ...],
    request: StartRun,
    parent_at: datetime | None,
) -> RunMeta:
    now = runtime.clock.now()
    # The head knows the newest message of what has ended. A parent may be newer, by another's clock too.
    created_at = head.next_time(now)
    if parent_at is not None:
        created_at = max(created_at, after(parent_at, now))
    # A queued run follows the message that is newest when the run starts: the end of the run ahead of it sets
    # the parent.
    newest = head.leaf_id if head.active_run is None else None
    message = Message(
        id=message_id,
        thread_id=head.id,
        run_id=run_id,
        parent_id=newest if request.parent_id is ABSENT else request.parent_id,
        role=Role.USER,
        content=content,
        created_at=created_at,
    )
    return RunMeta(
        id=run_id,
        owner=head.owner,
        thread_id=head.id,
        agent=head.agent,
        status=Status.QUEUED,
        input=message,
        parent_given=request.parent_id is not ABSENT,
        thread_given=request.thread_given,
        stream=request.stream,
        max_iterations=request.max_iterations,
        choice=request.choice,
        groups=actor.groups,
        scopes=actor.scopes,
        traceparent=actor.traceparent if runtime.settings.traces else None,
        created_at=now,
        updated_at=now,
        records_expire_at=now + RECORDS_SLACK + runtime.settings.run_retention,
    )


async def _interrupt(runtime: Runtime, actor: Actor, run_id: str) -> None:
    try:
        has_s = INTERRUPT_GRACE.total_seconds() + END_DURATION_S
        await cancel(runtime, actor.owner, run_id, by=actor, holder_has_s=has_s)
    except RetryableError as error:
        # The new run is accepted and the flag is set: the process that drives the old one ends it.
        _log.warning(
            "an interrupted run ends later",
            extra={"run_id": run_id, "cause": type(error).__name__},
        )


async def _withdraw_left(runtime: Runtime, run: RunMeta, actor: Actor) -> None:
    # Few requests begin a branch, and every cold start would load it.
    from layover.runs.edits import withdraw_left

    try:
        await withdraw_left(runtime, run, actor)
    except RetryableError as error:
        # The run's first turn does it.
        context = {"run_id": run.id, "cause": type(error).__name__}
        _log.warning("what an edit takes back is withdrawn later", extra=context)


async def _replay(runtime: Runtime, owner: str, request_key: RequestKey | None) -> str | None:
    if request_key is None:
        return None
    return await runtime.journal.commands.find_request(owner, request_key, runtime.clock.now())


def _content(content: str | Sequence[InputPart]) -> tuple[InputPart, ...]:
    """Return the parts of the input, cleaned and checked."""
    if json_size(_plain(content)) > MAX_INPUT:
        raise TooLarge(f"the input is larger than {MAX_INPUT} bytes of JSON")
    if isinstance(content, str):
        parts: list[InputPart] = [TextPart(text=sanitise(content))]
    else:
        parts = _PARTS.validate_python(sanitise(_plain(content)))
    if not any(isinstance(p, FilePart) or (isinstance(p, TextPart) and p.text) for p in parts):
        # Data is for the application: a model never sees it.
        raise _invalid((), "the input has neither text nor a file", "empty")
    for index, part in enumerate(parts):
        if isinstance(part, FilePart):
            _check_file(index, part)
    return tuple(parts)


_PARTS: TypeAdapter[list[InputPart]] = TypeAdapter(list[InputPart], config={"defer_build": True})


def _plain(content: str | Sequence[InputPart]) -> Any:
    return content if isinstance(content, str) else [p.model_dump(mode="python") for p in content]


def _check_file(index: int, part: FilePart) -> None:
    """Check that a file has one source: a `url` (https) or a `file_id`."""
    if (part.file_id is None) == (part.url is None):
        raise _invalid((index,), "a file part needs either file_id or url", "file_source")
    if part.file_id is None and not _is_https(part.url or ""):
        raise _invalid((index, "url"), "a URL has to be https, with a host", "https_url")


def _is_https(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "https" and bool(parts.hostname) and len(url) <= MAX_URL
    except ValueError:
        return False


def _invalid(at: tuple[str | int, ...], message: str, kind: str) -> InvalidRequest:
    return InvalidRequest(message, [{"loc": ["body", "input", *at], "msg": message, "type": kind}])
