"""A run that failed, in Chromium: its owner lets it go on."""

from collections.abc import Iterator

from browser.conftest import Enter
from support.providers.openai import Reply, fail, say
from support.system.system import Brain, unique


def test_the_owner_of_a_run_that_failed_lets_it_go_on(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    steps: Iterator[Reply] = iter([fail(401), say("It works again.")])
    ann.begin(brain.mind(lambda _: next(steps), f"please {unique()}"))
    ann.button("Try again").wait_for()
    ann.picture("failed")
    ann.button("Try again").click()
    ann.sees("It works again.")
    ann.answered()
    assert not ann.button("Try again").is_visible()


def test_only_the_newest_run_can_go_on(enter: Enter, brain: Brain) -> None:
    ann = enter().sign_in()
    ann.begin(brain.plan(fail(401)))
    ann.button("Try again").wait_for()
    ann.say(brain.plan(say("Another answer.")))
    ann.sees("Another answer.")
    assert not ann.button("Try again").is_visible()
