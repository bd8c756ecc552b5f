"""The conditions that a compaction waits for."""

from datetime import UTC, datetime
from typing import Any

import pytest

from layover.plugins.memory.condenses.job import CompactionJob
from layover.values.message import Message, Role

MISSING = [
    Message(
        id=id,
        thread_id="t",
        role=Role.USER,
        content=(),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    for id in ("a", "b", "c")
]


@pytest.mark.parametrize(
    ("asked", "waited", "may_come"),
    [
        (None, None, False),
        ("c", None, True),
        ("c", "before them", True),
        ("c", "b", False),
        ("c", "c", False),
        ("before them", None, False),
    ],
)
def test_slices_that_were_waited_for_in_vain_are_not_waited_for_again(
    asked: str | None, waited: str | None, may_come: bool
) -> None:
    nothing: Any = None
    work = CompactionJob(
        nothing, nothing, nothing, nothing, "c", asked_through=asked, waited_through=waited
    )
    assert work.is_under_way(MISSING) is may_come
