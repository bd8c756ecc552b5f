"""The time that a provider asks to wait: in headers, in fields of its refusal, or in words."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from layover.adapters.http.retry_after import retry_after
from layover.lazy import lazy_pattern

_UNITS = {"ms": 0.001, "mi": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Seconds of a unit, by how its name begins; the first that fits."""
_NAMES = r"ms|milliseconds?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?"
_PART = rf"\d+(?:\.\d+)?\s*(?:{_NAMES})(?![a-z])"
_DURATION = rf"{_PART}(?:(?:,|\s|and)*{_PART})*"
_PARTS = lazy_pattern(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.I)
_WHOLE = lazy_pattern(rf"\s*(?:{_DURATION})\s*", re.I)
_WORDS = lazy_pattern(rf"\b(?:try|retry|wait|again|resets?)\b[^.\d]{{0,30}}({_DURATION})", re.I)
"""`Please try again in 6m0.5s.`, `Retry after 26 seconds`."""
_FIELDS = ("retryDelay", "retry_after", "retryAfter", "retry_after_seconds")
_LIMITED = ("requests", "tokens")


def wait_of(headers: Mapping[str, str], details: Mapping[str, Any], message: str) -> float | None:
    """Return the seconds that a refusal asks to wait; None: it does not say. What its headers say counts
    before its fields, and these before its words."""
    for wait in (retry_after(headers), _in_fields(details), _used_up(headers)):
        if wait is not None:
            return wait
    words = _WORDS.search(message)
    return seconds_of(words[1]) if words else None


def seconds_of(text: str) -> float | None:
    """Return the seconds of a duration such as `36.03s`, `6m0s` or `1 hour and 5 minutes`; None: it is
    none."""
    if not _WHOLE.fullmatch(text):
        return None
    parts = _PARTS.findall(text.lower().replace("milliseconds", "ms").replace("millisecond", "ms"))
    return sum(
        float(n) * next(s for u, s in _UNITS.items() if unit.startswith(u)) for n, unit in parts
    )


def _in_fields(details: Mapping[str, Any]) -> float | None:
    """Google has `retryDelay` in one of the `details` of its error."""
    inner = details.get("details")
    parts: Iterable[Any] = [details, *(inner if isinstance(inner, list) else [])]
    for part in parts:
        for name in _FIELDS if isinstance(part, Mapping) else ():
            value = part.get(name)
            if isinstance(value, str) and (wait := seconds_of(value)) is not None:
                return wait
            if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
                return float(value)
    return None


def _used_up(headers: Mapping[str, str]) -> float | None:
    """Return when the limit of which nothing remains begins anew: the latest, of several."""
    waits = [
        wait
        for kind in _LIMITED
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0"
        if (wait := seconds_of(headers.get(f"x-ratelimit-reset-{kind}", ""))) is not None
    ]
    return max(waits, default=None)
