"""Refusals of settings: which fields of a request a provider says it does not take, in its own words."""

import re
from collections.abc import Set

from layover.errors import INVALID_RESPONSE, ModelError
from layover.plugins.models import wire

_FORMAT = re.compile(
    r"(response|output)[_ ]?(format|mime|config|schema)|json[_ ]?(schema|mode|object)|structured[_ ]?output"
    r"|text\.format",
    re.I,
)
_UNSUPPORTED = re.compile(
    r"unsupported|unimplemented|incompatible|unknown|unrecogni[sz]ed|unexpected|deprecated|no longer"
    r"|extra[ _](forbidden|fields|inputs)|cannot find field|may not be enabled when"
    r"|\bnot (applicable|implemented|compatible|a valid (parameter|argument|field|option))"
    r"|(\b(can)?not|n['\u2019]t) (currently |yet |both |be )*(support|permit|allow|accept|recogni[sz]e"
    r"|available|enabled|set\b|used|specified|provided|combined)"
    r"|only works in"
    r"|only ([\w.'\"` ()]{1,30} (is|are) )?(allowed|supported|accepted)|may only be set|or unset"
    r"|mutually exclusive|only one of|at the same time|no endpoints found that|\u4e0d\u652f\u6301",
    re.I,
)
_UNKNOWN_LEVEL = re.compile(
    r"(must|should) be (one of|either)|supported values|valid values|expected one of|input should be"
    r"|invalid (value|option)",
    re.I,
)
_LEVELS = frozenset({"reasoning_effort", "reasoning", "verbosity", "effort"})
"""Settings of which each model has its own levels. Every other wrong value is the author's to mend."""
_NO = (
    r"(?:\b(?:no|not|cannot|unable)\b|n['\u2019]t\b"
    r"|\b(?:unsupported|unknown|unrecogni[sz]ed|unexpected|disabled))"
)
_TAKES = r"(?:support|permit|allow|accept|implement|enabl|availabl|disabled|parameter|argument|field|option)"
_STREAMS = r"\bstream(?:s|ed|ing)?\b"
_NO_STREAMS = re.compile(
    rf"{_NO}[^.;]{{0,40}}{_TAKES}[^.;]{{0,40}}{_STREAMS}|{_STREAMS}[^.;]{{0,40}}{_NO}[^.;]{{0,20}}{_TAKES}"
    rf"|{_STREAMS}[\w ]{{0,10}}(?:unsupported|disabled)|unsupported[^.;]{{0,20}}{_STREAMS}",
    re.I,
)
_CONDITION = re.compile(r"\b(when|while|if|with|because|unless)\b", re.I)

_AT_ONCE = re.compile(r"\bboth\b|at the same time|mutually exclusive|only one of|together", re.I)
_RIVALS = (
    ("max_tokens", "max_completion_tokens"),
    ("top_p", "temperature"),
    ("topP", "temperature"),
)
"""Pairs of which some models take one. The first is the one to leave out."""
_PLAIN_WORD = re.compile(r"['\"`.(\[]reasoning\b")
"""`reasoning` as a field, not as a word."""
_THINKING = r"reasoning([_. ]?effort)?|thinking[_ ]?(level|budget|config|mode)?"
_ALIASES = {
    "reasoning_effort": _THINKING,
    "reasoning": _THINKING,
    "parallel_tool_calls": r"parallel[_ ]?tool[_ ]?(calls?|calling|use)",
    "tool_choice": r"tool[_ ]?choice",
    "max_tokens": r"max[_ ]?tokens",
    "max_completion_tokens": r"max[_ ]?completion[_ ]?tokens",
    "max_output_tokens": r"max[_ ]?output[_ ]?tokens",
    "top_p": r"top[-_ ]?p",
    "stop": r"stop[_ ]?(words|sequences?)",
    "prompt_cache_key": r"prompt[_ ]?cache[_ ]?key",
}
"""Other names of fields, for refusals that have none by its own name."""


def refused_settings(error: ModelError, settings: Set[str]) -> frozenset[str]:
    """Return the settings that the provider says it does not take.

    Args:
        error: The provider's refusal.
        settings: Fields of the request that a run can do without.
    """
    if error.type == INVALID_RESPONSE:  # its words are about the answer
        return frozenset()
    is_routed_away = error.status == 404 and "No endpoints found that" in error.message
    if error.status not in (400, 422) and not is_routed_away:
        return frozenset()
    if _UNSUPPORTED.search(error.message) or _UNSUPPORTED.search(error.code):
        if (field := error.place.partition(".")[0]) in settings:
            return frozenset({field})
        return _without_rival(_settings_in(error.message, settings), error.message)
    if _UNKNOWN_LEVEL.search(error.message):
        return _settings_in(error.message, settings & _LEVELS)
    return frozenset()


def _settings_in(message: str, settings: Set[str]) -> frozenset[str]:
    """Return the settings that a message is about: a condition ("when thinking is enabled") names others."""
    head = _CONDITION.split(message, maxsplit=1)[0]
    for text in (head, message):
        if names := frozenset(settings & set(re.findall(r"\w+", text)) - _words(message)):
            return names
    for text in (head, message):
        if aliases := frozenset(name for name in settings if _has_alias(name, text)):
            # Where both are fields, `reasoning` is no setting.
            return aliases - {"reasoning"} if "reasoning_effort" in aliases else aliases
    return frozenset()


def _words(message: str) -> frozenset[str]:
    return frozenset() if _PLAIN_WORD.search(message) else frozenset({"reasoning"})


def _has_alias(name: str, text: str) -> bool:
    return name in _ALIASES and re.search(rf"\b({_ALIASES[name]})\b", text, re.I) is not None


def _without_rival(names: frozenset[str], message: str) -> frozenset[str]:
    """Of two settings that exclude each other one is left out, and of two of which the message recommends the
    second, the first."""
    for pair in _RIVALS:
        if names.issuperset(pair):
            mentioned = re.findall(rf"\b(?:{pair[0]}|{pair[1]})\b", message)
            first = pair[0] if _AT_ONCE.search(message) else mentioned[0]
            return names - set(pair) | {first}
    return names


def refuses_streams(error: ModelError) -> bool:
    """Return whether a provider says that it does not answer in streams, or not such a request."""
    is_refusal = error.status in (400, 404, 405, 422, 501)
    return is_refusal and _NO_STREAMS.search(error.message) is not None


def refused_format(error: ModelError, left_out: Set[str]) -> frozenset[str]:
    """Return what to leave out next if the provider refuses the format of a structured answer: the schema,
    then the format at all. Whatever is wrong with it, the schema in words asks for the same."""
    if error.status not in (400, 422) or not _FORMAT.search(error.message):
        return frozenset()
    rest = [name for name in (wire.JSON_SCHEMA, wire.RESPONSE_FORMAT) if name not in left_out]
    return frozenset(rest[:1])
