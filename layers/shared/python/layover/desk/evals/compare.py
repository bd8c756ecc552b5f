"""Equality of JSON values: 60 is 60.0, and true is not 1."""

from typing import Any


def is_equal(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_equal(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return bool(one == other)


def is_part(part: Any, whole: Any) -> bool:
    """Return whether an object's keys are all in another one, with these values; objects inside likewise."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(part[key], whole[key]) for key in part)
    return is_equal(part, whole)
