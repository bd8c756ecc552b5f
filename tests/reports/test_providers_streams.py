"""Streams of providers."""

from layover import Agent
from layover.values.runs.run import Status
from reports import Found, report
from reports.kit import Asked, Provider, delta, events


@report("open-webui/open-webui#9808, vllm-project/vllm#13125", Found.RIGHT)
async def test_thoughts_that_only_a_closing_tag_ends_are_not_the_answer() -> None:
    """An answer that begins with thoughts and has only their closing tag is the text behind it."""
    whole = "The user greets me.\n</think>\n\nHello!"
    pieces = [delta({"content": whole[at : at + 5]}) for at in range(0, len(whole), 5)]
    asked = Asked(Agent("desk", model="m"), Provider(lambda *_: events(*pieces, delta({}, "stop"))))
    run = await asked.say("hi")
    assert (run.status, run.text) == (Status.SUCCESS, "Hello!")
