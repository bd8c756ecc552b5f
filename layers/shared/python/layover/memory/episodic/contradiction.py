"""Detects that a new entry contradicts a stored one (docs/behaviour.md#contradictions). Pure; called only for
two entries that are similar already."""

import re

from layover.lazy import lazy_pattern
from layover.memory.text.evidence import anchors

_NEGATION = lazy_pattern(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|nicht|kein\w*|nie|niemals|ohne|ne|pas|jamais|sans"
    r"|nunca|non|senza|não|не|нет|никогда|без)\b|n['\u2019]t\b|[不没沒无無]|ない|ません|않|없",
    re.IGNORECASE,
)
_CORRECTION = lazy_pattern(
    r"\b(?:actually|instead|rather than|correction|corrected|no longer|not any ?more|turn(?:s|ed) out"
    r"|(?:was|were) (?:wrong|mistaken)|in fact|in reality|anymore|nicht mehr|statt(?:dessen)?|vielmehr"
    r"|tatsächlich|en fait|plutôt|en realidad|de hecho|in realtà)\b",
    re.IGNORECASE,
)


def contradicts(new: str, old: str, evidence: str = "") -> bool:
    """Return whether `new` has numbers or identifiers that `old` lacks, denies what `old` says (or the other
    way round), or calls itself a correction. `evidence`: the words that `new` was learned from. They may deny
    or correct something that `new` states as a plain fact."""
    if new.casefold() == old.casefold():
        return False
    if _anchors(new) - _anchors(old):
        return True
    old_denies = bool(_NEGATION.search(old))
    if bool(_NEGATION.search(new)) != old_denies or (_NEGATION.search(evidence) and not old_denies):
        return True
    corrects = _CORRECTION.search(new) or _CORRECTION.search(evidence)
    return bool(corrects) and not _CORRECTION.search(old)


def _anchors(text: str) -> set[str]:
    return {anchor.casefold().replace("\u2212", "-") for anchor in anchors(text)}
