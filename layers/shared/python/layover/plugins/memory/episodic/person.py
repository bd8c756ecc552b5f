"""Tells an entry that is only about its user: a wish, a request, a greeting, a role
(docs/behaviour.md#evidence). Such entries are no findings about the user's matters. Pure."""

import re

from layover.lazy import lazy_pattern

_IS_ONLY_THE_USER = lazy_pattern(
    r"^\W*(?:(?:the|this) user (?:(?:is|was|are) (?:an?|the|allowed|authori[sz]ed|permitted|entitled)\b"
    r"|(?:is|was) being (?:asked|told|instructed|advised)\b"
    r"|(?:has )?(?:prefer|like|love|dislike|hate|want|wish|ask|request|greet|thank|instruct|expect)\w*\b"
    r"|would (?:like|prefer)\b)"
    r"|(?:der|die) (?:be)?nutzer(?:in)? (?:ist (?:ein|befugt|berechtigt)|möchte|will|wünscht|bevorzugt|mag"
    r"|bittet|bat|fragt|grüßt|dankt|erwartet)\b"
    r"|l['\u2019]utilisat(?:eur|rice) (?:est (?:une?|autorisée?)|préfère|aime|veut|souhaite"
    r"|demande|salue|remercie)\b"
    r"|(?:el usuario|la usuaria|o usuário|o utilizador) (?:es una?|é uma?|prefiere|prefere|quiere|quer|desea"
    r"|deseja|pide|pede|saluda|agradece)\b)",
    re.IGNORECASE,
)
_SAYS_MORE = lazy_pattern(
    r"\d|;\s*\w|\b(?:because|since|but|although|after|when|whenever|until|weil|seit|aber|obwohl|nachdem"
    r"|parce que|depuis|mais|porque|desde|pero|mas|quando|cuando)\b",
    re.IGNORECASE,
)
"""A number or an identifier, or a second clause: better models begin many a finding with its user."""


_REMINDER = lazy_pattern(
    r"^\W*(?:(?:as|like) (?:i|we|the user) (?:have )?(?:already )?(?:said|mentioned|told you|wrote)"
    r"(?: before| earlier| already| yesterday| last time)?|(?:(?:just |as )?a )?reminder"
    r"|wie (?:ich )?(?:schon |bereits |oben )?(?:gesagt|erwähnt|geschrieben)(?: habe)?|zur erinnerung"
    r"|comme (?:je (?:te |vous )?l['\u2019]ai )?(?:déjà )?dit|pour rappel|je (?:te |vous )?rappelle"
    r"|como (?:ya )?(?:te |le )?(?:dije|he dicho|mencioné)(?: antes)?|como (?:já )?(?:te )?(?:disse|falei)"
    r"|come (?:ho |ti ho )?(?:già )?detto|напомню|напоминаю|как я (?:уже )?(?:говорил|сказал|писал)\w?"
    r"|كما قلت(?: سابق[اًا]*| من قبل)?|如前所述|(?:我)?之前说过|前にも言(?:いました|った)が)"
    r"[,:;\uff0c\uff1a\u3001\u060c]\s*",
    re.IGNORECASE,
)
"""Words before something that was said before: they are no part of it."""


MAX_ROLE = 6
"""Words of a clause that is dropped: "the user is an administrator". A longer one has a matter."""


def without_role(content: str) -> str:
    """Return a content without a first clause that only says who its user is: what follows it is a finding,
    and vouches for no right that a pasted text grants."""
    first, mark, rest = content.partition(";")
    is_role = len(first.split()) <= MAX_ROLE and is_only_about_user(first)
    return rest.strip() if mark and rest.strip() and is_role else content


def without_reminder(content: str) -> str:
    """Return a content without words that only say that it was said before."""
    rest = _REMINDER.sub("", content, count=1)
    return content if rest == content or not rest else rest[0].upper() + rest[1:]


def is_only_about_user(content: str) -> bool:
    """Return whether a content says what its user wants, asks, likes or is, and nothing else."""
    return _IS_ONLY_THE_USER.search(content) is not None and not _SAYS_MORE.search(content)
