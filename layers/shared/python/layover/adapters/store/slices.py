"""Slices that were observed ahead, in the order in which both stores chain them."""

from collections.abc import Iterable

from layover.values.memory.compaction import Generation

MAX_SLICES = 64
"""The most slices of one branch that are read. There is one for each piece of a threshold."""


def in_a_row(slices: Iterable[Generation], after_depth: int) -> tuple[Generation, ...]:
    """The slices of one path that follow each other without a gap from this depth on. If several begin at one
    place (because a branch left in the middle of one), the longest is taken."""
    longest: dict[int, Generation] = {}
    for slice in slices:
        longest_here = longest.get(slice.after_depth)
        if longest_here is None or slice.through_depth > longest_here.through_depth:
            longest[slice.after_depth] = slice
    row: list[Generation] = []
    while (next_slice := longest.get(after_depth)) is not None:
        row.append(next_slice)
        after_depth = next_slice.through_depth
    return tuple(row)
