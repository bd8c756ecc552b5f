"""Tests of the agents: the model is scripted, the engine is the one that runs on Lambda."""

from layover.testing import ScriptedModel, say

from agents import assistant


async def test_the_assistant_answers() -> None:
    with assistant.override(model=ScriptedModel([say("Hello.")])):
        done = await assistant.generate("Good morning!")
    assert done.text == "Hello."
