"""The writes of calls' items. Each is conditional on the `rev` of the record as it was read, and raises it:
of any two writers that have read the same record one is refused, whatever they change."""

from collections.abc import Mapping
from typing import Any

from layover.ports.table import Condition, Equals, Exists, Missing, Put, Update, all_of
from layover.values.runs.run import CallRecord


def put_call(pk: str, call: CallRecord, item: Mapping[str, Any]) -> Put:
    """Return the write of a call's whole item. `call`: as it was read, or as this writer last wrote it."""
    return Put(pk, call.key, {**item, "rev": call.written().rev}, when=_as_read(call))


def change_call(pk: str, call: CallRecord, changes: Mapping[str, Any]) -> Update:
    """Return the write of some attributes of a call's item. `call` as above."""
    changed = {**changes, "rev": call.written().rev}
    return Update(pk, call.key, set=changed, when=_as_read(call))


def _as_read(call: CallRecord) -> Condition:
    if call.rev is None:
        return Missing("pk")
    if call.rev == 0:
        return all_of(Exists("pk"), Missing("rev"))
    return Equals("rev", call.rev)
