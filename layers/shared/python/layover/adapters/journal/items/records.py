"""Conversion between items of the table and values. A field that conditions test is a separate attribute; the
rest is a body."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from layover.clock import from_rfc3339, rfc3339
from layover.errors import check_version
from layover.keys import Keys
from layover.ports.table import Item
from layover.values.decision import Vote
from layover.values.message import Message
from layover.values.runs.model_settings import RunChoice
from layover.values.runs.run import (
    CallRecord,
    Decision,
    Outcome,
    RunMeta,
    Status,
    StepRecord,
)
from layover.values.thread import ThreadHead

RUN_VERSION = 1
"""The version of all records of a run, kept in META. Fields that a reader may ignore need no new version."""
_CALL_ATTRIBUTES = {
    "state",
    "rev",
    "opener",
    "attempt",
    "token",
    "decision",
    "votes",
    "voted",
    "reminders",
    "escalated",
    "extended_to",
    "taken_back_at",
    "ends_step",
    "log_seq",
    "key",
    "run_id",
}


def head_item(keys: Keys, head: ThreadHead) -> dict[str, Any]:
    """Return the attributes of `THREAD#id / HEAD`."""
    index = thread_index(keys, head.id, rfc3339(head.updated_at))
    return {**head_attributes(vars(head)), **index}


def head_attributes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a head as its item has them, by name. None: there is no such attribute."""
    return {name: _head_attribute(name, value) for name, value in fields.items()}


def _head_attribute(name: str, value: Any) -> Any:
    if name == "metadata" or (name == "windows" and value):
        return json.dumps(value)
    if value is None or value is False or value == {}:
        return None
    if isinstance(value, datetime):
        return rfc3339(value)
    return list(value) or None if isinstance(value, tuple) else value


def thread_index(keys: Keys, thread_id: str, updated_at: str) -> dict[str, str]:
    """Return the thread's place in the owner's index, by the time of its last change."""
    return {"gsi1pk": keys.partition, "gsi1sk": f"T#{updated_at}#{thread_id}"}


def head_from(owner: str, item: Item) -> ThreadHead:
    """Return the value of a HEAD item."""
    decoded = {"metadata": json.loads(item["metadata"])}
    if windows := item.get("windows"):
        decoded["windows"] = json.loads(windows)
    return ThreadHead.model_validate({**_present(item), "owner": owner, **decoded})


def _present(item: Item) -> Item:
    """Return the attributes that have a value: an earlier release stored empty ones."""
    return {name: value for name, value in item.items() if value is not None}


def run_index(keys: Keys, run: RunMeta) -> dict[str, str]:
    """Return the run's place in the owner's index: by thread, by time."""
    return {
        "gsi1pk": keys.partition,
        "gsi1sk": f"R#{run.thread_id}#{rfc3339(run.created_at)}#{run.id}",
    }


def run_item(keys: Keys, run: RunMeta) -> dict[str, Any]:
    """Return the attributes of a new run's META, without its body (`run_body`)."""
    return {
        "v": RUN_VERSION,
        "id": run.id,
        "owner": run.owner,
        "thread_id": run.thread_id,
        "agent": run.agent,
        "status": run.status.value,
        "parent_given": run.parent_given,
        "thread_given": run.thread_given,
        "stream": run.stream,
        "max_iterations": run.max_iterations,
        "choice": run.choice.model_dump_json(exclude_none=True) if run.choice.names else None,
        "created_at": rfc3339(run.created_at),
        "updated_at": rfc3339(run.updated_at),
        "epoch": run.epoch,
        "attempts": run.attempts,
        "n": run.n,
        "execution": run.execution,
        "records_expire": epoch_seconds(run.records_expire_at),
        "traceparent": run.traceparent,
        **run_index(keys, run),
        "gsi2pk": keys.watch(run.id),
        "gsi2sk": rfc3339(run.updated_at),
    }


INLINE_INPUT = 300
"""The most bytes of an input that stays in META. A longer one has a separate item, which no step rewrites."""
INLINE_CALLER = 120
"""The same for `caller_text`, which is with the input. A caller may be in many groups with long names."""


def caller_text(run: RunMeta) -> str | None:
    """Return the groups and scopes of the caller who started the run, as JSON; None if there are none."""
    facts = {"groups": sorted(run.groups), "scopes": sorted(run.scopes)}
    names = {name: values for name, values in facts.items() if values}
    return json.dumps(names, separators=(",", ":")) if names else None


def input_from(item: Item, body: str) -> Message:
    """Return the run's input. META has the fields of a queued run's input that were set when the run
    started."""
    message = Message.model_validate_json(body)
    if "input_at" not in item:
        return message
    changes: dict[str, Any] = {"created_at": from_rfc3339(item["input_at"])}
    if not item.get("parent_given"):
        changes["parent_id"] = item.get("input_parent")
    return message.model_copy(update=changes)


def run_from(
    owner: str, item: Item, body: str, outcome_text: str | None, caller_text: str | None
) -> RunMeta:
    """Return the value of a META item; `body` is the run's input. An attribute has the name of its field,
    except those here. Raises NewerFormat."""
    check_version("a run's records", item.get("v", 1), RUN_VERSION)
    return RunMeta.model_validate(
        {
            **_present(item),
            **(json.loads(outcome_text) if outcome_text else {}),
            **(json.loads(caller_text) if caller_text else {}),
            "owner": owner,
            "input": input_from(item, body),
            "choice": RunChoice.model_validate_json(item.get("choice") or "{}"),
            "away": json.loads(item.get("away") or "null"),
            "records_expire_at": _from_seconds(item.get("records_expire")),
        }
    )


def status_from(item: Item) -> Status:
    """Return the status that callers see of a META item. Raises NewerFormat."""
    check_version("a run's records", item.get("v", 1), RUN_VERSION)
    return Status(item["status"]).for_callers(waits=bool(item.get("waiting")))


def epoch_seconds(moment: datetime | None) -> int | None:
    """Return the time as TTL attributes need it."""
    return int(moment.timestamp()) if moment else None


def _from_seconds(seconds: int | None) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds is not None else None


def outcome_text(outcome: Outcome) -> str:
    """Return the part of an outcome that META keeps. Fields with their default are left out, so that META
    stays below 1 KB."""
    names = {"finish_reason", "output", "error", "error_detail", "usage", "model"}
    fields = {"usage": {}, **outcome.model_dump(mode="json", include=names, exclude_defaults=True)}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def call_body(call: CallRecord) -> str:
    """Return the body of a call's item."""
    return call.model_dump_json(exclude=_CALL_ATTRIBUTES)


def votes_text(votes: Sequence[Vote]) -> str:
    """Return the votes of a call as its item keeps them, next to the body."""
    return json.dumps([vote.model_dump(mode="json") for vote in votes])


def wait_attributes(call: CallRecord) -> dict[str, Any]:
    """Return what has become of a call's wait while nobody decided, as its item has it. The list of waiting
    calls shows it, and a body may be in S3, so each is an attribute."""
    return {
        "reminders": call.reminders or None,
        "escalated": call.escalated or None,
        "extended_to": rfc3339(call.extended_to) if call.extended_to else None,
        "taken_back_at": rfc3339(call.taken_back_at) if call.taken_back_at else None,
    }


def call_from(
    run_id: str, item: Item, body: str, decision: str | None, votes: str | None
) -> CallRecord:
    """Return the value of a CALL item."""
    return CallRecord.model_validate(
        {
            **json.loads(body),
            "key": item["sk"],
            "run_id": run_id,
            "state": item["state"],
            "rev": item.get("rev", 0),
            "opener": item.get("opener"),
            "attempt": item["attempt"],
            "token": item.get("token"),
            "decision": Decision.model_validate_json(decision) if decision else None,
            "votes": json.loads(votes) if votes else (),
            "voted": item.get("voted", 0),
            "reminders": item.get("reminders", 0),
            "escalated": item.get("escalated", False),
            "extended_to": item.get("extended_to"),
            "taken_back_at": item.get("taken_back_at"),
            "ends_step": item.get("ends", False),
            "log_seq": item.get("log_seq"),
        }
    )


def is_call(item: Mapping[str, Any]) -> bool:
    """Return whether this is a CALL item (the last part of its key is a call's)."""
    return "#CALL#" in str(item["sk"]).rsplit("/", 1)[-1]


def step_body(step: StepRecord) -> str:
    """Return the body of a step's item: everything but its key and the mark of its end."""
    body = step.model_dump_json(exclude={"key", "ended", "heard"})
    # A message's JSON, which callers see, leaves the fields out that only prompts need.
    if step.message.provider_state is not None:
        state = json.dumps(step.message.provider_state.model_dump())
        body = f'{body[:-1]},"provider_state":{state}}}'
    if step.heard:
        heard = json.dumps([_whole(message) for message in step.heard])
        body = f'{body[:-1]},"heard":{heard}}}'
    return body


def _whole(message: Message) -> dict[str, Any]:
    """Return a message with all of its fields."""
    state = message.provider_state
    return {
        **message.model_dump(mode="json"),
        "model_output": message.model_output,
        "provider_state": state.model_dump() if state else None,
        "token_count": message.token_count,
    }


def step_from(item: Item, body: str) -> StepRecord:
    """Return the value of a STEP item."""
    about = {"key": item["sk"], "ended": item.get("ended", False)}
    step = {**json.loads(body), **about}
    step["message"]["provider_state"] = step.pop("provider_state", None)
    return StepRecord.model_validate(step)
