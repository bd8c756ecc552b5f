"""A run becomes a case (`layover eval add`), and the file that it goes into stays as people wrote it."""

from pathlib import Path
from typing import Any

import pytest

from layover.desk.evals.keep import draft_case
from layover.desk.evals.read import CasesInvalid, parse_cases
from layover.desk.evals.write import with_case

YAML, JSON = Path("shop.yaml"), Path("shop.json")
LOOK_UP = {"id": "A1", "shipped": "2026-07-01"}
CASE: dict[str, Any] = {"name": "a refund", "input": "5 back", "expect": {"tools": []}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str, tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool_call_id": id, "tool_name": tool, "args": args}


def result(id: str, tool: str, value: Any, **more: Any) -> dict[str, Any]:
    same = {"type": "tool_result", "tool_call_id": id, "tool_name": tool, "result": value}
    return {**same, "is_error": False, **more}


def message(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"msg_{role}", "role": role, "content": list(content)}


def decided(id: str, decision: str, **more: Any) -> list[dict[str, Any]]:
    """A call that waited, as the log has it."""
    waits = {"tool_call_id": id, "tool_name": "refund", "args": {"amount": 5, "to": "card"}}
    return [
        {"type": "tool-call-suspended", "kind": "approval", "agent_path": ["shop"], **waits},
        {"type": "tool-call-decided", "tool_call_id": id, "decision": decision, **more},
    ]


def draft(*messages: dict[str, Any], **given: Any) -> Any:
    said = given.pop("said", [text("5 back for A1, please")])
    run = {"input": message("user", *said), "messages": messages, **given.pop("run", {})}
    defaults: dict[str, Any] = {"metadata": {}, "before": [], "events": [], "tool_names": None}
    return draft_case(run, **{**defaults, **given})


def test_a_call_that_did_not_run_has_no_stub() -> None:
    asks = message("assistant", call("c1", "refund", amount=5), call("c2", "refund", amount=6))
    note = {"decision": "denied", "decided_by": "ann"}
    told = [
        message("tool", result("c1", "refund", "denied", is_error=True, decision=note)),
        message("tool", result("c2", "refund", "late", decision={"decision": "expired"})),
    ]
    events = [*decided("c1", "denied"), *decided("c2", "expired")]
    made = draft(asks, *told, events=events)
    assert "stubs" not in made.case
    assert made.case["expect"]["approvals"] == [
        {"tool": "refund", "decide": "deny", "args": {"amount": 5, "to": "card"}}
    ]
    assert made.remarks == ["a call of refund was expired: no case can do that"]


def test_a_question_that_was_declined_is_kept_and_one_that_was_answered_is_not() -> None:
    declined, answered = decided("c1", "denied"), decided("c2", "resumed")
    approved = decided("c3", "approved")
    then = decided("c3", "denied")
    for events in (declined, answered, then):
        events[0]["kind"] = "input"
    made = draft(events=[*declined, *answered, *approved, *then])
    args = {"args": {"amount": 5, "to": "card"}}
    assert made.case["expect"]["approvals"] == [
        {"tool": "refund", "decide": decide, **args} for decide in ("deny", "approve", "deny")
    ]
    assert made.remarks == []


def test_what_sub_agents_asked_for_is_not_expected() -> None:
    below = [{**event, "agent_path": ["shop", "desk"]} for event in decided("c1", "approved")]
    assert "approvals" not in draft(events=below).case["expect"]


def test_what_a_case_cannot_have_is_said() -> None:
    cut = {"_truncated": True, "head": "a", "tail": "z"}
    made = draft(
        message("assistant", call("c1", "refund", amount=5)),
        message("tool", result("c1", "refund", cut)),
        said=[text("pay this"), {"type": "file", "file_id": "file_1", "name": "bill.pdf"}],
        events=decided("c1", "approved", args={"amount": 4}),
        run={"truncated": True},
    )
    assert made.case["input"] == [text("pay this"), text("[file: bill.pdf]")]
    assert [remark.split(":")[0] for remark in made.remarks] == [
        "the file bill.pdf is not in the case",
        "a result of refund is cut",
        "refund was approved with other arguments",
        "the run is too long for one answer of the API",
    ]


def test_a_tool_that_the_agent_does_not_have_gets_no_stub() -> None:
    asks = message("assistant", call("c1", "plan", goal="x"), call("c2", "look_up", key="A1"))
    told = (
        message("tool", result("c1", "plan", "ok")),
        message("tool", result("c2", "look_up", LOOK_UP)),
    )
    made = draft(asks, *told, tool_names={"look_up"})
    assert made.case["stubs"] == [{"tool": "look_up", "result": LOOK_UP}]
    assert [each["name"] for each in made.case["expect"]["tools"]] == ["plan", "look_up"]


def test_calls_of_one_tool_are_told_apart_by_their_arguments() -> None:
    asks = message("assistant", *(call(f"c{n}", "look_up", key=n) for n in (1, 2)))
    told = [message("tool", result(f"c{n}", "look_up", f"order {n}")) for n in (2, 1)]
    assert draft(asks, *told).case["stubs"] == [
        {"tool": "look_up", "args": {"key": n}, "result": f"order {n}"} for n in (1, 2)
    ]


def test_equal_calls_are_answered_in_their_order() -> None:
    asks = [message("assistant", call(f"c{n}", "status")) for n in (1, 2)]
    told = [
        message("tool", result("c1", "status", "on its way")),
        message("tool", result("c2", "status", "it broke", is_error=True)),
    ]
    assert draft(asks[0], told[0], asks[1], told[1]).case["stubs"] == [
        {"tool": "status", "result": "on its way"},
        {"tool": "status", "error": "it broke"},
    ]


def test_the_history_is_what_was_said_before_without_thoughts() -> None:
    before = [
        message("user", text("hi")),
        message("assistant", {"type": "reasoning", "text": "hm"}, text("Hello.")),
        message("assistant", {"type": "reasoning", "text": "hm"}),
        message("custom", {"type": "data", "name": "cart", "data": {}}),
    ]
    made = draft(before=before, metadata={"shop": 7})
    assert made.case["history"] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
    ]
    assert made.case["metadata"] == {"shop": 7}


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ([text("  5 back\n\nfor A1 ")], "5 back for A1"),
        ([text("ab " * 40)], ("ab " * 20).rstrip() + "…"),
        ([{"type": "data", "name": "form", "data": {"a": 1}}], "a run without words"),
    ],
)
def test_a_case_is_named_after_its_first_words(said: list[dict[str, Any]], name: str) -> None:
    assert draft(said=said).case["name"] == name


# The file


def cases_in(text: str, file: Path) -> list[str]:
    return [each.name for each in parse_cases(text, file).cases]


@pytest.mark.parametrize(
    "odd",
    [
        "agent: shop\ncases: [{name: a, input: hi, expect: {}}]\n",
        "cases:\n  - {name: a, input: hi, expect: {}}\nagent: shop\n",
    ],
)
def test_a_file_to_which_nothing_can_be_added_is_refused(odd: str) -> None:
    with pytest.raises(CasesInvalid, match="move it to the end"):
        with_case(odd, YAML, "shop", CASE)


def test_a_file_of_another_agent_is_refused() -> None:
    with pytest.raises(CasesInvalid, match="has cases of desk, and the run is of shop"):
        with_case("agent: desk\ncases:\n- {name: a, input: hi, expect: {}}\n", YAML, "shop", CASE)


def test_a_file_that_is_wrong_is_refused_with_its_line() -> None:
    with pytest.raises(CasesInvalid, match=r"shop\.yaml:1: "):
        with_case("cases: []\n", YAML, "shop", CASE)


@pytest.mark.parametrize("file", [YAML, JSON])
def test_a_new_file_names_its_agent(file: Path) -> None:
    made = with_case("", file, "shop", CASE)
    assert parse_cases(made, file).agent == "shop"
    assert cases_in(made, file) == ["a refund"]


@pytest.mark.parametrize("indent", ["", "  ", "    "])
def test_what_people_wrote_stays_and_the_case_is_behind_it(indent: str) -> None:
    mine = f"# My cases\nagent: shop\ncases:\n{indent}- name: a  # first\n{indent}  input: hi\n"
    mine += f"{indent}  expect: {{}}\n\n# The end"
    made = with_case(mine, YAML, "shop", CASE, "Of run_1\nwhich said: done")
    assert made.startswith(mine)
    assert f"{indent}# Of run_1\n{indent}# which said: done\n{indent}- name: a refund\n" in made
    assert cases_in(made, YAML) == ["a", "a refund"]


@pytest.mark.parametrize("file", [YAML, JSON])
def test_a_name_that_is_taken_gets_a_number(file: Path) -> None:
    made = ""
    for _ in range(3):
        made = with_case(made, file, "shop", CASE)
    assert cases_in(made, file) == ["a refund", "a refund (2)", "a refund (3)"]


@pytest.mark.parametrize("file", [YAML, JSON])
@pytest.mark.parametrize(
    "value",
    [
        "2026-07-01",
        "yes",
        "null",
        "1e5",
        "# no comment",
        "two\nlines: and a colon\n",
        "  blanks at both ends  ",
        "ends with a blank \nin a line",
        "quotes \" and ' and \\",
        "x" * 300,
        "words " * 60,
        "日本語 🌞 \u2028 end",
        {"deep": [{"list": [1, 2.5, None, True]}]},
        12345678901234567890,
        [],
    ],
)
def test_every_result_is_read_as_it_was(file: Path, value: Any) -> None:
    stubs = [{"tool": "look_up", "args": {"key": value}, "result": value}]
    made = with_case("", file, "shop", CASE)
    made = with_case(made, file, "shop", {**CASE, "input": "hi", "stubs": stubs}, "a\tnote\x1b[2J")
    [stub] = parse_cases(made, file).cases[1].stubs
    assert (stub.result, stub.args) == (value, {"key": value})
    assert "\x1b" not in made
