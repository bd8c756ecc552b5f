"""Choices of a schema that have other words for people than their values (`enumNames`)."""

from collections.abc import Mapping
from typing import Any


def names_in(schema: Mapping[str, Any], count: int) -> list[Any] | None:
    """Return the words for a schema's `count` values, in their order; None if it has not one for each."""
    names = schema.get("enumNames")
    return names if isinstance(names, list) and len(names) == count else None
