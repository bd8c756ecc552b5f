"""Whether what was learned now speaks against what was remembered before (BEHAVIOUR 12.7). Pure; asked only
of two entries that are similar already."""

import re

from layover.memory.evidence import anchors

_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|nicht|kein\w*|nie|niemals|ohne|ne|pas|jamais|sans"
    r"|nunca|non|senza|não|не|нет|никогда|без)\b|n['\u2019]t\b|[不没沒无無]|ない|ません|않|없",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:actually|instead|rather than|correction|corrected|no longer|not any ?more|turn(?:s|ed) out"
    r"|(?:was|were) (?:wrong|mistaken)|in fact|in reality|anymore|nicht mehr|statt(?:dessen)?|vielmehr"
    r"|tatsächlich|en fait|plutôt|en realidad|de hecho|in realtà)\b",
    re.IGNORECASE,
)


def contradicts(new: str, old: str) -> bool:
    """Whether `new` has numbers or identifiers that `old` has not, denies what `old` says (or the other
    way round), or says of itself that it corrects."""
    said, before = _anchors(new), _anchors(old)
    if said - before:
        return True
    if bool(_NEGATION.search(new)) != bool(_NEGATION.search(old)):
        return True
    return bool(_CORRECTION.search(new)) and not _CORRECTION.search(old)


def _anchors(text: str) -> set[str]:
    return {anchor.casefold() for anchor in anchors(text)}
