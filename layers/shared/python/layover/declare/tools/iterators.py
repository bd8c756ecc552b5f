"""Iterators in the results of tools, which can be read once."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from layover.values.base import MAX_DEPTH


def walk(value: Any) -> Any:
    """Return a list in the place of an iterator, also of one in a list, a tuple or a dict; any other value as
    it is. Raises what the iterator raises."""
    return _walk(value, ())


async def walk_async(value: Any) -> Any:
    """Return the same for an iterator of either kind."""
    if isinstance(value, AsyncIterator):
        value = [each async for each in value]
    return walk(value)


def _walk(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, Iterator):
        return [_walk(each, above) for each in value]
    if type(value) not in (dict, list, tuple) or id(value) in above or len(above) > MAX_DEPTH:
        return (
            value  # Whoever renders a value that contains itself, or is nested too deep, says so.
        )
    below = (*above, id(value))
    if isinstance(value, dict):
        items = {name: _walk(each, below) for name, each in value.items()}
        return items if any(items[name] is not value[name] for name in items) else value
    parts = [_walk(each, below) for each in value]
    is_same = all(new is old for new, old in zip(parts, value, strict=True))
    return value if is_same else type(value)(parts)
