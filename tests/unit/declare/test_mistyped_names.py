"""A mistyped name in a declaration is answered with where it is and the name that is nearest."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import layover
from layover import (
    Agent,
    Approval,
    DefinitionError,
    EpisodicMemory,
    Limits,
    Memory,
    ModelSettings,
    NodeMemory,
    ObservationalMemory,
    Policy,
    RedactPII,
    RememberDecisions,
    RollingSummary,
    SemanticRecall,
    TokenBuffer,
    WorkingMemory,
    tool,
    tool_from_schema,
    web_search,
)

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
agent: Any = Agent
web: Any = web_search
shop: Any = Agent("shop")


@tool
def refund(n: int) -> int:
    """Refund."""
    return n


def look(n: int) -> int:
    """Look."""
    return n


def refused(declare: Callable[[], Any]) -> str:
    """Return the message of the definition that cannot be."""
    with pytest.raises(DefinitionError) as error:
        declare()
    return str(error.value)


def made(kind: Any, **options: Any) -> Callable[[], Any]:
    return lambda: kind(**options)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (made(agent, nmae="shop"), "Agent: no option 'nmae': did you mean 'name'?"),
        (
            lambda: agent("shop", modle="x"),
            "agent 'shop': no option 'modle': did you mean 'model'?",
        ),
        (
            made(agent, name="shop", handoff=[]),
            "agent 'shop': no option 'handoff': did you mean 'handoffs'?",
        ),
        (
            lambda: agent("shop", "gpt", handoff=[]),
            "agent 'shop': no option 'handoff': did you mean 'handoffs'?",
        ),
        (
            lambda: web("news", domains=[]),
            "web_search: no option 'domains': did you mean 'allowed_domains'?",
        ),
        (
            lambda: shop.as_tool("Sells.", memroy=True),
            "as_tool of agent 'shop': no option 'memroy': did you mean 'memory'?",
        ),
        (
            lambda: tool(timout=3)(look),  # type: ignore[call-overload]
            "tool 'look': no option 'timout': did you mean 'timeout'?",
        ),
        (
            lambda: tool(nmae="x")(look),  # type: ignore[call-overload]
            "tool 'look': no option 'nmae': did you mean 'name'?",
        ),
        (
            lambda: tool_from_schema("look", "Look.", SCHEMA, look, timout=3),
            "tool 'look': no option 'timout': did you mean 'timeout'?",
        ),
        (
            made(Memory, lastmessages=3),
            "Memory: no option 'lastmessages': did you mean 'last_messages'?",
        ),
        (
            made(TokenBuffer, max_token=3),
            "TokenBuffer: no option 'max_token': did you mean 'max_tokens'?",
        ),
        (
            made(ObservationalMemory, bufer=0.1),
            "ObservationalMemory: no option 'bufer': did you mean 'buffer'?",
        ),
        (
            made(RollingSummary, tial=2),
            "RollingSummary: no option 'tial': did you mean 'tail'?",
        ),
        (
            made(SemanticRecall, topk=2),
            "SemanticRecall: no option 'topk': did you mean 'top_k'?",
        ),
        (
            made(EpisodicMemory, half_life=2),
            "EpisodicMemory: no option 'half_life': did you mean 'half_life_days'?",
        ),
        (
            made(WorkingMemory, shema=None),
            "WorkingMemory: no option 'shema': did you mean 'schema'?",
        ),
        (made(NodeMemory, nodeid="a"), "NodeMemory: no option 'nodeid': did you mean 'node_id'?"),
        (
            made(ModelSettings, temprature=1),
            "ModelSettings: no option 'temprature': did you mean 'temperature'?",
        ),
        (made(Limits, token=3), "Limits: no option 'token': did you mean 'tokens'?"),
        (
            lambda: Limits.from_args({"cost_usd": 1, "tokns": 3}),
            "Limits: no limit 'tokns': did you mean 'tokens'?",
        ),
        (
            made(Approval, by=["a"], qourum=2),
            "Approval: no option 'qourum': did you mean 'quorum'?",
        ),
        (
            made(web_search, alowed_domains=[]),
            "web_search: no option 'alowed_domains': did you mean 'allowed_domains'?",
        ),
        (made(RedactPII, kidns=()), "RedactPII: no option 'kidns': did you mean 'kinds'?"),
        (made(Policy, rule={}), "Policy: no option 'rule': did you mean 'rules'?"),
        (
            made(RememberDecisions, whn=None),
            "RememberDecisions: no option 'whn': did you mean 'when'?",
        ),
    ],
)
def test_mistyped_option_is_named_with_its_owner_and_its_neighbour(
    declare: Callable[[], Any], message: str
) -> None:
    assert refused(declare) == message


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: agent(
                "shop", tools=[refund], model_settings=ModelSettings(tool_choice="refnud")
            ),
            "agent 'shop': tool_choice: no tool 'refnud': did you mean 'refund'?",
        ),
        (
            lambda: agent("shop", model_settings=ModelSettings(tool_choice="requird")),
            "agent 'shop': tool_choice: no tool 'requird': did you mean 'required'?",
        ),
        (
            lambda: agent("shop", overridable=["modle"]),
            "agent 'shop': overridable cannot be 'modle': did you mean 'model'?",
        ),
        (
            lambda: agent("shop", api="respones"),
            "agent 'shop': api cannot be 'respones': did you mean 'responses'?",
        ),
        (
            lambda: shop.on("finsih", print),
            "agent 'shop': the event cannot be 'finsih': did you mean 'finish'?",
        ),
        (
            lambda: RedactPII(kinds=("Email",)),
            "RedactPII: a kind cannot be 'Email': did you mean 'EMAIL'?",
        ),
        (
            lambda: Memory(role_prefix={"asistant": "A"}),
            "Memory.role_prefix: no role 'asistant': did you mean 'assistant'?",
        ),
        (
            made(SemanticRecall, scope="resorce"),
            "SemanticRecall.scope cannot be 'resorce': did you mean 'resource'?",
        ),
        (
            made(Memory, history="threads"),
            "Memory.history cannot be 'threads': did you mean 'thread'?",
        ),
        (
            made(ModelSettings, reasoning="hgih"),
            "ModelSettings.reasoning cannot be 'hgih': did you mean 'high'?",
        ),
    ],
)
def test_mistyped_value_is_named_with_its_place_and_its_neighbour(
    declare: Callable[[], Any], message: str
) -> None:
    assert refused(declare) == message


def test_all_options_that_are_unknown_are_named() -> None:
    message = refused(made(Limits, token=3, tool_call=1))
    assert message == (
        "Limits: no option 'token': did you mean 'tokens'?; "
        "no option 'tool_call': did you mean 'tool_calls'?"
    )


def test_every_class_of_options_refuses_an_unknown_one() -> None:
    # A class that authors make with options, and that is new here, has to refuse them by name as well.
    homes = (
        "agent",
        "limits",
        "memory",
        "tools.approval",
        "hooks.guards",
        "hooks.privacy",
        "hooks.ready",
    )
    declared = {f"declare.{home}" for home in homes}
    names = {name for name, home in layover._MODULE_OF.items() if home in declared}
    for name in names - {"MarkUntrusted"}:  # which has no options
        kind = getattr(layover, name, None)
        if inspect.isclass(kind):
            assert refused(made(kind, zzz=1)).startswith(f"{name}: no option 'zzz'"), name


def test_a_hook_whose_phase_is_mistyped_is_told_the_nearest() -> None:
    class Guard:
        def befor_tool(self, ctx: Any, call: Any) -> None: ...

    message = refused(lambda: agent("shop", hooks=[Guard()]))
    assert "agent 'shop': a hook must be an object with one of before_model, " in message
    assert message.endswith("Guard has 'befor_tool': did you mean 'before_tool'?")


def test_mistyped_name_of_the_package_is_told_the_nearest_once() -> None:
    with pytest.raises(AttributeError) as error:
        _ = layover.Agnet
    assert str(error.value) == "module 'layover' has no attribute 'Agnet': did you mean 'Agent'?"
    # Python's own suggestion would follow where the error is shown.
    assert shown("import layover; layover.Agnet").lower().count("did you mean") == 1


def test_probes_for_names_that_every_module_may_have_stay_attribute_errors() -> None:
    assert not hasattr(layover, "__wrapped__")
    with pytest.raises(AttributeError, match=r"no attribute '__paht__'$"):
        _ = layover.__paht__


def shown(code: str) -> str:
    """Return the last line of what Python shows of the code's error."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return run.stderr.strip().splitlines()[-1]


def test_options_that_are_known_work_as_before() -> None:
    memory = Memory(last_messages=3, token_buffer=None)
    assert replace(memory, last_messages=4) == Memory(last_messages=4)
    assert "last_messages" in inspect.signature(Memory).parameters
    assert "tool_concurrency" in inspect.signature(Agent).parameters
    with pytest.raises(
        TypeError, match=re.escape("missing 1 required positional argument: 'name'")
    ):
        agent()
