"""Conversion of values to the JSON that Postgres stores, and back."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar

from pydantic import Field, TypeAdapter

from layover.adapters.store.postgres.queries import Value as Parameter
from layover.values.base import Json, Value
from layover.values.memory.context import StepUsage
from layover.values.message import Message, ProviderState, ToolResultPart

T = TypeVar("T")

# An escaped NUL, but not an escaped backslash followed by "u0000".
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_AS_RESULT = "="
"""Stored in place of a `model_output` that equals the result. Any other text that begins with it gets one
more."""


def rows_of(row: type[T]) -> TypeAdapter[tuple[T, ...]]:
    """Return what reads a JSON array of these values. It is built when it is first used."""
    return TypeAdapter(tuple[row, ...], config={"defer_build": True})  # type: ignore[valid-type]


class _MessageRow(Message):
    """A message with the columns that its JSON leaves out; its thread is a parameter of the query."""

    thread_id: str = Field(exclude=True)
    created_at: datetime
    refused: bool
    model_output: str | None
    provider_state: ProviderState | None
    token_count: int | None


class _UsageRow(Value):
    run_id: str
    step: str
    kind: str
    agent: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int
    reasoning_tokens: int
    cost_usd: Decimal | None
    at: datetime
    tree: Json = None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def load_messages(array: bytes | None) -> tuple[Message, ...]:
    """Messages from a JSON array of rows, without the places of results to come."""
    return tuple([m for m in load_rows(array) if not m.is_place])


def load_rows(array: bytes | None) -> tuple[Message, ...]:
    """Messages from a JSON array of rows, with the places."""
    messages: tuple[Message, ...] = _adapter(tuple[Message, ...]).validate_json(array or b"[]")
    return tuple([m if m.model_output is None else with_output(m) for m in messages])


def load_message(row: bytes | None) -> Message:
    """A message from a JSON object."""
    return with_output(Message.model_validate_json(row or b"{}"))


def dump_messages(messages: Iterable[Message]) -> bytes:
    """A JSON array of rows, in the order given."""
    return _dump(_adapter(list[_MessageRow]), [_message_row(m) for m in messages])


def dump_usage(
    run_id: str, usage: Sequence[StepUsage], kind: str = "run", tree: Json = None
) -> bytes:
    """A JSON array of usage rows, the first with the run's tree."""
    rows = [_usage_row(run_id, u, kind, tree if n == 0 else None) for n, u in enumerate(usage)]
    return _dump(_adapter(list[_UsageRow]), rows)


def as_parameter(value: Any) -> Parameter:
    """A field's value as a query's parameter: times as texts, objects and lists as JSON."""
    if isinstance(value, datetime):
        return value.isoformat()
    return dump_json(value) if isinstance(value, dict | list | tuple) else value


def dump_json(value: Json) -> bytes:
    """Any JSON value in the form that the database takes."""
    return _dump(_adapter(Json), value)


# These values were validated when they were made, so they are copied without another validation.
def _message_row(m: Message) -> _MessageRow:
    row = _MessageRow.__new__(_MessageRow)
    row.__setstate__(
        {**m.__getstate__(), "__dict__": {**vars(m), "model_output": _stored_output(m)}}
    )
    return row


def _stored_output(m: Message) -> str | None:
    output = m.model_output
    if output is None:
        return None
    if output == _result_text(m):
        return _AS_RESULT
    return _AS_RESULT + output if output.startswith(_AS_RESULT) else output


def with_output(m: Message) -> Message:
    """The message with the model's text restored to its form before `_stored_output`."""
    stored = m.model_output
    if stored is None or not stored.startswith(_AS_RESULT):
        return m
    output = _result_text(m) if stored == _AS_RESULT else stored[len(_AS_RESULT) :]
    return m.model_copy(update={"model_output": output})


def _result_text(m: Message) -> str | None:
    part = m.content[0] if len(m.content) == 1 else None
    result = part.result if isinstance(part, ToolResultPart) else None
    return result if isinstance(result, str) else None


def _usage_row(run_id: str, step: StepUsage, kind: str, tree: Json) -> _UsageRow:
    about = {"run_id": run_id, "kind": kind, "tree": tree}
    return _UsageRow.model_construct(**{**vars(step.usage), **vars(step), **about})


def _dump(adapter: TypeAdapter[Any], value: Any) -> bytes:
    """JSON that Postgres accepts: NUL and lone surrogates, which it cannot store, become U+FFFD, and numbers
    that JSON lacks become null."""
    try:
        data = adapter.dump_json(value)
    except ValueError:  # a lone surrogate, which UTF-8 lacks
        data = json.dumps(_mended(adapter.dump_python(value, mode="python"))).encode()
    return _NUL.sub(rb"\1\\ufffd", data) if b"\\u0000" in data else data


def _mended(value: Any) -> Any:
    """The same value in JSON's own types, its strings without lone surrogates."""
    if isinstance(value, str):
        return str(value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mended(str(k)): _mended(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_mended(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)
