"""`args_schema` of a waiting call: wherever it is read, by the tool as it is deployed."""

from typing import Any

import pytest

from integration.api.kit import Api
from layover import Agent, tool
from layover.values.decision import ApprovalRule
from layover.values.runs.run import SuspensionKind
from support.worlds.services import BOB, SUPPORT

GROUPS = "cognito:groups"
FINANCE = {"sub": BOB, "claims": {GROUPS: "[finance]"}}
REFUND: dict[str, Any] = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order_id", "amount"],
    "additionalProperties": False,
}


@tool(needs_approval=True)
def refund(order_id: str, amount: int = 5) -> str:
    """A later version of the tool."""
    return f"{order_id}: {amount}"


def schemas(api: Api, run_id: str, approver: bool) -> list[Any]:
    """Return the schema of the only waiting call at each place that shows it."""
    lists = api.get("/approvals?as=approver", **FINANCE) if approver else api.get("/approvals")
    views = [*api.get(f"/runs/{run_id}").json["pending"], *lists.json["items"]]
    return [view["args_schema"] for view in views]


@pytest.mark.parametrize("approver", [False, True], ids=["owner", "approver"])
def test_schema_of_the_arguments_is_shown_wherever_a_waiting_call_is(
    api: Api, approver: bool
) -> None:
    rule: dict[str, Any] = {"approval": ApprovalRule(by=("finance",), quorum=2)} if approver else {}
    run, call = api.do(api.world.suspended(**rule))
    api.do(api.world.token(call))
    shown = schemas(api, run.id, approver)
    assert shown == [REFUND, REFUND]
    listed = api.get(f"/threads/{run.thread_id}/runs").json["items"]
    assert [each["pending"][0]["args_schema"] for each in listed] == [REFUND]


def test_schema_is_that_of_the_tool_as_it_is_deployed_now(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    api.world.agents["support"] = Agent("support", tools=[refund])
    shown = schemas(api, run.id, False)
    assert [each["properties"]["amount"] for each in shown] == [
        {"type": "integer", "default": 5}
    ] * 2
    assert [each["required"] for each in shown] == [["order_id"]] * 2


@pytest.mark.parametrize("gone", ["tool", "agent"])
def test_call_whose_tool_is_gone_is_shown_without_a_schema(api: Api, gone: str) -> None:
    run, _ = api.do(api.world.suspended())
    if gone == "tool":
        api.world.agents["support"] = Agent("support")
    else:
        del api.world.agents["support"]
    assert schemas(api, run.id, False) == [None, None]


class Broken(dict[str, Agent]):
    """Agents whose module fails once it is imported."""

    def get(self, key: str, default: Any = None) -> Any:
        raise RuntimeError("no such module")


def test_waiting_call_is_read_where_the_agents_cannot_be_imported(api: Api) -> None:
    run, _ = api.do(api.world.suspended())
    api.world.agents = Broken(support=SUPPORT)
    assert schemas(api, run.id, False) == [None, None]


def test_call_that_waits_for_input_has_no_schema_of_arguments(api: Api) -> None:
    run, _ = api.do(api.world.suspended(kind=SuspensionKind.INPUT))
    assert schemas(api, run.id, False) == [None, None]
