"""Twenty thousand stories of the simulation, each mode's in a test of its own; and troubled days of many
runs."""

import pytest

from simulation.faults import MODES
from simulation.play import play, said, stories_of
from simulation.troubles import TOLD, TROUBLES, TroubledDays

MANY = 20_000
RUNS_EACH = 40
"""Runs that begin at each trouble. The table in memory reads all items for each query: time grows with the
square of the runs."""


@pytest.mark.torture
@pytest.mark.parametrize("mode", MODES)
def test_none_of_many_stories_breaks_a_promise(mode: str) -> None:
    for story in stories_of(mode, MANY):
        played = play(story)
        assert not played.complaints, said(played)


@pytest.mark.torture
def test_many_runs_live_through_troubled_days_and_operators_get_eight_messages() -> None:
    days = TroubledDays(RUNS_EACH)
    days.play()
    assert not days.world.complaints
    assert len(days.runs) == RUNS_EACH * len(TROUBLES)
    assert days.effects == dict.fromkeys((run.meta.id for run in days.runs), 1)
    assert days.told("slack") == days.told("mail") == TOLD
