"""The groups that agents' code names: read without running it."""

from pathlib import Path

import pytest

from layover.declare.tools import approval
from layover.desk.cdk.groups import Groups, groups_of
from layover.desk.cdk.settings import GROUP

NO_RULE = {
    "no Python": "Approval(by=['finance'",
    "another call": "rule(by=['finance'])",
    "other arguments": "Approval(requester=True, after_denial='ask')",
    "names that no rule takes": "Approval(by=['two words', '', 'a,b'])",
    "numbers": "Approval(by=[1, None])",
    "no escalation": "Approval(by=[], escalate_to=None)",
    "a comment": "# Approval(by=['finance'])",
    "a text": "TEXT = \"Approval(by=['finance'])\"",
    "null bytes": "Approval(by=['finance'])\0",
}
COMPUTED = {
    "text": "Approval(by=[f'{team}-leads'])",
    "call": "Approval(by=groups())",
    "name of another package": "from shop import TEAM\nApproval(by=[TEAM])",
    "parameter": "def rule(group): return Approval(by=[group])",
    "sum": "Approval(by=['fin' + 'ance'])",
    "arguments": "Approval(*args)",
    "options": "Approval(**options)",
    "name of itself": "TEAM = TEAM\nApproval(by=TEAM)",
}
CONSTANTS = {
    "text": "FINANCE = 'finance'\nApproval(by=[FINANCE])",
    "list": "APPROVERS: list[str] = ['finance']\nApproval(by=APPROVERS)",
    "frozen": "APPROVERS = frozenset({'finance'})\nApproval(by=APPROVERS)",
    "member": "class Group(StrEnum):\n  FINANCE = 'finance'\nApproval(by=[Group.FINANCE])",
    "value": "class Group(Enum):\n  FINANCE = 'finance'\nApproval(by=[Group.FINANCE.value])",
    "several": "A = 'finance'\nB = [A]\nApproval(by=[*B, A])",
    "later": "def rule(): return Approval(by=[A])\nA = 'finance'",
}


def read(folder: Path, code: str) -> Groups:
    """The groups of one module."""
    (folder / "agents.py").write_text(code)
    return groups_of([folder])


@pytest.mark.parametrize("code", NO_RULE.values(), ids=list(NO_RULE))
def test_what_names_no_group_makes_none(tmp_path: Path, code: str) -> None:
    assert read(tmp_path, code) == Groups()


@pytest.mark.parametrize("code", COMPUTED.values(), ids=list(COMPUTED))
def test_rules_whose_groups_are_computed_are_told_with_their_lines(
    tmp_path: Path, code: str
) -> None:
    groups = read(tmp_path, f"\n{code}")
    line = 1 + code.count("\n") + 1
    assert groups == Groups(unclear=(f"{tmp_path / 'agents.py'}:{line}",))


@pytest.mark.parametrize("code", CONSTANTS.values(), ids=list(CONSTANTS))
def test_constants_are_read(tmp_path: Path, code: str) -> None:
    assert read(tmp_path, code) == Groups(names=("finance",))


def test_constants_of_another_module_are_read(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text("FINANCE = 'finance'")
    rule = "from .names import FINANCE\nApproval(by=[FINANCE], escalate_to=[names.FINANCE])"
    assert read(tmp_path, rule) == Groups(names=("finance",))


def test_name_that_two_modules_define_makes_both_groups(tmp_path: Path) -> None:
    """One that nobody needs has no members, and one that lacks leaves calls without an approver."""
    (tmp_path / "one.py").write_text("TEAM = 'ops'")
    assert read(tmp_path, "TEAM = 'finance'\nApproval(by=[TEAM])").names == ("finance", "ops")


def test_a_rule_that_is_half_computed_names_the_other_half(tmp_path: Path) -> None:
    groups = read(tmp_path, "Approval(by=['finance', team()])")
    assert groups.names == ("finance",)
    assert len(groups.unclear) == 1


def test_a_folder_that_is_not_there_names_no_group(tmp_path: Path) -> None:
    assert groups_of([tmp_path / "missing", tmp_path / "missing.py"]) == Groups()


def test_tests_of_agents_make_no_groups(tmp_path: Path) -> None:
    for name in ("test_agents.py", "conftest.py"):
        (tmp_path / name).write_text("Approval(by=['finance'])")
    assert groups_of([tmp_path]) == Groups()


def test_rules_name_groups_in_every_spelling(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "rules.py").write_text(
        "import layover\n"
        "A = layover.Approval(by=('ops',), escalate_to=['board'])\n"
        "B = Approval(['legal'], requester=True)\n"
        "@tool(needs_approval=Approval(by=['finance', 'ops'], when=lambda a, c: Approval))\n"
        "def pay(): ...\n"
    )
    module = tmp_path / "one.py"
    module.write_text("Approval(by={'ärzte'})")
    groups = groups_of([tmp_path / "deep", module])
    assert groups == Groups(names=("board", "finance", "legal", "ops", "ärzte"))


def test_the_stack_makes_the_names_that_rules_take() -> None:
    # One of the two is anchored and needs no escape of a quote.
    assert f"^{approval.GROUP.pattern}$".replace(r"\"", '"') == GROUP
