"""Trees of runs as Postgres keeps them: on a row of the run's usage, without what that row and the run's
input say themselves."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from layover.clock import rfc3339
from layover.values.base import Json
from layover.values.memory.context import TurnRecord
from layover.values.message import Message
from layover.values.runs.run import FinishReason, Status
from layover.values.runs.usage import Usage

_LEAN = 3
"""The first version of a tree that names its run's last message, whose thread is the run's."""
_END = {"status": Status.SUCCESS.value, "finish_reason": FinishReason.STOP.value}
"""Of most runs."""


def strip_tree(record: TurnRecord) -> dict[str, Any] | None:
    """Return the tree for the first row of the run's usage. It leaves out fields that the row or the input
    has, or that most runs have; a field that the run lacks is null. None: the tree stays whole, in a separate
    row."""
    tree, last = record.snapshot, (record.input, *record.response)[-1]
    if tree is None or not record.usage or tree.get("version", 0) < _LEAN:
        return None
    own, row = tree["run"], record.usage[0]
    if "messages" not in tree:
        return None
    if tree["messages"][0] != last.id or last.run_id != record.run.id or None in own.values():
        return None
    usual = _usual_fields(row.agent, row.model, row.usage, row.at, record.input)
    rest = {k: v for k, v in own.items() if k not in usual or v != usual[k]}
    return {**tree, "run": rest | {k: None for k in usual if k not in own}}


def restore_tree(
    tree: Mapping[str, Any], row: Mapping[str, Json], input_message: Message
) -> dict[str, Any]:
    """Return the tree that `strip_tree` was given. `row`: columns of the row that has it."""
    usage, at = Usage.model_validate(row), datetime.fromisoformat(str(row["at"]))
    usual = _usual_fields(row["agent"], row["model"], usage, at, input_message)
    return {**tree, "run": {k: v for k, v in (usual | tree["run"]).items() if v is not None}}


def _usual_fields(
    agent: str, model: str, usage: Usage, at: datetime, input_message: Message
) -> dict[str, Json]:
    return {
        "agent": agent,
        "model": model,
        "usage": usage.model_dump(mode="json", exclude_defaults=True),
        "created_at": rfc3339(input_message.created_at),
        "updated_at": rfc3339(at),
        **_END,
    }
