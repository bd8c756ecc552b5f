"""The packages that front ends are made with, from npm, against a system that is served.

`@ai-sdk/react`'s `Chat` is what `useChat` shows, `@ag-ui/client`'s `HttpAgent` what CopilotKit runs."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from functions.api.routes_ag_ui import AgUiFrames
from functions.api.routes_chat import UiFrames
from layover.plugins.fronts.chat.answers import BROKEN_OFF, Translation
from layover.plugins.fronts.protocols.ag_ui import AgUiRun
from layover.plugins.fronts.protocols.ui_messages import UiMessage
from npm.conftest import LIMIT_S
from support.logs import Log, load
from support.logs.pictures import asked_args, calls_of_answer, truth, voided
from support.providers.openai import call, calls, say
from support.system.system import Brain, System

TEXT, STEP = "text", "step-start"


def drive(
    packages: Path,
    system: System,
    script: str,
    scenario: str,
    *texts: str,
    agent: str = "support",
) -> Any:
    """Run the script, and return its output."""
    run = subprocess.run(
        ["node", script, system.url, agent, scenario, *texts],
        cwd=packages,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout)
    assert found["errors"] == []
    return found


def kinds(message: Any) -> list[str]:
    return [p["type"] for p in message["parts"]]


def test_use_chat_shows_an_answer_with_its_tools(
    packages: Path, system: System, brain: Brain
) -> None:
    text = brain.plan(call("look_up", key="o1"), say("It is on its way."))
    user, answer = drive(packages, system, "ai_sdk.mjs", "plain", text)["messages"]
    assert user["role"] == "user"
    assert answer["id"] == answer["metadata"]["run_id"]
    assert kinds(answer) == [STEP, "tool-look_up", STEP, TEXT]
    tool, words = answer["parts"][1], answer["parts"][3]
    assert (tool["state"], tool["output"]["state"]) == ("output-available", "on its way")
    assert (words["text"], words["state"]) == ("It is on its way.", "done")


@pytest.mark.parametrize(
    ("scenario", "state"), [("approved", "output-available"), ("denied", "output-denied")]
)
def test_use_chat_decides_and_goes_on_under_the_same_id(
    packages: Path, system: System, brain: Brain, scenario: str, state: str
) -> None:
    text = brain.plan(call("refund", order_id="o1", amount=5), say("Done."))
    found = drive(packages, system, "ai_sdk.mjs", scenario, text)
    before, answer = found["before"][-1], found["messages"][-1]
    # What the tool says about the call comes behind it, and then the request.
    *_, tool, said = before["parts"]
    assert tool["state"] == "approval-requested"
    assert (said["type"], said["data"]["summary"]) == (
        "data-layover-pending",
        "Pay 5 euros back for o1",
    )
    assert len(found["messages"]) == 2
    assert answer["id"] == before["id"]
    assert (answer["parts"][1]["state"], answer["parts"][-1]["text"]) == (state, "Done.")


def test_use_chat_regenerates_on_another_branch(
    packages: Path, system: System, brain: Brain
) -> None:
    found = drive(packages, system, "ai_sdk.mjs", "regenerate", brain.plan(say("Hello.")))
    assert found["messages"][-1]["id"] != found["before"][-1]["id"]
    assert found["messages"][-1]["parts"][-1]["text"] == "Hello."
    assert len(found["messages"]) == 2


def test_use_chat_goes_on_after_a_reload(packages: Path, system: System, brain: Brain) -> None:
    looking = replace(call("look_up", key="o1"), text="One moment.")
    text = brain.plan(looking, say("It is on its way.", delay_s=5))
    found = drive(packages, system, "ai_sdk.mjs", "resume", text)
    cut, whole = found["cut"][-1], found["messages"][-1]
    assert "on its way." not in json.dumps([p.get("text") for p in cut["parts"]])
    assert whole["id"] == cut["id"]
    texts = [p["text"] for p in whole["parts"] if p["type"] == TEXT]
    assert texts == ["One moment.", "It is on its way."]
    assert found["idle"] == []


def test_use_chat_decides_after_a_reload(packages: Path, system: System, brain: Brain) -> None:
    asking = replace(call("refund", order_id="o1", amount=5), text="One moment.")
    text = brain.plan(call("look_up", key="o1"), asking, say("It is **paid**."))
    found = drive(packages, system, "ai_sdk.mjs", "reload", text)
    for shown in (found["loaded"], found["resumed"]):
        # A page knows no run of its own question.
        assert shown[0].pop("metadata")["run_id"] == shown[1]["id"]
    # Each shows the same, with the same ids: before, loaded, and followed after that.
    assert found["loaded"] == found["before"] == found["resumed"]
    assert found["loaded"][-1]["parts"][-2]["state"] == "approval-requested"
    for message in found["messages"]:
        message["metadata"] = {
            n: message.get("metadata", {}).get(n) for n in ("run_id", "thread_id")
        }
    answer, stored = found["messages"][-1], found["after"][-1]
    assert (answer["id"], answer["metadata"]) == (stored["id"], stored["metadata"])
    # The words about a call that waited are of that time.
    answer["parts"] = [p for p in answer["parts"] if p["type"] != "data-layover-pending"]
    assert kinds(answer) == kinds(stored)
    outputs = [[p.get("output") or p.get("text") for p in m["parts"]] for m in (answer, stored)]
    assert outputs[0] == outputs[1]
    assert outputs[0][-1] == "It is **paid**."


def test_use_chat_goes_on_while_an_approval_waits(
    packages: Path, system: System, brain: Brain
) -> None:
    paying = brain.plan(call("refund", order_id="o1", amount=5), say("It is paid."))
    asking = brain.plan(say("It rains."))
    found = drive(packages, system, "ai_sdk.mjs", "meanwhile", paying, asking)
    ids = [message["id"] for message in found["before"]]
    assert len(ids) == len(set(ids)) == 4
    assert [message["id"] for message in found["waiting"]] == ids
    for shown in (found["before"], found["waiting"]):
        assert shown[1]["parts"][1]["state"] == "approval-requested"
        assert shown[3]["parts"][-1]["text"] == "It rains."
    # The SDK goes on with the message that asked, where it is; a reload has all of it in its order.
    live, loaded = found["messages"], found["after"]
    assert [message["id"] for message in live] == ids
    assert live[1]["parts"][1]["state"] == "output-available"
    assert live[1]["parts"][-1]["text"] == "It is paid."
    assert [message["id"] for message in loaded] == [*ids, f"{ids[1]}.2"]
    assert loaded[1]["parts"][-1]["state"] == "output-available"
    assert [m["parts"][-1].get("text") for m in loaded[3:]] == ["It rains.", "It is paid."]


@pytest.mark.parametrize(
    ("script", "translation"),
    [
        ("ai_sdk.mjs", UiFrames(UiMessage("run_1", "thread_1"))),
        ("ag_ui.mjs", AgUiFrames(AgUiRun("t", "r", "run_1"))),
    ],
    ids=["useChat", "AG-UI"],
)
def test_clients_take_an_answer_that_broke_off_for_a_failure(
    packages: Path, system: System, script: str, translation: Translation
) -> None:
    body = (translation.begin() + translation.break_off(BROKEN_OFF)).decode()
    found = drive(packages, system, script, "body", body)
    assert found["failures"] == [BROKEN_OFF]
    assert found.get("status", "error") == "error"


def body_of(log: Log, translation: Translation) -> str:
    """Return the answer that has the whole of a recorded run."""
    frames = [translation.frames(event) for event in log.events]
    return (translation.begin() + b"".join(frames) + translation.end()).decode()


@pytest.mark.parametrize("name", ["unknown", "broken_calls", "broken_step", "hooks"])
def test_use_chat_shows_a_recorded_run(packages: Path, system: System, name: str) -> None:
    log = load(name)
    body = body_of(log, UiFrames(UiMessage(log.run_id, "t")))
    found = drive(packages, system, "ai_sdk.mjs", "body", body)
    assert (found["failures"], found["status"]) == ([], "ready")
    parts, true = found["messages"][-1]["parts"], truth(log)
    texts = [part["text"] for part in parts if part["type"] == TEXT]
    assert texts == [*voided(log), *true.texts]
    tools = [part for part in parts if part["type"].startswith("tool-")]
    # A step that began again leaves the beginning of its calls behind.
    half = [part for part in tools if part["state"] == "input-streaming"]
    assert len(half) == (1 if name == "broken_calls" else 0)
    tools = [part for part in tools if part not in half]
    assert {part["state"] for part in tools} <= {"output-available"}
    inputs = [true.calls[id].inputs[-1] for id in asked_args(log) if id in calls_of_answer(log)]
    assert sorted(map(str, (part["input"] for part in tools))) == sorted(map(str, inputs))
    assert [p["data"] for p in parts if p["type"] == "data-layover-event"] == true.unknown


def test_ag_ui_shows_a_recorded_run_with_what_is_unknown(packages: Path, system: System) -> None:
    log = load("unknown")
    body = body_of(log, AgUiFrames(AgUiRun("t", "r", log.run_id)))
    found = drive(packages, system, "ag_ui.mjs", "body", body)
    assert found["failures"] == []
    assert [event["value"] for event in found["customs"]] == truth(log).unknown
    assert found["messages"][-1]["content"] == truth(log).texts[-1]


def test_ag_ui_runs_an_agent(packages: Path, system: System, brain: Brain) -> None:
    text = brain.plan(call("look_up", key="o1"), say("It is on its way."))
    found = drive(packages, system, "ag_ui.mjs", "plain", text)
    first, last = found["events"][0], found["events"][-1]
    assert (first["type"], first["threadId"], first["runId"]) == ("RUN_STARTED", "ag-plain", "r1")
    assert (last["type"], last["outcome"]) == ("RUN_FINISHED", {"type": "success"})
    assert [m["role"] for m in found["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert found["messages"][-1]["content"] == "It is on its way."


@pytest.mark.parametrize("scenario", ["approved", "denied"])
def test_ag_ui_interrupts_and_resumes_the_same_run(
    packages: Path, system: System, brain: Brain, scenario: str
) -> None:
    text = brain.plan(call("refund", order_id="o1", amount=5), say("Done."))
    found = drive(packages, system, "ag_ui.mjs", scenario, text)
    (interrupt,) = found["before"][-1]["outcome"]["interrupts"]
    assert interrupt["metadata"]["pending"]["tool_name"] == "refund"
    source = found["before"][0]["metadata"]["layover_run_id"]
    assert found["events"][0]["metadata"]["layover_run_id"] == source
    (result,) = (e for e in found["events"] if e["type"] == "TOOL_CALL_RESULT")
    assert ("paid 5" in result["content"]) == (scenario == "approved")
    assert found["messages"][-1]["content"] == "Done."


def test_ag_ui_goes_on_while_an_interrupt_waits(
    packages: Path, system: System, brain: Brain
) -> None:
    paying = brain.plan(call("refund", order_id="o1", amount=5), say("It is paid."))
    asking = brain.plan(say("It rains."))
    found = drive(packages, system, "ag_ui.mjs", "meanwhile", paying, asking)
    assert found["before"][-1]["outcome"] == {"type": "success"}
    assert found["events"][-1]["outcome"] == {"type": "success"}
    messages = found["messages"]
    # The client puts a result behind its call.
    assert [m["role"] for m in messages] == [
        *("user", "assistant", "tool", "user", "assistant", "assistant"),
    ]
    assert "paid 5" in messages[2]["content"]
    assert [messages[n]["content"] for n in (4, 5)] == ["It rains.", "It is paid."]
    assert len({m["id"] for m in messages}) == 6


def test_ag_ui_shows_calls_with_their_results_and_passes_over_the_clients_tools(
    packages: Path, system: System, brain: Brain
) -> None:
    both = calls(("look_up", {"key": "o1"}), ("breaks", {"key": "o2"}))
    text = brain.plan(both, say("One of two."))
    found = drive(packages, system, "ag_ui.mjs", "tools", text)
    messages = found["messages"]
    assert messages[-1]["content"] == "One of two."
    shown = {c["id"]: c["function"]["name"] for m in messages for c in m.get("toolCalls", ())}
    tools = [m for m in messages if m["role"] == "tool"]
    results = {shown[m["toolCallId"]]: m["content"] for m in tools}
    assert len(tools) == len(results) == 2
    assert "on its way" in results["look_up"]
    assert "no o2" in results["breaks"]
    assert "the page's own" not in json.dumps(brain.requests(text)[0].body)


def test_ag_ui_client_that_aborts_leaves_and_the_run_goes_on(
    packages: Path, system: System, brain: Brain
) -> None:
    looking = replace(call("look_up", key="o1"), text="One moment.")
    text = brain.plan(looking, say("It is on its way.", delay_s=5))
    found = drive(packages, system, "ag_ui.mjs", "abort", text)
    assert not found["isRunning"]
    said = [m.get("content") for m in found["messages"] if m["role"] == "assistant"]
    assert "One moment." in said
    assert "It is on its way." not in said
    end = found["events"][-1]
    assert (end["type"], end["code"]) == ("RUN_ERROR", "abort")
    run_id = found["events"][0]["metadata"]["layover_run_id"]
    over = system.caller("ada").over(run_id)
    assert (over["status"], over["text"]) == ("success", "It is on its way.")


def test_ag_ui_client_that_comes_back_goes_on_with_the_thread(
    packages: Path, system: System, brain: Brain
) -> None:
    first, second = brain.plan(say("I am Layover.")), brain.plan(say("As I said."))
    found = drive(packages, system, "ag_ui.mjs", "reload", first, second)
    assert found["connected"] == []
    assert [m["role"] for m in found["messages"]] == ["user", "assistant"]
    assert found["messages"][-1]["content"] == "As I said."
    assert "I am Layover." in json.dumps(brain.requests(second)[0].body)


def test_ag_ui_has_the_state_at_an_interrupt_and_at_the_end(
    packages: Path, system: System, brain: Brain
) -> None:
    text = brain.plan(
        call("update_working_memory", name="Ann"),
        call("refund", order_id="o1", amount=5),
        call("update_working_memory", pets=["Momo"]),
        say("Done."),
    )
    found = drive(packages, system, "ag_ui.mjs", "state", text, agent="keeper")
    for events, known in ((found["before"], "Ann"), (found["events"], "Momo")):
        (snapshot,) = (e["snapshot"] for e in events if e["type"] == "STATE_SNAPSHOT")
        assert known in json.dumps(snapshot["working_memory"])
