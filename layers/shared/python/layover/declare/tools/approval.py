"""People who may let a call run: `@tool(needs_approval=Approval(by=["finance"]))`."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from layover.declare.blocking import call_author
from layover.declare.context import ToolContext
from layover.declare.option_names import with_named_options
from layover.declare.schemas import checks
from layover.declare.tools.signature import ToolArgs
from layover.errors import DefinitionError
from layover.values.decision import MAX_WAIT, ApprovalRule, WhenEdited

MAX_GROUPS = 20
MAX_QUORUM = 20
MIN_TIMER = timedelta(minutes=1)
"""The sweeper, which watches the time, looks once a minute."""
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

AfterDenial = Literal["ask", "refuse"]
"""See `Approval`."""
Predicate = Callable[[dict[str, Any], ToolContext], bool | Awaitable[bool]]


@with_named_options
@dataclass(frozen=True)
class Approval:
    '''A rule of who may decide a call: `@tool(needs_approval=Approval(by=["finance"]))`.

    A caller that answers the call's task token, or runs the agent in its own process, decides without
    others.

    Args:
        by: 1 to 20 groups (of the token's claim `cognito:groups`, or `LAYOVER_GROUPS_CLAIM`): a member of
            any of them may decide.
        requester: True: the run's owner may decide, too, if they are in `by`.
        quorum: The number of people who have to approve the same arguments, 1 to 20; one denial settles
            the call.
        reason_required: True: a decision without a reason is refused.
        after_denial: What becomes of further calls of the tool in a run in which a person has denied one.
            `ask` (default): one with other arguments is asked for, and shows the denials. `refuse`: no call
            is asked for in the rest of the run. A call that equals a denied one is never asked for.
        remind_after: From a minute to a year: people are reminded of a call that waits after 1, 2, 4, 8 ...
            times of it. None: they are not.
        escalate_after: From a minute to a year: members of `escalate_to` may decide, too, once a call has
            waited for so long. It needs `escalate_to`.
        escalate_to: 1 to 20 groups, one of them not in `by`.
        when_edited: What becomes of a call that waits once its user edits the message that led to it, or
            leaves it for another branch. `withdraw` (default): nobody is asked any more. `keep`: it waits
            on, and its request says so (`taken_back_at`).
        when: A predicate of the validated arguments (a dict) and the context, plain or async: False if the
            call need not wait; with any other answer, it waits. None: each call waits.

    Raises:
        DefinitionError: If the rule cannot be satisfied.

    Example:
        ```python
        import asyncio

        from layover import Agent, Approval, tool
        from layover.testing import ScriptedModel, call, say

        above_100 = Approval(by=["finance"], when=lambda args, ctx: args["euros"] > 100)


        @tool(needs_approval=above_100)
        def refund(euros: int) -> str:
            """Pay money back."""
            return f"paid {euros} euros back"


        shop = Agent("shop", tools=[refund])


        async def main() -> None:
            script = [call("refund", euros=40), say("Done."), call("refund", euros=400)]
            with shop.override(model=ScriptedModel(script)):
                small = await shop.generate("40 euros back, please.")
                large = await shop.generate("400 euros back, please.")
            assert small.status == "success"
            assert large.status == "suspended"
            assert large.pending[0].approval.by == ("finance",)


        asyncio.run(main())
        ```
    '''

    by: Sequence[str]
    requester: bool = False
    quorum: int = 1
    reason_required: bool = False
    when: Predicate | None = None
    after_denial: AfterDenial = "ask"
    remind_after: timedelta | None = None
    escalate_after: timedelta | None = None
    escalate_to: Sequence[str] | None = None
    when_edited: WhenEdited = "withdraw"

    def __post_init__(self) -> None:
        groups = _groups("Approval: by", self.by)
        checks.flag("Approval: requester", self.requester)
        checks.flag("Approval: reason_required", self.reason_required)
        checks.one_of("Approval: after_denial", self.after_denial, get_args(AfterDenial))
        checks.one_of("Approval: when_edited", self.when_edited, get_args(WhenEdited))
        checks.whole("Approval: quorum", self.quorum)
        if self.quorum > MAX_QUORUM:
            raise checks.fail("Approval: quorum", f"at most {MAX_QUORUM} persons", self.quorum)
        _seconds("Approval: remind_after", self.remind_after)
        _seconds("Approval: escalate_after", self.escalate_after)
        self._check_escalation(groups)

    def _check_escalation(self, groups: tuple[str, ...]) -> None:
        if self.escalate_to is None and self.escalate_after is None:
            return
        if self.escalate_to is None or self.escalate_after is None:
            raise DefinitionError("Approval: escalate_after and escalate_to need each other")
        others = _groups("Approval: escalate_to", self.escalate_to)
        if set(others) <= set(groups):
            expected = "a list with a group that is not in by"
            raise checks.fail("Approval: escalate_to", expected, self.escalate_to)

    @property
    def rule(self) -> ApprovalRule:
        """The rule as it is journaled with each call that waits."""
        return ApprovalRule(
            by=tuple(dict.fromkeys(self.by)),
            requester=self.requester,
            quorum=self.quorum,
            reason_required=self.reason_required,
            remind_after_s=_seconds("Approval: remind_after", self.remind_after),
            escalate_after_s=_seconds("Approval: escalate_after", self.escalate_after),
            escalate_to=tuple(dict.fromkeys(self.escalate_to or ())),
            when_edited=self.when_edited,
        )

    async def applies(self, args: ToolArgs, ctx: ToolContext) -> bool:
        """Return whether this call waits. Raises what the predicate raises."""
        return self.when is None or await lets_wait(self.when, args, ctx)


async def lets_wait(predicate: Predicate, args: ToolArgs, ctx: ToolContext) -> bool:
    """Return whether an author's predicate lets a call wait. Only False lets it run: one that ends without an
    answer has not said that nobody need be asked. Raises what the predicate raises."""
    return await call_author(predicate, args.for_predicate(), ctx) is not False


def _groups(what: str, value: Sequence[str]) -> tuple[str, ...]:
    """Return the names of groups. Raises DefinitionError."""
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    groups = tuple(value) if listed else ()
    if not 0 < len(groups) <= MAX_GROUPS:
        raise checks.fail(what, f"a list of 1 to {MAX_GROUPS} groups", value)
    for group in groups:
        if not isinstance(group, str) or not GROUP.fullmatch(group):
            expected = "names of groups without blanks, commas and brackets"
            raise checks.fail(what, expected, group)
    return groups


def _seconds(what: str, value: timedelta | None) -> int | None:
    """Return a duration in whole seconds. Raises DefinitionError."""
    duration = checks.duration(what, value, most=MAX_WAIT)
    if duration is not None and duration < MIN_TIMER:
        raise checks.fail(what, "at least a minute", value)
    return None if duration is None else int(duration.total_seconds())
