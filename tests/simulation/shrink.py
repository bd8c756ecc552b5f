"""A shorter story that breaks the same promise: fewer acts, faults and features, and less time."""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from simulation.faults import Act, Faults, Features, Story

Breaks = Callable[[Story], bool]
_MOST_TRIES = 400
_KEPT = ("words", "weights", "meetings", "sweeper", "may_fail", "patience_s", "most_acts")
"""Features that no shorter story lacks."""


def shrink(story: Story, breaks: Breaks) -> Story:
    """Return a story with nothing in it that the fault does not need, as far as it is found in 400 tries.

    Args:
        story: One that breaks a promise.
        breaks: Plays a story, and returns whether it breaks that promise.
    """
    tries = 0
    found = True
    while found:
        found = False
        for shorter in _shorter(story):
            tries += 1
            if tries > _MOST_TRIES:
                return story
            if breaks(shorter):
                story, found = shorter, True
                break
    return story


def _shorter(story: Story) -> Iterator[Story]:
    """Yield the stories that lack one thing of this one, the largest things first."""
    count = len(story.acts)
    size = count // 2
    while size:
        for first in range(0, count, size):
            yield replace(story, acts=story.acts[:first] + story.acts[first + size :])
        size //= 2
    for each in fields(Faults):
        calm: Any = getattr(Faults(), each.name)
        if getattr(story.faults, each.name) != calm and isinstance(calm, float):
            changes: dict[str, Any] = {each.name: calm}
            yield replace(story, faults=replace(story.faults, **changes))
    for each in fields(Features):
        plain = getattr(Features(), each.name)
        # What clients do is in the acts; whether anybody sweeps decides what a story is about.
        if each.name in _KEPT:
            continue
        if getattr(story.features, each.name) != plain:
            yield replace(story, features=replace(story.features, **{each.name: plain}))
    if story.away != (0.0, 0.0):
        yield replace(story, away=(0.0, 0.0))
    if story.rest_s:
        yield replace(story, rest_s=0.0)
    sooner = tuple(_sooner(story.acts))
    if sooner != story.acts:
        yield replace(story, acts=sooner)


def _sooner(acts: tuple[Act, ...]) -> Iterator[Act]:
    """Yield the acts with the first one at the beginning."""
    for act in acts:
        yield replace(act, at=round(act.at - acts[0].at, 3))
