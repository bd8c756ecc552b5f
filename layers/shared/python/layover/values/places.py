"""Places in a request that a provider names when it refuses it, such as `tools[3].function.parameters`.
Loaded where a request fails."""

import re
from collections.abc import Container, Mapping
from typing import Any

FIELDS_OF_TOOLS = frozenset({"tools", "functions", "toolConfig"})
"""Fields of providers' requests that have a prompt's tools."""
FIELDS_OF_CONTENT = frozenset({"messages", "input", "contents", "system", "instructions", "prompt"})
"""Those that have what is said."""
_PLACE = re.compile(
    r"\b((?:tools|functions|toolConfig|messages|contents)(?:\[\d+\]|\.\w)[\w.\[\]-]*)"
    r"|\A([a-z]\w*(?:\.\w+|\[\d+\])*)(?=: )"
)
"""The place that a message names: one among others, or one that it begins with."""


def place_in(error: Mapping[str, Any], message: str) -> str:
    """Return the place that an error is about, by its own field first; empty if it names none."""
    if isinstance(param := error.get("param"), str) and param:
        return param
    match = _PLACE.search(message)
    return (match[1] or match[2]) if match else ""


def place_within(place: str, request: Container[str]) -> str:
    """Return a place in a request; empty if the request has no such field."""
    field = field_of(place)
    return place if field in FIELDS_OF_TOOLS | FIELDS_OF_CONTENT or field in request else ""


def field_of(place: str) -> str:
    """Return the field of a request in which a place is."""
    return place.replace("[", ".").partition(".")[0]


def is_of_content(place: str) -> bool:
    """Return whether a refusal at this place may be one of what is said."""
    return not place or field_of(place) in FIELDS_OF_CONTENT


def is_of_tools(place: str) -> bool:
    """Return whether the place is one of the tools."""
    return field_of(place) in FIELDS_OF_TOOLS
