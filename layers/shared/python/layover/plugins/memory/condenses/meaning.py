"""The dates that observations say relative words mean: "(meaning 2026-03-16)". A model counts days badly, so
what it counted is counted again (docs/behaviour.md#observation-lines). Pure."""

import re
from datetime import date

from layover.lazy import lazy_pattern
from layover.plugins.memory.learns.text.dates import named_days
from layover.values.memory.compaction import Observation

_MEANING = lazy_pattern(
    r"(?P<words>(?:\S+\s+){0,2}\S+)(?P<meaning>\s*\(meaning:? (?P<date>\d{4}-\d{2}-\d{2})\))",
    re.IGNORECASE,
)
"""A date with the words that it is of: no more than three."""


def with_true_dates(one: Observation) -> Observation:
    """Return the observation with the dates that its relative words mean on its day. A date that they do not
    mean becomes theirs if there is only one, and is left out otherwise. Where the words are none that code
    knows, the model's date stays."""
    today = one.at.date()

    def resolve(match: re.Match[str]) -> str:
        days = set(named_days(match["words"], today))
        if not days or _date(match["date"]) in days:
            return match[0]
        right = f" (meaning {days.pop().isoformat()})" if len(days) == 1 else ""
        return f"{match['words']}{right}"

    text = _MEANING.sub(resolve, one.text)
    return one if text == one.text else one.model_copy(update={"text": text})


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
