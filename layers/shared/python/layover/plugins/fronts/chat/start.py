"""A chat's request: a new message, an edited one, another answer, or a person's decisions.

Each function returns the run whose stream is the answer. The same request again gets the same run."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from layover.approvals.decide import DecisionRequest, Verdict, decide
from layover.errors import Conflict, DecisionError, InvalidRequest, NotFound
from layover.keys import can_be_id
from layover.plugins.fronts.chat.answers import seq_of_waits
from layover.plugins.fronts.chat.parts import ClientMessage, content_hash, hash_of, input_parts
from layover.plugins.fronts.chat.sent import Sent, find_run, find_sent, input_of, is_newest
from layover.plugins.fronts.protocols.ui_messages import Approval
from layover.ports import RequestKey
from layover.records.runs import meta_of, snapshot_of
from layover.runs.accept import ABSENT, KEY_LIFETIME, StartRun, start_run
from layover.runs.messages import withdraw_again
from layover.runtime import Runtime
from layover.values.client_ids import shown_id
from layover.values.decision import DecisionKind
from layover.values.deployment.access import Actor
from layover.values.message import Message
from layover.values.runs.run import CallRecord, RunMeta, Status, SuspensionKind
from layover.values.thread import ThreadHead

_KINDS = {Verdict.APPROVE: DecisionKind.APPROVED, Verdict.DENY: DecisionKind.DENIED}
_FAILED = frozenset({Status.FAILED, Status.CANCELLED})


@dataclass(frozen=True)
class ChatTurn:
    """One request to a chat: who makes it, and of which thread. `key`: its `Idempotency-Key`."""

    runtime: Runtime
    actor: Actor
    head: ThreadHead
    key: str | None = None


async def say(chat: ChatTurn, message: ClientMessage) -> str:
    """Return the id of the run that answers the message: the same one for the same id with the same parts.
    With other parts it is another message, which takes the id over: some pages count their messages anew.
    Raises Conflict (it is an earlier version of the message, late), NotFound (the records of the run have
    expired), and what `start_run` raises."""
    sent = await find_sent(chat.runtime, chat.head, message.id)
    if sent is None:
        return await _ask(chat, message, _remember(chat.head, message))
    if message.body_hash in (sent.body_hash, *sent.earlier):
        return await _same(chat, sent, message)
    return await _ask(chat, message, sent.replaced_by(message.body_hash, chat.head.id))


async def say_or_retry(chat: ChatTurn, message: ClientMessage) -> str:
    """Return as `say`, for a protocol without a word for another answer: if the message's run has failed or
    was cancelled, the message is answered again, on another branch."""
    sent = await find_sent(chat.runtime, chat.head, message.id)
    meta = await find_run(chat.runtime, chat.head, sent.run_id) if sent else None
    if sent is None or meta is None or meta.status not in _FAILED:
        return await say(chat, message)
    if sent.body_hash != message.body_hash:
        return await say(chat, message)
    return await _again(chat, meta.input, sent)


async def edit(chat: ChatTurn, message: ClientMessage, replaced_id: str) -> str:
    """Return the id of the run that answers the message in the place of an earlier one, on another
    branch. If no run has the earlier one, whose request was refused, the message is a new one. Raises
    NotFound (there is no earlier message of this id), and what `say` raises."""
    replaced = await find_sent(chat.runtime, chat.head, replaced_id)
    if replaced is None:
        if message.id not in ("", replaced_id):
            raise NotFound(
                "there is no such message of a user in this chat", thread_id=chat.head.id
            )
        return await say(chat, message)
    if message.id not in ("", replaced_id):
        sent = await find_sent(chat.runtime, chat.head, message.id)
        if sent is not None:
            return await _same(chat, sent, message)
        remembered = _remember(chat.head, message)
    else:
        repeated = replaced.body_hash == message.body_hash
        if repeated and await is_newest(chat.runtime, chat.head, replaced.run_id):
            return await _same(chat, replaced, message)
        remembered = replaced.replaced_by(message.body_hash, chat.head.id)
    before = await input_of(chat.runtime, chat.head, replaced)
    return await _ask(chat, message, remembered, parent_id=before.parent_id, edits=replaced_id)


async def regenerate(chat: ChatTurn, message_id: str | None, message: ClientMessage | None) -> str:
    """Return the id of a run that answers a message again, on another branch. A run that is not over
    answers it already. A message that no run has yet, or that says something else now, is answered as it is.

    Args:
        chat: The request.
        message_id: The answer's id (its run), or the question's; None: the answer to `message`.
        message: The user's message that the page ends with; None: the one of the newest run.

    Raises:
        NotFound: There is no such message, or the chat has none.
        LayoverError: As `start_run`.
    """
    run = await find_run(chat.runtime, chat.head, message_id) if message_id else None
    if run is not None:
        sent = await find_sent(chat.runtime, chat.head, shown_id(run.input.id))
        return await _again(chat, run.input, sent)
    for id in dict.fromkeys((message_id or "", message.id if message else "")):
        sent = await find_sent(chat.runtime, chat.head, id)
        if sent is None:
            continue
        if message is not None and message.id == id and message.body_hash != sent.body_hash:
            return await edit(chat, message, id)
        return await _again(chat, await input_of(chat.runtime, chat.head, sent), sent)
    if message is not None and message.id:
        return await say(chat, message)
    if message_id is not None:
        raise NotFound("there is no such message in this chat", thread_id=chat.head.id)
    return await _newest_again(chat, message)


async def decide_all(
    chat: ChatTurn, decisions: Iterable[tuple[Approval, DecisionRequest]]
) -> tuple[str, int]:
    """Decide these calls of the one run that they name. Return the run, and the seq after which its answer
    goes on. A repetition gets the same answer; so does a page that was loaded after somebody else had decided
    the same. Raises InvalidRequest (calls of several runs), NotFound (a run that is not of this chat), and
    what `decide` raises."""
    all_decisions = list(decisions)
    attempts = [(approval.tool_call_id, approval.attempt) for approval, _ in all_decisions]
    run_id, *others = {approval.run_id for approval, _ in all_decisions}
    if others:
        message = "these calls are of several runs: decide those of one run at a time"
        error = {"loc": ["body"], "msg": message, "type": "several_runs"}
        raise InvalidRequest(message, [error])
    meta = await meta_of(chat.runtime, chat.actor.owner, run_id)
    if meta.thread_id != chat.head.id:
        raise NotFound("there is no such run in this chat", thread_id=chat.head.id)
    for approval, decision in all_decisions:
        try:
            await decide(chat.runtime, chat.actor, meta.id, approval.tool_call_id, decision)
        except DecisionError:
            if not await _was_decided(chat.runtime, meta, approval.tool_call_id, decision):
                raise
    return meta.id, await seq_of_waits(chat.runtime, chat.actor.owner, meta.id, attempts)


async def waits_for_input(runtime: Runtime, owner: str, approval: Approval) -> bool:
    """Return whether this attempt of a call waits, or waited, for input: its answer is data, whatever fields
    it has. False if there is no such call."""
    if not can_be_id(approval.run_id):
        return False
    snapshot = await runtime.journal.runs.snapshot(owner, approval.run_id)
    calls = snapshot.calls if snapshot else ()
    return any(
        _asks_for_data(call, approval.attempt)
        for call in calls
        if call.tool_call_id == approval.tool_call_id
    )


def _asks_for_data(call: CallRecord, attempt: int) -> bool:
    if call.attempt == attempt:
        return call.suspension is not None and call.suspension.kind is SuspensionKind.INPUT
    # What an earlier attempt waited for is told by its decision.
    decision = call.decision_on(attempt)
    return decision is not None and decision.kind is DecisionKind.RESUMED


async def _was_decided(
    runtime: Runtime, meta: RunMeta, tool_call_id: str, decision: DecisionRequest
) -> bool:
    """Return whether this attempt of the call was decided in the same way."""
    kind = _KINDS.get(decision.verdict) if decision.args is None else None
    snapshot = await snapshot_of(runtime, meta.owner, meta.id)
    decisions = (
        call.decision_on(decision.attempt or call.attempt)
        for call in snapshot.calls
        if call.tool_call_id == tool_call_id
    )
    return any(each is not None and each.kind is kind for each in decisions)


async def _ask(
    chat: ChatTurn, message: ClientMessage, sent: RequestKey | None, **branch: str | None
) -> str:
    """Start the run of a message. `branch`: `parent_id`, and the id that the message `edits`."""
    request_key = _key(chat, message.body_hash, branch.get("edits"))
    if request_key is not None:
        now = chat.runtime.clock.now()
        # Before a file of the message is kept for the second time.
        again = await chat.runtime.journal.commands.find_request(chat.head.owner, request_key, now)
        if again is not None:
            is_said = _says(message)
            await withdraw_again(chat.runtime, chat.actor, again, is_said)
            return again
    parts = await input_parts(chat.runtime, chat.head, message)
    parent_id = branch.get("parent_id") if "parent_id" in branch else ABSENT
    request = StartRun(parts, parent_id=parent_id, stream=True, sent=sent)
    return (await start_run(chat.runtime, chat.actor, chat.head.id, request, request_key)).id


async def _again(chat: ChatTurn, before: Message, sent: Sent | None) -> str:
    """Answer the input of a run again. `sent`: the client's message that it is, or was, a version of."""
    run_id = str(before.run_id)
    meta = await find_run(chat.runtime, chat.head, run_id)
    if meta is not None and not meta.status.over:
        return run_id
    id = shown_id(before.id)
    if sent is None:
        remembered = RequestKey(id, content_hash(before.content), None, chat.head.id)
    elif sent.message_id == before.id:
        remembered = sent.replaced_by(sent.body_hash, chat.head.id)
    else:
        newest = await input_of(chat.runtime, chat.head, sent)
        if newest.content == before.content:
            # Answered again since: this request was sent before its client learned of it.
            return sent.run_id
        remembered = sent.replaced_by(content_hash(before.content), chat.head.id)
    content: list[Any] = list(before.content)
    request = StartRun(content, parent_id=before.parent_id, stream=True, sent=remembered)
    request_key = _key(chat, "regenerate", id)
    return (await start_run(chat.runtime, chat.actor, chat.head.id, request, request_key)).id


async def _newest_again(chat: ChatTurn, message: ClientMessage | None) -> str:
    """Answer the newest run's input again, or a message without an id that is another one."""
    page = await chat.runtime.journal.runs.page_ids(chat.head.owner, chat.head.id, 1, None)
    meta = await find_run(chat.runtime, chat.head, page.items[0]) if page.items else None
    if message is not None and (meta is None or message.text != meta.input.text):
        return await say(chat, message)
    if meta is None:
        raise NotFound("this chat has no messages", thread_id=chat.head.id)
    sent = await find_sent(chat.runtime, chat.head, shown_id(meta.input.id))
    return await _again(chat, meta.input, sent)


async def _same(chat: ChatTurn, sent: Sent, message: ClientMessage) -> str:
    """Return the run of a message that is sent again. Raises Conflict if it says something else."""
    if sent.body_hash != message.body_hash:
        raise Conflict(
            "this is an earlier version of a message, or the id of another one: give a new message another "
            "id; `messageId` says that it takes the place of an earlier one",
            thread_id=chat.head.id,
        )
    if await find_run(chat.runtime, chat.head, sent.run_id) is None:
        raise NotFound(
            "this message was answered, and the records of its run have expired: the chat's messages have "
            "the answer",
            run_id=sent.run_id,
        )
    await withdraw_again(
        chat.runtime, chat.actor, sent.run_id, lambda unread: unread.id == sent.message_id
    )
    return sent.run_id


def _says(message: ClientMessage) -> Callable[[Message], bool]:
    """Return a check for the message in the run that it was sent to: by its id, or by its words if it has
    none."""
    if message.id:
        return lambda unread: shown_id(unread.id) == message.id
    return lambda unread: unread.text == message.text


def _remember(head: ThreadHead, message: ClientMessage) -> RequestKey | None:
    """Return the key of a new message; None if it has no id."""
    return RequestKey(message.id, message.body_hash, None, head.id) if message.id else None


def _key(chat: ChatTurn, what: str, id: str | None) -> RequestKey | None:
    """Return the request's `Idempotency-Key`, bound to what it asks for."""
    if chat.key is None:
        return None
    return RequestKey(
        chat.key, hash_of([chat.head.id, what, id]), chat.runtime.clock.now() + KEY_LIFETIME
    )
