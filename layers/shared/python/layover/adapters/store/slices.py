"""Slices that were observed ahead, as both stores put them in a row."""

from collections.abc import Iterable

from layover.values.memory.compaction import Generation

MAX_SLICES = 64
"""Slices of one branch that are read at most: of each piece of a threshold there is one."""


def in_a_row(slices: Iterable[Generation], after_depth: int) -> tuple[Generation, ...]:
    """Those of one path that follow each other without a gap from this depth on. Where several begin
    at one place (a branch left in the middle of one), the longest goes on."""
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
