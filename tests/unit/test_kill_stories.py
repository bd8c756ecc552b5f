"""Which points of a kill matrix a run may do without, and which it has to die at."""

import pytest

from support.kills.judge import judge_lists
from support.kills.scenarios import LOST, SERVED, UNSAVED, UNSENT
from support.kills.story import Line, Point, Scenario, Story, by_the_clock, is_calm

ALIVE = "StepFunctions.alive (running, decided)"


def story(scenario: Scenario, *lines: tuple[str, str, str]) -> Story:
    """A run whose trace has these lines (mark, function, point)."""
    trace = [
        Line(m, function, point, 1, 7, float(at)) for at, (m, function, point) in enumerate(lines)
    ]
    return Story(scenario, "user", trace=trace)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sweeper_that_finds_a_decided_run_alone_has_to_die_there(when: str) -> None:
    stories = [story(UNSENT, (">", "sweep", ALIVE), ("<", "sweep", ALIVE))] * 2
    assert not by_the_clock(Point("sweep", ALIVE, 1, when), stories)


def test_a_sweeper_may_come_between_two_attempts_of_a_turn_or_not() -> None:
    look = ((">", "sweep", ALIVE), ("<", "sweep", ALIVE))
    stories = [story(UNSAVED, ("x", "turn", "DynamoTable.write META"), *look)] * 2
    assert by_the_clock(Point("sweep", ALIVE, 1, "before"), stories)
    assert not is_calm(Point("sweep", ALIVE, 1, "before"))


def test_a_point_that_one_run_did_without_is_a_matter_of_time() -> None:
    write = (">", "sweep", "DynamoTable.transact META (running, lost)")
    point = Point("sweep", write[2], 1, "before")
    assert by_the_clock(point, [story(LOST, write), story(LOST)])
    assert not by_the_clock(point, [story(LOST, write), story(LOST, write)])


@pytest.mark.parametrize(
    ("name", "is_chance"), [("DynamoTable.get META", True), ("DynamoTable.query META", False)]
)
def test_a_decision_that_comes_before_its_token_is_asked_of_nobody(
    name: str, is_chance: bool
) -> None:
    stories = [story(SERVED, (">", "resume", name), ("<", "resume", name))] * 2
    assert by_the_clock(Point("resume", name, 1, "before"), stories) is is_chance


STEP = "DynamoTable.transact STEP#0001 META EVENT"
LIST = "McpServers.list_tools shop"


def test_list_of_a_server_may_be_asked_for_again_until_the_first_step_is_journaled() -> None:
    judge_lists(story(SERVED, (">", "turn", LIST), ("x", "turn", LIST), (">", "turn", LIST)))
    judge_lists(story(SERVED, (">", "turn", LIST), (">", "turn", STEP), ("<", "turn", STEP)))


@pytest.mark.parametrize("mark", ["<", "X"])
def test_list_of_a_server_that_is_asked_for_after_the_first_step_is_a_failure(mark: str) -> None:
    with pytest.raises(AssertionError, match="asked for again"):
        judge_lists(story(SERVED, (mark, "turn", STEP), (">", "turn", LIST)))
