"""Twenty thousand stories of the simulation: each mode's in a test of its own."""

import pytest

from simulation.faults import MODES
from simulation.play import play, said, stories_of

MANY = 20_000


@pytest.mark.torture
@pytest.mark.parametrize("mode", MODES)
def test_none_of_many_stories_breaks_a_promise(mode: str) -> None:
    for story in stories_of(mode, MANY):
        played = play(story)
        assert not played.complaints, said(played)
