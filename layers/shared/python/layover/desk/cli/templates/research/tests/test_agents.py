"""Tests of the agents: the model is scripted, the engine is the one that runs on Lambda."""

from layover.testing import ScriptedModel, call, say, tool_results

from agents import PUBLISHED, researcher

PUBLISH = call("publish", title="Heating", text="Insulate the roof first.")


async def test_a_search_finds_the_note_that_fits() -> None:
    script = [call("search_notes", query="insulation of a roof"), say("Insulate first.")]
    with researcher.override(model=ScriptedModel(script)):
        done = await researcher.generate("What should a house begin with?")
    assert len(tool_results(done)[0]) == 1


async def test_a_report_waits_for_a_person_and_is_published_once_approved() -> None:
    PUBLISHED.clear()
    with researcher.override(model=ScriptedModel([PUBLISH, say("It is out.")])):
        waiting = await researcher.generate("Publish a report about heating.")
        assert waiting.status == "suspended"
        assert PUBLISHED == {}
        await researcher.approve(waiting.run_id, waiting.pending[0].tool_call_id)
    assert PUBLISHED == {"Heating": "Insulate the roof first."}
