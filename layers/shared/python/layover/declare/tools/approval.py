"""People who may let a call run: `@tool(needs_approval=Approval(by=["finance"]))`."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from layover.declare.blocking import call_author
from layover.declare.context import ToolContext
from layover.declare.schemas import checks
from layover.declare.tools.signature import ToolArgs
from layover.values.decision import ApprovalRule

MAX_GROUPS = 20
MAX_QUORUM = 20
GROUP = re.compile(r"[^\s,;\[\]\"]{1,128}")
"""Names of groups without blanks: a gateway passes a token's groups on as one text, separated by blanks."""

APPROVAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "args": {"type": ["object", "null"]},
        "reason": {"type": ["string", "null"]},
    },
    "required": ["approved"],
    "additionalProperties": False,
}
"""The JSON that resumes a call waiting for an approval (docs/behaviour.md#approvals)."""

Predicate = Callable[[dict[str, Any], ToolContext], bool | Awaitable[bool]]


@dataclass(frozen=True)
class Approval:
    """A rule of who may decide a call.

    - `by`: groups (of the token's claim `cognito:groups`, or `LAYOVER_GROUPS_CLAIM`): a member of any of
      them may decide.
    - `requester`: True if the run's owner may decide, too, if they are in `by`.
    - `quorum`: the number of persons who have to approve the same arguments; one denial settles the call.
    - `reason_required`: a decision without a reason is refused.
    - `when`: a predicate of the validated arguments (a dict) and the context; without it, each call waits.

    A caller that answers the call's task token, or runs the agent in its own process, decides alone.
    Raises DefinitionError for a rule that cannot be satisfied."""

    by: Sequence[str]
    requester: bool = False
    quorum: int = 1
    reason_required: bool = False
    when: Predicate | None = None

    def __post_init__(self) -> None:
        groups = () if isinstance(self.by, str) else tuple(self.by)
        if not 0 < len(groups) <= MAX_GROUPS:
            raise checks.fail("Approval: by", f"a list of 1 to {MAX_GROUPS} groups", self.by)
        for group in groups:
            if not isinstance(group, str) or not GROUP.fullmatch(group):
                expected = "names of groups without blanks, commas and brackets"
                raise checks.fail("Approval: by", expected, group)
        checks.flag("Approval: requester", self.requester)
        checks.flag("Approval: reason_required", self.reason_required)
        checks.whole("Approval: quorum", self.quorum)
        if self.quorum > MAX_QUORUM:
            raise checks.fail("Approval: quorum", f"at most {MAX_QUORUM} persons", self.quorum)

    @property
    def rule(self) -> ApprovalRule:
        """The rule as it is journaled with each call that waits."""
        return ApprovalRule(
            by=tuple(dict.fromkeys(self.by)),
            requester=self.requester,
            quorum=self.quorum,
            reason_required=self.reason_required,
        )

    async def applies(self, args: ToolArgs, ctx: ToolContext) -> bool:
        """Return whether this call waits. Raises what the predicate raises."""
        return self.when is None or bool(await call_author(self.when, args.for_predicate(), ctx))
