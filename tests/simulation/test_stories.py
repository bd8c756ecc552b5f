"""Stories of fixed seeds, in every mode. A seed that fails is shown by `make simulate SEED=... MODE=...`."""

from dataclasses import replace

import pytest

from simulation.faults import MODES, Act, Faults, Story, write_story
from simulation.play import play, said, stories_of
from simulation.shrink import shrink
from support.hash_seeds import printed_with

STORIES = 300
"""Of all modes together."""
_DIGESTS = """
from simulation.faults import write_story
from simulation.play import play
print([play(write_story(seed, mode)).digest for seed, mode in [(1, "more-all"), (2, "told-all")]])
"""


@pytest.mark.parametrize("mode", MODES)
def test_no_story_breaks_a_promise(mode: str) -> None:
    played = [play(story) for story in stories_of(mode, STORIES)]
    broken = [each for each in played if each.complaints]
    assert not broken, "\n\n".join(map(said, broken))


def test_a_story_has_the_same_trace_in_every_process() -> None:
    traces = {printed_with(hash_seed, _DIGESTS) for hash_seed in (1, 2)}
    assert len(traces) == 1
    assert traces.pop().count("'") == 4


def test_a_story_shrinks_to_the_acts_that_its_fault_needs() -> None:
    story = write_story(3, "all")
    acts = tuple(Act(float(n), "say", n, n) for n in range(1, 9))

    def breaks(shorter: Story) -> bool:
        numbers = {act.number for act in shorter.acts}
        return {2, 7} <= numbers and shorter.faults.lag_s > 0

    small = shrink(replace(story, acts=acts), breaks)
    assert [act.number for act in small.acts] == [2, 7]
    assert small.acts[0].at == 0
    assert small.faults == replace(Faults(), lag_s=story.faults.lag_s, span=story.faults.span)
    assert small.rest_s == 0
