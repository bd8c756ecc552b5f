"""A provider that refuses a step until the run's story has mended the cause; and runs that pause meanwhile,
or fail and are redriven."""

from collections.abc import Callable
from typing import Any

from layover.recovery.redrive import PAUSE
from support.kills.story import Story
from support.kills.torture import PAUSE_S, Client
from support.providers.openai import Reply, fail

AWAY_S = 61
"""A wait for which no invocation waits: the run pauses at once."""
_mended: set[tuple[str, str]] = set()
"""By user and cause. A death between a refusal and its record changes nothing: who asks again is refused
again."""


def away(cause: str, answer: Reply) -> Callable[[Any], Reply]:
    """Return a step whose provider is away until `cause` is mended for the user of the run."""
    return _refused(cause, fail(503, "overloaded", retry_after=str(AWAY_S)), answer)


def keyless(cause: str, answer: Reply) -> Callable[[Any], Reply]:
    """Return a step whose key is refused until `cause` is mended."""
    return _refused(cause, fail(401, "this key is not known"), answer)


def _refused(cause: str, refusal: Reply, answer: Reply) -> Callable[[Any], Reply]:
    return lambda body: answer if (body["user"], cause) in _mended else refusal


def pause(client: Client, run_id: str, cause: str) -> None:
    """Wait until the run pauses, mend the cause, and move the clock until the run has asked again."""
    client.until(lambda: client.run(run_id).get("waiting_for"), PAUSE_S)
    _mended.add((client.name, cause))

    def asks() -> bool:
        is_away = bool(client.run(run_id).get("waiting_for"))
        # Not before it waits there: a move takes nothing from a wait that has not begun.
        if is_away and client.system.is_in(run_id, "AwaitProvider"):
            client.system.advance_clock(AWAY_S, timers=True)
        return not is_away

    client.until(asks, PAUSE_S)


def redrive(client: Client, run_id: str, cause: str) -> None:
    """Wait until the run has failed, mend the cause, and ask that it goes on, until that is answered."""
    client.until(lambda: client.run(run_id)["status"] == "failed", PAUSE_S)
    _mended.add((client.name, cause))
    client.system.advance_clock(PAUSE.total_seconds())
    client.want(202, "POST", f"/runs/{run_id}/redrive")


def judge_pauses(client: Client, story: Story) -> None:
    """Check that the log tells of the pause."""
    assert "model-waiting" in [event["type"] for event in story.events]


def judge_redrives(client: Client, story: Story) -> None:
    """Check that the log tells of each redrive once, and why it was needed."""
    errors = [e["error"]["type"] for e in story.events if e["type"] == "redriven"]
    assert errors == ["AuthenticationError", "AuthenticationError"], errors
