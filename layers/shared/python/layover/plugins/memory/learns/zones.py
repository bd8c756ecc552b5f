"""The time zone in which a user speaks (docs/behaviour.md#relative-dates). Pure."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from layover.lazy import lazy_pattern
from layover.values.message import Message, is_context
from layover.values.runs.run import RunSnapshot

_NAME = lazy_pattern(r"[A-Z][A-Za-z_]{1,30}(?:/[A-Za-z0-9_+\-]{1,30}){1,2}")
_FIELDS = ("timezone", "tz")
_IS_OF_TIME = lazy_pattern(r"time|zone", re.IGNORECASE)


def time_of_user(snapshot: RunSnapshot, profile: Any) -> datetime:
    """Return the time at which a run was started, in its user's zone."""
    metadata = next((step.base.metadata for step in snapshot.steps if step.base), None)
    message = snapshot.meta.input
    return message.created_at.astimezone(zone_of(message, metadata, profile))


def zone_of(message: Message, *others: Any) -> tzinfo:
    """Return the zone that the context of a run's input names, else the first of `others` that names one (the
    thread's metadata, the profile). UTC if none does, or if there is no such zone."""
    context = [part.data for part in message.content if is_context(part)]
    texts = (text for value in (context, *others) for text in _texts(value))
    names = (name for text in texts for name in _NAME.findall(text))
    return next(filter(None, map(_zone, names)), UTC)


def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        return None


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts that are to name a zone: fields of this name, and lines about the time."""
    if isinstance(value, str) and _IS_OF_TIME.search(value):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if re.sub(r"[\W_]", "", str(key)).casefold() in _FIELDS:
                yield str(item)
        if isinstance(content := value.get("value"), str):
            yield from _texts(f"{value.get('description')}: {content}")
        else:
            yield from _texts(content)
